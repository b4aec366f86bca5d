from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.events.casting import cast_checked_to
from tests.thoroughness import examples


def is_int64(text: str) -> bool:
    return text.strip().lstrip("-").isdigit() and -(2**63) <= int(text) < 2**63 and text.strip().count("-") < 2


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.one_of(st.none(), st.sampled_from(["1", "-5", "x", "", "9" * 30, " 7 ", "1.0"])), max_size=40))
def test_exactly_the_values_that_do_not_fit_fail(texts: list[str | None]) -> None:
    values, failed = cast_checked_to(pa.array(texts, pa.string()), pa.int64())
    assert failed.tolist() == [text is not None and not is_int64(text) for text in texts]
    assert values.to_pylist() == [int(t) if t is not None and is_int64(t) else None for t in texts]


@pytest.mark.parametrize(
    ("column", "target", "expected"),
    [
        (pa.array([1, 2], pa.int16()), pa.int64(), [1, 2]),
        (pa.array([1.5], pa.float32()), pa.float64(), [1.5]),
        (pa.array([2**63, 5], pa.uint64()), pa.int64(), [None, 5]),
        (pa.array([1.5, 2.0, None]), pa.int64(), [None, 2, None]),
        (pa.array([158324]), pa.string(), ["158324"]),
        (pa.array(["true", "FALSE", "maybe"]), pa.bool_(), [True, False, None]),
        (pa.array([[1], None]), pa.int64(), [None, None]),
    ],
)
def test_types_of_parquet_widen_and_do_not_narrow(column: pa.Array, target: pa.DataType, expected: list) -> None:
    values, failed = cast_checked_to(column, target)
    assert values.type == target
    assert values.to_pylist() == expected
    assert failed.tolist() == [a is None and b is not None for a, b in zip(expected, column.to_pylist(), strict=True)]
