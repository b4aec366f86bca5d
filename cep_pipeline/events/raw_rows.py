"""The rows of raw files on their way to the checks: blocks of rows, rejected rows, and who reads them.

A format is a `RowReader`. One of text is a `TextReader`, which is given whole lines and says which rows they have:
opening and unpacking stand here.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import date
from pathlib import PurePosixPath
from typing import Any, Self

import numpy as np
import pyarrow as pa

from cep_pipeline.errors import InputError
from cep_pipeline.events.raw_files import Period, SourceFile, open_raw, readable
from cep_pipeline.events.source import SourceLayout
from cep_pipeline.foreign_text import shortened, shortened_message
from cep_pipeline.guarded import without_collecting

BLOCK_CHARACTERS = 2 << 20
"""Text that is parsed at once; many times this much may be held in memory."""
_LONGEST_LINE = 64 << 20
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

    The bounds are dates, a day wider than the values for any time zone; None where the file does not say them for all
    rows. Its rows are numbered from `first_row`, which counts from 1.
    """

    index: int
    first_row: int
    rows: int
    bounds: tuple[date, date] | None

    def may_hold(self, days: Sequence[date], period: Period) -> bool:
        """Return True if it may have rows of these days; rows without a usable timestamp count as of the first day."""
        if self.bounds is None or period.first is None:
            return True
        first, last = self.bounds
        stray = first not in period or last not in period
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

    @classmethod
    def parts_of(cls, file: SourceFile, source: SourceLayout) -> Sequence[FilePart] | None:
        """Return the parts of a file that can be read on their own; None: it is read as a whole."""
        return None

    @classmethod
    def check(cls, source: SourceLayout) -> None:
        """Refuse, with an InputError, a layout that files of this format cannot have."""
        if source.settings.columns:
            raise InputError("source.columns is only for CSV files; leave it out, or write `format: csv`")

    def _note_dropped(self, names: Sequence[str]) -> None:
        listed = set(self._source.listed)
        self.dropped_columns = tuple(name for name in names if name not in listed)


class TextReader(RowReader):
    """Reads the rows of one file of text, some lines at a time.

    The ending of its path says how it is compressed. About `at_once` characters are read at once. While iterating, a
    file that is truncated or corrupt is an InputError. A byte that is no UTF-8 is a surrogate in its line.
    """

    def __init__(
        self,
        file: SourceFile,
        source: SourceLayout,
        parts: Sequence[FilePart] | None = None,
        *,
        at_once: int = BLOCK_CHARACTERS,
    ) -> None:
        super().__init__(file, source, parts)
        raw = self._opened.enter_context(open_raw(file.path))
        codec = _COMPRESSIONS.get(PurePosixPath(file.path).suffix.lower())
        stream = pa.CompressedInputStream(raw, codec) if codec else raw
        buffered = io.BufferedReader(stream, 1 << 20)
        self._text = io.TextIOWrapper(buffered, "utf-8-sig", "surrogateescape", newline="\n")
        self._at_once = at_once

    @abstractmethod
    def take(self, lines: Sequence[str], line: int, *, final: bool) -> tuple[RawBlock | None, int]:
        """Return the rows of some lines, the first of which has this number, and the number of lines that they take.

        Lines that are left come again, with those behind them; behind the `final` lines there is nothing.
        """

    def __iter__(self) -> Iterator[RawBlock]:
        left: Sequence[str] = ()
        line, final = 1, False
        while not final:
            read = self._read()
            lines, final = [*left, *read], not read
            with without_collecting():
                block, taken = self.take(lines, line, final=final) if lines else (None, 0)
            line, left = line + taken, lines[taken:]
            if block is not None and (block.rows or block.rejected):
                yield block

    def _read(self) -> list[str]:
        lines, size = [], 0
        with readable(self._path):
            while size < self._at_once and (line := self._text.readline(_LONGEST_LINE)):
                lines.append(line)
                size += len(line)
        if lines and len(lines[-1]) == _LONGEST_LINE:
            raise InputError(f"{self._path}: no line ends within {_LONGEST_LINE} characters; this is no text of rows")
        return lines
