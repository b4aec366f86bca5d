"""Storage, below events and warehouse: file systems, the Parquet files that tasks write, names of folders, digests.

A task gets a `DataDirectory`, writes its file, and returns the path; the driver hands the paths of successful
attempts to `StreamTables.draft_*`. A file that is never published is an orphan, removed by `cep maintain`.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from cep_pipeline.errors import FROM_A_BACKUP, CepError, DamagedError, InputError

if TYPE_CHECKING:
    from pyiceberg.io.pyarrow import PyArrowFileIO

IDS_VERSION = 2
"""Version of what `match_id` is made of (`detection/match_ids.py`), which the warehouse records with each day."""
ROW_GROUP_ROWS = 65_536
"""Rows of a row group: small enough that the bounds of a group prune a slice's reads, large enough to scan fast."""


@dataclass(frozen=True)
class DataDirectory:
    """The folder in which the tasks of one step of a run write; it is shipped to the workers and needs no catalog.

    `location` lies under that of the table, and is of the day (and pattern set). The run is part of every file name.
    """

    location: str
    run_id: str

    def file(self, task: int, attempt: int = 0, ending: str = ".parquet") -> str:
        """Return a new path for a task's file, and make its folder.

        The name holds run, task and attempt, and a random part: a run that is resumed under its old id must never
        write over a file that a snapshot names.
        """
        make_directory(self.location)
        return f"{self.location}/{folder_name(self.run_id)}-{task:05d}-{attempt}-{uuid.uuid4().hex[:8]}{ending}"


_SET: dict[str, str] = {}
"""The properties by which this process reaches object stores, as `reach_object_stores` was given them."""


def reach_object_stores(properties: Mapping[str, str]) -> None:
    """Set the properties by which this process reaches object stores, for tables, files of runs and raw files alike.

    They are named as PyIceberg names them: `s3.endpoint`, `s3.region`, `gcs.project-id`, `adls.account-name`, …
    """
    if dict(properties) != _SET:
        _SET.clear()
        _SET.update(properties)


def object_store_properties() -> dict[str, str]:
    """Return what `reach_object_stores` was given last; a driver sends it to its workers."""
    return dict(_SET)


def free_bytes(location: str) -> int | None:
    """Return the bytes that are free on the disk of a local folder; None: in an object store."""
    if "://" in location:
        return None
    folder = Path(location).absolute()
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def object_store_io() -> PyArrowFileIO:
    """Return the files of object stores, for PyIceberg and for `open_filesystem`: each bucket has one client.

    What is not set comes from the environment, as in Amazon's own tools: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL,
    AWS_REGION or AWS_DEFAULT_REGION, and the credentials or the role.
    """
    asked = os.environ.get
    found = {
        "s3.endpoint": asked("AWS_ENDPOINT_URL_S3") or asked("AWS_ENDPOINT_URL"),
        "s3.region": asked("AWS_REGION") or asked("AWS_DEFAULT_REGION"),
    }
    properties = {name: value for name, value in found.items() if value} | _SET
    if "s3.endpoint" in properties:
        # PyIceberg would ask Amazon for the region of the bucket.
        properties.setdefault("s3.region", "us-east-1")
    return _file_io(tuple(sorted(properties.items())))


@cache
def _file_io(properties: tuple[tuple[str, str], ...]) -> PyArrowFileIO:
    # PyIceberg takes a second to import; folders need none of it.
    from pyiceberg.io.pyarrow import PyArrowFileIO

    return PyArrowFileIO(dict(properties))


def open_filesystem(location: str) -> tuple[pafs.FileSystem, str]:
    """Return the pyarrow file system of a path or URI, and the path in it.

    An unknown scheme, or wrong settings of the object store, are an InputError.
    """
    if "://" not in location:
        return pafs.LocalFileSystem(), str(Path(location).absolute())
    files = object_store_io()
    scheme, bucket, path = files.parse_location(location)
    try:
        return files.fs_by_scheme(scheme, bucket), path
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{location}: not a place that can be read and written: {error}") from error


def folder_exists(location: str) -> bool:
    """Return whether there is a folder at a path or URI; on an object store, whether any object lies below it."""
    filesystem, path = open_filesystem(location)
    with storage_errors(f"looking for {location}"):
        return bool(filesystem.get_file_info(path).type == pafs.FileType.Directory)


def stored_files(location: str) -> dict[str, pafs.FileInfo]:
    """Return the path or URI of every file below a folder with its size and time; {} where there is no folder."""
    filesystem, path = open_filesystem(location)
    with storage_errors(f"listing {location}"):
        found = filesystem.get_file_info(pafs.FileSelector(path, recursive=True, allow_not_found=True))
    return {location + one.path[len(path) :]: one for one in found if one.type == pafs.FileType.File}


PRIVATE_FOLDER, PRIVATE_FILE = 0o750, 0o640
"""The modes of a folder and of a file that nobody reads but their user and group."""


def make_directory(location: str, *, private: bool = False) -> None:
    """Make a folder with its parents; nothing to do on an object store.

    A private one keeps others out of all that is in it. The mode of a folder that is there already is its owner's
    choice, and stays.
    """
    filesystem, path = open_filesystem(location)
    if isinstance(filesystem, pafs.LocalFileSystem):
        with storage_errors(f"making the folder {location}"):
            Path(path).mkdir(PRIVATE_FOLDER if private else 0o777, parents=True, exist_ok=True)


def make_durable(paths: Iterable[str]) -> None:
    """Wait until local files and their names are on the disk; an object store needs no waiting."""
    local = [path for path in paths if "://" not in path]
    for path in [*local, *sorted({str(Path(path).parent) for path in local})]:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def storage_errors(what: str) -> Iterator[None]:
    """Turn a full disk, a missing permission or another failure of storage into an error that says what to do.

    `what` was being done, with the path: "writing /warehouse/…".
    """
    try:
        yield
    except OSError as error:
        raise explain_storage_error(what, error) from error


@contextmanager
def damage_errors(
    path: str,
    said: str = "it cannot be read",
    remedy: str = FROM_A_BACKUP,
    kinds: tuple[type[Exception], ...] = (Exception,),  # a mangled file may raise anything
) -> Iterator[None]:
    """Turn whatever goes wrong while one file of the warehouse is read into a DamagedError that names it."""
    try:
        yield
    except CepError:
        raise
    except FileNotFoundError as error:
        raise DamagedError(path, "it is not there") from error
    except kinds as error:
        if isinstance(error, OSError):
            explained = explain_storage_error(f"reading {path}", error)
            if isinstance(explained, InputError) or error.errno is not None or "AWS Error" in str(error):
                raise explained from error
        text = " ".join(str(error).split())[:200]
        raise DamagedError(path, f"{said} ({type(error).__name__}: {text})", remedy) from error


def reading_data(path: str) -> AbstractContextManager[None]:
    """Turn what a damaged data file raises into a DamagedError that names the file and says what to do."""
    remedy = "`cep verify --deep` names the damaged days, and `cep run --redo --day DAY` makes one again"
    return damage_errors(path, "the file is damaged", remedy, _OF_DAMAGED_DATA)


_OF_DAMAGED_DATA = (pa.ArrowException, OSError, ValueError, KeyError, OverflowError, MemoryError, zlib.error)


def explain_storage_error(what: str, error: OSError) -> CepError:
    """Return the error to raise for a failure of storage; what is published is never touched by one."""
    number = error.errno
    text = str(error)
    if number in (errno.ENOSPC, errno.EDQUOT) or "No space left" in text or "Disk quota" in text:
        return CepError(
            f"{what}: the disk is full. Nothing that is published has changed; "
            "free some space (`cep maintain` removes files that no table uses) and run again"
        )
    if number in (errno.EACCES, errno.EPERM, errno.EROFS) or "Permission denied" in text or "Read-only" in text:
        return InputError(f"{what}: permission denied. Give this user write access, or name another warehouse location")
    for refusal, advice in _OBJECT_STORE_REFUSALS.items():
        if f"AWS Error {refusal}" in text:
            return InputError(f"{what}: {advice} (the object store says {refusal})")
    if number in (errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP):
        return InputError(f"{what}: {error.strerror}: no folder can be there; name another warehouse location")
    return CepError(f"{what}: {error.strerror or text}")


_OBJECT_STORE_REFUSALS = {
    "NO_SUCH_BUCKET": "there is no such bucket: make it, or name another",
    "ACCESS_DENIED": "access is denied: give these credentials the right to list, read, write and delete there",
    "INVALID_ACCESS_KEY_ID": "the credentials are unknown: see AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "SIGNATURE_DOES_NOT_MATCH": "the credentials are wrong: see AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "NETWORK_CONNECTION": "the object store cannot be reached: see s3.endpoint and s3.region in warehouse.properties",
}
"""Error of an S3 server, as pyarrow names it -> what to do."""


@contextmanager
def open_data_file(
    path: str, schema: pa.Schema, *, dictionaries: Sequence[str] | None = None
) -> Iterator[pq.ParquetWriter]:
    """Open a Parquet file for writing batch after batch, with the settings of the warehouse.

    The path is from `DataDirectory.file`; the schema has no dictionaries (`TableLayout.schema`). In `dictionaries` are
    the columns whose values repeat, so that a dictionary in the file pays; None: all are tried. A place that cannot be
    written is an InputError, a full disk a CepError.
    """
    filesystem, inner = open_filesystem(path)
    with (
        storage_errors(f"writing {path}"),
        filesystem.open_output_stream(inner) as stream,
        pq.ParquetWriter(
            stream,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=True if dictionaries is None else list(dictionaries),
            store_schema=False,
            write_page_checksum=True,
        ) as writer,
    ):
        yield writer


class WrittenFile(str):
    """The path of a data file, with the size and the SHA-256 of what was written: a task hands them to the driver."""

    size: int
    sha256: str

    @classmethod
    def of(cls, path: str, size: int, sha256: str) -> WrittenFile:
        """Give a path its file's size and digest."""
        made = cls(path)
        made.size, made.sha256 = size, sha256
        return made


def files_to_json(files: Iterable[str]) -> list[Any]:
    """The JSON form of paths: [path, size, digest] of those that know both, so that nobody reads them again."""
    return [[str(one), one.size, one.sha256] if isinstance(one, WrittenFile) else one for one in files]


def files_from_json(content: Iterable[Any]) -> tuple[str, ...]:
    """Read the JSON form of paths."""
    return tuple(one if isinstance(one, str) else WrittenFile.of(*one) for one in content)


def written(path: str) -> WrittenFile:
    """Return the path of a file that is written, with its size and digest, to be handed to the driver."""
    return WrittenFile.of(path, *read_digest(path))


def size_and_digest(path: str) -> tuple[int, str]:
    """Return the size and the SHA-256 of a file: as it was written, where that is known, else as it is."""
    return (path.size, path.sha256) if isinstance(path, WrittenFile) else read_digest(path)


def read_whole(path: str) -> bytes:
    """Read a small file, such as a list of files."""
    filesystem, inner = open_filesystem(path)
    with filesystem.open_input_stream(inner) as stream:
        return bytes(stream.readall())


def read_digest(path: str) -> tuple[int, str]:
    """Read a file, and return its size and SHA-256."""
    filesystem, inner = open_filesystem(path)
    size, digest = 0, hashlib.sha256()
    with storage_errors(f"reading {path}"), filesystem.open_input_stream(inner) as stream:
        while chunk := stream.read(1 << 22):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()


def write_data_file(path: str, table: pa.Table, schema: pa.Schema) -> str:
    """Write a table as one Parquet file and return its path.

    The columns are brought into the order and types of `schema` (dictionaries become strings; a column that is
    missing is null).
    """
    with open_data_file(path, schema) as writer:
        writer.write_table(conform(table, schema), row_group_size=ROW_GROUP_ROWS)
    return written(path)


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table with exactly the columns of `schema`; missing ones are null, others are dropped."""
    columns = []
    for field in schema:
        present = field.name in table.column_names
        column = table.column(field.name) if present else pa.nulls(table.num_rows, field.type)
        if column.type != field.type:  # of ids, text is the usual one
            as_text = pa.types.is_string(field.type) or pa.types.is_list(field.type)
            column = (id_texts(column) if as_text else column).cast(field.type)
        columns.append(column)
    return pa.table(columns, schema=schema)


def id_texts(ids: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return UUIDs as text, such as `0b51e2c4-…`, and those in lists of structs too; everything else stays as it is.

    Examples
    --------
    >>> print(id_texts(pa.array([bytes(range(16))], pa.uuid()))[0])
    00010203-0405-0607-0809-0a0b0c0d0e0f
    """
    kind = with_id_texts(ids.type)
    if kind == ids.type:
        return ids
    if isinstance(ids, pa.ChunkedArray):
        return pa.chunked_array([id_texts(chunk) for chunk in ids.chunks], kind)
    if pa.types.is_list(kind):
        structs = ids.values
        parts = [id_texts(structs.field(place)) for place in range(structs.type.num_fields)]
        inside = pa.StructArray.from_arrays(parts, fields=list(kind.value_type))
        return pa.ListArray.from_arrays(ids.offsets, inside, mask=ids.is_null() if ids.null_count else None)
    if ids.null_count == len(ids):
        return pa.nulls(len(ids), kind)
    digits = memoryview(ids.storage.buffers()[1])[16 * ids.offset : 16 * (ids.offset + len(ids))].hex()
    ends = pa.py_buffer(np.arange(0, 32 * len(ids) + 1, 32, dtype=np.int64))
    plain = pa.LargeStringArray.from_buffers(len(ids), ends, pa.py_buffer(digits.encode())).cast(pa.string())
    texts = pc.replace_substring_regex(plain, r"^(.{8})(.{4})(.{4})(.{4})", r"\1-\2-\3-\4-")
    return pc.if_else(ids.is_valid(), texts, None) if ids.null_count else texts


def with_id_texts(kind: pa.DataType) -> pa.DataType:
    """The type that `id_texts` makes of a type."""
    if kind == pa.uuid():
        return pa.string()
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        return pa.list_(pa.struct([field.with_type(with_id_texts(field.type)) for field in kind.value_type]))
    return kind


def place_of_id(ids: pa.Array | pa.ChunkedArray, wanted: str | uuid.UUID) -> int:
    """Return where an id is among ids, -1 where it is not; text of ids has hyphens or has none.

    The beginning of an id, of four digits or more, will do where no other one begins so; else that is an InputError.

    Examples
    --------
    >>> place_of_id(pa.array(["0b51e2c4-8d60-8e34-a41b-03bd9939da5c"]), "0b51e")
    0
    """
    digits = str(wanted).replace("-", "").lower()
    if not _DIGITS_OF_ID.fullmatch(digits):
        return -1
    if len(digits) < _ALL_DIGITS:
        texts = id_texts(ids)
        found = np.flatnonzero(pc.starts_with(pc.replace_substring(texts, "-", ""), digits))
        if len({texts[int(place)].as_py() for place in found[:_MOST_NAMED]}) > 1:
            some = ", ".join(texts[int(place)].as_py() for place in found[:_MOST_NAMED])
            raise InputError(f"the ids of {len(found):,} matches begin with {wanted}: {some}; write more of the id")
        return int(found[0]) if len(found) else -1
    known = uuid.UUID(digits)
    if ids.type == pa.uuid():
        place = pc.index(ids.cast(pa.binary(16)), pa.scalar(known.bytes, pa.binary(16)))
    else:
        place = pc.index(pc.is_in(ids, value_set=pa.array([known.hex, str(known)])), True)
    return int(place.as_py())


_DIGITS_OF_ID, _ALL_DIGITS, _MOST_NAMED = re.compile("[0-9a-f]{4,32}"), 32, 4
SHORT_ID = 8
"""Digits of an id that are shown."""


def decimal_text(number: int) -> str:
    """The digits of an integer of any size; Python's own conversion stops at 4,300 of them.

    Examples
    --------
    >>> decimal_text(2**60), len(decimal_text(2**100_000))
    ('1152921504606846976', 30103)
    """
    return str(Decimal(number))


def from_decimal_text(text: str) -> int:
    """The integer again.

    Examples
    --------
    >>> from_decimal_text(decimal_text(2**100_000)) == 2**100_000
    True
    """
    return int(Decimal(text))


def read_group(file: pq.ParquetFile, group: int, columns: pa.Schema) -> pa.Table:
    """Read a row group of a Parquet file as these columns."""
    return conform(file.read_row_group(group, columns.names), columns)


def read_data_file(path: str, columns: pa.Schema, row_filter: pa.compute.Expression | None = None) -> pa.Table:
    """Read the rows of one Parquet file in their order, as these columns."""
    if row_filter is None:  # without the data sets of pyarrow, which import pandas
        with open_parquet(path) as file:
            return conform(file.read(columns.names), columns)
    filesystem, inner = open_filesystem(path)
    present = read_footer(path).schema.to_arrow_schema().names
    with reading_data(path):
        table = pq.read_table(
            inner,
            columns=[name for name in columns.names if name in present],
            filesystem=filesystem,
            filters=row_filter,
            partitioning=None,
            page_checksum_verification=True,
        )
        return conform(table, columns)


@contextmanager
def open_parquet(path: str, **options: Any) -> Iterator[pq.ParquetFile]:
    """Open a published Parquet file; each page that is read is compared with its checksum."""
    filesystem, inner = open_filesystem(path)
    with (
        reading_data(path),
        filesystem.open_input_file(inner) as stream,
        pq.ParquetFile(stream, page_checksum_verification=True, **options) as file,
    ):
        yield file


def read_footer(path: str) -> pq.FileMetaData:
    """Read the footer of a published Parquet file."""
    filesystem, inner = open_filesystem(path)
    with reading_data(path), filesystem.open_input_file(inner) as stream:
        return pq.read_metadata(stream)


def canonical_json(value: Any) -> str:
    """Return the one JSON text of a value: sorted keys, no blanks, and no NaN or infinity, which are a ValueError.

    Examples
    --------
    >>> canonical_json({"b": 1, "a": [None, "x"]})
    '{"a":[null,"x"],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest_of(value: Any) -> str:
    """Return the first 32 hex digits of the sha256 of the canonical JSON of a value.

    Examples
    --------
    >>> digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    True
    >>> len(digest_of(None))
    32
    """
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:32]


_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def folder_name(text: str) -> str:
    """Return a text as part of a path: itself where it is safe, else made safe and told apart by a hash.

    Examples
    --------
    >>> folder_name("run-1")
    'run-1'
    >>> folder_name("scheduled__2013-10-07T00:00:00+00:00")
    'scheduled__2013-10-07T00-00-00-00-00_9824b601'
    """
    safe = _UNSAFE.sub("-", text)
    if safe == text and text not in ("", ".", ".."):
        return text
    return f"{safe}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def remove_file(path: str) -> None:
    """Remove a file that no table names; nothing happens where there is none."""
    filesystem, inner = open_filesystem(path)
    with storage_errors(f"removing {path}"), suppress(FileNotFoundError):
        filesystem.delete_file(inner)


def new_scratch(parent: str | Path) -> str:
    """A folder of its own for the files of one ingestion, below a folder or URI that all workers reach."""
    return f"{str(parent).rstrip('/')}/ingest-{uuid.uuid4().hex}"


def remove_scratch(location: str) -> None:
    """Remove the files of an ingestion; nothing happens where there are none."""
    filesystem, path = open_filesystem(location)
    if isinstance(filesystem, pafs.LocalFileSystem):
        shutil.rmtree(path, ignore_errors=True)
    elif filesystem.get_file_info(path).type == pafs.FileType.Directory:
        filesystem.delete_dir(path)
