"""`cep bench kernel-costs`: what a unit of the fused kernel's work costs here, and how well plans are told apart by it.

Patterns are run by many orders and trees. What each run has counted (candidates, partial matches, ...) and the time
that it took give the constants of `KernelCosts`, by least squares of relative errors. The check uses no counts: the
cost model ranks the plans of each pattern by estimated statistics, as planning does, and is compared with the clock.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import combinations, permutations
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from benchmarks.measure import Progress, list_matches, one_core
from benchmarks.report import machine, markdown_table
from benchmarks.stock_stream import TICKERS
from benchmarks.workloads import WORKLOADS, stock_schema
from cep_pipeline.cli.terminal import format_seconds
from cep_pipeline.detection.mechanisms import Counters
from cep_pipeline.errors import CepError
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.costs import CostModel, is_linear
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
    kernel_model,
)
from cep_pipeline.planning.numbers.clause_questions import clause_statistics
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
from cep_pipeline.planning.orderings import ln_order_cost, ln_tree_cost
from cep_pipeline.planning.trees import PositionTree, left_deep, named_join, positions_below
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics import estimate_statistics
from cep_pipeline.statistics.node_counts import NodeCounts

EVENTS = 500_000
"""Length of the stream that plans are measured on."""
DRAWN_PATTERNS = 12
"""Random patterns beside W1 to W3."""
MOST_ORDERS, MOST_TREES = 12, 4
"""Limits of the orders, and of the trees that are no orders, of one pattern."""
MATCHES = (30_000.0, 3_000_000.0)
"""Expected matches of drawn patterns, in turn: with few, preparation weighs most, with many the tests do."""
SEED = 11
CONTRASTS = """
NAME all_pass PATTERN SEQ(S00 a, S07 b) WHERE a.price > b.diff WITHIN 30 seconds;
NAME none_pass PATTERN SEQ(S00 a, S07 b) WHERE a.price < b.diff WITHIN 30 seconds
"""
"""The same candidates, all of which pass or none: what a match costs beside the test of a candidate."""

DEAR_EVENTS = 60_000
"""Length of the stream that patterns with dear conditions are measured on."""
DEAR = {
    ROOT: "sqrt({0}.price * {1}.price) > 1.01 * {1}.price",
    FUNCTION: "ln({0}.price * {1}.price) > 9.5",
    CHOICE: "greatest({0}.volume, {1}.volume) NOT IN (100, 200, 300)",
    CLOCK: "day_of_week(greatest({0}.timestamp, {1}.timestamp)) < 6",
    CORRELATION: "corr({0}.history, {1}.history) > 0.3",
}
"""Kind of work -> a condition on two variables."""
DEAR_KINDS = (ROOT,) * 6 + (FUNCTION, CHOICE, CLOCK) * 2 + (CORRELATION,) * 6
"""The kinds of the dear conditions of patterns; every third pattern has two."""

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True)
class BoundBy:
    """An order of positions, as a left-deep tree, or a tree of them that no order is."""

    tree: PositionTree
    is_order: bool

    def ln_cost(self, model: CostModel, statistics: ClauseStatistics, *, as_tree: bool) -> float:
        """The logarithm of the plan's cost by a model; an order among trees counts as the tree that it is."""
        if self.is_order and not as_tree:
            return ln_order_cost(model, statistics, positions_below(self.tree))
        return ln_tree_cost(model, statistics, self.tree)


@dataclass(frozen=True)
class PlanRun:
    """One plan of a pattern: what it counted, by `UNITS`, and the seconds that it took."""

    plan: BoundBy
    work: tuple[float, ...]
    seconds: float


@dataclass(frozen=True)
class PatternRuns:
    """All measured plans of a pattern, and its numbers as planning estimates them."""

    name: str
    statistics: ClauseStatistics
    runs: tuple[PlanRun, ...]


def measured_runs(
    table: pa.Table, repetitions: int, progress: Progress, drawn: int = DRAWN_PATTERNS
) -> list[PatternRuns]:
    """Run orders and trees of W1 to W3 and of drawn patterns, on one core."""
    draw = random.Random(SEED)
    patterns = [WORKLOADS[name].patterns()[0] for name in ("W1", "W2", "W3")]
    patterns += [_drawn_pattern(number, table, draw) for number in range(drawn)]
    patterns += parse_patterns(CONTRASTS, stock_schema(), source="contrasts")
    found = []
    with one_core():
        for pattern in patterns:
            [clause] = pattern.clauses
            statistics = clause_statistics(pattern, clause, estimate_statistics([pattern], table))
            plans = _plans(len(clause.positive), draw)
            progress.begin(f"kernel costs: {len(plans)} plans of {pattern.name}", len(plans))
            runs, matches = [], set()
            for plan in plans:
                run, count = _measure(pattern, statistics, plan, table, repetitions)
                runs.append(run)
                matches.add(count)
                progress.advance()
            if len(matches) > 1:
                raise CepError(
                    f"plans of pattern {pattern.name!r} find different numbers of matches: {sorted(matches)}"
                )
            found.append(PatternRuns(pattern.name, statistics, tuple(runs)))
    return found


def dear_runs(
    table: pa.Table, repetitions: int, progress: Progress, number: int = len(DEAR_KINDS)
) -> list[PatternRuns]:
    """Run drawn patterns of three and four variables with comparisons and dear conditions by all their orders."""
    draw, found = random.Random(SEED), []
    histories = np.random.default_rng(SEED).normal(size=(len(table), LISTED))
    table = table.append_column("history", pa.array(list(histories), pa.list_(pa.float64())))
    attributes = {
        "ticker": "string",
        "price": "float64",
        "diff": "float64",
        "volume": "int64",
        "history": "list<float64>",
    }
    schema = StreamSchema.from_dict({"base_type": "Stock", "type_attribute": "ticker", "attributes": attributes})
    with one_core():
        for place, kind in enumerate(DEAR_KINDS[:number]):
            pattern = parse_patterns(_dear_text(place, kind, table, draw), schema, source="dear")[0]
            statistics = clause_statistics(pattern, pattern.clauses[0], estimate_statistics([pattern], table))
            plans = [BoundBy(left_deep(order), True) for order in permutations(range(statistics.size))]
            progress.begin(f"kernel costs: {len(plans)} orders of {pattern.name}", len(plans))
            runs = []
            for plan in plans:
                runs.append(_measure(pattern, statistics, plan, table, repetitions)[0])
                progress.advance()
            found.append(PatternRuns(pattern.name, statistics, tuple(runs)))
    return found


def _dear_text(place: int, kind: str, table: pa.Table, draw: random.Random) -> str:
    size = 3 + place % 2
    tickers, names = draw.sample(TICKERS, size), "abcd"[:size]
    pairs = list(combinations(names, 2))
    dear = draw.sample(pairs, 2 if place % 3 == 2 else 1)
    compared = draw.sample([pair for pair in pairs if pair not in dear], size - 2)
    conditions = [f"{one}.diff {draw.choice('<>')} {draw.choice((1, 4))} * {other}.diff" for one, other in compared]
    conditions += [DEAR[kind].format(*pair) for pair in dear]
    counts = _events_of_tickers(table)
    span_ms = (table["timestamp"].cast(pa.int64())[-1].as_py() - table["timestamp"].cast(pa.int64())[0].as_py()) / 1e3
    window_ms = int(
        draw.choice((30, 60) if kind == ROOT else (8, 20))
        * span_ms
        / np.mean([counts[TICKERS.index(one)] for one in tickers])
    )
    bound = ", ".join(f"{ticker} {name}" for ticker, name in zip(tickers, names, strict=True))
    text = f"{draw.choice(('SEQ', 'AND'))}({bound}) WHERE {' AND '.join(conditions)}"
    return f"NAME {kind}_{place} PATTERN {text} WITHIN {window_ms} ms"


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
        tests = counters.evaluations or max(count.candidates for count in counters.nodes.values())
        found[kind] = float(f"{min(seconds[1:]) * 1e9 / max(tests, 1):.4g}")
        progress.advance()
    return found


def calibrated(
    found: Sequence[PatternRuns],
    conditions: Mapping[str, float] = MappingProxyType({}),
    tests: Mapping[str, float] = MappingProxyType({}),
) -> KernelCosts:
    """The constants that explain the times of all runs best, beside those of conditions.

    Least squares of relative errors with constants that are not negative; what every run costs, whatever its plan, such
    as splitting the events, is a further constant that is not kept.
    """
    runs = [run for pattern in found for run in pattern.runs]
    times = np.array([run.seconds for run in runs]) * 1e9
    rows = [[*run.work, 1.0] for run in runs]
    per_unit = positive_least_squares(np.array(rows) / times[:, None], np.ones(len(times)))[: len(UNITS)]
    # What costs too little to be seen among the rest still costs something.
    floor = 1e-3 * float(per_unit.max())
    constants = {name: float(f"{max(value, floor):.4g}") for name, value in zip(UNITS, per_unit, strict=True)}
    at = f"{datetime.now(UTC):%Y-%m-%d}"
    return KernelCosts(
        **constants, conditions=dict(conditions), tests=dict(tests), measured_on=machine(), measured_at=at
    )


@dataclass(frozen=True)
class Ranking:
    """Spearman's rank correlation of predicted cost and measured time over all plans of a pattern.

    The seconds are those of the plan of least predicted cost, of the fastest and of the slowest plan.
    """

    pattern: str
    plans: int
    correlation: float
    chosen: float
    fastest: float
    slowest: float


def rankings(found: Sequence[PatternRuns], model: CostModel, *, trees: bool) -> list[Ranking]:
    """Rank the measured plans by a cost model: the orders, or orders and trees together as trees."""
    made = []
    for pattern in found:
        runs = [run for run in pattern.runs if trees or run.plan.is_order]
        if len(runs) < 3:  # two plans have no ranks to speak of
            continue
        costs = [run.plan.ln_cost(model, pattern.statistics, as_tree=trees) for run in runs]
        seconds = [run.seconds for run in runs]
        chosen = seconds[int(np.argmin(costs))]
        made.append(
            Ranking(pattern.name, len(runs), rank_correlation(costs, seconds), chosen, min(seconds), max(seconds))
        )
    return made


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's rank correlation; equal numbers share the mean of their ranks, and of equal numbers only it is 0.

    Examples
    --------
    >>> round(rank_correlation([1, 2, 3, 4], [10, 30, 20, 40]), 6)
    0.8
    """
    ranks = [_ranks(np.asarray(numbers, dtype=np.float64)) for numbers in (one, other)]
    if any(np.ptp(numbers) == 0 for numbers in ranks):
        return 0.0
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(numbers: Array) -> Array:
    _, inverse, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    mean = np.cumsum(counts) - (counts - 1) / 2
    return np.asarray(mean[inverse])


def kernel_costs_page(
    found: Sequence[PatternRuns], costs: KernelCosts, others: Sequence[CostModel], dear: Sequence[PatternRuns] = ()
) -> str:
    """The constants, and how plans are told apart by them and by other cost models, in Markdown.

    Of `dear` patterns the orders are ranked by the cost of their conditions, and as if all conditions cost the same.
    """
    lines = [
        f"Measured on {costs.measured_on}, {costs.measured_at}.",
        "",
        markdown_table(
            ["a unit of work", "ns"], [[name.replace("_", " "), f"{getattr(costs, name):g}"] for name in UNITS]
        ),
        "",
        "A test of a condition by its kind, in ns. Where candidates are tested one by one (`lazy_chain_nfa`), "
        "conditions are put in order by it. On `fused` it is part of what a plan costs:",
        "",
        markdown_table(
            ["kind", "one by one", "on fused"],
            [
                [kind, f"{cost:g}", f"{costs.tests[kind]:g}" if kind in costs.tests else ""]
                for kind, cost in costs.conditions.items()
            ],
        ),
    ]
    kernel, alike = kernel_model(lambda: costs), kernel_model(lambda: replace(costs, tests={}))
    measured = (
        ("Orders:", found, (kernel, *others), False),
        ("Orders and trees:", found, (kernel, *others), True),
        (
            "All orders of patterns with dear conditions; once as if all conditions cost the same:",
            dear,
            (replace(alike, name="kernel, all alike"), kernel),
            False,
        ),
    )
    for title, of, models, trees in measured[: 3 if dear else 2]:
        lines += ["", title, ""]
        rows = []
        for model in models:
            ranked = rankings(of, model, trees=trees)
            for one in ranked:
                row = [one.pattern, str(one.plans), model.name, f"{one.correlation:.2f}", format_seconds(one.chosen)]
                rows.append([*row, format_seconds(one.fastest), format_seconds(one.slowest)])
            mean = float(np.mean([one.correlation for one in ranked]))
            loss = float(np.exp(np.mean([np.log(one.chosen / one.fastest) for one in ranked])))
            rows.append(["all", "", model.name, f"{mean:.2f}", f"{loss:.2f} x the fastest", "", ""])
        header = ["pattern", "plans", "cost model", "rank correlation", "chosen plan", "fastest", "slowest"]
        lines.append(markdown_table(header, rows))
    return "\n".join(lines) + "\n"


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


def _plans(size: int, draw: random.Random) -> list[BoundBy]:
    orders = list(permutations(range(size)))
    orders = draw.sample(orders, min(len(orders), MOST_ORDERS))
    trees = sorted({tree for tree in (_drawn_tree(size, draw) for _ in range(40)) if not is_linear(tree)}, key=str)
    trees = draw.sample(trees, min(len(trees), MOST_TREES))
    return [*(BoundBy(left_deep(order), True) for order in orders), *(BoundBy(tree, False) for tree in trees)]


def _drawn_tree(size: int, draw: random.Random) -> PositionTree:
    parts: list[PositionTree] = list(range(size))
    while len(parts) > 1:
        left, right = draw.sample(range(len(parts)), 2)
        joined = (parts[left], parts[right])
        parts = [part for place, part in enumerate(parts) if place not in (left, right)] + [joined]
    return parts[0]


# -- measuring --------------------------------------------------------------------------------------------------------


def _measure(
    pattern: Pattern, statistics: ClauseStatistics, plan: BoundBy, table: pa.Table, repetitions: int
) -> tuple[PlanRun, int]:
    """The least seconds of one core that a plan took, of several runs after one that compiles, and its matches."""
    names = [variable.name for variable in pattern.clauses[0].positive]
    assert not isinstance(plan.tree, int)
    leaves = [names[position] for position in positions_below(plan.tree)]
    bound_by = leaves if plan.is_order else named_join(plan.tree, names)
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
    return PlanRun(plan, _work(plan, statistics, events, counts), min(seconds[1:])), matches


def _work(
    plan: BoundBy, statistics: ClauseStatistics, events: Sequence[float], counts: Mapping[frozenset[int], NodeCounts]
) -> tuple[float, ...]:
    """Return the work of a run by `UNITS`, counted in the places where the cost model charges for it."""
    work = dict.fromkeys(UNITS, 0.0)

    def made(members: tuple[int, ...]) -> float:
        return counts[frozenset(members)].passes if len(members) > 1 else events[members[0]]

    waiting = [plan.tree]
    while waiting:
        node = waiting.pop()
        members = positions_below(node)
        work["match" if len(members) == len(events) else "partial_match"] += made(members)
        work["event"] += sum(events[member] for member in edges(statistics, members))
        if isinstance(node, int):
            continue
        work["candidate"] += counts[frozenset(members)].candidates
        if not is_linear(node):
            work["materialized"] += sum(made(positions_below(side)) for side in node)
        waiting += [node[0]] if plan.is_order else node  # of an order, only the first leaf counts
    return tuple(work[name] for name in UNITS)


def positive_least_squares(rows: Array, wanted: Array) -> Array:
    """The numbers x >= 0 for which rows @ x is nearest to what is wanted (Lawson and Hanson's active sets)."""
    size = rows.shape[1]
    scale = np.linalg.norm(rows, axis=0)
    scale[scale == 0] = 1.0
    rows = rows / scale
    found, inside = np.zeros(size), np.zeros(size, bool)
    for _ in range(3 * size):
        gradient = rows.T @ (wanted - rows @ found)
        gradient[inside] = -np.inf
        if gradient.max(initial=-np.inf) <= 1e-9:
            break
        inside[int(np.argmax(gradient))] = True
        while True:
            trial = np.zeros(size)
            trial[inside] = np.linalg.lstsq(rows[:, inside], wanted, rcond=None)[0]
            if (trial[inside] > 0).all():
                break
            falling = inside & (trial <= 0)
            step = float(np.min(found[falling] / (found[falling] - trial[falling])))
            found = found + step * (trial - found)
            inside &= found > 1e-15
        found = trial
    return np.asarray(found / scale)
