"""Order in a stream: what before, after, TIES and windows mean for the rows of a slice (docs/language.md, section 3).

A slice is sorted by `(timestamp, seq)`, so an order of events is an order of rows. Under TIES STRICT and ANY events of
one timestamp are not in the order of their rows, and "before" and "after" become ranges of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.pattern import Pattern, Ties
from cep_pipeline.slices.partitions import Partitions, all_positions, partitions_of
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import clock_of

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


def order_bound(ties: Ties, *, after: bool) -> tuple[bool, int]:
    """The order of two events as a bound on rows or timestamps, for kernels that compare sorted columns.

    Parameters
    ----------
    after
        Whether events after another one are bounded from below, or those before it from above.

    Returns
    -------
    by_rows : bool
        Rows are compared; otherwise timestamps.
    distance : int
        Events after another one have at least its row (or timestamp) plus the distance; events before it have less.

    Examples
    --------
    >>> {ties.name: (order_bound(ties, after=True), order_bound(ties, after=False)) for ties in Ties}
    {'ARRIVAL': ((True, 1), (True, 0)), 'STRICT': ((False, 1), (False, 0)), 'ANY': ((False, 0), (False, 1))}
    """
    return ties is Ties.ARRIVAL, int((ties is not Ties.ANY) == after)


@dataclass(frozen=True, eq=False)
class WindowInstants:
    """The instants in which the window of a pattern is measured.

    Attributes
    ----------
    of_row
        int64: the timestamp of each event, or its position in the stream or in its partition.
    width
        The most by which the instants of a match differ.
    partitions
        The partitions in which positions are counted; None for timestamps and positions in the stream. An event in none
        of them is alone: its window holds its own row only.
    """

    of_row: Array
    width: int
    partitions: Partitions | None = None

    def first_row_within(self, rows: Array) -> Array:
        """For each event the first row (of its partition) that can be in one match with it.

        Rows of other partitions may lie behind it.
        """
        if self.partitions is not None:
            return self.partitions.rows_back(rows, self.width)
        return np.searchsorted(self.of_row, self.of_row[rows] - self.width)

    def end_row_within(self, rows: Array) -> Array:
        """For each event the row behind the last one (of its partition) that can be in one match with it."""
        if self.partitions is not None:
            return self.partitions.last_rows(rows, self.width) + 1
        return np.searchsorted(self.of_row, self.of_row[rows] + self.width, "right")


def instants_of(pattern: Pattern, events: PreparedEvents) -> WindowInstants:
    """The instants of all events of a slice."""
    if pattern.window.time_us is not None:
        return WindowInstants(clock_of(events), min(pattern.window.time_us, WIDEST))
    assert pattern.window.events is not None
    width = min(pattern.window.events - 1, WIDEST)
    positions = all_positions(events, pattern.partition_by)
    partitions = partitions_of(events, pattern.partition_by) if pattern.partition_by else None
    return WindowInstants(positions, width, partitions)
