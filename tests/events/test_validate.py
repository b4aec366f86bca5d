from __future__ import annotations

import json
import math
import pickle
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cep_pipeline.errors import DataError
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.validate import check_rejected_share, validate
from tests.events.raw import trades

DAY = date(2013, 10, 7)
MORNING = datetime(2013, 10, 7, 12, tzinfo=UTC)


@pytest.fixture
def schema(tmp_path: Path) -> StreamSchema:
    return trades(
        tmp_path,
        key=["symbol", "timestamp", "size"],
        quality={
            "expectations": [
                {"column": "price", "above": 0, "at_most": 1000},
                {"column": "size", "at_least": 1, "severity": "warning"},
                {"column": "price", "not_null": True, "severity": "warning"},
            ],
            "row_count": {"at_least": 0.5, "at_most": 2, "days": 3},
        },
    )


def events(count: int = 4, **columns: Any) -> pa.Table:
    values: dict[str, Any] = {
        "timestamp": pa.array([MORNING + timedelta(seconds=i) for i in range(count)], pa.timestamp("us", tz="UTC")),
        "symbol": ["SPY"] * count,
        "price": pa.array([1.5] * count),
        "size": pa.array([100] * count, pa.int64()),
    }
    return pa.table(values | columns)


def test_good_events_pass_and_the_document_says_what_was_looked_at(schema: StreamSchema) -> None:
    validation = validate([events()], schema, DAY)
    validation.require("trades")
    assert (validation.failures, validation.warnings) == ((), ())
    document = json.loads(json.dumps(validation.document))
    assert document["success"] is True
    assert document["statistics"]["events"] == 4
    looked_at = {(result["expectation"], result["arguments"]["column"]) for result in document["results"]}
    for column in ("timestamp", "symbol", "size"):
        assert ("expect_column_values_to_not_be_null", column) in looked_at
        assert ("expect_column_values_to_be_of_type", column) in looked_at
    assert ("expect_column_values_to_be_between", "timestamp") in looked_at
    assert ("expect_column_values_to_be_between", "price") in looked_at


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"price": [1.5, 0.0, -2.0, 1.5]}, ["price", "2 of 4", "0.0, -2.0"]),
        ({"price": [1.5, 1000.5, 1.5, 1.5]}, ["price", "1000.5"]),
        ({"price": [1.5, math.nan, 1.5, 1.5]}, ["price is NaN", "1 of 4"]),
        ({"symbol": ["SPY", None, "SPY", "SPY"]}, ["symbol", "expect_column_values_to_not_be_null", "1 of 4"]),
        ({"size": pa.array([1, None, 1, 1], pa.int64())}, ["size", "expect_column_values_to_not_be_null"]),
        ({"size": pa.array(["1"] * 4)}, ["size", "expect_column_values_to_be_of_type"]),
    ],
)
def test_critical_expectations_refuse_the_day(schema: StreamSchema, columns: dict[str, Any], said: list[str]) -> None:
    validation = validate([events(**columns)], schema, DAY)
    with pytest.raises(DataError) as caught:
        validation.require("trades")
    message = str(caught.value)
    assert all(text in message for text in (*said, "trades", "2013-10-07"))
    shipped = pickle.loads(pickle.dumps(caught.value))
    assert (str(shipped), shipped.document) == (message, validation.document)
    assert validation.document["success"] is False


def test_timestamps_must_lie_inside_the_day_of_the_zone(schema: StreamSchema) -> None:
    validate([events()], schema, DAY).require("trades")
    for wrong in (date(2013, 10, 6), date(2013, 10, 8)):
        assert any("timestamp" in failure for failure in validate([events()], schema, wrong).failures)
    late = events(1, timestamp=pa.array([datetime(2013, 10, 8, 4, tzinfo=UTC)], pa.timestamp("us", tz="UTC")))
    assert validate([late], schema, DAY).failures
    assert not validate([late], schema, date(2013, 10, 8)).failures


def test_warnings_let_the_day_pass(schema: StreamSchema) -> None:
    validation = validate([events(size=[0, 1, 1, 1], price=[None, 1.0, 1.0, 1.0])], schema, DAY)
    validation.require("trades")
    assert len(validation.warnings) == 2


@pytest.mark.parametrize(("earlier", "warned"), [([8, 8], False), ([9], True), ([1], True), ([100, 4, 4, 5], False)])
def test_the_row_count_is_compared_with_the_median_of_the_last_days(
    schema: StreamSchema, earlier: list[int], warned: bool
) -> None:
    validation = validate([events()], schema, DAY, earlier_row_counts=earlier)
    validation.require("trades")
    assert bool(validation.warnings) is warned


def test_an_empty_day_is_compared_too(schema: StreamSchema) -> None:
    [warning] = validate([], schema, DAY, earlier_row_counts=[4000]).warnings
    assert warning == "the day has 0 events; earlier days let expect 2,000 to 8,000"
    assert not validate([], schema, DAY).warnings


def test_parts_of_a_day_add_up(schema: StreamSchema) -> None:
    good, bad = events(), events(3, price=[0.0, 1.5, -1.0])
    validation = validate([good, bad], schema, DAY, earlier_row_counts=[7])
    assert validation.warnings == ()
    (failure,) = validation.failures
    assert "2 of 7" in failure
    assert validation.document["statistics"]["events"] == 7


def test_the_rejected_share(schema: StreamSchema) -> None:
    examples = [("a.csv", 7, "missing timestamp")]
    check_rejected_share(schema, DAY, 99, 1, examples)
    check_rejected_share(schema, DAY, 0, 0, [])
    with pytest.raises(DataError) as caught:
        check_rejected_share(schema, DAY, 98, 2, examples)
    assert "2 of 100 rows are rejected (2.00%)" in str(caught.value)
    assert "a.csv:7: missing timestamp" in str(caught.value)
    assert "1 more" in str(caught.value)
