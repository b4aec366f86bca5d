"""Time constraints between plan levels: which ones prune, and the index ranges that they give.

Order and window bound the candidates of a level by the events of earlier levels. A bound is left out where other bounds
imply it; what is left becomes int32 arrays, made by merging sorted columns, so that the kernel compares no timestamp.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cep_pipeline.detection.columns import Array
from cep_pipeline.detection.fused.merging import count_before
from cep_pipeline.detection.fused.views import View, times_of
from cep_pipeline.detection.prepared import PreparedEvents
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Ties


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower or upper bound of a level's candidates by the event of an earlier level.

    The bound lies where the candidates' clock (their row, or their timestamp in microseconds) reaches the earlier
    event's clock plus `delta`: candidates at or after it for `low`, before it otherwise.
    """

    earlier: int
    low: bool
    by_row: bool
    delta: int


def bounds_of(
    clause: Clause, order: Sequence[str], level: int, ties: Ties, window_us: int, members: Sequence[int] | None = None
) -> tuple[Bound, ...]:
    """The bounds of a level that no others imply.

    Parameters
    ----------
    members
        The earlier levels that may give bounds; all of them if None.
    """
    earlier = range(level) if members is None else members
    return (
        *_side(clause, order, level, ties, window_us, earlier, low=True),
        *_side(clause, order, level, ties, window_us, earlier, low=False),
    )


def _side(
    clause: Clause,
    order: Sequence[str],
    level: int,
    ties: Ties,
    window_us: int,
    earlier: Sequence[int],
    *,
    low: bool,
) -> Iterator[Bound]:
    def before(first: int, second: int) -> bool:
        """Whether `first` is ordered before `second`, in reversed time for upper bounds."""
        pair = (first, second) if low else (second, first)
        return (order[pair[0]], order[pair[1]]) in clause.precedence

    ordered = [other for other in earlier if before(other, level)]
    if ordered:
        # The nearest ones suffice; and whatever is after one of them lies in the window on this side.
        nearest = [other for other in ordered if not any(before(other, nearer) for nearer in ordered)]
        by_row = ties is Ties.ARRIVAL
        # Candidates after: beyond the event itself, and for ANY from its timestamp on; candidates before, alike.
        strict = ties is not Ties.ANY
        delta = int(strict) if low else int(not strict)
        for other in nearest:
            yield Bound(other, low, by_row, delta)
    else:
        # Of two events that are ordered, the window reaches less far from the nearer one.
        nearest = [other for other in earlier if not any(before(other, nearer) for nearer in earlier)]
        for other in nearest:
            yield Bound(other, low, False, -window_us if low else window_us + 1)


def range_ends(events: PreparedEvents, bound: Bound, view: View, keyed: View, candidates: View) -> Array:
    """Where the bound lies in the candidates' view, for each event of the earlier level.

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
    clock = "row" if bound.by_row else "time"

    def merge() -> Array:
        points, values = (view.rows if bound.by_row else times_of(events, view) for view in (keyed, candidates))
        return count_before(points, keyed.starts, values, candidates.starts, bound.delta)

    def make() -> Array:
        ends = events.derive(("ends", clock, bound.delta, keyed.identity, candidates.identity), merge)
        if keyed.identity == view.identity:
            return ends
        if keyed.places is not None:
            spread = np.zeros(len(keyed.in_stream_order), np.int32)
            spread[keyed.places] = ends
            ends = spread
        return ends if view.places is None else ends[view.places]

    return events.derive(("ends", clock, bound.delta, keyed.identity, candidates.identity, view.identity), make)
