"""The reader of CSV files: a stream of blocks of rows, every row with its physical line.

Almost all lines are plain, and are found with a few passes of NumPy over the bytes. Lines whose quotes are not in
order (an embedded newline, a stray quote) are read one by one by the standard library's strict CSV reader; an opening
quote that is never closed costs its own line only, not the rest of the file.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from cep_pipeline.errors import InputError
from cep_pipeline.events.raw_rows import BOM, RawBlock, RejectedRow, TextPart, TextReader
from cep_pipeline.events.source import SourceLayout
from cep_pipeline.foreign_text import listed


class CsvReader(TextReader):
    """Reads the rows of one CSV file; one whose header lacks a column that the schema reads is an InputError."""

    def _open(self, part: TextPart) -> None:
        super()._open(part)
        self._names = part.names or (None if self._source.header else self._source.names)
        if self._names:
            self._note_dropped(self._names)

    @classmethod
    def check(cls, source: SourceLayout) -> None:
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
            for piece in self._pieces(begins=part.first_row == 1):
                text, (lines, odd) = piece.text, piece.found
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

    def _records(self, text: bytes, *, final: bool, careful: bool) -> tuple[int, bool, Any]:
        delimiter, quote = self._source.delimiter, self._source.quote
        if not careful and quote.encode() not in text:
            return len(text), True, None  # each line is a row
        lines = split_lines(text, delimiter, quote)
        if not lines.odd.any():
            return len(text), True, (lines, [])
        # An open quote may go on in the next piece.
        odd, complete = read_odd_records(text, lines, delimiter, quote, final=final)
        end = int(lines.starts[complete]) if complete < len(lines.starts) else len(text)
        return end, all(record.seen < complete for record in odd), (lines[:complete], odd)

    def _read_header(self, text: bytes, lines: Lines | None = None) -> int:
        """Read the header off the first text; returns the number of lines up to its end."""
        lines = lines or split_lines(text, self._source.delimiter, self._source.quote)
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

    def _other_delimiter(self, header: str) -> str:
        """A hint where a header looks as if another character stood between its columns."""
        near = max(",;\t|", key=header.count)
        if near == self._source.delimiter or near not in header:
            return ""
        return f"; it looks separated by {near!r}: write `delimiter: {json.dumps(near)}` in `source` of the schema"

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
    if clean.startswith(BOM):
        # The parser would take it off, here where it is text of a row.
        clean = BOM + clean
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
