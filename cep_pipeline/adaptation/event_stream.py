"""A stream of events as the detection-adaptation loop reads it: a table, or tables that come one after another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from cep_pipeline.detection.events_input import events_for
from cep_pipeline.errors import InputError
from cep_pipeline.patterns.pattern import Pattern

Array = np.ndarray[Any, Any]


class EventStream:
    """The events that have come so far; they stay, since RETURN may ask for those of any match.

    Parameters
    ----------
    patterns
        Patterns of the stream.
    events
        An events table, or tables or record batches in the order of the stream, which are asked for as they are needed.

    Attributes
    ----------
    arrived
        So many events the loop has seen; those behind them may have been read, but count for nothing yet.
    ended
        Whether there are no events but those that have been read.
    """

    def __init__(self, patterns: Sequence[Pattern], events: pa.Table | Iterable[pa.Table | pa.RecordBatch]) -> None:
        self._patterns = patterns
        self._source: Iterator[pa.Table | pa.RecordBatch] = iter((events,) if isinstance(events, pa.Table) else events)
        self._parts: list[pa.Table] = []
        self._timestamps = np.empty(0, np.int64)
        self._read = 0
        self._last: tuple[int, int] | None = None
        self._seqs_grow = True
        self.arrived = 0
        self.ended = False

    def __len__(self) -> int:
        """Events that have been read."""
        return self._read

    @property
    def timestamps(self) -> Array:
        """int64: microseconds since the epoch, of the events that have been read."""
        return self._timestamps[: self._read]

    @property
    def table(self) -> pa.Table:
        """The events that have been read, with the columns that the patterns need; at least one table has come."""
        if len(self._parts) > 1:
            try:
                self._parts = [pa.concat_tables(self._parts)]
            except pa.ArrowInvalid as error:
                raise InputError(f"tables of one stream must have columns of the same types: {error}") from error
        return self._parts[0]

    def advance_by(self, events: int) -> tuple[int, int]:
        """See the next so many events, or those that are left; their rows `[first, stop)`."""
        first = self.arrived
        while self._read < first + events and self._pull():
            pass
        self.arrived = min(first + events, self._read)
        return first, self.arrived

    def advance_to(self, timestamp: int) -> tuple[int, int]:
        """See all events before an instant; their rows `[first, stop)`."""
        first = self.arrived
        while (not self._read or self._timestamps[self._read - 1] < timestamp) and self._pull():
            pass
        self.arrived = int(np.searchsorted(self.timestamps, timestamp, "left"))
        return first, self.arrived

    def has_more(self) -> bool:
        """Whether there are events that the loop has not seen."""
        while self.arrived == self._read and self._pull():
            pass
        return self.arrived < self._read

    def boundary(self, row: int) -> tuple[int, int] | None:
        """The point `(timestamp, seq)` of an event; None for one that has not been read."""
        if row >= self._read:
            return None
        return int(self._timestamps[row]), self.table.column("seq")[row].as_py()

    def _pull(self) -> bool:
        """Read the next table; False where there is none."""
        if self.ended:
            return False
        part = next(self._source, None)
        if part is None:
            self.ended = True
            if not self._seqs_grow:
                events_for(self._patterns, self.table)  # a seq may be in two of the tables
            return False
        table = events_for(self._patterns, pa.Table.from_batches([part]) if isinstance(part, pa.RecordBatch) else part)
        self._parts.append(table)
        if table.num_rows:
            self._take(table)
        return True

    def _take(self, table: pa.Table) -> None:
        timestamps = table.column("timestamp").cast(pa.int64()).to_numpy()
        seqs = table.column("seq").to_numpy()
        first, last = (int(timestamps[0]), int(seqs[0])), (int(timestamps[-1]), int(seqs[-1]))
        if self._last is not None and first <= self._last:
            raise InputError(
                f"the events are not sorted by (timestamp, seq): a table begins with {first} after one that ends with "
                f"{self._last}; hand the tables over in the order of the stream"
            )
        grow = bool((np.diff(seqs) > 0).all())
        self._seqs_grow = self._seqs_grow and grow and (self._last is None or first[1] > self._last[1])
        self._last = last
        stop = self._read + len(timestamps)
        if stop > len(self._timestamps):
            room = np.empty(max(stop, 2 * len(self._timestamps)), np.int64)
            room[: self._read] = self.timestamps
            self._timestamps = room
        self._timestamps[self._read : stop] = timestamps
        self._read = stop
