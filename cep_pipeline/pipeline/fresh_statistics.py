"""The statistics that a plan is checked against and made again from: of the latest day, or of a moment or a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any

from cep_pipeline.errors import InputError
from cep_pipeline.events.timestamps import has_date, parse_moment
from cep_pipeline.pipeline.configuration import PatternSet, Stream, parse_window
from cep_pipeline.pipeline.statistics import out_of_date, snapshot_at, state_of_day
from cep_pipeline.statistics import StatisticsSnapshot
from cep_pipeline.statistics.snapshot import leaves_of
from cep_pipeline.storage import digest_of

if TYPE_CHECKING:
    from cep_pipeline.patterns.pattern import Pattern
    from cep_pipeline.pipeline.day_work import Progress
    from cep_pipeline.warehouse.records import EventsSnapshot
    from cep_pipeline.warehouse.stream_tables import StreamReader


@dataclass(frozen=True)
class StatisticsRequest:
    """A choice of statistics: the mean over the windows of the latest day's business, or the window up to a time.

    `as_of` is a time of the latest day, or a date and a time, by the clocks of the stream; None: the whole of the
    latest day. `window` stands in place of the configured one.
    """

    as_of: str | None = None
    window: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the settings that are given, as JSON values."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def on(self, day: date) -> StatisticsRequest:
        """Return a request that stays the same on later days: a time without a date becomes one of this day."""
        if self.as_of is None or has_date(self.as_of):
            return self
        return replace(self, as_of=f"{day} {self.as_of.strip()}")


@dataclass(frozen=True)
class FreshStatistics:
    """Statistics of the latest day that has events, the events of one moment, and what a person is told of them."""

    events: EventsSnapshot
    day: date
    snapshot: StatisticsSnapshot
    label: str
    notes: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """Return what a decision records of the statistics, as JSON values."""
        return {"digest": self.snapshot.digest, "label": self.label, "events": self.snapshot.events}


def events_digest(events: EventsSnapshot) -> str:
    """Digest of the published events; days that are published again with the same events, or none, do not change it."""
    return digest_of({str(day): record.events_digest for day, record in events.days.items() if record.events})


def latest_day(events: EventsSnapshot) -> date | None:
    """The latest day that has events; None where there is none."""
    return max((day for day, record in events.days.items() if record.events), default=None)


def fresh_statistics(
    tables: StreamReader,
    stream: Stream,
    pattern_set: PatternSet,
    events: EventsSnapshot,
    day: date,
    asked: StatisticsRequest | None = None,
    progress: Progress | None = None,
) -> FreshStatistics:
    """Return the requested statistics: those of the latest day as they are published, others counted anew.

    `day` is the `latest_day` of the published events. Without a request it is the published ones. Where there are none
    of the events and settings as they are now, the day is counted anew too, and a note says why. An InputError says
    that the moment or the window is none, that no events lie in it, or that the statistics know nothing of the
    patterns.
    """
    asked = asked or StatisticsRequest()
    window = parse_window(asked.window) if asked.window else None
    patterns = pattern_set.patterns
    if asked.as_of is not None:
        moment = parse_moment(asked.as_of, stream.schema.timezone, day)
        snapshot = snapshot_at(tables, stream, patterns, moment, window=window, progress=progress)
        label = f"the {asked.window or stream.statistics.window} up to {asked.as_of} (latest day: {day})"
        if not snapshot.events:
            raise InputError(
                f"stream {stream.name!r} has no events in {label}, by the clocks of {stream.schema.timezone}: nothing "
                f"tells how plans fit; give a time in the hours of its events, or none, for all of {day}"
            )
        return FreshStatistics(events, day, snapshot, label)
    note = ""
    if window is None:
        published, note = _published(tables, stream, pattern_set, events, day)
        if published is not None:
            return FreshStatistics(events, day, published, f"business day {day}")
    state, bounds = state_of_day(tables, stream, patterns, day, window=window, progress=progress)
    label = f"business day {day}" + (f" in windows of {asked.window}" if asked.window else "")
    return FreshStatistics(events, day, state.business_day(*bounds), label, (note,) if note else ())


def _published(
    tables: StreamReader,
    stream: Stream,
    pattern_set: PatternSet,
    events: EventsSnapshot,
    day: date,
    patterns: Sequence[Pattern] | None = None,
) -> tuple[StatisticsSnapshot | None, str]:
    """The day's published statistics of some patterns (None: all); None where they are not to be used, and why."""
    what = f"statistics of {day} of pattern set {pattern_set.name!r}"
    try:
        records = tables.statistics(pattern_set.name, day, day, without=("state",))
        record = next((record for record in records if record.snapshot is not None), None)
        if record is None or record.snapshot is None:
            return None, f"there are no {what}; they are counted anew"
        if reason := out_of_date(record, events.days.get(day), stream.statistics):
            return None, f"{what}: {reason}; they are counted anew"
        snapshot = StatisticsSnapshot.from_json(record.snapshot, what)
    except InputError as error:
        return None, f"{error}; they are counted anew"
    asked = leaves_of(pattern_set.patterns if patterns is None else patterns)
    if not all(leaf in snapshot.by_leaf for leaf in asked):
        return None, f"{what} are of other patterns; they are counted anew"
    return snapshot, ""


def published_history(
    tables: StreamReader,
    stream: Stream,
    pattern_set: PatternSet,
    events: EventsSnapshot,
    most: int | None = None,
    patterns: Sequence[Pattern] | None = None,
) -> Mapping[date, StatisticsSnapshot]:
    """The published statistics of the days that have events, in order, without those that are out of date.

    They are those of all days, or of the latest ones, so many at `most`, and know these patterns (None: the whole set).
    """
    found: dict[date, StatisticsSnapshot] = {}
    tables = tables.pinned(("statistics",))
    days = [day for day, record in events.days.items() if record.events]
    for day in days if most is None else days[-most:]:
        snapshot, _ = _published(tables, stream, pattern_set, events, day, patterns)
        if snapshot is not None:
            found[day] = snapshot
    return found
