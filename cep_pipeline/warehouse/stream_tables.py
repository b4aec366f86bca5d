"""The tables of one stream: `StreamReader` reads what is published, and only `StreamTables` publishes anything."""

from __future__ import annotations

import json
import logging
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sql

from cep_pipeline.errors import BusyError, CepError, DamagedError, InputError
from cep_pipeline.events.columns import DAY, SEQ, SEQ_PER_DAY, TIMESTAMP
from cep_pipeline.events.raw_files import RawFile
from cep_pipeline.storage import (
    DataDirectory,
    digest_of,
    folder_name,
    id_texts,
    open_parquet,
    read_data_file,
    read_digest,
    read_group,
    size_and_digest,
    write_data_file,
)
from cep_pipeline.warehouse.database import CURRENT_PLANS
from cep_pipeline.warehouse.layout import (
    SUMMARIES,
    UNIT_TABLES,
    TableLayout,
    day_column,
    decision_record,
    plan_record,
    row_of,
    run_record,
    statistics_record,
)
from cep_pipeline.warehouse.leases import Lease, day_unit, plan_unit
from cep_pipeline.warehouse.published_table import PublishedTable, Unit, day_of, in_stream_order
from cep_pipeline.warehouse.records import (
    DayStatistics,
    Decision,
    EventsFile,
    EventsFingerprint,
    EventsSnapshot,
    LeaseHolder,
    MatchesFingerprint,
    PlanRecord,
    PublishedDay,
    PublishedMatches,
    RunRecord,
    StaleDay,
    StatisticsRecord,
)
from cep_pipeline.warehouse.units import (
    Draft,
    DraftedDay,
    Drafts,
    carry_before,
    check_rows,
    counted_of,
    find_stale_units,
    is_within,
    one_moment,
    open_table,
    opened_tables,
    published_days,
    published_matches,
    recorded_rows,
    rows_by_unit,
)

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from sqlalchemy.engine import Connection, Row

    from cep_pipeline.detection.limits import LimitedPattern
    from cep_pipeline.detection.summaries.partial import PartialSummary
    from cep_pipeline.patterns.pattern import Pattern
    from cep_pipeline.warehouse.catalog import Beside
    from cep_pipeline.warehouse.leases import Store
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PinnedStatistics:
    """The statistics of a stream at one moment.

    `listed` has the files of the rows by (pattern set, day), `read` reads the row in a file. `drafted` are those that a
    run has made and not published yet; they are read in place of the published ones.
    """

    listed: Mapping[tuple[str, date], str]
    read: Callable[[str], Mapping[str, Any]]
    drafted: Mapping[tuple[str, date], StatisticsRecord] = field(default_factory=dict)

    def of(self, pattern_set: str, day: date) -> StatisticsRecord | None:
        """The statistics of a day, None where there are none; a row that is not what it should be is an InputError."""
        if (pattern_set, day) in self.drafted:
            return self.drafted[pattern_set, day]
        path = self.listed.get((pattern_set, day))
        return None if path is None else statistics_record(self.read(path))

    def before(self, pattern_set: str, day: date) -> StatisticsRecord | None:
        """The statistics of the latest earlier day that has any, over gaps; None where there are none."""
        return next((self.of(pattern_set, earlier) for earlier in self._days_before(pattern_set, day)), None)

    def observed_before(self, pattern_set: str, day: date) -> tuple[date, Mapping[str, Any]] | None:
        """Return the latest earlier day on which detection counted anything, and what it counted."""
        for earlier in self._days_before(pattern_set, day):
            record = self.of(pattern_set, earlier)
            if record is not None and record.observed is not None:
                return record.day, record.observed
        return None

    def _days_before(self, pattern_set: str, day: date) -> Iterator[date]:
        """The earlier days that have a row, the latest first."""
        known = {*self.listed, *self.drafted}
        yield from sorted((other for name, other in known if name == pattern_set and other < day), reverse=True)


TABLES_OF_A_DAY = ("events", "quarantine", "matches", SUMMARIES, "statistics")
"""The tables whose rows a day is published with."""


class StreamReader:
    """Everything that can be asked of the tables of one stream.

    The layout of `events` has the columns of the stream schema and `day`.
    """

    def __init__(self, warehouse: Store, name: str, layouts: Mapping[str, TableLayout]) -> None:
        self.warehouse = warehouse
        self.name = name
        self._layouts = dict(layouts)
        self._plans: dict[tuple[str, int], PlanRecord] = {}
        self.drafts = Drafts()
        self._pinned: Mapping[str, PublishedTable] = {}
        self._pinned_records: Mapping[str, Sequence[Row[Any]]] = {}

    def pinned(self, tables: Collection[str] = TABLES_OF_A_DAY) -> Self:
        """Return a reader of these tables and their records as they are now, all at one moment.

        A day is published in all of its tables at once, so that the matches that the reader returns belong to the
        events that it returns, whatever is published meanwhile. The other tables, and what runs carry from day to day,
        are read as they are when they are asked for. The files stay readable until `cep maintain` expires them, days
        later. A reader that is pinned already stays at its moment.
        """
        if self._pinned_records.keys() >= set(tables):
            return self
        reader = copy(self)
        reader._pinned, reader._pinned_records = opened_tables(self.warehouse.database, self.name, tables)
        return reader

    @property
    def snapshots(self) -> dict[str, tuple[int | None, str]]:
        """Table -> its current snapshot and metadata file, for other engines; all of one moment if it is `pinned`."""
        pinned = self.pinned()
        return {name: (table.current_snapshot_id, table.metadata_location) for name, table in pinned._pinned.items()}

    def with_drafts(self, drafts: Drafts) -> Self:
        """Return a reader for which days that are not published yet stand in place of the published ones.

        They do for what a run goes on from: the pinned events, statistics, and what the events hand on from day to
        day. `days` and `events_files` without a snapshot tell of what is published.
        """
        reader = copy(self)
        reader.drafts = drafts
        return reader

    @property
    def events_schema(self) -> pa.Schema:
        """Columns of the files of events: timestamp, seq, the attributes (strings without dictionaries), day."""
        return self._layouts["events"].schema

    def pin_events(self) -> EventsSnapshot:
        """Return the published days and the events snapshot of one moment."""
        pinned = self.pinned(("events", "quarantine"))
        snapshot = pinned._published("events").current_snapshot_id
        days = {entry.day: entry for entry in pinned.days()} | {
            day: draft.record for day, draft in self.drafts.days.items()
        }
        drafted = {day: draft.files for day, draft in self.drafts.days.items()}
        return EventsSnapshot(snapshot, dict(sorted(days.items())), drafted)

    def days(self) -> list[PublishedDay]:
        """Return the published days in order of time."""
        return published_days(self._records)

    def matches_days(self, pattern_set: str | None = None) -> list[PublishedMatches]:
        """Return the published (pattern set, day) units of matches in order."""
        return published_matches(self._records, pattern_set)

    def events_files(
        self, first: date | None = None, last: date | None = None, *, snapshot: EventsSnapshot | None = None
    ) -> list[EventsFile]:
        """Return the files of events of the days from `first` to `last` (both in; None: open), in stream order.

        Given a snapshot, the files of that moment, whatever has been published since.
        """
        drafted = snapshot.drafted if snapshot is not None else {}
        made = [file for day, files in sorted(drafted.items()) if is_within(day, first, last) for file in files]
        if snapshot is not None and snapshot.snapshot_id is None:
            return made
        pinned = self.pinned(("events",)) if snapshot is None else self
        table = pinned._published("events")
        snapshot_id = snapshot.snapshot_id if snapshot else None
        if snapshot_id is not None and table.metadata.snapshot_by_id(snapshot_id) is None:
            raise CepError(
                f"stream {self.name}: events snapshot {snapshot_id} has been expired by `cep maintain`; "
                "run again on the current one"
            )
        if snapshot is None:
            said = recorded_rows(pinned._records("events"), first, last)
        else:
            said = {("", day): record.events for day, record in snapshot.days.items() if is_within(day, first, last)}
        published = [file for file in table.events_files(first, last, snapshot_id) if file.day not in drafted]
        found: Counter[Unit] = Counter()
        for file in published:
            found["", file.day] += file.rows
        check_rows(table, found, {unit: rows for unit, rows in said.items() if unit[1] not in drafted})
        return sorted([*made, *published], key=lambda file: file.order)

    def read_events(
        self,
        first: date | None = None,
        last: date | None = None,
        *,
        snapshot: EventsSnapshot | None = None,
        columns: Collection[str] | None = None,
    ) -> pa.Table:
        """Return the events of these days sorted by (timestamp, seq), with the columns of the stream schema, or some.

        `timestamp` and `seq` are among the columns in any case.
        """
        wanted = self.events_schema.names if columns is None else (TIMESTAMP, SEQ, *columns)
        of_files = pa.schema([field for field in self.events_schema if field.name in wanted and field.name != DAY])
        parts = [read_data_file(file.path, of_files) for file in self.events_files(first, last, snapshot=snapshot)]
        events = _joined(of_files, parts)
        seq = events.column("seq")
        # seq grows with time within a day and from day to day; only files that overlap leave it unsorted.
        sorted_already = events.num_rows < 2 or pc.all(pc.less(seq[:-1], seq[1:])).as_py()
        return events if sorted_already else events.sort_by([("timestamp", "ascending"), ("seq", "ascending")])

    def read_matches(
        self,
        pattern_set: str,
        first: date | None = None,
        last: date | None = None,
        *,
        pattern: str | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Return matches (`matches_schema`) by final day, within a day by pattern in the order they were written."""
        row_filter = None if pattern is None else pc.field("pattern") == pattern
        return self._read_days("matches", first, last, pattern_set, row_filter=row_filter, limit=limit)

    @property
    def matches_schema(self) -> pa.Schema:
        """The columns of matches."""
        return self._layouts["matches"].schema

    def matches_files(self, pattern_set: str, day: date) -> list[str]:
        """Return the files of the matches of (pattern set, day) in the order of `read_matches`."""
        return sorted(file.file_path for file in self._files("matches", day, day, pattern_set))

    def read_summaries(
        self, pattern_set: str, first: date | None = None, last: date | None = None, *, pattern: str | None = None
    ) -> pa.Table:
        """Return what SUMMARIZE has put together, by day, within a day in the order of patterns and groups."""
        reader = self.pinned((SUMMARIES,))
        if SUMMARIES not in reader._pinned:  # no pattern of the stream has had SUMMARIZE
            return self._layouts[SUMMARIES].schema.empty_table()
        row_filter = None if pattern is None else pc.field("pattern") == pattern
        return reader._read_days(SUMMARIES, first, last, pattern_set, row_filter=row_filter)

    def summary_of(
        self, pattern_set: str, pattern: Pattern, first: date | None = None, last: date | None = None
    ) -> PartialSummary:
        """Return what SUMMARIZE of a pattern has put together over days: exactly that of one run over all of them.

        Days that were detected by another SUMMARIZE of the pattern are an InputError.
        """
        from cep_pipeline.detection.summaries.partial import PartialSummary

        rows = self.read_summaries(pattern_set, first, last, pattern=pattern.name)
        try:
            return PartialSummary.from_json(pattern, map(json.loads, rows["partial"].to_pylist()))
        except (KeyError, ValueError, TypeError) as error:
            raise InputError(
                f"stream {self.name}: days of {pattern_set} were summarized by another statement of {pattern.name}, "
                "so that they cannot be put together: cep run --stale detects them again"
            ) from error

    def first_matches(
        self,
        pattern_set: str,
        first: date | None = None,
        last: date | None = None,
        *,
        each: int,
        pattern: str | None = None,
    ) -> pa.Table:
        """Return at most `each` matches of a pattern, or of each (`matches_schema`), in the order of `read_matches`."""
        layout = self._layouts["matches"]
        position = layout.partitions.index("final_day")
        files = self._files("matches", first, last, pattern_set)
        missing: dict[str, int] = {}
        for unit in self.matches_days(pattern_set):
            if is_within(unit.final_day, first, last):
                for name, number in unit.counts.items():
                    if pattern in (None, name):
                        missing[name] = min(each, missing.get(name, 0) + number)
        order = list(missing)
        parts: list[pa.Table] = []
        for file in sorted(files, key=lambda file: (file.partition[position], file.file_path)):
            missing = {name: number for name, number in missing.items() if number > 0}
            if not missing:
                break
            with open_parquet(file.file_path) as parquet:
                for group in range(parquet.num_row_groups):
                    rows = read_group(parquet, group, self.matches_schema)
                    for value in pc.unique(rows.column("pattern")):
                        name = value.as_py()
                        if missing.get(name, 0) > 0:
                            own = rows.filter(pc.equal(rows.column("pattern"), value)).slice(0, missing[name])
                            missing[name] -= own.num_rows
                            parts.append(own)
        parts.sort(key=lambda part: order.index(part.column("pattern")[0].as_py()))
        return _joined(self.matches_schema, parts)

    def composed_matches(self, matches: pa.Table) -> list[pa.Table]:
        """Return the published matches inside some published matches of a pattern set, as `opened` takes them.

        Read are the ids of the days from the first event of the matches on.
        """
        if "composed" not in matches.column_names or matches["composed"].null_count == len(matches):
            return []
        composed = matches["composed"]
        listed = pc.list_flatten(composed.combine_chunks().drop_null())
        ids = pc.unique(id_texts(listed.field("match_id")))
        # They became final on the day of their last event or later, and on no later day than what composes them.
        first = pc.min(pc.list_flatten(matches["bindings"]).combine_chunks().field("seq")).as_py() // SEQ_PER_DAY
        last = max(matches["final_day"].to_pylist())
        [pattern_set] = pc.unique(matches["pattern_set"]).to_pylist()
        schema, only_ids = self.matches_schema, pa.schema([self.matches_schema.field("match_id")])
        parts: list[pa.Table] = []
        for file in self._files("matches", date.fromordinal(max(first, 1)), last, pattern_set):
            with open_parquet(file.file_path) as parquet:
                for group in range(parquet.num_row_groups):
                    found = read_group(parquet, group, only_ids)["match_id"]
                    asked = pc.is_in(id_texts(found), value_set=ids)
                    if pc.any(asked).as_py():
                        parts.append(read_group(parquet, group, schema).filter(asked))
        inside = _joined(schema, parts)
        return [*self.composed_matches(inside), inside]

    def read_match_events(self, matches: pa.Table, attributes: Sequence[str] | None = None) -> pa.Table:
        """Return the events that published matches bind, a row each, as `match_events` does.

        Of matches that compose others these are the events inside, as by `opened`. Read are the row groups of the
        events' days with a `seq` between the first and the last of them.
        """
        from cep_pipeline.detection.results import match_events, opened

        matches = opened(matches, self.composed_matches(matches))
        seqs = pc.unique(pc.list_flatten(matches.column("bindings").combine_chunks()).field("seq")).sort()
        days = np.from_dlpack(seqs) // SEQ_PER_DAY
        names = [name for name in self.events_schema.names if name != DAY]
        columns = pa.schema(
            [
                self.events_schema.field(name)
                for name in names
                if attributes is None or name in (TIMESTAMP, SEQ) or name in attributes
            ]
        )
        parts: list[pa.Table] = []
        for ordinal in (number for number in np.unique(days).tolist() if number > 0):
            begin, end = np.searchsorted(days, (ordinal, ordinal + 1)).tolist()
            day, own = date.fromordinal(ordinal), seqs[begin:end]
            chosen = (pc.field(SEQ) >= own[0]) & (pc.field(SEQ) <= own[-1]) & pc.field(SEQ).isin(own)
            parts += (read_data_file(file.path, columns, chosen) for file in self.events_files(day, day))
        return match_events(matches, _joined(columns, parts))

    def read_quarantine(
        self, first: date | None = None, last: date | None = None, *, limit: int | None = None
    ) -> pa.Table:
        """Return the rejected rows of these days (`QUARANTINE_SCHEMA`)."""
        return self._read_days("quarantine", first, last, None, limit=limit)

    def read_statistics(self, pattern_set: str, day: date) -> dict[str, Any] | None:
        """Return the statistics snapshot (JSON form) of a day, None where there is none."""
        found = self.pin_statistics(day).of(pattern_set, day)
        return None if found is None or found.snapshot is None else dict(found.snapshot)

    def statistics(
        self, pattern_set: str, first: date | None = None, last: date | None = None, *, without: Sequence[str] = ()
    ) -> list[StatisticsRecord]:
        """Return the statistics of a pattern set on the days from `first` to `last`, in order of time.

        Columns `without` which it does are not read: states are long. A row that does not hold what it
        should is an InputError; the states are not looked at.
        """
        schema = self._layouts["statistics"].schema
        columns = pa.schema([field for field in schema if field.name not in without])
        table = self._read_days("statistics", first, last, pattern_set, columns=columns)
        return [statistics_record({**dict.fromkeys(without), **row}) for row in table.to_pylist()]

    def pin_statistics(self, last: date) -> PinnedStatistics:
        """Return the statistics of all pattern sets up to a day (in) as they are now."""
        partitions = self._layouts["statistics"].partitions
        name, day = partitions.index("pattern_set"), partitions.index(DAY)

        @cache
        def read(path: str) -> Mapping[str, Any]:
            row: Mapping[str, Any] = self._read("statistics", path).to_pylist()[0]
            return row

        files = self._published("statistics").files(DAY, None, last)
        listed = {(file.partition[name], day_of(file.partition[day])): file.file_path for file in files}
        return PinnedStatistics(listed, read, dict(self.drafts.statistics))

    def carry_in(self, day: date) -> dict[str, Any]:
        """Return the carry-out of the latest published earlier day, over gaps; {} where there is none."""
        drafted = max((other for other in self.drafts.days if other < day), default=None)
        if drafted is not None and all(entry.day <= drafted for entry in self.days() if entry.day < day):
            return dict(self.drafts.days[drafted].events.carry_out)
        return carry_before(self.warehouse.database, self.name, "events", "", day)

    def matches_carry_in(self, pattern_set: str, day: date) -> dict[str, Any]:
        """Return the carry state of OUTPUT and CONSUME after the latest earlier day of the pattern set; {} if none."""
        if pattern_set in self.drafts.carried:
            return dict(self.drafts.carried[pattern_set])
        return carry_before(self.warehouse.database, self.name, "matches", pattern_set, day)

    def stale_days(
        self,
        *,
        raw_files: Mapping[date, Sequence[RawFile]] | None = None,
        schema: str | None = None,
        pattern_sets: Mapping[str, str] | None = None,
        patterns: Mapping[str, Sequence[Pattern]] = MappingProxyType({}),
    ) -> list[StaleDay]:
        """Return the days whose fingerprint would now differ, in order of time.

        - `raw_files`: those that there are now, for the days to check; a day that is not in it keeps its files.
        - `schema`: digest of the stream schema now; None: unchanged.
        - `pattern_sets`: pattern set -> its version now. Only these are checked; a published day without matches of one
          of them is stale for it.
        - `patterns`: pattern set -> its patterns: the reasons name those that have changed.

        It is only what follows from what is published now: redoing a day may change its carry-out and so make the next
        day stale, or leave it and stop the cascade. Redo the earliest, then ask again.
        """

        @cache
        def pattern_versions(pattern_set: str) -> dict[str, str]:
            from cep_pipeline.language.formatter import pattern_version

            return {pattern.name: pattern_version(pattern) for pattern in patterns.get(pattern_set, ())}

        return find_stale_units(
            self.pinned(UNIT_TABLES)._records,
            raw_files=raw_files,
            schema=schema,
            pattern_sets=pattern_sets,
            pattern_versions=pattern_versions,
        )

    def runs(self, limit: int | None = None) -> list[RunRecord]:
        """Return the latest record of each (run, day), the latest started first.

        A run that is recorded as running and whose process is dead is returned as abandoned.
        """
        found = self._recorded_runs(limit)
        if all(record.status != "running" for record in found):
            return found
        dead = {
            (one.run_id, one.unit): one for one in self.warehouse.leases() if one.stream == self.name and one.expired
        }
        holders = [dead.get((record.run_id, day_unit(record.day))) if record.day else None for record in found]
        return [
            record.abandoned(holder) if holder is not None and record.status == "running" else record
            for record, holder in zip(found, holders, strict=True)
        ]

    def _recorded_runs(self, limit: int | None = None) -> list[RunRecord]:
        latest: dict[tuple[str, date | None], dict[str, Any]] = {}
        for row in sorted(self._read_all("runs"), key=lambda row: row["recorded_at"]):
            latest[row["run_id"], row["day"]] = row
        newest = sorted(latest.values(), key=lambda row: (row["started_at"], row["recorded_at"]), reverse=True)
        return [run_record(row) for row in newest[:limit]]

    def current_plan(self, pattern_set: str) -> PlanRecord | None:
        """Return the current plan of a pattern set, None where there is none."""
        for row in self.warehouse.database.rows(sql.select(CURRENT_PLANS).where(*self._plan_row(pattern_set))):
            return self._plan(pattern_set, row.version)
        return None

    def _plan(self, pattern_set: str, version: int) -> PlanRecord:
        """One recorded plan, read once: a day asks for it several times, and that of a thousand patterns is large."""
        if (known := self._plans.get((pattern_set, version))) is not None:
            return known
        schema = self._layouts["plans"].schema
        asked = (pc.field("pattern_set") == pattern_set) & (pc.field("version") == version)
        for file in self._files("plans"):
            for row in read_data_file(file.file_path, schema, asked).to_pylist():
                return self._plans.setdefault((pattern_set, version), plan_record(row))
        raise CepError(f"stream {self.name}: version {version} of the plan of {pattern_set} is not among the plans")

    def plans(self, pattern_set: str | None = None) -> list[PlanRecord]:
        """Return all recorded plans, the latest first."""
        records = [plan_record(row) for row in self._read_all("plans")]
        wanted = [record for record in records if pattern_set in (None, record.pattern_set)]
        return sorted(wanted, key=lambda record: (record.created_at, record.version), reverse=True)

    def decisions(self, pattern_set: str | None = None, limit: int | None = None) -> list[Decision]:
        """Return the decisions, the latest first."""
        records = [decision_record(row) for row in self._read_all("decisions")]
        wanted = [record for record in records if pattern_set in (None, record.pattern_set)]
        return sorted(wanted, key=lambda record: record.decided_at, reverse=True)[:limit]

    def _records(self, table: str) -> Sequence[Row[Any]]:
        """The records of the units of a table, by pattern set and day."""
        if table in self._pinned_records:
            return self._pinned_records[table]
        return one_moment(self.warehouse.database, self.name, (table,))[1][table]

    def _published(self, name: str) -> PublishedTable:
        """A table for reading: the pinned one, or as it is now."""
        if name in self._pinned:
            return self._pinned[name]
        return open_table(self.warehouse.database, self.name, name)

    def _plan_row(self, pattern_set: str) -> Iterable[sql.ColumnElement[bool]]:
        return (CURRENT_PLANS.c.stream == self.name, CURRENT_PLANS.c.pattern_set == pattern_set)

    def read_table(self, table: str) -> pa.Table:
        """Return all rows of a table, such as `plans`."""
        parts = [self._read(table, path) for path in sorted(file.file_path for file in self._files(table))]
        return _joined(self._layouts[table].schema, parts)

    def _read_all(self, table: str) -> list[dict[str, Any]]:
        return [row for file in self._files(table) for row in self._read(table, file.file_path).to_pylist()]

    def _files(
        self, name: str, first: date | None = None, last: date | None = None, pattern_set: str | None = None
    ) -> list[DataFile]:
        """The files of a table (of some days, of a pattern set).

        A unit with another number of rows than its record says is a DamagedError.
        """
        reader = self.pinned((name,)) if name in UNIT_TABLES else self
        table = reader._published(name)
        equal = {} if pattern_set is None else {"pattern_set": pattern_set}
        files = table.files(day_column(name), first, last, equal=equal)
        if name in UNIT_TABLES:
            check_rows(
                table, rows_by_unit(table, files), recorded_rows(reader._records(name), first, last, pattern_set)
            )
        return files

    def _read_days(
        self,
        table: str,
        first: date | None,
        last: date | None,
        pattern_set: str | None,
        *,
        row_filter: pa.compute.Expression | None = None,
        limit: int | None = None,
        columns: pa.Schema | None = None,
    ) -> pa.Table:
        schema = self._layouts[table].schema if columns is None else columns
        position = self._layouts[table].partitions.index(day_column(table))
        files = self._files(table, first, last, pattern_set)
        parts: list[pa.Table] = []
        missing = limit
        for file in sorted(files, key=lambda file: (file.partition[position], file.file_path)):
            part = read_data_file(file.file_path, schema, row_filter)
            parts.append(part if missing is None else part.slice(0, missing))
            if missing is not None and (missing := missing - parts[-1].num_rows) <= 0:
                break
        return _joined(schema, parts)

    def _read(self, table: str, path: str) -> pa.Table:
        return read_data_file(path, self._layouts[table].schema)


def _joined(columns: pa.Schema, parts: Iterable[pa.Table]) -> pa.Table:
    return pa.concat_tables([pa.Table.from_batches([], columns), *parts])


class StreamTables(StreamReader):
    """The tables of one stream; made by `Warehouse.stream` and `Warehouse.open_stream`."""

    def day_lease(self, day: date, *, run_id: str, wait_s: float = 0.0, part: str = "") -> Lease:
        """Take the lease of a day, which publishing anything of the day needs: `with tables.day_lease(day, run_id=…)`.

        With a `part` it is one of several that are held side by side, and by which nothing can be published. A dead run
        that it is taken over from is recorded as abandoned first; where another one holds it, that is a BusyError.
        """

        def abandon(dead: LeaseHolder) -> None:
            for record in self._recorded_runs() if dead.run_id != run_id else ():
                if (record.run_id, record.day, record.status) == (dead.run_id, day, "running"):
                    self.record_run(record.abandoned(dead, run_id))

        return self.warehouse.lease(self.name, day_unit(day, part), run_id=run_id, wait_s=wait_s, of_dead=abandon)

    def plan_lease(self, pattern_set: str, *, run_id: str, wait_s: float = 0.0) -> Lease:
        """Take the lease of the plans of a pattern set, which recording a plan needs."""
        return self.warehouse.lease(self.name, plan_unit(pattern_set), run_id=run_id, wait_s=wait_s)

    def events_directory(self, day: date, *, run_id: str) -> DataDirectory:
        """Return where tasks write files of events of a day; the columns are `events_schema`."""
        return self._directory("events", {DAY: day}, run_id)

    def quarantine_directory(self, day: date, *, run_id: str) -> DataDirectory:
        """Return where tasks write files of rejected rows of a day; the columns are `QUARANTINE_SCHEMA`."""
        return self._directory("quarantine", {DAY: day}, run_id)

    def matches_directory(self, pattern_set: str, final_day: date, *, run_id: str) -> DataDirectory:
        """Return where tasks write files of matches; their columns are `matches_schema`."""
        if self.drafts.folder:
            return DataDirectory(f"{self.drafts.folder}/{folder_name(pattern_set)}/{final_day}", run_id)
        return self._directory("matches", {"pattern_set": pattern_set, "final_day": final_day}, run_id)

    def draft_events(
        self,
        day: date,
        files: Sequence[str],
        rejected: Sequence[str] = (),
        *,
        run_id: str,
        fingerprint: EventsFingerprint,
        carry_out: Mapping[str, Any],
        counts: Mapping[str, int] | None = None,
    ) -> DraftedDay:
        """Make a draft of the events and the rejected rows of a day: checked, and not yet published.

        The paths are those that successful attempts returned; every row must have the day in its column `day`. The
        fingerprint has the digest of `carry_in(day)`. `carry_out` is what the next day carries in; an empty day passes
        its carry-in on. `counts` are kept with the day. A file that is missing, does not fit the table or has rows of
        another day is a CepError.
        """
        same = self._same_events_as(day, files, fingerprint)
        events = Draft("events", day, tuple(files), fingerprint, carry_out, counts or {}, "", same)
        return self.drafted(events, Draft("quarantine", day, tuple(rejected), fingerprint), run_id=run_id)

    def drafted(self, events: Draft, quarantine: Draft, *, run_id: str) -> DraftedDay:
        """Look at the files of a draft of a day, and return it with what a run reads of it."""
        from cep_pipeline.warehouse.catalog import data_files

        day = events.day
        with self.warehouse.catalog.errors(f"looking at the events of {self.name}, {day}"):
            table, rejects = (self.warehouse.catalog.load_table((self.name, name)) for name in ("events", "quarantine"))
            found = data_files(table, events.unit, events.files)
            rejected = data_files(rejects, quarantine.unit, quarantine.files)
        assert isinstance(events.fingerprint, EventsFingerprint)
        record = PublishedDay(
            day,
            sum(file.record_count for file in found),
            sum(file.record_count for file in rejected),
            events.fingerprint,
            digest_of(events.carry_out),
            events.counts,
            run_id,
            self._now(),
            0,
            events.same_events_as,
        )
        ids = (table.schema().find_field(name).field_id for name in (TIMESTAMP, SEQ))
        return DraftedDay(events, quarantine, record, tuple(in_stream_order(found, *ids)))

    def draft_matches(
        self,
        pattern_set: str,
        final_day: date,
        files: Sequence[str],
        *,
        fingerprint: MatchesFingerprint,
        carry_out: Mapping[str, Any] | None = None,
        counts: Mapping[str, int] | None = None,
        pending: Mapping[str, int] | None = None,
        limited: Mapping[str, LimitedPattern] | None = None,
    ) -> Draft:
        """Make a draft of the matches of (pattern set, day).

        The fingerprint comes from `EventsSnapshot.matches_fingerprint` of the snapshot that detection was pinned to.
        `counts` and `pending` are matches by pattern, those that are published and those that wait; `limited` are the
        patterns of which none is published.
        """
        counted = counted_of(counts or {}, pending or {}, limited or {})
        return Draft("matches", final_day, tuple(files), fingerprint, carry_out or {}, counted, pattern_set)

    def draft_summaries(
        self,
        pattern_set: str,
        final_day: date,
        summaries: Sequence[PartialSummary],
        *,
        version: str,
        fingerprint: MatchesFingerprint,
        run_id: str,
    ) -> list[Draft]:
        """Make a draft of what SUMMARIZE has put together of the matches of (pattern set, day).

        There is none where no pattern of the set has SUMMARIZE, and none had when the day was published last. The
        version is that of the pattern set, the fingerprint that of the matches.
        """
        unit: dict[str, str | date] = {"pattern_set": pattern_set, "final_day": final_day}
        known = (pattern_set, final_day.isoformat())
        if not summaries and all((row.pattern_set, row.day) != known for row in self._records(SUMMARIES)):
            return []
        layout = self._layouts[SUMMARIES]
        self.warehouse.catalog.ensure_table(self.name, layout)
        parts = []
        for summary in summaries:
            groups, aggregates, partial_ = summary.published()
            fixed = {**unit, "pattern": summary.name, "pattern_version": version}
            columns = [pa.repeat(pa.scalar(fixed[one.name], one.type), len(groups)) for one in list(layout.schema)[:4]]
            parts.append(pa.table([*columns, groups, aggregates, partial_], schema=layout.schema))
        rows = pa.concat_tables([layout.schema.empty_table(), *parts])
        files = []
        if rows.num_rows:
            files.append(write_data_file(self._directory(SUMMARIES, unit, run_id).file(0), rows, layout.schema))
        return [Draft(SUMMARIES, final_day, tuple(files), fingerprint, pattern_set=pattern_set)]

    def draft_statistics(
        self, day: date, made: Mapping[str, DayStatistics], *, run_id: str, known: PinnedStatistics | None = None
    ) -> list[StatisticsRecord]:
        """Make a draft of the statistics of a day, by pattern set; what was observed stays.

        `known` are the statistics up to the day, pinned under the same lease; None: they are listed here.
        """
        known = known or self.pin_statistics(day)
        records = []
        for pattern_set, own in made.items():
            before = _readable(known, pattern_set, day)
            observed = before.observed if before else None
            content = (own.snapshot, own.state, own.basis, observed)
            records.append(StatisticsRecord(pattern_set, day, run_id, self._now(), *content))
        return records

    def draft_observed(
        self, pattern_set: str, day: date, observed: Mapping[str, Any] | None, *, run_id: str
    ) -> StatisticsRecord:
        """Make a draft of what detection counted for (pattern set, day); the statistics stay as they are."""
        before = _readable(self.pin_statistics(day), pattern_set, day)
        kept = before or StatisticsRecord(pattern_set, day, run_id, self._now())
        return replace(kept, observed=observed)

    def publish(
        self, day: date, drafts: Sequence[Draft], statistics: Sequence[StatisticsRecord] = (), *, lease: Lease
    ) -> list[int]:
        """Replace all that was drafted of a day, in all of its tables at once; returns the rows of each draft.

        A reader sees the day as it was or as it is now, and so does whoever comes after a kill: the tables, the records
        and the lease change in one transaction of the catalog. What is not among the drafts stays as it is. Nothing has
        changed where the lease was lost to another run (BusyError), or a file is missing, does not fit its table or has
        rows of another unit (CepError).
        """
        from cep_pipeline.warehouse.catalog import replace_units

        self._check_lease(lease, day_unit(day))
        units = list(drafts)
        for found in statistics:
            row = row_of(replace(found, run_id=lease.run_id, recorded_at=self._now()))
            draft = Draft("statistics", day, (), None, pattern_set=found.pattern_set)
            units.append(replace(draft, files=(self._write_rows("statistics", [row], draft.unit),)))
        if not units:
            return []
        names = dict.fromkeys(one.table for one in units)
        lease.check()
        with self.warehouse.catalog.errors(f"publishing {', '.join(names)} of {self.name}, {day}"):
            rows = replace_units(
                self.warehouse.catalog, self.name, units, lease.run_id, lease.renew, self.warehouse.clock()
            )
        return rows[: len(drafts)]

    def record_run(self, record: RunRecord) -> None:
        """Append a record of a run."""
        self._append("runs", {**row_of(record), "recorded_at": self._now()})

    def record_plan(
        self,
        pattern_set: str,
        plan: Mapping[str, Any],
        *,
        lease: Lease,
        explain: str,
        reason: str,
        pattern_set_version: str,
        make_current: bool = True,
        statistics: Mapping[str, Any] | None = None,
        statements: Mapping[str, Any] | None = None,
        in_place_of: int | None = None,
    ) -> PlanRecord:
        """Append the next version of the plan of a pattern set, and make it the current one in the same commit.

        Without `make_current` it is only appended, and `record_decision` can make it the current one. `statistics` and
        `statements` are those that it was made from and for. It becomes current only if the version `in_place_of`
        (None: none) still is; that, or a lost lease, is a BusyError, and nothing has changed.
        """
        self._check_lease(lease, plan_unit(pattern_set))
        version = 1 + max((record.version for record in self.plans(pattern_set)), default=0)
        record = PlanRecord(
            pattern_set,
            version,
            plan,
            explain,
            reason,
            pattern_set_version,
            lease.run_id,
            self._now(),
            statistics,
            statements or {},
        )

        def beside(connection: Connection, _: Mapping[str, int | None]) -> None:
            lease.renew(connection)
            if make_current:
                self._replace_current(connection, pattern_set, version, in_place_of)

        self._append("plans", row_of(record), beside)
        return record

    def record_decision(
        self, decision: Decision, *, makes_current: int | None = None, in_place_of: int | None = None
    ) -> None:
        """Append a decision of the adaptation loop, and change the current plan in the same commit where it says so.

        The recorded version `makes_current` becomes the current one (None: the plan stays), if the version
        `in_place_of` (None: none) still is; else that is a BusyError, and nothing has changed.
        """
        name = decision.pattern_set
        versions = [] if makes_current is None else [record.version for record in self.plans(name)]
        if makes_current is not None and makes_current not in versions:
            raise InputError(
                f"stream {self.name}: pattern set {name!r} has no plan of version {makes_current}; "
                f"it has {versions or 'none'}"
            )

        def beside(connection: Connection, _: Mapping[str, int | None]) -> None:
            if makes_current is not None:
                self._replace_current(connection, name, makes_current, in_place_of)

        self._append("decisions", row_of(decision), beside)

    def _same_events_as(self, day: date, files: Sequence[str], fingerprint: EventsFingerprint) -> str:
        """Return the digest that stands for the published events of a day, where the files hold exactly these.

        It is "" where they do not, or where it is the fingerprint's. Other raw files, or another carry-in, often give
        the same events: then nothing that was made of them is stale.
        """
        before = next((entry for entry in self.days() if entry.day == day), None)
        if before is None:
            return ""
        if before.fingerprint == fingerprint:  # what is there may be damaged: the same inputs give the same events
            return before.same_events_as
        try:
            made, published = sorted(map(size_and_digest, files)), self.events_files(day, day)
            same = [size for size, _ in made] == sorted(file.size_bytes for file in published)
            same = same and made == sorted(read_digest(file.path) for file in published)
        except CepError as error:  # a damaged day is redone all the same
            logger.warning("%s: whether its events have changed cannot be told: %s", day, error)
            return ""
        return before.events_digest if same and before.events_digest != fingerprint.digest else ""

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.warehouse.clock(), UTC)

    def _directory(self, table: str, unit: Mapping[str, str | date], run_id: str) -> DataDirectory:
        folders = (f"{column}={folder_name(str(value))}" for column, value in unit.items())
        location = "/".join((self.warehouse.table_location(self.name, table), "data", *folders))
        return DataDirectory(location, run_id)

    def _check_lease(self, lease: Lease, unit: str) -> None:
        if (lease.stream, lease.unit) != (self.name, unit):
            raise CepError(
                f"publishing {unit} of stream {self.name} with the lease of {lease.unit} of stream {lease.stream}; "
                "take the lease of what is published"
            )

    def _write_rows(self, table: str, rows: list[dict[str, Any]], unit: Mapping[str, str | date]) -> str:
        schema = self._layouts[table].schema
        path = self._directory(table, unit, uuid.uuid4().hex[:8]).file(0)
        return write_data_file(path, pa.Table.from_pylist(rows, schema=schema), schema)

    def _append(self, table: str, row: dict[str, Any], beside: Beside = lambda connection, made: None) -> None:
        from cep_pipeline.warehouse.catalog import append_file

        append_file(self.warehouse.catalog, self.name, table, self._write_rows(table, [row], {}), beside)

    def _replace_current(self, connection: Connection, pattern_set: str, version: int, expected: int | None) -> None:
        """Make a version the current one where `expected` (None: none) still is."""
        now = {"version": version, "changed_at": self._now().timestamp()}
        change: sql.Insert | sql.Update = sql.insert(CURRENT_PLANS).values(
            stream=self.name, pattern_set=pattern_set, **now
        )
        if expected is not None:
            same = [*self._plan_row(pattern_set), CURRENT_PLANS.c.version == expected]
            change = sql.update(CURRENT_PLANS).where(*same).values(now)
        try:
            changed = connection.execute(change).rowcount
        except sql.exc.IntegrityError as error:  # none was expected, and another run has set one
            raise self._overtaken(pattern_set, expected) from error
        if not changed:
            raise self._overtaken(pattern_set, expected)

    def _overtaken(self, pattern_set: str, expected: int | None) -> BusyError:
        return BusyError(
            f"stream {self.name}: the current plan of pattern set {pattern_set!r} is no longer "
            f"{'none' if expected is None else f'version {expected}'}: another run has changed it. "
            "Look at the current one and decide again"
        )


def _readable(known: PinnedStatistics, pattern_set: str, day: date) -> StatisticsRecord | None:
    """Return the statistics of a day; None where there are none, or where they are damaged and are to be replaced."""
    try:
        return known.of(pattern_set, day)
    except (DamagedError, InputError) as error:
        logger.warning("%s; the row is replaced, and what detection counted is lost", error)
        return None
