"""First stage of ingestion: a raw file, or a piece of one, to sorted runs of checked events by day.

Tasks are small frozen values and their functions plain ones over pyarrow, so that whatever runs them (Spark, a test)
only distributes. Runs hold at most `RUN_ROWS` events, which bounds the memory of a task whatever the file's size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cep_pipeline.events.clock import ClockWatch, SeenHours, WatchedPart
from cep_pipeline.events.columns import TIMESTAMP
from cep_pipeline.events.derived import Carry, last_values
from cep_pipeline.events.raw_files import RawFile, SourceFile
from cep_pipeline.events.raw_rows import FilePart, RawBlock, RejectedRow, rejected_table
from cep_pipeline.events.readers import open_rows
from cep_pipeline.events.row_checks import FINER, LINE, LOCAL_DAY, TWICE, check_rows, day_number, day_of
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.validate import Figures, figures_of
from cep_pipeline.storage import ROW_GROUP_ROWS, DataDirectory, open_filesystem, storage_errors

RUN_ROWS = 1_000_000
"""Events that are sorted at once."""
_REJECTED_AT_ONCE = 50_000
_EXAMPLES = 5


@dataclass(frozen=True)
class ParseTask:
    """Read a raw file, or some parts of one, and keep the rows of some days.

    The runs are written to `scratch`, which is removed when the ingestion ends. The lines `second` are of the second
    pass of an hour that comes twice; None until that has been decided.
    """

    schema: StreamSchema
    file: SourceFile
    days: frozenset[date]
    scratch: DataDirectory
    parts: tuple[FilePart, ...] | None = None
    run_rows: int = RUN_ROWS
    second: np.ndarray | None = None


@dataclass(frozen=True)
class SortedRun:
    """Events of one day and one file, sorted by (timestamp, line), the timestamps to the nanosecond, in a Parquet file.

    The run can be cut at the `marks`, the timestamps (microseconds) of the first event of each row group. The next
    events carry the `last_values` in; they are empty where nothing is derived. `figures` count for the validation of
    the day.
    """

    day: date
    path: str
    file: str
    rows: int
    marks: tuple[int, ...]
    last_values: Carry
    figures: Figures


@dataclass(frozen=True)
class RejectedRows:
    """Rejected rows of one file in a Parquet file of the quarantine's columns; `day` None: the file's first day."""

    day: date | None
    path: str
    file: str
    rows: int
    examples: tuple[tuple[str, int, str], ...]


@dataclass(frozen=True)
class ParsedFile:
    """The result of a `ParseTask`.

    `first_day` is the earliest local day of an accepted row (None without any), and `rows` the number of rows read,
    rejected ones too, both of any day. A task that read a part of the file has no fingerprint of it. `clock` is what
    was seen of the clock of the rows of the task's days, and `hours` what was seen of hours that come twice.
    """

    file: SourceFile
    runs: tuple[SortedRun, ...]
    rejected: tuple[RejectedRows, ...]
    first_day: date | None
    rows: int
    dropped_columns: tuple[str, ...]
    raw_file: RawFile | None
    clock: WatchedPart
    hours: SeenHours


def parse_file(task: ParseTask, number: int, attempt: int) -> ParsedFile:
    """Run a `ParseTask`; its number and attempt become part of the names of its files.

    A file that is truncated, corrupt, or lacks a column is an InputError.
    """
    source = task.schema.source
    assert source is not None
    sink = _Sink(task, number, attempt)
    with open_rows(task.file, source, task.parts) as rows:
        sink.take(rows)
        raw_file = rows.raw_file()
        dropped = rows.dropped_columns
    runs, rejected = sink.finish()
    first_day = None if sink.first_day is None else day_of(sink.first_day)
    return ParsedFile(task.file, runs, rejected, first_day, sink.rows, dropped, raw_file, sink.clock.part, sink.hours)


class _Sink:
    """Collects checked blocks and writes them as runs."""

    def __init__(self, task: ParseTask, number: int, attempt: int) -> None:
        self.rows = 0
        self.first_day: int | None = None
        self.clock = ClockWatch(task.schema.type_attribute)
        self.hours = SeenHours()
        self._task = task
        self._number = number
        self._attempt = attempt
        self._days = {day_number(day) for day in task.days}
        self._events: list[pa.Table] = []
        self._held = 0
        self._rejected: list[RejectedRow] = []
        self._runs: list[SortedRun] = []
        self._rejected_files: list[RejectedRows] = []

    def take(self, blocks: Iterable[RawBlock]) -> None:
        task = self._task
        for block in blocks:
            checked = check_rows(block, task.schema, task.file.period, task.file.path, task.second)
            self.hours += SeenHours.of(checked.events, task.schema, task.days)
            self.rows += block.rows + len(block.rejected)
            days = checked.events.column(LOCAL_DAY).to_numpy()
            if len(days):
                earliest = int(days.min())
                self.first_day = earliest if self.first_day is None else min(self.first_day, earliest)
            wanted = np.isin(days, list(self._days))
            events = checked.events if wanted.all() else checked.events.filter(pa.array(wanted))
            if events.num_rows:
                self._events.append(events)
                self._held += events.num_rows
            self._rejected += [row for row in checked.rejected if row.day is None or row.day in self._days]
            if self._held >= task.run_rows:
                self._write_runs()
            if len(self._rejected) >= _REJECTED_AT_ONCE:
                self._write_rejected()

    def finish(self) -> tuple[tuple[SortedRun, ...], tuple[RejectedRows, ...]]:
        self._write_runs()
        self._write_rejected()
        return tuple(self._runs), tuple(self._rejected_files)

    def _write_runs(self) -> None:
        if not self._events:
            return
        events = pa.concat_tables(self._events).combine_chunks()
        self._events, self._held = [], 0
        self.clock.take(events)
        for day, table in _by_day(events):
            for begin in range(0, table.num_rows, self._task.run_rows):
                self._runs.append(self._write_run(day, table.slice(begin, self._task.run_rows)))

    def _write_run(self, day: date, events: pa.Table) -> SortedRun:
        ordered = in_order(events, [TIMESTAMP, FINER, LINE])
        path = self._task.scratch.file(self._number, self._attempt)
        write_run(path, ordered)
        carry = last_values(ordered, self._task.schema) if self._task.schema.derived else Carry()
        figures = figures_of(ordered, self._task.schema, day)
        return SortedRun(day, path, self._task.file.name, ordered.num_rows, marks_of(ordered), carry, figures)

    def _write_rejected(self) -> None:
        by_day: dict[int | None, list[RejectedRow]] = defaultdict(list)
        for row in self._rejected:
            by_day[row.day].append(row)
        self._rejected = []
        for day, rows in by_day.items():
            path = self._task.scratch.file(self._number, self._attempt)
            whose = None if day is None else day_of(day)
            self._rejected_files.append(write_rejected(path, rows, self._task.file.name, whose))


def _by_day(events: pa.Table) -> Iterator[tuple[date, pa.Table]]:
    days = events.column(LOCAL_DAY).to_numpy()
    numbers = np.unique(days)
    for number in numbers.tolist():
        table = events if len(numbers) == 1 else events.filter(pa.array(days == number))
        yield day_of(number), table.drop_columns([LOCAL_DAY, TWICE])


def in_order(events: pa.Table, columns: list[str]) -> pa.Table:
    """The events sorted by these columns, the first of them the timestamp; nothing to do where they already are."""
    keys = [events.column(TIMESTAMP).cast(pa.int64()).to_numpy()]
    keys += [events.column(column).to_numpy() for column in columns[1:]]
    tied = np.ones(max(events.num_rows - 1, 0), dtype=bool)  # each row with the one behind it, by the columns before
    for key in keys:
        if (tied & (key[1:] < key[:-1])).any():
            return events.take(pa.array(np.lexsort(keys[::-1])))
        tied &= key[1:] == key[:-1]
    return events


def marks_of(events: pa.Table) -> tuple[int, ...]:
    """Timestamp, in microseconds, of every `ROW_GROUP_ROWS`-th event."""
    positions = pa.array(np.arange(0, events.num_rows, ROW_GROUP_ROWS))
    return tuple(pc.take(events.column(TIMESTAMP), positions).cast(pa.int64()).to_pylist())


def write_rejected(path: str, rows: Sequence[RejectedRow], file: str, day: date | None) -> RejectedRows:
    """Write rejected rows of one file and one day (None: the first day of the file), with the first few as examples."""
    table = rejected_table(rows, file)
    write_run(path, table)
    few = table.slice(0, _EXAMPLES)
    examples = zip(*(few.column(name).to_pylist() for name in ("file", "line", "reason")), strict=True)
    return RejectedRows(day, path, file, len(rows), tuple(examples))


def write_run(path: str, table: pa.Table) -> None:
    """Write a table that lives as long as the ingestion."""
    filesystem, inner = open_filesystem(path)
    with storage_errors(f"writing {path}"):
        pq.write_table(
            table,
            inner,
            filesystem=filesystem,
            row_group_size=ROW_GROUP_ROWS,
            compression="lz4",
            use_dictionary=[f.name for f in table.schema if pa.types.is_string(f.type)],
        )


def read_run(path: str, row_filter: pc.Expression | None = None) -> pa.Table:
    """Read what `write_run` wrote."""
    filesystem, inner = open_filesystem(path)
    with storage_errors(f"reading {path}"):
        return pq.read_table(inner, filesystem=filesystem, filters=row_filter, partitioning=None, use_threads=False)
