"""Drafts: what a run has made of a day, in files that no table names until the whole day is published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

from cep_pipeline.storage import canonical_json, digest_of, files_from_json, files_to_json
from cep_pipeline.warehouse.database import PUBLISHED, insert_record
from cep_pipeline.warehouse.fingerprints import EventsFingerprint, MatchesFingerprint
from cep_pipeline.warehouse.layout import OF_PATTERN_SETS, day_column
from cep_pipeline.warehouse.records import EventsFile, PublishedDay, StatisticsRecord
from cep_pipeline.warehouse.units import SAME_EVENTS, replace_record

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from sqlalchemy.engine import Connection


@dataclass(frozen=True)
class Draft:
    """Rows that are to be all of a unit: the events, the rejected rows, the matches or the summaries of a day.

    No table names the files yet. `pattern_set` is empty but for matches and summaries. `fingerprint`, `carry_out`,
    `counts` and `same_events_as` are recorded of the unit. `merged` are the files that some of these were
    made of, which nothing needs once the draft is published. `entries` are the files as a manifest names them, where
    this process has looked at them already.
    """

    table: str
    day: date
    files: tuple[str, ...]
    fingerprint: EventsFingerprint | MatchesFingerprint
    carry_out: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, Any] = field(default_factory=dict)
    pattern_set: str = ""
    same_events_as: str = ""
    merged: tuple[str, ...] = field(default=(), compare=False, repr=False)
    entries: tuple[DataFile, ...] | None = field(default=None, compare=False, repr=False)

    @property
    def unit(self) -> dict[str, str | date]:
        """The values of the table's partition columns."""
        named = {"pattern_set": self.pattern_set} if self.table in OF_PATTERN_SETS else {}
        return {**named, day_column(self.table): self.day}

    def write(
        self, connection: Connection, stream: str, run_id: str, published_at: float, snapshot_id: int, rows: int
    ) -> None:
        """Replace the record of the unit, in the transaction that publishes its rows."""
        key = {"stream": stream, "table_name": self.table, "pattern_set": self.pattern_set, "day": str(self.day)}
        known: dict[str, Any] = {SAME_EVENTS: self.same_events_as} if self.same_events_as else {}
        replace_record(connection, key)
        made = {
            **key,
            "run_id": run_id,
            "published_at": published_at,
            "snapshot_id": snapshot_id,
            "row_count": rows,
            "fingerprint": canonical_json(self.fingerprint.to_json() | known),
            "counts": canonical_json(dict(self.counts)),
            "carry_out": canonical_json(self.carry_out),
            "carry_out_digest": digest_of(self.carry_out),
        }
        insert_record(connection, PUBLISHED, made)

    def to_json(self) -> dict[str, Any]:
        """The JSON form, read back by `from_json`: what one task hands to the next."""
        plain = {
            "day": self.day.isoformat(),
            "files": files_to_json(self.files),
            "fingerprint": self.fingerprint.to_json(),
            "merged": list(map(str, self.merged)),
        }
        return {name: value for name, value in {**vars(self), **plain}.items() if name != "entries"}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Draft:
        """Read the JSON form."""
        known = MatchesFingerprint if content["table"] in OF_PATTERN_SETS else EventsFingerprint
        read = {
            "day": date.fromisoformat(content["day"]),
            "files": files_from_json(content["files"]),
            "fingerprint": known.from_json(content["fingerprint"]),
            "merged": tuple(content["merged"]),
        }
        return cls(**{**content, **read})


@dataclass(frozen=True)
class DraftedDay:
    """The events and the rejected rows that a run has made of a day, with the files of the events in stream order.

    `record` is that of the day as it will be; its snapshot is 0 until then.
    """

    events: Draft
    quarantine: Draft
    record: PublishedDay
    files: tuple[EventsFile, ...]


@dataclass
class Drafts:
    """The days that runs have made and not published yet: a run reads them in place of what is published.

    `statistics` are those of (pattern set, day).
    """

    days: dict[date, DraftedDay] = field(default_factory=dict)
    statistics: dict[tuple[str, date], StatisticsRecord] = field(default_factory=dict)

    def statistics_of(self, day: date) -> list[StatisticsRecord]:
        """Return the statistics of a day, of each pattern set that has any."""
        return [record for (_, of), record in self.statistics.items() if of == day]
