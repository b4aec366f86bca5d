"""One workload, planned by all contenders and run by their plans: what is measured of each."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations

import pyarrow as pa

from benchmarks.experiments.cells import Figure
from benchmarks.experiments.multi_pattern.streams import WorkloadStream
from benchmarks.experiments.multi_pattern.workloads import Shape, draw_workload
from benchmarks.measure import one_core
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
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics import estimate_statistics
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

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
