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
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.catalog.sql import IcebergNamespaceProperties, IcebergTables
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from sqlalchemy.engine import URL

from cep_pipeline.errors import DamagedError, InputError
from cep_pipeline.events.columns import DAY
from cep_pipeline.storage import canonical_json, damage_errors, digest_of, object_store_io, read_data_file, stored_files
from cep_pipeline.warehouse import backup, relocation
from cep_pipeline.warehouse.database import CATALOG_NAME, CURRENT_PLANS, PUBLISHED, SETTINGS
from cep_pipeline.warehouse.fingerprints import NO_CARRY, EventsFingerprint, MatchesFingerprint
from cep_pipeline.warehouse.iceberg_tables import as_published
from cep_pipeline.warehouse.layout import FORMAT_VERSION, MEANINGS, OF_PATTERN_SETS, SCRATCH, day_column
from cep_pipeline.warehouse.published_table import PublishedFile, day_of
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
        table = _newest(paths, report)
        if table is None:
            raise DamagedError(paths[0], f"no metadata of {stream}.{name} can be read")
        old, _, _ = table.metadata.location.rpartition(f"/{stream}/{name}")
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
        if name in ("events", "quarantine", *OF_PATTERN_SETS):
            rows[PUBLISHED.name] += _records(stream, name, table)
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


def _newest(paths: list[str], report: RebuildReport) -> Table | None:
    """The table by its newest metadata that can be read down to the names of the files."""
    files = object_store_io()
    for path in paths:
        try:
            with damage_errors(path):
                metadata = FromInputFile.table_metadata(files.new_input(path))
                table = Table(("", path), metadata, path, files, NoopCatalog("rebuilding"))
                if metadata.current_snapshot_id is not None and table.current_snapshot() is None:
                    raise ValueError("its current snapshot is not among its snapshots")
                _files(table)
        except DamagedError as error:
            logger.warning("%s", error)
            report.left_out.append(path)
        else:
            return table
    return None


def _files(table: Table) -> list[PublishedFile]:
    return as_published(table).files(DAY)


def _records(stream: str, name: str, table: Table) -> Iterator[dict[str, Any]]:
    """The records of the units that a table has rows of: they can be read, and are stale."""
    snapshot = table.current_snapshot()
    fields = [one.name for one in table.spec().fields]
    day_at = fields.index(day_column(name))
    units: dict[tuple[str, str], list[PublishedFile]] = defaultdict(list)
    for file in _files(table):
        pattern_set = file.partition[fields.index("pattern_set")] if name in OF_PATTERN_SETS else ""
        units[pattern_set, day_of(file.partition[day_at]).isoformat()].append(file)
    for (pattern_set, day), files in sorted(units.items()):
        assert snapshot is not None
        events, matches = EventsFingerprint((), "", NO_CARRY), MatchesFingerprint("", None)
        fingerprint = (matches if name in OF_PATTERN_SETS else events).to_json()
        note = {} if name == "quarantine" else {NOTE: LOST}
        yield {
            "stream": stream,
            "table_name": name,
            "pattern_set": pattern_set,
            "day": day,
            "run_id": RUN_ID,
            "published_at": snapshot.timestamp_ms / 1000,
            "snapshot_id": snapshot.snapshot_id,
            "row_count": sum(file.record_count for file in files),
            "fingerprint": canonical_json(fingerprint | note),
            "counts": canonical_json(_matches_by_pattern(files) if name == "matches" else {}),
            "carry_out": canonical_json({}),
            "carry_out_digest": digest_of({}),
        }


def _matches_by_pattern(files: list[PublishedFile]) -> Mapping[str, int]:
    counted: Counter[str] = Counter()
    for file in files:
        column = read_data_file(file.file_path, pa.schema([("pattern", pa.string())])).column("pattern")
        counted.update({one["values"]: one["counts"] for one in column.value_counts().to_pylist()})
    return counted


def _current_plans(stream: str, table: Table) -> Iterator[dict[str, Any]]:
    """The latest plan of each pattern set: which one was current, only the catalog knew."""
    latest: dict[str, dict[str, Any]] = {}
    columns = pa.schema(
        [("pattern_set", pa.string()), ("version", pa.int64()), ("created_at", pa.timestamp("us", tz="UTC"))]
    )
    for file in _files(table):
        for row in read_data_file(file.file_path, columns).to_pylist():
            if row["version"] > latest.get(row["pattern_set"], {"version": 0})["version"]:
                latest[row["pattern_set"]] = row
    for pattern_set, row in sorted(latest.items()):
        changed = row["created_at"].timestamp()
        yield {"stream": stream, "pattern_set": pattern_set, "version": row["version"], "changed_at": changed}
