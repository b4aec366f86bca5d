"""Rebuilding: a catalog that was lost is made anew from the metadata files of the tables.

The newest metadata of each table that can be read is put in force. What only the catalog knew is lost: from what each
day was made, and what it hands on. Each day gets a record that says so. It can be read, shows as stale, and is
published anew by `cep run --stale` where its raw files are still there.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlalchemy as sql
from pyiceberg.catalog.sql import IcebergNamespaceProperties, IcebergTables, SqlCatalogBaseTable
from pyiceberg.manifest import DataFile
from sqlalchemy.engine import URL, make_url

from cep_pipeline.errors import BusyError, DamagedError, InputError
from cep_pipeline.events.columns import DAY
from cep_pipeline.storage import read_data_file, read_digest, stored_files
from cep_pipeline.warehouse.catalog import VERSION_HINT
from cep_pipeline.warehouse.database import (
    CATALOG_NAME,
    CURRENT_PLANS,
    PUBLISHED,
    RECORDS,
    SETTINGS,
    Database,
    is_begun,
)
from cep_pipeline.warehouse.layout import MEANINGS, OF_PATTERN_SETS, SCRATCH, UNIT_TABLES, day_column
from cep_pipeline.warehouse.leases import Store
from cep_pipeline.warehouse.published_table import PublishedTable, Unit, record_files
from cep_pipeline.warehouse.records import NO_CARRY, EventsFingerprint, MatchesFingerprint
from cep_pipeline.warehouse.units import REBUILT, Draft

logger = logging.getLogger(__name__)


@dataclass
class RebuildReport:
    """The result of `rebuild`: the tables by stream, the days, and the metadata files that had to be left out."""

    location: str
    tables: dict[str, list[str]] = field(default_factory=dict)
    days: int = 0
    left_out: list[str] = field(default_factory=list)


def rebuild(location: str, catalog: str | URL, *, replace: bool, told: Callable[[int, int], None]) -> RebuildReport:
    """Make the catalog of a warehouse anew (see `Warehouse.rebuild_catalog`), all of it or nothing."""
    report = RebuildReport(location)
    tables = []
    for (stream, name), paths in sorted(_metadata_files(location).items()):
        tables.append(_newest(stream, name, paths, report))
        if (old := tables[-1].location.removesuffix(f"/{stream}/{name}")) != location:
            raise InputError(
                f"{tables[-1].metadata_location}: the warehouse was at {old} when its tables were written, and is now "
                f"at {location}; put it back there"
            )
        report.tables.setdefault(stream, []).append(name)
    if not tables:
        raise InputError(f"warehouse {location}: it has no metadata of tables; nothing can be made from it")
    _put_aside(location, catalog, replace)
    database = Database(catalog, location)
    kept = [*(table for table in RECORDS if table is not SETTINGS), *SqlCatalogBaseTable.metadata.sorted_tables]
    with database.begin() as connection:
        connection.execute(sql.delete(PUBLISHED))  # the tables of Iceberg are made in the same transaction
        SqlCatalogBaseTable.metadata.create_all(connection)
        for one in kept:
            own = [one.c.catalog_name == CATALOG_NAME] if "catalog_name" in one.c else []
            connection.execute(sql.delete(one).where(*own))
        spaces = [{"namespace": stream, "property_key": "exists", "property_value": "true"} for stream in report.tables]
        connection.execute(sql.insert(IcebergNamespaceProperties).values(catalog_name=CATALOG_NAME), spaces)
        for number, table in enumerate(tables, 1):
            of_table = {"table_namespace": table.stream, "table_name": table.name}
            pointer = {"catalog_name": CATALOG_NAME, **of_table, "metadata_location": table.metadata_location}
            connection.execute(sql.insert(IcebergTables), [pointer])
            paths = [path for path in stored_files(f"{table.location}/metadata") if not path.endswith(VERSION_HINT)]
            digests = {path: read_digest(path) for path in paths}
            record_files(table.stream, table.name, table.location, digests, connection)
            updated_s = table.metadata.last_updated_ms / 1000
            for draft, rows in _drafts(table) if table.name in UNIT_TABLES else ():
                draft.write(connection, table.stream, REBUILT, updated_s, table.current_snapshot_id, rows)
                report.days += table.name == "events"
            if table.name == "plans" and (current := list(_current_plans(table, updated_s))):
                connection.execute(sql.insert(CURRENT_PLANS), current)
            told(number, len(tables))
    return report


def _put_aside(location: str, catalog: str | URL, replace: bool) -> None:
    """Refuse a catalog that names tables where nothing is to be replaced, or in use; a file of SQLite is put aside."""
    try:
        if is_begun(catalog):
            known = Store(location, Database(catalog, None))
            if not replace and known.streams():
                raise InputError(
                    f"warehouse {location}: it has a catalog that names tables. To make it anew from the tables "
                    "forgets from what each day was made; say --replace if that is meant"
                )
            for holder in (one for one in known.leases() if not one.expired):
                raise BusyError(
                    f"catalog {known.database.name}: run {holder.run_id} on {holder.host} (pid {holder.pid}) holds "
                    f"{holder.unit} of {holder.stream}; do this when nothing runs"
                )
            known.close()
    except InputError as error:
        if not replace:
            raise
        logger.info("%s", error)  # it cannot be read, and is put aside
    address = make_url(catalog)
    if address.get_backend_name() != "sqlite":
        return
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
    # A journal that a killed writer left belongs to the old file, and must not be applied to the new one.
    for ending in ("-journal", "-wal", "-shm", ""):
        old = Path(f"{address.database}{ending}")
        if old.exists():
            old.rename(f"{address.database}.replaced-{stamp}{ending}")


def _metadata_files(location: str) -> dict[tuple[str, str], list[str]]:
    """(stream, table) -> its metadata files, the newest first."""
    found: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for path in stored_files(location):
        parts = path[len(location) + 1 :].split("/")
        if len(parts) != 4 or parts[2] != "metadata" or not path.endswith(".metadata.json"):
            continue
        version = parts[3].partition("-")[0]
        if parts[0] != SCRATCH and parts[1] in MEANINGS and version.isdigit():
            found[parts[0], parts[1]].append((int(version), path))
    return {table: [path for _, path in sorted(paths, reverse=True)] for table, paths in found.items()}


def _newest(stream: str, name: str, paths: list[str], report: RebuildReport) -> PublishedTable:
    """The table by its newest metadata that can be read down to the names of the files; else a DamagedError."""
    for path in paths:
        try:
            table = PublishedTable.read(None, stream, name, path)
            table.files(DAY)
        except DamagedError as error:
            logger.warning("%s", error)
            report.left_out.append(path)
        else:
            return table
    raise DamagedError(paths[0], f"no metadata of {stream}.{name} can be read")


def _drafts(table: PublishedTable) -> Iterator[tuple[Draft, int]]:
    """The units that a table has rows of, as drafts whose records can be read and are stale, and their rows."""
    units: dict[Unit, list[DataFile]] = defaultdict(list)
    for file in table.files(day_column(table.name)):
        units[table.unit_of(file)].append(file)
    of_sets = table.name in OF_PATTERN_SETS
    fingerprint = MatchesFingerprint("", None) if of_sets else EventsFingerprint((), "", NO_CARRY)
    for (pattern_set, day), files in sorted(units.items()):
        counts = _matches_by_pattern(files) if table.name == "matches" else {}
        draft = Draft(table.name, day, (), fingerprint, counts=counts, pattern_set=pattern_set)
        yield draft, sum(file.record_count for file in files)


def _current_plans(table: PublishedTable, changed_at: float) -> Iterator[dict[str, Any]]:
    """The latest plan of each pattern set: which one was current, only the catalog knew."""
    columns = pa.schema([("pattern_set", pa.string()), ("version", pa.int64())])
    parts = [read_data_file(file.file_path, columns) for file in table.files(DAY)]
    rows = pa.concat_tables([columns.empty_table(), *parts])
    for latest in rows.group_by("pattern_set").aggregate([("version", "max")]).to_pylist():
        key = {"stream": table.stream, "pattern_set": latest["pattern_set"]}
        yield {**key, "version": latest["version_max"], "changed_at": changed_at}


def _matches_by_pattern(files: list[DataFile]) -> Mapping[str, int]:
    counted: Counter[str] = Counter()
    for file in files:
        column = read_data_file(file.file_path, pa.schema([("pattern", pa.string())])).column("pattern")
        counted.update({one["values"]: one["counts"] for one in column.value_counts().to_pylist()})
    return counted
