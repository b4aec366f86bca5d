"""Terms over several events and lists, computed in kernels. Imported only where kernels are compiled.

What the operations mean stands in docs/language.md, section 3.4; `arithmetic.py` and `kleene/aggregates.py` compute it.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from cep_pipeline.compiled.pointers import float64_at, int64_at, uint8_at
from cep_pipeline.detection.instances import codes
from cep_pipeline.detection.instances.cells import (
    Cells,
    exact_average,
    has_nan,
    known_in_list,
    length_of,
    middle_of_wholes,
    ranked_in_list,
    scaled_deviation,
    standard_deviation,
)

LEAST = -9223372036854775808


class Code(NamedTuple):
    """A compiled program as pointers.

    Attributes
    ----------
    groups, items
        int64: group g has the items (of `ITEM_WORDS` words) from `groups[g]` to `groups[g + 1]`.
    words
        int64: the conjuncts.
    wholes, reals
        The constants.
    registers, choices, real_stack, whole_stack, unknown
        Room to work in.
    counts
        int64[1]: how many conjuncts were tested.
    """

    groups: Any
    items: Any
    words: Any
    wholes: Any
    reals: Any
    registers: Any
    choices: Any
    real_stack: Any
    whole_stack: Any
    unknown: Any
    counts: Any


@njit(error_model="numpy")
def run_terms(code: Code, cells: Cells, at: int, end: int) -> None:
    """Compute the postfix terms at `words[at:end]`, one after another, onto the stacks.

    A float64 is in `real_stack` (NaN also for null), an int64 in `whole_stack` with its nulls in `unknown`.
    """
    words, registers = code.words, code.registers
    real, whole, unknown = code.real_stack, code.whole_stack, code.unknown
    top = -1
    while at < end:
        operation, a, b = words[at], words[at + 1], words[at + 2]
        if operation == codes.REAL_COLUMN:
            top += 1
            real[top] = float64_at(a)[registers[b]]
        elif operation == codes.WHOLE_COLUMN:
            top += 1
            whole[top] = int64_at(a)[registers[b]]
            unknown[top] = words[at + 3] != 0 and uint8_at(words[at + 3])[registers[b]] == 0
        elif operation == codes.REAL_CONSTANT:
            top += 1
            real[top] = code.reals[a]
        elif operation == codes.WHOLE_CONSTANT:
            top += 1
            whole[top] = code.wholes[a]
            unknown[top] = b
        elif operation == codes.TO_REAL:
            real[top] = math.nan if unknown[top] else float(whole[top])
        elif codes.REAL_PLUS <= operation <= codes.REAL_MODULO:
            top -= 1
            left, right = real[top], real[top + 1]
            if operation == codes.REAL_PLUS:
                real[top] = left + right
            elif operation == codes.REAL_MINUS:
                real[top] = left - right
            elif operation == codes.REAL_TIMES:
                real[top] = left * right
            elif right == 0.0:
                real[top] = math.nan
            elif operation == codes.REAL_DIVIDE:
                real[top] = left / right
            else:
                real[top] = np.fmod(left, right)
        elif operation == codes.REAL_NEGATIVE:
            real[top] = -real[top]
        elif operation == codes.REAL_ABSOLUTE:
            real[top] = abs(real[top])
        elif operation == codes.ROOT:
            real[top] = math.sqrt(real[top]) if real[top] >= 0.0 else math.nan
        elif operation == codes.LOGARITHM:
            real[top] = math.log(real[top]) if real[top] > 0.0 else math.nan
        elif codes.WHOLE_PLUS <= operation <= codes.WHOLE_MODULO:
            top -= 1
            _combine_wholes(operation, whole, unknown, top)
        elif operation in (codes.WHOLE_NEGATIVE, codes.WHOLE_ABSOLUTE):
            if whole[top] == LEAST:
                unknown[top] = 1
            elif operation == codes.WHOLE_NEGATIVE or whole[top] < 0:
                whole[top] = -whole[top]
        elif operation >= codes.CORRELATION:
            top = _go_on(operation, code, cells, at, top)
        else:
            top += 1
            _read_list(operation, cells, registers[a], b, words[at + 3], real, whole, unknown, top)
        at += codes.TERM_WORDS


@njit(error_model="numpy")
def _go_on(operation: int, code: Code, cells: Cells, at: int, top: int) -> int:
    """The operations that are seldom needed; returns the top of the stack behind them."""
    a, b, c = code.words[at + 1], code.words[at + 2], code.words[at + 3]
    real, whole, unknown = code.real_stack, code.whole_stack, code.unknown
    if operation == codes.CORRELATION:
        top += 1
        real[top] = correlation(code, at)
    elif operation <= codes.MEDIAN_OF_REALS:
        top += 1
        _measure_list(operation, cells, code.registers[a], b, c, code.words[at + 4], code.wholes, real, unknown, top)
    elif operation < codes.NULL_COLUMN:
        _read_clock(operation, int64_at(a), b, int64_at(c), whole, unknown, top)
    elif operation == codes.NULL_COLUMN:
        unknown[top] = a != 0 and uint8_at(a)[code.registers[b]] == 0
    elif operation == codes.NULL_CONSTANT:
        unknown[top] = a
    elif operation == codes.NULL_COUNT:
        place = code.registers[a] & cells.mask
        unknown[top] = cells.wholes[place * cells.whole_words + b] < c
    elif operation == codes.NULL_NAN:
        unknown[top] = math.isnan(real[top])
    elif operation in (codes.NULL_EITHER, codes.NULL_DIVISION):
        unknown[top - 1] |= unknown[top] | (operation == codes.NULL_DIVISION and real[top] == 0.0)
    elif operation == codes.NULL_ROOT:
        unknown[top] |= real[top] < 0.0
    elif operation == codes.NULL_LOGARITHM:
        unknown[top] |= real[top] <= 0.0
    elif operation == codes.NULL_AS_WHOLE:
        whole[top] = unknown[top]
        unknown[top] = 0
    else:
        top -= 1
        if unknown[top]:
            real[top], whole[top], unknown[top] = real[top + 1], whole[top + 1], unknown[top + 1]
        elif operation != codes.COALESCE and not unknown[top + 1]:
            if operation <= codes.GREATEST_OF_WHOLES:
                if whole[top + 1] < whole[top] if operation == codes.LEAST_OF_WHOLES else whole[top + 1] > whole[top]:
                    whole[top] = whole[top + 1]
            elif not math.isnan(real[top]) and (
                math.isnan(real[top + 1])
                or (real[top + 1] < real[top] if operation == codes.LEAST_OF_REALS else real[top + 1] > real[top])
            ):
                real[top] = real[top + 1]
    return top


@njit(error_model="numpy")
def _measure_list(
    operation: int,
    cells: Cells,
    cell: int,
    b: int,
    c: int,
    constants: int,
    wholes: Any,
    real: Any,
    unknown: Any,
    top: int,
) -> None:
    """The standard deviation of a list from what its cells sum up, or its median from its elements.

    Of reals, the constants have the addresses of the values and of the known ones.
    """
    if operation == codes.STANDARD_DEVIATION:
        place = cell & cells.mask
        count, sums = cells.wholes[place * cells.whole_words + b], place * cells.real_words + c
        unknown[top] = count < 2
        real[top] = standard_deviation(cells.reals[sums], cells.reals[sums + 1], count)
        total = abs(cells.reals[sums])
        if (
            constants >= 0
            and count > 0
            and (math.isnan(real[top]) or math.isinf(real[top]) or 0.0 < total < codes.TINY)
        ):
            values, known, first = float64_at(wholes[constants]), wholes[constants + 1], cells.reals[sums + 2]
            if count > 1:
                real[top] = scaled_deviation(cells, cell, values, known, first, count)
            else:
                unknown[top] = not math.isnan(first)
        return
    count = known_in_list(cells, cell, c)
    unknown[top] = count == 0
    if count == 0:
        real[top] = math.nan
    elif operation == codes.MEDIAN_OF_WHOLES:
        ints = int64_at(b)
        low = ranked_in_list(cells, cell, ints, c, (count - 1) >> 1)
        if count & 1:
            real[top] = float(low)
        else:
            real[top] = middle_of_wholes(low, ranked_in_list(cells, cell, ints, c, count >> 1))
    elif has_nan(cells, cell, float64_at(b), c):
        real[top] = math.nan
    else:
        reals = float64_at(b)
        least = ranked_in_list(cells, cell, reals, c, (count - 1) >> 1)
        most = least if count & 1 else ranked_in_list(cells, cell, reals, c, count >> 1)
        real[top] = least if count & 1 else (least + most) / 2.0


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
def _read_list(
    operation: int, cells: Cells, cell: int, count_at: int, value_at: int, real: Any, whole: Any, unknown: Any, top: int
) -> None:
    """A length or an aggregate of the list that ends with a cell."""
    if operation == codes.LENGTH:
        whole[top] = length_of(cells, cell)
        unknown[top] = 0
        return
    place = cell & cells.mask
    wholes = place * cells.whole_words
    count = cells.wholes[wholes + count_at]
    if operation == codes.COUNT:
        whole[top] = count
        unknown[top] = 0
    elif operation == codes.WHOLE_SUM:
        high = cells.wholes[wholes + value_at]
        unknown[top] = count == 0 or high < -2147483648 or high > 2147483647
        whole[top] = (high << 32) | cells.wholes[wholes + value_at + 1]
    elif operation == codes.WHOLE_EXTREME:
        unknown[top] = count == 0
        whole[top] = cells.wholes[wholes + value_at]
    elif count == 0:
        real[top] = math.nan
    elif operation == codes.WHOLE_AVERAGE:
        real[top] = exact_average(cells.wholes[wholes + value_at], cells.wholes[wholes + value_at + 1], count)
    elif operation == codes.REAL_AVERAGE:
        real[top] = cells.reals[place * cells.real_words + value_at] / count
    else:
        real[top] = cells.reals[place * cells.real_words + value_at]


@njit(error_model="numpy")
def correlation(code: Code, at: int) -> float:
    """`corr` of two lists by their deviations (`lists_for_correlation`): NaN where it is undefined.

    The operation's words: the column and register of each side; a column is four addresses among the constants.
    """
    one, other = code.words[at + 1], code.words[at + 3]
    row, other_row = code.registers[code.words[at + 2]], code.registers[code.words[at + 4]]
    start = int64_at(code.wholes[one + 1])[row]
    other_start = int64_at(code.wholes[other + 1])[other_row]
    length = int64_at(code.wholes[one + 2])[row]
    if length < 2 or length != int64_at(code.wholes[other + 2])[other_row]:
        return math.nan
    values, other_values = float64_at(code.wholes[one]), float64_at(code.wholes[other])
    products = 0.0
    for place in range(length):
        products += values[start + place] * other_values[other_start + place]
    squares = float64_at(code.wholes[one + 3])[row] * float64_at(code.wholes[other + 3])[other_row]
    result = products / math.sqrt(squares)
    if math.isnan(result) or math.isinf(result):
        return math.nan
    return max(-1.0, min(1.0, result))
