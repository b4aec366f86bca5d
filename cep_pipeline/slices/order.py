"""Order in a stream: what before, after, TIES and windows mean for the rows of a slice (docs/language.md, section 3).

A slice is sorted by `(timestamp, seq)`, so an order of events is an order of rows. Under TIES STRICT and ANY events of
one timestamp are not in the order of their rows, and "before" and "after" become ranges of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.pattern import Pattern, Ties
from cep_pipeline.slices.keys import agreeing_view
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import clock_of, everything

WIDEST = 1 << 62
"""Instants of the events of a slice differ by less."""


@dataclass(frozen=True, eq=False)
class StreamOrder:
    """The meaning of "a before b" for rows of a slice, by the pattern's TIES (docs/language.md, section 3.2).

    Attributes
    ----------
    timestamps
        int64, shape (n,): microseconds, ascending.
    ties
        `ARRIVAL`: an earlier row. `STRICT`: an earlier timestamp. `ANY`: the same timestamp or an earlier one, whatever
        the rows; callers see to it that the two events are distinct.

    Examples
    --------
    >>> clock = np.array([10, 20, 20, 30])
    >>> rows = np.array([1, 2])
    >>> for ties in Ties:
    ...     order = StreamOrder(clock, ties)
    ...     print(ties.name, order.rows_after(rows).tolist(), order.rows_ahead(rows).tolist())
    ARRIVAL [2, 3] [1, 2]
    STRICT [3, 3] [1, 1]
    ANY [1, 1] [3, 3]
    """

    timestamps: Array
    ties: Ties

    def rows_after(self, rows: Array) -> Array:
        """The first row that comes after each of some events; under TIES ANY their own rows may lie behind it.

        Returns
        -------
        Array
            int64, shape of `rows`: all rows from there on come after the event.
        """
        match self.ties:
            case Ties.ARRIVAL:
                return rows.astype(np.int64, copy=False) + 1
            case Ties.STRICT:
                return np.searchsorted(self.timestamps, self.timestamps[rows], "right")
            case Ties.ANY:
                return np.searchsorted(self.timestamps, self.timestamps[rows], "left")

    def rows_ahead(self, rows: Array) -> Array:
        """The number of rows that come before each of some events; under TIES ANY their own may be among them.

        Returns
        -------
        Array
            int64, shape of `rows`: all rows below it come before the event.
        """
        match self.ties:
            case Ties.ARRIVAL:
                return rows.astype(np.int64, copy=False)
            case Ties.STRICT:
                return np.searchsorted(self.timestamps, self.timestamps[rows], "left")
            case Ties.ANY:
                return np.searchsorted(self.timestamps, self.timestamps[rows], "right")

    def holds(self, first: Array, second: Array) -> Array:
        """bool, shape of both: the event of row `first` is before the event of row `second`; they are distinct."""
        if self.ties is Ties.ARRIVAL:
            return np.asarray(first < second)
        one, other = self.timestamps[first], self.timestamps[second]
        return np.asarray(one < other if self.ties is Ties.STRICT else one <= other)


@dataclass(frozen=True, eq=False)
class WindowInstants:
    """The instants in which the window of a pattern is measured.

    Attributes
    ----------
    of_row
        int64: the timestamp of each event, or its position in the stream or in its partition.
    width
        The most by which the instants of a match differ.
    rows, starts
        For positions in partitions: the rows sorted by (partition, stream order), and where each partition starts.
    place
        For those: the place in `rows` of each event, or -1 where it is alone.
    """

    of_row: Array
    width: int
    rows: Array | None = None
    starts: Array | None = None
    place: Array | None = None

    def first_row_within(self, rows: Array) -> Array:
        """For each event the first row (of its partition) whose instant is at least its own less the width."""
        if self.rows is None or self.starts is None or self.place is None:
            return np.searchsorted(self.of_row, self.of_row[rows] - self.width)
        if not len(self.rows):
            return np.zeros(len(rows), np.int64)
        places = np.maximum(self.place[rows], 0)
        begin = self.starts[np.searchsorted(self.starts, places, "right") - 1]
        return np.asarray(self.rows[np.maximum(places - self.width, begin)], np.int64)

    def end_row_within(self, rows: Array) -> Array:
        """For each event the first row behind all those (of its partition) that are within the width of it."""
        if self.rows is None or self.starts is None or self.place is None:
            return np.searchsorted(self.of_row, self.of_row[rows] + self.width, "right")
        if not len(self.rows):
            return np.zeros(len(rows), np.int64)
        places = np.maximum(self.place[rows], 0)
        end = self.starts[np.searchsorted(self.starts, places, "right")]
        return np.asarray(self.rows[np.minimum(places + self.width, end - 1)], np.int64) + 1


def instants_of(pattern: Pattern, events: PreparedEvents) -> WindowInstants:
    """The instants of all events of a slice."""
    if pattern.window.time_us is not None:
        return WindowInstants(clock_of(events), min(pattern.window.time_us, WIDEST))
    assert pattern.window.events is not None
    width = min(pattern.window.events - 1, WIDEST)
    if not pattern.partition_by:
        return WindowInstants(events.derive(("positions",), lambda: np.arange(len(events), dtype=np.int64)), width)
    view = agreeing_view(pattern, pattern.partition_by, everything(events), events)

    def make() -> tuple[Array, Array]:
        every = len(view) == len(events)
        order = np.arange(len(view), dtype=np.int64)
        place = np.empty(len(events), np.int64) if every else np.full(len(events), -1, np.int64)
        place[view.rows] = order
        order -= np.repeat(view.starts[:-1], np.diff(view.starts))
        position = np.empty(len(events), np.int64) if every else np.zeros(len(events), np.int64)
        position[view.rows] = order
        return place, position

    place, position = events.derive(("partition positions", pattern.partition_by), make)
    return WindowInstants(position, width, view.rows, view.starts, place)
