"""`cep bench corners`: work on which a straightforward program, or a database, could be ahead of us.

Each corner is one call that a user makes, beside a peer that does the same work another way: a query of DuckDB, a
loop of NumPy, or another call of ours. Both must give the same number before a time is kept.
"""

from __future__ import annotations

import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.detection import share_wanted
from benchmarks.ingestion import SCHEMA
from benchmarks.measure import Measurement, Progress, measure_in_turn, one_core
from benchmarks.peers import compile_reference, duckdb_joins, run_reference
from benchmarks.processes import Watched
from benchmarks.report import Comparison, markdown_table
from benchmarks.streams import Streams
from benchmarks.workloads import WORKLOADS, stock_schema
from cep_pipeline.cli.tables import write_table
from cep_pipeline.cli.terminal import format_seconds, times_as_fast
from cep_pipeline.detection.compressed.tables import expand
from cep_pipeline.detection.detect import detect
from cep_pipeline.detection.mechanisms import MECHANISMS, in_pattern_order
from cep_pipeline.errors import CepError
from cep_pipeline.events.event_files import load_events
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.plans import Plan
from cep_pipeline.slices.events_input import columns_needed
from cep_pipeline.warehouse.warehouse import Warehouse

Numbers = npt.NDArray[np.int64]
Work = Callable[[], Measurement]
"""Does the whole job, and returns its processor time and the number that the peer must give too."""

LISTED = ("W1", "W2", "W3", "W4")
READING_AND_WRITING = "pyarrow, reading the columns and writing the same rows"
FEW = (
    "NAME reversal PATTERN SEQ(S00 a, S07 b, S15 c) WHERE a.diff < -1.12 AND a.diff < b.diff AND b.diff < c.diff "
    "AND c.diff > 1.12 WITHIN 2000 ms"
)
"""A pattern with a thousand matches in a million events."""
NEGATIONS = {
    "sum of two others": "b.x > a.x + c.x",
    "sum of two others, and an equality": "b.x > a.x + c.x AND b.k = a.k",
    "product": "b.x * a.x > c.x",
}
EVENT_US = 1_000
"""Drawn events are so many microseconds apart."""
COLD_EVENTS = 5_000
RISING_EVENTS, RISING_WINDOW = 1_500, 950
SMALL_PATTERNS, SMALL_CALLS = 100, 10
SMALL_EVENTS = (10, 1_000)
"""Events of a call with many patterns: so few that a pattern costs what it always costs, and a small slice."""
SMALL_TYPES, SMALL_KEYS, SMALL_WINDOW_MS = "ABCDEFGHIJ", 3, 20
_SCHEMA = """\
name: drawn
base_type: Event
type_attribute: kind
timestamp: {column: timestamp, format: epoch_us}
attributes: {kind: string, k: int64, x: float64, y: float64}
source: {format: parquet, path: "{day:%Y-%m-%d}.parquet"}
"""


DAYS = (date(2025, 1, 6), date(2025, 1, 7))
_MARKET = """\
NAME financials PATTERN SEQ(SPY s, BAC b, AIG a) WHERE s.diff <= -0.05 AND b.diff <= -0.01 AND a.diff <= -0.01
WITHIN 1 second;
NAME sweep PATTERN SEQ(Trade a, Trade b) WHERE [symbol, price, size] AND a.exchange != b.exchange AND a.size >= 300
WITHIN 1 second;
NAME divergence PATTERN AND(SPY s, IBM i) WHERE s.diff > 0 AND i.diff < -0.02 AND s.size >= 200 AND i.size >= 200
WITHIN 250 ms
"""
_PIPELINE = """\
streams:
  generated_trades: {schema: trades.yaml, data: raw, pattern_sets: {market: {file: market.sase}}}
warehouse: {location: warehouse}
"""
_TRADES_QUERY = """
CREATE OR REPLACE TABLE trades AS
SELECT *, price - lag(price) OVER (PARTITION BY symbol ORDER BY place) AS diff FROM (
    SELECT *, row_number() OVER (ORDER BY ms, arrival) AS place FROM (
        SELECT *, epoch_ms(CAST("timestamp" AS TIMESTAMP)) AS ms, row_number() OVER () AS arrival
        FROM read_csv({files}, header = true)))
ORDER BY place
"""
_MARKET_QUERIES = {
    "financials": """
        SELECT s.place AS s, b.place AS b, a.place AS a FROM trades s JOIN trades b ON b.place > s.place
          AND b.ms <= s.ms + 1000 JOIN trades a ON a.place > b.place AND a.ms <= s.ms + 1000
        WHERE s.symbol = 'SPY' AND b.symbol = 'BAC' AND a.symbol = 'AIG'
          AND s.diff <= -0.05 AND b.diff <= -0.01 AND a.diff <= -0.01""",
    "sweep": """
        SELECT a.place AS a, b.place AS b FROM trades a JOIN trades b ON a.symbol = b.symbol AND a.price = b.price
          AND a.size = b.size AND b.place > a.place AND b.ms <= a.ms + 1000 AND a.exchange <> b.exchange
        WHERE a.size >= 300""",
    "divergence": """
        SELECT s.place AS s, i.place AS i FROM trades s JOIN trades i ON i.ms BETWEEN s.ms - 250 AND s.ms + 250
        WHERE s.symbol = 'SPY' AND i.symbol = 'IBM' AND s.diff > 0 AND i.diff < -0.02 AND s.size >= 200
          AND i.size >= 200""",
}


@dataclass(frozen=True)
class Corner:
    """A job, done by us and by a peer; job and peer are in words, as the page names them.

    `prepare` makes the events and the plan, which is not timed, and returns our work and the peer's, None where the
    peer is not installed.
    """

    job: str
    events: int
    peer: str
    prepare: Callable[[], tuple[Work, Work] | None]


def drawn_events(events: int, *, keys: int = 1, types: str = "ABC", seed: int = 1) -> pa.Table:
    """Events a millisecond apart, always the same: type, key `k` and value `x` (0 to 1) are drawn, `y` is near `x`."""
    draw = np.random.default_rng(seed)
    values = draw.random(events)
    names = pa.array(list(types))
    codes = pa.array(draw.integers(0, len(types), events, dtype=np.int32))
    return pa.table(
        {
            "timestamp": np.arange(events, dtype=np.int64) * EVENT_US,
            "seq": np.arange(events, dtype=np.int64),
            "kind": pa.DictionaryArray.from_arrays(codes, names),
            "k": draw.integers(0, keys, events),
            "x": values,
            "y": values + draw.normal(0, 1e-3, events),
        }
    )


@cache
def drawn_schema() -> StreamSchema:
    """Schema of the drawn events."""
    return StreamSchema.from_dict(
        {
            "base_type": "Event",
            "type_attribute": "kind",
            "attributes": {"kind": "string", "k": "int64", "x": "float64", "y": "float64"},
        },
        name="drawn",
    )


def corners(streams: Streams, folder: Path, share: float = 1.0) -> list[Corner]:
    """All corners, over this share of the events of each; files and programs are put into the folder."""

    def size(events: int) -> int:
        return max(int(events * share), 100)

    stock, keyed, small = size(1_000_000), size(1_000_000), size(300_000)
    together = max(int(SMALL_PATTERNS * share), 5)
    pair, triple = "SEQ(A a, B b)", "SEQ(A a, B b, C c)"
    return [
        *(
            Corner(
                f"{name}: from a Parquet file to written matches",
                stock,
                READING_AND_WRITING,
                partial(_file_to_matches, name, stock, streams, folder),
            )
            for name in LISTED
        ),
        Corner(
            "a rare reversal: from a Parquet file to written matches",
            stock,
            READING_AND_WRITING,
            partial(_file_to_few, stock, streams, folder),
        ),
        *(
            Corner(f"{name}: list all matches", stock, "DuckDB, counting them", partial(_listed, name, stock, streams))
            for name in LISTED
        ),
        Corner("W1: compressed output", stock, "our listing", partial(_compressed_stock, "W1", stock, streams)),
        Corner(
            "AND of three, compressed output",
            size(10_000),
            "our listing",
            partial(_compressed, "AND(A a, B b, C c) WHERE a.x < b.x WITHIN 20 ms", size(10_000)),
        ),
        Corner(
            "SEQ of three, compressed output",
            size(30_000),
            "our listing",
            partial(_compressed, f"{triple} WHERE a.x < b.x WITHIN 50 ms", size(30_000)),
        ),
        Corner(
            "a pair with two matches an end, compressed output",
            small,
            "our listing",
            partial(_compressed, f"{pair} WHERE a.x < b.x WITHIN 5 ms", small),
        ),
        Corner(
            "a pair with two matches an end, rows again of compressed output",
            small,
            "our listing",
            partial(_expanded, f"{pair} WHERE a.x < b.x WITHIN 5 ms", small),
        ),
        Corner(
            "rising lists, compressed output",
            size(1_500),
            "our listing",
            partial(_compressed, "A+ a[] WHERE a[i].x > a[i-1].x WITHIN 30 ms", size(1_500), "A"),
        ),
        Corner(
            "count a pair within 100 seconds",
            small,
            "NumPy, searchsorted",
            partial(_counted, f"{pair} WITHIN 100 seconds", small, 100_000_000, 2),
        ),
        Corner(
            "count three within 300 ms",
            small,
            "NumPy, prefix sums",
            partial(_counted, f"{triple} WITHIN 300 ms", small, 300_000, 3),
        ),
        Corner(
            "count three within 1 second",
            small,
            "NumPy, prefix sums",
            partial(_counted, f"{triple} WITHIN 1 second", small, 1_000_000, 3),
        ),
        Corner(
            f"count rising lists within {RISING_WINDOW} events",
            size(RISING_EVENTS),
            "a loop in Python",
            partial(_rising, size(RISING_EVENTS), RISING_WINDOW),
        ),
        Corner(
            "count rising lists within 40 events",
            small,
            "NumPy, all starts side by side",
            partial(_rising_side_by_side, small, 40),
        ),
        Corner(
            "count lists that end above their beginning, within 100 ms",
            size(60_000),
            "NumPy, the pairs of ends of each start",
            partial(_above_their_beginning, size(60_000), 100_000),
        ),
        *(
            Corner(name, size(20_000), peer, partial(_of_windows, size(20_000), *arguments))
            for name, peer, *arguments in LISTS
        ),
        Corner(
            "count four that rise, within 1 second",
            size(20_000),
            "NumPy, sums behind each start",
            partial(_rising_four, size(20_000), "1 second", _four_behind_each),
        ),
        Corner(
            "count four that rise, within a day",
            size(100_000),
            "trees of sums in Python",
            partial(_rising_four, size(100_000), "1 day", _four_by_trees),
        ),
        Corner(
            "negation by an equality that is spelled out, 1 hour",
            keyed,
            "DuckDB",
            partial(
                _beside_duckdb,
                "SEQ(A a, ~B b, C c) WHERE a.k = c.k AND b.k = a.k WITHIN 1 hour",
                keyed,
                "SELECT count(*) FROM a JOIN c ON a.k = c.k AND c.ts > a.ts AND c.ts <= a.ts + 3600000000 WHERE NOT "
                "EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.ts > a.ts AND b.ts < c.ts)",
            ),
        ),
        Corner(
            "negation before the first event, equalities spelled out",
            small,
            "DuckDB",
            partial(
                _beside_duckdb,
                "SEQ(~A a, B b, C c) WHERE a.k = b.k AND b.k = c.k WITHIN 60 seconds",
                small,
                "SELECT count(*) FROM b JOIN c ON b.k = c.k AND c.ts > b.ts AND c.ts <= b.ts + 60000000 WHERE NOT "
                "EXISTS (SELECT 1 FROM a WHERE a.k = b.k AND a.ts < b.ts AND a.ts >= c.ts - 60000000)",
            ),
        ),
        *(
            Corner(
                f"{mechanism}: equalities spelled out, 4 seconds",
                size(60_000),
                "the same written [k]",
                partial(_spelled_out, "SEQ(A a, B b, C c)", "a.k = b.k AND b.k = c.k", mechanism, size(60_000)),
            )
            for mechanism in ("multitree", "lazy_tree_nfa", "eager_nfa", "nfab")
        ),
        Corner(
            "lists with equalities spelled out, multitree, 2 seconds",
            size(60_000),
            "the same written [k]",
            partial(_spelled_out, "SEQ(A a, B+ b[], C c)", "b[].k = a.k AND c.k = a.k", "multitree", size(60_000)),
        ),
        *(
            Corner(
                f"negation by a {name}, 20 seconds",
                size(40_000),
                "NumPy, running maximum of each start",
                partial(_negated, size(40_000), condition),
            )
            for name, condition in NEGATIONS.items()
        ),
        Corner(
            "pairs of trades around a negated sequence, 60 seconds",
            size(200_000),
            "the same sequence, searched positively",
            partial(_negated_sequence, size(200_000), streams),
        ),
        Corner(
            "pairs of trades, and what follows a pair: two patterns, one composes the other",
            size(200_000),
            "the same three trades as one pattern",
            partial(_composition, size(200_000), streams),
        ),
        *(
            Corner(
                f"one of {together} patterns{one.kind}, in a call over new events: {one.work}",
                min(events, size(events)),
                one.peer,
                partial(_small_calls, min(events, size(events)), max(int(SMALL_CALLS * share), 1), together, one),
            )
            for events in SMALL_EVENTS
            for one in SMALL
        ),
        Corner(
            "CONSUME MATCHED, the plan of the default cost",
            size(60_000),
            "the plan of the cost `throughput`",
            partial(_consume, size(60_000)),
        ),
        Corner("W4: count", stock, "scalar C++, listing", partial(_count_beside_cpp, "W4", stock, streams, folder)),
        Corner(
            "10^8 partial matches, few matches",
            small,
            "DuckDB",
            partial(
                _beside_duckdb,
                "SEQ(A a, B b, C c) WHERE a.x > 0.5 AND c.x < 0.5 AND a.x < b.x AND b.y < c.x WITHIN 20 seconds",
                small,
                "SELECT count(*) FROM a JOIN b ON b.ts > a.ts AND b.ts <= a.ts + 20000000 AND a.x < b.x JOIN c ON "
                "c.ts > b.ts AND c.ts <= a.ts + 20000000 AND b.y < c.x WHERE a.x > 0.5 AND c.x < 0.5",
            ),
        ),
        Corner(
            "10^7 partial matches, few matches, of a new table each time",
            size(60_000),
            "the kernel, without removing events first",
            partial(_output_sensitive, size(60_000)),
        ),
        Corner(
            "the first `cep detect` of a machine",
            COLD_EVENTS,
            "Python, importing NumPy and pyarrow and reading the file",
            partial(_command, folder, cold=True),
        ),
        *(
            Corner(
                f"the first `cep detect` of a machine, on {mechanism}",
                COLD_EVENTS,
                "Python, importing NumPy and pyarrow and reading the file",
                partial(_command, folder, cold=True, mechanism=mechanism),
            )
            for mechanism in MECHANISMS
        ),
        Corner(
            "every later `cep detect`",
            COLD_EVENTS,
            "Python, importing NumPy and pyarrow and reading the file",
            partial(_command, folder, cold=False),
        ),
        Corner(
            "`cep run` over two days of trades, three patterns",
            size(1_100_000),
            "DuckDB: reading, sorting, three joins, writing",
            partial(_run_of_days, folder, size(1_100_000)),
        ),
    ]


def measure_corners(chosen: Sequence[Corner], repetitions: int, progress: Progress) -> list[tuple[Corner, Comparison]]:
    """Do the work of each corner and of its peer in turn; corners whose peer is missing are left out.

    A peer that gives other numbers is a CepError.
    """
    measured = []
    for corner in chosen:
        progress.begin(f"preparing: {corner.job}", 1)
        with one_core():
            pair = corner.prepare()
            if pair is None:
                continue
            engines = dict(zip(("ours", corner.peer), pair, strict=True))
            timings, number = measure_in_turn(engines, repetitions, None, corner.job, progress)
        mine, theirs = timings.values()
        measured.append((corner, Comparison(corner.job, corner.events, number, mine, (theirs,))))
    return measured


def corners_table(measured: Sequence[tuple[Corner, Comparison]]) -> str:
    """A row of each corner: seconds of both, and how many times as fast we are."""
    rows = [
        [
            corner.job,
            f"{corner.events:,}",
            f"{found.matches:,}" if found.matches < 10**15 else f"{found.matches:.1e}",
            format_seconds(found.ours.median),
            corner.peer,
            format_seconds(found.peers[0].median),
            times_as_fast(found.ratio(found.peers[0])),
            _wanted(corner, found),
        ]
        for corner, found in measured
    ]
    header = ["job", "events", "matches", "ours", "peer", "its time", "we are x as fast", "wanted"]
    return markdown_table(header, rows)


def _wanted(corner: Corner, found: Comparison) -> str:
    """The share of the speed of reading and writing alone that is wanted: nobody can be faster than that."""
    if corner.peer != READING_AND_WRITING:
        return ""
    least = share_wanted(found.events, found.matches)
    return f"{least:g}: {'met' if found.ratio(found.peers[0]) >= least else 'MISSED'}"


def _timed(count: Callable[[], int], parts: int = 1) -> Work:
    """Work in this process that returns a number; the time is that of one of so many equal parts."""

    def run() -> Measurement:
        begin = time.process_time()
        number = count()
        return Measurement((time.process_time() - begin) / parts, number)

    return run


def _drawn_pattern(text: str) -> Pattern:
    (pattern,) = parse_patterns(f"NAME corner PATTERN {text}", drawn_schema(), source="corner")
    return pattern


def _detection(patterns: Sequence[Pattern], events: pa.Table, plan: Plan, output: str) -> Work:
    """A call that finds the matches of all patterns, by a plan that is there; its number is that of all matches."""

    def number() -> int:
        found = detect(patterns, events, plan, output=output)
        if output == "verbose":
            return sum(table.num_rows for table in found.values())
        if output == "compressed":  # as many rows as events: adding them up in Python would be a part of the time
            return sum(int(pc.sum(table["count"].cast(pa.int64())).as_py()) for table in found.values())
        return sum(int(count) for table in found.values() for count in table["count"].to_pylist())

    return _timed(number)


def _file_to_matches(name: str, events: int, streams: Streams, folder: Path) -> tuple[Work, Work]:
    return _from_file(WORKLOADS[name].patterns(), events, streams, folder)


def _file_to_few(events: int, streams: Streams, folder: Path) -> tuple[Work, Work]:
    return _from_file(parse_patterns(FEW, stock_schema()), events, streams, folder)


def _from_file(patterns: Sequence[Pattern], events: int, streams: Streams, folder: Path) -> tuple[Work, Work]:
    """Events read, and a pattern's matches found and written, as `cep detect` does; and the same without detection."""
    file, written = folder / "stock.parquet", folder / "matches.parquet"
    if not file.exists():
        pq.write_table(streams.stock(events).table(), file)
    columns = list(columns_needed(patterns))

    def read() -> pa.Table:
        return pq.read_table(file, columns=columns, use_threads=False)

    plan = _plan(patterns, read())

    def found() -> pa.Table:
        events = load_events(stock_schema(), [file], columns=columns).events
        return detect(patterns, events, plan)[patterns[0].name]

    def ours() -> int:
        matches = found()
        write_table(matches, written)
        return int(matches.num_rows)

    listed = found()

    def peer() -> int:
        read()
        write_table(listed, written)
        return int(listed.num_rows)

    return _timed(ours), _timed(peer)


def _listed(name: str, events: int, streams: Streams) -> tuple[Work, Work] | None:
    joins = duckdb_joins()
    if joins is None:
        return None
    table = streams.stock(events).table()
    joins.load(table)
    patterns = WORKLOADS[name].patterns()
    plan = _plan(patterns, table)
    return _detection(patterns, table, plan, "verbose"), partial(joins.run, name)


def _compressed_stock(name: str, events: int, streams: Streams) -> tuple[Work, Work]:
    return _compressed_of(WORKLOADS[name].patterns(), streams.stock(events).table())


def _compressed(text: str, events: int, types: str = "ABC") -> tuple[Work, Work]:
    return _compressed_of([_drawn_pattern(text)], drawn_events(events, types=types))


def _expanded(text: str, events: int) -> tuple[Work, Work]:
    patterns, table = [_drawn_pattern(text)], drawn_events(events)
    plan = _plan(patterns, table)
    [compressed] = detect(patterns, table, plan, output="compressed").values()
    return _timed(lambda: expand(compressed).read_all().num_rows), _detection(patterns, table, plan, "verbose")


def _compressed_of(patterns: Sequence[Pattern], table: pa.Table) -> tuple[Work, Work]:
    plan = _plan(patterns, table)
    return _detection(patterns, table, plan, "compressed"), _detection(patterns, table, plan, "verbose")


def _counted(text: str, events: int, window_us: int, variables: int) -> tuple[Work, Work]:
    table, pattern = drawn_events(events), _drawn_pattern(text)
    plan = _plan([pattern], table)
    times = table["timestamp"].to_numpy()
    kinds = table["kind"].combine_chunks().indices.to_numpy()
    of_type = [times[kinds == code] for code in range(variables)]
    count = _pairs_within if variables == 2 else _triples_within
    return _detection([pattern], table, plan, "count"), _timed(partial(count, of_type, window_us))


def _pairs_within(of_type: Sequence[Numbers], window_us: int) -> int:
    first, last = of_type
    behind = np.searchsorted(last, first + window_us, "right") - np.searchsorted(last, first, "right")
    return int(behind.sum())


def _triples_within(of_type: Sequence[Numbers], window_us: int) -> int:
    """Triples in order: of each last event, the pairs in its window, by sums over all that came before."""
    first, middle, last = of_type
    firsts = np.searchsorted(first, middle, "left")
    pairs = np.concatenate([[0], np.cumsum(firsts)])
    until, since = np.searchsorted(middle, last, "left"), np.searchsorted(middle, last - window_us, "left")
    too_early = np.searchsorted(first, last - window_us, "left")
    return int((pairs[until] - pairs[since] - too_early * (until - since)).sum())


def _above_their_beginning(events: int, window_us: int) -> tuple[Work, Work]:
    table = drawn_events(events)
    pattern = _drawn_pattern(f"SEQ(A a, B+ b[], C c) WHERE b[b.LEN].x > b[1].x WITHIN {window_us} us")
    times, values = table["timestamp"].to_numpy(), table["x"].to_numpy()
    kinds = table["kind"].combine_chunks().indices.to_numpy()
    starts, elements, ends = (times[kinds == code] for code in range(3))
    of_elements = values[kinds == 1]
    most = window_us // EVENT_US
    place = np.arange(most)
    between = np.where(place > place[:, np.newaxis], 2 ** np.maximum(place - place[:, np.newaxis] - 1, 0), 0)

    def peer() -> int:
        """Add for each start the lists between two elements, by the elements between, times the ends of the match."""
        total = 0
        for start in starts.tolist():
            low, high = np.searchsorted(elements, (start, start + window_us), "right")
            own = of_elements[low:high]
            lists = np.where(own > own[:, np.newaxis], between[: high - low, : high - low], 0).sum(axis=0)
            behind = np.searchsorted(ends, start + window_us, "right") - np.searchsorted(ends, elements[low:high])
            total += int((lists * behind).sum())
        return total

    return _detection([pattern], table, _plan([pattern], table), "count"), _timed(peer)


@dataclass(frozen=True)
class _Window:
    """The value of a first event, and the instants and values of the elements and the last events in its window."""

    value: float
    elements: Numbers
    of_elements: npt.NDArray[np.float64]
    ends: Numbers
    of_ends: npt.NDArray[np.float64]


def _of_windows(
    events: int, text: str, count: Callable[[_Window], int], window_us: int = 300_000, summary: str = ""
) -> tuple[Work, Work]:
    """Lists between A and C, beside a function that counts those of each A."""
    table, pattern = drawn_events(events), _drawn_pattern(f"{text} WITHIN {window_us} us {summary}")
    times, values = table["timestamp"].to_numpy(), table["x"].to_numpy()
    kinds = table["kind"].combine_chunks().indices.to_numpy()
    (starts, elements, ends), of_kind = ([own[kinds == code] for code in range(3)] for own in (times, values))

    def peer() -> int:
        total = 0
        for start, value in zip(starts.tolist(), of_kind[0].tolist(), strict=True):
            here, there = (
                slice(*np.searchsorted(own, (start, start + window_us), "right").tolist()) for own in (elements, ends)
            )
            total += count(_Window(value, elements[here], of_kind[1][here], ends[there], of_kind[2][there]))
        return total

    plan = _plan([pattern], table)
    if not summary:
        return _detection([pattern], table, plan, "count"), _timed(peer)

    def grouped() -> int:
        [rows] = detect([pattern], table, plan).values()
        return sum(map(int, rows["count"].to_pylist()))

    return _timed(grouped), _timed(peer)


def _sum_of_powers(exponents: Numbers, weights: Numbers) -> int:
    """The sum of powers of two, each as often as its weight says."""
    often = np.bincount(exponents.ravel(), weights.ravel())
    return sum(int(often[exponent]) << int(exponent) for exponent in np.flatnonzero(often))


def _two_lists(window: _Window) -> int:
    """Count pairs of lists: any elements may lie between the two first ones, and behind the later one."""
    behind = np.searchsorted(window.elements, window.ends)  # elements before each end
    place = np.arange(len(window.elements))[:, np.newaxis]
    passes = (window.of_elements[:, np.newaxis] < window.of_ends) & (place < behind)
    free = np.maximum(behind - place - 1, 0) + np.arange(len(window.ends))[::-1]
    return _sum_of_powers(free, passes.astype(np.int64))


def _short_and_long(window: _Window) -> int:
    """Count pairs of lists: up to two elements may lie between the two first ones, and any behind the later one."""
    behind = np.searchsorted(window.elements, window.ends)
    place = np.arange(len(window.elements))[:, np.newaxis]
    passes = (window.of_elements[:, np.newaxis] < window.of_ends) & (place < behind)
    between = np.maximum(behind - place - 1, 0)
    free = np.broadcast_to(np.arange(len(window.ends))[::-1], passes.shape)
    return _sum_of_powers(free, np.where(passes, 1 + between + between * (between - 1) // 2, 0))


def _without_gaps(window: _Window) -> int:
    total, first, sums = 0, 0, [0]
    ends = (len(window.ends) - np.searchsorted(window.ends, window.elements)).tolist()
    times = window.elements.tolist()
    for place, (at, behind) in enumerate(zip(times, ends, strict=True)):
        while at - times[first] >= 30_000:
            first += 1
        lists = 1 + sums[place] - sums[first]
        sums.append(sums[-1] + lists)
        total += lists * behind
    return total


def _above_first(window: _Window) -> int:
    """Count lists of a first element and any of the greater ones behind it, before the end."""
    size = len(window.elements)
    above = np.triu(window.of_elements > window.of_elements[:, np.newaxis], 1)
    before = np.zeros((size, size + 1), np.int64)
    np.cumsum(above, axis=1, out=before[:, 1:])
    last = np.searchsorted(window.elements, window.ends)
    return _sum_of_powers(before[:, last], (np.arange(size)[:, np.newaxis] < last).astype(np.int64))


def _crossed(window: _Window) -> int:
    size = len(window.elements)
    above = window.of_elements[:, np.newaxis] < window.of_ends
    last = np.searchsorted(window.ends, window.elements)
    ends = np.cumsum(above[:, ::-1], axis=1)[:, ::-1]
    behind = np.concatenate((ends, np.zeros((size, 1), np.int64)), axis=1)[:, last]  # ends behind each last element
    apart = np.arange(size) - np.arange(size)[:, np.newaxis]
    passes = (apart >= 0) & (window.of_elements > window.value)
    return _sum_of_powers(np.maximum(apart - 1, 0), np.where(passes, behind, 0))


@cache
def _lists_by_length() -> Numbers:
    """Return for a number of events and a length how many lists of this length they make; exact up to 60 events."""
    return np.array([[math.comb(events, length) for length in range(61)] for events in range(61)])


def _elements_by_length(window: _Window) -> int:
    """Count the elements of all lists by the length of these, and add them up."""
    ends = np.bincount(np.searchsorted(window.elements, window.ends), minlength=1)
    elements = ends @ _lists_by_length()[: len(ends)] * np.arange(61)
    return int(elements.sum())


LISTS: tuple[tuple[Any, ...], ...] = (
    (
        "count two lists whose first elements are compared, within 300 ms",
        "NumPy, the pairs of first elements of each start",
        "SEQ(A a, B+ b[], C+ c[]) WHERE b[1].x < c[1].x",
        _two_lists,
    ),
    (
        "count a list of at most three and another one, first elements compared, within 300 ms",
        "NumPy, the pairs of first elements of each start",
        "SEQ(A a, B{1,3} b[], C+ c[]) WHERE b[1].x < c[1].x",
        _short_and_long,
    ),
    (
        "count lists without a gap of 30 ms, within 300 ms",
        "a loop in Python",
        "SEQ(A a, B+ b[], C c) WHERE b[i].timestamp - b[i-1].timestamp < 30 ms",
        _without_gaps,
    ),
    (
        "count lists with crossed conditions on their ends, within 300 ms",
        "NumPy, the pairs of ends of each start",
        "SEQ(A a, B+ b[], C c) WHERE b[1].x < c.x AND b[b.LEN].x > a.x",
        _crossed,
    ),
    (
        "lists above their first element, within 100 ms, counted by the second",
        "NumPy, the elements above each first one of each start",
        "SEQ(A a, B+ b[], C c) WHERE b[i].x > b[1].x",
        _above_first,
        100_000,
        "SUMMARIZE count(*) AS count GROUP BY bucket(1 second) AS second",
    ),
    (
        "elements of lists by the length of the list, within 100 ms",
        "NumPy, binomial coefficients for each start",
        "SEQ(A a, B+ b[], C c)",
        _elements_by_length,
        100_000,
        "SUMMARIZE sum(b.LEN) AS count GROUP BY b.LEN AS length",
    ),
)
"""Corners of lists: name, peer, arguments of `_of_windows` behind the number of events."""


def _rising_four(
    events: int, window: str, count: Callable[[Numbers, npt.NDArray[np.float64]], int]
) -> tuple[Work, Work]:
    """Four events of different types with rising values, beside a function of the types and values of all events."""
    table = drawn_events(events, types="ABCD")
    pattern = _drawn_pattern(f"SEQ(A a, B b, C c, D d) WHERE a.x < b.x AND b.x < c.x AND c.x < d.x WITHIN {window}")
    kinds, values = table["kind"].combine_chunks().indices.to_numpy(), table["x"].to_numpy()
    return _detection([pattern], table, _plan([pattern], table), "count"), _timed(partial(count, kinds, values))


def _four_behind_each(kinds: Numbers, values: npt.NDArray[np.float64]) -> int:
    """Count the pairs and triples behind each first event within a second, by comparing all with all."""
    places = [np.flatnonzero(kinds == code) for code in range(4)]
    total = 0
    for start in places[0].tolist():
        ways = np.ones(1, np.int64)
        before = np.array([start])
        for of_type in places[1:]:
            here = of_type[np.searchsorted(of_type, start) : np.searchsorted(of_type, start + 1_000, "right")]
            follows = (before[:, None] < here) & (values[before][:, None] < values[here])
            ways, before = ways @ follows, here
        total += int(ways.sum())
    return total


def _four_by_trees(kinds: Numbers, values: npt.NDArray[np.float64]) -> int:
    """One pass over all events, with a tree of sums over the values for each type."""
    total, size = 0, len(values)
    trees = [[0] * (size + 1) for _ in range(3)]
    for kind, rank in zip(kinds.tolist(), np.argsort(np.argsort(values)).tolist(), strict=True):
        ways, at = int(kind == 0), rank if kind else 0
        while at:
            ways, at = ways + trees[kind - 1][at], at & (at - 1)
        if kind == 3:
            total += ways
            continue
        at = rank + 1
        while at <= size:
            trees[kind][at] += ways
            at += at & -at
    return total


def _rising_lists(events: int, window: int) -> tuple[Work, npt.NDArray[np.float64]]:
    table = drawn_events(events, types="A")
    pattern = _drawn_pattern(f"A+ a[] WHERE a[i].x > a[i-1].x WITHIN {window} ms")
    return _detection([pattern], table, _plan([pattern], table), "count"), table["x"].to_numpy()


def _rising_side_by_side(events: int, window: int) -> tuple[Work, Work]:
    ours, values = _rising_lists(events, window)

    def peer() -> int:
        total = 0
        for begin in range(0, events, 1 << 12):  # starts at once
            here = np.append(values[begin : begin + (1 << 12) + window], np.full(window, -np.inf))
            starts = min(1 << 12, events - begin)
            ending = np.zeros((window + 1, starts), np.int64)
            ending[0] = 1
            for last in range(1, window + 1):
                for before in range(last):
                    rises = here[before : before + starts] < here[last : last + starts]
                    ending[last] += ending[before] * rises
            total += int(ending.sum())
        return total

    return ours, _timed(peer)


def _rising(events: int, window: int) -> tuple[Work, Work]:
    ours, values = _rising_lists(events, window)

    def peer() -> int:
        total = 0
        for start in range(events):  # lists that begin here
            lists = [0] * events
            lists[start] = 1
            ends = min(events, start + window + 1)
            ranks = np.argsort(np.argsort(values[start:ends]))
            tree = [0] * (len(ranks) + 1)
            for place, rank in enumerate(ranks.tolist()):
                below, at = 0, rank
                while at:
                    below, at = below + tree[at], at & (at - 1)
                here = 1 if place == 0 else (below if rank > ranks[0] else 0)
                total += here
                at = rank + 1
                while at < len(tree):
                    tree[at] += here
                    at += at & -at
        return total

    return ours, _timed(peer)


def _beside_duckdb(text: str, events: int, query: str, keys: int = 100_000) -> tuple[Work, Work] | None:
    try:
        import duckdb
    except ImportError:
        return None
    table, pattern = drawn_events(events, keys=keys), _drawn_pattern(text)
    plan = _plan([pattern], table)
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.register("drawn", table)
    for kind in "ABC":
        connection.execute(
            f"CREATE TABLE {kind.lower()} AS SELECT \"timestamp\" AS ts, k, x, y FROM drawn WHERE kind = '{kind}'"
        )
    return _detection([pattern], table, plan, "count"), _timed(lambda: int(connection.execute(query).fetchall()[0][0]))


def _spelled_out(structure: str, equalities: str, mechanism: str, events: int) -> tuple[Work, Work]:
    """A mechanism over equalities that say that all events agree on `k`, beside the same pattern with `[k]`."""
    table = drawn_events(events, keys=200)
    within = "WITHIN 4 seconds" if "+" not in structure else "WITHIN 2 seconds"

    def work(condition: str) -> Work:
        pattern = _drawn_pattern(f"{structure} WHERE {condition} {within}")
        plan = None if in_pattern_order({pattern.name: mechanism}) else _plan([pattern], table)
        return _timed(lambda: detect([pattern], table, plan, mechanism=mechanism)[pattern.name].num_rows)

    return work(equalities), work("[k]")


def _output_sensitive(events: int) -> tuple[Work, Work]:
    """Existence under inequalities within a window: events in no match go before any are combined, or they do not."""
    from cep_pipeline.detection.fused import reduction

    table = drawn_events(events)
    pattern = _drawn_pattern("SEQ(A a, B b, C c) WHERE b.x > a.x + 0.5 AND c.x > b.x + 0.495 WITHIN 20 seconds")
    plan = _plan([pattern], table)

    def count() -> int:
        anew = pa.table({name: table[name].combine_chunks() for name in table.column_names})
        return int(detect([pattern], anew, plan, output="count")[pattern.name]["count"][0].as_py())

    def plain() -> int:
        with patch.object(reduction, "FEWEST_COMBINATIONS", 1 << 62):
            return count()

    return _timed(count), _timed(plain)


def _negated(events: int, condition: str) -> tuple[Work, Work]:
    table = drawn_events(events, keys=20)
    pattern = _drawn_pattern(f"SEQ(A a, ~B b, C c) WHERE {condition} WITHIN 20 seconds")
    plan = _plan([pattern], table)
    times, values, keys = (table[name].to_numpy() for name in ("timestamp", "x", "k"))
    is_product, is_keyed = "*" in condition, "b.k" in condition
    kinds = table["kind"].combine_chunks().indices.to_numpy()

    def peer() -> int:
        total = 0
        for start in np.flatnonzero(kinds == 0).tolist():
            end = int(np.searchsorted(times, times[start] + 20_000_000, "right"))
            seen, value = kinds[start + 1 : end], values[start + 1 : end]
            rejecting = (seen == 1) & (keys[start + 1 : end] == keys[start]) if is_keyed else seen == 1
            own, limit = (value * values[start], value) if is_product else (value, values[start] + value)
            largest = np.maximum.accumulate(np.where(rejecting, own, -np.inf))
            total += int(np.count_nonzero((seen == 2) & ~(largest > limit)))
        return total

    return _detection([pattern], table, plan, "count"), _timed(peer)


def _negated_sequence(events: int, streams: Streams) -> tuple[Work, Work]:
    """The pairs that a negated sequence rejects, beside those that the sequence finds between the same events."""
    table, window = streams.stock(events).table(), "WITHIN 60 seconds"
    ends, joined = "a.diff < -0.05 AND d.diff > 0.05", "b.diff < a.diff AND c.diff > d.diff"
    texts = {
        "pairs": f"SEQ(S16 a, S19 d) WHERE {ends} {window}",
        "negated": f"SEQ(S16 a, ~SEQ(S17 b, S18 c), S19 d) WHERE {ends} AND {joined} {window}",
        "positive": f"SEQ(S16 a, S17 b, S18 c, S19 d) WHERE {ends} AND {joined} {window} RETURN a.seq AS a, d.seq AS d",
    }
    parsed = {name: parse_patterns(f"NAME {name} PATTERN {text}", stock_schema())[0] for name, text in texts.items()}
    plans = {name: _plan([pattern], table) for name, pattern in parsed.items()}

    def number(name: str) -> int:
        return int(detect([parsed[name]], table, plans[name], output="count")[name]["count"][0].as_py())

    def peer() -> int:
        found = detect([parsed["positive"]], table, plans["positive"])["positive"]
        return int(found.group_by(["a", "d"]).aggregate([]).num_rows)

    return _timed(lambda: number("pairs") - number("negated")), _timed(peer)


def _composition(events: int, streams: Streams) -> tuple[Work, Work]:
    """Pairs that are found first, and bound as events of a second pattern, beside one pattern of all three trades."""
    table, window = streams.stock(events).table(), "WITHIN 5 seconds"
    pair = f"NAME pair PATTERN SEQ(S16 a, S17 b) WHERE b.diff < a.diff - 0.1 {window} RETURN b.diff AS diff;"
    then = f"SEQ(pair p, S18 c) WHERE c.diff > p.diff + 0.2 AND c.timestamp - p.start_ts <= 5 seconds {window}"
    whole = f"SEQ(S16 a, S17 b, S18 c) WHERE b.diff < a.diff - 0.1 AND c.diff > b.diff + 0.2 {window}"
    composing = parse_patterns(f"{pair} NAME then PATTERN {then}", stock_schema())
    together = parse_patterns(f"NAME whole PATTERN {whole}", stock_schema())
    plan = _plan(together, table)
    return (
        _timed(lambda: detect(composing, table)["then"].num_rows),
        _timed(lambda: detect(together, table, plan)["whole"].num_rows),
    )


@dataclass(frozen=True)
class _Small:
    """Patterns over three types, written with their names, and a query for their output over the tables of these.

    Attributes
    ----------
    clauses
        What is written behind the window.
    consumes
        Whether the query gives all matches in the page's order, of which a loop chooses those without a used event.
    """

    kind: str
    output: str
    pattern: str
    query: str
    clauses: str = ""
    consumes: bool = False

    @property
    def work(self) -> str:
        if "SUMMARIZE" in self.clauses:
            return "all rows"
        return "count" if self.output == "count" else "list all matches"

    @property
    def peer(self) -> str:
        of_each = "DuckDB, a query for each pattern"
        return f"{of_each}, and a loop in Python" if self.consumes else of_each

    def text(self, types: Sequence[str]) -> str:
        """The text of the pattern over three types."""
        structure = self.pattern.format(**dict(zip("abc", types, strict=True)))
        return f"{structure} WITHIN {SMALL_WINDOW_MS} ms {self.clauses}"


_RISING = (
    "FROM {a} a JOIN {b} b ON b.ts > a.ts AND a.x < b.x JOIN {c} c ON c.ts > b.ts AND b.x < c.x "
    "AND c.ts <= a.ts + {window}"
)


SMALL = (
    _Small(
        "",
        "verbose",
        "SEQ({a} a, {b} b, {c} c) WHERE a.x < b.x AND b.x < c.x",
        f"SELECT a.seq, b.seq, c.seq {_RISING}",
    ),
    _Small(
        " with a negation",
        "verbose",
        "SEQ({a} a, ~{b} b, {c} c) WHERE b.x > a.x + c.x",
        "SELECT a.seq, c.seq FROM {a} a JOIN {c} c ON c.ts > a.ts AND c.ts <= a.ts + {window} WHERE NOT EXISTS "
        "(SELECT 1 FROM {b} b WHERE b.ts > a.ts AND b.ts < c.ts AND b.x > a.x + c.x)",
    ),
    _Small(
        " with a list",
        "count",
        "SEQ({a} a, {b}+ b[], {c} c) WHERE a.x < c.x",
        "SELECT CAST(coalesce(sum((1 << n) - 1), 0) AS BIGINT) FROM (SELECT count(*) AS n FROM {a} a JOIN {c} c ON "
        "c.ts > a.ts AND c.ts <= a.ts + {window} AND a.x < c.x JOIN {b} b ON b.ts > a.ts AND b.ts < c.ts "
        "GROUP BY a.seq, c.seq)",
    ),
    _Small(
        " with a condition on a whole list",
        "count",
        "SEQ({a} a, {b}+ b[], {c} c) WHERE b[b.LEN].x > b[1].x",
        "WITH b AS (SELECT *, row_number() OVER (ORDER BY ts) AS place FROM {b}) SELECT CAST(coalesce(sum(1 << "
        "(e.place - b.place - 1)), 0) AS BIGINT) FROM {a} a JOIN {c} c ON c.ts > a.ts AND c.ts <= a.ts + {window} "
        "JOIN b ON b.ts > a.ts JOIN b e ON e.ts > b.ts AND e.ts < c.ts AND e.x > b.x",
    ),
    _Small(
        " with a negated sequence",
        "verbose",
        "SEQ({a} a, ~SEQ({b} b, {c} e), {c} c) WHERE b.x < e.x",
        "SELECT a.seq, c.seq FROM {a} a JOIN {c} c ON c.ts > a.ts AND c.ts <= a.ts + {window} WHERE NOT EXISTS "
        "(SELECT 1 FROM {b} b JOIN {c} e ON e.ts > b.ts AND e.x > b.x WHERE b.ts > a.ts AND e.ts < c.ts)",
    ),
    _Small(
        " with CONSUME MATCHED",
        "verbose",
        "SEQ({a} a, {b} b, {c} c) WHERE a.x < b.x AND b.x < c.x",
        f"SELECT a.seq, b.seq, c.seq {_RISING} ORDER BY c.seq, a.seq, b.seq",
        "CONSUME MATCHED",
        consumes=True,
    ),
    _Small(
        " with SUMMARIZE",
        "verbose",
        "SEQ({a} a, {b} b, {c} c) WHERE a.x < b.x AND b.x < c.x",
        f"SELECT a.k, count(*) AS n, avg(c.x) AS x {_RISING} GROUP BY a.k",
        "SUMMARIZE count(*) AS n, avg(c.x) AS x GROUP BY a.k",
    ),
)


def _small_calls(events: int, calls: int, together: int, small: _Small) -> tuple[Work, Work] | None:
    """The time of one pattern in one call, of many patterns that are run over new events again and again."""
    try:
        import duckdb
    except ImportError:
        return None
    draw = random.Random(5)
    types = [draw.sample(SMALL_TYPES, 3) for _ in range(together)]
    patterns = [replace(_drawn_pattern(small.text(own)), name=f"small_{number}") for number, own in enumerate(types)]
    tables = [drawn_events(events, keys=SMALL_KEYS, types=SMALL_TYPES, seed=seed) for seed in range(calls)]
    plan = _plan(patterns, tables[0])
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    for number, table in enumerate(tables):
        connection.register(f"drawn_{number}", table)
        for kind in SMALL_TYPES:
            connection.execute(
                f'CREATE TABLE {kind}{number} AS SELECT "timestamp" AS ts, seq, k, x FROM drawn_{number} '
                f"WHERE kind = '{kind}'"
            )

    def ours() -> int:
        fresh = [pa.table(dict(zip(table.column_names, table.columns, strict=True))) for table in tables]
        found = (one for table in fresh for one in detect(patterns, table, plan, output=small.output).values())
        return sum(int(one["count"][0].as_py()) if small.output == "count" else one.num_rows for one in found)

    def peer() -> int:
        total = 0
        for number in range(calls):
            for a, b, c in types:
                names = {"a": f"{a}{number}", "b": f"{b}{number}", "c": f"{c}{number}"}
                query = small.query.format(**names, window=1000 * SMALL_WINDOW_MS)
                found = connection.sql(query).to_arrow_table()
                if small.consumes:
                    total += _without_used_events(found)
                else:
                    total += found[0][0].as_py() if small.output == "count" else found.num_rows
        return total

    return _timed(ours, calls * together), _timed(peer, calls * together)


def _without_used_events(matches: pa.Table) -> int:
    """The number of matches, one after another, none of whose events is in one of them before."""
    kept = 0
    used: set[int] = set()
    for match in zip(*(column.to_pylist() for column in matches.columns), strict=True):
        if used.isdisjoint(match):
            used.update(match)
            kept += 1
    return kept


def _consume(events: int) -> tuple[Work, Work]:
    from cep_pipeline.planning.make_plan import plan
    from cep_pipeline.statistics import estimate_statistics

    draw = np.random.default_rng(3)
    shares = np.array([0.05, 0.3, 0.3, 0.3, 0.05])
    table = drawn_events(events, types="ABCDE")
    codes = pa.array(draw.choice(5, events, p=shares).astype(np.int32))
    kinds = pa.DictionaryArray.from_arrays(codes, pa.array(list("ABCDE")))
    table = table.set_column(table.schema.get_field_index("kind"), "kind", kinds)
    pattern = _drawn_pattern(
        "SEQ(A a, B b, C c, D d, E e) WHERE a.x < b.x AND d.x > c.x + 0.8 AND e.x > a.x + 0.5 WITHIN 50 ms "
        "CONSUME MATCHED"
    )
    snapshot = estimate_statistics([pattern], table)
    by_default = plan([pattern], snapshot)
    by_throughput = plan([pattern], snapshot, cost="throughput")
    return _detection([pattern], table, by_default, "verbose"), _detection([pattern], table, by_throughput, "verbose")


def _count_beside_cpp(name: str, events: int, streams: Streams, folder: Path) -> tuple[Work, Work] | None:
    binary = compile_reference(folder)
    if binary is None:
        return None
    stream = streams.stock(events)
    columns = folder / "columns.bin"
    stream.write_columns(columns)
    patterns, table = WORKLOADS[name].patterns(), stream.table()
    plan = _plan(patterns, table)
    reference = partial(run_reference, binary, columns, name, folder / "types.txt")
    return _detection(patterns, table, plan, "count"), reference


def _plan(patterns: Sequence[Pattern], events: pa.Table) -> Plan:
    from cep_pipeline.planning.make_plan import plan
    from cep_pipeline.statistics import estimate_statistics

    return plan(patterns, estimate_statistics(patterns, events))


def _command(folder: Path, *, cold: bool, mechanism: str | None = None) -> tuple[Work, Work]:
    """`cep detect` on a small file, with a cache of compiled code that is empty or was used before."""
    project = folder / f"{'cold' if cold else 'warm'}_{mechanism or 'chosen'}"
    project.mkdir()
    pq.write_table(drawn_events(COLD_EVENTS), project / "events.parquet")
    (project / "drawn.yaml").write_text(_SCHEMA, encoding="utf-8")
    (project / "pattern.sase").write_text("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10 ms", encoding="utf-8")
    detects = (
        sys.executable,
        "-m",
        "cep_pipeline.cli",
        "detect",
        "--patterns",
        "pattern.sase",
        "--schema",
        "drawn.yaml",
    )
    named = ("--mechanism", mechanism) if mechanism else ()
    options = ("--events", "events.parquet", "--out", "matches.parquet", *named)
    reads = "import numpy, pyarrow.parquet as pq; pq.read_table('events.parquet')"

    def ours() -> Measurement:
        with tempfile.TemporaryDirectory() as fresh:
            cache_folder = Path(fresh) if cold else project / "cache"
            return _process([*detects, *options], project, cache_folder)

    return ours, lambda: _process([sys.executable, "-c", reads], project, project / "cache")


def _process(command: Sequence[str], folder: Path, cache_folder: Path) -> Measurement:
    """Run a program, and measure it with all that it has started, whether it waited for that or not."""
    environment = {**os.environ, "CEP_CACHE_DIR": str(cache_folder)}
    environment.pop("MIMALLOC_PURGE_DELAY", None)  # each command sets its own
    with (folder / "said.txt").open("wb") as said:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=said, stderr=said)
        with Watched(process.pid) as watched:
            _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise CepError(f"{' '.join(command)}: {(folder / 'said.txt').read_text(errors='replace')[-500:]}")
    return Measurement(max(used.ru_utime + used.ru_stime, watched.processor_s), 1)


def _run_of_days(folder: Path, events: int) -> tuple[Work, Work] | None:
    """`cep run` over two generated days, beside DuckDB that reads, sorts, finds the same matches and writes."""
    try:
        import duckdb
    except ImportError:
        return None
    from cep_pipeline.generate.days import FILE_NAME, generate_days

    project = folder / "days"
    project.mkdir()
    for file, text in (("trades.yaml", SCHEMA), ("market.sase", _MARKET), ("pipeline.yaml", _PIPELINE)):
        (project / file).write_text(text, encoding="utf-8")
    generate_days(project / "raw", DAYS, stocks=8, events_per_day=events // len(DAYS))

    def ours() -> Measurement:
        warehouse = project / "warehouse"
        shutil.rmtree(warehouse, ignore_errors=True)
        used_s = _process([sys.executable, "-m", "cep_pipeline.cli", "run"], project, project / "cache").seconds
        tables = Warehouse.open(warehouse).open_stream("generated_trades")
        return Measurement(used_s, sum(unit.matches for unit in tables.matches_days()))

    def peer() -> int:
        connection = duckdb.connect()
        connection.execute("SET threads = 1")
        matches = 0
        files = [str(project / "raw" / str(day) / FILE_NAME) for day in DAYS]
        connection.execute(_TRADES_QUERY.format(files=files))
        connection.execute(f"COPY trades TO '{project}/events.parquet'")
        for name, query in _MARKET_QUERIES.items():
            connection.execute(f"CREATE OR REPLACE TABLE found AS {query}")
            connection.execute(f"COPY found TO '{project}/{name}.parquet'")
            matches += connection.execute("SELECT count(*) FROM found").fetchall()[0][0]
        return matches

    return ours, _timed(peer)
