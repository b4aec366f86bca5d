"""The plan of a clause and of a pattern, made of the orders or trees that a planner has found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cep_pipeline.errors import InputError
from cep_pipeline.patterns.pattern import Consume, Pattern
from cep_pipeline.planning.clause_plans import Alternative, ClausePlan, PatternPlan, PlanNode, StatisticsSummary
from cep_pipeline.planning.costs import CONSUME_MATCHED, LATENCY, THROUGHPUT, CostModel, cost_named, with_latency
from cep_pipeline.planning.costs.plan_costs import ln_order_cost, ln_order_delay, ln_tree_cost, ln_tree_delay
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
from cep_pipeline.planning.numbers.expected import Expectations
from cep_pipeline.planning.orderings import Ordering, TreeOrdering, left_deep
from cep_pipeline.planning.planners import (
    PLANNERS,
)
from cep_pipeline.planning.trees import PositionTree, named_join, positions_below
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

BEST_SWAP = "swapping two neighbours"
"""Name of the cheapest order that exchanges two neighbours of the chosen one."""
MAX_SWAPPED_VARIABLES = 22
"""Above this size neighbours are not tried."""


def summary_of(snapshot: StatisticsSnapshot) -> StatisticsSummary:
    """The summary of a snapshot that its plans contain."""
    return StatisticsSummary(snapshot.digest, snapshot.stream, snapshot.events, snapshot.start_us, snapshot.end_us)


def default_cost(pattern: Pattern, *, on_kernel: bool = True) -> str:
    """The cost model that a pattern is planned by where none is asked for.

    `consume_matched` where matches consume their events (JQPG section 6.2); else the model of the kernel where that
    runs it, as it does by default, or `throughput`.
    """
    if pattern.consume is Consume.MATCHED:
        return CONSUME_MATCHED.name
    return "kernel" if on_kernel else THROUGHPUT.name


def cost_model(pattern: Pattern, cost: str | None, alpha: float) -> CostModel:
    """The cost model that a pattern is planned by, as `plan` takes its name and the weight of latency.

    Raises
    ------
    InputError
        The name is unknown, or `alpha` is no weight.
    """
    check_alpha(alpha)
    model = cost_named(default_cost(pattern) if cost is None else cost)
    if alpha and model is LATENCY:
        raise InputError(f"alpha is {alpha}: it weighs latency against another cost than {model.name!r}")
    return with_latency(model, alpha)


def check_alpha(alpha: float) -> None:
    """Raise InputError for a weight of latency that is no finite number of 0 or more."""
    if not 0 <= alpha < float("inf"):
        raise InputError(f"alpha is {alpha}: it weighs latency, and is a finite number, 0 or more")


def pattern_plan(
    expected: Sequence[Expectations], clauses: Iterable[ClausePlan], planner: str, model: CostModel
) -> PatternPlan:
    """The plan of a pattern by those of its clauses."""
    pattern = expected[0].pattern
    return PatternPlan(
        pattern.name,
        str(pattern.window),
        pattern.strategy.value,
        tuple(clauses),
        planner,
        model.name,
        model.unit,
        expected[0].events_in_window,
    )


def clause_plan(
    expected: Expectations, found: Ordering | TreeOrdering, model: CostModel, *, compared_with: str | None = None
) -> ClausePlan:
    """The plan of a clause, made of the order or tree that a planner found for it.

    Parameters
    ----------
    compared_with
        The planner, where the plans of the others are put beside.
    """
    statistics = expected.statistics
    tree = found.tree if isinstance(found, TreeOrdering) and not isinstance(found.tree, int) else None
    order = positions_below(found.tree) if isinstance(found, TreeOrdering) else found.order
    alternatives = [] if compared_with is None else _alternatives(statistics, model, compared_with, order, tree)
    nodes: tuple[PlanNode, ...] = ()
    if tree is None:
        steps = expected.steps(order)
        reached = [tuple(step.variable for step in steps[: max(length, 2)]) for length in range(1, len(steps) + 1)]
        ln_cost, ln_waiting = ln_order_cost(model, statistics, order), ln_order_delay(model, statistics, order)
    else:
        steps, nodes = expected.leaves(tree), expected.nodes(tree)
        reached = [node.variables for node in nodes]
        ln_cost, ln_waiting = ln_tree_cost(model, statistics, tree), ln_tree_delay(model, statistics, tree)
    return ClausePlan(
        clause=expected.clause.index,
        steps=steps,
        ln_cost=ln_cost,
        alternatives=tuple(alternatives),
        comparisons=found.comparisons,
        note=found.note,
        tree=None if tree is None else named_join(tree, statistics.names),
        nodes=nodes,
        negations=expected.negations(reached, whole=tree is not None),
        ln_waiting=ln_waiting,
    )


def _alternatives(
    statistics: ClauseStatistics,
    model: CostModel,
    planner: str,
    order: Sequence[int],
    tree: tuple[PositionTree, PositionTree] | None,
) -> list[Alternative]:
    """The plans of the other planners for a clause: those of the same kind first, each kind from the cheapest on.

    Beside a tree, an order counts as the left-deep tree that it is.
    """
    others: dict[str, Ordering | TreeOrdering] = {
        name: other(statistics, model)
        for name, other in PLANNERS.items()
        if name != planner and other.is_compared_on(statistics.size)
    }
    if tree is None and 1 < statistics.size <= MAX_SWAPPED_VARIABLES:
        others[BEST_SWAP] = Ordering(_best_swap(statistics, model, order))
    found = []
    for name, other in others.items():
        if isinstance(other, Ordering) and tree is None:
            found.append(_ordered(statistics, name, other.order, ln_order_cost(model, statistics, other.order)))
            continue
        joined = left_deep(other.order) if isinstance(other, Ordering) else other.tree
        if not isinstance(joined, int):
            leaves = [statistics.names[position] for position in positions_below(joined)]
            ln_cost = ln_tree_cost(model, statistics, joined)
            found.append(Alternative(name, tuple(leaves), ln_cost, named_join(joined, statistics.names)))
        else:
            found.append(_ordered(statistics, name, (joined,), ln_tree_cost(model, statistics, joined)))
    return sorted(found, key=lambda other: ((other.tree is None) != (tree is None), other.ln_cost))


def _ordered(statistics: ClauseStatistics, planner: str, order: Sequence[int], ln_cost: float) -> Alternative:
    return Alternative(planner, tuple(statistics.names[position] for position in order), ln_cost)


def _best_swap(statistics: ClauseStatistics, model: CostModel, order: Sequence[int]) -> tuple[int, ...]:
    neighbours = [
        (*order[:place], order[place + 1], order[place], *order[place + 2 :]) for place in range(len(order) - 1)
    ]
    return min(neighbours, key=lambda neighbour: ln_order_cost(model, statistics, neighbour))
