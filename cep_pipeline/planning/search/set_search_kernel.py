"""Dynamic programming over sets of variables, written in Numba. Imported only where it is compiled.

Sets are integers by their bits; every table has an entry a set. All costs are linear numbers in one scale, and
infinity for sets whose cheapest plan is above the limit of their size. Left out are what all plans share: the node of
all variables, and in trees the leaves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, njit

COLUMNS = 64
"""Splits that are tried at once."""


@njit(error_model="numpy", inline="always")  # type: ignore[untyped-decorator]
def _variables(members: int) -> int:
    count = 0
    while members:
        members &= members - 1
        count += 1
    return count


@njit(error_model="numpy", inline="always")  # type: ignore[untyped-decorator]
def _late(whole: int, left: int, right: int, tuples: Any, passing: Any, within: Any) -> float:
    """The cost of the late tests of a join."""
    return float(tuples[whole] * (passing[left] * passing[right]) * (within[whole] - within[left] - within[right]))


def search_orders(
    size: int,
    last: int,
    pairs: int,
    limits_at: Any,
    node_at: Any,
    pair_at: Any,
    product_at: Any,
    tuples_at: Any,
    passing_at: Any,
    within_at: Any,
    latency_at: Any,
    best_at: Any,
) -> int:
    """Find the cheapest order of each set.

    `last` is the variable after which latency counts, or -1; `pairs` whether joining costs pair times the products (1),
    and late tests (2).
    """
    limits = carray(limits_at, size + 1)
    node, best = carray(node_at, 1 << size), carray(best_at, 1 << size)
    pair, product, latency = (
        carray(pair_at, 1 << size),
        carray(product_at, 1 << size),
        carray(latency_at, 1 << size),
    )
    tuples, passing, within = carray(tuples_at, 1 << size), carray(passing_at, 1 << size), carray(within_at, 1 << size)
    best[0] = np.inf
    for whole in range(1, 1 << size):
        if whole & (whole - 1) == 0:
            best[whole] = node[whole]
            continue
        if node[whole] == np.inf:
            best[whole] = np.inf
            continue
        cheapest = np.inf
        for position in range(size):
            bit = 1 << position
            if whole & bit:
                earlier = whole ^ bit
                cost = best[earlier]
                if pairs:
                    cost += pair[whole] * (product[earlier] * product[bit])
                if pairs == 2:
                    cost += _late(whole, earlier, bit, tuples, passing, within)
                if last >= 0 and earlier >> last & 1:
                    cost += latency[bit]
                cheapest = min(cheapest, cost)
        cheapest += node[whole]
        best[whole] = cheapest if cheapest <= limits[_variables(whole)] else np.inf
    return 0


@njit(error_model="numpy", inline="always")  # type: ignore[untyped-decorator]
def _try_splits(low: int, count: int, base: int, pairs: int, node: Any, pair: Any, scratch: Any) -> None:
    """Lower `found` of the sets of one block by `count` ways to split their high variables.

    Row s of `found` is the set with the low variables s; row l of `left` and `right` are the costs of the sides with
    the low variables l; the columns are the ways to split the high variables.
    """
    left, right, left_product, right_product, found = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    for s in range(1 << low):
        if node[base + s] == np.inf:
            continue
        at = found[s]
        lower = s
        while True:
            one, other = left[lower], right[s ^ lower]
            if pairs:
                factor = pair[base + s]
                one_product, other_product = left_product[lower], right_product[s ^ lower]
                for column in range(count):
                    cost = one[column] + other[column] + factor * (one_product[column] * other_product[column])
                    at[column] = cost if cost < at[column] else at[column]
            else:
                for column in range(count):
                    cost = one[column] + other[column]
                    at[column] = cost if cost < at[column] else at[column]
            if lower == 0:
                break
            lower = (lower - 1) & s


def search_blocks(
    first: int,
    end: int,
    low: int,
    size: int,
    pairs: int,
    waiting: int,
    limits_at: Any,
    highs_at: Any,
    alive_at: Any,
    node_at: Any,
    pair_at: Any,
    product_at: Any,
    latency_at: Any,
    best_at: Any,
    late_at: Any,
    scratch_at: Any,
) -> int:
    """Find the cheapest tree of each set of the blocks first to end - 1 of `highs`.

    A block is the 2^low sets with the same high variables; blocks with fewer high variables are done. Split this way
    the sets of a block share the search through the ways to split their high variables, and with the ways next to one
    another the sums and minima are vectors.

    Besides `best` a table is kept where it differs from it: `late` = best + latency (`waiting`), the cost of a side
    that is joined to one with the variable after which latency counts, which is the highest.
    """
    limits = carray(limits_at, 1 << size)
    block = 1 << low
    highs = carray(highs_at, end)
    alive = carray(alive_at, 1 << (size - low))
    node, pair, product = carray(node_at, 1 << size), carray(pair_at, 1 << size), carray(product_at, 1 << size)
    latency, best, late = carray(latency_at, 1 << size), carray(best_at, 1 << size), carray(late_at, 1 << size)
    scratch = carray(scratch_at, (5, block, COLUMNS))
    left, right, left_product, right_product, found = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    for place in range(first, end):
        high = highs[place]
        base = high << low
        joined = late if waiting and high >> (size - low - 1) else best
        for s in range(block):
            for column in range(COLUMNS):
                found[s, column] = np.inf
        # The side with the top one of the high variables is `left`, so that no split is tried twice.
        top = 0
        while high >> (top + 1):
            top += 1
        rest = high & ~(1 << top)
        worth = False
        for s in range(block):
            worth = worth or node[base + s] < np.inf
        apart = rest if worth else 0
        count = 0
        while apart:
            together = high ^ apart
            if alive[together] and alive[apart]:
                one, other = together << low, apart << low
                for s in range(block):
                    left[s, count] = best[one + s]
                    right[s, count] = joined[other + s]
                if pairs:
                    for s in range(block):
                        left_product[s, count] = product[one + s]
                        right_product[s, count] = product[other + s]
                count += 1
                if count == COLUMNS:
                    _try_splits(low, count, base, pairs, node, pair, scratch)
                    count = 0
            apart = (apart - 1) & rest
        if count:
            _try_splits(low, count, base, pairs, node, pair, scratch)
        living = 0
        for s in range(block):
            whole = base + s
            cheapest = np.inf
            if whole and whole & (whole - 1) == 0:
                cheapest = 0.0
            elif whole and node[whole] < np.inf:
                for column in range(COLUMNS):
                    cheapest = min(cheapest, found[s, column])
                lower = s
                while lower:  # the right side has low variables only
                    if lower != whole:
                        cost = best[whole ^ lower] + joined[lower]
                        if pairs:
                            cost += pair[whole] * (product[whole ^ lower] * product[lower])
                        cheapest = min(cheapest, cost)
                    lower = (lower - 1) & s
                cheapest += node[whole]
                if cheapest > limits[whole]:
                    cheapest = np.inf
            best[whole] = cheapest
            if waiting:
                late[whole] = cheapest + latency[whole]
            if cheapest < np.inf:
                living = 1
        alive[high] = living
    return 0


def cheapest_split(
    size: int,
    whole: int,
    last: int,
    pairs: int,
    ceiling_at: Any,
    pair_at: Any,
    product_at: Any,
    best_at: Any,
    late_at: Any,
) -> int:
    """Find the right side of the cheapest split of a set, and write what is below the join into `ceiling`.

    Where `ceiling` is given (not negative), splits up to it are equal to one another; of those the split with the
    smallest right side is returned, and of several the one whose right side is the largest number.
    """
    ceiling = carray(ceiling_at, 1)
    pair, product = carray(pair_at, 1 << size), carray(product_at, 1 << size)
    best, late = carray(best_at, 1 << size), carray(late_at, 1 << size)
    top = 0
    while whole >> (top + 1):
        top += 1
    waits = last >= 0 and whole >> last & 1
    rest = whole ^ (1 << top)
    cheapest, found, found_count = np.inf, 0, size + 1
    count = _variables(whole)
    apart = rest
    while apart:
        together = whole ^ apart
        if not waits:
            cost = best[together] + best[apart]
        elif together >> last & 1:
            cost = best[together] + late[apart]
        else:
            cost = late[together] + best[apart]
        if pairs:
            cost += pair[whole] * (product[together] * product[apart])
        if ceiling[0] < 0.0:
            cheapest = min(cheapest, cost)
        elif cost <= ceiling[0]:
            right_count = _variables(apart)
            right = apart
            if 2 * right_count >= count:
                right_count = count - right_count
                right = together
            if right_count < found_count or (right_count == found_count and right > found):
                found_count, found = right_count, right
        apart = (apart - 1) & rest
    if ceiling[0] < 0.0:
        ceiling[0] = cheapest
    return found
