"""Cutting a day into slices: which events a task reads, and which matches it owns.

A slice owns the matches whose final instant lies in `[start, end)`; its task also reads the look-back before its
start. Slices are cut by estimated work, not by number of events: work grows with a power of the arrival rate, so a
closing burst is cut finer than a quiet noon.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cep_pipeline.expressions.columns import Array
from cep_pipeline.slices.ownership import LookBack
from cep_pipeline.slices.prepared import Boundary, rows_before
from cep_pipeline.storage import open_filesystem, read_footer, reading_data


@dataclass(frozen=True)
class RowGroup:
    """A row group of a sorted events file: where it is, and the points of its first and last event."""

    path: str
    index: int
    rows: int
    first: Boundary
    last: Boundary

    @property
    def span_us(self) -> int:
        return self.last[0] - self.first[0]


@dataclass(frozen=True)
class Slice:
    """The part of a day that one task reads (`row_groups`, the look-back's too) and owns; an end of None is open."""

    start: Boundary
    end: Boundary | None
    row_groups: tuple[RowGroup, ...]
    look_back: LookBack

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Read the slice's events, sorted, from the look-back's first up to the end; `columns` besides the two keys."""
        wanted = ["timestamp", "seq", *(name for name in columns if name not in ("timestamp", "seq"))]
        of_file = groupby(self.row_groups, key=lambda row_group: row_group.path)
        parts = [read_events([*row_groups], wanted) for _, row_groups in of_file]
        table = pa.concat_tables(parts, promote_options="permissive").unify_dictionaries()
        timestamps = table["timestamp"].cast(pa.int64()).to_numpy()
        by_time = int(np.searchsorted(timestamps, self.start[0] - self.look_back.time_us))
        by_positions = int(np.searchsorted(timestamps, self.start[0])) - self.look_back.positions
        if self.look_back.positions and len(timestamps):  # under TIES ANY events of one time are in no order
            by_positions = int(np.searchsorted(timestamps, timestamps[max(by_positions, 0)]))
        first = max(min(by_time, by_positions), 0)
        last = len(timestamps) if self.end is None else rows_before(timestamps, table["seq"].to_numpy(), self.end)
        return table.slice(first, max(last - first, 0)).combine_chunks()


def read_events(row_groups: Sequence[RowGroup], columns: Iterable[str]) -> pa.Table:
    """Read columns of some row groups of one file; those that the file does not have yet are null.

    Text columns are read as dictionaries: the split by type needs their codes.
    """
    names, path = list(columns), row_groups[0].path
    metadata = read_footer(path)
    filesystem, name = open_filesystem(path)
    texts = [field.name for field in metadata.schema.to_arrow_schema() if pa.types.is_string(field.type)]
    with (
        reading_data(path),
        filesystem.open_input_file(name) as source,
        pq.ParquetFile(source, metadata=metadata, read_dictionary=texts, page_checksum_verification=True) as file,
    ):
        table = file.read_row_groups([group.index for group in row_groups], columns=names)
    known = set(table.column_names)
    return pa.table({one: table[one] if one in known else pa.nulls(table.num_rows) for one in names})


def read_row_groups(paths: Iterable[str]) -> list[RowGroup]:
    """Row groups of sorted events files, in stream order, from the files' footers alone."""
    found = [group for path in paths for group in _row_groups(path, read_footer(path))]
    return sorted(found, key=lambda row_group: row_group.first)


def types_in(type_attribute: str, row_groups: Sequence[RowGroup]) -> frozenset[str | None]:
    """The types of the events in these row groups, None for events without one; only the column of types is read."""
    found: set[Any] = set()
    for _, groups in groupby(row_groups, key=lambda row_group: row_group.path):
        for chunk in read_events([*groups], [type_attribute])[type_attribute].chunks:
            found |= set(pc.unique(chunk).to_pylist())
    return frozenset(None if one is None else str(one) for one in found)


def _row_groups(path: str, metadata: pq.FileMetaData) -> list[RowGroup]:
    found = []
    names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    time, seq = names.index("timestamp"), names.index("seq")
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        if group.num_rows == 0:
            continue
        times, seqs = group.column(time).statistics, group.column(seq).statistics
        found.append(
            RowGroup(
                path=path,
                index=index,
                rows=group.num_rows,
                first=(times.min_raw, seqs.min),
                last=(times.max_raw, seqs.max),
            )
        )
    return found


MOST_ROWS = 1_000_000
"""Most events that a slice reads, so that the memory of a task does not grow with the day.

Only where the look-back alone is more than half of it does a slice read more: twice its look-back at most."""
MOST_PIECES = 8_192
"""A day is looked at in about so many pieces, and in more where they would be larger than `_ROWS_OF_A_PIECE`."""
_ROWS_OF_A_PIECE = 4_096


@dataclass(frozen=True, eq=False)
class Pieces:
    """The events of sorted row groups in short pieces, which no slice divides: how many there are, and when.

    A row group of 65,536 events says nothing of a burst within it; a piece is some dozen events of a small day.

    Attributes
    ----------
    row_groups
        Those that the pieces are of, in stream order.
    rows
        Number of events before each piece, and of all: int64, shape (n + 1,).
    times_us
        Timestamp of each piece's first event, and of the last event of all: int64, shape (n + 1,).
    """

    row_groups: tuple[RowGroup, ...]
    rows: Array
    times_us: Array

    @classmethod
    def even(cls, row_groups: Sequence[RowGroup]) -> Pieces:
        """The pieces by the row groups' footers alone, as if the events of each row group came evenly."""
        offsets = _offsets(row_groups)
        times = [
            group.first[0] + group.span_us * own // group.rows for group, own in zip(row_groups, offsets, strict=True)
        ]
        every = np.concatenate(times) if times else np.zeros(0, np.int64)
        return cls(tuple(row_groups), _rows_of(row_groups, offsets), _with_last(every, row_groups))

    @classmethod
    def read(cls, row_groups: Sequence[RowGroup]) -> Pieces:
        """The pieces by the timestamps of all events."""
        offsets, times = _offsets(row_groups), [np.zeros(0, np.int64)]
        for _, members in groupby(zip(row_groups, offsets, strict=True), key=lambda one: one[0].path):
            groups, own = zip(*members, strict=True)
            events = read_events(groups, ["timestamp"])
            times.append(events["timestamp"].cast(pa.int64()).to_numpy()[_rows_of(groups, own)[:-1]])
        return cls(tuple(row_groups), _rows_of(row_groups, offsets), _with_last(np.concatenate(times), row_groups))

    def __len__(self) -> int:
        return len(self.rows) - 1

    def before(self, counted: Array, time_us: int, *, whole: bool = True) -> Array:
        """Count in the time before the first event of each piece (not `whole`: before its last).

        Parameters
        ----------
        counted
            A number before each piece, and of all: shape (n + 1,).
        """
        ends = self.times_us[:-1] if whole else self.times_us[1:]
        reached = counted[:-1] if whole else counted[1:]
        found: Array = reached - np.interp(ends - float(time_us), self.times_us, counted, left=counted[0])
        return found

    def read_before(self, look_back: LookBack) -> Array:
        """Number of events that a slice which begins with each piece reads before it."""
        return np.maximum(self.before(self.rows, look_back.time_us), np.minimum(self.rows[:-1], look_back.positions))

    def point(self, row: int) -> Boundary:
        """The point of an event, by its number in all row groups."""
        firsts = np.cumsum([0, *(group.rows for group in self.row_groups)])
        place = min(int(np.searchsorted(firsts, row, side="right")) - 1, len(self.row_groups) - 1)
        return _point(self.row_groups[place], row - int(firsts[place]))


def _offsets(row_groups: Sequence[RowGroup]) -> list[Array]:
    """The row at which each piece of each row group begins."""
    size = min(max(sum(group.rows for group in row_groups) // MOST_PIECES, 1), _ROWS_OF_A_PIECE)
    return [np.arange(0, group.rows, size) for group in row_groups]


def _rows_of(row_groups: Sequence[RowGroup], offsets: Sequence[Array]) -> Array:
    firsts = np.cumsum([0, *(group.rows for group in row_groups)])
    return np.concatenate([*(first + own for first, own in zip(firsts[:-1], offsets, strict=True)), firsts[-1:]])


def _with_last(times: Array, row_groups: Sequence[RowGroup]) -> Array:
    last = row_groups[-1].last[0] if row_groups else 0
    return np.append(times, last)


def cut(
    pieces: Pieces,
    *,
    start: Boundary,
    end: Boundary,
    look_back: LookBack,
    count: int,
    work: Array | None = None,
    most_rows: int = MOST_ROWS,
) -> list[Slice]:
    """Cut `[start, end)` into at most `count` slices of about equal work, or more where they would read too much.

    Parameters
    ----------
    pieces
        Of sorted row groups that reach from the look-back before `start` to `end`.
    start, end
        The points between which matches are owned.
    look_back
        How far before its start a slice reads.
    count
        Number of slices; there are fewer where slices would own nothing.
    work
        Estimated work of each piece: shape (n,). None: the events.
    most_rows
        Most events that a slice reads, or twice its look-back where that is more; the pieces at both ends count whole.
    """
    read_before = pieces.read_before(look_back)
    work = np.diff(pieces.rows).astype(np.float64) if work is None else work
    times = pieces.times_us
    # The pieces that hold the first event which is owned, and the first one which is not.
    first = max(int(np.searchsorted(times[:-1], start[0], side="right")) - 1, 0) if len(pieces) else 0
    last = int(np.searchsorted(times[:-1], end[0], side="left"))
    edges = _edges(pieces.rows, work, read_before, first, last, count, most_rows)
    points: list[Boundary] = []
    for edge in edges[1:-1]:
        point = pieces.point(int(pieces.rows[edge]))
        if start < point < end and (not points or points[-1] < point):
            points.append(point)
    return slices_between(pieces.row_groups, [start, *points, end], look_back)


def _edges(
    rows: Array, work: Array, read_before: Array, first: int, last: int, count: int, most_rows: int
) -> list[int]:
    """The pieces with which slices begin, from `first` on, and `last`: so many of equal work, and more for room."""
    if last <= first:
        return [first, first]
    reached = np.concatenate([[0.0], np.cumsum(np.maximum(work, 1e-9))])
    # A slice may own as much as there is room for beside its look-back, and at least as much as that.
    room = rows[:-1] + np.maximum(most_rows - read_before, read_before)
    furthest = np.maximum(np.searchsorted(rows, room, side="right") - 1, np.arange(len(work)) + 1)
    shares = np.linspace(reached[first], reached[last], count + 1)[1:-1]
    found = [first]
    for end in (*np.searchsorted(reached, shares).tolist(), last):
        while found[-1] < end:
            found.append(min(int(furthest[found[-1]]), end))
    return found


def slices_between(
    row_groups: Sequence[RowGroup], points: Sequence[Boundary | None], look_back: LookBack
) -> list[Slice]:
    """The slices that lie between consecutive points; those that would read no event are left out.

    The last point may be None: all that is behind the one before it.
    """
    slices = []
    for start, end in pairwise(points):
        assert start is not None, "only the last point may be open"
        needed = tuple(
            row_group
            for row_group in row_groups[first_read(row_groups, start, look_back) :]
            if end is None or row_group.first < end
        )
        if needed:
            slices.append(Slice(start, end, needed, look_back))
    return slices


def first_read(row_groups: Sequence[RowGroup], start: Boundary, look_back: LookBack) -> int:
    """The first of sorted row groups that a slice with this start reads."""
    before = sum(row_group.last[0] < start[0] for row_group in row_groups)
    first, positions = before, 0
    while first and (
        positions < look_back.positions
        or row_groups[first - 1].last[0] >= start[0] - look_back.time_us
        or (first < before and row_groups[first - 1].last[0] == row_groups[first].first[0])
    ):
        first -= 1
        positions += row_groups[first].rows
    return first


def instant_before(row_groups: Sequence[RowGroup], positions: int) -> int | None:
    """The timestamp of the event so many positions before the end of sorted row groups; None where there is none."""
    for row_group in reversed(row_groups):
        if positions <= row_group.rows:
            return _point(row_group, row_group.rows - positions)[0] if positions else row_group.last[0]
        positions -= row_group.rows
    return None


def _point(row_group: RowGroup, row: int) -> Boundary:
    """The point of a row of a row group."""
    if row <= 0:
        return row_group.first
    times, seqs = keys_of(row_group)
    row = min(row, len(times) - 1)
    return int(times[row]), int(seqs[row])


@lru_cache(maxsize=1)
def keys_of(row_group: RowGroup) -> tuple[Array, Array]:
    """Timestamps (int64, microseconds) and seqs of a row group; points are asked for in order, so one is kept."""
    keys = read_events([row_group], ["timestamp", "seq"])
    return keys["timestamp"].cast(pa.int64()).to_numpy(), keys["seq"].to_numpy()
