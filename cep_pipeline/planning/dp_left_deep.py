"""DP-LD: the cheapest order, by dynamic programming over sets of variables (JQPG section 7.1; Selinger et al. 1979)."""

from __future__ import annotations

from typing import Any

import numpy as np

from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.costs import CostModel, ln_order_cost
from cep_pipeline.planning.event_frequency import event_frequency_order
from cep_pipeline.planning.greedy import greedy_order
from cep_pipeline.planning.ordering import DecidingComparison, Ordering
from cep_pipeline.planning.trivial import trivial_order

Array = np.ndarray[Any, Any]

MAX_VARIABLES = 22
"""Budget: above it 2^n sets are too many, and the best heuristic order is taken (22: 0.2 GB and about a second)."""


def dp_left_deep_order(
    statistics: ClauseStatistics, cost: CostModel, *, max_variables: int = MAX_VARIABLES
) -> Ordering:
    """The order of least cost, exactly; of several, the one that binds the pattern's first variables first.

    Parameters
    ----------
    max_variables
        Above this size the cheapest of the heuristics' orders is returned instead, and its note says so.

    Notes
    -----
    best(S) = step(S) + min over j in S of best(S without j), layer by layer of |S|: O(n 2^n) time, 2^n doubles.
    """
    if statistics.size > max_variables:
        return _best_heuristic(statistics, cost, max_variables)
    best = _cheapest_of_all_sets(statistics, cost)
    order: tuple[int, ...] = ()
    remaining = (1 << statistics.size) - 1
    comparisons: list[DecidingComparison] = []
    while remaining:
        last, others = _last_of(best, remaining)
        chosen = (*_order_of(best, remaining & ~(1 << last)), last)
        for other in others:
            rejected = (*_order_of(best, remaining & ~(1 << other)), other)
            comparisons.append(
                DecidingComparison(
                    len(chosen) - 1,
                    "cost",
                    chosen,
                    rejected,
                    float(best[remaining & ~(1 << last)]),
                    float(best[remaining & ~(1 << other)]),
                )
            )
        order = (last, *order)
        remaining &= ~(1 << last)
    return Ordering(order, tuple(sorted(comparisons, key=lambda comparison: comparison.step)))


def _cheapest_of_all_sets(statistics: ClauseStatistics, cost: CostModel) -> Array:
    """ln of the least cost of an order of each set, float64 of shape (2^n,)."""
    size = statistics.size
    best = cost.ln_all_steps(statistics)
    best[0] = -np.inf
    sizes = np.bitwise_count(np.arange(1 << size, dtype=np.uint32))
    layers = np.argsort(sizes, kind="stable").astype(np.uint32)
    ends = np.cumsum(np.bincount(sizes, minlength=size + 1))
    for length in range(2, size + 1):
        sets = layers[ends[length - 1] : ends[length]]
        cheapest = np.full(len(sets), np.inf)
        for position in range(size):
            bit = np.uint32(1 << position)
            without = best[sets & ~bit]
            without[(sets & bit) == 0] = np.inf
            np.minimum(cheapest, without, out=cheapest)
        best[sets] = np.logaddexp(best[sets], cheapest)
    return best


def _last_of(best: Array, remaining: int) -> tuple[int, list[int]]:
    """The variable that comes last in the cheapest order of a set, and the others."""
    positions = _positions(remaining)
    # Among equals the pattern's last one comes last, so that equal variables keep their order.
    last = min(positions, key=lambda position: (best[remaining & ~(1 << position)], -position))
    return last, [position for position in positions if position != last]


def _order_of(best: Array, remaining: int) -> tuple[int, ...]:
    order: tuple[int, ...] = ()
    while remaining:
        last, _ = _last_of(best, remaining)
        order = (last, *order)
        remaining &= ~(1 << last)
    return order


def _positions(mask: int) -> list[int]:
    return [position for position in range(mask.bit_length()) if mask >> position & 1]


def _best_heuristic(statistics: ClauseStatistics, cost: CostModel, max_variables: int) -> Ordering:
    heuristics = {"greedy": greedy_order, "event_frequency": event_frequency_order, "trivial": trivial_order}
    found = {name: planner(statistics, cost) for name, planner in heuristics.items()}
    name = min(found, key=lambda name: ln_order_cost(cost, statistics, found[name].order))
    note = f"{statistics.size} variables exceed the exact search's budget of {max_variables}: the order is {name}'s"
    return Ordering(found[name].order, found[name].comparisons, note)
