"""The interpreter of conditions over instances, imported only to compile kernels; `program.py` writes the words.

An instance is its slots, int32 from some base on, one for each variable of the clause: the row of a single variable's
event, or the newest cell of a Kleene variable's list. Only slots of variables that a group mentions are read.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

import math
from typing import Any

from numba import njit

from cep_pipeline.compiled.pointers import float64_at, int64_at, uint8_at
from cep_pipeline.detection.instances import codes
from cep_pipeline.detection.instances.cells import (
    Cells,
    cell_before,
    first_row_of,
    length_of,
    row_of,
)
from cep_pipeline.detection.instances.terms import Code, run_terms

TOO_LARGE = 9223372036854775808.0


@njit(error_model="numpy")
def code_at(words: Any, at: int) -> Code:
    """The program whose words (`Program.kernel_words`) begin at `words[at]`."""
    return Code(
        int64_at(words[at]),
        int64_at(words[at + 1]),
        int64_at(words[at + 2]),
        int64_at(words[at + 3]),
        float64_at(words[at + 4]),
        int64_at(words[at + 5]),
        int64_at(words[at + 6]),
        float64_at(words[at + 7]),
        int64_at(words[at + 8]),
        uint8_at(words[at + 9]),
        int64_at(words[at + 10]),
    )


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
def register_of(cells: Cells, slot: int, how: int) -> int:
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
    left = float64_at(items[at + 2])[register_of(cells, slots[base + items[at + 3]], hows & 7)]
    right = float64_at(items[at + 4])[register_of(cells, slots[base + items[at + 5]], hows >> 3)]
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
        registers[words[at]] = register_of(cells, slots[base + words[at + 1]], words[at + 2])
        at += 3
    body = at + codes.CHOOSER_WORDS * choosers
    if choosers == 0:
        return body_holds(code, cells, body)
    for number in range(choosers):
        newest = slots[base + words[at + codes.CHOOSER_WORDS * number]]
        if words[at + codes.CHOOSER_WORDS * number + 1] == codes.INDEX and length_of(cells, newest) == 1:
            return True
        _choose(code, cells, at + codes.CHOOSER_WORDS * number, number, newest)
    while body_holds(code, cells, body):
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
def body_holds(code: Code, cells: Cells, at: int) -> bool:
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
    """The test at `words[at]`: kind, where it ends, comparator, and what the kind says."""
    words, registers = code.words, code.registers
    kind, end, comparator = words[at], words[at + 1], words[at + 2]
    if kind == codes.COMPARE_ROWS:
        left = float64_at(words[at + 3])[registers[words[at + 4]]]
        right = float64_at(words[at + 5])[registers[words[at + 6]]]
        return compare(comparator, left, right)
    if kind == codes.TRUTH:
        return uint8_at(words[at + 3])[registers[words[at + 4]]] != 0
    run_terms(code, cells, at + codes.TEST_WORDS, end)
    if kind == codes.AMONG_REALS:
        value = code.real_stack[0]
        if math.isnan(value):
            return False
        return _is_among(code.reals, words[at + 3], words[at + 4], value) == (comparator == codes.EQUAL)
    if kind == codes.AMONG_WHOLES:
        if code.unknown[0]:
            return False
        return _is_among(code.wholes, words[at + 3], words[at + 4], code.whole_stack[0]) == (comparator == codes.EQUAL)
    if kind == codes.COMPARE_REALS:
        return compare(comparator, code.real_stack[0], code.real_stack[1])
    if kind == codes.COMPARE_WHOLES:
        if code.unknown[0] or code.unknown[1]:
            return False
        return compare(comparator, code.whole_stack[0], code.whole_stack[1])
    if kind == codes.COMPARE_WHOLE_REAL:
        return not code.unknown[0] and compare_whole_real(comparator, code.whole_stack[0], code.real_stack[1])
    return not code.unknown[1] and compare_whole_real(mirrored(comparator), code.whole_stack[1], code.real_stack[0])


@njit(error_model="numpy")
def mirrored(comparator: int) -> int:
    """The comparator of the sides exchanged."""
    if comparator == codes.LESS:
        return codes.GREATER
    if comparator == codes.LESS_EQUAL:
        return codes.GREATER_EQUAL
    if comparator == codes.GREATER:
        return codes.LESS
    if comparator == codes.GREATER_EQUAL:
        return codes.LESS_EQUAL
    return comparator


@njit(error_model="numpy")
def _is_among(values: Any, low: int, high: int, value: Any) -> bool:
    """Return whether a value is among the ascending ones at the places [low, high)."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < value:
            low = middle + 1
        elif values[middle] > value:
            high = middle
        else:
            return True
    return False
