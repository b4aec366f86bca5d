"""The schedule of daily runs: one run a day of a time zone, when that day is over.

Airflow's own schedules by cron ask for a midnight, and there are zones whose clock skips one: a day was lost, and the
next one asked for before it was over. Here days are counted, and a day lasts as the pipeline has it: its `day_bounds`
are worked out again here, since their module loads more than the schedule of a DAG should.

1. The data interval of a run is its day, so that its logical date is the day's first instant.
2. A run comes when the day is over: where the clock goes back into it after midnight, when it is over for good.
3. A day that a zone leaves out, as Apia did with 2011-12-30, has no instant, no event and no run.
4. A backfill is asked for by dates, which reach a timetable as midnights of UTC: those name a day of the zone.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pendulum
from airflow.plugins_manager import AirflowPlugin
from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from airflow.utils.types import DagRunType

JUST_NOW = timedelta(hours=1)
"""A DAG that has no run yet begins with the day that was over so long ago at most; earlier ones are for a backfill."""
ONE_DAY = timedelta(days=1)


class LocalDays(Timetable):
    """One run for each day of a time zone, when the day is over."""

    def __init__(self, timezone: str) -> None:
        self.timezone = timezone
        self.description = f"After each day of {timezone}"
        self._zone = ZoneInfo(timezone)

    @property
    def summary(self) -> str:
        """The schedule in a word, for Airflow's lists."""
        return f"days of {self.timezone}"

    def serialize(self) -> dict[str, Any]:
        """Return what `deserialize` takes."""
        return {"timezone": self.timezone}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> LocalDays:
        """Make the timetable that was serialized."""
        return cls(data["timezone"])

    def day_of(self, moment: datetime) -> date:
        """The day that a moment is in, by its local date."""
        return moment.astimezone(self._zone).date()

    def interval(self, day: date) -> DataInterval:
        """From the first instant of a day to the first after it."""
        return DataInterval(self._midnight(day), self._midnight(day + ONE_DAY))

    def run_of(self, day: date) -> DagRunInfo | None:
        """The run of a day; None where the zone has no such day."""
        interval = self.interval(day)
        if interval.start == interval.end:
            return None
        second_midnight = self._midnight(day + ONE_DAY, fold=1)
        comes_again = self.day_of(second_midnight - timedelta(seconds=1)) == day
        return DagRunInfo(max(interval.end, second_midnight) if comes_again else interval.end, interval)

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """The run after the last one, within the restriction; without `catchup` no earlier than the latest day."""
        last, earliest, latest = last_automated_data_interval, restriction.earliest, restriction.latest
        days = [] if last is None else [self.day_of(last.start) + ONE_DAY]
        if earliest is not None:
            days.append(self._day_named_by(earliest))
        if not restriction.catchup:
            now = datetime.now(UTC)
            days.append(self._latest_day_over(now) if days else self._latest_day_over(now - JUST_NOW) + ONE_DAY)
        if not days:
            return None
        day = max(days)
        while (run := self.run_of(day)) is None:
            day += ONE_DAY
        return None if latest is not None and day > self._day_named_by(latest) else run

    def infer_manual_data_interval(self, *, run_after: pendulum.DateTime) -> DataInterval:
        """The day that the logical date of a run by hand is in."""
        return self.interval(self.day_of(run_after))

    def generate_run_id(
        self, *, run_type: DagRunType, run_after: pendulum.DateTime, data_interval: DataInterval | None, **extra: Any
    ) -> str:
        """Name a scheduled run by its day."""
        if run_type is DagRunType.SCHEDULED and data_interval is not None:
            return run_type.generate_run_id(suffix=self.day_of(data_interval.start).isoformat())
        return super().generate_run_id(run_type=run_type, run_after=run_after, data_interval=data_interval, **extra)

    def _midnight(self, day: date, fold: int = 0) -> pendulum.DateTime:
        # Of a midnight that the clock skips the first fold is the moment of the change.
        return pendulum.instance(datetime.combine(day, time(fold=fold), self._zone).astimezone(UTC))

    def _day_named_by(self, bound: datetime) -> date:
        at_midnight = bound.astimezone(UTC)
        return at_midnight.date() if at_midnight.time() == time() else self.day_of(bound)

    def _latest_day_over(self, moment: datetime) -> date:
        day = self.day_of(moment) - ONE_DAY
        while (run := self.run_of(day)) is None or run.run_after > moment:
            day -= ONE_DAY
        return day


class DaysPlugin(AirflowPlugin):
    """Tells Airflow of the timetable: what reads a DAG from the database finds its class here."""

    name = "cep_days"
    timetables = [LocalDays]  # noqa: RUF012 - the name and type are Airflow's
