"""The pairs of events of a scope: counted exactly by index ranges, and drawn for a test of conditions.

A pair belongs to the slice that has its later event, so that slices with look-back count each pair of a stream once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cep_pipeline.patterns.pattern import Ties, Window
from cep_pipeline.slices.order import order_bound

Array = np.ndarray[Any, Any]
LONGEST_US = 2**61
"""Windows are cut to this, so that a timestamp plus a window is an int64."""


@dataclass(frozen=True, slots=True)
class PairRanges:
    """Ranges of indices, one a first event, into the second events with which it makes pairs.

    Attributes
    ----------
    first, second
        Ascending: rows of the events of the two leaves.
    ends
        int64, shape of `first`: how many there are in the ranges up to that of each, its own included.
    high
        int64, shape of `first`: where the range of each ends.
    itself
        int64: indices into `first` of events whose range holds the same event, which is no pair.
    each
        How many first events each of them stands for: 1, but where they are a sample.
    """

    first: Array
    second: Array
    ends: Array
    high: Array
    itself: Array
    each: float = 1.0

    @property
    def found(self) -> int:
        """The number of pairs of these first events."""
        return (int(self.ends[-1]) if len(self.ends) else 0) - len(self.itself)

    @property
    def count(self) -> int:
        """The number of pairs of the scope: exact, or an estimate where the first events are a sample."""
        return round(self.found * self.each)


class FirstEvents:
    """The first events of pairs: those of a leaf, or a sample, one of each of `most` equal parts of them.

    Pairs are looked up by binary search. The search through the whole stream takes longest, so that all scopes of the
    same leaf and window share it.

    Parameters
    ----------
    timestamps
        int64, ascending, shape (events,): microseconds.
    first
        Ascending rows of the leaf's events.
    owned
        Rows `[start, end)`: only pairs whose later event lies there. None: all rows.
    most, seed
        At most so many first events, and what decides which; None: all.
    """

    def __init__(
        self,
        timestamps: Array,
        first: Array,
        owned: tuple[int, int] | None = None,
        most: int | None = None,
        seed: np.random.SeedSequence | None = None,
    ) -> None:
        self._timestamps = timestamps
        self._start, self._end = (0, len(timestamps)) if owned is None else owned
        first = first[: np.searchsorted(first, self._end)]
        self._each = 1.0
        if most is not None and len(first) > most:
            self._each = len(first) / most
            places = ((np.arange(most) + np.random.default_rng(seed).random(most)) * self._each).astype(np.int64)
            first = first[np.minimum(places, len(first) - 1)]
        self._rows = first.astype(np.int64)
        self._times = timestamps[self._rows]
        self._rows_at: dict[tuple[int, str], Array] = {}

    def ranges(self, second: Array, *, window: Window, ordered: bool, ties: Ties = Ties.ARRIVAL) -> PairRanges:
        """The pairs with second events, given by their ascending rows.

        Parameters
        ----------
        window
            The pattern's window; a count window counts rows.
        ordered
            Whether the first event must come before the second, by `ties`.
        """
        by_rows, distance = order_bound(ties, after=True)
        if ordered and by_rows:
            low = self._rows + distance
        elif ordered:
            low = self._row_at(distance, "left")
        elif window.time_us is None:
            low = np.maximum(self._rows - (window.events or 1) + 1, 0)
        else:
            low = self._row_at(-min(window.time_us, LONGEST_US), "left")
        if window.time_us is None:
            behind = self._rows + (window.events or 1)
        else:
            behind = self._row_at(min(window.time_us, LONGEST_US), "right")
        if self._start:
            low = np.where(self._rows < self._start, np.maximum(low, self._start), low)
        begin, end = (_places(second, bound) for bound in (low, np.minimum(behind, self._end)))
        end = np.maximum(begin, end)
        itself = np.empty(0, np.int64)
        if not (ordered and by_rows and distance > 0):
            own = _places(second, self._rows)
            same = (begin <= own) & (own < end)
            same[same] = second[own[same]] == self._rows[same]
            itself = np.flatnonzero(same)
        return PairRanges(self._rows, second, np.cumsum(end - begin), end, itself, self._each)

    def _row_at(self, after_us: int, side: Literal["left", "right"]) -> Array:
        """The row of the first event so long after each event or later ("right": later)."""
        if (after_us, side) not in self._rows_at:
            self._rows_at[after_us, side] = np.searchsorted(self._timestamps, self._times + after_us, side)
        return self._rows_at[after_us, side]


def _places(second: Array, rows: Array) -> Array:
    """The place of rows among second events; rows of the events' own type, else NumPy copies all events."""
    return np.searchsorted(second, rows.astype(second.dtype))


def draw_pairs(ranges: PairRanges, most: int, seed: np.random.SeedSequence) -> tuple[Array, Array]:
    """Rows of the pairs to test: all of them where there are at most `most`, else a stratified sample of `most`.

    The pairs, in the order of their first and then their second event, are cut into `most` equal strata, and one is
    drawn from each: unbiased, and spread over the whole span of the data.
    """
    ends = ranges.ends
    total = int(ends[-1]) if len(ends) else 0
    if ranges.found <= most:
        index = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
        picks = np.arange(total)
    else:
        random = np.random.default_rng(seed)
        picks = ((np.arange(most) + random.random(most)) * (total / most)).astype(np.int64)
        picks = np.minimum(picks, total - 1)
        index = np.searchsorted(ends, picks, "right")
    second = ranges.second[ranges.high[index] - (ends[index] - picks)].astype(np.int64)
    first = ranges.first[index].astype(np.int64)
    if not len(ranges.itself):
        return first, second
    distinct = first != second
    return first[distinct], second[distinct]
