from __future__ import annotations

import functools
import itertools
import json
import math
import pickle
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import great_expectations
import great_expectations.expectations as gxe
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cep_pipeline.errors import DataError
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.validate import Figures, Validation, check_rejected_share, figures_of, validate
from tests.events.raw import trades
from tests.thoroughness import examples

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


def validated(parts: Sequence[pa.Table], schema: StreamSchema, day: date, **options: Any) -> Validation:
    """Validate a day whose events are counted in parts."""
    figures = sum((figures_of(part, schema, day) for part in parts), Figures())
    return validate(pickle.loads(pickle.dumps(figures)), schema, day, **options)


def test_good_events_pass_and_the_document_says_what_was_looked_at(schema: StreamSchema) -> None:
    validation = validated([events()], schema, DAY)
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
        ({"price": [1.5, math.nan, 1.5, 1.5]}, ["price is NaN for 1 of 4 values, and has bounds"]),
        ({"symbol": ["SPY", None, "SPY", "SPY"]}, ["symbol", "expect_column_values_to_not_be_null", "1 of 4"]),
        ({"size": pa.array([1, None, 1, 1], pa.int64())}, ["size", "expect_column_values_to_not_be_null"]),
        ({"size": pa.array(["1"] * 4)}, ["size", "expect_column_values_to_be_of_type"]),
    ],
)
def test_critical_expectations_refuse_the_day(schema: StreamSchema, columns: dict[str, Any], said: list[str]) -> None:
    validation = validated([events(**columns)], schema, DAY)
    with pytest.raises(DataError) as caught:
        validation.require("trades")
    message = str(caught.value)
    assert all(text in message for text in (*said, "trades", "2013-10-07"))
    shipped = pickle.loads(pickle.dumps(caught.value))
    assert (str(shipped), shipped.document) == (message, validation.document)
    assert validation.document["success"] is False


def test_timestamps_must_lie_inside_the_day_of_the_zone(schema: StreamSchema) -> None:
    validated([events()], schema, DAY).require("trades")
    for wrong in (date(2013, 10, 6), date(2013, 10, 8)):
        assert any("timestamp" in failure for failure in validated([events()], schema, wrong).failures)
    late = events(1, timestamp=pa.array([datetime(2013, 10, 8, 4, tzinfo=UTC)], pa.timestamp("us", tz="UTC")))
    assert validated([late], schema, DAY).failures
    assert not validated([late], schema, date(2013, 10, 8)).failures


def test_warnings_let_the_day_pass(schema: StreamSchema) -> None:
    validation = validated([events(size=[0, 1, 1, 1], price=[None, 1.0, 1.0, 1.0])], schema, DAY)
    validation.require("trades")
    assert len(validation.warnings) == 2


@pytest.mark.parametrize(("earlier", "warned"), [([8, 8], False), ([9], True), ([1], True), ([100, 4, 4, 5], False)])
def test_the_row_count_is_compared_with_the_median_of_the_last_days(
    schema: StreamSchema, earlier: list[int], warned: bool
) -> None:
    validation = validated([events()], schema, DAY, earlier_row_counts=earlier)
    validation.require("trades")
    assert bool(validation.warnings) is warned


def test_an_empty_day_is_compared_too(schema: StreamSchema) -> None:
    [warning] = validated([], schema, DAY, earlier_row_counts=[4000]).warnings
    assert warning == "the day has 0 events; earlier days let expect 2,000 to 8,000"
    assert not validated([], schema, DAY).warnings


def test_parts_of_a_day_add_up(schema: StreamSchema) -> None:
    good, bad = events(), events(3, price=[0.0, 1.5, -1.0])
    validation = validated([good, bad], schema, DAY, earlier_row_counts=[7])
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


# -- against Great Expectations over the rows themselves ---------------------------------------------------------------


def frame_of(table: pa.Table) -> pd.DataFrame:
    """The events as pandas has them; nulls keep an integer or bool column from having its type."""
    columns: dict[str, Any] = {}
    for name in table.column_names:
        column = table.column(name)
        if name == "timestamp":
            column = column.cast(pa.timestamp("us")).cast(pa.int64())
        elif pa.types.is_string(column.type):
            column = column.dictionary_encode().unify_dictionaries()
        columns[name] = column.to_pandas()
    for name in ("price", "weight"):
        not_a_number = pc.fill_null(pc.is_nan(table.column(name)), False)
        if pc.any(not_a_number).as_py():
            columns[f"{name} is NaN"] = not_a_number.to_pandas()
    return pd.DataFrame(columns)


@functools.cache
def batch_definition() -> Any:
    context = great_expectations.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False, "metric_calculations": False}
    asset = context.data_sources.add_pandas(name="events").add_dataframe_asset(name="day")
    return asset.add_batch_definition_whole_dataframe("part")


def results_of(frame: pd.DataFrame, expectations: Sequence[Any]) -> list[dict[str, Any]]:
    """The results of a document, from one validation of a frame."""
    batch = batch_definition().get_batch({"dataframe": frame})
    suite = great_expectations.ExpectationSuite(name="events", expectations=list(expectations))
    outcome = batch.validate(suite, result_format={"result_format": "SUMMARY", "partial_unexpected_count": 3})
    results = []
    for result in outcome.to_json_dict()["results"]:
        assert not result["exception_info"].get("raised_exception")
        configuration, seen = result["expectation_config"], result["result"]
        kwargs = configuration["kwargs"].items()
        results.append(
            {
                "expectation": configuration["type"],
                "arguments": {name: value for name, value in kwargs if name != "batch_id" and value is not None},
                "severity": configuration["severity"],
                "success": result["success"],
                "element_count": seen.get("element_count", 0),
                "unexpected_count": seen.get("unexpected_count", 0),
                "examples": seen.get("partial_unexpected_list", []),
                "observed": seen.get("observed_value"),
            }
        )
    return results


def expected_of(frame: pd.DataFrame) -> list[Any]:
    """The expectations of `wide`, written out."""
    between, not_null, of_type = (
        gxe.ExpectColumnValuesToBeBetween,
        gxe.ExpectColumnValuesToNotBeNull,
        gxe.ExpectColumnValuesToBeOfType,
    )
    types = {
        "timestamp": "int64",
        "symbol": "CategoricalDtypeType",
        "size": "int64",
        "good": "bool",
        "weight": "float64",
    }
    made: list[Any] = []
    for column, kind in types.items():
        made.append(not_null(column=column, severity="critical"))
        made.append(of_type(column=column, type_=kind, severity="critical"))
    begin = int(datetime(2013, 10, 7, 4, tzinfo=UTC).timestamp()) * 1_000_000
    day = {"min_value": begin, "max_value": begin + 24 * 3600 * 1_000_000, "strict_max": True}
    made.append(between(column="timestamp", **day, severity="critical"))
    made.append(not_null(column="price", severity="warning"))
    made.append(between(column="price", min_value=0.0, strict_min=True, max_value=1000.0, severity="warning"))
    if "price is NaN" in frame:
        made.append(gxe.ExpectColumnValuesToBeInSet(column="price is NaN", value_set=[False], severity="warning"))
    made.append(between(column="size", min_value=1.0, severity="warning"))
    made.append(between(column="weight", max_value=2.5, strict_max=True, severity="critical"))
    if "weight is NaN" in frame:
        made.append(gxe.ExpectColumnValuesToBeInSet(column="weight is NaN", value_set=[False], severity="critical"))
    return made


def wide(folder: Path) -> StreamSchema:
    return trades(
        folder,
        attributes={"symbol": "string", "price": "float64", "size": "int64", "good": "bool", "weight": "float64"},
        derived=None,
        key=["symbol", "size", "good", "weight"],
        quality={
            "expectations": [
                {"column": "price", "above": 0, "at_most": 1000, "not_null": True, "severity": "warning"},
                {"column": "size", "at_least": 1, "severity": "warning"},
                {"column": "weight", "below": 2.5},
            ]
        },
    )


floats = st.sampled_from([None, math.nan, -1.0, 0.0, 1.0, 2.5, 1000.0, 1000.5])
rows_of_a_day = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 24 * 3600 - 1, 24 * 3600, -1]),
        st.sampled_from(["SPY", "IBM", None]),
        floats,
        st.sampled_from([None, 0, 1, 2**40, -(2**40)]),
        st.sampled_from([True, False, None]),
        floats,
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=rows_of_a_day, cuts=st.sets(st.integers(0, 12)))
def test_counts_of_parts_are_judged_as_all_rows_are(
    tmp_path: Path, rows: list[tuple[Any, ...]], cuts: set[int]
) -> None:
    schema = wide(tmp_path)
    begin = datetime(2013, 10, 7, 4, tzinfo=UTC)
    seconds, symbols, prices, sizes, goods, weights = zip(*rows, strict=True)
    table = pa.table(
        {
            "timestamp": pa.array([begin + timedelta(seconds=one) for one in seconds], pa.timestamp("us", tz="UTC")),
            "symbol": pa.array(symbols, pa.string()),
            "price": pa.array(prices, pa.float64()),
            "size": pa.array(sizes, pa.int64()),
            "good": pa.array(goods, pa.bool_()),
            "weight": pa.array(weights, pa.float64()),
        }
    )
    bounds = [0, *sorted(cut for cut in cuts if cut < len(rows)), len(rows)]
    parts = [table.slice(one, other - one) for one, other in itertools.pairwise(bounds)]
    frame = frame_of(table)
    assert json.dumps(validated(parts, schema, DAY).document["results"]) == json.dumps(
        results_of(frame, expected_of(frame))
    )
