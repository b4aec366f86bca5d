"""The stages of ingestion behind parsing: runs are merged, and become the files that are published.

`MergeTask`: the runs of a day become ranges of time in stream order, and rows with a repeated key are rejected. Between
the two the day is validated as a whole. `FinishTask` and `QuarantineTask`: ranges and rejected rows become files.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.events.columns import DAY, QUARANTINE_SCHEMA, SEQ, SEQ_PER_DAY, TIMESTAMP, events_columns
from cep_pipeline.events.derived import Carry, derive, last_values
from cep_pipeline.events.parse import RejectedRows, SortedRun, in_order, read_run, write_rejected, write_run
from cep_pipeline.events.raw_rows import RejectedRow
from cep_pipeline.events.row_checks import FINER, LINE
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.timestamps import INSTANT
from cep_pipeline.events.type_spells import footer_of
from cep_pipeline.events.validate import Figures, figures_of
from cep_pipeline.storage import DataDirectory, write_data_file

RANGE_ROWS = 1_000_000
"""Events of a day that one task merges, about."""
FILE = "_file"
_FILES_NAMED = 5


@dataclass(frozen=True)
class EventRange:
    """Accepted events of one day in one range of time, sorted by (timestamp, arrival), each key once."""

    day: date
    path: str
    rows: int
    last_values: Carry


@dataclass(frozen=True)
class MergeTask:
    """Merge the events of a day with `begin_us` <= timestamp < `end_us` (None: open) from runs."""

    schema: StreamSchema
    day: date
    runs: tuple[SortedRun, ...]
    begin_us: int | None
    end_us: int | None
    scratch: DataDirectory


@dataclass(frozen=True)
class MergeResult:
    """The result of a `MergeTask`: the events, the rows whose key came before, and counts for the validation.

    `tied` are times at which the names of the files decided the order.
    """

    settled: EventRange
    repeated: tuple[RejectedRows, ...]
    figures: Figures
    tied: TiedFiles


@dataclass(frozen=True)
class TiedFiles:
    """The number of `times` at which several files have events, not all of one type; `first_us` is the earliest."""

    times: int = 0
    files: frozenset[str] = frozenset()
    first_us: int = 0

    def __add__(self, other: TiedFiles) -> TiedFiles:
        """Return the sum of both, which have no time in common."""
        if not self.times or not other.times:
            return self if self.times else other
        first = min(self.first_us, other.first_us)
        return TiedFiles(self.times + other.times, self.files | other.files, first)

    def said(self, timezone: str) -> str:
        """A sentence for a person."""
        names = sorted(self.files)
        named = ", ".join(names[:_FILES_NAMED]) + (
            f" and {len(names) - _FILES_NAMED:,} more" * (len(names) > _FILES_NAMED)
        )
        first = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.first_us)).astimezone(
            ZoneInfo(timezone)
        )
        return (
            f"{named}: {'one time has' if self.times == 1 else f'{self.times:,} times have'} events of different types "
            f"in several files (first: {first.isoformat(sep=' ')}); the names of the files say which is earlier. If "
            "that matters, write finer times (to the nanosecond), or write TIES STRICT or TIES ANY in the patterns"
        )


def merge_tasks(
    schema: StreamSchema, day: date, runs: Sequence[SortedRun], scratch: DataDirectory, range_rows: int = RANGE_ROWS
) -> list[MergeTask]:
    """Cut a day into ranges of time of about `range_rows` events.

    A key without the timestamp can repeat anywhere in the day, so that such a day is merged as one range.
    """
    cuts: list[int | None] = [None]
    if not schema.key or TIMESTAMP in schema.key:
        weighted = sorted((mark, run.rows / len(run.marks)) for run in runs for mark in run.marks)
        held = 0.0
        for mark, weight in weighted:
            if held >= range_rows and mark != cuts[-1]:
                cuts.append(mark)
                held = 0.0
            held += weight
    bounds = zip(cuts, [*cuts[1:], None], strict=True)
    return [MergeTask(schema, day, tuple(runs), begin, end, scratch) for begin, end in bounds]


def merge_runs(task: MergeTask, number: int, attempt: int) -> MergeResult:
    """Run a `MergeTask`."""
    files = sorted({run.file for run in task.runs})
    tables = []
    for run in task.runs:
        table = read_run(run.path, row_filter=_between(task.begin_us, task.end_us))
        tables.append(table.append_column(FILE, pa.array(np.full(table.num_rows, files.index(run.file)))))
    events = in_order(pa.concat_tables(tables).combine_chunks(), [TIMESTAMP, FINER, FILE, LINE])
    repeated: list[RejectedRows] = []
    if task.schema.key and events.num_rows:
        first = first_of_each_key(events, task.schema.key)
        again = first != np.arange(events.num_rows)
        if again.any():
            repeated = _write_repeated(task, number, attempt, events, first, np.flatnonzero(again), files)
            events = events.filter(pa.array(~again))
    path = task.scratch.file(number, attempt)
    write_run(path, events.drop_columns([FILE]))
    carry = last_values(events, task.schema) if task.schema.derived else Carry()
    settled = EventRange(task.day, path, events.num_rows, carry)
    tied = tied_files(events, task.schema.type_attribute, files)
    return MergeResult(settled, tuple(repeated), figures_of(events, task.schema, task.day), tied)


def tied_files(events: pa.Table, type_attribute: str, files: Sequence[str]) -> TiedFiles:
    """Count the times at which several files have events, not all of one type, among events in order."""
    if len(files) < 2 or not events.num_rows:
        return TiedFiles()
    stamps = events.column(TIMESTAMP).cast(pa.int64()).to_numpy()
    finer, file = (events.column(name).to_numpy() for name in (FINER, FILE))
    same = (stamps[1:] == stamps[:-1]) & (finer[1:] == finer[:-1])
    if not (same & (file[1:] != file[:-1])).any():
        return TiedFiles()
    first = np.flatnonzero(np.concatenate([[True], ~same]))
    types = pc.dictionary_encode(events.column(type_attribute).combine_chunks()).indices.to_numpy()
    differ = [np.minimum.reduceat(of, first) != np.maximum.reduceat(of, first) for of in (file, types)]
    tied = differ[0] & differ[1]
    if not tied.any():
        return TiedFiles()
    within = np.repeat(tied, np.diff(np.append(first, len(stamps))))
    names = frozenset(files[number] for number in np.unique(file[within]).tolist())
    return TiedFiles(int(tied.sum()), names, int(stamps[first[tied][0]]))


def first_of_each_key(events: pa.Table, key: Sequence[str]) -> np.ndarray:
    """Index of the first event, in order of arrival (`_file` and `_line`), with the same key as each event.

    A timestamp is compared to the nanosecond.
    """
    codes = np.zeros(events.num_rows, dtype=np.int64)
    for name in (*key, *([FINER] if TIMESTAMP in key else [])):
        encoded = pc.dictionary_encode(events.column(name).combine_chunks(), null_encoding="encode")
        column = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        _, codes = np.unique(codes * (len(encoded.dictionary) + 1) + column, return_inverse=True)
    arrival = np.lexsort([events.column(LINE).to_numpy(), events.column(FILE).to_numpy()])
    _, first = np.unique(codes[arrival], return_index=True)
    return np.asarray(arrival[first][codes], dtype=np.int64)


def _write_repeated(
    task: MergeTask,
    number: int,
    attempt: int,
    events: pa.Table,
    first: np.ndarray,
    again: np.ndarray,
    files: Sequence[str],
) -> list[RejectedRows]:
    """Quarantine rows whose key came before, by file."""
    rows = events.take(pa.array(again)).to_pylist()
    earlier = events.select([FILE, LINE]).take(pa.array(first[again])).to_pylist()
    by_file: dict[str, list[RejectedRow]] = {}
    for row, before in zip(rows, earlier, strict=True):
        key = ", ".join(f"{name}={row[name]}" for name in task.schema.key)
        reason = f"repeated key ({key}): first in {files[before[FILE]]} on line {before[LINE]}"
        raw = json.dumps(
            {name: value for name, value in row.items() if name not in (FILE, LINE, FINER)},
            default=str,
            ensure_ascii=False,
        )
        by_file.setdefault(files[row[FILE]], []).append(RejectedRow(row[LINE], reason, raw))
    return [
        write_rejected(task.scratch.file(number, attempt), rejected, file, task.day)
        for file, rejected in by_file.items()
    ]


def _between(begin_us: int | None, end_us: int | None) -> pc.Expression | None:
    expression: pc.Expression | None = None
    if begin_us is not None:
        expression = pc.field(TIMESTAMP) >= pa.scalar(begin_us, pa.int64()).cast(INSTANT)
    if end_us is not None:
        before = pc.field(TIMESTAMP) < pa.scalar(end_us, pa.int64()).cast(INSTANT)
        expression = before if expression is None else expression & before
    return expression


# -- finishing: ranges and rejected rows become the files that are published -------------------------------------------


@dataclass(frozen=True)
class FinishTask:
    """Write a settled range as a file of published events.

    Before it are `first_position` events of the day, and the last values in `carry_in`.
    """

    schema: StreamSchema
    settled: EventRange
    first_position: int
    carry_in: Carry
    directory: DataDirectory


def finish_range(task: FinishTask, number: int, attempt: int) -> str:
    """Run a `FinishTask`: add derived attributes, seq and day, and write the file; returns its path."""
    events = derive(read_run(task.settled.path), task.schema, task.carry_in)
    day = task.settled.day
    first_seq = day.toordinal() * SEQ_PER_DAY + task.first_position
    seq = pa.array(np.arange(first_seq, first_seq + events.num_rows, dtype=np.int64))
    days = pa.repeat(pa.scalar(day, pa.date32()), events.num_rows)
    events = events.append_column(SEQ, seq).append_column(DAY, days)
    footer = footer_of(events, task.schema.type_attribute)
    return write_data_file(task.directory.file(number, attempt), events, events_columns(task.schema), footer)


@dataclass(frozen=True)
class QuarantineTask:
    """Write the rejected rows of a day, by file and line, as one file of the quarantine."""

    day: date
    rejected: tuple[RejectedRows, ...]
    directory: DataDirectory


def write_quarantine(task: QuarantineTask, number: int, attempt: int) -> str:
    """Run a `QuarantineTask`; returns the file's path."""
    table = pa.concat_tables([read_run(rows.path) for rows in task.rejected]).sort_by(
        [("file", "ascending"), ("line", "ascending")]
    )
    days = pa.repeat(pa.scalar(task.day, pa.date32()), table.num_rows)
    table = table.set_column(table.schema.get_field_index(DAY), DAY, days)
    return write_data_file(task.directory.file(number, attempt), table, QUARANTINE_SCHEMA)
