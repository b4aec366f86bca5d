"""A stream of events as the detection-adaptation loop reads it: a table, or tables that come one after another.

Statistics on the fly stand behind it: of the events that have come last, a snapshot whenever a decision asks for one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from cep_pipeline.errors import InputError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.events_input import events_for
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics import Kind, PartialStatistics, StatisticsSnapshot, partial_statistics
from cep_pipeline.statistics.estimate import snapshot_of

Array = np.ndarray[Any, Any]
_INT64 = np.iinfo(np.int64)


class EventStream:
    """The events that have come so far, but for those that nobody needs any more.

    Rows count from the beginning of the stream, whatever is held of it.

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
    first
        The row of the first event that is held.
    """

    def __init__(self, patterns: Sequence[Pattern], events: pa.Table | Iterable[pa.Table | pa.RecordBatch]) -> None:
        self._patterns = patterns
        self._source: Iterator[pa.Table | pa.RecordBatch] = iter((events,) if isinstance(events, pa.Table) else events)
        self._parts: list[pa.Table] = []
        self._timestamps = np.empty(0, np.int64)
        self._held = 0
        self._start_us: int | None = None
        self._last: tuple[int, int] | None = None
        self.first = 0
        self.arrived = 0
        self.ended = False

    def __len__(self) -> int:
        """Events that have been read, whether or not they are still held."""
        return self.first + self._held

    @property
    def start_us(self) -> int:
        """Time of the first event of all; at least one has been read."""
        assert self._start_us is not None
        return self._start_us

    @property
    def table(self) -> pa.Table:
        """The events that are held, with the columns that the patterns need; at least one table has come."""
        if len(self._parts) > 1:
            try:
                self._parts = [pa.concat_tables(self._parts)]
            except pa.ArrowInvalid as error:
                raise InputError(f"tables of one stream must have columns of the same types: {error}") from error
        return self._parts[0]

    def between(self, first: int, stop: int) -> pa.Table:
        """The events of the rows `[first, stop)`, all of which are held."""
        assert self.first <= first <= stop <= len(self), f"rows {first} to {stop} of {self.first} to {len(self)}"
        return self.table.slice(first - self.first, stop - first)

    def time_of(self, row: int) -> int:
        """Time of an event that is held, in microseconds since the epoch."""
        assert self.first <= row < len(self), f"row {row} of {self.first} to {len(self)}"
        return int(self._timestamps[row - self.first])

    def row_at(self, timestamp: int, side: Literal["left", "right"] = "left") -> int:
        """The row of the first event at this instant or later ("right": later), of those that are held; their end."""
        bounded = max(min(timestamp, _INT64.max), _INT64.min)
        return self.first + int(np.searchsorted(self._timestamps[: self._held], bounded, side))

    def forget(self, before: int) -> None:
        """Let go of events that nobody needs any more: of all before this row, once they are half of what is held."""
        gone = before - self.first
        if gone < max(self._held - gone, 1):
            return
        self._parts = [self.table.slice(gone)]
        self._timestamps = self._timestamps[gone : self._held].copy()
        self._held -= gone
        self.first = before

    def advance_by(self, events: int) -> tuple[int, int]:
        """See the next so many events, or those that are left; their rows `[first, stop)`."""
        first = self.arrived
        while len(self) < first + events and self._pull():
            pass
        self.arrived = min(first + events, len(self))
        return first, self.arrived

    def advance_to(self, timestamp: int) -> tuple[int, int]:
        """See all events before an instant; their rows `[first, stop)`."""
        first = self.arrived
        while (self._last is None or self._last[0] < timestamp) and self._pull():
            pass
        self.arrived = self.row_at(timestamp)
        return first, self.arrived

    def has_more(self) -> bool:
        """True if there are events that the loop has not seen."""
        while self.arrived == len(self) and self._pull():
            pass
        return self.arrived < len(self)

    def boundary(self, row: int) -> tuple[int, int] | None:
        """The point `(timestamp, seq)` of an event; None for one that has not been read."""
        if row >= len(self):
            return None
        return self.time_of(row), self.table.column("seq")[row - self.first].as_py()

    def _pull(self) -> bool:
        """Read the next table; False where there is none."""
        if self.ended:
            return False
        part = next(self._source, None)
        if part is None:
            self.ended = True
            return False
        table = events_for(self._patterns, pa.Table.from_batches([part]) if isinstance(part, pa.RecordBatch) else part)
        for name in {pattern.type_attribute for pattern in self._patterns}.intersection(table.column_names):
            if pa.types.is_string(table.schema.field(name).type):  # once, not for every part that is looked at
                column = table.column(name).dictionary_encode()
                table = table.set_column(table.column_names.index(name), name, column)
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
        self._last = last
        if self._start_us is None:
            self._start_us = first[0]
        stop = self._held + len(timestamps)
        if stop > len(self._timestamps):
            room = np.empty(max(stop, 2 * len(self._timestamps)), np.int64)
            room[: self._held] = self._timestamps[: self._held]
            self._timestamps = room
        self._timestamps[self._held : stop] = timestamps
        self._held = stop


PAIRS_A_CHECK = 2048
"""Pairs that are tested a scope between two decisions, unless told otherwise."""
PAIRS_OF_ONE = 2
"""Pairs that are tested of each first event, where a scope has more than are tested."""


@dataclass(frozen=True, slots=True)
class _Part:
    """The counts between two decisions.

    Attributes
    ----------
    first
        The first of its rows.
    """

    first: int
    counts: PartialStatistics


class RecentStatistics:
    """Counts between decisions, of as many of them as the window holds.

    Parameters
    ----------
    patterns
        Those that are planned.
    window
        The number of events that the statistics reach back: whole parts between decisions that lie in it, and always
        some of the last; None: the last two parts.
    seed
        Decides which pairs are drawn.
    max_pairs
        At most this many pairs are tested a scope of the events between two decisions.

    Notes
    -----
    A window over a stream in one process needs no histogram: that of the daily statistics (`WindowedStatistics`) is
    for states that are stored, and costs more to carry on than it costs to count the events.
    """

    def __init__(
        self, patterns: Sequence[Pattern], window: int | None, *, seed: int = 0, max_pairs: int = PAIRS_A_CHECK
    ) -> None:
        if max_pairs < 1:
            raise InputError(f"max_pairs is {max_pairs}: at least one pair must be tested")
        self._patterns, self._window, self._seed, self._max_pairs = patterns, window, seed, max_pairs
        self._reach_us = max((pattern.window.time_us or 0 for pattern in patterns), default=0)
        self._reach = max((pattern.window.events or 1 for pattern in patterns), default=1) - 1
        self._parts: deque[_Part] = deque()

    def update(self, stream: EventStream, first: int, stop: int) -> None:
        """Count the events of the rows `[first, stop)`, at least one, which follow those counted before."""
        first = self._slide(first, stop)
        start = self.reads_from(stream, first)
        pattern = self._patterns[0]
        events = PreparedEvents(
            stream.between(start, stop), type_attribute=pattern.type_attribute, base_type=pattern.base_type
        )
        counts = partial_statistics(
            self._patterns,
            events,
            start=first - start,
            seed=self._seed + first,
            max_pairs=self._max_pairs,
            most_first=max(self._max_pairs // PAIRS_OF_ONE, 1),
        )
        self._parts.append(_Part(first, counts))

    def _slide(self, first: int, stop: int) -> int:
        """Drop the parts that have left the window; returns the first new row inside it."""
        if self._window is None:
            while len(self._parts) > 1:
                self._parts.popleft()
            return first
        while self._parts and self._parts[0].first < stop - self._window:
            self._parts.popleft()
        return max(first, stop - self._window)

    def reads_from(self, stream: EventStream, first: int) -> int:
        """The row from which on events are read to count those from `first` on: windows reach back before them."""
        by_time = stream.row_at(stream.time_of(first) - self._reach_us)
        return max(min(by_time, first - self._reach), stream.first)

    def snapshot(self) -> StatisticsSnapshot:
        """The statistics of the window that ends with the latest event."""
        whole = reduce(add, (part.counts for part in self._parts))
        events = whole.events if self._window is None else self._window
        return snapshot_of(whole, kind=Kind.WINDOW, as_of_us=whole.end_us, window_events=events)
