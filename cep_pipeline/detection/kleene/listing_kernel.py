"""Lists written out from words of followers, and their candidates found. Imported only to be compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray

_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_BIT_OF = np.zeros(64, np.int64)
for _bit in range(64):
    _BIT_OF[((int(_DE_BRUIJN) << _bit) & (2**64 - 1)) >> 58] = _bit
_ONE, _SHIFT = np.uint64(1), np.uint64(58)


def write_lists(
    count: int,
    singles_at: Any,
    words_at: Any,
    word_count: int,
    offsets_at: Any,
    starts_at: Any,
    rows_at: Any,
    row_count: int,
    slots_at: Any,
    width: int,
    minimum: int,
    maximum: int,
    longer_first: int,
    sizes_at: Any,
    state_at: Any,
    most_matches: int,
    most_elements: int,
    out_offsets_at: Any,
    out_rows_at: Any,
    out_variables_at: Any,
) -> int:
    """Write the matches of all lists behind partial matches, as many as there is room for; returns how many.

    Parameters
    ----------
    count, singles
        Number n of partial matches, and int32 (singles, n): the rows of their single variables.
    words, offsets
        uint64: for each partial match from its offset (int64, -1 without candidates) on the candidates that may begin
        a list, then those that may follow each candidate, as bits.
    starts, rows
        int32 (n,): each partial match's first candidate as a place in `rows`, the rows of the candidates.
    slots, width
        int64: for each variable in pattern order its place in `singles`, or -1 for the list.
    minimum, maximum
        Least and greatest number of elements of a list.
    longer_first
        1 where a list is written behind all longer lists that begin with it, 0 where it is written before them.
    sizes
        int32 (n,): each partial match's number of candidates.
    state
        int64 (3 + 2 * 66,), all 0 at first: the partial match, 1 where a list of it is being extended, how long it
        is, its elements, the candidates left at each length. The first one is n when all is written.
    most_matches, most_elements
        Room in the output: int64 (most_matches + 1,) offsets, int32 (most_elements,) rows and variables.
    """
    offsets = carray(offsets_at, (count,))
    starts = carray(starts_at, (count,))
    words = carray(words_at, (word_count,))
    rows = carray(rows_at, (row_count,))
    slots = carray(slots_at, (width,))
    sizes = carray(sizes_at, (count,))
    singles = carray(singles_at, (max(width - 1, 1), count))
    state = carray(state_at, (3 + 2 * 66,))
    out_offsets = carray(out_offsets_at, (most_matches + 1,))
    out_rows = carray(out_rows_at, (most_elements,))
    out_variables = carray(out_variables_at, (most_elements,))
    partial, extending, depth = state[0], state[1], state[2]
    chain = state[3 : 3 + 66]
    left = state[3 + 66 :]
    matches = 0
    elements = 0
    out_offsets[0] = 0
    while partial < count:
        base = offsets[partial]
        if extending == 0:
            if base < 0:
                partial += 1
                continue
            depth = 0
            left[0] = np.int64(words[base])
            extending = 1
        while True:
            candidates = np.uint64(left[depth])
            bit = 0
            if candidates != np.uint64(0):
                lowest = candidates & (~candidates + _ONE)
                bit = _BIT_OF[np.int64((lowest * _DE_BRUIJN) >> _SHIFT)]
                if depth + sizes[partial] - bit < minimum:  # no list with this candidate or a later one is long enough
                    left[depth] = 0
                    continue
            elif depth == 0:
                break
            length = depth if longer_first else depth + 1  # of the list that may be written now
            written = length >= minimum and (candidates == np.uint64(0)) == (longer_first == 1)
            size = width - 1 + length
            if written and (matches >= most_matches or elements + size > most_elements):
                state[0], state[1], state[2] = partial, 1, depth
                return matches
            if candidates != np.uint64(0):
                left[depth] = np.int64(candidates ^ lowest)
                chain[depth] = rows[starts[partial] + bit]
                depth += 1
                left[depth] = np.int64(words[base + 1 + bit]) if depth < maximum else 0
            else:
                depth -= 1
            if not written:
                continue
            for variable in range(width):
                slot = slots[variable]
                if slot >= 0:
                    out_rows[elements] = singles[slot, partial]
                    out_variables[elements] = variable
                    elements += 1
                else:
                    for element in range(length):
                        out_rows[elements] = chain[element]
                        out_variables[elements] = variable
                        elements += 1
            matches += 1
            out_offsets[matches] = elements
        extending = 0
        partial += 1
    state[0], state[1], state[2] = partial, 0, 0
    return matches
