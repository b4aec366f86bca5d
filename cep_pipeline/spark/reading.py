"""The raw files of some days, read in Spark tasks: staged rows, and what a person should know of the files.

Row groups of Parquet files are read side by side. The rows of a file that covers several days are read once, for all
of them. `accepted_rows` and `rejected_rows` are the staged rows as DataFrames.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cep_pipeline.errors import InputError
from cep_pipeline.events.clock import second_pass
from cep_pipeline.events.columns import TIMESTAMP
from cep_pipeline.events.iceberg_tables import files_of_days, source_of
from cep_pipeline.events.parse import RAW, REASON, ParsedFile, ParseTask, StagedDay, parse_file, staged_columns
from cep_pipeline.events.raw_files import RawFile, SourceFile, fingerprint_file
from cep_pipeline.events.readers import FilePart, open_rows
from cep_pipeline.events.row_checks import FILE, FINER, LINE, LOCAL_DAY, day_number
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.foreign_text import listed
from cep_pipeline.spark.tasks import Batches, Progress, run_tasks
from cep_pipeline.storage import DataDirectory, object_store_properties, open_filesystem, reach_object_stores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cep_pipeline.spark.session import SparkSession


@dataclass
class ReadDay:
    """One day whose files are being read; `staged` is what is known of it so far.

    `events` are the accepted rows, of which ingestion may still reject some; they are of the files `of_files`.
    """

    staged: StagedDay
    files: tuple[SourceFile, ...] = ()
    missing: tuple[str, ...] = ()
    events: int = 0
    of_files: int = 0
    finer: bool = False

    @property
    def day(self) -> date:
        """The day."""
        return self.staged.day

    def note(self, text: str) -> None:
        """Tell a person something, once."""
        self.know(notes=tuple(dict.fromkeys((*self.staged.notes, text))))

    def know(self, **known: Any) -> None:
        """Keep what is now known of the day."""
        self.staged = replace(self.staged, **known)


@dataclass
class RawFiles:
    """The raw files of some days of a stream, and what is known of them while they are read.

    `session` makes the Spark session, which days without files do not need. A task reads about `task_rows` rows of a
    Parquet file, and all of a file of text.
    """

    session: Callable[[], SparkSession]
    schema: StreamSchema
    days: Sequence[ReadDay]
    data_root: str
    scratch: DataDirectory
    task_rows: int
    progress: Progress | None
    fingerprints: dict[str, RawFile] = field(default_factory=dict)

    def _run(self, tasks: Sequence[_RawTask], doing: str) -> list[ParsedFile | RawFile]:
        if not tasks:
            return []
        what = f"{self.schema.name}: {doing}"
        return run_tasks(self.session(), _run_raw_task, list(enumerate(tasks)), what=what, progress=self.progress)

    def find(self) -> None:
        """Find the files of the days."""
        found = files_of_days(self.schema, self.data_root, [state.day for state in self.days])
        for state in self.days:
            state.files, state.missing = tuple(found[state.day][0]), tuple(found[state.day][1])
        self._check_missing_files()

    def read(self) -> None:
        """Read each file once, for all of its days."""
        wanted: dict[SourceFile, set[date]] = {}
        for state in self.days:
            for file in state.files:
                wanted.setdefault(file, set()).add(state.day)
        tasks = [task for file, days in wanted.items() for task in self._parse_tasks(file, frozenset(days))]
        outcomes = self._run(tasks, "reading raw files")
        self._take_second_hours(tasks, outcomes)
        parsed: dict[SourceFile, list[ParsedFile]] = {file: [] for file in wanted}
        for outcome in outcomes:
            if isinstance(outcome, ParsedFile):
                parsed[outcome.file].append(outcome)
            raw_file = outcome if isinstance(outcome, RawFile) else outcome.raw_file
            if raw_file is not None:
                self.fingerprints[raw_file.name] = raw_file
        for file in wanted:
            self._take(file, parsed[file])
        self._check_missing_rows()
        for state in self.days:
            by_files = [FILE, LINE] if state.of_files > 1 else [LINE]
            state.know(order=(TIMESTAMP, *([FINER] if state.finer else []), *values_in_order(self.schema), *by_files))

    def _parse_tasks(self, file: SourceFile, days: frozenset[date]) -> list[_RawTask]:
        """Make one task for a file read as a whole; else some for `task_rows` rows each and one for its fingerprint."""
        with open_rows(file, source_of(self.schema)) as rows:
            parts = rows.parts()
        if parts is None:
            return [ParseTask(self.schema, file, days, self.scratch)]
        tasks: list[_RawTask] = [file] if file.of_table is None else []
        if file.of_table is not None:
            self.fingerprints[file.name] = fingerprint_file(file)
        chunk: list[FilePart] = []
        for part in parts:
            if not part.may_hold(days, file.period):
                continue
            if chunk and sum(one.rows for one in chunk) + part.rows > self.task_rows:
                tasks.append(ParseTask(self.schema, file, days, self.scratch, tuple(chunk)))
                chunk = []
            chunk.append(part)
        tasks.append(ParseTask(self.schema, file, days, self.scratch, tuple(chunk)))
        return tasks

    def _take_second_hours(self, tasks: Sequence[_RawTask], outcomes: list[ParsedFile | RawFile]) -> None:
        """Decide which rows are of the second pass of an hour that comes twice, and read what has such rows again."""
        of_file: dict[SourceFile, list[int]] = {}
        for at, outcome in enumerate(outcomes):
            if isinstance(outcome, ParsedFile) and outcome.twice:
                of_file.setdefault(outcome.file, []).append(at)
        again: dict[int, ParseTask] = {}
        for file, places in of_file.items():
            found = {at: one for at in places if isinstance(one := outcomes[at], ParsedFile)}
            decided = second_pass(
                pa.concat_tables(part for one in found.values() for part in one.twice), self.schema, file.name
            )
            for state in self.days:
                for day, note in decided.notes:
                    if day == state.day and file in state.files:
                        state.note(note)
            for at, one in found.items():
                task = tasks[at]
                if isinstance(task, ParseTask) and any(np.isin(part[LINE], decided.lines).any() for part in one.twice):
                    again[at] = replace(task, second=decided.lines)
        read = self._run(list(again.values()), "reading the second of two hours")
        for at, outcome in zip(again, read, strict=True):
            outcomes[at] = outcome

    def _take(self, file: SourceFile, parsed: Sequence[ParsedFile]) -> None:
        """Hand what was read from a file to its days."""
        states = {state.day: state for state in self.days if file in state.files}
        first_day = file.period.first or min((p.first_day for p in parsed if p.first_day is not None), default=None)
        if first_day is None:
            # No row says of which day the file is.
            first_day = min(states)
        dropped = parsed[0].dropped_columns
        empty = not any(p.rows for p in parsed) and all(p.raw_file is not None for p in parsed)
        for day, state in states.items():
            self._take_rows(state, file, parsed, is_first=day == first_day)
            if dropped:
                state.note(f"{file.name}: columns that the schema does not list are left out: {listed(dropped)}")
            if empty:
                state.note(f"{file.name}: the file has no rows")

    def _take_rows(self, state: ReadDay, file: SourceFile, parsed: Sequence[ParsedFile], *, is_first: bool) -> None:
        staged = state.staged
        events = sum(p.events.get(state.day, 0) for p in parsed)
        undated = sum(p.rejected.get(None, 0) for p in parsed) if is_first else 0
        rejected = undated + sum(p.rejected.get(state.day, 0) for p in parsed)
        state.events += events
        state.of_files += bool(events)
        state.finer = state.finer or any(p.finer and state.day in p.events for p in parsed)
        paths = (p.path for p in parsed if state.day in {*p.events, *p.rejected} or (is_first and None in p.rejected))
        state.know(
            rows=(*staged.rows, *paths),
            undated=(*staged.undated, *([file.name] if undated else [])),
            rejected_rows=staged.rejected_rows + rejected,
        )

    def _check_missing_files(self) -> None:
        behind = source_of(self.schema).settings.days_before
        for state in self.days:
            later = [state.day + timedelta(days=more) for more in range(1, behind + 1)]
            lacking = [f"{one}" for one in later if not any(file.period.has(one) for file in state.files)]
            if state.files and lacking:
                state.note(f"no file of {listed(lacking)}, which may have rows of this day: it is stale when one comes")
            if not state.missing:
                continue
            state.note(say_missing(self.schema, state.day, self.data_root, state.missing))
            state.know(skipped=not state.files and self.schema.on_missing == "skip")

    def _check_missing_rows(self) -> None:
        """A file of a month that has no row of a day lacks the day, as a missing file of the day would."""
        for state in self.days:
            if state.staged.skipped or not state.files or state.events or state.staged.rejected_rows:
                continue
            if any(file.period.is_one_day for file in state.files):
                continue
            where = listed([file.name for file in state.files])
            if self.schema.on_missing == "error":
                raise InputError(
                    f"stream {self.schema.name!r}, day {state.day}: no row of this day in {where}; give a day that the "
                    "file holds, or set on_missing: empty or skip in the stream schema"
                )
            state.note(f"no row of this day in {where}")
            state.know(skipped=self.schema.on_missing == "skip")


def say_missing(schema: StreamSchema, day: date, data_root: str, missing: Sequence[str]) -> str:
    """Say which files of a day are missing; an InputError where the stream schema says `on_missing: error`."""
    of_table = schema.source_table is not None
    paths = missing if of_table else [f"{data_root.rstrip('/')}/{path}" for path in missing]
    where = f"{'row in table' if of_table else 'file'} {listed(paths)}"
    if schema.on_missing == "error":
        raise InputError(
            f"stream {schema.name!r}, day {day}: no {where}; deliver it, or set on_missing: empty or skip in the "
            f"stream schema for days without {'rows' if of_table else 'files'}"
        )
    return f"no {where}"


_RawTask = ParseTask | SourceFile


def _run_raw_task(numbered: tuple[int, _RawTask], attempt: int) -> ParsedFile | RawFile:
    number, task = numbered
    if isinstance(task, SourceFile):
        return fingerprint_file(task)
    return parse_file(task, number, attempt)


def values_in_order(schema: StreamSchema) -> tuple[str, ...]:
    """Return the attributes that decide the order of rows before their files and lines do.

    The rows of a table have no order, and its files are written anew: rows of equal time are in the order of their
    values.
    """
    return () if schema.source_table is None else tuple(schema.raw_attributes)


def staged_rows(spark: SparkSession, paths: Iterable[str], schema: StreamSchema) -> DataFrame:
    """Return the rows of staged files (`events.parse`).

    Files of an object store are read by tasks: they reach it with the pipeline's own settings, which Spark's JVM does
    not have.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    columns, files = from_arrow_schema(staged_columns(schema)), sorted(set(paths))
    if not any("://" in path for path in files):
        local = (f"file://{_PATTERN.sub(_AS_IT_IS, str(Path(path).absolute()))}" for path in files)
        # Times before 1900 are those of today's calendar.
        return spark.read.schema(columns).option("datetimeRebaseMode", "CORRECTED").parquet(*local)
    properties = object_store_properties()

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        reach_object_stores(properties)
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            filesystem, inner = open_filesystem(files[number])
            with pq.ParquetFile(inner, filesystem=filesystem) as file:
                yield from file.iter_batches()

    return spark.range(0, len(files), 1, len(files)).mapInArrow(read, columns)


_PATTERN, _AS_IT_IS = re.compile(r"([{}\[\]*?\\])"), r"\\\1"
"""What Spark takes for a pattern in the name of a file, and how it is written so that it is not."""


def accepted_rows(spark: SparkSession, days: Sequence[StagedDay], schema: StreamSchema) -> DataFrame:
    """Return the events of staged days, in no order, without those that are rejected because their key came before."""
    rows = staged_rows(spark, (path for day in days for path in day.rows), schema)
    accepted = rows.where(rows[REASON].isNull() & rows[LOCAL_DAY].isin(_numbers(days))).drop(REASON, RAW)
    if repeated := [path for day in days for path in day.repeated]:
        again = staged_rows(spark, repeated, schema).select(FILE, LINE)
        accepted = accepted.join(again, [FILE, LINE], "left_anti")
    return accepted


def rejected_rows(spark: SparkSession, days: Sequence[StagedDay], schema: StreamSchema) -> DataFrame:
    """Return the rejected rows of staged days, in no order: `_day`, `_file`, `_line`, `_reason` and `_raw`."""
    from pyspark.sql import functions as F  # noqa: N812 - as all of PySpark's users name it

    rows = staged_rows(spark, (path for day in days for path in (*day.rows, *day.repeated)), schema)
    first_days = [F.lit(of) for day in days for name in day.undated for of in (name, day_number(day.day))]
    of_file = F.try_element_at(F.create_map(*first_days), rows[FILE]) if first_days else F.lit(None)
    of_day = F.coalesce(rows[LOCAL_DAY], of_file).alias(LOCAL_DAY)
    rejected = rows.where(rows[REASON].isNotNull()).select(of_day, FILE, LINE, REASON, RAW)
    return rejected.where(F.col(LOCAL_DAY).isin(_numbers(days)))


def _numbers(days: Sequence[StagedDay]) -> list[int]:
    return [day_number(day.day) for day in days]
