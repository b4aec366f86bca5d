"""A block of raw rows: columns as they stand in the file, with the line of each row and its text."""

from __future__ import annotations

import hashlib
import io
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


class HashingReader(io.RawIOBase):
    """Reads a file and hashes every byte on the way, so that content and fingerprint are of one reading."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream
        self._hasher = hashlib.sha256()
        self.bytes_read = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        data: bytes = self._stream.read(size if size is not None and size >= 0 else None)
        self._hasher.update(data)
        self.bytes_read += len(data)
        return data

    def finish(self) -> str:
        """Read what is left and return the sha256 of the whole file in hex."""
        while self.read(1 << 20):
            pass
        return self._hasher.hexdigest()
