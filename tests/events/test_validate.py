from __future__ import annotations

import functools
import itertools
import json
import math
import pickle
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cep_pipeline.errors import DataError
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.validate import (
    Validation,
    validate,
)
from tests.events.figures import figures_of
from tests.events.raw import trades
from tests.thoroughness import examples

if TYPE_CHECKING:
    import pandas as pd

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
    figures = figures_of(pa.concat_tables(parts or [events(0)]), schema, day)
    return validate(pickle.loads(pickle.dumps(figures)), schema, day, **options)


def test_good_events_pass_and_the_document_says_what_was_looked_at(schema: StreamSchema) -> None:
    validation = validated([events()], schema, DAY)
    validation.require("trades")
    assert (validation.failures, validation.warnings) == ((), ())
    document = json.loads(json.dumps(validation.document))
    assert document["success"] is True
    assert document["statistics"]["events"] == 4
    looked_at = {result["arguments"]["column"]: result["success"] for result in document["results"]}
    rules = [f"{column}_missing" for column in ("timestamp", "symbol", "size")]
    rules += ["timestamp_outside", "price_outside", "price_nan", "price_missing", "size_outside", "rejected_share"]
    assert looked_at == dict.fromkeys(rules, True)
    assert document["profile"]["price_outside"] == 0


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"price": [1.5, 0.0, -2.0, 1.5]}, ["price must be above 0", ": 2 of 4 values are not, such as 0.0, -2.0"]),
        ({"price": [1.5, 1000.5, 1.5, 1.5]}, ["price", "1000.5"]),
        ({"price": [1.5, math.nan, 1.5, 1.5]}, ["price must be a number: 1 of 4 values are not"]),
        ({"symbol": ["SPY", None, "SPY", "SPY"]}, ["symbol must be there: 1 of 4 values are not"]),
        ({"size": pa.array([1, None, 1, 1], pa.int64())}, ["size must be there: 1 of 4"]),
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
    asked = "timestamp must be on 2013-10-07, America/New_York"
    assert validated([late], schema, DAY).failures == (f"{asked}: 1 of 1 values are not, such as 2013-10-08 00:00:00",)
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
    told = {"rejected_examples": [("a.csv", 7, "missing timestamp")]}
    for accepted, rejected in ((99, 1), (0, 0)):
        assert not validated([events(accepted)], schema, DAY, rejected=rejected, **told).failures
    (failure,) = validated([events(98)], schema, DAY, rejected=2, **told).failures
    assert "2 of 100 rows are rejected (2.00%)" in failure
    assert failure.endswith("\n    a.csv:7: missing timestamp\n    … and 1 more")


# -- the checkpoint of Great Expectations ------------------------------------------------------------------------------


def test_a_checkpoint_judges_the_day_and_its_page_is_kept(
    schema: StreamSchema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[Any] = []

    def spied(run: Any, *arguments: Any, **options: Any) -> Any:
        outcomes.append(run(*arguments, **options))
        return outcomes[-1]

    import great_expectations  # in functions: importing it takes seconds, and each process of a run reads this file

    run = great_expectations.Checkpoint.run
    monkeypatch.setattr(great_expectations.Checkpoint, "run", lambda *a, **o: spied(run, *a, **o))
    validated([events()], schema, DAY).require("trades")
    validation = validated([events(price=[1.5, 0.0, -2.0, 1.5])], schema, DAY, data_docs=tmp_path / "docs")
    assert not validation.document["success"]
    assert [outcome.success for outcome in outcomes] == [True, False]
    ((identifier, result),) = outcomes[1].run_results.items()
    (failed,) = (one for one in result.results if not one.success)
    assert failed.expectation_config.kwargs["column"] == "price_outside"
    assert failed.result["observed_value"] == 2
    # the page is what the checkpoint has written of this result
    page = tmp_path.joinpath("docs", "validations", *identifier.to_tuple()).with_suffix(".html")
    assert "price must be above 0" in page.read_text()
    assert {path.name for path in (tmp_path / "docs").iterdir()} == {"index.html", "expectations", "validations"}


@pytest.mark.long
def test_great_expectations_does_not_tell_of_its_own_functions() -> None:
    """A process that begins with Great Expectations logs nothing of "Skipping registering function"."""
    code = """
import logging
logging.basicConfig(level=logging.INFO)
from cep_pipeline.events.validate import start_import
start_import().result()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_data_docs_that_cannot_be_written_do_not_hinder(schema: StreamSchema, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    validation = validated([events()], schema, DAY, data_docs=tmp_path / "file" / "docs")
    assert validation.document == validated([events()], schema, DAY).document


def test_data_docs_are_those_of_the_last_try(schema: StreamSchema, tmp_path: Path) -> None:
    for _ in range(2):
        validated([events()], schema, DAY, data_docs=tmp_path / "docs")
    assert len(list((tmp_path / "docs" / "validations").rglob("*.html"))) == 1


# -- against Great Expectations and pandas over the rows themselves ----------------------------------------------------


def frame_of(table: pa.Table) -> pd.DataFrame:
    """The events as pandas has them."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for name in table.column_names:
        column = table.column(name)
        columns[name] = (column.cast(pa.int64()) if name == "timestamp" else column).to_pandas()
    for name in ("price", "weight"):
        columns[f"{name} is NaN"] = pc.fill_null(pc.is_nan(table.column(name)), False).to_pandas()
    return pd.DataFrame(columns)


@functools.cache
def batch_definition() -> Any:
    import great_expectations

    context = great_expectations.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False, "metric_calculations": False}
    asset = context.data_sources.add_pandas(name="events").add_dataframe_asset(name="day")
    return asset.add_batch_definition_whole_dataframe("part")


def results_of(frame: pd.DataFrame, expectations: Sequence[Any]) -> list[Any]:
    """What Great Expectations says of a frame: whether each expectation holds, how many values are not so, and some."""
    import great_expectations

    batch = batch_definition().get_batch({"dataframe": frame})
    suite = great_expectations.ExpectationSuite(name="events", expectations=list(expectations))
    outcome = batch.validate(suite, result_format={"result_format": "SUMMARY", "partial_unexpected_count": 3})
    results = []
    for result in outcome.to_json_dict()["results"]:
        assert not result["exception_info"].get("raised_exception")
        seen = result["result"]
        shown = [] if "is NaN" in str(result) else seen.get("partial_unexpected_list", [])
        results.append((result["success"], result["expectation_config"]["severity"], seen["unexpected_count"], shown))
    return results


def expected_of() -> list[Any]:
    """The rules of `wide` for values, written out."""
    import great_expectations.expectations as gxe

    between, not_null = gxe.ExpectColumnValuesToBeBetween, gxe.ExpectColumnValuesToNotBeNull
    made: list[Any] = [
        not_null(column=column, severity="critical") for column in ("timestamp", "symbol", "size", "good", "weight")
    ]
    begin = int(datetime(2013, 10, 7, 4, tzinfo=UTC).timestamp()) * 1_000_000
    day = {"min_value": begin, "max_value": begin + 24 * 3600 * 1_000_000, "strict_max": True}
    made.append(between(column="timestamp", **day, severity="critical"))
    made.append(not_null(column="price", severity="warning"))
    made.append(between(column="price", min_value=0.0, strict_min=True, max_value=1000.0, severity="warning"))
    made.append(gxe.ExpectColumnValuesToBeInSet(column="price is NaN", value_set=[False], severity="warning"))
    made.append(between(column="size", min_value=1.0, severity="warning"))
    made.append(between(column="weight", max_value=2.5, strict_max=True, severity="critical"))
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
    document = validated(parts, schema, DAY).document
    rules = [one for one in document["results"] if re.search("_(missing|nan|outside)$", one["arguments"]["column"])]
    shown = [(one["success"], one["severity"], one["unexpected_count"], one["examples"]) for one in rules]
    frame = frame_of(table)
    assert in_order(shown) == in_order(results_of(frame, expected_of()))


def in_order(results: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The results in one order, whether the numbers of the examples are whole ones or the same as floats."""
    return sorted(results, key=lambda one: re.sub(r"\.0\b", "", str(one)))
