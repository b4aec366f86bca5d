"""Maintenance: expire old snapshots, remove files that nothing names, merge small files.

The order makes it safe beside running writers: files are listed first and what is named is read afterwards, so a file
that is committed in between is seen as named; younger files and those of runs that hold a lease are left alone.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.fs as pafs
import sqlalchemy as sql
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.update.snapshot import ExpireSnapshots

from cep_pipeline.errors import InputError
from cep_pipeline.storage import damage_errors, folder_name, open_filesystem, storage_errors
from cep_pipeline.warehouse import commits, compaction, iceberg_tables, units
from cep_pipeline.warehouse.catalog import VERSION_HINT, write_version_hint
from cep_pipeline.warehouse.database import DAMAGES, FILES
from cep_pipeline.warehouse.layout import SCRATCH
from cep_pipeline.warehouse.records import MaintenanceReport

if TYPE_CHECKING:
    from cep_pipeline.warehouse.catalog import WarehouseCatalog
    from cep_pipeline.warehouse.store import Store

logger = logging.getLogger(__name__)
LEAST_GRACE_S = 600.0
"""No commit takes as long as this between writing a file and naming it.

The drafts of a day lie unnamed for longer, from `preprocess` to `publish`. Those of a run that holds a lease are left
alone, whatever their age. Between two tasks of an Airflow run nobody holds one: there the grace period has to be longer
than a run, as the default of a day is.
"""

PACK_ABOVE_FILES = 32
"""A table without partitions, which grows by a row at a time, is merged into one file when it has become more."""


@dataclass(frozen=True)
class StoredFile:
    """One file of the warehouse: path in its file system, location, size in bytes, and when it was written."""

    path: str
    location: str
    size: int
    modified_s: float


def maintain(warehouse: Store, *, grace_s: float, keep_snapshots_s: float, file_rows: int) -> MaintenanceReport:
    """Maintain all tables of all streams (see `Warehouse.maintain`)."""
    if grace_s < LEAST_GRACE_S:
        raise InputError(
            f"maintain: a grace period of {grace_s:g} s is too short: files younger than {LEAST_GRACE_S:.0f} s "
            "may be part of a commit in progress"
        )
    now = warehouse.clock()
    by_table: dict[str, Mapping[str, int]] = {}
    for stream in warehouse.streams():
        for _, table_name in sorted(warehouse.catalog.list_tables(stream)):
            name = f"{stream}.{table_name}"
            with commits.catalog_errors(warehouse.catalog, f"maintaining {name}"):
                iceberg_tables.set_properties(warehouse.catalog, stream, table_name)
                expired = _expire(warehouse.catalog, stream, table_name, now=now, older_than_s=now - keep_snapshots_s)
                removed = _remove_orphans(warehouse, stream, table_name, older_than_s=now - grace_s)
                # Last: what is merged now is removed by the next maintenance, since a run may read it.
                merged = _compact(warehouse.catalog, stream, table_name, file_rows)
                kept = warehouse.catalog.load_table((stream, table_name)).metadata.snapshots
                units.forget_replaced(warehouse.database, stream, table_name, [one.snapshot_id for one in kept])
            logger.info("%s: %s snapshots expired, %s orphaned files removed", name, expired, len(removed))
            by_table[name] = {
                "removed_files": len(removed),
                "removed_bytes": sum(file.size for file in removed),
                "expired_snapshots": expired,
                "merged_files": merged,
            }
    by_table[SCRATCH] = _remove_scratch(warehouse, older_than_s=now - grace_s)
    totals = {key: sum(counts[key] for counts in by_table.values()) for key in _COUNTS}
    return MaintenanceReport(**totals, by_table=by_table)


_COUNTS = ("removed_files", "removed_bytes", "expired_snapshots", "merged_files")


def _compact(catalog: WarehouseCatalog, stream: str, table_name: str, file_rows: int) -> int:
    table = catalog.load_table((stream, table_name))
    if not table.spec().fields and len(list(table.scan().plan_files())) <= PACK_ABOVE_FILES:
        return 0
    return compaction.compact(catalog, stream, table_name, file_rows=file_rows)


def _expire(catalog: WarehouseCatalog, stream: str, table_name: str, *, now: float, older_than_s: float) -> int:
    for _ in commits.patient_attempts(f"{stream}.{table_name}"):
        table = catalog.load_table((stream, table_name))
        # A snapshot that a run of now may be pinned to was the current one under its lease.
        leased = commits.oldest_lease(catalog, stream, now)
        old = [
            snapshot.snapshot_id
            for snapshot, by in commits.replaced_snapshots(table)
            if snapshot.timestamp_ms < older_than_s * 1000 and (leased is None or by.timestamp_ms < leased * 1000)
        ]
        if not old:
            return 0
        try:
            ExpireSnapshots(commits.UnitTransaction(table, autocommit=True)).by_ids(old).commit()
        except CommitFailedException:
            continue
        return len(old)
    return 0


def _remove_orphans(warehouse: Store, stream: str, table_name: str, *, older_than_s: float) -> list[StoredFile]:
    location = warehouse.table_location(stream, table_name)
    candidates = [file for file in list_files(location) if file.modified_s < older_than_s]
    running = tuple(f"{folder_name(holder.run_id)}-" for holder in warehouse.leases() if not holder.expired)
    table = warehouse.catalog.load_table((stream, table_name))
    write_version_hint(
        table.metadata_location
    )  # older than the metadata where a writer was killed, or the disk was full
    named = {*named_files(table), f"{location}/metadata/{VERSION_HINT}"}
    orphans = [
        file
        for file in candidates
        if file.location not in named and not (running and file.path.rsplit("/", 1)[-1].startswith(running))
    ]
    filesystem, _ = open_filesystem(location)
    for file in orphans:
        with storage_errors(f"removing {file.location}"):
            filesystem.delete_file(file.path)
    _forget_files(warehouse, stream, table_name)
    return orphans


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
    there = {file.location for file in list_files(warehouse.table_location(stream, table_name))}
    read = {task.file.file_path for task in table.scan().plan_files()} if damaged else set()
    for records, paths, kept in ((FILES, digests, there | named_files(table)), (DAMAGES, damaged, read)):
        gone = paths - {path[start:] for path in kept}
        unit = (records.c.stream == stream, records.c.table_name == table_name)
        if gone:
            with warehouse.database.begin() as connection:
                one = sql.delete(records).where(*unit, records.c.path == sql.bindparam("gone"))
                connection.execute(one, [{"gone": path} for path in gone])


def _remove_scratch(warehouse: Store, *, older_than_s: float) -> dict[str, int]:
    """Remove folders of the scratch that runs left behind: those in which nothing is young."""
    filesystem, path = open_filesystem(f"{warehouse.location}/{SCRATCH}")
    folders: dict[str, list[StoredFile]] = {}
    for file in list_files(f"{warehouse.location}/{SCRATCH}"):
        folders.setdefault(file.path[len(path) :].lstrip("/").split("/")[0], []).append(file)
    removed: list[StoredFile] = []
    for folder, files in folders.items():
        if all(file.modified_s < older_than_s for file in files):
            with storage_errors(f"removing {path}/{folder}"):
                if filesystem.get_file_info(f"{path}/{folder}").type == pafs.FileType.Directory:
                    filesystem.delete_dir(f"{path}/{folder}")
                else:
                    filesystem.delete_file(f"{path}/{folder}")
            removed += files
    return dict.fromkeys(_COUNTS, 0) | {
        "removed_files": len(removed),
        "removed_bytes": sum(file.size for file in removed),
    }


def list_files(location: str) -> list[StoredFile]:
    """Return all files below a folder or URI."""
    filesystem, path = open_filesystem(location)
    selector = pafs.FileSelector(path, recursive=True, allow_not_found=True)
    return [
        StoredFile(info.path, location + info.path[len(path) :], info.size, info.mtime_ns / 1e9)
        for info in filesystem.get_file_info(selector)
        if info.type == pafs.FileType.File
    ]


def named_files(table: Table) -> set[str]:
    """Return the locations of all files that the table's metadata or any of its snapshots names."""
    named = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    manifests = {}
    for snapshot in table.snapshots():
        named.add(snapshot.manifest_list)
        with damage_errors(snapshot.manifest_list):
            manifests.update({manifest.manifest_path: manifest for manifest in snapshot.manifests(table.io)})
    for path, manifest in manifests.items():
        named.add(path)
        with damage_errors(path):
            named.update(entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io))
    return named
