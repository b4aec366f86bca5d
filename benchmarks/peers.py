"""Peers that run beside us in one benchmark, each in a process of its own: scalar C++, SQL engines and Flink CEP.

All count, or enumerate, all matches of a workload; the count is compared with ours before any ratio is made.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import flink_patterns
from benchmarks.joins import DUCKDB_QUERIES, LONGEST_MANY
from benchmarks.measure import Engine, Measurement, read_events
from benchmarks.stock_stream import MAX_EVENTS, whole_numbers
from benchmarks.workloads import MANY_WINDOW_MS, STOCK, WORKLOADS, draw_types
from cep_pipeline.errors import CepError


@dataclass(frozen=True)
class Peer:
    """An engine that runs beside us where it is installed.

    - `longest`: workload -> events of the longest stream over which it is run; it runs no other workloads.
    - `start`: prepares a workload over the events of a file, and returns what finds the matches; called in a process of
      its own. It may put files beside that of the events.
    - `missing`: tells what is missing and how to have it, in words behind the engine's name; None if nothing is.
    """

    name: str
    longest: Mapping[str, int]
    start: Callable[[str, Path], Engine]
    missing: Callable[[], str | None]


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


def write_columns(stream: pa.Table, path: Path) -> None:
    """Write the column file that the C++ reference reads: n, then ts, type, price, diff, volume."""
    columns = [np.array([stream.num_rows]), *whole_numbers(stream)]
    kinds = (np.int64, np.int64, np.int8, np.int32, np.int32, np.int32)
    with path.open("wb") as file:
        for column, kind in zip(columns, kinds, strict=True):
            file.write(np.ascontiguousarray(column, dtype=kind).tobytes())


def write_types(path: Path) -> None:
    """Write W6's patterns as the C++ reference reads them: the window, then a line of types for each."""
    lines = [str(MANY_WINDOW_MS), *(" ".join(map(str, types)) for types in draw_types())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


class DuckDBJoins:
    """Runs the bucketed joins of `joins` over events that lie in a DuckDB table before anything is timed."""

    def __init__(self) -> None:
        import duckdb

        self._connection: Any = duckdb.connect()
        self._connection.execute("SET threads = 1")

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


def _start_reference(workload: str, events: Path) -> Engine:
    binary, columns, types = events.with_name("limit"), events.with_suffix(".columns"), events.with_name("types.txt")
    if not binary.exists():
        compile_reference(events.parent)
    if not columns.exists():
        write_columns(read_events(events), columns)
    write_types(types)
    return partial(run_reference, binary, columns, workload, types)


def _reference_missing() -> str | None:
    return None if shutil.which("g++") or shutil.which("clang++") else "needs g++ or clang++"


def _start_duckdb(workload: str, events: Path) -> Engine:
    joins = DuckDBJoins()
    joins.load(read_events(events))
    return partial(joins.run, workload)


def _duckdb_missing() -> str | None:
    return None if find_spec("duckdb") else "needs duckdb"


_STOCK = dict.fromkeys((name for name, workload in WORKLOADS.items() if workload.stream == STOCK), MAX_EVENTS)
CPP, DUCKDB = "C++ scalar", "DuckDB, bucketed join"
FLINK = "Flink CEP"
PEERS = (
    Peer(CPP, _STOCK, _start_reference, _reference_missing),
    Peer(
        DUCKDB,
        {**dict.fromkeys(DUCKDB_QUERIES, MAX_EVENTS), "W6": LONGEST_MANY},
        _start_duckdb,
        _duckdb_missing,
    ),
    Peer(FLINK, flink_patterns.LONGEST, flink_patterns.start, flink_patterns.missing),
)
"""The peers, in the order of the tables."""
BUILDERS = (FLINK,)
"""The peers that build each match; the others count, or add the matches up."""


def missing_peers() -> str:
    """A sentence on each peer that is not here, or nothing."""
    sentences = [(peer.name, peer.missing()) for peer in PEERS]
    return " ".join(f"{name} is not here: it {why}." for name, why in sentences if why is not None)
