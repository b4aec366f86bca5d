"""`cep experiment multi_pattern`: plans of many patterns at once against plans of each by itself (MCEP, section 6)."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import combinations, product

import pyarrow as pa

from benchmarks.experiments.experiment import Cell, Experiment, Figure, Request, Row
from benchmarks.experiments.multi_pattern.workloads import (
    STOCKS,
    STREAMS,
    WINDOW_S,
    Shape,
    WorkloadStream,
    draw_workload,
    draw_workload_for,
    events_of_window,
    permuted,
    pool_of,
    stocks,
    traffic,
    window_s_of,
)
from benchmarks.measure import one_core
from cep_pipeline.adaptation import AdaptiveDetection
from cep_pipeline.adaptation.decisions import ConstantThreshold, InvariantBased, Static
from cep_pipeline.adaptation.report import AdaptationReport
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, Owned
from cep_pipeline.detection.network.run import NetworkRun
from cep_pipeline.errors import CepError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_plans import Sharing
from cep_pipeline.planning.costs import INSTANCES, THROUGHPUT
from cep_pipeline.planning.multi_pattern import Member, members_of, shared_plan_of
from cep_pipeline.planning.multi_pattern.costs import ln_node_cost, member_statistics
from cep_pipeline.planning.multi_pattern.plan_workload import plan_workload
from cep_pipeline.planning.numbers.clause_statistics import mask_of
from cep_pipeline.planning.numbers.logarithms import ln_sum
from cep_pipeline.planning.plans import Plan
from cep_pipeline.planning.trees import OrderOrTree, as_tree
from cep_pipeline.slices.ownership import look_back
from cep_pipeline.slices.prepared import Boundary, PreparedEvents
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
MULTITREE, MULTI_PATTERN_NFA = "multitree", "multi_pattern_nfa"


@dataclass(frozen=True)
class SearchLimit:
    """The end of a local search: after seconds, or after steps."""

    seconds: float | None = None
    steps: int | None = None

    def __str__(self) -> str:
        return f"{self.steps:,} steps" if self.steps is not None else f"{self.seconds:g} s"


@dataclass(frozen=True)
class Contender:
    """A planner with its options, and the mechanism that its plans run on; without a cost it has the default one."""

    name: str
    planner: str
    neighbourhood: str | None = None
    sharing: Sharing = "subexpression"
    cost: str | None = None

    @property
    def searches(self) -> bool:
        """True for a local search."""
        return self.neighbourhood is not None

    @property
    def is_trivial(self) -> bool:
        """True where its plan is the one that gains are over."""
        return self.planner == "none"

    @property
    def mechanism(self) -> str:
        """The mechanism of the patent that runs its plans."""
        return MULTI_PATTERN_NFA if self.sharing == "prefix" else MULTITREE


TRIVIAL = Contender("trivial", "none")
TRIVIAL_NFA = Contender("trivial, NFA", "none", sharing="prefix")
SA_EDGE = Contender("SA-EDGE", "simulated_annealing", "edge")
TS_EDGE = Contender("TS-EDGE", "tabu", "edge")
_NEIGHBOURHOODS: tuple[tuple[str, str, Sharing], ...] = (
    ("EDGE", "edge", "subexpression"),
    ("VERTEX4", "vertex:4", "subexpression"),
    ("VERTEX8", "vertex:8", "subexpression"),
    ("EDGE-PREFIX", "edge", "prefix"),
)
SEARCHES = tuple(
    Contender(f"{short}-{place}", planner, neighbourhood, sharing)
    for short, planner in (("SA", "simulated_annealing"), ("TS", "tabu"))
    for place, neighbourhood, sharing in _NEIGHBOURHOODS
)
BY_PARTIAL_MATCHES = tuple(
    replace(contender, name=f"{contender.name}-PM", cost=THROUGHPUT.name)
    for contender in SEARCHES
    if contender.name in ("SA-EDGE", "SA-EDGE-PREFIX")
)
"""The same searches by the patent's cost."""
SH, RE, SH_RR, SH_MDT = (
    Contender(name, planner)
    for name, planner in (
        ("SH", "sharing"),
        ("RE", "reordering"),
        ("SH-RR", "redundancy_ratio"),
        ("SH-MDT", "merge_decomposition"),
    )
)
BASELINES = (SH, RE, SH_RR, SH_MDT)
ALL = (TRIVIAL, TRIVIAL_NFA, *SEARCHES, *BY_PARTIAL_MATCHES, *BASELINES)
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


def snapshot_for(patterns: Sequence[Pattern], events: pa.Table) -> StatisticsSnapshot:
    """The statistics that all plans of a workload are made by."""
    return estimate_statistics(patterns, events, max_pairs=MAX_PAIRS)


def prepared_events(stream: WorkloadStream, events: pa.Table) -> PreparedEvents:
    """Events of a stream as mechanisms read them."""
    return PreparedEvents(events, type_attribute=stream.schema.type_attribute, base_type=stream.schema.base_type)


def run_plan(
    patterns: Sequence[Pattern], plan: Plan, mechanism: str, events: PreparedEvents, owned: Owned = EVERYTHING
) -> Ran:
    """Run a plan on one of the patent's mechanisms, which shares what the plan says: nothing in a trivial one.

    All patterns are in one network, where each type's events are read once whatever the plan. Its making is not in the
    time.
    """
    orders: list[OrderOrTree] = [
        clause.order_or_tree for pattern in patterns for clause in plan.for_pattern(pattern.name).clauses
    ]
    if mechanism == MULTITREE:
        orders = [as_tree(order) for order in orders]
    run = NetworkRun(members_of(patterns), orders, plan.sharing, events, owned, with_negated=mechanism == MULTITREE)
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


def repeated_runs(patterns: Sequence[Pattern], plan: Plan, mechanism: str, events: PreparedEvents) -> list[Ran]:
    """The runs of a plan, from the quickest to the slowest."""
    runs = [run_plan(patterns, plan, mechanism, events)]
    while sum(ran.seconds for ran in runs) < ENOUGH_S and len(runs) < MOST_RUNS:
        runs.append(run_plan(patterns, plan, mechanism, events))
    return sorted(runs, key=lambda ran: ran.seconds)


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
    figures: dict[str, Figure] = {
        "events": stream.events.num_rows,
        "window": shape.window,
        "density": given.density,
        "density of pairs": given.density_of_pairs,
    }
    expected: Mapping[str, int] | None = None
    for contender in contenders:
        run = _planned_and_run(stream, shape, number, contender, search if contender.searches else None, seed)
        expected = same_matches(contender.name, run.ran.matches, expected)
        figures |= {f"{contender.name}:{name}": figure for name, figure in _figures(run).items()}
    figures["matches"] = sum((expected or {}).values())
    return figures


@dataclass(frozen=True)
class _Given:
    """A workload as all contenders get it."""

    patterns: tuple[Pattern, ...]
    snapshot: StatisticsSnapshot
    events: PreparedEvents
    density: float
    density_of_pairs: float


@dataclass(frozen=True)
class _PlannedAndRun:
    """A contender's plan, the seconds that it took to make, its runs, and ln of what its joins cost.

    The quickest run is the first one.
    """

    plan: Plan
    planning: float
    runs: Sequence[Ran]
    ln_joins: float

    @property
    def ran(self) -> Ran:
        """The quickest run."""
        return self.runs[0]


@lru_cache(maxsize=4)
def _given(stream: WorkloadStream, shape: Shape, number: int, seed: int) -> _Given:
    patterns = draw_workload(stream, shape, number, seed).patterns
    snapshot = snapshot_for(patterns, stream.events)
    densities = (graph_density(members_of(patterns), size) for size in (1, 2))
    return _Given(patterns, snapshot, prepared_events(stream, stream.events), *densities)


def graph_density(members: Sequence[Member], size: int) -> float:
    """The share of all pairs of members that have a sub-pattern of so many variables in common."""
    keys = [
        {member.subsets.key(mask_of(places)) for places in combinations(range(len(member.names)), size)}
        for member in members
    ]
    pairs = [not one.isdisjoint(other) for one, other in combinations(keys, 2)]
    return sum(pairs) / len(pairs) if pairs else 0.0


@lru_cache(maxsize=256)
def _planned_and_run(
    stream: WorkloadStream, shape: Shape, number: int, contender: Contender, search: SearchLimit | None, seed: int
) -> _PlannedAndRun:
    """Plan and run a workload by a contender; where several parts have the same one, it is measured once."""
    given = _given(stream, shape, number, seed)
    begun = time.perf_counter()
    plan = planned(contender, given.patterns, given.snapshot, search, seed)
    planning = time.perf_counter() - begun
    runs = repeated_runs(given.patterns, plan, contender.mechanism, given.events)
    shared = shared_plan_of(plan, given.patterns)
    statistics = member_statistics(shared.members, given.snapshot)
    joins = [ln_node_cost(shared, node, statistics, INSTANCES) for node in shared if node.size > 1]
    return _PlannedAndRun(plan, planning, runs, ln_sum(joins))


def planned(
    contender: Contender,
    patterns: Sequence[Pattern],
    snapshot: StatisticsSnapshot,
    search: SearchLimit | None,
    seed: int,
) -> Plan:
    """The plan of a contender; a limit is asked for where it searches."""
    if search is None:
        return plan_workload(patterns, snapshot, contender.planner, cost=contender.cost, sharing=contender.sharing)
    return plan_workload(
        patterns,
        snapshot,
        contender.planner,
        cost=contender.cost,
        neighbourhood=contender.neighbourhood or "edge",
        sharing=contender.sharing,
        time_limit_s=search.seconds,
        steps=search.steps,
        seed=seed,
    )


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


def _figures(run: _PlannedAndRun) -> dict[str, Figure]:
    plan, counters = run.plan, run.ran.counters
    assert plan.workload is not None
    search = plan.workload.search
    pairs = [node for node in counters.nodes.values() if len(node.node) == 2]
    return {
        "seconds": run.ran.seconds,
        "next_seconds": run.runs[1].seconds if len(run.runs) > 1 else None,
        "planning": run.planning,
        "steps": 0 if search is None or search.steps is None else search.steps,
        "cost": math.exp(plan.ln_cost),
        "cost of joins": math.exp(run.ln_joins),
        "nodes": plan.workload.nodes,
        "nodes apart": plan.workload.nodes_apart,
        "candidates": run.ran.candidates,
        "candidates of pairs": sum(node.candidates for node in pairs),
        "created": run.ran.created,
        "peak": counters.peak_instances,
    }


STATIC, FIRST, HINDSIGHT, PHASES = "static", "first", "hindsight", "phases"
"""Plans of the statistics of the stream as it was, of the first exchanged events, of all of them, and of each phase."""
LOOP, INVARIANTS, LOOP_STATIC = "loop", "loop, invariants", "loop static"
"""The product's own loop, component by component, by a threshold and by invariants; and the same with the static plan.
"""


ANEW, ON_TOP = "drawn anew", "on top of each other"
"""Two ways to read what the patent says of the input: an exchange changes the stream as it was, or what the exchange
before has left."""
EXCHANGES = (ANEW, ON_TOP)


@dataclass(frozen=True)
class AdaptiveSizes:
    """The extent of this part.

    Attributes
    ----------
    patterns, size
        Of the workload.
    windows, window_events
        How many windows of a stream are read; and the events of a window.
    phases
        x: events after which types are exchanged anew; the patent has 10 to 1,000.
    workloads
        How many are drawn for the reading that is judged by; of the others it is one.
    every_windows
        Windows between two checks of the statistics.
    reach_windows
        Windows that the statistics reach back.
    steps
        Of the search that makes a plan, from the current one on.
    threshold
        By what share a rate or a selectivity has to have moved for it.
    minimum_gain
        The share of its cost that a new plan has to save.
    """

    patterns: int
    size: int
    windows: int
    window_events: int
    phases: tuple[int, ...]
    workloads: int
    every_windows: int
    reach_windows: int
    steps: int
    threshold: float
    minimum_gain: float

    def cells(self) -> list[tuple[str, str, int, int]]:
        """The measurements: stream, reading, x, and number of the workload."""
        return [
            *((s, ANEW, x, n) for s, x, n in product(STREAMS, self.phases, range(self.workloads))),
            *((s, ON_TOP, x, 0) for s, x in product(STREAMS, self.phases)),
        ]


@dataclass(frozen=True)
class _Span:
    """Events from one row up to another, and the plan that runs them."""

    first: int
    end: int
    plan: Plan


def measure_adaptive(
    stream: WorkloadStream, exchange: str, phase: int, number: int, sizes: AdaptiveSizes, seed: int
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
    window_s = f"{stream.window_s} seconds"
    shape = Shape(sizes.patterns, sizes.size, window=window_s, kleene=False, all_compared=stream.longer > 1)
    exchanged = permuted(stream, phase, pool_of(stream, shape, number, seed), seed, on_top=exchange == ON_TOP)
    patterns = draw_workload_for(stream, exchanged, shape, number, seed).patterns
    events = exchanged.events
    window = round(events.num_rows / stream.windows)
    every, reach = sizes.every_windows * window, sizes.reach_windows * window
    plan_of = partial(_searched, patterns, steps=sizes.steps, seed=seed)
    known = snapshot_for(patterns, stream.events)
    static = plan_of(known)
    all_of_it = partial(_Span, 0, events.num_rows)
    spans = {
        STATIC: [all_of_it(static)],
        FIRST: [all_of_it(plan_of(snapshot_for(patterns, events.slice(0, every))))],
        HINDSIGHT: [all_of_it(plan_of(snapshot_for(patterns, events)))],
        PHASES: [
            _Span(row, row + part.num_rows, plan_of(snapshot_for(patterns, part)))
            for row, part in _parts(events, max(phase, reach))
        ],
    }
    ran = {name: _run(exchanged, patterns, own) for name, own in spans.items()}
    matches = {name: found for name, (_, _, found) in ran.items()}
    reports = {}
    decisions = {LOOP_STATIC: Static(), LOOP: ConstantThreshold(sizes.threshold), INVARIANTS: InvariantBased()}
    for name, decision in decisions.items():
        loop = AdaptiveDetection(
            mechanism=MULTITREE,
            decision=decision,
            every_events=every,
            window=reach,
            seed=seed,
            max_pairs=MAX_PAIRS,
            minimum_gain=sizes.minimum_gain,
            clock=time.process_time,
            search={"steps": sizes.steps, "seed": seed},
        )
        tables, reports[name] = loop.detect(patterns, events, static, known, output="count")
        matches[name] = {of: int(table.column("count")[0].as_py()) for of, table in tables.items()}
    for name, found in matches.items():
        same_matches(name, found, matches[STATIC])
    figures: dict[str, Figure] = {"events": events.num_rows, "window": window, "matches": sum(matches[STATIC].values())}
    for name, (seconds, candidates, _) in ran.items():
        figures |= {f"{name}:seconds": seconds, f"{name}:plans": len(spans[name]), f"{name}:candidates": candidates}
    for name, report in reports.items():
        figures |= {f"{name}:{figure}": value for figure, value in _of_loop(report).items()}
    return figures


def _of_loop(report: AdaptationReport) -> dict[str, Figure]:
    """The figures of a run of the loop; `seconds` are those of detection, with the networks made for each stretch."""
    return {
        "seconds": report.total.detecting,
        "deciding": report.total.deciding,
        "planning": report.total.planning,
        "candidates": sum(node.candidates for node in report.metrics.nodes),
        "checks": len(report.checks),
        "planned": report.replannings,
        "switches": len(report.switches),
    }


def _searched(patterns: Sequence[Pattern], snapshot: StatisticsSnapshot, steps: int, seed: int) -> Plan:
    return plan_workload(patterns, snapshot, "simulated_annealing", steps=steps, seed=seed)


def _parts(events: pa.Table, size: int) -> list[tuple[int, pa.Table]]:
    return [(row, events.slice(row, size)) for row in range(0, events.num_rows, size)]


def _run(
    stream: WorkloadStream, patterns: Sequence[Pattern], spans: Sequence[_Span]
) -> tuple[float, int, dict[str, int]]:
    """Run plans one after another, each from a window before its first event on, so that no match is lost.

    Returned are the seconds, the candidates that were tested, and the matches of each pattern.
    """
    seconds, counters = 0.0, Counters()
    found = {pattern.name: 0 for pattern in patterns}
    time_us = look_back(patterns).time_us
    timestamps = stream.events.column("timestamp").cast(pa.int64()).to_numpy()
    for span in spans:
        begin = int(timestamps.searchsorted(timestamps[span.first] - time_us, "left"))
        owned: Owned = (_point(stream.events, span.first), _point(stream.events, span.end))
        events = prepared_events(stream, stream.events.slice(begin, span.end - begin))
        ran = run_plan(patterns, span.plan, MULTITREE, events, owned)
        seconds += ran.seconds
        counters.add(ran.counters)
        for name, count in ran.matches.items():
            found[name] += count
    return seconds, sum(node.candidates for node in counters.nodes.values()), found


def _point(events: pa.Table, row: int) -> Boundary | None:
    if row in (0, events.num_rows):
        return None
    stream_point = events.slice(row, 1)
    return stream_point.column("timestamp").cast(pa.int64())[0].as_py(), stream_point.column("seq")[0].as_py()


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

    windows: int
    patterns: Mapping[int, int]
    most_for_all: int
    workloads: int
    base: int
    pattern_sizes: tuple[int, ...]
    search: SearchLimit
    search_s: tuple[float, ...]
    window_s: tuple[int, ...]
    types: tuple[int, ...]
    rate_differences: tuple[float, ...]
    adaptive: AdaptiveSizes


SMALL = Sizes(
    windows=20,
    patterns={10: 10, 30: 10, 100: 10},
    most_for_all=30,
    workloads=2,
    base=30,
    pattern_sizes=(3, 5, 7),
    search=SearchLimit(steps=5_000),
    search_s=(0.1, 0.4, 1.6),
    window_s=(600, 900, 1_200),
    types=(7, 12, 18),
    rate_differences=(0.2, 0.4, 1.0),
    adaptive=AdaptiveSizes(
        patterns=20,
        size=3,
        windows=4,
        window_events=10_000,
        phases=(10, 1_000, 10_000),
        workloads=2,
        every_windows=1,
        reach_windows=2,
        steps=5_000,
        threshold=1.0,
        minimum_gain=0.5,
    ),
)
FULL = replace(
    SMALL,
    patterns={**SMALL.patterns, 300: 1, 1_000: 1},
    most_for_all=100,
    workloads=10,
    base=100,
    search=SearchLimit(steps=200_000),
    search_s=(0.25, 1.0, 4.0, 16.0),
    adaptive=replace(
        SMALL.adaptive,
        patterns=40,
        windows=8,
        phases=(10, 30, 100, 300, 1_000, 10_000, 100_000),
        workloads=10,
    ),
)


def stream_named(
    name: str, sizes: Sizes, request: Request, windows: int | None = None, window_s: int = WINDOW_S
) -> WorkloadStream:
    """One of the two streams; it is made when it is first asked for."""
    extent = sizes.windows if windows is None else windows, window_s
    return stocks(*extent) if name == STOCKS else traffic(request.data, *extent)


def _cells(sizes: Sizes, request: Request) -> Iterator[Cell]:
    yield from _workload_cells(sizes, request)
    yield from _adaptive_cells(sizes, request)


def _workload_cells(sizes: Sizes, request: Request) -> Iterator[Cell]:
    base = Shape(sizes.base)

    def run(
        stream: str,
        shape: Shape | Callable[[WorkloadStream], Shape],
        number: int,
        contenders: Sequence[Contender],
        search: SearchLimit,
    ) -> Row:
        of = stream_named(stream, sizes, request)
        wanted = shape if isinstance(shape, Shape) else shape(of)
        return measure_workload(of, wanted, number, contenders, search, request.seed)

    def cell(
        part: str,
        value: float,
        stream: str,
        shape: Shape | Callable[[WorkloadStream], Shape],
        number: int,
        contenders: Sequence[Contender] = COMPARED,
        search: SearchLimit = sizes.search,
    ) -> Cell:
        key: dict[str, Figure] = {
            "part": part,
            "stream": stream,
            "value": value,
            "patterns": shape.patterns if isinstance(shape, Shape) else base.patterns,
            "number": number,
            "windows": sizes.windows,
            "search": str(search),
        }
        return Cell(key, partial(run, stream, shape, number, contenders, search))

    for stream, (patterns, workloads) in product(STREAMS, sizes.patterns.items()):
        for number in range(workloads):
            contenders = ALL if patterns <= sizes.most_for_all else COMPARED
            yield cell(WORKLOAD, patterns, stream, Shape(patterns), number, contenders)
    shapes: list[tuple[str, float, Shape | Callable[[WorkloadStream], Shape]]] = [
        *((SIZE, size, replace(base, size=size)) for size in sizes.pattern_sizes),
        *((TIME, length, replace(base, window=f"{length} seconds")) for length in sizes.window_s),
        *((COUNT, length, partial(_counted, base, length)) for length in sizes.window_s),
        *((DENSITY, types, replace(base, types=types)) for types in sizes.types),
        *((RATES, share, replace(base, rate_difference=share)) for share in sizes.rate_differences),
    ]
    for (part, value, shape), stream, number in product(shapes, STREAMS, range(sizes.workloads)):
        yield cell(part, value, stream, shape, number)
    searched = [contender for contender in COMPARED if contender.searches or contender.is_trivial]
    for seconds, stream, number in product(sizes.search_s, STREAMS, range(sizes.workloads)):
        yield cell(SEARCH, seconds, stream, base, number, searched, SearchLimit(seconds=seconds))


def _counted(shape: Shape, length: int, stream: WorkloadStream) -> Shape:
    """Return the shape with a count window. Its length depends on the stream, which is made when it is asked for."""
    return replace(shape, window=f"{events_of_window(stream, length)} events")


def _adaptive_cells(sizes: Sizes, request: Request) -> Iterator[Cell]:
    def run(stream: str, exchange: str, phase: int, number: int) -> Row:
        read = stream_named(stream, sizes, request, of.windows, window_s_of(stream, of.window_events))
        return measure_adaptive(read, exchange, phase, number, of, request.seed)

    of = sizes.adaptive
    for stream, exchange, phase, number in of.cells():
        key: dict[str, Figure] = {"part": ADAPTIVE, "stream": stream, "value": phase, "windows": of.windows}
        key |= {"exchange": exchange, "number": number, "patterns": of.patterns, "size": of.size}
        key |= {"steps": of.steps, "threshold": of.threshold, "minimum gain": of.minimum_gain}
        key |= {"every": of.every_windows, "reach": of.reach_windows, "events a window": of.window_events}
        yield Cell(key, partial(run, stream, exchange, phase, number))


EXPERIMENT = Experiment("multi_pattern", SMALL, FULL, _cells)
