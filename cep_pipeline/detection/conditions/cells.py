"""Cells: the elements of Kleene lists. Imported only where kernels are compiled; `program.CellRing` owns the arrays.

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

from cep_pipeline.compiled.pointers import Float64s, Int32s, Int64s, float64_at, int64_at, reader_of, uint8_at
from cep_pipeline.detection.conditions import codes

NUMBERS = 0x7FFFFFFF
"""Numbers of cells go round: 31 bits of their count."""
LOW = 0xFFFFFFFF
LEAST, GREATEST = -(1 << 63), (1 << 63) - 1


class Cells(NamedTuple):
    """The ring of cells as pointers.

    Attributes
    ----------
    ends
        int64[2]: how many cells were let go of, and made.
    links
        int32: `LINK_WORDS` of each cell.
    wholes, reals
        `words` of each cell, as int64 and, in the same memory, as float64: what its list sums up to.
    mask
        The ring's size less 1.
    starts, accumulators
        The accumulators of each variable: from `starts[v]` to `starts[v + 1]`.
    """

    ends: Int64s
    links: Int32s
    wholes: Int64s
    reals: Float64s
    mask: int
    words: int
    starts: Int64s
    accumulators: Int64s


cells_at = reader_of(Cells)
"""The ring whose words (`CellRing.kernel_words`) begin at a place."""


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
        _accumulate(cells, number * codes.ACCUMULATOR_WORDS, place, old, before < 0, row)
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
def _accumulate(cells: Cells, at: int, place: int, old: int, begins: bool, row: int) -> None:
    """Sum up a list with a further element, by the accumulator whose words begin at `at`."""
    wholes, reals, accumulators = cells.wholes, cells.reals, cells.accumulators
    kind, values, known = accumulators[at], accumulators[at + 1], accumulators[at + 2]
    own = place * cells.words + accumulators[at + 3]
    held = old * cells.words + accumulators[at + 3]
    for word in range(accumulators[at + 4]):
        wholes[own + word] = 0 if begins else wholes[held + word]
    if known != 0 and uint8_at(known)[row] == 0:
        return
    before = wholes[own]
    wholes[own] = before + 1
    if kind == codes.SUM_WHOLES:
        value = int64_at(values)[row]
        low = wholes[own + 2] + (value & LOW)
        wholes[own + 1] += (value >> 32) + (low >> 32)
        wholes[own + 2] = low & LOW
    elif kind in (codes.LEAST_WHOLE, codes.GREATEST_WHOLE):
        value = int64_at(values)[row]
        if before == 0 or (value < wholes[own + 1] if kind == codes.LEAST_WHOLE else value > wholes[own + 1]):
            wholes[own + 1] = value
    elif kind == codes.SUM_REALS:
        reals[own + 1] += float64_at(values)[row]
    elif kind in (codes.LEAST_REAL, codes.GREATEST_REAL):
        real, extreme = float64_at(values)[row], reals[own + 1]
        further = math.isnan(real) or (real < extreme if kind == codes.LEAST_REAL else real > extreme)
        if before == 0 or (further and not math.isnan(extreme)):
            reals[own + 1] = real
    elif kind >= codes.DISTANCES_OF_WHOLES:
        if before == 0:
            wholes[own + 3] = int64_at(values)[row]
        if kind == codes.DISTANCES_OF_WHOLES:
            distance = distance_of_wholes(int64_at(values)[row], wholes[own + 3])
        else:
            distance = float64_at(values)[row] - reals[own + 3]
        reals[own + 1] += distance
        reals[own + 2] += distance * distance


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
def median(cells: Cells, cell: int, values: int, known: int, real: bool) -> tuple[float, int]:
    """The median of a list, NaN where a value is or none is known, and how many are known.

    Parameters
    ----------
    values, known
        The addresses of a column, int64 or float64, and of the rows that it knows (0: all).
    """
    mask, count, at = uint8_at(known), 0, cell
    for _ in range(length_of(cells, cell)):
        row = row_of(cells, at)
        if known == 0 or mask[row] != 0:
            count += 1
            if real and math.isnan(float64_at(values)[row]):
                return math.nan, 1
        at = cell_before(cells, at)
    if count == 0:
        return math.nan, 0
    low = _ranked(cells, cell, values, known, (count - 1) >> 1, real)
    high = low if count & 1 else _ranked(cells, cell, values, known, count >> 1, real)
    if real:
        least, most = np.int64(low).view(np.float64), np.int64(high).view(np.float64)
        return least if count & 1 else (least + most) / 2.0, count
    lower = (low & LOW) + (high & LOW)
    return exact_average((low >> 32) + (high >> 32) + (lower >> 32), lower & LOW, 2), count


@njit(error_model="numpy")
def _ranked(cells: Cells, cell: int, values: int, known: int, rank: int, real: bool) -> int:
    """The bits of the value at a place in ascending order, from 0, among those of a list that are known; none is NaN.

    It takes no room: the bits are halved until as many values as wanted are below. Those of a real ascend with it,
    but for the negative ones, whose other bits descend.
    """
    mask, bits = uint8_at(known), int64_at(values)
    low, high = LEAST, GREATEST
    while low < high:
        middle, below, at = (low >> 1) + (high >> 1) + (low & high & 1), 0, cell
        for _ in range(length_of(cells, cell)):
            row = row_of(cells, at)
            own = bits[row] ^ GREATEST if real and bits[row] < 0 else bits[row]
            if own <= middle and (known == 0 or mask[row] != 0):
                below += 1
            at = cell_before(cells, at)
        if below > rank:
            high = middle
        else:
            low = middle + 1
    return low ^ GREATEST if real and low < 0 else low


@njit(error_model="numpy")
def exact_average(high: int, low: int, count: int) -> float:
    """`(high * 2**32 + low) / count`, rounded once; low is from 0 to 2**32 - 1, count positive and below 2**31."""
    if -(1 << 21) <= high < (1 << 21):
        return float((high << 32) + low) / float(count)
    negative = high < 0
    if negative:
        high = -high - (1 if low > 0 else 0)
        low = (LOW + 1 - low) & LOW
    # Long division bit by bit, from 2**95 on, until the quotient has 61 bits; the last stands for all that follow.
    quotient, rest, bit = 0, 0, 96
    while quotient < 1 << 60:
        bit -= 1
        rest <<= 1
        if bit >= 32:
            rest |= (high >> (bit - 32)) & 1
        elif bit >= 0:
            rest |= (low >> bit) & 1
        quotient <<= 1
        if rest >= count:
            rest -= count
            quotient |= 1
    if bit > 32:
        rest |= (high & ((1 << (bit - 32)) - 1)) | low
    elif bit > 0:
        rest |= low & ((1 << bit) - 1)
    # Rounded to 53 bits, half to even.
    whole, tail = quotient >> 8, (quotient & 255) | (1 if rest else 0)
    if tail > 128 or (tail == 128 and whole & 1):
        whole += 1
    result = float(whole) * 256.0
    for _ in range(abs(bit)):
        result *= 2.0 if bit > 0 else 0.5
    return -result if negative else result
