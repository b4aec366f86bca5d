"""Make a plan: the numbers of each clause, the planner's order or tree, and what it was chosen over."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from cep_pipeline.errors import InputError, PlanError
from cep_pipeline.patterns.pattern import Consume, Pattern, Strategy
from cep_pipeline.planning.clause_plans import Alternative, ClausePlan, PlanNode
from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.costs import (
    CONSUME_MATCHED,
    LATENCY,
    THROUGHPUT,
    CostModel,
    cost_named,
    ln_order_cost,
    ln_order_delay,
    ln_tree_cost,
    ln_tree_delay,
    with_latency,
)
from cep_pipeline.planning.expected import Expectations
from cep_pipeline.planning.ordering import Ordering, TreeOrdering, left_deep
from cep_pipeline.planning.planners import (
    MAX_COMPARED_VARIABLES,
    MULTI_PATTERN_PLANNER_NAMES,
    PLANNERS,
    TREE_PLANNERS,
    planner_named,
)
from cep_pipeline.planning.plans import PatternPlan, Plan, StatisticsSummary
from cep_pipeline.planning.trees import Join, PositionTree, positions_below
from cep_pipeline.planning.workload_plan import Sharing
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

logger = logging.getLogger(__name__)
DEFAULT_PLANNER = "dp_left_deep"
"""The planner that is taken where none is asked for."""
BEST_SWAP = "swapping two neighbours"
"""Name of the cheapest order that exchanges two neighbours of the chosen one."""
MAX_SWAPPED_VARIABLES = 22
"""Above this size neighbours are not tried."""


def plan(
    patterns: Sequence[Pattern],
    snapshot: StatisticsSnapshot,
    planner: str = DEFAULT_PLANNER,
    cost: str | None = None,
    alpha: float = 0.0,
    *,
    compare: bool = True,
    **options: Any,
) -> Plan:
    """Plan patterns by the statistics of their stream, each by itself or all of them together.

    Parameters
    ----------
    patterns
        Patterns of one stream.
    snapshot
        Must know the leaves of all the patterns; conditions that it does not know are planned with priors.
    planner
        A key of `PLANNERS`; or one of `MULTI_PATTERN_PLANNER_NAMES`, which plans all patterns together.
    cost
        A key of `COSTS`; None takes for each pattern the one that `default_cost` says, and for all of them together
        the one that `plan_workload` does.
    alpha
        Weight of latency against `cost`: cost(plan) + alpha * latency(plan) (JQPG section 6.1), 0 or more. Each clause
        is planned by the sum of its own; the cost of a pattern counts the largest latency of its clauses.
    compare
        Whether the other planners' plans are put beside, for explain.
    options
        Of planners of many patterns: `neighbourhood`, `sharing`, `time_limit_s`, `steps`, `seed`, and all others that
        `multi_pattern.plan_workload` takes.

    Raises
    ------
    InputError
        `planner` or `cost` is unknown, `alpha` is no weight, or an option is wrong or for other planners.
    PlanError
        The snapshot does not know a leaf, or the planner does not plan a pattern's selection strategy: those of
        docs/language.md, section 4, run in the pattern's order, which is planner `trivial`'s.

    Notes
    -----
    An order or a tree is over the positive variables. Negated variables are placed by the mechanism, at the earliest
    point at which all that they depend on is bound (JQPG section 5.3); the plan says where that is.
    """
    _check_alpha(alpha)
    if planner in MULTI_PATTERN_PLANNER_NAMES:
        from cep_pipeline.planning.multi_pattern.plan_workload import plan_workload
        from cep_pipeline.planning.multi_pattern.shared_costs import shared_cost

        return plan_workload(patterns, snapshot, planner, cost=shared_cost(cost, alpha).name, **options)
    planner_named(planner)
    _refuse_options(planner, options)
    models = {pattern.name: cost_model(pattern, cost, alpha) for pattern in patterns}
    for pattern in patterns:
        _refuse_strategy(pattern, planner)
    logger.info("planning %s patterns by %s", len(patterns), planner)
    return Plan(
        alpha=alpha,
        statistics=summary_of(snapshot),
        patterns=tuple(
            _plan_pattern(pattern, snapshot, planner, models[pattern.name], compare=compare) for pattern in patterns
        ),
    )


def summary_of(snapshot: StatisticsSnapshot) -> StatisticsSummary:
    """What a plan says of the snapshot that it was made from."""
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
    _check_alpha(alpha)
    model = cost_named(default_cost(pattern) if cost is None else cost)
    if alpha and model is LATENCY:
        raise InputError(f"alpha is {alpha}: it weighs latency against another cost than {model.name!r}")
    return with_latency(model, alpha)


def _check_alpha(alpha: float) -> None:
    if not 0 <= alpha < float("inf"):
        raise InputError(f"alpha is {alpha}: it weighs latency, and is a finite number, 0 or more")


def plan_by_strategy(
    patterns: Sequence[Pattern],
    snapshot: StatisticsSnapshot,
    planner: str = DEFAULT_PLANNER,
    cost: str | None = None,
    in_pattern_order: Collection[str] = (),
    *,
    alpha: float = 0.0,
    orders_only: Collection[str] = (),
    on_kernel: Collection[str] | None = None,
    compare: bool = True,
    **options: Any,
) -> Plan:
    """Plan a file of patterns whose selection strategies, or mechanisms, differ.

    Under the strategies of docs/language.md, section 4, there is one order, the pattern's, which is planner
    `trivial`'s; so it is for the patterns named in `in_pattern_order`, whose mechanisms know no other. The rest are
    planned by `planner`; but where that makes trees, the patterns in `orders_only` by the default planner. Planners of
    many patterns plan for sharing `prefix` where a mechanism runs orders only, unless the options say otherwise.

    Parameters
    ----------
    patterns, snapshot, planner, cost, alpha, compare, options
        As in `plan`.
    in_pattern_order, orders_only
        Names of patterns whose mechanisms run the pattern's order only, or no trees.
    on_kernel
        Names of those that the columnar kernel runs, for `default_cost`; None: all.

    Raises
    ------
    InputError, PlanError
        As `plan`; or trees are to be planned together for a mechanism that runs orders only.
    """
    if planner in MULTI_PATTERN_PLANNER_NAMES:
        return _plan_together(patterns, snapshot, planner, cost, alpha, in_pattern_order, orders_only, options)
    _refuse_options(planner, options)
    planner_named(planner)
    _check_alpha(alpha)
    logger.info("planning %s patterns by %s", len(patterns), planner)
    planned = []
    for pattern in patterns:
        in_order = pattern.name in in_pattern_order
        name = planner_for(pattern, planner, in_pattern_order=in_order, orders_only=pattern.name in orders_only)
        kernel = on_kernel is None or pattern.name in on_kernel
        model = cost_model(pattern, cost or default_cost(pattern, on_kernel=kernel), alpha)
        planned.append(_plan_pattern(pattern, snapshot, name, model, compare=compare))
    return Plan(alpha=alpha, statistics=summary_of(snapshot), patterns=tuple(planned))


def planner_for(pattern: Pattern, planner: str, *, in_pattern_order: bool = False, orders_only: bool = False) -> str:
    """The planner that `plan_by_strategy` takes for a pattern."""
    if pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH or in_pattern_order:
        return "trivial"
    return DEFAULT_PLANNER if planner in TREE_PLANNERS and orders_only else planner


def _plan_together(
    patterns: Sequence[Pattern],
    snapshot: StatisticsSnapshot,
    planner: str,
    cost: str | None,
    alpha: float,
    in_pattern_order: Collection[str],
    orders_only: Collection[str],
    options: Mapping[str, Any],
) -> Plan:
    ordered = {pattern.name for pattern in patterns} & set(orders_only) - set(in_pattern_order)
    sharing = sharing_for(options.get("sharing"), ordered)
    together = {**options, "sharing": sharing, "in_pattern_order": in_pattern_order}
    return plan(patterns, snapshot, planner, cost, alpha, **together)


def sharing_for(asked: Sharing | None, orders_only: Collection[str]) -> Sharing:
    """What patterns planned together share: what is asked for, or what their mechanisms run.

    Parameters
    ----------
    orders_only
        Names of patterns whose mechanisms run no trees.

    Raises
    ------
    PlanError
        Subexpressions are asked for, and there are such patterns.
    """
    if orders_only and asked == "subexpression":
        raise PlanError(
            f"the mechanism of pattern {min(orders_only)!r} runs orders, and subexpressions are shared by trees: plan "
            "for sharing 'prefix', or choose a mechanism that runs trees"
        )
    return asked or ("prefix" if orders_only else "subexpression")


def _refuse_options(planner: str, options: Mapping[str, Any]) -> None:
    if options:
        raise InputError(f"planner {planner!r} plans each pattern by itself: {', '.join(options)} are for others")


def _refuse_strategy(pattern: Pattern, planner: str) -> None:
    single = all(len(clause.positive) == 1 for clause in pattern.clauses)
    if pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH and planner != "trivial" and not single:
        raise PlanError(
            f"pattern {pattern.name!r}: planner {planner!r} plans skip_till_any_match; {pattern.strategy.value} runs "
            "in the pattern's order only: use planner 'trivial'"
        )


def _plan_pattern(
    pattern: Pattern, snapshot: StatisticsSnapshot, planner: str, model: CostModel, *, compare: bool
) -> PatternPlan:
    expected = [Expectations(pattern, clause, snapshot) for clause in pattern.clauses]
    clauses = (_plan_clause(of_clause, planner, model, compare=compare) for of_clause in expected)
    planned = pattern_plan(expected, clauses, planner, model)
    logger.debug("%r", planned)
    return planned


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


def _plan_clause(expected: Expectations, planner: str, model: CostModel, *, compare: bool) -> ClausePlan:
    found = PLANNERS[planner](expected.statistics, model)
    return clause_plan(expected, found, model, compared_with=planner if compare else None)


def clause_plan(
    expected: Expectations, found: Ordering | TreeOrdering, model: CostModel, *, compared_with: str | None = None
) -> ClausePlan:
    """What a plan says of a clause, by the order or tree that a planner found for it.

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
    """What the other planners make of a clause: those of the same kind first, each kind from the cheapest on.

    Beside a tree, an order counts as the left-deep tree that it is.
    """
    others: dict[str, Ordering | TreeOrdering] = {
        name: other(statistics, model)
        for name, other in PLANNERS.items()
        if name != planner and statistics.size <= MAX_COMPARED_VARIABLES.get(name, statistics.size)
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


def named_join(tree: tuple[PositionTree, PositionTree], names: Sequence[str]) -> Join:
    """A tree of positions as the tree of the variables that are there."""
    left, right = (names[side] if isinstance(side, int) else named_join(side, names) for side in tree)
    return Join(left, right)


def _best_swap(statistics: ClauseStatistics, model: CostModel, order: Sequence[int]) -> tuple[int, ...]:
    neighbours = [
        (*order[:place], order[place + 1], order[place], *order[place + 2 :]) for place in range(len(order) - 1)
    ]
    return min(neighbours, key=lambda neighbour: ln_order_cost(model, statistics, neighbour))
