"""Exponential histograms: counts, sums and variances over a sliding window, in little space and with a bounded error.

A histogram is a list of buckets, each of which knows the span of its values and what they add up to. Buckets grow with
their age, so that the one bucket that the window's start cuts through holds little beside all that is newer
(Datar, Gionis, Indyk and Motwani 2002, for counts and sums; Babcock, Datar, Motwani and O'Callaghan 2003, for
variances).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.errors import InputError
from cep_pipeline.statistics.snapshot import check_version

VERSION = 1
"""Version of the JSON form."""
Statistic = Literal["count", "sum", "variance"]
LEAST_PENDING = 256
"""Values that are held until buckets are merged, at least."""

Array = npt.NDArray[Any]
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


class SlidingWindow:
    """A statistic of the values in the last `width` of a stream.

    Parameters
    ----------
    statistic
        `"count"`, `"sum"` (of values that are not negative) or `"variance"` (of the population).
    width
        An instant t is in the window of an instant now if now - t <= width. Instants are microseconds, or positions.
    epsilon
        Largest relative error, in (0, 0.5].

    Notes
    -----
    A histogram has O(1/epsilon log n) buckets, where n is the number, or the ratio of the largest to the smallest sum,
    that a window holds; an update costs O(1), amortized. The error holds for values that come in the order of time, and
    for histograms of consecutive parts that are merged. Of others the bounds that come with an estimate hold.

    Variances need more than the rule of the paper, which compares sums of squares alone: of equal values it merges any
    number, and when other values follow it no longer knows how many of them the window covers.

    Examples
    --------
    >>> window = SlidingWindow("count", width=10, epsilon=0.1)
    >>> window.update_many([1, 5, 5, 12])
    >>> window.estimate().value, window.estimate(now=15).value, window.estimate(now=30).value
    (3.0, 3.0, 0.0)
    """

    def __init__(self, statistic: Statistic, width: int, epsilon: float) -> None:
        if statistic not in _SHARE:
            raise ValueError(f"there is no statistic {statistic!r}; there are: {', '.join(_SHARE)}")
        if width < 0:
            raise ValueError(f"the width of a window is not negative: {width}")
        if not 0 < epsilon <= 0.5:
            raise ValueError(f"epsilon lies in (0, 0.5], not {epsilon}")
        self.statistic, self.width, self.epsilon = statistic, width, epsilon
        self._spans = np.empty((2, 0), np.int64)
        self._sums = np.empty((3, 0), np.float64)
        self._pending: list[tuple[Array, Array]] = []
        self._held = 0
        self._single: list[tuple[int, float]] = []

    def __len__(self) -> int:
        """Number of buckets."""
        self._settle()
        return self._spans.shape[1]

    @property
    def latest(self) -> int | None:
        """The latest instant, None before the first."""
        self._settle()
        return int(self._spans[1].max()) if self._spans.shape[1] else None

    def update(self, instant: int, value: float = 1.0) -> None:
        """Add one value."""
        self._single.append((instant, value))
        if len(self._single) >= max(LEAST_PENDING, self._spans.shape[1]):
            self._settle()

    def update_many(self, instants: npt.ArrayLike, values: npt.ArrayLike | None = None) -> None:
        """Add values in the order of time.

        Parameters
        ----------
        instants
            int64, shape (n,).
        values
            float64, shape (n,); not needed for a count.

        Raises
        ------
        ValueError
            A value is not finite, or one of a sum is negative.
        """
        self._take_single()
        at = np.asarray(instants, np.int64)
        what = np.ones(len(at)) if values is None or self.statistic == "count" else np.asarray(values, np.float64)
        if what.shape != at.shape:
            raise ValueError(f"{len(at)} instants, but {len(what)} values")
        if not np.isfinite(what).all():
            raise ValueError("values must be finite: leave out null, NaN and infinities")
        if self.statistic == "sum" and (what < 0).any():
            raise ValueError("a sum over a sliding window is of values that are not negative")
        self._pending.append((at, what))
        self._held += len(at)
        if self._held >= max(LEAST_PENDING, self._spans.shape[1]):
            self._settle()

    def merge(self, other: SlidingWindow) -> None:
        """Add what another histogram of the same statistic, width and epsilon holds."""
        if (other.statistic, other.width, other.epsilon) != (self.statistic, self.width, self.epsilon):
            raise ValueError(f"a histogram of {self._what()} and one of {other._what()} do not merge")
        self._settle()
        other._settle()
        self._add(other._spans, other._sums)

    def shifted(self, by: int) -> SlidingWindow:
        """The same values at later instants, such as positions of a part counted from the beginning of the whole."""
        self._settle()
        moved = SlidingWindow(self.statistic, self.width, self.epsilon)
        moved._spans, moved._sums = self._spans + by, self._sums.copy()
        return moved

    def estimate(self, now: int | None = None) -> Estimate:
        """The statistic of the window that ends with an instant, not before the latest (None: the latest).

        Raises
        ------
        ValueError
            `now` lies before the latest instant.
        """
        latest = self.latest
        if latest is None:
            return _exactly(0.0)
        if now is not None and now < latest:
            raise ValueError(f"the window has gone on to {latest}: {now} is past")
        start = (latest if now is None else now) - self.width
        inside, cut = self._spans[0] >= start, (self._spans[0] < start) & (self._spans[1] >= start)
        counts, values, squares = self._sums
        if self.statistic != "variance":
            low = float(values[inside].sum())
            high = low + float(values[cut].sum())
            return Estimate((low + high) / 2, low, high)
        # Sums of squares only grow with further values.
        least, most = _combined(counts, values, squares, inside), _combined(counts, values, squares, inside | cut)
        if most[0] == 0:
            return _exactly(0.0)
        if not cut.any():
            return _exactly(most[2] / most[0])
        number = max(least[0], 1.0)
        low, high = least[2] / most[0], most[2] / number
        return Estimate((low + high) / 2, low, high)

    def to_json(self) -> dict[str, Any]:
        """The histogram as JSON values, with a version."""
        self._settle()
        return {
            "version": VERSION,
            "statistic": self.statistic,
            "width": self.width,
            "epsilon": self.epsilon,
            "spans": self._spans.tolist(),
            "sums": self._sums.tolist(),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any], source: str = "histogram") -> SlidingWindow:
        """Read what `to_json` wrote.

        Raises
        ------
        InputError
            `content` is of another version, or no histogram; `source` names it in the message.
        """
        check_version(content, VERSION, "histogram", source)
        try:
            window = cls(content["statistic"], content["width"], content["epsilon"])
            spans, sums = np.array(content["spans"], np.int64), np.array(content["sums"], np.float64)
            size = spans.shape[-1] if spans.ndim else 0
            if spans.shape != (2, size) or sums.shape != (3, size) or not np.isfinite(sums).all():
                raise ValueError(f"spans of shape {spans.shape}, sums of shape {sums.shape}")
            if (spans[0] > spans[1]).any() or (sums[0] < 1).any():
                raise ValueError("a bucket is empty, or ends before it begins")
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{source}: no histogram: {error!r}; estimate the statistics again") from error
        window._spans, window._sums = spans, sums
        return window

    def _what(self) -> str:
        return f"the {self.statistic} in {self.width} within {self.epsilon}"

    def _take_single(self) -> None:
        if self._single:
            single, self._single = self._single, []
            instants, values = zip(*single, strict=True)
            self.update_many(np.array(instants, np.int64), np.array(values, np.float64))

    def _settle(self) -> None:
        """Put what is pending into buckets."""
        self._take_single()
        if not self._pending:
            return
        instants = np.concatenate([at for at, _ in self._pending])
        values = np.concatenate([what for _, what in self._pending])
        self._pending, self._held = [], 0
        if not len(instants):
            return
        if self.statistic == "count" and (instants[1:] >= instants[:-1]).all():
            self._add(*_counted(instants[np.searchsorted(instants, instants[-1] - self.width) :], self.epsilon))
            return
        self._add(np.stack((instants, instants)), np.stack((np.ones(len(values)), values, np.zeros(len(values)))))

    def _add(self, spans: Array, sums: Array) -> None:
        spans, sums = np.concatenate((self._spans, spans), axis=1), np.concatenate((self._sums, sums), axis=1)
        if not spans.shape[1]:
            return
        if (np.diff(spans[1]) < 0).any():
            order = np.argsort(spans[1], kind="stable")
            spans, sums = spans[:, order], sums[:, order]
        alive = spans[1] >= spans[1, -1] - self.width
        spans, sums = np.ascontiguousarray(spans[:, alive]), np.ascontiguousarray(sums[:, alive])
        share = np.array([_SHARE[self.statistic] * self.epsilon])
        kind = int(self.statistic == "variance")
        begin = _compress(spans.shape[1], kind, share, spans[0], spans[1], sums[0], sums[1], sums[2])
        self._spans, self._sums = spans[:, begin:].copy(), sums[:, begin:].copy()


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


def merged_buckets(spans: Array, weights: Array, epsilon: float) -> tuple[Array, Array]:
    """Merge neighbouring buckets of a sum wherever its relative error stays within `epsilon`.

    Parameters
    ----------
    spans
        int64, shape (2, n): first and last instant of each, from old to new.
    weights
        float64, shape (n,): what each adds to the sum.

    Returns
    -------
    tuple[Array, Array]
        The spans that remain, and of how many buckets each is made.
    """
    first, last = np.ascontiguousarray(spans[0]).copy(), np.ascontiguousarray(spans[1]).copy()
    sizes, totals, unused = np.ones(len(weights)), weights.copy(), np.zeros(len(weights))
    share = np.array([_SHARE["sum"] * epsilon])
    begin = _compress(len(weights), 0, share, first, last, sizes, totals, unused)
    return np.stack((first[begin:], last[begin:])), sizes[begin:].astype(np.int64)


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
