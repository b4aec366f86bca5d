"""The matches that a slice owns, those that become final in it, and how far back its task has to read for them.

All mechanisms ask here: they find matches by the rows of their first and last events (docs/architecture.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.order import before_is_earlier
from cep_pipeline.slices.partitions import partitions_of
from cep_pipeline.slices.prepared import Boundary, PreparedEvents


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
        `(timestamp of the first event + W, +inf)`: a negated variable has no positive one after it. With a count
        window the event n - 1 positions behind the first one.
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
    if any(not clause.successors(name) for name in clause.negations):
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
    first one. As long as that has not come, it is final only where the stream has ended. An event that is alone in its
    partition waits for none.
    """
    start, end = owned
    if start is None and end is None:
        return np.ones(len(first), dtype=bool)
    begin, stop = events.rows_in(owned)
    if finality is Finality.LAST_EVENT:
        return _between(last, begin, stop)
    instants = events.timestamps[last]
    if finality is Finality.WINDOW_END and pattern.window.time_us is not None:
        instants = events.timestamps[first] + min(pattern.window.time_us, _LONGEST_US)
    # The point (instant, +inf) is behind a boundary of the same time.
    reached = np.ones(len(first), dtype=bool) if start is None else instants >= start[0]
    passed = np.ones(len(first), dtype=bool) if end is None else instants < end[0]
    if finality is Finality.LAST_INSTANT or pattern.window.time_us is not None:
        return reached & passed
    closing = closing_rows(pattern, events, first)
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
    return events.row_back(int(np.searchsorted(events.timestamps, start[0])), pattern.window.events - 1)


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
    """For a count window of n events, the row of the event n - 1 positions behind each of these, as far as it has come.

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

    The window W of the longest pattern; 2W where one negated variable has nothing before it and one has nothing after
    it: the match that ends its wait now began W ago, and what rejects it may lie W before that. They need not stand in
    one clause: bindings that two clauses share are owned once, so the slice that owns them by one asks for the other.
    """
    time_us = positions = 0
    for pattern in patterns:
        negated = [(clause, name) for clause in pattern.clauses for name in clause.negations]
        leading = any(not clause.predecessors(name) for clause, name in negated)
        trailing = any(not clause.successors(name) for clause, name in negated)
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
    return any(finality_of(pattern, clause) is Finality.WINDOW_END for clause in pattern.clauses)


def waits_for_later_events(pattern: Pattern) -> bool:
    """Return whether matches become final only after their last event, as by a negated variable at the end."""
    return any(finality_of(pattern, clause) is not Finality.LAST_EVENT for clause in pattern.clauses)
