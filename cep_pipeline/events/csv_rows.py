"""Rows of CSV files: read as a stream of blocks, every row with its physical line."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from cep_pipeline.errors import InputError
from cep_pipeline.events.blocks import RawBlock
from cep_pipeline.events.csv_records import Lines, OddRecord, read_odd_records, split_lines
from cep_pipeline.events.raw_files import HashingReader
from cep_pipeline.events.readers import find_columns
from cep_pipeline.events.rejection import Rejected
from cep_pipeline.events.source import Source

BLOCK_BYTES = 16 << 20
"""Text that is parsed at once; a few times this much is held in memory."""
_LONGEST_LINE = 64 << 20
_BOM = b"\xef\xbb\xbf"
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}


class CsvRows:
    """The rows of one CSV file, block after block.

    Parameters
    ----------
    reader
        The file's bytes, as they are stored.
    path
        Its path, for messages; the ending says how it is compressed.
    source
        The layout.

    Raises
    ------
    InputError
        While iterating: the file is truncated or corrupt, or its header lacks a column that the schema reads.
    """

    def __init__(self, reader: HashingReader, path: str, source: Source, *, block_bytes: int = BLOCK_BYTES) -> None:
        self.dropped_columns: tuple[str, ...] = ()
        self._reader = reader
        self._path = path
        self._source = source
        self._block_bytes = block_bytes
        self._names: tuple[str, ...] | None = None if source.header else source.names
        if not source.header:
            self._note_dropped(source.names)

    def __iter__(self) -> Iterator[RawBlock]:
        line = 1
        for text, lines, odd in self._texts():
            if self._names is None:
                after = self._read_header(text, lines)
                line += after
                odd = [OddRecord(r.first - after, r.last - after, r.fields, r.problem) for r in odd if r.first >= after]
                lines = lines[after:]
            block = self._block(text, lines, odd, line)
            line += len(lines.starts)
            if block.rows or block.rejected:
                yield block

    def _texts(self) -> Iterator[tuple[bytes, Lines, list[OddRecord]]]:
        """Pieces of text that end with a record's end, their lines, and the records that begin on odd lines."""
        delimiter, quote = self._source.delimiter, self._source.quote
        left, first, pending = b"", True, True
        while pending:
            chunk = self._read()
            pending = bool(chunk)
            if first and chunk:
                chunk, first = chunk.removeprefix(_BOM), False
            text = left + chunk
            end = text.rfind(b"\n") + 1 if pending else len(text)
            if end == 0:
                if len(text) > _LONGEST_LINE:
                    raise InputError(f"{self._path}: no line ends within {len(text)} bytes; this is no CSV text")
                left = text
                continue
            lines = split_lines(text[:end], delimiter, quote)
            odd: list[OddRecord] = []
            if lines.odd.any():
                # An open quote may go on in the next piece.
                odd, complete = read_odd_records(text[:end], lines, delimiter, quote, final=not pending)
                end = int(lines.starts[complete]) if complete < len(lines.starts) else end
                lines = lines[:complete]
            left = text[end:]
            if len(lines.starts):
                yield text[:end], lines, odd

    def _read(self) -> bytes:
        if not hasattr(self, "_stream"):
            suffix = _COMPRESSIONS.get(PurePosixPath(self._path).suffix.lower())
            raw = pa.PythonFile(self._reader, mode="r")
            self._stream = pa.CompressedInputStream(raw, suffix) if suffix else raw
        pieces, size = [], 0
        try:
            # A decompressor may return less than it was asked for.
            while size < self._block_bytes and (piece := self._stream.read(self._block_bytes - size)):
                pieces.append(piece)
                size += len(piece)
        except (OSError, pa.ArrowException) as error:
            raise InputError(
                f"{self._path}: the file is truncated or corrupt ({error}); have it delivered again. "
                "Nothing of its day is published"
            ) from error
        return b"".join(pieces)

    def _read_header(self, text: bytes, lines: Lines) -> int:
        """Read the header off the first text; returns the number of lines up to its end."""
        filled = np.flatnonzero(~lines.blank)
        if not len(filled):
            return len(lines.starts)
        first = int(filled[0])
        try:
            content = (
                text[begin:end].decode("utf-8")
                for begin, end in zip(lines.starts[first:].tolist(), lines.following[first:].tolist(), strict=True)
            )
            reader = csv.reader(content, delimiter=self._source.delimiter, quotechar=self._source.quote, strict=True)
            names = tuple(next(reader))
        except (csv.Error, UnicodeDecodeError) as error:
            raise InputError(f"{self._path}:{first + 1}: the header is no CSV text in UTF-8: {error}") from error
        find_columns(self._path, names, self._source.listed)
        self._names = names
        self._note_dropped(names)
        return first + reader.line_num

    def _note_dropped(self, names: Sequence[str]) -> None:
        self.dropped_columns = tuple(name for name in names if name not in self._source.listed)

    def _block(self, text: bytes, lines: Lines, odd: Sequence[OddRecord], line: int) -> RawBlock:
        source, names = self._source, self._names or ()
        rejected: list[Rejected] = []

        def text_of(first: int, last: int) -> str:
            return text[int(lines.starts[first]) : int(lines.ends[last])].decode("utf-8", "backslashreplace")

        keep = ~lines.blank & ~lines.odd
        for record in odd:
            keep[record.first : record.last + 1] = False
        for index in _undecodable(text, lines).tolist():
            if keep[index]:
                keep[index] = False
                rejected.append(Rejected(line + index, "unparsable row: not valid UTF-8", text_of(index, index)))
        for index in np.flatnonzero(keep & (lines.fields != len(names))).tolist():
            keep[index] = False
            rejected.append(
                Rejected(line + index, _field_count(lines.fields[index], len(names)), text_of(index, index))
            )
        good_odd: list[OddRecord] = []
        for record in odd:
            problem = record.problem or _odd_problem(record.fields or (), len(names))
            if problem:
                rejected.append(
                    Rejected(line + record.first, problem_text(problem), text_of(record.first, record.last))
                )
            else:
                good_odd.append(record)
        clean, firsts, lasts = _assemble(text, lines, keep, good_odd, source)
        columns = _parse(clean, names, source, len(firsts), self._path)
        return RawBlock(
            columns, line + firsts, lambda index: text_of(int(firsts[index]), int(lasts[index])), tuple(rejected)
        )


def problem_text(problem: str) -> str:
    return problem if problem.startswith("unparsable row") else f"unparsable row: {problem}"


def _field_count(found: int, expected: int) -> str:
    return f"unparsable row: {found} field{'s' if found != 1 else ''} where there are {expected} columns"


def _odd_problem(fields: Sequence[str], expected: int) -> str:
    if len(fields) != expected:
        return _field_count(len(fields), expected)
    try:
        "".join(fields).encode("utf-8")
    except UnicodeEncodeError:
        return "not valid UTF-8"
    return ""


def _undecodable(text: bytes, lines: Lines) -> np.ndarray:
    """Indices of the lines that are no UTF-8."""
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        pass
    else:
        return np.zeros(0, dtype=np.int64)
    beyond_ascii = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) >= 0x80)
    candidates = np.unique(np.searchsorted(lines.following, beyond_ascii, side="right"))
    return np.array([index for index in candidates.tolist() if not _decodes(text, lines, index)], dtype=np.int64)


def _decodes(text: bytes, lines: Lines, index: int) -> bool:
    try:
        text[int(lines.starts[index]) : int(lines.ends[index])].decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _assemble(
    text: bytes, lines: Lines, keep: np.ndarray, odd: Sequence[OddRecord], source: Source
) -> tuple[bytes, np.ndarray, np.ndarray]:
    """Text of the rows to parse, and the first and last line of each."""
    plain = np.flatnonzero(keep)
    if len(plain) == len(keep):
        return text[int(lines.starts[0]) :] if len(plain) else b"", plain, plain
    pieces: list[tuple[int, bytes]] = []
    if len(plain):
        breaks = np.flatnonzero(np.diff(plain) != 1) + 1
        for run in np.split(plain, breaks):
            begin, end = int(lines.starts[run[0]]), int(lines.following[run[-1]])
            piece = text[begin:end]
            pieces.append((int(run[0]), piece if piece.endswith(b"\n") else piece + b"\n"))
    for record in odd:
        assert record.fields is not None
        pieces.append((record.first, _encode(record.fields, source)))
    firsts = np.sort(np.concatenate([plain, np.array([record.first for record in odd], dtype=np.int64)]))
    lasts = firsts.copy()
    for record in odd:
        lasts[np.searchsorted(firsts, record.first)] = record.last
    return b"".join(piece for _, piece in sorted(pieces)), firsts, lasts


def _encode(fields: Sequence[str], source: Source) -> bytes:
    quote = source.quote
    return (source.delimiter.join(f"{quote}{f.replace(quote, quote * 2)}{quote}" for f in fields) + "\n").encode()


def _parse(clean: bytes, names: Sequence[str], source: Source, rows: int, path: str) -> dict[str, pa.Array]:
    listed = source.listed
    if not rows:
        return {name: pa.nulls(0, pa.string()) for name in listed}
    try:
        table = pacsv.read_csv(
            pa.BufferReader(clean),
            read_options=pacsv.ReadOptions(use_threads=False, column_names=list(names), block_size=len(clean) + 1),
            parse_options=pacsv.ParseOptions(
                delimiter=source.delimiter, quote_char=source.quote, newlines_in_values=True, ignore_empty_lines=True
            ),
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(listed, pa.string()),
                include_columns=list(listed),
                strings_can_be_null=True,
                null_values=[""],
                check_utf8=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: the CSV text cannot be taken apart: {error}") from error
    if table.num_rows != rows:
        raise InputError(f"{path}: {rows} rows were expected and {table.num_rows} found; this is no regular CSV text")
    return {name: _one_array(table.column(name)) for name in listed}


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined
