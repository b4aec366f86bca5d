"""Arrays of a slice, and the loops that make them: split by type, sort by group, gather, merge sorted clocks.

Arrays lie in memory of Arrow's pool. Memory that the system gives anew costs more to write than a preparation step
costs to compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cep_pipeline.compiled.native import WIDTH, NativeKernel
from cep_pipeline.expressions.columns import Array

PADDING = WIDTH
"""Readable elements behind the end of every array that a kernel or a routine reads."""


def room_for(size: int, kind: npt.DTypeLike) -> Array:
    """An array of so many values, not set yet, in memory of Arrow's pool: what is freed there is at hand for the next.

    NumPy takes large arrays from the system each time, and the system clears them, which takes longer than to fill
    them.
    """
    dtype = np.dtype(kind)
    return np.frombuffer(pa.allocate_buffer(size * dtype.itemsize), dtype)


def padded(count: int, dtype: Any) -> Array:
    """An uninitialized array of `count` elements with `PADDING` readable ones behind them."""
    return room_for(count + PADDING, dtype)[:count]


def is_padded(values: Array) -> bool:
    """Return whether `PADDING` elements behind the array's end are readable, since its base array owns them."""
    owner = values.base
    if not isinstance(owner, np.ndarray) or not values.flags.c_contiguous:
        return False
    end = values.ctypes.data + values.nbytes + PADDING * values.itemsize
    return end <= owner.ctypes.data + owner.nbytes


def padded_copy(values: Array, dtype: Any = None) -> Array:
    """The values, padded, converted to `dtype` if one is given."""
    copy = padded(len(values), dtype or values.dtype)
    copy[:] = values
    return copy


def select_codes(codes: Array, kinds: int, wanted: Sequence[int]) -> list[Array]:
    """The places of each wanted code, ascending.

    Parameters
    ----------
    codes
        int32, shape (n,), each from -1 to `kinds` - 1.
    wanted
        Codes from 0 to `kinds` - 1, each once.

    Returns
    -------
    list of Array
        int32, padded, one for each wanted code.
    """
    codes = np.ascontiguousarray(codes, np.int32)
    groups = np.zeros(kinds + 1, np.int32)
    groups[np.add(wanted, 1)] = np.arange(1, len(wanted) + 1)
    rows, found = room_for(len(codes) + 1, np.int32), room_for(len(codes) + 1, np.int32)
    count = _select(len(codes), codes, groups, rows, found)
    if len(wanted) == 1:
        return [padded_copy(rows[:count])]
    order, starts = group_rows(found[:count], len(wanted) + 1)
    sorted_rows = padded(count, np.int32)
    np.take(rows, order, out=sorted_rows, mode="clip")
    return [sorted_rows[start:end] for start, end in pairwise(starts[1:].tolist())]


def group_rows(codes: Array, groups: int) -> tuple[Array, Array]:
    """Stable counting sort.

    Parameters
    ----------
    codes
        int32, shape (n,), each from 0 to `groups` - 1.

    Returns
    -------
    order : Array
        int32, shape (n,), padded: the places sorted by code, ascending within a code.
    starts : Array
        int64, shape (groups + 1,): group g is `order[starts[g]:starts[g + 1]]`.
    """
    codes = np.ascontiguousarray(codes, np.int32)
    starts, order = np.zeros(groups + 2, np.int64), padded(len(codes), np.int32)
    _group(len(codes), groups, codes, starts, order)
    return order, starts[:-1]


def gather(values: Array, rows: Array) -> Array:
    """`values[rows]` of 64-bit values by int32 rows, padded."""
    values = np.ascontiguousarray(values)
    out = padded(len(rows), values.dtype)
    _gather(len(rows), values.view(np.int64), rows, out.view(np.int64))
    return out


FEW = 1 << 10
"""Number of points that are searched for one by one in less time than it takes to call a merge."""


def count_before(points: Array, point_starts: Array, values: Array, value_starts: Array, delta: int) -> Array:
    """Return for each point p the place of the first value of its group that is not below p + delta.

    Parameters
    ----------
    points
        int64 or int32, ascending within each group.
    point_starts
        int64, shape (groups + 1,): where each group of points starts.
    values
        Of the same dtype, ascending within each group.
    value_starts
        int64, shape (groups + 1,).
    delta
        Such that no sum with a point overflows.

    Returns
    -------
    Array
        int32, one for each point: a place in `values`, at least the group's start and at most its end.
    """
    if points.dtype != values.dtype:
        raise TypeError(f"points of {points.dtype} do not merge with values of {values.dtype}")
    whole = len(point_starts) == 2
    if whole and len(points) <= FEW:
        return np.asarray(values.searchsorted(points + points.dtype.type(delta)), np.int32)
    out = room_for(len(points), np.int32)
    merge = _merge32 if points.dtype == np.int32 else _merge64
    merge(len(point_starts) - 1, point_starts, points, value_starts, values, delta, out)
    return out


_KERNELS = "cep_pipeline.slices.routine_kernels"
_select = NativeKernel(_KERNELS, "select", ("int64", *["int32*"] * 4))
_group = NativeKernel(_KERNELS, "group", ("int64", "int64", "int32*", "int64*", "int32*"))
_gather = NativeKernel(_KERNELS, "gather", ("int64", "int64*", "int32*", "int64*"))
_merge32, _merge64 = (
    NativeKernel(
        _KERNELS, f"merge{bits}", ("int64", "int64*", f"int{bits}*", "int64*", f"int{bits}*", "int64", "int32*")
    )
    for bits in (32, 64)
)
