"""`SlidingWindow`: an exponential histogram, the window over any statistic that can be merged.

A histogram is a list of buckets, each of which knows the span of its values and what they add up to. Buckets grow with
their age, so that the one bucket that the window's start cuts through holds little beside all that is newer: how
much, and what it adds up to, is up to the `Statistic` (Datar, Gionis, Indyk and Motwani 2002, for counts and sums;
Babcock, Datar, Motwani and O'Callaghan 2003, for variances). A statistic decides how far the buckets of old values may
be merged. `SlidingWindow` has the instants: what has left the window, the order of time, and what is still to be put
into buckets.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.errors import InputError
from cep_pipeline.guarded import brief
from cep_pipeline.statistics.versioned import check_version

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
VERSION = 1
"""Version of the JSON form."""
LEAST_PENDING = 256
"""Values that are held until buckets are merged, at least."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate, and what the true value lies between whatever the values were."""

    value: float
    low: float
    high: float


class Statistic(ABC):
    """A statistic whose buckets can be merged.

    Attributes
    ----------
    name
        What it is called in JSON.
    rows
        The numbers that a bucket holds; the first is not 0 where it holds anything.
    """

    name: str
    rows: int

    def checked(self, values: npt.ArrayLike | None, size: int) -> Array:
        """So many values as float64; ValueError where the statistic is not of such, or where one is not finite."""
        return _finite(values, size)

    def added(self, instants: Array, values: Array, epsilon: float) -> Buckets:
        """Values in buckets, at least as fine as `merged` leaves them: each in one of its own."""
        return np.stack((instants, instants)), np.stack((np.ones(len(values)), values, np.zeros(len(values))))

    def merged(self, buckets: Buckets, epsilon: float) -> Buckets:
        """Neighbouring buckets made one wherever the relative error stays within `epsilon`, as the papers do it."""
        return _compressed(buckets, epsilon, self.name)

    @abstractmethod
    def estimate(self, sums: Array, inside: Array, cut: Array) -> Estimate:
        """The statistic over the buckets that are inside a window, and those that its start cuts through."""


@dataclass(frozen=True)
class Sum(Statistic):
    """The sum of values that are not negative."""

    name = "sum"
    rows = 3

    def checked(self, values: npt.ArrayLike | None, size: int) -> Array:
        what = _finite(values, size)
        if (what < 0).any():
            raise ValueError("a sum over a sliding window is of values that are not negative")
        return what

    def estimate(self, sums: Array, inside: Array, cut: Array) -> Estimate:
        """All that are inside, and half of what is cut."""
        return _sum_estimate(sums[1], inside, cut)


@dataclass(frozen=True)
class Count(Sum):
    """The number of values, whatever they are."""

    name = "count"

    def checked(self, values: npt.ArrayLike | None, size: int) -> Array:
        return np.ones(size)

    def added(self, instants: Array, values: Array, epsilon: float) -> Buckets:
        """Merged already where they are in the order of time."""
        if len(instants) and (instants[1:] >= instants[:-1]).all():
            return _counted(instants, epsilon)
        return super().added(instants, values, epsilon)


@dataclass(frozen=True)
class Variance(Statistic):
    """The variance of the population; buckets are merged by the number of newer values and by their squares.

    Notes
    -----
    It needs more than the rule of the paper, which compares sums of squares alone: of equal values that one merges any
    number, and when other values follow it no longer knows how many of them the window covers.
    """

    name = "variance"
    rows = 3

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
class SeveralSums(Statistic):
    """Sums of rows of numbers that are not negative, in the buckets of the first: everything else is carried along.

    What the pairs of a scope say of its conditions has to be cut at the same instants to be divided by one another.
    """

    rows: int

    @property
    def name(self) -> str:  # type: ignore[override]
        """The number of sums."""
        return f"{self.rows} sums"

    def checked(self, values: npt.ArrayLike | None, size: int) -> Array:
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


@dataclass(frozen=True)
class Sums:
    """The sums of the buckets inside a span, and of those that its edges cut through; shape (rows,)."""

    inside: Array
    cut: Array


class SlidingWindow:
    """A window over a statistic: of the values in the last `width` of a stream.

    Parameters
    ----------
    statistic
        What buckets hold and how they merge, or the name of one: `"count"`, `"sum"` (of values that are not negative),
        `"variance"` (of the population).
    width
        An instant t is in the window of an instant now if now - t <= width. Instants are microseconds, or positions.
    epsilon
        Largest relative error, in (0, 0.5].

    Notes
    -----
    A histogram has O(1/epsilon log n) buckets, where n is the number, or the ratio of the largest to the smallest sum,
    that a window holds; an update costs O(1), amortized. The error holds for values that come in the order of time, and
    for histograms of consecutive parts that are merged. Of others the bounds that come with an estimate hold.

    Examples
    --------
    >>> window = SlidingWindow("count", width=10, epsilon=0.1)
    >>> window.update_many([1, 5, 5, 12])
    >>> window.estimate().value, window.estimate(now=15).value, window.estimate(now=30).value
    (3.0, 3.0, 0.0)
    """

    def __init__(self, statistic: Statistic | str, width: int, epsilon: float) -> None:
        self.statistic = statistic_named(statistic) if isinstance(statistic, str) else statistic
        if width < 0:
            raise ValueError(f"the width of a window is not negative: {width}")
        if not 0 < epsilon <= 0.5:
            raise ValueError(f"epsilon lies in (0, 0.5], not {epsilon}")
        self.width, self.epsilon = width, epsilon
        self._spans = np.empty((2, 0), np.int64)
        self._sums = np.empty((self.statistic.rows, 0), np.float64)
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
        what = self.statistic.checked(values, len(at))
        self._pending.append((at, what))
        self._held += len(at)
        if self._held >= max(LEAST_PENDING, self._spans.shape[1]):
            self._settle()

    def add(self, spans: Array, sums: Array) -> None:
        """Add buckets of the statistic.

        Parameters
        ----------
        spans
            int64, shape (2, n): first and last instant of what each holds.
        sums
            float64, shape (rows, n).
        """
        self._settle()
        self._add(spans, sums)

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
            return Estimate(0.0, 0.0, 0.0)
        if now is not None and now < latest:
            raise ValueError(f"the window has gone on to {latest}: {now} is past")
        start = (latest if now is None else now) - self.width
        inside, cut = self._spans[0] >= start, (self._spans[0] < start) & (self._spans[1] >= start)
        return self.statistic.estimate(self._sums, inside, cut)

    def between(self, start: int, end: int) -> Sums:
        """The sums of the buckets over the instants from `start` to `end`, both included."""
        self._settle()
        first, last = self._spans
        inside = (first >= start) & (last <= end)
        cut = (last >= start) & (first <= end) & ~inside
        return Sums(self._sums[:, inside].sum(axis=1), self._sums[:, cut].sum(axis=1))

    @property
    def held(self) -> Buckets:
        """The buckets, from old to new; not to be written to."""
        self._settle()
        return self._spans, self._sums

    def hold(self, spans: Array, sums: Array) -> None:
        """Take over buckets, such as were held, in place of its own.

        Raises
        ------
        ValueError
            They are none of this statistic.
        """
        size = spans.shape[-1] if spans.ndim else 0
        if spans.shape != (2, size) or sums.shape != (self.statistic.rows, size) or not np.isfinite(sums).all():
            raise ValueError(f"spans of shape {spans.shape}, sums of shape {sums.shape}")
        if (spans[0] > spans[1]).any() or (sums[0] <= 0).any():
            raise ValueError("a bucket is empty, or ends before it begins")
        self._spans, self._sums, self._pending, self._held, self._single = spans, sums, [], 0, []

    def to_json(self) -> dict[str, Any]:
        """The histogram as JSON values, with a version."""
        self._settle()
        return {
            "version": VERSION,
            "statistic": self.statistic.name,
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
        from cep_pipeline.documents import check_form, form_of

        check_version(content, VERSION, "histogram", source)
        rows = {"spans": tuple[tuple[int, ...], ...], "sums": tuple[tuple[float, ...], ...]}
        form = form_of({"version": int, "statistic": str, "width": int, "epsilon": float, **rows})
        check_form(form, content, "no histogram", source, "estimate the statistics again")
        try:
            window = cls(content["statistic"], content["width"], content["epsilon"])
            window.hold(np.array(content["spans"], np.int64), np.array(content["sums"], np.float64))
        except (ValueError, OverflowError) as error:
            raise InputError(f"{source}: no histogram: {brief(error)}; estimate the statistics again") from error
        return window

    def _what(self) -> str:
        return f"the {self.statistic.name} in {self.width} within {self.epsilon}"

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
        instants, values = self._pending[0]
        if len(self._pending) > 1:
            instants = np.concatenate([at for at, _ in self._pending])
            values = np.concatenate([what for _, what in self._pending])
        self._pending, self._held = [], 0
        if not len(instants):
            return
        start = instants.max() - self.width
        if instants.min() < start:
            alive = instants >= start
            instants, values = instants[alive], values[alive]
        self._add(*self.statistic.added(instants, values, self.epsilon))

    def _add(self, spans: Array, sums: Array) -> None:
        spans, sums = np.concatenate((self._spans, spans), axis=1), np.concatenate((self._sums, sums), axis=1)
        if not spans.shape[1]:
            return
        if (np.diff(spans[1]) < 0).any():
            order = np.argsort(spans[1], kind="stable")
            spans, sums = spans[:, order], sums[:, order]
        alive = spans[1] >= spans[1, -1] - self.width
        self._spans, self._sums = self.statistic.merged((spans[:, alive], sums[:, alive]), self.epsilon)
