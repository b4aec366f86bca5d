"""Checked casts: a column to its type, and which of its values do not fit, so that only their rows are rejected."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cep_pipeline.lazy_names import late_module

pc = late_module("pyarrow.compute")

_SMALLEST_SPLIT = 8


def cast_checked_to(column: pa.Array, target: pa.DataType) -> tuple[pa.Array, np.ndarray]:
    """Cast a column, leaving null what does not fit; blanks around text are ignored.

    Returned are the values, null where they were null or do not fit, and a bool for each that does not fit. It is one
    vectorized cast where all values fit. Else the distinct values are halved until those that do not fit are alone, so
    the cost grows with their number and not with the column.

    Examples
    --------
    >>> values, failed = cast_checked_to(pa.array(["1", "x", None, " 3 "]), pa.int64())
    >>> values.to_pylist(), failed.tolist()
    ([1, None, None, 3], [False, True, False, False])
    """
    fits = _cast(column, target)
    if fits is not None:
        return fits, np.zeros(len(column), dtype=bool)
    if pa.types.is_nested(column.type):
        return pa.nulls(len(column), target), as_mask(pc.is_valid(column))
    encoded = pc.dictionary_encode(column)
    distinct = encoded.dictionary
    if pa.types.is_string(distinct.type) or pa.types.is_large_string(distinct.type):
        distinct = pc.utf8_trim_whitespace(distinct)
    values = pa.concat_arrays(_halve(distinct, target))
    taken = pc.take(values, encoded.indices)
    return taken, as_mask(pc.is_valid(column)) & ~as_mask(pc.is_valid(taken))


def _halve(values: pa.Array, target: pa.DataType) -> list[pa.Array]:
    """Casts of consecutive parts of the values; null where a value does not fit."""
    fits = _cast(values, target)
    if fits is not None:
        return [fits]
    if len(values) <= 1:
        return [pa.nulls(len(values), target)]
    if len(values) <= _SMALLEST_SPLIT:
        return [part for index in range(len(values)) for part in _halve(values.slice(index, 1), target)]
    middle = len(values) // 2
    return [*_halve(values.slice(0, middle), target), *_halve(values.slice(middle), target)]


def _cast(column: pa.Array, target: pa.DataType) -> pa.Array | None:
    try:
        return pc.cast(column, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def as_mask(truths: pa.Array) -> np.ndarray:
    """The bools of an Arrow array without nulls."""
    return np.asarray(truths.to_numpy(zero_copy_only=False), dtype=bool)
