"""Iceberg commits: one that replaces units of several tables by exactly the given files, one that appends rows.

Both are retried when another commit came first, planned anew on what that one left, so that any number of writers of
different units all land. This module and `catalog.py` import pyiceberg (1-2 s), and are
imported on first use.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial, reduce
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sql
import sqlalchemy.exc
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.expressions import AlwaysFalse, BooleanExpression, Or
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.table import DataScan, Table, Transaction
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update.snapshot import ExpireSnapshots, _MergeAppendFiles, _OverwriteFiles
from sqlalchemy.engine import Connection

from cep_pipeline.errors import CepError, InputError
from cep_pipeline.storage import damage_errors, make_durable, open_filesystem, storage_errors
from cep_pipeline.warehouse.catalog import (
    Beside,
    UnitTransaction,
    WarehouseCatalog,
    patient_attempts,
    remove_uncommitted,
)
from cep_pipeline.warehouse.database import LEASES, explain_database_error
from cep_pipeline.warehouse.published_table import day_of, rows_with

logger = logging.getLogger(__name__)

MOST_SNAPSHOTS = 120
LEAST_SNAPSHOTS = 80
"""A commit to a table with more snapshots than MOST_SNAPSHOTS expires the oldest, down to LEAST_SNAPSHOTS."""
PINNED_S = 600.0
"""A snapshot that was current in this time is not expired by a commit: a reader may be pinned to it."""
DEAD_AFTER_S = 3600.0
"""A lease without a heartbeat for so long keeps no snapshot."""

Unit = Mapping[str, str | date]
"""Partition column -> value, all of a table's: what is replaced at once."""

Change = Callable[[Table, UnitTransaction], int]
"""Puts a change into a transaction on the table and returns the id of the snapshot that it makes."""


class _Replacement(_OverwriteFiles, _MergeAppendFiles):
    """A snapshot that deletes files and adds others, and merges small manifests as appending does.

    pyiceberg's own overwriting leaves one manifest for each commit, and all of them are read by the next one.
    """

    def _existing_manifests(self) -> list[ManifestFile]:
        """Leave manifests out that say only what earlier snapshots deleted."""
        return [one for one in super()._existing_manifests() if _names_files(one)]

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """Merge manifests, but for what this snapshot deletes: the next commit leaves that out."""
        deleted = [one for one in manifests if not _names_files(one)]
        return super()._process_manifests([one for one in manifests if _names_files(one)]) + deleted


def _names_files(manifest: ManifestFile) -> bool:
    return manifest.has_added_files() or manifest.has_existing_files()


def replace_files(
    transaction: UnitTransaction,
    old: Sequence[DataFile],
    new: Sequence[DataFile],
    summary: Mapping[str, str] | None = None,
) -> int:
    """Put a snapshot into a transaction that deletes the old files and adds the new ones; returns its id."""
    update = transaction.update_snapshot(snapshot_properties=dict(summary or {}))
    operation = update.overwrite()._operation
    replacement = _Replacement(operation, transaction, update._io, snapshot_properties=dict(summary or {}))
    with replacement:
        for file in old:
            replacement.delete_data_file(file)
        for file in new:
            replacement.append_data_file(file)
    transaction.added += [file.file_path for file in new]
    transaction.removed += [file.file_path for file in old]
    return replacement.snapshot_id


def replace_units(
    catalog: WarehouseCatalog,
    stream: str,
    units: Sequence[UnitFiles],
    *,
    run_id: str,
    beside: Callable[[Connection, Mapping[str, int], Sequence[int]], None],
) -> list[int]:
    """Replace everything of some units of a stream by exactly these files, in all their tables at once.

    The rows of each unit are returned. Readers of the tables' history see `run_id`. `beside` writes in the transaction
    of the commit, by the id of the new snapshot of each table and the rows of each unit. A CepError says that a file
    does not belong there (`data_files`).
    """
    tables = {name: catalog.load_table((stream, name)) for name in dict.fromkeys(one.table for one in units)}
    found = [
        data_files(tables[one.table], one.unit, one.files) if one.entries is None else one.entries for one in units
    ]
    make_durable(file.file_path for files in found for file in files)
    rows = [sum(file.record_count for file in files) for files in found]

    def replaced(name: str) -> Change:
        own = [(one, files) for one, files in zip(units, found, strict=True) if one.table == name]
        condition = reduce(Or, (rows_with(one.unit) for one, _ in own), cast(BooleanExpression, AlwaysFalse()))
        said = {"cep.run": run_id, "cep.unit": ", ".join(" ".join(map(str, one.unit.values())) for one, _ in own)}
        if prints := [one.fingerprint for one, _ in own if one.fingerprint]:
            said["cep.fingerprint"] = ", ".join(prints)

        def change(table: Table, transaction: UnitTransaction) -> int:
            old = _planned(table.scan(row_filter=condition))
            return replace_files(transaction, old, [file for _, files in own for file in files], said)

        return change

    changes = {name: replaced(name) for name in tables}
    commit_together(catalog, stream, changes, lambda snapshots, connection: beside(connection, snapshots, rows), tables)
    return rows


@dataclass(frozen=True)
class UnitFiles:
    """A unit of a table and the files that are to be all of it, with a digest for the table's history.

    `entries` is what `data_files` said of these files; None: they have not been looked at.
    """

    table: str
    unit: Unit
    files: Sequence[str]
    fingerprint: str = ""
    entries: Sequence[DataFile] | None = None


def data_files(table: Table, unit: Unit, paths: Sequence[str]) -> list[DataFile]:
    """Return files of a unit, as a manifest names them, without those that have no rows.

    A file that is missing, is not under the table's location, does not fit its columns, or has rows of another unit is
    a CepError.
    """
    found = [one for path in paths if (one := _data_file(table, path, unit)) is not None]
    if len({file.file_path for file in found}) < len(found):
        double = next(path for index, path in enumerate(paths) if path in paths[:index])
        raise CepError(f"{'.'.join(table.name())}: the same file was given twice: {double}")
    return found


def append_file(
    catalog: WarehouseCatalog, stream: str, table_name: str, path: str, beside: Beside = lambda _: None
) -> int:
    """Append the rows of one file; returns the snapshot's id."""

    def change(table: Table, transaction: UnitTransaction) -> int:
        with transaction.update_snapshot().merge_append() as append:
            append.append_data_file(parquet_file_to_data_file(table.io, table.metadata, path))
        transaction.added.append(path)
        return append.snapshot_id

    return commit(catalog, stream, table_name, change, beside)


def commit(
    catalog: WarehouseCatalog, stream: str, table_name: str, change: Change, beside: Beside = lambda _: None
) -> int:
    """Commit a change of one table with what stands beside it; returns the snapshot's id."""
    return commit_together(catalog, stream, {table_name: change}, lambda _, connection: beside(connection))[table_name]


def commit_together(
    catalog: WarehouseCatalog,
    stream: str,
    changes: Mapping[str, Change],
    beside: Callable[[Mapping[str, int], Connection], None],
    loaded: Mapping[str, Table] | None = None,
) -> dict[str, int]:
    """Commit changes of several tables, and what stands beside them, at once.

    The id of the new snapshot of each table is returned. After a conflict each change is planned again on what the
    other commit has left. `beside` writes in the same transaction, by these ids. `loaded` are the tables as they have
    just been loaded, for the first attempt.
    """
    names = ", ".join(f"{stream}.{name}" for name in changes)
    for attempt in patient_attempts(names):
        with storage_errors(f"committing to {names} of the warehouse {catalog.properties['warehouse']}"):
            if loaded is None or attempt:
                loaded = {name: catalog.load_table((stream, name)) for name in changes}
            transactions = {name: UnitTransaction(loaded[name]) for name in changes}
            try:
                made = {name: change(loaded[name], transactions[name]) for name, change in changes.items()}
            except BaseException:
                remove_uncommitted(transactions.values())
                raise
            for name, transaction in transactions.items():
                _expire_beyond(catalog, stream, loaded[name], transaction)
            try:
                catalog.commit_together(list(transactions.values()), partial(beside, made))
            except CommitFailedException:
                continue
            except sqlalchemy.exc.SQLAlchemyError as error:
                # The connection may have broken after the database had committed: each of the tables knows.
                if not _landed(catalog, stream, *next(iter(made.items()))):
                    raise explain_database_error(str(catalog.engine.url), error) from error
            logger.debug("%s: committed snapshots %s, attempt %s", names, made, attempt + 1)
            return made
    raise AssertionError("patient_attempts either yields or raises")


def _expire_beyond(catalog: WarehouseCatalog, stream: str, table: Table, transaction: Transaction) -> None:
    """Expire the oldest snapshots with a commit where there are many: the metadata is written whole each time.

    Runs pin events while they hold a lease, so that snapshots stay that were the current one under a live lease. The
    files of an expired snapshot stay on the disk until `cep maintain` removes them.
    """
    if len(table.metadata.snapshots) <= MOST_SNAPSHOTS:
        return
    limit = (time.time() - max(PINNED_S, lease_age_s(catalog, stream, time.time))) * 1000
    old = [snapshot.snapshot_id for snapshot, by in replaced_snapshots(table) if by.timestamp_ms < limit]
    if old := old[: len(table.metadata.snapshots) - LEAST_SNAPSHOTS]:
        ExpireSnapshots(transaction).by_ids(old).commit()


def replaced_snapshots(table: Table) -> Iterator[tuple[Snapshot, Snapshot]]:
    """The snapshots of a table that are no longer the current one, the oldest first, each with the one after it."""
    snapshots = sorted(table.metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0)
    return itertools.pairwise(snapshots)


def lease_age_s(catalog: WarehouseCatalog, stream: str, clock: Callable[[], float]) -> float:
    """Return for how long the oldest lease of a stream that lives has been held; 0 without any.

    Leases go by the clock of the database, and snapshots by those of the hosts: only a length of time holds for both.
    """
    now = catalog.database.now(clock)
    query = sql.select(sql.func.max(now - LEASES.c.acquired_at)).where(
        LEASES.c.stream == stream, LEASES.c.heartbeat_at > now - DEAD_AFTER_S
    )
    with catalog.engine.connect() as connection:
        return float(connection.execute(query).scalar_one() or 0.0)


def _landed(catalog: WarehouseCatalog, stream: str, table_name: str, snapshot_id: int) -> bool:
    try:
        return catalog.load_table((stream, table_name)).snapshot_by_id(snapshot_id) is not None
    except sqlalchemy.exc.SQLAlchemyError:
        return False


def _data_file(table: Table, path: str, unit: Unit) -> DataFile | None:
    name = ".".join(table.name())
    if not path.startswith(f"{table.location()}/"):
        raise CepError(f"{path}: not under the location of {name}, {table.location()}; write where its directory says")
    filesystem, inner = open_filesystem(path)
    try:
        if pq.read_metadata(inner, filesystem=filesystem).num_rows == 0:
            return None
        file = parquet_file_to_data_file(table.io, table.metadata, path)
    except FileNotFoundError as error:
        raise CepError(f"{path}: the file to publish in {name} is not there; nothing was published") from error
    except (ValueError, pa.ArrowException) as error:
        raise CepError(
            f"{path}: the file does not fit {name} ({error}); its columns and types must be those of the table and "
            f"every row of {_unit_text(unit)}; nothing was published"
        ) from error
    for position, field in enumerate(table.spec().fields):
        found, expected = file.partition[position], unit[field.name]
        if isinstance(expected, date) and isinstance(found, int):
            found = day_of(found)
        if found != expected:
            raise CepError(f"{path}: its rows are of {field.name} {found}, not of {expected}; nothing was published")
    return file


def load_table(catalog: WarehouseCatalog, stream: str, name: str) -> Table:
    """Load a table for reading; a DamagedError says that its metadata cannot be read."""
    with catalog_errors(catalog, f"opening table {stream}.{name}"):
        return catalog.load_table((stream, name))


def _planned(scan: DataScan) -> list[DataFile]:
    """The files that a scan would read."""
    snapshot = scan.snapshot()
    if snapshot is None:
        return []
    with damage_errors(snapshot.manifest_list):
        return [task.file for task in scan.plan_files()]


@contextmanager
def catalog_errors(catalog: WarehouseCatalog, what: str) -> Iterator[None]:
    """Turn errors of the catalog, its database and its storage into ones that say what to do."""
    try:
        with storage_errors(what):
            yield
    except sqlalchemy.exc.SQLAlchemyError as error:
        raise explain_database_error(str(catalog.engine.url), error) from error
    except NoSuchTableError as error:
        raise InputError(f"{what}: {error}") from error


def _unit_text(unit: Unit) -> str:
    return ", ".join(f"{column} {value}" for column, value in unit.items())
