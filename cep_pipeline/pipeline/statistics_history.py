"""Statistics to be looked at: a day's, those of files, and what they have moved from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pyarrow as pa

from cep_pipeline.errors import InputError
from cep_pipeline.pipeline.configuration import PatternSet, StatisticsSettings, Stream
from cep_pipeline.pipeline.plans import of_another_format
from cep_pipeline.pipeline.statistics import out_of_date, windows_of_day
from cep_pipeline.statistics import StatisticsSnapshot
from cep_pipeline.statistics.estimate import windowed_statistics

if TYPE_CHECKING:
    from cep_pipeline.patterns.pattern import Pattern
    from cep_pipeline.warehouse.records import StatisticsRecord
    from cep_pipeline.warehouse.stream_tables import StreamReader

LONG = ("state",)


@dataclass(frozen=True)
class Labelled:
    """A snapshot, and what a person calls it: a day, a time of day, a plan."""

    label: str
    snapshot: StatisticsSnapshot


@dataclass(frozen=True)
class StatisticsOverview:
    """The statistics of a stream, as they are shown.

    The drift of the numbers `shown` is told against those `compared`: the day before, and the snapshot of the current
    plan. `windows` are in order of the times at which they end. `notes` are what a person should know.
    """

    shown: Labelled
    timezone: str
    compared: tuple[Labelled, ...] = ()
    windows: tuple[StatisticsSnapshot, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class StatisticsHistory:
    """The published statistics of a pattern set."""

    tables: StreamReader
    stream: Stream
    pattern_set: PatternSet

    @property
    def timezone(self) -> str:
        return self.stream.schema.timezone

    def of_day(self, day: date | None = None) -> StatisticsOverview:
        """The business day (None: the latest that has statistics), its windows, and its drift."""
        chosen = self._records(day)[-1].day
        known = self.tables.statistics(self.pattern_set.name, chosen, chosen)
        windows, unread = self._windows(known)
        compared, said = self._compared(chosen, self._records())
        shown = Labelled(f"business day {chosen}", self._snapshot(known[-1]))
        return StatisticsOverview(shown, self.timezone, compared, windows, (*self._notes(known), *unread, *said))

    def _records(self, day: date | None = None) -> list[StatisticsRecord]:
        """Return the records of all days up to one (None: the last), without their long columns."""
        found = self.tables.statistics(self.pattern_set.name, last=day, without=LONG)
        known = [record for record in found if record.snapshot is not None]
        if not known or (day is not None and known[-1].day != day):
            raise no_statistics_of(self.stream, self.pattern_set, f"of {day}" if day else "of any day")
        return known

    def _windows(self, records: Sequence[StatisticsRecord]) -> tuple[tuple[StatisticsSnapshot, ...], tuple[str, ...]]:
        """Return the windows of days, and the days whose windows cannot be shown."""
        windows: list[StatisticsSnapshot] = []
        notes = []
        for record in records:
            try:
                windows += windows_of_day(record, self.stream)
            except InputError as error:
                notes.append(f"the windows of {record.day} cannot be shown: {error}; {self._again(record.day)}")
        return tuple(windows), tuple(notes)

    def _again(self, day: date) -> str:
        return f"make them again: cep run --stream {self.stream.name} --steps statistics --redo --day {day}"

    def _snapshot(self, record: StatisticsRecord) -> StatisticsSnapshot:
        assert record.snapshot is not None
        try:
            return StatisticsSnapshot.from_json(record.snapshot, f"statistics of {record.day}")
        except InputError as error:
            raise InputError(f"{error}; {self._again(record.day)}") from error

    def _compared(self, day: date, records: Sequence[StatisticsRecord]) -> tuple[tuple[Labelled, ...], tuple[str, ...]]:
        earlier = [record for record in records if record.day < day]
        compared: list[Labelled] = []
        notes: list[str] = []
        if earlier:
            try:
                compared.append(Labelled(str(earlier[-1].day), self._snapshot(earlier[-1])))
            except InputError as error:
                notes.append(str(error))
        planned, said = self._planned()
        return (*compared, *planned), (*notes, *said)

    def _planned(self) -> tuple[tuple[Labelled, ...], tuple[str, ...]]:
        """The snapshot that the current plan was made from, as it is recorded with the plan."""
        current = self.tables.current_plan(self.pattern_set.name)
        if current is None:
            return (), ()
        name = f"plan {current.version}"
        if old := of_another_format(current):
            return (), (f"{old}: the next daily run makes a plan",)
        try:
            snapshot = StatisticsSnapshot.from_json(current.statistics or {}, f"statistics of {name}")
        except InputError as error:
            return (), (str(error),)
        return (Labelled(name, snapshot),), ()

    def _notes(self, records: Sequence[StatisticsRecord]) -> tuple[str, ...]:
        events = {day.day: day for day in self.tables.days()}
        notes = []
        for record in records:
            if reason := out_of_date(record, events.get(record.day), self.stream.statistics):
                notes.append(f"statistics of {record.day}: {reason}; {self._again(record.day)}")
        return tuple(notes)


def no_statistics_of(stream: Stream, pattern_set: PatternSet, when: str) -> InputError:
    """Return the error to raise where a pattern set has no statistics of the days that are asked for."""
    return InputError(
        f"stream {stream.name!r} has no statistics {when} for pattern set {pattern_set.name!r}; run "
        f"`cep run --stream {stream.name} --steps statistics`, or give --patterns, --schema and --events"
    )


def statistics_of_events(
    patterns: Sequence[Pattern],
    events: pa.Table,
    timezone: str,
    window: str | None = None,
    *,
    notes: Sequence[str] = (),
) -> StatisticsOverview:
    """Statistics of events in memory, in windows: as in `pipeline.yaml`, None: as where it says nothing."""
    settings = StatisticsSettings(window=window) if window else StatisticsSettings()
    length = settings.length
    first, last = _ends(events)
    state = windowed_statistics(patterns, events, length, settings.epsilon)
    shown = Labelled(f"mean over windows of {length}", state.business_day(first, last + 1))
    return StatisticsOverview(shown, timezone, windows=tuple(state.windows(first, last + 1)), notes=tuple(notes))


def local_time(instant_us: int, timezone: str) -> datetime:
    """Return the time that the clocks of a time zone show at an instant."""
    instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=instant_us)
    return instant.astimezone(ZoneInfo(timezone)).replace(tzinfo=None)


def _ends(events: pa.Table) -> tuple[int, int]:
    """First and last timestamp; those of the epoch where there is no event."""
    if not events.num_rows:
        return 0, 0
    timestamps = events["timestamp"].cast(pa.int64())
    return timestamps[0].as_py(), timestamps[-1].as_py()
