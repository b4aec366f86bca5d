"""The Iceberg catalog, whose commits carry further writes in the same database transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar

import sqlalchemy as sql
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO
from pyiceberg.table import CommitTableResponse, StagedTable, Table
from pyiceberg.table.update import AddSnapshotUpdate, TableRequirement, TableUpdate
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from sqlalchemy.engine import Connection, Engine

from cep_pipeline.storage import make_durable, object_store_io, read_digest
from cep_pipeline.warehouse.database import DAMAGES, FILES, create_together

CATALOG_NAME = "cep"
_LOAD_ATTEMPTS = 5

Beside = Callable[[Connection], None]
"""A write in the transaction of a commit; whatever it raises rolls the commit back."""

_beside: ContextVar[Sequence[Beside]] = ContextVar("beside", default=())

# Strings that Arrow keeps as dictionaries are plain strings in Iceberg; that this is so needs no warning for each file.
logging.getLogger("pyiceberg.io.pyarrow").setLevel(logging.ERROR)


class WarehouseCatalog(SqlCatalog):
    """A SQL catalog on the warehouse's own engine.

    `SqlCatalog` swaps the metadata pointer in a transaction of its own, which leaves a gap between checking a lease and
    committing, and between a commit and the record of what was committed. Here both are inside that transaction.
    """

    def __init__(self, engine: Engine, location: str) -> None:
        self._on_object_store = "://" in location
        # Making a table does not ask `_load_file_io`, but goes by the catalog's properties.
        reached_by = object_store_io().properties if self._on_object_store else {}
        MetastoreCatalog.__init__(self, CATALOG_NAME, **reached_by, warehouse=location)
        self.engine = engine
        create_together(self._init_catalog)

    def _load_file_io(self, properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:
        """Read and write metadata as all other files are: through the one client of the object store."""
        return object_store_io() if self._on_object_store else super()._load_file_io(properties, location)

    def load_table(self, identifier: str | Identifier) -> Table:
        """Load a table, and again where its metadata was replaced, and removed, before they could be read."""
        for _ in range(_LOAD_ATTEMPTS - 1):
            with suppress(FileNotFoundError):
                return super().load_table(identifier)
        return super().load_table(identifier)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Write new metadata, then in one transaction do what stands beside and swap the pointer.

        What the pointer will lead to is on the disk before it is swapped: the database survives a power cut, and must
        not come back naming files that did not.

        Raises
        ------
        CommitFailedException
            Another commit came first.
        """
        current = self.load_table(table.name())
        staged = self._update_and_stage_table(current, table.name(), requirements, updates)
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        written = [staged.metadata_location, *_new_metadata_files(staged, updates)]
        make_durable(written)
        name = table.name()
        digests = {path: read_digest(path) for path in written}
        with self.engine.begin() as connection:
            for write in _beside.get():
                write(connection)
            record_files(name[0], name[1], staged.location(), digests, (), connection)
            swapped = connection.execute(
                sql.update(IcebergTables)
                .where(
                    IcebergTables.catalog_name == self.name,
                    IcebergTables.table_namespace == Catalog.namespace_to_string(Catalog.namespace_from(name)),
                    IcebergTables.table_name == Catalog.table_name_from(name),
                    IcebergTables.metadata_location == current.metadata_location,
                )
                .values(
                    metadata_location=staged.metadata_location,
                    previous_metadata_location=current.metadata_location,
                )
            )
            if swapped.rowcount < 1:
                raise CommitFailedException(f"{'.'.join(name)} was changed by another commit")
        return CommitTableResponse.model_validate(
            {"metadata": staged.metadata, "metadata-location": staged.metadata_location}
        )


def _new_metadata_files(staged: StagedTable, updates: Sequence[TableUpdate]) -> Iterator[str]:
    for update in updates:
        if isinstance(update, AddSnapshotUpdate):
            yield update.snapshot.manifest_list
            for manifest in update.snapshot.manifests(staged.io):
                if manifest.added_snapshot_id == update.snapshot.snapshot_id:
                    yield manifest.manifest_path


def record_files(
    stream: str,
    table_name: str,
    location: str,
    added: Mapping[str, tuple[int, str]],
    removed: Sequence[str],
    connection: Connection,
) -> None:
    """Record size and SHA-256 of files that a commit adds; what was damaged in files that it removes is mended."""
    start = len(location) + 1
    rows = [
        {"stream": stream, "table_name": table_name, "path": path[start:], "size": size, "sha256": sha256}
        for path, (size, sha256) in added.items()
    ]
    for row in rows:  # a task that publishes may be repeated
        connection.execute(sql.delete(FILES).where(*_of_table(FILES, stream, table_name), FILES.c.path == row["path"]))
    if rows:
        connection.execute(sql.insert(FILES), rows)
    for path in removed:
        mended = (*_of_table(DAMAGES, stream, table_name), DAMAGES.c.path == path[start:])
        connection.execute(sql.delete(DAMAGES).where(*mended))


def _of_table(table: sql.Table, stream: str, table_name: str) -> tuple[sql.ColumnElement[bool], ...]:
    return table.c.stream == stream, table.c.table_name == table_name


@contextmanager
def committing_beside(writes: Sequence[Beside]) -> Iterator[None]:
    """Do these writes in the transaction of every commit inside the block."""
    token = _beside.set(tuple(writes))
    try:
        yield
    finally:
        _beside.reset(token)
