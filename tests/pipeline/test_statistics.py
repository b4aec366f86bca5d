"""Statistics from day to day: what is carried, what is made anew, and that nothing becomes stale by it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from cep_pipeline.events.timestamps import day_bounds
from cep_pipeline.pipeline.statistics import StatisticsHistory, windows_of_day
from cep_pipeline.statistics import StatisticsSnapshot
from cep_pipeline.statistics.estimate import windowed_statistics
from cep_pipeline.warehouse.records import DayStatistics, StatisticsRecord
from tests.pipeline.project import DAYS, MONDAY, PIPELINE, TUESDAY, WEDNESDAY, Project, make_project
from tests.warehouse.published_days import publish_statistics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WINDOW = "statistics: {window: 6 hours, epsilon: 0.1}\n"
STATISTICS = frozenset({"ingest", "statistics"})


@pytest.fixture
def windowed(project: Project) -> Project:
    (project.folder / "pipeline.yaml").write_text(PIPELINE + WINDOW)
    return project


@pytest.fixture(scope="module")
def three_days(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Project:
    """Three days that are published with their statistics; to be read alone."""
    project = make_project(tmp_path_factory.mktemp("three_days"), spark)
    (project.folder / "pipeline.yaml").write_text(PIPELINE + WINDOW)
    project.run(steps=STATISTICS).run_days(DAYS)
    return project


def rows(project: Project, warehouse: str = "warehouse") -> dict[date, StatisticsRecord]:
    return {record.day: record for record in project.tables(warehouse).statistics("all")}


def contents(project: Project, warehouse: str = "warehouse") -> dict[date, tuple[object, ...]]:
    """Everything but who wrote it and when."""
    return {day: (record.snapshot, record.state, record.basis) for day, record in rows(project, warehouse).items()}


def estimate(project: Project, day: date, caplog: pytest.LogCaptureFixture) -> StatisticsRecord:
    """Make the statistics of a published day again."""
    with caplog.at_level(logging.WARNING):
        project.run(steps=frozenset({"statistics"}), redo=True).run_days([day])
    return rows(project)[day]


def write_row(project: Project, record: StatisticsRecord, changed: dict[str, Any]) -> None:
    """Write a day's row as another version, or a broken disk, would have left it."""
    tables = project.tables()
    assert record.snapshot is not None
    made = replace(DayStatistics(record.snapshot, record.state, record.basis), **changed)
    with tables.day_lease(record.day, run_id="other") as lease:
        publish_statistics(tables, record.day, {"all": made}, lease=lease)


@pytest.mark.long
def test_days_one_after_another_are_one_run_over_all_of_them(windowed: Project, three_days: Project) -> None:
    for day in DAYS:
        windowed.run(steps=STATISTICS).run_days([day])
    assert contents(windowed) == contents(three_days)
    assert list(contents(windowed)) == list(DAYS)


@pytest.mark.long
def test_a_rerun_goes_on_from_the_day_before_and_changes_neither_statistics_nor_plan(windowed: Project) -> None:
    windowed.run().run_days(DAYS)
    before = contents(windowed)
    windowed.run(steps=frozenset({"statistics"}), redo=True).run_days([TUESDAY])
    windowed.run(steps=frozenset({"statistics"}), redo=True).run_days(DAYS)
    assert contents(windowed) == before
    assert windowed.run().run_stale().days == (), "statistics make nothing stale"
    carried = {day: record.basis["carried"] for day, record in rows(windowed).items()}
    assert carried[MONDAY] is None and carried[TUESDAY] and carried[WEDNESDAY]
    plan = windowed.tables().current_plan("all")
    monday = rows(windowed)[MONDAY].snapshot
    assert plan is not None and monday is not None
    snapshot = StatisticsSnapshot.from_json(monday)
    assert plan.plan["statistics"]["digest"] == snapshot.digest, "a plan is made from the business day"
    assert snapshot.kind.value == "business day"
    busiest = {rate.leaf: rate.worst_per_s for rate in snapshot.rates}
    assert all(rate.worst_per_s is not None and rate.worst_per_s >= rate.per_s for rate in snapshot.rates), busiest


CHANGES: dict[str, Callable[[StatisticsRecord], dict[str, Any]]] = {
    "hold no state": lambda record: {"state": None},
    "is no JSON": lambda record: {"state": "{broken"},
    "is a JSON object": lambda record: {"state": "[]"},
    "of version 0": lambda record: {"state": '{"version": 0}'},
    "is damaged": lambda record: {"state": str(record.state).replace("Tick", "Tock", 1)},
    "of an older version": lambda record: {"basis": {}},
    "made with window 3 hours": lambda record: {"basis": {**record.basis, "window": "3 hours"}},
    "published anew since": lambda record: {"basis": {**record.basis, "events": "other"}},
}


@pytest.mark.long
def test_a_state_that_cannot_be_gone_on_from_is_said_and_begun_anew(
    windowed: Project, caplog: pytest.LogCaptureFixture
) -> None:
    windowed.run(steps=STATISTICS).run_days(DAYS[:2])
    monday, good = rows(windowed)[MONDAY], rows(windowed)[TUESDAY]
    for words, change in CHANGES.items():
        caplog.clear()
        write_row(windowed, monday, change(monday))
        anew = estimate(windowed, TUESDAY, caplog)
        assert words in caplog.text
        assert anew.basis["carried"] is None
        # The window begins with the day; the events of the day are the same.
        assert anew.snapshot is not None and good.snapshot is not None
        assert StatisticsSnapshot.from_json(anew.snapshot).events == StatisticsSnapshot.from_json(good.snapshot).events


def test_the_windows_of_a_day_are_shown_from_its_state(windowed: Project, three_days: Project) -> None:
    stream = three_days.configuration.stream("ticks")
    for day, record in rows(three_days).items():
        shown = windows_of_day(record, stream)
        start, end = day_bounds(day, stream.schema.timezone)
        events, length = three_days.tables().read_events(None, day), stream.statistics.length
        state = windowed_statistics(stream.pattern_set("all").patterns, events, length, stream.statistics.epsilon)
        anew = list(state.windows(start, end, 48))
        assert [window.as_of_us for window in shown] == [window.as_of_us for window in anew]
        assert [window.events for window in shown] == [window.events for window in anew]
        assert all(window.as_of_us is not None and start <= window.as_of_us < end + 3_600_000_000 for window in shown)
    windowed.run(steps=STATISTICS).run_days([MONDAY])
    record = rows(windowed)[MONDAY]
    history = StatisticsHistory(windowed.tables(), stream, stream.pattern_set("all"))
    write_row(windowed, record, {"state": str(record.state).replace("Tick", "Tock", 1)})
    broken = history.of_day(MONDAY)
    assert broken.windows == ()
    (note,) = broken.notes
    assert "the windows of 2024-03-04 cannot be shown" in note and "--steps statistics --redo --day 2024-03-04" in note


@pytest.mark.long
def test_a_day_that_was_left_out_begins_anew(windowed: Project, caplog: pytest.LogCaptureFixture) -> None:
    windowed.run(steps=STATISTICS).run_days([MONDAY])
    windowed.run(steps=frozenset({"ingest"})).run_days([TUESDAY])
    with caplog.at_level(logging.WARNING):
        windowed.run(steps=STATISTICS).run_days([WEDNESDAY])
    assert "the statistics of 2024-03-05 of pattern set 'all' hold no state" in caplog.text
    assert rows(windowed)[WEDNESDAY].basis["carried"] is None


@pytest.mark.long
def test_other_patterns_begin_anew(windowed: Project, caplog: pytest.LogCaptureFixture) -> None:
    windowed.run(steps=STATISTICS).run_days(DAYS[:2])
    text = (windowed.folder / "all.sase").read_text()
    (windowed.folder / "all.sase").write_text(f"{text};\nNAME more PATTERN SEQ(C c, A a) WHERE c.x > 7 WITHIN 1 hour")
    record = estimate(windowed, TUESDAY, caplog)
    assert "are of other patterns" in caplog.text
    assert record.snapshot is not None
    assert "C where x.x > 7" in {rate["leaf"] for rate in record.snapshot["rates"]}


@pytest.mark.long
def test_an_empty_day_passes_the_state_on(windowed: Project) -> None:
    windowed.write_day(TUESDAY, [])
    windowed.run(steps=STATISTICS).run_days(DAYS)
    tuesday = rows(windowed)[TUESDAY]
    assert tuesday.snapshot is not None and tuesday.snapshot["events"] == 0
    assert all(rate["per_s"] == 0 for rate in tuesday.snapshot["rates"]), "an event that never comes has the rate 0"
    assert rows(windowed)[WEDNESDAY].basis["carried"] is not None
