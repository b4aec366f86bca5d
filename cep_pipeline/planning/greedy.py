"""GREEDY: at each step the variable that keeps the step cheapest (JQPG section 7.1; Swami 1989)."""

from __future__ import annotations

from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.ordering import DecidingComparison, Ordering


def greedy_order(statistics: ClauseStatistics, cost: CostModel) -> Ordering:
    """Algorithm 2 of the acep-invariants patent; ties go to the variable that the pattern names first."""
    order: tuple[int, ...] = ()
    comparisons: list[DecidingComparison] = []
    remaining = list(range(statistics.size))
    while remaining:
        steps = {position: cost.ln_step(statistics, (*order, position)) for position in remaining}
        chosen = min(remaining, key=lambda position: steps[position])
        remaining.remove(chosen)
        comparisons.extend(
            DecidingComparison(len(order), "step", (*order, chosen), (*order, rejected), steps[chosen], steps[rejected])
            for rejected in remaining
        )
        order = (*order, chosen)
    return Ordering(order, tuple(comparisons))
