"""`cep experiment multi_pattern`: plans of many patterns at once against plans of each by itself (MCEP, section 6).

In this order: contenders, the measurements, gains, findings, and the page; the input is in `workloads`.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import combinations, product
from statistics import fmean, geometric_mean
from typing import Any

from benchmarks.charts import Axis, Style, line_chart
from benchmarks.experiments import workloads
from benchmarks.experiments.experiment import (
    Cell,
    Experiment,
    Figure,
    Request,
    Row,
    grouped,
    having,
    number,
    refuse_different_counts,
    rows_of,
    taken_apart,
)
from benchmarks.experiments.findings import (
    Finding,
    Measured,
    Verdict,
    finding,
    findings_of,
    noise_of_runs,
    rank_correlation,
    ratio_range,
    verdict_at_least,
)
from benchmarks.experiments.page import Page, Picture, columns_table, findings_page, table_across
from benchmarks.experiments.workloads import (
    STOCKS,
    STREAMS,
    TRAFFIC,
    WINDOW_S,
    Shape,
    WorkloadStream,
    draw_workload,
    permuted,
    pool_of,
    stocks,
    traffic,
    window_s_of,
)
from benchmarks.measure import SHARING_OF, one_core
from cep_pipeline.adaptation.decisions import ConstantThreshold, DecisionFunction, Static
from cep_pipeline.adaptation.loop import AdaptiveDetection
from cep_pipeline.charts import PALETTE
from cep_pipeline.cli.terminal import count_per_s, format_seconds, times_as_fast
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters
from cep_pipeline.detection.network.run import NetworkRun
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_plans import Sharing
from cep_pipeline.planning.clause_statistics import mask_of
from cep_pipeline.planning.multi_pattern.members import Member, members_of
from cep_pipeline.planning.multi_pattern.plan_workload import plan_workload
from cep_pipeline.planning.plans import Plan
from cep_pipeline.planning.trees import OrderOrTree, as_tree
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics import estimate_statistics
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

WORKLOAD, SIZE, SEARCH, TIME, COUNT = "workload size", "pattern size", "search time", "time window", "count window"
DENSITY, RATES, ADAPTIVE = "density", "rate difference", "adaptive"
"""The parts: figures 10 and 12A, E; 11A and 12B, F; 11B; 11C and 12C, G; 11D and 12D, H; 14A-B; 14C-D; 13."""
COMPARED_BY_GAINS = (WORKLOAD, SIZE, SEARCH, TIME, COUNT, DENSITY, RATES)
"""The parts whose cells have contenders."""
MAX_PAIRS = 4_096
"""Pairs that the statistics test a scope."""
ENOUGH_S = 0.5
MOST_RUNS = 3
"""A plan is run until its runs took so long together, and so many times at most; the least time counts."""
MULTITREE = "multitree"
ANNEALING, TABU = "simulated_annealing", "tabu"


@dataclass(frozen=True)
class SearchLimit:
    """The end of a local search: after seconds, or after steps."""

    seconds: float | None = None
    steps: int | None = None

    def __str__(self) -> str:
        return f"{self.steps:,} steps" if self.steps is not None else f"{self.seconds:g} s"


@dataclass(frozen=True)
class Contender:
    """A planner and what its plans share; a local search has a neighbourhood, too."""

    name: str
    planner: str
    neighbourhood: str = ""
    sharing: Sharing = "subexpression"

    @property
    def mechanism(self) -> str:
        """The mechanism of the patent that runs its plans."""
        return next(name for name, shared in SHARING_OF.items() if shared == self.sharing)

    def plan(
        self, patterns: Sequence[Pattern], snapshot: StatisticsSnapshot, limit: SearchLimit | None, seed: int
    ) -> Plan:
        """Plan patterns together; a limit is asked for where it searches."""
        if limit is None:
            return plan_workload(patterns, snapshot, self.planner, sharing=self.sharing)
        return plan_workload(
            patterns,
            snapshot,
            self.planner,
            neighbourhood=self.neighbourhood,
            sharing=self.sharing,
            time_limit_s=limit.seconds,
            steps=limit.steps,
            seed=seed,
        )


TRIVIAL, TRIVIAL_NFA = Contender("trivial", "none"), Contender("trivial, NFA", "none", sharing="prefix")
"""The plans that gains are over: of trees, and of orders."""
SEARCHES = tuple(
    Contender(f"{short}-{place}", planner, neighbourhood, "prefix" if place == "EDGE-PREFIX" else "subexpression")
    for (short, planner), (place, neighbourhood) in product(
        (("SA", ANNEALING), ("TS", TABU)),
        (("EDGE", "edge"), ("VERTEX4", "vertex:4"), ("VERTEX8", "vertex:8"), ("EDGE-PREFIX", "edge")),
    )
)
SA_EDGE, TS_EDGE = (one for one in SEARCHES if one.name.endswith("-EDGE"))
SH, RE = Contender("SH", "sharing"), Contender("RE", "reordering")
BASELINES = (SH, RE, Contender("SH-RR", "redundancy_ratio"), Contender("SH-MDT", "merge_decomposition"))
ALL = (TRIVIAL, TRIVIAL_NFA, *SEARCHES, *BASELINES)
COMPARED = (TRIVIAL, SA_EDGE, TS_EDGE, *BASELINES)


@dataclass(frozen=True)
class Ran:
    """One run of one network: seconds of the processor from the first event to the last match, and what happened.

    Attributes
    ----------
    matches
        Of each pattern.
    counters
        They have the events of leaves among them.
    candidates, created
        Candidates that joins and lists tested, and partial matches that they made.
    """

    seconds: float
    matches: Mapping[str, int]
    counters: Counters
    candidates: int
    created: int


def run_plan(patterns: Sequence[Pattern], plan: Plan, mechanism: str, events: PreparedEvents) -> Ran:
    """Run a plan on one of the patent's mechanisms, which shares what the plan says: nothing in a trivial one.

    All patterns are in one network, where each type's events are read once whatever the plan. Its making is not in the
    time.
    """
    orders: list[OrderOrTree] = [
        clause.order_or_tree for pattern in patterns for clause in plan.for_pattern(pattern.name).clauses
    ]
    if mechanism == MULTITREE:
        orders = [as_tree(order) for order in orders]
    with_negated = mechanism == MULTITREE
    run = NetworkRun(members_of(patterns), orders, plan.sharing, events, EVERYTHING, with_negated=with_negated)
    run.prepare()
    found = {pattern.name: 0 for pattern in patterns}
    gc.disable()  # what planning left behind is not to be swept up in a run of a millisecond
    try:
        with one_core():
            begun = time.process_time()
            for (name, _), block in run.found():
                found[name] += len(block)
            seconds = time.process_time() - begun
    finally:
        gc.enable()
    counters = Counters()
    run.count(counters)
    run.held.count(counters)
    return Ran(seconds, found, counters, *run.work)


def measure_workload(
    stream: WorkloadStream, shape: Shape, number: int, contenders: Sequence[Contender], search: SearchLimit, seed: int
) -> dict[str, Figure]:
    """Plan a workload by each contender, and run the plans.

    Returns
    -------
    dict of str to figure
        For each contender `NAME:` and a figure; seconds of detection are of the processor, those of search are not.

    Raises
    ------
    CepError
        A plan led to other matches of a pattern.
    """
    given = _given(stream, shape, number, seed)
    density = graph_density(members_of(given.patterns))
    figures: dict[str, Figure] = {"events": stream.events.num_rows, "density of pairs": density}
    found: dict[str, Mapping[str, int]] = {}
    for contender in contenders:
        limit = search if contender.neighbourhood else None
        found[contender.name], own = _planned_and_run(stream, shape, number, contender, limit, seed)
        figures |= {f"{contender.name}:{name}": figure for name, figure in own.items()}
    refuse_different_counts(found)
    return figures


def graph_density(members: Sequence[Member]) -> float:
    """The share of all pairs of members that have a sub-pattern of two variables in common."""
    keys = [
        {member.subsets.key(mask_of(places)) for places in combinations(range(len(member.names)), 2)}
        for member in members
    ]
    pairs = [not one.isdisjoint(other) for one, other in combinations(keys, 2)]
    return sum(pairs) / len(pairs) if pairs else 0.0


@dataclass(frozen=True)
class _Given:
    """A workload as all contenders get it."""

    patterns: tuple[Pattern, ...]
    snapshot: StatisticsSnapshot
    events: PreparedEvents


@lru_cache(maxsize=4)
def _given(stream: WorkloadStream, shape: Shape, number: int, seed: int) -> _Given:
    patterns = draw_workload(stream, shape, number, seed).patterns
    schema = stream.schema
    events = PreparedEvents(stream.events, type_attribute=schema.type_attribute, base_type=schema.base_type)
    return _Given(patterns, estimate_statistics(patterns, stream.events, max_pairs=MAX_PAIRS), events)


@lru_cache(maxsize=256)
def _planned_and_run(
    stream: WorkloadStream, shape: Shape, number: int, contender: Contender, limit: SearchLimit | None, seed: int
) -> tuple[Mapping[str, int], Mapping[str, Figure]]:
    """The matches and the figures of a contender; where several parts have the same workload, it is measured once."""
    given = _given(stream, shape, number, seed)
    begun = time.perf_counter()
    plan = contender.plan(given.patterns, given.snapshot, limit, seed)
    planning = time.perf_counter() - begun
    runs = [run_plan(given.patterns, plan, contender.mechanism, given.events)]
    while sum(ran.seconds for ran in runs) < ENOUGH_S and len(runs) < MOST_RUNS:
        runs.append(run_plan(given.patterns, plan, contender.mechanism, given.events))
    least, *others = sorted(ran.seconds for ran in runs)
    pairs = [node for node in runs[0].counters.nodes.values() if len(node.node) == 2]
    assert plan.workload is not None
    return runs[0].matches, {
        "seconds": least,
        "next_seconds": others[0] if others else None,
        "planning": planning,
        "cost": math.exp(plan.ln_cost),
        "nodes": plan.workload.nodes,
        "candidates": runs[0].candidates,
        "candidates of pairs": sum(node.candidates for node in pairs),
        "created": runs[0].created,
    }


STATIC, HINDSIGHT, LOOP = "static", "hindsight", "loop"
"""The product's own loop with the plan of the stream as it was, and with that of all that is to come, neither of which
it changes; and with a threshold, component by component."""


@dataclass(frozen=True)
class AdaptiveSizes:
    """The extent of the part with types exchanged.

    Attributes
    ----------
    patterns, size, workloads
        Of a workload, and how many are drawn.
    windows, window_events
        How many windows of a stream are read; and the events of a window.
    phases
        x: events after which types are exchanged anew; the patent has 10 to 1,000.
    every_windows, reach_windows
        Windows between two decisions, and those that the statistics reach back.
    steps
        Of the search that makes a plan, from the current one on.
    threshold
        By what share a rate or a selectivity has to have moved for it.
    minimum_gain
        The share of its cost that a new plan has to save.
    """

    patterns: int = 20
    size: int = 3
    workloads: int = 2
    windows: int = 4
    window_events: int = 10_000
    phases: tuple[int, ...] = (10, 1_000, 10_000)
    every_windows: int = 1
    reach_windows: int = 2
    steps: int = 5_000
    threshold: float = 1.0
    minimum_gain: float = 0.5


def measure_adaptive(
    stream: WorkloadStream, phase: int, number: int, sizes: AdaptiveSizes, seed: int
) -> dict[str, Figure]:
    """Run the plan that was made for the stream as it is over the stream with its types exchanged, and adapt it.

    Parameters
    ----------
    number
        Which workload.

    Raises
    ------
    CepError
        The plans led to other matches.
    """
    shape = Shape(sizes.patterns, sizes.size, window_s=stream.window_s, all_compared=True)
    exchanged = permuted(stream, phase, pool_of(stream, shape, number, seed), seed)
    patterns, events = draw_workload(stream, shape, number, seed, exchanged).patterns, exchanged.events
    window = round(events.num_rows / stream.windows)
    figures: dict[str, Figure] = {"events": events.num_rows, "window": window}
    search: dict[str, Any] = {"steps": sizes.steps, "seed": seed}
    before, to_come = (estimate_statistics(patterns, own, max_pairs=MAX_PAIRS) for own in (stream.events, events))
    runs: dict[str, tuple[StatisticsSnapshot, DecisionFunction]] = {
        STATIC: (before, Static()),
        HINDSIGHT: (to_come, Static()),
        LOOP: (before, ConstantThreshold(sizes.threshold)),
    }
    found: dict[str, Mapping[str, int]] = {}
    for name, (known, decision) in runs.items():
        loop = AdaptiveDetection(
            mechanism=MULTITREE,
            decision=decision,
            every_events=sizes.every_windows * window,
            window=sizes.reach_windows * window,
            seed=seed,
            max_pairs=MAX_PAIRS,
            minimum_gain=sizes.minimum_gain,
            clock=time.process_time,
            search=search,
        )
        tables, report = loop.detect(
            patterns, events, plan_workload(patterns, known, ANNEALING, **search), known, output="count"
        )
        found[name] = {pattern: int(table.column("count")[0].as_py()) for pattern, table in tables.items()}
        own: dict[str, Figure] = {
            "seconds": report.total.detecting,
            "deciding": report.total.deciding,
            "planning": report.total.planning,
            "candidates": sum(node.candidates for node in report.metrics.nodes),
            "checks": len(report.checks),
            "planned": report.replannings,
            "switches": len(report.switches),
        }
        figures |= {f"{name}:{figure}": value for figure, value in own.items()}
    refuse_different_counts(found)
    return {**figures, "matches": sum(found[STATIC].values())}


@dataclass(frozen=True)
class Sizes:
    """The extent of what is measured.

    Attributes
    ----------
    windows
        How many windows of 15 minutes the streams last.
    patterns
        Numbers of patterns, and how many workloads are drawn of each.
    most_for_all
        Of more patterns only the best searches and the baselines are measured.
    workloads
        Workloads that are drawn of each shape in the other parts.
    base
        Patterns of the workloads of the other parts.
    pattern_sizes
        Average sizes.
    search
        How far a local search goes.
    search_s
        Seconds of search, in that part.
    window_s
        Windows, in seconds; of count windows as many events as come in these on average.
    types
        Types that the patterns of a workload are of: the fewer, the denser the graph.
    rate_differences
        Largest difference of rates in a pattern, as a share of the largest there is.
    adaptive
        Of the part with types exchanged.
    """

    windows: int = 20
    patterns: Mapping[int, int] = field(default_factory=lambda: {10: 10, 30: 10, 100: 10})
    most_for_all: int = 30
    workloads: int = 2
    base: int = 30
    pattern_sizes: tuple[int, ...] = (3, 5, 7)
    search: SearchLimit = SearchLimit(steps=5_000)
    search_s: tuple[float, ...] = (0.1, 0.4, 1.6)
    window_s: tuple[int, ...] = (600, 900, 1_200)
    types: tuple[int, ...] = (7, 12, 18)
    rate_differences: tuple[float, ...] = (0.2, 0.4, 1.0)
    adaptive: AdaptiveSizes = AdaptiveSizes()


SMALL = Sizes()
FULL = replace(
    SMALL,
    patterns={**SMALL.patterns, 300: 1, 1_000: 1},
    most_for_all=100,
    workloads=10,
    base=100,
    search=SearchLimit(steps=200_000),
    search_s=(0.25, 1.0, 4.0, 16.0),
    adaptive=AdaptiveSizes(40, workloads=10, windows=8, phases=(10, 30, 100, 300, 1_000, 10_000, 100_000)),
)


def stream_named(name: str, request: Request, windows: int, window_s: int = WINDOW_S) -> WorkloadStream:
    """One of the two streams; it is made when it is first asked for."""
    return stocks(windows, window_s) if name == STOCKS else traffic(request.data, windows, window_s)


def _cells(sizes: Sizes, request: Request) -> Iterator[Cell]:
    base = Shape(sizes.base)
    for patterns, many in sizes.patterns.items():
        contenders = ALL if patterns <= sizes.most_for_all else COMPARED
        yield from _workload_cells(sizes, request, WORKLOAD, {patterns: Shape(patterns)}, many, contenders)
    shapes: dict[str, dict[float, Shape]] = {
        SIZE: {size: replace(base, size=size) for size in sizes.pattern_sizes},
        TIME: {length: replace(base, window_s=length) for length in sizes.window_s},
        COUNT: {length: replace(base, window_s=length, counts_events=True) for length in sizes.window_s},
        DENSITY: {types: replace(base, types=types) for types in sizes.types},
        RATES: {share: replace(base, rate_difference=share) for share in sizes.rate_differences},
    }
    for part, of_values in shapes.items():
        yield from _workload_cells(sizes, request, part, of_values, sizes.workloads)
    for seconds in sizes.search_s:
        searched, limit = (TRIVIAL, SA_EDGE, TS_EDGE), SearchLimit(seconds=seconds)
        yield from _workload_cells(sizes, request, SEARCH, {seconds: base}, sizes.workloads, searched, limit)
    yield from _adaptive_cells(sizes.adaptive, request)


def _workload_cells(
    sizes: Sizes,
    request: Request,
    part: str,
    shapes: Mapping[float, Shape],
    workloads: int,
    contenders: Sequence[Contender] = COMPARED,
    search: SearchLimit | None = None,
) -> Iterator[Cell]:
    limit = search or sizes.search

    def run(stream: str, shape: Shape, number: int) -> Row:
        of = stream_named(stream, request, sizes.windows)
        return measure_workload(of, shape, number, contenders, limit, request.seed)

    for (value, shape), stream, nth in product(shapes.items(), STREAMS, range(workloads)):
        key: dict[str, Figure] = {"part": part, "stream": stream, "value": value, "patterns": shape.patterns}
        key |= {"number": nth, "windows": sizes.windows, "search": str(limit)}
        yield Cell(key, partial(run, stream, shape, nth))


def _adaptive_cells(sizes: AdaptiveSizes, request: Request) -> Iterator[Cell]:
    def run(stream: str, phase: int, number: int) -> Row:
        of = stream_named(stream, request, sizes.windows, window_s_of(stream, sizes.window_events))
        return measure_adaptive(of, phase, number, sizes, request.seed)

    for stream, phase, nth in product(STREAMS, sizes.phases, range(sizes.workloads)):
        key: dict[str, Figure] = {"part": ADAPTIVE, "stream": stream, "value": phase, "number": nth}
        yield Cell({**key, "sizes": str(sizes)}, partial(run, stream, phase, nth))


def by_contender(rows: Iterable[Row]) -> list[Row]:
    """One row a cell and contender, with its throughput, and its gain over the trivial plan on the same mechanism."""
    apart: list[Row] = []
    for row in rows:
        key, own = taken_apart(row, ":")
        for contender in (one for one in ALL if one.name in own):
            figures = own[contender.name]
            trivial = own.get(TRIVIAL_NFA.name if contender.sharing == "prefix" else TRIVIAL.name, own[TRIVIAL.name])
            derived: dict[str, Figure] = {
                "throughput": number(row, "events") / number(figures, "seconds"),
                "gain": number(trivial, "seconds") / number(figures, "seconds"),
                "less_tried": number(trivial, "candidates") / max(number(figures, "candidates"), 1.0),
            }
            apart.append({**key, "contender": contender.name, **figures, **derived})
    return apart


def mean_of(rows: Iterable[Row], name: str) -> float:
    """Geometric mean of a figure."""
    return geometric_mean([number(row, name) for row in rows])


def values_of(rows: Iterable[Row]) -> list[float]:
    """The values of a part's parameter, ascending."""
    return sorted({number(row, "value") for row in rows})


def averaged(rows: Sequence[Row], names: Sequence[str] = ()) -> list[Row]:
    """One row a part, stream, contender and value: geometric means of the gains over its workloads.

    Parameters
    ----------
    names
        Other figures, whose arithmetic means are wanted.
    """
    return [
        {**own[0], "gain": mean_of(own, "gain"), **{name: fmean(number(row, name) for row in own) for name in names}}
        for own in grouped(rows, "part", "stream", "contender", "value").values()
    ]


def ratios(rows: Iterable[Row], contender: str, others: Sequence[str], figure: str = "gain") -> list[float]:
    """A contender's figure as a multiple of the best of some others', in each cell that has them all."""
    cells = grouped(rows, "part", "stream", "value", "number").values()
    return [
        own[contender] / max(own[other] for other in others)
        for own in ({row["contender"]: number(row, figure) for row in of_cell} for of_cell in cells)
        if own.keys() >= {contender, *others}
    ]


GAINS = (21.0, 72.0)
"""The patent's smallest and largest gain of a workload size."""
OVER_PREFIXES = 5.0
LONGER = 100.0
AHEAD = 1.25
UP_TO = 3.0
BEYOND = 1.5
"""A figure that is so many times the patent's largest one surpasses it."""
AS_MUCH = 1.3
"""Gains whose quotient is no further from 1 are about the same."""
DYNAMIC = 10.0
LONGEST = 1_000
"""The patent's largest x."""
BEST = (SA_EDGE.name, TS_EDGE.name)


def all_findings(rows: Sequence[Row]) -> list[Finding]:
    """The findings of the section, by the rows of the cells."""
    apart = by_contender(row for row in rows if row["part"] in COMPARED_BY_GAINS)
    return findings_of(__name__, [*apart, *rows_of(rows, part=ADAPTIVE)], noise_of(apart))


def noise_of(rows: Iterable[Row]) -> float:
    """The factor by which two times of the same run differ; infinite where each run was timed once."""
    times = [(number(row, "seconds"), number(row, "next_seconds")) for row in rows if row["next_seconds"] is not None]
    return noise_of_runs(times) if times else math.inf


@finding(having(part=WORKLOAD))
def gains_grow(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 10."""
    means = averaged(rows_of(rows, contender=SA_EDGE.name))
    largest = min(max(number(row, "gain") for row in rows_of(means, stream=stream)) for stream in STREAMS)
    least, most = GAINS
    verdict = _worst([_growth(rows, SA_EDGE.name, noise), verdict_at_least(largest, least, noise=noise)])
    if verdict is Verdict.HOLDS and largest >= most * noise:
        verdict = Verdict.SURPASSED
    return verdict, _range_of_means(rows, SA_EDGE.name)


@finding(having(part=WORKLOAD))
def edge_is_best(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 10, the neighbourhoods; in the workloads that all of them were measured in."""
    pairs = [(f"{short}-EDGE", [f"{short}-{place}"]) for short, place in product(("SA", "TS"), ("VERTEX4", "VERTEX8"))]
    means, tried = (
        [geometric_mean(ratios(rows, *pair, figure)) for pair in pairs] for figure in ("gain", "less_tried")
    )
    # Where plans test as many candidates, the clock has nothing to tell them apart by.
    verdict = _agreed(verdict_at_least(min(of), 1.0, noise=noise) for of in (means, tried))
    return verdict, {"gains": ratio_range(means)}


@finding(having(part=WORKLOAD))
def subexpressions_over_prefixes(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 10, EDGE and EDGE-PREFIX."""
    # Throughputs are compared: on two mechanisms gains are over different plans.
    found = [
        ratio
        for short in ("SA", "TS")
        for ratio in ratios(rows, f"{short}-EDGE", [f"{short}-EDGE-PREFIX"], "throughput")
    ]
    verdict = verdict_at_least(max(found), OVER_PREFIXES, noise=noise, surpassed=OVER_PREFIXES * BEYOND)
    return verdict, {"times": ratio_range(found)}


@finding(having(part=SIZE))
def longer_patterns(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 11A."""
    verdict = _growth(rows, SA_EDGE.name, noise)
    if verdict is Verdict.HOLDS and max(_gains_of_means(rows, SA_EDGE.name)) >= LONGER * BEYOND * noise:
        verdict = Verdict.SURPASSED
    return verdict, _range_of_means(rows, SA_EDGE.name)


@finding(having(part=SEARCH))
def longer_search(rows: Sequence[Row], _: float) -> Measured:
    """Figure 11B; by cost, which is what is searched for."""
    kept = []
    for stream, name in product(STREAMS, BEST):
        own = rows_of(rows, stream=stream, contender=name)
        costs = [mean_of(rows_of(own, value=value), "cost") for value in values_of(own)]
        kept.append(costs[-1] / costs[0])
    verdict = Verdict.HOLDS if max(kept) <= 1 else Verdict.DIFFERS
    return verdict, {"least": 1 - max(kept), "most": 1 - min(kept)}


@finding(having(part=TIME))
def larger_windows(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 11C."""
    return _growth(rows, SA_EDGE.name, noise), _range_of_means(rows, SA_EDGE.name)


@finding(lambda row: row["part"] in (TIME, COUNT))
def count_windows(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 11D, in the largest windows."""
    largest = max(values_of(rows_of(rows, part=COUNT)))

    def gains(part: str, stream: str) -> list[float]:
        own = rows_of(rows, part=part, stream=stream, value=largest, contender=SA_EDGE.name)
        return [number(row, "gain") for row in own]

    stocks, traffic = (
        [one / other for one, other in zip(gains(COUNT, stream), gains(TIME, stream), strict=True)]
        for stream in (STOCKS, TRAFFIC)
    )
    in_traffic = geometric_mean(traffic)
    more = _agreed(verdict_at_least(ratio, 1.0, noise=noise) for ratio in stocks)
    as_much = verdict_at_least(AS_MUCH / max(in_traffic, 1 / in_traffic), 1.0, noise=noise)
    figures = {"stocks": times_as_fast(geometric_mean(stocks)), "traffic": times_as_fast(in_traffic)}
    return _worst([more, as_much]), figures


@finding(lambda row: row["part"] in (WORKLOAD, SIZE, TIME, COUNT))
def ahead_of_all(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 12; by the means over workloads, as the patent has them ([0135])."""
    found = _over_baselines(rows)
    return verdict_at_least(min(found), AHEAD, noise=noise), {"times": ratio_range(found)}


@finding(lambda row: row["part"] in (WORKLOAD, SIZE, TIME, COUNT))
def up_to_three_times(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 12, the largest lead."""
    largest = max(_over_baselines(rows))
    verdict = verdict_at_least(largest, UP_TO, noise=noise, surpassed=UP_TO * BEYOND)
    return verdict, {"largest": times_as_fast(largest)}


@finding(having(part=ADAPTIVE))
def adaptive_over_static(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 13; by the means over workloads ([0135])."""
    judged = [row for row in rows if number(row, "value") <= LONGEST]
    found = [_saved(rows_of(judged, stream=stream, value=x), LOOP) for stream, x in product(STREAMS, values_of(judged))]
    verdict = verdict_at_least(min(found), DYNAMIC, noise=noise)
    # A plan that knows the events beforehand bounds what replanning could save while exchanges are within a window.
    if verdict is Verdict.DIFFERS and max(_saved([row], HINDSIGHT, "candidates") for row in judged) < DYNAMIC:
        verdict = Verdict.UNDECIDED
    return verdict, {"times": ratio_range(found)}


def _saved(rows: Sequence[Row], run: str, figure: str = "seconds") -> float:
    """The static plan's figure as a multiple of another run's, by their means."""
    return mean_of(rows, f"{STATIC}:{figure}") / mean_of(rows, f"{run}:{figure}")


@finding(lambda row: row["part"] in (DENSITY, RATES))
def never_below_either(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 14."""
    found = [ratio for name in BEST for ratio in ratios(rows, name, [SH.name, RE.name])]
    return verdict_at_least(min(found), 1.0, noise=noise), {"times": ratio_range(found)}


@finding(having(part=RATES))
def reordering_and_rates(rates: Sequence[Row], noise: float) -> Measured:
    """Figure 14, RE."""
    return _growth(rates, RE.name, noise), _range_of_means(rates, RE.name)


@finding(having(part=DENSITY))
def sharing_and_density(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 14, SH; the density of a value is the mean over its workloads."""
    density = {
        (row["stream"], row["value"]): number(row, "density of pairs") for row in averaged(rows, ("density of pairs",))
    }
    by_density = [{**row, "value": density[row["stream"], row["value"]]} for row in rows]
    return _growth(by_density, SH.name, noise), _range_of_means(rows, SH.name)


def _over_baselines(rows: Sequence[Row]) -> list[float]:
    """The mean gain of SA-EDGE as a multiple of that of the best baseline, by part, stream and value."""
    means = [{**row, "number": 0} for row in averaged(rows)]
    return ratios(means, SA_EDGE.name, [baseline.name for baseline in BASELINES])


def _growth(rows: Sequence[Row], contender: str, noise: float) -> Verdict:
    """The verdict on gains that grow with the value of a part.

    In each stream the means over the workloads have to grow, and so have the gains of each workload that was drawn for
    all of the values. Where these disagree, or are alike but for noise, nothing is decided.
    """
    found = []
    for stream in STREAMS:
        own = rows_of(rows, stream=stream, contender=contender)
        numbers = dict.fromkeys(row["number"] for row in own)
        series = [averaged(own), *(rows_of(own, number=drawn) for drawn in numbers)]
        whole = max(map(len, series))
        found.append(_agreed(_grows(of, noise) for of in series if len(of) == whole))
    return _worst(found)


def _grows(rows: Sequence[Row], noise: float) -> Verdict:
    points = sorted((number(row, "value"), number(row, "gain")) for row in rows)
    xs, ys = zip(*points, strict=True)
    by_ends = verdict_at_least(ys[-1] / ys[0], 1.0, noise=noise)
    by_ranks = Verdict.HOLDS if rank_correlation(xs, ys) > 0 else Verdict.DIFFERS
    return _agreed([by_ends, by_ranks])


def _agreed(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that all say; undecided where they disagree."""
    [found, *others] = {*verdicts}
    return Verdict.UNDECIDED if others else found


def _worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a claim of several parts: it differs where one part does, and holds where all of them do."""
    found = {*verdicts}
    return next((worse for worse in (Verdict.DIFFERS, Verdict.UNDECIDED) if worse in found), Verdict.HOLDS)


def _gains_of_means(rows: Sequence[Row], contender: str) -> list[float]:
    return [number(row, "gain") for row in averaged(rows_of(rows, contender=contender))]


def _range_of_means(rows: Sequence[Row], contender: str) -> dict[str, str]:
    """The least and the greatest mean gain of a contender over the values of a part, as a figure of a finding."""
    return {"gains": ratio_range(_gains_of_means(rows, contender))}


STYLES = {
    **{
        f"{short}-{place}": Style(PALETTE[color], short == "TS")
        for short in ("SA", "TS")
        for place, color in (("EDGE", 1), ("VERTEX4", 5), ("VERTEX8", 7), ("EDGE-PREFIX", 4))
    },
    **{name: Style(PALETTE[color]) for name, color in (("RE", 2), ("SH", 0), ("SH-RR", 3), ("SH-MDT", 6))},
}
PARTS = {
    WORKLOAD: ("Gain against the number of patterns (figures 10, 12A, 12E)", "patterns", "patterns"),
    SIZE: ("Gain against the size of patterns (figures 11A, 12B, 12F)", "size", "events of a pattern"),
    SEARCH: ("Gain against the time of search (figure 11B)", "search", "seconds of search"),
    TIME: ("Gain against the time window (figures 11C, 12C, 12G)", "window_s", "seconds of the window"),
    COUNT: (
        "Gain against the count window (figures 11D, 12D, 12H)",
        "window_events",
        "seconds in which so many events come in the mean",
    ),
    DENSITY: (
        "Gain against the density of the multi-pattern graph (figures 14A, 14B)",
        "density",
        "types of the workload",
    ),
    RATES: ("Gain against the difference of rates (figures 14C, 14D)", "rates", "largest difference of rates"),
}
"""Part -> heading, name of its chart, and what its values are."""


def write_page(rows: Sequence[Row], sizes: Sizes, request: Request) -> Page:
    """The page of finished cells; that all plans found the same was checked in each of them."""
    apart = by_contender(row for row in rows if row["part"] in COMPARED_BY_GAINS)
    by_value = sorted(apart, key=lambda row: (STREAMS.index(str(row["stream"])), row["value"]))
    means = averaged(by_value, ("throughput", "candidates", "created", "cost", "planning", "density of pairs"))
    largest = rows_of(means, part=WORKLOAD, value=max(sizes.patterns))
    searched = [row for row in rows_of(means, part=SEARCH) if row["contender"] in BEST]
    exchanged = rows_of(rows, part=ADAPTIVE)
    noise = noise_of(apart)
    return findings_page(
        __name__,
        sizes,
        request,
        all_findings(rows),
        [*_gain_pictures(means), _exchanged_picture(exchanged)],
        gains=lambda part, value: _by_contender(rows_of(means, part=part), f"gain by {value}", "gain", times_as_fast),
        plans=columns_table(
            largest,
            {
                "stream": lambda row: str(row["stream"]),
                "plan": lambda row: str(row["contender"]),
                "events/s": lambda row: count_per_s(number(row, "throughput")),
                "candidates": lambda row: f"{number(row, 'candidates'):,.0f}",
                "created": lambda row: f"{number(row, 'created'):,.0f}",
                "nodes": lambda row: f"{row['nodes']:,}",
                "cost": lambda row: f"{number(row, 'cost'):,.0f}",
                "planning": lambda row: format_seconds(number(row, "planning")),
            },
        ),
        prefixes=_prefixes(rows_of(apart, part=WORKLOAD)),
        searched=_by_contender(searched, "seconds", "cost", "{:,.0f}".format),
        densities=table_across(
            rows_of(means, part=DENSITY, contender=SA_EDGE.name),
            "stream",
            "value",
            "types",
            lambda own: f"{number(own[0], 'density of pairs'):.2f}",
        ),
        exchanged=_exchanged_table(exchanged),
        descriptions={name: stream_named(name, request, sizes.windows).description for name in STREAMS},
        noise=noise,
        is_noise_unknown=math.isinf(noise),
        drawn=workloads,
        exchanged_windows=", ".join(
            f"{mean_of(rows_of(exchanged, stream=name), 'window'):,.0f} ({name})" for name in STREAMS
        ),
    )


def _by_contender(rows: Sequence[Row], corner: str, figure: str, text: Callable[[float], str]) -> str:
    """Contenders down, streams and values across."""
    columns = [
        {**row, "column": f"{row['stream']} {number(row, 'value'):g}"} for row in rows if row["contender"] in STYLES
    ]
    return table_across(columns, "contender", "column", corner, lambda own: text(number(own[0], figure)))


def _prefixes(rows: Sequence[Row]) -> str:
    lines: list[Row] = []
    for stream in STREAMS:
        own = rows_of(rows, stream=stream)
        less = {
            figure: 1 / geometric_mean(ratios(own, SA_EDGE.name, [f"{SA_EDGE.name}-PREFIX"], figure))
            for figure in ("candidates", "created")
        }
        edge = rows_of(own, contender=SA_EDGE.name)
        lines.append(
            {"stream": stream, **less, "pairs": mean_of(edge, "candidates of pairs") / mean_of(edge, "candidates")}
        )
    return columns_table(
        lines,
        {
            "stream": lambda row: str(row["stream"]),
            "candidates": lambda row: times_as_fast(number(row, "candidates")),
            "partial matches": lambda row: times_as_fast(number(row, "created")),
            "joins of two events": lambda row: f"{number(row, 'pairs'):.0%}",
        },
    )


def _exchanged_table(rows: Sequence[Row]) -> str:
    """One line a stream and x: means over workloads."""

    def rate(name: str) -> Callable[[Sequence[Row]], str]:
        return lambda own: count_per_s(mean_of(own, "events") / mean_of(own, f"{name}:seconds"))

    def total(own: Sequence[Row], name: str) -> int:
        return int(sum(number(row, f"{LOOP}:{name}") for row in own))

    return columns_table(
        [rows_of(rows, stream=stream, value=value) for stream in STREAMS for value in values_of(rows)],
        {
            "stream": lambda own: str(own[0]["stream"]),
            "x": lambda own: f"{own[0]['value']:,}",
            "static": rate(STATIC),
            "adaptive": rate(LOOP),
            "gain": lambda own: times_as_fast(_saved(own, LOOP)),
            "in hindsight": lambda own: times_as_fast(_saved(own, HINDSIGHT, "candidates")),
            "the loop": lambda own: times_as_fast(_saved(own, LOOP, "candidates")),
            "planned": lambda own: f"{total(own, 'planned')} of {total(own, 'checks')}",
            "switched": lambda own: f"{total(own, 'switches')}",
            "deciding": lambda own: format_seconds(mean_of(own, f"{LOOP}:deciding")),
            "planning": lambda own: format_seconds(mean_of(own, f"{LOOP}:planning")),
        },
    )


def _gain_pictures(means: Sequence[Row]) -> list[Picture]:
    gain = Axis("gain", "times the trivial plan's throughput", log=True)
    pictures = []
    for part, (heading, name, value) in PARTS.items():
        shown = [row for row in rows_of(means, part=part) if row["contender"] in STYLES]
        axis = Axis("value", value, log=part in (WORKLOAD, SEARCH))
        chart = line_chart(shown, axis, gain, "contender", styles=STYLES, facet="stream")
        pictures.append(Picture(name, heading, f"{heading}.", chart))
    return pictures


def _exchanged_picture(rows: Sequence[Row]) -> Picture:
    points: list[Row] = [
        {
            "stream": stream,
            "x": x,
            "plan": plan,
            "fewer": _saved(rows_of(rows, stream=stream, value=x), run, "candidates"),
        }
        for stream, x in product(STREAMS, values_of(rows))
        for plan, run in (("adaptive", LOOP), ("in hindsight", HINDSIGHT))
    ]
    shows = "Candidates against x, the events between two exchanges of types (figure 13)"
    x = Axis("x", "events between two exchanges", log=True)
    fewer = Axis("fewer", "times fewer candidates than the static plan")
    return Picture("exchanged", shows, f"{shows}.", line_chart(points, x, fewer, "plan", facet="stream"))


EXPERIMENT = Experiment("multi_pattern", SMALL, FULL, _cells, write_page)
