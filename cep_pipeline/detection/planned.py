"""Plans for the mechanisms that will run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cep_pipeline.detection.mechanisms import MECHANISMS, Orders, in_pattern_order
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning import Plan, plan_by_strategy
from cep_pipeline.planning.make_plan import planner_for
from cep_pipeline.planning.planned_clauses import default_cost
from cep_pipeline.planning.planners import DEFAULT_PLANNER, planner_named
from cep_pipeline.planning.replanning import Replanner
from cep_pipeline.planning.trees import Join
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

MOST_COMPARED = 100
"""Patterns whose other plans are made beside the chosen ones, for people to compare, unless that is asked for: it takes
ten times as long as planning."""


def plan_for(
    patterns: Sequence[Pattern],
    snapshot: StatisticsSnapshot,
    chosen: Mapping[str, str],
    planner: str | None = None,
    cost: str | None = None,
    alpha: float = 0.0,
    *,
    compare: bool | None = None,
    **options: Any,
) -> Plan:
    """Plan patterns for the mechanisms that were chosen for them.

    Parameters
    ----------
    patterns, snapshot, alpha, options
        As `planning.plan` takes them.
    compare
        As `planning.plan` takes it; None: for up to `MOST_COMPARED` patterns.
    chosen
        Pattern name -> its mechanism (`choose_mechanisms`).
    planner, cost
        As `planning.plan` takes them; None takes the defaults: planner `dp_left_deep`, and for each pattern the cost
        model of its mechanism.

    Raises
    ------
    InputError, PlanError
        As `planning.plan`.

    Notes
    -----
    Patterns of mechanisms that bind events in the pattern's order only are planned so, whatever the planner; where a
    planner makes trees, those of mechanisms that run orders only are planned by the default one.
    """
    return plan_by_strategy(
        patterns,
        snapshot,
        DEFAULT_PLANNER if planner is None else planner,
        cost,
        in_pattern_order=in_pattern_order(chosen),
        orders_only={name for name, mechanism in chosen.items() if not MECHANISMS[mechanism].runs_trees},
        on_kernel={name for name, mechanism in chosen.items() if MECHANISMS[mechanism].is_columnar},
        alpha=alpha,
        compare=len(patterns) <= MOST_COMPARED if compare is None else compare,
        **options,
    )


def replanner_for(
    pattern: Pattern, mechanism: str, planner: str | None = None, cost: str | None = None, alpha: float = 0.0
) -> Replanner:
    """A replanner that plans one pattern for its mechanism, by the planner and cost model of `plan_for`.

    Raises
    ------
    InputError
        `planner` or `cost` is unknown, or `alpha` is no weight.
    """
    of = MECHANISMS[mechanism]
    in_order = pattern.name in in_pattern_order({pattern.name: mechanism})
    wanted = DEFAULT_PLANNER if planner is None else planner
    planner_named(wanted)
    name = planner_for(pattern, wanted, in_pattern_order=in_order, orders_only=not of.runs_trees)
    return Replanner(pattern, name, cost or default_cost(pattern, on_kernel=of.is_columnar), alpha)


def plan_refusal(mechanism: str, pattern: Pattern, orders: Orders) -> str:
    """The reason why a mechanism does not run the orders or trees of a pattern's clauses; empty where it does."""
    kind = MECHANISMS[mechanism]
    if not kind.runs_trees and any(isinstance(order, Join) for order in orders):
        return "runs orders only"
    in_order = [tuple(variable.name for variable in clause.positive) for clause in pattern.clauses]
    bound = [order.leaves if isinstance(order, Join) else tuple(order) for order in orders]
    if kind.in_pattern_order and bound != in_order:
        return "binds in the pattern's order only"
    return ""


def runs_on(plan: Plan, patterns: Sequence[Pattern], chosen: Mapping[str, str]) -> bool:
    """Return whether the mechanisms chosen for the patterns run the orders or trees that a plan has for them."""
    planned = ([clause.order_or_tree for clause in plan.for_pattern(pattern.name).clauses] for pattern in patterns)
    return not any(
        plan_refusal(chosen[pattern.name], pattern, orders) for pattern, orders in zip(patterns, planned, strict=True)
    )
