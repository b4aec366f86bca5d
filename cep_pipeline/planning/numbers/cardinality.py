"""The number of partial matches of a set of variables: PM of JQPG section 4.1, for one set or for all at once.

PM(S) is the expected number of combinations of one instance of each variable of S that are alive in one window: all
inside it, in their temporal order, and passing all conditions among S,

    PM(S) = prod over S of W r_i  *  prod of the selectivities within S  *  order(S).

Differs from the paper in two places where its independent pairwise factors would count one fact twice. Temporal
order: the paper multiplies a factor for each consecutive pair of a SEQ; here order(S) is the exact share of the
orderings of S that the clause allows, 1/k! for k variables of a SEQ. Agreement on an attribute (equivalence tests,
PARTITION BY): each further variable counts the most selective of its pairs with the earlier ones, not all of them,
because agreement is transitive.

Where conditions were found to depend on each other, the product of their selectivities is replaced by their joint
selectivity in every set that holds all their variables, which the paper leaves open.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics

Array = np.ndarray[Any, Any]


def ln_partial_matches(statistics: ClauseStatistics, positions: Iterable[int]) -> float:
    """ln PM(S) of the variables at `positions`, in whatever order they are given; of none, 0."""
    members = tuple(sorted(positions))
    known = statistics.derived(ln_partial_matches, dict[tuple[int, ...], float])
    found = known.get(members)
    if found is None:
        found = known[members] = _ln_partial_matches(statistics, members)
    return found


def _ln_partial_matches(statistics: ClauseStatistics, members: Sequence[int]) -> float:
    inside = set(members)
    total = sum(statistics.ln_instances[member] for member in members)
    total += sum(factor for known, factor in statistics.factors if inside.issuperset(known))
    for agreement in statistics.agreements:
        for place, member in enumerate(members):
            total += min((agreement.ln_selectivities[member][other] for other in members[:place]), default=0.0)
    return total + ln_order_share(statistics, members)


def ln_order_share(statistics: ClauseStatistics, positions: Iterable[int]) -> float:
    """ln order(S): the share of all orderings of the variables that the clause's temporal order allows.

    Notes
    -----
    All orderings count as equally frequent. What snapshots measure, `StatisticsSnapshot.order`, is not used: it is of
    pairs, and many streams share those of all pairs and differ in the orderings of three. It is also the smaller part
    of the truth: where an event of b follows each one of a, nearly all pairs are in order, for which the estimate is
    half of what it should be, but there are also 1 / (W r_b) times as many pairs in a window as independent arrivals
    have, which no share says.
    """
    inside = set(positions)
    total = 0.0
    for groups in statistics.sequences:
        counts = [sum(member in inside for member in group) for group in groups]
        total += sum(math.lgamma(count + 1) for count in counts) - math.lgamma(sum(counts) + 1)
    return total


def ln_partial_matches_of_all(statistics: ClauseStatistics) -> Array:
    """ln PM of every set of variables.

    Returns
    -------
    Array
        float64, shape (2^n,): element m is the set of the positions of m's bits. 8 bytes times 2^n, and three times
        as much while it is made.
    """
    size = statistics.size
    pairs = np.zeros((size, size))
    larger = []
    single = np.array(statistics.ln_instances)
    for positions, factor in statistics.factors:
        if len(positions) == 1:
            single[positions[0]] += factor
        elif len(positions) == 2:
            pairs[positions] += factor
        else:
            larger.append((np.uint32(mask_of(positions)), factor))
    table = np.zeros(1)
    for top in range(size):
        # The sets whose highest position is `top`: each lower set, with what `top` adds to it.
        added = np.full(1, single[top])
        for lower in range(top):
            added = np.concatenate((added, added + pairs[lower, top]))
        for agreement in statistics.agreements:
            strictest = np.zeros(1)
            for lower in range(top):
                strictest = np.concatenate((strictest, np.minimum(strictest, agreement.ln_selectivities[lower][top])))
            added += strictest
        added += table
        table = np.concatenate((table, added))
    if larger or statistics.sequences:
        sets = np.arange(1 << size, dtype=np.uint32)
        for mask, factor in larger:
            table[(sets & mask) == mask] += factor
        factorial = np.array([math.lgamma(count + 1) for count in range(size + 1)])
        for groups in statistics.sequences:
            for group in groups:
                if len(group) > 1:
                    table += factorial[np.bitwise_count(sets & np.uint32(mask_of(group)))]
            members = mask_of(position for group in groups for position in group)
            table -= factorial[np.bitwise_count(sets & np.uint32(members))]
    return table


def ln_partial_matches_of_some(statistics: ClauseStatistics, members: Array) -> Array:
    """ln PM of some sets of variables of a clause of any size.

    Parameters
    ----------
    members
        bool, shape (m, n): the variables of each set.

    Returns
    -------
    Array
        float64, shape (m,).
    """
    size = statistics.size
    having = np.ascontiguousarray(members.T)  # by variable; sums without matrix products, which would start threads
    total = np.zeros(len(members))
    for position, instances in enumerate(statistics.ln_instances):
        total += having[position] * instances
    for positions, factor in statistics.factors:
        total += having[list(positions)].all(axis=0) * factor
    for agreement in statistics.agreements:
        for position, row in enumerate(agreement.ln_selectivities):
            strictest = np.zeros(len(members))
            for other in range(position):
                np.minimum(strictest, having[other] * row[other], out=strictest)
            total += having[position] * strictest
    factorial = np.array([math.lgamma(count + 1) for count in range(size + 1)])
    for groups in statistics.sequences:
        for group in groups:
            if len(group) > 1:
                total += factorial[having[list(group)].sum(axis=0)]
        total -= factorial[having[[position for group in groups for position in group]].sum(axis=0)]
    return total


def mask_of(positions: Iterable[int]) -> int:
    """The set of positions as an integer with these bits.

    Examples
    --------
    >>> bin(mask_of([0, 3]))
    '0b1001'
    """
    mask = 0
    for position in positions:
        mask |= 1 << position
    return mask
