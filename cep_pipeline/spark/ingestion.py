"""Ingestion in Spark: raw files of some days become staged days, and staged days become files to publish.

Four stages, each distributed by Spark but for the judgement of the validation:

1. parse: raw files become sorted runs by day (`events.parse`), parts of large files side by side; a large CSV file is
   surveyed first, so that it can be cut (`events.csv_rows`);
2. merge: the runs of a day are merged, where there are several or a key is declared (`events.merge`);
3. validate: what the tasks before have counted is added up and judged, on the driver (`events.validate`); the day is a
   `StagedDay` then;
4. finish: derived attributes, seq and day are added, and the files are written (`events.merge`).

A day's last values, which the next day carries in, are known after the merge: so the days are finished in parallel
although each depends on the one before.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from cep_pipeline.errors import DataError, InputError
from cep_pipeline.events.clock import SeenHours, found_in, second_pass
from cep_pipeline.events.csv_rows import PART_BYTES, Survey, Surveyed, survey_text
from cep_pipeline.events.derived import Carry, carry_lengths
from cep_pipeline.events.erasure import erased_from
from cep_pipeline.events.merge import (
    RANGE_ROWS,
    EventRange,
    FinishTask,
    MergeTask,
    QuarantineTask,
    TiedFiles,
    finish_range,
    merge_runs,
    merge_tasks,
    write_quarantine,
)
from cep_pipeline.events.parse import RUN_ROWS, ParsedFile, ParseTask, SortedRun, parse_file
from cep_pipeline.events.raw_files import RawFile, SourceFile, files_of_day, fingerprint_file
from cep_pipeline.events.raw_rows import FilePart
from cep_pipeline.events.readers import READERS
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.staged_day import StagedDay
from cep_pipeline.events.validate import (
    FailedValidation,
    Figures,
    check_rejected_share,
    start_import,
    validate,
)
from cep_pipeline.foreign_text import listed
from cep_pipeline.spark.tasks import Progress, run_tasks
from cep_pipeline.storage import DataDirectory, remove_scratch
from cep_pipeline.warehouse.fingerprints import EventsFingerprint

if TYPE_CHECKING:
    from cep_pipeline.spark.session import SparkSession

_EXAMPLES = 5
Task = TypeVar("Task")
Outcome = TypeVar("Outcome")


def stage_days(
    session: Callable[[], SparkSession],
    schema: StreamSchema,
    days: Sequence[date],
    data_root: str | Path,
    *,
    scratch: str,
    earlier_row_counts: Sequence[int] = (),
    run_rows: int = RUN_ROWS,
    range_rows: int = RANGE_ROWS,
    part_bytes: int = PART_BYTES,
    progress: Progress | None = None,
) -> list[StagedDay]:
    """Read, check, order and validate days; their events stay in `scratch` until they are preprocessed.

    Parameters
    ----------
    session
        Makes the Spark session, which days without files do not need.
    days
        Ascending.
    data_root
        The folder or URI under which the source's paths lie.
    scratch
        Made by `new_scratch`, and removed by whoever made it.
    earlier_row_counts
        Numbers of events of published days before the first of `days`, the latest last.
    run_rows, range_rows
        Events that one task holds in memory at once, whatever the size of files and days.
    part_bytes
        Text of one part of a large CSV file, about; its parts are read side by side.
    progress
        Called with the number of tasks done and of all tasks of each step.

    Returns
    -------
    list of StagedDay
        One for each day, in order, up to the first that fails validation: that one says why, and is the last.

    Raises
    ------
    InputError
        A missing day (`on_missing: error`), a file that is truncated, corrupt or lacks a column.
    """
    if list(days) != sorted(set(days)):
        raise InputError("the days to ingest must be given once each, in order")
    if not days:
        return []
    directory = DataDirectory(scratch, "scratch")
    work = _Ingestion(
        session,
        schema,
        [_Day(StagedDay(day, (), schema.staged_digest)) for day in days],
        str(data_root),
        directory,
        run_rows,
        range_rows,
        part_bytes,
        progress,
    )
    work.find_files()
    importing, loaded = None, "great_expectations" in sys.modules
    if any(state.files for state in work.days):
        session()  # it may fork, which it must before a thread imports
        importing = start_import()
    work.parse()
    work.merge()
    if importing is not None:
        with work.timed("import"):
            importing.result()
        if not loaded:
            gc.freeze()  # to look through all that it holds takes longer than the statistics of a day
    return work.validate(earlier_row_counts)


@dataclass
class _Day:
    """One day on its way through the steps; `staged` is what is known of it so far."""

    staged: StagedDay
    files: tuple[SourceFile, ...] = ()
    missing: tuple[str, ...] = ()
    runs: tuple[SortedRun, ...] = ()
    figures: Figures = field(default_factory=Figures)

    @property
    def day(self) -> date:
        return self.staged.day

    def note(self, text: str) -> None:
        """Tell a person something, once."""
        self.know(notes=tuple(dict.fromkeys((*self.staged.notes, text))))

    def know(self, **known: Any) -> None:
        self.staged = replace(self.staged, **known)


@dataclass
class _Ingestion:
    """The steps of one ingestion and what is known between them."""

    session: Callable[[], SparkSession]
    schema: StreamSchema
    days: Sequence[_Day]
    data_root: str
    scratch: DataDirectory
    run_rows: int
    range_rows: int
    part_bytes: int
    progress: Progress | None
    raw_files: dict[str, RawFile] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Add the wall-clock seconds of a block to a step."""
        begin = time.perf_counter()
        yield
        self.seconds[step] = self.seconds.get(step, 0.0) + time.perf_counter() - begin

    def _run(
        self, tasks: Sequence[Task], function: Callable[[Task, int, int], Outcome], step: str, doing: str
    ) -> list[Outcome]:
        what = f"{self.schema.name}: {doing}"
        if not tasks:
            return []
        with self.timed(step):
            return run_tasks(
                self.session(), partial(_numbered, function), list(enumerate(tasks)), what=what, progress=self.progress
            )

    # -- raw files to runs -------------------------------------------------------------------------------------------

    def find_files(self) -> None:
        """Find the files of the days."""
        source = _source(self.schema)
        for state in self.days:
            files, missing = files_of_day(source.paths, self.data_root, state.day)
            state.files, state.missing = tuple(files), tuple(missing)
        self._check_missing_files()

    def parse(self) -> None:
        """Read each file once, for all of its days."""
        wanted: dict[SourceFile, set[date]] = {}
        for state in self.days:
            for file in state.files:
                wanted.setdefault(file, set()).add(state.day)
        source = _source(self.schema)
        reader = READERS[source.format]
        unpacked = DataDirectory(f"{self.scratch.location}/unpacked", self.scratch.run_id)
        surveys = {file: reader.surveys(file, source, unpacked, self.part_bytes) for file in wanted}
        tasks: list[_RawTask] = []
        for file, days in wanted.items():
            tasks += surveys[file] or self._parse_tasks(file, frozenset(days), ())
        outcomes = self._run(tasks, _run_raw_task, "parse", "reading raw files")
        surveyed: dict[SourceFile, list[Surveyed]] = {file: [] for file in wanted}
        for outcome in outcomes:
            if isinstance(outcome, Surveyed):
                surveyed[outcome.file].append(outcome)
        cut = [file for file in wanted if surveyed[file]]
        parts = [task for file in cut for task in self._parse_tasks(file, frozenset(wanted[file]), surveyed[file])]
        tasks += parts
        outcomes += self._run(parts, _run_raw_task, "parse", "reading parts of raw files")
        self._take_second_hours(tasks, outcomes)
        remove_scratch(unpacked.location)
        parsed: dict[SourceFile, list[ParsedFile]] = {file: [] for file in wanted}
        for outcome in outcomes:
            if isinstance(outcome, ParsedFile):
                parsed[outcome.file].append(outcome)
            raw_file = outcome if isinstance(outcome, RawFile) else outcome.raw_file
            if raw_file is not None:
                self.raw_files[raw_file.name] = raw_file
        for file in wanted:
            self._take(file, parsed[file], whole=bool(surveyed[file]))

    def _parse_tasks(self, file: SourceFile, days: frozenset[date], surveyed: Sequence[Surveyed]) -> list[_RawTask]:
        """Make one task for a file read as a whole; else some for `run_rows` rows each, and one for its fingerprint."""
        source = _source(self.schema)
        parts = READERS[source.format].parts_of(file, source, surveyed)
        if parts is None:
            return [ParseTask(self.schema, file, days, self.scratch, None, self.run_rows)]
        tasks: list[_RawTask] = [] if any(one.raw_file is not None for one in surveyed) else [file]
        chunk: list[FilePart] = []
        for part in parts:
            if not part.may_hold(sorted(days), file.period):
                continue
            if chunk and sum(one.rows for one in chunk) + part.rows > self.run_rows:
                tasks.append(ParseTask(self.schema, file, days, self.scratch, tuple(chunk), self.run_rows))
                chunk = []
            chunk.append(part)
        tasks.append(ParseTask(self.schema, file, days, self.scratch, tuple(chunk), self.run_rows))
        return tasks

    def _take_second_hours(self, tasks: Sequence[_RawTask], outcomes: list[ParsedFile | Surveyed | RawFile]) -> None:
        """Decide which rows are of the second pass of an hour that comes twice, and read what has such rows again."""
        of_file: dict[SourceFile, list[int]] = {}
        for at, outcome in enumerate(outcomes):
            if isinstance(outcome, ParsedFile) and outcome.hours.days:
                of_file.setdefault(outcome.file, []).append(at)
        again: dict[int, ParseTask] = {}
        for file, places in of_file.items():
            found = {at: one for at in places if isinstance(one := outcomes[at], ParsedFile)}
            decided = second_pass(
                reduce(add, (one.hours for one in found.values()), SeenHours()), self.schema, file.name
            )
            for state in self.days:
                for day, note in decided.notes:
                    if day == state.day and file in state.files:
                        state.note(note)
            for at, one in found.items():
                task = tasks[at]
                if isinstance(task, ParseTask) and np.isin(one.hours.lines, decided.lines).any():
                    again[at] = replace(task, second=decided.lines)
        read = self._run(list(again.values()), _run_raw_task, "parse", "reading the second of two hours")
        for at, outcome in zip(again, read, strict=True):
            outcomes[at] = outcome

    def _take(self, file: SourceFile, parsed: Sequence[ParsedFile], *, whole: bool) -> None:
        """Hand what was read from a file to its days; `whole`: all of its parts were read."""
        states = {state.day: state for state in self.days if file in state.files}
        first_day = file.period.first or min((p.first_day for p in parsed if p.first_day is not None), default=None)
        if first_day is None:
            # No row says of which day the file is.
            first_day = min(states)
        dropped = parsed[0].dropped_columns
        empty = not any(p.rows for p in parsed) and (whole or all(p.raw_file is not None for p in parsed))
        clock_back = {back.day: back for back in found_in(p.clock for p in parsed)}
        for day, state in states.items():
            state.runs += tuple(run for p in parsed for run in p.runs if run.day == day)
            rejected = (rows for p in parsed for rows in p.rejected if (rows.day or first_day) == day)
            state.know(rejected=(*state.staged.rejected, *rejected))
            if dropped:
                state.note(f"{file.name}: columns that the schema does not list are left out: {listed(dropped)}")
            if (back := clock_back.get(day)) is not None:
                state.know(clock_back=state.staged.clock_back + back.rows)
                state.note(back.said(file.name))
            if empty:
                state.note(f"{file.name}: the file has no rows")

    def _check_missing_files(self) -> None:
        for state in self.days:
            if not state.missing:
                continue
            where = listed([f"{self.data_root.rstrip('/')}/{path}" for path in state.missing])
            if self.schema.on_missing == "error":
                raise InputError(
                    f"stream {self.schema.name!r}, day {state.day}: no file {where}; deliver it, or set on_missing: "
                    "empty or skip in the stream schema for days without files"
                )
            state.note(f"no file {where}")
            state.know(skipped=not state.files and self.schema.on_missing == "skip")

    def _check_missing_rows(self) -> None:
        """A file of a month that has no row of a day lacks the day, as a missing file of the day would."""
        for state in self.days:
            if state.staged.skipped or not state.files or state.runs or state.staged.rejected:
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

    # -- runs to settled ranges --------------------------------------------------------------------------------------

    def merge(self) -> None:
        """Merge the runs of each day, and find repeated keys."""
        self._check_missing_rows()
        tasks: list[MergeTask] = []
        for state in self.days:
            if len(state.runs) == 1 and not self.schema.key:
                (run,) = state.runs
                state.know(settled=(EventRange(state.day, run.path, run.rows, run.last_values),))
                state.figures = run.figures
            elif state.runs:
                tasks += merge_tasks(self.schema, state.day, state.runs, self.scratch, self.range_rows)
        merged = self._run(tasks, merge_runs, "merge", "merging runs")
        for state in self.days:
            of_day = [outcome for outcome in merged if outcome.settled.day == state.day]
            settled = (outcome.settled for outcome in of_day if outcome.settled.rows)
            repeated = (rows for outcome in of_day for rows in outcome.repeated)
            state.know(settled=(*state.staged.settled, *settled), rejected=(*state.staged.rejected, *repeated))
            state.figures = sum((outcome.figures for outcome in of_day), state.figures)
            tied = sum((outcome.tied for outcome in of_day), TiedFiles())
            if tied.times:
                state.know(tied=tied.times)
                state.note(tied.said(self.schema.timezone))

    # -- validation --------------------------------------------------------------------------------------------------

    def validate(self, earlier_row_counts: Sequence[int]) -> list[StagedDay]:
        """Validate the days in order, up to the first that fails."""
        counts = list(earlier_row_counts)
        reached: list[_Day] = []
        with self.timed("validate"):
            for state in self.days:
                reached.append(state)
                if state.staged.skipped:
                    continue
                try:
                    self._validate(state, counts)
                except FailedValidation as error:
                    state.know(failure=str(error), validation=error.document)
                    break
                except DataError as error:
                    state.know(failure=str(error))
                    break
                counts.append(state.staged.events)
        for state in reached:
            state.know(files=tuple(self.raw_files[file.name] for file in state.files), seconds=dict(self.seconds))
        return [state.staged for state in reached]

    def _validate(self, state: _Day, earlier_row_counts: Sequence[int]) -> None:
        staged = state.staged
        examples = sorted(example for rows in staged.rejected for example in rows.examples)[:_EXAMPLES]
        check_rejected_share(self.schema, staged.day, staged.events, staged.rejected_rows, examples)
        validation = validate(state.figures, self.schema, state.day, earlier_row_counts=earlier_row_counts)
        validation.require(self.schema.name)
        state.know(validation=validation.document, warnings=validation.warnings)


def _numbered(function: Callable[[Task, int, int], Outcome], numbered: tuple[int, Task], attempt: int) -> Outcome:
    number, task = numbered
    return function(task, number, attempt)


_RawTask = ParseTask | Survey | SourceFile


def _run_raw_task(task: _RawTask, number: int, attempt: int) -> ParsedFile | Surveyed | RawFile:
    if isinstance(task, SourceFile):
        return fingerprint_file(task)
    if isinstance(task, Survey):
        return survey_text(task, number, attempt)
    return parse_file(task, number, attempt)


def _source(schema: StreamSchema) -> Any:
    if schema.source is None:
        raise InputError(f"stream {schema.name!r} has no source; its schema must say what its raw files look like")
    return schema.source


@dataclass(frozen=True)
class IngestResult:
    """The files of events and rejected rows that a day became; they are not published yet.

    Parameters
    ----------
    staged
        The day as it was staged; one that is `empty` is published without events, one that is `skipped` not at all.
    events_files, quarantine_files
        Paths that successful attempts returned, to be handed to the warehouse.
    carry_out
        What the next day carries in, JSON.
    fingerprint
        What the events were made from.
    seconds
        Step -> wall-clock seconds, of all days that were ingested together.
    """

    staged: StagedDay
    events_files: tuple[str, ...]
    quarantine_files: tuple[str, ...]
    carry_out: Mapping[str, Any]
    fingerprint: EventsFingerprint
    seconds: Mapping[str, float]


def preprocess_days(
    workers: SparkSession,
    schema: StreamSchema,
    staged: Sequence[StagedDay],
    *,
    events_directory: Callable[[date], DataDirectory],
    quarantine_directory: Callable[[date], DataDirectory],
    carry_in: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> list[IngestResult]:
    """Add derived attributes, seq and day to staged days, side by side, and write the files that are published.

    Parameters
    ----------
    staged
        Days that passed validation, ascending. Each carries in what the one before carries out.
    events_directory, quarantine_directory
        Where the tasks write the files of a day that are published.
    carry_in
        The carry-out of the latest published day before the first of them, JSON.
    progress
        Called with the number of tasks done and of all tasks.

    Raises
    ------
    InputError
        A day was staged by another version of the stream schema.
    """
    finish: list[FinishTask] = []
    quarantine: list[QuarantineTask] = []
    carries: dict[date, tuple[Carry, Carry]] = {}
    lengths = carry_lengths(schema)
    carry = Carry.from_json(carry_in or {})
    for day in staged:
        day.require()
        if day.schema != schema.staged_digest:
            raise InputError(
                f"stream {schema.name!r}, day {day.day}: the stream schema has changed since the day was ingested; "
                "ingest it again"
            )
        before, position = carry, 0
        for settled in day.settled:
            finish.append(FinishTask(schema, settled, position, carry, events_directory(day.day)))
            position += settled.rows
            carry = carry.followed_by(settled.last_values, lengths)
        carries[day.day] = before, carry
        if day.rejected:
            quarantine.append(QuarantineTask(day.day, day.rejected, quarantine_directory(day.day)))
    tasks: list[FinishTask | QuarantineTask] = [*finish, *quarantine]
    begin = time.perf_counter()
    paths = run_tasks(workers, _write, list(enumerate(tasks)), what=f"{schema.name}: writing events", progress=progress)
    seconds = time.perf_counter() - begin
    written = list(zip(tasks, paths, strict=True))
    return [_result(schema, day, written, *carries[day.day], seconds) for day in staged]


def _result(
    schema: StreamSchema,
    staged: StagedDay,
    written: Sequence[tuple[FinishTask | QuarantineTask, str]],
    carry_in: Carry,
    carry_out: Carry,
    seconds: float,
) -> IngestResult:
    day = staged.day
    return IngestResult(
        staged,
        events_files=tuple(p for t, p in written if isinstance(t, FinishTask) and t.settled.day == day),
        quarantine_files=tuple(p for t, p in written if isinstance(t, QuarantineTask) and t.day == day),
        carry_out=carry_out.to_json(),
        fingerprint=EventsFingerprint(staged.files, schema.digest, carry_in.digest, erased_from(schema.erasures, day)),
        seconds={**staged.seconds, "write": seconds},
    )


def _write(numbered: tuple[int, FinishTask | QuarantineTask], attempt: int) -> str:
    number, task = numbered
    if isinstance(task, FinishTask):
        return finish_range(task, number, attempt)
    return write_quarantine(task, number, attempt)
