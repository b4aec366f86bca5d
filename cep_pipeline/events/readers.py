"""The formats of raw files, every row with its physical line or its number.

A format is read by a `RowReader`, and is known by its entry in `READERS`. All others ask this registry: the first stage
of ingestion, the loading of files into memory, and the settings that a stream schema may have.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import PurePosixPath
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cep_pipeline.errors import InputError
from cep_pipeline.events.raw_files import Period, SourceFile, TableFile, open_raw, readable
from cep_pipeline.events.stream_document import SourceLayout, find_columns
from cep_pipeline.foreign_text import listed, shortened, shortened_message
from cep_pipeline.guarded import without_collecting

_LONGEST_LINE = 64 << 20
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}


def plain(value: pa.Scalar) -> Any:
    """A value of a raw file as Python has it; one that Python cannot hold, such as the year 200,000, is text."""
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        if pa.types.is_string(value.type) or pa.types.is_large_string(value.type):
            return value.as_buffer().to_pybytes().decode("utf-8", "backslashreplace")
        return f"{getattr(value, 'value', 'a value')} as {value.type}"


def without_dictionary(column: pa.Array) -> pa.Array:
    """The values of a column, each in its place."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


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
    """A part of a raw file that can be read on its own, in Parquet a row group.

    Its rows are numbered from `first_row`, which counts from 1. The bounds are dates, a day wider than its timestamps
    for any time zone; None where the file does not say them for all rows.
    """

    index: int
    first_row: int
    rows: int
    bounds: tuple[date, date] | None

    def may_hold(self, days: Collection[date], period: Period) -> bool:
        """Return True if it may have rows of these days; those outside of the file's period count as of its first."""
        if self.bounds is None or period.first is None or period.last is None:
            return True
        first, last = self.bounds
        stray = first < period.first or period.last < last
        return any(first <= day <= last for day in days) or (stray and period.first in days)


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

    def parts(self) -> Sequence[FilePart] | None:
        """Return the parts of the file that can be read on their own; None: it is read as a whole."""
        return None

    @classmethod
    def check(cls, source: SourceLayout) -> None:
        """Refuse, with an InputError, a layout that files of this format cannot have."""
        for name, format_of_it in (("columns", "csv"), ("pattern", "regex")):
            if getattr(source.settings, name) and source.settings.format != format_of_it:
                raise InputError(
                    f"source.{name} is only for `format: {format_of_it}`; leave it out, or write that format"
                )

    def _note_dropped(self, names: Sequence[str]) -> None:
        listed = set(self._source.listed)
        self.dropped_columns = tuple(name for name in names if name not in listed)


def open_text(path: str, opened: ExitStack, encoding: str = "utf-8") -> io.TextIOWrapper:
    """Open a file of text, whose ending says how it is compressed; a byte that is no character is a surrogate."""
    raw = opened.enter_context(open_raw(path))
    codec = COMPRESSIONS.get(PurePosixPath(path).suffix.lower())
    stream = pa.CompressedInputStream(raw, codec) if codec else raw
    known = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
    return io.TextIOWrapper(io.BufferedReader(stream, 1 << 20), known, "surrogateescape", newline="\n")


class TextReader(RowReader):
    """Reads the rows of one file of text, some lines at a time.

    While iterating, a file that is truncated or corrupt is an InputError.
    """

    at_once = 2 << 20
    """Characters that are parsed at once, about; many times this much may be held in memory."""

    def __init__(self, file: SourceFile, source: SourceLayout, parts: Sequence[FilePart] | None = None) -> None:
        super().__init__(file, source, parts)
        self._text = open_text(file.path, self._opened, source.settings.encoding)
        self._comment, self._no_value = (
            source.settings.comment,
            pa.array(["", *source.settings.null_words], pa.string()),
        )

    def is_comment(self, line: str) -> bool:
        """Return True if a line, at which no field is open, is left out."""
        return self._comment is not None and line.startswith(self._comment)

    def texts(self, values: Sequence[str | None]) -> pa.Array:
        """A column of text, null where there is no value."""
        column = pa.array(values, pa.string())
        return pc.if_else(pc.is_in(column, self._no_value), pa.scalar(None, pa.string()), column)

    @abstractmethod
    def take(self, lines: Sequence[str], line: int, *, final: bool) -> tuple[RawBlock | None, int]:
        """Return the rows of some lines, the first of which has this number, and the number of lines that they take.

        Lines that are left come again, with those behind them; behind the `final` lines there is nothing.
        """

    def __iter__(self) -> Iterator[RawBlock]:
        left: Sequence[str] = ()
        line, final, skipped = 1, False, self._source.settings.skip_lines
        while not final:
            read = self._read()
            lines, final = [*left, *read], not read
            if line <= skipped:
                line, lines = line + len(lines[: skipped + 1 - line]), lines[skipped + 1 - line :]
            with without_collecting():
                block, taken = self.take(lines, line, final=final) if lines else (None, 0)
            line, left = line + taken, lines[taken:]
            if block is not None and (block.rows or block.rejected):
                yield block

    def _read(self) -> list[str]:
        with readable(self._path):
            text = self._text.read(self.at_once)
            end = self._text.readline(_LONGEST_LINE)
        if len(end) == _LONGEST_LINE:
            raise InputError(f"{self._path}: no line ends within {_LONGEST_LINE} characters; this is no text of rows")
        return list(io.StringIO(text + end, newline="\n"))


_LONGEST_IN_LINES = 1000
"""Lines after which a quoted field that is still open counts as never closed."""
_LONGEST_RECORD = 1 << 20
"""Characters after which it does too, on a later line than its first."""
BLOCK_ROWS = 262_144
"""Rows of a Parquet file that are checked at once."""

csv.field_size_limit(1 << 30)  # a field of a row is as long as `longest_value` allows


class CsvReader(TextReader):
    """Reads the rows of one CSV file by the strict reader of the standard library.

    A header that lacks a column that the schema reads is an InputError. An opening quote that is never closed costs its
    own line only, not the rest of the file.
    """

    _names: tuple[str, ...] | None = None
    """Names of the columns, None until a header has been read."""
    _header: list[str] | None = None
    """The header, which may come again."""

    @classmethod
    def check(cls, source: SourceLayout) -> None:
        """Refuse settings with both a header and names of columns, or with neither."""
        if source.settings.header:
            if source.settings.columns:
                raise InputError(
                    "source.columns is only for CSV files without header; leave it out, or write `header: false`"
                )
            return
        if not source.settings.columns:
            raise InputError("source.columns: a CSV file without header needs the names of its columns, in order")
        unknown = [column for column in source.listed if column not in source.settings.columns]
        if unknown:
            raise InputError(f"source.columns lacks {unknown[0]!r}; it has: {listed(source.settings.columns)}")

    def take(self, lines: Sequence[str], line: int, *, final: bool) -> tuple[RawBlock | None, int]:
        """Return the rows of some lines, behind the header if it is among them.

        A row that may go on behind them, unless these are the `final` ones, is left.
        """
        begin = 0 if self._names else self._read_header(lines, line)
        if self._names is None:
            return None, begin
        names, width, broken = self._names, len(self._names), not is_utf8("".join(lines))
        rows: list[list[str]] = []
        begins, ends = [], []
        rejected: list[RejectedRow] = []

        def text_of(first: int, end: int) -> str:
            return as_raw("".join(lines[first:end]))

        def reject(reason: str, end: int) -> None:
            rejected.append(RejectedRow(line + begin, f"unparsable row: {reason}", text_of(begin, end)))

        while begin < len(lines):
            start, window = begin, lines[begin : begin + _LONGEST_IN_LINES]
            reader = csv.reader(window, **self._dialect)
            try:
                for fields in reader:
                    end = start + reader.line_num
                    if self.is_comment(lines[begin]):
                        begin += 1
                        if begin < end:
                            break  # it seems to open a quote: what follows is read again
                        continue
                    if broken and not is_utf8("".join(fields)):
                        reject("not valid UTF-8", end)
                    elif len(fields) == width or (len(fields) == width + 1 and not fields[-1]):
                        if len(fields) > width:
                            fields.pop()
                        if fields != self._header:
                            rows.append(fields)
                            begins.append(begin)
                            ends.append(end)
                    elif fields:
                        said = f"{len(fields)} field{'s' if len(fields) != 1 else ''}"
                        reject(f"{said} where there are {width} columns", end)
                    begin = end
            except csv.Error as error:
                if self.is_comment(lines[begin]):
                    begin += 1
                    continue
                is_open = "unexpected end of data" in str(error)
                if is_open and begin > start:
                    continue  # the row goes on behind the window: it is read again from its first line
                is_long = len(window) == _LONGEST_IN_LINES or sum(map(len, window)) > _LONGEST_RECORD
                if is_open and not final and not is_long:
                    break
                reject("a quoted field is never closed" if is_open else str(error), begin + 1)
                begin += 1
        values = dict(zip(names, zip(*rows, strict=True), strict=False))  # none where there are no rows
        columns = {name: self.texts(values.get(name, ())) for name in self._source.listed}
        numbers = line + np.array(begins, dtype=np.int64)
        return RawBlock(columns, numbers, lambda row: text_of(begins[row], ends[row]), tuple(rejected)), begin

    @property
    def _dialect(self) -> dict[str, Any]:
        signs = self._source.settings
        return {"delimiter": signs.delimiter, "quotechar": signs.quote, "escapechar": signs.escape, "strict": True}

    def _read_header(self, lines: Sequence[str], line: int) -> int:
        """Find the names of the columns, and return how many of the lines are up to the end of the header.

        The header is the first line that is not blank; there are no names where all are.
        """
        names, begin = tuple(self._source.settings.columns), 0
        if self._source.settings.header:
            begin = next(
                (at for at, one in enumerate(lines) if one.strip("\r\n") and not self.is_comment(one)), len(lines)
            )
            if begin == len(lines):
                return begin
            reader = csv.reader(lines[begin:], **self._dialect)
            try:
                self._header = next(reader)
                if len(self._header) > 1 and not self._header[-1]:
                    self._header.pop()  # a delimiter ends each line
                names = tuple(self._header)
                "".join(names).encode()
            except (csv.Error, UnicodeEncodeError) as error:
                where, hint = f"{self._path}:{line + begin}", self._other_delimiter(lines[begin])
                raise InputError(f"{where}: the header is no CSV text in UTF-8: {error}{hint}") from error
            try:
                find_columns(self._path, self._source.listed, names)
            except InputError as error:
                raise InputError(f"{error}{self._other_delimiter(names[0]) if len(names) == 1 else ''}") from None
            begin += reader.line_num
        self._names = names
        self._note_dropped(names)
        return begin

    def _other_delimiter(self, header: str) -> str:
        """A hint where a header looks as if another character stood between its columns."""
        near = max(",;\t|", key=header.count)
        if near == self._source.settings.delimiter or near not in header:
            return ""
        return f"; it looks separated by {near!r}: write `delimiter: {json.dumps(near)}` in `source` of the schema"


def as_raw(text: str) -> str:
    """The text of a row as quarantine keeps it, without the end of its line."""
    text = text.removesuffix("\n").removesuffix("\r")
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def is_utf8(text: str) -> bool:
    """Return True if all bytes of a text that was read are UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class LineReader(TextReader):
    """Reads the rows of a file of text that has one on each line that is not blank."""

    @abstractmethod
    def row(self, line: str) -> Mapping[str, str | None]:
        """The columns of a line; a line that has none is a ValueError that says why."""

    def take(self, lines: Sequence[str], line: int, *, final: bool) -> tuple[RawBlock | None, int]:
        """Return the rows of all lines."""
        rows: list[Mapping[str, str | None]] = []
        numbers: list[int] = []
        rejected: list[RejectedRow] = []
        for number, one in enumerate(lines, start=line):
            if self.is_comment(one) or not one.strip():
                continue
            try:
                if not is_utf8(one):
                    raise ValueError(f"not valid {self._source.settings.encoding}")
                rows.append(self.row(one.removesuffix("\n").removesuffix("\r")))
                numbers.append(number)
            except (ValueError, RecursionError) as error:
                rejected.append(RejectedRow(number, f"unparsable row: {error}", as_raw(one)))
        columns = {name: self.texts([row.get(name) for row in rows]) for name in self._source.listed}
        found = np.array(numbers, np.int64)
        return RawBlock(columns, found, lambda row: as_raw(lines[numbers[row] - line]), tuple(rejected)), len(lines)


class JsonReader(LineReader):
    """Reads JSON lines: a member is a column, and a member of a member is one by both names, such as `user.id`.

    A column that an object lacks has no value. Numbers are text as they are written; lists are JSON.
    """

    def __init__(self, file: SourceFile, source: SourceLayout, parts: Sequence[FilePart] | None = None) -> None:
        super().__init__(file, source, parts)
        self._seen: dict[str, None] = {}

    def row(self, line: str) -> Mapping[str, str | None]:
        """The columns of an object."""
        found = members_of(line)
        if found.keys() - self._seen.keys():
            self._seen |= dict.fromkeys(found)
            self._note_dropped(tuple(self._seen))
        return found


def members_of(line: str) -> dict[str, str | None]:
    """The columns of an object of JSON, as `JsonReader` says; what is none is a ValueError."""
    found = json.loads(line, parse_int=str, parse_float=str, parse_constant=str)
    if not isinstance(found, dict):
        raise ValueError("it is no object of JSON")
    columns: dict[str, str | None] = {}
    left = list(reversed(found.items()))
    while left:
        name, value = left.pop()
        if isinstance(value, dict):
            left += [(f"{name}.{inner}", its) for inner, its in reversed(value.items())]
        else:
            is_text = value is None or isinstance(value, str)
            columns[name] = value if is_text else json.dumps(value, ensure_ascii=False)
    return columns


class PatternReader(LineReader):
    """Reads lines that a regular expression takes apart: its named groups are the columns."""

    def __init__(self, file: SourceFile, source: SourceLayout, parts: Sequence[FilePart] | None = None) -> None:
        super().__init__(file, source, parts)
        self._expression = re.compile(source.settings.pattern or "")
        self._note_dropped(tuple(self._expression.groupindex))

    @classmethod
    def check(cls, source: SourceLayout) -> None:
        """Refuse a layout without a pattern, and one whose groups lack a column."""
        super().check(source)
        if source.settings.pattern is None:
            raise InputError("source.pattern: `format: regex` needs a regular expression with named groups")
        find_columns("source.pattern", source.listed, [*re.compile(source.settings.pattern).groupindex])

    def row(self, line: str) -> Mapping[str, str | None]:
        """Return the texts that the groups take."""
        found = self._expression.fullmatch(line)
        if found is None:
            raise ValueError("it does not fit source.pattern")
        return found.groupdict()


class ParquetReader(RowReader):
    """Reads the rows of one Parquet file, a row group at a time.

    A column that the file lacks has the value that the names of its folders tell. In a data file of an Iceberg table
    columns are found by their ids, and rows that the table has no more are left out; the others keep their numbers.
    """

    def __init__(self, file: SourceFile, source: SourceLayout, parts: Sequence[FilePart] | None = None) -> None:
        super().__init__(file, source, parts)
        path = file.path
        stream = self._opened.enter_context(open_raw(path, file.of_table))
        with readable(path):
            self._parquet = pq.ParquetFile(stream)
            self._columns, self._values = self._find_columns(source)
            self._gone = _deleted_rows(file.of_table)
        for name, column in self._columns.items():
            if pa.types.is_nested(self._parquet.schema_arrow.field(column).type):
                raise InputError(
                    f"{path}: column {name!r} has the type {self._parquet.schema_arrow.field(column).type}, "
                    "where the stream schema reads a single value a row"
                )

    def _find_columns(self, source: SourceLayout) -> tuple[dict[str, str], dict[str, pa.Scalar]]:
        """Return the names in the file of the columns that are read, and the values of those that it lacks."""
        names, table = self._parquet.schema_arrow.names, self._file.of_table
        if table is not None:
            own = field_ids(self._path, self._parquet.schema_arrow, table.mapping)
            found = {name: own[number] for name, number in table.ids.items() if number in own}
            return found, {name: value for name, value in table.values.items() if name not in found}
        told = {name: value for name, value in self._file.folder_values.items() if name not in names}
        find_columns(self._path, source.listed, [*names, *told])
        self._note_dropped(names)
        values = {name: pa.scalar(value, pa.string()) for name, value in told.items()}
        return {name: name for name in source.listed if name not in told}, values

    def parts(self) -> list[FilePart]:
        """Return the row groups of the file."""
        metadata, times = self._parquet.metadata, self._source.timestamp.column
        leaves = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
        found, row = [], 1
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            known = len(times) == 1 and times[0] in self._columns
            bounds = _dates(group.column(leaves.index(self._columns[times[0]])).statistics) if known else None
            found.append(FilePart(index, row, group.num_rows, bounds))
            row += group.num_rows
        return found

    def __iter__(self) -> Iterator[RawBlock]:
        """Yield the rows of the row groups, in blocks of at most `BLOCK_ROWS` rows."""
        names = [*self._columns.values()]
        for part in self.parts() if self._given is None else self._given:
            with readable(self._path):
                first = part.first_row
                for batch in self._parquet.iter_batches(
                    BLOCK_ROWS, row_groups=[part.index], columns=names, use_threads=False
                ):
                    batch.validate(full=True)  # text that is no UTF-8
                    lines = first + np.arange(batch.num_rows, dtype=np.int64)
                    first += batch.num_rows
                    if len(self._gone) and (gone := np.isin(lines, self._gone)).any():
                        batch, lines = batch.filter(pa.array(~gone)), lines[~gone]
                    columns = {
                        name: without_dictionary(batch.column(self._columns[name]))
                        if name in self._columns
                        else pa.repeat(self._values[name], batch.num_rows)
                        for name in self._source.listed
                    }
                    yield _block_of(columns, lines)


def field_ids(path: str, schema: pa.Schema, mapping: Mapping[str, int]) -> dict[int, str]:
    """The columns of a data file of an Iceberg table by their ids; one that does not say them has those of a mapping.

    Where there are neither, that is an InputError.
    """
    own = {one.name: int(one.metadata[_FIELD_ID]) for one in schema if _FIELD_ID in (one.metadata or {})}
    if not own and not mapping:
        raise InputError(
            f"{path}: its columns have no field ids; give the table the property schema.name-mapping.default"
        )
    return {number: name for name, number in (own or mapping).items() if name in schema.names}


_FIELD_ID = b"PARQUET:field_id"


def _deleted_rows(of_table: TableFile | None) -> np.ndarray:
    """The numbers, from 1, of the rows of a data file that its table has no more."""
    if of_table is None or not of_table.task.delete_files:
        return np.empty(0, np.int64)
    from pyiceberg.io.pyarrow import _read_all_delete_files

    found = _read_all_delete_files(of_table.io, [of_table.task]).get(of_table.task.file.file_path, [])
    return np.concatenate([np.empty(0, np.int64), *map(np.asarray, found)]) + 1


def _block_of(columns: Mapping[str, pa.Array], lines: np.ndarray) -> RawBlock:
    def text_of(index: int) -> str:
        row = {name: plain(values[index]) for name, values in columns.items()}
        return json.dumps(row, default=str, ensure_ascii=False)

    return RawBlock(columns, lines, text_of)


READERS: Mapping[str, type[RowReader]] = {
    "csv": CsvReader,
    "jsonl": JsonReader,
    "regex": PatternReader,
    "parquet": ParquetReader,
    "iceberg": ParquetReader,
}
"""Name of the format in stream schemas -> the class that reads its files."""


def open_rows(file: SourceFile, source: SourceLayout, parts: Sequence[FilePart] | None = None) -> RowReader:
    """Open a raw file with the reader of its stream's format."""
    return READERS[source.settings.format](file, source, parts)


def _dates(statistics: pq.Statistics | None) -> tuple[date, date] | None:
    """The days of all values, and one more at each end; None where the file does not say them for all its rows."""
    if statistics is None or not statistics.has_min_max or not statistics.has_null_count or statistics.null_count:
        return None
    with suppress(ValueError, OverflowError):  # beyond the years that Python knows
        low, high = statistics.min, statistics.max
        if isinstance(low, date) and isinstance(high, date):
            day = timedelta(days=1)
            return date(low.year, low.month, low.day) - day, date(high.year, high.month, high.day) + day
    return None
