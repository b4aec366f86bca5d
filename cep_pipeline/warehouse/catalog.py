"""The Iceberg catalog, whose commits carry further writes in the same database transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import sqlalchemy as sql
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.io import FileIO
from pyiceberg.table import CommitTableResponse, StagedTable, Table
from pyiceberg.table.update import AddSnapshotUpdate, TableRequirement, TableUpdate
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from sqlalchemy.engine import Connection, Engine

from cep_pipeline.storage import damage_errors, make_durable, object_store_io
from cep_pipeline.warehouse.database import create_together

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
        """Load a table, and again where its metadata was replaced, and removed, before they could be read.

        Raises
        ------
        DamagedError
            Its metadata is not there, or is damaged.
        """
        fault: Exception | None = None
        for _ in range(_LOAD_ATTEMPTS):
            try:
                return super().load_table(identifier)
            except FileNotFoundError as error:
                fault = error
            except (NoSuchTableError, sql.exc.SQLAlchemyError):
                raise
            except Exception as error:  # noqa: BLE001 - mangled metadata may raise anything; it is explained below
                fault = error
                break
        assert fault is not None
        with damage_errors(self._metadata_location(identifier)):
            raise fault

    def _metadata_location(self, identifier: str | Identifier) -> str:
        """Where the catalog says that the metadata of a table is."""
        query = sql.select(IcebergTables.metadata_location).where(
            IcebergTables.catalog_name == self.name,
            IcebergTables.table_namespace == Catalog.namespace_to_string(Catalog.namespace_from(identifier)),
            IcebergTables.table_name == Catalog.table_name_from(identifier),
        )
        with self.engine.connect() as connection:
            return str(connection.execute(query).scalar_one())

    def metadata_location(self, identifier: Identifier) -> str:
        """Return where the present metadata of a table is, without reading it."""
        query = sql.select(IcebergTables.metadata_location).where(
            IcebergTables.catalog_name == self.name,
            IcebergTables.table_namespace == Catalog.namespace_to_string(Catalog.namespace_from(identifier)),
            IcebergTables.table_name == Catalog.table_name_from(identifier),
        )
        with self.engine.connect() as connection:
            return str(connection.execute(query).scalar_one())

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
        make_durable([staged.metadata_location, *_new_metadata_files(staged, updates)])
        name = table.name()
        with self.engine.begin() as connection:
            for write in _beside.get():
                write(connection)
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


@contextmanager
def committing_beside(writes: Sequence[Beside]) -> Iterator[None]:
    """Do these writes in the transaction of every commit inside the block."""
    token = _beside.set(tuple(writes))
    try:
        yield
    finally:
        _beside.reset(token)
