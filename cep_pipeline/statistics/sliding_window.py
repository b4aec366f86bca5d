"""`SlidingWindow`: an exponential histogram, the window over any statistic that can be merged.

A histogram is a list of buckets, each of which knows the span of its values and what they add up to. Buckets grow with
their age, so that the one bucket that the window's start cuts through holds little beside all that is newer: how
much, and what it adds up to, is up to the statistic (`mergeable.py`). Here are the instants: what has left the window,
the order of time, and what is still to be put into buckets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cep_pipeline.errors import InputError
from cep_pipeline.statistics.mergeable import Array, Buckets, Estimate, Statistic, statistic_named
from cep_pipeline.statistics.versioned import check_version

VERSION = 1
"""Version of the JSON form."""
LEAST_PENDING = 256
"""Values that are held until buckets are merged, at least."""


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
        check_version(content, VERSION, "histogram", source)
        try:
            window = cls(content["statistic"], content["width"], content["epsilon"])
            window.hold(np.array(content["spans"], np.int64), np.array(content["sums"], np.float64))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{source}: no histogram: {error!r}; estimate the statistics again") from error
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
        instants = np.concatenate([at for at, _ in self._pending])
        values = np.concatenate([what for _, what in self._pending])
        self._pending, self._held = [], 0
        if not len(instants):
            return
        alive = instants >= instants.max() - self.width
        self._add(*self.statistic.added(instants[alive], values[alive], self.epsilon))

    def _add(self, spans: Array, sums: Array) -> None:
        spans, sums = np.concatenate((self._spans, spans), axis=1), np.concatenate((self._sums, sums), axis=1)
        if not spans.shape[1]:
            return
        if (np.diff(spans[1]) < 0).any():
            order = np.argsort(spans[1], kind="stable")
            spans, sums = spans[:, order], sums[:, order]
        alive = spans[1] >= spans[1, -1] - self.width
        self._spans, self._sums = self.statistic.merged((spans[:, alive], sums[:, alive]), self.epsilon)
