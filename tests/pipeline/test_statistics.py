"""Statistics from day to day: what is carried, what is made anew, and that nothing becomes stale by it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow as pa
import pytest

from cep_pipeline.pipeline.statistics import snapshot_at, state_of_day, windows_of_day
from cep_pipeline.pipeline.statistics_history import StatisticsHistory
from cep_pipeline.statistics import StatisticsSnapshot
from cep_pipeline.statistics.estimate import windowed_statistics
from cep_pipeline.storage import canonical_json
from cep_pipeline.warehouse.records import DayStatistics, StatisticsRecord
from tests.pipeline.project import DAYS, MONDAY, PIPELINE, ROWS, TUESDAY, WEDNESDAY, Project, make_project
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
    return {
        day: (record.snapshot, record.state, record.basis, record.windows)
        for day, record in rows(project, warehouse).items()
    }


def estimate(project: Project, day: date, caplog: pytest.LogCaptureFixture) -> StatisticsRecord:
    """Make the statistics of a published day again."""
    with caplog.at_level(logging.WARNING):
        project.run(steps=frozenset({"statistics"}), redo=True).run_days([day])
    return rows(project)[day]


def write_row(project: Project, record: StatisticsRecord, changed: dict[str, Any]) -> None:
    """Write a day's row as another version, or a broken disk, would have left it."""
    tables = project.tables()
    assert record.snapshot is not None
    made = replace(DayStatistics(record.snapshot, record.state, record.basis, record.windows), **changed)
    with tables.day_lease(record.day, run_id="other") as lease:
        publish_statistics(tables, record.day, {"all": made}, lease=lease)


@pytest.mark.long
def test_days_one_after_another_are_one_run_over_all_of_them(windowed: Project, three_days: Project) -> None:
    for day in DAYS:
        windowed.run(steps=STATISTICS).run_days([day])
    assert contents(windowed) == contents(three_days)
    assert list(contents(windowed)) == list(DAYS)


def test_the_state_of_the_last_day_is_that_of_all_events_within_its_bounds(three_days: Project) -> None:
    stream = three_days.configuration.stream("ticks")
    patterns = stream.pattern_set("all").patterns
    tables = three_days.tables()
    events = tables.read_events()
    counted = events["timestamp"].cast(pa.int64()).to_numpy()
    last = int(counted[-1])
    for minutes in (0, 30, 200):
        moment = last + minutes * 60_000_000
        published = snapshot_at(tables, stream, patterns, moment)
        at_once = windowed_statistics(patterns, events, stream.statistics.length, 0.1).snapshot(moment)
        assert published.window_us == at_once.window_us == 21_600_000_000
        assert [rate.leaf for rate in published.rates] == [rate.leaf for rate in at_once.rates]
        exact = int(((counted >= moment - 21_600_000_000) & (counted <= moment)).sum())
        for snapshot in (published, at_once):
            assert snapshot.events == pytest.approx(exact, rel=0.1)
            for one, other in zip(published.rates, at_once.rates, strict=True):
                assert one.low is not None and one.high is not None
                assert other.low is not None and other.high is not None
                assert max(one.low, other.low) <= min(one.high, other.high) * (1 + 1e-9)


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
    "cannot be read": lambda record: {"state": str(record.state).replace("Tick", "Tock", 1)},
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
        # The window before the day was read again, so the day is as if its state had been carried.
        assert anew.snapshot is not None and good.snapshot is not None
        assert StatisticsSnapshot.from_json(anew.snapshot).events == StatisticsSnapshot.from_json(good.snapshot).events


def test_the_windows_of_a_day_are_shown_from_its_state(windowed: Project, three_days: Project) -> None:
    stream = three_days.configuration.stream("ticks")
    for day, record in rows(three_days).items():
        shown = windows_of_day(record, stream)
        state, (start, end) = state_of_day(three_days.tables(), stream, stream.pattern_set("all").patterns, day)
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
    assert history.of_days(None, None).notes[:1] == (note,)


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


def test_a_snapshot_of_any_moment_counts_its_window_alone(three_days: Project) -> None:
    stream = three_days.configuration.stream("ticks")
    patterns = stream.pattern_set("all").patterns
    tables = three_days.tables()
    times = tables.read_events()["timestamp"].cast(pa.int64()).to_pylist()
    with mock.patch("cep_pipeline.spark.slicing.Slice.read", autospec=True, side_effect=_Reading()) as read:
        for moment in (times[0] - 1, times[2], times[6] + 1, times[-1], times[-1] + 10**12):
            snapshot = snapshot_at(tables, stream, patterns, moment)
            expected = sum(moment - 21_600_000_000 <= time <= moment for time in times)
            assert snapshot.events == pytest.approx(expected, rel=0.1), moment
            assert snapshot.as_of_us == moment
            if moment == times[-1] + 10**12:
                assert snapshot.notes == ("there are no events in the window of 6 h",), "there were some before"
                assert {rate.per_s for rate in snapshot.rates} == {0.0}
    assert read.call_count
    assert len(ROWS) == 3
    assert canonical_json(snapshot.to_json())


class _Reading:
    """Reads slices as they are, and refuses one that holds more than a window and its look-back."""

    def __init__(self) -> None:
        from cep_pipeline.spark.slicing import Slice

        self._read = Slice.read

    def __call__(self, task: Any, columns: Any) -> pa.Table:
        table = self._read(task, columns)
        times = table["timestamp"].cast(pa.int64()).to_pylist()
        assert not times or times[-1] - times[0] <= 21_600_000_000 + task.look_back.time_us
        return table
