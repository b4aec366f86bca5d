"""What a sliding window can be over: numbers that buckets hold, how buckets become one, and what they say together.

A statistic decides how far the buckets of old values may be merged, so that the one that the window's start cuts
through stays a small part of all that is newer (Datar, Gionis, Indyk and Motwani 2002, for counts and sums; Babcock,
Datar, Motwani and O'Callaghan 2003, for variances). `sliding_window.SlidingWindow` is a window over any of them.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from cep_pipeline.compiled.native import NativeKernel

Array = npt.NDArray[Any]
Buckets = tuple[Array, Array]
"""First and last instant of each, int64 of shape (2, n), from old to new, and their numbers, float64 of (rows, n)."""

_compress = NativeKernel(
    "cep_pipeline.statistics.sliding_window_kernel",
    "compress",
    ("int64", "int64", "float64*", "int64*", "int64*", "float64*", "float64*", "float64*"),
)
_SHARE = {"count": 2.0, "sum": 2.0, "variance": 0.5}
"""What a bucket may hold of all that is newer, as a multiple of epsilon.

Of counts and sums half of the bucket is the error. Of variances both the number of values and the sum of squares are
held to that share. Values that come later may then let the squares grow by a share of 2s + 2s^2 + s^3 for a share
of s, which with the share of the number stays below 2 epsilon.
"""


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate, and what the true value lies between whatever the values were."""

    value: float
    low: float
    high: float


class Statistic(Protocol):
    """A statistic whose buckets can be merged.

    Attributes
    ----------
    name
        What it is called in JSON.
    rows
        The numbers that a bucket holds; the first is not 0 where it holds anything.
    """

    @property
    def name(self) -> str: ...

    @property
    def rows(self) -> int: ...

    def checked(self, values: npt.ArrayLike | None, size: int) -> Array:
        """So many values as float64; ValueError where the statistic is not of such."""
        ...

    def added(self, instants: Array, values: Array, epsilon: float) -> Buckets:
        """Values in buckets, at least as fine as `merged` leaves them."""
        ...

    def merged(self, buckets: Buckets, epsilon: float) -> Buckets:
        """Neighbouring buckets made one wherever the relative error stays within `epsilon`."""
        ...

    def estimate(self, sums: Array, inside: Array, cut: Array) -> Estimate:
        """The statistic over the buckets that are inside a window, and those that its start cuts through."""
        ...


@dataclass(frozen=True)
class Count:
    """The number of values."""

    name = "count"
    rows = 3

    def checked(self, values: npt.ArrayLike | None, size: int) -> Array:
        """Ones: what the values are does not matter."""
        return np.ones(size)

    def added(self, instants: Array, values: Array, epsilon: float) -> Buckets:
        """Merged already where they are in the order of time."""
        if len(instants) and (instants[1:] >= instants[:-1]).all():
            return _counted(instants, epsilon)
        return _single(instants, values)

    def merged(self, buckets: Buckets, epsilon: float) -> Buckets:
        """Merge as the paper does, by the number of newer values."""
        return _compressed(buckets, epsilon, self.name)

    def estimate(self, sums: Array, inside: Array, cut: Array) -> Estimate:
        """All that are inside, and half of what is cut."""
        return _sum_estimate(sums[1], inside, cut)


@dataclass(frozen=True)
class Sum(Count):
    """The sum of values that are not negative."""

    name = "sum"

    def checked(self, values: npt.ArrayLike | None, size: int) -> Array:
        """Finite, not negative."""
        what = _finite(values, size)
        if (what < 0).any():
            raise ValueError("a sum over a sliding window is of values that are not negative")
        return what

    def added(self, instants: Array, values: Array, epsilon: float) -> Buckets:
        """Each a bucket."""
        return _single(instants, values)


@dataclass(frozen=True)
class Variance:
    """The variance of the population.

    Notes
    -----
    It needs more than the rule of the paper, which compares sums of squares alone: of equal values that one merges any
    number, and when other values follow it no longer knows how many of them the window covers.
    """

    name = "variance"
    rows = 3

    def checked(self, values: npt.ArrayLike | None, size: int) -> Array:
        """Finite."""
        return _finite(values, size)

    def added(self, instants: Array, values: Array, epsilon: float) -> Buckets:
        """Each a bucket."""
        return _single(instants, values)

    def merged(self, buckets: Buckets, epsilon: float) -> Buckets:
        """Merge by the number of newer values and by their squares."""
        return _compressed(buckets, epsilon, self.name)

    def estimate(self, sums: Array, inside: Array, cut: Array) -> Estimate:
        """Between what the squares are without and with the buckets that are cut."""
        counts, values, squares = sums
        # Sums of squares only grow with further values.
        least, most = _combined(counts, values, squares, inside), _combined(counts, values, squares, inside | cut)
        if most[0] == 0:
            return _exactly(0.0)
        if not cut.any():
            return _exactly(most[2] / most[0])
        low, high = least[2] / most[0], most[2] / max(least[0], 1.0)
        return Estimate((low + high) / 2, low, high)


@dataclass(frozen=True)
class SeveralSums:
    """Sums of rows of numbers that are not negative, in the buckets of the first: everything else is carried along.

    What the pairs of a scope say of its conditions has to be cut at the same instants to be divided by one another.
    """

    rows: int

    @property
    def name(self) -> str:
        """The number of sums."""
        return f"{self.rows} sums"

    def checked(self, values: npt.ArrayLike | None, size: int) -> Array:
        """Not one at a time: buckets of them are added."""
        raise ValueError("several sums are added in buckets")

    def added(self, instants: Array, values: Array, epsilon: float) -> Buckets:
        """Not one at a time: buckets of them are added."""
        raise ValueError("several sums are added in buckets")

    def merged(self, buckets: Buckets, epsilon: float) -> Buckets:
        """Merge by the first sum; buckets that add nothing to it are left out."""
        spans, sums = buckets
        some = sums[0] > 0
        sums = sums[:, some]
        if not sums.shape[1]:
            return spans[:, some], sums
        weights, sizes = sums[0].copy(), np.ones(sums.shape[1])
        spans, (sizes, _, _) = _compressed((spans[:, some], np.stack((sizes, weights, weights))), epsilon, "sum")
        ends = np.cumsum(sizes.astype(np.int64))
        return spans, np.add.reduceat(sums, ends - sizes.astype(np.int64), axis=1)

    def estimate(self, sums: Array, inside: Array, cut: Array) -> Estimate:
        """The first sum."""
        return _sum_estimate(sums[0], inside, cut)


STATISTICS: dict[str, Statistic] = {statistic.name: statistic for statistic in (Count(), Sum(), Variance())}


def statistic_named(name: str) -> Statistic:
    """The statistic that a name is of; ValueError where there is none."""
    if several := re.fullmatch(r"([1-9][0-9]{0,5}) sums", name):
        return SeveralSums(int(several[1]))
    if name not in STATISTICS:
        raise ValueError(f"there is no statistic {name!r}; there are: {', '.join(STATISTICS)}")
    return STATISTICS[name]


def _finite(values: npt.ArrayLike | None, size: int) -> Array:
    what: Array = np.ones(size) if values is None else np.asarray(values, np.float64)
    if what.shape != (size,):
        raise ValueError(f"{size} instants, but {len(what)} values")
    if not np.isfinite(what).all():
        raise ValueError("values must be finite: leave out null, NaN and infinities")
    return what


def _single(instants: Array, values: Array) -> Buckets:
    return np.stack((instants, instants)), np.stack((np.ones(len(values)), values, np.zeros(len(values))))


def _compressed(buckets: Buckets, epsilon: float, statistic: str) -> Buckets:
    spans, sums = (np.array(part, order="C") for part in buckets)  # the kernel writes over them
    share = np.array([_SHARE[statistic] * epsilon])
    kind = int(statistic == "variance")
    begin = _compress(spans.shape[1], kind, share, spans[0], spans[1], sums[0], sums[1], sums[2])
    return spans[:, begin:].copy(), sums[:, begin:].copy()


def _sum_estimate(values: Array, inside: Array, cut: Array) -> Estimate:
    low = float(values[inside].sum())
    high = low + float(values[cut].sum())
    return Estimate((low + high) / 2, low, high)


def _counted(instants: Array, epsilon: float) -> tuple[Array, Array]:
    """The buckets of a sorted run of single events, as compressing them one by one leaves them.

    Their sizes depend on nothing but how many events are newer, so that there is no need to look at each.
    """
    ends, newer = [], 0
    size = len(instants)
    while newer < size:
        ends.append(size - newer)
        newer += min(max(1, int(_SHARE["count"] * epsilon * newer)), size - newer)
    last = np.array(ends[::-1], np.int64)
    first = np.concatenate((np.zeros(1, np.int64), last[:-1]))
    counts = (last - first).astype(np.float64)
    return np.stack((instants[first], instants[last - 1])), np.stack((counts, counts, np.zeros(len(counts))))


def _exactly(value: float) -> Estimate:
    return Estimate(value, value, value)


def _combined(counts: Array, means: Array, squares: Array, chosen: Array) -> tuple[float, float, float]:
    """Number, mean and sum of squared differences of the values of some buckets."""
    count, mean = float(counts[chosen].sum()), 0.0
    if count == 0:
        return 0.0, 0.0, 0.0
    reference = float(means[chosen][-1])  # differences from a value among them do not cancel
    mean = reference + float((counts[chosen] * (means[chosen] - reference)).sum()) / count
    square = math.fsum(squares[chosen]) + math.fsum(counts[chosen] * (means[chosen] - mean) ** 2)
    return count, mean, square
