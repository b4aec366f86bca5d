"""Maintenance: expire old snapshots, remove files that nothing names, merge small files.

The order makes it safe beside running writers: files are listed first and what is named is read afterwards, so a file
that is committed in between is seen as named; younger files and those of runs that hold a lease are left alone.

Small files of a table become few, with the same rows in the same order. That takes no lease: it is one commit that
replaces files by a file of their rows, and it is planned anew when another commit came first: files that are no longer
there by then were replaced by a run, and stay replaced. A run whose commit comes second replaces what it finds, merged
or not. Records and fingerprints of units name contents and no files, so that nothing becomes stale; readers that are
pinned to a snapshot go on reading the files that it names.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.fs as pafs
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.update.snapshot import ExpireSnapshots

from cep_pipeline.errors import DamagedError, InputError
from cep_pipeline.storage import (
    ROW_GROUP_ROWS,
    folder_name,
    make_durable,
    open_data_file,
    open_filesystem,
    read_data_file,
    remove_file,
    storage_errors,
    stored_files,
    written,
)
from cep_pipeline.warehouse import units
from cep_pipeline.warehouse.catalog import (
    VERSION_HINT,
    UnitTransaction,
    as_published,
    replace_files,
    replaced_snapshots,
    write_version_hint,
)
from cep_pipeline.warehouse.layout import REPEATING_IN_MATCHES, SCRATCH, UNIT_TABLES, day_column
from cep_pipeline.warehouse.published_table import bound, forget_files
from cep_pipeline.warehouse.records import MaintenanceReport
from cep_pipeline.warehouse.units import opened_tables

if TYPE_CHECKING:
    from cep_pipeline.warehouse.catalog import WarehouseCatalog
    from cep_pipeline.warehouse.leases import Store

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
    if warehouse.database.read_only:
        raise InputError(f"maintain: warehouse {warehouse.location}: give this user write access to it")
    now = warehouse.clock()
    by_table: dict[str, Mapping[str, int]] = {}
    damages: list[str] = []
    for stream in warehouse.streams():
        for _, table_name in sorted(warehouse.catalog.list_tables(stream)):
            name = f"{stream}.{table_name}"
            try:
                with warehouse.catalog.errors(f"maintaining {name}"):
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
    expired = _expire(warehouse, stream, table_name, older_than_s=snapshots_before_s)
    removed = _remove_orphans(warehouse, stream, table_name, older_than_s=files_before_s)
    # Last: what is merged now is removed by the next maintenance, since a run may read it.
    merged = _compact(warehouse.catalog, stream, table_name, file_rows)
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
    return compact(catalog, stream, table_name, file_rows=file_rows)


def _expire(warehouse: Store, stream: str, table_name: str, *, older_than_s: float) -> int:
    old: list[int] = []

    def expire(table: Table, transaction: UnitTransaction) -> None:
        replaced = replaced_snapshots(warehouse.catalog, stream, table, warehouse.clock)
        old[:] = [one.snapshot_id for one in replaced if one.timestamp_ms < older_than_s * 1000]
        if old:
            ExpireSnapshots(transaction).by_ids(old).commit()

    warehouse.catalog.commit(stream, {table_name: expire})
    return len(old)


def _remove_orphans(warehouse: Store, stream: str, table_name: str, *, older_than_s: float) -> list[pafs.FileInfo]:
    location = warehouse.table_location(stream, table_name)
    candidates = {path: file for path, file in stored_files(location).items() if _written_s(file) < older_than_s}
    running = tuple(f"{folder_name(holder.run_id)}-" for holder in warehouse.leases() if not holder.expired)
    table = warehouse.catalog.load_table((stream, table_name))
    # It is older than the metadata where a writer was killed, or the disk was full.
    write_version_hint(table.metadata_location)
    named = {*as_published(table).named_files(), f"{location}/metadata/{VERSION_HINT}"}
    orphans = [
        path for path in candidates.keys() - named if not (running and path.rsplit("/", 1)[-1].startswith(running))
    ]
    for path in orphans:
        remove_file(path)
    with warehouse.database.begin() as connection:
        forget_files(stream, table_name, location, orphans, connection)
    return [candidates[path] for path in orphans]


def _written_s(file: pafs.FileInfo) -> float:
    """Return the time at which a file was written, in seconds since the epoch."""
    return float(file.mtime_ns / 1e9)


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


_PACKED = "-packed-"


def compact(catalog: WarehouseCatalog, stream: str, table_name: str, *, file_rows: int) -> int:
    """Merge neighbouring files of a unit while they have together no more than `file_rows`; returns how many fewer.

    It is one commit; a kill before it leaves the table as it was. Files stay as they are where one of them is damaged;
    a warning names it.
    """
    table = catalog.load_table((stream, table_name))
    columns = as_published(table).columns
    merged: list[tuple[list[DataFile], str]] = []
    for group in _groups(table, table_name, file_rows):
        try:
            merged.append((group, rewrite_files([file.file_path for file in group], table_name, columns)))
        except DamagedError as error:
            logger.warning("%s.%s: %s small files are not merged: %s", stream, table_name, len(group), error)
    if merged:
        _replace(catalog, stream, table_name, merged)
    fewer = sum(len(group) - 1 for group, _ in merged)
    logger.info("%s.%s: %s files fewer", stream, table_name, fewer)
    return fewer


def _replace(
    catalog: WarehouseCatalog, stream: str, table_name: str, merged: Sequence[tuple[Sequence[DataFile], str]]
) -> None:
    """Replace groups of files, those that are all there still, by the file that they were merged into."""
    make_durable(path for _, path in merged)

    def change(table: Table, transaction: UnitTransaction) -> int:
        there = {task.file.file_path for task in table.scan().plan_files()}
        ready = [(group, path) for group, path in merged if there.issuperset(file.file_path for file in group)]
        new = [parquet_file_to_data_file(table.io, table.metadata, path) for _, path in ready]
        return replace_files(transaction, [file for group, _ in ready for file in group], new)

    catalog.commit(stream, {table_name: change})


def _groups(table: Table, table_name: str, most_rows: int) -> Iterator[list[DataFile]]:
    """Neighbouring files of one unit that make one file."""
    units: dict[tuple[object, ...], list[DataFile]] = {}
    for task in table.scan().plan_files():
        unit = tuple(task.file.partition[position] for position in range(len(table.spec().fields)))
        units.setdefault(unit, []).append(task.file)
    seq = table.schema().find_field("seq").field_id if table_name == "events" else None
    for files in units.values():
        # In the order in which they are read: events by seq, all others by path.
        files.sort(key=lambda file: (0 if seq is None else bound(file.lower_bounds[seq]), file.file_path))
        group: list[DataFile] = []
        for file in files:
            full = group and sum(one.record_count for one in group) + file.record_count > most_rows
            apart = group and seq is not None and bound(group[-1].upper_bounds[seq]) >= bound(file.lower_bounds[seq])
            if full or apart:
                if len(group) > 1:
                    yield group
                group = []
            group.append(file)
        if len(group) > 1:
            yield group


def rewrite_files(paths: Sequence[str], table_name: str, columns: pa.Schema) -> str:
    """Write the rows of some files, in their order, as one file beside the first; returns its path.

    Files of a unit are read in the order of their paths: the new name has the place of the first one's.
    """
    first = paths[0].removesuffix(".parquet").split(_PACKED)[0]
    target = f"{first}{_PACKED}{uuid.uuid4().hex[:8]}.parquet"
    dictionaries = REPEATING_IN_MATCHES if table_name == "matches" else None
    rows = pa.concat_tables(read_data_file(path, columns) for path in paths)
    with open_data_file(target, columns, dictionaries=dictionaries) as writer:
        writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
    return written(target)
