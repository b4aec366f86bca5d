"""`StreamTables`: the only way to publish anything of a stream, and all that `StreamReader` reads."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import sqlalchemy as sql

from cep_pipeline.errors import BusyError, CepError, DamagedError, InputError
from cep_pipeline.events.columns import DAY
from cep_pipeline.storage import DataDirectory, folder_name, same_contents, write_data_file
from cep_pipeline.warehouse.database import CURRENT_PLANS
from cep_pipeline.warehouse.fingerprints import EventsFingerprint, MatchesFingerprint
from cep_pipeline.warehouse.layout import row_of
from cep_pipeline.warehouse.leases import Lease, day_unit, plan_unit
from cep_pipeline.warehouse.records import (
    DayStatistics,
    Decision,
    PlanRecord,
    PublishedDay,
    PublishedMatches,
    RunRecord,
    StatisticsRecord,
)
from cep_pipeline.warehouse.stream_reader import PinnedStatistics, StreamReader
from cep_pipeline.warehouse.units import UnitRecord, counts_with_pending

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from cep_pipeline.events.erasure import Erasure
    from cep_pipeline.warehouse.forgetting import ErasureReport

logger = logging.getLogger(__name__)


class StreamTables(StreamReader):
    """The tables of one stream; made by `Warehouse.stream` and `Warehouse.open_stream`."""

    def day_lease(self, day: date, *, run_id: str, wait_s: float = 0.0) -> Lease:
        """Take the lease of a day, which publishing anything of the day needs: `with tables.day_lease(day, run_id=…)`.

        A dead run that it is taken over from is recorded as abandoned.

        Raises
        ------
        BusyError
            Another run holds it.
        """
        lease = self.warehouse.lease(self.name, day_unit(day), run_id=run_id, wait_s=wait_s)
        try:
            if (dead := lease.taken_from) is not None and dead.run_id != run_id:
                for record in self._recorded_runs():
                    if (record.run_id, record.day, record.status) == (dead.run_id, day, "running"):
                        self.record_run(record.abandoned(dead, run_id))
        except BaseException:
            lease.release()
            raise
        return lease

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
        """Return where tasks write files of matches; the columns are `MATCHES_SCHEMA`."""
        return self._directory("matches", {"pattern_set": pattern_set, "final_day": final_day}, run_id)

    def publish_quarantine(
        self, day: date, files: Sequence[str], *, lease: Lease, fingerprint: EventsFingerprint
    ) -> int:
        """Replace the rejected rows of a day by those of exactly these files; returns how many. Before the events."""
        self._check_lease(lease, day_unit(day))
        record = self._record("quarantine", "", day, lease, fingerprint, {}, {})
        return self._replace("quarantine", [({DAY: day}, files)], lease, record)[1]

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
        record = replace(record, same_events_as=self._same_events(day, files, fingerprint))
        self._add_columns("events")
        self._replace("events", [({DAY: day}, files)], lease, record)
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
        pending: Mapping[str, int] | None = None,
    ) -> PublishedMatches:
        """Replace the matches of (pattern set, day) by those of exactly these files, in one commit.

        As `publish_events`; the fingerprint comes from `EventsSnapshot.matches_fingerprint` of the snapshot that
        detection was pinned to. `counts` and `pending` are matches by pattern, those that are published and those that
        wait.
        """
        self._check_lease(lease, day_unit(final_day))
        counted = counts_with_pending(counts or {}, pending or {})
        record = self._record("matches", pattern_set, final_day, lease, fingerprint, counted, carry_out or {})
        unit: dict[str, str | date] = {"pattern_set": pattern_set, "final_day": final_day}
        self._replace("matches", [(unit, self._merged("matches", files))], lease, record)
        return next(entry for entry in self.matches_days(pattern_set) if entry.final_day == final_day)

    def publish_day_statistics(
        self, day: date, made: Mapping[str, DayStatistics], *, lease: Lease, known: PinnedStatistics | None = None
    ) -> None:
        """Replace the statistics of a day of some pattern sets, in one commit; what was observed stays.

        Parameters
        ----------
        made
            Pattern set -> its statistics.
        known
            The statistics up to the day, pinned under the same lease; None: they are listed here.
        """
        known = known or self.pin_statistics(day, day)
        records = []
        for pattern_set, own in made.items():
            before = _readable(known, pattern_set, day)
            observed = before.observed if before else None
            content = (own.snapshot, own.state, own.basis, own.windows, observed)
            records.append(StatisticsRecord(pattern_set, day, lease.run_id, self._now(), *content))
        self._publish_statistics(day, records, lease)

    def publish_observed(
        self, pattern_set: str, day: date, observed: Mapping[str, Any] | None, *, lease: Lease
    ) -> None:
        """Replace what detection counted for (pattern set, day); the statistics themselves stay as they are."""
        before = _readable(self.pin_statistics(day, day), pattern_set, day)
        kept = before or StatisticsRecord(pattern_set, day, lease.run_id, self._now())
        record = replace(kept, run_id=lease.run_id, recorded_at=self._now(), observed=observed)
        self._publish_statistics(day, [record], lease)

    def _publish_statistics(self, day: date, records: Sequence[StatisticsRecord], lease: Lease) -> None:
        self._check_lease(lease, day_unit(day))
        self._add_columns("statistics")
        units: list[tuple[Mapping[str, str | date], list[str]]] = []
        for record in records:
            unit: dict[str, str | date] = {"pattern_set": record.pattern_set, DAY: record.day}
            units.append((unit, [self._write_rows("statistics", [row_of(record)], unit)]))
        self._replace("statistics", units, lease, None)

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

        Parameters
        ----------
        make_current
            False: only append it; `record_decision` can make it the current one.
        statistics
            The snapshot that it was made from.
        statements
            The patterns that it was made for.
        in_place_of
            The version that was current when it was asked for: it becomes current only if that one (None: none) still
            is.

        Raises
        ------
        BusyError
            The lease was lost, or another plan has become current in the meantime; nothing has changed.
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
        beside: list[Callable[[Connection], None]] = [lease.renew]
        if make_current:
            beside.append(lambda connection: self._replace_current(connection, pattern_set, version, in_place_of))
        self._add_columns("plans")
        self._append("plans", row_of(record), beside)
        return record

    def record_decision(
        self, decision: Decision, *, makes_current: int | None = None, in_place_of: int | None = None
    ) -> None:
        """Append a decision of the adaptation loop, and change the current plan in the same commit where it says so.

        Parameters
        ----------
        makes_current
            A recorded version of the pattern set's plan, which becomes the current one; None: the plan stays.
        in_place_of
            It becomes current only if this version (None: none) still is.

        Raises
        ------
        BusyError
            Another one has become current in the meantime; nothing has changed.
        """
        name = decision.pattern_set
        beside: list[Callable[[Connection], None]] = []
        if makes_current is not None:
            if all(record.version != makes_current for record in self.plans(name)):
                raise InputError(
                    f"stream {self.name}: pattern set {name!r} has no plan of version {makes_current}; "
                    f"it has {[record.version for record in self.plans(name)] or 'none'}"
                )
            beside.append(lambda connection: self._replace_current(connection, name, makes_current, in_place_of))
        self._append("decisions", row_of(decision), beside)

    def forget(self, erasure: Erasure, *, run_id: str, dry_run: bool = False) -> ErasureReport:
        """Erase events from all tables, old snapshots and the scratch, and keep them from being ingested again.

        Parameters
        ----------
        run_id
            Holder of the leases that are taken.
        dry_run
            Only say what would be removed.

        Raises
        ------
        BusyError
            A run is at work; the same command goes on when it has ended.
        """
        from cep_pipeline.warehouse import commits
        from cep_pipeline.warehouse.forgetting import Forgetting

        with commits.catalog_errors(self.warehouse.catalog, f"erasing events of {self.name}"):
            work = Forgetting(self.warehouse, self.name, erasure, run_id=run_id)
            return work.find() if dry_run else work.run()

    def _same_events(self, day: date, files: Sequence[str], fingerprint: EventsFingerprint) -> str:
        """Return the digest that stands for the published events of a day, where the files hold exactly these.

        Other raw files, or another carry-in, often give the same events: then nothing that was made of them is stale.
        Files with the same events have the same bytes, unless they were merged or written by another version.
        """
        before = next((entry for entry in self.days() if entry.day == day), None)
        # What was erased in place has changed under its digest.
        if before is None or before.fingerprint.erased != fingerprint.erased:
            return ""
        if not same_contents(files, [file.path for file in self.events_files(day, day)]):
            return ""
        return "" if before.events_digest == fingerprint.digest else before.events_digest

    def _merged(self, table: str, files: Sequence[str]) -> Sequence[str]:
        """One file in place of many small ones: a slice of a small day leaves some kilobytes."""
        from cep_pipeline.warehouse import compaction

        location = self.warehouse.table_location(self.name, table)
        if not all(path.startswith(f"{location}/") for path in files):
            return files  # publishing refuses them
        return compaction.merge_small_files(files, table, self._layouts[table].schema)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.warehouse.clock(), UTC)

    def _directory(self, table: str, unit: Mapping[str, str | date], run_id: str) -> DataDirectory:
        folders = (f"{column}={folder_name(str(value))}" for column, value in unit.items())
        return DataDirectory("/".join((self.warehouse.table_location(self.name, table), "data", *folders)), run_id)

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
    ) -> UnitRecord:
        now = self.warehouse.clock()
        return UnitRecord(self.name, table, pattern_set, day, lease.run_id, now, fingerprint, counts, carry_out)

    def _replace(
        self,
        table: str,
        units: Sequence[tuple[Mapping[str, str | date], Sequence[str]]],
        lease: Lease,
        record: UnitRecord | None,
    ) -> tuple[int, int]:
        from cep_pipeline.warehouse import commits

        def beside(snapshot_id: int, rows: int) -> list[Callable[[Connection], None]]:
            # The lease first: its row stays locked until the commit is done.
            writes: list[Callable[[Connection], None]] = [lease.renew]
            if record is not None:
                writes.append(lambda connection: record.write(connection, snapshot_id, rows))
            return writes

        named = ", ".join(" ".join(str(value) for value in unit.values()) for unit, _ in units)
        summary = {"cep.run": lease.run_id, "cep.unit": named}
        if record is not None:
            summary["cep.fingerprint"] = record.fingerprint.digest
        lease.look()
        with commits.catalog_errors(
            self.warehouse.catalog, f"publishing {table} of {self.name}, {summary['cep.unit']}"
        ):
            return commits.replace_units(
                self.warehouse.catalog, self.name, table, units, summary=summary, beside=beside
            )

    def _add_columns(self, table: str) -> None:
        """Give a published table the columns that it lacks; once, since a table keeps them."""
        from cep_pipeline.warehouse import commits, iceberg_tables

        if table in self._complete:
            return
        with commits.catalog_errors(self.warehouse.catalog, f"adding columns to the {table} of {self.name}"):
            iceberg_tables.add_columns(self.warehouse.catalog, self.name, self._layouts[table])
        self._complete.add(table)

    def _write_rows(self, table: str, rows: list[dict[str, Any]], unit: Mapping[str, str | date]) -> str:
        schema = self._layouts[table].schema
        path = self._directory(table, unit, uuid.uuid4().hex[:8]).file(0)
        return write_data_file(path, pa.Table.from_pylist(rows, schema=schema), schema)

    def _append(self, table: str, row: dict[str, Any], beside: Sequence[Callable[[Connection], None]] = ()) -> None:
        from cep_pipeline.warehouse import commits

        path = self._write_rows(table, [row], {})
        with commits.catalog_errors(self.warehouse.catalog, f"appending to {table} of {self.name}"):
            commits.append_file(self.warehouse.catalog, self.name, table, path, beside)

    def _replace_current(self, connection: Connection, pattern_set: str, version: int, expected: int | None) -> None:
        """Make a version the current one where `expected` (None: none) still is."""
        now = {"version": version, "changed_at": self._now().timestamp()}
        change: sql.Insert | sql.Update
        if expected is None:
            change = sql.insert(CURRENT_PLANS).values(stream=self.name, pattern_set=pattern_set, **now)
        else:
            same = (*self._plan_row(pattern_set), CURRENT_PLANS.c.version == expected)
            change = sql.update(CURRENT_PLANS).where(*same).values(**now)
        try:
            changed = connection.execute(change).rowcount == 1
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
