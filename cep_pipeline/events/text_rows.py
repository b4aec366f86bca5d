"""The text of raw files: opened, unpacked and hashed, in pieces of whole rows, and in parts that are read side by side.

A format of text is a `TextReader`, which says where rows end and takes the rows of a piece apart; where each line is a
row, it says only the latter.

A large file is cut into parts. One task, `survey_text`, goes over its text before, to see where rows begin and to count
lines, so that every part knows the number of its first line; it hashes the file and unpacks a compressed one on the
way. A row, a line number or a reason of rejection is the same whether a file is cut or not.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from cep_pipeline.errors import InputError
from cep_pipeline.events.raw_files import HashingReader, RawFile, SourceFile, open_raw, readable
from cep_pipeline.events.raw_rows import FilePart, RowReader
from cep_pipeline.events.source import SourceLayout
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
