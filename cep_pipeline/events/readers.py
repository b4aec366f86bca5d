"""The formats of raw files, every row with its physical line or its number.

A format is read by a `RowReader`, and is known by its entry in `READERS`. All others ask this registry: the first stage
of ingestion, the loading of files into memory, and the settings that a stream schema may have.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cep_pipeline.errors import InputError
from cep_pipeline.events.raw_files import SourceFile, open_raw, readable
from cep_pipeline.events.raw_rows import FilePart, RawBlock, RejectedRow, RowReader, TextReader, plain
from cep_pipeline.events.source import SourceLayout
from cep_pipeline.foreign_text import listed

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
        names, broken = self._names, not _is_utf8("".join(lines))
        rows: list[list[str]] = []
        places: list[tuple[int, int]] = []
        rejected: list[RejectedRow] = []

        def text_of(first: int, end: int) -> str:
            raw = "".join(lines[first:end]).removesuffix("\n").removesuffix("\r")
            return raw.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")

        def reject(reason: str, end: int) -> None:
            rejected.append(RejectedRow(line + begin, f"unparsable row: {reason}", text_of(begin, end)))

        while begin < len(lines):
            start, window = begin, lines[begin : begin + _LONGEST_IN_LINES]
            reader = csv.reader(window, **self._dialect)
            try:
                for fields in reader:
                    end = start + reader.line_num
                    if broken and not _is_utf8("".join(fields)):
                        reject("not valid UTF-8", end)
                    elif len(fields) == len(names):
                        rows.append(fields)
                        places.append((begin, end))
                    elif fields:
                        said = f"{len(fields)} field{'s' if len(fields) != 1 else ''}"
                        reject(f"{said} where there are {len(names)} columns", end)
                    begin = end
            except csv.Error as error:
                is_open = "unexpected end of data" in str(error)
                if is_open and begin > start:
                    continue  # the row goes on behind the window: it is read again from its first line
                is_long = len(window) == _LONGEST_IN_LINES or sum(map(len, window)) > _LONGEST_RECORD
                if is_open and not final and not is_long:
                    break
                reject("a quoted field is never closed" if is_open else str(error), begin + 1)
                begin += 1
        places_of = {name: names.index(name) for name in self._source.listed}
        columns = {
            name: pa.array([row[place] or None for row in rows], pa.string()) for name, place in places_of.items()
        }
        numbers = line + np.array([first for first, _ in places], dtype=np.int64)
        return RawBlock(columns, numbers, lambda row: text_of(*places[row]), tuple(rejected)), begin

    @property
    def _dialect(self) -> dict[str, Any]:
        return {"delimiter": self._source.settings.delimiter, "quotechar": self._source.settings.quote, "strict": True}

    def _read_header(self, lines: Sequence[str], line: int) -> int:
        """Find the names of the columns, and return how many of the lines are up to the end of the header.

        The header is the first line that is not blank; there are no names where all are.
        """
        names, begin = tuple(self._source.settings.columns), 0
        if self._source.settings.header:
            begin = next((at for at, one in enumerate(lines) if one.strip("\r\n")), len(lines))
            if begin == len(lines):
                return begin
            reader = csv.reader(lines[begin:], **self._dialect)
            try:
                names = tuple(next(reader))
                "".join(names).encode()
            except (csv.Error, UnicodeEncodeError) as error:
                where, hint = f"{self._path}:{line + begin}", self._other_delimiter(lines[begin])
                raise InputError(f"{where}: the header is no CSV text in UTF-8: {error}{hint}") from error
            try:
                self._source.find_columns(self._path, names)
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


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class ParquetReader(RowReader):
    """Reads the rows of one Parquet file, a row group at a time."""

    def __init__(self, file: SourceFile, source: SourceLayout, parts: Sequence[FilePart] | None = None) -> None:
        super().__init__(file, source, parts)
        path = file.path
        stream = self._opened.enter_context(open_raw(path))
        with readable(path):
            self._parquet = pq.ParquetFile(stream)
        names = self._parquet.schema_arrow.names
        source.find_columns(path, names)
        self._note_dropped(names)
        for name in source.listed:
            if pa.types.is_nested(self._parquet.schema_arrow.field(name).type):
                raise InputError(
                    f"{path}: column {name!r} has the type {self._parquet.schema_arrow.field(name).type}, "
                    "where the stream schema reads a single value a row"
                )

    def __iter__(self) -> Iterator[RawBlock]:
        return self.read(self.parts() if self._given is None else self._given)

    @classmethod
    def parts_of(cls, file: SourceFile, source: SourceLayout) -> list[FilePart]:
        """Return the row groups of a file."""
        with cls(file, source) as reader:
            return reader.parts()

    def parts(self) -> list[FilePart]:
        """Return the row groups of the file."""
        metadata = self._parquet.metadata
        column = next(
            index
            for index in range(metadata.num_columns)
            if metadata.schema.column(index).path == self._source.timestamp.column
        )
        groups, row = [], 1
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            bounds = _dates(group.column(column).statistics)
            groups.append(FilePart(index, row, group.num_rows, bounds))
            row += group.num_rows
        return groups

    def read(self, parts: Sequence[FilePart]) -> Iterator[RawBlock]:
        """Read row groups, in blocks of at most `BLOCK_ROWS` rows."""
        for part in parts:
            with readable(self._path):
                first = part.first_row
                for batch in self._parquet.iter_batches(
                    BLOCK_ROWS, row_groups=[part.index], columns=list(self._source.listed), use_threads=False
                ):
                    batch.validate(full=True)  # text that is no UTF-8
                    columns = {name: _plain(batch.column(name)) for name in self._source.listed}
                    yield RawBlock(columns, first + np.arange(batch.num_rows, dtype=np.int64), _RowText(columns))
                    first += batch.num_rows


@dataclass(frozen=True)
class _RowText:
    columns: dict[str, pa.Array]

    def __call__(self, index: int) -> str:
        row = {name: plain(values[index]) for name, values in self.columns.items()}
        return json.dumps(row, default=str, ensure_ascii=False)


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _dates(statistics: pq.Statistics | None) -> tuple[date, date] | None:
    """The days of all values; None where the file does not say them, or has rows without a value."""
    if statistics is None or not statistics.has_min_max or not statistics.has_null_count or statistics.null_count:
        return None
    try:
        low, high = statistics.min, statistics.max
    except (ValueError, OverflowError):  # beyond the years that Python knows
        return None
    if not isinstance(low, date) or not isinstance(high, date):
        return None
    day = timedelta(days=1)
    low = low.date() if isinstance(low, datetime) else low
    high = high.date() if isinstance(high, datetime) else high
    if low.year <= 1 or high.year >= 9999:
        return None
    return low - day, high + day


READERS: Mapping[str, type[RowReader]] = {"csv": CsvReader, "parquet": ParquetReader}
"""Name of the format in stream schemas -> the class that reads its files."""


def open_rows(file: SourceFile, source: SourceLayout, parts: Sequence[FilePart] | None = None) -> RowReader:
    """Open a raw file with the reader of its stream's format."""
    return READERS[source.settings.format](file, source, parts)
