"""Time constraints between plan levels: which ones prune, and the index ranges that they give.

Order and window bound the candidates of a level by the events of earlier levels. A bound is left out where other bounds
imply it; what is left becomes int32 arrays, made by merging sorted columns, so that the kernel compares no timestamp.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Ties
from cep_pipeline.slices.order import before_is_earlier, order_bound
from cep_pipeline.slices.partitions import positions_of
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.routines import count_before
from cep_pipeline.slices.views import View, times_of


class BoundUnit(Enum):
    """The unit in which a bound compares: rows of the slice, microseconds, or positions in the stream or partition."""

    ROW = "row"
    TIME = "time"
    POSITION = "position"


@dataclass(frozen=True, slots=True)
class Reach:
    """The window: how far apart the clocks of a match's first and last event may be, inclusive.

    Attributes
    ----------
    clock
        `TIME` for a time window, `POSITION` for a count window.
    size
        In units of the clock, so small that adding it to a clock does not overflow.
    partition_by
        Attributes whose values tell the partitions that a count window counts positions in.
    """

    clock: BoundUnit
    size: int
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower or upper bound of a level's candidates by the event of an earlier level.

    The bound lies where the candidates' clock reaches the earlier event's clock plus `delta`: candidates at or after
    it for `low`, before it otherwise.
    """

    earlier: int
    low: bool
    clock: BoundUnit
    delta: int
    partition_by: tuple[str, ...] = ()


def bounds_of(
    clause: Clause, order: Sequence[str], level: int, ties: Ties, reach: Reach, members: Sequence[int] | None = None
) -> tuple[Bound, ...]:
    """The bounds of a level that no others imply.

    Parameters
    ----------
    order
        Names by level; that of a negated variable may follow those of the plan.
    members
        The earlier levels that may give bounds; all of them if None.

    Notes
    -----
    The window limits a negated variable on a side only where no positive one is ordered on that side (docs/language.md,
    section 3.5).
    """
    earlier = range(level) if members is None else members
    return (
        *_side(clause, order, level, ties, reach, earlier, low=True),
        *_side(clause, order, level, ties, reach, earlier, low=False),
    )


def _side(
    clause: Clause, order: Sequence[str], level: int, ties: Ties, reach: Reach, earlier: Sequence[int], *, low: bool
) -> Iterator[Bound]:
    def before(first: int, second: int) -> bool:
        """Return whether `first` is ordered before `second`, in reversed time for upper bounds."""
        pair = (first, second) if low else (second, first)
        return (order[pair[0]], order[pair[1]]) in clause.precedence

    # Under TIES ANY events of one time may be ordered against their positions.
    loose = reach.clock is BoundUnit.POSITION and not before_is_earlier(ties)
    ordered = [other for other in earlier if before(other, level)]
    if ordered:
        # The nearest ones suffice; and whatever is after one of them lies in the window on this side.
        nearest = [other for other in ordered if not any(before(other, nearer) for nearer in ordered)]
        by_rows, delta = order_bound(ties, after=low)
        for other in nearest:
            yield Bound(other, low, BoundUnit.ROW if by_rows else BoundUnit.TIME, delta)
    if not ordered or (loose and not clause.by_name[order[level]].negated):
        # Of two events that are ordered, the window reaches less far from the nearer one.
        nearest = [other for other in earlier if loose or not any(before(other, nearer) for nearer in earlier)]
        delta = -reach.size if low else reach.size + 1
        for other in nearest:
            yield Bound(other, low, reach.clock, delta, reach.partition_by)


def range_ends(events: PreparedEvents, bound: Bound, view: View, keyed: View, candidates: View) -> Array:
    """The place of the bound in the candidates' view, for each event of the earlier level.

    Parameters
    ----------
    view
        The earlier level's view.
    keyed
        The earlier level's leaf sorted like `candidates`: by the same key, or in stream order.

    Returns
    -------
    Array
        int32, one for each row of `view`. A row without a key gets 0, which as upper bound leaves no range: nothing
        agrees with it.
    """
    what = (bound.clock.value, bound.partition_by, bound.delta)

    def clock(of: View) -> Array:
        match bound.clock:
            case BoundUnit.ROW:
                return of.rows
            case BoundUnit.TIME:
                return times_of(events, of)
            case BoundUnit.POSITION:
                return positions_of(events, of, bound.partition_by)

    def merge() -> Array:
        return count_before(clock(keyed), keyed.starts, clock(candidates), candidates.starts, bound.delta)

    def make() -> Array:
        ends = events.derive(("ends", what, keyed.identity, candidates.identity), merge)
        if keyed.identity == view.identity:
            return ends
        if keyed.places is not None:
            spread = np.zeros(len(keyed.in_stream_order), np.int32)
            spread[keyed.places] = ends
            ends = spread
        return ends if view.places is None else ends[view.places]

    return events.derive(("ends", what, keyed.identity, candidates.identity, view.identity), make)
