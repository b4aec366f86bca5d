"""`cep bench statistics`: how near estimates are to exact counts, how much they hold, and how long they take."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

from benchmarks.ingestion import trades_schema
from benchmarks.measure import Progress
from benchmarks.report import markdown_table
from cep_pipeline.cli.terminal import format_seconds
from cep_pipeline.events.event_files import load_events
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.generate import generate_days
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern, Window
from cep_pipeline.statistics import WindowedStatistics, partial_statistics, windowed_statistics

EPSILON = 0.02
MOMENTS = 1000
"""Random times at which counts are compared."""
SEEDS = 20
"""Samples that selectivities are estimated from."""
EVENTS_PER_DAY = 400_000
BAR = 0.1
"""Share of the time that ingesting takes that statistics may take."""

TRADE_PATTERNS = """
NAME follow PATTERN SEQ(SPY s, BAC b, AIG a) WHERE s.diff <= -0.02 AND b.diff <= -0.01 AND a.diff < b.diff
WITHIN 1 second;
NAME blocks PATTERN SEQ(Trade a, Trade b) WHERE [symbol] AND a.size >= 2000 AND b.price > a.price WITHIN 2 seconds;
NAME apart PATTERN AND(SPY s, IBM i) WHERE s.diff + i.diff > 0 AND i.size >= 200 WITHIN 250 ms
"""
READING_PATTERNS = """
NAME slower PATTERN SEQ(Reading a, Reading b) WHERE [report_id] AND a.avg_speed >= 50 AND b.avg_speed < a.avg_speed
WITHIN 15 minutes;
NAME neighbours PATTERN AND("158324" a, "158355" b) WHERE a.avg_speed > b.avg_speed WITHIN 10 minutes
"""
READING_SCHEMA = """\
name: aarhus_traffic
timezone: Europe/Copenhagen
base_type: Reading
type_attribute: report_id
timestamp: timestamp
attributes: {report_id: int64, avg_speed: int64, vehicle_count: int64}
key: [report_id, timestamp]
source: {format: parquet, path: "{day:%Y-%m}.parquet"}
"""


@dataclass(frozen=True)
class StatisticsResult:
    """The findings about one stream.

    The seconds of the processor are those of reading and ordering the raw files in one process, and of the statistics
    of all of it. `worst_error` is the largest relative error of so many `counts`, of which so many lay `outside` their
    stated bounds. Of so many estimated selectivities (`shares`), `held` had the true one in their interval. The bytes
    are those of the state as JSON after half of the events and after all.
    """

    stream: str
    events: int
    load_s: float
    statistics_s: float
    worst_error: float
    counts: int
    outside: int
    held: int
    shares: int
    half_bytes: int
    whole_bytes: int


def measure_statistics(data: Path | None, repetitions: int, progress: Progress) -> list[StatisticsResult]:
    """Compare estimates with exact numbers over a generated day of trades, and real streams where they are there."""
    results = []
    for name, schema, text, window, events, load_s in _streams(data, progress):
        patterns = parse_patterns(text, schema)
        progress.begin(f"statistics of {name}", repetitions + MOMENTS + SEEDS)
        seconds = []
        for _ in range(repetitions):
            begin = time.process_time()
            windowed_statistics(patterns, events, window, EPSILON)
            seconds.append(time.process_time() - begin)
            progress.advance()
        worst, counts, outside = _errors(patterns, events, window, progress)
        held, shares = _intervals(patterns, events, window, progress)
        sizes = [
            len(json.dumps(windowed_statistics(patterns, part, window, EPSILON).to_json()))
            for part in (events.slice(0, events.num_rows // 2), events)
        ]
        results.append(
            StatisticsResult(
                name, events.num_rows, load_s, median(seconds), worst, counts, outside, held, shares, *sizes
            )
        )
    return results


def _streams(data: Path | None, progress: Progress) -> Iterator[tuple[str, StreamSchema, str, Window, pa.Table, float]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        schema = trades_schema(folder)
        progress.begin(f"making a day of about {EVENTS_PER_DAY:,} trades", 1)
        (made,) = generate_days(folder / "raw", [date(2025, 1, 6)], stocks=16, events_per_day=EVENTS_PER_DAY)
        assert made.path is not None
        yield "a generated day of trades", schema, TRADE_PATTERNS, _minutes(20), *_loaded(schema, made.path)
        trades = data / "us_equity_trades" / "2013-10-08" / "trades.csv.gz" if data is not None else None
        if trades is not None and trades.is_file():
            yield "a day of US trades", schema, TRADE_PATTERNS, _minutes(300), *_loaded(schema, trades)
        month = data / "aarhus_traffic" / "2014-08.parquet" if data is not None else None
        if month is None or not month.is_file():
            return
        (folder / "readings.yaml").write_text(READING_SCHEMA, encoding="utf-8")
        readings = StreamSchema.load(folder / "readings.yaml")
        yield "a month of traffic", readings, READING_PATTERNS, _minutes(24 * 60), *_loaded(readings, month)


def _minutes(number: int) -> Window:
    return Window(time_us=number * 60_000_000)


def _loaded(schema: StreamSchema, path: Path) -> tuple[pa.Table, float]:
    begin = time.process_time()
    events = load_events(schema, [path]).events
    return events, time.process_time() - begin


def _errors(
    patterns: Sequence[Pattern], events: pa.Table, window: Window, progress: Progress
) -> tuple[float, int, int]:
    """The largest relative error of the counts of leaves at random times, of how many, and how many out of bounds."""
    times = np.asarray(events.column("timestamp").cast(pa.int64()))
    # The leaves alone: what they are of is counted exactly by the statistics of the whole stream, row by row.
    rates_only = [_without_conditions(pattern) for pattern in patterns]
    exact = _arrivals(rates_only, events)
    assert window.time_us is not None
    random = np.random.default_rng(5)
    state, done = WindowedStatistics.of(rates_only, window, EPSILON), 0
    worst, counts, outside = 0.0, 0, 0
    for moment in np.sort(random.integers(times[0], times[-1] + 1, MOMENTS)).tolist():
        stop = int(np.searchsorted(times, moment, "right"))
        state.merge(windowed_statistics(rates_only, events.slice(done, stop - done), window, EPSILON))
        done = stop
        snapshot = state.snapshot(moment)
        for rate in snapshot.rates:
            own = exact[rate.leaf]
            truth = int(np.searchsorted(own, moment, "right") - np.searchsorted(own, moment - window.time_us, "left"))
            count = rate.per_s * snapshot.span_s
            counts += 1
            worst = max(worst, abs(count - truth) / truth if truth else count)
            assert rate.low is not None and rate.high is not None
            outside += not rate.low * snapshot.span_s - 1e-6 <= truth <= rate.high * snapshot.span_s + 1e-6
        progress.advance()
    return worst, counts, outside


def _without_conditions(pattern: Pattern) -> Pattern:
    """The pattern as an AND of its leaves: their filters stay, what is between them goes."""
    from dataclasses import replace

    from cep_pipeline.patterns.conditions import AllOf, AnyOf, Conjunct
    from cep_pipeline.patterns.structure import Composite, Operator
    from cep_pipeline.statistics.terms import is_filter

    (clause,) = pattern.clauses

    def filters(conjunct: Conjunct) -> bool:
        return any(is_filter(conjunct, variable.name) for variable in clause.positive)

    kept = [c.atoms[0] if len(c.atoms) == 1 else AnyOf(c.atoms) for c in clause.conjuncts if filters(c)]
    condition = None if not kept else kept[0] if len(kept) == 1 else AllOf(tuple(kept))
    structure = Composite(Operator.AND, pattern.operands)
    return replace(pattern, structure=structure, condition=condition, partition_by=())


def _arrivals(patterns: Sequence[Pattern], events: pa.Table) -> dict[str, np.ndarray]:
    """The timestamps of each leaf's events."""
    from cep_pipeline.statistics.estimate import prepare
    from cep_pipeline.statistics.samples import Terms, rows_of_leaves

    prepared = prepare(patterns, events)
    rows = rows_of_leaves(Terms.of(patterns).leaves, prepared)
    return {leaf.key: prepared.timestamps[found] for leaf, found in rows.items()}


def _intervals(patterns: Sequence[Pattern], events: pa.Table, window: Window, progress: Progress) -> tuple[int, int]:
    """Count the selectivities of the latest window that lie in their stated intervals, and all of them."""
    assert window.time_us is not None
    times = np.asarray(events.column("timestamp").cast(pa.int64()))
    recent = events.slice(int(np.searchsorted(times, times[-1] - 3 * window.time_us)))
    times = np.asarray(recent.column("timestamp").cast(pa.int64()))
    first = int(np.searchsorted(times, times[-1] - window.time_us, "left"))
    start = (int(times[first]), recent.column("seq")[first].as_py())
    true = partial_statistics(patterns, recent, start=start, max_pairs=MOST_PAIRS)
    known = {**true.conditions, **true.orders}
    held, shares = 0, 0
    for seed in range(SEEDS):
        snapshot = windowed_statistics(patterns, recent, window, EPSILON, seed=seed, max_pairs=4096).snapshot()
        for found in (*snapshot.selectivities, *snapshot.orders):
            count = known[found.condition]
            if count.pairs and not count.squares and found.low is not None and found.high is not None:
                shares += 1
                held += found.low - 1e-12 <= count.passing / count.pairs <= found.high + 1e-12
        progress.advance()
    return held, shares


MOST_PAIRS = 20_000_000
"""The most pairs of a scope in a window whose true selectivity is looked up."""


def statistics_table(results: Sequence[StatisticsResult]) -> str:
    """The results, in Markdown."""
    header = [
        "stream",
        "events",
        f"largest error of counts (epsilon {EPSILON:g})",
        "counts in bounds",
        "selectivities in their interval",
        "state after half",
        "after all",
        "loading raw files",
        "statistics",
        f"share (bar {BAR:g})",
    ]
    rows = []
    for result in results:
        share = result.statistics_s / result.load_s
        rows.append(
            [
                result.stream,
                f"{result.events:,}",
                f"{result.worst_error:.4f}",
                f"{result.counts - result.outside:,} of {result.counts:,}",
                f"{result.held} of {result.shares} ({result.held / max(result.shares, 1):.1%})",
                f"{result.half_bytes / 1e3:.0f} kB",
                f"{result.whole_bytes / 1e3:.0f} kB",
                format_seconds(result.load_s),
                format_seconds(result.statistics_s),
                f"{share:.3f}: {'met' if share <= BAR else 'MISSED'}",
            ]
        )
    return markdown_table(header, rows)
