"""TRIVIAL, EFREQ and GREEDY: orders that are built without looking back (JQPG section 7.1).

TRIVIAL keeps the pattern's own order. EFREQ takes the rarest variable first (PB-CED and the Lazy NFA), GREEDY at each
step the variable that keeps the step cheapest (Swami 1989).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
from cep_pipeline.planning.orderings import DecidingComparison, Ordering, grains, ln_steps


def trivial_order(statistics: ClauseStatistics, cost: CostModel) -> Ordering:
    """TRIVIAL: the order as written, whatever the statistics (SASE and Cayuga)."""
    return Ordering(tuple(range(statistics.size)))


def event_frequency_order(statistics: ClauseStatistics, cost: CostModel) -> Ordering:
    """EFREQ: ascending by expected instances in a window; equally frequent ones in the order of the pattern."""
    frequency = statistics.ln_instances
    order = tuple(sorted(range(statistics.size), key=lambda position: (grains(frequency[position]), position)))
    comparisons = (_decided(step, "instances", (), order[step:], frequency) for step in range(len(order)))
    return Ordering(order, tuple(chain.from_iterable(comparisons)))


def greedy_order(statistics: ClauseStatistics, cost: CostModel) -> Ordering:
    """Algorithm 2 of the acep-invariants patent; ties go to the variable that the pattern names first."""
    order: tuple[int, ...] = ()
    comparisons: list[DecidingComparison] = []
    remaining = list(range(statistics.size))
    while remaining:
        earlier = np.zeros((len(remaining), statistics.size), dtype=bool)
        earlier[:, list(order)] = True
        found = ln_steps(cost, statistics, earlier, np.array(remaining)).tolist()
        steps = dict(zip(remaining, found, strict=True))
        chosen = min(remaining, key=lambda position: (grains(steps[position]), position))
        remaining.remove(chosen)
        comparisons += _decided(len(order), "step", order, (chosen, *remaining), steps)
        order = (*order, chosen)
    return Ordering(order, tuple(comparisons))


def _decided(
    step: int,
    measure: str,
    before: tuple[int, ...],
    choices: Sequence[int],
    ln_measures: Sequence[float] | Mapping[int, float],
) -> list[DecidingComparison]:
    """The comparisons of the first of the choices, which was taken after the variables before it, with the others."""
    chosen, *others = choices
    return [
        DecidingComparison(
            step,
            measure,
            (*before, chosen),
            (*before, rejected),
            ln_measures[chosen],
            ln_measures[rejected],
            wins_ties=chosen < rejected,
        )
        for rejected in others
    ]
