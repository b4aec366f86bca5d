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
from cep_pipeline.events.columns import DAY, SEQ, TIMESTAMP
from cep_pipeline.storage import (
    DataDirectory,
    digest_of,
    folder_name,
    read_digest,
    remove_file,
    size_and_digest,
    stored_files,
    write_data_file,
)
from cep_pipeline.warehouse.database import CURRENT_PLANS
from cep_pipeline.warehouse.layout import COMPRESSED, SUMMARIES, row_of
from cep_pipeline.warehouse.leases import Lease, day_unit, plan_unit
from cep_pipeline.warehouse.published_table import in_stream_order
from cep_pipeline.warehouse.records import (
    DayStatistics,
    Decision,
    EventsFingerprint,
    MatchesFingerprint,
    PlanRecord,
    PublishedDay,
    RunRecord,
    StatisticsRecord,
)
from cep_pipeline.warehouse.stream_reader import PinnedStatistics, StreamReader
from cep_pipeline.warehouse.units import Draft, DraftedDay, counted_of

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from cep_pipeline.detection.limits import LimitedPattern
    from cep_pipeline.detection.summaries.partial import PartialSummary

logger = logging.getLogger(__name__)


class StreamTables(StreamReader):
    """The tables of one stream; made by `Warehouse.stream` and `Warehouse.open_stream`."""

    def day_lease(self, day: date, *, run_id: str, wait_s: float = 0.0, part: str = "") -> Lease:
        """Take the lease of a day, which publishing anything of the day needs: `with tables.day_lease(day, run_id=…)`.

        With a `part` it is one of several that are held side by side, and by which nothing can be published. A dead run
        that it is taken over from is recorded as abandoned; where another one holds it, that is a BusyError.
        """
        lease = self.warehouse.lease(self.name, day_unit(day, part), run_id=run_id, wait_s=wait_s)
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
        """Return where tasks write files of matches; their columns are `matches_schema`."""
        return self._directory("matches", {"pattern_set": pattern_set, "final_day": final_day}, run_id)

    def compressed_directory(self, pattern_set: str, final_day: date, *, run_id: str) -> DataDirectory:
        """Return where tasks write buffers of matches of limited patterns, which are in no table."""
        return DataDirectory(f"{self.compressed}/{folder_name(pattern_set)}/{final_day}", run_id)

    @property
    def compressed(self) -> str:
        """The folder of the buffers of matches of limited patterns."""
        return f"{self.warehouse.location}/{self.name}/{COMPRESSED}"

    def remove_compressed(self, pattern_set: str, final_day: date, kept: Sequence[str]) -> None:
        """Remove the buffers of (pattern set, day) that the published record does not name any more."""
        folder = self.compressed_directory(pattern_set, final_day, run_id="any").location
        for path in stored_files(folder):
            if path not in kept:
                remove_file(path)

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
        self._add_columns("events")
        with self.warehouse.catalog.errors(f"looking at the events of {self.name}, {day}"):
            table, rejects = (self.warehouse.catalog.load_table((self.name, name)) for name in ("events", "quarantine"))
            found = data_files(table, events.unit, events.files)
            rejected = data_files(rejects, quarantine.unit, quarantine.files)
        record = PublishedDay(
            day,
            sum(file.record_count for file in found),
            sum(file.record_count for file in rejected),
            EventsFingerprint.from_json(events.fingerprint.to_json()),
            digest_of(events.carry_out),
            events.counts,
            run_id,
            self._now(),
            0,
            events.same_events_as,
        )
        return DraftedDay(
            replace(events, entries=tuple(found)),
            replace(quarantine, entries=tuple(rejected)),
            record,
            tuple(in_stream_order(found, *(table.schema().find_field(name).field_id for name in (TIMESTAMP, SEQ)))),
        )

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
        """Make a draft of the matches of (pattern set, day), in one file where they are small.

        The fingerprint comes from `EventsSnapshot.matches_fingerprint` of the snapshot that detection was pinned to.
        `counts` and `pending` are matches by pattern, those that are published and those that wait; `limited` are the
        patterns of which none is published.
        """
        made = tuple(self._merged("matches", files))
        counted = counted_of(counts or {}, pending or {}, limited or {}, self.warehouse.location)
        merged = tuple(path for path in files if path not in made)
        return Draft("matches", final_day, made, fingerprint, carry_out or {}, counted, pattern_set, merged=merged)

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
        from cep_pipeline.warehouse.catalog import UnitFiles, replace_units

        self._check_lease(lease, day_unit(day))
        units = [UnitFiles(one.table, one.unit, one.files, one.fingerprint.digest, one.entries) for one in drafts]
        for found in statistics:
            row = row_of(replace(found, run_id=lease.run_id, recorded_at=self._now()))
            unit: dict[str, str | date] = {"pattern_set": found.pattern_set, DAY: day}
            units.append(UnitFiles("statistics", unit, [self._write_rows("statistics", [row], unit)]))
        if not units:
            return []
        names = dict.fromkeys(one.table for one in units)
        for name in names:
            self._add_columns(name)
        at = self.warehouse.clock()

        def beside(connection: Connection, snapshots: Mapping[str, int | None], rows: Sequence[int]) -> None:
            lease.renew(connection)  # first: its row stays locked until the commit is done
            for draft, number in zip(drafts, rows, strict=False):  # rows of statistics come last
                draft.write(connection, self.name, lease.run_id, at, snapshots[draft.table], number)

        lease.check()
        with self.warehouse.catalog.errors(f"publishing {', '.join(names)} of {self.name}, {day}"):
            rows = replace_units(self.warehouse.catalog, self.name, units, run_id=lease.run_id, beside=beside)
        return rows[: len(drafts)]

    def remove_merged(self, files: Sequence[str]) -> None:
        """Remove small files of which a published draft was put together (`Draft.merged`).

        Whoever may publish the same draft again, after a kill, needs them until it is recorded that all is done.
        """
        for path in files:
            try:
                remove_file(path)
            except CepError as error:  # the day is published; `cep maintain` removes what stays
                logger.warning("%s", error)

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

        def beside(connection: Connection) -> None:
            lease.renew(connection)
            if make_current:
                self._replace_current(connection, pattern_set, version, in_place_of)

        self._add_columns("plans")
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

        def beside(connection: Connection) -> None:
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

    def _merged(self, table: str, files: Sequence[str]) -> Sequence[str]:
        """One file in place of many small ones: a slice of a small day leaves some kilobytes."""
        from cep_pipeline.warehouse import maintenance

        location = self.warehouse.table_location(self.name, table)
        if not all(path.startswith(f"{location}/") for path in files):
            return files  # publishing refuses them
        return maintenance.merge_small_files(files, table, self._layouts[table].schema)

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

    def _add_columns(self, table: str) -> None:
        """Give a published table the columns that it lacks; once, since a table keeps them."""
        if table not in self._complete:
            self.warehouse.catalog.add_columns(self.name, self._layouts[table])
            self._complete.add(table)

    def _write_rows(self, table: str, rows: list[dict[str, Any]], unit: Mapping[str, str | date]) -> str:
        schema = self._layouts[table].schema
        path = self._directory(table, unit, uuid.uuid4().hex[:8]).file(0)
        return write_data_file(path, pa.Table.from_pylist(rows, schema=schema), schema)

    def _append(self, table: str, row: dict[str, Any], beside: Callable[[Connection], None] = lambda _: None) -> None:
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
