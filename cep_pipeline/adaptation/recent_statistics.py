"""Statistics on the fly: of the events that have come last, a snapshot whenever a decision asks for one."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

from cep_pipeline.adaptation.event_stream import EventStream
from cep_pipeline.errors import InputError
from cep_pipeline.patterns.pattern import Pattern, Window, parse_duration_us
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
    first, since_us
        The first of its rows, and when that event came.
    after_us
        When the one before came; None where there is none.
    """

    first: int
    since_us: int
    after_us: int | None
    counts: PartialStatistics


class RecentStatistics:
    """Counts between decisions, of as many of them as the window holds.

    Parameters
    ----------
    patterns
        Those that are planned.
    window
        How far back the statistics reach: whole parts between decisions that lie in it, and always some of the last;
        None: the last two parts.
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
        self, patterns: Sequence[Pattern], window: Window | None, *, seed: int = 0, max_pairs: int = PAIRS_A_CHECK
    ) -> None:
        if max_pairs < 1:
            raise InputError(f"max_pairs is {max_pairs}: at least one pair must be tested")
        self._patterns, self._window, self._seed, self._max_pairs = patterns, window, seed, max_pairs
        self._reach_us = max((pattern.window.time_us or 0 for pattern in patterns), default=0)
        self._reach = max((pattern.window.events or 1 for pattern in patterns), default=1) - 1
        self._parts: deque[_Part] = deque()
        self._last_us: int | None = None  # when the last event came of those counted

    def update(self, stream: EventStream, first: int, stop: int) -> None:
        """Count the events of the rows `[first, stop)`, at least one, which follow those counted before."""
        begin, first = first, self._slide(stream, first, stop)
        after_us = self._last_us if first == begin else stream.time_of(first - 1)
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
        self._parts.append(_Part(first, stream.time_of(first), after_us, counts))
        self._last_us = stream.time_of(stop - 1)

    def _slide(self, stream: EventStream, first: int, stop: int) -> int:
        """Drop the parts that have left the window; returns the first new row inside it."""
        window = self._window
        if window is None:
            while len(self._parts) > 1:
                self._parts.popleft()
        elif window.time_us is not None:
            earliest_us = stream.time_of(stop - 1) - window.time_us
            first = max(first, stream.row_at(earliest_us))
            while self._parts and self._parts[0].since_us < earliest_us:
                self._parts.popleft()
        else:
            first = max(first, stop - (window.events or 1))
            while self._parts and self._parts[0].first < stop - (window.events or 1):
                self._parts.popleft()
        return first

    def reads_from(self, stream: EventStream, first: int) -> int:
        """The row from which on events are read to count those from `first` on: windows reach back before them."""
        by_time = stream.row_at(stream.time_of(first) - self._reach_us)
        return max(min(by_time, first - self._reach), stream.first)

    def snapshot(self) -> StatisticsSnapshot:
        """The statistics of the window that ends with the latest event."""
        whole = reduce(add, (part.counts for part in self._parts))
        length_us, after_us = None if self._window is None else self._window.time_us, self._parts[0].after_us
        if length_us is not None and after_us is not None and whole.end_us is not None:
            # Rates are those of the window's time, also of that without events, not from its first event on.
            whole = replace(whole, start_us=max(after_us, whole.end_us - length_us))
        return snapshot_of(
            whole,
            kind=Kind.WINDOW,
            as_of_us=whole.end_us,
            window_us=length_us,
            window_events=whole.events if self._window is None else self._window.events,
        )


def statistics_window(window: str | int | None, every_events: int | None, every_us: int | None) -> Window | None:
    """The reach of statistics: a length of time, a number of events, or as far as the decision before the last.

    Returns
    -------
    Window or None
        None where it is not said how far that is: intervals of no fixed length.

    Raises
    ------
    InputError
        `window` is neither a length of time nor a number of events.
    """
    if isinstance(window, int):
        if window < 1:
            raise InputError(f"the statistics' window is {window} events; it is one or more")
        return Window(events=window)
    if window is not None:
        return Window(time_us=parse_duration_us(window))
    if every_us is not None:
        return Window(time_us=2 * every_us)
    return None if every_events is None else Window(events=2 * every_events)
