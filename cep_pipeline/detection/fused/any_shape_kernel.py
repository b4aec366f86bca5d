"""The loops of every shape in one function, which reads what it does from a program. Imported only to compile it.

It does what `generator` makes code of, shape by shape, in the same order and with the same state: what one began the
other goes on with. A level's range is tested test after test, each over what the ones before it let pass.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from cep_pipeline.compiled.pointers import float64_at, int32_at, int64_at
from cep_pipeline.detection.fused.programs import (
    ABSOLUTE,
    AS_ROWS,
    BETWEEN,
    BUDGET,
    CAPACITY,
    COLUMN,
    CONSTANT,
    COUNT_SIZES,
    COUNTERS,
    EQ,
    FIND_FIRST,
    FIND_LAST,
    FINISHED,
    FIRST_LEVEL,
    FIRST_OWNED,
    GE,
    GT,
    HASH_FACTOR,
    INSIDE,
    LE,
    LEVEL_WORDS,
    LEVELS,
    LT,
    MINUS,
    NEGATIVE,
    NO_SEARCH,
    OUT_PLACE,
    OUTER,
    OWNED,
    PLUS,
    PREFIX,
    PREFIX_PLACE,
    ROOT,
    ROWS_PLACE,
    SCRATCH,
    SCRATCH_STRIDE,
    SEARCH,
    SIMPLE_WORDS,
    STACK,
    STATE,
    TERM_WORDS,
    TIMES,
    VALUES,
)

CHUNK = 4096
"""Places of the last level that are tested at once."""
FEWEST_READ = 32
"""Places that a search for the first event tests at once to begin with."""


@njit(error_model="numpy")
def value_of(words_at: int, program: Any, at: int, end: int, index: Any, stack: Any) -> float:
    """The value of the term in postfix at `program[at:end]` for the events bound."""
    words = int64_at(words_at)
    top = -1
    while at < end:
        code = program[at]
        if code == COLUMN:
            top += 1
            stack[top] = float64_at(words[program[at + 1]])[index[program[at + 2]]]
        elif code == CONSTANT:
            top += 1
            stack[top] = float64_at(words_at)[program[at + 1]]
        elif code == NEGATIVE:
            stack[top] = -stack[top]
        elif code == ABSOLUTE:
            stack[top] = abs(stack[top])
        elif code == ROOT:
            stack[top] = math.sqrt(stack[top]) if stack[top] >= 0.0 else math.nan
        else:
            top -= 1
            left, right = stack[top], stack[top + 1]
            if code == PLUS:
                stack[top] = left + right
            elif code == MINUS:
                stack[top] = left - right
            elif code == TIMES:
                stack[top] = left * right
            else:
                stack[top] = left / right if right != 0.0 else math.nan
        at += TERM_WORDS
    return float(stack[0])


@njit(error_model="numpy")
def _holds(comparator: int, left: float, right: float) -> bool:
    if comparator == LT:
        return left < right
    if comparator == GT:
        return left > right
    if comparator == LE:
        return left <= right
    if comparator == GE:
        return left >= right
    if comparator == EQ:
        return left == right
    return left < right or left > right


@njit(error_model="numpy")
def edge_of(words: Any, program: Any, at: int, index: Any, upper: bool) -> int:
    """The largest of a level's lower bounds, or the smallest of its upper ones, whose words begin at `at`."""
    found = 0
    for bound in range(program[at]):
        place = at + 1 + 2 * bound
        edge = int32_at(words[program[place]])[index[program[place + 1]]]
        if bound == 0 or (edge < found if upper else edge > found):
            found = edge
    return found


@njit(error_model="numpy")
def _tested_range(column: Any, comparator: int, value: float, low: int, high: int, selected: Any) -> int:
    """Write the places of [low, high) at which the column passes; how many there are."""
    count = 0
    if comparator == LT:
        for place in range(low, high):
            selected[count] = place
            count += column[place] < value
    elif comparator == GT:
        for place in range(low, high):
            selected[count] = place
            count += column[place] > value
    else:
        for place in range(low, high):
            selected[count] = place
            count += _holds(comparator, column[place], value)
    return count


@njit(error_model="numpy")
def _tested_again(column: Any, comparator: int, value: float, count: int, selected: Any) -> int:
    """Keep of the selected places those at which the column passes; how many there are."""
    kept = 0
    for at in range(count):
        place = selected[at]
        selected[kept] = place
        kept += _holds(comparator, column[place], value)
    return kept


@njit(error_model="numpy")
def _conjunct_holds(words_at: int, program: Any, at: int, index: Any, stack: Any) -> bool:
    """Return whether one of the alternatives holds whose words begin at `at`."""
    alternatives = program[at]
    at += 1
    for _ in range(alternatives):
        tests = program[at]
        at += 1
        together = True
        for _ in range(tests):
            if together:
                left = value_of(words_at, program, program[at + 1], program[at + 2], index, stack)
                right = value_of(words_at, program, program[at + 3], program[at + 4], index, stack)
                together = _holds(program[at], left, right)
            at += 5
        if together:
            return True
    return False


@njit(error_model="numpy")
def _after_conjunct(program: Any, at: int) -> int:
    """The place behind the words of a conjunct."""
    alternatives = program[at]
    at += 1
    for _ in range(alternatives):
        at += 1 + 5 * program[at]
    return at


@njit(error_model="numpy")
def _place_of(words: Any, program: Any, at: int, index: Any, upper: bool) -> float:
    """The largest of some lower bounds, or the smallest of some upper ones, whose words begin at `at`."""
    found = 0.0
    for bound in range(program[at]):
        place = at + 1 + 2 * bound
        edge = float64_at(words[program[place]])[index[program[place + 1]]]
        if bound == 0 or (edge < found if upper else edge > found):
            found = edge
    return found


@njit(error_model="numpy")
def first_row(rows: Any, edge: float, low: int, high: int) -> int:
    """The first place of [low, high) whose row is not before an edge."""
    while low < high:
        middle = (low + high) >> 1
        if rows[middle] < edge:
            low = middle + 1
        else:
            high = middle
    return low


@njit(error_model="numpy")
def _rejected(words_at: int, program: Any, at: int, index: Any, stack: Any) -> bool:
    """Return whether an event rejects those bound, by the negation whose words begin at `at`."""
    words = int64_at(words_at)
    stride = int(float64_at(words_at)[program[at + 1]])
    lower = at + 5
    upper = lower + 1 + 2 * program[lower]
    since = upper + 1 + 2 * program[upper]
    until = since + 1 + 2 * program[since]
    tests = until + 1 + 2 * program[until]
    low = int(_place_of(words, program, lower, index, False))
    high = int(_place_of(words, program, upper, index, True))
    if program[since]:
        edge = _place_of(words, program, since, index, False)
        low = first_row(float64_at(words[program[at + 4]]), edge, low, high)
    if program[until]:
        edge = _place_of(words, program, until, index, True)
        high = first_row(float64_at(words[program[at + 4]]), edge, low, high)
    if low >= high:
        return False
    if program[at + 2]:
        value = value_of(words_at, program, program[tests + 4], program[tests + 5], index, stack)
        values = float64_at(words[program[program[tests + 2] + 1]])
        places = float64_at(words[program[at + 2]])
        starts = float64_at(words[program[at + 3]])
        hashed = np.float64(value + 0.0).view(np.uint64) * np.uint64(HASH_FACTOR)
        bucket = int(hashed >> np.uint64(stride))
        first, last = int(starts[bucket]), int(starts[bucket + 1])
        end = last
        while first < end:
            middle = (first + end) >> 1
            if values[middle] < value or (values[middle] == value and places[middle] < low):
                first = middle + 1
            else:
                end = middle
        return bool(first < last and values[first] == value and places[first] < high)
    power = 0
    while 2 << power <= high - low:
        power += 1
    for block in range(2):
        index[3 * program[LEVELS]] = power * stride + (high - (1 << power) if block else low)
        place = tests + 1
        for _ in range(program[tests]):
            left = value_of(words_at, program, program[place + 1], program[place + 2], index, stack)
            right = value_of(words_at, program, program[place + 3], program[place + 4], index, stack)
            if _holds(program[place], left, right):
                return True
            place += 5
    return False


@njit(error_model="numpy")
def prepare_values(words_at: int, program: Any, at: int, index: Any, values: Any, stack: Any) -> None:
    """Compute what the simple tests compare with."""
    for test in range(program[at]):
        place = at + 1 + SIMPLE_WORDS * test
        if program[place + 2] >= 0:
            column = float64_at(int64_at(words_at)[program[place + 2]])
            values[test] = column[index[program[place + 3]]]
        else:
            values[test] = value_of(words_at, program, program[place + 4], program[place + 5], index, stack)


@njit(error_model="numpy")
def select(
    words_at: int, program: Any, level: int, at: int, index: Any, values: Any, stack: Any, low: int, high: int, out: Any
) -> int:
    """Write the places of [low, high) that pass the tests of a level, which has some; how many there are."""
    words = int64_at(words_at)
    simple = program[at]
    count = high - low
    for test in range(simple):
        place = at + 1 + SIMPLE_WORDS * test
        column = float64_at(words[program[place + 1]])
        if test == 0:
            count = _tested_range(column, program[place], values[0], low, high, out)
        else:
            count = _tested_again(column, program[place], values[test], count, out)
    at += 1 + SIMPLE_WORDS * simple
    others = program[at]
    if simple == 0:
        for offset in range(count):
            out[offset] = low + offset
    at += 1
    for _ in range(others):
        kept = 0
        for number in range(count):
            place = out[number]
            index[level] = place
            out[kept] = place
            kept += _conjunct_holds(words_at, program, at, index, stack)
        count = kept
        at = _after_conjunct(program, at)
    negations = program[at]
    at += 1
    for _ in range(negations):
        kept = 0
        for number in range(count):
            place = out[number]
            index[level] = place
            out[kept] = place
            kept += not _rejected(words_at, program, at, index, stack)
        count = kept
        at += 1 + program[at]
    return count


@njit(error_model="numpy")
def _search(words_at: int, program: Any, frame_at: int) -> int:
    """Find or count, for each row of the prefix, the events of the last level's range that pass its tests."""
    words, index = int64_at(words_at), int64_at(frame_at)
    values, stack = float64_at(frame_at + 8 * program[VALUES]), float64_at(frame_at + 8 * program[STACK])
    prefix, last, wanted = program[PREFIX], program[LEVELS] - 1, program[SEARCH]
    at = FIRST_LEVEL + LEVEL_WORDS * last
    lower, upper, tests, tested = program[at], program[at + 1], program[at + 2], program[at + 3]
    out = words[program[OUT_PLACE]]
    places, sizes, selected = int32_at(out), int64_at(out), int32_at(words[SCRATCH])
    work = 0
    for row in range(words[OUTER]):
        for level in range(prefix):
            index[level] = int32_at(words[program[PREFIX_PLACE] + level])[row]
        low, high = edge_of(words, program, lower, index, False), edge_of(words, program, upper, index, True)
        found, size = -1, 0
        chunk = FEWEST_READ if wanted == FIND_FIRST else CHUNK
        prepare_values(words_at, program, tests, index, values, stack)
        while low < high and not (wanted == FIND_FIRST and found >= 0):
            end = min(low + chunk, high)
            chunk = min(2 * chunk, CHUNK)
            count = end - low
            work += count
            if tested:
                count = select(words_at, program, last, tests, index, values, stack, low, end, selected)
            if count > 0 and (found < 0 or wanted == FIND_LAST):
                passed = count - 1 if wanted == FIND_LAST else 0
                found = selected[passed] if tested else low + passed
            size += count
            low = end
        if wanted == COUNT_SIZES:
            sizes[row] = size
        else:
            places[row] = found
    index[0] = work
    return 0


def run_any(words_at: int, program: Any, frame_at: int) -> Any:
    """Go on with a run until the block is full, the budget spent or nothing left; the number of matches in the block.

    The first word of the frame then says how many candidates were tested. A search runs at once to its end.
    """
    if program[SEARCH] != NO_SEARCH:
        return _search(words_at, program, frame_at)
    words, frame = int64_at(words_at), int64_at(frame_at)
    index = frame
    levels, prefix, last = program[LEVELS], program[PREFIX], program[LEVELS] - 1
    position, limit = int64_at(frame_at + 8 * levels), int64_at(frame_at + 16 * levels)
    values, stack = float64_at(frame_at + 8 * program[VALUES]), float64_at(frame_at + 8 * program[STACK])
    prefix_place, rows_place, out_place = program[PREFIX_PLACE], program[ROWS_PLACE], program[OUT_PLACE]
    outer_end = words[OUTER]
    at = FIRST_LEVEL + LEVEL_WORDS * last
    last_lower, last_upper, last_tests, last_tested = program[at], program[at + 1], program[at + 2], program[at + 3]
    state, counters = int64_at(words[STATE]), int64_at(words[COUNTERS])
    capacity, budget, stride = words[CAPACITY], words[BUDGET], words[SCRATCH_STRIDE]
    scratch = int32_at(words[SCRATCH])
    first_owned, owned = words[FIRST_OWNED], program[OWNED]
    as_rows = program[AS_ROWS]
    selection = int32_at(words[SCRATCH] + 4 * stride * last)
    last_rows, last_out = int32_at(words[rows_place + last]), int32_at(words[out_place + last])
    matches, work = 0, 0
    resuming = state[0] == INSIDE
    outer = state[1]
    while outer < outer_end:
        if work > budget:
            state[0], state[1] = BETWEEN, outer
            frame[0] = work
            return matches
        if prefix == 1:
            index[0] = outer
        else:
            for level in range(prefix):
                index[level] = int32_at(words[prefix_place + level])[outer]
        level = prefix
        entering = True
        while level >= prefix:
            if entering and level == last:
                low = edge_of(words, program, last_lower, index, False)
                high = edge_of(words, program, last_upper, index, True)
                if low < high:
                    if resuming:
                        low = state[1 + 2 * last]
                    resuming = False
                    before = matches
                    begin = low
                    least = -1
                    if owned:
                        latest = 0
                        for earlier in range(last):
                            latest = max(latest, int32_at(words[rows_place + earlier])[index[earlier]])
                        least = -1 if latest >= first_owned else first_owned
                    if last_tested:
                        prepare_values(words_at, program, last_tests, index, values, stack)
                    while low < high and matches < capacity:
                        end = min(low + CHUNK, high, low + capacity - matches)
                        if last_tested:
                            count = select(
                                words_at, program, last, last_tests, index, values, stack, low, end, selection
                            )
                            for number in range(count):
                                place = selection[number]
                                row = last_rows[place]
                                last_out[matches] = row if as_rows else place
                                matches += row >= least
                        else:
                            for place in range(low, end):
                                row = last_rows[place]
                                last_out[matches] = row if as_rows else place
                                matches += row >= least
                        low = end
                    counters[2 * last] += low - begin
                    counters[2 * last + 1] += matches - before
                    work += low - begin
                    for earlier in range(last):
                        bound = index[earlier]
                        if as_rows:
                            bound = int32_at(words[rows_place + earlier])[bound]
                        out = int32_at(words[out_place + earlier])
                        for match in range(before, matches):
                            out[match] = bound
                    if low < high or work > budget:
                        state[0], state[1] = INSIDE, outer
                        for between in range(prefix, last):
                            state[1 + 2 * between] = position[between]
                            state[2 + 2 * between] = limit[between]
                        state[1 + 2 * last] = low
                        frame[0] = work
                        return matches
                level -= 1
                entering = False
                if level >= prefix:
                    position[level] += 1
                continue
            at = FIRST_LEVEL + LEVEL_WORDS * level
            tested = program[at + 3]
            if entering:
                if resuming:
                    position[level], limit[level] = state[1 + 2 * level], state[2 + 2 * level]
                else:
                    low = edge_of(words, program, program[at], index, False)
                    high = edge_of(words, program, program[at + 1], index, True)
                    position[level], limit[level] = low, max(low, high)
                    if low < high:
                        counters[2 * level] += high - low
                        work += high - low
                        if tested:
                            prepare_values(words_at, program, program[at + 2], index, values, stack)
                            base = stride * level
                            target = int32_at(words[SCRATCH] + 4 * base)
                            count = select(
                                words_at, program, level, program[at + 2], index, values, stack, low, high, target
                            )
                            position[level], limit[level] = base, base + count
                            counters[2 * level + 1] += count
                        else:
                            counters[2 * level + 1] += high - low
            here = position[level]
            if here < limit[level]:
                index[level] = scratch[here] if tested else here
                level += 1
                entering = True
            else:
                level -= 1
                entering = False
                if level >= prefix:
                    position[level] += 1
        outer += 1
    state[0], state[1] = FINISHED, outer
    frame[0] = work
    return matches
