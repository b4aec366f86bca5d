"""The index ranges of pairs, written in Numba. Imported only where it is compiled."""

from __future__ import annotations

from typing import Any

from numba import carray


def find_ranges(
    firsts: int,
    seconds: int,
    events: int,
    by_time: int,
    reach: int,
    ordered: int,
    by_rows: int,
    distance: int,
    start: int,
    timestamps_at: Any,
    first_at: Any,
    second_at: Any,
    ends_at: Any,
    high_at: Any,
    itself_at: Any,
) -> int:
    """Find for each first row the end of the second rows with which it makes pairs, and the number of pairs up to it.

    Returns how many ranges hold the row itself.

    All bounds only grow from one first row to the next, so that each is moved over the second rows once. `by_rows` and
    `distance` are those of `slices.order.order_bound` for the events after another one.
    """
    timestamps = carray(timestamps_at, events)
    first, second = carray(first_at, firsts), carray(second_at, seconds)
    ends, high, itself = carray(ends_at, firsts), carray(high_at, firsts), carray(itself_at, firsts)
    reached, beyond, after, own, place, found, pairs = 0, 0, 0, 0, 0, 0, 0
    while own < seconds and second[own] < start:
        own += 1
    for index in range(firsts):
        row = first[index]
        time = timestamps[row]
        if by_time:
            while reached < seconds and timestamps[second[reached]] < time - reach:
                reached += 1
            while beyond < seconds and timestamps[second[beyond]] <= time + reach:
                beyond += 1
        else:
            while reached < seconds and second[reached] < row - reach:
                reached += 1
            while beyond < seconds and second[beyond] <= row + reach:
                beyond += 1
        begin = reached
        if ordered and by_rows:
            while after < seconds and second[after] < row + distance:
                after += 1
        elif ordered:
            while after < seconds and timestamps[second[after]] < time + distance:
                after += 1
        begin = max(begin, after)
        if row < start:
            begin = max(begin, own)
        end = max(begin, beyond)
        pairs += end - begin
        ends[index], high[index] = pairs, end
        while place < seconds and second[place] < row:
            place += 1
        if begin <= place < end and second[place] == row:
            itself[found] = index
            found += 1
    return found
