"""A block of raw rows: columns as they stand in the file, with the line of each row and its text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cep_pipeline.events.rejection import Rejected


@dataclass(frozen=True)
class RawBlock:
    """Consecutive rows of a raw file.

    Parameters
    ----------
    columns
        Source column -> its values, text for CSV, whatever the file has for Parquet.
    lines
        int64, the line (row number in Parquet) of each row, from 1, ascending.
    raw
        Text of the row at an index of this block.
    rejected
        Rows that could not be taken apart into columns; they are not in `columns`.
    """

    columns: Mapping[str, pa.Array]
    lines: np.ndarray
    raw: Callable[[int], str]
    rejected: tuple[Rejected, ...] = ()

    @property
    def rows(self) -> int:
        return len(self.lines)
