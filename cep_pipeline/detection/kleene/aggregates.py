"""Aggregates over lists of events, exactly as docs/language.md, section 3.4, defines them.

All are running aggregates, one value for each element and those before it: the last one is that of the whole list.
Sums of floats add from the left, as everybody does who reads the list in stream order.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cep_pipeline.detection.columns import Array, Column
from cep_pipeline.patterns.expressions import Aggregate, ValueType

_LOW_BITS = 32
_EXACT = 2**53
"""Integers up to this size are exact as float64."""


def length_column(lengths: Array) -> Column:
    """`v.LEN` of each list."""
    return Column(ValueType.INT64, lengths.astype(np.int64, copy=False))


def running(node: Aggregate, column: Column, rows: Array, offsets: Array) -> Column:
    """The aggregate over the elements of a list up to each element, for each element of all lists.

    Parameters
    ----------
    node
        `count`, `sum`, `avg`, `min` or `max`.
    column
        The attribute's column.
    rows
        Row numbers of the elements, list after list.
    offsets
        int64, shape (n + 1,): list m has the elements from `offsets[m]` to `offsets[m + 1]`, at least one.
    """
    valid = np.ones(len(rows), dtype=bool) if column.valid is None else column.valid[rows]
    counts = _counts(valid, offsets)
    if node.function == "count":
        return Column(ValueType.INT64, counts)
    some = counts > 0
    values = column.values[rows]
    if node.function in ("min", "max"):
        smaller = node.function == "min"
        result = _by_steps(values, valid, offsets, lambda held, new: _extreme(held, new, smaller=smaller))
        return Column(column.type, result, some, column.dictionary)
    if column.type is ValueType.FLOAT64:
        # Adding to 0 turns a leading -0.0 into 0.0, as a sum that begins at 0 does.
        with np.errstate(all="ignore"):
            sums = _by_steps(values + 0.0, valid, offsets, np.add)
            return Column(ValueType.FLOAT64, sums if node.function == "sum" else sums / np.maximum(counts, 1), some)
    high, low = _integer_sums(np.where(valid, values, 0), offsets)
    fits = (high >= -(2**31)) & (high < 2**31)
    total = (np.where(fits, high, 0) << _LOW_BITS) | low
    if node.function == "sum":
        return Column(ValueType.INT64, total, some & fits)
    averages = total / np.maximum(counts, 1)
    large = ~fits | (np.abs(total) > _EXACT)
    for place in np.flatnonzero(large & some):
        averages[place] = ((int(high[place]) << _LOW_BITS) | int(low[place])) / int(counts[place])
    return Column(ValueType.FLOAT64, averages, some)


def _counts(valid: Array, offsets: Array) -> Array:
    """int64: the elements that are no null so far."""
    counted = np.cumsum(valid, dtype=np.int64)
    return counted - _before(counted, offsets)


def _before(cumulative: Array, offsets: Array) -> Array:
    """For each element, what had been cumulated before its list began."""
    begun = np.where(offsets[:-1] > 0, cumulative[offsets[:-1] - 1], 0)
    return np.repeat(begun, np.diff(offsets))


def _integer_sums(values: Array, offsets: Array) -> tuple[Array, Array]:
    """The exact sums so far as high * 2**32 + low, with low from 0 to 2**32 - 1."""
    halves = []
    for half in (values >> _LOW_BITS, values & (2**_LOW_BITS - 1)):
        cumulative = np.cumsum(half)
        halves.append(cumulative - _before(cumulative, offsets))
    high, low = halves
    return high + (low >> _LOW_BITS), low & (2**_LOW_BITS - 1)


def _extreme(held: Array, new: Array, *, smaller: bool) -> Array:
    """The lesser or greater of two, the one held where they are equal; NaN with NaN."""
    replaced = (new < held) if smaller else (new > held)
    if new.dtype.kind == "f":
        replaced = (replaced | np.isnan(new)) & ~np.isnan(held)
    return np.where(replaced, new, held)


def _by_steps(values: Array, valid: Array, offsets: Array, add: Callable[[Array, Array], Array]) -> Array:
    """Fold each list from the left over its elements that are no null: all second elements, all third ones, ..."""
    result = values.copy()
    some = valid.copy()
    lengths = np.diff(offsets)
    starts = offsets[:-1]
    step = 1
    while True:
        longer = lengths > step
        if not longer.any():
            return result
        starts, lengths = starts[longer], lengths[longer]
        here = starts + step
        held, new = result[here - 1], values[here]
        has, gets = some[here - 1], valid[here]
        result[here] = np.where(gets, np.where(has, add(held, new), new), held)
        some[here] = has | gets
        step += 1
