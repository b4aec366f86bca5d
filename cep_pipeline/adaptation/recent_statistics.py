"""Statistics on the fly: of the events that have come last, a snapshot whenever a decision asks for one."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

from cep_pipeline.adaptation.event_stream import EventStream
from cep_pipeline.errors import InputError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics import Kind, PartialStatistics, StatisticsSnapshot, partial_statistics
from cep_pipeline.statistics.partial import snapshot_of

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
