"""`Warehouse`: a folder (or object store) of Iceberg tables with its catalog."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.engine import URL

from cep_pipeline.errors import InputError
from cep_pipeline.events.columns import events_columns
from cep_pipeline.storage import (
    make_directory,
    open_filesystem,
    reach_object_stores,
    storage_errors,
    stored_files,
)
from cep_pipeline.warehouse.database import Database, is_begun, without_password
from cep_pipeline.warehouse.layout import SUMMARIES, check_stream_name, table_layouts
from cep_pipeline.warehouse.leases import LEASE_TIMEOUT_S, Store
from cep_pipeline.warehouse.published_table import PublishedTable
from cep_pipeline.warehouse.records import MaintenanceReport
from cep_pipeline.warehouse.stream_tables import StreamTables
from cep_pipeline.warehouse.units import open_table, opened_tables

if TYPE_CHECKING:
    from cep_pipeline.events.schema import StreamSchema
    from cep_pipeline.warehouse.rebuilding import RebuildReport
    from cep_pipeline.warehouse.verification import VerificationReport

CATALOG_FILE = "catalog.db"
FILE_ROWS = 1_000_000
"""Rows of a file of events or matches that maintenance merges small files to, as long as nothing else is set."""


class Warehouse(Store):
    """The tables of all streams; made by `Warehouse.open`."""

    @classmethod
    def open(
        cls,
        location: str | Path,
        catalog_uri: str | URL | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.time,
        lease_timeout_s: float = LEASE_TIMEOUT_S,
    ) -> Warehouse:
        """Open a warehouse; folder and catalog are made on first use.

        The location is a folder, or a URI that pyarrow reaches (s3://…). `catalog_uri` is the database of the catalog
        (postgresql+psycopg2://…), by default SQLite in the folder. `properties` say how object stores are reached,
        named as PyIceberg names them (`s3.endpoint`, `s3.region`, …); None leaves what this process has set already.
        Credentials come from the environment, or from a role. `clock`, in seconds since the epoch, is for tests. An
        InputError says that there is no warehouse yet and the location cannot be written, that the catalog cannot be
        read, or that a newer version made it.
        """
        if properties is not None:
            reach_object_stores(properties)
        place, catalog = _addresses(location, catalog_uri)
        _refuse_lost_catalog(place, catalog)
        return cls(place, Database(catalog, place), clock=clock, lease_timeout_s=lease_timeout_s)

    @classmethod
    def rebuild_catalog(
        cls,
        location: str | Path,
        catalog_uri: str | URL | None = None,
        *,
        replace: bool = False,
        told: Callable[[int, int], None] = lambda done, total: None,
    ) -> RebuildReport:
        """Make a catalog that was lost anew from the metadata files of the tables.

        What only the catalog knew is lost: from what each day was made, what it hands on, and the digests of the files.
        All days are there for readers, and are stale. With `replace` there may be a catalog that names tables, which is
        put aside; without, that is an InputError, as is a place without metadata. A table of which none can be read is
        a DamagedError. `told` hears after each table how many are done, of how many.
        """
        from cep_pipeline.warehouse import rebuilding

        place, catalog = _addresses(location, catalog_uri)
        return rebuilding.rebuild(place, catalog, replace=replace, told=told)

    def stream(self, schema: StreamSchema) -> StreamTables:
        """Return the tables of a stream for writing; they are made on first use.

        An attribute that is new in the schema becomes a column. An attribute of another type than the published one is
        an InputError.
        """
        name, only_read = check_stream_name(schema.name), self.database.read_only
        layouts = table_layouts(events_columns(schema.arrow_schema))
        there: Mapping[str, PublishedTable] = {}
        if not only_read:  # others may look into the warehouse's own folder where it was there before
            for folder in (f"{self.location}/{name}", self.scratch):
                make_directory(folder, private=True)
        if name in self.streams():
            there = opened_tables(self.database, name, layouts)[0]
        for layout in layouts.values():
            table = there.get(layout.name)
            if table is None and layout.name == SUMMARIES:
                continue
            if table is None or (table.missing_columns(layout) and not only_read):
                self.catalog.ensure_table(name, layout)
        return StreamTables(self, name, layouts)

    def open_stream(self, name: str) -> StreamTables:
        """Return the tables of a stream that exist already, for reading; an InputError lists those that there are."""
        if name not in (known := self.streams()):
            there = f"there are {', '.join(known)}" if known else "it has none yet"
            raise InputError(
                f"warehouse {self.location}: it has no stream {name!r}: {there}; `cep run --stream {name}` makes it"
            )
        events = open_table(self.database, name, "events").columns
        return StreamTables(self, name, table_layouts(events))

    def maintain(
        self, *, grace_s: float = 86_400.0, keep_snapshots_s: float = 5 * 86_400.0, file_rows: int = FILE_ROWS
    ) -> MaintenanceReport:
        """Expire old snapshots, remove files that no snapshot names and what dead runs left, merge small files.

        Files younger than `grace_s` (at least 600) are left alone, and those of a run that holds a lease. Snapshots
        younger than `keep_snapshots_s` are kept, and always the current one. Files of a day are merged as long as they
        have together no more than `file_rows` rows.
        """
        from cep_pipeline.warehouse import maintenance

        return maintenance.maintain(self, grace_s=grace_s, keep_snapshots_s=keep_snapshots_s, file_rows=file_rows)

    def verify(
        self,
        streams: Collection[str] | None = None,
        *,
        deep: bool = False,
        told: Callable[[int, int], None] = lambda done, total: None,
    ) -> VerificationReport:
        """Look whether all that is published is there, whole and as its records say.

        Only these streams are looked at; None: all. `deep` reads every file, and compares it with its digest and its
        pages with their checksums; else sizes and footers are read. `told` hears after each table how many are done, of
        how many. A stream that is not there, or a warehouse that cannot be reached, is an InputError.
        """
        from cep_pipeline.warehouse import verification

        return verification.verify(self, streams=streams, deep=deep, told=told)


def absolute_place(location: str | Path) -> str:
    """Return the absolute path of a folder, or a URI, without a slash at the end."""
    place = str(location).rstrip("/") or "/"
    return place if "://" in place else os.path.realpath(Path(place).expanduser())


def _addresses(location: str | Path, catalog_uri: str | URL | None) -> tuple[str, str | URL]:
    """Return the absolute location of a warehouse, and the address of its catalog."""
    place = absolute_place(location)
    if "://" not in place:
        with storage_errors(f"opening the warehouse {place}"):
            return place, catalog_uri or _sqlite_url(place)
    if catalog_uri is None:
        raise InputError(
            f"warehouse {place}: on an object store the catalog needs a database of its own; "
            "set the catalog's address (postgresql+psycopg2://…)"
        )
    open_filesystem(place)
    return place, catalog_uri


def _sqlite_url(location: str) -> URL:
    """Return the address of the catalog in a folder, which is made if need be; who may only read it reads it."""
    folder = Path(location)
    catalog = folder / CATALOG_FILE
    if not catalog.is_file():
        make_directory(location, private=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise InputError(
                f"warehouse {location}: the folder cannot be written; give this user write access, or name another"
            )
    return URL.create("sqlite", database=str(catalog))


def _refuse_lost_catalog(location: str, catalog: str | URL) -> None:
    """Refuse a place that holds tables where the catalog is not that of a warehouse, but missing, empty or foreign.

    It would be taken for a new warehouse, and what is published would be lost without a word.
    """
    if is_begun(catalog):
        return
    inner = [path[len(location) + 1 :] for path in stored_files(location)]
    if not any(one.count("/") == 3 and one.endswith(".metadata.json") for one in inner):
        return
    raise InputError(
        f"warehouse {location}: the folder holds tables, and their catalog {without_password(str(catalog))} is "
        "missing, or is that of no warehouse; put it back from a backup, make it anew by `cep restore`, or name another"
        " location"
    )
