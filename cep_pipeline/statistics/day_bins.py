"""The counts of leaves in bins of equal length, over the last two days: for windows that have gone by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cep_pipeline.patterns.pattern import Window
from cep_pipeline.statistics.arrays_json import packed, unpacked

Array = np.ndarray[Any, Any]

_SHORTEST_US, _LONGEST_US = 60_000_000, 900_000_000
"""Bins are a quarter of a window, but from one minute to a quarter of an hour."""


def bin_width_us(window_us: int | None) -> int:
    """Length of a bin: a whole part of the window, where the window is longer than a minute.

    Examples
    --------
    >>> [bin_width_us(minutes * 60_000_000) / 60e6 for minutes in (20, 60, 50, 1, 1440)]
    [5.0, 15.0, 12.5, 1.0, 15.0]
    """
    if window_us is None or window_us <= _SHORTEST_US:
        return _SHORTEST_US
    target = min(max(window_us // 4, _SHORTEST_US), _LONGEST_US)
    return -(-window_us // -(-window_us // target))


@dataclass(frozen=True)
class DayWindows:
    """Windows of a day: counts of shape (rows, windows), the length of each in seconds, and what to know of them."""

    counts: Array
    seconds: Array
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

    def of(self, rows: Sequence[int]) -> DayBins:
        """The bins of some of the rows."""
        part = DayBins(len(rows), self.width_us, self.most * self.width_us)
        part.most, part.first, part.counts = self.most, self.first, self.counts[rows]
        return part

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

    def start_of(self, end_us: int, events: int) -> int:
        """The instant that the latest `events` up to another one began with, to a bin."""
        stop = int(np.clip(end_us // self.width_us + 1 - self.first, 0, self.counts.shape[1]))
        behind = np.cumsum(self.counts[0, :stop][::-1])
        bins = int(np.searchsorted(behind, events)) + 1
        return (self.first + max(stop - bins, 0)) * self.width_us

    def totals(self, start_us: int, end_us: int) -> Array:
        """Counts of the bins of a span, of shape (rows,)."""
        first, last = self._span(start_us, end_us)
        totals: Array = self.counts[:, first:last].sum(axis=1)
        return totals

    def ends(self, start_us: int, end_us: int, most: int) -> list[int]:
        """The last instants of up to `most` bins of a span, from its first to its last events, evenly spread."""
        first, last = self._span(start_us, end_us)
        step = max(1, -(-(last - first) // most))
        return [(self.first + place) * self.width_us - 1 for place in range(last, first, -step)][::-1]

    def windows(self, start_us: int, end_us: int, window: Window) -> DayWindows | None:
        """All windows of a span that events came in, from its first to its last events; None where none came.

        A window begins with every bin. One of events is the least number of bins that holds so many.
        """
        first, last = self._span(start_us, end_us)
        if first == last:
            return None
        behind = np.zeros((len(self.counts), last - first + 1), np.int64)
        np.cumsum(self.counts[:, first:last], axis=1, out=behind[:, 1:])
        if window.time_us is not None:
            size = max(1, round(window.time_us / self.width_us))
            stops = np.arange(size, last - first + 1)
            starts = stops - size
        else:
            assert window.events is not None
            stops = np.flatnonzero(behind[0] >= window.events)
            starts = np.searchsorted(behind[0], behind[0, stops] - window.events, "right") - 1
        notes = []
        if not len(stops):
            starts, stops = np.array([0]), np.array([last - first])
            notes.append("the business day is shorter than a window: rates are over all of it")
        if window.time_us is not None and window.time_us < self.width_us:
            notes.append(f"windows are of {self.width_us / 1e6:g} s, the shortest that a business day is told apart by")
        some = behind[0, stops] > behind[0, starts]
        starts, stops = starts[some], stops[some]
        return DayWindows(behind[:, stops] - behind[:, starts], (stops - starts) * (self.width_us / 1e6), tuple(notes))

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
        """Take over what `to_json` wrote; ValueError where it does not fit."""
        counts = unpacked(content["counts"], np.int64, len(self.counts))
        if counts.shape[1] > self.most or (counts < 0).any():
            raise ValueError("more bins than are held, or a count below 0")
        self.first, self.counts = int(content["first"]), counts
