"""The rows of raw files on their way to the checks: who reads them, blocks of rows, parts of files, rejected rows.

A format of text is a `TextReader`, which says where rows end and takes pieces of text apart: opening, unpacking and
hashing stand here. A large file is cut into parts that are read side by side. One task, `survey_text`, goes over its
text before, to see where rows begin and to count lines, so that every part knows the number of its first line; it
hashes the file and unpacks a compressed one on the way. A row, a line number or a reason of rejection is the same
whether a file is cut or not.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from datetime import date
from pathlib import PurePosixPath
from typing import Any, Self

import numpy as np
import pyarrow as pa

from cep_pipeline.errors import InputError
from cep_pipeline.events.raw_files import HashingReader, Period, RawFile, SourceFile, open_raw, readable
from cep_pipeline.events.source import SourceLayout
from cep_pipeline.foreign_text import shortened, shortened_message
from cep_pipeline.storage import DataDirectory, open_filesystem, storage_errors

BLOCK_BYTES = 16 << 20
"""Text that is parsed at once; a few times this much is held in memory."""
_DENSE_LINES = 2 << 20
"""Lines of a block from which on it is parsed in pieces: some hundred bytes are held for each, empty ones too."""
PART_BYTES = 32 << 20
"""Text of one part of a file that is cut, about; a file of less than two parts is read as a whole."""
_PACKED = 4
"""Bytes of text that are expected in a byte of a compressed file, at least."""
_LONGEST_LINE = 64 << 20
BOM = b"\xef\xbb\xbf"
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}


def plain(value: pa.Scalar) -> Any:
    """A value of a raw file as Python has it; one that Python cannot hold, such as the year 200,000, is text."""
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        if pa.types.is_string(value.type) or pa.types.is_large_string(value.type):
            return value.as_buffer().to_pybytes().decode("utf-8", "backslashreplace")
        return f"{getattr(value, 'value', 'a value')} as {value.type}"


@dataclass(frozen=True)
class RawBlock:
    """Consecutive rows of a raw file.

    The columns are text for CSV, and whatever the file has for Parquet. `lines` are those of the rows (row numbers in
    Parquet), from 1, ascending; `raw` gives the text of the row at an index of this block. Rows that could not be taken
    apart are `rejected`, and not in the columns.
    """

    columns: Mapping[str, pa.Array]
    lines: np.ndarray
    raw: Callable[[int], str]
    rejected: tuple[RejectedRow, ...] = ()

    @property
    def rows(self) -> int:
        return len(self.lines)


@dataclass(frozen=True)
class FilePart:
    """A part of a raw file that can be read on its own, and bounds of the timestamps in it; in Parquet a row group.

    The bounds are dates, a day wider than the values for any time zone; None where the file does not say them. Its rows
    are numbered from `first_row`, which counts from 1. `may_lack_timestamps` is True unless the file says that every
    row has one.
    """

    index: int
    first_row: int
    rows: int
    earliest: date | None
    latest: date | None
    may_lack_timestamps: bool

    def may_hold(self, days: Sequence[date], period: Period) -> bool:
        """Return True if it may have rows of these days; rows without a usable timestamp count as of the first day."""
        if self.earliest is None or self.latest is None or period.first is None or period.last is None:
            return True
        if any(self.earliest <= day <= self.latest for day in days):
            return True
        stray = self.may_lack_timestamps or self.earliest < period.first or self.latest > period.last
        return stray and period.first in days


@dataclass(frozen=True)
class RejectedRow:
    """One rejected row, with the reason for a person, and its text (JSON of the read columns for Parquet).

    The line is the physical one on which it begins, in Parquet the row number, from 1. The day is in days since
    1970-01-01; None where its own timestamp does not say it.
    """

    line: int
    reason: str
    raw: str
    day: int | None = None

    def as_kept(self) -> RejectedRow:
        """Return the row as quarantine keeps it: its text, and values in the reason, without their middle if long."""
        return replace(self, reason=shortened_message(self.reason), raw=shortened(self.raw, MOST_KEPT))


MOST_KEPT = 10_000
"""Characters of the text of a rejected row, at most."""


class RowReader(ABC):
    """Reads the rows of one raw file, block after block; a context manager, which closes the file.

    The constructor opens the file. With `parts`, only those parts of it are read. A format is a class of this kind;
    what it does not say itself is so for a file that is read as a whole and says its columns.
    """

    dropped_columns: tuple[str, ...] = ()
    """Columns of the file that the schema does not list; complete once all rows have been read."""

    def __init__(self, file: SourceFile, source: SourceLayout, parts: Sequence[FilePart] | None = None) -> None:
        self._file, self._path, self._source, self._given = file, file.path, source, parts
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    @abstractmethod
    def __iter__(self) -> Iterator[RawBlock]:
        """Yield the rows in their order; a file that is truncated, corrupt, or lacks a column is an InputError."""

    def raw_file(self) -> RawFile | None:
        """Return the fingerprint of the file if reading its rows has hashed it, else None; called after the rows."""
        return None

    @classmethod
    def survey(cls, file: SourceFile, source: SourceLayout, scratch: DataDirectory, part_bytes: int) -> Any:
        """Return the `Survey` that must have been run before the file can be cut, None if there is none."""
        return None

    @classmethod
    def parts_of(cls, file: SourceFile, source: SourceLayout, surveyed: Any = None) -> Sequence[FilePart] | None:
        """Return the parts of a file that can be read on their own, by the result of its survey; None: it is one."""
        return None

    @classmethod
    def check(cls, source: SourceLayout) -> None:
        """Refuse, with an InputError, a layout that files of this format cannot have."""
        if source.names:
            raise InputError("source.columns is only for CSV files; leave it out, or write `format: csv`")

    def _note_dropped(self, names: Sequence[str]) -> None:
        listed = set(self._source.listed)
        self.dropped_columns = tuple(name for name in names if name not in listed)


@dataclass(frozen=True)
class TextPart(FilePart):
    """A part of a file of text that begins and ends with whole rows; its rows are counted as lines, empty ones too.

    Its text is in these bytes (None: to the end) of the raw file, or of a file of scratch to which it was unpacked. The
    names of the columns are empty where the part itself says them, or the schema.
    """

    path: str
    begin: int
    end: int | None
    names: tuple[str, ...]


@dataclass(frozen=True)
class Survey:
    """A task that reads a large file of text so that it can be cut into parts of about `part_bytes` of text.

    A compressed file is unpacked to scratch.
    """

    reader: type[TextReader]
    file: SourceFile
    source: SourceLayout
    scratch: DataDirectory
    part_bytes: int


@dataclass(frozen=True)
class Surveyed:
    """The result of a `Survey`: the parts of the file in order, none where nothing is in it, and its fingerprint."""

    file: SourceFile
    parts: tuple[TextPart, ...]
    raw_file: RawFile | None


@dataclass(frozen=True)
class TextPiece:
    """Text of whole rows, which ends at the offset `end` of the text of the file, and what was `found` of its rows.

    A piece that is not `closed` has a row that is rejected for something behind its end.
    """

    text: bytes
    end: int
    closed: bool
    found: Any


class TextReader(RowReader):
    """Reads the rows of one file of text, or of some `TextPart`s of it, block after block.

    The ending of its path says how it is compressed. `block_bytes` of text are read at once. While iterating, a file
    that is truncated or corrupt is an InputError.
    """

    _names: tuple[str, ...] | None = ()
    """Names of the columns, None until a header has been read."""

    def __init__(
        self,
        file: SourceFile,
        source: SourceLayout,
        parts: Sequence[FilePart] | None = None,
        *,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        super().__init__(file, source, parts)
        self._hashing: HashingReader | None = None
        if parts is None:
            self._hashing = HashingReader(self._opened.enter_context(open_raw(file.path)))
            self._parts: tuple[TextPart, ...] = (TextPart(0, 1, 0, None, None, True, file.path, 0, None, ()),)
        else:
            self._parts = tuple(part for part in parts if isinstance(part, TextPart))
        self._block_bytes = block_bytes

    def raw_file(self) -> RawFile | None:
        """Return the fingerprint of a file that is read as a whole; its bytes are hashed while they are read."""
        if self._hashing is None:
            return None
        sha256 = self._hashing.finish()
        return RawFile(self._file.name, self._hashing.bytes_read, sha256)

    @classmethod
    def survey(cls, file: SourceFile, source: SourceLayout, scratch: DataDirectory, part_bytes: int) -> Survey | None:
        """Return the task that must have been run before a large file can be cut; None for a small one."""
        packed = _compression(file.path) is not None
        large = file.size * (_PACKED if packed else 1) >= 2 * part_bytes
        return Survey(cls, file, source, scratch, part_bytes) if large else None

    @classmethod
    def parts_of(
        cls, file: SourceFile, source: SourceLayout, surveyed: Surveyed | None = None
    ) -> Sequence[FilePart] | None:
        """Return the parts of a file that has been surveyed; None for another, which is read as a whole."""
        return (surveyed.parts or None) if surveyed is not None else None

    def cut(self, task: Survey, number: int, attempt: int) -> tuple[TextPart, ...]:
        """Read the file to its end, and return its parts: each begins with a row, the first one with the header."""
        self._open(self._parts[0])
        packed = _compression(self._path) is not None
        parts: list[TextPart] = []
        writer: _PartWriter | None = None
        begin, end, line, rows = 0, 0, 1, 0

        def close() -> None:
            names = (self._names or ()) if parts else ()
            part = TextPart(len(parts), line, rows, None, None, True, self._path, begin, end, names)
            parts.append(part if writer is None else replace(part, path=writer.finish(), begin=0, end=None))

        for piece in self._pieces(begins=True, careful=False):
            if self._names is None:
                self._read_header(piece.text)
            if packed and writer is None:
                writer = _PartWriter(task.scratch.file(number, attempt, ".csv.lz4"))
                writer.write(b"" if parts else BOM)
            if writer is not None:
                writer.write(piece.text)
            end, rows = piece.end, rows + piece.text.count(b"\n")
            if self._names is not None and piece.closed and end - begin >= task.part_bytes:
                close()
                writer, begin, line, rows = None, end, line + rows, 0
        if self._names is not None and (end > begin or not parts):
            close()
        return tuple(parts)

    def _read_header(self, text: bytes) -> int:
        """Take the names of the columns from the beginning of the text; returns the lines up to the header's end."""
        return 0

    def _records(self, text: bytes, *, final: bool, careful: bool) -> tuple[int, bool, Any]:
        """The end of the last row in some lines, and of these rows whether they are closed and what is known.

        A reading that is not careful needs no more. Behind the `final` lines there is nothing.
        """
        return len(text), True, None

    def _open(self, part: TextPart) -> None:
        if self._hashing is not None:
            raw: pa.NativeFile = pa.PythonFile(self._hashing, mode="r")
        else:
            raw = self._opened.enter_context(open_raw(part.path))
            raw.seek(part.begin)
        codec = _compression(part.path)
        self._stream = pa.CompressedInputStream(raw, codec) if codec else raw
        self._left = None if part.end is None else part.end - part.begin

    def _pieces(self, *, begins: bool, careful: bool = True) -> Iterator[TextPiece]:
        """The text of the opened part; `begins`: it is the beginning of the file."""
        left, first, read = b"", begins, 0
        for chunk in itertools.chain(self._chunks(), [b""]):
            pending = bool(chunk)
            read += len(chunk)
            if first and chunk:
                chunk, first = chunk.removeprefix(BOM), False
            text = left + chunk
            end = text.rfind(b"\n") + 1 if pending else len(text)
            if end == 0:
                if len(text) > _LONGEST_LINE:
                    raise InputError(f"{self._path}: no line ends within {len(text)} bytes; this is no CSV text")
                left = text
                continue
            end, closed, found = self._records(text[:end], final=not pending, careful=careful)
            left = text[end:]
            if end:
                yield TextPiece(text[:end], read - len(left), closed, found)

    def _chunks(self) -> Iterator[bytes]:
        """The text in pieces of at most `_DENSE_LINES` line ends."""
        while block := self._read():
            size = _DENSE_LINES if block.count(b"\n") > _DENSE_LINES else len(block)
            for at in range(0, len(block), size):
                yield block[at : at + size]

    def _read(self) -> bytes:
        pieces, size = [], 0
        wanted = self._block_bytes if self._left is None else min(self._block_bytes, self._left)
        with readable(self._path):
            # A decompressor may return less than it was asked for.
            while size < wanted and (piece := self._stream.read(wanted - size)):
                pieces.append(piece)
                size += len(piece)
        if self._left is not None:
            self._left -= size
        return b"".join(pieces)


def survey_text(task: Survey, number: int, attempt: int) -> Surveyed:
    """Run a `Survey`.

    A file that is truncated or corrupt, or whose header lacks a column that the schema reads, is an InputError.
    """
    with task.reader(task.file, task.source, block_bytes=min(BLOCK_BYTES, task.part_bytes // 4)) as reader:
        return Surveyed(task.file, reader.cut(task, number, attempt), reader.raw_file())


class _PartWriter:
    """Writes text to a file of its own, packed so that reading and writing it cost little."""

    def __init__(self, path: str) -> None:
        self._path = path
        filesystem, inner = open_filesystem(path)
        with self._errors():
            self._file = filesystem.open_output_stream(inner, compression="lz4")

    def write(self, text: bytes) -> None:
        with self._errors():
            self._file.write(text)

    def finish(self) -> str:
        """Close the file, and return its path."""
        with self._errors():
            self._file.close()
        return self._path

    def _errors(self) -> AbstractContextManager[None]:
        return storage_errors(f"writing {self._path}")


def _compression(path: str) -> str | None:
    return _COMPRESSIONS.get(PurePosixPath(path).suffix.lower())
