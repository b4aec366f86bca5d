"""Matches ordered, described and kept. Imported only to compile the kernels.

`ordering.py`, `match_ids.py` and `output_policy.py` call them.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

SHORT = 12
"""Number of matches up to which they are sorted by insertion."""


@njit
def compared(one: int, other: int, offsets: Any, keys: Any, variables: Any) -> Any:
    """Compare two matches that end with the same event: by their lists of keys, then of variables."""
    begin, other_begin = offsets[one], offsets[other]
    size, other_size = offsets[one + 1] - begin, offsets[other + 1] - other_begin
    for place in range(min(size, other_size)):
        difference = keys[begin + place] - keys[other_begin + place]
        if difference != 0:
            return difference
    if size != other_size:
        return size - other_size
    for place in range(size):
        difference = variables[begin + place] - variables[other_begin + place]
        if difference != 0:
            return difference
    return 0


@njit
def sort_group(order: Any, spare: Any, begin: int, end: int, offsets: Any, keys: Any, variables: Any) -> None:
    """Sort the matches `order[begin:end]`, which end with the same event, by merging; what is in order stays."""
    for start in range(begin, end, SHORT):
        for place in range(start + 1, min(start + SHORT, end)):
            one = order[place]
            while place > start and compared(order[place - 1], one, offsets, keys, variables) > 0:
                order[place] = order[place - 1]
                place -= 1
            order[place] = one
    size = SHORT
    while size < end - begin:
        for start in range(begin, end - size, 2 * size):
            middle, stop = start + size, min(start + 2 * size, end)
            if compared(order[middle - 1], order[middle], offsets, keys, variables) <= 0:
                continue
            for place in range(start, middle):
                spare[place] = order[place]
            left, right, place = start, middle, start
            while left < middle and right < stop:
                if compared(spare[left], order[right], offsets, keys, variables) <= 0:
                    order[place] = spare[left]
                    left += 1
                else:
                    order[place] = order[right]
                    right += 1
                place += 1
            while left < middle:
                order[place] = spare[left]
                left, place = left + 1, place + 1
        size *= 2


def are_in_order(
    matches: int,
    offsets: Any,
    rows: Any,
    keys: Any,
    variables: Any,
    lasts: Any,
) -> int:
    """Find the last event of each match of any width, and whether the matches are in order, and distinct, as they are.

    Parameters
    ----------
    matches, offsets, keys, variables
        As in `order_lists`, at least one match.
    rows
        int32: the number of each element's event, which grows with the stream.
    lasts
        int64 (matches,): written, the number of each match's last event.

    Returns
    -------
    int
        1 if they are, else 0.
    """
    in_order = True
    for match in range(matches):
        last = rows[offsets[match]]
        for element in range(offsets[match] + 1, offsets[match + 1]):
            last = max(last, rows[element])
        lasts[match] = last
        if in_order and match:
            before = lasts[match - 1]
            in_order = before < last or (before == last and compared(match - 1, match, offsets, keys, variables) < 0)
    return int(in_order)


def order_lists(
    matches: int,
    offsets: Any,
    lasts: Any,
    keys: Any,
    variables: Any,
    first: int,
    counted: int,
    counts: Any,
    order: Any,
    spare: Any,
    distinct: int,
) -> int:
    """Order matches of any width.

    Parameters
    ----------
    matches, offsets, keys, variables
        Match m binds the elements `offsets[m]` to `offsets[m + 1]`: numbers (int32) by which they are compared, and
        those of their variables.
    lasts
        int64 (matches,): the number of each match's last event, at least `first`.
    counted, counts
        int64 (counted,), zeros: the last events are less than `first + counted - 1`.
    order
        int64 (matches,): written.
    spare
        int64 (matches,).
    distinct
        Of matches that are equal, one only is taken.

    Returns
    -------
    int
        How many matches are in `order`.
    """
    for match in range(matches):
        counts[lasts[match] - first + 1] += 1
    for value in range(1, counted):
        counts[value] += counts[value - 1]
    for match in range(matches):
        place = counts[lasts[match] - first]
        counts[lasts[match] - first] += 1
        order[place] = match
    begin = 0
    for value in range(counted - 1):
        end = counts[value]
        if end - begin > 1:
            sort_group(order, spare, begin, end, offsets, keys, variables)
        begin = end
    if not distinct:
        return matches
    kept = 0
    for place in range(matches):
        one = order[place]
        before = order[max(kept - 1, 0)]
        if kept and lasts[before] == lasts[one] and compared(before, one, offsets, keys, variables) == 0:
            continue
        order[kept] = one
        kept += 1
    return kept


def take_lists(
    count: int,
    chosen: Any,
    offsets: Any,
    rows: Any,
    variables: Any,
    to_offsets: Any,
    to_rows: Any,
    to_variables: Any,
) -> int:
    """Copy chosen matches of any width, in the order in which they are chosen.

    Parameters
    ----------
    count, chosen
        int64 (count,): numbers of matches.
    offsets, rows, variables
        Match m binds the elements `offsets[m]` to `offsets[m + 1]`: int32 rows and variables.
    to_offsets, to_rows, to_variables
        Written: of the chosen ones, the same.
    """
    at = 0
    to_offsets[0] = 0
    for place in range(count):
        match = chosen[place]
        for element in range(offsets[match], offsets[match + 1]):
            to_rows[at] = rows[element]
            to_variables[at] = variables[element]
            at += 1
        to_offsets[place + 1] = at
    return at


word = np.uint64


@njit
def mixed(value: Any, factor: Any) -> Any:
    """Mix the bits of a word; different words stay different."""
    value ^= value >> word(32)
    value *= factor
    return value ^ (value >> word(29))


@njit
def stirred(a: Any, b: Any, factors: Any) -> Any:
    """Mix the two words of a state with each other; different states stay different."""
    b ^= mixed(a, factors[0])
    return a ^ mixed(b, factors[1]), b


def describe_matches(
    matches: int,
    width: int,
    stride: int,
    offsets: Any,
    rows: Any,
    variables: Any,
    seqs: Any,
    timestamps: Any,
    positions: Any,
    key: Any,
    constants: Any,
    ids: Any,
    bound: Any,
    starts: Any,
    ends: Any,
) -> int:
    """Describe matches in one pass: their ids, seqs and times.

    Parameters
    ----------
    matches, width, stride
        Where all matches bind one event to each of the same variables, `width` of them, variable v of match m binds the
        event `rows[v * stride + m]`, and offsets and variables are not read; otherwise the width is 0.
    offsets, rows, variables
        Match m binds the elements `offsets[m]` to `offsets[m + 1]`, at least one: int32 rows of events, and the number
        of the variable of each.
    seqs, timestamps
        Of each event its seq and its time.
    positions
        Each variable's position in the pattern.
    key
        uint64 (4,): that of the statement.
    constants
        uint64 (6,): two factors, and for each word of an id the bits that are kept and those that are set.
    ids, bound, starts, ends
        Written: uint64, two words of each match, the seqs of all elements, and the times of first and last event.
    """
    # These are read once: what the loop writes might be they, for all that the compiler knows.
    keys = key[0], key[1], key[2], key[3]
    factors, bits = (constants[0], constants[1]), (constants[2], constants[3], constants[4], constants[5])
    for match in range(matches):
        begin = match if width else offsets[match]
        size = width if width else offsets[match + 1] - begin
        a, b = keys[0], keys[1]
        first = last = rows[begin]
        element = match * width if width else begin
        for place in range(size):
            row = rows[begin + place * stride]
            first, last = min(first, row), max(last, row)
            seq = seqs[row]
            bound[element + place] = seq
            position = positions[place] if width else positions[variables[begin + place]]
            a, b = stirred(a ^ word(seq), b ^ word(position), factors)
        a, b = stirred(a ^ keys[2], b ^ keys[3] ^ word(size), factors)
        a, b = stirred(a, b, factors)
        ids[2 * match], ids[2 * match + 1] = a & bits[0] | bits[1], b & bits[2] | bits[3]
        starts[match], ends[match] = timestamps[first], timestamps[last]
    return matches


def keep_matches(
    count: int,
    first: Any,
    last: Any,
    partitions: Any,
    ends: Any,
    offsets: Any,
    events: Any,
    used: Any,
    non_overlap: int,
    consume: int,
    keep: Any,
) -> int:
    """Mark the kept matches in `keep`; update the last kept event of each partition and the used events.

    Returns the number of matches that are kept.
    """
    kept = 0
    for match in range(count):
        partition = partitions[match]
        if non_overlap and first[match] <= ends[partition]:
            continue
        if consume:
            free = True
            for element in range(offsets[match], offsets[match + 1]):
                if used[events[element]]:
                    free = False
                    break
            if not free:
                continue
            for element in range(offsets[match], offsets[match + 1]):
                used[events[element]] = 1
        ends[partition] = last[match]
        keep[match] = 1
        kept += 1
    return kept
