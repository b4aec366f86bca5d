"""Orders that the columnar kernel runs in place of a shared plan, where that takes less time.

The kernel stores no partial match of an order, and goes through one faster than it joins what others have stored. So a
shared plan pays on it only where much is tested for what is shared. Mechanisms that read event by event store all
partial matches, and gain from every shared one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from cep_pipeline.patterns.pattern import Pattern, Strategy
from cep_pipeline.planning.algorithms.heuristics import greedy_order
from cep_pipeline.planning.clause_plans import ON_KERNEL, Alternative, ClausePlan, PatternPlan
from cep_pipeline.planning.costs.kernel import KERNEL
from cep_pipeline.planning.multi_pattern.costs import ln_node_cost, member_statistics
from cep_pipeline.planning.multi_pattern.shared_plan import SharedNode, shared_plan_of
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
from cep_pipeline.planning.orderings import ln_order_cost
from cep_pipeline.planning.plans import Plan
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

RUN_NS, JOIN_NS = 0.3e6, 2e6
"""Nanoseconds for which the kernel prepares one order, and one join of two stored sides (`cep bench choice`)."""
_MOST_LN = 100.0


def with_kernel_orders(plan: Plan, patterns: Sequence[Pattern], snapshot: StatisticsSnapshot) -> Plan:
    """Put beside each clause of a shared plan the order that the kernel runs instead, if all of these take less time.

    Parameters
    ----------
    plan
        A plan of these patterns by this snapshot, with sharing.

    Notes
    -----
    Both are costed as the kernel runs them over the events of the snapshot: by the cost model `kernel`, a shared node
    once within its largest window, and with what it takes to prepare an order or a join. To find the orders takes a
    millisecond for each clause.
    """
    shared = shared_plan_of(plan, patterns)
    statistics = member_statistics(shared.members, snapshot)
    span_s = max(snapshot.span_s, 1e-6)

    def windows(size: float, *, counted: bool) -> float:
        """The number of windows that pass."""
        return (snapshot.events / size if counted else span_s * 1e6 / size) if size else 1.0

    def of_node(node: SharedNode) -> float:
        ln_ns = min(ln_node_cost(shared, node, statistics, KERNEL), _MOST_LN)
        joins = node.left is not None and node.right is not None and min(node.below) > 1
        return math.exp(ln_ns) * windows(node.window, counted=node.counted) + (JOIN_NS if joins else 0.0)

    together = sum(map(of_node, shared)) + len(patterns) * RUN_NS
    apart = 0.0
    found: list[PatternPlan] = []
    for pattern in patterns:
        planned = plan.for_pattern(pattern.name)
        clauses = []
        for clause in planned.clauses:
            own = _own_order(statistics.get((pattern.name, clause.clause)), pattern, clause)
            size = pattern.window.events if pattern.window.time_us is None else pattern.window.time_us
            passed = windows(size or 0, counted=pattern.window.time_us is None)
            apart += math.exp(min(own.ln_cost, _MOST_LN)) * passed + RUN_NS
            others = tuple(other for other in clause.alternatives if other.planner != ON_KERNEL)
            clauses.append(replace(clause, alternatives=(own, *others)))
        found.append(replace(planned, clauses=tuple(clauses)))
    return replace(plan, patterns=tuple(found)) if apart < together else plan


def _own_order(statistics: ClauseStatistics | None, pattern: Pattern, clause: ClausePlan) -> Alternative:
    if statistics is None or pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH:
        return Alternative(ON_KERNEL, clause.order, 0.0)
    order = greedy_order(statistics, KERNEL).order if statistics.size > 1 else (0,)
    names = tuple(statistics.names[position] for position in order)
    return Alternative(ON_KERNEL, names, ln_order_cost(KERNEL, statistics, order))
