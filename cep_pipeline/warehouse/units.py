"""Published units in the catalog's database: their records, and which of them are stale.

A unit is what one commit replaces: the events or the rejected rows of a day, or the matches of a pattern set on a day.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

import sqlalchemy as sql
from sqlalchemy.engine import Connection, Row

from cep_pipeline.events.erasure import Erasure, erased_from
from cep_pipeline.events.raw_files import RawFile
from cep_pipeline.storage import canonical_json, digest_of
from cep_pipeline.warehouse.database import ERASURES, PUBLISHED, REPLACED, Database
from cep_pipeline.warehouse.fingerprints import NO_CARRY, EventsFingerprint, MatchesFingerprint
from cep_pipeline.warehouse.records import PublishedDay, PublishedMatches, StaleDay

_LISTED = [column for column in PUBLISHED.c if column.name != "carry_out"]

_SAME_EVENTS = "same_events_as"
NOTE = "note"
"""Name beside a stored fingerprint of what a person should know of the unit, such as that it was rolled back."""


@dataclass(frozen=True)
class UnitRecord:
    """The record of a unit beside its rows, written in the transaction that publishes them.

    `table` is events, quarantine or matches; `pattern_set` is empty but for matches. `same_events_as` is that of
    `PublishedDay`.
    """

    stream: str
    table: str
    pattern_set: str
    day: date
    run_id: str
    published_at: float
    fingerprint: EventsFingerprint | MatchesFingerprint
    counts: Mapping[str, int]
    carry_out: Mapping[str, Any]
    same_events_as: str = ""

    @property
    def carry_out_digest(self) -> str:
        """Digest of the carry-out."""
        return digest_of(self.carry_out)

    def write(self, connection: Connection, snapshot_id: int, rows: int) -> None:
        """Replace the record of the unit."""
        key = {
            "stream": self.stream,
            "table_name": self.table,
            "pattern_set": self.pattern_set,
            "day": self.day.isoformat(),
        }
        same = {_SAME_EVENTS: self.same_events_as} if self.same_events_as else {}
        replace_record(connection, key)
        connection.execute(
            sql.insert(PUBLISHED).values(
                **key,
                run_id=self.run_id,
                published_at=self.published_at,
                snapshot_id=snapshot_id,
                row_count=rows,
                fingerprint=canonical_json(self.fingerprint.to_json() | same),
                counts=canonical_json(dict(self.counts)),
                carry_out=canonical_json(self.carry_out),
                carry_out_digest=self.carry_out_digest,
            )
        )


def replace_record(connection: Connection, key: Mapping[str, str]) -> None:
    """Take the record of a unit away, and keep it among those that were replaced."""
    unit = [PUBLISHED.c[name] == value for name, value in key.items()]
    kept = sql.select(PUBLISHED).where(*unit)
    connection.execute(sql.insert(REPLACED).from_select([column.name for column in PUBLISHED.c], kept))
    connection.execute(sql.delete(PUBLISHED).where(*unit))


def forget_replaced(database: Database, stream: str, table: str, snapshots: Collection[int]) -> None:
    """Forget replaced records whose snapshots are gone: nothing can go back to them."""
    of_table = (REPLACED.c.stream == stream, REPLACED.c.table_name == table)
    with database.begin() as connection:
        connection.execute(sql.delete(REPLACED).where(*of_table, REPLACED.c.snapshot_id.not_in(list(snapshots))))


def published_days(database: Database, stream: str) -> list[PublishedDay]:
    """Return the published days of a stream in order of time."""
    rejected = {
        row.day: row.row_count for row in _rows(database, stream, "quarantine")
    }  # committed before the events, so that a day never shows more rejected rows than its run
    return [
        PublishedDay(
            date.fromisoformat(row.day),
            row.row_count,
            rejected.get(row.day, 0),
            EventsFingerprint.from_json(json.loads(row.fingerprint)),
            row.carry_out_digest,
            json.loads(row.counts),
            row.run_id,
            datetime.fromtimestamp(row.published_at, UTC),
            row.snapshot_id,
            json.loads(row.fingerprint).get(_SAME_EVENTS, ""),
            note=json.loads(row.fingerprint).get(NOTE, ""),
        )
        for row in _rows(database, stream, "events")
    ]


def published_matches(database: Database, stream: str, pattern_set: str | None = None) -> list[PublishedMatches]:
    """Return the published (pattern set, day) units of matches, by pattern set and day."""
    return [
        PublishedMatches(
            row.pattern_set,
            date.fromisoformat(row.day),
            row.row_count,
            MatchesFingerprint.from_json(json.loads(row.fingerprint)),
            row.carry_out_digest,
            _matches_and_pending(json.loads(row.counts))[0],
            row.run_id,
            datetime.fromtimestamp(row.published_at, UTC),
            row.snapshot_id,
            _matches_and_pending(json.loads(row.counts))[1],
            note=json.loads(row.fingerprint).get(NOTE, ""),
        )
        for row in _rows(database, stream, "matches", pattern_set)
    ]


def counts_with_pending(counts: Mapping[str, int], pending: Mapping[str, int]) -> dict[str, int]:
    """Matches by pattern and those that are pending, in one mapping: no pattern's name has a blank in it."""
    return {**counts, **{_PENDING + name: number for name, number in pending.items()}}


def _matches_and_pending(counts: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    matches = {name: number for name, number in counts.items() if not name.startswith(_PENDING)}
    pending = {name.removeprefix(_PENDING): n for name, n in counts.items() if name.startswith(_PENDING)}
    return matches, pending


_PENDING = "pending "


def carry_before(database: Database, stream: str, table: str, pattern_set: str, day: date) -> dict[str, Any]:
    """Return the carry-out of the latest earlier unit, over gaps; {} where there is none."""
    query = (
        sql.select(PUBLISHED.c.carry_out)
        .where(
            PUBLISHED.c.stream == stream,
            PUBLISHED.c.table_name == table,
            PUBLISHED.c.pattern_set == pattern_set,
            PUBLISHED.c.day < day.isoformat(),
        )
        .order_by(PUBLISHED.c.day.desc())
        .limit(1)
    )
    with database.begin() as connection:
        text = connection.execute(query).scalar_one_or_none()
    return {} if text is None else dict(json.loads(text))


def recorded_erasures(database: Database, stream: str) -> tuple[Erasure, ...]:
    """Return the erasures of a stream, the earliest first."""
    query = sql.select(ERASURES).where(ERASURES.c.stream == stream)
    with database.begin() as connection:
        rows = connection.execute(query.order_by(ERASURES.c.requested_at, ERASURES.c.erasure_id)).all()
    return tuple(
        Erasure(row.erasure_id, row.condition, frozenset(map(date.fromisoformat, json.loads(row.days)))) for row in rows
    )


def find_stale_units(
    database: Database,
    stream: str,
    *,
    raw_files: Mapping[date, Sequence[RawFile]] | None = None,
    schema: str | None = None,
    pattern_sets: Mapping[str, str] | None = None,
) -> list[StaleDay]:
    """Return what is stale, by day, events before matches (see `StreamTables.stale_days`)."""
    days = published_days(database, stream)
    erasures = recorded_erasures(database, stream)
    rejected_of = {row.day: json.loads(row.fingerprint) for row in _rows(database, stream, "quarantine")}
    stale: list[StaleDay] = []
    carry_in = NO_CARRY
    for published in days:
        recorded = published.fingerprint
        files = recorded.raw_files if raw_files is None else tuple(raw_files.get(published.day, recorded.raw_files))
        erased = erased_from(erasures, published.day)
        now = EventsFingerprint(files, recorded.schema if schema is None else schema, carry_in, erased)
        reasons = recorded.differences(now)
        rejected = rejected_of.get(published.day.isoformat())
        if rejected is not None and rejected != recorded.to_json():
            reasons = (*reasons, "its rejected rows are of a run that did not publish its events")
        if reasons:
            stale.append(StaleDay(published.day, None, _with_note(published.note, reasons)))
        carry_in = published.carry_out_digest
    for pattern_set, version in (pattern_sets or {}).items():
        stale += _stale_matches(days, published_matches(database, stream, pattern_set), pattern_set, version)
    return sorted(stale, key=lambda entry: (entry.day, entry.pattern_set or ""))


def _with_note(note: str, reasons: tuple[str, ...]) -> tuple[str, ...]:
    return (note, *reasons) if note else reasons


def _stale_matches(
    days: Sequence[PublishedDay], matches: Sequence[PublishedMatches], pattern_set: str, version: str
) -> list[StaleDay]:
    detected = {entry.final_day: entry for entry in matches}
    digests = {published.day: published.events_digest for published in days}
    stale: list[StaleDay] = []
    carry_in = NO_CARRY
    last = max(digests, default=None)
    for day in sorted({*detected, *digests}):
        entry = detected.get(day)
        if entry is None:
            stale.append(StaleDay(day, pattern_set, ("its matches have not been detected yet",)))
            continue
        recorded = entry.fingerprint
        first = recorded.events_from
        now = replace(
            recorded,
            pattern_set_version=version,
            events={d: digest for d, digest in digests.items() if (first is None or first <= d) and d <= day},
            carry_in=carry_in,
            end_of_stream=recorded.end_of_stream and day == last,
        )
        if reasons := recorded.differences(now):
            stale.append(StaleDay(day, pattern_set, _with_note(entry.note, reasons)))
        carry_in = entry.carry_out_digest
    return stale


def _rows(database: Database, stream: str, table: str, pattern_set: str | None = None) -> Sequence[Row[Any]]:
    query = sql.select(*_LISTED).where(PUBLISHED.c.stream == stream, PUBLISHED.c.table_name == table)
    if pattern_set is not None:
        query = query.where(PUBLISHED.c.pattern_set == pattern_set)
    with database.begin() as connection:
        return connection.execute(query.order_by(PUBLISHED.c.pattern_set, PUBLISHED.c.day)).all()
