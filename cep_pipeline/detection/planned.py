"""Plans for the mechanisms that will run them: whether one is worth making, and a pattern's own order in its place.

To plan a pattern takes a millisecond or more: its statistics are estimated, and orders are compared. Over few events,
or of rare types, a mechanism has read any order by then. So the work of each pattern is told roughly, from how many
events of each variable a window holds on average (`costs.finding_ns`). What makes plans is imported only where one is
made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.costs import CALL_NS, PATTERN_NS, ROW_NS, SAVED, finding_ns
from cep_pipeline.detection.counting.choice import binds_lists
from cep_pipeline.detection.mechanisms import MECHANISMS, Orders, Sink, in_pattern_order
from cep_pipeline.detection.outputs import route_of
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_plans import ClausePlan, PatternPlan, PlanStep, StatisticsSummary
from cep_pipeline.planning.plans import Plan
from cep_pipeline.planning.trees import Join
from cep_pipeline.slices.prepared import Streams
from cep_pipeline.slices.views import clause_cache_of

if TYPE_CHECKING:
    from cep_pipeline.planning.make_plan import Replanner
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
    from cep_pipeline.planning.make_plan import plan
    from cep_pipeline.planning.planners import DEFAULT_PLANNER

    return plan(
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
    from cep_pipeline.planning.make_plan import Replanner, planner_for
    from cep_pipeline.planning.planned_clauses import default_cost
    from cep_pipeline.planning.planners import DEFAULT_PLANNER, planner_named

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


def worth_planning(
    patterns: Sequence[Pattern], prepared: Streams, chosen: Mapping[str, str], output: str = "verbose"
) -> list[Pattern]:
    """The patterns whose plans are expected to save more time than it takes to make them.

    Parameters
    ----------
    prepared
        The events, by stream.
    chosen
        Pattern name -> its mechanism.
    output
        The form of output.
    """
    planned, gained_ns = [], 0.0
    for pattern in patterns:
        if not _has_orders(pattern, chosen[pattern.name], output):
            continue
        if binds_lists(pattern) and not MECHANISMS[chosen[pattern.name]].is_columnar:
            gain_ns = math.inf  # nobody knows
        else:
            events = prepared[pattern.type_attribute, pattern.base_type]
            gain_ns = SAVED * sum(finding_ns(ClauseSlice(pattern, clause, events)) for clause in pattern.clauses)
        if gain_ns > PATTERN_NS:
            planned.append(pattern)
            gained_ns += gain_ns
    rows = max(map(len, prepared.values()), default=0)
    return planned if gained_ns > CALL_NS + ROW_NS * rows + PATTERN_NS * len(planned) else []


def _has_orders(pattern: Pattern, mechanism: str, output: str) -> bool:
    """True if what a mechanism does for a pattern depends on the order of a plan."""
    if not pattern.strategy.forks or MECHANISMS[mechanism].in_pattern_order:
        return False
    if all(len(clause.positive) == 1 for clause in pattern.clauses):
        return False
    return output != "count" or not binds_lists(pattern) or route_of(pattern, Sink.COMPRESS).lists


def own_order_plan(patterns: Sequence[Pattern]) -> Plan:
    """A plan that says nothing but the own order of each pattern."""
    planned = (
        PatternPlan(
            pattern.name,
            str(pattern.window),
            pattern.strategy.value,
            tuple(clause_cache_of(clause).once("own order", partial(_own_order, clause)) for clause in pattern.clauses),
            "trivial",
            "kernel",
            "none estimated",
        )
        for pattern in patterns
    )
    return Plan(0.0, StatisticsSummary("", "", 0, None, None), tuple(planned))


def _own_order(clause: Clause) -> ClausePlan:
    steps = (PlanStep(one.name, "", 0.0, None, 0.0, 1.0, (), 0.0, 0.0) for one in clause.positive)
    return ClausePlan(clause.index, tuple(steps), 0.0)
