"""The statistics that a plan is checked against and made again from: those of the latest day, as they are published."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from cep_pipeline.errors import InputError
from cep_pipeline.pipeline.configuration import PatternSet, Stream
from cep_pipeline.pipeline.statistics import out_of_date
from cep_pipeline.statistics import StatisticsSnapshot

if TYPE_CHECKING:
    from cep_pipeline.warehouse.records import EventsSnapshot
    from cep_pipeline.warehouse.stream_tables import StreamReader


@dataclass(frozen=True)
class FreshStatistics:
    """Statistics of the latest day that has events."""

    day: date
    snapshot: StatisticsSnapshot

    @property
    def label(self) -> str:
        """The name of the statistics for a person."""
        return f"business day {self.day}"

    def to_json(self) -> dict[str, Any]:
        """Return what a decision records of the statistics, as JSON values."""
        return {"digest": self.snapshot.digest, "label": self.label, "events": self.snapshot.events}


def latest_day(events: EventsSnapshot) -> date | None:
    """The latest day that has events; None where there is none."""
    return max((day for day, record in events.days.items() if record.events), default=None)


def fresh_statistics(
    tables: StreamReader, stream: Stream, pattern_set: PatternSet, events: EventsSnapshot, day: date
) -> FreshStatistics:
    """Return the published statistics of a day, the `latest_day` of the published events.

    An InputError says that there are none of the events, settings and patterns as they are now.
    """
    snapshot, reason = _published(tables, stream, pattern_set, events, day)
    if snapshot is None:
        command = f"cep run --stream {stream.name} --steps statistics --redo --day {day}"
        raise InputError(f"{reason}; the next daily run makes statistics, or: {command}")
    return FreshStatistics(day, snapshot)


def _published(
    tables: StreamReader,
    stream: Stream,
    pattern_set: PatternSet,
    events: EventsSnapshot,
    day: date,
) -> tuple[StatisticsSnapshot | None, str]:
    """The day's published statistics; None where they are not to be used, and why."""
    what = f"statistics of {day} of pattern set {pattern_set.name!r}"
    try:
        records = tables.statistics(pattern_set.name, day, day, without=("state",))
        record = next((record for record in records if record.snapshot is not None), None)
        if record is None or record.snapshot is None:
            return None, f"there are no {what}"
        if reason := out_of_date(record, events.days.get(day), stream.statistics):
            return None, f"{what}: {reason}"
        snapshot = StatisticsSnapshot.from_json(record.snapshot, what)
    except InputError as error:
        return None, str(error)
    if not snapshot.covers(pattern_set.patterns):
        return None, f"{what} are of other patterns"
    return snapshot, ""
