"""The statistics of a day: one pass over its events for all pattern sets, going on from where the day before ended.

What is published with each pattern set: the snapshot of the business day, which plans are
made from; and the state of the sliding window, which the next day goes on from, and which the windows of the day are
shown from. The state is no part of what matches follow from: a plan changes how they are found, never which. So no day
becomes stale by it; what a row was made from is recorded in its basis, and compared when it is read.
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
from cep_pipeline.slices.ownership import LookBack, look_back
from cep_pipeline.spark.slicing import Pieces, RowGroup, Slice, cut, read_row_groups
from cep_pipeline.statistics import StatisticsSnapshot
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
