"""`cep bench strategies`: the strategies of docs/language.md, section 4, without Kleene variables, beside reading."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import Measurement, Progress, measure_in_turn, mechanism_runner, one_core
from benchmarks.report import Comparison, markdown_table
from benchmarks.streams import Streams
from benchmarks.workloads import STOCK, stock_schema
from cep_pipeline.cli.terminal import count_per_s, format_seconds
from cep_pipeline.language.parser import parse_patterns

READING = "reading the columns"
SLOWEST = 3.0
"""Longest time of detection, as a multiple of reading the columns."""
COLUMNS = ("timestamp", "seq", "ticker", "diff", "volume")
STATEMENTS = {
    "skip_till_next_match": "SEQ(S00 a, S07 b, S15 c) WHERE skip_till_next_match "
    "{ a.diff < b.diff AND b.diff < c.diff } WITHIN 2000 ms",
    "skip_till_next_match, [ticker]": "SEQ(Stock a, Stock b, Stock c) WHERE skip_till_next_match "
    "{ [ticker] AND a.volume > 900 AND a.diff < b.diff AND b.diff < c.diff } WITHIN 2000 ms",
    "partition_contiguity": "SEQ(Stock a, Stock b, Stock c) WHERE partition_contiguity "
    "{ [ticker] AND a.diff < b.diff AND b.diff < c.diff } WITHIN 2000 ms",
    "strict_contiguity": "SEQ(S00 a, S01 b, S02 c) WHERE strict_contiguity "
    "{ a.diff < b.diff AND b.diff < c.diff } WITHIN 2000 ms",
}
"""Name of a row -> its pattern."""


def measure_strategies(events: int, repetitions: int, streams: Streams, progress: Progress) -> list[Comparison]:
    """Run a pattern of each strategy on the mechanism that runs it, in turn with reading the columns from Parquet."""
    table = streams.table(STOCK, events)
    comparisons = []
    with tempfile.TemporaryDirectory() as folder, one_core():
        path = Path(folder) / "events.parquet"
        pq.write_table(table.select(COLUMNS), path)
        for name, statement in STATEMENTS.items():
            patterns = parse_patterns(f"NAME s PATTERN {statement}", stock_schema())
            find = mechanism_runner("nfab", patterns, table)
            matches = find().matches
            engines: dict[str, Callable[[], Measurement]] = {"nfab": find, READING: partial(_read, path, matches)}
            timings, _ = measure_in_turn(engines, repetitions, matches, f"{name}, {events:,} events", progress)
            comparisons.append(Comparison(name, events, matches, timings["nfab"], (timings[READING],)))
    return comparisons


def _read(path: Path, matches: int) -> Measurement:
    """Read the columns; reading has no matches, so it is given those of detection."""
    start = time.process_time()
    table: pa.Table = pq.read_table(path, columns=list(COLUMNS), use_threads=False)
    assert table.num_rows
    return Measurement(time.process_time() - start, matches)


def strategies_table(comparisons: Sequence[Comparison]) -> str:
    """The comparisons with the bar, in Markdown."""
    rows = []
    for comparison in comparisons:
        (reading,) = comparison.peers
        times = 1 / comparison.ratio(reading)
        rows.append(
            [
                comparison.workload,
                f"{comparison.events:,}",
                f"{comparison.matches:,}",
                str(len(comparison.ours.seconds)),
                format_seconds(comparison.ours.median),
                f"{comparison.ours.spread:.0%}",
                count_per_s(comparison.events / comparison.ours.median),
                format_seconds(reading.median),
                f"{times:.2f}",
                f"{SLOWEST:g}: {'met' if times <= SLOWEST else 'MISSED'}",
            ]
        )
    header = ["strategy", "events", "matches", "n", "median", "spread", "events/s"]
    return markdown_table([*header, READING, "times reading", "bar"], rows)
