"""The Iceberg catalog: it makes tables, and commits to several of them with what stands beside in the database.

A commit replaces units of tables by exactly the given files, appends rows, or changes columns and properties. It is
retried when another commit came first, planned anew on what that one left, so that any number of writers of different
units all land. This module imports pyiceberg (1-2 s), and is imported on first use.
"""

from __future__ import annotations

import itertools
import logging
import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sql
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids, parquet_file_to_data_file
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import assign_fresh_schema_ids
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import StagedTable, Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.table.update import AddSnapshotUpdate, AssertTableUUID, TableUpdate, update_table_metadata
from pyiceberg.table.update.snapshot import ExpireSnapshots, _MergeAppendFiles, _OverwriteFiles
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from sqlalchemy.engine import Connection

from cep_pipeline.errors import BusyError, CepError, InputError, interruptions_held
from cep_pipeline.storage import (
    damage_errors,
    make_durable,
    object_store_io,
    open_filesystem,
    read_digest,
    size_and_digest,
    storage_errors,
)
from cep_pipeline.warehouse.database import CATALOG_NAME, LEASES, Database, create_together
from cep_pipeline.warehouse.layout import TableLayout
from cep_pipeline.warehouse.published_table import (
    NamedFiles,
    PublishedTable,
    day_of,
    forget_files,
    record_files,
)

if TYPE_CHECKING:
    from cep_pipeline.warehouse.units import Draft

COMMIT_PATIENCE_S = 120.0
MOST_SNAPSHOTS = 120
LEAST_SNAPSHOTS = 80
"""A commit to a table with more snapshots than MOST_SNAPSHOTS expires the oldest, down to LEAST_SNAPSHOTS."""
PINNED_S = 600.0
"""A snapshot that was current in this time is not expired by a commit: a reader may be pinned to it."""
DEAD_AFTER_S = 3600.0
"""A lease without a heartbeat for so long keeps no snapshot."""

_TABLE_PROPERTIES = {
    # Conflicts are retried by `WarehouseCatalog.commit`, where the unit is planned anew on the newer table.
    "commit.retry.num-retries": "0",
    # A list of days reads the manifests that overlap it: some hundred files in each, in the order of their commits.
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
    "commit.manifest.target-size-bytes": str(128 * 1024),
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "write.parquet.compression-codec": "zstd",
}

Unit = Mapping[str, str | date]
"""Partition column -> value, all of a table's: what is replaced at once."""

logger = logging.getLogger(__name__)

# Strings that Arrow keeps as dictionaries are plain strings in Iceberg; that this is so needs no warning for each file.
logging.getLogger("pyiceberg.io.pyarrow").setLevel(logging.ERROR)


class UnitTransaction(Transaction):
    """A transaction whose view of the table's metadata is kept until it changes, and that knows its data files.

    pyiceberg copies the whole metadata, every snapshot of it, at each of some fifteen looks a commit takes at it: with
    300 snapshots that is half a second.
    """

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self.added: list[str] = []
        self._seen: tuple[TableMetadata, tuple[TableUpdate, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        """The table's metadata with the changes of the transaction so far; not to be changed."""
        if self._seen is None or self._seen[0] is not self._table.metadata or self._seen[1] is not self._updates:
            metadata = self._table.metadata
            view = update_table_metadata(metadata, self._updates) if self._updates else metadata
            self._seen = (metadata, self._updates, view)
        return self._seen[2]


Change = Callable[[Table, UnitTransaction], int | None]
"""Puts a change into a transaction on the table; returns the id of the snapshot that it makes, if it makes one."""
Beside = Callable[[Connection, Mapping[str, int | None]], None]
"""A write in the transaction of a commit, by what the changes returned; whatever it raises rolls the commit back."""


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

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Turn errors of the catalog, its database and its storage into ones that say what to do."""
        try:
            with storage_errors(what), self.database.errors():
                yield
        except NoSuchTableError as error:
            raise InputError(f"{what}: {error}") from error

    def ensure_table(self, stream: str, layout: TableLayout) -> None:
        """Make a table if it is not there, and give it the columns that the layout has for it now.

        Those that lack are added. A type that does not fit that of the published column is an InputError.
        """

        def fit(table: Table, transaction: UnitTransaction) -> None:
            missing = as_published(table).missing_columns(layout)
            with transaction.update_schema() as update:
                for field in _pyarrow_to_schema_without_ids(pa.schema(missing)).fields:
                    update.add_column(field.name, field.field_type)

        with self.errors(f"opening table {stream}.{layout.name}"):
            try:
                self.load_table((stream, layout.name))
            except NoSuchTableError:
                self._make_table(stream, layout)
            self.commit(stream, {layout.name: fit})

    def _make_table(self, stream: str, layout: TableLayout) -> None:
        """Make a table, where no other process has just made it."""
        name = (stream, layout.name)
        schema = assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(layout.schema))
        ids = {field.name: field.field_id for field in schema.fields}
        partitions = (
            PartitionField(ids[name], 1000 + index, IdentityTransform(), name)
            for index, name in enumerate(layout.partitions)
        )
        sort = (SortField(ids[name], transform=IdentityTransform()) for name in layout.sort)
        mapping = {"schema.name-mapping.default": schema.name_mapping.model_dump_json()}
        properties = {**_TABLE_PROPERTIES, **mapping}
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
            record_files(*name, location, digests, connection)

    def metadata_location(self, identifier: str | Identifier) -> str | None:
        """Return where the present metadata of a table is, without reading it; None: there is no such table."""
        query = sql.select(IcebergTables.metadata_location).where(*self._row(identifier))
        return next((row.metadata_location for row in self.database.rows(query)), None)

    def commit(
        self, stream: str, changes: Mapping[str, Change], beside: Beside = lambda connection, made: None
    ) -> dict[str, int | None]:
        """Commit changes of several tables, and what stands beside them, in one transaction of the database.

        What each change returned is returned. After a conflict each change is planned again on what the other commit
        has left. A change of nothing commits nothing. Ctrl-C and SIGTERM wait for an attempt to end: raised within it,
        they would come back as errors of the libraries that write the metadata.
        """
        names = ", ".join(f"{stream}.{name}" for name in changes)
        deadline = time.monotonic() + COMMIT_PATIENCE_S
        for attempt in itertools.count(1):
            with interruptions_held(), self.errors(f"committing to {names} in {self.properties['warehouse']}"):
                made = self._attempt(stream, changes, beside)
            if made is not None:
                logger.debug("%s: committed snapshots %s, attempt %s", names, made, attempt)
                return made
            if time.monotonic() > deadline:
                break
            time.sleep(random.uniform(0.0, 0.02 * min(attempt, 20)))
        raise BusyError(
            f"{names}: other commits came first for {COMMIT_PATIENCE_S:.0f} s ({attempt} attempts). "
            "Nothing of this one was published; run again when fewer runs publish at once"
        )

    def _attempt(self, stream: str, changes: Mapping[str, Change], beside: Beside) -> dict[str, int | None] | None:
        """Commit if no other commit comes first; None: one did, and nothing has changed."""
        transactions = {name: UnitTransaction(self.load_table((stream, name))) for name in changes}
        made: dict[str, int | None] = {}
        for name, one in transactions.items():
            made[name] = changes[name](one._table, one)
            self._expire_beyond(stream, one)
        # What a commit that fails has written is removed by `cep maintain`.
        staged = [self._stage(one) for one in transactions.values() if one._updates]
        try:
            with self.engine.begin() as connection:
                beside(connection, made)
                # In one order, so that two that swap the same pointers wait for one another and never crosswise.
                for change in sorted(staged, key=lambda one: one.after.name()):
                    self._swap(change, connection)
        except (CommitFailedException, sql.exc.SQLAlchemyError) as error:
            # PostgreSQL says by these states that it ended a transaction in favour of another one: the two waited for
            # one another, or could not be put in an order. Nothing has changed.
            gave_way = getattr(getattr(error, "orig", None), "pgcode", None) in ("40P01", "40001")
            if isinstance(error, CommitFailedException) or gave_way:
                return None
            if not any(self._landed((stream, name), snapshot) for name, snapshot in made.items()):
                raise
        for change in staged:
            write_version_hint(change.after.metadata_location)
            change.transaction._cleanup_uncommitted_manifests()
            try:
                self._delete_old_metadata(change.after.io, change.transaction._table.metadata, change.after.metadata)
            except OSError as error:  # it is committed; `cep maintain` removes what stays
                logger.warning("old metadata of %s stays: %s", ".".join(change.after.name()), error)
        return made

    def _stage(self, one: UnitTransaction) -> _Staged:
        """Write the new metadata of a table, which nothing names yet.

        What the pointer will lead to is on the disk before it is swapped: the database survives a power cut, and must
        not come back naming files that did not.
        """
        requirements = (*one._requirements, AssertTableUUID(uuid=one.table_metadata.table_uuid))
        staged = self._update_and_stage_table(one._table, one._table.name(), requirements, one._updates)
        staged.metadata = _in_order_of_time(staged.metadata, one._table.metadata)
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        written = [staged.metadata_location, *_new_metadata_files(staged, one._updates)]
        make_durable(written)
        digests = {path: read_digest(path) for path in written} | {path: size_and_digest(path) for path in one.added}
        return _Staged(one, staged, digests)

    def _swap(self, change: _Staged, connection: Connection) -> None:
        """Let a table's pointer lead to its new metadata; CommitFailedException where another commit came first."""
        name, before, after = change.after.name(), change.transaction._table.metadata_location, change.after
        record_files(name[0], name[1], after.location(), change.digests, connection)
        kept = {one.metadata_file for one in after.metadata.metadata_log}
        gone = [one.metadata_file for one in change.transaction._table.metadata.metadata_log]
        gone = [path for path in gone if path not in kept]
        forget_files(name[0], name[1], after.location(), gone, connection)
        swap = sql.update(IcebergTables).where(*self._row(name), IcebergTables.metadata_location == before)
        swap = swap.values(metadata_location=after.metadata_location, previous_metadata_location=before)
        if connection.execute(swap).rowcount < 1:
            raise CommitFailedException(f"{'.'.join(name)} was changed by another commit")

    def _landed(self, name: tuple[str, str], snapshot_id: int | None) -> bool:
        """True if a commit is there: the connection may have broken after the database had committed."""
        try:
            return snapshot_id is not None and self.load_table(name).snapshot_by_id(snapshot_id) is not None
        except sql.exc.SQLAlchemyError:
            return False

    def _expire_beyond(self, stream: str, transaction: UnitTransaction) -> None:
        """Expire the oldest snapshots with a commit where there are many: the metadata is written whole each time.

        The files of an expired snapshot stay on the disk until `cep maintain` removes them.
        """
        table = transaction._table
        if len(table.metadata.snapshots) > MOST_SNAPSHOTS and transaction._updates:
            replaced = replaced_snapshots(self, stream, table, time.time, PINNED_S)
            old = [snapshot.snapshot_id for snapshot in replaced[: len(table.metadata.snapshots) - LEAST_SNAPSHOTS]]
            if old:
                ExpireSnapshots(transaction).by_ids(old).commit()

    def _row(self, name: str | Identifier) -> tuple[sql.ColumnElement[bool], ...]:
        return (
            IcebergTables.catalog_name == self.name,
            IcebergTables.table_namespace == Catalog.namespace_to_string(Catalog.namespace_from(name)),
            IcebergTables.table_name == Catalog.table_name_from(name),
        )


@dataclass(frozen=True)
class _Staged:
    """A transaction on a table, its new metadata, which nothing names yet, and size and SHA-256 of its files."""

    transaction: UnitTransaction
    after: StagedTable
    digests: Mapping[str, tuple[int, str]]


VERSION_HINT = "version-hint.text"
"""A file beside the metadata of a table by which engines open the table by its folder, without the catalog."""


def write_version_hint(metadata_location: str) -> None:
    """Write which metadata file of a table is the current one, for engines that are given only the table's folder.

    The catalog alone decides what is published. The hint follows it: after a process was killed, or beside another
    writer, it may name the metadata of the commit before, which is whole and stays for some commits more. A hint that
    cannot be written is no reason to fail: what it tells of is published.
    """
    folder, _, name = metadata_location.rpartition("/")
    hint = f"{folder}/{VERSION_HINT}"
    written = hint if "://" in folder else f"{folder}/.{VERSION_HINT}.{uuid.uuid4().hex[:8]}"
    filesystem, path = open_filesystem(written)
    try:
        with filesystem.open_output_stream(path) as stream:
            stream.write(name.removesuffix(".metadata.json").encode())
        if written != hint:  # an object appears whole, or not at all
            make_durable([written])
            Path(written).replace(hint)
    except OSError as error:
        logger.warning("%s is not up to date: %s; `cep maintain` writes it anew", hint, error)


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


class _Replacement(_OverwriteFiles, _MergeAppendFiles):
    """A snapshot that deletes files and adds others, and merges small manifests as appending does.

    pyiceberg's own overwriting leaves one manifest for each commit, and all of them are read by the next one.
    """

    def _existing_manifests(self) -> list[ManifestFile]:
        """Leave manifests out that say only what earlier snapshots deleted."""
        return [one for one in super()._existing_manifests() if _names_files(one)]

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """Merge manifests, but for what this snapshot deletes: the next commit leaves that out."""
        deleted = [one for one in manifests if not _names_files(one)]
        return super()._process_manifests([one for one in manifests if _names_files(one)]) + deleted


def _names_files(manifest: ManifestFile) -> bool:
    return manifest.has_added_files() or manifest.has_existing_files()


def replace_files(
    transaction: UnitTransaction,
    old: Sequence[DataFile],
    new: Sequence[DataFile],
    summary: Mapping[str, str] | None = None,
) -> int:
    """Put a snapshot into a transaction that deletes the old files and adds the new ones; returns its id."""
    update = transaction.update_snapshot(snapshot_properties=dict(summary or {}))
    operation = update.overwrite()._operation
    replacement = _Replacement(operation, transaction, update._io, snapshot_properties=dict(summary or {}))
    with replacement:
        for file in old:
            replacement.delete_data_file(file)
        for file in new:
            replacement.append_data_file(file)
    transaction.added += [file.file_path for file in new]
    return replacement.snapshot_id


def replace_units(
    catalog: WarehouseCatalog,
    stream: str,
    units: Sequence[Draft],
    run_id: str,
    renew: Callable[[Connection], None],
    published_at: float,
) -> list[int]:
    """Replace everything of some units of a stream by exactly the files of drafts, in all their tables at once.

    Their records are written with them, as long as the lease is held that `renew` renews. The rows of each unit are
    returned. Readers of the tables' history see `run_id`. A CepError says that a file does not belong there.
    """
    tables = {name: catalog.load_table((stream, name)) for name in dict.fromkeys(one.table for one in units)}
    found = [data_files(tables[one.table], one.unit, one.files) for one in units]
    make_durable(file.file_path for files in found for file in files)
    rows = [sum(file.record_count for file in files) for files in found]

    def replaced(name: str) -> Change:
        own = [(one, files) for one, files in zip(units, found, strict=True) if one.table == name]
        said = {"cep.run": run_id, "cep.unit": ", ".join(" ".join(map(str, one.unit.values())) for one, _ in own)}
        if prints := [one.fingerprint.digest for one, _ in own if one.fingerprint]:
            said["cep.fingerprint"] = ", ".join(prints)

        def change(table: Table, transaction: UnitTransaction) -> int:
            published = as_published(table)
            old = [file for one, _ in own for file in published.files_of(one.unit)]
            return replace_files(transaction, old, [file for _, files in own for file in files], said)

        return change

    def beside(connection: Connection, snapshots: Mapping[str, int | None]) -> None:
        renew(connection)  # first: its row stays locked until the commit is done
        for one, number in zip(units, rows, strict=True):
            one.write(connection, stream, run_id, published_at, snapshots[one.table], number)

    catalog.commit(stream, {name: replaced(name) for name in tables}, beside)
    return rows


def data_files(table: Table, unit: Unit, paths: Sequence[str]) -> list[DataFile]:
    """Return files of a unit, as a manifest names them, without those that have no rows.

    A file that is missing, is not under the table's location, does not fit its columns, or has rows of another unit is
    a CepError.
    """
    found = [one for path in paths if (one := _data_file(table, path, unit)) is not None]
    if len({file.file_path for file in found}) < len(found):
        double = next(path for index, path in enumerate(paths) if path in paths[:index])
        raise CepError(f"{'.'.join(table.name())}: the same file was given twice: {double}")
    return found


def append_file(catalog: WarehouseCatalog, stream: str, table_name: str, path: str, beside: Beside) -> None:
    """Append the rows of one file."""

    def change(table: Table, transaction: UnitTransaction) -> int:
        with transaction.update_snapshot().merge_append() as append:
            append.append_data_file(parquet_file_to_data_file(table.io, table.metadata, path))
        transaction.added.append(path)
        return append.snapshot_id

    catalog.commit(stream, {table_name: change}, beside)


def replaced_snapshots(
    catalog: WarehouseCatalog, stream: str, table: Table, clock: Callable[[], float], pinned_s: float = 0.0
) -> list[Snapshot]:
    """Return the snapshots of a table that no run of now can be pinned to, the oldest first.

    None was the current one in the last `pinned_s`. Runs pin events while they hold a lease: these snapshots had been
    replaced before the oldest lease that lives was taken. Leases go by the clock of the database, and snapshots by
    those of the hosts: only a length of time holds for both.
    """
    now = catalog.database.now(clock)
    query = sql.select(sql.func.max(now - LEASES.c.acquired_at)).where(
        LEASES.c.stream == stream, LEASES.c.heartbeat_at > now - DEAD_AFTER_S
    )
    with catalog.engine.connect() as connection:
        pinned_s = max(pinned_s, float(connection.execute(query).scalar_one() or 0.0))
    snapshots = sorted(table.metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0)
    pairs = itertools.pairwise(snapshots)
    return [snapshot for snapshot, by in pairs if by.timestamp_ms < (clock() - pinned_s) * 1000]


def _data_file(table: Table, path: str, unit: Unit) -> DataFile | None:
    name = ".".join(table.name())
    if not path.startswith(f"{table.location()}/"):
        raise CepError(f"{path}: not under the location of {name}, {table.location()}; write where its directory says")
    filesystem, inner = open_filesystem(path)
    try:
        if pq.read_metadata(inner, filesystem=filesystem).num_rows == 0:
            return None
        file = parquet_file_to_data_file(table.io, table.metadata, path)
    except FileNotFoundError as error:
        raise CepError(f"{path}: the file to publish in {name} is not there; nothing was published") from error
    except (ValueError, pa.ArrowException) as error:
        raise CepError(
            f"{path}: the file does not fit {name} ({error}); its columns and types must be those of the table and "
            f"every row of {', '.join(f'{column} {value}' for column, value in unit.items())}; nothing was published"
        ) from error
    for position, field in enumerate(table.spec().fields):
        found, expected = file.partition[position], unit[field.name]
        if isinstance(expected, date) and isinstance(found, int):
            found = day_of(found)
        if found != expected:
            raise CepError(f"{path}: its rows are of {field.name} {found}, not of {expected}; nothing was published")
    return file
