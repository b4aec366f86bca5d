"""An Iceberg table as its readers see it: the columns, and the data files of a snapshot.

PyIceberg parses the metadata file and the lists of files. Every table has identity partitions and no delete files.

A commit records the size and the SHA-256 of each file that it adds. The files that tell of others (the metadata of a
table, its manifest lists and its manifests) are small, and are read through `NamedFiles` by everybody: whole, and
compared with their record. One that has lost its end or a bit could otherwise be a shorter list, and no error. Data
files have checksums of their own (`storage.read_data_file`); `cep verify --deep` compares them with their record.
"""

from __future__ import annotations

import hashlib
import io
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import date
from functools import reduce
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.fs as pafs
import sqlalchemy as sql
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    LessThanOrEqual,
)
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile, read_manifest_list
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import ManifestGroupPlanner
from pyiceberg.table.metadata import TableMetadata
from sqlalchemy.engine import Connection

from cep_pipeline.errors import DamagedError, InputError
from cep_pipeline.events.columns import DAY
from cep_pipeline.storage import (
    damage_errors,
    object_store_io,
    open_filesystem,
    read_whole,
)
from cep_pipeline.warehouse.database import FILES, Database
from cep_pipeline.warehouse.records import EventsFile

if TYPE_CHECKING:
    from cep_pipeline.warehouse.layout import TableLayout

_PATHS_A_STATEMENT = 500

Recorded = tuple[int, str]
"""Size in bytes and SHA-256 of a file."""


class NamedFiles(FileIO):
    """The files of the table `stream`.`table`, of which those that tell of others are read only as they were recorded.

    Without a database, which could not be read either, they are taken as they are.
    """

    def __init__(self, database: Database | None, stream: str, table: str) -> None:
        super().__init__()
        self._database = database
        self._stream, self._table = stream, table

    def new_input(self, location: str) -> InputFile:
        """Return a file for reading."""
        return _NamedFile(location, self) if "/metadata/" in location else object_store_io().new_input(location)

    def new_output(self, location: str) -> OutputFile:
        """Return a file for writing."""
        return object_store_io().new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Remove a file."""
        object_store_io().delete(location)

    def read(self, path: str) -> bytes:
        """Return what is in a file; a DamagedError says that it is not there, or not what was written.

        A file that an older version wrote has no record, and is taken as it is.
        """
        with damage_errors(path):
            content = read_whole(path)
        check_recorded(path, (len(content), hashlib.sha256(content).hexdigest()), self._recorded(path))
        return content

    def _recorded(self, path: str) -> Recorded | None:
        if self._database is None:
            return None
        inner = path.rpartition(f"/{self._stream}/{self._table}/")[2]
        query = sql.select(FILES.c.size, FILES.c.sha256).where(
            *_of_table(self._stream, self._table), FILES.c.path == inner
        )
        return next(((row.size, row.sha256) for row in self._database.rows(query)), None)


class _NamedFile(InputFile):
    """A file that is read whole and compared with its record when it is opened."""

    def __init__(self, location: str, files: NamedFiles) -> None:
        super().__init__(location)
        self._files = files

    def __len__(self) -> int:
        return len(self._files.read(self.location))

    def exists(self) -> bool:
        filesystem, path = open_filesystem(self.location)
        return bool(filesystem.get_file_info(path).type == pafs.FileType.File)

    def open(self, seekable: bool = True) -> InputStream:
        return cast(InputStream, io.BytesIO(self._files.read(self.location)))


def record_files(
    stream: str,
    table_name: str,
    location: str,
    added: Mapping[str, Recorded],
    connection: Connection,
) -> None:
    """Record size and SHA-256 of files that a commit adds."""
    start = len(location) + 1
    of_table = {"stream": stream, "table_name": table_name}
    rows = [{**of_table, "path": path[start:], "size": size, "sha256": sha} for path, (size, sha) in added.items()]
    # A draft that is published once more, after a kill, has files that are recorded already.
    forget_files(stream, table_name, location, added.keys(), connection)
    if rows:
        connection.execute(sql.insert(FILES), rows)


def forget_files(stream: str, table_name: str, location: str, gone: Collection[str], connection: Connection) -> None:
    """Forget size and SHA-256 of files that are removed."""
    for paths in _some_at_a_time([path[len(location) + 1 :] for path in gone]):
        connection.execute(sql.delete(FILES).where(*_of_table(stream, table_name), FILES.c.path.in_(paths)))


def recorded_files(database: Database, stream: str, table_name: str, location: str) -> dict[str, Recorded]:
    """Return the size and the SHA-256 of each file of a table, as far as they were recorded."""
    rows = database.rows(sql.select(FILES).where(*_of_table(stream, table_name)))
    return {f"{location}/{row.path}": (row.size, row.sha256) for row in rows}


def check_recorded(path: str, found: Recorded, recorded: Recorded | None) -> None:
    """Raise a DamagedError where size or SHA-256 of a file differ from those that were recorded (None: none were)."""
    if recorded is None or found == recorded:
        return
    if found[0] != recorded[0]:
        raise DamagedError(path, f"it has {found[0]} bytes, and should have {recorded[0]}")
    raise DamagedError(path, "its SHA-256 is not the one that was recorded when it was written")


def _of_table(stream: str, table_name: str) -> tuple[sql.ColumnElement[bool], ...]:
    return FILES.c.stream == stream, FILES.c.table_name == table_name


def _some_at_a_time(paths: Collection[str]) -> Iterator[list[str]]:
    """Yield the paths in lists that one statement takes."""
    rest = iter(paths)
    while some := list(islice(rest, _PATHS_A_STATEMENT)):
        yield some


_EPOCH = date(1970, 1, 1).toordinal()

Unit = tuple[str, date]
"""Pattern set (empty where a table has none) and day."""


class PublishedTable:
    """A table as one of its metadata files tells of it; `files` reads the lists of files that this one names."""

    def __init__(self, stream: str, name: str, metadata_location: str, metadata: TableMetadata, files: FileIO) -> None:
        self.stream = stream
        self.name = name
        self.metadata_location = metadata_location
        self.metadata = metadata
        self.location = metadata.location
        self._files = files
        self._lists: dict[str, list[DataFile]] = {}
        self.current_snapshot_id = metadata.current_snapshot_id
        columns = metadata.schema().fields
        self._ids = {one.name: one.field_id for one in columns}
        self.partitions = tuple(one.name for one in metadata.spec().fields)
        kinds = schema_to_pyarrow(metadata.schema(), include_field_ids=False)
        self.columns = pa.schema([pa.field(one.name, _small(one.type)) for one in kinds])
        """The columns in the types that its files have."""

    @classmethod
    def read(cls, database: Database | None, stream: str, name: str, metadata_location: str) -> PublishedTable:
        """Read a metadata file; the DamagedError of one that has been removed has FileNotFoundError as cause.

        Files are compared with what the database recorded of them; None: it cannot be read, and they are as they are.
        """
        files = NamedFiles(database, stream, name)
        with damage_errors(metadata_location):
            metadata = FromInputFile.table_metadata(files.new_input(metadata_location))
            return cls(stream, name, metadata_location, metadata, files)

    def missing_columns(self, layout: TableLayout) -> list[pa.Field]:
        """Return the columns of a layout that the table lacks; one of another type than published is an InputError."""
        for field in layout.schema:
            published = self.columns.field(field.name) if field.name in self.columns.names else field
            if _small(published.type) != _small(field.type):
                before, after = (_TYPE_NAMES.get(str(kind), str(kind)) for kind in (published.type, field.type))
                raise InputError(
                    f"stream {self.stream}: attribute {field.name!r} is {before} in the published {layout.name}, and "
                    f"{after} in the stream schema; an attribute keeps its type: give the new one another name, or the "
                    "stream another name"
                )
        return [field for field in layout.schema if field.name not in self.columns.names]

    def files(
        self,
        day_column: str,
        first: date | None = None,
        last: date | None = None,
        *,
        equal: Mapping[str, str] | None = None,
        snapshot_id: int | None = None,
    ) -> list[DataFile]:
        """Return the data files of some days, and of other partition values, in a snapshot (None: the current)."""
        condition = rows_with(equal or {}, {day_column: (first, last)})
        planner = ManifestGroupPlanner(self.metadata, self._files, condition)
        found: list[DataFile] = []
        for manifest in self.manifests(snapshot_id):
            spec = manifest.partition_spec_id
            with damage_errors(manifest.manifest_path):
                wanted = planner._build_manifest_evaluator(spec)(manifest) and manifest.content == ManifestContent.DATA
            if wanted:
                found += filter(planner._build_partition_evaluator(spec), self.files_in(manifest))
        return found

    def files_of(self, unit: Mapping[str, str | date]) -> list[DataFile]:
        """Return the data files of the rows with these values of all partition columns."""
        equal = {column: str(value) for column, value in unit.items()}
        return self.files(DAY, equal=equal)

    def unit_of(self, file: DataFile) -> Unit:
        """Return the unit of a file, of a table that has days."""
        values = {name: file.partition[at] for at, name in enumerate(self.partitions)}
        return values.get("pattern_set", ""), day_of(values["final_day" if "final_day" in values else "day"])

    def manifests(self, snapshot_id: int | None = None) -> list[ManifestFile]:
        """Return the manifests of a snapshot (None: the current)."""
        snapshot_id = self.current_snapshot_id if snapshot_id is None else snapshot_id
        snapshot = None if snapshot_id is None else self.metadata.snapshot_by_id(snapshot_id)
        if snapshot is None:
            return []
        with damage_errors(snapshot.manifest_list):
            return list(read_manifest_list(self._files.new_input(snapshot.manifest_list)))

    def files_in(self, manifest: ManifestFile) -> list[DataFile]:
        """Return the files that a manifest names; it is read once."""
        path = manifest.manifest_path
        if path not in self._lists:
            with damage_errors(path):
                self._lists[path] = [entry.data_file for entry in manifest.fetch_manifest_entry(self._files)]
        return self._lists[path]

    def named_files(self) -> set[str]:
        """Return all files that the metadata or any of its snapshots names; one that is damaged is a DamagedError."""
        named = {self.metadata_location, *(one.metadata_file for one in self.metadata.metadata_log)}
        for snapshot in self.metadata.snapshots:
            named.add(snapshot.manifest_list)
            for manifest in self.manifests(snapshot.snapshot_id):
                named |= {manifest.manifest_path, *(one.file_path for one in self.files_in(manifest))}
        return named

    def events_files(self, first: date | None, last: date | None, snapshot_id: int | None) -> list[EventsFile]:
        """Return the files of events of the days from first to last (both in, None: open) in stream order."""
        files = self.files("day", first, last, snapshot_id=snapshot_id)
        return in_stream_order(files, self._ids["timestamp"], self._ids["seq"])


def rows_with(
    equal: Mapping[str, object], between: Mapping[str, tuple[object, object]] = MappingProxyType({})
) -> BooleanExpression:
    """The rows in which columns have these values, or values between two, both in; None: open."""
    wanted: list[tuple[Any, str, object]] = [(EqualTo, column, value) for column, value in equal.items()]
    for column, (least, most) in between.items():
        wanted += [(GreaterThanOrEqual, column, least), (LessThanOrEqual, column, most)]
    parts = (cast(Any, kind)(column, str(value)) for kind, column, value in wanted if value is not None)
    return reduce(And, parts, cast(BooleanExpression, AlwaysTrue()))


def in_stream_order(files: Iterable[DataFile], timestamp_id: int, seq_id: int) -> list[EventsFile]:
    """Return files of events as readers take them, in stream order.

    The ids are those of the fields of the two columns.
    """

    def point(bounds: Mapping[int, bytes]) -> tuple[int, int]:
        return bound(bounds[timestamp_id]), bound(bounds[seq_id])

    return sorted(
        (
            EventsFile(
                file.file_path,
                day_of(file.partition[0]),
                file.record_count,
                file.file_size_in_bytes,
                point(file.lower_bounds),
                point(file.upper_bounds),
            )
            for file in files
        ),
        key=lambda file: file.order,
    )


def day_of(partition: int) -> date:
    """Return the day that a file's partition says."""
    return date.fromordinal(_EPOCH + partition)


def bound(serialized: bytes) -> int:
    """Return a bound of a long or a timestamp in microseconds: both are serialized alike."""
    return int(struct.unpack("<q", serialized)[0])


_TYPE_NAMES = {"double": "float64", "list<element: double>": "list<float64>", "list<item: double>": "list<float64>"}
"""Name of a type in Arrow -> its name in a stream schema, where they differ."""


def _small(kind: pa.DataType) -> pa.DataType:
    """Return the type with 32-bit offsets and plain field names: what the layouts and the files have."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return pa.list_(_small(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _small(field.type)) for field in kind])
    return kind
