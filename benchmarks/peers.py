"""Peers that run beside us in one benchmark: scalar C++ and DuckDB's bucketed joins.

Both count or enumerate all matches of a workload; the count is compared with ours before any ratio is made.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.joins import DUCKDB_QUERIES
from benchmarks.measure import Measurement
from benchmarks.workloads import MANY_WINDOW_MS, draw_types
from cep_pipeline.errors import CepError

REFERENCE_WORKLOADS = ("W1", "W2", "W3", "W4", "W4b", "W6")
"""What the C++ reference runs."""


def compile_reference(folder: Path) -> Path | None:
    """Compile the scalar C++ reference into the folder; None where the machine has no C++ compiler."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        return None
    binary = folder / "limit"
    with as_file(files("benchmarks") / "limit.cpp") as source:
        done = subprocess.run(
            [compiler, "-O3", "-march=native", "-std=c++17", str(source), "-o", str(binary)],
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        raise CepError(f"{compiler} cannot compile the C++ reference: {done.stderr.strip()[:500]}")
    return binary


def run_reference(binary: Path, columns: Path, workload: str, types: Path) -> Measurement:
    """Run the C++ reference on a column file; `detect_s`, of the processor, leaves out the reading of the file.

    W6's patterns are in the file `types`, as `write_types` writes it.
    """
    command = [str(binary), str(columns), workload.lower(), *([str(types)] if workload == "W6" else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    return Measurement(result["detect_s"], result["matches"])


def write_types(path: Path) -> None:
    """Write W6's patterns as the C++ reference reads them: the window, then a line of types for each."""
    lines = [str(MANY_WINDOW_MS), *(" ".join(map(str, types)) for types in draw_types())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


class DuckDBJoins:
    """Runs the bucketed joins of `joins` over events that lie in a DuckDB table before anything is timed."""

    def __init__(self, threads: int = 1) -> None:
        import duckdb

        self._connection: Any = duckdb.connect()
        self._connection.execute(f"SET threads = {threads}")

    def load(self, events: pa.Table) -> None:
        """Put the events into the table of the queries, in place of earlier ones; times are whole milliseconds."""
        self._connection.register("arrow_events", events)
        texts = [name for name in ("ticker",) if name in events.column_names]
        others = [name for name in ("diff", "report_id", "avg_speed") if name in events.column_names]
        columns = ", ".join(
            ["epoch_ms(timestamp) AS ts", *(f"CAST({name} AS VARCHAR) AS {name}" for name in texts), *others]
        )
        self._connection.execute(f"CREATE OR REPLACE TABLE s AS SELECT {columns} FROM arrow_events")

    def run(self, workload: str) -> Measurement:
        """Count the matches of a workload, in seconds of the processor."""
        start = time.process_time()
        matches = sum(int(self._connection.execute(query).fetchall()[0][0]) for query in DUCKDB_QUERIES[workload])
        return Measurement(time.process_time() - start, matches)


def duckdb_joins(threads: int = 1) -> DuckDBJoins | None:
    """DuckDB, or None where it is not installed."""
    try:
        return DuckDBJoins(threads)
    except ImportError:
        return None
