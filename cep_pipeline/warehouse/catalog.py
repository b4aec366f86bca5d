"""The Iceberg catalog: it makes tables, and commits to several of them with what stands beside in the database."""

from __future__ import annotations

import logging
import os
import random
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sql
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io import FileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, StagedTable, Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertTableUUID,
    TableRequirement,
    TableUpdate,
    update_table_metadata,
)
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from sqlalchemy.engine import Connection

from cep_pipeline.errors import BusyError, CepError, DamagedError
from cep_pipeline.storage import (
    damage_errors,
    make_durable,
    object_store_io,
    open_filesystem,
    read_digest,
    size_and_digest,
    storage_errors,
)
from cep_pipeline.warehouse.database import CATALOG_NAME, Database, create_together
from cep_pipeline.warehouse.layout import TableLayout
from cep_pipeline.warehouse.published_table import (
    NamedFiles,
    PublishedTable,
    Result,
    is_recorded,
    read_again,
    record_files,
)

COMMIT_PATIENCE_S = 120.0

_TABLE_PROPERTIES = {
    # Conflicts are retried in `commits`, where the unit is planned anew on the newer table.
    "commit.retry.num-retries": "0",
    # A list of days reads the manifests that overlap it: some hundred files in each, in the order of their commits.
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
    "commit.manifest.target-size-bytes": str(128 * 1024),
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "write.parquet.compression-codec": "zstd",
}

Beside = Callable[[Connection], None]
"""A write in the transaction of a commit; whatever it raises rolls the commit back."""

logger = logging.getLogger(__name__)

# Strings that Arrow keeps as dictionaries are plain strings in Iceberg; that this is so needs no warning for each file.
logging.getLogger("pyiceberg.io.pyarrow").setLevel(logging.ERROR)


class UnitTransaction(Transaction):
    """A transaction whose view of the table's metadata is kept until it changes, and that knows its data files.

    pyiceberg copies the whole metadata, every snapshot of it, at each of some fifteen looks a commit takes at it: with
    300 snapshots that is half a second.
    """

    def __init__(self, table: Table, autocommit: bool = False) -> None:
        super().__init__(table, autocommit)
        self.added: list[str] = []
        self.removed: list[str] = []
        self._seen: tuple[TableMetadata, tuple[TableUpdate, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        """The table's metadata with the changes of the transaction so far; not to be changed."""
        if self._seen is None or self._seen[0] is not self._table.metadata or self._seen[1] is not self._updates:
            metadata = self._table.metadata
            view = update_table_metadata(metadata, self._updates) if self._updates else metadata
            self._seen = (metadata, self._updates, view)
        return self._seen[2]


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
        return NamedFiles(self.database, *inner.split("/")[:2])

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        """Read the metadata of a table by its files, where pyiceberg takes new ones."""
        pointer = str(orm_table.metadata_location)
        files = NamedFiles(self.database, orm_table.table_namespace, orm_table.table_name)
        with damage_errors(pointer):
            metadata = FromInputFile.table_metadata(files.new_input(pointer))
        identifier = (*Catalog.identifier_to_tuple(orm_table.table_namespace), orm_table.table_name)
        return Table(identifier, metadata, pointer, files, self)

    def ensure_table(self, stream: str, layout: TableLayout) -> Table:
        """Return a table, made if it is not there; its columns get the names that the layout has for them now.

        A name that does not fit those of the published columns is an InputError. Columns that it lacks are added by
        `add_columns`, when they get values.
        """
        with storage_errors(f"making table {stream}.{layout.name}"):
            try:
                self.load_table((stream, layout.name))
            except NoSuchTableError:
                self._make_table(stream, layout)

        def rename(table: PublishedTable, update: UpdateSchema) -> None:
            # The files that are there keep the old names, which the table's name mapping lists for all readers.
            for old, new in table.renamed_columns(layout).items():
                update.rename_column(old, new)

        return self._with_columns(stream, layout.name, rename)

    def _make_table(self, stream: str, layout: TableLayout) -> None:
        """Make a table; where one of the name had files once, and the catalog does not name it, a DamagedError."""
        from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
        from pyiceberg.partitioning import PartitionField, PartitionSpec
        from pyiceberg.schema import assign_fresh_schema_ids
        from pyiceberg.table.sorting import SortField, SortOrder
        from pyiceberg.transforms import IdentityTransform

        name = (stream, layout.name)
        if is_recorded(self.database, *name):
            if self.metadata_location(name) is not None:  # another process has just made it
                return
            raise DamagedError(f"catalog {self.database.name}", f"it has lost the table {'.'.join(name)}")
        schema = assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(layout.schema))
        ids = {field.name: field.field_id for field in schema.fields}
        partitions = (
            PartitionField(ids[name], 1000 + index, IdentityTransform(), name)
            for index, name in enumerate(layout.partitions)
        )
        sort = (SortField(ids[name], transform=IdentityTransform()) for name in layout.sort)
        mapping = {"schema.name-mapping.default": schema.name_mapping.model_dump_json()}
        properties = {**_TABLE_PROPERTIES, **layout.properties, **mapping}
        location = f"{self.properties['warehouse']}/{stream}/{layout.name}"
        # Two processes may make the same stream at once: whoever comes second takes what is there.
        with suppress(NamespaceAlreadyExistsError, sql.exc.IntegrityError):
            self.create_namespace(stream)
        try:
            made = self.create_table(name, schema, location, PartitionSpec(*partitions), SortOrder(*sort), properties)
        except TableAlreadyExistsError:
            return
        write_version_hint(made.metadata_location)
        digests = {made.metadata_location: read_digest(made.metadata_location)}
        with self.database.begin() as connection:
            record_files(*name, location, digests, (), connection)

    def set_properties(self, stream: str, name: str, properties: Mapping[str, str] = _TABLE_PROPERTIES) -> None:
        """Give a table properties, as those that tables are made with now; where it has them, nothing is committed."""

        def change(table: Table) -> None:
            missing = {key: value for key, value in properties.items() if table.properties.get(key) != value}
            if missing:
                table.transaction().set_properties(missing).commit_transaction()

        self.changed(stream, name, change)

    def add_columns(self, stream: str, layout: TableLayout) -> None:
        """Add the columns and properties of the layout that a published table lacks; without any nothing is committed.

        A column of another type than the published one is an InputError.
        """
        self.set_properties(stream, layout.name, layout.properties)

        def add(table: PublishedTable, update: UpdateSchema) -> None:
            if added := table.missing_columns(layout):
                from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids

                for field in _pyarrow_to_schema_without_ids(pa.schema(added)).fields:
                    update.add_column(field.name, field.field_type)

        self._with_columns(stream, layout.name, add)

    def _with_columns(self, stream: str, name: str, change: Callable[[PublishedTable, UpdateSchema], None]) -> Table:
        """Change the columns of a table as it is published; a change of nothing commits nothing."""

        def changed(table: Table) -> Table:
            with table.update_schema() as update:
                change(as_published(table), update)
            return table

        return self.changed(stream, name, changed)

    def changed(self, stream: str, name: str, change: Callable[[Table], Result]) -> Result:
        """Commit a change to a table as it is now, and again where another commit came first."""
        for _ in patient_attempts(f"{stream}.{name}"):
            with suppress(CommitFailedException):
                return change(self.load_table((stream, name)))
        raise AssertionError("patient_attempts either yields or raises")

    def load_table(self, identifier: str | Identifier) -> Table:
        """Load a table, and again where its metadata was replaced, and removed, before they could be read.

        Metadata that is lost or damaged is a DamagedError.
        """
        return read_again(partial(super().load_table, identifier))

    def metadata_location(self, identifier: str | Identifier) -> str | None:
        """Return where the present metadata of a table is, without reading it; None: there is no such table."""
        query = sql.select(IcebergTables.metadata_location).where(*self._row(identifier))
        return next((row.metadata_location for row in self.database.rows(query)), None)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit to one table, as pyiceberg asks for it; CommitFailedException where another commit came first."""
        change = self._stage(table, requirements, updates)
        self._swap([change], lambda _: None)
        return CommitTableResponse.model_validate(
            {"metadata": change.after.metadata, "metadata-location": change.after.metadata_location}
        )

    def commit_together(self, transactions: Sequence[UnitTransaction], beside: Beside) -> None:
        """Commit transactions on different tables, with what stands beside them, in one transaction of the database.

        Where another commit to one of them came first, nothing of any has changed: a CommitFailedException.
        """
        try:
            changes = [
                self._stage(
                    one._table,
                    (*one._requirements, AssertTableUUID(uuid=one.table_metadata.table_uuid)),
                    one._updates,
                    one.added,
                    one.removed,
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
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
        added: Sequence[str] = (),
        removed: Sequence[str] = (),
    ) -> _Change:
        """Write the new metadata of a table, which nothing names yet; data files are added and removed by it.

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
        digests = {path: read_digest(path) for path in written} | {path: _digest(path) for path in added}
        return _Change(current, staged, digests, removed)

    def _swap(self, changes: Sequence[_Change], beside: Beside) -> None:
        """Do what stands beside, and swap the pointers of all tables: all of it, or nothing."""
        with _yielding(changes), self.engine.begin() as connection:
            beside(connection)
            # In one order, so that two that swap the same pointers wait for one another and never crosswise.
            for change in sorted(changes, key=lambda one: one.before.name()):
                name = change.before.name()
                record_files(name[0], name[1], change.after.location(), change.digests, change.removed, connection)
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
    """A table as it is, and its new metadata, written and named by nothing yet.

    With it come size and SHA-256 of the files that it adds, and the data files that it removes.
    """

    before: Table
    after: StagedTable
    digests: Mapping[str, tuple[int, str]]
    removed: Sequence[str]


@lru_cache(4096)
def _digest(path: str) -> tuple[int, str]:
    """Size and SHA-256 of a data file; a commit that is tried again does not read it again."""
    return size_and_digest(path)


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


def as_published(table: Table) -> PublishedTable:
    """Return a table as readers see it; DamagedError where its metadata file lacks what every table has."""
    stream, name = table.name()[-2:]
    with damage_errors(table.metadata_location):
        return PublishedTable(stream, name, table.metadata_location, table.metadata, table.io)


def patient_attempts(what: str) -> Iterator[int]:
    """Count attempts, with growing random pauses, until the patience for conflicts is over: then a BusyError."""
    deadline = time.monotonic() + COMMIT_PATIENCE_S
    attempt = 0
    while time.monotonic() < deadline:
        yield attempt
        attempt += 1
        time.sleep(random.uniform(0.0, 0.02 * min(attempt, 20)))
    raise BusyError(
        f"{what}: other commits came first for {COMMIT_PATIENCE_S:.0f} s ({attempt} attempts). "
        "Nothing of this one was published; run again when fewer runs publish at once"
    )
