"""Make a plan: the numbers of each clause, the planner's order or tree, and what it was chosen over."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from cep_pipeline.errors import InputError, PlanError
from cep_pipeline.patterns.composing import plain_pattern
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_plans import Sharing
from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.planned_clauses import (
    Expectations,
    check_alpha,
    clause_plan,
    cost_model,
    default_cost,
    pattern_plan,
    summary_of,
)
from cep_pipeline.planning.planners import DEFAULT_PLANNER, MULTI_PATTERN_PLANNER_NAMES, PLANNERS, planner_named
from cep_pipeline.planning.plans import Plan
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

logger = logging.getLogger(__name__)


def plan(
    patterns: Pattern | Sequence[Pattern],
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
        Patterns of one stream, or one pattern.
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
        The snapshot does not know a leaf.

    Notes
    -----
    The strategies of docs/language.md, section 4, run in the pattern's order, which is planner `trivial`'s; patterns
    that have one of them are planned by it, and all others by the planner that is asked for.

    An order or a tree is over the positive variables. Negated variables are placed by the mechanism, at the earliest
    point at which all that they depend on is bound (JQPG section 5.3); the plan says where that is.
    """
    patterns = [plain_pattern(one) for one in ([patterns] if isinstance(patterns, Pattern) else patterns)]
    check_alpha(alpha)
    if planner in MULTI_PATTERN_PLANNER_NAMES:
        from cep_pipeline.planning.multi_pattern.costs import shared_cost
        from cep_pipeline.planning.multi_pattern.kernel_orders import with_kernel_orders
        from cep_pipeline.planning.multi_pattern.plan_workload import plan_workload

        made = plan_workload(patterns, snapshot, planner, cost=shared_cost(cost, alpha).name, **options)
        return made if made.sharing == "none" else with_kernel_orders(made, patterns, snapshot)
    planner_named(planner)
    _refuse_options(planner, options)
    asked = [(pattern, _planner_of(pattern, planner), cost_model(pattern, cost, alpha)) for pattern in patterns]
    return _planned_apart(asked, snapshot, planner, alpha, compare=compare)


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
        return _plan_together(
            list(map(plain_pattern, patterns)), snapshot, planner, cost, alpha, in_pattern_order, orders_only, options
        )
    _refuse_options(planner, options)
    planner_named(planner)
    check_alpha(alpha)
    asked = []
    for pattern in map(plain_pattern, patterns):
        in_order = pattern.name in in_pattern_order
        name = planner_for(pattern, planner, in_pattern_order=in_order, orders_only=pattern.name in orders_only)
        kernel = on_kernel is None or pattern.name in on_kernel
        asked.append((pattern, name, cost_model(pattern, cost or default_cost(pattern, on_kernel=kernel), alpha)))
    return _planned_apart(asked, snapshot, planner, alpha, compare=compare)


def planner_for(pattern: Pattern, planner: str, *, in_pattern_order: bool = False, orders_only: bool = False) -> str:
    """The planner that `plan_by_strategy` takes for a pattern."""
    if not pattern.strategy.forks or in_pattern_order:
        return "trivial"
    return DEFAULT_PLANNER if orders_only and planner_named(planner).makes_trees else planner


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
    """The rule of sharing for patterns planned together: the one asked for, or else one that their mechanisms run.

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


def _planner_of(pattern: Pattern, planner: str) -> str:
    """The planner of a pattern: a clause of one variable has one order under any strategy and by any planner."""
    single = all(len(clause.positive) == 1 for clause in pattern.clauses)
    return planner if single else planner_for(pattern, planner)


def _planned_apart(
    asked: Sequence[tuple[Pattern, str, CostModel]],
    snapshot: StatisticsSnapshot,
    planner: str,
    alpha: float,
    *,
    compare: bool,
) -> Plan:
    """The plan of patterns each by itself, by a planner and a cost model of its own."""
    logger.info("planning %s patterns by %s", len(asked), planner)
    planned = []
    for pattern, name, model in asked:
        expected = [Expectations(pattern, clause, snapshot) for clause in pattern.clauses]
        clauses = (
            clause_plan(one, PLANNERS[name](one.statistics, model), model, compared_with=name if compare else None)
            for one in expected
        )
        planned.append(pattern_plan(expected, clauses, name, model))
        logger.debug("%r", planned[-1])
    return Plan(alpha=alpha, statistics=summary_of(snapshot), patterns=tuple(planned))
