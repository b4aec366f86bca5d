"""The reader of CSV files: a stream of blocks of rows, every row with its physical line.

Almost all blocks are plain: each line is a row, and Arrow parses them. A block with a line end within quotes, a doubled
or a stray quote, a carriage return that ends no line, or bytes that are no UTF-8 is read by the standard library's
strict CSV reader; an opening quote that is never closed costs its own line only, not the rest of the file.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from cep_pipeline.errors import InputError
from cep_pipeline.events.raw_rows import BOM, RawBlock, RejectedRow, TextReader
from cep_pipeline.events.source import SourceLayout
from cep_pipeline.foreign_text import listed

LONGEST_RECORD = 1 << 20
"""Characters after which a quoted field that is still open on a later line counts as never closed."""
_LONGEST_IN_LINES = 1000
"""Lines after which it does too."""
_NEWLINE, _RETURN = 10, 13
_NO_UTF8 = "unparsable row: not valid UTF-8"

csv.field_size_limit(1 << 30)  # a field of a row is as long as `longest_value` allows


class CsvReader(TextReader):
    """Reads the rows of one CSV file; one whose header lacks a column that the schema reads is an InputError."""

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

    def take(self, text: bytes, line: int, *, final: bool) -> tuple[RawBlock | None, int]:
        """Return the rows of some lines, behind the header if it is among them."""
        header = 0
        if self._names is None:
            if self._source.settings.header:
                header = self._read_header(text, line)
                line += text.count(b"\n", 0, header)
            else:
                self._name(tuple(self._source.settings.columns))
        if self._names is None or header == len(text):
            return None, len(text)
        block = self._plain_rows(text[header:], line)
        if block is not None:
            return block, len(text)
        block, taken = self._careful_rows(text[header:], line, final)
        return block, header + taken

    def _name(self, names: tuple[str, ...]) -> None:
        self._names = names
        self._note_dropped(names)

    @property
    def _dialect(self) -> dict[str, Any]:
        return {"delimiter": self._source.settings.delimiter, "quotechar": self._source.settings.quote, "strict": True}

    def _read_header(self, text: bytes, line: int) -> int:
        """Read the header off the first line that is not blank, and return the number of bytes up to its end."""
        begin = len(text) - len(text.lstrip(b"\r\n"))
        if begin == len(text):
            return begin
        line += text.count(b"\n", 0, begin)
        raw = io.BytesIO(text[begin:])
        try:
            names = tuple(next(csv.reader((one.decode("utf-8") for one in raw), **self._dialect)))
        except (csv.Error, UnicodeDecodeError) as error:
            hint = self._other_delimiter(text[begin:].partition(b"\n")[0].decode("utf-8", "replace"))
            raise InputError(f"{self._path}:{line}: the header is no CSV text in UTF-8: {error}{hint}") from error
        try:
            self._source.find_columns(self._path, names)
        except InputError as error:
            raise InputError(f"{error}{self._other_delimiter(names[0]) if len(names) == 1 else ''}") from None
        self._name(names)
        return begin + raw.tell()

    def _other_delimiter(self, header: str) -> str:
        """A hint where a header looks as if another character stood between its columns."""
        near = max(",;\t|", key=header.count)
        if near == self._source.settings.delimiter or near not in header:
            return ""
        return f"; it looks separated by {near!r}: write `delimiter: {json.dumps(near)}` in `source` of the schema"

    def _plain_rows(self, text: bytes, line: int) -> RawBlock | None:
        """The rows of a block in which each line is one; None where the careful reader is needed."""
        text = text if text.endswith(b"\n") else text + b"\n"
        buffer = np.frombuffer(text, dtype=np.uint8)
        ends = np.flatnonzero(buffer == _NEWLINE)
        if not self._is_plain(text, buffer, ends):
            return None
        begins = np.concatenate([[0], ends[:-1] + 1])
        ends = ends - ((ends > begins) & (buffer[np.maximum(ends - 1, 0)] == _RETURN))
        filled = np.flatnonzero(ends > begins)
        wrong: dict[int, int] = {}

        def refuse(row: pacsv.InvalidRow) -> str:
            wrong[row.number - 1] = row.actual_columns
            return "skip"

        columns = (
            self._parse(text, refuse) if len(filled) else {name: pa.nulls(0, pa.string()) for name in self._listed}
        )
        rows = np.delete(filled, list(wrong))

        def text_of(index: int) -> str:
            return text[int(begins[index]) : int(ends[index])].decode()

        rejected = tuple(
            RejectedRow(line + int(filled[row]), self._misfit(fields), text_of(filled[row]))
            for row, fields in wrong.items()
        )
        return RawBlock(columns, line + rows, lambda row: text_of(rows[row]), rejected)

    def _is_plain(self, text: bytes, buffer: np.ndarray, newlines: np.ndarray) -> bool:
        if text.count(b"\r") != text.count(b"\r\n"):
            return False
        try:
            text.decode()
        except UnicodeDecodeError:
            return False
        quotes = np.flatnonzero(buffer == ord(self._source.settings.quote))
        if len(quotes) % 2:
            return False
        opening, closing = quotes[::2], quotes[1::2]
        before = np.where(opening > 0, buffer[opening - 1], _NEWLINE)
        delimiter = ord(self._source.settings.delimiter)
        return bool(
            np.isin(before, (delimiter, _NEWLINE)).all()
            and np.isin(buffer[closing + 1], (delimiter, _NEWLINE, _RETURN)).all()
            and (np.searchsorted(newlines, opening) == np.searchsorted(newlines, closing)).all()
        )

    @property
    def _listed(self) -> list[str]:
        return list(self._source.listed)

    def _parse(self, text: bytes, refuse: Callable[[pacsv.InvalidRow], str]) -> dict[str, pa.Array]:
        # The parser would take a byte order mark off, here where it is text of a row.
        content = BOM + text if text.startswith(BOM) else text
        table = pacsv.read_csv(
            pa.BufferReader(content),
            read_options=pacsv.ReadOptions(
                use_threads=False, column_names=list(self._names or ()), block_size=len(content) + 1
            ),
            parse_options=pacsv.ParseOptions(
                delimiter=self._source.settings.delimiter,
                quote_char=self._source.settings.quote,
                ignore_empty_lines=True,
                invalid_row_handler=refuse,
            ),
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(self._listed, pa.string()),
                include_columns=self._listed,
                strings_can_be_null=True,
                null_values=[""],
                check_utf8=False,
            ),
        )
        return {name: pa.concat_arrays(table.column(name).chunks) for name in self._listed}

    def _misfit(self, fields: int) -> str:
        columns = len(self._names or ())
        return f"unparsable row: {fields} field{'s' if fields != 1 else ''} where there are {columns} columns"

    def _careful_rows(self, text: bytes, line: int, final: bool) -> tuple[RawBlock, int]:
        """The rows of a block whose quotes may be anything, and the bytes that they take.

        A row that may go on in the next block, unless this is the `final` one, is left.
        """
        decoded = text.decode("utf-8", "surrogateescape")
        lines, broken = list(io.StringIO(decoded, newline="\n")), not _is_utf8(decoded)
        names, begin, stopped = self._names or (), 0, False

        def lines_from(first: int) -> Iterator[str]:
            nonlocal stopped
            size = 0
            for place in range(first, len(lines)):
                size = len(lines[place]) + (size if place > begin else 0)
                stopped = place > begin and (place - begin >= _LONGEST_IN_LINES or size > LONGEST_RECORD)
                if stopped:
                    return
                yield lines[place]

        rows: list[list[str]] = []
        places: list[tuple[int, int]] = []
        rejected: list[RejectedRow] = []

        def text_of(first: int, end: int) -> str:
            raw = "".join(lines[first:end]).removesuffix("\n").removesuffix("\r")
            return raw.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")

        def reject(reason: str, end: int) -> None:
            rejected.append(RejectedRow(line + begin, reason, text_of(begin, end)))

        while begin < len(lines):
            reader, start = csv.reader(lines_from(begin), **self._dialect), begin
            try:
                for fields in reader:
                    end = start + reader.line_num
                    if broken and not _is_utf8("".join(fields)):
                        reject(_NO_UTF8, end)
                    elif len(fields) == len(names):
                        rows.append(fields)
                        places.append((begin, end))
                    elif fields:
                        reject(self._misfit(len(fields)), end)
                    begin = end
            except csv.Error as error:
                is_open = "unexpected end of data" in str(error)
                if is_open and not stopped and not final:
                    break
                reject(f"unparsable row: {'a quoted field is never closed' if is_open else error}", begin + 1)
                begin += 1
        columns = {
            name: pa.array([row[place] or None for row in rows], pa.string())
            for name, place in ((name, names.index(name)) for name in self._listed)
        }
        numbers = line + np.array([first for first, _ in places], dtype=np.int64)
        taken = len("".join(lines[:begin]).encode("utf-8", "surrogateescape"))
        return RawBlock(columns, numbers, lambda row: text_of(*places[row]), tuple(rejected)), taken


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
