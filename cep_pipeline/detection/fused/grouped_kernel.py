"""The search for events that reject partial matches, by groups of matches and blocks of events, written in Numba.

Partial matches that differ in their last event alone are searched for together. What a test computes of an event and of
the events that they share is computed once for each event, and what it computes of a partial match once for each match.
Both lie in an order in which neighbours have similar values: 16 partial matches are a group, 16 events a block, 16
blocks a larger block. The least and the greatest values of a group and of a block say whether some event of the block
may reject some match of the group. Rounding keeps the order of numbers, so that the same arithmetic on both ends gives
ends of all results between; what has no such ends may be anything. Events of the blocks that are left are compared with
all matches of the group at once. Where at most one test, by size, compares the last events, and their ranges begin at
one place, the events are swept over instead: each match is compared with the extreme of all events up to its end.
Imported only where it is compiled.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-call"
from __future__ import annotations

import math
from typing import Any

from numba import njit
from numba.cpython.unsafe.numbers import trailing_zeros

from cep_pipeline.compiled.lanes import (
    add,
    at_least,
    at_least_than,
    at_most,
    at_most_than,
    bound_differences,
    bound_differences_from,
    bound_differences_with,
    bound_magnitudes,
    bound_opposites,
    bound_products,
    bound_products_with,
    bound_quotients,
    bound_quotients_by,
    bound_quotients_of,
    bound_roots,
    bound_sums,
    bound_sums_with,
    by_one,
    copy,
    divide,
    equal,
    equal_to,
    fill,
    greater,
    greater_than,
    greatest_of,
    least_of,
    less,
    less_than,
    make_absolute,
    minus_one,
    multiply,
    negate,
    one_by,
    one_minus,
    one_plus,
    one_times,
    running_least,
    subtract,
    take_root,
    unequal,
    unequal_to,
)
from cep_pipeline.compiled.pointers import float64_at, further, int32_at, int64_at, uint8_at
from cep_pipeline.detection.fused.grouped_words import (
    ARGUMENTS,
    AT_POSITION,
    BITS,
    BLOCKS,
    BOTH_MIXED,
    CHOSEN,
    END_PLACE,
    EVENT_FIRST,
    EVENT_TERM_COUNT,
    EVENT_TERMS,
    EXTREMES,
    FIRST_PLACE,
    FIRST_ROW,
    FIXED,
    FOUND,
    FRAME,
    GREATEST,
    GROUPED_PLACES,
    GROUPED_ROWS,
    HIGHS,
    LANES,
    LEAST,
    LOWS,
    MARKS,
    MATCH_FIRST,
    MATCH_TERM_COUNT,
    MATCH_TERMS,
    MATCH_VALUES,
    MIXED,
    MOST_POWERS,
    MOST_ROWS,
    MOST_WORK,
    MOVES,
    NEXT,
    NUMBERS,
    OWN_PLACE,
    OWN_PLACES,
    OWN_ROWS,
    PLACES,
    POSITIONS,
    PROGRAM,
    ROWS,
    SHIFT,
    SIDE_WORDS,
    SIZE,
    STACK,
    STACK_HALF,
    TERM_ENDS,
    TERMS,
    TEST_WORDS,
    TESTS,
    WANTED,
    WITNESS,
    WITNESSES,
)
from cep_pipeline.detection.fused.programs import (
    ABSOLUTE,
    COLUMN,
    CONSTANT,
    DIVIDE,
    EQ,
    FIND_FIRST,
    FIND_LAST,
    FIRST_LEVEL,
    GE,
    GT,
    LE,
    LEVEL_WORDS,
    LT,
    MINUS,
    NEGATIVE,
    PLUS,
    PREFIX,
    PREFIX_PLACE,
    ROOT,
    TERM_WORDS,
    TIMES,
)

CHUNK = 64
"""Events for which a term is computed at once."""
ALL = (1 << LANES) - 1
"""The bits of all lanes."""
BATCH, BATCH_PLACE = CHUNK // LANES, 2 * MOST_POWERS
"""Events that are compared with a group at once, at most, and where they are noted among the bits."""
WIDER, AND_MORE = 2, 256
"""The range of matches that are searched for together is so much wider than that of one, at most."""


def search_groups(words: Any) -> Any:
    """Go on with a search until enough work is done or nothing is left; the next partial match."""
    arguments, program, index = int64_at(words[ARGUMENTS]), int64_at(words[PROGRAM]), int64_at(words[FRAME])
    row, work = words[NEXT], 0
    while row < words[ROWS] and work < words[MOST_WORK]:
        end = _put_in_order(words, arguments, program, row, _end_of_run(words, arguments, program, index, row))
        _find_ends(words, arguments, program, index, end - row, False, int32_at(words[LOWS]))
        _find_ends(words, arguments, program, index, end - row, True, int32_at(words[HIGHS]))
        begin, count = 0, end - row
        while begin < count:
            stop = _end_of_piece(words, begin, count)
            work += _search_piece(words, program, index, begin, stop)
            begin = stop
        row = end
    return row


def sweep_runs(words: Any) -> Any:
    """Go on with a search by sweeping until enough work is done or nothing is left; the next partial match.

    The ranges of a run begin at one place, and at most one test, by size, reads the last event.
    """
    arguments, program, index = int64_at(words[ARGUMENTS]), int64_at(words[PROGRAM]), int64_at(words[FRAME])
    own_place = program[PREFIX_PLACE] + program[PREFIX] - 1
    lows, highs = int32_at(words[LOWS]), int32_at(words[HIGHS])
    row, work = words[NEXT], 0
    while row < words[ROWS] and work < words[MOST_WORK]:
        end = _end_of_run(words, arguments, program, index, row)
        words[GROUPED_PLACES] = arguments[own_place] + 4 * row
        _find_ends(words, arguments, program, index, 1, False, lows)
        _find_ends(words, arguments, program, index, end - row, True, highs)
        low = high = lows[0]
        for number in range(end - row):
            high = max(high, highs[number])
        first = _find_extremes(words, program, index, low, high)
        if first < high:
            _compare_with_extremes(words, program, index, row, end, low, first)
        work += end - row + high - low
        row = end
    return row


@njit(error_model="numpy")
def _end_of_run(words: Any, arguments: Any, program: Any, index: Any, row: int) -> Any:
    """The end of the partial matches from `row` on that differ in their last event alone; the others are bound."""
    end = min(words[ROWS], row + words[MOST_ROWS])
    for level in range(program[PREFIX] - 1):
        places = int32_at(arguments[program[PREFIX_PLACE] + level])
        place, stop = places[row], end
        end = row + 1
        while end < stop and places[end] == place:
            end += 1
        index[level] = place
    return end


@njit(error_model="numpy")
def _put_in_order(words: Any, arguments: Any, program: Any, begin: int, end: int) -> int:
    """Put partial matches in the order in which their last events lie, up to one whose last event was there before.

    Returns the end of those that are in order.
    """
    own_place = program[PREFIX_PLACE] + program[PREFIX] - 1
    places, positions = int32_at(arguments[own_place]), int32_at(words[POSITIONS])
    row, position = begin, 0
    while row < end and positions[places[row]] >= position:
        position = positions[places[row]]
        row += 1
    words[FIRST_ROW] = begin
    if row == end:
        words[GROUPED_ROWS], words[GROUPED_PLACES] = words[NUMBERS], arguments[own_place] + 4 * begin
        return end
    words[GROUPED_ROWS], words[GROUPED_PLACES] = words[OWN_ROWS], words[OWN_PLACES]
    rows, own = int32_at(words[GROUPED_ROWS]), int32_at(words[GROUPED_PLACES])
    row_at, marks = int32_at(words[AT_POSITION]), int64_at(words[MARKS])
    first = last = positions[places[begin]] >> 6
    row = begin
    while row < end:
        position = positions[places[row]]
        word = position >> 6
        bit = 1 << (position & 63)
        if marks[word] & bit:
            break
        marks[word] |= bit
        row_at[position] = row
        first, last = min(first, word), max(last, word)
        row += 1
    count = 0
    for word in range(first, last + 1):
        bits = marks[word]
        marks[word] = 0
        while bits != 0:
            own_row = row_at[(word << 6) + trailing_zeros(bits)]
            bits &= bits - 1
            rows[count] = own_row - begin
            own[count] = places[own_row]
            count += 1
    return row


@njit(error_model="numpy")
def _find_ends(words: Any, arguments: Any, program: Any, index: Any, count: int, upper: bool, ends: Any) -> None:
    """Find where the ranges of partial matches begin, or end."""
    last, current, places = program[PREFIX], program[PREFIX] - 1, int32_at(words[GROUPED_PLACES])
    side = program[FIRST_LEVEL + LEVEL_WORDS * last + (1 if upper else 0)]
    for bound in range(program[side]):
        of, level = int32_at(arguments[program[side + 1 + 2 * bound]]), program[side + 2 + 2 * bound]
        if level != current:
            one = of[index[level]]
            for number in range(count):
                known = ends[number] if bound > 0 else one
                ends[number] = min(one, known) if upper else max(one, known)
        else:
            for number in range(count):
                found = of[places[number]]
                known = ends[number] if bound > 0 else found
                ends[number] = min(found, known) if upper else max(found, known)


@njit(error_model="numpy")
def _end_of_piece(words: Any, begin: int, end: int) -> int:
    """The end of the partial matches from `begin` on that are searched for together: their ranges are much alike."""
    if not words[MOVES]:
        return end
    lows, highs = int32_at(words[LOWS]), int32_at(words[HIGHS])
    low, high, widest = lows[begin], highs[begin], 0
    number = begin
    while number < end:
        low, high = min(low, lows[number]), max(high, highs[number])
        widest = max(widest, highs[number] - lows[number])
        if high - low > WIDER * widest + AND_MORE:
            break
        number += 1
    return max(number, begin + 1)


@njit(error_model="numpy")
def _search_piece(words: Any, program: Any, index: Any, begin: int, end: int) -> Any:
    """Search for partial matches whose ranges are much alike; how much was looked at."""
    lows, highs = int32_at(words[LOWS]), int32_at(words[HIGHS])
    low, high = lows[begin], highs[begin]
    for number in range(begin, end):
        low, high = min(low, lows[number]), max(high, highs[number])
    if low >= high:
        return end - begin
    shift = words[SHIFT]
    first, last = low >> shift << shift, min(((high - 1) >> shift) + 1 << shift, words[SIZE])
    events = _choose(words, first, last, low, high)
    if events:
        _compute_for_matches(words, program, index, begin, end)
        _compute_for_events(words, program, index, events)
        _note_ranges(words, begin, end, events)
        powers = _bound_blocks(words, events)
        witness = int64_at(words[WITNESS])
        for number in range(WITNESSES):
            witness[number] = -1
        for group in range(0, end - begin, LANES):
            _search_group(words, begin, group, powers)
    return end - begin + last - first


@njit(error_model="numpy")
def _choose(words: Any, first: int, last: int, low: int, high: int) -> Any:
    """Write the positions from [first, last) of the events of a range that pass all fixed tests; how many there are."""
    places, chosen = int32_at(words[PLACES]), int32_at(words[CHOSEN])
    count = 0
    if low <= first and last <= high:
        for position in range(first, last):
            chosen[position - first] = position
        count = last - first
    else:
        for position in range(first, last):
            chosen[count] = position
            count += (places[position] >= low) & (places[position] < high)
    if int64_at(words[FIXED])[0] == 0:
        return count
    kept = 0
    for begin in range(0, count, CHUNK):
        here = further(chosen, begin)
        passed = _test(words, FIXED, here, -1, min(CHUNK, count - begin))
        while passed != 0:
            chosen[kept] = here[trailing_zeros(passed)]
            passed &= passed - 1
            kept += 1
    return kept


@njit(error_model="numpy")
def _test(words: Any, which: int, places: Any, first: int, size: int) -> Any:
    """Bits of what passes all of some tests, side by side.

    Parameters
    ----------
    which
        `FIXED`: `size` events, at these places or from `first` on, as `_evaluate` takes them; `TESTS`: the group of
        partial matches from `first` on, 16 bits for each of `size` events of the batch; `BLOCKS` and a power: 16 blocks
        of it from `first` on, of which some event may pass.
    """
    tests = int64_at(words[FIXED if which == FIXED else TESTS])
    bits = LANES if which >= BLOCKS else size if which == FIXED else LANES * size
    passed = -1 if bits == CHUNK else (1 << bits) - 1
    at = 1
    for _ in range(tests[0]):
        alternatives = tests[at]
        at += 1
        held = 0
        for _ in range(alternatives):
            several = tests[at]
            at += 1
            together = passed
            for _ in range(several):
                if which == FIXED:
                    together &= _passing_fixed(words, tests, at, places, first, size)
                elif which == TESTS:
                    together &= _passing(words, tests, at, first, size)
                else:
                    together &= _may_pass(words, tests, at, which - BLOCKS, first)
                at += TEST_WORDS
            held |= together
        passed = held
        if passed == 0:
            return 0
    return passed


@njit(error_model="numpy")
def _passing_fixed(words: Any, tests: Any, at: int, places: Any, first: int, size: int) -> Any:
    """Bits of the events of a chunk that pass a test which no last event has a part in."""
    index, own = int64_at(words[FRAME]), int64_at(words[PROGRAM])[PREFIX]
    left, passed = float64_at(words[STACK]), 0
    right = further(left, words[STACK_HALF])
    _evaluate(words, tests[at + 1], tests[at + 2], index, own, places, first, size, left)
    _evaluate(words, tests[at + 3], tests[at + 4], index, own, places, first, size, right)
    for number in range(0, size, LANES):
        passed |= _compared(tests[at], further(left, number), further(right, number)) << number
    return passed


@njit(error_model="numpy")
def _compared(comparator: int, left: Any, right: Any) -> Any:
    """Bits of 16 numbers that pass with those beside them."""
    if comparator == LT:
        return less(left, right)
    if comparator == LE:
        return at_most(left, right)
    if comparator == GT:
        return greater(left, right)
    if comparator == GE:
        return at_least(left, right)
    if comparator == EQ:
        return equal(left, right)
    return unequal(left, right)


@njit(error_model="numpy")
def _evaluate(
    words: Any, at: int, end: int, index: Any, varying: int, places: Any, first: int, count: int, stack: Any
) -> None:
    """Compute the term at [at, end) for events of one level, others being bound: the first numbers of the stack.

    The events are at these places, or, where `first` is not -1, from that place on.
    """
    arguments, constants, terms = int64_at(words[ARGUMENTS]), float64_at(words[ARGUMENTS]), int64_at(words[TERMS])
    top = -1
    while at < end:
        code = terms[at]
        if code == COLUMN and terms[at + 2] == varying:
            top += 1
            column, here = float64_at(arguments[terms[at + 1]]), further(stack, top * CHUNK)
            if first >= 0:
                for number in range(count):
                    here[number] = column[first + number]
            else:
                for number in range(count):
                    here[number] = column[places[number]]
        elif code in (COLUMN, CONSTANT):
            top += 1
            if code == COLUMN:
                value = float64_at(arguments[terms[at + 1]])[index[terms[at + 2]]]
            else:
                value = constants[terms[at + 1]]
            for number in range(0, count, LANES):
                fill(further(stack, top * CHUNK + number), value)
        else:
            if code >= PLUS:
                top -= 1
            for number in range(0, count, LANES):
                _operate(code, further(stack, top * CHUNK + number), further(stack, (top + 1) * CHUNK + number))
        at += TERM_WORDS


@njit(error_model="numpy")
def _operate(code: int, left: Any, right: Any) -> None:
    """Apply an operation to 16 numbers, and to those beside them if it takes two; the first become the results."""
    if code == NEGATIVE:
        negate(left)
    elif code == ABSOLUTE:
        make_absolute(left)
    elif code == ROOT:
        take_root(left)
    elif code == PLUS:
        add(left, right)
    elif code == MINUS:
        subtract(left, right)
    elif code == TIMES:
        multiply(left, right)
    else:
        divide(left, right)


@njit(error_model="numpy")
def _compute_for_matches(words: Any, program: Any, index: Any, begin: int, end: int) -> None:
    """Compute all terms for each partial match of a piece, in order."""
    count, stride = end - begin, words[MOST_ROWS] + LANES
    own, stack = further(int32_at(words[GROUPED_PLACES]), begin), float64_at(words[STACK])
    values, terms = float64_at(words[MATCH_VALUES]), int64_at(words[MATCH_TERMS])
    for term in range(END_PLACE + 1, words[MATCH_TERM_COUNT]):
        at = TERM_ENDS * (term - END_PLACE - 1)
        target = further(values, stride * term)
        for first in range(0, count, CHUNK):
            size = min(CHUNK, count - first)
            _evaluate(words, terms[at], terms[at + 1], index, program[PREFIX] - 1, further(own, first), -1, size, stack)
            for number in range(0, size, LANES):
                copy(further(target, first + number), further(stack, number))


@njit(error_model="numpy")
def _compute_for_events(words: Any, program: Any, index: Any, count: int) -> None:
    """Compute all terms for the events that are left."""
    chosen, stack = int32_at(words[CHOSEN]), float64_at(words[STACK])
    values, stride = float64_at(words[BLOCKS]), words[BLOCKS + 2 * MOST_POWERS]
    terms = int64_at(words[EVENT_TERMS])
    for term in range(OWN_PLACE + 1, words[EVENT_TERM_COUNT]):
        at = TERM_ENDS * (term - OWN_PLACE - 1)
        target = further(values, stride * term)
        for first in range(0, count, CHUNK):
            size = min(CHUNK, count - first)
            _evaluate(words, terms[at], terms[at + 1], index, program[PREFIX], further(chosen, first), -1, size, stack)
            for number in range(0, size, LANES):
                copy(further(target, first + number), further(stack, number))


@njit(error_model="numpy")
def _bound_blocks(words: Any, count: int) -> int:
    """Find the least and greatest values of blocks of the events that are left; the powers of blocks that there are."""
    power = 0
    while True:
        least, greatest = float64_at(words[BLOCKS + power]), float64_at(words[BLOCKS + MOST_POWERS + power])
        stride = words[BLOCKS + 2 * MOST_POWERS + power]
        for term in range(words[EVENT_TERM_COUNT]):
            fill(further(least, stride * term + count), math.nan)
            fill(further(greatest, stride * term + count), math.nan)
        if count <= LANES:
            return power + 1
        blocks = (count + LANES - 1) // LANES
        power += 1
        larger_least = float64_at(words[BLOCKS + power])
        larger_greatest = float64_at(words[BLOCKS + MOST_POWERS + power])
        larger_stride = words[BLOCKS + 2 * MOST_POWERS + power]
        for term in range(words[EVENT_TERM_COUNT]):
            for block in range(blocks):
                at = stride * term + LANES * block
                larger_least[larger_stride * term + block] = least_of(further(least, at), ALL)
                larger_greatest[larger_stride * term + block] = greatest_of(further(greatest, at), ALL)
        count = blocks


@njit(error_model="numpy")
def _note_ranges(words: Any, begin: int, end: int, events: int) -> None:
    """Note the ends of the ranges and the places of events beside the terms."""
    count, stride = end - begin, words[MOST_ROWS] + LANES
    values, own = float64_at(words[MATCH_VALUES]), float64_at(words[BLOCKS])
    lows, highs = further(int32_at(words[LOWS]), begin), further(int32_at(words[HIGHS]), begin)
    firsts, ends = further(values, stride * FIRST_PLACE), further(values, stride * END_PLACE)
    for number in range(count):
        firsts[number] = lows[number]
        ends[number] = highs[number]
    fill(further(firsts, count), math.inf)  # these are no matches: each of both tests fails
    fill(further(ends, count), -math.inf)
    places, chosen = int32_at(words[PLACES]), int32_at(words[CHOSEN])
    own = further(own, words[BLOCKS + 2 * MOST_POWERS] * OWN_PLACE)
    for number in range(events):
        own[number] = places[chosen[number]]


@njit(error_model="numpy")
def _find_extremes(words: Any, program: Any, index: Any, low: int, high: int) -> int:
    """Find the least value of the events from `low` up to each place: those that pass the fixed tests; the first place.

    Where a value has to be above that of a match, both count with the other sign.
    """
    tests, terms = int64_at(words[TESTS]), int64_at(words[EVENT_TERMS])
    places, stack, extremes = int32_at(words[PLACES]), float64_at(words[STACK]), float64_at(words[EXTREMES])
    compares, least, found = words[EVENT_TERM_COUNT] > OWN_PLACE + 1, math.inf, high
    extremes[0] = least
    for first in range(low, high, CHUNK):
        size = min(CHUNK, high - first)
        passed = _test(words, FIXED, places, first, size)
        if compares:
            _evaluate(words, terms[0], terms[1], index, program[PREFIX], places, first, size, stack)
        for number in range(0, size, LANES):
            here = further(stack, number)
            if not compares:
                fill(here, 0.0)
            elif tests[3] in (GT, GE):
                negate(here)
            known = passed >> number & equal(here, here)
            if known and found == high:
                found = first + number + trailing_zeros(known)
            least = running_least(further(extremes, first - low + number + 1), here, known, least)
    return found


@njit(error_model="numpy")
def _compare_with_extremes(words: Any, program: Any, index: Any, row: int, end: int, low: int, first: int) -> None:
    """Compare partial matches of a run with the extreme of the events up to where their ranges end.

    Parameters
    ----------
    low, first
        Where the ranges begin, and the first event that has a value.
    """
    tests, terms, found = int64_at(words[TESTS]), int64_at(words[MATCH_TERMS]), uint8_at(words[FOUND])
    own, highs = int32_at(words[GROUPED_PLACES]), int32_at(words[HIGHS])
    limits, extremes = float64_at(words[STACK]), float64_at(words[EXTREMES])
    compares = words[MATCH_TERM_COUNT] > END_PLACE + 1
    is_above, is_strict = compares and tests[3] in (GT, GE), compares and tests[3] in (LT, GT)
    for begin in range(0, end - row, CHUNK):
        size = min(CHUNK, end - row - begin)
        if compares:
            _evaluate(words, terms[0], terms[1], index, program[PREFIX] - 1, further(own, begin), -1, size, limits)
        for number in range(0, size, LANES):
            if not compares:
                fill(further(limits, number), 0.0)
            elif is_above:
                negate(further(limits, number))
        reaches, rejected = further(highs, begin), further(found, row + begin)
        for number in range(size):
            extreme, limit = extremes[max(reaches[number] - low, 0)], limits[number]
            passes = (extreme < limit) | ((extreme == limit) & (not is_strict))
            rejected[number] = passes & (reaches[number] > first)


@njit(error_model="numpy")
def _search_group(words: Any, begin: int, group: int, powers: int) -> None:
    """Search for the partial matches from `group` on: down from the largest blocks to events that may reject one."""
    alive = _bound_group(words, group)
    if alive == 0:
        return
    witness, bits = int64_at(words[WITNESS]), int64_at(words[BITS])
    batch = further(bits, BATCH_PLACE)
    for number in range(WITNESSES):
        batch[0] = witness[(witness[WITNESSES] - 1 - number) % WITNESSES]
        if alive and batch[0] >= 0 and _reject(words, begin, group, 1):
            alive = _bound_group(words, group)
    if alive == 0:
        return
    killed, most = 0, 1
    firsts = further(bits, MOST_POWERS)
    top = powers - 1
    power = top
    firsts[top], bits[top] = 0, _test(words, BLOCKS + top, batch, 0, 0)
    while power <= top:
        if bits[power] == 0:
            power += 1
            continue
        if power > 0:
            child = firsts[power] + trailing_zeros(bits[power])
            bits[power] &= bits[power] - 1
            power -= 1
            firsts[power] = LANES * child
            bits[power] = _test(words, BLOCKS + power, batch, LANES * child, 0)
            continue
        size = 0
        while bits[0] and size < most:
            batch[size] = firsts[0] + trailing_zeros(bits[0])
            bits[0] &= bits[0] - 1
            size += 1
        found = _reject(words, begin, group, size)
        if found == 0:
            most = BATCH
            continue
        killed += found
        if 2 * killed >= alive:
            alive, killed = _bound_group(words, group), 0
            if alive == 0:
                return
            for larger in range(powers):
                if bits[larger]:
                    bits[larger] &= _test(words, BLOCKS + larger, batch, firsts[larger], 0)


@njit(error_model="numpy")
def _bound_group(words: Any, group: int) -> Any:
    """Find the least and greatest values of those of 16 partial matches whose ranges are not empty; how many."""
    stride = words[MOST_ROWS] + LANES
    values = further(float64_at(words[MATCH_VALUES]), group)
    least, greatest = float64_at(words[LEAST]), float64_at(words[GREATEST])
    alive = less(further(values, stride * FIRST_PLACE), further(values, stride * END_PLACE))
    if alive == 0:
        return 0
    for term in range(words[MATCH_TERM_COUNT]):
        here = further(values, stride * term)
        least[term], greatest[term] = least_of(here, alive), greatest_of(here, alive)
    return _number_of(alive)


@njit(error_model="numpy")
def _number_of(bits: int) -> int:
    """The number of bits that are set."""
    count = 0
    while bits != 0:
        bits &= bits - 1
        count += 1
    return count


@njit(error_model="numpy")
def _may_pass(words: Any, tests: Any, at: int, power: int, first: int) -> Any:
    """Bits of the blocks of which an event may pass a test with a match of the group."""
    lows, highs = float64_at(words[BLOCKS + power]), float64_at(words[BLOCKS + MOST_POWERS + power])
    lows, highs = further(lows, first), further(highs, first)
    stride = words[BLOCKS + 2 * MOST_POWERS + power]
    comparator, own = tests[at], tests[at + 1]
    stack = float64_at(words[STACK])
    if own != BOTH_MIXED:
        low, high = float64_at(words[LEAST])[tests[at + 2]], float64_at(words[GREATEST])[tests[at + 2]]
        if own == MIXED:
            _bound_side(words, tests[at + 3], tests[at + 4], lows, highs, stride, stack)
            lows, highs = stack, further(stack, LANES)
        else:
            lows, highs = further(lows, stride * own), further(highs, stride * own)
        if comparator == LT:
            return less_than(lows, high)
        if comparator == LE:
            return at_most_than(lows, high)
        if comparator == GT:
            return greater_than(highs, low)
        if comparator == GE:
            return at_least_than(highs, low)
        if comparator == EQ:
            return at_most_than(lows, high) & at_least_than(highs, low)
        return less_than(lows, high) | greater_than(highs, low)
    other = further(stack, words[STACK_HALF])
    _bound_side(words, tests[at + 2], tests[at + 3], lows, highs, stride, stack)
    _bound_side(words, tests[at + 3], tests[at + 4], lows, highs, stride, other)
    greatest, other_greatest = further(stack, LANES), further(other, LANES)
    if comparator == LT:
        return less(stack, other_greatest)
    if comparator == LE:
        return at_most(stack, other_greatest)
    if comparator == GT:
        return greater(greatest, other)
    if comparator == GE:
        return at_least(greatest, other)
    if comparator == EQ:
        return at_most(stack, other_greatest) & at_least(greatest, other)
    return less(stack, other_greatest) | greater(greatest, other)


@njit(error_model="numpy")
def _bound_side(words: Any, at: int, end: int, lows: Any, highs: Any, stride: int, stack: Any) -> None:
    """Bound a mixed side for 16 blocks and the group: the first 32 numbers of the stack, low ends and high ones."""
    terms = int64_at(words[TERMS])
    top = -1
    while at < end:
        code, term = terms[at], terms[at + 1]
        if code in (COLUMN, CONSTANT):
            top += 1
            here = further(stack, 2 * LANES * top)
            if code == COLUMN:
                copy(here, further(lows, stride * term))
                copy(further(here, LANES), further(highs, stride * term))
            else:
                fill(here, float64_at(words[LEAST])[term])
                fill(further(here, LANES), float64_at(words[GREATEST])[term])
        elif code >= EVENT_FIRST:
            top += 1
            here, low, high = (
                further(stack, 2 * LANES * top),
                float64_at(words[LEAST])[terms[at + 2]],
                float64_at(words[GREATEST])[terms[at + 2]],
            )
            own_lows, own_highs = further(lows, stride * term), further(highs, stride * term)
            if code == EVENT_FIRST + PLUS or code == MATCH_FIRST + PLUS:
                bound_sums_with(here, own_lows, own_highs, low, high)
            elif code == EVENT_FIRST + MINUS:
                bound_differences_with(here, own_lows, own_highs, low, high)
            elif code == MATCH_FIRST + MINUS:
                bound_differences_from(here, own_lows, own_highs, low, high)
            elif code == EVENT_FIRST + TIMES or code == MATCH_FIRST + TIMES:
                bound_products_with(here, own_lows, own_highs, low, high)
            elif code == EVENT_FIRST + DIVIDE:
                bound_quotients_by(here, own_lows, own_highs, low, high)
            else:
                bound_quotients_of(here, own_lows, own_highs, low, high)
        else:
            if code >= PLUS:
                top -= 1
            here = further(stack, 2 * LANES * top)
            other = further(here, 2 * LANES)
            if code == NEGATIVE:
                bound_opposites(here)
            elif code == ABSOLUTE:
                bound_magnitudes(here)
            elif code == ROOT:
                bound_roots(here)
            elif code == PLUS:
                bound_sums(here, other)
            elif code == MINUS:
                bound_differences(here, other)
            elif code == TIMES:
                bound_products(here, other)
            else:
                bound_quotients(here, other)
        at += SIDE_WORDS


@njit(error_model="numpy")
def _reject(words: Any, begin: int, group: int, size: int) -> int:
    """Note which of 16 partial matches the events of a batch reject; how many."""
    batch = further(int64_at(words[BITS]), BATCH_PLACE)
    passed, count = _test(words, TESTS, batch, group, size), 0
    for event in range(size):
        rejected = passed >> LANES * event & ALL
        if rejected:
            count += _note(words, begin, group, batch[event], rejected)
    return count


@njit(error_model="numpy")
def _note(words: Any, begin: int, group: int, event: int, passed: int) -> int:
    """Note that an event rejects those of 16 partial matches in whose ranges it still is; how many."""
    stride, wanted = words[MOST_ROWS] + LANES, words[WANTED]
    values = further(float64_at(words[MATCH_VALUES]), group)
    place = float64_at(words[BLOCKS])[words[BLOCKS + 2 * MOST_POWERS] * OWN_PLACE + event]
    rows, first_row = further(int32_at(words[GROUPED_ROWS]), begin + group), words[FIRST_ROW]
    firsts, ends = further(values, stride * FIRST_PLACE), further(values, stride * END_PLACE)
    passed &= at_most_than(firsts, place) & greater_than(ends, place)
    witness, count = int64_at(words[WITNESS]), 0
    oldest = witness[WITNESSES]
    if passed and witness[(oldest - 1) % WITNESSES] != event:
        witness[oldest] = event
        witness[WITNESSES] = (oldest + 1) % WITNESSES
    while passed != 0:
        lane = trailing_zeros(passed)
        passed &= passed - 1
        count += 1
        if wanted == FIND_FIRST:
            int32_at(words[FOUND])[first_row + rows[lane]] = int(place)
            ends[lane] = place
        elif wanted == FIND_LAST:
            int32_at(words[FOUND])[first_row + rows[lane]] = int(place)
            firsts[lane] = place + 1.0
        else:
            uint8_at(words[FOUND])[first_row + rows[lane]] = 1
            firsts[lane], ends[lane] = math.inf, -math.inf
    return count


@njit(error_model="numpy")
def _passing(words: Any, tests: Any, at: int, group: int, size: int) -> Any:
    """Bits of the 16 partial matches that pass a test with each event of a batch."""
    stride = words[MOST_ROWS] + LANES
    values = further(float64_at(words[MATCH_VALUES]), group)
    comparator, term = tests[at], tests[at + 1]
    own, own_stride = float64_at(words[BLOCKS]), words[BLOCKS + 2 * MOST_POWERS]
    left = float64_at(words[STACK])
    right, passed = further(left, words[STACK_HALF]), 0
    if term == BOTH_MIXED:
        _evaluate_side(words, tests[at + 2], tests[at + 3], own, own_stride, values, stride, left, size)
        _evaluate_side(words, tests[at + 3], tests[at + 4], own, own_stride, values, stride, right, size)
        for event in range(size):
            found = _compared(comparator, further(left, LANES * event), further(right, LANES * event))
            passed |= found << LANES * event
        return passed
    others = further(values, stride * tests[at + 2])
    if term == MIXED:
        _evaluate_side(words, tests[at + 3], tests[at + 4], own, own_stride, values, stride, left, size)
        for event in range(size):
            passed |= _compared(comparator, further(left, LANES * event), others) << LANES * event
        return passed
    batch = further(int64_at(words[BITS]), BATCH_PLACE)
    for event in range(size):
        value = own[own_stride * term + batch[event]]
        passed |= _compared_with(comparator, others, value) << LANES * event
    return passed


@njit(error_model="numpy")
def _compared_with(comparator: int, others: Any, value: float) -> Any:
    """Bits of 16 numbers with which a value passes."""
    if comparator == LT:
        return greater_than(others, value)
    if comparator == LE:
        return at_least_than(others, value)
    if comparator == GT:
        return less_than(others, value)
    if comparator == GE:
        return at_most_than(others, value)
    if comparator == EQ:
        return equal_to(others, value)
    return unequal_to(others, value)


@njit(error_model="numpy")
def _evaluate_side(
    words: Any, at: int, end: int, own: Any, own_stride: int, values: Any, stride: int, stack: Any, size: int
) -> None:
    """Compute a mixed side of each event of a batch with each of 16 partial matches: the first numbers of the stack."""
    terms, batch = int64_at(words[TERMS]), further(int64_at(words[BITS]), BATCH_PLACE)
    top = -1
    while at < end:
        code, term = terms[at], terms[at + 1]
        if code >= EVENT_FIRST or code in (COLUMN, CONSTANT):
            top += 1
            others = further(values, stride * (terms[at + 2] if code >= EVENT_FIRST else term))
            for event in range(size):
                here = further(stack, CHUNK * top + LANES * event)
                if code == CONSTANT:
                    copy(here, others)
                else:
                    _combine(code, here, own[own_stride * term + batch[event]], others)
        else:
            if code >= PLUS:
                top -= 1
            for event in range(size):
                here = further(stack, CHUNK * top + LANES * event)
                _operate(code, here, further(here, CHUNK))
        at += SIDE_WORDS


@njit(error_model="numpy")
def _combine(code: int, here: Any, value: float, others: Any) -> None:
    """Write a value 16 times, or the results of an operation on it and 16 others."""
    if code == COLUMN:
        fill(here, value)
    elif code == EVENT_FIRST + PLUS or code == MATCH_FIRST + PLUS:
        one_plus(here, value, others)
    elif code == EVENT_FIRST + MINUS:
        one_minus(here, value, others)
    elif code == MATCH_FIRST + MINUS:
        minus_one(here, value, others)
    elif code == EVENT_FIRST + TIMES or code == MATCH_FIRST + TIMES:
        one_times(here, value, others)
    elif code == EVENT_FIRST + DIVIDE:
        one_by(here, value, others)
    else:
        by_one(here, value, others)
