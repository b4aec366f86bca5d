"""Workloads in Flink CEP: its side of the Java program `flink/FlinkMatches.java`.

Flink is no dependency of the project. Whoever wants it beside us installs the package apache-flink-libraries, which has
all jars, in an environment of its own, and names the folder of the jars in the environment variable CEP_BENCH_FLINK.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.measure import Engine, Measurement, read_events
from benchmarks.stock_stream import whole_numbers
from cep_pipeline.errors import CepError

FOLDER = "CEP_BENCH_FLINK"
"""The environment variable that names the folder of the jars."""
LONGEST = {**dict.fromkeys(("W1", "W2", "W3", "W4", "W4b"), 10_000), "W5": 100_000, "W7": 100_000}
"""Workload -> events of the longest stream over which it is run: it takes in some thousand a second."""
HOW_TO = (
    f"needs a JDK and, in {FOLDER}, the folder of its jars: `uv venv flink && uv pip install --python flink/bin/python "
    f"--no-deps apache-flink-libraries && export {FOLDER}=$(echo $PWD/flink/lib/python3*/site-packages/pyflink/lib)`"
)


def missing() -> str | None:
    """Return the name of what is missing and how to get it, or None."""
    folder = os.environ.get(FOLDER)
    there = folder is not None and any(Path(folder).glob("flink-cep-*.jar")) and _compiler() is not None
    return None if there else HOW_TO


def version() -> str | None:
    """The version of the jars."""
    jars = [] if missing() else list(Path(os.environ[FOLDER]).glob("flink-cep-*.jar"))
    return jars[0].stem.removeprefix("flink-cep-") if jars else None


def start(workload: str, events: Path) -> Engine:
    """Start the program with the events in its memory, before anything is timed.

    A run is measured in seconds of the processor of the JVM, with all its threads, from the first event on: the start
    of a job is left out.
    """
    compiler = _compiler()
    assert compiler is not None
    jars = f"{os.environ[FOLDER]}/*"
    classes, words = events.parent / "flink", events.with_suffix(".words")
    if not classes.exists():
        compile_program(str(compiler), "flink/FlinkMatches.java", "-cp", jars, "-d", str(classes))
    if not words.exists():
        _write_words(read_events(events), words)
    java = [str(compiler.with_name("java")), "-Xmx4g", "-cp", f"{classes}:{jars}"]
    command = [*java, "FlinkMatches", workload, str(words)]
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    program = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere, text=True)

    def run() -> Measurement:
        assert program.stdin is not None and program.stdout is not None
        print("run", file=program.stdin, flush=True)
        for line in program.stdout:
            if line.startswith("{"):  # other lines are of Flink's log
                answer = json.loads(line)
                return Measurement(answer["seconds"], answer["matches"])
        raise CepError(f"Flink CEP ends over {workload} with exit code {program.wait()}")

    return run


def _compiler() -> Path | None:
    """The compiler of Java: that of JAVA_HOME, or else of PATH."""
    home = os.environ.get("JAVA_HOME")
    found = (home and shutil.which("javac", path=f"{home}/bin")) or shutil.which("javac")
    return Path(found) if found else None


def compile_program(compiler: str, source: str, *options: str) -> None:
    """Compile a program of this folder, or raise a CepError that says why it cannot be done."""
    with as_file(files("benchmarks") / source) as path:
        done = subprocess.run([compiler, *options, str(path)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CepError(f"{compiler} cannot compile {source}: {done.stderr.strip()[:500]}")


def _write_words(events: pa.Table, path: Path) -> None:
    """Write the events as the program reads them: their number, then times, types or keys, values and volumes."""
    times = events["timestamp"].cast(pa.int64()).to_numpy() // 1000
    if "ticker" in events.column_names:
        _, tickers, _, differences, volumes = whole_numbers(events)
        columns = [times, tickers, differences, volumes]
    elif "symbol" in events.column_names:
        columns = [times, *(events[name].to_numpy() for name in ("symbol", "price", "volume"))]
    else:
        columns = [times, events["report_id"].to_numpy(), events["avg_speed"].to_numpy(), np.zeros(len(times))]
    with path.open("wb") as file:
        for column in (np.array([len(times)]), *columns):
            file.write(np.ascontiguousarray(column, dtype="<i8").tobytes())
