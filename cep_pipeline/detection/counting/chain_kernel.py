"""Chains of comparisons counted behind many first events side by side. Imported only to be compiled.

Numbers are whole ones below a modulus, which is below 2^63; a modulus of zero stands for 2^64, or for none of floats.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, njit

LANES = 64
"""First events, or partial matches, that are counted behind side by side."""
_0, _1 = np.uint64(0), np.uint64(1)


@njit
def add_lanes(one: Any, other: Any, modulus: Any) -> None:
    """Add the numbers of each lane to others."""
    if modulus:
        for lane in range(len(one)):
            total = one[lane] + other[lane]
            one[lane] = total - modulus if total >= modulus else total
    elif len(one) == LANES:  # a number of lanes that is known beforehand makes faster code
        for lane in range(LANES):
            one[lane] += other[lane]
    else:
        for lane in range(len(one)):
            one[lane] += other[lane]


@njit
def take_lanes(one: Any, other: Any, modulus: Any) -> None:
    """Take the numbers of each lane away from others."""
    for lane in range(len(one)):
        less = one[lane] < other[lane]
        one[lane] -= other[lane]
        if modulus and less:
            one[lane] += modulus


@njit
def ranked(used: Any, places: Any, begin: int, end: int) -> int:
    """Number the values of the candidates [begin, end) in order: `used` becomes how many there are before each."""
    used[:] = 0
    for candidate in range(begin, end):
        if places[candidate] >= 0:
            used[places[candidate]] = 1
    number = 0
    for place in range(len(used)):
        number += used[place]
        used[place] = number - used[place]
    return number


def count_chain(
    steps: int,
    width: int,
    anchors: int,
    starts_at: Any,
    untils_at: Any,
    stops_at: Any,
    variables: int,
    fits_at: Any,
    test_count: int,
    test_variables_at: Any,
    anchor_places_at: Any,
    test_ranges_at: Any,
    size: int,
    places_at: Any,
    ranges_at: Any,
    modulus_number: int,
    trees_at: Any,
    used_at: Any,
    lanes_at: Any,
    keep: int,
    kept_at: Any,
    total_at: Any,
) -> int:
    """Count the matches of a sequence behind its anchors, as `sweep._count_behind` says.

    There are as many anchors as fill the lanes, `width` at a time; one whose window is empty stands for none. An event
    of the second variable begins a chain in the lanes where it lies between `starts` and `untils`; an event of a later
    one goes on with the chains that end with an event of the variable before whose value lies in a range, which a tree
    over these values sums, and the last one comes before `stops`. Tests compare an event with the anchor of each lane.

    With `keep`, the numbers of chains behind each anchor are kept for each event that is bound last.

    Of each event, `places` says where its value stands among those of its variable, and `ranges` which values of the
    variable before it may follow; `test_ranges` which anchors, by their `anchor_places`.
    """
    starts = carray(starts_at, anchors)
    untils = carray(untils_at, anchors)
    stops = carray(stops_at, anchors)
    fits = carray(fits_at, steps)
    test_variables = carray(test_variables_at, max(test_count, 1))
    anchor_places = carray(anchor_places_at, (max(test_count, 1), anchors))
    test_ranges = carray(test_ranges_at, (max(test_count, 1), steps, 2))
    joints = variables - 2
    places = carray(places_at, (joints, steps))
    ranges = carray(ranges_at, (joints, steps, 2))
    trees = carray(trees_at, (joints, size + 1, width))
    used = carray(used_at, (joints, size + 1))
    lanes = carray(lanes_at, (2, width))
    kept = carray(kept_at, (anchors // width if keep else 1, steps if keep else 1, width))
    total = carray(total_at, 2)
    modulus = np.uint64(modulus_number)
    totals, ways = lanes[0], lanes[1]
    last = variables - 1
    low, high = _0, _0
    for batch in range(0, anchors, width):
        begin, end = starts[batch] + 1, 0
        for lane in range(batch, batch + width):
            end = max(end, stops[lane])
        for joint in range(joints):
            trees[joint, : ranked(used[joint], places[joint], begin, end) + 1] = _0
        totals[:] = _0
        for step in range(begin, end):
            event = fits[step]
            for variable in range(last, 0, -1):
                if not (event >> variable) & 1:
                    continue
                joint = variable - 1
                if variable < last and places[joint, step] < 0:
                    continue
                if variable == 1:
                    ways[:] = _1
                else:
                    first, stop = ranges[joint - 1, step, 0], ranges[joint - 1, step, 1]
                    if first >= stop:
                        continue
                    ways[:] = _0
                    node = used[joint - 1, stop]
                    while node > 0:
                        add_lanes(ways, trees[joint - 1, node], modulus)
                        node -= node & -node
                    node = used[joint - 1, first]
                    while node > 0:
                        take_lanes(ways, trees[joint - 1, node], modulus)
                        node -= node & -node
                if variable == 1:
                    for lane in range(width):
                        if not starts[batch + lane] < step < untils[batch + lane]:
                            ways[lane] = _0
                if variable == last:
                    for lane in range(width):
                        if step >= stops[batch + lane]:
                            ways[lane] = _0
                for test in range(test_count):
                    if test_variables[test] == variable:
                        first, stop = test_ranges[test, step, 0], test_ranges[test, step, 1]
                        for lane in range(width):
                            if not first <= anchor_places[test, batch + lane] < stop:
                                ways[lane] = _0
                if variable == last:
                    add_lanes(totals, ways, modulus)
                    if keep:
                        kept[batch // width, step] = ways
                else:
                    node = used[joint, places[joint, step]] + 1
                    while node <= used[joint, size]:
                        add_lanes(trees[joint, node], ways, modulus)
                        node += node & -node
        for lane in range(width):
            low += totals[lane]
            if modulus and low >= modulus:
                low -= modulus
            elif low < totals[lane]:
                high += _1
    total[0], total[1] = low, high
    return 0
