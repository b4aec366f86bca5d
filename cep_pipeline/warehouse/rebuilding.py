"""Rebuilding: a catalog that was lost is made anew from the metadata files of the tables.

The newest metadata of each table that can be read is put in force. What only the catalog knew is lost: from what each
day was made, and what it hands on. Each day gets a record that says so. It can be read, shows as stale, and is
published anew by `cep run --stale` where its raw files are still there.

Single records that are damaged are made anew in the same way, before a run reads them.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlalchemy as sql
from pyiceberg.catalog.sql import IcebergNamespaceProperties, IcebergTables, SqlCatalogBaseTable
from pyiceberg.manifest import DataFile
from sqlalchemy.engine import URL, Connection, make_url

from cep_pipeline.errors import BusyError, DamagedError, InputError
from cep_pipeline.events.columns import DAY
from cep_pipeline.storage import (
    canonical_json,
    digest_of,
    make_durable,
    read_data_file,
    read_digest,
    storage_errors,
    stored_files,
)
from cep_pipeline.warehouse.catalog import VERSION_HINT
from cep_pipeline.warehouse.database import (
    CATALOG_NAME,
    CURRENT_PLANS,
    LEASES,
    POINTERS,
    PUBLISHED,
    RECORDS,
    SETTINGS,
    Database,
    create_together,
    insert_record,
    is_sound,
)
from cep_pipeline.warehouse.fingerprints import NO_CARRY, EventsFingerprint, MatchesFingerprint
from cep_pipeline.warehouse.layout import MEANINGS, OF_PATTERN_SETS, SCRATCH, UNIT_TABLES, day_column
from cep_pipeline.warehouse.leases import LEASE_TIMEOUT_S, is_dead
from cep_pipeline.warehouse.published_table import PublishedTable, Unit, record_files
from cep_pipeline.warehouse.units import NOTE

logger = logging.getLogger(__name__)

LOST = "its record was lost with the catalog, and made anew from the tables"
RUN_ID = "rebuilt"
"""The run id of such records."""


@dataclass
class RebuildReport:
    """The result of `rebuild`: the tables by stream, the days, and the metadata files that had to be left out."""

    location: str
    tables: dict[str, list[str]] = field(default_factory=dict)
    days: int = 0
    left_out: list[str] = field(default_factory=list)


def rebuild(location: str, catalog: str | URL, *, replace: bool, told: Callable[[int, int], None]) -> RebuildReport:
    """Make the catalog of a warehouse anew (see `Warehouse.rebuild_catalog`)."""
    known = _known(catalog, or_none=replace)
    if known is not None:
        if not replace and pointers_of(known):
            raise InputError(
                f"warehouse {location}: it has a catalog that names tables. To make it anew from the tables forgets "
                "from what each day was made; say --replace if that is meant"
            )
        _refuse_runs(known)
        known.engine.dispose()
    report = RebuildReport(location)
    found = _metadata_files(location)
    if not found:
        raise InputError(f"warehouse {location}: it has no metadata of tables; nothing can be made from it")
    tables = []
    for (stream, name), paths in sorted(found.items()):
        table = _newest(known, stream, name, paths, report)
        old, _, _ = table.location.rpartition(f"/{stream}/{name}")
        if old != location:
            raise InputError(
                f"{table.metadata_location}: the warehouse was at {old} when its tables were written, and is now at "
                f"{location}; put it back there"
            )
        report.tables.setdefault(stream, []).append(name)
        tables.append(table)
    with _new_catalog(catalog, location) as database:
        create_together(lambda: SqlCatalogBaseTable.metadata.create_all(database.engine))
        with database.begin() as connection:
            for kept in {*RECORDS, *SqlCatalogBaseTable.metadata.tables.values()} - {SETTINGS}:
                own = [kept.c.catalog_name == CATALOG_NAME] if "catalog_name" in kept.c else []
                connection.execute(sql.delete(kept).where(*own))
            for number, table in enumerate(tables, 1):
                _register(connection, table)
                told(number, len(tables))
            days = sql.select(PUBLISHED.c.stream, PUBLISHED.c.day).where(PUBLISHED.c.table_name == "events").distinct()
            report.days = len(connection.execute(days).all())
    return report


def _known(catalog: str | URL, *, or_none: bool) -> Database | None:
    """Open the database of a catalog, or none where it cannot be read; a file that is not there is not made."""
    file = _sqlite_file(catalog)
    if file is not None and not file.exists():
        return None
    try:
        return Database(catalog, None)
    except InputError as error:
        if not or_none:
            raise
        logger.info("%s", error)
        return None


def _sqlite_file(catalog: str | URL) -> Path | None:
    """Return the file of a SQLite database; None for another database."""
    address = make_url(catalog)
    return Path(address.database or "") if address.get_backend_name() == "sqlite" else None


def _refuse_runs(known: Database) -> None:
    """Refuse to go on, with a BusyError, while a lease is held whose holder lives."""
    alive_since = known.now(time.time) - LEASE_TIMEOUT_S
    holders = known.rows(sql.select(LEASES).where(LEASES.c.heartbeat_at >= alive_since))
    for holder in (one for one in holders if not is_dead(one)):
        raise BusyError(
            f"catalog {known.name}: run {holder.run_id} on {holder.host} (pid {holder.pid}) holds {holder.unit} of "
            f"{holder.stream}; do this when nothing runs"
        )


def pointers_of(database: Database) -> list[tuple[str, str, str]]:
    """Return stream, name and place of the metadata of the tables that a catalog names."""
    if not database.has_catalog():
        return []
    columns = (POINTERS.c.table_namespace, POINTERS.c.table_name, POINTERS.c.metadata_location)
    query = sql.select(*columns).where(POINTERS.c.catalog_name == CATALOG_NAME).order_by(*columns[:2])
    return [(row.table_namespace, row.table_name, row.metadata_location) for row in database.rows(query)]


@contextmanager
def _new_catalog(catalog: str | URL, location: str) -> Iterator[Database]:
    """Yield a database for the tables of a warehouse, which names none yet and is its catalog at the end.

    A file of SQLite is kept aside; another database forgets its rows when it is given new ones.
    """
    address = _sqlite_file(catalog)
    if address is None:
        yield Database(catalog, location)
        return
    made = address.with_name(f"{address.name}.new")
    made.unlink(missing_ok=True)
    with storage_errors(f"writing {made}"):
        database = Database(URL.create("sqlite", database=str(made)), location)
        yield database
        database.engine.dispose()
        make_durable([str(made)])
        stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
        # A journal that a killed writer left belongs to the old file, and must not be applied to the new one.
        for ending in ("-journal", "-wal", "-shm", ""):
            old = address.with_name(address.name + ending)
            if old.exists():
                old.rename(old.with_name(f"{address.name}.replaced-{stamp}{ending}"))
        made.rename(address)
        make_durable([str(address)])


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


def _newest(known: Database | None, stream: str, name: str, paths: list[str], report: RebuildReport) -> PublishedTable:
    """The table by its newest metadata that can be read down to the names of the files; else a DamagedError."""
    for path in paths:
        try:
            table = PublishedTable.read(known, stream, name, path)
            table.files(DAY)
        except DamagedError as error:
            logger.warning("%s", error)
            report.left_out.append(path)
        else:
            return table
    raise DamagedError(paths[0], f"no metadata of {stream}.{name} can be read")


def _register(connection: Connection, table: PublishedTable) -> None:
    """Let a catalog name a table, its files as they are now, and records of its units."""
    space = {"catalog_name": CATALOG_NAME, "namespace": table.stream, "property_key": "exists"}
    if connection.execute(sql.select(IcebergNamespaceProperties).filter_by(**space)).first() is None:
        connection.execute(sql.insert(IcebergNamespaceProperties), [{**space, "property_value": "true"}])
    pointer = {
        "catalog_name": CATALOG_NAME,
        "table_namespace": table.stream,
        "table_name": table.name,
        "metadata_location": table.metadata_location,
    }
    connection.execute(sql.insert(IcebergTables), [pointer])
    paths = [path for path in stored_files(f"{table.location}/metadata") if not path.endswith(VERSION_HINT)]
    digests = {path: read_digest(path) for path in paths}
    record_files(table.stream, table.name, table.location, digests, (), connection)
    _add_records(connection, list(_records(table)))


def remake_records(database: Database, stream: str) -> None:
    """Make the records of a stream that are damaged anew.

    A unit of which the table has rows gets a record by which it can be read and is stale; else the record goes, and a
    run finds that nothing is published. The current plan of a pattern set is the latest one then.
    """
    pointers = pointers_of(database)
    known = {of for of, _, _ in pointers}
    # A record whose stream is mangled may be of any: the units that lost theirs are found by their rows.
    damaged = [
        (table, row)
        for table in (PUBLISHED, CURRENT_PLANS)
        for row in database.rows(sql.select(table))
        if not is_sound(table, row) and (row.stream == stream or row.stream not in known)
    ]
    if not damaged:
        return
    tables = [PublishedTable.read(database, stream, name, at) for of, name, at in pointers if of == stream]
    made = [record for table in tables for record in _records(table)]
    with database.begin() as connection:
        for table, row in damaged:
            key = [column == row._mapping[column.name] for column in table.primary_key]
            connection.execute(sql.delete(table).where(*key, table.c.digest == row.digest))
        _add_records(connection, made)
    logger.warning(
        "catalog %s: %s records of stream %s were damaged, and are made anew from the tables; their days are stale",
        database.name,
        len(damaged),
        stream,
    )


def _add_records(connection: Connection, made: Iterable[tuple[sql.Table, Mapping[str, Any]]]) -> None:
    """Write those of some records that are not there."""
    for table, record in made:
        key = [column == record[column.name] for column in table.primary_key]
        if connection.execute(sql.select(table.c.stream).where(*key)).first() is None:
            insert_record(connection, table, record)


def _records(table: PublishedTable) -> Iterator[tuple[sql.Table, dict[str, Any]]]:
    """The records of the units that a table has rows of, which can be read and are stale, or of the current plans."""
    if table.name == "plans":
        yield from ((CURRENT_PLANS, {"stream": table.stream, **plan}) for plan in _latest_plans(table))
    if table.name not in UNIT_TABLES:
        return
    units: dict[Unit, list[DataFile]] = defaultdict(list)
    for file in table.files(day_column(table.name)):
        units[table.unit_of(file)].append(file)
    for (pattern_set, day), files in sorted(units.items()):
        events, matches = EventsFingerprint((), "", NO_CARRY), MatchesFingerprint("", None)
        fingerprint = (matches if table.name in OF_PATTERN_SETS else events).to_json()
        record = {
            "stream": table.stream,
            "table_name": table.name,
            "pattern_set": pattern_set,
            "day": day.isoformat(),
            "run_id": RUN_ID,
            "published_at": table.metadata.last_updated_ms / 1000,
            "snapshot_id": table.current_snapshot_id,
            "row_count": sum(file.record_count for file in files),
            "fingerprint": canonical_json(fingerprint | ({} if table.name == "quarantine" else {NOTE: LOST})),
            "counts": canonical_json(_matches_by_pattern(files) if table.name == "matches" else {}),
            "carry_out": canonical_json({}),
            "carry_out_digest": digest_of({}),
        }
        yield PUBLISHED, record


def _matches_by_pattern(files: list[DataFile]) -> Mapping[str, int]:
    counted: Counter[str] = Counter()
    for file in files:
        column = read_data_file(file.file_path, pa.schema([("pattern", pa.string())])).column("pattern")
        counted.update({one["values"]: one["counts"] for one in column.value_counts().to_pylist()})
    return counted


def _latest_plans(table: PublishedTable) -> Iterator[dict[str, Any]]:
    """The latest plan of each pattern set: which one was current, only the catalog knew."""
    latest: dict[str, dict[str, Any]] = {}
    columns = pa.schema(
        [("pattern_set", pa.string()), ("version", pa.int64()), ("created_at", pa.timestamp("us", tz="UTC"))]
    )
    for file in table.files(DAY):
        for row in read_data_file(file.file_path, columns).to_pylist():
            if row["version"] > latest.get(row["pattern_set"], {"version": 0})["version"]:
                latest[row["pattern_set"]] = row
    for pattern_set, row in sorted(latest.items()):
        yield {"pattern_set": pattern_set, "version": row["version"], "changed_at": row["created_at"].timestamp()}
