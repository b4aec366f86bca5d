"""Rebuilding: a catalog that was lost is made anew from the metadata files of the tables.

The newest metadata of each table that can be read is put in force. What only the catalog knew is lost: from what each
day was made, and what it hands on. Each day gets a record that says so. It can be read, shows as stale, and is
published anew by `cep run --stale` where its raw files are still there.

Single records that are damaged are made anew in the same way, before a run reads them.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import sqlalchemy as sql
from pyiceberg.catalog.sql import IcebergNamespaceProperties, IcebergTables
from sqlalchemy.engine import URL

from cep_pipeline.errors import DamagedError, InputError
from cep_pipeline.events.columns import DAY
from cep_pipeline.storage import canonical_json, digest_of, read_data_file, read_digest, read_whole, stored_files
from cep_pipeline.warehouse import backup, relocation
from cep_pipeline.warehouse.catalog import VERSION_HINT
from cep_pipeline.warehouse.database import (
    CATALOG_NAME,
    CURRENT_PLANS,
    FILES,
    PUBLISHED,
    SETTINGS,
    Database,
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
from cep_pipeline.warehouse.named_files import NamedFiles
from cep_pipeline.warehouse.published_table import PublishedFile, PublishedTable, ReadFile, Unit
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
    if not replace:
        _refuse_catalog(location, catalog)
    backup.refuse_runs(catalog)
    report = RebuildReport(location)
    found = _metadata_files(location)
    if not found:
        raise InputError(f"warehouse {location}: it has no metadata of tables; nothing can be made from it")
    rows: relocation.Rows = defaultdict(list)
    rows[SETTINGS.name] = [{"name": "format_version", "value": str(FORMAT_VERSION)}]
    for number, ((stream, name), paths) in enumerate(sorted(found.items()), 1):
        table = _newest(stream, name, paths, report, _reader(catalog, stream, name))
        if table is None:
            raise DamagedError(paths[0], f"no metadata of {stream}.{name} can be read")
        old, _, _ = table.location.rpartition(f"/{stream}/{name}")
        if old != location:
            raise InputError(
                f"{table.metadata_location}: the warehouse was at {old} when its tables were written, and is now at "
                f"{location}; put it back there, make its catalog, and `cep relocate` it then"
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
            rows[PUBLISHED.name] += _records(stream, name, table, table.updated_at)
        elif name == "plans":
            rows[CURRENT_PLANS.name] += _current_plans(stream, table)
        told(number, len(found))
    report.days = len({(row["stream"], row["day"]) for row in rows[PUBLISHED.name] if row["table_name"] == "events"})
    backup.put_catalog(location, catalog, rows)
    return report


def _refuse_catalog(location: str, catalog: str | URL) -> None:
    database = relocation.database_at(catalog)
    if database is not None and relocation.pointers_of(database):
        raise InputError(
            f"warehouse {location}: it has a catalog that names tables. To make it anew from the tables forgets from "
            "what each day was made; say --replace if that is meant"
        )


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


def _reader(catalog: str | URL, stream: str, table: str) -> ReadFile:
    """Read files as the catalog that is there recorded them; where it cannot be read either, as they are."""
    try:
        database = relocation.database_at(catalog)
    except InputError as error:
        logger.info("%s", error)
        return read_whole
    return read_whole if database is None else NamedFiles(database, stream, table).read


def _newest(stream: str, name: str, paths: list[str], report: RebuildReport, read: ReadFile) -> PublishedTable | None:
    """The table by its newest metadata that can be read down to the names of the files."""
    for path in paths:
        try:
            table = PublishedTable.read(stream, name, path, read)
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
    known = {pointer.namespace for pointer in relocation.pointers_of(database)}
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
        one.table: PublishedTable.read(stream, one.table, one.metadata, NamedFiles(database, stream, one.table).read)
        for one in relocation.pointers_of(database)
        if one.namespace == stream
    }


def _records(stream: str, name: str, table: PublishedTable, at: float) -> Iterator[dict[str, Any]]:
    """The records of the units that a table has rows of: they can be read, and are stale."""
    units: dict[Unit, list[PublishedFile]] = defaultdict(list)
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


def _matches_by_pattern(files: list[PublishedFile]) -> Mapping[str, int]:
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
