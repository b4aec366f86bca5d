"""The order of checked events that are in memory: by time, by file and line, with each key once.

Ingestion does the same on Spark, for days of any size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.events.columns import TIMESTAMP
from cep_pipeline.events.row_checks import FINER, LINE

FILE = "_file"
_FILES_NAMED = 5


def in_order(events: pa.Table, columns: list[str]) -> pa.Table:
    """The events sorted by these columns, the first of them the timestamp; nothing to do where they already are."""
    keys = [events.column(TIMESTAMP).cast(pa.int64()).to_numpy()]
    keys += [events.column(column).to_numpy() for column in columns[1:]]
    tied = np.ones(max(events.num_rows - 1, 0), dtype=bool)  # each row with the one behind it, by the columns before
    for key in keys:
        if (tied & (key[1:] < key[:-1])).any():
            return events.take(pa.array(np.lexsort(keys[::-1])))
        tied &= key[1:] == key[:-1]
    return events


@dataclass(frozen=True)
class TiedFiles:
    """The number of `times` at which several files have events, not all of one type; `first_us` is the earliest."""

    times: int = 0
    files: frozenset[str] = frozenset()
    first_us: int = 0

    def said(self, timezone: str) -> str:
        """A sentence for a person."""
        names = sorted(self.files)
        named = ", ".join(names[:_FILES_NAMED]) + (
            f" and {len(names) - _FILES_NAMED:,} more" * (len(names) > _FILES_NAMED)
        )
        first = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.first_us)).astimezone(
            ZoneInfo(timezone)
        )
        return (
            f"{named}: {'one time has' if self.times == 1 else f'{self.times:,} times have'} events of different types "
            f"in several files (first: {first.isoformat(sep=' ')}); the names of the files say which is earlier. If "
            "that matters, write finer times (to the nanosecond), or write TIES STRICT or TIES ANY in the patterns"
        )


def tied_files(events: pa.Table, type_attribute: str, files: Sequence[str]) -> TiedFiles:
    """Count the times at which several files have events, not all of one type, among events in order."""
    if len(files) < 2 or not events.num_rows:
        return TiedFiles()
    stamps = events.column(TIMESTAMP).cast(pa.int64()).to_numpy()
    finer, file = (events.column(name).to_numpy() for name in (FINER, FILE))
    same = (stamps[1:] == stamps[:-1]) & (finer[1:] == finer[:-1])
    if not (same & (file[1:] != file[:-1])).any():
        return TiedFiles()
    first = np.flatnonzero(np.concatenate([[True], ~same]))
    types = pc.dictionary_encode(events.column(type_attribute).combine_chunks()).indices.to_numpy()
    differ = [np.minimum.reduceat(of, first) != np.maximum.reduceat(of, first) for of in (file, types)]
    tied = differ[0] & differ[1]
    if not tied.any():
        return TiedFiles()
    within = np.repeat(tied, np.diff(np.append(first, len(stamps))))
    names = frozenset(files[number] for number in np.unique(file[within]).tolist())
    return TiedFiles(int(tied.sum()), names, int(stamps[first[tied][0]]))


def first_of_each_key(events: pa.Table, key: Sequence[str]) -> np.ndarray:
    """Index of the first event, in order of arrival (`_file` and `_line`), with the same key as each event.

    A timestamp is compared to the nanosecond.
    """
    codes = np.zeros(events.num_rows, dtype=np.int64)
    for name in (*key, *([FINER] if TIMESTAMP in key else [])):
        encoded = pc.dictionary_encode(events.column(name).combine_chunks(), null_encoding="encode")
        column = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        _, codes = np.unique(codes * (len(encoded.dictionary) + 1) + column, return_inverse=True)
    arrival = np.lexsort([events.column(LINE).to_numpy(), events.column(FILE).to_numpy()])
    _, first = np.unique(codes[arrival], return_index=True)
    return np.asarray(arrival[first][codes], dtype=np.int64)
