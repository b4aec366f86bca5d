"""The evaluator of conditions over instances, imported only to compile kernels; `program.py` writes the words.

An instance is its slots, int32 from some base on, one for each variable of the clause: the row of a single variable's
event, or the newest cell of a Kleene variable's list. Only slots of variables that a group mentions are read. What the
operations of terms mean stands in docs/language.md, section 3.4; `expressions/` computes it for columns.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from cep_pipeline.compiled.pointers import Float64s, Int64s, Uint8s, float64_at, int64_at, reader_of, uint8_at
from cep_pipeline.detection.conditions import codes
from cep_pipeline.detection.conditions.cells import (
    LEAST,
    Cells,
    cell_before,
    exact_average,
    first_row_of,
    length_of,
    median,
    row_of,
    scaled_deviation,
    standard_deviation,
)

TOO_LARGE = 9223372036854775808.0


class Code(NamedTuple):
    """A compiled program as pointers.

    Attributes
    ----------
    groups, items
        int64: group g has the items (of `ITEM_WORDS` words) from `groups[g]` to `groups[g + 1]`.
    words
        int64: the conjuncts.
    registers, choices
        int64, room for the rows and cells that terms read, and for those chosen of lists.
    reals, wholes, unknown
        The stack of terms: its values as float64 and, in the same memory, as int64; uint8: which are null.
    counts
        int64[1]: how many conjuncts were tested.
    """

    groups: Int64s
    items: Int64s
    words: Int64s
    registers: Int64s
    choices: Int64s
    reals: Float64s
    wholes: Int64s
    unknown: Uint8s
    counts: Int64s


code_at = reader_of(Code)
"""The program whose words (`Program.kernel_words`) begin at a place."""


# A call would pass both tuples word by word, for every instance that is tested.
@njit(error_model="numpy", forceinline=True)
def group_holds(code: Code, cells: Cells, group: int, slots: Any, base: int) -> bool:
    """True if all conjuncts of a group hold on the instance with the slots `slots[base:]`.

    Each tested conjunct is counted in `code.counts[0]`; the first that does not hold ends the test.
    """
    items = code.items
    at = code.groups[group] * codes.ITEM_WORDS
    end = code.groups[group + 1] * codes.ITEM_WORDS
    tested = 0
    holds = True
    while at < end:
        kind = items[at]
        tested += 1
        if kind == codes.COMPARE_SLOTS:
            left = float64_at(items[at + 2])[slots[base + items[at + 3]]]
            right = float64_at(items[at + 4])[slots[base + items[at + 5]]]
            holds = compare(items[at + 1], left, right)
        elif kind == codes.COMPARE_DIRECT:
            holds = _direct_comparison_holds(items, at, cells, slots, base)
        else:
            holds = conjunct_holds(code, cells, items[at + 1], items[at + 2], slots, base)
        if not holds:
            break
        at += codes.ITEM_WORDS
    code.counts[0] += tested
    return holds


@njit(error_model="numpy")
def compare(comparator: int, left: Any, right: Any) -> bool:
    """An exact comparison of two float64s or two int64s; false where a side is NaN."""
    if comparator == codes.LESS:
        return left < right
    if comparator == codes.LESS_EQUAL:
        return left <= right
    if comparator == codes.GREATER:
        return left > right
    if comparator == codes.GREATER_EQUAL:
        return left >= right
    if comparator == codes.EQUAL:
        return left == right
    return comparator == codes.UNEQUAL and (left < right or left > right)


@njit(error_model="numpy")
def compare_whole_real(comparator: int, whole: int, real: float) -> bool:
    """An exact comparison of an int64 with a float64; false where that is NaN."""
    if math.isnan(real):
        return False
    if real >= TOO_LARGE:
        return comparator in (codes.LESS, codes.LESS_EQUAL, codes.UNEQUAL)
    if real < -TOO_LARGE:
        return comparator in (codes.GREATER, codes.GREATER_EQUAL, codes.UNEQUAL)
    below = math.floor(real)
    nearest = int(below)
    if whole == nearest:
        return compare(comparator, below, real)
    return compare(comparator, whole, nearest)


@njit(error_model="numpy")
def _register_of(cells: Cells, slot: int, how: int) -> int:
    """The row that a slot gives (or the slot itself)."""
    if how == codes.SLOT:
        return slot
    if how == codes.NEWEST:
        return row_of(cells, slot)
    if how == codes.FIRST:
        return first_row_of(cells, slot)
    return row_of(cells, cell_before(cells, slot))


@njit(error_model="numpy")
def _direct_comparison_holds(items: Any, at: int, cells: Cells, slots: Any, base: int) -> bool:
    guard = items[at + 7]
    if guard >= 0 and length_of(cells, slots[base + guard]) == 1:
        return True
    hows = items[at + 6]
    left = float64_at(items[at + 2])[_register_of(cells, slots[base + items[at + 3]], hows & 7)]
    right = float64_at(items[at + 4])[_register_of(cells, slots[base + items[at + 5]], hows >> 3)]
    return compare(items[at + 1], left, right)


# Numba hands `forceinline` on to all that a function calls. This is long and seldom called, and stays a function.
@njit(error_model="numpy", forceinline=False)
def conjunct_holds(code: Code, cells: Cells, at: int, fixed: int, slots: Any, base: int) -> bool:
    """True if the conjunct at `words[at]` is true for every choice of elements and indexes.

    Parameters
    ----------
    fixed
        The chooser that only chooses its list's newest element, or -1.
    """
    words, registers, choices = code.words, code.registers, code.choices
    loads, choosers = words[at], words[at + 1]
    at += 2
    for _ in range(loads):
        registers[words[at]] = _register_of(cells, slots[base + words[at + 1]], words[at + 2])
        at += 3
    body = at + codes.CHOOSER_WORDS * choosers
    for number in range(choosers):
        newest = slots[base + words[at + codes.CHOOSER_WORDS * number]]
        if words[at + codes.CHOOSER_WORDS * number + 1] == codes.INDEX and length_of(cells, newest) == 1:
            return True
        _choose(code, cells, at + codes.CHOOSER_WORDS * number, number, newest)
    while _body_holds(code, cells, body):
        number = 0
        while number < choosers:
            own = at + codes.CHOOSER_WORDS * number
            if number != fixed:
                if length_of(cells, choices[number]) > (1 if words[own + 1] == codes.ELEMENT else 2):
                    _choose(code, cells, own, number, cell_before(cells, choices[number]))
                    break
                _choose(code, cells, own, number, slots[base + words[own]])
            number += 1
        if number == choosers:
            return True
    return False


@njit(error_model="numpy")
def _choose(code: Code, cells: Cells, chooser: int, number: int, cell: int) -> None:
    code.choices[number] = cell
    code.registers[code.words[chooser + 2]] = row_of(cells, cell)
    if code.words[chooser + 1] == codes.INDEX:
        before = cell_before(cells, cell)
        code.registers[code.words[chooser + 3]] = row_of(cells, before)
        code.registers[code.words[chooser + 4]] = before


@njit(error_model="numpy")
def _body_holds(code: Code, cells: Cells, at: int) -> bool:
    """True if one of the alternatives at `words[at]` holds with the registers as they are."""
    words = code.words
    alternatives = words[at]
    at += 1
    for _ in range(alternatives):
        behind, tests = words[at], words[at + 1]
        at += 2
        holds = True
        for _ in range(tests):
            if not _test_holds(code, cells, at):
                holds = False
                break
            at = words[at + 1]
        if holds:
            return True
        at = behind
    return False


@njit(error_model="numpy")
def _test_holds(code: Code, cells: Cells, at: int) -> bool:
    """Return whether the test at `words[at]` holds: kind, where it ends, comparator, and its two terms."""
    kind, comparator, reals, wholes = code.words[at], code.words[at + 2], code.reals, code.wholes
    run_terms(code, cells, at + codes.TEST_WORDS, code.words[at + 1])
    if kind == codes.COMPARE_REALS:
        return compare(comparator, reals[0], reals[1])
    if code.unknown[0] or code.unknown[1]:
        return False
    if kind == codes.COMPARE_WHOLES:
        return compare(comparator, wholes[0], wholes[1])
    return compare_whole_real(comparator, wholes[0], reals[1])


@njit(error_model="numpy")
def run_terms(code: Code, cells: Cells, at: int, end: int) -> None:
    """Compute the postfix terms at `words[at:end]`, one after another, onto the stack."""
    words, registers = code.words, code.registers
    real, whole, unknown = code.reals, code.wholes, code.unknown
    top = -1
    while at < end:
        operation, a, b = words[at], words[at + 1], words[at + 2]
        if operation == codes.COLUMN:
            top += 1
            whole[top] = int64_at(a)[registers[b]]
            unknown[top] = words[at + 3] != 0 and uint8_at(words[at + 3])[registers[b]] == 0
        elif operation == codes.CONSTANT:
            top += 1
            whole[top] = a
            unknown[top] = b
        elif operation < codes.TO_REAL:
            top += 1
            _read_list(operation, code, cells, registers[a], b, top)
        elif operation == codes.TO_REAL:
            real[top] = math.nan if unknown[top] else float(whole[top])
        elif codes.REAL_PLUS <= operation <= codes.REAL_MODULO:
            top -= 1
            left, right = real[top], real[top + 1]
            unknown[top] |= unknown[top + 1]
            if operation == codes.REAL_PLUS:
                real[top] = left + right
            elif operation == codes.REAL_MINUS:
                real[top] = left - right
            elif operation == codes.REAL_TIMES:
                real[top] = left * right
            elif right == 0.0:
                real[top] = math.nan
                unknown[top] = 1
            elif operation == codes.REAL_DIVIDE:
                real[top] = left / right
            else:
                real[top] = np.fmod(left, right)
        elif codes.WHOLE_PLUS <= operation <= codes.WHOLE_MODULO:
            top -= 1
            _combine_wholes(operation, whole, unknown, top)
        elif operation in (codes.WHOLE_NEGATIVE, codes.WHOLE_ABSOLUTE):
            if whole[top] == LEAST:
                unknown[top] = 1
            elif operation == codes.WHOLE_NEGATIVE or whole[top] < 0:
                whole[top] = -whole[top]
        elif operation == codes.REAL_NEGATIVE:
            real[top] = -real[top]
        elif operation == codes.REAL_ABSOLUTE:
            real[top] = abs(real[top])
        elif operation == codes.ROOT:
            unknown[top] |= real[top] < 0.0
            real[top] = math.sqrt(real[top]) if real[top] >= 0.0 else math.nan
        elif operation == codes.LOGARITHM:
            unknown[top] |= real[top] <= 0.0
            real[top] = math.log(real[top]) if real[top] > 0.0 else math.nan
        else:
            top = _go_on(operation, code, cells, at, top)
        at += codes.TERM_WORDS


@njit(error_model="numpy")
def _go_on(operation: int, code: Code, cells: Cells, at: int, top: int) -> int:
    """The operations that are seldom needed; returns the top of the stack behind them."""
    a, b, c, d = code.words[at + 1], code.words[at + 2], code.words[at + 3], code.words[at + 4]
    real, whole, unknown = code.reals, code.wholes, code.unknown
    if operation == codes.CORRELATION:
        top += 1
        real[top] = _correlation(int64_at(a), code.registers[b], int64_at(c), code.registers[d])
        unknown[top] = math.isnan(real[top])
    elif operation == codes.STANDARD_DEVIATION:
        top += 1
        _read_deviation(code, cells, code.registers[a], b, c, d, top)
    elif operation <= codes.MEDIAN_OF_REALS:
        top += 1
        real[top], count = median(cells, code.registers[a], b, c, operation == codes.MEDIAN_OF_REALS)
        unknown[top] = count == 0
    elif operation <= codes.DAY_OF_WEEK:
        _read_clock(operation, int64_at(a), b, int64_at(c), whole, unknown, top)
    elif operation == codes.IS_NULL:
        real[top] = float(unknown[top])
        unknown[top] = 0
    elif operation == codes.AMONG_REALS:
        real[top] = _among(float64_at(a), b, real[top]) if not math.isnan(real[top]) else math.nan
    elif operation == codes.AMONG_WHOLES:
        real[top] = _among(int64_at(a), b, whole[top]) if not unknown[top] else math.nan
    else:
        top -= 1
        if unknown[top]:
            whole[top], unknown[top] = whole[top + 1], unknown[top + 1]
        elif operation != codes.COALESCE and not unknown[top + 1]:
            if operation == codes.LEAST_OF_WHOLES:
                whole[top] = min(whole[top], whole[top + 1])
            elif operation == codes.GREATEST_OF_WHOLES:
                whole[top] = max(whole[top], whole[top + 1])
            elif not math.isnan(real[top]) and (
                math.isnan(real[top + 1])
                or (real[top + 1] < real[top] if operation == codes.LEAST_OF_REALS else real[top + 1] > real[top])
            ):
                real[top] = real[top + 1]
    return top


@njit(error_model="numpy")
def _among(values: Any, size: int, value: Any) -> float:
    """1 if a value is among so many ascending ones, else 0."""
    low, high = 0, size
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return 1.0 if low < size and values[low] == value else 0.0


@njit(error_model="numpy")
def _read_clock(operation: int, changes: Any, number: int, offsets: Any, whole: Any, unknown: Any, top: int) -> None:
    """The local clock at an instant (`expressions/local_time.py`)."""
    instant = whole[top]
    if unknown[top] or instant < codes.FIRST_US or instant >= codes.END_US:
        unknown[top] = 1
        return
    inside = instant
    if inside >= codes.REPEATED_US:
        inside = codes.REPEATED_US + (inside - codes.REPEATED_US) % codes.CYCLE_US
    low, high = 0, number
    while low < high:
        middle = (low + high) >> 1
        if changes[middle] <= inside:
            low = middle + 1
        else:
            high = middle
    local = instant + offsets[low]
    if local < codes.FIRST_US or local >= codes.END_US:
        unknown[top] = 1
        return
    days = local // codes.DAY_US
    whole[top] = local - days * codes.DAY_US if operation == codes.TIME_OF_DAY else (days + 3) % 7 + 1


@njit(error_model="numpy")
def _combine_wholes(operation: int, whole: Any, unknown: Any, top: int) -> None:
    """int64 arithmetic that is null where it leaves int64, and on division by zero."""
    left, right = whole[top], whole[top + 1]
    if unknown[top] or unknown[top + 1]:
        unknown[top] = 1
        return
    if operation == codes.WHOLE_PLUS:
        result = left + right
        unknown[top] = ((left ^ result) & (right ^ result)) < 0
    elif operation == codes.WHOLE_MINUS:
        result = left - right
        unknown[top] = ((left ^ right) & (left ^ result)) < 0
    elif operation == codes.WHOLE_TIMES:
        result = left * right
        estimate = abs(float(left) * float(right))
        if estimate > 4.0e18:
            overflows = estimate > 1.0e19 or (left == -1 and right == LEAST) or (right == -1 and left == LEAST)
            unknown[top] = overflows or result // right != left or result % right != 0
    elif right == 0:
        result = 0
        unknown[top] = 1
    elif right == -1:
        result = 0
    else:
        result = left % right  # Numba's takes the sign of the divisor
        if result != 0 and (result < 0) != (left < 0):
            result -= right
    whole[top] = result


@njit(error_model="numpy")
def _read_list(operation: int, code: Code, cells: Cells, cell: int, word: int, top: int) -> None:
    """A length, or an aggregate whose words in a cell begin with `word`, of the list that ends with a cell."""
    if operation == codes.LENGTH:
        code.wholes[top] = length_of(cells, cell)
        code.unknown[top] = 0
        return
    at = (cell & cells.mask) * cells.words + word
    count = cells.wholes[at]
    code.unknown[top] = count == 0 and operation != codes.COUNT
    if operation == codes.COUNT:
        code.wholes[top] = count
    elif operation == codes.WHOLE_SUM:
        high = cells.wholes[at + 1]
        code.unknown[top] |= high < -2147483648 or high > 2147483647
        code.wholes[top] = (high << 32) | cells.wholes[at + 2]
    elif operation == codes.WHOLE_EXTREME:
        code.wholes[top] = cells.wholes[at + 1]
    elif count == 0:
        code.reals[top] = math.nan
    elif operation == codes.WHOLE_AVERAGE:
        code.reals[top] = exact_average(cells.wholes[at + 1], cells.wholes[at + 2], count)
    elif operation == codes.REAL_AVERAGE:
        code.reals[top] = cells.reals[at + 1] / count
    else:
        code.reals[top] = cells.reals[at + 1]


@njit(error_model="numpy")
def _read_deviation(code: Code, cells: Cells, cell: int, word: int, values: int, known: int, top: int) -> None:
    """The standard deviation of a list, from what its cells sum up; of reals, the column is given for extreme ones."""
    at = (cell & cells.mask) * cells.words + word
    count, total = cells.wholes[at], cells.reals[at + 1]
    found = standard_deviation(total, cells.reals[at + 2], count)
    code.unknown[top] = count < 2
    extreme = math.isnan(found) or math.isinf(found) or 0.0 < abs(total) < codes.TINY
    if values != 0 and count > 0 and extreme:
        first = cells.reals[at + 3]
        if count > 1:
            found = scaled_deviation(cells, cell, float64_at(values), known, first, count)
        else:
            code.unknown[top] = not math.isnan(first)
    code.reals[top] = found


@njit(error_model="numpy")
def _correlation(one: Any, row: int, other: Any, other_row: int) -> float:
    """`corr` of two lists by their deviations (`lists_for_correlation`): NaN where it is undefined.

    A list attribute is given by the addresses of its deviations, starts, lengths and squares.
    """
    start, other_start = int64_at(one[1])[row], int64_at(other[1])[other_row]
    length = int64_at(one[2])[row]
    if length < 2 or length != int64_at(other[2])[other_row]:
        return math.nan
    values, other_values = float64_at(one[0]), float64_at(other[0])
    products = 0.0
    for place in range(length):
        products += values[start + place] * other_values[other_start + place]
    result = products / math.sqrt(float64_at(one[3])[row] * float64_at(other[3])[other_row])
    if math.isnan(result) or math.isinf(result):
        return math.nan
    return max(-1.0, min(1.0, result))
