"""The cost of a plan on statistics that it was not made from, and the gain of another plan over it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_plans import PatternPlan
from cep_pipeline.planning.costs import cost_named, with_latency
from cep_pipeline.planning.multi_pattern.costs import ln_cost_on as ln_shared_cost_on
from cep_pipeline.planning.numbers.clause_questions import clause_statistics
from cep_pipeline.planning.orderings import GRAIN, ln_costs, ordering_over
from cep_pipeline.planning.plans import Plan, validate
from cep_pipeline.statistics.snapshot import StatisticsSnapshot


def ln_cost_on(plan: Plan, patterns: Sequence[Pattern], snapshot: StatisticsSnapshot) -> float:
    """Natural logarithm of what the plan's orders and trees of these patterns cost, each by its own cost model.

    What patterns share counts once.

    Raises
    ------
    PlanError
        The plan was not made for the patterns, or the snapshot does not know a leaf.
    """
    validate(plan, patterns)
    if plan.sharing != "none":
        return ln_shared_cost_on(plan, patterns, snapshot)
    found = tuple(_on(plan.for_pattern(pattern.name), pattern, plan.alpha, snapshot) for pattern in patterns)
    return replace(plan, patterns=found, workload=None).ln_cost


def gain(ln_old: float, ln_new: float) -> float:
    """The share of the old cost that the new one saves, negative where it costs more; 0 of a tie, as planners see it.

    Two plans that cost the same by sums in another order are not to take each other's place for ever.

    Examples
    --------
    >>> round(gain(math.log(200.0), math.log(150.0)), 9)
    0.25
    >>> gain(5.0, 5.0 - 1e-12)
    0.0
    """
    if ln_new == ln_old or abs(ln_new - ln_old) < GRAIN:
        return 0.0
    return -math.expm1(min(ln_new - ln_old, 700.0))


def same_plans(one: Plan, other: Plan) -> bool:
    """True if two plans run every pattern by the same orders and trees, and share the same."""
    return one.sharing == other.sharing and _run(one) == _run(other)


def _run(plan: Plan) -> dict[str, list[object]]:
    return {of.pattern: [clause.order_or_tree for clause in of.clauses] for of in plan.patterns}


def _on(plan: PatternPlan, pattern: Pattern, alpha: float, snapshot: StatisticsSnapshot) -> PatternPlan:
    model = with_latency(cost_named(plan.cost_model), alpha)
    clauses = []
    for clause_plan, clause in zip(plan.clauses, pattern.clauses, strict=True):
        statistics = clause_statistics(pattern, clause, snapshot)
        ordering = ordering_over(clause_plan.order_or_tree, statistics.names)
        ln_cost, ln_waiting = ln_costs(model, statistics, ordering)
        clauses.append(replace(clause_plan, ln_cost=ln_cost, ln_waiting=ln_waiting))
    return replace(plan, clauses=tuple(clauses))
