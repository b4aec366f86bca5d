"""Pearson's correlation of two list attributes, vectorized over pairs of events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cep_pipeline.expressions.columns import Array, Column
from cep_pipeline.patterns.expressions import ValueType

PAIRS_AT_ONCE = 1 << 16
"""Pairs computed together: bounds the memory of the gathered deviations."""


@dataclass(frozen=True, slots=True)
class _Deviations:
    """Lists of one length, each less its mean and scaled to a magnitude of about 1.

    `scaled` has shape (length, number of lists); `squares` are the sums of its squares, shape (number of lists,).
    """

    scaled: Array
    squares: Array


def correlation(x: Column, x_rows: Array, y: Column, y_rows: Array) -> Column:
    """`corr(x, y)` for each pair of rows of two list columns.

    Parameters
    ----------
    x, y
        List columns.
    x_rows, y_rows
        Rows of the n pairs, int, shape (n,).

    Returns
    -------
    Column
        float64, null where the lists have unequal lengths, fewer than two elements or no variance, or one holds a
        null, a NaN or an infinity.

    Notes
    -----
    Two passes (mean, then deviations) with the correction for the rounding of the mean. Each list is scaled by a
    power of two first, which is exact, so that neither squares nor products leave the range of float64. Sums run
    from the first element to the last: a pair's value does not depend on the pairs computed beside it, and the
    correlation of a list with itself is exactly 1.
    """
    pairs = len(x_rows)
    values = np.zeros(pairs)
    x_lengths, y_lengths = _lengths(x)[x_rows], _lengths(y)[y_rows]
    valid = (x_lengths == y_lengths) & (x_lengths >= 2)
    for length in np.unique(x_lengths[valid]).tolist():
        chosen = np.flatnonzero(valid & (x_lengths == length))
        x_lists, x_index = np.unique(x_rows[chosen], return_inverse=True)
        y_lists, y_index = np.unique(y_rows[chosen], return_inverse=True)
        x_part, y_part = _deviations(x, x_lists, length), _deviations(y, y_lists, length)
        for start in range(0, len(chosen), PAIRS_AT_ONCE):
            block = slice(start, start + PAIRS_AT_ONCE)
            i, j = x_index[block], y_index[block]
            products = np.zeros(len(i))
            for k in range(length):
                products += x_part.scaled[k][i] * y_part.scaled[k][j]
            with np.errstate(all="ignore"):
                values[chosen[block]] = products / np.sqrt(x_part.squares[i] * y_part.squares[j])
    valid &= np.isfinite(values)
    return Column(ValueType.FLOAT64, np.clip(np.where(valid, values, 0.0), -1.0, 1.0), None if valid.all() else valid)


def deviations_of_all(column: Column) -> tuple[Array, Array, Array, Array]:
    """Compute the part of `correlation` that concerns each list alone, for all rows of a list column.

    Returns
    -------
    tuple of Array
        The scaled deviations of all lists one after another, float64; where each row's begin and how many they are,
        int64 (0 for a null row); the sum of their squares, float64 (NaN without variance).
    """
    assert column.offsets is not None
    lengths = _lengths(column)
    values, squares = np.zeros(len(column.values)), np.full(len(column), np.nan)
    for length in np.unique(lengths[lengths >= 2]).tolist():
        rows = np.flatnonzero(lengths == length)
        part = _deviations(column, rows, length)
        values[column.offsets[rows][np.newaxis, :] + np.arange(length)[:, np.newaxis]] = part.scaled
        squares[rows] = part.squares
    return values, column.offsets[:-1].astype(np.int64), lengths.astype(np.int64), squares


def _lengths(column: Column) -> Array:
    """Number of elements of each row; 0 for a null row."""
    assert column.offsets is not None
    lengths: Array = np.diff(column.offsets)
    return lengths if column.valid is None else np.where(column.valid, lengths, 0)


def _deviations(column: Column, rows: Array, length: int) -> _Deviations:
    assert column.offsets is not None
    lists = column.values[column.offsets[rows][np.newaxis, :] + np.arange(length)[:, np.newaxis]]
    with np.errstate(all="ignore"):
        lists = _scaled(lists)
        centred = lists - _sum(lists) / length
        centred = _scaled(centred - _sum(centred) / length)
        squares = _sum(centred * centred)
        # Equal elements have no variance, though their rounded mean may differ from them.
        constant = lists.min(axis=0) == lists.max(axis=0)
        squares = np.where(constant, np.nan, squares)
    return _Deviations(centred, squares)


def _sum(lists: Array) -> Array:
    total = np.zeros(lists.shape[1])
    for element in lists:
        total += element
    return total


def _scaled(lists: Array) -> Array:
    """Each list times the power of two that brings its largest magnitude into [0.5, 1)."""
    _, exponent = np.frexp(np.abs(lists).max(axis=0))
    scaled: Array = np.ldexp(lists, -exponent)
    return scaled
