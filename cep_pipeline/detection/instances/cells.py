"""Cells: the elements of Kleene lists. Imported only where kernels are compiled; `lists.py` owns the arrays.

A cell is one element of a list with a link to the cell before it, so that lists share their prefixes and appending
takes constant time. It carries the first row and the length of its list, and the running aggregates that the clause's
conjuncts need, up to and including it. Cells live in a ring: what is older than every window is overwritten.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from cep_pipeline.compiled.pointers import float64_at, int32_at, int64_at, uint8_at
from cep_pipeline.detection.instances import codes

NUMBERS = 0x7FFFFFFF
"""Numbers of cells go round: 31 bits of their count."""
LOW = 0xFFFFFFFF


class Cells(NamedTuple):
    """The ring of cells as pointers.

    Attributes
    ----------
    ends
        int64[2]: how many cells were let go of, and made.
    links, wholes, reals
        int32, int64 and float64 of each cell, `LINK_WORDS`, `whole_words` and `real_words` of them.
    mask
        The ring's size less 1.
    starts, accumulators
        The accumulators of each variable: from `starts[v]` to `starts[v + 1]`.
    """

    ends: Any
    links: Any
    wholes: Any
    reals: Any
    mask: Any
    whole_words: Any
    real_words: Any
    starts: Any
    accumulators: Any


@njit(error_model="numpy")
def cells_at(words: Any, at: int) -> Cells:
    """The ring whose words (`lists.CellRing.words`) begin at `words[at]`."""
    return Cells(
        int64_at(words[at]),
        int32_at(words[at + 1]),
        int64_at(words[at + 2]),
        float64_at(words[at + 3]),
        words[at + 4],
        words[at + 5],
        words[at + 6],
        int64_at(words[at + 7]),
        int64_at(words[at + 8]),
    )


@njit(error_model="numpy")
def row_of(cells: Cells, cell: int) -> int:
    """The row of the element."""
    return cells.links[(cell & cells.mask) * codes.LINK_WORDS + codes.ROW]


@njit(error_model="numpy")
def cell_before(cells: Cells, cell: int) -> int:
    """The cell before; of no meaning where the list has one element."""
    return cells.links[(cell & cells.mask) * codes.LINK_WORDS + codes.BEFORE]


@njit(error_model="numpy")
def first_row_of(cells: Cells, cell: int) -> int:
    """The row of the list's first element."""
    return cells.links[(cell & cells.mask) * codes.LINK_WORDS + codes.FIRST_ROW]


@njit(error_model="numpy")
def length_of(cells: Cells, cell: int) -> int:
    """The number of elements up to and including this one."""
    return cells.links[(cell & cells.mask) * codes.LINK_WORDS + codes.LIST_LENGTH]


@njit(error_model="numpy")
def list_contains(cells: Cells, cell: int, row: int) -> bool:
    """True if the list that ends with a cell has an element; rows ascend, so the search ends early."""
    for _ in range(length_of(cells, cell)):
        own = row_of(cells, cell)
        if own <= row:
            return own == row
        cell = cell_before(cells, cell)
    return False


@njit(error_model="numpy")
def append(cells: Cells, variable: int, before: int, row: int, born: int) -> int:
    """A new cell behind another one (-1: of a new list); -1 where the ring is full.

    Parameters
    ----------
    variable
        The list's variable, whose aggregates are kept.
    row
        The element: later than the row of `before`.
    born
        The event at which this happens; rows ascend from cell to cell.
    """
    made = cells.ends[1]
    if made - cells.ends[0] > cells.mask:
        return -1
    cells.ends[1] = made + 1
    place = made & cells.mask
    links = place * codes.LINK_WORDS
    cells.links[links + codes.ROW] = row
    cells.links[links + codes.BEFORE] = before
    cells.links[links + codes.BORN] = born
    old = before & cells.mask
    if before < 0:
        cells.links[links + codes.FIRST_ROW] = row
        cells.links[links + codes.LIST_LENGTH] = 1
    else:
        cells.links[links + codes.FIRST_ROW] = cells.links[old * codes.LINK_WORDS + codes.FIRST_ROW]
        cells.links[links + codes.LIST_LENGTH] = cells.links[old * codes.LINK_WORDS + codes.LIST_LENGTH] + 1
    for number in range(cells.starts[variable], cells.starts[variable + 1]):
        _accumulate(cells, cells.accumulators, number * codes.ACCUMULATOR_WORDS, place, old, before < 0, row)
    return made & NUMBERS


@njit(error_model="numpy")
def drop_newest(cells: Cells) -> None:
    """Take back the cell that was made last."""
    cells.ends[1] -= 1


@njit(error_model="numpy")
def forget_cells(cells: Cells, row: int, ceiling: Any) -> None:
    """Let go of the oldest cells that were made at events whose windows ended before `row`."""
    head, tail = cells.ends[0], cells.ends[1]
    while head < tail and ceiling[cells.links[(head & cells.mask) * codes.LINK_WORDS + codes.BORN]] < row:
        head += 1
    cells.ends[0] = head


@njit(error_model="numpy")
def _accumulate(cells: Cells, accumulators: Any, at: int, place: int, old: int, begins: bool, row: int) -> None:
    kind = accumulators[at]
    known = accumulators[at + 2] == 0 or uint8_at(accumulators[at + 2])[row] != 0
    count = place * cells.whole_words + accumulators[at + 3]
    before = 0 if begins else cells.wholes[old * cells.whole_words + accumulators[at + 3]]
    cells.wholes[count] = before + (1 if known else 0)
    if kind == codes.ONLY_COUNT:
        return
    if kind >= codes.DISTANCES_OF_WHOLES:
        _accumulate_distances(cells, accumulators, at, place, old, before, known, row)
        return
    if kind == codes.SUM_WHOLES:
        own = place * cells.whole_words + accumulators[at + 4]
        held = old * cells.whole_words + accumulators[at + 4]
        high = 0 if begins else cells.wholes[held]
        low = 0 if begins else cells.wholes[held + 1]
        if known:
            value = int64_at(accumulators[at + 1])[row]
            low += value & LOW
            high += (value >> 32) + (low >> 32)
            low &= LOW
        cells.wholes[own] = high
        cells.wholes[own + 1] = low
    elif kind in (codes.LEAST_WHOLE, codes.GREATEST_WHOLE):
        own = place * cells.whole_words + accumulators[at + 4]
        held_value = cells.wholes[old * cells.whole_words + accumulators[at + 4]]
        value = int64_at(accumulators[at + 1])[row]
        if not known or (before > 0 and (held_value <= value if kind == codes.LEAST_WHOLE else held_value >= value)):
            value = held_value
        cells.wholes[own] = value
    else:
        own = place * cells.real_words + accumulators[at + 4]
        held_real = cells.reals[old * cells.real_words + accumulators[at + 4]]
        real = float64_at(accumulators[at + 1])[row]
        if not known:
            real = held_real
        elif kind == codes.SUM_REALS:
            real = (held_real if before > 0 else 0.0) + real
        elif before > 0 and (
            math.isnan(held_real)
            or not (math.isnan(real) or (real < held_real if kind == codes.LEAST_REAL else real > held_real))
        ):
            real = held_real
        cells.reals[own] = real


@njit(error_model="numpy")
def _accumulate_distances(
    cells: Cells, accumulators: Any, at: int, place: int, old: int, before: int, known: bool, row: int
) -> None:
    own = place * cells.real_words + accumulators[at + 4]
    held = old * cells.real_words + accumulators[at + 4]
    total = cells.reals[held] if before > 0 else 0.0
    squares = cells.reals[held + 1] if before > 0 else 0.0
    distance = 0.0
    if accumulators[at] == codes.DISTANCES_OF_WHOLES:
        first = cells.wholes[old * cells.whole_words + accumulators[at + 3] + 1]
        if known:
            whole = int64_at(accumulators[at + 1])[row]
            if before == 0:
                first = whole
            distance = distance_of_wholes(whole, first)
        cells.wholes[place * cells.whole_words + accumulators[at + 3] + 1] = first
    else:
        first_real = cells.reals[held + 2]
        if known:
            real = float64_at(accumulators[at + 1])[row]
            if before == 0:
                first_real = real
            distance = real - first_real
        cells.reals[own + 2] = first_real
    cells.reals[own] = total + distance
    cells.reals[own + 1] = squares + distance * distance


@njit(error_model="numpy")
def distance_of_wholes(one: int, other: int) -> float:
    """The difference of two int64, exact and then rounded."""
    if one >= other:
        return float(np.uint64(one) - np.uint64(other))
    return -float(np.uint64(other) - np.uint64(one))


@njit(error_model="numpy")
def standard_deviation(total: float, squares: float, count: int) -> float:
    """The deviation of a sample, by sums of its distances from one value and of their squares; NaN below two values."""
    if count < 2:
        return math.nan
    n = float(count)
    spread = n * squares - total * total
    return math.sqrt((0.0 if spread < 0.0 else spread) / (n * (n - 1.0)))


@njit(error_model="numpy")
def scaled_deviation(cells: Cells, cell: int, values: Any, known: int, first: float, count: int) -> float:
    """The standard deviation of reals whose squares leave float64; NaN where one of them is NaN or infinite."""
    length, mask, largest = length_of(cells, cell), uint8_at(known), 0.0
    at = cell
    for _ in range(length):
        row = row_of(cells, at)
        if known == 0 or mask[row] != 0:
            if math.isnan(values[row]) or math.isinf(values[row]):
                return math.nan
            largest = max(largest, abs(values[row]))
        at = cell_before(cells, at)
    scale = codes.SMALL if largest > 1.0 else 1.0 / codes.SMALL
    total, squares, at = 0.0, 0.0, cell
    for _ in range(length):
        row = row_of(cells, at)
        if known == 0 or mask[row] != 0:
            distance = values[row] * scale - first * scale
            total += distance
            squares += distance * distance
        at = cell_before(cells, at)
    return standard_deviation(total, squares, count) / scale


@njit(error_model="numpy")
def middle_of_wholes(low: int, high: int) -> float:
    """The mean of two int64, exact and then rounded."""
    lower = (low & LOW) + (high & LOW)
    return exact_average((low >> 32) + (high >> 32) + (lower >> 32), lower & LOW, 2)


@njit(error_model="numpy")
def known_in_list(cells: Cells, cell: int, known: int) -> int:
    """The number of a list's elements that a column knows; `known` is the address of its mask, or 0."""
    length = length_of(cells, cell)
    if known == 0:
        return length
    mask, count = uint8_at(known), 0
    for _ in range(length):
        if mask[row_of(cells, cell)] != 0:
            count += 1
        cell = cell_before(cells, cell)
    return count


@njit(error_model="numpy")
def ranked_in_list(cells: Cells, cell: int, values: Any, known: int, rank: int) -> Any:
    """The value of a list at a place in ascending order, from 0, among those that are known; none is NaN.

    It takes no room: each round halves the values that are left, about the one in the middle of the list.
    """
    length, mask = length_of(cells, cell), uint8_at(known)
    low = high = values[row_of(cells, cell)]
    above = below = False  # whether low and high are bounds yet
    while True:
        left, at = 0, cell
        for _ in range(length):
            row = row_of(cells, at)
            value = values[row]
            if (known == 0 or mask[row] != 0) and (not above or value > low) and (not below or value < high):
                left += 1
            at = cell_before(cells, at)
        wanted, at, pivot = left >> 1, cell, low
        for _ in range(length):
            row = row_of(cells, at)
            value = values[row]
            if (known == 0 or mask[row] != 0) and (not above or value > low) and (not below or value < high):
                if wanted == 0:
                    pivot = value
                    break
                wanted -= 1
            at = cell_before(cells, at)
        smaller, equal, at = 0, 0, cell
        for _ in range(length):
            row = row_of(cells, at)
            if known == 0 or mask[row] != 0:
                if values[row] < pivot:
                    smaller += 1
                elif values[row] == pivot:
                    equal += 1
            at = cell_before(cells, at)
        if rank < smaller:
            high, below = pivot, True
        elif rank < smaller + equal or left == 0:
            return pivot
        else:
            low, above = pivot, True


@njit(error_model="numpy")
def has_nan(cells: Cells, cell: int, values: Any, known: int) -> bool:
    """True if one of a list's known values is NaN."""
    mask = uint8_at(known)
    for _ in range(length_of(cells, cell)):
        row = row_of(cells, cell)
        if (known == 0 or mask[row] != 0) and math.isnan(values[row]):
            return True
        cell = cell_before(cells, cell)
    return False


@njit(error_model="numpy")
def exact_average(high: int, low: int, count: int) -> float:
    """`(high * 2**32 + low) / count`, rounded once; low is from 0 to 2**32 - 1, count positive and below 2**31."""
    if -(1 << 21) <= high < (1 << 21):
        return float((high << 32) + low) / float(count)
    negative = high < 0
    if negative:
        high = -high - (1 if low > 0 else 0)
        low = (LOW + 1 - low) & LOW
    # Long division in digits of 32 bits, two of them behind the point: first, second, third . fourth, fifth.
    first, rest = (high >> 32) // count, (high >> 32) % count
    digit = (rest << 32) | (high & LOW)
    second, rest = digit // count, digit % count
    digit = (rest << 32) | low
    third, rest = digit // count, digit % count
    digit = rest << 32
    fourth, rest = digit // count, digit % count
    digit = rest << 32
    fifth, rest = digit // count, digit % count
    # The dividend is above 2**53, so that one of the first three digits leads; what follows it is three digits at most.
    scale = 4294967296.0 * 4294967296.0
    while first == 0:
        first, second, third, fourth, fifth = second, third, fourth, fifth, 0
        scale /= 4294967296.0
    bits = 0
    while (first >> bits) > 0:
        bits += 1
    # The 60 bits that lead, of which the last stands for all that follow.
    taken = 60 - bits
    if taken <= 32:
        lead = (first << taken) | (second >> (32 - taken))
        left = (second & ((1 << (32 - taken)) - 1)) | third
    else:
        lead = (first << taken) | (second << (taken - 32)) | (third >> (64 - taken))
        left = third & ((1 << (64 - taken)) - 1)
    if left | fourth | fifth | rest:
        lead |= 1
    # Rounded to 53 bits, half to even.
    whole, tail = lead >> 7, lead & 127
    if tail > 64 or (tail == 64 and whole & 1):
        whole += 1
    result = float(whole) * 128.0 * scale
    for _ in range(taken):
        result *= 0.5
    return -result if negative else result
