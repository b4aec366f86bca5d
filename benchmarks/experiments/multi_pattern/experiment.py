"""`cep experiment multi_pattern`: plans of many patterns at once against plans of each by itself (MCEP, section 6)."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import combinations, product
from typing import Any

from benchmarks.experiments.experiment import Cell, Experiment, Figure, Request, Row
from benchmarks.experiments.multi_pattern.workloads import (
    STOCKS,
    STREAMS,
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
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters
from cep_pipeline.detection.network.run import NetworkRun
from cep_pipeline.errors import CepError
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
    expected: Mapping[str, int] | None = None
    for contender in contenders:
        limit = search if contender.neighbourhood else None
        found, own = _planned_and_run(stream, shape, number, contender, limit, seed)
        expected = same_matches(contender.name, found, expected)
        figures |= {f"{contender.name}:{name}": figure for name, figure in own.items()}
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


def same_matches(name: str, found: Mapping[str, int], expected: Mapping[str, int] | None) -> Mapping[str, int]:
    """The matches of each pattern, which are to be those that were found before.

    Raises
    ------
    CepError
        They are not.
    """
    if expected is not None and found != expected:
        [pattern, *_] = [pattern for pattern in expected if found.get(pattern) != expected[pattern]]
        raise CepError(
            f"multi_pattern: {name} finds {found.get(pattern, 0):,} matches of {pattern}, not the "
            f"{expected[pattern]:,} that were found before; plans must not change what is found"
        )
    return found


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
    expected: Mapping[str, int] | None = None
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
        found = {pattern: int(table.column("count")[0].as_py()) for pattern, table in tables.items()}
        expected = same_matches(name, found, expected)
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
    return {**figures, "matches": sum((expected or {}).values())}


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
    for patterns, workloads in sizes.patterns.items():
        contenders = ALL if patterns <= sizes.most_for_all else COMPARED
        yield from _workload_cells(sizes, request, WORKLOAD, {patterns: Shape(patterns)}, workloads, contenders)
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

    for (value, shape), stream, number in product(shapes.items(), STREAMS, range(workloads)):
        key: dict[str, Figure] = {"part": part, "stream": stream, "value": value, "patterns": shape.patterns}
        key |= {"number": number, "windows": sizes.windows, "search": str(limit)}
        yield Cell(key, partial(run, stream, shape, number))


def _adaptive_cells(sizes: AdaptiveSizes, request: Request) -> Iterator[Cell]:
    def run(stream: str, phase: int, number: int) -> Row:
        of = stream_named(stream, request, sizes.windows, window_s_of(stream, sizes.window_events))
        return measure_adaptive(of, phase, number, sizes, request.seed)

    for stream, phase, number in product(STREAMS, sizes.phases, range(sizes.workloads)):
        key: dict[str, Figure] = {"part": ADAPTIVE, "stream": stream, "value": phase, "number": number}
        yield Cell({**key, "sizes": str(sizes)}, partial(run, stream, phase, number))


EXPERIMENT = Experiment("multi_pattern", SMALL, FULL, _cells)
