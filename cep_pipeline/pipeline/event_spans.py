"""Parts of a published stream between any two points: where a window before a point begins, and slices that read it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from cep_pipeline.slices.extent import LookBack
from cep_pipeline.spark.slicing import RowGroup, Slice, cut, instant_before, open_events, read_row_groups
from cep_pipeline.warehouse.records import EventsSnapshot

if TYPE_CHECKING:
    from cep_pipeline.patterns.pattern import Window
    from cep_pipeline.slices.prepared import Boundary
    from cep_pipeline.warehouse.stream_reader import StreamReader

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST_US = -62_135_500_000_000_000
"""Soon after the first instant that is a date in every time zone."""


@dataclass(frozen=True)
class PublishedEvents:
    """The published events of a stream, pinned to one snapshot.

    Attributes
    ----------
    tables, timezone
        The stream's tables and time zone.
    snapshot
        The published days.
    """

    tables: StreamReader
    timezone: str
    snapshot: EventsSnapshot

    @classmethod
    def pin(cls, tables: StreamReader, timezone: str) -> PublishedEvents:
        """Those that are published now."""
        return cls(tables, timezone, tables.pin_events())

    def window_start(self, window: Window, end: Boundary) -> Boundary:
        """The point from which on events are in the window that ends with the last event before `end`.

        A window of time reaches back from the instant before `end`, both included; one of more events than there are
        reaches back to the first.
        """
        if window.time_us is not None:
            return end[0] - 1 - window.time_us, 0
        assert window.events is not None
        groups = self._row_groups(self._day_of_positions(end, window.events), end)
        behind = sum(_rows_from(group, end) for group in groups)
        instant = instant_before(groups, window.events + behind)
        if instant is None:
            return groups[0].first if groups else end
        return instant, 0

    def slices(
        self, start: Boundary, end: Boundary, look_back: LookBack, count: int, weigh: Callable[[RowGroup], float]
    ) -> list[Slice]:
        """The events of `[start, end)` in at most `count` slices of about equal work."""
        by_time = self._day_at(start[0] - look_back.time_us)
        by_positions = self._day_of_positions(start, look_back.positions)
        first = None if by_positions is None else min(by_time, by_positions)
        groups = self._row_groups(first, end)
        return cut(groups, start=start, end=end, look_back=look_back, count=count, work=weigh)

    def begin_before(self, point: Boundary) -> bool:
        """Whether there are events before a point."""
        day = self._day_at(point[0])
        if any(other.events and other.day < day for other in self.snapshot.days.values()):
            return True
        return bool(self._row_groups(day, point))

    def rows(self, start: Boundary, end: Boundary) -> int:
        """About how many events there are in `[start, end)`: whole days."""
        first, last = self._day_at(start[0]), self._day_at(end[0] - 1)
        return sum(day.events for day in self.snapshot.days.values() if first <= day.day <= last)

    def _row_groups(self, first: date | None, end: Boundary) -> Sequence[RowGroup]:
        files = self.tables.events_files(first, self._day_at(end[0]), snapshot=self.snapshot)
        return [group for group in read_row_groups(file.path for file in files) if group.first < end]

    def _day_at(self, instant_us: int) -> date:
        # A window may reach back further than there are dates.
        instant = _EPOCH + timedelta(microseconds=max(instant_us, _EARLIEST_US))
        return instant.astimezone(ZoneInfo(self.timezone)).date()

    def _day_of_positions(self, point: Boundary, positions: int) -> date | None:
        """A day that has events so many positions before a point, not counting the point's own day; None: too few."""
        day = self._day_at(point[0])
        if not positions:
            return day
        for other in sorted((other for other in self.snapshot.days if other < day), reverse=True):
            positions -= self.snapshot.days[other].events
            if positions <= 0:
                return other
        return None


def _rows_from(group: RowGroup, point: Boundary) -> int:
    """Number of events of a row group that do not come before a point."""
    if group.last < point:
        return 0
    if point <= group.first:
        return group.rows
    with open_events(group.path) as file:
        keys = file.read_row_group(group.index, columns=["timestamp", "seq"])
    timestamps = keys["timestamp"].cast(pa.int64()).to_numpy()
    before = (timestamps < point[0]) | ((timestamps == point[0]) & (keys["seq"].to_numpy() < point[1]))
    return int(group.rows - np.count_nonzero(before))
