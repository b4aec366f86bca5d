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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import sqlalchemy as sql
from pyiceberg.catalog.sql import IcebergNamespaceProperties, IcebergTables, SqlCatalogBaseTable
from pyiceberg.manifest import DataFile
from sqlalchemy.engine import URL, make_url

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
    FILES,
    LEASES,
    POINTERS,
    PUBLISHED,
    RECORDS,
    SETTINGS,
    Database,
    create_together,
    is_sound,
    sealed,
)
from cep_pipeline.warehouse.fingerprints import NO_CARRY, EventsFingerprint, MatchesFingerprint
from cep_pipeline.warehouse.layout import (
    FORMAT_VERSION,
    MEANINGS,
    OF_PATTERN_SETS,
    SCRATCH,
    UNIT_TABLES,
    day_column,
)
from cep_pipeline.warehouse.leases import LEASE_TIMEOUT_S, is_dead
from cep_pipeline.warehouse.named_files import NamedFiles
from cep_pipeline.warehouse.published_table import PublishedTable, Unit
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
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    rows[SETTINGS.name] = [
        {"name": "format_version", "value": str(FORMAT_VERSION)},
        {"name": "location", "value": location},
    ]
    for number, ((stream, name), paths) in enumerate(sorted(found.items()), 1):
        table = _newest(stream, name, paths, report, NamedFiles(known, stream, name))
        if table is None:
            raise DamagedError(paths[0], f"no metadata of {stream}.{name} can be read")
        old, _, _ = table.location.rpartition(f"/{stream}/{name}")
        if old != location:
            raise InputError(
                f"{table.metadata_location}: the warehouse was at {old} when its tables were written, and is now at "
                f"{location}; put it back there"
            )
        if stream not in report.tables:
            space = {"catalog_name": CATALOG_NAME, "namespace": stream, "property_key": "exists"}
            rows[IcebergNamespaceProperties.__tablename__].append({**space, "property_value": "true"})
        report.tables.setdefault(stream, []).append(name)
        rows[IcebergTables.__tablename__].append(
            {
                "catalog_name": CATALOG_NAME,
                "table_namespace": stream,
                "table_name": name,
                "metadata_location": table.metadata_location,
                "previous_metadata_location": None,
            }
        )
        rows[FILES.name] += _named_files(stream, name, table)
        if name in UNIT_TABLES:
            rows[PUBLISHED.name] += _records(stream, name, table, table.metadata.last_updated_ms / 1000)
        elif name == "plans":
            rows[CURRENT_PLANS.name] += _current_plans(stream, table)
        told(number, len(found))
    report.days = len({(row["stream"], row["day"]) for row in rows[PUBLISHED.name] if row["table_name"] == "events"})
    _put_catalog(catalog, rows)
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
    with known.begin() as connection:
        holders = connection.execute(sql.select(LEASES).where(LEASES.c.heartbeat_at >= alive_since)).all()
    for holder in (one for one in holders if not is_dead(one)):
        raise BusyError(
            f"catalog {known.name}: run {holder.run_id} on {holder.host} (pid {holder.pid}) holds {holder.unit} of "
            f"{holder.stream}; do this when nothing runs"
        )


class Pointer(NamedTuple):
    """The row of a table in the catalog."""

    namespace: str
    table: str
    metadata: str


def pointers_of(database: Database) -> list[Pointer]:
    """Return the tables that a catalog names."""
    if not database.has_catalog():
        return []
    columns = (POINTERS.c.table_namespace, POINTERS.c.table_name, POINTERS.c.metadata_location)
    query = sql.select(*columns).where(POINTERS.c.catalog_name == CATALOG_NAME).order_by(*columns[:2])
    with database.begin() as connection:
        return [Pointer(*row) for row in connection.execute(query)]


def _put_catalog(catalog: str | URL, rows: Mapping[str, list[dict[str, Any]]]) -> None:
    """Put a catalog in force. A file of SQLite is kept aside; the rows of another database are replaced at once."""
    address = _sqlite_file(catalog)
    if address is None:
        _write_catalog(Database(catalog, None), rows)
        return
    made = address.with_name(f"{address.name}.new")
    made.unlink(missing_ok=True)
    with storage_errors(f"writing {made}"):
        database = Database(URL.create("sqlite", database=str(made)), None)
        _write_catalog(database, rows)
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


def _write_catalog(database: Database, rows: Mapping[str, list[dict[str, Any]]]) -> None:
    """Let a database have these rows of a catalog and no others; leases are gone."""
    create_together(lambda: SqlCatalogBaseTable.metadata.create_all(database.engine))
    with database.begin() as connection:
        for table in (*RECORDS, *SqlCatalogBaseTable.metadata.tables.values()):
            own = [table.c.catalog_name == CATALOG_NAME] if "catalog_name" in table.c else []
            connection.execute(sql.delete(table).where(*own))
            if rows.get(table.name):
                connection.execute(sql.insert(table), rows[table.name])


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


def _newest(
    stream: str, name: str, paths: list[str], report: RebuildReport, files: NamedFiles
) -> PublishedTable | None:
    """The table by its newest metadata that can be read down to the names of the files."""
    for path in paths:
        try:
            table = PublishedTable.read(stream, name, path, files)
            table.files(DAY)
        except DamagedError as error:
            logger.warning("%s", error)
            report.left_out.append(path)
        else:
            return table
    return None


def _named_files(stream: str, name: str, table: PublishedTable) -> Iterator[dict[str, Any]]:
    """The records of the files that tell of others: from now on they are read as they are now."""
    for path in stored_files(f"{table.location}/metadata"):
        if not path.endswith(VERSION_HINT):
            size, sha256 = read_digest(path)
            inner = path[len(table.location) + 1 :]
            yield {"stream": stream, "table_name": name, "path": inner, "size": size, "sha256": sha256}


def remake_records(database: Database, stream: str, at: float) -> None:
    """Make the records of a stream that are damaged anew, at a time in seconds since the epoch.

    A unit of which the table has rows gets a record by which it can be read and is stale; else the record goes, and a
    run finds that nothing is published. The current plan of a pattern set is the latest one then.
    """
    records = (PUBLISHED, CURRENT_PLANS)
    with database.begin() as connection:
        found = {table.name: connection.execute(sql.select(table)).all() for table in records}
    # A record whose stream is mangled may be of any: the units that lost theirs are found by their rows.
    known = {pointer.namespace for pointer in pointers_of(database)}
    damaged = [
        (table, row)
        for table in records
        for row in found[table.name]
        if not is_sound(table, row) and (row.stream == stream or row.stream not in known)
    ]
    if not damaged:
        return
    made: list[tuple[sql.Table, dict[str, Any]]] = []
    for name, published in _opened(database, stream).items():
        if name in UNIT_TABLES:
            made += [(PUBLISHED, row) for row in _records(stream, name, published, at)]
        elif name == "plans":
            made += [(CURRENT_PLANS, row) for row in _current_plans(stream, published)]
    with database.begin() as connection:
        for table, row in damaged:
            key = [column == row._mapping[column.name] for column in table.primary_key]
            connection.execute(sql.delete(table).where(*key, table.c.digest == row.digest))
        for table, record in made:
            key = [column == record[column.name] for column in table.primary_key]
            if connection.execute(sql.select(table.c.stream).where(*key)).first() is None:
                connection.execute(sql.insert(table), [record])
    logger.warning(
        "catalog %s: %s records of stream %s were damaged, and are made anew from the tables; their days are stale",
        database.name,
        len(damaged),
        stream,
    )


def _opened(database: Database, stream: str) -> dict[str, PublishedTable]:
    """The tables of a stream; records are not looked at."""
    return {
        one.table: PublishedTable.read(stream, one.table, one.metadata, NamedFiles(database, stream, one.table))
        for one in pointers_of(database)
        if one.namespace == stream
    }


def _records(stream: str, name: str, table: PublishedTable, at: float) -> Iterator[dict[str, Any]]:
    """The records of the units that a table has rows of: they can be read, and are stale."""
    units: dict[Unit, list[DataFile]] = defaultdict(list)
    for file in table.files(day_column(name)):
        units[table.unit_of(file)].append(file)
    for (pattern_set, day), files in sorted(units.items()):
        events, matches = EventsFingerprint((), "", NO_CARRY), MatchesFingerprint("", None)
        fingerprint = (matches if name in OF_PATTERN_SETS else events).to_json()
        note = {} if name == "quarantine" else {NOTE: LOST}
        yield sealed(
            PUBLISHED,
            {
                "stream": stream,
                "table_name": name,
                "pattern_set": pattern_set,
                "day": day.isoformat(),
                "run_id": RUN_ID,
                "published_at": at,
                "snapshot_id": table.current_snapshot_id,
                "row_count": sum(file.record_count for file in files),
                "fingerprint": canonical_json(fingerprint | note),
                "counts": canonical_json(_matches_by_pattern(files) if name == "matches" else {}),
                "carry_out": canonical_json({}),
                "carry_out_digest": digest_of({}),
            },
        )


def _matches_by_pattern(files: list[DataFile]) -> Mapping[str, int]:
    counted: Counter[str] = Counter()
    for file in files:
        column = read_data_file(file.file_path, pa.schema([("pattern", pa.string())])).column("pattern")
        counted.update({one["values"]: one["counts"] for one in column.value_counts().to_pylist()})
    return counted


def _current_plans(stream: str, table: PublishedTable) -> Iterator[dict[str, Any]]:
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
        changed = row["created_at"].timestamp()
        current = {"stream": stream, "pattern_set": pattern_set, "version": row["version"], "changed_at": changed}
        yield sealed(CURRENT_PLANS, current)
