"""Several sums over a sliding window at once, in the buckets of one exponential histogram.

What the pairs of a scope say of its conditions has to be cut at the same instants to be divided by one another: the
buckets are those of the number of pairs (Datar et al. 2002), and everything else is carried along in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cep_pipeline.statistics.sliding_window import merged_buckets

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Sums:
    """The sums over a window: of the buckets inside it, and of those that its edges cut through; shape (rows,)."""

    inside: Array
    cut: Array


class SlidingSums:
    """Sums of rows of numbers that are not negative; the first row decides how the buckets are merged.

    Parameters
    ----------
    rows
        How many numbers are summed.
    width
        Microseconds that are remembered before the latest instant.
    epsilon
        What a cut bucket holds of the first row is at most twice this share of all that is newer, beyond what one
        addition put in at once.
    """

    def __init__(self, rows: int, width: int, epsilon: float) -> None:
        self.width, self.epsilon = width, epsilon
        self.spans = np.empty((2, 0), np.int64)
        self.sums = np.empty((rows, 0), np.float64)

    def add(self, spans: Array, sums: Array) -> None:
        """Add buckets in the order of time.

        Parameters
        ----------
        spans
            int64, shape (2, n): first and last instant of what each holds.
        sums
            float64, shape (rows, n).
        """
        some = sums[0] > 0
        spans = np.concatenate((self.spans, spans[:, some]), axis=1)
        sums = np.concatenate((self.sums, sums[:, some]), axis=1)
        if not spans.shape[1]:
            return
        alive = spans[1] >= spans[1].max() - self.width
        spans, sums = spans[:, alive], sums[:, alive]
        self.spans, sizes = merged_buckets(spans, sums[0], self.epsilon)
        starts = np.cumsum(sizes) - sizes
        self.sums = np.add.reduceat(sums, starts, axis=1)

    def merge(self, later: SlidingSums) -> None:
        """Add what a histogram of later events holds."""
        self.add(later.spans, later.sums)

    def between(self, start_us: int, end_us: int) -> Sums:
        """The sums over the instants from `start_us` to `end_us`, both included."""
        first, last = self.spans
        inside = (first >= start_us) & (last <= end_us)
        cut = (last >= start_us) & (first <= end_us) & ~inside
        return Sums(self.sums[:, inside].sum(axis=1), self.sums[:, cut].sum(axis=1))
