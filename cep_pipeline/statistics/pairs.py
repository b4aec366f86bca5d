"""The pairs of events of a scope: counted exactly by index ranges, and drawn for a test of conditions.

A pair belongs to the slice that has its later event, so that slices with look-back count each pair of a stream once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.patterns.pattern import Ties, Window
from cep_pipeline.slices.order import order_bound

Array = np.ndarray[Any, Any]

_find_ranges = NativeKernel(
    "cep_pipeline.statistics.pairs_kernel",
    "find_ranges",
    (*("int64",) * 9, "int64*", "int32*", "int32*", "int64*", "int32*", "int32*"),
)

LONGEST_US = 2**61
"""Windows are cut to this, so that a timestamp plus a window is an int64."""


@dataclass(frozen=True, slots=True)
class PairRanges:
    """For each first event the range of indices into the second events that it makes pairs with.

    Attributes
    ----------
    first, second
        int32, ascending: rows of the events of the two leaves.
    ends
        int64, shape of `first`: how many there are in the ranges up to that of each, its own included.
    high
        int32, shape of `first`: where the range of each ends.
    itself
        int32: indices into `first` of events whose range holds the same event, which is no pair.
    """

    first: Array
    second: Array
    ends: Array
    high: Array
    itself: Array

    @property
    def count(self) -> int:
        """The exact number of pairs."""
        return (int(self.ends[-1]) if len(self.ends) else 0) - len(self.itself)


def pair_ranges(
    timestamps: Array,
    first: Array,
    second: Array,
    *,
    window: Window,
    ordered: bool,
    ties: Ties = Ties.ARRIVAL,
    owned: tuple[int, int] | None = None,
) -> PairRanges:
    """Find the pairs of a scope in time linear in the events, whatever the number of pairs.

    Parameters
    ----------
    timestamps
        int64, ascending, shape (events,): microseconds.
    first, second
        Ascending rows of the two leaves' events.
    window
        The pattern's window; a count window counts rows.
    ordered
        Whether the first event must come before the second, by `ties`.
    owned
        Rows `[start, end)`: only pairs whose later event lies there. None: all rows.
    """
    start, end = owned if owned is not None else (0, len(timestamps))
    first = np.ascontiguousarray(first[: np.searchsorted(first, end)], np.int32)
    second = np.ascontiguousarray(second[: np.searchsorted(second, end)], np.int32)
    by_time = window.time_us is not None
    size = window.time_us if window.time_us is not None else (window.events or 1) - 1
    ends = np.empty(len(first), np.int64)
    high, itself = (np.empty(len(first), np.int32) for _ in range(2))
    found = _find_ranges(
        len(first),
        len(second),
        len(timestamps),
        int(by_time),
        min(size, LONGEST_US),
        int(ordered),
        *order_bound(ties, after=True),
        start,
        np.ascontiguousarray(timestamps),
        first,
        second,
        ends,
        high,
        itself,
    )
    return PairRanges(first, second, ends, high, itself[:found])


def draw_pairs(ranges: PairRanges, most: int, seed: np.random.SeedSequence) -> tuple[Array, Array]:
    """Rows of the pairs to test: all of them where there are at most `most`, else a stratified sample of `most`.

    The pairs, in the order of their first and then their second event, are cut into `most` equal strata, and one is
    drawn from each: unbiased, and spread over the whole span of the data.
    """
    ends = ranges.ends
    total = int(ends[-1]) if len(ends) else 0
    if total - len(ranges.itself) <= most:
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
