"""Partitions of a slice, and the positions in them for count windows (docs/language.md, sections 3.3 and 3.5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cep_pipeline.expressions.columns import Array
from cep_pipeline.slices.keys import agreement_codes
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.routines import gather, group_rows
from cep_pipeline.slices.views import View


@dataclass(frozen=True, eq=False)
class Partitions:
    """The events of a slice, partition after partition; an event with a null or a NaN is alone, and in none of them.

    Attributes
    ----------
    rows
        int64, shape (m,): the rows that are in a partition, one partition after another, ascending in each.
    starts, ends
        int64, shape (m,): for each place in `rows`, where its partition starts and ends there.
    place
        int64, shape (n,): each event's place in `rows`, -1 where it is alone.
    counted
        int64, shape (m,): for each place in `rows`, the number of events of the stream up to it; None: places are
        counted, as all events are of the stream. Composed events have the position of the last event counted before
        them.
    """

    rows: Array
    starts: Array
    ends: Array
    place: Array
    counted: Array | None = None

    @property
    def positions(self) -> Array:
        """int64, shape (n,): each event's position in its partition; 0 where it is alone."""
        positions = np.zeros(len(self.place), np.int64)
        if self.counted is None:
            positions[self.rows] = np.arange(len(self.rows)) - self.starts
        else:
            before = np.concatenate((np.zeros(1, np.int64), self.counted))[self.starts]
            positions[self.rows] = self.counted - before - 1
        return positions

    def rows_ahead(self, rows: Array, distance: int) -> Array:
        """The row so many positions behind each of these in its partition, the last one where composed events share it.

        Returns
        -------
        Array
            int64, shape of `rows`: the number of events where it has not come; the event's own row where it is alone.
        """
        places = self.place[rows]
        target = places + min(distance, len(self.place))
        if self.counted is not None:
            return self._composed_ahead(rows, places, distance)
        come = target < self.ends[np.maximum(places, 0)] if len(self.ends) else np.zeros(len(rows), dtype=bool)
        ahead = np.full(len(rows), len(self.place), np.int64)
        ahead[come] = self.rows[target[come]]
        return np.asarray(np.where(places < 0, rows, ahead))

    def rows_back(self, rows: Array, distance: int) -> Array:
        """The row so many positions before each of these in its partition, or else the partition's first; or its own.

        Returns
        -------
        Array
            int64, shape of `rows`.
        """
        return self._moved(rows, min(distance, len(self.place)), back=True)

    def last_rows(self, rows: Array, distance: int) -> Array:
        """The row so many positions behind each of these in its partition, or else the partition's last; or its own.

        Returns
        -------
        Array
            int64, shape of `rows`.
        """
        return self._moved(rows, min(distance, len(self.place)), back=False)

    def _composed_ahead(self, rows: Array, places: Array, distance: int) -> Array:
        ahead = rows.astype(np.int64)
        grouped = np.flatnonzero(places >= 0)
        own = places[grouped]
        counted = self.counted
        assert counted is not None
        target = counted[own] + min(distance, len(self.place))
        last = np.minimum(np.searchsorted(counted, target, "right"), self.ends[own]) - 1
        ahead[grouped] = np.where(counted[self.ends[own] - 1] >= target, self.rows[last], len(self.place))
        return ahead

    def _moved(self, rows: Array, distance: int, *, back: bool) -> Array:
        moved = rows.astype(np.int64)
        grouped = self.place[rows] >= 0
        places = self.place[rows][grouped]
        if self.counted is None:
            target = places - distance if back else places + distance
        elif back:
            target = np.searchsorted(self.counted, self.counted[places] - distance)
        else:
            target = np.searchsorted(self.counted, self.counted[places] + distance, "right") - 1
        moved[grouped] = self.rows[np.clip(target, self.starts[places], self.ends[places] - 1)]
        return moved


def partitions_of(events: PreparedEvents, attributes: tuple[str, ...]) -> Partitions:
    """The partitions that these attributes make of a slice; of none, there is one partition of all events."""
    return events.derive(("partitions", attributes), lambda: _partitions(events, attributes))


def _partitions(events: PreparedEvents, attributes: tuple[str, ...]) -> Partitions:
    everything, of_stream = np.arange(len(events), dtype=np.int64), events.of_stream
    if not attributes:
        starts, ends = np.zeros(len(events), np.int64), np.full(len(events), len(events), np.int64)
        return Partitions(everything, starts, ends, everything, None if of_stream is None else np.cumsum(of_stream))
    codes, groups = agreement_codes(events, attributes)
    present = np.flatnonzero(codes >= 0)
    order, edges = group_rows(codes[present], groups)
    rows = present[order]
    place = np.full(len(events), -1, np.int64)
    place[rows] = np.arange(len(rows))
    sizes = np.diff(edges)
    counted = None if of_stream is None else np.cumsum(of_stream[rows])
    return Partitions(rows, np.repeat(edges[:-1], sizes), np.repeat(edges[1:], sizes), place, counted)


def positions_of(events: PreparedEvents, view: View, partition_by: tuple[str, ...]) -> Array:
    """int64, padded: the position of each of the view's rows; ascending within a group of one partition."""
    return events.derive(
        ("positions of", view.identity, partition_by), lambda: gather(all_positions(events, partition_by), view.rows)
    )


def all_positions(events: PreparedEvents, partition_by: tuple[str, ...]) -> Array:
    """int64: every event's position, all of them, also those that no pattern names; 0 where it is alone."""
    return events.derive(("positions", partition_by), lambda: partitions_of(events, partition_by).positions)
