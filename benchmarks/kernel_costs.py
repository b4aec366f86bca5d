"""`cep bench kernel-costs`: what a unit of the fused kernel's work costs here.

Patterns are run by many orders. What each run has counted (candidates, partial matches, ...) and the time
that it took give the constants of `KernelCosts`, by least squares of relative errors.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations, permutations
from types import MappingProxyType

import numpy as np
import pyarrow as pa
from scipy.optimize import nnls

from benchmarks.measure import Progress, list_matches, one_core
from benchmarks.report import machine
from benchmarks.stock_stream import TICKERS
from benchmarks.workloads import WORKLOADS, stock_schema
from cep_pipeline.detection.mechanisms import Counters
from cep_pipeline.errors import CepError
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.costs.kernel import (
    ARITHMETIC,
    CHOICE,
    CLOCK,
    CORRELATION,
    FUNCTION,
    LIST,
    NUMBER,
    ROOT,
    TEXT,
    UNITS,
    KernelCosts,
    edges,
)
from cep_pipeline.planning.numbers.clause_questions import clause_statistics
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics import estimate_statistics
from cep_pipeline.statistics.node_counts import NodeCounts

EVENTS = 500_000
"""Length of the stream that plans are measured on."""
DRAWN_PATTERNS = 12
"""Random patterns beside W1 to W3."""
MOST_ORDERS = 12
"""Limit of the orders of one pattern. Trees are not measured: the kernel runs one as the order of its variables."""
MATCHES = (30_000.0, 3_000_000.0)
"""Expected matches of drawn patterns, in turn: with few, preparation weighs most, with many the tests do."""
SEED = 11
CONTRASTS = """
NAME all_pass PATTERN SEQ(S00 a, S07 b) WHERE a.price > b.diff WITHIN 30 seconds;
NAME none_pass PATTERN SEQ(S00 a, S07 b) WHERE a.price < b.diff WITHIN 30 seconds
"""
"""The same candidates, all of which pass or none: what a match costs beside the test of a candidate."""

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True)
class PlanRun:
    """One order of a pattern: what it counted, by `UNITS`, and the seconds that it took."""

    order: tuple[int, ...]
    work: tuple[float, ...]
    seconds: float


def measured_runs(table: pa.Table, repetitions: int, progress: Progress, drawn: int = DRAWN_PATTERNS) -> list[PlanRun]:
    """Run orders of W1 to W3 and of drawn patterns, on one core."""
    draw = random.Random(SEED)
    patterns = [WORKLOADS[name].patterns()[0] for name in ("W1", "W2", "W3")]
    patterns += [_drawn_pattern(number, table, draw) for number in range(drawn)]
    patterns += parse_patterns(CONTRASTS, stock_schema(), source="contrasts")
    found: list[PlanRun] = []
    with one_core():
        for pattern in patterns:
            [clause] = pattern.clauses
            statistics = clause_statistics(pattern, clause, estimate_statistics([pattern], table))
            orders = list(permutations(range(len(clause.positive))))
            orders = draw.sample(orders, min(len(orders), MOST_ORDERS))
            progress.begin(f"kernel costs: {len(orders)} orders of {pattern.name}", len(orders))
            matches = set()
            for order in orders:
                run, count = _measure(pattern, statistics, order, table, repetitions)
                found.append(run)
                matches.add(count)
                progress.advance()
            if len(matches) > 1:
                raise CepError(
                    f"orders of pattern {pattern.name!r} find different numbers of matches: {sorted(matches)}"
                )
    return found


CONDITIONS = {
    NUMBER: ("SEQ(A a, B b)", "a.x > b.y", 2000),
    TEXT: ("SEQ(A a, B b)", "a.s > b.t", 2000),
    ARITHMETIC: ("SEQ(A a, B b)", "a.x + b.x > a.y + b.y", 2000),
    ROOT: ("SEQ(A a, B b)", "sqrt(a.x * b.x) > 9", 2000),
    CHOICE: ("SEQ(A a, B b)", "coalesce(a.s, b.t) LIKE 'q%r'", 2000),
    FUNCTION: ("SEQ(A a, B b)", "ln(a.x * b.x) > 9", 2000),
    CLOCK: ("SEQ(A a, B b)", "day_of_week(greatest(a.timestamp, b.timestamp)) > 8", 2000),
    LIST: ("SEQ(A{1,2} a[], B b)", "avg(a[].x) > b.y", 120),
    CORRELATION: ("SEQ(A a, B b)", "corr(a.h, b.h) > 1.5", 1000),
}
"""Kind of work -> structure, condition that no tuple fulfils, and number of events of each type in one window."""
LISTED = 16
"""Elements of the lists that are correlated."""


def condition_costs(mechanism: str, repetitions: int, progress: Progress, largest: int = 2000) -> dict[str, float]:
    """Nanoseconds that a mechanism takes to test a condition of each kind, with what it takes to come to it.

    By `CONDITION_KINDS`; `fused` tests no lists beside single events. `largest` is the number of events of a type, at
    most.
    """
    conditions = {kind: of for kind, of in CONDITIONS.items() if kind != LIST or mechanism != "fused"}
    progress.begin(f"kernel costs: conditions by kind, {mechanism}", len(conditions))
    schema = StreamSchema.from_dict(
        {
            "type_attribute": "type",
            "attributes": {
                "type": "string",
                "x": "float64",
                "y": "float64",
                "s": "string",
                "t": "string",
                "h": "list<float64>",
            },
        }
    )
    draw, found = random.Random(SEED), {}
    for kind, (structure, condition, number) in conditions.items():
        events = min(number, largest)
        rows = [
            {
                "timestamp": place,
                "type": draw.choice("AB"),
                "x": draw.random(),
                "y": 4 + draw.random(),
                "s": draw.choice("abcdef"),
                "t": draw.choice("uvwxyz"),
                "h": [draw.random() for _ in range(LISTED)],
            }
            for place in range(2 * events)
        ]
        [pattern] = parse_patterns(f"PATTERN {structure} WHERE {condition} WITHIN 1 second", schema, source=kind)
        prepared = PreparedEvents(
            schema.table(rows), type_attribute=pattern.type_attribute, base_type=pattern.base_type
        )
        seconds, counters = [], Counters()
        for _ in range(repetitions + 1):
            counters = Counters()
            begin = time.process_time()
            if list_matches(mechanism, pattern, [("a", "b")], prepared, counters):
                raise CepError(f"{condition} holds of some events")
            seconds.append(time.process_time() - begin)
        tests = counters.condition_evaluations or max(count.candidates for count in counters.nodes.values())
        found[kind] = float(f"{min(seconds[1:]) * 1e9 / max(tests, 1):.4g}")
        progress.advance()
    return found


def calibrated(
    runs: Sequence[PlanRun],
    conditions: Mapping[str, float] = MappingProxyType({}),
    tests: Mapping[str, float] = MappingProxyType({}),
) -> KernelCosts:
    """The constants that explain the times of all runs best, beside those of conditions.

    Least squares of relative errors with constants that are not negative; what every run costs, whatever its plan, such
    as splitting the events, is a further constant that is not kept.
    """
    times = np.array([run.seconds for run in runs]) * 1e9
    rows = [[*run.work, 1.0] for run in runs]
    per_unit = nnls(np.array(rows) / times[:, None], np.ones(len(times)))[0][: len(UNITS)]
    # What costs too little to be seen among the rest still costs something.
    floor = 1e-3 * float(per_unit.max())
    constants = {name: float(f"{max(value, floor):.4g}") for name, value in zip(UNITS, per_unit, strict=True)}
    at = f"{datetime.now(UTC):%Y-%m-%d}"
    return KernelCosts(
        **constants, conditions=dict(conditions), tests=dict(tests), measured_on=machine(), measured_at=at
    )


# -- patterns and plans -----------------------------------------------------------------------------------------------


def _drawn_pattern(number: int, table: pa.Table, draw: random.Random) -> Pattern:
    """A pattern of 3 to 5 tickers with about half as many conditions, and a window for one of `MATCHES`."""
    size = 3 + number % 3
    codes = draw.sample(range(len(TICKERS)), size)
    names = "abcde"[:size]
    structure = "SEQ" if number % 2 else "AND"
    pairs = draw.sample(list(combinations(names, 2)), (size + 1) // 2)
    compared = " AND ".join(f"{one}.diff {draw.choice('<>')} {other}.diff" for one, other in pairs)
    counts = _events_of_tickers(table)
    stamps = table["timestamp"].cast(pa.int64())
    span_s = (stamps[-1].as_py() - stamps[0].as_py()) / 1e6
    share = 0.5 ** len(pairs) / (np.prod(np.arange(1, size + 1)) if structure == "SEQ" else 1)
    density = float(np.prod([counts[code] / span_s for code in codes])) * share * size * span_s
    window_ms = max(int(1000 * (MATCHES[number // 2 % 2] / density) ** (1 / (size - 1))), 1)
    text = (
        f"NAME drawn_{number} PATTERN {structure}("
        + ", ".join(f"{TICKERS[code]} {name}" for code, name in zip(codes, names, strict=True))
        + f") WHERE {compared} WITHIN {window_ms} ms"
    )
    return parse_patterns(text, stock_schema(), source=f"drawn_{number}")[0]


def _events_of_tickers(table: pa.Table) -> Array:
    codes = table["ticker"].combine_chunks().indices.to_numpy()
    return np.bincount(codes, minlength=len(TICKERS)).astype(np.float64)


# -- measuring --------------------------------------------------------------------------------------------------------


def _measure(
    pattern: Pattern, statistics: ClauseStatistics, order: tuple[int, ...], table: pa.Table, repetitions: int
) -> tuple[PlanRun, int]:
    """The least seconds of one core that an order took, of several runs after one that compiles, and its matches."""
    names = [variable.name for variable in pattern.clauses[0].positive]
    bound_by = [names[position] for position in order]
    seconds, counters, matches = [], Counters(), 0
    for _ in range(repetitions + 1):
        counters = Counters()
        begin = time.process_time()
        prepared = PreparedEvents(table, type_attribute=pattern.type_attribute, base_type=pattern.base_type)
        matches = list_matches("fused", pattern, [bound_by], prepared, counters)
        seconds.append(time.process_time() - begin)
    of_tickers = _events_of_tickers(table)
    events = [of_tickers[TICKERS.index(variable.event_type)] for variable in pattern.clauses[0].positive]
    counts = {frozenset(map(names.index, count.node)): count for count in counters.nodes.values()}
    return PlanRun(order, _work(order, statistics, events, counts), min(seconds[1:])), matches


def _work(
    order: tuple[int, ...],
    statistics: ClauseStatistics,
    events: Sequence[float],
    counts: Mapping[frozenset[int], NodeCounts],
) -> tuple[float, ...]:
    """Return the work of a run by `UNITS`, counted in the places where the cost model charges for it."""
    work = dict.fromkeys(UNITS, 0.0)
    for length in range(1, len(order) + 1):
        bound = order[:length]
        count = counts[frozenset(bound)] if length > 1 else None
        made = events[bound[0]] if count is None else count.passes
        work["match" if length == len(order) else "partial_match"] += made
        work["event"] += sum(events[member] for member in edges(statistics, bound))
        work["candidate"] += 0.0 if count is None else count.candidates
    return tuple(work[name] for name in UNITS)
