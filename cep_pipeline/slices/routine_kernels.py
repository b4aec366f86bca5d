"""Loops over the rows of a slice, written in Numba. Imported only where they are compiled."""

from __future__ import annotations

from typing import Any


def select(count: int, codes: Any, groups: Any, rows: Any, found: Any) -> int:
    """Write the rows of which the code has a group, and that group, and return how many there are.

    Parameters
    ----------
    groups
        int32: the group of each code from -1 on, 0 where it has none.
    rows, found
        int32 (count + 1,): every row and group is written, and the next one over it unless it has a group. So nothing
        branches.
    """
    place = 0
    for row in range(count):
        own = groups[codes[row] + 1]
        rows[place] = row
        found[place] = own
        place += own > 0
    return place


def group(count: int, groups: int, codes: Any, starts: Any, order: Any) -> int:
    """Sort rows by their codes, stably, by counting them.

    Parameters
    ----------
    starts
        int64 (groups + 2,) of zeros: where each group starts in the order, then its end.
    order
        int32 (count,): the rows by code, ascending within a code.
    """
    for row in range(count):
        starts[codes[row] + 2] += 1
    for place in range(2, groups + 2):
        starts[place] += starts[place - 1]
    for row in range(count):
        at = codes[row] + 1
        order[starts[at]] = row
        starts[at] += 1
    return 0


def gather(count: int, values: Any, rows: Any, out: Any) -> int:
    """Write the value of each row."""
    for place in range(count):
        out[place] = values[rows[place]]
    return 0


STRIDE = 8
"""Values of a merge of which the last one is looked at first."""


def merge64(groups: int, point_starts: Any, points: Any, value_starts: Any, values: Any, delta: int, out: Any) -> int:
    """Write for each point the place of the first value of its group that is not below it and `delta`.

    Points and values ascend within each group, so that both are passed once, some values at a time where there are few
    points.
    """
    for one in range(groups):
        place, end = value_starts[one], value_starts[one + 1]
        for point in range(point_starts[one], point_starts[one + 1]):
            wanted = points[point] + delta
            while place + STRIDE <= end and values[place + STRIDE - 1] < wanted:
                place += STRIDE
            while place < end and values[place] < wanted:
                place += 1
            out[point] = place
    return 0


merge32 = merge64
