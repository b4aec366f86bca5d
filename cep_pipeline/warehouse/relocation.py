"""Relocation: a warehouse that was copied or moved is made to name its files by the place where they are now.

Iceberg names files by their full paths: in the metadata of a table, in its manifest lists and in its manifests. These
are written anew beside the copied ones, with the new paths; data files stay as they are. One transaction of the
catalog's database then puts the new metadata in force, so that a relocation that was killed has changed nothing, and
is done by the next one. The files that it wrote go with `cep maintain`, as do those that it replaces.
"""

from __future__ import annotations

import json
import posixpath
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from pyiceberg.avro.file import AvroFile, AvroOutputFile
from pyiceberg.catalog.sql import IcebergTables, SqlCatalogBaseTable
from pyiceberg.exceptions import ValidationError
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.typedef import Record
from sqlalchemy.engine import URL, Connection, make_url

from cep_pipeline.errors import BusyError, CepError, DamagedError, InputError
from cep_pipeline.storage import (
    make_durable,
    object_store_io,
    open_filesystem,
    read_digest,
    read_whole,
    storage_errors,
    stored_files,
)
from cep_pipeline.warehouse.catalog import write_version_hint
from cep_pipeline.warehouse.database import (
    CARRIED,
    CATALOG_NAME,
    FILES,
    LEASES,
    POINTERS,
    SETTINGS,
    Database,
    create_together,
)
from cep_pipeline.warehouse.leases import LEASE_TIMEOUT_S, is_dead
from cep_pipeline.warehouse.named_files import Recorded, check_recorded, digest_of_bytes


@dataclass(frozen=True)
class RelocationReport:
    """The result of `relocate`: from where to where, the tables, and the files of metadata that were written."""

    old: str
    new: str
    tables: int
    written_files: int


@dataclass(frozen=True)
class Pointer:
    """The row of a table in the catalog."""

    namespace: str
    table: str
    metadata: str


def relocate(
    location: str, catalog: str | URL, *, from_catalog: str | None, moved: bool, told: Callable[[int, int], None]
) -> RelocationReport:
    """Relocate a warehouse (see `Warehouse.relocate`)."""
    source = Database(from_catalog or catalog, None)
    old = source.location()
    if old is None:
        raise InputError(f"catalog {source.name}: it holds no warehouse; name the one that the copy was made of")
    if from_catalog is not None:
        # A file is made at the end only: until then nobody may take the place for an empty warehouse.
        if (there := database_at(catalog)) is not None and not _is_empty(there, location):
            return RelocationReport(old, location, 0, 0)
    elif old == location:
        return RelocationReport(old, location, 0, 0)
    check_idle(source)
    pointers = pointers_of(source)
    if from_catalog is None and not moved:
        _check_given_up(source, location, old, pointers)
    rewriting = Rewriting(old, location, _recorded(catalog_rows(source)))
    told(0, len(pointers))
    new: dict[Pointer, str] = {}
    for number, pointer in enumerate(pointers, 1):
        new[pointer] = rewriting.table(pointer)
        told(number, len(pointers))
    make_durable(rewriting.written)
    for path in new.values():  # the copied hint names metadata that names the former place
        write_version_hint(path)
    if from_catalog is None:
        _repoint(source, rewriting, new)
    else:
        _carry_over(source, Database(catalog, None), rewriting, new)
    return RelocationReport(old, location, len(new), len(rewriting.written))


def sqlite_file(catalog: str | URL) -> Path | None:
    """Return the file of a SQLite database; None for another database."""
    address = make_url(catalog)
    return Path(address.database or "") if address.get_backend_name() == "sqlite" else None


def database_at(catalog: str | URL) -> Database | None:
    """Open the database of a catalog; None for a file that is not there, which is not made."""
    file = sqlite_file(catalog)
    return Database(catalog, None) if file is None or file.exists() else None


def _is_empty(target: Database, location: str) -> bool:
    """Return whether a database can take a warehouse; False where it holds this very warehouse already."""
    there = target.location()
    if there not in (None, location):
        raise InputError(
            f"catalog {target.name}: it belongs to the warehouse at {there}; name an empty database in "
            "warehouse.catalog, or leave --from-catalog out to relocate that one"
        )
    return there is None


def check_idle(source: Database) -> None:
    """Refuse to go on, with a BusyError, while a lease is held whose holder lives."""
    alive_since = source.now(time.time) - LEASE_TIMEOUT_S
    with source.begin() as connection:
        holders = connection.execute(sql.select(LEASES).where(LEASES.c.heartbeat_at >= alive_since)).all()
    for holder in (one for one in holders if not is_dead(one)):
        raise BusyError(
            f"catalog {source.name}: run {holder.run_id} on {holder.host} (pid {holder.pid}) holds {holder.unit} of "
            f"{holder.stream}; do this when nothing runs. A lease that was copied ends after two minutes"
        )


def pointers_of(source: Database) -> list[Pointer]:
    """Return the tables that a catalog names."""
    if not source.has_catalog():
        return []
    columns = (POINTERS.c.table_namespace, POINTERS.c.table_name, POINTERS.c.metadata_location)
    query = sql.select(*columns).where(POINTERS.c.catalog_name == CATALOG_NAME).order_by(*columns[:2])
    with source.begin() as connection:
        return [Pointer(*row) for row in connection.execute(query)]


def pointers_in(rows: Rows) -> list[Pointer]:
    """Return the tables among the rows of a catalog."""
    listed = rows[IcebergTables.__tablename__]
    return [Pointer(row["table_namespace"], row["table_name"], row["metadata_location"]) for row in listed]


def rewrite(rows: Rows, old: str, new: str) -> None:
    """Write the metadata of all tables of a catalog anew, with the present paths, and let its rows name it."""
    rewriting = Rewriting(old, new, _recorded(rows))
    paths = {(one.namespace, one.table): rewriting.table(one) for one in pointers_in(rows)}
    make_durable(rewriting.written)
    point_to(rows, paths)
    rows[FILES.name] += rewriting.records()


def _check_given_up(source: Database, location: str, old: str, pointers: list[Pointer]) -> None:
    """Refuse to take the catalog away from a warehouse that is still where it was."""
    database = source.url.database or ""
    inside = source.url.get_backend_name() == "sqlite" and Path(database).resolve().is_relative_to(location)
    if inside or not any(_is_there(pointer.metadata) for pointer in pointers[:1]):
        return
    raise InputError(
        f"catalog {source.name}: its warehouse is still at {old}. For a copy at {location}, name an empty database in "
        "warehouse.catalog, and give the address of this one by --from-catalog. If the old place is given up, "
        "say --moved"
    )


def _is_there(path: str) -> bool:
    try:
        filesystem, inner = open_filesystem(path)
        return bool(filesystem.get_file_info(inner).is_file)
    except (OSError, CepError):  # the old place cannot be reached, and so is no warehouse from here
        return False


def _recorded(rows: Rows) -> dict[str, Recorded]:
    """The size and the SHA-256 of files by their paths in the warehouse."""
    return {
        f"{row['stream']}/{row['table_name']}/{row['path']}": (row["size"], row["sha256"]) for row in rows[FILES.name]
    }


class Rewriting:
    """Writes the metadata of tables with other paths: the warehouse was at `old`, and is at `new`.

    What is read is compared with what was recorded of it, by its path in the warehouse.
    """

    def __init__(self, old: str, new: str, recorded: Mapping[str, Recorded]) -> None:
        self.old, self.new = old, new
        self._recorded = recorded
        self.written: list[str] = []
        self._io = object_store_io()
        self._manifests: dict[str, tuple[str, int]] = {}
        self._sizes: dict[str, int] = {}

    def moved(self, path: str) -> str:
        """The present path of a file that was recorded by its former one."""
        if path.startswith(f"{self.new}/"):
            return path
        if not path.startswith(f"{self.old}/"):
            raise InputError(
                f"{path}: a table names it, and it is not in the warehouse {self.old}; such a table stays where it is"
            )
        return self.new + path[len(self.old) :]

    def paths(self, value: Any) -> Any:
        """A value with the present path for each former one in it."""
        if isinstance(value, str):
            return self.moved(value) if value.startswith(f"{self.old}/") else value
        if isinstance(value, list):
            return [self.paths(item) for item in value]
        if isinstance(value, dict):
            return {name: self.paths(item) for name, item in value.items()}
        return Record(*(self.paths(item) for item in value._data)) if isinstance(value, Record) else value

    def table(self, pointer: Pointer) -> str:
        """Write the metadata of a table and of all its snapshots; returns where."""
        name = f"{pointer.namespace}.{pointer.table}"
        path = self.moved(pointer.metadata)
        with storage_errors(f"relocating {name}"), self._copied(name, path):
            metadata = FromInputFile.table_metadata(self._io.new_input(path))
            content = self.paths(json.loads(metadata.model_dump_json()))
            self._sizes = {found: one.size for found, one in stored_files(content["location"]).items()}
            for snapshot in content.get("snapshots") or ():
                snapshot["manifest-list"] = self._manifest_list(name, snapshot["manifest-list"])
            content["metadata-log"] = []  # earlier versions of the metadata name the former place
            version = posixpath.basename(path).partition("-")[0]
            number = int(version) + 1 if version.isdigit() else 0
            target = f"{content['location']}/metadata/{number:05d}-{uuid.uuid4()}.metadata.json"
            ToOutputFile.table_metadata(TableMetadataUtil.parse_obj(content), self._io.new_output(target))
            self.written.append(target)
        return target

    def records(self) -> list[dict[str, Any]]:
        """The catalog's records of the files that were written: size and SHA-256 of each."""
        found = []
        for path in self.written:
            stream, table, inner = path[len(self.new) + 1 :].split("/", 2)
            size, sha256 = read_digest(path)
            found.append({"stream": stream, "table_name": table, "path": inner, "size": size, "sha256": sha256})
        return found

    def _manifest_list(self, table: str, path: str) -> str:
        with self._copied(table, path), AvroFile[Record](self._io.new_input(path)) as source:
            entries = list(source)
            at = _positions(source)
            for entry in entries:
                if "content" in at and entry[at["content"]] == ManifestContent.DELETES:
                    raise InputError(f"{table}: another program deleted rows by files of positions: rewrite it there")
                manifest = self.moved(entry[at["manifest_path"]])
                entry[at["manifest_path"]], entry[at["manifest_length"]] = self._manifest(table, manifest)
            return self._write(source, path, "manifest_file", entries)[0]

    def _manifest(self, table: str, path: str) -> tuple[str, int]:
        if path not in self._manifests:
            with self._copied(table, path), AvroFile[Record](self._io.new_input(path)) as source:
                entries = [self.paths(entry) for entry in source]
                at = _positions(source)
                inner = {field.name: number for number, field in enumerate(_struct(source, "data_file").fields)}
                for entry in entries:
                    if entry[at["status"]] != ManifestEntryStatus.DELETED:
                        file = entry[at["data_file"]]
                        self._check_there(table, file[inner["file_path"]], file[inner["file_size_in_bytes"]])
                self._manifests[path] = self._write(source, path, "manifest_entry", entries)
        return self._manifests[path]

    @contextmanager
    def _copied(self, table: str, path: str) -> Iterator[None]:
        """Say of a file of metadata that is missing or not what was written that the copy is not whole."""
        with _copied(table, path):
            try:
                check_recorded(path, digest_of_bytes(read_whole(path)), self._recorded.get(path[len(self.new) + 1 :]))
            except DamagedError as error:
                raise ValueError(error.fault) from error
            yield

    def _check_there(self, table: str, path: str, size: int) -> None:
        found = self._sizes.get(path)
        if found != size:
            said = "is not there" if found is None else f"has {found} bytes in place of {size}"
            raise InputError(
                f"{path}: a file of {table} {said}: the copy is not whole. Copy the warehouse again, and relocate again"
            )

    def _write(self, source: AvroFile[Record], path: str, kind: str, entries: list[Record]) -> tuple[str, int]:
        before = posixpath.basename(path).partition("-")[0]
        target = f"{posixpath.dirname(path)}/{'snap' if before == 'snap' else 'moved'}-{uuid.uuid4()}.avro"
        header = {name: text for name, text in source.header.meta.items() if name != "avro.schema"}
        header["avro.codec"] = header.get("avro.codec", "null")
        output = self._io.new_output(target)
        with AvroOutputFile[Record](output, source.schema, kind, metadata=self.paths(header)) as writer:
            writer.write_block(entries)
        self.written.append(target)
        return target, len(output)


def _positions(source: AvroFile[Record]) -> Mapping[str, int]:
    return {field.name: number for number, field in enumerate(source.schema.fields)}


def _struct(source: AvroFile[Record], name: str) -> Any:
    return source.schema.find_field(name).field_type


@contextmanager
def _copied(table: str, path: str) -> Iterator[None]:
    """Say of a file of metadata that is missing or mangled that the copy is not whole."""
    try:
        yield
    except CepError:
        raise
    except FileNotFoundError as error:
        raise InputError(
            f"{path}: the metadata of {table} is not there. Copy or move the whole warehouse to its new place, and "
            "relocate again"
        ) from error
    except (ValidationError, ValueError, KeyError, IndexError, TypeError, EOFError, zlib.error) as error:
        said = " ".join(str(error).split())[:200]
        raise InputError(
            f"{path}: the metadata of {table} cannot be read ({type(error).__name__}: {said}); copy it again"
        ) from error


def _repoint(database: Database, rewriting: Rewriting, new: Mapping[Pointer, str]) -> None:
    """Put the new metadata in force in the catalog that had the old."""
    records = rewriting.records()
    with database.begin() as connection:
        place = sql.update(SETTINGS).where(SETTINGS.c.name == "location", SETTINGS.c.value == rewriting.old)
        changed = connection.execute(place.values(value=rewriting.new)).rowcount
        for pointer, path in new.items():
            changed += connection.execute(
                sql.update(IcebergTables)
                .where(
                    IcebergTables.catalog_name == CATALOG_NAME,
                    IcebergTables.table_namespace == pointer.namespace,
                    IcebergTables.table_name == pointer.table,
                    IcebergTables.metadata_location == pointer.metadata,
                )
                .values(metadata_location=path, previous_metadata_location=None)
            ).rowcount
        if changed != len(new) + 1:
            raise BusyError(f"catalog {database.name}: it has changed meanwhile; nothing is relocated, run it again")
        if records:
            connection.execute(sql.insert(FILES), records)


def _carry_over(source: Database, target: Database, rewriting: Rewriting, new: Mapping[Pointer, str]) -> None:
    """Write the catalog of the copy into an empty database."""
    rows = catalog_rows(source)
    paths = {(pointer.namespace, pointer.table): path for pointer, path in new.items()}
    listed = rows[IcebergTables.__tablename__]
    if {(row["table_namespace"], row["table_name"]): row["metadata_location"] for row in listed} != {
        (pointer.namespace, pointer.table): pointer.metadata for pointer in new
    }:
        raise BusyError(f"catalog {source.name}: it has changed meanwhile; copy the warehouse when nothing runs")
    point_to(rows, paths)
    rows[FILES.name] += rewriting.records()
    write_catalog(target, rows, rewriting.new)


Rows = dict[str, list[dict[str, Any]]]
"""Table of the catalog's database -> its rows."""


def catalog_rows(source: Database) -> Rows:
    """Read all rows of a catalog that are the same at every place, as of one moment."""
    isolation = {"isolation_level": "REPEATABLE READ"} if source.url.get_backend_name() == "postgresql" else {}
    with source.errors(), source.engine.connect().execution_options(**isolation) as connection:
        if not isolation:
            connection.exec_driver_sql("BEGIN")  # else each statement would see a moment of its own
        return {table.name: _rows(connection, table) for table in (SETTINGS, *_carried())}


def point_to(rows: Rows, paths: Mapping[tuple[str, str], str]) -> None:
    """Let the rows of a catalog name other metadata: (stream, table) -> path."""
    for row in rows[IcebergTables.__tablename__]:
        row["metadata_location"] = paths[row["table_namespace"], row["table_name"]]
        row["previous_metadata_location"] = None


def write_catalog(target: Database, rows: Rows, location: str) -> None:
    """Let a database have these rows and no others, as the catalog of the warehouse at a location; leases are gone."""
    create_together(lambda: SqlCatalogBaseTable.metadata.create_all(target.engine))
    settings = {**{row["name"]: row["value"] for row in rows[SETTINGS.name]}, "location": location}
    with target.begin() as connection:
        for table in (SETTINGS, LEASES, *_carried()):
            own = [table.c.catalog_name == CATALOG_NAME] if "catalog_name" in table.c else []
            connection.execute(sql.delete(table).where(*own))
        connection.execute(sql.insert(SETTINGS), [{"name": name, "value": value} for name, value in settings.items()])
        for table in _carried():
            if rows.get(table.name):
                connection.execute(sql.insert(table), rows[table.name])


def _carried() -> list[sql.Table]:
    return [*CARRIED, *SqlCatalogBaseTable.metadata.tables.values()]


def _rows(connection: Connection, table: sql.Table) -> list[dict[str, Any]]:
    if not sql.inspect(connection).has_table(table.name):  # an older version has made the catalog
        return []
    query = sql.select(*(column for column in table.c if column.name != "iceberg_type"))
    if "catalog_name" in table.c:
        query = query.where(table.c.catalog_name == CATALOG_NAME)
    return [dict(row._mapping) for row in connection.execute(query)]
