"""The schedule of daily runs: each local day once and never before it is over, in every zone, by its own clock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import pytest

from cep_pipeline.events.timestamps import day_bounds

FIRST, LAST = date(2000, 1, 1), date(2035, 12, 31)
ONE_DAY, STEP = timedelta(days=1), timedelta(minutes=30)
ZONES = sorted(available_timezones() - {"localtime"})


@pytest.fixture
def local_days(airflow_home: Path) -> Any:
    from cep_days import LocalDays

    return LocalDays


def restriction(earliest: datetime | None, latest: datetime | None = None, *, catchup: bool = True) -> Any:
    from airflow.timetables.base import TimeRestriction

    return TimeRestriction(earliest, latest, catchup)


@cache
def noons() -> list[datetime]:
    return [datetime.combine(date.fromordinal(k), time(12)) for k in range(FIRST.toordinal(), LAST.toordinal() + 1)]


def changes(zone: ZoneInfo) -> Iterator[date]:
    """The days before which the clock of a zone has changed, by its offsets at noon; the first day too."""
    before = None
    for noon in noons():
        offset = zone.utcoffset(noon)
        if offset != before:
            yield noon.date()
        before = offset


def instants(day: date, zone: ZoneInfo) -> list[datetime]:
    """The half hours that have this local date, by the clock of the zone alone."""
    begin = datetime.combine(day - ONE_DAY, time(), UTC)
    moments = (begin + k * STEP for k in range(3 * 48))
    return [moment for moment in moments if moment.astimezone(zone).date() == day]


@pytest.mark.long
def test_each_day_of_every_zone_has_one_run_that_comes_when_it_is_over(local_days: Any) -> None:
    """Days are looked at where the clock has changed, the one before and the one after: all others are alike."""
    looked_at, missing = 0, set()
    for name in ZONES:
        zone, days = ZoneInfo(name), local_days(name)
        for change in changes(zone):
            near = [change + k * ONE_DAY for k in (-1, 0, 1)]
            bounds = (datetime.combine(day, time(), UTC) for day in (near[0], near[-1]))
            asked, run, runs = restriction(*bounds), None, {}
            while (run := days.next_dagrun_info_v2(last_dagrun_info=run, restriction=asked)) is not None:
                day = run.logical_date.astimezone(zone).date()
                assert day not in runs, (name, day)
                runs[day] = run
            for day in near:
                looked_at += 1
                of_day = instants(day, zone)
                assert (day in runs) == bool(of_day), (name, day)
                if not of_day:
                    missing.add((name, day))
                    continue
                run = runs[day]
                start, end = (int(bound.timestamp() * 1e6) for bound in run.data_interval)
                assert (start, end) == day_bounds(day, name), (name, day)
                assert run.run_after > of_day[-1], (name, day)
                assert run.run_after <= of_day[-1] + STEP, "as soon as it is over"
            starts = [run.data_interval.start for run in runs.values()]
            ends = [run.data_interval.end for run in runs.values()]
            assert starts[1:] == ends[:-1], (name, "nothing between two days")
    assert looked_at > 30_000
    assert {("Pacific/Apia", date(2011, 12, 30)), ("Pacific/Fakaofo", date(2011, 12, 30))} <= missing
    assert {day for _, day in missing} == {date(2011, 12, 30)}, "days that never were"


@pytest.mark.parametrize(
    ("zone", "before", "run_after"),
    [
        ("America/Santiago", "2024-09-07", "2024-09-08T01:00:00-03:00"),
        ("Africa/Cairo", "2024-04-25", "2024-04-26T01:00:00+03:00"),
        ("Asia/Beirut", "2024-03-30", "2024-03-31T01:00:00+03:00"),
        ("America/Havana", "2024-03-09", "2024-03-10T01:00:00-04:00"),
        ("America/St_Johns", "2009-10-31", "2009-11-01T00:00:00-03:30"),
        ("America/New_York", "2013-10-07", "2013-10-08T00:00:00-04:00"),
    ],
)
def test_the_run_of_a_day_comes_at_the_end_of_the_night(
    local_days: Any, zone: str, before: str, run_after: str
) -> None:
    run = local_days(zone).run_of(date.fromisoformat(before))
    assert run.run_after == datetime.fromisoformat(run_after)
    assert run.run_after.astimezone(ZoneInfo(zone)).date() == date.fromisoformat(before) + ONE_DAY


def days_of(timetable: Any, earliest: datetime, latest: datetime) -> list[date]:
    """The days of a backfill, made as Airflow makes its runs: from the DAG that is in its database."""
    from airflow.sdk import DAG
    from airflow.serialization.serialized_objects import DagSerialization

    dag = DagSerialization.from_dict(DagSerialization.to_dict(DAG("days", schedule=timetable)))
    runs = list(dag.iter_dagrun_infos_between(earliest, latest))
    zone = ZoneInfo(timetable.timezone)
    assert all(run.partition_key is None for run in runs)
    return [run.logical_date.astimezone(zone).date() for run in runs]


@pytest.mark.parametrize("zone", ["America/New_York", "Europe/Copenhagen", "Pacific/Auckland", "America/Santiago"])
@pytest.mark.parametrize(
    ("first", "last"), [("2013-10-07", "2013-10-09"), ("2014-03-08", "2014-04-07"), ("2024-08-30", "2024-11-04")]
)
def test_a_backfill_has_each_day_once_both_ends_included(local_days: Any, zone: str, first: str, last: str) -> None:
    expected = list(
        map(date.fromordinal, range(date.fromisoformat(first).toordinal(), 1 + date.fromisoformat(last).toordinal()))
    )
    for asked_in in (UTC, ZoneInfo(zone)):  # the command asks in UTC, the form in the zone that its user has chosen
        bounds = [datetime.combine(date.fromisoformat(day), time(), asked_in).astimezone(UTC) for day in (first, last)]
        assert days_of(local_days(zone), *bounds) == expected


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch, local_days: Any) -> Any:
    """The schedule's next day after a run at some moment, as the scheduler asks for it: without catching up."""
    import cep_days

    def next_day(now: str, last: str | None) -> date:
        class Clock(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> Any:
                return datetime.fromisoformat(now)

        monkeypatch.setattr(cep_days, "datetime", Clock)
        days = local_days("America/Santiago")
        interval = None if last is None else days.interval(date.fromisoformat(last))
        run = days.next_dagrun_info(last_automated_data_interval=interval, restriction=restriction(None, catchup=False))
        found: date = days.day_of(run.logical_date)
        return found

    return next_day


@pytest.mark.parametrize(
    ("now", "last", "expected"),
    [
        ("2024-09-10T14:00:00+00:00", "2024-09-08", "2024-09-09"),  # it is late
        ("2024-09-10T14:00:00+00:00", "2024-09-09", "2024-09-10"),  # nothing is late
        ("2024-09-10T14:00:00+00:00", "2024-08-01", "2024-09-09"),  # of a gap the latest day
        ("2024-09-10T14:00:00+00:00", None, "2024-09-10"),  # at first no day that has long been over
        ("2024-09-10T03:30:00+00:00", None, "2024-09-09"),  # but one that has just been over
        ("2024-09-08T03:59:59+00:00", "2024-09-06", "2024-09-07"),
        ("2024-09-08T03:59:59+00:00", "2024-08-01", "2024-09-06"),  # the night with the skipped midnight
        ("2024-09-08T04:00:00+00:00", "2024-08-01", "2024-09-07"),
    ],
)
def test_the_scheduler_is_given_the_latest_day_that_is_over(at: Any, now: str, last: str | None, expected: str) -> None:
    assert at(now, last) == date.fromisoformat(expected)


def test_a_scheduled_run_is_named_by_its_day_and_one_by_hand_is_in_its_day(local_days: Any) -> None:
    import pendulum
    from airflow.utils.types import DagRunType

    days = local_days("America/New_York")
    run = days.run_of(date(2013, 10, 7))
    given = {"run_after": run.run_after, "data_interval": run.data_interval}
    assert days.generate_run_id(run_type=DagRunType.SCHEDULED, **given) == "scheduled__2013-10-07"
    assert "10-08T04:00" in days.generate_run_id(run_type=DagRunType.MANUAL, **given)
    noon = pendulum.datetime(2013, 10, 7, 12)
    assert days.infer_manual_data_interval(run_after=noon) == run.data_interval
    assert "America/New_York" in days.summary and "America/New_York" in days.description
