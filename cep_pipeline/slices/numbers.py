"""Values of any type as float64 columns that compare exactly as the values do.

The kernel's loops know nothing but float64: numbers that float64 holds exactly pass as they are; strings, and integers
beyond 2^53, become ranks in the joint order of both sides. Null and NaN become NaN, with which every ordered comparison
is false.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from cep_pipeline.expressions.columns import Array, Column
from cep_pipeline.expressions.comparison import EXACT_IN_FLOAT
from cep_pipeline.patterns.expressions import ValueType
from cep_pipeline.slices.routines import is_padded, padded


def largest(column: Column) -> int:
    """The largest magnitude among the int64 values of a column, nulls' arbitrary values included."""
    if len(column) == 0:
        return 0
    return max(abs(int(column.values.min())), abs(int(column.values.max())))


def is_exact(column: Column) -> bool:
    """Return whether float64 holds every value of the column."""
    if column.type is ValueType.INT64:
        return largest(column) <= EXACT_IN_FLOAT
    return column.type in (ValueType.FLOAT64, ValueType.BOOL)


def as_floats(column: Column) -> Array:
    """float64, padded; null is NaN. The column must be exact."""
    if column.type is ValueType.FLOAT64 and column.valid is None and is_padded(column.values):
        return column.values
    values = padded(len(column), np.float64)
    values[:] = column.values
    if column.valid is not None:
        values[~column.valid] = np.nan
    return values


def comparable(columns: Sequence[Column]) -> list[Array]:
    """Float64 columns, padded, that compare with each other as the columns do.

    Raises
    ------
    TypeError
        The columns' types do not compare; the language refuses such patterns.
    """
    kinds = {column.type for column in columns}
    if kinds == {ValueType.STRING}:
        return _string_ranks(columns)
    if not (kinds == {ValueType.BOOL} or all(kind.is_number for kind in kinds)):
        raise TypeError(f"{', '.join(sorted(kind.value for kind in kinds))} do not compare")
    if all(map(is_exact, columns)):
        return [as_floats(column) for column in columns]
    return _number_ranks(columns)


def _string_ranks(columns: Sequence[Column]) -> list[Array]:
    dictionaries = [column.dictionary for column in columns if column.dictionary is not None]
    if all(one is other for one, other in pairwise(dictionaries)):
        ranks = [np.arange(len(dictionaries[0]), dtype=np.float64)] * len(columns)
    else:
        ranks = _ranks(dictionaries)
    return [_spread(rank, column.values, column.valid) for rank, column in zip(ranks, columns, strict=True)]


def _number_ranks(columns: Sequence[Column]) -> list[Array]:
    """Ranks of int64 values, or of int64 and float64 ones together: as Python numbers, which compare exactly."""
    known = []
    for column in columns:
        mask = np.ones(len(column), dtype=bool) if column.valid is None else column.valid
        known.append(mask & ~np.isnan(column.values) if column.type is ValueType.FLOAT64 else mask)
    mixed = any(column.type is ValueType.FLOAT64 for column in columns)
    values = [
        column.values[mask].astype(object) if mixed else column.values[mask]
        for column, mask in zip(columns, known, strict=True)
    ]
    result = []
    for column, mask, rank in zip(columns, known, _ranks(values), strict=True):
        spread = padded(len(column), np.float64)
        spread[:] = np.nan
        spread[mask] = rank
        result.append(spread)
    return result


def _ranks(parts: Sequence[Array]) -> list[Array]:
    _, inverse = np.unique(np.concatenate(parts), return_inverse=True)
    ends = np.cumsum([len(part) for part in parts])[:-1]
    return np.split(inverse.astype(np.float64), ends)


def _spread(ranks: Array, codes: Array, valid: Array | None) -> Array:
    values = padded(len(codes), np.float64)
    values[:] = ranks[codes] if len(ranks) else np.nan
    if valid is not None:
        values[~valid] = np.nan
    return values
