"""The loops of every shape in one function, which reads what it does from a program. Imported only to compile it.

A level extends a batch of partial matches by the next variable: for each it tests a contiguous range of columns, 16
doubles at a time, and compresses the places that pass into the batch of the next level, or into the output block. A
batch is extended to its end before the one before it goes on, so that matches come in the order of nested loops, and no
more than one batch a level is stored. Ranges are short, mostly: what a level needs to know it reads once a batch. When
the block is full the function returns; called again, it goes on in the same batches.

`_find` finds for each partial match the first or last event of a range that passes instead, which is enough for a
negation.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from cep_pipeline.compiled.native import WIDTH
from cep_pipeline.compiled.pointers import (
    at_least,
    at_least_than,
    at_most,
    at_most_than,
    count_bits,
    equal,
    equal_to,
    fill,
    float64_at,
    further,
    greater,
    greater_than,
    int32_at,
    int64_at,
    less,
    less_than,
    lowest_bit,
    put_places,
    unequal,
    unequal_to,
)
from cep_pipeline.detection.conditions import codes
from cep_pipeline.detection.fused import programs
from cep_pipeline.detection.fused.programs import BATCH, ROOM, SIMPLE_WORDS, VALUE_WORDS

ALL = (1 << WIDTH) - 1
"""The bits of all places that are tested at once."""


@njit(error_model="numpy")
def _operate(code: int, stack: Any, top: int, lanes: int) -> int:
    """Apply an operation to the numbers on top of a stack, so many side by side; the new top."""
    if code == codes.REAL_NEGATIVE:
        for lane in range(lanes):
            stack[top + lane] = -stack[top + lane]
    elif code == codes.REAL_ABSOLUTE:
        for lane in range(lanes):
            stack[top + lane] = abs(stack[top + lane])
    elif code == codes.ROOT:
        for lane in range(lanes):
            value = stack[top + lane]
            stack[top + lane] = math.sqrt(value) if value >= 0.0 else math.nan
    else:
        top -= lanes
        if code == codes.REAL_PLUS:
            for lane in range(lanes):
                stack[top + lane] += stack[top + lanes + lane]
        elif code == codes.REAL_MINUS:
            for lane in range(lanes):
                stack[top + lane] -= stack[top + lanes + lane]
        elif code == codes.REAL_TIMES:
            for lane in range(lanes):
                stack[top + lane] *= stack[top + lanes + lane]
        else:
            for lane in range(lanes):
                divisor = stack[top + lanes + lane]
                stack[top + lane] = stack[top + lane] / divisor if divisor != 0.0 else math.nan
    return top


@njit(error_model="numpy")
def _value_of(words_at: int, program: Any, at: int, index: Any, stack: Any) -> float:
    """The value, for the events bound, of the term whose words begin at `at`."""
    words = int64_at(words_at)
    top = -1
    for place in range(at + 1, program[at], codes.TERM_WORDS):
        code = program[place]
        if code == codes.COLUMN:
            top += 1
            stack[top] = float64_at(words[program[place + 1]])[index[program[place + 2]]]
        elif code == codes.CONSTANT:
            top += 1
            stack[top] = float64_at(words_at)[program[place + 1]]
        else:
            top = _operate(code, stack, top, 1)
    return float(stack[0])


@njit(error_model="numpy")
def _compute_sides(words: Any, program: Any, at: int, here: int, values: Any, entry: int, stack: Any) -> None:
    """Compute both terms of the test at `at`, one above the other on the stack, for the places from `here` on."""
    top = -WIDTH
    for word in range(at + codes.TEST_WORDS, program[at + 1], codes.TERM_WORDS):
        code, operand = program[word], program[word + 1]
        if code == programs.OWN:
            top += WIDTH
            source = further(float64_at(words[operand]), here)
            for lane in range(WIDTH):
                stack[top + lane] = source[lane]
        elif code == programs.VALUE:
            top += WIDTH
            fill(further(stack, top), values[BATCH * operand + entry])
        else:
            top = _operate(code, stack, top, WIDTH)


@njit(error_model="numpy")
def _compared(code: int, one: Any, other: Any) -> int:
    if code == codes.LESS:
        return less(one, other)
    if code == codes.LESS_EQUAL:
        return at_most(one, other)
    if code == codes.GREATER:
        return greater(one, other)
    if code == codes.GREATER_EQUAL:
        return at_least(one, other)
    return equal(one, other) if code == codes.EQUAL else unequal(one, other)


@njit(error_model="numpy", forceinline=True)
def _compared_with(code: int, one: Any, value: float) -> int:
    if code == codes.LESS:
        return less_than(one, value)
    if code == codes.GREATER:
        return greater_than(one, value)
    if code == codes.LESS_EQUAL:
        return at_most_than(one, value)
    if code == codes.GREATER_EQUAL:
        return at_least_than(one, value)
    return equal_to(one, value) if code == codes.EQUAL else unequal_to(one, value)


@njit(error_model="numpy", forceinline=True)
def _passing(words_at: int, program: Any, at: int, here: int, high: int, values: Any, entry: int, frame_at: int) -> int:
    """Bits of the `WIDTH` places from `here`, of those before `high`, that pass the tests whose words begin at `at`."""
    bits = (1 << max(0, min(high - here, WIDTH))) - 1
    for place in range(at + 1, at + 1 + SIMPLE_WORDS * program[at], SIMPLE_WORDS):
        own = further(float64_at(int64_at(words_at)[program[place + 1]]), here)
        bits &= _compared_with(program[place], own, values[BATCH * program[place + 2] + entry])
    at += 1 + SIMPLE_WORDS * program[at]
    return _passing_others(words_at, program, at, here, bits, values, entry, frame_at) if program[at] else bits


@njit(error_model="numpy")
def _passing_others(
    words_at: int, program: Any, at: int, here: int, bits: int, values: Any, entry: int, frame_at: int
) -> int:
    """The bits that pass the conjuncts whose words begin at `at`."""
    words, stack = int64_at(words_at), float64_at(frame_at + 8 * program[programs.STACK])
    conjuncts = program[at]
    at += 1
    for _ in range(conjuncts):
        alternatives = program[at]
        at += 1
        holds = 0
        for _ in range(alternatives):
            behind, tests = program[at], program[at + 1]
            at += 2
            together = ALL
            for _ in range(tests):
                _compute_sides(words, program, at, here, values, entry, stack)
                together &= _compared(program[at + 2], stack, further(stack, WIDTH))
                at = program[at + 1]
            at = behind
            holds |= together
        bits &= holds
    return bits


@njit(error_model="numpy", forceinline=True)
def _put(out: Any, count: int, here: int, bits: int) -> int:
    """Append the places of bits, counted from `here`; how many there are then."""
    put_places(further(out, count), np.int32(here), bits & 255)
    if bits > 255:
        put_places(further(out, count + count_bits(bits & 255)), np.int32(here + 8), bits >> 8)
    return count + count_bits(bits)


@njit(error_model="numpy")
def _batch_at(program: Any, frame_at: int, level: int) -> int:
    """The address of the batch of a level: its partial matches by level, their ranges of the next one, and values."""
    return frame_at + 8 * (program[programs.BATCHES] + level * program[programs.BATCH_WORDS])


@njit(error_model="numpy")
def _bind(program: Any, frame_at: int, level: int, entry: int) -> None:
    """Put the places of a partial match of a level's batch where terms read them."""
    index, batch = int64_at(frame_at), int32_at(_batch_at(program, frame_at, level))
    for earlier in range(level + 1):
        index[earlier] = batch[earlier * ROOM + entry]


@njit(error_model="numpy")
def _prepare(words_at: int, program: Any, frame_at: int, level: int, size: int) -> None:
    """Find, for each partial match of a level's batch, its range of the next level and the values that are tested."""
    words, index = int64_at(words_at), int64_at(frame_at)
    batch, values = int32_at(_batch_at(program, frame_at, level)), float64_at(_values_at(program, frame_at, level))
    at = programs.FIRST_LEVEL + programs.LEVEL_WORDS * (level + 1)
    for upper in range(2):
        edges = further(batch, (program[programs.LEVELS] + upper) * ROOM)
        bounds = program[at + upper]
        for place in range(bounds + 1, bounds + 1 + 2 * program[bounds], 2):
            ends, places = int32_at(words[program[place]]), further(batch, program[place + 1] * ROOM)
            if place == bounds + 1:
                for entry in range(size):
                    edges[entry] = ends[places[entry]]
            elif upper:
                for entry in range(size):
                    edges[entry] = min(edges[entry], ends[places[entry]])
            else:
                for entry in range(size):
                    edges[entry] = max(edges[entry], ends[places[entry]])
    first = program[at + programs.VALUES]
    for number in range(program[first]):
        place = first + 1 + VALUE_WORDS * number
        own = further(values, number * BATCH)
        if program[place] == codes.COLUMN:
            column, places = float64_at(words[program[place + 1]]), further(batch, program[place + 2] * ROOM)
            for entry in range(size):
                own[entry] = column[places[entry]]
        else:
            for entry in range(size):
                _bind(program, frame_at, level, entry)
                own[entry] = _value_of(
                    words_at, program, program[place + 1], index, float64_at(frame_at + 8 * program[programs.STACK])
                )


@njit(error_model="numpy")
def _values_at(program: Any, frame_at: int, level: int) -> int:
    """The address of the values that the tests of the next level read of a level's batch."""
    return _batch_at(program, frame_at, level) + 4 * (program[programs.LEVELS] + 2) * ROOM


@njit(error_model="numpy")
def _tests_of(program: Any, level: int) -> int:
    """The place where the tests of a level begin."""
    return program[programs.FIRST_LEVEL + programs.LEVEL_WORDS * level + programs.TESTS]


@njit(error_model="numpy")
def _least_row(words: Any, program: Any, frame_at: int, level: int) -> int:
    """The least row that the last event of a bound partial match may have for the match to be owned."""
    latest = 0
    for earlier in range(level + 1):
        latest = max(latest, int32_at(words[program[programs.ROWS_PLACE] + earlier])[int64_at(frame_at)[earlier]])
    return -1 if latest >= words[programs.FIRST_OWNED] else words[programs.FIRST_OWNED]


@njit(error_model="numpy")
def _extend(
    words_at: int, program: Any, frame_at: int, level: int, first: int, size: int, target: Any, most: int
) -> tuple[int, int]:
    """Extend the partial matches of a batch, from one on, until enough have passed; how many have, and where to go on.

    The places of the next level go to `target`, and the partial matches that they extend to `OWNERS`. What is left of a
    range becomes the range.
    """
    words = int64_at(words_at)
    batch, values = int32_at(_batch_at(program, frame_at, level)), float64_at(_values_at(program, frame_at, level))
    lows, highs = further(batch, program[programs.LEVELS] * ROOM), further(batch, (program[programs.LEVELS] + 1) * ROOM)
    owners = int32_at(frame_at + 8 * program[programs.OWNERS])
    tests = _tests_of(program, level + 1)
    owned = program[programs.OWNED] and level + 2 == program[programs.LEVELS]
    rows, least = int32_at(words[program[programs.ROWS_PLACE] + level + 1]), 0
    count, work, entry = 0, 0, first
    while entry < size and count < most and work <= words[programs.BUDGET]:
        low, high = lows[entry], highs[entry]
        here = low
        if owned:
            _bind(program, frame_at, level, entry)
            least = _least_row(words, program, frame_at, level)
        while True:
            bits = _passing(words_at, program, tests, here, high, values, entry, frame_at)
            if least > 0:
                for lane in range(WIDTH):
                    if (bits >> lane) & 1 and rows[here + lane] < least:
                        bits ^= 1 << lane
            for lane in range(WIDTH):
                owners[count + lane] = entry
            count = _put(target, count, here, bits)
            here += WIDTH
            if here >= high or count >= most:
                break
        here = max(low, min(here, high))
        work += here - low
        if here < high:
            lows[entry] = here
        else:
            entry += 1
    words[programs.BUDGET] -= work
    counters = int64_at(words[programs.COUNTERS])
    counters[2 * level + 2] += work
    counters[2 * level + 3] += count
    return count, entry


@njit(error_model="numpy")
def _take(target: Any, source: Any, owners: Any, count: int) -> None:
    for number in range(count):
        target[number] = source[owners[number]]


@njit(error_model="numpy")
def _find(words_at: int, program: Any, frame_at: int, size: int, out: Any) -> None:
    """Write for each row of the prefix in the batch the event that is found."""
    prefix, wanted = program[programs.PREFIX], program[programs.SEARCH]
    batch = int32_at(_batch_at(program, frame_at, prefix - 1))
    values, tests = float64_at(_values_at(program, frame_at, prefix - 1)), _tests_of(program, prefix)
    for entry in range(size):
        low, high = batch[program[programs.LEVELS] * ROOM + entry], batch[(program[programs.LEVELS] + 1) * ROOM + entry]
        found = -1
        for here in range(low, high, WIDTH):
            bits = _passing(words_at, program, tests, here, high, values, entry, frame_at)
            if bits and wanted == programs.FIND_FIRST:
                found = here + lowest_bit(bits)
                break
            while bits:
                found = here + lowest_bit(bits)
                bits &= bits - 1
        out[entry] = found


def join(words_at: int, program: Any, frame_at: int) -> Any:
    """Go on with a run until the block is full, the budget spent or nothing left; the number of matches in the block.

    A search runs at once to its end.
    """
    words = int64_at(words_at)
    levels, prefix = program[programs.LEVELS], program[programs.PREFIX]
    state = int64_at(frame_at + 8 * program[programs.STATE])
    firsts, sizes = further(state, 2), further(state, 2 + levels)
    owners, as_rows = int32_at(frame_at + 8 * program[programs.OWNERS]), program[programs.AS_ROWS]
    level, matches = state[0] + prefix - 1, 0
    while matches < words[programs.CAPACITY] and words[programs.BUDGET] >= 0:
        batch = int32_at(_batch_at(program, frame_at, level))
        if firsts[level] == sizes[level] and level >= prefix:
            level -= 1
            continue
        if firsts[level] == sizes[level]:
            begin = state[1]
            size = min(words[programs.OUTER] - begin, BATCH)
            if size == 0:
                state[0] = programs.FINISHED
                return matches
            for earlier in range(prefix):
                for entry in range(size):
                    if words[program[programs.PREFIX_PLACE]]:
                        batch[earlier * ROOM + entry] = int32_at(words[program[programs.PREFIX_PLACE] + earlier])[
                            begin + entry
                        ]
                    else:
                        batch[entry] = begin + entry
            firsts[level], sizes[level] = 0, size
            state[1] = begin + size
            _prepare(words_at, program, frame_at, level, size)
            if program[programs.SEARCH]:
                out = int32_at(words[program[programs.OUT_PLACE]])
                _find(words_at, program, frame_at, size, further(out, begin))
                firsts[level] = size
                continue
        if level + 2 < levels:
            following = int32_at(_batch_at(program, frame_at, level + 1))
            target, most = further(following, (level + 1) * ROOM), BATCH - WIDTH + 1
        else:
            following = batch
            target = further(int32_at(words[program[programs.OUT_PLACE] + level + 1]), matches)
            most = min(words[programs.CAPACITY] - matches, BATCH)
        count, firsts[level] = _extend(words_at, program, frame_at, level, firsts[level], sizes[level], target, most)
        for earlier in range(level + 1):
            source = further(batch, earlier * ROOM)
            if level + 2 < levels:
                _take(further(following, earlier * ROOM), source, owners, count)
                continue
            out = further(int32_at(words[program[programs.OUT_PLACE] + earlier]), matches)
            _take(out, source, owners, count)
            if as_rows:
                _take(out, int32_at(words[program[programs.ROWS_PLACE] + earlier]), out, count)
        if level + 2 < levels:
            level += 1
            firsts[level], sizes[level] = 0, count
            _prepare(words_at, program, frame_at, level, count)
            continue
        if as_rows:
            _take(target, int32_at(words[program[programs.ROWS_PLACE] + level + 1]), target, count)
        matches += count
    state[0] = level - prefix + 1
    return matches
