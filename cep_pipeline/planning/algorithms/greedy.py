"""GREEDY: at each step the variable that keeps the step cheapest (JQPG section 7.1; Swami 1989)."""

from __future__ import annotations

import numpy as np

from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.numbers.cardinality import mask_of
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
from cep_pipeline.planning.orderings import DecidingComparison, Ordering, grains
from cep_pipeline.planning.search.orders import ln_steps
from cep_pipeline.planning.search.sums import log_tables


def greedy_order(statistics: ClauseStatistics, cost: CostModel) -> Ordering:
    """Algorithm 2 of the acep-invariants patent; ties go to the variable that the pattern names first."""
    order: tuple[int, ...] = ()
    comparisons: list[DecidingComparison] = []
    remaining = list(range(statistics.size))
    tables = log_tables(cost, statistics)
    while remaining:
        if tables is not None:
            bound = mask_of(order)
            steps = {position: tables.ln_step(bound, position) for position in remaining}
        else:
            earlier = np.zeros((len(remaining), statistics.size), dtype=bool)
            earlier[:, list(order)] = True
            found = ln_steps(cost, statistics, earlier, np.array(remaining)).tolist()
            steps = dict(zip(remaining, found, strict=True))
        chosen = min(remaining, key=lambda position: (grains(steps[position]), position))
        remaining.remove(chosen)
        comparisons.extend(
            DecidingComparison(
                len(order),
                "step",
                (*order, chosen),
                (*order, rejected),
                steps[chosen],
                steps[rejected],
                wins_ties=chosen < rejected,
            )
            for rejected in remaining
        )
        order = (*order, chosen)
    return Ordering(order, tuple(comparisons))
