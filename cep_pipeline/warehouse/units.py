"""Units in the catalog's database: the records of published ones, which of them are stale, and drafts of new ones.

A unit is replaced as a whole: the events or the rejected rows of a day, or the matches of a pattern set on a day. A
draft is what a run has made of one, in files that no table names until the whole day is published.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import sqlalchemy as sql
from sqlalchemy.engine import Connection, Row

from cep_pipeline.errors import DamagedError, InputError
from cep_pipeline.events.raw_files import RawFile
from cep_pipeline.storage import canonical_json, digest_of, files_from_json, files_to_json
from cep_pipeline.warehouse.database import (
    CATALOG_NAME,
    POINTERS,
    PUBLISHED,
    Database,
)
from cep_pipeline.warehouse.layout import OF_PATTERN_SETS, day_column
from cep_pipeline.warehouse.published_table import PublishedTable, Unit
from cep_pipeline.warehouse.records import (
    NO_CARRY,
    EventsFile,
    EventsFingerprint,
    MatchesFingerprint,
    PublishedDay,
    PublishedMatches,
    StaleDay,
    StatisticsRecord,
)

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile

    from cep_pipeline.detection.limits import LimitedPattern

_LISTED = [column for column in PUBLISHED.c if column.name != "carry_out"]

SAME_EVENTS = "same_events_as"
"""Name beside a stored fingerprint of what `PublishedDay` has of it."""
REBUILT = "rebuilt"
"""The run id of records that `cep restore` has made."""
LOST = "its record was lost with the catalog, and made anew from the tables"

Records = Callable[[str], Sequence[Row[Any]]]
"""Table -> the records of its units, by pattern set and day."""


def one_moment(
    database: Database, stream: str, tables: Collection[str]
) -> tuple[dict[str, str], dict[str, list[Row[Any]]]]:
    """Return where the metadata of some tables is, and the records of their units, all as of one moment.

    One statement reads both: no database shows half of another transaction to a statement.
    """
    of_table = (PUBLISHED.c.stream == POINTERS.c.table_namespace) & (PUBLISHED.c.table_name == POINTERS.c.table_name)
    query = (
        sql.select(POINTERS.c.table_name.label("of"), POINTERS.c.metadata_location, *_LISTED)
        .select_from(sql.outerjoin(POINTERS, PUBLISHED, of_table))
        .where(POINTERS.c.catalog_name == CATALOG_NAME, POINTERS.c.table_namespace == stream)
        .where(POINTERS.c.table_name.in_(list(tables)))
        .order_by(PUBLISHED.c.pattern_set, PUBLISHED.c.day)
    )
    pointers: dict[str, str] = {}
    records: dict[str, list[Row[Any]]] = {table: [] for table in tables}
    for row in database.rows(query):
        pointers[row.of] = row.metadata_location
        if row.day is not None:
            records[row.of].append(row)
    return pointers, records


def opened_tables(
    database: Database, stream: str, tables: Collection[str]
) -> tuple[dict[str, PublishedTable], dict[str, list[Row[Any]]]]:
    """Return some tables of a stream, and the records of their units, all as of one moment.

    Metadata that cannot be read is a DamagedError.
    """
    pointers, records = one_moment(database, stream, tables)
    return {name: PublishedTable.read(database, stream, name, at) for name, at in pointers.items()}, records


def open_table(database: Database, stream: str, name: str) -> PublishedTable:
    """Return a table of a stream as it is now; InputError: there is none, DamagedError: it cannot be read."""
    tables, _ = opened_tables(database, stream, (name,))
    if name not in tables:
        raise InputError(f"opening table {stream}.{name}: the catalog {database.name} has no such table")
    return tables[name]


# -- rows and what records say of them ---------------------------------------------------------------------------------


def rows_by_unit(table: PublishedTable, files: Iterable[DataFile]) -> Counter[Unit]:
    """Return the rows of each unit that has files."""
    rows: Counter[Unit] = Counter()
    for file in files:
        rows[table.unit_of(file)] += file.record_count
    return rows


def recorded_rows(
    records: Iterable[Row[Any]], first: date | None = None, last: date | None = None, pattern_set: str | None = None
) -> dict[Unit, int]:
    """Return the rows of each unit (of some days, of a pattern set) as the records say them."""
    said = {(row.pattern_set, date.fromisoformat(row.day)): row.row_count for row in records}
    return {
        unit: rows for unit, rows in said.items() if is_within(unit[1], first, last) and pattern_set in (None, unit[0])
    }


def is_within(day: date, first: date | None, last: date | None) -> bool:
    """Return True for a day from first to last (both in; None: open)."""
    return (first is None or first <= day) and (last is None or day <= last)


def differing_units(rows: Mapping[Unit, int], said: Mapping[Unit, int]) -> dict[Unit, str]:
    """Return a sentence for each unit whose table has not the rows that its record says."""
    return {
        unit: f"its record says {said.get(unit, 0):,} rows, and the table has {rows.get(unit, 0):,}"
        for unit in sorted({*rows, *said})
        if rows.get(unit, 0) != said.get(unit, 0)
    }


def check_rows(table: PublishedTable, rows: Mapping[Unit, int], said: Mapping[Unit, int]) -> None:
    """Raise a DamagedError where a unit has not the rows that its record says: it is read as if it were whole."""
    for (pattern_set, day), sentence in differing_units(rows, said).items():
        raise DamagedError(
            " ".join(part for part in (f"{table.stream}.{table.name}", day.isoformat(), pattern_set) if part),
            sentence,
            f"`cep run --stream {table.stream} --redo --day {day}` makes it again",
        )


def published_days(records: Records) -> list[PublishedDay]:
    """Return the published days of a stream in order of time."""
    # First: where the two are read one after the other, a day never shows more rejected rows than its run.
    rejected = {row.day: row.row_count for row in records("quarantine")}
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
            json.loads(row.fingerprint).get(SAME_EVENTS, ""),
        )
        for row in records("events")
    ]


def published_matches(records: Records, pattern_set: str | None = None) -> list[PublishedMatches]:
    """Return the published (pattern set, day) units of matches, by pattern set and day."""
    return [
        PublishedMatches(
            row.pattern_set,
            date.fromisoformat(row.day),
            row.row_count,
            MatchesFingerprint.from_json(json.loads(row.fingerprint)),
            row.carry_out_digest,
            {name: number for name, number in json.loads(row.counts).items() if " " not in name},
            row.run_id,
            datetime.fromtimestamp(row.published_at, UTC),
            row.snapshot_id,
            _named(json.loads(row.counts), _PENDING),
            _limited(json.loads(row.counts)),
        )
        for row in records("matches")
        if pattern_set in (None, row.pattern_set)
    ]


def counted_of(
    counts: Mapping[str, int], pending: Mapping[str, int], limited: Mapping[str, LimitedPattern]
) -> dict[str, Any]:
    """Matches by pattern, those that are pending, and limits, in one mapping: no pattern's name has a blank in it."""
    waiting = {_PENDING + name: number for name, number in pending.items()}
    stopped = {_LIMITED + name: one.to_json() for name, one in limited.items()}
    return {**counts, **waiting, **stopped}


def _limited(counted: Mapping[str, Any]) -> dict[str, LimitedPattern]:
    found = _named(counted, _LIMITED)
    if not found:
        return {}
    from cep_pipeline.detection.limits import LimitedPattern

    return {name: LimitedPattern.from_json(one) for name, one in found.items()}


def _named(counted: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {name.removeprefix(kind): one for name, one in counted.items() if name.startswith(kind)}


_PENDING, _LIMITED = "pending ", "limited "


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
    return next((dict(json.loads(row.carry_out)) for row in database.rows(query)), {})


def find_stale_units(
    records: Records,
    *,
    raw_files: Mapping[date, Sequence[RawFile]] | None = None,
    schema: str | None = None,
    pattern_sets: Mapping[str, str] | None = None,
    pattern_versions: Callable[[str], Mapping[str, str]] = lambda _: MappingProxyType({}),
) -> list[StaleDay]:
    """Return what is stale, by day, events before matches (see `StreamTables.stale_days`)."""
    days = published_days(records)
    rejected_of = {row.day: json.loads(row.fingerprint) for row in records("quarantine")}
    stale: list[StaleDay] = []
    carry_in = NO_CARRY
    for published in days:
        recorded = published.fingerprint
        files = recorded.raw_files if raw_files is None else tuple(raw_files.get(published.day, recorded.raw_files))
        now = EventsFingerprint(files, recorded.schema if schema is None else schema, carry_in)
        reasons = recorded.differences(now)
        rejected = rejected_of.get(published.day.isoformat())
        if rejected is not None and rejected != recorded.to_json():
            reasons = (*reasons, "its rejected rows are of a run that did not publish its events")
        if reasons:
            stale.append(StaleDay(published.day, None, _with_loss(published, reasons)))
        carry_in = published.carry_out_digest
    for pattern_set, version in (pattern_sets or {}).items():
        matches = published_matches(records, pattern_set)
        stale += _stale_matches(days, matches, pattern_set, version, pattern_versions)
    return sorted(stale, key=lambda entry: (entry.day, entry.pattern_set or ""))


def _with_loss(unit: PublishedDay | PublishedMatches, reasons: tuple[str, ...]) -> tuple[str, ...]:
    return (LOST, *reasons) if unit.run_id == REBUILT else reasons


def _stale_matches(
    days: Sequence[PublishedDay],
    matches: Sequence[PublishedMatches],
    pattern_set: str,
    version: str,
    pattern_versions: Callable[[str], Mapping[str, str]],
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
        events = {d: digest for d, digest in digests.items() if (first is None or first <= d) and d <= day}
        now = replace(
            recorded,
            pattern_set_version=version,
            patterns=recorded.patterns if recorded.pattern_set_version == version else pattern_versions(pattern_set),
            events=events,
            carry_in=carry_in,
            end_of_stream=recorded.end_of_stream and day == last,
        )
        if reasons := recorded.differences(now):
            stale.append(StaleDay(day, pattern_set, _with_loss(entry, reasons)))
        carry_in = entry.carry_out_digest
    return stale


# -- drafts -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Draft:
    """Rows that are to be all of a unit: the events, the rejected rows, matches, summaries or statistics of a day.

    No table names the files yet. `pattern_set` is empty for events and rejected rows. `fingerprint`, `carry_out`,
    `counts` and `same_events_as` are recorded of the unit (of statistics, which have no fingerprint, nothing).
    """

    table: str
    day: date
    files: tuple[str, ...]
    fingerprint: EventsFingerprint | MatchesFingerprint | None
    carry_out: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, Any] = field(default_factory=dict)
    pattern_set: str = ""
    same_events_as: str = ""

    @property
    def unit(self) -> dict[str, str | date]:
        """The values of the table's partition columns."""
        named = {"pattern_set": self.pattern_set} if self.pattern_set else {}
        return {**named, day_column(self.table): self.day}

    def write(
        self, connection: Connection, stream: str, run_id: str, published_at: float, snapshot_id: int | None, rows: int
    ) -> None:
        """Replace the record of the unit, if it has one, in the transaction that publishes its rows."""
        if self.fingerprint is None:
            return
        key = {"stream": stream, "table_name": self.table, "pattern_set": self.pattern_set, "day": str(self.day)}
        known: dict[str, Any] = {SAME_EVENTS: self.same_events_as} if self.same_events_as else {}
        connection.execute(sql.delete(PUBLISHED).filter_by(**key))
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
        connection.execute(sql.insert(PUBLISHED), [made])

    def to_json(self) -> dict[str, Any]:
        """The JSON form, read back by `from_json`: what one task hands to the next."""
        fingerprint = self.fingerprint and self.fingerprint.to_json()
        plain = {"day": self.day.isoformat(), "files": files_to_json(self.files), "fingerprint": fingerprint}
        return {**vars(self), **plain}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Draft:
        """Read the JSON form."""
        known = MatchesFingerprint if content["table"] in OF_PATTERN_SETS else EventsFingerprint
        read = {
            "day": date.fromisoformat(content["day"]),
            "files": files_from_json(content["files"]),
            "fingerprint": known.from_json(content["fingerprint"]),
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

    `statistics` are those of (pattern set, day). A trial, of which nothing will be published, also drafts matches: it
    writes their files into `folder`, and `carried` has what its latest day of a pattern set hands on to the next.
    """

    days: dict[date, DraftedDay] = field(default_factory=dict)
    statistics: dict[tuple[str, date], StatisticsRecord] = field(default_factory=dict)
    folder: str = ""
    carried: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def statistics_of(self, day: date) -> list[StatisticsRecord]:
        """Return the statistics of a day, of each pattern set that has any."""
        return [record for (_, of), record in self.statistics.items() if of == day]
