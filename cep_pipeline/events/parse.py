"""A raw file, or some parts of one, to staged rows: typed, with day, file and line, and with the reason if rejected.

A `StagedDay` is a day between ingestion and preprocessing: its rows are checked, counted and validated, none published.

A task is a small frozen value and its function a plain one over pyarrow, so that whatever runs it (Spark, a test) only
distributes. Rows are written as they are read, in their order: the memory of a task does not grow with the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from cep_pipeline.errors import DataError
from cep_pipeline.events.clock import rows_shown_twice
from cep_pipeline.events.columns import TIMESTAMP
from cep_pipeline.events.raw_files import RawFile, SourceFile, fingerprint_file
from cep_pipeline.events.readers import FilePart, RejectedRow, open_rows
from cep_pipeline.events.row_checks import FILE, FINER, LINE, LOCAL_DAY, check_rows, day_number, day_of
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.timestamps import INSTANT
from cep_pipeline.events.validate import FailedValidation
from cep_pipeline.storage import ROW_GROUP_ROWS, DataDirectory, conform, open_filesystem, storage_errors

REASON, RAW = "_reason", "_raw"


def staged_columns(schema: StreamSchema) -> pa.Schema:
    """Return the columns of staged rows.

    An accepted row has the event, `_finer` (the nanoseconds below the microsecond of its time), `_day` (days since
    1970-01-01 of its local date), `_file` and `_line`. A rejected one has `_file`, `_line`, `_reason` and `_raw`, and
    `_day`, which is null if it is of the first day of a file that covers all time.
    """
    attributes = [(name, schema.arrow_type(name)) for name in schema.raw_attributes]
    origin = [(FINER, pa.int16()), (LOCAL_DAY, pa.int32()), (FILE, pa.string()), (LINE, pa.int64())]
    return pa.schema([(TIMESTAMP, INSTANT), *attributes, *origin, (REASON, pa.string()), (RAW, pa.string())])


@dataclass(frozen=True)
class ParseTask:
    """Read a raw file, or some parts of one, and keep the rows of some days.

    The rows are written to `scratch`, which is removed when they have been preprocessed. The lines `second` are of the
    second pass of an hour that comes twice; None until that has been decided.
    """

    schema: StreamSchema
    file: SourceFile
    days: frozenset[date]
    scratch: DataDirectory
    parts: tuple[FilePart, ...] | None = None
    second: np.ndarray | None = None


@dataclass(frozen=True)
class ParsedFile:
    """The result of a `ParseTask`.

    `path` is the file of staged rows, "" if there is none; in it are so many `events` and `rejected` rows of each day
    (None: the first day of a file that covers all time). `finer` says that times have nanoseconds. `first_day` is the
    earliest local day of an accepted row (None without any), and `rows` the number of rows read, rejected ones too,
    both of any day. A task that read a part of the file has no fingerprint of it. `twice` has the rows of
    the task's days whose local times come twice.
    """

    file: SourceFile
    path: str
    events: Mapping[date, int]
    rejected: Mapping[date | None, int]
    finer: bool
    first_day: date | None
    rows: int
    dropped_columns: tuple[str, ...]
    raw_file: RawFile | None
    twice: tuple[pa.Table, ...]


def parse_file(task: ParseTask, number: int, attempt: int) -> ParsedFile:
    """Run a `ParseTask`; its number and attempt become part of the name of its file.

    A file that is truncated, corrupt, or lacks a column is an InputError.
    """
    source = task.schema.source
    assert source is not None
    wanted = {day_number(day) for day in task.days}
    first = task.file.period.first
    undated = None if first is None else day_number(first)
    events, rejected = Counter[int](), Counter[int | None]()
    twice: list[pa.Table] = []
    first_day: int | None = None
    rows, finer = 0, False
    # Before the rows: where the file is replaced meanwhile, its fingerprint is the old one, and the day becomes stale.
    raw_file = fingerprint_file(task.file) if task.parts is None else None
    with (
        open_rows(task.file, source, task.parts) as reader,
        StagedFile(task.schema, task.scratch, number, attempt) as staged,
    ):
        for block in reader:
            checked = check_rows(block, task.schema, task.file.period, task.file.path, task.second)
            rows += block.rows + len(block.rejected)
            days = checked.events.column(LOCAL_DAY).to_numpy()
            if len(days):
                first_day = min(day for day in (int(days.min()), first_day) if day is not None)
            kept = checked.events.filter(pa.array(np.isin(days, list(wanted))))
            if kept.num_rows:
                for each in pc.value_counts(kept.column(LOCAL_DAY)).to_pylist():
                    events[each["values"]] += each["counts"]
                finer = finer or bool(pc.any(pc.not_equal(kept.column(FINER), 0)).as_py())
                twice.append(rows_shown_twice(kept, task.schema))
                staged.write(kept.append_column(FILE, pa.repeat(pa.scalar(task.file.name), kept.num_rows)))
            bad = [(row, undated if row.day is None else row.day) for row in checked.rejected]
            bad = [(row, day) for row, day in bad if day is None or day in wanted]
            if bad:
                rejected.update(day for _, day in bad)
                staged.write_rejected([row for row, _ in bad], [day for _, day in bad], task.file.name)
        dropped = reader.dropped_columns
    return ParsedFile(
        task.file,
        staged.path,
        {day_of(day): count for day, count in events.items()},
        {None if day is None else day_of(day): count for day, count in rejected.items()},
        finer,
        None if first_day is None else day_of(first_day),
        rows,
        dropped,
        raw_file,
        tuple(part for part in twice if part.num_rows),
    )


class StagedFile:
    """A Parquet file of staged rows, which lives as long as the ingestion; `path` is "" until a row is written."""

    def __init__(self, schema: StreamSchema, scratch: DataDirectory, number: int, attempt: int) -> None:
        self.path = ""
        self._place = scratch, number, attempt
        self._columns = staged_columns(schema)
        self._opened = ExitStack()
        self._held: list[pa.Table] = []

    def __enter__(self) -> StagedFile:
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        if failure is None:
            self._flush()
        self._opened.close()

    def write(self, rows: pa.Table) -> None:
        """Write rows; a column that they lack is null."""
        self._held.append(conform(rows, self._columns))
        if sum(table.num_rows for table in self._held) >= ROW_GROUP_ROWS:
            self._flush()

    def write_rejected(self, rows: Sequence[RejectedRow], days: Sequence[int | None], file: str) -> None:
        """Write rejected rows of a raw file, with the day of each."""
        kept = [row.as_kept() for row in rows]
        columns = {
            LOCAL_DAY: pa.array(days, pa.int32()),
            FILE: pa.repeat(pa.scalar(file), len(kept)),
            LINE: pa.array([row.line for row in kept], pa.int64()),
            REASON: pa.array([row.reason for row in kept], pa.string()),
            RAW: pa.array([row.raw for row in kept], pa.string()),
        }
        self.write(pa.table(columns))

    def _flush(self) -> None:
        if not self._held:
            return
        if not self.path:
            self._open()
        with storage_errors(f"writing {self.path}"):
            self._writer.write_table(pa.concat_tables(self._held), row_group_size=ROW_GROUP_ROWS)
        self._held = []

    def _open(self) -> None:
        scratch, number, attempt = self._place
        self.path = scratch.file(number, attempt)
        filesystem, inner = open_filesystem(self.path)
        texts = [field.name for field in self._columns if pa.types.is_string(field.type) and field.name != RAW]
        self._opened.enter_context(storage_errors(f"writing {self.path}"))
        self._writer = self._opened.enter_context(
            pq.ParquetWriter(inner, self._columns, filesystem=filesystem, compression="lz4", use_dictionary=texts)
        )


Status = Literal["events", "empty", "skipped"]


@dataclass(frozen=True)
class EventRange:
    """A range of a day: its events, `rows` of them, are of the second `begin_s` (since 1970, UTC) or later ones."""

    begin_s: int
    rows: int


@dataclass(frozen=True)
class StagedDay:
    """The checked rows of a day's raw files, before they are in order and anything is derived.

    The files in `rows` are Parquet files as a `StagedFile` writes them; those in `repeated` have the rows that are
    rejected because their key came before. Files and rows of other days may be among them. Rows without a day are of
    this one if they are of a file in `undated`. The accepted events are cut into `ranges` of time, and are in the
    order of the columns in `order`. The schema is there by its digest. `notes` and `warnings` are sentences for a
    person: what was left out, and what validation warns of. `validation` is its result document as JSON, empty for a
    skipped day; `failure` says why the day may not be published. A day is `skipped` without files.
    """

    day: date
    files: tuple[RawFile, ...]
    schema: str
    rows: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    undated: tuple[str, ...] = ()
    ranges: tuple[EventRange, ...] = ()
    order: tuple[str, ...] = ()
    rejected_rows: int = 0
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    validation: Mapping[str, Any] = field(default_factory=dict)
    failure: str = ""
    skipped: bool = False

    @property
    def events(self) -> int:
        """Number of accepted events."""
        return sum(part.rows for part in self.ranges)

    @property
    def status(self) -> Status:
        """`events`; `empty`: a day to publish without events; `skipped`: a day that is not published."""
        return "skipped" if self.skipped else "events" if self.events else "empty"

    def require(self) -> None:
        """Refuse the day if it failed validation: a DataError, or FailedValidation for critical expectations."""
        if self.failure:
            raise FailedValidation(self.failure, self.validation) if self.validation else DataError(self.failure)

    def to_json(self) -> dict[str, Any]:
        """The JSON form, read back by `from_json`: what one task hands to the next."""
        return dict(TypeAdapter(StagedDay).dump_python(self, mode="json"))

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> StagedDay:
        """Read the JSON form."""
        return TypeAdapter(StagedDay).validate_python(content)
