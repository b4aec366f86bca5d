"""Orders that the columnar kernel runs in place of a shared plan.

The kernel stores no partial match of an order, so that there is nothing that patterns could share: each runs in the
order that is cheapest for it alone. Mechanisms that read event by event store all partial matches, and gain from every
shared one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.algorithms.heuristics import greedy_order
from cep_pipeline.planning.clause_plans import ON_KERNEL, Alternative, ClausePlan, PatternPlan
from cep_pipeline.planning.costs.kernel import KERNEL
from cep_pipeline.planning.multi_pattern.costs import member_statistics
from cep_pipeline.planning.multi_pattern.shared_plan import shared_plan_of
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
from cep_pipeline.planning.orderings import ln_order_cost
from cep_pipeline.planning.plans import Plan
from cep_pipeline.statistics.snapshot import StatisticsSnapshot


def with_kernel_orders(plan: Plan, patterns: Sequence[Pattern], snapshot: StatisticsSnapshot) -> Plan:
    """Put beside each clause of a shared plan the order that the kernel runs instead, by the cost model `kernel`.

    Parameters
    ----------
    plan
        A plan of these patterns by this snapshot, with sharing.

    Notes
    -----
    To find the orders takes a millisecond for each clause.
    """
    statistics = member_statistics(shared_plan_of(plan, patterns).members, snapshot)
    found: list[PatternPlan] = []
    for pattern in patterns:
        planned = plan.for_pattern(pattern.name)
        clauses = []
        for clause in planned.clauses:
            own = _own_order(statistics.get((pattern.name, clause.clause)), pattern, clause)
            others = tuple(other for other in clause.alternatives if other.planner != ON_KERNEL)
            clauses.append(replace(clause, alternatives=(own, *others)))
        found.append(replace(planned, clauses=tuple(clauses)))
    return replace(plan, patterns=tuple(found))


def _own_order(statistics: ClauseStatistics | None, pattern: Pattern, clause: ClausePlan) -> Alternative:
    if statistics is None or not pattern.strategy.forks:
        return Alternative(ON_KERNEL, clause.order, 0.0)
    order = greedy_order(statistics, KERNEL).order if statistics.size > 1 else (0,)
    names = tuple(statistics.names[position] for position in order)
    return Alternative(ON_KERNEL, names, ln_order_cost(KERNEL, statistics, order))
