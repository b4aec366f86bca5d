"""Searches of events that lie in stream order. Imported only where kernels are compiled."""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.compiled.pointers import float64_at
from cep_pipeline.detection.instances.codes import COMPARE_SLOTS, GREATER, ITEM_WORDS, LESS
from cep_pipeline.detection.instances.interpreter import compare, mirrored
from cep_pipeline.detection.instances.terms import Code


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
def first_passing(rows: Any, slots: Any, code: Code, group: int, variable: int, place: int, end: int) -> int:
    """The first place from `place` on whose event holds the first conjunct of a group, if that compares two columns.

    The side of the bound variable is read once for all events.
    """
    items, at = code.items, code.groups[group] * ITEM_WORDS
    if code.groups[group] == code.groups[group + 1] or items[at] != COMPARE_SLOTS:
        return place
    comparator = items[at + 1]
    own, other, slot = items[at + 2], items[at + 4], items[at + 5]
    if items[at + 3] != variable:
        own, other, slot = items[at + 4], items[at + 2], items[at + 3]
        comparator = mirrored(comparator)
    column, value = float64_at(own), float64_at(other)[slots[slot]]
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
