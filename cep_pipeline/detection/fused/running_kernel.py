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
    found = uint8_at(words[FOUND])
    tests, step = words[TESTS], 1 if forward else -1
    own = FIRST_TEST + TEST_WORDS * max(tests - 1, 0)
    strict = words[own + STRICT]
    has_left, has_right, left, right = (
        words[own + LEFT] != 0,
        words[own + RIGHT] != 0,
        words[own + LEFT],
        words[own + RIGHT],
    )
    left_column, right_column = float64_at(left), float64_at(right)
    ranks = int32_at(words[RANKS])
    row, behind = (begin, end) if forward else (end - 1, begin - 1)
    begins = 0 if forward else count - 1
    position, extreme, known = 0, math.inf, False
    newest = 0
    while row != behind:
        reach = reaches[row] if forward else 1 - reaches[row]
        if position > 0 and newest >= reach:
            if tests == 2:
                _forget(words, selected, position, count)
            position, extreme, known = 0, math.inf, False
        while position < count:
            place = selected[begins + step * position]
            if step * place >= reach:
                break
            newest = step * place
            position += 1
            if tests == 0:
                continue
            if has_left:
                value = left_column[place]
            else:
                index[last] = place
                value = value_of(
                    words[ARGUMENTS], int64_at(words[own + LEFT_TERM]), 0, words[own + LEFT_END], index, stack
                )
            if tests == 2:
                if value == value:
                    _note(words, ranks[place], value)
            elif value <= extreme:
                extreme, known = value, True
        if position > 0:
            place = current[row]
            if tests == 0:
                found[row] = 1
            else:
                if has_right:
                    limit = right_column[place]
                else:
                    index[last - 1] = place
                    limit = value_of(
                        words[ARGUMENTS], int64_at(words[own + RIGHT_TERM]), 0, words[own + RIGHT_END], index, stack
                    )
                if tests == 2:
                    if limit == limit:
                        first = _ranked_first(words, program, place, index, stack)
                        found[row] |= _noted_below(words, first, limit, strict)
                else:
                    found[row] |= known and (extreme < limit or (extreme == limit and not strict))
        row += step
    if tests == 2:
        _forget(words, selected, position, count)
    return int(high - low)


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
        rank += rank & -rank


@njit(error_model="numpy")
def _forget(words: Any, selected: Any, position: int, count: int) -> None:
    """Remove all that was noted: above a place in the tree without a value there is none."""
    tree, ranks = float64_at(words[TREE]), int32_at(words[RANKS])
    for number in range(position):
        rank = ranks[selected[number] if words[FORWARD] else selected[count - 1 - number]]
        while 0 < rank <= words[SORTED_SIZE] and tree[rank] == tree[rank]:
            tree[rank] = math.nan
            rank += rank & -rank


@njit(error_model="numpy")
def _ranked_first(words: Any, program: Any, place: int, index: Any, stack: Any) -> int:
    """The number of ranks that pass the first test."""
    if words[LIMITS]:
        return int(int32_at(words[LIMITS])[place])
    index[program[PREFIX] - 1] = place
    own = FIRST_TEST
    limit = value_of(words[ARGUMENTS], int64_at(words[own + RIGHT_TERM]), 0, words[own + RIGHT_END], index, stack)
    if limit != limit:
        return 0
    values, low, high = float64_at(words[SORTED]), 0, words[SORTED_SIZE]
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < limit or (values[middle] == limit and not words[FIRST_TEST + STRICT]):
            low = middle + 1
        else:
            high = middle
    return int(low)


@njit(error_model="numpy")
def _noted_below(words: Any, rank: int, limit: float, strict: int) -> bool:
    """Return whether a value that passes the second test is noted at one of the first ranks."""
    tree = float64_at(words[TREE])
    while rank > 0:
        if tree[rank] < limit or (tree[rank] == limit and not strict):
            return True
        rank &= rank - 1
    return False
