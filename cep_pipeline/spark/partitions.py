"""Reading back in partitions: for count windows with PARTITION BY, whose events may lie far apart in the stream.

A match that a slice owns ends, or is closed, by an event of the slice. So a slice needs its own events and, of each
partition that occurs among them, the events of so many positions before. What lies before the day is gathered once for
all slices, by one task: it reads earlier days from the latest on, first the columns that tell the partition, until each
partition that is asked for has its positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date

import numpy as np
import pyarrow as pa

from cep_pipeline.detection.output_policy import partition_texts
from cep_pipeline.expressions.columns import Array, column_from_arrow
from cep_pipeline.slices.ownership import LookBack
from cep_pipeline.slices.prepared import Boundary
from cep_pipeline.spark.slicing import RowGroup, Slice, read_events, read_row_groups
from cep_pipeline.storage import DataDirectory, open_data_file

KEYS = ("timestamp", "seq")

_NEVER_US = 2**63 - 1


class MissingEvents:
    """The partitions that need more events, and how many, while a stream is read from behind, as long as one does.

    Beside these, all events of a partition are taken that have the time of its first one: under TIES ANY they are in no
    order.

    Parameters
    ----------
    partition_by
        The attributes that tell the partition; of all events only these are read.
    columns
        Those of the events that are needed.
    missing
        Text of a partition (`partition_texts`) -> how many events it needs.
    of_others
        How many each other partition that occurs needs; None: none is asked for.
    """

    def __init__(
        self,
        partition_by: Sequence[str],
        columns: Iterable[str],
        missing: Mapping[str, int],
        of_others: int | None = None,
    ) -> None:
        self._partition_by, self._columns, self._of_others = partition_by, columns, of_others
        self._numbers = {text: number for number, text in enumerate(missing)}
        self._missing = np.fromiter(missing.values(), np.int64, len(missing))
        self._first_us = np.full(len(missing), _NEVER_US)

    @property
    def satisfied(self) -> bool:
        """True if no earlier event is needed."""
        return self._of_others is None and not self._missing.any()

    def has_all_from(self, row_group: RowGroup) -> bool:
        """Return True if no event of a row group is needed, or of an earlier one."""
        return self.satisfied and not (self._first_us == row_group.last[0]).any()

    def take(self, partitions: pa.DictionaryArray, times: Array) -> Array:
        """Return the rows of the needed events; the events are in stream order, before those of earlier calls."""
        texts = partitions.dictionary.to_pylist()
        numbers = np.array([*map(self._number, texts), -1], np.int64)
        number = numbers[partitions.indices.fill_null(len(texts)).to_numpy()]
        rows = np.flatnonzero(number >= 0)
        order = rows[np.argsort(number[rows], kind="stable")]
        number = number[order]
        ends = np.searchsorted(number, number, "right")
        chosen = ends - np.arange(len(order)) <= self._missing[number]
        self._missing -= np.bincount(number[chosen], minlength=len(self._missing))
        np.minimum.at(self._first_us, number[chosen], times[order[chosen]])
        return np.sort(order[chosen | (times[order] == self._first_us[number])])

    def _number(self, text: str) -> int:
        number = self._numbers.get(text, -1)
        if number < 0 and self._of_others is not None:
            number = self._numbers[text] = len(self._numbers)
            self._missing = np.append(self._missing, self._of_others)
            self._first_us = np.append(self._first_us, _NEVER_US)
        return number

    def read(
        self, row_groups: Sequence[RowGroup], *, until_us: int | None = None, since_us: int | None = None
    ) -> Iterator[pa.Table]:
        """The wanted events of sorted row groups that end where reading has come to, a table a row group.

        Parameters
        ----------
        until_us, since_us
            Only events before the one time, and not before the other.
        """
        for row_group in reversed(row_groups):
            if self.has_all_from(row_group) or (since_us is not None and row_group.last[0] < since_us):
                return
            if until_us is not None and row_group.first[0] >= until_us:
                continue
            keys = read_events([row_group], dict.fromkeys(("timestamp", *self._partition_by)))
            times = keys["timestamp"].cast(pa.int64()).to_numpy()
            low = 0 if since_us is None else int(np.searchsorted(times, since_us))
            high = len(times) if until_us is None else int(np.searchsorted(times, until_us))
            inside = keys.slice(low, max(high - low, 0))
            rows = self.take(_partitions(inside, self._partition_by), times[low:high])
            if len(rows):
                yield read_events([row_group], self._columns).take(pa.array(rows + low))


@dataclass(frozen=True)
class PartitionedEvents:
    """The events that tasks read for patterns whose windows count the events of a partition.

    Attributes
    ----------
    partition_by
        The attributes that tell the partition.
    positions
        How many events of a partition a slice reads back.
    row_groups
        Those of the range that is cut into slices, in stream order.
    start_us
        Where the range begins; what its row groups hold before it is not read.
    earlier
        Row groups of what was gathered before the range.
    """

    partition_by: tuple[str, ...]
    positions: int
    row_groups: tuple[RowGroup, ...]
    start_us: int
    earlier: tuple[RowGroup, ...] = ()

    @property
    def empty(self) -> bool:
        """True if there are no events at all."""
        return not (self.row_groups or self.earlier)

    def read(self, start: Boundary, end: Boundary | None, columns: Sequence[str]) -> pa.Table:
        """Read the events of a slice and the look-back of their partitions, sorted; not where `empty`.

        The events of the time at which the slice starts count as its own. An open end asks for the look-back of every
        partition that there is.
        """
        names = [*KEYS, *(name for name in columns if name not in KEYS)]
        own = self._own(start, end, names)
        occurring = _events_by_partition(_partitions(own, self.partition_by)) if end is not None else ()
        others = self.positions if end is None else None
        wanted = MissingEvents(self.partition_by, names, dict.fromkeys(occurring, self.positions), others)
        found = [own]
        found += wanted.read(self.row_groups, until_us=start[0], since_us=self.start_us)
        found += wanted.read(self.earlier)
        return pa.concat_tables(found[::-1], promote_options="permissive").unify_dictionaries().combine_chunks()

    def occurring(self) -> Iterator[str]:
        """The partitions that occur in the range, some of them several times."""
        for row_group in self.row_groups:
            keys = read_events([row_group], dict.fromkeys(("timestamp", *self.partition_by)))
            times = keys["timestamp"].cast(pa.int64()).to_numpy()
            own = keys.slice(int(np.searchsorted(times, self.start_us)))
            yield from _events_by_partition(_partitions(own, self.partition_by))

    def _own(self, start: Boundary, end: Boundary | None, names: Sequence[str]) -> pa.Table:
        groups = tuple(
            group for group in self.row_groups if group.last[0] >= start[0] and (end is None or group.first < end)
        )
        if not groups:
            return read_events([(*self.row_groups, *self.earlier)[0]], names).slice(0, 0)
        return Slice(start, end, groups, LookBack()).read(names)


@dataclass(frozen=True)
class Gathering:
    """The gathering of the events before a range, for all its slices.

    Attributes
    ----------
    range
        What the slices read, without `earlier`.
    columns
        Those that they read.
    schema
        Of the events table.
    files
        The files of earlier days with their days, in stream order.
    day
        The day of the range.
    directory
        Where what is gathered is written.
    pending
        Texts of partitions that may not occur in the range and are wanted too.
    """

    range: PartitionedEvents
    columns: Sequence[str]
    schema: pa.Schema
    files: Sequence[tuple[date, str]]
    day: date
    directory: DataDirectory
    pending: Sequence[str] = ()

    def run(self, number: int = 0, attempt: int = 0) -> tuple[tuple[RowGroup, ...], date | None]:
        """Read back until every partition has its positions, and write these events as a file.

        Returns
        -------
        row_groups : tuple of RowGroup
            Of the file, in stream order; none where there are no such events.
        first_day : date | None
            The earliest day that was read; None where all earlier days were, and could still have had more.
        """
        names = [*KEYS, *(name for name in self.columns if name not in KEYS)]
        schema = pa.schema([self.schema.field(name) for name in names])
        missing = dict.fromkeys([*self.range.occurring(), *self.pending], self.range.positions)
        wanted = MissingEvents(self.range.partition_by, names, missing)
        path: str | None = None
        first_day = self.day
        with ExitStack() as stack:
            for day, row_group in self._backwards() if not wanted.satisfied else ():
                if wanted.has_all_from(row_group):
                    break
                first_day = day
                for events in wanted.read([row_group]):
                    if path is None:
                        path = self.directory.file(number, attempt)
                        writer = stack.enter_context(open_data_file(path, schema))
                    writer.write_table(events.cast(schema))
        found = () if path is None else tuple(read_row_groups([path]))
        return found, first_day if wanted.satisfied else None

    def _backwards(self) -> Iterator[tuple[date, RowGroup]]:
        """The row groups of the earlier days, the latest first; a file's footer is read when its turn comes."""
        for day, file in reversed(self.files):
            for row_group in reversed(read_row_groups([file])):
                yield day, row_group


def _events_by_partition(partitions: pa.DictionaryArray) -> dict[str, int]:
    """The partitions that occur, and how many events are in each."""
    texts = partitions.dictionary.to_pylist()
    counts = np.bincount(partitions.indices.drop_null().to_numpy(), minlength=len(texts))
    return {text: int(count) for text, count in zip(texts, counts, strict=True) if count}


def _partitions(events: pa.Table, partition_by: Sequence[str]) -> pa.DictionaryArray:
    if any(pa.types.is_null(events[name].type) for name in partition_by):  # from before there was such an attribute
        return pa.DictionaryArray.from_arrays(pa.nulls(events.num_rows, pa.int32()), pa.array([], pa.string()))
    return partition_texts([column_from_arrow(events[name], name) for name in partition_by])
