"""Where the records of a block of CSV text begin and end, on which lines, and with how many fields.

Almost all lines are plain, and are found with a few passes of NumPy over the bytes. Lines whose quotes are not in
order (an embedded newline, a stray quote) are read one by one by the standard library's strict CSV reader; an opening
quote that is never closed costs its own line only, not the rest of the file.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass

import numpy as np

_NEWLINE, _RETURN = 10, 13
LONGEST_RECORD = 1 << 20
"""Bytes after which a quoted field that is still open counts as never closed."""
_LONGEST_IN_LINES = 1000


@dataclass(frozen=True)
class Lines:
    """The physical lines of a block.

    Parameters
    ----------
    starts, ends
        int64, offsets of the content of each line; `ends` is before the newline (and before a carriage return).
    following
        int64, offset at which the next line begins.
    fields
        int64, number of fields of a line whose quotes are in order.
    blank, odd
        bool: nothing on the line; its quotes or carriage returns need the careful reader.
    """

    starts: np.ndarray
    ends: np.ndarray
    following: np.ndarray
    fields: np.ndarray
    blank: np.ndarray
    odd: np.ndarray

    def __getitem__(self, selection: slice) -> Lines:
        """The same for some of the lines; offsets stay those of the whole text."""
        return Lines(
            self.starts[selection],
            self.ends[selection],
            self.following[selection],
            self.fields[selection],
            self.blank[selection],
            self.odd[selection],
        )


@dataclass(frozen=True)
class OddRecord:
    """What the careful reader made of the lines `first` to `last` (both included): fields, or why not."""

    first: int
    last: int
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
    returns = np.flatnonzero(buffer == _RETURN)
    odd = np.zeros(len(starts), dtype=bool)
    if len(returns):
        has_content = ends > starts
        ends = ends - (has_content & (buffer[np.maximum(ends - 1, 0)] == _RETURN))
        # A carriage return that ends no line.
        line = np.searchsorted(following, returns, side="right")
        odd[line[returns < ends[line]]] = True
    delimiters = np.flatnonzero(buffer == ord(delimiter))
    quotes = np.flatnonzero(buffer == ord(quote))
    if len(quotes):
        odd |= _disorderly_quotes(buffer, starts, ends, following, delimiters, quotes, ord(delimiter))
        line = np.searchsorted(following, delimiters, side="right")
        before = np.searchsorted(quotes, delimiters) - np.searchsorted(quotes, starts)[line]
        line = line[before % 2 == 0]
    else:
        line = np.searchsorted(following, delimiters, side="right")
    fields = np.bincount(line, minlength=len(starts)) + 1
    return Lines(starts, ends, following, fields, ends == starts, odd)


def _disorderly_quotes(
    buffer: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    following: np.ndarray,
    delimiters: np.ndarray,
    quotes: np.ndarray,
    delimiter: int,
) -> np.ndarray:
    """Lines in which a quote does not open at the start of a field, close at its end, or stand doubled inside it."""
    line = np.searchsorted(following, quotes, side="right")
    number = np.arange(len(quotes)) - np.searchsorted(quotes, starts)[line]
    opens = number % 2 == 0
    previous = buffer[np.maximum(quotes - 1, 0)]
    follower = buffer[np.minimum(quotes + 1, len(buffer) - 1)]
    twin_before = np.concatenate([[False], (np.diff(quotes) == 1) & (line[1:] == line[:-1])])
    twin_after = np.concatenate([twin_before[1:], [False]])
    starts_field = (quotes == starts[line]) | (previous == delimiter) | (twin_before & (number > 0))
    ends_field = (quotes + 1 == ends[line]) | (follower == delimiter) | twin_after
    wrong = np.where(opens, ~starts_field, ~ends_field)
    disorderly = np.bincount(line[wrong], minlength=len(starts)) > 0
    unpaired = np.bincount(line, minlength=len(starts)) % 2 == 1
    return np.asarray(disorderly | unpaired, dtype=bool)


def read_odd_records(
    text: bytes, lines: Lines, delimiter: str, quote: str, *, final: bool
) -> tuple[list[OddRecord], int]:
    """Read the records that begin on odd lines.

    Parameters
    ----------
    text, lines
        A block, and its lines by `split_lines`.
    final
        Whether the file ends with this block.

    Returns
    -------
    records
        In order; their lines do not overlap.
    consumed
        Number of lines that are complete: a record that may go on in the next block begins at this line.
    """
    records: list[OddRecord] = []
    taken = 0
    for first in np.flatnonzero(lines.odd).tolist():
        if first < taken:
            continue
        record = _read_record(text, lines, first, delimiter, quote)
        if record is None:
            rest = len(text) - int(lines.starts[first])
            if not final and rest < LONGEST_RECORD and len(lines.starts) - first < _LONGEST_IN_LINES:
                return records, first
            record = OddRecord(first, first, None, "a quoted field is never closed")
        records.append(record)
        taken = record.last + 1
    return records, len(lines.starts)


def _read_record(text: bytes, lines: Lines, first: int, delimiter: str, quote: str) -> OddRecord | None:
    """One record from its first line on; None where a quoted field is still open at the end of the text."""
    last_allowed = min(first + _LONGEST_IN_LINES, len(lines.starts))
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
        return OddRecord(first, first, None, str(error))
    except StopIteration:
        return None
    return OddRecord(first, first + reader.line_num - 1, tuple(fields))
