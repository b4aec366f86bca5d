"""The statistics of a day: one pass over its events for all pattern sets, going on from where the day before ended.

What is published with each pattern set: the snapshot of the business day, which plans are
made from; and the state of the sliding window, which the next day goes on from, and which the windows of the day are
shown from. The state is no part of what matches follow from: a plan changes how they are found, never which. So no day
becomes stale by it; what a row was made from is recorded in its basis, and compared when it is read.

`StatisticsHistory` shows what is published: a day's statistics, and what they have moved from.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from cep_pipeline.errors import CepError, DamagedError, InputError
from cep_pipeline.events.timestamps import day_bounds
from cep_pipeline.pipeline.configuration import PatternSet, StatisticsSettings, Stream, patterns_of
from cep_pipeline.pipeline.day_work import DayWork
from cep_pipeline.pipeline.plans import of_another_format
from cep_pipeline.slices.ownership import LookBack, look_back
from cep_pipeline.spark.slicing import Pieces, RowGroup, Slice, cut, read_row_groups
from cep_pipeline.statistics import StatisticsSnapshot
from cep_pipeline.statistics.estimate import windowed_statistics
from cep_pipeline.statistics.observed import Observed
from cep_pipeline.statistics.windowed import WindowedStatistics
from cep_pipeline.warehouse.records import EventsSnapshot, PublishedDay, StatisticsRecord

if TYPE_CHECKING:
    from cep_pipeline.patterns.pattern import Pattern
    from cep_pipeline.warehouse.stream_tables import PinnedStatistics, StreamReader

logger = logging.getLogger(__name__)

EVENTS_A_SLICE = 250_000
"""Fewer events than this are not worth a slice of their own."""
WINDOWS_SHOWN = 48
"""Windows of a day that show how it went."""


def published_statistics(work: DayWork, pattern_set: PatternSet) -> StatisticsSnapshot | None:
    """The day's published statistics of a pattern set; None where there are none that it can be planned by.

    Those of other patterns, of an older version, and those that cannot be read are none: they are made again.
    """
    try:
        content = work.tables.read_statistics(pattern_set.name, work.day)
        if content is None:
            return None
        snapshot = StatisticsSnapshot.from_json(content, f"statistics of {work.day}")
    except (InputError, DamagedError) as error:
        logger.warning("%s", error)
        return None
    return snapshot if snapshot.covers(pattern_set.patterns) else None


def windows_of_day(record: StatisticsRecord, stream: Stream) -> tuple[StatisticsSnapshot, ...]:
    """Return the snapshots of windows of a day, in order of time, from the state at its end."""
    if record.state is None:
        return ()
    what = f"the statistics of {record.day} of pattern set {record.pattern_set!r}"
    state = WindowedStatistics.from_json(_parsed(record.state, what), what)
    return tuple(state.windows(*day_bounds(record.day, stream.schema.timezone), WINDOWS_SHOWN))


def carried_state(
    work: DayWork, pattern_sets: Sequence[PatternSet], events: EventsSnapshot, known: PinnedStatistics
) -> tuple[WindowedStatistics | None, str | None]:
    """The state that the statistics of a day go on from, and its digest: that of the latest published earlier day.

    A state is of all pattern sets of the run that made it; the first one of the same patterns is taken.
    They are None where none fits, which is logged with the reason.
    """
    before = day_before(work.day, events)
    if before is None:
        return None, None
    settings = work.stream.statistics
    empty = WindowedStatistics.of(patterns_of(pattern_sets), settings.length, settings.epsilon)
    reasons = []
    for pattern_set in pattern_sets:
        what = f"the statistics of {before} of pattern set {pattern_set.name!r}"
        try:
            record = known.before(pattern_set.name, work.day)
            if record is None or record.day != before or record.state is None:
                raise InputError(f"{what} hold no state")
            if reason := out_of_date(record, events.days[before], settings):
                raise InputError(f"{what}: {reason}")
            content = _parsed(record.state, what)
            state = WindowedStatistics.from_json(content, what)
            if not empty.goes_on(state):
                raise InputError(f"{what} are of other patterns")
            return state, content["checksum"]
        except (CepError, pa.ArrowException) as error:
            reasons.append(error)
    if reasons:
        logger.warning("%s: %s; the window begins with the day", work.day, reasons[0])
    return None, None


def out_of_date(record: StatisticsRecord, day: PublishedDay | None, settings: StatisticsSettings) -> str:
    """Say why statistics do not belong to what is published (None: nothing is) and configured now; "" where they do."""
    if not record.basis:
        return "they are of an older version"
    if record.basis.get("events") != (day.events_digest if day is not None else None):
        return "the events of the day have been published anew since"
    configured = {"window": settings.window, "epsilon": settings.epsilon}
    return "; ".join(
        f"they were made with {name} {record.basis.get(name)}, and {value} is configured now"
        for name, value in configured.items()
        if record.basis.get(name) != value
    )


def basis_of(
    pattern_set: PatternSet, settings: StatisticsSettings, day: PublishedDay | None, carried: str | None
) -> dict[str, Any]:
    """Return what the statistics of a day are made from, by which it is seen later whether they are out of date."""
    return {
        "events": day.events_digest if day is not None else None,
        "window": settings.window,
        "epsilon": settings.epsilon,
        "pattern_set_version": pattern_set.version,
        "carried": carried,
    }


def _parsed(text: str, what: str) -> Mapping[str, Any]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise InputError(f"{what}: the state is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"{what}: a state is a JSON object, not {type(content).__name__}")
    return content


def day_before(day: date, events: EventsSnapshot) -> date | None:
    """The latest published earlier day."""
    return max((other for other in events.days if other < day), default=None)


def cut_slices(events: PublishedEvents, work: DayWork, patterns: Sequence[Pattern], cores: int) -> list[Slice]:
    """Slices of a day of about equal numbers of events: one a core, fewer where there is little to count.

    There are more where slices would read more than `slicing.MOST_ROWS` events.
    """
    day, back = events.snapshot.days.get(work.day), look_back(patterns)
    count = max(1, min(cores, math.ceil((day.events if day else 0) / EVENTS_A_SLICE)))
    groups = events.row_groups(events.first_day(work.day, work.start[0], back), work.day)
    return cut(Pieces.even(groups), start=work.start, end=work.end, look_back=back, count=count)


def with_observed_profiles(
    work: DayWork, pattern_set: PatternSet, snapshot: StatisticsSnapshot, known: PinnedStatistics
) -> StatisticsSnapshot:
    """The day's snapshot for a pattern set, with the output profiles of the latest day before it.

    Always of a day before, not of the day itself, so that a day that is redone gets the statistics that it had. What
    cannot be read is said, and left out.
    """
    try:
        found = known.observed_before(pattern_set.name, work.day)
        if found is None:
            return snapshot
        day, content = found
        observed = Observed.from_json(content, f"what the detection of {pattern_set.name} observed on {day}")
    except (InputError, DamagedError) as error:
        logger.warning("%s; the statistics of %s are made without it", error, work.day)
        return snapshot
    return replace(snapshot, output_profiles=observed.profiles_of(pattern_set.patterns))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST_US = -62_135_500_000_000_000
"""Soon after the first instant that is a date in every time zone."""


@dataclass(frozen=True)
class PublishedEvents:
    """The published events of a stream, pinned to one snapshot."""

    tables: StreamReader
    timezone: str
    snapshot: EventsSnapshot

    @classmethod
    def pin(cls, tables: StreamReader, timezone: str) -> PublishedEvents:
        """Pin the events that are published now."""
        return cls(tables, timezone, tables.pin_events())

    def first_day(self, day: date, begin_us: int, look_back: LookBack) -> date | None:
        """The day that a look-back reaches from a point of a day; None: before the beginning of the stream."""
        by_positions = self.snapshot.day_of_positions(day, look_back.positions)
        # A window may reach back further than there are dates.
        reached = _EPOCH + timedelta(microseconds=max(begin_us - look_back.time_us, _EARLIEST_US))
        by_time = reached.astimezone(ZoneInfo(self.timezone)).date()
        return None if by_positions is None else min(by_time, by_positions)

    def row_groups(self, first: date | None, last: date) -> Sequence[RowGroup]:
        """The row groups of the events of some days, in stream order; None: from the first day on."""
        files = self.tables.events_files(first, last, snapshot=self.snapshot)
        return read_row_groups(file.path for file in files)


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
