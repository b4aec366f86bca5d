"""Split, sort, merge and gather against NumPy; the split by type; float64 columns that compare like their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.errors import InputError
from cep_pipeline.expressions.columns import Column
from cep_pipeline.expressions.comparison import compare
from cep_pipeline.patterns.conditions import Comparator
from cep_pipeline.patterns.expressions import ValueType
from cep_pipeline.slices import routines
from cep_pipeline.slices.keys import comparable, dense_codes
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.routines import (
    PADDING,
    count_before,
    gather,
    group_rows,
    is_padded,
    padded,
    padded_copy,
    select_codes,
)
from tests.streams import EDGE_FLOATS, EDGE_INTEGERS

UNHURRIED = settings(deadline=None)
"""The first call compiles."""


@UNHURRIED
@given(st.lists(st.integers(-1, 6), max_size=100))
def test_select_codes(codes: list[int]) -> None:
    array = np.array(codes, np.int32)
    for code, rows in zip((3, 0, 6, 99), select_codes(array, 100, [3, 0, 6, 99]), strict=True):
        assert rows.tolist() == np.flatnonzero(array == code).tolist()


@UNHURRIED
@given(st.lists(st.integers(0, 6), max_size=100))
def test_group_rows(codes: list[int]) -> None:
    array = np.array(codes, np.int32)
    order, starts = group_rows(array, 8)
    assert order.tolist() == np.argsort(array, kind="stable").tolist()
    assert starts.tolist() == np.searchsorted(np.sort(array), np.arange(9)).tolist()


@UNHURRIED
@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 60), max_size=40), st.lists(st.integers(0, 60), max_size=60)), max_size=4
    ),
    st.integers(-70, 70),
    st.sampled_from([np.int64, np.int32]),
)
def test_count_before(groups: list[tuple[list[int], list[int]]], delta: int, dtype: Any) -> None:
    points, values = [np.array(sorted(p), dtype) for p, _ in groups], [np.array(sorted(v), dtype) for _, v in groups]
    starts = [np.cumsum([0, *map(len, parts)], dtype=np.int64) for parts in (points, values)]
    together = [padded_copy(np.concatenate([np.empty(0, dtype), *parts])) for parts in (points, values)]
    counted = count_before(together[0], starts[0], together[1], starts[1], delta)
    wanted = [
        start + np.searchsorted(v, p + dtype(delta)) for p, v, start in zip(points, values, starts[1][:-1], strict=True)
    ]
    assert counted.tolist() == np.concatenate([np.empty(0, np.int64), *wanted]).tolist()


@UNHURRIED
@given(
    st.lists(st.tuples(st.sampled_from([0, 1, 70, 500]), st.sampled_from([0, 3, 400])), min_size=1, max_size=9),
    st.integers(-300, 300),
    st.integers(0, 9),
    st.sampled_from([64, routines.FEW]),
)
def test_count_before_in_runs_that_begin_within_groups(
    sizes: list[tuple[int, int]], delta: int, seed: int, few: int
) -> None:
    drawn = np.random.default_rng(seed)
    lists = [[np.sort(drawn.integers(0, 1000, size)) for size in pair] for pair in sizes]
    groups = [(points.tolist(), values.tolist()) for points, values in lists]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routines, "FEW", few)
        test_count_before.hypothesis.inner_test(groups, delta, np.int64)


def test_count_before_needs_clocks_of_one_kind() -> None:
    one = np.array([0, 1], np.int64)
    with pytest.raises(TypeError, match="int32"):
        count_before(padded(1, np.int32), one, padded(1, np.int64), one, 0)


@UNHURRIED
@given(st.lists(st.integers(0, 9), max_size=50))
def test_gather(rows: list[int]) -> None:
    values = np.arange(10) * 1.5
    taken = gather(values, np.array(rows, np.int32))
    assert taken.tolist() == values[rows].tolist()
    assert is_padded(taken)
    assert not is_padded(np.ones(10)[:-1])


EDGES = [
    Column(ValueType.INT64, np.array([*EDGE_INTEGERS, 0, 1, 5], np.int64), np.arange(len(EDGE_INTEGERS) + 3) != 9),
    Column(ValueType.FLOAT64, np.array([*EDGE_FLOATS, 1.0, 5.0])),
    Column(ValueType.INT64, np.array([3, 0, -1])),
]


@pytest.mark.parametrize("left", EDGES)
@pytest.mark.parametrize("right", EDGES)
@pytest.mark.parametrize("comparator", list(Comparator))
def test_numbers_compare_as_floats_exactly_as_they_are(left: Column, right: Column, comparator: Comparator) -> None:
    operators = {"=": np.equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
    x, y = comparable([left, right])
    for i in range(len(left)):
        one, rows = np.full(len(right), i), np.arange(len(right))
        truth = compare(comparator, left.take(one), right.take(rows))
        if comparator is Comparator.NE:
            assert ((x[i] < y) | (x[i] > y)).tolist() == truth.tolist()
        else:
            assert operators[comparator.value](x[i], y).tolist() == truth.tolist()


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(-5, 5)), min_size=1, max_size=30))
def test_dense_codes_of_integers(values: list[int | None]) -> None:
    missing = np.array([value is None for value in values])
    codes, groups = dense_codes(np.array([value or 0 for value in values], np.int64), missing)
    assert (codes < groups).all()
    assert (codes >= 0).tolist() == (~missing).tolist()
    for one, code in zip(values, codes, strict=True):
        for other, another in zip(values, codes, strict=True):
            assert (code == another) == (one == other)


def test_dense_codes_know_one_zero_and_no_nan() -> None:
    values = np.array([0.0, -0.0, np.nan, 1.5, 1.5])
    codes, groups = dense_codes(values, np.isnan(values))
    assert codes[0] == codes[1] != codes[3] == codes[4]
    assert codes[2] == -1
    assert groups == 2


def table_of(types: pa.Array | pa.ChunkedArray) -> pa.Table:
    count = len(types)
    return pa.table({"timestamp": pa.array(range(count), pa.int64()), "seq": pa.array(range(count)), "kind": types})


def some_types() -> list[pa.Array | pa.ChunkedArray]:
    names = [f"T{place % 13}" if place % 7 else None for place in range(90)]
    strings = pa.array(names, pa.string())
    doubled = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, 3, None, 1, 0, 3] * 4), pa.array(["T1", "T2", "T1", None])
    )
    return [
        strings,
        strings.dictionary_encode(),
        pa.chunked_array([strings[:40].dictionary_encode(), strings[40:].dictionary_encode()]),
        doubled,
        pa.array([place % 3 for place in range(40)]),
        pa.array([], pa.string()),
        pa.chunked_array([], pa.string()),
        strings.slice(5, 50).dictionary_encode().slice(3),
    ]


@pytest.mark.parametrize("types", some_types())
@pytest.mark.parametrize("wanted", [["T1", "T2", "none", "Ev", "1"], [f"T{place}" for place in range(13)]])
def test_leaves_are_the_rows_of_their_type(types: Any, wanted: list[str]) -> None:
    events = PreparedEvents(table_of(types), type_attribute="kind", base_type="Ev")
    texts = [None if value is None else str(value) for value in types.to_pylist()]
    events.split(wanted)
    for name in wanted:
        rows = [row for row, text in enumerate(texts) if name in (text, "Ev")]
        assert events.leaf_rows(name).tolist() == rows
        assert events.leaf_rows(name).dtype == np.int32


@pytest.mark.parametrize("types", some_types())
@pytest.mark.parametrize("wanted", [("T1", "T2"), ("T3", "none"), ("none", "2"), ("T1", "Ev")])
def test_alternatives_have_the_rows_of_each_type(types: Any, wanted: tuple[str, ...]) -> None:
    events = PreparedEvents(table_of(types), type_attribute="kind", base_type="Ev")
    texts = [None if value is None else str(value) for value in types.to_pylist()]
    expected = [row for row, text in enumerate(texts) if "Ev" in wanted or text in wanted]
    events.split([wanted, "T1"])
    assert events.leaf_rows(wanted).tolist() == expected
    assert events.leaf_rows(wanted).dtype == np.int32


def test_rows_before_a_boundary() -> None:
    table = pa.table({"timestamp": pa.array([0, 5, 5, 5, 9]), "seq": pa.array([3, 0, 4, 8, 1]), "kind": ["A"] * 5})
    events = PreparedEvents(table, type_attribute="kind")
    points = [(-1, 9), (0, 3), (0, 4), (5, 0), (5, 4), (5, 5), (5, 9), (9, 1), (9, 2), (10, 0)]
    assert [events.rows_before(point) for point in points] == [0, 0, 1, 1, 2, 3, 4, 4, 5, 5]


def test_derived_arrays_are_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cep_pipeline.slices.prepared.KEPT_BYTES", 8000)
    events = PreparedEvents(table_of(pa.array(["A"])), type_attribute="kind")
    made = []

    def derive(key: int) -> Any:
        return events.derive(key, lambda: (made.append(key), [np.zeros(400, np.int64)])[1])

    for key in (1, 2, 1, 3, 1, 2):
        derive(key)
    assert made == [1, 2, 3, 2]


def test_a_table_without_its_columns_is_refused() -> None:
    with pytest.raises(InputError, match="'seq'"):
        PreparedEvents(pa.table({"timestamp": [1]}), type_attribute="kind")


def test_padding_covers_a_vector() -> None:
    assert PADDING >= 16
