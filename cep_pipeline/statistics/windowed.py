"""`WindowedStatistics`: the statistics of a stream over a sliding window, as a state that goes on from slice to slice.

What is held does not grow with the number of events: an exponential histogram of each leaf for the window that ends
now; the counts of each leaf in the bins of a day, for windows that have gone by and for the business day; the sums of
each scope's tested pairs in the buckets of a histogram of their own. Slices of a stream are counted apart and merged in
the order of time.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cep_pipeline.errors import InputError
from cep_pipeline.patterns.pattern import Pattern, Window
from cep_pipeline.statistics.joint import DEPENDENT_FACTOR, split_joints
from cep_pipeline.statistics.samples import Terms
from cep_pipeline.statistics.sliding_window import Estimate, SlidingWindow, Sums
from cep_pipeline.statistics.snapshot import (
    Kind,
    LeafRate,
    Selectivity,
    Source,
    StatisticsSnapshot,
    effective_number,
    wilson_interval,
)
from cep_pipeline.storage import digest_of

Array = np.ndarray[Any, Any]

_SHORTEST_US, _LONGEST_US = 60_000_000, 900_000_000
"""Bins are a quarter of a window, but from one minute to a quarter of an hour."""


def bin_width_us(window_us: int) -> int:
    """Length of a bin: a whole part of the window, where the window is longer than a minute.

    Examples
    --------
    >>> [bin_width_us(minutes * 60_000_000) / 60e6 for minutes in (20, 60, 50, 1, 1440)]
    [5.0, 15.0, 12.5, 1.0, 15.0]
    """
    if window_us <= _SHORTEST_US:
        return _SHORTEST_US
    target = min(max(window_us // 4, _SHORTEST_US), _LONGEST_US)
    return -(-window_us // -(-window_us // target))


def packed(array: Array) -> str:
    """An array of 8-byte numbers as text.

    Examples
    --------
    >>> unpacked(packed(np.array([[1, 2], [3, 4]])), np.int64, rows=2).tolist()
    [[1, 2], [3, 4]]
    """
    data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()
    return b64encode(zlib.compress(data, 6)).decode("ascii")


def unpacked(text: str, dtype: type[np.int64] | type[np.float64], rows: int) -> Array:
    """The array of so many rows that `packed` wrote.

    Raises
    ------
    ValueError
        The text is none, or holds numbers that are not finite.
    """
    try:
        data = zlib.decompress(b64decode(text, validate=True))
    except zlib.error as error:
        raise ValueError(f"an array is damaged: {error}") from error
    array = np.frombuffer(data, np.dtype(dtype).newbyteorder("<")).astype(dtype).reshape(rows, -1)
    if not np.isfinite(array).all():
        raise ValueError("an array holds numbers that are not finite")
    return array


@dataclass(frozen=True)
class DayWindows:
    """Windows of a day: counts of shape (rows, windows), the length of each in seconds, and what to know of them.

    `totals` are the counts of the day, of shape (rows,).
    """

    counts: Array
    seconds: Array
    totals: Array
    notes: tuple[str, ...] = ()


class DayBins:
    """Counts by bins that begin at multiples of their width.

    Parameters
    ----------
    rows
        How many leaves are counted; the first row is that of all events.
    width_us, horizon_us
        Length of a bin, and how long before the latest one bins are remembered.
    """

    def __init__(self, rows: int, width_us: int, horizon_us: int) -> None:
        self.width_us = width_us
        self.most = -(-horizon_us // width_us) + 1
        self.first = 0
        self.counts = np.zeros((rows, 0), np.int64)

    @property
    def start_us(self) -> int:
        """The instant from which on events are remembered, if there are any."""
        return self.first * self.width_us

    def count(self, arrivals: Sequence[Array]) -> None:
        """Count the events of one slice into empty bins: of each row their ascending timestamps."""
        every = arrivals[0]
        last = int(every[-1]) // self.width_us
        self.first = max(int(every[0]) // self.width_us, last - self.most + 1)
        edges = (self.first + np.arange(last - self.first + 2)) * self.width_us
        self.counts = np.stack([np.diff(np.searchsorted(times, edges)) for times in arrivals]).astype(np.int64)

    def merge(self, later: DayBins) -> None:
        """Add the bins of later events, and forget those that lie too far behind them."""
        size = later.counts.shape[1]
        if not size:
            return
        last = max(later.first + size, self.first + self.counts.shape[1]) if self.counts.size else later.first + size
        first = max(min(self.first, later.first) if self.counts.shape[1] else later.first, last - self.most)
        merged = np.zeros((len(self.counts), last - first), np.int64)
        for bins in (self, later):
            begin = max(first - bins.first, 0)
            kept = bins.counts[:, begin:]
            place = bins.first + begin - first
            merged[:, place : place + kept.shape[1]] += kept
        empty = int(np.argmax(merged[0] > 0))  # what a gap has left
        self.first, self.counts = first + empty, merged[:, empty:]

    def between(self, start_us: int, end_us: int) -> tuple[Array, Array, Array]:
        """Counts after one instant up to another: estimate, least and most, each of shape (rows,).

        A bin that one of them cuts counts by its part of the time, between nothing and all of it.
        """
        begins = (self.first + np.arange(self.counts.shape[1])) * self.width_us
        ends = begins + self.width_us - 1
        part = (np.minimum(ends, end_us) - np.maximum(begins - 1, start_us)) / self.width_us
        inside, touched = part >= 1, part > 0
        value = (self.counts * np.clip(part, 0, 1)).sum(axis=1)
        return value, self.counts[:, inside].sum(axis=1), self.counts[:, touched].sum(axis=1)

    def ends(self, start_us: int, end_us: int, most: int) -> list[int]:
        """The last instants of up to `most` bins of a span, from its first to its last events, evenly spread."""
        first, last = self._span(start_us, end_us)
        step = max(1, -(-(last - first) // most))
        return [(self.first + place) * self.width_us - 1 for place in range(last, first, -step)][::-1]

    def windows(self, start_us: int, end_us: int, window_us: int) -> DayWindows | None:
        """All windows of a span that events came in, from its first to its last events; None where none came.

        A window begins with every bin.
        """
        first, last = self._span(start_us, end_us)
        if first == last:
            return None
        behind = np.zeros((len(self.counts), last - first + 1), np.int64)
        np.cumsum(self.counts[:, first:last], axis=1, out=behind[:, 1:])
        size = max(1, round(window_us / self.width_us))
        stops = np.arange(size, last - first + 1)
        starts = stops - size
        notes = []
        if not len(stops):
            starts, stops = np.array([0]), np.array([last - first])
            notes.append("the business day is shorter than a window: rates are over all of it")
        if window_us < self.width_us:
            notes.append(f"windows are of {self.width_us / 1e6:g} s, the shortest that a business day is told apart by")
        some = behind[0, stops] > behind[0, starts]
        starts, stops = starts[some], stops[some]
        seconds = (stops - starts) * (self.width_us / 1e6)
        return DayWindows(behind[:, stops] - behind[:, starts], seconds, behind[:, -1], tuple(notes))

    def _span(self, start_us: int, end_us: int) -> tuple[int, int]:
        """Places of the first bin of a span that holds an event, and after the last one; equal where there is none."""
        size = self.counts.shape[1]
        first = int(np.clip(start_us // self.width_us - self.first, 0, size))
        last = int(np.clip(-(-end_us // self.width_us) - self.first, first, size))
        some = np.flatnonzero(self.counts[0, first:last])
        return (first + int(some[0]), first + int(some[-1]) + 1) if len(some) else (first, first)

    def to_json(self) -> dict[str, Any]:
        """The bins as JSON values."""
        return {"first": self.first, "counts": packed(self.counts)}

    def read(self, content: dict[str, Any]) -> None:
        """Take over what `to_json` wrote."""
        self.first, self.counts = int(content["first"]), unpacked(content["counts"], np.int64, len(self.counts))


VERSION = 2
"""Version of the JSON form."""
EPSILON = 0.02
"""Largest relative error of a leaf's count in the window, unless told otherwise."""
DAY_US = 25 * 3_600_000_000
"""The span for which bins and tested pairs are remembered: the longest day of a clock that is put back."""
_EVENTS = ""
"""The key that all events of the stream are counted by."""


class WindowedStatistics:
    """Statistics of a stream up to its latest event, of the window that ends with it and of the day behind it.

    Parameters
    ----------
    stream
        Name of the stream.
    window
        A length of time.
    epsilon
        Largest relative error of a leaf's count in the window, in (0, 0.5].
    leaves, scopes
        Keys of what is measured; of each scope those of its conditions.

    Attributes
    ----------
    dependent_factor
        By what factor the joint share of conditions on the same two events is off from the product of theirs where
        snapshots say it; whoever makes snapshots may set it.

    Notes
    -----
    Counts in the window that ends with the latest event, or later, lie within epsilon of the true ones; those of other
    windows and all selectivities come with the bounds, or intervals, that hold for them.
    """

    def __init__(
        self, stream: str, window: Window, epsilon: float, leaves: Sequence[str], scopes: Mapping[str, Sequence[str]]
    ) -> None:
        if window.time_us is None:
            raise InputError(f"statistics are of a window of time, not of {window}")
        self.stream, self.window, self.epsilon = stream, window, epsilon
        self._width_us = window.time_us
        self.leaves = tuple(leaves)
        self.scopes = {key: tuple(conditions) for key, conditions in scopes.items()}
        self.dependent_factor = DEPENDENT_FACTOR
        self.events = 0
        self.since_us: int | None = None
        self.latest_us: int | None = None
        self._counts = {key: SlidingWindow(self._width_us, epsilon) for key in (_EVENTS, *self.leaves)}
        self._bins = DayBins(len(self.leaves) + 1, bin_width_us(self._width_us), 2 * DAY_US)
        horizon = max(DAY_US, self._width_us)
        self._sums = {
            key: SlidingWindow(horizon, epsilon, 3 + 2 * len(conditions)) for key, conditions in self.scopes.items()
        }

    @classmethod
    def of(cls, patterns: Sequence[Pattern], window: Window, epsilon: float = EPSILON) -> WindowedStatistics:
        """The state before the first event, of all that planning the patterns asks."""
        terms = Terms.of(patterns)
        return cls(patterns[0].stream, window, epsilon, [leaf.key for leaf in terms.leaves], terms.keys)

    def goes_on(self, later: WindowedStatistics) -> bool:
        """True where another state measures what is measured here, so that it can be merged."""
        return self._what == later._what

    def merge(self, later: WindowedStatistics) -> None:
        """Go on with what was counted of later events.

        Raises
        ------
        InputError
            It is of another stream, window, epsilon or of other patterns, or some of its events are earlier than the
            latest here: slices and days are merged in the order of time, each once.
        """
        if not self.goes_on(later):
            raise InputError(
                f"statistics of {self._described} do not go on with those of {later._described}: they measure "
                "different things; begin anew"
            )
        if later.since_us is None or later.latest_us is None:
            return
        if self.latest_us is not None and later.since_us < self.latest_us:
            raise InputError(
                f"statistics of {self._described} have gone on to {self.latest_us} us, and what is merged begins "
                f"before, at {later.since_us} us: merge slices and days in the order of time, each once"
            )
        for key, histogram in self._counts.items():
            histogram.merge(later._counts[key])
        self._bins.merge(later._bins)
        for key, sums in self._sums.items():
            sums.merge(later._sums[key])
        self.events += later.events
        self.since_us = later.since_us if self.since_us is None else self.since_us
        self.latest_us = later.latest_us

    def take_in(self, own: Array, arrivals: Mapping[str, Array], cells: Mapping[str, tuple[Array, Array]]) -> None:
        """Count the events of one slice into an empty state.

        Parameters
        ----------
        own
            Ascending timestamps of all events of the slice, at least one.
        arrivals
            For each leaf the ascending timestamps of its events.
        cells
            For each scope spans, and sums of shape (3 + 2 conditions, n): pairs, tested, their squares, and for each
            condition those that pass and their squares.
        """
        self.events, self.since_us, self.latest_us = len(own), int(own[0]), int(own[-1])
        counted = {_EVENTS: own, **{key: arrivals[key] for key in self.leaves}}
        for key, instants in counted.items():
            window = self._counts[key]
            # What the latest instant leaves behind is not looked at: a slice is often many windows long.
            reached = int(np.searchsorted(instants, instants[-1] - window.width)) if len(instants) else 0
            window.count(instants[reached:])
        self._bins.count(list(counted.values()))
        for key, (spans, sums) in cells.items():
            self._sums[key].add(spans, sums)

    def snapshot(self, as_of_us: int | None = None) -> StatisticsSnapshot:
        """The statistics of the window that ends at an instant; None: with the latest event.

        Raises
        ------
        InputError
            The instant is before all that is remembered.
        """
        end = self.latest_us if as_of_us is None else as_of_us
        if end is None or self.since_us is None or self.latest_us is None:
            said = "no events have come yet" if self.since_us is None else self._no_events
            return self._described_snapshot(Kind.WINDOW, None, None, end, (said,))
        start = end - self._width_us
        if end < self.since_us or (end < self.latest_us and max(start, self.since_us) < self._bins.start_us):
            known = max(self.since_us, self._bins.start_us)
            raise InputError(
                f"statistics of {self._described} are known from {known} us on: a window up to {end} us is not"
            )
        counts = self._window_counts(start, end)
        notes = []
        if start < self.since_us:
            notes.append(f"the window of {self.window} is longer than the data: rates are over what there is")
        begin = max(start, self.since_us)
        if counts[_EVENTS].high == 0:
            notes.append(self._no_events)
        span_s = max(end - begin, 0) / 1e6 or 1.0
        rates = tuple(rate_in_window(key, counts[key], span_s) for key in self.leaves)
        return self._described_snapshot(
            Kind.WINDOW,
            begin,
            max(begin, end),
            end,
            tuple(notes),
            events=round(counts[_EVENTS].value),
            rates=rates,
            selectivities=self._selectivities(begin, end),
        )

    def windows(self, start_us: int, end_us: int, most: int = 96) -> Iterator[StatisticsSnapshot]:
        """Snapshots at up to `most` instants of a span, in order, from its first to its last events."""
        for instant in self._bins.ends(start_us, end_us, most):
            if self.since_us is not None and self.since_us <= instant:
                yield self.snapshot(instant)

    def business_day(self, start_us: int, end_us: int) -> StatisticsSnapshot:
        """The mean over the windows of a span in which events came, with the highest rate of any of them beside it.

        Parameters
        ----------
        start_us, end_us
            The span `[start, end)`; what matters of it is from its first to its last event. Its ends are taken to the
            bins of the day.

        Notes
        -----
        Windows begin at every bin, a quarter of a window after another, so that no event weighs more for where a
        window happens to begin. A day that is shorter than a window is one window.
        """
        found = self._bins.windows(start_us, end_us, self._width_us)
        if found is None:
            notes = ("no events came in the business day",)
            return self._described_snapshot(Kind.BUSINESS_DAY, start_us, end_us, end_us, notes, windows=0)
        counts, seconds = found.counts, found.seconds
        rates = counts / seconds
        mean, worst = rates.mean(axis=1), rates.max(axis=1)
        length = float(seconds.mean())
        return self._described_snapshot(
            Kind.BUSINESS_DAY,
            start_us,
            end_us,
            end_us,
            found.notes,
            windows=counts.shape[1],
            events=round(float(mean[0]) * length),
            rates=tuple(
                LeafRate(key, float(per_s), int(total), Source.COUNT, float(per_s), float(per_s), float(highest))
                for key, per_s, total, highest in zip(self.leaves, mean[1:], found.totals[1:], worst[1:], strict=True)
            ),
            selectivities=self._selectivities(start_us, end_us - 1),
            window_us=round(length * 1e6),
        )

    def to_json(self) -> dict[str, Any]:
        """The state as JSON values, with their version and a checksum."""
        content = {
            "version": VERSION,
            **self._what,
            "events": self.events,
            "since_us": self.since_us,
            "latest_us": self.latest_us,
            "counts": [[packed(part) for part in window.held] for window in self._counts.values()],
            "bins": self._bins.to_json(),
            "sums": [[packed(part) for part in sums.held] for sums in self._sums.values()],
        }
        return {**content, "checksum": digest_of(content)}

    @property
    def digest(self) -> str:
        """32 hexadecimal digits that change with anything in the state."""
        return str(self.to_json()["checksum"])

    @classmethod
    def from_json(cls, content: Mapping[str, Any], source: str = "statistics state") -> WindowedStatistics:
        """Read what `to_json` wrote.

        Raises
        ------
        InputError
            `content` is of another version (`OtherVersion`), damaged, or no state; `source` names it in the message.
        """
        from cep_pipeline.documents import check_version, reading

        check_version(content, VERSION, "state of statistics", source)
        with reading("the state of the statistics is damaged", source, "estimate the statistics again"):
            whole = {key: value for key, value in content.items() if key != "checksum"}
            if digest_of(whole) != content["checksum"]:
                raise ValueError("its checksum is that of something else")
            window = Window(time_us=content["window_us"])
            state = cls(content["stream"], window, content["epsilon"], content["leaves"], dict(content["scopes"]))
            state.events, state.since_us = content["events"], content["since_us"]
            state.latest_us = content["latest_us"]
            for histogram, (spans, counts) in zip(state._counts.values(), content["counts"], strict=True):
                histogram.hold(unpacked(spans, np.int64, 2), unpacked(counts, np.float64, 1))
            state._bins.read(content["bins"])
            for sums, (spans, values) in zip(state._sums.values(), content["sums"], strict=True):
                sums.hold(unpacked(spans, np.int64, 2), unpacked(values, np.float64, sums.rows))
        return state

    @cached_property
    def _what(self) -> dict[str, Any]:
        """The key of what is measured: states with equal keys can be merged."""
        return {
            "stream": self.stream,
            "window_us": self._width_us,
            "epsilon": self.epsilon,
            "leaves": list(self.leaves),
            "scopes": [[key, list(conditions)] for key, conditions in self.scopes.items()],
        }

    @property
    def _described(self) -> str:
        terms = digest_of([self._what["leaves"], self._what["scopes"]])[:8]
        return f"stream {self.stream!r} over {self.window} within {self.epsilon} (of terms {terms})"

    @property
    def _no_events(self) -> str:
        return f"there are no events in the window of {self.window}"

    def _window_counts(self, start: int, end: int) -> dict[str, Estimate]:
        """The number of events of each leaf from one instant to another."""
        assert self.latest_us is not None
        if end >= self.latest_us:
            return {key: histogram.estimate(end) for key, histogram in self._counts.items()}
        bounds = zip(*self._bins.between(start, end), strict=True)
        return {
            key: Estimate(float(value), float(low), float(high))
            for key, (value, low, high) in zip((_EVENTS, *self.leaves), bounds, strict=True)
        }

    def _selectivities(self, start: int, end: int) -> tuple[Selectivity, ...]:
        """The selectivities of conditions, by the pairs whose later event lies between two instants."""
        found: list[Selectivity] = []
        for key, conditions in self.scopes.items():
            sums = self._sums[key].between(start, end)
            if sums.inside[1] + sums.cut[1] == 0:
                continue  # nothing was tested: the snapshot's reader falls back to the prior
            found += [
                selectivity_in_window(condition, sums, 3 + 2 * place) for place, condition in enumerate(conditions)
            ]
        return tuple(found)

    def _described_snapshot(
        self, kind: Kind, start: int | None, end: int | None, as_of: int | None, notes: tuple[str, ...], **numbers: Any
    ) -> StatisticsSnapshot:
        if not numbers.get("rates"):
            numbers["rates"] = tuple(LeafRate(key, 0.0, 0, Source.COUNT, 0.0, 0.0) for key in self.leaves)
        numbers["selectivities"], numbers["joints"] = split_joints(
            numbers.get("selectivities", ()), self.dependent_factor
        )
        return StatisticsSnapshot(
            stream=self.stream,
            start_us=start,
            end_us=end,
            kind=kind,
            as_of_us=as_of,
            notes=notes,
            **{"window_us": self._width_us, **numbers},
        )


def selectivity_in_window(condition: str, sums: Sums, row: int) -> Selectivity:
    """The share that passes in a window, and its interval: of the sample, and of what the window's edges cut."""
    total, cut = float(sums.inside[0]), float(sums.cut[0])
    passing, passing_cut = float(min(sums.inside[row], total)), float(min(sums.cut[row], cut))
    tested = round(float(sums.inside[1] + sums.cut[1]))
    pairs = max(round(total + cut / 2), tested)
    share = min((passing + passing_cut / 2) / (total + cut / 2), 1.0)
    low = passing / (total + cut - passing_cut) if total + cut > passing_cut else share
    high = (passing + passing_cut) / (total + passing_cut) if total + passing_cut > 0 else share
    squares = float(sums.inside[2] + sums.cut[2] / 2)
    if squares:
        number = effective_number(total + cut / 2, share, squares, float(sums.inside[row + 1] + sums.cut[row + 1] / 2))
        low, high = wilson_interval(min(low, 1.0), number)[0], wilson_interval(min(high, 1.0), number)[1]
    low, high = max(0.0, min(low, share)), min(1.0, max(high, share))
    source = Source.SAMPLED_PAIRS if squares else Source.ALL_PAIRS if low == high else Source.WINDOW
    return Selectivity(condition, share, pairs, tested, source, low, high)


def rate_in_window(key: str, count: Estimate, span_s: float) -> LeafRate:
    """The rate of a leaf from the number of its events in so many seconds."""
    source = Source.COUNT if count.low == count.high else Source.WINDOW
    return LeafRate(key, count.value / span_s, round(count.value), source, count.low / span_s, count.high / span_s)
