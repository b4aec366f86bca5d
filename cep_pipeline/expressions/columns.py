"""Columns of events as NumPy arrays: what the kernels and the vectorized evaluation read.

A column knows its nulls apart from its values, and a string column is a sorted dictionary with codes, so that
strings compare by code point through the integers of their ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.errors import InputError
from cep_pipeline.patterns.expressions import ValueType

Array = np.ndarray[Any, Any]

CLOCK_COLUMNS = ("timestamp", "seq")
"""The int64 columns of every stream that can be referenced like attributes."""


@dataclass(frozen=True, slots=True)
class Column:
    """One attribute of n events (or of n bindings, or of one constant: then n is 1).

    Attributes
    ----------
    type
        Type of the values.
    values
        Shape (n,): int64, float64 or bool; for strings int32 ranks in `dictionary`; for lists the float64
        elements of all rows one after another. Values of null rows are arbitrary.
    valid
        Shape (n,), bool: False where the row is null. None where no row is. NaN is no null.
    dictionary
        For strings: the distinct strings, ascending by code point, shape (k,), dtype object.
    offsets
        For lists: int64 of shape (n + 1,); row i has the elements `values[offsets[i]:offsets[i + 1]]`.
    """

    type: ValueType
    values: Array
    valid: Array | None = None
    dictionary: Array | None = None
    offsets: Array | None = None

    def __post_init__(self) -> None:
        if (self.type is ValueType.STRING) != (self.dictionary is not None):
            raise ValueError("exactly string columns have a dictionary")
        if (self.type is ValueType.FLOAT64_LIST) != (self.offsets is not None):
            raise ValueError("exactly list columns have offsets")

    def __len__(self) -> int:
        return len(self.values) if self.offsets is None else len(self.offsets) - 1

    def take(self, rows: Array | range) -> Column:
        """The column's values at `rows` (not of a list column, whose rows are read where they are).

        Taking a range, of rows that follow each other, copies nothing.
        """
        if self.offsets is not None:
            raise ValueError("a list column is not taken by rows")
        chosen = slice(rows.start, rows.stop) if isinstance(rows, range) else rows
        valid = None if self.valid is None else self.valid[chosen]
        return Column(self.type, self.values[chosen], valid, self.dictionary)


class ColumnSource(Protocol):
    """Anything that gives the columns of a table of events by name."""

    def column(self, name: str) -> Column:
        """The column of attribute `name`, or of `timestamp` or `seq`."""
        ...


class TableColumns:
    """The columns of an events table, each converted on first use."""

    def __init__(self, events: pa.Table) -> None:
        self._events = events
        self._columns: dict[str, Column] = {}

    def __len__(self) -> int:
        return int(self._events.num_rows)

    def column(self, name: str) -> Column:
        """The column `name`.

        Raises
        ------
        InputError
            The table has no such column, or one of a type that no attribute can have.
        """
        if name not in self._columns:
            if name not in self._events.column_names:
                known = ", ".join(self._events.column_names)
                raise InputError(f"the events have no column {name!r}; they have {known}")
            self._columns[name] = column_from_arrow(self._events.column(name), name)
        return self._columns[name]


def one_chunk(array: pa.ChunkedArray | pa.Array) -> pa.Array:
    """An Arrow column in one piece, which is copied where it has several."""
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # combining no chunks at all
        array = pa.array([], array.type)
    return array


def column_from_arrow(array: pa.ChunkedArray | pa.Array, name: str = "column") -> Column:
    """Convert an Arrow column; numbers without nulls in one chunk are not copied.

    Integers widen to int64, float32 to float64, and a timestamp becomes its microseconds since the epoch.

    Raises
    ------
    InputError
        The Arrow type is none that an attribute can have.
    """
    kind = array.type
    if pa.types.is_dictionary(kind):
        if isinstance(array, pa.ChunkedArray):
            array = array.unify_dictionaries()
        if not (pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type)):
            array = array.cast(kind.value_type)
            kind = array.type
    array = one_chunk(array)
    if pa.types.is_dictionary(kind):
        return _string_column(array)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _string_column(array.dictionary_encode())
    if pa.types.is_null(kind):
        raise InputError(f"column {name!r} has the Arrow type null: give it the type that the stream's schema declares")
    valid = _validity(array)
    if pa.types.is_timestamp(kind):
        micros = array.cast(pa.timestamp("us", kind.tz)) if kind.unit != "us" else array
        return Column(ValueType.INT64, _numbers(micros.view(pa.int64()), np.int64), valid)
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return Column(ValueType.INT64, _numbers(array, np.int64), valid)
    if pa.types.is_floating(kind):
        return Column(ValueType.FLOAT64, _numbers(array, np.float64), valid)
    if pa.types.is_boolean(kind):
        values = pc.fill_null(array, False).to_numpy(zero_copy_only=False)
        return Column(ValueType.BOOL, values, valid)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _list_column(array, name, valid)
    raise InputError(
        f"column {name!r} has the Arrow type {kind}; an attribute is int64, float64, bool, string or list<float64>"
    )


def _validity(array: pa.Array) -> Array | None:
    if array.null_count == 0:
        return None
    valid: Array = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _numbers(array: pa.Array, dtype: type[np.generic]) -> Array:
    """The raw values of a primitive array, whatever stands where it is null."""
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array), dtype)
    storage = np.dtype(array.type.to_pandas_dtype())
    raw = np.frombuffer(buffer, storage, len(array), array.offset * storage.itemsize)
    return raw.astype(dtype, copy=False)


def _string_column(array: pa.DictionaryArray) -> Column:
    """Codes renumbered by the rank of their string; equal and null entries of the dictionary are resolved."""
    if array.dictionary.null_count or len(array.dictionary.unique()) < len(array.dictionary):
        array = array.dictionary_decode().dictionary_encode()
    valid = _validity(array)
    codes = _numbers(array.indices if valid is None else array.indices.fill_null(0), np.int32)
    order = pc.array_sort_indices(array.dictionary)  # by UTF-8 bytes, which is by code point
    strings = array.dictionary.take(order).to_numpy(zero_copy_only=False).astype(object)
    ranks = np.empty(len(order), np.int32)
    ranks[order.to_numpy()] = np.arange(len(order), dtype=np.int32)
    same = np.array_equal(ranks, np.arange(len(ranks)))
    return Column(ValueType.STRING, codes if same else ranks[codes], valid, strings)


def _list_column(array: pa.Array, name: str, valid: Array | None) -> Column:
    """Elements and offsets; a null element becomes NaN, which makes every use of its list null just as well."""
    if not pa.types.is_floating(array.type.value_type) and not pa.types.is_integer(array.type.value_type):
        raise InputError(f"column {name!r} has the Arrow type {array.type}; a list attribute is list<float64>")
    offsets = array.offsets.to_numpy().astype(np.int64)
    elements = array.values.cast(pa.float64())
    missing = _validity(elements)
    values = _numbers(elements, np.float64)
    if missing is not None:
        values = np.where(missing, values, np.nan)
    return Column(ValueType.FLOAT64_LIST, values, valid, offsets=offsets)
