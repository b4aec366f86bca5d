"""Lists written out from words of followers, and their candidates found. Imported only to be compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray

from cep_pipeline.compiled.pointers import int32_at, int64_at
from cep_pipeline.detection.fused.any_shape_kernel import edge_of
from cep_pipeline.detection.fused.programs import FIRST_LEVEL, LEVEL_WORDS, OUTER, PREFIX, PREFIX_PLACE, ROWS_PLACE

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
    out_spans_at: int,
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
        int64 (3 + 3 * 66,), all 0 at first: the partial match, 1 where a list of it is being extended, how long it
        is, its elements, the candidates left at each length, the places of the elements among the candidates. The first
        one is n when all is written.
    most_matches, most_elements
        Room in the output: int64 (most_matches + 1,) offsets, int32 (most_elements,) rows and variables.
    out_spans
        Address of int32 (3, most_matches): of each match the partial match, and the places in `rows` of the first and
        the last element of the list. 0: they are not wanted.
    """
    offsets = carray(offsets_at, (count,))
    starts = carray(starts_at, (count,))
    words = carray(words_at, (word_count,))
    rows = carray(rows_at, (row_count,))
    slots = carray(slots_at, (width,))
    sizes = carray(sizes_at, (count,))
    singles = carray(singles_at, (max(width - 1, 1), count))
    state = carray(state_at, (3 + 3 * 66,))
    out_offsets = carray(out_offsets_at, (most_matches + 1,))
    out_rows = carray(out_rows_at, (most_elements,))
    out_variables = carray(out_variables_at, (most_elements,))
    partial, extending, depth = state[0], state[1], state[2]
    chain = state[3 : 3 + 66]
    left = state[3 + 66 : 3 + 2 * 66]
    chosen = state[3 + 2 * 66 :]
    spans = int32_at(out_spans_at)
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
                chosen[depth] = bit
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
            if out_spans_at != 0:
                spans[matches] = partial
                spans[most_matches + matches] = starts[partial] + chosen[0]
                spans[2 * most_matches + matches] = starts[partial] + chosen[length - 1]
            matches += 1
            out_offsets[matches] = elements
        extending = 0
        partial += 1
    state[0], state[1], state[2] = partial, 0, 0
    return matches


def find_candidates(
    words_at: int,
    program: Any,
    index: Any,
    most: int,
    singles: int,
    rows: Any,
    lows: Any,
    widths: Any,
    offsets: Any,
    sums: Any,
) -> int:
    """Find the candidates of the lists behind partial matches; returns how many words their followers take.

    Parameters
    ----------
    words, program
        The argument words of a search for lists, and its program.
    index
        int64, as many as there are levels, to work with.
    most
        Most candidates of one partial match; where one has more, -1 is returned.
    singles, rows
        How many variables bind one event, and int32 (singles, n) for the rows of these events.
    lows, widths, offsets
        For each of the n partial matches the place of the first candidate and how many there are, both int32, and where
        the words of their followers begin, -1 without candidates, int64.
    sums
        int64 (2,): the numbers of all candidates, and of all pairs of them.
    """
    words = int64_at(words_at)
    count, prefix = words[OUTER], program[PREFIX]
    at = FIRST_LEVEL + LEVEL_WORDS * prefix
    lower, upper = program[at], program[at + 1]
    size = 0
    sums[0], sums[1] = 0, 0
    for partial in range(count):
        for level in range(prefix):
            index[level] = int32_at(words[program[PREFIX_PLACE] + level])[partial]
            if level < singles:
                rows[level * count + partial] = int32_at(words[program[ROWS_PLACE] + level])[index[level]]
        low = edge_of(words, program, lower, index, False)
        width = max(edge_of(words, program, upper, index, True) - low, 0)
        lows[partial], widths[partial] = low, width
        if width > most:
            return -1
        sums[0] += width
        sums[1] += width * (width - 1) // 2
        offsets[partial] = size if width else -1
        size += width + 1 if width else 0
    return size


def join_lists(
    count: int,
    owners_at: Any,
    offsets_at: Any,
    rows_at: Any,
    variables_at: Any,
    numbers_at: Any,
    own: int,
    list_offsets_at: Any,
    list_rows_at: Any,
    most_elements: int,
    out_offsets_at: Any,
    out_rows_at: Any,
    out_variables_at: Any,
) -> int:
    """Write partial matches with one more list each; returns how many events they bind, or -1.

    Parameters
    ----------
    count, owners
        Number n of lists, and int32 (n,): the partial match that each belongs to.
    offsets, rows, variables
        int64, int32, int32: the elements of partial matches, variable after variable.
    numbers, own
        int32: the new number of each variable, and that of the new one.
    list_offsets, list_rows
        int64 (n + 1,) and int32: the elements of the lists.
    most_elements
        So many events there is room for; where they are more, -1 is returned.
    out_offsets, out_rows, out_variables
        The same of the longer partial matches: int64 (n + 1,), int32, int32.
    """
    elements = 0
    out_offsets_at[0] = 0
    for match in range(count):
        owner = owners_at[match]
        element, end = offsets_at[owner], offsets_at[owner + 1]
        if elements + end - element + list_offsets_at[match + 1] - list_offsets_at[match] > most_elements:
            return -1
        while element < end and numbers_at[variables_at[element]] < own:
            out_rows_at[elements] = rows_at[element]
            out_variables_at[elements] = numbers_at[variables_at[element]]
            elements += 1
            element += 1
        for new in range(list_offsets_at[match], list_offsets_at[match + 1]):
            out_rows_at[elements] = list_rows_at[new]
            out_variables_at[elements] = own
            elements += 1
        while element < end:
            out_rows_at[elements] = rows_at[element]
            out_variables_at[elements] = numbers_at[variables_at[element]]
            elements += 1
            element += 1
        out_offsets_at[match + 1] = elements
    return elements
