"""EFREQ: the rarest first (JQPG section 7.1; PB-CED and the Lazy NFA)."""

from __future__ import annotations

from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
from cep_pipeline.planning.orderings import DecidingComparison, Ordering, grains


def event_frequency_order(statistics: ClauseStatistics, cost: CostModel) -> Ordering:
    """Ascending by expected instances in a window; equally frequent ones in the order of the pattern."""
    frequency = statistics.ln_instances
    order = tuple(sorted(range(statistics.size), key=lambda position: (grains(frequency[position]), position)))
    comparisons = tuple(
        DecidingComparison(
            step,
            "instances",
            (chosen,),
            (rejected,),
            frequency[chosen],
            frequency[rejected],
            wins_ties=chosen < rejected,
        )
        for step, chosen in enumerate(order)
        for rejected in order[step + 1 :]
    )
    return Ordering(order, comparisons)
