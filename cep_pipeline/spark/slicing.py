"""Cutting a day into slices: which events a task reads, and which matches it owns.

A slice owns the matches whose final instant lies in `[start, end)`; its task also reads the look-back before its
start. Slices are cut by estimated work, not by number of events: work grows with a power of the arrival rate, so a
closing burst is cut finer than a quiet noon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cep_pipeline.events.type_spells import TypeSpells, spells_in
from cep_pipeline.expressions.columns import Array
from cep_pipeline.slices.candidates import Spans
from cep_pipeline.slices.ownership import LookBack
from cep_pipeline.slices.prepared import Boundary
from cep_pipeline.storage import open_filesystem


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
        parts = []
        for path, group in _by_file(self.row_groups):
            with open_events(path) as file:
                parts.append(file.read_row_groups([row_group.index for row_group in group], columns=wanted))
        table = pa.concat_tables(parts, promote_options="permissive").unify_dictionaries()
        for name in wanted:  # an attribute that is newer than all of these files
            if name not in table.column_names:
                table = table.append_column(name, pa.nulls(table.num_rows))
        timestamps = table["timestamp"].cast(pa.int64()).to_numpy()
        by_time = int(np.searchsorted(timestamps, self.start[0] - self.look_back.time_us))
        by_positions = int(np.searchsorted(timestamps, self.start[0])) - self.look_back.positions
        first = max(min(by_time, by_positions), 0)
        last = len(timestamps) if self.end is None else _rows_before(timestamps, table["seq"], self.end)
        return table.slice(first, max(last - first, 0)).combine_chunks()


def _rows_before(timestamps: Array, seqs: pa.ChunkedArray, point: Boundary) -> int:
    """Return the number of sorted events before a point."""
    first, last = (int(np.searchsorted(timestamps, point[0], side)) for side in ("left", "right"))
    return first + int(np.searchsorted(seqs.slice(first, last - first).to_numpy(), point[1]))


def _by_file(row_groups: Iterable[RowGroup]) -> list[tuple[str, list[RowGroup]]]:
    files: dict[str, list[RowGroup]] = {}
    for row_group in row_groups:
        files.setdefault(row_group.path, []).append(row_group)
    return list(files.items())


def open_events(path: str) -> pq.ParquetFile:
    """Open a file of events so that its text columns are read as dictionaries: the split by type needs their codes."""
    metadata = _footer(path)
    filesystem, name = open_filesystem(path)
    texts = [field.name for field in metadata.schema.to_arrow_schema() if pa.types.is_string(field.type)]
    return pq.ParquetFile(filesystem.open_input_file(name), metadata=metadata, read_dictionary=texts)


def read_row_groups(paths: Iterable[str]) -> list[RowGroup]:
    """Row groups of sorted events files, in stream order, from the files' footers alone."""
    found = [group for path in paths for group in _row_groups(path, _footer(path))]
    return sorted(found, key=lambda row_group: row_group.first)


def read_summaries(paths: Iterable[str], type_attribute: str) -> tuple[list[RowGroup], list[TypeSpells]]:
    """Row groups of sorted events files, as `read_row_groups` gives them, and the summary of each file in their order.

    A file that was written without a summary has one that says nothing.
    """
    groups: list[RowGroup] = []
    summaries = []
    for path in paths:
        footer = _footer(path)
        own = _row_groups(path, footer)
        groups += own
        if own:
            spells = spells_in(footer.metadata, type_attribute)
            first_us, last_us = min(group.first[0] for group in own), max(group.last[0] for group in own)
            summaries.append(spells or TypeSpells.unknown(type_attribute, first_us, last_us, footer.num_rows))
    return sorted(groups, key=lambda row_group: row_group.first), summaries


def _footer(path: str) -> pq.FileMetaData:
    filesystem, name = open_filesystem(path)
    return pq.read_metadata(filesystem.open_input_file(name))


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
                first=(_microseconds(times.min), int(seqs.min)),
                last=(_microseconds(times.max), int(seqs.max)),
            )
        )
    return found


def _microseconds(value: object) -> int:
    scalar = pa.scalar(value, pa.timestamp("us", tz="UTC"))
    return int(scalar.cast(pa.int64()).as_py())


MOST_ROWS = 1_000_000
"""No slice owns more events than this, so that the memory of a task does not grow with the day."""


def cut(
    row_groups: Sequence[RowGroup],
    *,
    start: Boundary,
    end: Boundary,
    look_back: LookBack,
    count: int,
    work: Callable[[RowGroup], float],
    most_rows: int = MOST_ROWS,
) -> list[Slice]:
    """Cut `[start, end)` into `count` slices of about equal work, and those that own too many events further.

    Parameters
    ----------
    row_groups
        Sorted row groups that reach from the look-back before `start` to `end`.
    start, end
        The points between which matches are owned.
    look_back
        How far before its start a slice reads.
    count
        Number of slices; there are fewer where slices would own nothing.
    work
        Estimated work of the owned part of a row group, in any unit.
    most_rows
        Most events that a slice owns; those of the row groups at both ends count whole.
    """
    owned = [row_group for row_group in row_groups if start <= row_group.last and row_group.first < end]
    rows = np.cumsum([0, *(row_group.rows for row_group in owned)])
    reached = np.cumsum([0.0, *(max(work(row_group), 1e-9) for row_group in owned)])
    equal = np.interp(np.linspace(0.0, reached[-1], count + 1), reached, rows)
    # Rounding must not decide: the same day is cut alike, whatever the unit of work.
    at = np.floor(equal + 1e-6).astype(np.int64)
    points: list[Boundary] = []
    for row in _split(at, most_rows)[1:-1]:
        place = min(int(np.searchsorted(rows, row, side="right")) - 1, len(owned) - 1)
        point = _point(owned[place], row - int(rows[place])) if owned else start
        if start < point < end and (not points or points[-1] < point):
            points.append(point)
    return slices_between(row_groups, [start, *points, end], look_back)


def _split(rows: Iterable[int], most: int) -> list[int]:
    """Ascending numbers of rows with further ones between those that are more than `most` apart.

    Examples
    --------
    >>> _split([0, 10, 45], 20)
    [0, 10, 27, 45]
    """
    between = list(map(int, rows))
    split = between[:1]
    for first, last in pairwise(between):
        parts = max(-(-(last - first) // most), 1)
        split += [first + (last - first) * part // parts for part in range(1, parts + 1)]
    return split


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
            for row_group in row_groups[_first_read(row_groups, start, look_back) :]
            if end is None or row_group.first < end
        )
        if needed:
            slices.append(Slice(start, end, needed, look_back))
    return slices


@dataclass(frozen=True)
class DayPart:
    """A part `[start, end)` of a day in which matches can become final, and the row groups of the day that it reads."""

    start: Boundary
    end: Boundary
    row_groups: tuple[RowGroup, ...]


def parts_to_read(
    row_groups: Sequence[RowGroup], start: Boundary, end: Boundary, look_back: LookBack, instants: Spans
) -> list[DayPart]:
    """The parts of a day that must be read for the matches which become final at some instants.

    No two of them read one row group, and together they read only those that they need. A day of which all row groups
    are needed is one part.

    Parameters
    ----------
    row_groups
        Sorted row groups that reach from the look-back before `start` to `end`.
    instants
        Timestamps in microseconds, which may lie outside the day.
    """
    own = tuple(row_group for row_group in row_groups if start <= row_group.last and row_group.first < end)
    whole = [DayPart(start, end, own)]
    instants = instants.within(Spans.of([start[0]], [end[0] - 1]))
    if not instants:
        return []
    firsts = np.array([row_group.first[0] for row_group in row_groups], np.int64)
    lasts = np.maximum.accumulate(np.array([row_group.last[0] for row_group in row_groups], np.int64))
    rows = np.cumsum([0, *(row_group.rows for row_group in row_groups)])
    by_time = np.searchsorted(lasts, instants.first - look_back.time_us)
    before = np.searchsorted(lasts, instants.first)
    by_positions = np.searchsorted(rows, rows[before] - look_back.positions, "right") - 1
    from_group = np.maximum(np.minimum(by_time, by_positions), 0)
    to_group = np.searchsorted(firsts, instants.last, "right")
    begins = np.ones(len(from_group), dtype=bool)
    begins[1:] = from_group[1:] > np.maximum.accumulate(to_group)[:-1]
    at_first = np.flatnonzero(begins)
    at_last = np.append(at_first[1:], len(begins)) - 1
    parts = []
    for one, other in zip(at_first.tolist(), at_last.tolist(), strict=True):
        read = tuple(group for group in row_groups[from_group[one] : to_group[other]] if start <= group.last)
        parts.append(
            DayPart(
                max(start, (int(instants.first[one]), _BEFORE_ALL)),
                min(end, (int(instants.last[other]) + 1, _BEFORE_ALL)),
                read,
            )
        )
    return whole if sum(len(part.row_groups) for part in parts) >= len(own) else parts


_BEFORE_ALL = -(2**62)
"""A seq that is before those of all events of a timestamp."""


def _first_read(row_groups: Sequence[RowGroup], start: Boundary, look_back: LookBack) -> int:
    """The first of sorted row groups that a slice reads."""
    before = sum(row_group.last[0] < start[0] for row_group in row_groups)
    first, positions = before, 0
    while first and (positions < look_back.positions or row_groups[first - 1].last[0] >= start[0] - look_back.time_us):
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
    times, seqs = _keys(row_group.path, row_group.index)
    row = min(row, len(times) - 1)
    return int(times[row]), int(seqs[row])


@lru_cache(maxsize=1)
def _keys(path: str, index: int) -> tuple[Array, Array]:
    """Timestamps (int64, microseconds) and seqs of a row group; points are asked for in order, so one is kept."""
    with open_events(path) as file:
        keys = file.read_row_group(index, columns=["timestamp", "seq"])
    return keys["timestamp"].cast(pa.int64()).to_numpy(), keys["seq"].to_numpy()
