"""The matches that a slice owns, those that become final in it, and how far back its task has to read for them.

All mechanisms ask here: they find matches by the rows of their first and last events (docs/architecture.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from itertools import zip_longest

import numpy as np

from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.expressions import Reference, ValueType
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.order import before_is_earlier, partitions_of
from cep_pipeline.slices.prepared import Boundary, PreparedEvents, rows_before


class Finality(IntEnum):
    """The point that the stream must have passed, earlier ones first.

    Attributes
    ----------
    LAST_EVENT
        The match's last event: nothing that comes later can reject it.
    LAST_INSTANT
        `(timestamp of the last event, +inf)`: under TIES ANY an event of the same time, but later in the stream, can
        still be before the last one.
    WINDOW_END
        `(timestamp of the first event + W, +inf)`: a negated variable has no positive one after it, or another match
        with the same first event may be preferred. With a count window the event n - 1 positions behind the first one.
    """

    LAST_EVENT = 0
    LAST_INSTANT = 1
    WINDOW_END = 2


def finality_of(pattern: Pattern, clause: Clause) -> Finality:
    """Determine when the matches of a clause are final.

    Notes
    -----
    A binding that is a match by several clauses is final at the earliest of their points.
    """
    if pattern.output.is_preferred or any(not clause.successors(name) for name in clause.negations):
        return Finality.WINDOW_END
    if clause.negations and not before_is_earlier(pattern.ties):
        return Finality.LAST_INSTANT
    return Finality.LAST_EVENT


_LONGEST_US = 2**62
"""Windows are cut to this, so that a timestamp plus a window is an int64."""


def owned_matches(
    pattern: Pattern,
    events: PreparedEvents,
    owned: tuple[Boundary | None, Boundary | None],
    finality: Finality,
    first: Array,
    last: Array,
) -> Array:
    """Select the matches that become final in a slice.

    Parameters
    ----------
    pattern, events
        The pattern, and the slice's own events with the look-back before them.
    owned
        The slice `[start, end)` (`mechanisms.Owned`).
    finality
        When the matches of their clause are final.
    first, last
        Rows of each match's first and last event in the stream, ints of shape (n,).

    Returns
    -------
    Array
        bool, shape (n,).

    Notes
    -----
    With a count window a match that waits for the end of its window is final at the event n - 1 positions behind its
    first one, and under TIES ANY behind all events of the time of its last one; with OUTPUT PREFERRED of the time of
    that event, so that all matches with one first event are final at once. As long as it has not come, they are final
    only where the stream has ended. An event that is alone in its partition waits for none.
    """
    start, end = owned
    if start is None and end is None:
        return np.ones(len(first), dtype=bool)
    begin, stop = events.rows_in(owned)
    if finality is Finality.LAST_EVENT:
        return _between(last, begin, stop)
    instants, closing = events.timestamps[last], last
    if finality is Finality.WINDOW_END and pattern.window.time_us is not None:
        instants = events.timestamps[first] + min(pattern.window.time_us, _LONGEST_US)
    elif finality is Finality.WINDOW_END:
        closing = closing_rows(pattern, events, first)
        if pattern.output.is_preferred:  # all matches with one first event are final together
            instants = events.timestamps[np.minimum(closing, len(events) - 1)]
    # The point (instant, +inf) is behind a boundary of the same time.
    reached = np.ones(len(first), dtype=bool) if start is None else instants >= start[0]
    passed = np.ones(len(first), dtype=bool) if end is None else instants < end[0]
    if finality is Finality.LAST_INSTANT or pattern.window.time_us is not None:
        return reached & passed
    come = closing < len(events)
    if before_is_earlier(pattern.ties):  # the last event is at the closing one or before it
        return np.asarray(np.where(come, _between(closing, begin, stop), end is None))
    return np.asarray(np.where(come, (reached | (closing >= begin)) & passed & (closing < stop), end is None))


def earliest_row(pattern: Pattern, events: PreparedEvents, owned: tuple[Boundary | None, Boundary | None]) -> int:
    """The first row that a match which the slice owns may begin with, however it becomes final."""
    start = owned[0]
    if start is None:
        return 0
    if pattern.window.time_us is not None:
        return int(np.searchsorted(events.timestamps, max(start[0] - pattern.window.time_us, -(2**63))))
    if pattern.partition_by:  # of one partition, positions may lie far apart in the stream
        return 0
    assert pattern.window.events is not None
    # Under TIES ANY a match is final behind all events of its last timestamp, of which some may be before the start.
    row = events.row_back(int(np.searchsorted(events.timestamps, start[0])), pattern.window.events - 1)
    if before_is_earlier(pattern.ties) or row == len(events):
        return row
    return int(np.searchsorted(events.timestamps, events.timestamps[row]))  # a negated event may stand before the first


def reading(
    pattern: Pattern, events: PreparedEvents, owned: tuple[Boundary | None, Boundary | None]
) -> tuple[Boundary | None, Boundary | None]:
    """The range of the stream that holds the events of a slice's matches: from its look-back up to its end."""
    first = earliest_row(pattern, events, owned)
    if first == 0:
        return None, owned[1]
    if first == len(events):
        return owned
    return (int(events.timestamps[first]), int(events.seqs[first])), owned[1]


def closing_rows(pattern: Pattern, events: PreparedEvents, rows: Array) -> Array:
    """Return for each row the one n - 1 positions behind it, for a count window of n events, if it has come.

    Returns
    -------
    Array
        int64, shape of `rows`: `len(events)` where it has not come; the event's own row where it is alone.
    """
    assert pattern.window.events is not None
    return partitions_of(events, pattern.partition_by).rows_ahead(rows, pattern.window.events - 1)


def _between(rows: Array, begin: int, stop: int) -> Array:
    return np.asarray((rows >= begin) & (rows < stop))


@dataclass(frozen=True, slots=True)
class LookBack:
    """The distance before the start of a slice from which its task reads.

    Attributes
    ----------
    time_us
        For time windows, in microseconds.
    positions
        For count windows: so many events before those of the time at which the slice starts. Where positions are
        counted in partitions, so many of each partition that has events in the slice.
    """

    time_us: int = 0
    positions: int = 0


def look_back(patterns: Iterable[Pattern]) -> LookBack:
    """Compute how long before the start of a slice its task must read, and how many events.

    None of the patterns composes others (`look_backs`).

    The window W of the longest pattern; 2W where one negated variable has nothing before it and one has nothing after
    it, or matches wait to be preferred: the match that ends its wait now began W ago, and what rejects it may lie W
    before that. They need not stand in one clause: bindings that two clauses share are owned once, so the slice that
    owns them by one asks for the other.
    """
    time_us = positions = 0
    for pattern in patterns:
        negated = [(clause, name) for clause in pattern.clauses for name in clause.negations]
        leading = any(not clause.predecessors(name) for clause, name in negated)
        trailing = pattern.output.is_preferred or any(not clause.successors(name) for clause, name in negated)
        windows = 2 if leading and trailing else 1
        if pattern.window.time_us is not None:
            time_us = max(time_us, windows * pattern.window.time_us)
        if pattern.window.events is not None:
            positions = max(positions, windows * (pattern.window.events - 1))
    return LookBack(time_us, positions)


def counts_in_partitions(pattern: Pattern) -> bool:
    """Return whether the pattern's window counts the events of a partition, which may lie far apart in the stream."""
    return pattern.window.events is not None and bool(pattern.partition_by)


def can_pend(pattern: Pattern) -> bool:
    """Return whether matches may still wait when a day is over, for a window that reaches into the next day."""
    return _can_pend_itself(pattern) or any(map(can_pend, pattern.composes))


def waits_for_later_events(pattern: Pattern) -> bool:
    """Return whether matches become final only after their last event, as by a negated variable at the end."""
    waits = any(finality_of(pattern, clause) is not Finality.LAST_EVENT for clause in pattern.clauses)
    return waits or any(map(waits_for_later_events, pattern.composes))


def known_before(pattern: Pattern, timestamps: Array, seqs: Array, point: Boundary) -> Boundary:
    """The point up to which all matches of a pattern are known when the stream has come to a point.

    Every match whose last event lies before it is final and has been decided about, and so has every match that it
    composes. A match that waits for the end of its window is taken to begin with its last event, so that the point does
    not depend on which matches there are. No such window counts the events of a partition (`not_by_day`).

    Parameters
    ----------
    timestamps, seqs
        int64, shape (n,): the events before the point, in their order, as far as a count window may reach.
    """
    point = min([point, *(known_before(one, timestamps, seqs, point) for one in pattern.composes)])
    if not before_is_earlier(pattern.ties):  # an event of the same time may still reject a match
        point = point[0], -(2**63)
    if not _can_pend_itself(pattern):
        return point
    if pattern.window.time_us is not None:
        return max(point[0] - pattern.window.time_us, -(2**63)), -(2**63)
    assert pattern.window.events is not None
    return point_before(timestamps, seqs, point, pattern.window.events - 1)


def point_before(timestamps: Array, seqs: Array, point: Boundary, positions: int) -> Boundary:
    """The point of the event so many positions before a point; before everything where there are fewer events."""
    if positions == 0:
        return point
    row = rows_before(timestamps, seqs, point) - positions
    return (int(timestamps[row]), int(seqs[row])) if row >= 0 else (-(2**63), -(2**63))


def not_by_day(pattern: Pattern) -> str:
    """Say why days cannot publish a pattern's matches one after another, and what to do; "" where they can.

    The next event of a partition may come any number of days later. A day reads back in the partitions that occur on
    it, and so it knows neither what stands between their events in the stream, nor what other partitions wait for.
    """
    counts = counts_in_partitions(pattern)
    if counts and pattern.strategy.crosses_partitions:
        return (
            "counts the events of a partition and asks which ones are neighbours in the whole stream: leave PARTITION "
            "BY out, and write its attributes in WHERE, as in [symbol]"
        )
    if pattern.composes and (counts or any(counts_in_partitions(p) and _can_pend_itself(p) for p in pattern.composes)):
        return (
            "binds matches and counts the events of a partition, or binds matches that wait for such events: give the "
            "patterns a window of time"
        )
    return ""


def hands_on(pattern: Pattern, attribute: str) -> bool:
    """Return whether the attribute of a pattern's matches is that by which the pattern is partitioned."""
    for item in pattern.returns:
        if item.named and item.name == attribute and isinstance(item.expression, Reference):
            variable = item.expression.variable
            always = all(variable in {one.name for one in clause.positive} for clause in pattern.written_clauses)
            return (
                always and item.expression.attribute == attribute and item.expression.type is not ValueType.FLOAT64_LIST
            )
    return False


def _can_pend_itself(pattern: Pattern) -> bool:
    return any(finality_of(pattern, clause) is Finality.WINDOW_END for clause in pattern.clauses)


def look_backs(pattern: Pattern) -> tuple[LookBack, ...]:
    """The distances from a point back to the first event of a composing pattern's matches, one after the other.

    All but the last lead to the point of `known_before`. Each of them is a time or a number of positions, or the longer
    of both; they do not add up, since so many positions are any time.
    """
    return _merged((*_waiting(pattern), LookBack(pattern.window.time_us or 0, (pattern.window.events or 1) - 1)))


def _waiting(pattern: Pattern) -> tuple[LookBack, ...]:
    """The distances from a point back to that of `known_before`, at most."""
    inside = zip_longest(*map(_waiting, pattern.composes), fillvalue=LookBack())
    steps = [LookBack(max(one.time_us for one in row), max(one.positions for one in row)) for row in inside]
    if _can_pend_itself(pattern):
        steps.append(LookBack(pattern.window.time_us or 0, (pattern.window.events or 1) - 1))
    return _merged(steps)


def _merged(steps: Iterable[LookBack]) -> tuple[LookBack, ...]:
    """Add up times that follow one another, and positions that do."""
    merged: list[LookBack] = []
    for step in steps:
        last = merged[-1] if merged else LookBack()
        alike = not (last.positions or step.positions) or not (last.time_us or step.time_us)
        if merged and alike:
            merged[-1] = LookBack(last.time_us + step.time_us, last.positions + step.positions)
        else:
            merged.append(step)
    return tuple(merged)
