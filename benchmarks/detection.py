"""`cep bench detection`: the fused kernel on one core, preparation included, beside scalar C++ and DuckDB."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

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
from benchmarks.report import Comparison, markdown_table
from benchmarks.streams import Streams
from benchmarks.workloads import STOCK, WORKLOADS, Workload
from cep_pipeline.cli.figures import count_per_s, format_seconds, times_as_fast

CPP = "C++ scalar"
LISTING, COUNTING, TOGETHER = "fused", "fused, counting", "fused, one plan"
BARS: dict[tuple[str, str], float] = {
    **{(workload, CPP): 1.0 for workload in ("W1", "W2", "W3", "W4", "W4b", "W6")},
    ("W1", DUCKDB): 8.0,
    ("W2", DUCKDB): 8.0,
}
"""(Workload, peer) -> how many times as fast as it we have to be; with Kleene variables when we count."""
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
    """Run every workload that the fused kernel runs on every engine that is there, one after the other, several times.

    Parameters
    ----------
    lengths
        Lengths of the stock stream: of 10,000, 100,000, 1,000,000 and 5,000,000 events the match counts are known.
    repetitions
        Counted runs of each engine, after one that is not counted.
    streams
        Where the events are from.
    progress
        Told what is being done.
    many
        Length of the stream of W6's hundred patterns that DuckDB runs, too; longer ones are run without it.

    Raises
    ------
    CepError
        An engine found another number of matches than is known, or than the others found.
    """
    comparisons = []
    with tempfile.TemporaryDirectory() as name, one_core():
        folder = Path(name)
        peers = _Peers(compile_reference(folder), folder / "columns.bin", folder / "types.txt", duckdb_joins(), many)
        write_types(peers.types)
        work = [(workload, events) for events in lengths for workload in RUNS if WORKLOADS[workload].stream == STOCK]
        many_lengths = [many, *(events for events in lengths if events > many)]
        work = [(workload, events) for workload, events in work if workload != "W6"]
        work += [("W6", events) for events in many_lengths]
        loaded = 0
        for workload, events in work:
            if events != loaded:
                stream = streams.stock(events)
                table = stream.table()
                stream.write_columns(peers.columns)
                _load(peers.joins, table)
                loaded = events
            comparisons.append(_compare(WORKLOADS[workload], table, peers, repetitions, progress))
        readings = streams.traffic.events
        _load(peers.joins, readings)
        comparisons.append(_compare(WORKLOADS["W7"], readings, peers, repetitions, progress))
    return comparisons


def _load(joins: DuckDBJoins | None, events: pa.Table) -> None:
    if joins is not None:
        joins.load(events)


def _compare(workload: Workload, events: pa.Table, peers: _Peers, repetitions: int, progress: Progress) -> Comparison:
    patterns = workload.patterns()
    engines = {LISTING: mechanism_runner("fused", patterns, events)}
    if workload.name in COUNTED:
        engines[COUNTING] = mechanism_runner("fused", patterns, events, counting=True)
    if len(patterns) > 1:
        engines[TOGETHER] = mechanism_runner("fused", patterns, events, sharing="prefix")
    engines.update(peers.of(workload, events.num_rows))
    known = workload.matches.get(events.num_rows)
    timings, matches = measure_in_turn(
        engines, repetitions, known, f"{workload.name}, {events.num_rows:,} events", progress
    )
    ours = timings[COUNTING if COUNTING in timings else LISTING]
    return Comparison(
        workload.name, events.num_rows, matches, ours, tuple(t for t in timings.values() if t is not ours)
    )


def duckdb_rates(comparisons: Sequence[Comparison]) -> dict[str, float]:
    """Workload -> events a second of DuckDB over the longest stream on which it ran."""
    rates: dict[str, tuple[int, float]] = {}
    for comparison in comparisons:
        for timing in comparison.peers:
            if timing.engine == DUCKDB and comparison.events > rates.get(comparison.workload, (0, 0.0))[0]:
                rates[comparison.workload] = comparison.events, comparison.events / timing.median
    return {workload: rate for workload, (_, rate) in rates.items()}


def detection_table(comparisons: Sequence[Comparison]) -> str:
    """The comparisons with their ratios and bars, in Markdown."""
    rows = []
    for comparison in comparisons:
        for timing in (comparison.ours, *comparison.peers):
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
