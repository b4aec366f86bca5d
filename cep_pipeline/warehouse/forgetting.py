"""Forgetting: events are erased from all tables of a stream, from old snapshots and from the scratch, with a proof.

The erasure is recorded first, so that no later ingestion brings the events back from the raw files. Then the events,
the matches that have one of them and what else names them go from all tables in one transaction: a reader sees all of
it or nothing. Old snapshots and files that no table names are removed after that; the same command goes on after a
kill. What was published of the days is stale from then on; `cep run --stale` makes derived values, statistics and
matches as if the events had never been there.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sql
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table, Transaction
from pyiceberg.table.update.snapshot import ExpireSnapshots

from cep_pipeline.errors import BusyError, CepError
from cep_pipeline.events.erasure import Erasure
from cep_pipeline.storage import (
    canonical_json,
    conform,
    digest_of,
    id_texts,
    make_durable,
    open_parquet,
    read_data_file,
    remove_file,
    remove_scratch,
    stored_files,
)
from cep_pipeline.warehouse import commits, compaction, iceberg_tables, maintenance
from cep_pipeline.warehouse.database import ERASURES, PUBLISHED, REPLACED, change_records, insert_record
from cep_pipeline.warehouse.fingerprints import MatchesFingerprint
from cep_pipeline.warehouse.layout import COMPRESSED, OF_PATTERN_SETS, SUMMARIES
from cep_pipeline.warehouse.published_table import day_of
from cep_pipeline.warehouse.units import (
    forget_changes,
    forget_lost_buffers,
    published_days,
    published_records,
    recorded_erasures,
)

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Row

    from cep_pipeline.warehouse.store import Store

logger = logging.getLogger(__name__)
_PASSES = 5
"""Most tries to remove rows: where a compaction replaced files in between, the next try looks again."""
_COLUMNS_OF_TEXT: Mapping[str, tuple[str, ...]] = {
    "quarantine": ("raw", "reason"),
    SUMMARIES: ("groups", "aggregates", "partial"),
    "statistics": ("snapshot", "state", "windows", "observed"),
    "runs": ("validation", "error", "details"),
    "plans": ("statistics",),
    "decisions": ("reason", "details"),
}
"""Table -> columns that may repeat values of events."""
_EMPTIED: Mapping[str, str | None] = {
    "validation": None,
    "error": "(erased)",
    "details": "{}",
    "statistics": None,
    "reason": "(erased)",
}
"""Column of runs, plans or decisions -> its value in a row that named an erased value."""


@dataclass
class ErasureReport:
    """The rows that an erasure removes, or would remove, and the result of the scan of all files afterwards.

    `removed` counts rows by table and day, None for tables without days. Of the `files` that were scanned at the end,
    `left` are those that hold something yet, and why.
    """

    erasure: Erasure
    removed: Counter[tuple[str, date | None]] = field(default_factory=Counter)
    files: int = 0
    left: list[str] = field(default_factory=list)


@dataclass
class _Found:
    """The files of a table with rows that go, and the rows of each."""

    files: dict[str, list[tuple[DataFile, date | None, int]]] = field(default_factory=dict)
    seqs: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    matches: dict[str, pa.Table] = field(default_factory=dict)

    def rows(self) -> Counter[tuple[str, date | None]]:
        counted: Counter[tuple[str, date | None]] = Counter()
        for table, files in self.files.items():
            for _, day, rows in files:
                counted[table, day] += rows
        return counted


class Forgetting:
    """One erasure from one stream; `run_id` names the work in the tables' history."""

    def __init__(self, warehouse: Store, stream: str, erasure: Erasure, *, run_id: str) -> None:
        self.warehouse = warehouse
        self.stream = stream
        self.run_id = run_id
        known = {one.erasure_id: one for one in recorded_erasures(warehouse.database, stream)}
        self.columns = iceberg_tables.as_published(self._table("events")).columns
        self.erasure = known.get(erasure.erasure_id, erasure).in_terms_of(self.columns)

    def find(self) -> ErasureReport:
        """Return what would be removed; changes nothing."""
        return ErasureReport(self.erasure, self._find().rows())

    def run(self) -> ErasureReport:
        """Erase, and prove it.

        Where a run is at work, that is a BusyError: the erasure is recorded, and the same command goes on when it has
        ended.
        """
        begun = stored_files(f"{self.warehouse.location}/{self.stream}").keys()
        found = self._find()
        days = {day for _, day, _ in found.files.get("events", ()) if day is not None}
        self._record(days)
        self._refuse_runs()
        report = ErasureReport(self.erasure)
        seqs = found.seqs
        for _ in range(_PASSES):
            if not found.files:
                break
            if self._remove(found):
                report.removed += found.rows()
            found = self._find()
        else:
            raise CepError(f"stream {self.stream}: other writers keep changing its tables; run the same command again")
        self._clear_carried()
        self._remove_files(begun)
        self._prove(report, seqs)
        # The condition is not told: it names the values that are to be forgotten.
        logger.info(
            "%s: erasure %s removed %s rows", self.stream, self.erasure.erasure_id, sum(report.removed.values())
        )
        return report

    def _table(self, name: str) -> Table:
        return self.warehouse.catalog.load_table((self.stream, name))

    def _refuse_runs(self) -> None:
        running = [lease for lease in self.warehouse.leases() if not lease.expired]
        if running:
            who = ", ".join(sorted({f"{lease.run_id} ({lease.stream} {lease.unit})" for lease in running}))
            raise BusyError(
                f"forget: runs are at work: {who}. The erasure is recorded; run the same command when they have ended"
            )

    def _record(self, days: set[date]) -> None:
        """Record the erasure, with the days of an earlier try that was killed."""
        again = frozenset(days | self.erasure.days)
        key = (ERASURES.c.stream == self.stream, ERASURES.c.erasure_id == self.erasure.erasure_id)
        with self.warehouse.database.begin() as connection:
            connection.execute(sql.delete(ERASURES).where(*key))
            made = {
                "stream": self.stream,
                "erasure_id": self.erasure.erasure_id,
                "condition": self.erasure.condition,
                "requested_at": self.warehouse.clock(),
                "days": json.dumps(sorted(day.isoformat() for day in again)),
            }
            insert_record(connection, ERASURES, made)
        self.erasure = Erasure(self.erasure.erasure_id, self.erasure.condition, again)

    def _find(self) -> _Found:
        found = _Found()
        seqs = [found.seqs]
        for task in self._table("events").scan(row_filter=self.erasure.condition).plan_files():
            gone = self._seqs(task.file.file_path)
            if len(gone):
                seqs.append(gone)
                day = day_of(task.file.partition[0])
                found.files.setdefault("events", []).append((task.file, day, len(gone)))
        found.seqs = np.concatenate(seqs)
        if len(found.seqs):
            files = list(self._current("matches"))
            inside: pa.Array | None = None
            while True:  # until no further match composes one that goes
                found.matches = {file.file_path: _matches_of(file.file_path, found.seqs, inside) for file in files}
                gone = pa.concat_tables(found.matches.values())["match_id"].combine_chunks() if files else []
                if not len(gone) or (inside is not None and len(gone) == len(inside)):
                    break
                inside = gone
            for file in files:
                if rows := found.matches[file.file_path].num_rows:
                    found.files.setdefault("matches", []).append((file, day_of(file.partition[1]), rows))
        days = {day for _, day, _ in found.files.get("events", ())} | self._not_redone()
        for name, columns in _COLUMNS_OF_TEXT.items():
            if name == SUMMARIES:
                continue
            position = {"quarantine": 0, "statistics": 1}.get(name)
            for file in self._current(name):
                of_day = None if position is None else day_of(file.partition[position])
                rows = int(self._named(file.file_path, columns).sum())
                if name == "statistics" and of_day in days:
                    rows = file.record_count  # counted over events that go
                if rows:
                    found.files.setdefault(name, []).append((file, of_day, rows))
        if units := published_records(self.warehouse.database, self.stream, SUMMARIES):
            self._find_summaries(found, days, units)
        return found

    def _find_summaries(self, found: _Found, days: set[date | None], units: Iterable[Row[Any]]) -> None:
        """Find the summaries of days that were detected over events that go, or that name an erased value."""
        read = {
            (unit.pattern_set, unit.day)
            for unit in units
            if not days.isdisjoint(MatchesFingerprint.from_json(json.loads(unit.fingerprint)).events)
        }
        for file in self._current(SUMMARIES):
            day = day_of(file.partition[1])
            of_unit = (str(file.partition[0]), str(day)) in read
            if of_unit or self._named(file.file_path, _COLUMNS_OF_TEXT[SUMMARIES]).any():
                found.files.setdefault(SUMMARIES, []).append((file, day, file.record_count))

    def _not_redone(self) -> set[date]:
        """The days that an earlier try erased events from, and that no run has done again."""
        return {
            entry.day
            for entry in published_days(partial(published_records, self.warehouse.database, self.stream))
            if entry.day in self.erasure.days and self.erasure.erasure_id not in entry.fingerprint.erased
        }

    def _current(self, name: str) -> list[DataFile]:
        return [task.file for task in self._table(name).scan().plan_files()]

    def _named(self, path: str, columns: Sequence[str]) -> np.ndarray:
        """Return for each row of a file whether one of its texts names an erased value."""
        rows = read_data_file(path, pa.schema([(column, pa.string()) for column in columns]))
        return self._naming(rows, columns, records=columns != _COLUMNS_OF_TEXT["quarantine"])

    def _naming(self, rows: pa.Table, columns: Sequence[str], *, records: bool = False) -> np.ndarray:
        named = np.zeros(rows.num_rows, dtype=bool)
        for column in columns:
            named |= self.erasure.named_in(rows.column(column), records=records)
        return named

    def _seqs(self, path: str) -> np.ndarray:
        """The seq of each event of a file that goes."""
        columns = pa.schema([f for f in self.columns if f.name == "seq" or f.name in self.erasure.condition])
        pieces = compaction.read_pieces([path], columns, self.erasure.filter(columns))
        return np.concatenate([np.zeros(0, np.int64), *(piece.column("seq").to_numpy() for piece in pieces)])

    def _remove(self, found: _Found) -> bool:
        """Remove what was found from all tables at once; False where another commit has changed one of the files."""
        columns = {name: iceberg_tables.as_published(self._table(name)).columns for name in found.files}
        rewritten = {
            name: [
                (file, None if day and rows == file.record_count else self._rewritten(name, file, columns[name], found))
                for file, day, rows in files
            ]
            for name, files in found.files.items()
        }
        make_durable(path for files in rewritten.values() for _, path in files if path)
        self._refuse_runs()
        changes = {name: _replacing(files, self.run_id) for name, files in rewritten.items()}
        try:
            commits.commit_together(
                self.warehouse.catalog, self.stream, changes, lambda _: [partial(self._count_fewer, found)]
            )
        except _Overtaken as overtaken:
            logger.info("%s: %s was replaced meanwhile; the erasure looks again", self.stream, overtaken)
            for path in (path for files in rewritten.values() for _, path in files if path):
                remove_file(path)
            return False
        return True

    def _count_fewer(self, found: _Found, connection: Connection) -> None:
        """Correct the numbers of rows in the records of the units that lose some."""
        table = PUBLISHED.c
        # The rejected rows first, as a run that publishes a day: of two that lock rows crosswise, one would fail.
        for name in ("quarantine", "events", *OF_PATTERN_SETS):
            for file, day, rows in found.files.get(name, ()):
                pattern_set = str(file.partition[0]) if name in OF_PATTERN_SETS else ""
                key = (self.stream, name, pattern_set, str(day))
                columns = (table.stream, table.table_name, table.pattern_set, table.day)
                unit = [column == value for column, value in zip(columns, key, strict=True)]
                gone = found.matches[file.file_path].column("pattern").to_pylist() if name == "matches" else []
                change = partial(_with_fewer, Counter(gone), rows)
                change_records(self.warehouse.database.name, connection, PUBLISHED, unit, change)

    def _rewritten(self, name: str, file: DataFile, columns: pa.Schema, found: _Found) -> str:
        """Write the rows of a file that stay; returns where."""
        path = file.file_path
        if name == "events":
            holds = self.erasure.filter(self.columns)
            return compaction.rewrite_files([path], name, columns, keep=~holds | holds.is_null())
        if name == "matches":
            gone = found.matches[path].column("match_id")
            return compaction.rewrite_files([path], name, columns, change=lambda rows: _without_ids(rows, gone))
        if name == "quarantine":
            return compaction.rewrite_files([path], name, columns, change=self._not_named)
        return compaction.rewrite_files([path], name, columns, change=lambda rows: self._emptied(name, rows))

    def _not_named(self, rows: pa.Table) -> pa.Table:
        return rows.filter(pa.array(~self._naming(rows, _COLUMNS_OF_TEXT["quarantine"])))

    def _emptied(self, name: str, rows: pa.Table) -> pa.Table:
        for column in _COLUMNS_OF_TEXT[name]:
            named = pa.array(self.erasure.named_in(rows.column(column), records=True))
            empty = pa.scalar(_EMPTIED[column], pa.string())
            position = rows.schema.get_field_index(column)
            rows = rows.set_column(position, rows.schema.field(position), pc.if_else(named, empty, rows.column(column)))
        return rows

    def _clear_carried(self) -> None:
        """Empty the states that name an erased value; the days after them become stale.

        How events differ from earlier versions names types, and goes as a whole; so do buffers of limited patterns.
        """
        database = self.warehouse.database.name
        chosen = [PUBLISHED.c.stream == self.stream, PUBLISHED.c.carry_out != "{}"]
        with self.warehouse.database.begin() as connection:
            forget_changes(connection, database, self.stream)
            forget_lost_buffers(connection, database, self.stream, self.warehouse.location, ())
            change_records(database, connection, PUBLISHED, chosen, self._without_carried)

    def _without_carried(self, record: Row[Any]) -> dict[str, Any]:
        if not self.erasure.named_in(pa.array([record.carry_out], pa.string()))[0]:
            return {}
        return {"carry_out": canonical_json({}), "carry_out_digest": digest_of({})}

    def _remove_files(self, begun: Collection[str]) -> None:
        """Remove old snapshots, files that no table names any more, the scratch, and buffers of limited patterns."""
        for _, name in self.warehouse.catalog.list_tables(self.stream):
            table = self._table(name)
            before = maintenance.named_files(table)
            # A commit that deletes files keeps their bounds in a manifest; the one after it leaves that out.
            if table.current_snapshot() is not None:
                commits.commit(self.warehouse.catalog, self.stream, name, _nothing)
            for _ in commits.patient_attempts(f"{self.stream}.{name}"):
                table = self._table(name)
                old = [snapshot.snapshot_id for snapshot, _ in commits.replaced_snapshots(table)]
                if not old:
                    break
                try:
                    ExpireSnapshots(commits.UnitTransaction(table, autocommit=True)).by_ids(old).commit()
                except CommitFailedException:
                    continue
            named = maintenance.named_files(self._table(name))
            location = self.warehouse.table_location(self.stream, name)
            for path in ({*begun, *before} & stored_files(location).keys()) - named:
                remove_file(path)
        self._refuse_runs()
        with self.warehouse.database.begin() as connection:
            connection.execute(sql.delete(REPLACED).where(REPLACED.c.stream == self.stream))
        remove_scratch(self.warehouse.scratch)
        remove_scratch(f"{self.warehouse.location}/{self.stream}/{COMPRESSED}")

    def _prove(self, report: ErasureReport, seqs: np.ndarray) -> None:
        """Read every file of the stream, named by a table or not, and the folder of the scratch."""
        report.erasure = self.erasure
        folder = f"{self.warehouse.location}/{self.stream}"
        for path in stored_files(folder):
            if not path.endswith(".parquet"):
                continue
            report.files += 1
            name = path[len(folder) + 1 :].split("/")[0]
            if name == "events":
                rows = len(self._seqs(path))
            elif name == "matches":
                rows = _matches_of(path, seqs).num_rows
            elif name in _COLUMNS_OF_TEXT:
                rows = int(self._named(path, _COLUMNS_OF_TEXT[name]).sum())
            else:
                rows = 0
            if rows:
                report.left.append(f"{path}: {rows} rows")
        report.left += [f"{path}: scratch" for path in stored_files(self.warehouse.scratch)]


class _Overtaken(Exception):
    """Names a file that is to be rewritten and that another commit has replaced."""


def _replacing(rewritten: Sequence[tuple[DataFile, str | None]], run_id: str) -> commits.Change:
    """Return a change that replaces each file by what it was rewritten as (None: by nothing)."""

    def change(table: Table, transaction: Transaction) -> int:
        there = {task.file.file_path for task in table.scan().plan_files()}
        for file, _ in rewritten:
            if file.file_path not in there:
                raise _Overtaken(file.file_path)
        new = [parquet_file_to_data_file(table.io, table.metadata, path) for _, path in rewritten if path]
        return commits.replace_files(
            transaction, [file for file, _ in rewritten], new, {"cep.run": run_id}, merge=False
        )

    return change


def _with_fewer(gone: Counter[str], rows: int, record: Row[Any]) -> dict[str, Any]:
    """Return what the record of a unit says after it has lost some rows, and these matches by pattern."""
    counts = {
        pattern: one - gone[pattern] if isinstance(one, int) else one
        for pattern, one in json.loads(record.counts).items()
    }
    return {"row_count": record.row_count - rows, "counts": canonical_json(counts)}


def _nothing(table: Table, transaction: Transaction) -> int:
    return commits.replace_files(transaction, [], [], merge=False)


def _without_ids(rows: pa.Table, gone: pa.ChunkedArray) -> pa.Table:
    kept = pc.invert(pc.is_in(id_texts(rows["match_id"]), value_set=gone.combine_chunks()))
    return rows.filter(kept)


def _matches_of(path: str, seqs: np.ndarray, inside: pa.Array | None = None) -> pa.Table:
    """Return pattern and id, as text, of the matches in a file that have one of these events.

    Those that compose one of the matches with the ids `inside` (as text) are among them; None: these are not looked
    for.
    """
    columns = pa.schema([("pattern", pa.string()), ("match_id", pa.string())])
    found = [columns.empty_table()]
    with open_parquet(path) as file:
        composes = inside is not None and "composed" in file.schema_arrow.names
        for batch in file.iter_batches(columns=[*columns.names, "bindings", *(["composed"] if composes else [])]):
            bindings = batch.column("bindings")
            bound = pc.struct_field(pc.list_flatten(bindings), "seq")
            rows = pc.list_parent_indices(bindings).filter(pc.is_in(bound, value_set=pa.array(seqs)))
            if composes:
                composed = batch.column("composed")
                sizes = pc.list_value_length(composed).fill_null(0).to_numpy()
                of_row = np.repeat(np.arange(len(composed)), sizes)
                listed = composed.values.slice(composed.offsets[0].as_py(), len(of_row))
                ids = id_texts(pc.struct_field(listed, "match_id"))
                lost = pa.array(of_row).filter(pc.is_in(ids, value_set=inside))
                rows = pa.concat_arrays([rows.cast(pa.int64()), lost.cast(pa.int64())])
            found.append(conform(pa.Table.from_batches([batch]).take(pc.unique(rows)), columns))
    return pa.concat_tables(found)
