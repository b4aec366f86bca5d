"""Dynamic programming over sets of variables, written in Numba. Imported only where it is compiled.

Sets are integers by their bits; every table has an entry a set. All costs are linear numbers in one scale, and
infinity for sets whose cheapest plan is above their limit. Left out are what all plans share: the node of all
variables, and in trees the leaves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, njit

TIE = 5e-10
"""Costs that differ by a smaller share are equal (`orderings.GRAIN`)."""


@njit(error_model="numpy", inline="always")  # type: ignore[untyped-decorator]
def _ranks_lower(whole: int, side: int, other: int, orders: int) -> bool:
    """True if a split comes before another of the same cost: its smaller side has fewer variables, or later ones."""
    if not orders:
        side, other = _smaller(whole, side), _smaller(whole, other)
    counts = _variables(side), _variables(other)
    return bool(counts[0] < counts[1] or (counts[0] == counts[1] and side > other))


@njit(error_model="numpy", inline="always")  # type: ignore[untyped-decorator]
def _smaller(whole: int, side: int) -> int:
    """The side of a split with fewer variables; of two with as many the one with the last variable."""
    count, rest = _variables(side), _variables(whole ^ side)
    return side if count < rest or (count == rest and side > whole ^ side) else whole ^ side


@njit(error_model="numpy", inline="always")  # type: ignore[untyped-decorator]
def _variables(members: int) -> int:
    count = 0
    while members:
        members &= members - 1
        count += 1
    return count


def search_sets(
    first: int,
    end: int,
    size: int,
    last: int,
    orders: int,
    pairs: int,
    sets_at: Any,
    limits_at: Any,
    node_at: Any,
    pair_at: Any,
    product_at: Any,
    tuples_at: Any,
    passing_at: Any,
    within_at: Any,
    latency_at: Any,
    best_at: Any,
    split_at: Any,
) -> int:
    """Find the cheapest plan of the sets first to end - 1 of `sets`, those of fewer variables being known.

    A plan is a tree, or with `orders` one whose right sides are single variables. `last` is the variable after which
    latency counts, or -1; `pairs` whether joining costs pair times the products (1), and late tests (2). `split` gets
    the right side of each set's cheapest plan.
    """
    sets, split = carray(sets_at, 1 << size), carray(split_at, 1 << size)
    limits = carray(limits_at, 1 << size)
    node, best, latency = carray(node_at, 1 << size), carray(best_at, 1 << size), carray(latency_at, 1 << size)
    pair, product = carray(pair_at, 1 << size), carray(product_at, 1 << size)
    tuples, passing, within = carray(tuples_at, 1 << size), carray(passing_at, 1 << size), carray(within_at, 1 << size)
    for place in range(first, end):
        whole = sets[place]
        if whole & (whole - 1) == 0:
            best[whole] = node[whole] if orders else 0.0
            continue
        best[whole] = np.inf
        if node[whole] > limits[whole]:
            continue
        cheapest, found = np.inf, 0
        # Of trees one variable is in the left side, so that no split is tried twice.
        remaining = whole if orders else whole & (whole - 1)
        waits = last >= 0 and whole >> last & 1
        while remaining:
            right = remaining & -remaining if orders else remaining
            remaining = (remaining ^ right) if orders else (remaining - 1) & whole & (whole - 1)
            left = whole ^ right
            cost = best[left]
            if not orders:
                cost += best[right]
            if cost > cheapest * (1.0 + TIE) or cost == np.inf:
                continue
            if pairs:
                cost += pair[whole] * (product[left] * product[right])
            if pairs == 2:
                late = within[whole] - within[left] - within[right]
                cost += tuples[whole] * (passing[left] * passing[right]) * late
            if waits:
                if left >> last & 1:
                    cost += latency[right]
                elif not orders:
                    cost += latency[left]
            if cost < cheapest * (1.0 - TIE):
                cheapest, found = cost, right
            elif cost <= cheapest * (1.0 + TIE):
                cheapest = min(cheapest, cost)
                if _ranks_lower(whole, right, found, orders):
                    found = right
        if cheapest + node[whole] <= limits[whole]:
            best[whole] = cheapest + node[whole]
            split[whole] = found if orders else _smaller(whole, found)
    return 0
