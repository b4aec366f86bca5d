"""`cep bench detection`: the fused kernel and a user's calls on one core, beside scalar C++ and DuckDB."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.joins import DUCKDB_QUERIES, LONGEST_MANY
from benchmarks.measure import Measurement, Progress, measure_in_turn, mechanism_runner, one_core
from benchmarks.peers import (
    REFERENCE_WORKLOADS,
    DuckDBJoins,
    compile_reference,
    duckdb_joins,
    run_reference,
    write_types,
)
from benchmarks.published import DUCKDB
from benchmarks.report import Comparison, Timing, markdown_table
from benchmarks.stock_stream import StockStream
from benchmarks.strategies import READING
from benchmarks.streams import Streams
from benchmarks.workloads import STOCK, WORKLOADS, Workload
from cep_pipeline.cli.terminal import count_per_s, format_seconds, times_as_fast
from cep_pipeline.detection.detect import detect
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.events_input import columns_needed

CPP = "C++ scalar"
LISTING, COUNTING, TOGETHER = "fused", "fused, counting", "fused, one plan"
BARS: dict[tuple[str, str], float] = {
    **{(workload, CPP): 1.0 for workload in ("W1", "W2", "W3", "W4", "W4b", "W6")},
    ("W1", DUCKDB): 8.0,
    ("W2", DUCKDB): 8.0,
}
"""(Workload, peer) -> how many times as fast as it we have to be; with Kleene variables when we count."""
FILE_TO_FILE, LISTED, COUNTED_BY_CALL = "file to matches, written", "cep.detect", "cep.detect, output count"
WRITING = "writing the matches"
PEERS = (CPP, DUCKDB)
CALLS = (FILE_TO_FILE, LISTED, COUNTED_BY_CALL, READING, WRITING)
OF_READING, OF_WRITING = 0.8, 0.5
"""From a file to written matches we want this share of the speed of reading the columns where there are fewer matches
than events, and this of the speed of writing the matches where there are more."""
SHORTEST_JUDGED = 1_000_000
"""Bars are for streams of so many events: on shorter ones what is done once, such as binding columns, weighs most."""
COUNTED = ("W4", "W4b")
"""Workloads whose matches are counted without being listed, too."""
RUNS = ("W1", "W2", "W3", "W4", "W4b", "W6", "W7")


@dataclass(frozen=True)
class _Peers:
    """What runs beside us, as far as it is there."""

    reference: Path | None
    columns: Path
    types: Path
    joins: DuckDBJoins | None
    longest_many: int

    def load(self, events: pa.Table, stream: StockStream | None) -> None:
        """Give the peers other events, which is not timed."""
        if self.joins is not None:
            self.joins.load(events)
        if self.reference is not None and stream is not None:
            stream.write_columns(self.columns)

    def of(self, workload: Workload, events: int) -> dict[str, Callable[[], Measurement]]:
        runs: dict[str, Callable[[], Measurement]] = {}
        if self.reference is not None and workload.name in REFERENCE_WORKLOADS:
            runs[CPP] = partial(run_reference, self.reference, self.columns, workload.name, self.types)
        in_time = workload.name != "W6" or events <= self.longest_many
        if self.joins is not None and workload.name in DUCKDB_QUERIES and in_time:
            runs[DUCKDB] = partial(self.joins.run, workload.name)
        return runs


def compare_detection(
    lengths: Sequence[int], repetitions: int, streams: Streams, progress: Progress, *, many: int = LONGEST_MANY
) -> list[Comparison]:
    """Run every workload that the fused kernel runs by the kernel, by a user's calls and by the peers that are there.

    Returned is a comparison for each workload and length, ours the kernel. Of streams of 10,000, 100,000, 1,000,000 and
    5,000,000 events the match counts are known. Each engine has so many counted runs, after one that is not counted.
    DuckDB, too, runs the hundred patterns of W6 over a stream of `many` events. Another number of matches than is
    known, or than the others found, is a CepError.
    """
    comparisons = []
    with tempfile.TemporaryDirectory() as name, one_core():
        folder = Path(name)
        peers = _Peers(compile_reference(folder), folder / "columns.bin", folder / "types.txt", duckdb_joins(), many)
        write_types(peers.types)
        loaded: pa.Table | None = None
        for workload, stream, table in _work(lengths, streams, many):
            if table is not loaded:
                peers.load(table, stream)
                loaded = table
            comparisons.append(_compare(workload, table, peers, repetitions, progress))
    return comparisons


def _work(
    lengths: Sequence[int], streams: Streams, many: int
) -> Iterator[tuple[Workload, StockStream | None, pa.Table]]:
    """The workloads with their events: of the stock stream in all lengths, and those of the traffic."""
    work = [(workload, events) for events in lengths for workload in RUNS if WORKLOADS[workload].stream == STOCK]
    work = [(workload, events) for workload, events in work if workload != "W6"]
    work += [("W6", events) for events in (many, *(events for events in lengths if events > many))]
    made: tuple[int, StockStream, pa.Table] | None = None
    for workload, events in work:
        if made is None or made[0] != events:
            stream = streams.stock(events)
            made = events, stream, stream.table()
        yield WORKLOADS[workload], made[1], made[2]
    yield WORKLOADS["W7"], None, streams.traffic.events


def _compare(workload: Workload, events: pa.Table, peers: _Peers, repetitions: int, progress: Progress) -> Comparison:
    patterns = workload.patterns()
    engines = {LISTING: mechanism_runner("fused", patterns, events)}
    if workload.name in COUNTED:
        engines[COUNTING] = mechanism_runner("fused", patterns, events, counting=True)
    if len(patterns) > 1:
        engines[TOGETHER] = mechanism_runner("fused", patterns, events, sharing="prefix")
    engines.update(peers.of(workload, events.num_rows))
    engines.update(_calls(patterns, events))
    known = workload.matches.get(events.num_rows)
    timings, matches = measure_in_turn(
        engines, repetitions, known, f"{workload.name}, {events.num_rows:,} events", progress
    )
    ours = timings.pop(COUNTING if COUNTING in timings else LISTING)
    return Comparison(workload.name, events.num_rows, matches, ours, tuple(timings.values()))


def _calls(patterns: Sequence[Pattern], events: pa.Table) -> dict[str, Callable[[], Measurement]]:
    """The calls of a user, statistics and plan included; and what reading and writing alone take, in memory.

    Of the events each call gets a table of its own, which nobody has asked about before.
    """
    stored = pa.BufferOutputStream()
    pq.write_table(events.select(columns_needed(patterns)), stored)
    source = stored.getvalue()
    listed: Mapping[str, pa.Table] = detect(patterns, events)
    matches = sum(table.num_rows for table in listed.values())

    def read() -> pa.Table:
        return pq.read_table(pa.BufferReader(source))

    def write(tables: Mapping[str, pa.Table]) -> int:
        for table in tables.values():
            pq.write_table(table, pa.BufferOutputStream())
        return sum(table.num_rows for table in tables.values())

    def counted() -> int:
        tables = detect(patterns, events.slice(), output="count")
        return sum(int(table["count"][0].as_py()) for table in tables.values())

    runs: dict[str, Callable[[], int]] = {
        FILE_TO_FILE: lambda: write(detect(patterns, read())),
        LISTED: lambda: sum(table.num_rows for table in detect(patterns, events.slice()).values()),
        COUNTED_BY_CALL: counted,
        READING: lambda: matches if read() else 0,
        WRITING: lambda: write(listed),
    }
    return {name: partial(_timed, run) for name, run in runs.items()}


def _timed(run: Callable[[], int]) -> Measurement:
    start = time.process_time()
    matches = run()
    return Measurement(time.process_time() - start, matches)


def calls_table(comparisons: Sequence[Comparison]) -> str:
    """The calls of comparisons: what they take as a multiple of the kernel's time, and beside others, in Markdown."""
    rows = []
    for comparison in comparisons:
        timings = {timing.engine: timing for timing in (comparison.ours, *comparison.peers)}
        for name in CALLS:
            call = timings[name]
            shares = [
                f"{call.ratio(timings[other]):.2f}" if name == FILE_TO_FILE else "" for other in (READING, WRITING)
            ]
            beside = [timings.get(peer) if name in (FILE_TO_FILE, LISTED, COUNTED_BY_CALL) else None for peer in PEERS]
            rows.append(
                [
                    comparison.workload,
                    f"{comparison.events:,}",
                    f"{comparison.matches:,}",
                    name,
                    str(len(call.seconds)),
                    format_seconds(call.median),
                    f"{call.spread:.0%}",
                    f"{timings[LISTING].ratio(call):.1f}",
                    *shares,
                    *("" if peer is None else times_as_fast(call.ratio(peer)) for peer in beside),
                    _wanted(comparison, call, timings) if name == FILE_TO_FILE else "",
                ]
            )
    header = ["workload", "events", "matches", "call", "n", "median", "spread", "x kernel"]
    header += ["of reading", "of writing", "x as fast as C++", "x as fast as DuckDB", "wanted"]
    return markdown_table(header, rows)


def _wanted(comparison: Comparison, call: Timing, timings: Mapping[str, Timing]) -> str:
    if comparison.events < SHORTEST_JUDGED:
        return ""
    fewer = comparison.matches < comparison.events
    least, other = (OF_READING, READING) if fewer else (OF_WRITING, WRITING)
    met = "met" if call.ratio(timings[other]) >= least else "MISSED"
    return f"{least:g} of {other.split()[0]}: {met}"


def duckdb_rates(comparisons: Sequence[Comparison]) -> dict[str, float]:
    """Workload -> events a second of DuckDB over the longest stream on which it ran."""
    rates: dict[str, tuple[int, float]] = {}
    for comparison in comparisons:
        for timing in comparison.peers:
            if timing.engine == DUCKDB and comparison.events > rates.get(comparison.workload, (0, 0.0))[0]:
                rates[comparison.workload] = comparison.events, comparison.events / timing.median
    return {workload: rate for workload, (_, rate) in rates.items()}


def detection_table(comparisons: Sequence[Comparison]) -> str:
    """The kernel and its peers in comparisons, with ratios and bars, in Markdown."""
    rows = []
    for comparison in comparisons:
        for timing in (comparison.ours, *(peer for peer in comparison.peers if peer.engine not in CALLS)):
            own = timing.engine in (LISTING, COUNTING, TOGETHER)
            ratio = comparison.ratio(timing)
            judged = comparison.events >= SHORTEST_JUDGED
            bar = BARS.get((comparison.workload, timing.engine)) if judged else None
            rows.append(
                [
                    comparison.workload,
                    f"{comparison.events:,}",
                    f"{comparison.matches:,}",
                    timing.engine,
                    str(len(timing.seconds)),
                    format_seconds(timing.median),
                    f"{timing.spread:.0%}",
                    count_per_s(comparison.events / timing.median),
                    "" if own else times_as_fast(ratio),
                    "" if bar is None else f"{bar:g}: {'met' if ratio >= bar else 'MISSED'}",
                ]
            )
    header = ["workload", "events", "matches", "engine", "n", "median", "spread", "events/s", "we are x as fast", "bar"]
    return markdown_table(header, rows)
