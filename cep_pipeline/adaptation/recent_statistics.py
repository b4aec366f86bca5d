"""Statistics on the fly: of the events that have come last, a snapshot whenever a decision asks for one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cep_pipeline.adaptation.event_stream import EventStream
from cep_pipeline.detection.prepared import PreparedEvents
from cep_pipeline.errors import InputError
from cep_pipeline.patterns.pattern import Pattern, Window
from cep_pipeline.statistics import StatisticsSnapshot, WindowedStatistics, windowed_statistics
from cep_pipeline.statistics.estimate import parse_duration_us

PAIRS_A_CHECK = 4096
"""Pairs that are tested a scope between two decisions, unless told otherwise."""


class RecentStatistics:
    """The state of `WindowedStatistics` over a stream, carried on from decision to decision.

    Parameters
    ----------
    patterns
        Those that are planned.
    window
        How far back the statistics reach.
    seed
        Decides which pairs are drawn.
    max_pairs
        At most this many pairs are tested a scope of the events between two decisions.
    """

    def __init__(
        self, patterns: Sequence[Pattern], window: Window, *, seed: int = 0, max_pairs: int = PAIRS_A_CHECK
    ) -> None:
        if max_pairs < 1:
            raise InputError(f"max_pairs is {max_pairs}: at least one pair must be tested")
        self._patterns, self._seed, self._max_pairs = patterns, seed, max_pairs
        self._state = WindowedStatistics.of(patterns, window)
        self._reach_us = max((pattern.window.time_us or 0 for pattern in patterns), default=0)
        self._reach = max((pattern.window.events or 1 for pattern in patterns), default=1) - 1

    def update(self, stream: EventStream, first: int, stop: int) -> None:
        """Count the events of the rows `[first, stop)`, which follow those counted before."""
        if first == stop:
            return
        timestamps = stream.timestamps
        by_time = int(np.searchsorted(timestamps, max(int(timestamps[first]) - self._reach_us, -(2**63)), "left"))
        start = max(min(by_time, first - self._reach), 0)
        pattern = self._patterns[0]
        events = PreparedEvents(
            stream.table.slice(start, stop - start),
            type_attribute=pattern.type_attribute,
            base_type=pattern.base_type,
        )
        self._state.merge(
            windowed_statistics(
                self._patterns,
                events,
                self._state.window,
                self._state.epsilon,
                start=stream.boundary(first),
                seed=self._seed + first,
                max_pairs=self._max_pairs,
            )
        )

    def snapshot(self) -> StatisticsSnapshot:
        """The statistics of the window that ends with the latest event."""
        return self._state.snapshot()


def statistics_window(window: str | int | None, every_events: int | None, every_us: int | None) -> Window:
    """How far back statistics reach: a length of time, a number of events, or as far as the decision before the last.

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
    return Window(events=2 * every_events) if every_events is not None else Window(time_us=2 * (every_us or 1))
