"""TRIVIAL, EFREQ and GREEDY: orders that are built without looking back (JQPG section 7.1).

TRIVIAL keeps the pattern's own order. EFREQ takes the rarest variable first (PB-CED and the Lazy NFA), GREEDY at each
step the variable that keeps the step cheapest (Swami 1989).

II-RANDOM and II-GREEDY are a local search from a random order, or from greedy's (JQPG section 7.1; Swami 1989).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain, combinations

import numpy as np

from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.costs import Array, CostModel
from cep_pipeline.planning.orderings import DecidingComparison, Ordering, grains, ln_order_costs, ln_steps


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


TRIED_AT_ONCE = 96
"""Moves whose orders are costed together; of those that improve, the best one is taken."""
MAX_WORK = 20_000_000
"""Budget, in moves times the square of the size: it ends the search from some 40 variables on."""


def ii_random_order(statistics: ClauseStatistics, cost: CostModel, *, seed: int = 0) -> Ordering:
    """A local minimum, from an order drawn with `seed`."""
    draw = np.random.default_rng(seed)
    return _improved(statistics, cost, draw.permutation(statistics.size), draw, f"a random order, seed {seed}")


def ii_greedy_order(statistics: ClauseStatistics, cost: CostModel, *, seed: int = 0) -> Ordering:
    """A local minimum, from greedy's order; never dearer than that. `seed` decides which moves are tried first."""
    start = np.array(greedy_order(statistics, cost).order)
    return _improved(statistics, cost, start, np.random.default_rng(seed), f"greedy's order, seed {seed}")


def _improved(
    statistics: ClauseStatistics, cost: CostModel, order: Array, draw: np.random.Generator, start: str
) -> Ordering:
    """Try swaps of two variables and cycles of three, in random sequence, until none improves the order.

    Local search builds no plan block by block: there are no deciding comparisons (acep-invariants patent, section 4).
    """
    moves = _moves(statistics.size)
    held = float(ln_order_costs(cost, statistics, order[None])[0])
    budget = max(MAX_WORK // statistics.size**2, TRIED_AT_ONCE)
    accepted = 0
    draw.shuffle(moves)
    since, place = 0, 0  # moves tried since the last one that improved the order; where the next one lies
    while since < len(moves) and budget > 0:
        tried = moves[place : place + min(TRIED_AT_ONCE, len(moves) - since, budget)]
        place = (place + len(tried)) % len(moves)
        since += len(tried)
        budget -= len(tried)
        neighbours = np.repeat(order[None], len(tried), axis=0)
        rows = np.arange(len(tried))[:, None]
        neighbours[rows, tried] = order[np.roll(tried, 1, axis=1)]
        swaps = np.flatnonzero(tried[:, 1] == tried[:, 2])
        neighbours[swaps] = order
        neighbours[swaps, tried[swaps, 0]] = order[tried[swaps, 1]]
        neighbours[swaps, tried[swaps, 1]] = order[tried[swaps, 0]]
        costs = ln_order_costs(cost, statistics, neighbours)
        best = int(costs.argmin())
        if grains(costs[best]) < grains(held):
            order, held = neighbours[best], float(costs[best])
            accepted += 1
            since = 0
    found = "no swap or cycle improves it" if since >= len(moves) else "the budget ended before a local minimum"
    note = f"local search from {start}: {accepted} moves; {found}; local search has no deciding comparisons"
    return Ordering(tuple(order.tolist()), (), note)


def _moves(size: int) -> Array:
    """Every swap (a, b, b) and every cycle (a, b, c) of places, both ways around: int64, shape (m, 3)."""
    pairs = np.array(list(combinations(range(size), 2)), dtype=np.int64).reshape(-1, 2)
    moves = [pairs[:, [0, 1, 1]]]
    if math.comb(size, 3):
        triples = np.array(list(combinations(range(size), 3)), dtype=np.int64)
        moves += [triples, triples[:, [0, 2, 1]]]
    return np.concatenate(moves)
