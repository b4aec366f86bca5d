"""Order in a stream: what before, after, TIES and windows mean for the rows of a slice (docs/language.md, section 3).

Partitions, and the positions in them for count windows (sections 3.3 and 3.5), stand first.

A slice is sorted by `(timestamp, seq)`, so an order of events is an order of rows. Under TIES STRICT and ANY events of
one timestamp are not in the order of their rows, and "before" and "after" become ranges of rows.

Ties are decided here and nowhere else: `RULES` has one row for each mode. Everybody else asks in one of these ways.

| who asks | how |
| --- | --- |
| vectorized code | `StreamOrder`: ranges of rows, or a comparison of two rows |
| kernels that merge sorted columns | `order_bound`: two numbers, by rows or by time |
| kernels that test one event at a time | `order_rows`: two rows for each event, to compare rows with |
| readers that bind events as they come | `before_is_earlier`, `earlier_is_before`, and `clock_to_compare` |
| planners and drivers | the same two questions, and `may_be_one` |

A reader that binds events in the order of the stream is a form of the rule that no function can take over: an automaton
cannot bind an event after another one that it has not read yet. So it asks `before_is_earlier` and refuses the pattern,
or keeps what it has read, where the answer is no.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Pattern, Ties
from cep_pipeline.patterns.structure import may_share_events
from cep_pipeline.slices.keys import agreement_codes
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.routines import gather, group_rows
from cep_pipeline.slices.views import View, clock_of, times_of


@dataclass(frozen=True, eq=False)
class Partitions:
    """The events of a slice, partition after partition; an event with a null or a NaN is alone, and in none of them.

    Attributes
    ----------
    rows
        int64, shape (m,): the rows that are in a partition, one partition after another, ascending in each.
    starts, ends
        int64, shape (m,): for each place in `rows`, where its partition starts and ends there.
    place
        int64, shape (n,): each event's place in `rows`, -1 where it is alone.
    counted
        int64, shape (m,): for each place in `rows`, the number of events of the stream up to it; None: places are
        counted, as all events are of the stream. Composed events have the position of the last event counted before
        them.
    """

    rows: Array
    starts: Array
    ends: Array
    place: Array
    counted: Array | None = None

    @property
    def positions(self) -> Array:
        """int64, shape (n,): each event's position in its partition; 0 where it is alone."""
        positions = np.zeros(len(self.place), np.int64)
        if self.counted is None:
            positions[self.rows] = np.arange(len(self.rows)) - self.starts
        else:
            before = np.concatenate((np.zeros(1, np.int64), self.counted))[self.starts]
            positions[self.rows] = self.counted - before - 1
        return positions

    def rows_ahead(self, rows: Array, distance: int) -> Array:
        """The row so many positions behind each of these in its partition, the last one where composed events share it.

        Returns
        -------
        Array
            int64, shape of `rows`: the number of events where it has not come; the event's own row where it is alone.
        """
        ahead = rows.astype(np.int64)
        grouped = np.flatnonzero(self.place[rows] >= 0)
        own, reach = self.place[rows][grouped], min(distance, len(self.place))
        ends = self.ends[own]
        if self.counted is None:
            last, come = own + reach, own + reach < ends
        else:
            target = self.counted[own] + reach
            last, come = np.searchsorted(self.counted, target, "right") - 1, self.counted[ends - 1] >= target
        ahead[grouped] = np.where(come, self.rows[np.minimum(last, ends - 1)], len(self.place))
        return ahead

    def rows_back(self, rows: Array, distance: int) -> Array:
        """The row so many positions before each of these in its partition, or else the partition's first; or its own.

        Returns
        -------
        Array
            int64, shape of `rows`.
        """
        return self._moved(rows, min(distance, len(self.place)), back=True)

    def last_rows(self, rows: Array, distance: int) -> Array:
        """The row so many positions behind each of these in its partition, or else the partition's last; or its own.

        Returns
        -------
        Array
            int64, shape of `rows`.
        """
        return self._moved(rows, min(distance, len(self.place)), back=False)

    def _moved(self, rows: Array, distance: int, *, back: bool) -> Array:
        moved = rows.astype(np.int64)
        grouped = self.place[rows] >= 0
        places = self.place[rows][grouped]
        if self.counted is None:
            target = places - distance if back else places + distance
        elif back:
            target = np.searchsorted(self.counted, self.counted[places] - distance)
        else:
            target = np.searchsorted(self.counted, self.counted[places] + distance, "right") - 1
        moved[grouped] = self.rows[np.clip(target, self.starts[places], self.ends[places] - 1)]
        return moved


def partitions_of(events: PreparedEvents, attributes: tuple[str, ...]) -> Partitions:
    """The partitions that these attributes make of a slice; of none, there is one partition of all events."""
    return events.derive(("partitions", attributes), lambda: _partitions(events, attributes))


def _partitions(events: PreparedEvents, attributes: tuple[str, ...]) -> Partitions:
    everything, of_stream = np.arange(len(events), dtype=np.int64), events.of_stream
    if not attributes:
        starts, ends = np.zeros(len(events), np.int64), np.full(len(events), len(events), np.int64)
        return Partitions(everything, starts, ends, everything, None if of_stream is None else np.cumsum(of_stream))
    codes, groups = agreement_codes(events, attributes)
    present = np.flatnonzero(codes >= 0)
    order, edges = group_rows(codes[present], groups)
    rows = present[order]
    place = np.full(len(events), -1, np.int64)
    place[rows] = np.arange(len(rows))
    sizes = np.diff(edges)
    counted = None if of_stream is None else np.cumsum(of_stream[rows])
    return Partitions(rows, np.repeat(edges[:-1], sizes), np.repeat(edges[1:], sizes), place, counted)


def positions_of(events: PreparedEvents, view: View, partition_by: tuple[str, ...]) -> Array:
    """int64, padded: the position of each of the view's rows; ascending within a group of one partition."""
    return events.derive(
        ("positions of", view.identity, partition_by), lambda: gather(all_positions(events, partition_by), view.rows)
    )


def all_positions(events: PreparedEvents, partition_by: tuple[str, ...]) -> Array:
    """int64: every event's position, all of them, also those that no pattern names; 0 where it is alone."""
    return events.derive(("positions", partition_by), lambda: partitions_of(events, partition_by).positions)


WIDEST = 1 << 62
"""Instants of the events of a slice differ by less."""


@dataclass(frozen=True, slots=True)
class OrderRule:
    """One mode of TIES: an event is before another one if its row, or its timestamp, is the lower one.

    Attributes
    ----------
    by_rows
        Rows are compared; otherwise timestamps.
    strictly
        Of two equal ones neither is before the other; otherwise each is before the other.
    """

    by_rows: bool
    strictly: bool


RULES = {
    Ties.ARRIVAL: OrderRule(by_rows=True, strictly=True),
    Ties.STRICT: OrderRule(by_rows=False, strictly=True),
    Ties.ANY: OrderRule(by_rows=False, strictly=False),
}


def before_is_earlier(ties: Ties) -> bool:
    """Return whether an event that is before another one also comes earlier in the stream.

    Examples
    --------
    >>> [ties.name for ties in Ties if before_is_earlier(ties)]
    ['ARRIVAL', 'STRICT']
    """
    return RULES[ties].strictly


def earlier_is_before(ties: Ties) -> bool:
    """Return whether an event that comes earlier in the stream than another one is before it, whatever their times.

    Examples
    --------
    >>> [ties.name for ties in Ties if earlier_is_before(ties)]
    ['ARRIVAL', 'ANY']
    """
    return RULES[ties].by_rows or not RULES[ties].strictly


def ties_among(ties: Ties, timestamps: Array) -> Ties:
    """The mode for some events, ascending in time: ARRIVAL where no two have one timestamp, as all modes mean the same.

    Examples
    --------
    >>> ties_among(Ties.ANY, np.array([1, 2, 2])).name, ties_among(Ties.ANY, np.array([1, 2, 3])).name
    ('ANY', 'ARRIVAL')
    """
    return ties if (np.diff(timestamps) == 0).any() else Ties.ARRIVAL


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
        return self._bounds(rows, after=True)

    def rows_ahead(self, rows: Array) -> Array:
        """The number of rows that come before each of some events; under TIES ANY their own may be among them.

        Returns
        -------
        Array
            int64, shape of `rows`: all rows below it come before the event.
        """
        return self._bounds(rows, after=False)

    def _bounds(self, rows: Array, *, after: bool) -> Array:
        by_rows, distance = order_bound(self.ties, after=after)
        if by_rows:
            rows = rows.astype(np.int64, copy=False)
            return rows + distance if distance else rows
        return np.searchsorted(self.timestamps, self.timestamps[rows], "right" if distance else "left")

    def holds(self, first: Array, second: Array) -> Array:
        """bool, shape of both: the event of row `first` is before the event of row `second`; they are distinct."""
        rule = RULES[self.ties]
        one, other = (first, second) if rule.by_rows else (self.timestamps[first], self.timestamps[second])
        return np.asarray(one < other if rule.strictly else one <= other)


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
    rule = RULES[ties]
    return rule.by_rows, int(rule.strictly == after)


def order_rows(events: PreparedEvents, ties: Ties) -> tuple[Array, Array]:
    """The order as two rows for each event, for kernels that then compare nothing but rows.

    Returns
    -------
    ahead : Array
        int32, shape (n,): an event is before this one if its row is below `ahead` of it (and is not its own).
    after : Array
        int32, shape (n,): an event is after this one if its row is at least `after` of it (and is not its own).
    """

    def make() -> tuple[Array, Array]:
        rows = events.every_row
        if RULES[ties].by_rows:
            return rows, events.numbers(1, len(events) + 1)
        order = StreamOrder(clock_of(events), ties)
        return order.rows_ahead(rows).astype(np.int32), order.rows_after(rows).astype(np.int32)

    return events.derive(("order rows", ties), make)


def clock_to_compare(events: PreparedEvents, view: View, ties: Ties) -> Array:
    """The clock by which a reader of a view tells whether an event is after one that it has read before.

    Returns
    -------
    Array
        int64: for each row of the view; the event is after the earlier one if its clock is greater. Empty where
        `earlier_is_before`, since there is nothing to compare.
    """
    return np.empty(0, np.int64) if earlier_is_before(ties) else times_of(events, view)


def may_be_one(pattern: Pattern, clause: Clause, one: Variable, other: Variable) -> bool:
    """Return whether two variables may bind one and the same event, as far as their types and their order say."""
    if not may_share_events(one.event_type, other.event_type, pattern.base_type):
        return False
    ordered = (one.name, other.name) in clause.precedence or (other.name, one.name) in clause.precedence
    return not (ordered and before_is_earlier(pattern.ties))


def surrounding(pattern: Pattern, clause: Clause, name: str) -> tuple[str, ...]:
    """The positive variables whose events say where an event of a negated variable would have to lie (JQPG 5.3).

    On a side where nothing is ordered the window of the whole match decides, and so the variables at its other edge.
    """
    positive = [variable.name for variable in clause.positive]
    loose = pattern.window.events is not None and not before_is_earlier(pattern.ties)
    before, behind = clause.next_before(name), clause.next_behind(name)
    lowest = positive if loose else [one for one in positive if not _any_ordered(clause, positive, one, behind=True)]
    highest = positive if loose else [one for one in positive if not _any_ordered(clause, positive, one, behind=False)]
    found = {*(before or lowest), *(behind or highest)}
    return tuple(one for one in positive if one in found)


def _any_ordered(clause: Clause, names: Iterable[str], name: str, *, behind: bool) -> bool:
    """True if one of the names is ordered behind, or before, a variable."""
    return any(((name, other) if behind else (other, name)) in clause.precedence for other in names)


def compared_with(pattern: Pattern, clause: Clause, negated: Variable) -> tuple[str, ...]:
    """The positive variables that conditions compare a negated one with, or that may bind the very same event."""
    names = {name for c in clause.conjuncts if negated.name in c.variables for name in c.variables}
    return tuple(v.name for v in clause.positive if v.name in names or may_be_one(pattern, clause, negated, v))


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
        """Return for each event the first row (of its partition) that can be in one match with it.

        Rows of other partitions may lie behind it.
        """
        if self.partitions is not None:
            return self.partitions.rows_back(rows, self.width)
        return np.searchsorted(self.of_row, self.of_row[rows] - self.width)

    def end_row_within(self, rows: Array) -> Array:
        """Return for each event the row behind the last one (of its partition) that can be in one match with it."""
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


def instants_in_view(pattern: Pattern, events: PreparedEvents, view: View) -> Array:
    """int64, padded: the instants of the rows of a view."""
    if pattern.window.time_us is not None:
        return times_of(events, view)
    return positions_of(events, view, pattern.partition_by)
