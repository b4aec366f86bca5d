"""Costs and times of a workload's plans, which say whether a cost model ranks them as the clock does."""

from __future__ import annotations

import random
from collections.abc import Mapping
from statistics import median

from benchmarks.experiments.cells import Figure, Row
from benchmarks.experiments.findings import rank_correlation
from benchmarks.experiments.multi_pattern.runs import (
    MULTI_PATTERN_NFA,
    MULTITREE,
    prepared_events,
    run_orders,
    snapshot_for,
)
from benchmarks.experiments.multi_pattern.streams import WorkloadStream
from benchmarks.experiments.multi_pattern.workloads import Shape, draw_workload
from cep_pipeline.planning.clause_plans import Sharing
from cep_pipeline.planning.multi_pattern import Member, MemberId, members_of, share
from cep_pipeline.planning.multi_pattern.costs import SHARED_COSTS, Statistics, ln_cost, member_statistics
from cep_pipeline.planning.multi_pattern.plan_workload import plan_workload
from cep_pipeline.planning.plans import Plan
from cep_pipeline.planning.trees import Join, OrderOrTree, Tree, as_tree

KINDS: Mapping[str, tuple[Sharing, str]] = {
    "orders": ("prefix", MULTI_PATTERN_NFA),
    "trees": ("subexpression", MULTITREE),
}
"""Kind of plans -> what they share, and the mechanism that runs them."""
CHANGED = (0.0, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
"""Shares of the patterns that have another order or tree than the cheapest one by itself."""
DRAWN = 3
"""Number of orders or trees that are drawn for each, of which the cheapest counts: others would take minutes."""
RUNS = 3


def measure_costs(stream: WorkloadStream, shape: Shape, plans: int, seed: int) -> Row:
    """Run random plans of a workload.

    Each pattern has the plan that is the cheapest by itself, some by one cost and some by another, or, in a share of
    them that goes up from plan to plan, one of those that are drawn.

    Parameters
    ----------
    plans
        How many of each kind.

    Returns
    -------
    dict of str to figure
        By cost model and kind of plans the rank correlation of cost and seconds of the processor: `NAME:KIND`.
    """
    patterns = draw_workload(stream, shape, 0, seed).patterns
    snapshot = snapshot_for(patterns, stream.events)
    events = prepared_events(stream, stream.events)
    members = members_of(patterns)
    statistics = member_statistics({member.id: member for member in members}, snapshot)
    chosen = random.Random(seed)
    row: dict[str, Figure] = {}
    all_costs: dict[str, list[float]] = {name: [] for name in SHARED_COSTS}
    all_seconds: list[float] = []
    for kind, (sharing, mechanism) in KINDS.items():
        bases = [plan_workload(patterns, snapshot, cost=name, sharing=sharing, steps=1) for name in SHARED_COSTS]
        for number in range(plans):
            drawn = _drawn(members, bases, sharing, CHANGED[number % len(CHANGED)], statistics, chosen)
            ways = [drawn[member.id] for member in members]
            ran = [run_orders(patterns, ways, sharing, mechanism, events).seconds for _ in range(RUNS)]
            all_seconds.append(min(ran))
            shared = share(members, ways, sharing)
            for name, model in SHARED_COSTS.items():
                all_costs[name].append(ln_cost(shared, statistics, model))
        row[f"{kind}:seconds"] = median(all_seconds[-plans:])
        for name, costs in all_costs.items():
            row[f"{name}:{kind}"] = rank_correlation(costs[-plans:], all_seconds[-plans:])
    for name, costs in all_costs.items():
        row[f"{name}:both"] = rank_correlation(costs, all_seconds)
    return {**row, "plans": plans}


def _drawn(
    members: tuple[Member, ...],
    bases: list[Plan],
    sharing: Sharing,
    changed: float,
    statistics: Statistics,
    chosen: random.Random,
) -> dict[MemberId, OrderOrTree]:
    """The plan of each member."""
    found: dict[MemberId, OrderOrTree] = {}
    for member in members:
        name, clause = member.id
        if chosen.random() >= changed:
            own = chosen.choice(bases).for_pattern(name).clauses[clause].order_or_tree
            found[member.id] = own if sharing == "prefix" else as_tree(own)
            continue
        model = chosen.choice([*SHARED_COSTS.values()])
        ways = [_random_plan(member.names, sharing, chosen) for _ in range(DRAWN)]
        costs = [ln_cost(share([member], [way], sharing), statistics, model) for way in ways]
        found[member.id] = ways[costs.index(min(costs))]
    return found


def _random_plan(names: tuple[str, ...], sharing: Sharing, chosen: random.Random) -> OrderOrTree:
    if sharing == "prefix":
        return tuple(chosen.sample(names, len(names)))
    parts: list[Tree] = list(names)
    while len(parts) > 1:
        one = parts.pop(chosen.randrange(len(parts)))
        parts.append(Join(one, parts.pop(chosen.randrange(len(parts)))))
    return parts[0]
