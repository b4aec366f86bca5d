"""Maintenance: expire old snapshots, remove files that nothing names, merge small files.

The order makes it safe beside running writers: files are listed first and what is named is read afterwards, so a file
that is committed in between is seen as named; younger files and those of runs that hold a lease are left alone.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import pyarrow.fs as pafs
import sqlalchemy as sql
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.update.snapshot import ExpireSnapshots

from cep_pipeline.errors import DamagedError, InputError
from cep_pipeline.storage import folder_name, open_filesystem, remove_file, storage_errors, stored_files
from cep_pipeline.warehouse import commits, compaction, iceberg_tables, units
from cep_pipeline.warehouse.catalog import VERSION_HINT, write_version_hint
from cep_pipeline.warehouse.database import DAMAGES, FILES
from cep_pipeline.warehouse.layout import SCRATCH, UNIT_TABLES, day_column
from cep_pipeline.warehouse.records import MaintenanceReport
from cep_pipeline.warehouse.units import opened_tables

if TYPE_CHECKING:
    from cep_pipeline.warehouse.catalog import WarehouseCatalog
    from cep_pipeline.warehouse.store import Store

logger = logging.getLogger(__name__)
LEAST_GRACE_S = 600.0
"""Longest time of a commit between writing a file and naming it.

The drafts of a day lie unnamed for longer, from `preprocess` to `publish`. Those of a run that holds a lease are left
alone, whatever their age. Between two tasks of an Airflow run nobody holds one: there the grace period has to be longer
than a run, as the default of a day is.
"""

PACK_ABOVE_FILES = 32
"""A table without partitions, which grows by a row at a time, is merged into one file when it has become more."""


def maintain(warehouse: Store, *, grace_s: float, keep_snapshots_s: float, file_rows: int) -> MaintenanceReport:
    """Maintain all tables of all streams (see `Warehouse.maintain`)."""
    if grace_s < LEAST_GRACE_S:
        raise InputError(
            f"maintain: a grace period of {grace_s:g} s is too short: files younger than {LEAST_GRACE_S:.0f} s "
            "may be part of a commit in progress"
        )
    now = warehouse.clock()
    by_table: dict[str, Mapping[str, int]] = {}
    damages: list[str] = []
    for stream in warehouse.streams():
        for _, table_name in sorted(warehouse.catalog.list_tables(stream)):
            name = f"{stream}.{table_name}"
            try:
                with commits.catalog_errors(warehouse.catalog, f"maintaining {name}"):
                    by_table[name] = _maintain_table(
                        warehouse, stream, table_name, now - grace_s, now - keep_snapshots_s, file_rows
                    )
            except DamagedError as error:
                damages.append(f"{name}: {error}")
    by_table[SCRATCH] = _remove_scratch(warehouse, older_than_s=now - grace_s)
    totals = {key: sum(counts[key] for counts in by_table.values()) for key in _COUNTS}
    return MaintenanceReport(**totals, by_table=by_table, damages=tuple(damages))


_COUNTS = ("removed_files", "removed_bytes", "expired_snapshots", "merged_files")


def _maintain_table(
    warehouse: Store, stream: str, table_name: str, files_before_s: float, snapshots_before_s: float, file_rows: int
) -> Mapping[str, int]:
    if table_name in UNIT_TABLES:
        # Files that a damaged table does not name any more are left: they may be all that is left of a day.
        tables, records = opened_tables(warehouse.database, stream, (table_name,))
        table = tables[table_name]
        rows = units.rows_by_unit(table, table.files(day_column(table_name)))
        units.check_rows(table, rows, units.recorded_rows(records[table_name]))
    iceberg_tables.set_properties(warehouse.catalog, stream, table_name)
    expired = _expire(warehouse, stream, table_name, older_than_s=snapshots_before_s)
    removed = _remove_orphans(warehouse, stream, table_name, older_than_s=files_before_s)
    # Last: what is merged now is removed by the next maintenance, since a run may read it.
    merged = _compact(warehouse.catalog, stream, table_name, file_rows)
    kept = warehouse.catalog.load_table((stream, table_name)).metadata.snapshots
    units.forget_replaced(warehouse.database, stream, table_name, [one.snapshot_id for one in kept])
    logger.info("%s.%s: %s snapshots expired, %s orphaned files removed", stream, table_name, expired, len(removed))
    return {**_removed(removed), "expired_snapshots": expired, "merged_files": merged}


def _removed(files: Collection[pafs.FileInfo]) -> dict[str, int]:
    """The counts of files that were removed."""
    counts = {"removed_files": len(files), "removed_bytes": sum(file.size for file in files)}
    return dict.fromkeys(_COUNTS, 0) | counts


def _compact(catalog: WarehouseCatalog, stream: str, table_name: str, file_rows: int) -> int:
    table = catalog.load_table((stream, table_name))
    if not table.spec().fields and len(list(table.scan().plan_files())) <= PACK_ABOVE_FILES:
        return 0
    return compaction.compact(catalog, stream, table_name, file_rows=file_rows)


def _expire(warehouse: Store, stream: str, table_name: str, *, older_than_s: float) -> int:
    for _ in commits.patient_attempts(f"{stream}.{table_name}"):
        table = warehouse.catalog.load_table((stream, table_name))
        now = warehouse.clock()
        # A snapshot that a run of now may be pinned to was the current one under its lease.
        leased_s = commits.lease_age_s(warehouse.catalog, stream, warehouse.clock)
        old = [
            snapshot.snapshot_id
            for snapshot, by in commits.replaced_snapshots(table)
            if snapshot.timestamp_ms < older_than_s * 1000 and by.timestamp_ms < (now - leased_s) * 1000
        ]
        if not old:
            return 0
        try:
            ExpireSnapshots(commits.UnitTransaction(table, autocommit=True)).by_ids(old).commit()
        except CommitFailedException:
            continue
        return len(old)
    return 0


def _remove_orphans(warehouse: Store, stream: str, table_name: str, *, older_than_s: float) -> list[pafs.FileInfo]:
    location = warehouse.table_location(stream, table_name)
    candidates = {path: file for path, file in stored_files(location).items() if _written_s(file) < older_than_s}
    running = tuple(f"{folder_name(holder.run_id)}-" for holder in warehouse.leases() if not holder.expired)
    table = warehouse.catalog.load_table((stream, table_name))
    # It is older than the metadata where a writer was killed, or the disk was full.
    write_version_hint(table.metadata_location)
    named = {*iceberg_tables.as_published(table).named_files(), f"{location}/metadata/{VERSION_HINT}"}
    orphans = [
        path for path in candidates.keys() - named if not (running and path.rsplit("/", 1)[-1].startswith(running))
    ]
    for path in orphans:
        remove_file(path)
    _forget_files(warehouse, stream, table_name)
    return [candidates[path] for path in orphans]


def _written_s(file: pafs.FileInfo) -> float:
    """Return the time at which a file was written, in seconds since the epoch."""
    return float(file.mtime_ns / 1e9)


def _forget_files(warehouse: Store, stream: str, table_name: str) -> None:
    """Forget the digests of files that are neither there nor named, and damages of files that are no longer read.

    A file that is named and not there is a damage.
    """
    start = len(warehouse.table_location(stream, table_name)) + 1

    def recorded_in(records: sql.Table) -> set[str]:
        query = sql.select(records.c.path).where(records.c.stream == stream, records.c.table_name == table_name)
        with warehouse.database.begin() as connection:
            return set(connection.execute(query).scalars())

    # Those that a commit or `cep verify` adds from now on are not among the recorded ones.
    digests, damaged = recorded_in(FILES), recorded_in(DAMAGES)
    table = warehouse.catalog.load_table((stream, table_name))
    there = stored_files(warehouse.table_location(stream, table_name)).keys()
    read = {task.file.file_path for task in table.scan().plan_files()} if damaged else set()
    for records, paths, kept in (
        (FILES, digests, there | iceberg_tables.as_published(table).named_files()),
        (DAMAGES, damaged, read),
    ):
        gone = paths - {path[start:] for path in kept}
        unit = (records.c.stream == stream, records.c.table_name == table_name)
        if gone:
            with warehouse.database.begin() as connection:
                one = sql.delete(records).where(*unit, records.c.path == sql.bindparam("gone"))
                connection.execute(one, [{"gone": path} for path in gone])


def _remove_scratch(warehouse: Store, *, older_than_s: float) -> dict[str, int]:
    """Remove folders of the scratch that runs left behind: those in which nothing is young."""
    filesystem, path = open_filesystem(warehouse.scratch)
    folders: dict[str, list[pafs.FileInfo]] = {}
    for file in stored_files(warehouse.scratch).values():
        folders.setdefault(file.path[len(path) :].lstrip("/").split("/")[0], []).append(file)
    removed: list[pafs.FileInfo] = []
    for folder, files in folders.items():
        if all(_written_s(file) < older_than_s for file in files):
            with storage_errors(f"removing {path}/{folder}"):
                if filesystem.get_file_info(f"{path}/{folder}").type == pafs.FileType.Directory:
                    filesystem.delete_dir(f"{path}/{folder}")
                else:
                    filesystem.delete_file(f"{path}/{folder}")
            removed += files
    return _removed(removed)
