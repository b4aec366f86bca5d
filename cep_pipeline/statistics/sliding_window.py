"""`SlidingWindow`: an exponential histogram of sums over a sliding window (Datar, Gionis, Indyk and Motwani 2002).

A histogram is a list of buckets, each of which knows the span of what it holds and what that adds up to. Buckets grow
with their age, so that the one bucket that the window's start cuts through holds little beside all that is newer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cep_pipeline.compiled.native import NativeKernel

Array = npt.NDArray[Any]

_compress = NativeKernel(
    "cep_pipeline.statistics.sliding_window_kernel",
    "compress",
    ("int64", "float64*", "int64*", "int64*", "float64*", "int64*"),
)
_SHARE = 2.0
"""The largest share that a bucket may hold of all that is newer, as a multiple of epsilon: half of the bucket is the
error."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate, and what the true value lies between whatever the values were."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Sums:
    """The sums of the buckets inside a span, and of those that its edges cut through; shape (rows,)."""

    inside: Array
    cut: Array


class SlidingWindow:
    """A window over sums of numbers that are not negative: of what came in the last `width` of a stream.

    Parameters
    ----------
    width
        An instant t is in the window of an instant now if now - t <= width. Instants are microseconds, or positions.
    epsilon
        Largest relative error of the first sum, in (0, 0.5].
    rows
        The number of sums. Buckets are those of the first, and everything else is carried along: what the pairs of a
        scope say of its conditions has to be cut at the same instants to be divided by one another.

    Notes
    -----
    A histogram has O(1/epsilon log n) buckets, where n is the ratio of the largest to the smallest sum that a window
    holds; an update goes over all of them, so that events are best added many at a time. The error holds for events
    that come in the order of time, and for histograms of consecutive parts that are merged. Of others the bounds that
    come with an estimate hold.

    Examples
    --------
    >>> window = SlidingWindow(width=10, epsilon=0.1)
    >>> window.count([1, 5, 5, 12])
    >>> window.estimate().value, window.estimate(now=15).value, window.estimate(now=30).value
    (3.0, 3.0, 0.0)
    """

    def __init__(self, width: int, epsilon: float, rows: int = 1) -> None:
        if width < 0:
            raise ValueError(f"the width of a window is not negative: {width}")
        if not 0 < epsilon <= 0.5:
            raise ValueError(f"epsilon lies in (0, 0.5], not {epsilon}")
        self.width, self.epsilon, self.rows = width, epsilon, rows
        self._spans = np.empty((2, 0), np.int64)
        self._sums = np.empty((rows, 0), np.float64)

    def __len__(self) -> int:
        """Number of buckets."""
        return self._spans.shape[1]

    def count(self, instants: npt.ArrayLike) -> None:
        """Count events, in the order of time, in a window of one row; int64, shape (n,)."""
        times = np.asarray(instants, np.int64)
        self.add(np.stack((times, times)), np.ones((1, len(times))))

    def add(self, spans: Array, sums: Array) -> None:
        """Add buckets.

        Parameters
        ----------
        spans
            int64, shape (2, n): first and last instant of what each holds.
        sums
            float64, shape (rows, n).
        """
        spans, sums = np.concatenate((self._spans, spans), axis=1), np.concatenate((self._sums, sums), axis=1)
        if not spans.shape[1]:
            return
        if (np.diff(spans[1]) < 0).any():
            order = np.argsort(spans[1], kind="stable")
            spans, sums = spans[:, order], sums[:, order]
        kept = (spans[1] >= spans[1, -1] - self.width) & (sums[0] > 0)
        spans, sums = np.array(spans[:, kept], order="C"), sums[:, kept]
        if spans.shape[1]:
            # The kernel writes over all that it is given.
            totals, begins = sums[0].copy(), np.arange(spans.shape[1])
            share = np.array([_SHARE * self.epsilon])
            begin = _compress(len(begins), share, spans[0], spans[1], totals, begins)
            spans, sums = spans[:, begin:].copy(), np.add.reduceat(sums, begins[begin:], axis=1)
        self._spans, self._sums = spans, sums

    def merge(self, other: SlidingWindow) -> None:
        """Add what another histogram of the same width, epsilon and rows holds."""
        if (other.width, other.epsilon, other.rows) != (self.width, self.epsilon, self.rows):
            raise ValueError(f"a histogram of {self._what()} and one of {other._what()} do not merge")
        self.add(*other.held)

    def estimate(self, now: int | None = None) -> Estimate:
        """The first sum of the window that ends with an instant, not before the latest (None: the latest).

        It is all that is inside, and half of what the window's start cuts through.

        Raises
        ------
        ValueError
            `now` lies before the latest instant.
        """
        if not len(self):
            return Estimate(0.0, 0.0, 0.0)
        latest = int(self._spans[1].max())
        if now is not None and now < latest:
            raise ValueError(f"the window has gone on to {latest}: {now} is past")
        now = latest if now is None else now
        found = self.between(now - self.width, now)
        low, cut = float(found.inside[0]), float(found.cut[0])
        return Estimate(low + cut / 2, low, low + cut)

    def between(self, start: int, end: int) -> Sums:
        """The sums of the buckets over the instants from `start` to `end`, both included."""
        first, last = self._spans
        inside = (first >= start) & (last <= end)
        cut = (last >= start) & (first <= end) & ~inside
        return Sums(self._sums[:, inside].sum(axis=1), self._sums[:, cut].sum(axis=1))

    @property
    def held(self) -> tuple[Array, Array]:
        """The buckets, from old to new, as `add` takes them; not to be written to."""
        return self._spans, self._sums

    def hold(self, spans: Array, sums: Array) -> None:
        """Take over buckets, such as were held, in place of its own.

        Raises
        ------
        ValueError
            They are none of this histogram.
        """
        size = spans.shape[-1] if spans.ndim else 0
        if spans.shape != (2, size) or sums.shape != (self.rows, size) or not np.isfinite(sums).all():
            raise ValueError(f"spans of shape {spans.shape}, sums of shape {sums.shape}")
        if (spans[0] > spans[1]).any() or (sums[0] <= 0).any():
            raise ValueError("a bucket is empty, or ends before it begins")
        self._spans, self._sums = spans, sums

    def _what(self) -> str:
        return f"{self.rows} sums in {self.width} within {self.epsilon}"
