"""Files that the catalog names: what was recorded when they were written, and reading them only as that.

A commit records the size and the SHA-256 of each file that it adds. The files that tell of others (the metadata of a
table, its manifest lists and its manifests) are small, and are read through `NamedFiles` by everybody: whole, and
compared with their record. One that has lost its end or a bit could otherwise be a shorter list, and no error. Data
files have checksums of their own (`storage.read_data_file`); `cep verify --deep` compares them with their record.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import cast

import pyarrow.fs as pafs
import sqlalchemy as sql
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from sqlalchemy.engine import Connection

from cep_pipeline.errors import DamagedError
from cep_pipeline.storage import damage_errors, object_store_io, open_filesystem, read_whole
from cep_pipeline.warehouse.database import DAMAGES, FILES, Database

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
        check_recorded(path, digest_of_bytes(content), self._recorded(path))
        return content

    def _recorded(self, path: str) -> Recorded | None:
        if self._database is None:
            return None
        inner = path.rpartition(f"/{self._stream}/{self._table}/")[2]
        query = sql.select(FILES.c.size, FILES.c.sha256).where(
            *_of_table(FILES, self._stream, self._table), FILES.c.path == inner
        )
        with self._database.begin() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else (row.size, row.sha256)


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


def digest_of_bytes(content: bytes) -> Recorded:
    """Return the size and the SHA-256 of what is in a file."""
    return len(content), hashlib.sha256(content).hexdigest()


def is_recorded(database: Database, stream: str, table: str) -> bool:
    """Return True if a commit has ever recorded a file of a table."""
    query = sql.select(FILES.c.path).where(*_of_table(FILES, stream, table)).limit(1)
    with database.begin() as connection:
        return connection.execute(query).first() is not None


def record_files(
    stream: str,
    table_name: str,
    location: str,
    added: Mapping[str, Recorded],
    removed: Sequence[str],
    connection: Connection,
) -> None:
    """Record size and SHA-256 of files that a commit adds; what was damaged in files that it removes is mended.

    No path is used twice: a file that is recorded already was written once, and its record stays.
    """
    start = len(location) + 1
    rows = {
        path[start:]: {"stream": stream, "table_name": table_name, "path": path[start:], "size": size, "sha256": sha256}
        for path, (size, sha256) in added.items()
    }
    for paths in _some_at_a_time(rows):
        query = sql.select(FILES.c.path).where(*_of_table(FILES, stream, table_name), FILES.c.path.in_(paths))
        recorded = set(connection.execute(query).scalars())
        if new := [rows[path] for path in paths if path not in recorded]:
            connection.execute(sql.insert(FILES), new)
    for paths in _some_at_a_time([path[start:] for path in removed]):
        mended = (*_of_table(DAMAGES, stream, table_name), DAMAGES.c.path.in_(paths))
        connection.execute(sql.delete(DAMAGES).where(*mended))


def recorded_files(database: Database, stream: str, table_name: str, location: str) -> dict[str, Recorded]:
    """Return the size and the SHA-256 of each file of a table, as far as they were recorded."""
    with database.begin() as connection:
        rows = connection.execute(sql.select(FILES).where(*_of_table(FILES, stream, table_name))).all()
    return {f"{location}/{row.path}": (row.size, row.sha256) for row in rows}


def check_recorded(path: str, found: Recorded, recorded: Recorded | None) -> None:
    """Raise a DamagedError where size or SHA-256 of a file differ from those that were recorded (None: none were)."""
    if recorded is None or found == recorded:
        return
    if found[0] != recorded[0]:
        raise DamagedError(path, f"it has {found[0]} bytes, and should have {recorded[0]}")
    raise DamagedError(path, "its SHA-256 is not the one that was recorded when it was written")


def _of_table(table: sql.Table, stream: str, table_name: str) -> tuple[sql.ColumnElement[bool], ...]:
    return table.c.stream == stream, table.c.table_name == table_name


def _some_at_a_time(paths: Collection[str]) -> Iterator[list[str]]:
    """Yield the paths in lists that one statement takes."""
    rest = iter(paths)
    while some := list(islice(rest, _PATHS_A_STATEMENT)):
        yield some
