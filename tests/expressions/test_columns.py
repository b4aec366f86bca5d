"""Arrow columns as NumPy columns: nulls apart, strings as ranks in a sorted dictionary."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep_pipeline.errors import InputError
from cep_pipeline.expressions.columns import Column, TableColumns, column_from_arrow
from cep_pipeline.patterns.expressions import ValueType


def to_list(column: Column) -> list[object]:
    """The column as Python values, null as None."""
    valid = np.ones(len(column), bool) if column.valid is None else column.valid
    if column.offsets is not None:
        parts = [column.values[a:b].tolist() for a, b in zip(column.offsets[:-1], column.offsets[1:], strict=True)]
    elif column.dictionary is not None:
        parts = [column.dictionary[code] if ok else None for code, ok in zip(column.values, valid, strict=True)]
    else:
        parts = column.values.tolist()
    return [part if ok else None for part, ok in zip(parts, valid, strict=True)]


CHARACTERS = st.characters(codec="utf-8")
COLUMNS = st.sampled_from(
    [
        (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
        (pa.timestamp("us", "UTC"), st.integers(-(2**63), 2**63 - 1)),
        (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
        (pa.float64(), st.floats(allow_nan=False)),
        (pa.float32(), st.floats(width=32, allow_nan=False)),
        (pa.bool_(), st.booleans()),
        (pa.string(), st.text(CHARACTERS, max_size=3)),
        (pa.large_string(), st.text(CHARACTERS, max_size=3)),
        (pa.list_(pa.float64()), st.lists(st.floats(allow_nan=False), max_size=3)),
    ]
)


@st.composite
def chunked(draw: st.DrawFn) -> pa.ChunkedArray:
    kind, values = draw(COLUMNS)
    chunks = draw(st.lists(st.lists(st.one_of(st.none(), values), max_size=5), max_size=3))
    arrays = [pa.array(chunk, pa.int64() if pa.types.is_timestamp(kind) else kind) for chunk in chunks]
    return pa.chunked_array([array.view(kind) if pa.types.is_timestamp(kind) else array for array in arrays], kind)


@given(chunked(), st.integers(0, 3))
def test_values_and_nulls_are_kept(array: pa.ChunkedArray, skipped: int) -> None:
    array = array.slice(min(skipped, len(array)))
    expected = array.cast(pa.int64()) if pa.types.is_timestamp(array.type) else array
    assert to_list(column_from_arrow(array)) == expected.to_pylist()


@given(st.lists(st.lists(st.one_of(st.none(), st.text(CHARACTERS, max_size=2)), max_size=6), max_size=3), st.booleans())
def test_ranks_order_strings_by_code_point(chunks: list[list[str | None]], encoded: bool) -> None:
    arrays = [pa.array(chunk, pa.string()) for chunk in chunks]
    if encoded:
        arrays = [array.dictionary_encode() for array in arrays]
    kind = pa.dictionary(pa.int32(), pa.string()) if encoded else pa.string()
    column = column_from_arrow(pa.chunked_array(arrays, kind))
    assert column.dictionary is not None
    texts = column.dictionary.tolist()
    assert texts == sorted(set(texts))
    assert to_list(column) == [text for chunk in chunks for text in chunk]


def test_dictionary_with_repeated_and_null_entries() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, 3], pa.int8()), pa.array(["z", None, "a", "z"]))
    column = column_from_arrow(array)
    assert to_list(column) == ["z", None, "a", None, "z"]
    assert column.values[0] == column.values[4]


def test_a_null_inside_a_list_becomes_nan() -> None:
    column = column_from_arrow(pa.array([[1.0, None], None, [2.0]]))
    first, second, third = to_list(column)
    assert first[0] == 1.0  # type: ignore[index]
    assert math.isnan(first[1])  # type: ignore[index]
    assert (second, third) == (None, [2.0])


def test_numbers_without_nulls_are_not_copied() -> None:
    values = np.arange(5.0)
    assert np.shares_memory(column_from_arrow(pa.array(values)).values, values)


@pytest.mark.parametrize("array", [pa.array([None]), pa.array([b"x"]), pa.array([[["x"]]]), pa.array([1], pa.uint64())])
def test_other_types_are_refused_by_name(array: pa.Array) -> None:
    with pytest.raises(InputError, match=r"column 'price' has the Arrow type"):
        column_from_arrow(array, "price")


def test_an_unknown_column_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InputError, match=r"no column 'prise'; they have seq, price"):
        TableColumns(pa.table({"seq": [1], "price": [2.0]})).column("prise")


def test_a_string_column_needs_its_dictionary() -> None:
    with pytest.raises(ValueError, match="dictionary"):
        Column(ValueType.STRING, np.zeros(1, np.int32))
