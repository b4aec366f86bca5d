"""Attributes that are times: read, compared, returned as times, published, and composed."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from unittest.mock import patch
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

import cep_pipeline as cep
from cep_pipeline.detection.matches import UTC_MICROSECONDS
from cep_pipeline.errors import InputError
from cep_pipeline.spark.matching import match
from tests.pipeline.project import MONDAY, SCHEMA, Project, make_project

ZONE = ZoneInfo("America/New_York")
TIMES = SCHEMA.replace(
    "attributes: {kind: string, x: int64}",
    'attributes: {kind: string, x: int64, due: timestamp, paid: {type: timestamp, format: "%d.%m.%Y", timezone: UTC}}',
).replace("max_rejected_share: 0.5", "max_rejected_share: 0.7")
ROWS = [
    "09:00:00,A,1,2024-03-04 12:00,05.03.2024",
    "09:10:00,B,2,2024-03-04T14:05:00Z,",
    "09:20:00,B,3,,06.03.2024",
    "09:30:00,A,4,tomorrow,06.03.2024",
    "09:40:00,A,5,2024-03-10 02:30,",
]
LATE = "NAME late PATTERN SEQ(A a, B b) WHERE a.due > b.timestamp AND time_of_day(a.due) = 43200000000 WITHIN 1 hour"
RETURNED = f"{LATE} RETURN a.due AS due, coalesce(b.due, a.due) - b.timestamp AS rest, b.paid AS paid"
AGAIN = "NAME again PATTERN SEQ(late x, B y) WHERE x.due > y.timestamp WITHIN 1 hour RETURN x.due AS due"
COMPOSED = f"{RETURNED};\n{AGAIN}"


@pytest.fixture
def project(tmp_path: Path, spark: SparkSession) -> Project:
    project = make_project(tmp_path, spark)
    (tmp_path / "ticks.yaml").write_text(TIMES)
    (tmp_path / "all.sase").write_text(COMPOSED)
    lines = [f"{MONDAY} {row}" for row in ROWS]
    (tmp_path / "raw" / f"{MONDAY}.csv").write_text("\n".join(["time,kind,x,due,paid", *lines, ""]))
    return project


def local(hour: int, minute: int = 0) -> datetime:
    return datetime(2024, 3, 4, hour, minute, tzinfo=ZONE)


def us(moment: datetime) -> int:
    return round(moment.timestamp()) * 1_000_000


def test_they_are_published_and_returned_as_times(project: Project) -> None:
    project.run().run_days([MONDAY])
    events = project.tables().read_events()
    assert events.schema.field("due").type == UTC_MICROSECONDS
    assert events["due"].to_pylist() == [local(12), local(9, 5), None]
    assert events["paid"].to_pylist() == [datetime(2024, 3, 5, tzinfo=UTC), None, datetime(2024, 3, 6, tzinfo=UTC)]
    reasons = project.tables().read_quarantine()["reason"].to_pylist()
    assert "'tomorrow' is no timestamp" in reasons[0] and "column 'due'" in reasons[0]
    assert "does not exist in America/New_York" in reasons[1]
    matches = project.tables().read_matches("all")
    first, second, again = (json.loads(text) for text in matches["returns"].to_pylist())
    assert first == {"due": "2024-03-04 17:00:00.000000Z", "rest": us(local(9, 5)) - us(local(9, 10)), "paid": None}
    assert second["paid"] == "2024-03-06 00:00:00.000000Z"
    assert again == {"due": first["due"]}


def test_they_are_returned_as_times_from_files(project: Project) -> None:
    schema = cep.StreamSchema.load(project.folder / "ticks.yaml")
    with pytest.warns(cep.DataWarning, match="2 rows rejected"):
        events = cep.read(schema, project.folder / "raw" / f"{MONDAY}.csv")
    (late, *_) = patterns = cep.parse_patterns(COMPOSED, schema)
    found = cep.detect([late], events).to_arrow()
    assert found.schema.field("due").type == found.schema.field("paid").type == UTC_MICROSECONDS
    assert found["due"].to_pylist() == [local(12)] * 2
    with patch("cep_pipeline.detection.outputs._listed_up_to", lambda *_: None):  # few matches would be listed
        packed = cep.detect([late], events, output="compressed")["late"]
    opened = cep.expand(packed).read_all()
    assert opened.select(["due", "paid"]).equals(found.select(["due", "paid"]))
    assert len(cep.detect(patterns, events)["again"]) == 1


def test_summarize_has_them_as_times(project: Project) -> None:
    text = "NAME s PATTERN A a WITHIN 1 hour SUMMARIZE min(a.due) AS first, avg(a.due) AS mean GROUP BY a.paid AS paid"
    schema = cep.StreamSchema.load(project.folder / "ticks.yaml")
    with pytest.warns(cep.DataWarning, match="2 rows rejected"):
        events = cep.read(schema, project.folder / "raw" / f"{MONDAY}.csv")
    rows = cep.detect(cep.parse_patterns(text, schema), events)["s"]
    assert [rows.schema.field(name).type for name in ("paid", "first")] == [UTC_MICROSECONDS] * 2
    expected = {"paid": datetime(2024, 3, 5, tzinfo=UTC), "first": local(12), "mean": float(us(local(12)))}
    assert rows.drop_columns("pattern").to_pylist() == [expected]
    (project.folder / "all.sase").write_text(text)
    project.run().run_days([MONDAY])
    assert project.tables().summary_of("all", *cep.parse_patterns(text, schema)).table().equals(rows)
    [groups] = project.tables().read_summaries("all", MONDAY, MONDAY)["groups"].to_pylist()
    assert json.loads(groups) == {"paid": "2024-03-05 00:00:00.000000Z"}


def test_explanations_write_them_by_the_clock(project: Project) -> None:
    schema = cep.StreamSchema.load(project.folder / "ticks.yaml")
    with pytest.warns(cep.DataWarning, match="2 rows rejected"):
        events = cep.read(schema, project.folder / "raw" / f"{MONDAY}.csv")
    late, again = cep.parse_patterns(COMPOSED, schema)
    first, second, third = events["seq"].to_pylist()
    explained = cep.why(late, events, {"a": first, "b": second}, timezone="America/New_York")
    assert (
        dict(zip(explained.event_columns, explained.event_rows()[0], strict=True))["due"] == "2024-03-04 12:00:00.000"
    )
    assert "a 2024-03-04 09:00:00.000 A due 2024-03-04 12:00:00.000" in explained.named_events()
    seen = {check.text: check.seen for check in explained.checks}
    assert seen["a.due > b.timestamp"] == "2024-03-04 12:00:00.000 > 2024-03-04 09:10:00.000"
    assert seen["time_of_day(a.due) = 43200000000"] == "43200000000 = 43200000000"
    ids = cep.detect([late], events)["late"]["match_id"].to_pylist()
    inside = cep.why(again, events, {"x": str(ids[0]), "y": third}, timezone="America/New_York")
    assert inside.event_rows()[0][-1] == "2024-03-04 12:00:00.000"


def test_rows_and_frames_have_them_as_text_datetimes_or_numbers() -> None:
    schema = cep.StreamSchema.from_dict(
        {"base_type": "T", "attributes": {"due": "timestamp"}, "timezone": "America/New_York"}
    )
    given = [local(12), "2024-03-04 12:00", us(local(12))]
    rows = [{"timestamp": place, "due": due} for place, due in enumerate(given)]
    events = schema.table(rows)
    assert events["due"].to_pylist() == [local(12)] * 3
    dated = schema.table([{"timestamp": place, "due": due} for place, due in enumerate((date(2024, 3, 4), pd.NaT))])
    assert dated["due"].to_pylist() == [local(0), None]
    frame = pa.table({"timestamp": [0, 1], "due": pa.array([us(local(12)), None], pa.int64())})
    assert cep.read(schema, frame)["due"].to_pylist() == [local(12), None]
    with pytest.raises(InputError, match=r"row 0: due: 'noon' is no time of ISO 8601"):
        schema.table([{"timestamp": 0, "due": "noon"}])


def test_without_a_zone_they_are_not_taken_for_times_of_utc(spark: SparkSession) -> None:
    schema = cep.StreamSchema.from_dict({"base_type": "T", "attributes": {"due": "timestamp"}, "timezone": str(ZONE)})
    events = schema.table([{"timestamp": 0, "due": local(12)}])
    naive = events.set_column(3, "due", pa.array([datetime(2024, 3, 4, 12)], pa.timestamp("us")))
    patterns = cep.parse_patterns("NAME p PATTERN T a WITHIN 1 second RETURN a.due AS due", schema)
    with pytest.raises(InputError, match="the times in column 'due' of the events have no time zone"):
        cep.detect(patterns, naive)
    with pytest.raises(InputError, match="in Spark, cast them"):
        match(spark.createDataFrame(events).withColumn("due", col("due").cast("timestamp_ntz")), patterns)
    assert cep.detect(patterns, cep.read(schema, naive.drop_columns("seq")))["p"]["due"].to_pylist() == [local(12)]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("type_attribute: kind", "type_attribute: due", "must be string or int64, not timestamp"),
        ("diff: {of: x}", "diff: {of: due}", "is no int64 or float64 attribute"),
        ("{column: x, at_least: 0", "{column: due, at_least: 0", "bounds are for int64 and float64"),
        ("x: int64", "x: {type: int64, format: iso}", "`format` is for `type: timestamp`"),
    ],
)
def test_what_they_cannot_be_is_refused(before: str, after: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "ticks.yaml").write_text(TIMES.replace(before, after))
    with pytest.raises(InputError, match=said):
        cep.StreamSchema.load(tmp_path / "ticks.yaml")


def test_a_data_frame_of_spark_has_them_as_times(spark: SparkSession) -> None:
    schema = cep.StreamSchema.from_dict({"base_type": "T", "attributes": {"due": "timestamp"}})
    events = schema.table([{"timestamp": place, "due": us(local(12)) + place} for place in range(5)])
    [pattern] = cep.parse_patterns("NAME p PATTERN T a WHERE a.due > 0 WITHIN 1 second RETURN a.due AS due", schema)
    found = match(spark.createDataFrame(events), [pattern]).toArrow()
    assert found["due"].type == UTC_MICROSECONDS
    assert sorted(found["due"].to_pylist()) == events["due"].to_pylist()
