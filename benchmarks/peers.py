"""Peers that run beside us in one benchmark, each in a process of its own: scalar C++, SQL engines and Flink CEP.

All count, or enumerate, all matches of a workload; the count is compared with ours before any ratio is made.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import flink_patterns
from benchmarks.flink_patterns import compile_program
from benchmarks.joins import DUCKDB_QUERIES, LONGEST_MANY
from benchmarks.measure import Engine, Measurement, read_events, timed
from benchmarks.stock_stream import MAX_EVENTS, whole_numbers
from benchmarks.workloads import MANY_WINDOW_MS, STOCK, WORKLOADS, draw_types


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


def _cpp_compiler() -> str | None:
    return shutil.which("g++") or shutil.which("clang++")


def _start_reference(workload: str, events: Path) -> Engine:
    """The scalar C++ reference over a column file; its seconds, of the processor, leave out the reading of the file.

    W6's patterns are in a file of their own: the window, then a line of types for each.
    """
    binary, columns, types = events.with_name("limit"), events.with_suffix(".columns"), events.with_name("types.txt")
    if not binary.exists():
        compiler = _cpp_compiler()
        assert compiler is not None
        compile_program(compiler, "limit.cpp", "-O3", "-march=native", "-std=c++17", "-o", str(binary))
    if not columns.exists():
        _write_columns(read_events(events), columns)
    lines = [str(MANY_WINDOW_MS), *(" ".join(map(str, drawn)) for drawn in draw_types())]
    types.write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [str(binary), str(columns), workload.lower(), *([str(types)] if workload == "W6" else [])]

    def run() -> Measurement:
        result = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        return Measurement(result["detect_s"], result["matches"])

    return run


def _write_columns(stream: pa.Table, path: Path) -> None:
    """Write the column file that the C++ reference reads: n, then ts, type, price, diff, volume."""
    columns = [np.array([stream.num_rows]), *whole_numbers(stream)]
    kinds = (np.int64, np.int64, np.int8, np.int32, np.int32, np.int32)
    with path.open("wb") as file:
        for column, kind in zip(columns, kinds, strict=True):
            file.write(np.ascontiguousarray(column, dtype=kind).tobytes())


def _start_duckdb(workload: str, events: Path) -> Engine:
    """The bucketed joins of `joins` over events that lie in a DuckDB table before anything is timed."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    table = read_events(events)
    connection.register("arrow_events", table)
    texts = ["CAST(ticker AS VARCHAR) AS ticker"] if "ticker" in table.column_names else []
    others = [name for name in ("diff", "report_id", "avg_speed") if name in table.column_names]
    columns = ", ".join(["epoch_ms(timestamp) AS ts", *texts, *others])
    connection.execute(f"CREATE TABLE s AS SELECT {columns} FROM arrow_events")

    def count() -> int:
        return sum(int(connection.execute(query).fetchall()[0][0]) for query in DUCKDB_QUERIES[workload])

    return partial(timed, count)


def duckdb_missing() -> str | None:
    """Tell what DuckDB needs; None where it is here."""
    return None if find_spec("duckdb") else "needs duckdb"


_STOCK = dict.fromkeys((name for name, workload in WORKLOADS.items() if workload.stream == STOCK), MAX_EVENTS)
CPP, DUCKDB = "C++ scalar", "DuckDB, bucketed join"
FLINK = "Flink CEP"
PEERS = (
    Peer(CPP, _STOCK, _start_reference, lambda: None if _cpp_compiler() else "needs g++ or clang++"),
    Peer(
        DUCKDB,
        {**dict.fromkeys(DUCKDB_QUERIES, MAX_EVENTS), "W6": LONGEST_MANY},
        _start_duckdb,
        duckdb_missing,
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
