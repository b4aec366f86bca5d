"""Searches of events that lie in stream order. Imported only where kernels are compiled."""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.compiled.pointers import float64_at
from cep_pipeline.detection.instances.codes import COMPARE_SLOTS, EQUAL, GREATER, ITEM_WORDS, LESS
from cep_pipeline.detection.instances.evaluator import Code, compare


@njit(error_model="numpy")
def first_at_least(rows: Any, low: int, high: int, row: int) -> int:
    """The first place in [low, high) of ascending rows whose row is at least `row`, or `high`."""
    while low < high:
        middle = (low + high) >> 1
        if rows[middle] < row:
            low = middle + 1
        else:
            high = middle
    return low


@njit(error_model="numpy")
def bound_side(items: Any, at: int, variable: int, slots: Any, base: int) -> tuple[int, int, float]:
    """The item at `items[at]`, one of `COMPARE_SLOTS`, as a comparison of a variable's column with what is bound.

    Returned are the comparator, the address of the column, and the value of the bound side.
    """
    if items[at + 3] == variable:
        return items[at + 1], items[at + 2], float64_at(items[at + 4])[slots[base + items[at + 5]]]
    mirrored = items[at + 1] ^ 2 if items[at + 1] < EQUAL else items[at + 1]
    return mirrored, items[at + 4], float64_at(items[at + 2])[slots[base + items[at + 3]]]


@njit(error_model="numpy")
def first_passing(rows: Any, slots: Any, code: Code, group: int, variable: int, place: int, end: int) -> int:
    """The first place from `place` on whose event holds the first conjunct of a group, if that compares two columns.

    The side of the bound variable is read once for all events.
    """
    items, at = code.items, code.groups[group] * ITEM_WORDS
    if code.groups[group] == code.groups[group + 1] or items[at] != COMPARE_SLOTS:
        return place
    comparator, own, value = bound_side(items, at, variable, slots, 0)
    column = float64_at(own)
    begin = place
    if comparator == LESS:
        while place < end and not column[rows[place]] < value:
            place += 1
    elif comparator == GREATER:
        while place < end and not column[rows[place]] > value:
            place += 1
    else:
        while place < end and not compare(comparator, column[rows[place]], value):
            place += 1
    code.counts[0] += place - begin
    return place
