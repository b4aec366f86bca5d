"""Try a wheel in an empty environment of each supported Python that is on this machine: `python try_wheel.py WHEEL`.

Installed is the wheel with what it needs, and no extra. Then patterns are found in a file, from the command line and
from Python, and what needs an extra says so. Of what is installed 390 MB are pyarrow, llvmlite and numpy.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cep_pipeline.cli.terminal import say

PYTHONS = ("3.11", "3.12", "3.13")
MOST_MB = 450
UV = Path(sys.executable).with_name("uv")
DETECT = """
import cep_pipeline as cep
schema = cep.StreamSchema.load("streams/cold_rooms.yaml")
with open("patterns/cold_rooms.sase") as file:
    patterns = cep.parse_patterns(file.read(), schema)
events = cep.read(schema, "data/2025-03-04.csv")
assert sum(table.num_rows for table in cep.detect(patterns, events).values()) > 0
"""


def python_named(version: str) -> Path | None:
    """Return an interpreter of a version that runs here: the one in PATH, or one of pyenv."""
    named = shutil.which(f"python{version}")
    for one in (*([Path(named)] if named else []), *Path.home().glob(f".pyenv/versions/{version}.*/bin/python")):
        with contextlib.suppress(OSError):
            if subprocess.run([one, "-c", ""], capture_output=True, check=False).returncode == 0:
                return one
    return None


def try_wheel(wheel: Path, python: Path, folder: Path) -> int:
    """Install a wheel into a new environment in the folder, and use it; returns the size of what is installed in MB."""
    environment = folder / "environment"
    bin_folder = environment / "bin"

    def run(*command: str | Path, where: Path = folder, code: int = 0) -> str:
        done = subprocess.run([*map(str, command)], cwd=where, capture_output=True, text=True, check=False)
        if done.returncode != code:
            sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    run(UV, "venv", "--quiet", "--python", python, environment)
    run(UV, "pip", "install", "--quiet", "--python", bin_folder / "python", wheel)
    cep = bin_folder / "cep"
    run(cep, "init", "demo")
    demo = folder / "demo"
    files = ("--schema", "streams/cold_rooms.yaml", "--patterns", "patterns/cold_rooms.sase")
    run(cep, "check", where=demo)
    run(cep, "detect", *files, "--events", "data/2025-03-04.csv", "--out", "matches.parquet", where=demo)
    run(bin_folder / "python", "-c", DETECT, where=demo)
    said = run(cep, "run", where=demo, code=2)
    if "pip install 'cep-pipeline[" not in said:
        sys.exit(f"`cep run` without extras said: {said}")
    return sum(path.stat().st_size for path in environment.rglob("*") if path.is_file()) // 1_000_000


def main() -> None:
    """Try the wheel that is named on each Python that is here."""
    wheel = Path(sys.argv[1]).resolve()
    for version in PYTHONS:
        python = python_named(version)
        if python is None:
            say(f"Python {version}: not on this machine")
            continue
        with tempfile.TemporaryDirectory() as folder:
            size = try_wheel(wheel, python, Path(folder))
        say(f"Python {version}: {wheel.name} works, {size} MB with all that it needs")
        if size > MOST_MB:
            sys.exit(f"that is more than {MOST_MB} MB")


if __name__ == "__main__":
    main()
