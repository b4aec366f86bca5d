"""The cost of a shared plan: the sum over its nodes, shared ones counted once (MCEP [0079]-[0085], [0169]-[0171]).

A node costs what it costs any of its sharers alone: with the patent's cost function its expected partial matches,
W^k times rates times selectivities. As W is the node's largest window, it is the sharer with that window whose
statistics say so.

Many patterns are planned together by one of `SHARED_COSTS`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from cep_pipeline.errors import InputError
from cep_pipeline.patterns.pattern import Pattern, Window
from cep_pipeline.planning.clause_plans import NodeUse, SharedPlanNode, WorkloadPlan, WorkloadSearch
from cep_pipeline.planning.clause_questions import clause_statistics
from cep_pipeline.planning.clause_statistics import ClauseStatistics, ln_difference, ln_partial_matches, ln_sum
from cep_pipeline.planning.costs import CANDIDATE_NS, INSTANCES, THROUGHPUT, CostModel, cost_named, with_latency
from cep_pipeline.planning.multi_pattern.members import Member, MemberId
from cep_pipeline.planning.multi_pattern.shared_plan import SharedNode, SharedPlan, Slots, shared_plan_of
from cep_pipeline.planning.orderings import GRAIN
from cep_pipeline.planning.plans import Plan
from cep_pipeline.planning.trees import OrderOrTree, PositionTree
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

SHARED_COSTS: dict[str, CostModel] = {model.name: model for model in (THROUGHPUT, INSTANCES)}
"""Costs of shared plans by name: the patent's, which counts partial matches, and one that counts candidates too."""
DEFAULT_SHARED_COST = INSTANCES.name
"""The cost of shared plans where none is asked for. The time that a plan takes follows it, in orders and trees alike;
partial matches alone tell nothing of a join of two frequent sides that hardly anything passes."""


def shared_cost(name: str | None, alpha: float = 0.0) -> CostModel:
    """The cost model by which many patterns are planned together, as `planning.plan` takes its name and alpha.

    Raises
    ------
    InputError
        The name is unknown, or names no cost model for this.
    """
    model = with_latency(cost_named(DEFAULT_SHARED_COST if name is None else name), alpha)
    check_model(model)
    return model


def check_model(model: CostModel) -> None:
    """Refuse a cost model by which a node costs one of its sharers something that it does not cost another one.

    Raises
    ------
    InputError
        It is none of `SHARED_COSTS`.
    """
    if model not in SHARED_COSTS.values():
        known = " or ".join(map(repr, SHARED_COSTS))
        raise InputError(
            f"many patterns are planned together by the cost {known} with alpha 0, not by {model.name!r} with alpha "
            f"{model.alpha:g}: what else a shared node costs depends on whose it is"
        )


Statistics = Mapping[MemberId, ClauseStatistics]
"""The numbers of each member's clause."""


def member_statistics(
    members: Mapping[MemberId, Member], snapshot: StatisticsSnapshot
) -> dict[MemberId, ClauseStatistics]:
    """The numbers of members by a snapshot.

    Raises
    ------
    PlanError
        The snapshot does not know a leaf.
    """
    return {name: clause_statistics(member.pattern, member.clause, snapshot) for name, member in members.items()}


def ln_node_cost(plan: SharedPlan, node: SharedNode, statistics: Statistics, model: CostModel = THROUGHPUT) -> float:
    """Natural logarithm of what a node costs, within its largest window."""
    widest = plan.widest(node)
    return _ln_cost(plan, node, widest, node.sharers[widest][0], statistics, model)


def ln_cost(plan: SharedPlan, statistics: Statistics, model: CostModel = THROUGHPUT) -> float:
    """Natural logarithm of the cost of a shared plan: Cost^multi of MCEP [0085] and [0171] where `model` is throughput.

    Parameters
    ----------
    statistics
        Of each member of the plan its clause's numbers.
    model
        What a step, a leaf and a join cost. Its latency counts for each node as for the sharer with the largest window.
    """
    return ln_sum(ln_node_cost(plan, node, statistics, model) for node in plan)


def exchange(
    plan: SharedPlan, plans: Mapping[MemberId, OrderOrTree | str], statistics: Statistics, model: CostModel
) -> None:
    """Give members other orders or trees, as far as the plan costs less then: those that do not save keep theirs."""
    before = {name: plan.plans[name] for name in plans}
    touched = _touched(plan, plans)
    ln_before = _ln_cost_of(plan, touched, statistics, model)
    for name, other in plans.items():
        plan.replace(name, other)
    for name, known in before.items():
        if _saved_by(plan, {name: known}, statistics, model) < 0:
            plan.replace(name, plans[name])
    if _ln_cost_of(plan, touched, statistics, model) > ln_before - GRAIN:
        for name, known in before.items():
            plan.replace(name, known)


def take_cheaper(
    plan: SharedPlan, name: MemberId, plans: Sequence[OrderOrTree | str], statistics: Statistics, model: CostModel
) -> None:
    """Give a member the order or tree by which the plan costs least, if that is less than now."""
    now = best = plan.plans[name]
    most = GRAIN
    for other in plans:
        saved = _saved_by(plan, {name: other}, statistics, model)
        plan.replace(name, now)
        if saved > most:
            best, most = other, saved
    if best is not now:
        plan.replace(name, best)


def _saved_by(
    plan: SharedPlan, plans: Mapping[MemberId, OrderOrTree | str], statistics: Statistics, model: CostModel
) -> float:
    """Give members other orders or trees; by how much that lessens ln of the cost of all nodes that it touches.

    The other nodes cost as much as before.
    """
    touched = _touched(plan, plans)
    before = _ln_cost_of(plan, touched, statistics, model)
    for name, other in plans.items():
        plan.replace(name, other)
    return before - _ln_cost_of(plan, touched, statistics, model)


def _touched(plan: SharedPlan, plans: Mapping[MemberId, OrderOrTree | str]) -> set[str]:
    touched = {node.key for name in plans for node in plan.nodes_of(name)}
    return touched | {form.key for name, one in plans.items() for form in plan.forms(plan.members[name], one)}


def _ln_cost_of(plan: SharedPlan, keys: Iterable[str], statistics: Statistics, model: CostModel) -> float:
    nodes = (plan.node_of(key) for key in keys)
    return ln_sum(ln_node_cost(plan, node, statistics, model) for node in nodes if node is not None)


def ln_cost_on(plan: Plan, patterns: Sequence[Pattern], snapshot: StatisticsSnapshot) -> float:
    """Natural logarithm of what the orders and trees of a plan cost by other statistics, with all that they share.

    Nodes are counted by the cost model of the plan's first pattern.

    Raises
    ------
    PlanError
        The plan was not made for the patterns, or the snapshot does not know a leaf.
    """
    shared = shared_plan_of(plan, patterns)
    if not patterns:
        return -math.inf
    return ln_cost(shared, member_statistics(shared.members, snapshot), cost_model_of(plan))


def cost_model_of(plan: Plan) -> CostModel:
    """The cost model by which the nodes of a plan are counted: that of its first pattern."""
    return with_latency(cost_named(plan.patterns[0].cost_model), plan.alpha) if plan.patterns else THROUGHPUT


def ln_cost_apart(plan: SharedPlan, statistics: Statistics, model: CostModel = THROUGHPUT) -> float:
    """Natural logarithm of what the same orders and trees cost without sharing, each with its own windows."""
    return ln_sum(ln_node_cost_apart(plan, node, statistics, model) for node in plan)


def ln_node_cost_apart(
    plan: SharedPlan, node: SharedNode, statistics: Statistics, model: CostModel = THROUGHPUT
) -> float:
    """Natural logarithm of what the nodes of single plans cost that a node stands for."""
    return ln_sum(
        _ln_cost(plan, node, name, slots, statistics, model) for name, uses in node.sharers.items() for slots in uses
    )


def workload_plan(
    plan: SharedPlan, statistics: Statistics, search: WorkloadSearch, model: CostModel = THROUGHPUT
) -> WorkloadPlan:
    """The shared part of a plan, as `explain` shows it."""
    apart = plan.without_order_tests()
    shared = [
        SharedPlanNode(
            uses=tuple(NodeUse(*name, slots) for name, uses in node.sharers.items() for slots in uses),
            window=str(Window(events=node.window) if node.counted else Window(time_us=node.window)),
            ln_cost=ln_node_cost(plan, node, statistics, model),
            ln_apart=ln_node_cost_apart(plan, node, statistics, model),
        )
        for node in plan.shared
    ]
    return WorkloadPlan(
        search=search,
        unit=model.unit,
        ln_cost=ln_cost(plan, statistics, model),
        ln_apart=ln_cost_apart(apart, statistics, model),
        nodes=len(plan),
        nodes_apart=sum(node.uses for node in apart),
        shared=tuple(sorted(shared, key=_saving, reverse=True)),
    )


def _saving(work: SharedPlanNode) -> tuple[float, float]:
    """Ascending with what sharing a node saves; where that is nothing, with how much it does not lose."""
    return ln_difference(work.ln_apart, work.ln_cost), work.ln_apart - work.ln_cost


def _ln_cost(
    plan: SharedPlan, node: SharedNode, name: MemberId, slots: Slots, statistics: Statistics, model: CostModel
) -> float:
    """ln of what a node costs one of its sharers alone."""
    numbers = _numbers(node, name, statistics)
    if node.turned:
        return _ln_cost_anew(plan, node, numbers, slots, statistics, model)
    key = "node", node.key, slots, model.name
    return numbers.derived(key, lambda: _ln_cost_anew(plan, node, numbers, slots, statistics, model))


def _ln_cost_anew(
    plan: SharedPlan,
    node: SharedNode,
    numbers: ClauseStatistics,
    slots: Slots,
    statistics: Statistics,
    model: CostModel,
) -> float:
    place = {variable: position for position, variable in enumerate(numbers.names)}
    places = [place[variable] for variable in slots]
    if node.turned and node.left is not None:
        return _ln_order_test(plan, node, plan[node.left], numbers, places, statistics, model)
    if node.left is None or node.right is None:  # a leaf costs what an order of one step does
        return model.ln_step(numbers, places)
    cut = node.below[0]
    return model.ln_join(numbers, _tree(plan, node.left, places[:cut]), _tree(plan, node.right, places[cut:]))


def _numbers(node: SharedNode, name: MemberId, statistics: Statistics) -> ClauseStatistics:
    """The numbers of a sharer of a node, without the order of its clause where the node is made without it."""
    found = statistics[name]
    if name not in node.unordered:
        return found
    return found.derived("unordered", lambda: replace(found, sequences=()))


def _ln_order_test(
    plan: SharedPlan,
    node: SharedNode,
    below: SharedNode,
    numbers: ClauseStatistics,
    places: list[int],
    statistics: Statistics,
    model: CostModel,
) -> float:
    """ln of the cost of a test of order: all that the node below makes in its window is a candidate.

    The node below may be made in a larger window; so many of its partial matches are new in this one.
    """
    made = model.node.one(numbers, places)
    if model.pair is None:
        return made
    widest = plan.widest(below)
    others = _numbers(below, widest, statistics)
    below_places = [others.names.index(variable) for variable in below.sharers[widest][0]]
    share = math.log(node.window / below.window) if node.window < below.window else 0.0
    return ln_sum((made, ln_partial_matches(others, below_places) + share + math.log(CANDIDATE_NS * len(places))))


def _tree(plan: SharedPlan, index: int, places: list[int]) -> PositionTree:
    node = plan[index]
    if node.turned and node.left is not None:
        return _tree(plan, node.left, [places[slot] for slot in node.turned])
    if node.left is None or node.right is None:
        return places[0]
    cut = node.below[0]
    return _tree(plan, node.left, places[:cut]), _tree(plan, node.right, places[cut:])
