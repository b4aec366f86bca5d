"""`StreamTables`: what is published of one stream, and the only way to publish."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sql

from cep_pipeline.errors import BusyError, CepError, InputError
from cep_pipeline.warehouse import history, published
from cep_pipeline.warehouse.data_files import DataDirectory, read_data_file, write_data_file
from cep_pipeline.warehouse.database import CURRENT_PLANS
from cep_pipeline.warehouse.fingerprints import EventsFingerprint, MatchesFingerprint, RawFile, canonical_json
from cep_pipeline.warehouse.layout import DAY, TableLayout, folder_name
from cep_pipeline.warehouse.leases import Lease, day_unit, plan_unit
from cep_pipeline.warehouse.records import (
    Decision,
    EventsFile,
    EventsSnapshot,
    PlanRecord,
    PublishedDay,
    PublishedMatches,
    RunRecord,
    StaleDay,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from sqlalchemy.engine import Connection

    from cep_pipeline.warehouse.warehouse import Warehouse


class StreamTables:
    """The tables of one stream; made by `Warehouse.stream` and `Warehouse.open_stream`.

    Parameters
    ----------
    warehouse
        Where they are.
    name
        The stream.
    layouts
        Table name -> layout; that of `events` has the columns of the stream schema and `day`.
    """

    def __init__(self, warehouse: Warehouse, name: str, layouts: Mapping[str, TableLayout]) -> None:
        self.warehouse = warehouse
        self.name = name
        self._layouts = dict(layouts)

    @property
    def events_schema(self) -> pa.Schema:
        """Columns of the files of events: timestamp, seq, the attributes (strings without dictionaries), day."""
        return self._layouts["events"].schema

    # -- leases ------------------------------------------------------------------------------------------------------

    def day_lease(self, day: date, *, run_id: str, wait_s: float = 0.0) -> Lease:
        """Take the lease of a day, which publishing anything of the day needs: `with tables.day_lease(day, run_id=…)`.

        Raises
        ------
        BusyError
            Another run holds it.
        """
        return self.warehouse.lease(self.name, day_unit(day), run_id=run_id, wait_s=wait_s)

    def plan_lease(self, pattern_set: str, *, run_id: str, wait_s: float = 0.0) -> Lease:
        """Take the lease of the plans of a pattern set, which recording a plan needs."""
        return self.warehouse.lease(self.name, plan_unit(pattern_set), run_id=run_id, wait_s=wait_s)

    # -- files of tasks ----------------------------------------------------------------------------------------------

    def events_directory(self, day: date, *, run_id: str) -> DataDirectory:
        """Return where tasks write files of events of a day; the columns are `events_schema`."""
        return self._directory("events", {DAY: day}, run_id)

    def quarantine_directory(self, day: date, *, run_id: str) -> DataDirectory:
        """Return where tasks write files of rejected rows of a day; the columns are `QUARANTINE_SCHEMA`."""
        return self._directory("quarantine", {DAY: day}, run_id)

    def matches_directory(self, pattern_set: str, final_day: date, *, run_id: str) -> DataDirectory:
        """Return where tasks write files of matches; the columns are `MATCHES_SCHEMA`."""
        return self._directory("matches", {"pattern_set": pattern_set, "final_day": final_day}, run_id)

    # -- publishing --------------------------------------------------------------------------------------------------

    def publish_quarantine(
        self, day: date, files: Sequence[str], *, lease: Lease, fingerprint: EventsFingerprint
    ) -> int:
        """Replace the rejected rows of a day by those of exactly these files; returns how many. Before the events."""
        self._check_lease(lease, day_unit(day))
        record = self._record("quarantine", "", day, lease, fingerprint, {}, {})
        return self._replace("quarantine", {DAY: day}, files, lease, record)[1]

    def publish_events(
        self,
        day: date,
        files: Sequence[str],
        *,
        lease: Lease,
        fingerprint: EventsFingerprint,
        carry_out: Mapping[str, Any],
        counts: Mapping[str, int] | None = None,
    ) -> PublishedDay:
        """Replace the events of a day by those of exactly these files, in one commit.

        Parameters
        ----------
        day
            The day; every row of every file must have it in its column `day`.
        files
            Paths that successful attempts returned. None: the day is published as empty.
        lease
            The day's lease, held.
        fingerprint
            What the events were made from, the digest of `carry_in(day)` included.
        carry_out
            JSON value that the next day carries in; an empty day passes its carry-in on.
        counts
            Further counts to keep with the day.

        Raises
        ------
        BusyError
            The lease was lost to another run; nothing has changed.
        CepError
            A file is missing, does not fit the table or has rows of another day; nothing has changed.
        """
        self._check_lease(lease, day_unit(day))
        record = self._record("events", "", day, lease, fingerprint, counts or {}, carry_out)
        self._replace("events", {DAY: day}, files, lease, record)
        return next(entry for entry in self.days() if entry.day == day)

    def publish_matches(
        self,
        pattern_set: str,
        final_day: date,
        files: Sequence[str],
        *,
        lease: Lease,
        fingerprint: MatchesFingerprint,
        carry_out: Mapping[str, Any] | None = None,
        counts: Mapping[str, int] | None = None,
    ) -> PublishedMatches:
        """Replace the matches of (pattern set, day) by those of exactly these files, in one commit.

        As `publish_events`; the fingerprint comes from `EventsSnapshot.matches_fingerprint` of the snapshot that
        detection was pinned to.
        """
        self._check_lease(lease, day_unit(final_day))
        record = self._record("matches", pattern_set, final_day, lease, fingerprint, counts or {}, carry_out or {})
        self._replace("matches", {"pattern_set": pattern_set, "final_day": final_day}, files, lease, record)
        return next(entry for entry in self.matches_days(pattern_set) if entry.final_day == final_day)

    def publish_statistics(self, pattern_set: str, day: date, snapshot: Mapping[str, Any], *, lease: Lease) -> None:
        """Replace the statistics snapshot (JSON form) of (pattern set, day)."""
        self._check_lease(lease, day_unit(day))
        unit: dict[str, str | date] = {"pattern_set": pattern_set, DAY: day}
        row = {**unit, "run_id": lease.run_id, "recorded_at": self._now(), "snapshot": canonical_json(snapshot)}
        path = self._write_rows("statistics", [row], unit)
        self._replace("statistics", unit, [path], lease, None)

    # -- carry state -------------------------------------------------------------------------------------------------

    def carry_in(self, day: date) -> dict[str, Any]:
        """Return the carry-out of the latest published earlier day, over gaps; {} where there is none."""
        return published.carry_before(self.warehouse.database, self.name, "events", "", day)

    def matches_carry_in(self, pattern_set: str, day: date) -> dict[str, Any]:
        """Return the carry state of OUTPUT and CONSUME after the latest earlier day of the pattern set; {} if none."""
        return published.carry_before(self.warehouse.database, self.name, "matches", pattern_set, day)

    # -- readers -----------------------------------------------------------------------------------------------------

    def pin_events(self) -> EventsSnapshot:
        """Return the published days and the events snapshot of one moment."""
        while True:
            table = self._table("events")
            days = self.days()
            # The two were read one after the other: they belong together if nothing was committed in between.
            if self._table("events").metadata_location == table.metadata_location:
                snapshot = table.current_snapshot()
                return EventsSnapshot(snapshot.snapshot_id if snapshot else None, {entry.day: entry for entry in days})

    def days(self) -> list[PublishedDay]:
        """Return the published days in order of time."""
        return published.published_days(self.warehouse.database, self.name)

    def matches_days(self, pattern_set: str | None = None) -> list[PublishedMatches]:
        """Return the published (pattern set, day) units of matches in order."""
        return published.published_matches(self.warehouse.database, self.name, pattern_set)

    def events_files(
        self, first: date | None = None, last: date | None = None, *, snapshot: EventsSnapshot | None = None
    ) -> list[EventsFile]:
        """Return the files of events of the days from `first` to `last` (both in; None: open), in stream order.

        Given a snapshot, the files of that moment, whatever has been published since.
        """
        from cep_pipeline.warehouse import commits

        if snapshot is not None and snapshot.snapshot_id is None:
            return []
        table = self._table("events")
        snapshot_id = snapshot.snapshot_id if snapshot else None
        if snapshot_id is not None and table.snapshot_by_id(snapshot_id) is None:
            raise CepError(
                f"stream {self.name}: events snapshot {snapshot_id} has been expired by `cep maintain`; "
                "run again on the current one"
            )
        with commits.catalog_errors(self.warehouse.catalog, f"listing the events of {self.name}"):
            return commits.events_files(table, snapshot_id, first, last)

    def read_events(
        self, first: date | None = None, last: date | None = None, *, snapshot: EventsSnapshot | None = None
    ) -> pa.Table:
        """Return the events of these days sorted by (timestamp, seq), with the columns of the stream schema."""
        columns = pa.schema([field for field in self.events_schema if field.name != DAY])
        parts = [read_data_file(file.path, columns) for file in self.events_files(first, last, snapshot=snapshot)]
        events = pa.concat_tables([columns.empty_table(), *parts])
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
        """Return matches (`MATCHES_SCHEMA`) by final day, within a day by pattern in the order they were written."""
        row_filter = None if pattern is None else pc.field("pattern") == pattern
        return self._read_days(
            "matches", "final_day", first, last, {"pattern_set": pattern_set}, row_filter=row_filter, limit=limit
        )

    def read_quarantine(
        self, first: date | None = None, last: date | None = None, *, limit: int | None = None
    ) -> pa.Table:
        """Return the rejected rows of these days (`QUARANTINE_SCHEMA`)."""
        return self._read_days("quarantine", DAY, first, last, {}, limit=limit)

    def read_statistics(self, pattern_set: str, day: date) -> dict[str, Any] | None:
        """Return the statistics snapshot (JSON form) of a day, None where there is none."""
        rows = self._read_days("statistics", DAY, day, day, {"pattern_set": pattern_set}).to_pylist()
        return json.loads(rows[0]["snapshot"]) if rows else None

    def stale_days(
        self,
        *,
        raw_files: Mapping[date, Sequence[RawFile]] | None = None,
        schema: str | None = None,
        pattern_sets: Mapping[str, str] | None = None,
    ) -> list[StaleDay]:
        """Return the days whose fingerprint would now differ, in order of time.

        Parameters
        ----------
        raw_files
            The raw files that there are now, for the days to check; a day that is not in it keeps its files.
        schema
            Digest of the stream schema now; None: unchanged.
        pattern_sets
            Pattern set -> its version now. Only these are checked; a published day without matches of one of them is
            stale for it.

        Notes
        -----
        Only what follows from what is published now: redoing a day may change its carry-out and so make the next day
        stale, or leave it and stop the cascade. Redo the earliest, then ask again.
        """
        return published.stale_days(
            self.warehouse.database, self.name, raw_files=raw_files, schema=schema, pattern_sets=pattern_sets
        )

    # -- runs, plans, decisions --------------------------------------------------------------------------------------

    def record_run(self, record: RunRecord) -> None:
        """Append a record of a run."""
        self._append("runs", history.run_row(record, self._now()))

    def runs(self, limit: int | None = None) -> list[RunRecord]:
        """Return the latest record of each (run, day), the latest started first."""
        latest: dict[tuple[str, date | None], dict[str, Any]] = {}
        for row in sorted(self._read_all("runs"), key=lambda row: row["recorded_at"]):
            latest[row["run_id"], row["day"]] = row
        newest = sorted(latest.values(), key=lambda row: (row["started_at"], row["recorded_at"]), reverse=True)
        return [history.run_record(row) for row in newest[:limit]]

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
    ) -> PlanRecord:
        """Append the next version of the plan of a pattern set, and make it the current one in the same commit."""
        self._check_lease(lease, plan_unit(pattern_set))
        version = 1 + max((record.version for record in self.plans(pattern_set)), default=0)
        record = PlanRecord(pattern_set, version, plan, explain, reason, pattern_set_version, lease.run_id, self._now())
        beside: list[Callable[[Connection], None]] = [lease.renew]
        if make_current:
            beside.append(lambda connection: self._write_current(connection, pattern_set, version))
        self._append("plans", history.plan_row(record), beside)
        return record

    def current_plan(self, pattern_set: str) -> PlanRecord | None:
        """Return the current plan of a pattern set, None where there is none."""
        query = sql.select(CURRENT_PLANS.c.version).where(*self._plan_row(pattern_set))
        with self.warehouse.database.begin() as connection:
            version = connection.execute(query).scalar_one_or_none()
        if version is None:
            return None
        return next(record for record in self.plans(pattern_set) if record.version == version)

    def set_current_plan(self, pattern_set: str, version: int, *, expected: int | None) -> None:
        """Make a recorded version the current one, if `expected` (None: none) still is.

        Raises
        ------
        BusyError
            Another one has become current in the meantime.
        """
        if all(record.version != version for record in self.plans(pattern_set)):
            raise InputError(
                f"stream {self.name}: pattern set {pattern_set!r} has no plan of version {version}; "
                f"it has {[record.version for record in self.plans(pattern_set)] or 'none'}"
            )
        try:
            with self.warehouse.database.errors(), self.warehouse.database.engine.begin() as connection:
                changed = self._change_current(connection, pattern_set, version, expected)
        except CepError as error:
            if not isinstance(error.__cause__, sql.exc.IntegrityError):
                raise
            changed = False  # none was expected, and another run has just set one
        if not changed:
            raise BusyError(
                f"stream {self.name}: the current plan of pattern set {pattern_set!r} is no longer "
                f"{'none' if expected is None else f'version {expected}'}: another run has changed it. "
                "Look at the current one and decide again"
            )

    def plans(self, pattern_set: str | None = None) -> list[PlanRecord]:
        """Return all recorded plans, the latest first."""
        records = [history.plan_record(row) for row in self._read_all("plans")]
        wanted = [record for record in records if pattern_set in (None, record.pattern_set)]
        return sorted(wanted, key=lambda record: (record.created_at, record.version), reverse=True)

    def record_decision(self, decision: Decision) -> None:
        """Append a decision of the adaptation loop."""
        self._append("decisions", history.decision_row(decision))

    def decisions(self, pattern_set: str | None = None, limit: int | None = None) -> list[Decision]:
        """Return the decisions, the latest first."""
        records = [history.decision_record(row) for row in self._read_all("decisions")]
        wanted = [record for record in records if pattern_set in (None, record.pattern_set)]
        return sorted(wanted, key=lambda record: record.decided_at, reverse=True)[:limit]

    # -- in common ---------------------------------------------------------------------------------------------------

    def _table(self, name: str) -> Table:
        from cep_pipeline.warehouse import commits

        with commits.catalog_errors(self.warehouse.catalog, f"opening table {self.name}.{name}"):
            return self.warehouse.catalog.load_table((self.name, name))

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.warehouse.clock(), UTC)

    def _directory(self, table: str, unit: Mapping[str, str | date], run_id: str) -> DataDirectory:
        folders = "/".join(f"{column}={folder_name(str(value))}" for column, value in unit.items())
        return DataDirectory(f"{self.warehouse.table_location(self.name, table)}/data/{folders}", run_id)

    def _check_lease(self, lease: Lease, unit: str) -> None:
        if (lease.stream, lease.unit) != (self.name, unit):
            raise CepError(
                f"publishing {unit} of stream {self.name} with the lease of {lease.unit} of stream {lease.stream}; "
                "take the lease of what is published"
            )

    def _record(
        self,
        table: str,
        pattern_set: str,
        day: date,
        lease: Lease,
        fingerprint: EventsFingerprint | MatchesFingerprint,
        counts: Mapping[str, int],
        carry_out: Mapping[str, Any],
    ) -> published.UnitRecord:
        now = self.warehouse.clock()
        return published.UnitRecord(
            self.name, table, pattern_set, day, lease.run_id, now, fingerprint, counts, carry_out
        )

    def _replace(
        self,
        table: str,
        unit: Mapping[str, str | date],
        files: Sequence[str],
        lease: Lease,
        record: published.UnitRecord | None,
    ) -> tuple[int, int]:
        from cep_pipeline.warehouse import commits

        def beside(snapshot_id: int, rows: int) -> list[Callable[[Connection], None]]:
            # The lease first: its row stays locked until the commit is done.
            writes: list[Callable[[Connection], None]] = [lease.renew]
            if record is not None:
                writes.append(lambda connection: record.write(connection, snapshot_id, rows))
            return writes

        summary = {"cep.run": lease.run_id, "cep.unit": " ".join(str(value) for value in unit.values())}
        if record is not None:
            summary["cep.fingerprint"] = record.fingerprint.digest
        lease.check()
        with commits.catalog_errors(
            self.warehouse.catalog, f"publishing {table} of {self.name}, {summary['cep.unit']}"
        ):
            return commits.replace_unit(
                self.warehouse.catalog, self.name, table, unit, files, summary=summary, beside=beside
            )

    def _write_rows(self, table: str, rows: list[dict[str, Any]], unit: Mapping[str, str | date]) -> str:
        schema = self._layouts[table].schema
        path = self._directory(table, unit, uuid.uuid4().hex[:8]).file(0)
        return write_data_file(path, pa.Table.from_pylist(rows, schema=schema), schema)

    def _append(self, table: str, row: dict[str, Any], beside: Sequence[Callable[[Connection], None]] = ()) -> None:
        from cep_pipeline.warehouse import commits

        path = self._write_rows(table, [row], {})
        with commits.catalog_errors(self.warehouse.catalog, f"appending to {table} of {self.name}"):
            commits.append_file(self.warehouse.catalog, self.name, table, path, beside)

    def _read_all(self, table: str) -> list[dict[str, Any]]:
        from cep_pipeline.warehouse import commits

        files = commits.files_between(self._table(table), DAY, None, None)
        return [row for file in files for row in self._read(table, file.file_path).to_pylist()]

    def _read_days(
        self,
        table: str,
        day_column: str,
        first: date | None,
        last: date | None,
        equal: Mapping[str, str],
        *,
        row_filter: pc.Expression | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        from cep_pipeline.warehouse import commits

        schema = self._layouts[table].schema
        position = self._layouts[table].partitions.index(day_column)
        files = commits.files_between(self._table(table), day_column, first, last, equal=equal)
        parts: list[pa.Table] = []
        missing = limit
        for file in sorted(files, key=lambda file: (file.partition[position], file.file_path)):
            part = self._read(table, file.file_path, row_filter)
            parts.append(part if missing is None else part.slice(0, missing))
            if missing is not None and (missing := missing - parts[-1].num_rows) <= 0:
                break
        return pa.concat_tables([schema.empty_table(), *parts])

    def _read(self, table: str, path: str, row_filter: pc.Expression | None = None) -> pa.Table:
        return read_data_file(path, self._layouts[table].schema, row_filter)

    def _plan_row(self, pattern_set: str) -> Iterable[sql.ColumnElement[bool]]:
        return (CURRENT_PLANS.c.stream == self.name, CURRENT_PLANS.c.pattern_set == pattern_set)

    def _write_current(self, connection: Connection, pattern_set: str, version: int) -> None:
        connection.execute(sql.delete(CURRENT_PLANS).where(*self._plan_row(pattern_set)))
        self._insert_current(connection, pattern_set, version)

    def _change_current(self, connection: Connection, pattern_set: str, version: int, expected: int | None) -> bool:
        if expected is None:
            self._insert_current(connection, pattern_set, version)
            return True
        row = sql.update(CURRENT_PLANS).where(*self._plan_row(pattern_set), CURRENT_PLANS.c.version == expected)
        return connection.execute(row.values(version=version, changed_at=self._now().timestamp())).rowcount == 1

    def _insert_current(self, connection: Connection, pattern_set: str, version: int) -> None:
        row = {"stream": self.name, "pattern_set": pattern_set, "version": version}
        connection.execute(sql.insert(CURRENT_PLANS).values(**row, changed_at=self._now().timestamp()))
