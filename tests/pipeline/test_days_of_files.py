"""Files with rows of the days beside their own: the row of 24:00, and UTC days of a stream that has other days."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cep_pipeline.events.columns import SEQ_PER_DAY
from cep_pipeline.pipeline.run import files_are_there, find_stale_days
from tests.pipeline.project import DAYS, MONDAY, SCHEMA, TUESDAY, WEDNESDAY, Project, make_project

SOURCE = 'source: {format: csv, path: "{day:%Y-%m-%d}.csv"}'


def project_of(folder: Path, spark: SparkSession, source: str, zone: str = "") -> Project:
    project = make_project(folder, spark)
    timestamp = "timestamp: {column: time, format: iso}"
    text = SCHEMA.replace(SOURCE, source).replace(timestamp, timestamp.replace("iso}", f"iso{zone}}}"))
    (folder / "ticks.yaml").write_text(text)
    return project


def found(project: Project) -> list[tuple[str, int]]:
    events = project.tables().read_events()
    seqs = events["seq"].to_pylist()
    assert seqs == sorted(seqs)
    return [
        (f"{date.fromordinal(seq // SEQ_PER_DAY)}", x) for seq, x in zip(seqs, events["x"].to_pylist(), strict=True)
    ]


@pytest.mark.parametrize("together", [True, False], ids=["in one run", "day by day"])
def test_the_row_of_24_00_is_of_the_next_day(tmp_path: Path, spark: SparkSession, together: bool) -> None:
    project = project_of(tmp_path, spark, SOURCE.replace("csv,", "csv, days_after: 1,"))
    project.write_day(MONDAY, ["09:00,A,1", "24:00,B,2", "wrong,A,9"])
    project.write_day(TUESDAY, ["00:00,A,3", "01:00,A,4", "24:00,A,5"])
    project.write_day(WEDNESDAY, ["00:00,B,6"])
    for days in [DAYS] if together else [[day] for day in DAYS]:
        project.run().run_days(days)
    assert found(project) == [
        (f"{MONDAY}", 1),
        *((f"{TUESDAY}", x) for x in (2, 3, 4)),
        *((f"{WEDNESDAY}", x) for x in (5, 6)),
    ]
    assert project.tables().read_quarantine()["day"].to_pylist() == [MONDAY]
    project.write_day(MONDAY, ["09:00,A,1", "24:00,B,7"])
    assert [stale.day for stale in find_stale_days(project.configuration.stream("ticks"), project.tables())][:2] == [
        MONDAY,
        TUESDAY,
    ]


def test_without_the_setting_it_is_rejected_and_the_message_says_the_days(tmp_path: Path, spark: SparkSession) -> None:
    project = project_of(tmp_path, spark, SOURCE)
    project.write_day(MONDAY, ["09:00,A,1", "24:00,B,2"])
    project.run().run_days([MONDAY])
    assert "outside the file's period, 2024-03-04" in project.tables().read_quarantine()["reason"].to_pylist()[0]


def test_files_of_utc_days_fill_the_days_of_new_york(
    tmp_path: Path, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    project = project_of(tmp_path, spark, SOURCE.replace("csv,", "csv, days_before: 1,"), zone=", timezone: UTC")
    for place, day in enumerate(DAYS):
        project.write_day(day, [f"03:00,A,{10 * place}", f"12:00,A,{10 * place + 1}"])
    project.run().run_days([MONDAY, TUESDAY])
    assert found(project) == [(f"{MONDAY}", 1), (f"{MONDAY}", 10), (f"{TUESDAY}", 11), (f"{TUESDAY}", 20)]
    assert project.tables().read_events()["timestamp"].to_pylist()[0] == datetime(2024, 3, 4, 12, tzinfo=UTC)
    said = "no file of 2024-03-07, which may have rows of this day: it is stale when one comes"
    assert said not in caplog.text
    project.run().run_days([WEDNESDAY])
    assert f"{WEDNESDAY}: {said}" in caplog.messages
    assert [files_are_there(project.configuration.stream("ticks"), day) for day in DAYS] == [True, True, False]
