"""Lists with many candidates, counted. Imported only to be compiled; `compiled_lists.py` calls it."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, njit

from cep_pipeline.compiled.pointers import int32_at, int64_at
from cep_pipeline.detection.counting.sweep_kernel import LANES, add_lanes, ranked

(
    COUNT,
    LOWS,
    WIDTHS,
    ANCHORED,
    FIRST,
    CANDIDATES,
    SIZE,
    PLACES,
    ENDS,
    LEAST,
    LENGTHS,
    UNBOUNDED,
    BOUNDS,
    USED,
) = range(14)
"""The words of the partial matches and of the candidates behind them (`compiled_lists.ComparedElements`).

A list is some of the candidates `lows[m]` to `lows[m] + widths[m]`, ascending, the first one among them if they are
anchored. It has at least `least` elements, and at most `lengths` where it is not `unbounded`. Of sorted values,
`places` says where each candidate's own stands, and `ends` how many of them an element before it may have. The
lists that end with a value are summed in a tree over the values.
"""


@njit
def count_lists_of(words: Any, trees_at: Any, work_at: Any, zero: Any, unit: Any, modulus: Any) -> tuple[Any, Any]:
    """The number of lists behind partial matches, and that of all beginnings of lists with them.

    Numbers are floats, or remainders of whole ones; a modulus of zero stands for none, or for 2^64. Lists
    of each length have a tree of their own; where there is no greatest length, the last one is of all that are longer,
    too.
    """
    count, first, candidates, size = words[COUNT], words[FIRST], words[CANDIDATES], words[SIZE]
    least, lengths, unbounded = words[LEAST], words[LENGTHS], words[UNBOUNDED]
    lows, widths = carray(int32_at(words[LOWS]), count), carray(int32_at(words[WIDTHS]), count)
    places, ends = carray(int32_at(words[PLACES]), candidates), carray(int32_at(words[ENDS]), candidates)
    trees, used = carray(trees_at, (lengths, size + 1, LANES)), carray(int64_at(words[USED]), size + 1)
    work, lanes = carray(work_at, (3, LANES)), carray(int64_at(words[BOUNDS]), (2, LANES))
    ending, totals, beginnings = work[0], work[1], work[2]
    starts, stops = lanes[0], lanes[1]
    free = words[ANCHORED] == 0
    totals[:] = zero
    beginnings[:] = zero
    for batch in range(0, count, LANES):
        begin, end = lows[batch], lows[batch]
        for lane in range(LANES):
            starts[lane] = stops[lane] = -1
        for lane in range(min(LANES, count - batch)):
            starts[lane] = lows[batch + lane]
            stops[lane] = lows[batch + lane] + widths[batch + lane]
            begin, end = min(begin, starts[lane]), max(end, stops[lane])
        distinct = ranked(used, places, begin - first, end - first)
        trees[:, : distinct + 1] = zero
        for candidate in range(begin, end):
            here = candidate - first
            for length in range(len(trees), 0, -1):
                ending[:] = zero
                node = used[ends[here]]
                while node > 0:
                    if length > 1:
                        add_lanes(ending, trees[length - 2, node], modulus)
                    if unbounded != 0 and length == len(trees):
                        add_lanes(ending, trees[length - 1, node], modulus)
                    node -= node & -node
                for lane in range(LANES):
                    begins = length == 1 and (free or candidate == starts[lane])
                    inside = ending[lane] + (unit if begins else zero)
                    inside = inside - modulus if modulus and inside >= modulus else inside
                    ending[lane] = inside if starts[lane] <= candidate < stops[lane] else zero
                if length >= least:
                    add_lanes(totals, ending, modulus)
                if least > 1:
                    add_lanes(beginnings, ending, modulus)
                if places[here] >= 0:
                    node = used[places[here]] + 1
                    while node <= distinct:
                        add_lanes(trees[length - 1, node], ending, modulus)
                        node += node & -node
    total, beginning = zero, zero
    for lane in range(LANES):
        total += totals[lane]
        beginning += beginnings[lane]
        if modulus and total >= modulus:
            total -= modulus
        if modulus and beginning >= modulus:
            beginning -= modulus
    return total, beginning if least > 1 else total


def count_lists_roughly(words: Any, trees_at: Any, work_at: Any, total_at: Any) -> int:
    """Count the lists behind partial matches, and all their beginnings, as floats with relatively small errors."""
    found = carray(total_at, 2)
    found[0], found[1] = count_lists_of(words, trees_at, work_at, 0.0, 1.0, 0.0)
    return 0


def count_lists_modulo(words: Any, modulus: int, trees_at: Any, work_at: Any, total_at: Any) -> int:
    """Count the lists behind partial matches, as the remainder by a modulus below 2^63, or by 2^64, which is 0."""
    remainder, _ = count_lists_of(words, trees_at, work_at, np.uint64(0), np.uint64(1), np.uint64(modulus))
    carray(total_at, 1)[0] = remainder
    return 0
