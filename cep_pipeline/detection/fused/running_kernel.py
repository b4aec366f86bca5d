"""The search for events that reject partial matches which differ in their last event alone, written in Numba.

The partial matches of a run have one range that grows from one to the next. Its events are read once for the run. Those
that pass the tests without the last event are noted: one test of the last event needs the least value of its left side,
two need the least values of the one among those that the other one ranks first (a Fenwick tree). Imported only where it
is compiled.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math
from typing import Any

from numba import njit

from cep_pipeline.compiled.pointers import float64_at, int32_at, int64_at, uint8_at
from cep_pipeline.detection.fused.any_shape_kernel import edge_of, first_row, prepare_values, select, value_of
from cep_pipeline.detection.fused.programs import FIRST_LEVEL, LEVEL_WORDS, PREFIX, PREFIX_PLACE, STACK, VALUES
from cep_pipeline.detection.fused.running_words import (
    ARGUMENTS,
    EDGE_ROWS,
    EDGE_VALUES,
    EDGE_WORDS,
    EDGES,
    EXACT,
    FIRST_EDGE,
    FIRST_TEST,
    FORWARD,
    FOUND,
    FRAME,
    LEFT,
    LEFT_END,
    LEFT_TERM,
    LIMITS,
    MOST_WORK,
    NEXT,
    NOTED,
    PROGRAM,
    RANKS,
    REACHES,
    RIGHT,
    RIGHT_END,
    RIGHT_TERM,
    ROWS,
    SELECTED,
    SORTED,
    SORTED_SIZE,
    STRICT,
    TEST_WORDS,
    TESTS,
    TREE,
)


def search_runs(words: Any) -> Any:
    """Go on with the search of runs until enough work is done or nothing is left; the next partial match."""
    arguments, program, index = int64_at(words[ARGUMENTS]), int64_at(words[PROGRAM]), int64_at(words[FRAME])
    prefix, row, work = program[PREFIX], words[NEXT], 0
    while row < words[ROWS] and work < words[MOST_WORK]:
        end = words[ROWS]
        for level in range(prefix - 1):
            places = int32_at(arguments[program[PREFIX_PLACE] + level])
            place, stop = places[row], end
            end = row + 1
            while end < stop and places[end] == place:
                end += 1
            index[level] = place
        work += end - row + _search_run(words, arguments, program, index, row, end)
        row = end
    return row


@njit(error_model="numpy")
def _search_run(words: Any, arguments: Any, program: Any, index: Any, begin: int, end: int) -> int:
    """Search for the partial matches of one run; how many events its range has."""
    at = FIRST_LEVEL + LEVEL_WORDS * program[PREFIX]
    last, forward = program[PREFIX], words[FORWARD] != 0
    current, reaches = int32_at(arguments[program[PREFIX_PLACE] + last - 1]), int32_at(words[REACHES])
    index[last - 1] = current[begin]
    low = edge_of(arguments, program, program[at], index, False) if forward else -1
    high = -1 if forward else edge_of(arguments, program, program[at + 1], index, True)
    _find_reaches(words, arguments, program, index, begin, end, low, high)
    for row in range(begin, end):
        if forward:
            high = max(high, reaches[row])
        else:
            low = reaches[row] if low < 0 else min(low, reaches[row])
    if low >= high:
        return 0
    selected = int32_at(words[SELECTED])
    values, stack = float64_at(words[FRAME] + 8 * program[VALUES]), float64_at(words[FRAME] + 8 * program[STACK])
    prepare_values(words[ARGUMENTS], program, program[at + 2], index, values, stack)
    count = select(words[ARGUMENTS], program, last, program[at + 2], index, values, stack, low, high, selected)
    if count == 0:
        return int(high - low)
    if words[TESTS] == 2:
        _look_in_tree(words, program, index, stack, current, begin, end, count)
    elif words[TESTS] == 1:
        _look_at_extremes(words, program, index, stack, current, begin, end, count, low, high)
    else:
        found, nearest = uint8_at(words[FOUND]), selected[0] if forward else selected[count - 1]
        for row in range(begin, end):
            found[row] |= nearest < reaches[row] if forward else nearest >= reaches[row]
    return int(high - low)


@njit(error_model="numpy")
def _left_value(words: Any, own: int, index: Any, stack: Any) -> Any:
    """The left side of the test whose words begin at `own`, where that is a term, for the events bound."""
    return value_of(words[ARGUMENTS], int64_at(words[own + LEFT_TERM]), 0, words[own + LEFT_END], index, stack)


@njit(error_model="numpy")
def _right_value(words: Any, own: int, index: Any, stack: Any) -> Any:
    """The right side of the test whose words begin at `own`, where that is a term, for the events bound."""
    return value_of(words[ARGUMENTS], int64_at(words[own + RIGHT_TERM]), 0, words[own + RIGHT_END], index, stack)


@njit(error_model="numpy")
def _look_at_extremes(
    words: Any,
    program: Any,
    index: Any,
    stack: Any,
    current: Any,
    begin: int,
    end: int,
    count: int,
    low: int,
    high: int,
) -> None:
    """Compare the partial matches of a run with the least value up to where each of them reaches."""
    selected, noted = int32_at(words[SELECTED]), float64_at(words[NOTED])
    last, own, forward = program[PREFIX], FIRST_TEST, words[FORWARD] != 0
    for place in range(low, high):
        noted[place] = math.inf
    if words[own + LEFT]:
        column = float64_at(words[own + LEFT])
        for number in range(count):
            noted[selected[number]] = column[selected[number]]
    else:
        for number in range(count):
            index[last] = selected[number]
            noted[selected[number]] = _left_value(words, own, index, stack)
    known = 0  # events from the first one with a value on, which may be infinite
    while (
        known < count
        and noted[selected[known if forward else count - 1 - known]]
        != noted[selected[known if forward else count - 1 - known]]
    ):
        known += 1
    if known == count:
        return
    first = selected[known if forward else count - 1 - known]
    extreme = math.inf
    for number in range(high - low):
        place = low + number if forward else high - 1 - number
        value = noted[place]
        extreme = value if value < extreme else extreme
        noted[place] = extreme
    found, reaches, strict = uint8_at(words[FOUND]), int32_at(words[REACHES]), words[own + STRICT] != 0
    has_column = words[own + RIGHT] != 0
    limits = float64_at(words[own + RIGHT])
    for row in range(begin, end):
        if has_column:
            limit = limits[current[row]]
        else:
            index[last - 1] = current[row]
            limit = _right_value(words, own, index, stack)
        reach = reaches[row] - 1 if forward else reaches[row]
        if first <= reach < high if forward else low <= reach <= first:
            value = noted[reach]
            found[row] |= (value < limit) | ((value == limit) & (not strict))


@njit(error_model="numpy")
def _look_in_tree(
    words: Any, program: Any, index: Any, stack: Any, current: Any, begin: int, end: int, count: int
) -> None:
    """Look for the partial matches of a run in a tree of the events up to where each of them reaches."""
    selected, ranks, found = int32_at(words[SELECTED]), int32_at(words[RANKS]), uint8_at(words[FOUND])
    reaches, forward = int32_at(words[REACHES]), words[FORWARD] != 0
    last, own = program[PREFIX], FIRST_TEST + TEST_WORDS
    has_left, has_right, strict = words[own + LEFT] != 0, words[own + RIGHT] != 0, words[own + STRICT]
    left, right = float64_at(words[own + LEFT]), float64_at(words[own + RIGHT])
    position, newest = 0, 0
    for number in range(end - begin):
        row = begin + number if forward else end - 1 - number
        reach = reaches[row] if forward else -reaches[row] + 1
        if position > 0 and newest >= reach:
            _forget(words, selected, position, count)
            position = 0
        while position < count:
            place = selected[position] if forward else selected[count - 1 - position]
            if (place if forward else -place) >= reach:
                break
            newest = place if forward else -place
            position += 1
            index[last] = place
            value = left[place] if has_left else _left_value(words, own, index, stack)
            if value == value:
                _note(words, ranks[place], value)
        place = current[row]
        index[last - 1] = place
        limit = right[place] if has_right else _right_value(words, own, index, stack)
        if position > 0 and limit == limit and not found[row]:
            found[row] = _noted_below(words, _ranked_first(words, program, place, index, stack), limit, strict)
    _forget(words, selected, position, count)


@njit(error_model="numpy")
def _find_reaches(
    words: Any, arguments: Any, program: Any, index: Any, begin: int, end: int, low: int, high: int
) -> None:
    """Find how far the range of each partial match reaches; `low` or `high` is where all begin or end."""
    last, forward = program[PREFIX], words[FORWARD] != 0
    current, reaches = int32_at(arguments[program[PREFIX_PLACE] + last - 1]), int32_at(words[REACHES])
    side = program[FIRST_LEVEL + LEVEL_WORDS * last + (1 if forward else 0)]
    for bound in range(program[side]):
        ends, level = int32_at(arguments[program[side + 1 + 2 * bound]]), program[side + 2 + 2 * bound]
        if bound == 0:
            for row in range(begin, end):
                reaches[row] = ends[current[row] if level == last - 1 else index[level]]
        elif forward:
            for row in range(begin, end):
                reaches[row] = min(reaches[row], ends[current[row] if level == last - 1 else index[level]])
        else:
            for row in range(begin, end):
                reaches[row] = max(reaches[row], ends[current[row] if level == last - 1 else index[level]])
    for edge in range(words[EDGES]):
        own = FIRST_EDGE + EDGE_WORDS * edge
        rows, limits = float64_at(words[own + EDGE_ROWS]), float64_at(words[own + EDGE_VALUES])
        for row in range(begin, end):
            reach = reaches[row]
            since, until = (low, max(low, reach)) if forward else (reach, max(reach, high))
            reaches[row] = first_row(rows, limits[current[row]], since, until)


@njit(error_model="numpy")
def _note(words: Any, rank: int, value: float) -> None:
    """Note a value in the tree at a rank from 1 on; 0 is that of an event without a value."""
    tree = float64_at(words[TREE])
    while 0 < rank <= words[SORTED_SIZE] and not tree[rank] <= value:
        tree[rank] = value
        if words[EXACT]:
            break
        rank += rank & -rank


@njit(error_model="numpy")
def _forget(words: Any, selected: Any, position: int, count: int) -> None:
    """Remove all that was noted: above a place in the tree without a value there is none."""
    tree, ranks = float64_at(words[TREE]), int32_at(words[RANKS])
    for number in range(position):
        rank = ranks[selected[number] if words[FORWARD] else selected[count - 1 - number]]
        while 0 < rank <= words[SORTED_SIZE] and tree[rank] == tree[rank]:
            tree[rank] = math.nan
            if words[EXACT]:
                break
            rank += rank & -rank


@njit(error_model="numpy")
def _ranked_first(words: Any, program: Any, place: int, index: Any, stack: Any) -> int:
    """The number of ranks that pass the first test; of an equality the rank that does, or 0."""
    if words[LIMITS]:
        return int(int32_at(words[LIMITS])[place])
    index[program[PREFIX] - 1] = place
    limit = _right_value(words, FIRST_TEST, index, stack)
    if limit != limit:
        return 0
    values, low, high = float64_at(words[SORTED]), 0, words[SORTED_SIZE]
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < limit or (values[middle] == limit and not words[FIRST_TEST + STRICT]):
            low = middle + 1
        else:
            high = middle
    if words[EXACT] and low and values[low - 1] != limit:
        return 0
    return int(low)


@njit(error_model="numpy")
def _noted_below(words: Any, rank: int, limit: float, strict: int) -> bool:
    """Return whether a value that passes the second test is noted at one of the first ranks, or at the last of them."""
    tree = float64_at(words[TREE])
    while rank > 0:
        if tree[rank] < limit or (tree[rank] == limit and not strict):
            return True
        if words[EXACT]:
            break
        rank &= rank - 1
    return False
