"""The Iceberg catalog, whose commits carry further writes in the same database transaction."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, StagedTable, Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AddSnapshotUpdate, AssertTableUUID, TableRequirement, TableUpdate
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from sqlalchemy.engine import Connection

from cep_pipeline.errors import CepError, DamagedError
from cep_pipeline.storage import damage_errors, make_durable, object_store_io, open_filesystem, read_digest
from cep_pipeline.warehouse.database import CATALOG_NAME, Database, create_together
from cep_pipeline.warehouse.named_files import NamedFiles, is_recorded, record_files

_LOAD_ATTEMPTS = 5

Beside = Callable[[Connection], None]
"""A write in the transaction of a commit; whatever it raises rolls the commit back."""

logger = logging.getLogger(__name__)

# Strings that Arrow keeps as dictionaries are plain strings in Iceberg; that this is so needs no warning for each file.
logging.getLogger("pyiceberg.io.pyarrow").setLevel(logging.ERROR)


class WarehouseCatalog(SqlCatalog):
    """A SQL catalog on the warehouse's own engine.

    `SqlCatalog` swaps the metadata pointer of one table in a transaction of its own. That leaves a gap between checking
    a lease and committing, between a commit and the record of what was committed, and between the tables of a day. Here
    all of them are inside one transaction.
    """

    def __init__(self, database: Database, location: str) -> None:
        # Making a table does not ask `_load_file_io`, but goes by the catalog's properties.
        reached_by = object_store_io().properties if "://" in location else {}
        MetastoreCatalog.__init__(self, CATALOG_NAME, **reached_by, warehouse=location)
        self.database = database
        self.engine = database.engine
        create_together(self._init_catalog)

    def _load_file_io(self, properties: Properties = EMPTY_DICT, location: str | None = None) -> NamedFiles:
        """Return the files of the table of which one is at `location`, as the catalog recorded them."""
        inner = str(location).removeprefix(f"{self.properties['warehouse']}/")
        return self._files_of(*(inner.split("/")[:2]))

    def _files_of(self, stream: str, table: str) -> NamedFiles:
        return NamedFiles(self.database, stream, table)

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        """Read the metadata of a table by its files, where pyiceberg takes new ones."""
        pointer = str(orm_table.metadata_location)
        files = self._files_of(orm_table.table_namespace, orm_table.table_name)
        with damage_errors(pointer):
            metadata = FromInputFile.table_metadata(files.new_input(pointer))
        identifier = (*Catalog.identifier_to_tuple(orm_table.table_namespace), orm_table.table_name)
        return Table(identifier, metadata, pointer, files, self)

    def make_table(self, stream: str, table_name: str, columns: Schema, location: str, *layout: Any) -> Table:
        """Make a table; where one of the name had files once, and the catalog does not name it, a DamagedError."""
        name = (stream, table_name)
        if is_recorded(self.database, stream, table_name):
            if self.metadata_location(name) is not None:  # another process has just made it
                return self.load_table(name)
            raise DamagedError(f"catalog {self.database.name}", f"it has lost the table {'.'.join(name)}")
        try:
            made = self.create_table(name, columns, location, *layout)
        except TableAlreadyExistsError:
            return self.load_table(name)
        write_version_hint(made.metadata_location)
        digests = {made.metadata_location: read_digest(made.metadata_location)}
        with self.database.begin() as connection:
            record_files(stream, table_name, location, digests, (), connection)
        return made

    def load_table(self, identifier: str | Identifier) -> Table:
        """Load a table, and again where its metadata was replaced, and removed, before they could be read.

        Metadata that is lost or damaged is a DamagedError.
        """
        for attempt in count(1):
            try:
                return super().load_table(identifier)
            except DamagedError as error:
                if attempt == _LOAD_ATTEMPTS or not isinstance(error.__cause__, FileNotFoundError):
                    raise
        raise AssertionError("the last attempt either returns or raises")

    def metadata_location(self, identifier: str | Identifier) -> str | None:
        """Return where the present metadata of a table is, without reading it; None: there is no such table."""
        query = sql.select(IcebergTables.metadata_location).where(*self._row(identifier))
        with self.database.begin() as connection:
            return connection.execute(query).scalar_one_or_none()

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit to one table, as pyiceberg asks for it; CommitFailedException where another commit came first."""
        change = self._stage(table, requirements, updates)
        self._swap([change], ())
        return change.response

    def commit_together(self, transactions: Sequence[Transaction], beside: Sequence[Beside]) -> None:
        """Commit transactions on different tables, with what stands beside them, in one transaction of the database.

        Where another commit to one of them came first, nothing of any has changed: a CommitFailedException.
        """
        try:
            changes = [
                self._stage(
                    one._table, (*one._requirements, AssertTableUUID(uuid=one.table_metadata.table_uuid)), one._updates
                )
                for one in transactions
            ]
            self._swap(changes, beside)
        except CommitFailedException:
            remove_uncommitted(transactions)
            raise
        for one, change in zip(transactions, changes, strict=True):
            one._cleanup_uncommitted_manifests()
            try:
                self._delete_old_metadata(one._table.io, change.before.metadata, change.after.metadata)
            except OSError as error:  # it is committed; `cep maintain` removes what stays
                logger.warning("old metadata of %s stays: %s", ".".join(change.before.name()), error)

    def _stage(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> _Change:
        """Write the new metadata of a table, which nothing names yet.

        What the pointer will lead to is on the disk before it is swapped: the database survives a power cut, and must
        not come back naming files that did not.
        """
        current = self.load_table(table.name())
        staged = self._update_and_stage_table(current, table.name(), requirements, updates)
        staged.metadata = _in_order_of_time(staged.metadata, current.metadata)
        _check_nothing_is_lost(current, staged, updates)
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        written = [staged.metadata_location, *_new_metadata_files(staged, updates)]
        make_durable(written)
        return _Change(current, staged, {path: read_digest(path) for path in written})

    def _swap(self, changes: Sequence[_Change], beside: Sequence[Beside]) -> None:
        """Do what stands beside, and swap the pointers of all tables: all of it, or nothing."""
        with _yielding(changes), self.engine.begin() as connection:
            for write in beside:
                write(connection)
            # In one order, so that two that swap the same pointers wait for one another and never crosswise.
            for change in sorted(changes, key=lambda one: one.before.name()):
                name = change.before.name()
                record_files(name[0], name[1], change.after.location(), change.digests, (), connection)
                swapped = connection.execute(
                    sql.update(IcebergTables)
                    .where(*self._row(name), IcebergTables.metadata_location == change.before.metadata_location)
                    .values(
                        metadata_location=change.after.metadata_location,
                        previous_metadata_location=change.before.metadata_location,
                    )
                )
                if swapped.rowcount < 1:
                    raise CommitFailedException(f"{'.'.join(name)} was changed by another commit")

        for change in changes:
            write_version_hint(change.after.metadata_location)

    def _row(self, name: str | Identifier) -> tuple[sql.ColumnElement[bool], ...]:
        return (
            IcebergTables.catalog_name == self.name,
            IcebergTables.table_namespace == Catalog.namespace_to_string(Catalog.namespace_from(name)),
            IcebergTables.table_name == Catalog.table_name_from(name),
        )


def remove_uncommitted(transactions: Iterable[Transaction]) -> None:
    """Remove the manifests and manifest lists that transactions have written and that will never be committed.

    Where Ctrl-C came before one was written, there is nothing to remove, and nothing to warn of.
    """
    for transaction in transactions:
        for producer in transaction._snapshot_producers:
            written = producer._uncommitted_manifests, producer._written_manifests, producer._written_manifest_lists
            for paths in written:
                paths[:] = [path for path in paths if producer._io.new_input(path).exists()]
            producer._clean_all_uncommitted()


@contextmanager
def _yielding(changes: Sequence[_Change]) -> Iterator[None]:
    """Turn the error of a transaction that the database ended in favour of another one into CommitFailedException.

    The two waited for one another, or could not be put in an order; nothing has changed.
    """
    try:
        yield
    except sql.exc.DBAPIError as error:
        if getattr(error.orig, "pgcode", None) not in _ENDED_FOR_ANOTHER:
            raise
        names = ", ".join(".".join(change.before.name()) for change in changes)
        raise CommitFailedException(f"{names}: the database let another transaction go first") from error


_ENDED_FOR_ANOTHER = ("40P01", "40001")
"""States by which PostgreSQL says so: a deadlock, and a failure to put transactions in an order."""


@dataclass(frozen=True)
class _Change:
    """A table as it is, and its new metadata, written and named by nothing yet, with size and SHA-256 of its files."""

    before: Table
    after: StagedTable
    digests: Mapping[str, tuple[int, str]]

    @property
    def response(self) -> CommitTableResponse:
        return CommitTableResponse.model_validate(
            {"metadata": self.after.metadata, "metadata-location": self.after.metadata_location}
        )


VERSION_HINT = "version-hint.text"
"""A file beside the metadata of a table by which engines open the table by its folder, without the catalog."""


def write_version_hint(metadata_location: str) -> None:
    """Write which metadata file of a table is the current one, for engines that are given only the table's folder.

    The catalog alone decides what is published. The hint follows it: after a process was killed, or beside another
    writer, it may name the metadata of the commit before, which is whole and stays for some commits more. A hint that
    cannot be written is no reason to fail: what it tells of is published.
    """
    folder, _, name = metadata_location.rpartition("/")
    text = name.removesuffix(".metadata.json").encode()
    try:
        if "://" in folder:  # an object appears whole, or not at all
            filesystem, path = open_filesystem(f"{folder}/{VERSION_HINT}")
            with filesystem.open_output_stream(path) as stream:
                stream.write(text)
            return
        unfinished = Path(folder) / f".{VERSION_HINT}.{uuid.uuid4().hex[:8]}"
        try:
            with unfinished.open("wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(Path(folder) / VERSION_HINT)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("%s/%s is not up to date: %s; `cep maintain` writes it anew", folder, VERSION_HINT, error)


def _in_order_of_time(metadata: TableMetadata, before: TableMetadata) -> TableMetadata:
    """Return metadata whose times do not go back where the clock did: other engines refuse a table where they do."""
    least = before.last_updated_ms
    latest = max([least, *(entry.timestamp_ms for entry in metadata.snapshot_log)])
    if metadata.last_updated_ms >= latest:
        return metadata
    known = {snapshot.snapshot_id for snapshot in before.snapshots}
    snapshots = [
        one if one.snapshot_id in known else one.model_copy(update={"timestamp_ms": max(one.timestamp_ms, least)})
        for one in metadata.snapshots
    ]
    logged = {(entry.snapshot_id, entry.timestamp_ms) for entry in before.snapshot_log}
    log, time_ms = [], least
    for entry in metadata.snapshot_log:
        if (entry.snapshot_id, entry.timestamp_ms) not in logged:
            time_ms = max(time_ms, entry.timestamp_ms)
            entry = entry.model_copy(update={"timestamp_ms": time_ms})
        log.append(entry)
    return metadata.model_copy(update={"last_updated_ms": latest, "snapshots": snapshots, "snapshot_log": log})


def _check_nothing_is_lost(before: Table, after: StagedTable, updates: Sequence[TableUpdate]) -> None:
    """Refuse a snapshot that has not all files and rows of the one before but those that it says it removes.

    The numbers of both are those that their manifest lists give for each manifest; what is removed and added is counted
    over the files that the commit was given. A commit without a snapshot leaves the files as they were.
    """
    made = next((one.snapshot for one in updates if isinstance(one, AddSnapshotUpdate)), None)
    if made is None:
        if before.metadata.current_snapshot_id != after.metadata.current_snapshot_id:
            raise CepError(f"{'.'.join(before.name())}: a commit without files would change which files are published")
        return
    said = made.summary.additional_properties if made.summary is not None else {}
    was, now = (_files_and_rows(one, before.io) for one in (before.current_snapshot(), made))
    for number, (what, added, removed) in enumerate(
        (
            ("files", "added-data-files", "deleted-data-files"),
            ("rows", "added-records", "deleted-records"),
        )
    ):
        expected = was[number] + int(said.get(added, 0)) - int(said.get(removed, 0))
        if now[number] != expected:
            raise DamagedError(
                before.metadata_location,
                f"a commit would leave {now[number]} {what} of {'.'.join(before.name())} where {expected} should be",
            )


def _files_and_rows(snapshot: Snapshot | None, files: FileIO) -> tuple[int, int]:
    manifests = [] if snapshot is None else snapshot.manifests(files)
    counted = [(one.added_files_count, one.existing_files_count) for one in manifests]
    rows = [(one.added_rows_count, one.existing_rows_count) for one in manifests]
    return sum(a or 0 for pair in counted for a in pair), sum(a or 0 for pair in rows for a in pair)


def _new_metadata_files(staged: StagedTable, updates: Sequence[TableUpdate]) -> Iterator[str]:
    for update in updates:
        if isinstance(update, AddSnapshotUpdate):
            yield update.snapshot.manifest_list
            for manifest in update.snapshot.manifests(staged.io):
                if manifest.added_snapshot_id == update.snapshot.snapshot_id:
                    yield manifest.manifest_path
