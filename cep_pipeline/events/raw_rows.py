"""Rows between the reading of a raw file and the checks: blocks of rows, parts of files, and rejected rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa

from cep_pipeline.events.raw_files import Period
from cep_pipeline.foreign_text import shortened, shortened_message


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
