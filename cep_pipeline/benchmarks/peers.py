"""Peers that run beside us in one benchmark: scalar C++ and DuckDB's bucketed joins.

Both count or enumerate all matches of a workload; the count is compared with ours before any ratio is made.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pyarrow as pa

from cep_pipeline.errors import CepError


@dataclass(frozen=True)
class Measurement:
    """One run of one engine: seconds of detection alone, and the matches that it found."""

    seconds: float
    matches: int


def compile_reference(folder: Path) -> Path | None:
    """Compile the scalar C++ reference into the folder; None where the machine has no C++ compiler."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        return None
    binary = folder / "limit"
    with as_file(files("cep_pipeline.benchmarks") / "limit.cpp") as source:
        done = subprocess.run(
            [compiler, "-O3", "-march=native", "-std=c++17", str(source), "-o", str(binary)],
            capture_output=True,
            text=True,
        )
    if done.returncode != 0:
        raise CepError(f"{compiler} cannot compile the C++ reference: {done.stderr.strip()[:500]}")
    return binary


def run_reference(binary: Path, columns: Path, workload: str) -> Measurement:
    """Run the C++ reference on a column file; `detect_s` leaves out the reading of the file."""
    done = subprocess.run([str(binary), str(columns), workload.lower()], capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    return Measurement(result["detect_s"], result["matches"])


# An event takes part in the bucket of its own window and in the next, so that every pair within W meets in an
# equality join; the time conditions then decide.
_W1 = """
WITH a AS (SELECT ts, diff, ts // {w} AS k FROM s WHERE ticker = 'S00'),
     b AS (SELECT ts, diff, ts // {w} AS k FROM s WHERE ticker = 'S07'),
     c AS (SELECT ts, diff, ts // {w} AS k FROM s WHERE ticker = 'S15'),
     a2 AS (SELECT *, unnest([k, k + 1]) AS kk FROM a),
     ab AS (SELECT a2.ts AS ats, a2.k, b.ts AS bts, b.diff FROM a2 JOIN b ON b.k = a2.kk
            WHERE b.ts > a2.ts AND b.ts <= a2.ts + {w} AND a2.diff < b.diff),
     ab2 AS (SELECT *, unnest([k, k + 1]) AS kk FROM ab)
SELECT count(*) FROM ab2 JOIN c ON c.k = ab2.kk WHERE c.ts > bts AND c.ts <= ats + {w} AND ab2.diff < c.diff
"""
_W2 = """
WITH a AS (SELECT ts, diff, ts // {w} AS k FROM s WHERE ticker = 'S05'),
     b AS (SELECT ts, diff, ts // {w} AS k FROM s WHERE ticker = 'S08'),
     c AS (SELECT ts, diff, ts // {w} AS k FROM s WHERE ticker = 'S11'),
     d AS (SELECT ts, diff, ts // {w} AS k FROM s WHERE ticker = 'S14'),
     a2 AS (SELECT *, unnest([k - 1, k, k + 1]) AS kk FROM a),
     c2 AS (SELECT *, unnest([k - 1, k, k + 1]) AS kk FROM c),
     ab AS (SELECT least(a2.ts, b.ts) AS lo, greatest(a2.ts, b.ts) AS hi FROM a2 JOIN b ON b.k = a2.kk
            WHERE abs(b.ts - a2.ts) <= {w} AND a2.diff < b.diff),
     cd AS (SELECT least(c2.ts, d.ts) AS lo, greatest(c2.ts, d.ts) AS hi FROM c2 JOIN d ON d.k = c2.kk
            WHERE abs(d.ts - c2.ts) <= {w} AND c2.diff < d.diff),
     ab2 AS (SELECT *, unnest([lo // {w} - 1, lo // {w}, lo // {w} + 1]) AS kk FROM ab),
     cd2 AS (SELECT *, lo // {w} AS k FROM cd)
SELECT count(*) FROM ab2 JOIN cd2 ON cd2.k = ab2.kk
WHERE greatest(ab2.hi, cd2.hi) - least(ab2.lo, cd2.lo) <= {w}
"""
DUCKDB_QUERIES: dict[str, tuple[str, int]] = {"W1": (_W1, 2000), "W2": (_W2, 500)}
"""Workload -> bucketed join and window in milliseconds; DuckDB runs no other workloads."""


def duckdb_runner(events: pa.Table, threads: int) -> Callable[[str], Measurement] | None:
    """A function that runs a workload's bucketed join over the events; None where DuckDB is not installed.

    The events lie in a DuckDB table before anything is timed; times there are integers in milliseconds.
    """
    try:
        import duckdb
    except ImportError:
        return None
    connection: Any = duckdb.connect()
    connection.execute(f"SET threads = {threads}")
    connection.register("arrow_events", events)
    connection.execute(
        "CREATE TABLE s AS SELECT epoch_ms(timestamp) AS ts, CAST(ticker AS VARCHAR) AS ticker, diff FROM arrow_events"
    )

    def run(workload: str) -> Measurement:
        query, window_ms = DUCKDB_QUERIES[workload]
        start = time.perf_counter()
        matches = connection.execute(query.format(w=window_ms)).fetchone()[0]
        return Measurement(time.perf_counter() - start, int(matches))

    return run
