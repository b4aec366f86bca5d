"""Running aggregates equal the oracle's aggregate of every beginning of a list, in value and type."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.expressions.columns import Column, column_from_arrow
from cep_pipeline.expressions.lists import running
from cep_pipeline.language.conditions import type_of_aggregate
from cep_pipeline.patterns.expressions import Aggregate, ValueType
from tests.answers import comparable_value
from tests.oracle.values import aggregate
from tests.thoroughness import examples

INTEGERS = st.none() | st.integers(-4, 4) | st.sampled_from([2**63 - 1, -(2**63), 2**62, 2**53 + 1, -(2**53) - 1])
FLOATS = st.none() | st.floats(allow_subnormal=True) | st.sampled_from([0.0, -0.0, 1e308, -1e308, 0.1, 0.2, 0.3])
STRINGS = st.none() | st.sampled_from(["", "p", "é", "\U0001f600", "\uffff", "zz"])


def some_lists(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[list[Any]]]:
    return st.lists(st.lists(values, min_size=1, max_size=9), min_size=1, max_size=5)


def values_of(column: Column) -> list[Any]:
    valid = np.ones(len(column), dtype=bool) if column.valid is None else column.valid
    pairs = zip(column.values.tolist(), valid.tolist(), strict=True)
    values = [value if present else None for value, present in pairs]
    if column.dictionary is None:
        return values
    return [None if code is None else column.dictionary[code] for code in values]


@pytest.mark.parametrize(
    ("kind", "arrow", "elements", "functions"),
    [
        (ValueType.INT64, pa.int64(), INTEGERS, ("count", "sum", "avg", "min", "max", "median")),
        (ValueType.FLOAT64, pa.float64(), FLOATS, ("count", "sum", "avg", "min", "max", "median")),
        (ValueType.STRING, pa.string(), STRINGS, ("count", "min", "max")),
    ],
)
@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_every_beginning_has_the_aggregate_of_the_oracle(
    kind: ValueType, arrow: pa.DataType, elements: st.SearchStrategy[Any], functions: tuple[str, ...], data: Any
) -> None:
    lists = data.draw(some_lists(elements))
    function = data.draw(st.sampled_from(functions))
    column = column_from_arrow(pa.array([value for values in lists for value in values], arrow))
    offsets = np.array([0, *accumulate(map(len, lists))], np.int64)
    node = Aggregate(function, "v", "x", function == "median", type_of_aggregate(function, kind))
    found = running(node, column, np.arange(len(column)), offsets)
    expected = [aggregate(function, values[: end + 1]) for values in lists for end in range(len(values))]
    if function == "median":
        expected = [None if value is None else float(value) for value in expected]
    assert found.type is node.type
    assert list(map(comparable_value, values_of(found))) == list(map(comparable_value, expected))


@pytest.mark.parametrize(("arrow", "elements"), [(pa.int64(), INTEGERS), (pa.float64(), FLOATS)])
@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
def test_the_median_of_a_list_is_the_last_of_its_beginnings(
    arrow: pa.DataType, elements: st.SearchStrategy[Any], data: Any
) -> None:
    lists = data.draw(some_lists(elements))
    column = column_from_arrow(pa.array([value for values in lists for value in values], arrow))
    offsets = np.array([0, *accumulate(map(len, lists))], np.int64)
    nodes = (Aggregate("median", "v", "x", prefix, ValueType.FLOAT64) for prefix in (False, True))
    whole, so_far = (values_of(running(node, column, np.arange(len(column)), offsets)) for node in nodes)
    ends = offsets[1:] - 1
    assert [comparable_value(whole[end]) for end in ends] == [comparable_value(so_far[end]) for end in ends]


@pytest.mark.parametrize(
    ("arrow", "elements"),
    [
        (pa.int64(), INTEGERS),
        (
            pa.float64(),
            st.none() | st.floats(-8e307, 8e307) | st.sampled_from([1e308, -1e308, 0.1, 0.2, 0.3, float("nan")]),
        ),
    ],
)
@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
def test_the_deviation_of_every_beginning_is_near_that_of_the_oracle(
    arrow: pa.DataType, elements: st.SearchStrategy[Any], data: Any
) -> None:
    lists = data.draw(some_lists(elements))
    column = column_from_arrow(pa.array([value for values in lists for value in values], arrow))
    offsets = np.array([0, *accumulate(map(len, lists))], np.int64)
    node = Aggregate("stddev", "v", "x", True, ValueType.FLOAT64)
    found = values_of(running(node, column, np.arange(len(column)), offsets))
    expected = [aggregate("stddev", values[: end + 1]) for values in lists for end in range(len(values))]
    for one, other in zip(found, expected, strict=True):
        assert one == other or one == pytest.approx(other, rel=1e-9, abs=0.0, nan_ok=True)


@pytest.mark.parametrize(
    ("values", "deviation"),
    [
        ([1, 2, 3], 1.0),
        ([3, 1, 1, 1], 1.0),
        ([0.1, 0.1, 0.1], 0.0),
        ([2**63 - 1, 2**63 - 1], 0.0),
        ([7], None),
        ([0.0, 2e-200], 2e-200 / math.sqrt(2)),
        ([1e308, 0.0, 1e308], 1e308 / math.sqrt(3)),
    ],
)
def test_deviations_of_equal_or_small_values_are_exact(values: list[Any], deviation: float | None) -> None:
    column = column_from_arrow(pa.array(values))
    node = Aggregate("stddev", "v", "x", False, ValueType.FLOAT64)
    found = running(node, column, np.arange(len(values)), np.array([0, len(values)], np.int64))
    assert values_of(found)[-1] == (None if deviation is None else pytest.approx(deviation, rel=1e-15, abs=0.0))
