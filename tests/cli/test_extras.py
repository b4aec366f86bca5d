"""Without extras: patterns are found in files, and what needs a library of an extra names the extra."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cep_pipeline.cli import EXTRAS
from tests.cli.command_line import CHECKOUT

WITHOUT = f"""
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted((*EXTRAS, "numba", "duckdb", "polars"))}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Without())
"""
DETECT = """
import cep_pipeline as cep
schema = cep.StreamSchema.load("streams/cold_rooms.yaml")
patterns = cep.parse_patterns(open("patterns/cold_rooms.sase").read(), schema)
found = cep.detect(patterns, cep.read(schema, "data/2025-03-04.csv"))
assert sum(table.num_rows for table in found.values()) > 0
"""
FILES = ("--schema", "streams/cold_rooms.yaml", "--patterns", "patterns/cold_rooms.sase")
EVENTS = ("--events", "data/2025-03-04.csv")


def without_extras(program: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT + program, *arguments]
    environment = {"PYTHONPATH": str(CHECKOUT), "PATH": "/usr/bin:/bin", "HOME": str(folder), "COLUMNS": "200"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=180
    )


def cep(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return without_extras("from cep_pipeline.cli import main; main()", *arguments, folder=folder)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("without")
    done = cep("init", "demo", folder=folder)
    assert done.returncode == 0, done.stderr
    return folder / "demo"


@pytest.mark.long
@pytest.mark.parametrize(
    "command",
    [
        ("check",),
        ("detect", *FILES, *EVENTS, "--out", "matches.parquet"),
        ("why-not", *FILES, *EVENTS),
    ],
    ids=lambda command: command[0],
)
def test_files_need_no_extra(demo: Path, command: tuple[str, ...]) -> None:
    done = cep(*command, folder=demo)
    assert done.returncode == 0, done.stderr


def test_python_needs_no_extra(demo: Path) -> None:
    done = without_extras(DETECT, folder=demo)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["run", "status"])
def test_what_needs_an_extra_names_it(demo: Path, command: str) -> None:
    done = cep(command, folder=demo)
    assert done.returncode == 2
    assert "which is not installed: pip install 'cep-pipeline[" in done.stderr


def test_each_library_is_of_the_extra_that_is_named() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    for library, extra in EXTRAS.items():
        packages = "".join(project["optional-dependencies"][extra]).replace("-", "_")
        assert library in packages or (library, extra) == ("sqlalchemy", "warehouse")
        assert not any(one.replace("-", "_").startswith(library) for one in project["dependencies"])
