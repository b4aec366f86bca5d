"""`cep run`: days of a stream from raw files to matches, without Airflow; what is done already is not done again.

The days are those that raw files may hold, or those that are stale.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING

from cep_pipeline.errors import CepError, InputError
from cep_pipeline.events.iceberg_tables import files_of_days, periods_of_stream, source_of
from cep_pipeline.events.raw_files import SourceFile, fingerprint_file
from cep_pipeline.pipeline.configuration import PatternSet, Stream, check_runnable
from cep_pipeline.pipeline.day import (
    OPTIONS,
    PUBLISH,
    STEPS,
    record_failure,
    record_run,
    record_success,
    refuse_end_before,
)
from cep_pipeline.pipeline.day_work import DayWork, Observer
from cep_pipeline.storage import folder_exists, new_scratch, remove_scratch
from cep_pipeline.warehouse.records import PlanRecord, RunStep, StaleDay
from cep_pipeline.warehouse.units import Drafts

if TYPE_CHECKING:
    from cep_pipeline.events.raw_files import RawFile
    from cep_pipeline.spark.session import SparkSession
    from cep_pipeline.warehouse.stream_tables import StreamTables

DAYS_AT_ONCE = 8
"""Days that are ingested side by side."""


@dataclass(frozen=True)
class DayOutcome:
    """The result of a run for one day.

    - `status`: `done`; `fresh`: there was nothing to do; `skipped`: a day without files that is not published.
    - `events`, `rejected`: None where ingestion was not run.
    - `matches`, `pending`: pattern set -> pattern -> matches: those that became final on the day, and those that, or
      others before them, were not final when it was over.
    - `limited`: pattern, as SET.NAME -> what became of it, because it reached a limit.
    """

    day: date
    status: str
    events: int | None = None
    rejected: int | None = None
    matches: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    steps: tuple[RunStep, ...] = ()
    pending: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    end_of_stream: bool = False
    limited: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, work: DayWork) -> DayOutcome:
        """Return the outcome of a day whose steps are done."""
        return cls(
            work.day,
            "skipped" if work.skipped else "done",
            work.events,
            work.rejected,
            {name: detected.matches for name, detected in work.detected.items()},
            tuple(work.steps),
            {name: detected.pending for name, detected in work.detected.items()},
            work.end_of_stream and not work.skipped,
            {
                f"{name}.{pattern}": str(limited)
                for name, detected in work.detected.items()
                for pattern, limited in detected.limited.items()
            },
        )


@dataclass(frozen=True)
class RunOutcome:
    """The result of a run: its days, the plan that each pattern set ran by, and the seconds that all of it took.

    `spark` says on which Spark application it worked; "": there was nothing to do, or nothing that needs Spark.
    """

    run_id: str
    days: tuple[DayOutcome, ...]
    plans: Mapping[str, PlanRecord]
    seconds: float
    spark: str = ""

    @property
    def pending(self) -> Mapping[str, Mapping[str, int]]:
        """Pattern set -> pattern -> matches that wait for days after the last one whose matches were detected."""
        return next((day.pending for day in reversed(self.days) if day.matches), {})


def new_run_id() -> str:
    """Return an id that sorts by time and differs from those of other runs of the same second."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


@dataclass
class PipelineRun:
    """A run over days of one stream, in which the `pattern_sets` are detected.

    `session` makes the Spark session, when it is first needed.
    `observer` is told of steps and notes. `steps` are the members of `OPTIONS` that are asked for. With `redo` days are
    done that have nothing to do. With `end_of_stream` the stream ends with the last day that is run, so that no match
    waits for later ones.
    """

    stream: Stream
    tables: StreamTables
    pattern_sets: Sequence[PatternSet]
    session: Callable[[], SparkSession]
    observer: Observer
    steps: frozenset[str] = frozenset(OPTIONS)
    redo: bool = False
    run_id: str = field(default_factory=new_run_id)
    plans: dict[str, PlanRecord] = field(default_factory=dict)
    end_of_stream: bool = False
    told: dict[str, str] = field(default_factory=dict)
    _raw_files: dict[date, list[RawFile]] = field(default_factory=dict)
    _last_day: date | None = None

    def __post_init__(self) -> None:
        unknown = self.steps - set(OPTIONS)
        if unknown:
            raise InputError(f"there is no step {', '.join(sorted(unknown))}; there are: {', '.join(OPTIONS)}")
        if self.end_of_stream and "detect" not in self.steps:
            raise InputError("the end of the stream is a matter of detection: leave --steps out, or name detect in it")

    # -- days --------------------------------------------------------------------------------------------------------

    def run_days(self, days: Sequence[date]) -> RunOutcome:
        """Run days in order of time; the days before one that fails stay done.

        A CepError says that a day failed: it and the days after it are not done, and what is published of them is as it
        was.
        """
        begin = time.perf_counter()
        outcomes: list[DayOutcome] = []
        remaining = sorted(set(days))
        if self.end_of_stream and remaining:
            self._last_day = remaining[-1]
            refuse_end_before(self._last_day, self.tables)
        while remaining:
            stale = self._stale(remaining)
            batch = self._next_batch(remaining, stale)
            if not batch:
                outcomes.append(DayOutcome(remaining.pop(0), "fresh"))
                continue
            outcomes += self._run_batch(batch, stale)
            remaining = [day for day in remaining if day not in batch]
        if self.end_of_stream:
            self._end_with_published(outcomes)
        return self._outcome(outcomes, begin)

    def _end_with_published(self, outcomes: list[DayOutcome]) -> None:
        """End the stream with the last published day, where the last one of the run is none."""
        published = [record.day for record in self.tables.days()]
        if not published or self._last_day in published:
            return
        self._last_day = max(published)
        if stale := self._stale([self._last_day]):
            outcomes[:] = [outcome for outcome in outcomes if outcome.day != self._last_day]
            outcomes += self._run_batch([self._last_day], stale)

    def run_stale(self, days: Sequence[date] | None = None) -> RunOutcome:
        """Redo stale days, the earliest first, until no day (of `days`, if given) is stale."""
        if self.end_of_stream:
            raise InputError("--stale redoes days as they were, the last one of an ended stream too: leave out one")
        begin = time.perf_counter()
        outcomes: list[DayOutcome] = []
        tried: set[tuple[date, tuple[StaleDay, ...]]] = set()
        while True:
            published = [record.day for record in self.tables.days()]
            stale = {
                day: items
                for day, items in self._stale([day for day in published if days is None or day in days]).items()
                if (day, tuple(items)) not in tried
            }
            if not stale:
                return self._outcome(outcomes, begin)
            first = min(stale)
            self._last_day = self._recorded_end(published)
            # What redoing does not mend, such as a day whose files are gone, stays stale and is not tried again.
            tried.add((first, tuple(stale[first])))
            outcomes += self._run_batch([first], stale)

    def _recorded_end(self, published: Sequence[date]) -> date | None:
        """Return the last day if the stream was taken to end with it."""
        closed = {unit.final_day for unit in self.tables.matches_days() if unit.fingerprint.end_of_stream}
        return next((day for day in published[-1:] if day in closed), None)

    def _outcome(self, outcomes: Sequence[DayOutcome], begin: float) -> RunOutcome:
        seconds = time.perf_counter() - begin
        return RunOutcome(
            self.run_id,
            tuple(outcomes),
            dict(self.plans),
            seconds,
            self.told.get("spark", ""),
        )

    def _stale(self, days: Sequence[date]) -> dict[date, list[StaleDay]]:
        """Return the stale days among these, with the reasons."""
        published = {record.day for record in self.tables.days()}
        unread = [day for day in days if day in published and day not in self._raw_files]
        if "ingest" in self.steps:
            self._raw_files |= raw_files(self.stream, unread)
        found: dict[date, list[StaleDay]] = {}
        files = {day: self._raw_files[day] for day in days if day in self._raw_files}
        for stale in _stale_days(self.tables, self.stream, self.pattern_sets, files):
            if stale.day in days and stale.step in self.steps:
                found.setdefault(stale.day, []).append(stale)
        if self.end_of_stream and self._last_day in published and self._last_day in days:
            from cep_pipeline.pipeline.detection import waits_at_the_end

            waiting = {pattern_set.name for pattern_set in self.pattern_sets if waits_at_the_end(pattern_set)}
            for unit in self.tables.matches_days():
                open_end = unit.final_day == self._last_day and not unit.fingerprint.end_of_stream
                if open_end and unit.pattern_set in waiting:
                    item = StaleDay(unit.final_day, unit.pattern_set, ("the stream is to end with it",))
                    found.setdefault(unit.final_day, []).append(item)
        return found

    def _next_batch(self, remaining: Sequence[date], stale: Mapping[date, Sequence[StaleDay]]) -> list[date]:
        """Return the next days to do together; [] where the next one has nothing to do.

        Days that are ingested together carry from one to the next, so no published day may lie between them that is
        not among them.
        """
        published = {record.day for record in self.tables.days()}
        batch: list[date] = []
        for day in remaining:
            between = {other for other in published if batch and batch[-1] < other < day}
            if self._idle(day, published, stale) or between or len(batch) == DAYS_AT_ONCE:
                break
            batch.append(day)
        return batch

    def _idle(self, day: date, published: Collection[date], stale: Container[date]) -> bool:
        return day in published and day not in stale and not self.redo

    # -- one batch ---------------------------------------------------------------------------------------------------

    def _run_batch(self, batch: Sequence[date], stale: Mapping[date, Sequence[StaleDay]]) -> list[DayOutcome]:
        check_runnable(self.pattern_sets)  # here, so that a run with nothing to do imports no mechanism
        published = {record.day for record in self.tables.days()}
        as_they_are = {
            day
            for day in batch
            if day in published and not self.redo and all(item.step == "detect" for item in stale.get(day, ()))
        }
        only_detect = as_they_are if "ingest" in self.steps else set(batch)
        scratch = new_scratch(self.tables.warehouse.scratch)
        tables = self.tables.with_drafts(Drafts())
        finished: set[date] = set()
        with ExitStack() as stack:
            sets = self._sets_of_days(batch, stale, as_they_are)
            works = [self._work(day, sets[day], tables, scratch, stack) for day in batch]
            try:
                for work in works:
                    record_run(work, "running")
                try:
                    failure = self._ingest([work for work in works if work.day not in only_detect])
                finally:
                    remove_scratch(scratch)
                ready = works
                if failure is not None:
                    ready = list(takewhile(lambda one: one.day in only_detect or one.skipped or one.drafted, works))
                for work in ready:
                    self._finish_day(work)
                    record_success(work)
                    finished.add(work.day)
                if failure is not None:
                    raise failure
            except BaseException as error:
                for work in works:
                    if work.day not in finished:
                        record_failure(work, error)
                raise
        return [DayOutcome.of(work) for work in works]

    def _sets_of_days(
        self, batch: Sequence[date], stale: Mapping[date, Sequence[StaleDay]], as_they_are: Container[date]
    ) -> dict[date, tuple[PatternSet, ...]]:
        """Return the pattern sets to detect on each day: those that are stale, where the events stay as they are.

        A set that is done on a day is also done on the later days of the batch, since its matches may go on there.
        """
        found: dict[date, tuple[PatternSet, ...]] = {}
        wanted: set[str] = set()
        for day in batch:
            items = stale.get(day, ())
            named = {str(item.pattern_set) for item in items} if day in as_they_are else set()
            wanted |= named or {one.name for one in self.pattern_sets}
            found[day] = tuple(one for one in self.pattern_sets if one.name in wanted)
        return found

    def _work(
        self, day: date, pattern_sets: tuple[PatternSet, ...], tables: StreamTables, scratch: str, stack: ExitStack
    ) -> DayWork:
        """Take the lease of a day, for as long as the batch is worked on."""
        return DayWork(
            self.stream,
            tables,
            day,
            self.run_id,
            stack.enter_context(self.tables.day_lease(day, run_id=self.run_id)),
            pattern_sets,
            day == self._last_day,
            self.session,
            self.observer,
            scratch,
            plans=self.plans,
            told=self.told,
        )

    def _ingest(self, works: Sequence[DayWork]) -> CepError | None:
        """Do the steps that days go through side by side; returns the error of the first day that fails."""
        failure: CepError | None = None
        for step in STEPS:
            if not (step.side_by_side and works):
                continue
            try:
                step.run(works)
            except CepError as error:
                failure = error
                works = [work for work in works if work.passed]
        return failure

    def _finish_day(self, work: DayWork) -> None:
        """Do the other steps for a day that has events, and publish all that was made of it."""
        if work.skipped:
            return
        if work.drafted is None and work.day not in {record.day for record in self.tables.days()}:
            raise InputError(
                f"stream {self.stream.name!r}, day {work.day}: no events are published; run --steps ingest"
            )
        more = bool(work.pattern_sets and self.steps - {"ingest"})
        for step in (one for one in STEPS if not one.side_by_side):
            if step is PUBLISH or (more and (step.option in self.steps or step.needed(work))):
                step.run([work])


def days_between(first: date, last: date) -> list[date]:
    """All days from the first to the last, both included."""
    if last < first:
        raise InputError(f"the last day {last} is before the first day {first}")
    return [first + timedelta(days=offset) for offset in range((last - first).days + 1)]


def days_with_files(stream: Stream) -> list[date]:
    """The days that the raw files present may hold, in order.

    An InputError says that the data folder is missing or holds no file of the stream, or that names do not tell the
    days.
    """
    source = source_of(stream.schema)
    periods = periods_of_stream(stream.schema, stream.data)
    if not periods and stream.schema.source_table is not None:
        raise InputError(f"stream {stream.name!r}: table {stream.schema.source_table} has no rows")
    if not periods:
        templates = ", ".join(template.text for template in source.paths)
        raise InputError(f"{stream.data}: no raw files of stream {stream.name!r} in it; they are named {templates}")
    days: set[date] = set()
    for period in periods:
        if period.first is None or period.last is None:
            raise InputError(
                f"stream {stream.name!r}: the names of its files (of a table: its metadata) do not tell their days; "
                "say which: --day YYYY-MM-DD, or --from and --to (`cep preview` shows the days in them)"
            )
        days.update(days_between(period.first, period.last))
    return sorted(days)


def has_files(stream: Stream, day: date) -> bool:
    """True if a raw file is there that may hold events of the day."""
    files, _ = files_of_days(stream.schema, stream.data, [day])[day]
    return bool(files)


def files_are_there(stream: Stream, day: date) -> bool:
    """True if files of the day are there, and of the days behind it whose files have rows of it, too."""
    behind = stream.schema.source.settings.days_before if stream.schema.source else 0
    return all(has_files(stream, day + timedelta(days=more)) for more in range(behind + 1))


def raw_files(stream: Stream, days: Iterable[date]) -> dict[date, list[RawFile]]:
    """The raw files of each day with size and hash; a file that serves many days is read once."""
    known: dict[SourceFile, RawFile] = {}
    found: dict[date, list[RawFile]] = {}
    for day, (files, _) in files_of_days(stream.schema, stream.data, list(days)).items():
        for file in files:
            if file not in known:
                known[file] = fingerprint_file(file)
        found[day] = [known[file] for file in files]
    return found


def find_stale_days(stream: Stream, tables: StreamTables) -> list[StaleDay]:
    """The published days whose inputs have changed: raw files, schema, carry-in, pattern sets, events.

    Where the data folder is not there at all (an archive that is mounted on another machine), the raw files count as
    unchanged.
    """
    published = [record.day for record in tables.days()]
    files: Mapping[date, list[RawFile]] | None = None
    schema = stream.schema
    if schema.source_table is not None or (schema.source is not None and folder_exists(stream.data)):
        files = raw_files(stream, published)
    return _stale_days(tables, stream, stream.pattern_sets, files)


def _stale_days(
    tables: StreamTables,
    stream: Stream,
    pattern_sets: Sequence[PatternSet],
    files: Mapping[date, list[RawFile]] | None,
) -> list[StaleDay]:
    """The published days whose inputs have changed; raw files that are not given count as unchanged."""
    return tables.stale_days(
        raw_files=files,
        schema=stream.schema.digest,
        pattern_sets={one.name: one.version for one in pattern_sets},
        patterns={one.name: one.statements for one in pattern_sets},
    )
