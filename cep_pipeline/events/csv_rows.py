"""The reader of CSV files: a stream of blocks of rows, every row with its physical line.

Almost all lines are plain, and are found with a few passes of NumPy over the bytes. Lines whose quotes are not in
order (an embedded newline, a stray quote) are read one by one by the standard library's strict CSV reader; an opening
quote that is never closed costs its own line only, not the rest of the file.

A large file is cut into parts that are read side by side. One task, `survey_text`, goes over its text before, to see
where rows begin and to count lines, so that every part knows the number of its first line; it hashes the file and
unpacks a compressed one on the way. A row, a line number or a reason of rejection is the same whether a file is cut or
not.
"""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from cep_pipeline.errors import InputError
from cep_pipeline.events.raw_files import HashingReader, RawFile, SourceFile, open_raw, readable
from cep_pipeline.events.raw_rows import FilePart, RawBlock, RejectedRow
from cep_pipeline.events.source import SourceLayout
from cep_pipeline.foreign_text import listed
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
_BOM = b"\xef\xbb\xbf"
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}


@dataclass(frozen=True)
class TextPart(FilePart):
    """A part of a CSV file that begins and ends with whole rows; its rows are counted as lines, empty ones too.

    Its text is in these bytes (None: to the end) of the raw file, or of a file of scratch to which it was unpacked. The
    names of the columns are empty where the part itself says them, or the schema.
    """

    path: str
    begin: int
    end: int | None
    names: tuple[str, ...]


@dataclass(frozen=True)
class Survey:
    """A task that reads a large CSV file so that it can be cut into parts of about `part_bytes` of text.

    A compressed file is unpacked to scratch.
    """

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


class CsvReader:
    """Reads the rows of one CSV file, or of some `TextPart`s of it, block after block (a `RowReader`).

    The ending of its path says how it is compressed. `block_bytes` of text are parsed at once. While iterating, a file
    that is truncated or corrupt, or whose header lacks a column that the schema reads, is an InputError.
    """

    def __init__(
        self,
        file: SourceFile,
        source: SourceLayout,
        parts: Sequence[FilePart] | None = None,
        *,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self.dropped_columns: tuple[str, ...] = ()
        self._file = file
        self._path = file.path
        self._opened = ExitStack()
        self._hashing: HashingReader | None = None
        if parts is None:
            self._hashing = HashingReader(self._opened.enter_context(open_raw(file.path)))
            self._parts: tuple[TextPart, ...] = (TextPart(0, 1, 0, None, None, True, file.path, 0, None, ()),)
        else:
            self._parts = tuple(part for part in parts if isinstance(part, TextPart))
        self._source = source
        self._block_bytes = block_bytes
        self._names: tuple[str, ...] | None = None
        if not source.header:
            self._note_dropped(source.names)

    def __enter__(self) -> CsvReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def raw_file(self) -> RawFile | None:
        """Return the fingerprint of a file that is read as a whole; its bytes are hashed while they are read."""
        if self._hashing is None:
            return None
        sha256 = self._hashing.finish()
        return RawFile(self._file.name, self._hashing.bytes_read, sha256)

    @staticmethod
    def survey(file: SourceFile, source: SourceLayout, scratch: DataDirectory, part_bytes: int) -> Survey | None:
        """Return the task that must have been run before a large file can be cut; None for a small one."""
        packed = _compression(file.path) is not None
        large = file.size * (_PACKED if packed else 1) >= 2 * part_bytes
        return Survey(file, source, scratch, part_bytes) if large else None

    @staticmethod
    def parts_of(file: SourceFile, source: SourceLayout, surveyed: Surveyed | None = None) -> Sequence[FilePart] | None:
        """Return the parts of a file that has been surveyed; None for another, which is read as a whole."""
        return (surveyed.parts or None) if surveyed is not None else None

    @staticmethod
    def check(source: SourceLayout) -> None:
        """Refuse settings with both a header and names of columns, or with neither."""
        if source.header and source.of_types is None:
            if source.names:
                raise InputError(
                    "source.columns is only for CSV files without header; leave it out, or write `header: false`"
                )
            return
        if not source.names:
            raise InputError("source.columns: a CSV file without header needs the names of its columns, in order")
        unknown = [column for column in source.listed if column not in source.names]
        if unknown:
            raise InputError(f"source.columns lacks {unknown[0]!r}; it has: {listed(source.names)}")

    def __iter__(self) -> Iterator[RawBlock]:
        for part in self._parts:
            self._open(part)
            line = part.first_row
            for text, lines, odd in self._texts(begins=part.first_row == 1):
                if self._names is None:
                    after = self._read_header(text, lines)
                    line += after
                    odd = [
                        replace(r, first=r.first - after, last=r.last - after, seen=r.seen - after)
                        for r in odd
                        if r.first >= after
                    ]
                    lines = lines[after:]
                block = self._block(text, lines, odd, line)
                line += len(lines.starts)
                if block.rows or block.rejected:
                    yield block

    def parts(self, task: Survey, number: int, attempt: int) -> tuple[TextPart, ...]:
        """Read the file to its end, and return its parts: each begins with a row, the first one with the header."""
        self._open(self._parts[0])
        packed = _compression(self._path) is not None
        parts: list[TextPart] = []
        writer: _PieceWriter | None = None
        begin, line, rows = 0, 1, 0

        def close(end: int | None) -> None:
            assert self._names is not None
            place = (self._path, begin, end) if writer is None else (writer.finish(), 0, None)
            names = self._names if parts else ()
            parts.append(TextPart(len(parts), line, rows, None, None, True, *place, names))

        for text, lines, odd in self._texts(begins=True, careful=False):
            if self._names is None:
                self._read_header(text, lines or self._lines(text))
            if packed and writer is None:
                writer = _PieceWriter(task.scratch.file(number, attempt, ".csv.lz4"))
                writer.write(b"" if parts else _BOM)
            if writer is not None:
                writer.write(text)
            rows += text.count(b"\n")
            # Why a row is rejected may be seen on a line after it, which no other part may have.
            within = lines is None or all(record.seen < len(lines.starts) for record in odd)
            if self._names is not None and within and self._position - begin >= task.part_bytes:
                close(self._position)
                writer, begin, line, rows = None, self._position, line + rows, 0
        if self._names is not None and (self._position > begin or not parts):
            close(self._position)
        return tuple(parts)

    def _open(self, part: TextPart) -> None:
        if self._hashing is not None:
            raw: pa.NativeFile = pa.PythonFile(self._hashing, mode="r")
        else:
            raw = self._opened.enter_context(open_raw(part.path))
            raw.seek(part.begin)
        codec = _compression(part.path)
        self._stream = pa.CompressedInputStream(raw, codec) if codec else raw
        self._left = None if part.end is None else part.end - part.begin
        self._names = part.names or (None if self._source.header else self._source.names)
        if self._names:
            self._note_dropped(self._names)

    @overload
    def _texts(self, *, begins: bool) -> Iterator[tuple[bytes, Lines, list[OddRecord]]]: ...

    @overload
    def _texts(self, *, begins: bool, careful: bool) -> Iterator[tuple[bytes, Lines | None, list[OddRecord]]]: ...

    def _texts(self, *, begins: bool, careful: bool = True) -> Iterator[tuple[bytes, Any, list[OddRecord]]]:
        """Pieces of text that end with a record's end, their lines, and the records that begin on odd lines.

        Only a careful reading looks for the lines of text without quotes, in which each is a record.
        """
        quote = self._source.quote
        left, first = b"", begins
        self._position = 0
        for chunk in itertools.chain(self._chunks(), [b""]):
            pending = bool(chunk)
            self._position += len(left) + len(chunk)
            if first and chunk:
                chunk, first = chunk.removeprefix(_BOM), False
            text = left + chunk
            end = text.rfind(b"\n") + 1 if pending else len(text)
            if end == 0:
                if len(text) > _LONGEST_LINE:
                    raise InputError(f"{self._path}: no line ends within {len(text)} bytes; this is no CSV text")
                self._position -= len(text)
                left = text
                continue
            lines: Lines | None = None
            odd: list[OddRecord] = []
            if careful or quote.encode() in text:
                lines = self._lines(text[:end])
                if lines.odd.any():
                    # An open quote may go on in the next piece.
                    odd, complete = read_odd_records(
                        text[:end], lines, self._source.delimiter, quote, final=not pending
                    )
                    end = int(lines.starts[complete]) if complete < len(lines.starts) else end
                    lines = lines[:complete]
            left = text[end:]
            self._position -= len(left)
            if end:
                yield text[:end], lines, odd

    def _lines(self, text: bytes) -> Lines:
        return split_lines(text, self._source.delimiter, self._source.quote)

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

    def _other_delimiter(self, header: str) -> str:
        """A hint where a header looks as if another character stood between its columns."""
        near = max(",;\t|", key=header.count)
        if near == self._source.delimiter or near not in header:
            return ""
        return f"; it looks separated by {near!r}: write `delimiter: {json.dumps(near)}` in `source` of the schema"

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
            hint = self._other_delimiter(text[lines.starts[first] : lines.following[first]].decode("utf-8", "replace"))
            raise InputError(f"{self._path}:{first + 1}: the header is no CSV text in UTF-8: {error}{hint}") from error
        if self._source.of_types is None:
            try:
                self._source.find_columns(self._path, names)
            except InputError as error:
                raise InputError(f"{error}{self._other_delimiter(names[0]) if len(names) == 1 else ''}") from None
        else:
            names = self._source.names
        self._names = names
        self._note_dropped(names)
        return first + reader.line_num

    def _note_dropped(self, names: Sequence[str]) -> None:
        listed_columns = set(self._source.listed)
        self.dropped_columns = tuple(name for name in names if name not in listed_columns)

    def _block(self, text: bytes, lines: Lines, odd: Sequence[OddRecord], line: int) -> RawBlock:
        source, names = self._source, self._names or ()
        widths = [len(names)] if source.of_types is None else source.of_types.widths
        rejected: list[RejectedRow] = []

        def text_of(first: int, last: int) -> str:
            return text[int(lines.starts[first]) : int(lines.ends[last])].decode("utf-8", "backslashreplace")

        keep = ~lines.blank & ~lines.odd
        for record in odd:
            keep[record.first : record.last + 1] = False
        for index in _undecodable(text, lines).tolist():
            if keep[index]:
                keep[index] = False
                rejected.append(RejectedRow(line + index, "unparsable row: not valid UTF-8", text_of(index, index)))
        for index in np.flatnonzero(keep & ~np.isin(lines.fields, widths)).tolist():
            keep[index] = False
            rejected.append(RejectedRow(line + index, _field_count(lines.fields[index], widths), text_of(index, index)))
        good_odd: list[OddRecord] = []
        for record in odd:
            problem = record.problem or _odd_problem(record.fields or (), widths)
            if problem:
                rejected.append(
                    RejectedRow(line + record.first, problem_text(problem), text_of(record.first, record.last))
                )
            else:
                good_odd.append(record)
        if source.of_types is None:
            clean, firsts, lasts = _assemble(text, lines, keep, good_odd, source)
            columns = _parse(clean, names, source.listed, source, len(firsts), self._path)
        else:
            columns, firsts, lasts, misfits = _parse_types(text, lines, keep, good_odd, source, self._path)
            rejected += [RejectedRow(line + first, why, text_of(first, last)) for first, last, why in misfits]
        return RawBlock(
            columns, line + firsts, lambda index: text_of(int(firsts[index]), int(lasts[index])), tuple(rejected)
        )


def problem_text(problem: str) -> str:
    """The reason for which a row that cannot be taken apart is rejected."""
    return problem if problem.startswith("unparsable row") else f"unparsable row: {problem}"


def _field_count(found: int, expected: Sequence[int]) -> str:
    there = " or ".join(map(str, expected))
    return f"unparsable row: {found} field{'s' if found != 1 else ''} where there are {there} columns"


def _odd_problem(fields: Sequence[str], expected: Sequence[int]) -> str:
    if len(fields) not in expected:
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
    text: bytes, lines: Lines, keep: np.ndarray, odd: Sequence[OddRecord], source: SourceLayout
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


def _encode(fields: Sequence[str], source: SourceLayout) -> bytes:
    quote = source.quote
    return (source.delimiter.join(f"{quote}{f.replace(quote, quote * 2)}{quote}" for f in fields) + "\n").encode()


def _parse_types(
    text: bytes, lines: Lines, keep: np.ndarray, odd: Sequence[OddRecord], source: SourceLayout, path: str
) -> tuple[dict[str, pa.Array], np.ndarray, np.ndarray, list[tuple[int, int, str]]]:
    """The columns of rows of different types, with the first and last line of each row.

    Rows with as many fields are parsed together, by the places of their columns. A column that a type does not have is
    null in its rows. What fits no type comes last: first and last line, and why.
    """
    of_types = source.of_types
    assert of_types is not None
    columns: dict[str, list[pa.Array]] = {name: [pa.nulls(0, pa.string())] for name in source.listed}
    firsts, lasts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    misfits: list[tuple[int, int, str]] = []
    for width in of_types.widths:
        as_wide = [record for record in odd if len(record.fields or ()) == width]
        clean, first, last = _assemble(text, lines, keep & (lines.fields == width), as_wide, source)
        places = [str(place) for place in range(width)]
        cells = _parse(clean, places, places, source, len(first), path)
        coded = cells[places[of_types.place]].dictionary_encode()
        codes = np.asarray(coded.indices.fill_null(-1))
        for code, kind in enumerate((*coded.dictionary.to_pylist(), None)):
            rows = np.flatnonzero(codes == (code if kind is not None else -1))
            if why := of_types.misfit(kind, width):
                misfits += zip(first[rows].tolist(), last[rows].tolist(), [why] * len(rows), strict=True)
                continue
            assert kind is not None
            for name, parts in columns.items():
                there = name in of_types.names[kind]
                cell = places[of_types.names[kind].index(name)] if there else ""
                parts.append(cells[cell].take(pa.array(rows)) if there else pa.nulls(len(rows), pa.string()))
            firsts.append(first[rows])
            lasts.append(last[rows])
    order = np.argsort(np.concatenate(firsts))
    in_order = {name: pa.concat_arrays(parts).take(pa.array(order)) for name, parts in columns.items()}
    return in_order, np.concatenate(firsts)[order], np.concatenate(lasts)[order], misfits


def _parse(
    clean: bytes, names: Sequence[str], listed: Sequence[str], source: SourceLayout, rows: int, path: str
) -> dict[str, pa.Array]:
    if not rows:
        return {name: pa.nulls(0, pa.string()) for name in listed}
    if clean.startswith(_BOM):
        # The parser would take it off, here where it is text of a row.
        clean = _BOM + clean
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


_NEWLINE, _RETURN = 10, 13
LONGEST_RECORD = 1 << 20
"""Bytes after which a quoted field that is still open on a later line counts as never closed."""
_LONGEST_IN_LINES = 1000
"""Lines after which it does too. Both make a row that begins on a line known without the lines far before it."""


@dataclass(frozen=True)
class Lines:
    """The physical lines of a block.

    The content of each line is between its offsets `starts` and `ends` (int64), before the newline and before a
    carriage return; the next line begins at `following`. `fields` is the number of fields of a line whose quotes are in
    order. Nothing is on a `blank` line; quotes or carriage returns of an `odd` one need the careful reader.
    """

    starts: np.ndarray
    ends: np.ndarray
    following: np.ndarray
    fields: np.ndarray
    blank: np.ndarray
    odd: np.ndarray

    def __getitem__(self, selection: slice) -> Lines:
        """Some of the lines; offsets stay those of the whole text."""
        return Lines(*(each[selection] for each in vars(self).values()))


@dataclass(frozen=True)
class OddRecord:
    """The record that the careful reader found on the lines `first` to `last` (both included), or why there is none.

    `seen` is the last line that it has looked at for that.
    """

    first: int
    last: int
    seen: int
    fields: tuple[str, ...] | None
    problem: str = ""


def split_lines(text: bytes, delimiter: str, quote: str) -> Lines:
    """Find the physical lines of a text and count their fields.

    Examples
    --------
    >>> lines = split_lines(b'a,b\\r\\n"x,y",2\\n\\n', ",", '"')
    >>> lines.fields.tolist(), lines.blank.tolist(), lines.odd.tolist()
    ([2, 2, 1], [False, False, True], [False, False, False])
    """
    buffer = np.frombuffer(text, dtype=np.uint8)
    newlines = np.flatnonzero(buffer == _NEWLINE)
    following = newlines + 1
    ends = newlines
    if len(buffer) and (not len(newlines) or newlines[-1] != len(buffer) - 1):
        following, ends = np.append(following, len(buffer)), np.append(ends, len(buffer))
    starts = np.concatenate([np.zeros(1, dtype=np.int64), following[:-1]]) if len(following) else following
    returns = np.flatnonzero(buffer == _RETURN) if b"\r" in text else np.zeros(0, dtype=np.int64)
    odd = np.zeros(len(starts), dtype=bool)
    if len(returns):
        has_content = ends > starts
        ends = ends - (has_content & (buffer[np.maximum(ends - 1, 0)] == _RETURN))
        # A carriage return that ends no line.
        line = np.searchsorted(following, returns, side="right")
        odd[line[returns < ends[line]]] = True
    if bytes((ord(quote),)) in text:
        either = np.flatnonzero((buffer == ord(delimiter)) | (buffer == ord(quote)))
        is_quote = buffer[either] == ord(quote)
        quotes, delimiters = either[is_quote], either[~is_quote]
        of_line = _counts(quotes, following)
        earlier = np.cumsum(of_line) - of_line
        odd |= _disorderly_quotes(buffer, starts, ends, quotes, of_line, earlier, ord(delimiter))
        before = np.cumsum(is_quote)[~is_quote] - np.repeat(earlier, _counts(delimiters, following))
        delimiters = delimiters[before % 2 == 0]
    else:
        delimiters = np.flatnonzero(buffer == ord(delimiter))
    return Lines(starts, ends, following, _counts(delimiters, following) + 1, ends == starts, odd)


def _counts(places: np.ndarray, following: np.ndarray) -> np.ndarray:
    """The number of places, which ascend, in each line."""
    return np.diff(np.searchsorted(places, following), prepend=0)


def _disorderly_quotes(
    buffer: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    quotes: np.ndarray,
    of_line: np.ndarray,
    earlier: np.ndarray,
    delimiter: int,
) -> np.ndarray:
    """Lines in which a quote does not open at the start of a field, close at its end, or stand doubled inside it.

    `of_line` is the number of quotes in each line, `earlier` that of those before it.
    """
    line = np.repeat(np.arange(len(starts)), of_line)
    number = np.arange(len(quotes)) - earlier[line]
    opens = number % 2 == 0
    previous = buffer[np.maximum(quotes - 1, 0)]
    follower = buffer[np.minimum(quotes + 1, len(buffer) - 1)]
    twin_before = np.concatenate([[False], (np.diff(quotes) == 1) & (line[1:] == line[:-1])])
    twin_after = np.concatenate([twin_before[1:], [False]])
    starts_field = (quotes == starts[line]) | (previous == delimiter) | (twin_before & (number > 0))
    ends_field = (quotes + 1 == ends[line]) | (follower == delimiter) | twin_after
    wrong = np.where(opens, ~starts_field, ~ends_field)
    disorderly = np.bincount(line[wrong], minlength=len(starts)) > 0
    return np.asarray(disorderly | (of_line % 2 == 1), dtype=bool)


def read_odd_records(
    text: bytes, lines: Lines, delimiter: str, quote: str, *, final: bool
) -> tuple[list[OddRecord], int]:
    """Read the records that begin on odd lines of a block, whose lines are those of `split_lines`.

    Returned are the records in order, whose lines do not overlap, and the number of lines that are complete: unless the
    block is the `final` one of the file, a record that may go on in the next block begins at this line.
    """
    records: list[OddRecord] = []
    taken = 0
    for first in np.flatnonzero(lines.odd).tolist():
        if first < taken:
            continue
        record = _read_record(text, lines, first, delimiter, quote)
        if record is None:
            if not final and _may_go_on(text, lines, first):
                return records, first
            record = OddRecord(first, first, first, None, "a quoted field is never closed")
        records.append(record)
        taken = record.last + 1
    return records, len(lines.starts)


def _may_go_on(text: bytes, lines: Lines, first: int) -> bool:
    """Return whether a record that is still open at the end of the text may be closed by text to come."""
    return len(text) - int(lines.starts[first]) < LONGEST_RECORD and len(lines.starts) - first < _LONGEST_IN_LINES


def _read_record(text: bytes, lines: Lines, first: int, delimiter: str, quote: str) -> OddRecord | None:
    """One record from its first line on; None where a quoted field is still open at the end of the text."""
    within = int(np.searchsorted(lines.following, int(lines.starts[first]) + LONGEST_RECORD, side="right"))
    last_allowed = min(first + _LONGEST_IN_LINES, max(within, first + 1), len(lines.starts))
    content = (
        text[int(lines.starts[index]) : int(lines.following[index])].decode("utf-8", "surrogateescape")
        for index in range(first, last_allowed)
    )
    reader = csv.reader(content, delimiter=delimiter, quotechar=quote, strict=True)
    try:
        fields = next(reader)
    except csv.Error as error:
        if "unexpected end of data" in str(error):
            return None
        return OddRecord(first, first, first + reader.line_num - 1, None, str(error))
    except StopIteration:
        return None
    last = first + reader.line_num - 1
    return OddRecord(first, last, last, tuple(fields))


def survey_text(task: Survey, number: int, attempt: int) -> Surveyed:
    """Run a `Survey`.

    A file that is truncated or corrupt, or whose header lacks a column that the schema reads, is an InputError.
    """
    with CsvReader(task.file, task.source, block_bytes=min(BLOCK_BYTES, task.part_bytes // 4)) as reader:
        return Surveyed(task.file, reader.parts(task, number, attempt), reader.raw_file())


class _PieceWriter:
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
