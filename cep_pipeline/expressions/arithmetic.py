"""Vectorized arithmetic of the pattern language: int64 that never wraps, float64, and null where undefined.

Every operation takes and gives `Column`s of numbers, of equal length or of length 1 (a constant); `correlation` takes
columns of lists. Each value depends on its operands alone, not on its place in the array, so that every plan, slicing
and mechanism computes the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.expressions.columns import Array, Column
from cep_pipeline.patterns.expressions import ValueType

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1


def both_valid(left: Array | None, right: Array | None) -> Array | None:
    """Conjunction of two validity masks, of which None means valid everywhere."""
    if left is None:
        return right
    if right is None:
        return left
    return left & right


def _null_where(valid: Array | None, undefined: Array) -> Array | None:
    """The mask without the rows at which the operation is undefined."""
    if not undefined.any():
        return valid
    return both_valid(valid, ~undefined)


def arithmetic(operator: str, left: Column, right: Column) -> Column:
    """`left operator right` for the operators `+ - * / %`."""
    valid = both_valid(left.valid, right.valid)
    a, b = left.values, right.values
    integers = left.type is ValueType.INT64 and right.type is ValueType.INT64
    with np.errstate(all="ignore"):
        if integers and operator != "/":
            values, undefined = _INTEGER[operator](a, b)
            return Column(ValueType.INT64, values, _null_where(valid, undefined))
        a, b = a.astype(np.float64, copy=False), b.astype(np.float64, copy=False)
        values = _FLOAT[operator](a, b)
        if operator in "/%":
            valid = _null_where(valid, np.broadcast_to(b == 0.0, values.shape))
    return Column(ValueType.FLOAT64, values, valid)


def _add(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    return total, ((a ^ total) & (b ^ total)) < 0


def _subtract(a: Array, b: Array) -> tuple[Array, Array]:
    difference = a - b
    return difference, ((a ^ b) & (a ^ difference)) < 0


def _multiply(a: Array, b: Array) -> tuple[Array, Array]:
    product = a * b
    # The rounded product is within a relative 2**-51 of the true one: only next to the bound must it be exact.
    estimate = np.abs(a.astype(np.float64) * b.astype(np.float64))
    overflow = estimate > 2.0**63
    near = np.abs(estimate - 2.0**63) <= 2.0**14
    if near.any():
        exact_a, exact_b = np.broadcast_to(a, near.shape)[near], np.broadcast_to(b, near.shape)[near]
        overflow[near] = [
            not INT64_MIN <= x * y <= INT64_MAX for x, y in zip(exact_a.tolist(), exact_b.tolist(), strict=True)
        ]
    return product, overflow


def _remainder(a: Array, b: Array) -> tuple[Array, Array]:
    if len(b) == 1 and b[0] not in (0, -1, INT64_MIN):
        return _remainder_by_constant(a, abs(int(b[0]))), np.zeros(1, dtype=bool)
    # The divisor -1 always leaves 0, but the processor traps on int64's minimum; 0 has no remainder at all.
    safe = (b == 0) | (b == -1)
    remainder = np.fmod(a, np.where(safe, 1, b))
    return remainder, np.broadcast_to(b == 0, remainder.shape)


def _remainder_by_constant(a: Array, divisor: int) -> Array:
    """The remainder, with the sign of the dividend: NumPy divides by a constant without dividing."""
    remainder: Array = a - (a // divisor) * divisor  # from 0 to the divisor
    below = (a < 0) & (remainder != 0)
    if below.any():
        remainder[below] -= divisor
    return remainder


_INTEGER: dict[str, Callable[[Array, Array], tuple[Array, Array]]] = {
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "%": _remainder,
}
_FLOAT: dict[str, Callable[[Array, Array], Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
}


def negative(operand: Column) -> Column:
    """Unary minus; null for the int64 that has no opposite."""
    with np.errstate(all="ignore"):
        values = -operand.values
    if operand.type is ValueType.INT64:
        return Column(ValueType.INT64, values, _null_where(operand.valid, operand.values == INT64_MIN))
    return Column(operand.type, values, operand.valid)


def absolute(operand: Column) -> Column:
    """`abs(x)`; null for the int64 whose absolute value is none."""
    with np.errstate(all="ignore"):
        values = np.abs(operand.values)
    if operand.type is ValueType.INT64:
        return Column(ValueType.INT64, values, _null_where(operand.valid, operand.values == INT64_MIN))
    return Column(operand.type, values, operand.valid)


def square_root(operand: Column) -> Column:
    """`sqrt(x)`; null below 0."""
    x = operand.values.astype(np.float64, copy=False)
    with np.errstate(all="ignore"):
        return Column(ValueType.FLOAT64, np.sqrt(x), _null_where(operand.valid, x < 0))


def natural_logarithm(operand: Column) -> Column:
    """`ln(x)`; null at 0 and below.

    Arrow takes the C library's logarithm for each value; NumPy's own differs in the last bit between processors.
    """
    x = operand.values.astype(np.float64, copy=False)
    undefined = x <= 0
    values = pc.ln(pa.array(np.where(undefined, 1.0, x))).to_numpy()
    return Column(ValueType.FLOAT64, values, _null_where(operand.valid, undefined))


FUNCTIONS: dict[str, Callable[[Column], Column]] = {
    "abs": absolute,
    "sqrt": square_root,
    "ln": natural_logarithm,
}
"""The functions of one number, by the name that the language gives them."""


# -- correlation -------------------------------------------------------------------------------------------------------

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
