"""`cep run`: days of a stream from raw files to matches, without Airflow; what is done already is not done again."""

from __future__ import annotations

import gc
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from cep_pipeline.errors import CepError, InputError
from cep_pipeline.events.validate import FailedValidation
from cep_pipeline.pipeline.configuration import PatternSet, SparkSettings, Stream
from cep_pipeline.pipeline.days import raw_files
from cep_pipeline.pipeline.detection import detect_day, publish_detected, waits_at_the_end
from cep_pipeline.pipeline.observer import Observer
from cep_pipeline.pipeline.outcomes import DayOutcome, RunOutcome, pending_details
from cep_pipeline.pipeline.statistics import estimate_day, published_statistics
from cep_pipeline.pipeline.steps import (
    MANY_PATTERNS,
    DayWork,
    check_runnable,
    current_plan,
    ingest_counts,
    plan_day,
    publish_ingested,
)
from cep_pipeline.warehouse.records import PlanRecord, RunRecord, RunStep, StaleDay

if TYPE_CHECKING:
    from cep_pipeline.events.raw_files import RawFile
    from cep_pipeline.spark.ingestion import IngestResult
    from cep_pipeline.spark.session import SparkSession
    from cep_pipeline.warehouse.stream_tables import StreamTables

STEPS = ("ingest", "statistics", "plan", "detect")
"""What can be asked for by `--steps`. Statistics and a plan that detection lacks are made whether asked for or not."""
DAYS_AT_ONCE = 8
"""Days that are ingested side by side."""


def new_run_id() -> str:
    """An id that sorts by time and is told apart from runs of the same second."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


@dataclass
class PipelineRun:
    """A run over days of one stream.

    Attributes
    ----------
    stream, tables, settings
        The stream, its tables, how Spark is used.
    pattern_sets
        Those that are detected.
    session
        Makes the Spark session, when it is first needed.
    observer
        Is told of steps and notes.
    steps
        Members of `STEPS` that are asked for.
    redo
        Whether days are redone that have nothing to do.
    end_of_stream
        Whether the stream ends with the last day that is run, so that no match waits for later days.
    """

    stream: Stream
    tables: StreamTables
    settings: SparkSettings
    pattern_sets: Sequence[PatternSet]
    session: Callable[[], SparkSession]
    observer: Observer
    steps: frozenset[str] = frozenset(STEPS)
    redo: bool = False
    run_id: str = field(default_factory=new_run_id)
    plans: dict[str, PlanRecord] = field(default_factory=dict)
    ingest_seconds: dict[str, float] = field(default_factory=dict)
    end_of_stream: bool = False
    _raw_files: dict[date, list[RawFile]] = field(default_factory=dict)
    _last_day: date | None = None

    def __post_init__(self) -> None:
        unknown = self.steps - set(STEPS)
        if unknown:
            raise InputError(f"there is no step {', '.join(sorted(unknown))}; there are: {', '.join(STEPS)}")
        if self.end_of_stream and "detect" not in self.steps:
            raise InputError("the end of the stream is a matter of detection: leave --steps out, or name detect in it")
        check_runnable(self.pattern_sets)

    # -- days --------------------------------------------------------------------------------------------------------

    def run_days(self, days: Sequence[date]) -> RunOutcome:
        """Run days in order of time; the days before one that fails stay done.

        Raises
        ------
        CepError
            A day failed: it and the days after it are not done, and what is published of them is as it was.
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
        """The last day, if the stream was taken to end with it."""
        closed = {unit.final_day for unit in self.tables.matches_days() if unit.fingerprint.end_of_stream}
        return next((day for day in published[-1:] if day in closed), None)

    def _outcome(self, outcomes: Sequence[DayOutcome], begin: float) -> RunOutcome:
        seconds = time.perf_counter() - begin
        return RunOutcome(self.run_id, tuple(outcomes), dict(self.plans), dict(self.ingest_seconds), seconds)

    def _stale(self, days: Sequence[date]) -> dict[date, list[StaleDay]]:
        """The published days among these that are stale, and why."""
        published = {record.day for record in self.tables.days()}
        unread = [day for day in days if day in published and day not in self._raw_files]
        if "ingest" in self.steps:
            self._raw_files |= raw_files(self.stream, unread)
        found: dict[date, list[StaleDay]] = {}
        for stale in self.tables.stale_days(
            raw_files={day: self._raw_files[day] for day in days if day in self._raw_files},
            schema=self.stream.schema.digest,
            pattern_sets={pattern_set.name: pattern_set.version for pattern_set in self.pattern_sets},
        ):
            if stale.day in days and stale.step in self.steps:
                found.setdefault(stale.day, []).append(stale)
        if self.end_of_stream and self._last_day in published and self._last_day in days:
            waiting = {pattern_set.name for pattern_set in self.pattern_sets if waits_at_the_end(pattern_set)}
            for unit in self.tables.matches_days():
                open_end = unit.final_day == self._last_day and not unit.fingerprint.end_of_stream
                if open_end and unit.pattern_set in waiting:
                    item = StaleDay(unit.final_day, unit.pattern_set, ("the stream is to end with it",))
                    found.setdefault(unit.final_day, []).append(item)
        return found

    def _next_batch(self, remaining: Sequence[date], stale: Mapping[date, Sequence[StaleDay]]) -> list[date]:
        """The next days to do together, [] where the next one has nothing to do.

        Days that are ingested together carry from one to the next, so no published day may lie between them that is
        not among them.
        """
        published = {record.day for record in self.tables.days()}

        def idle(day: date) -> bool:
            return day in published and day not in stale and not self.redo

        batch: list[date] = []
        for day in remaining:
            between = {other for other in published if batch and batch[-1] < other < day}
            if idle(day) or between or len(batch) == DAYS_AT_ONCE:
                break
            batch.append(day)
        return batch

    # -- one batch ---------------------------------------------------------------------------------------------------

    def _run_batch(self, batch: Sequence[date], stale: Mapping[date, Sequence[StaleDay]]) -> list[DayOutcome]:
        published = {record.day for record in self.tables.days()}
        only_detect = {
            day
            for day in batch
            if "ingest" not in self.steps
            or (day in published and not self.redo and all(item.step == "detect" for item in stale.get(day, ())))
        }
        started = datetime.now(UTC)
        with ExitStack() as stack:
            works = {
                day: DayWork(
                    self.stream,
                    self.tables,
                    self.settings,
                    day,
                    self.run_id,
                    stack.enter_context(self.tables.day_lease(day, run_id=self.run_id)),
                )
                for day in batch
            }
            outcomes: dict[date, DayOutcome] = {}
            for work in works.values():
                self._record(work, "running", started)
            try:
                failure = self._ingest([work for day, work in works.items() if day not in only_detect], outcomes)
                for day, work in works.items():
                    if failure is not None and day not in outcomes and day not in only_detect:
                        break
                    outcomes[day] = self._finish_day(work, outcomes.get(day, DayOutcome(day, "done")))
                    self._record(work, "succeeded", started, outcomes[day])
                if failure is not None:
                    raise failure
            except BaseException as error:
                for day, work in works.items():
                    if day not in outcomes or outcomes[day].steps == ():
                        self._record_failure(work, started, outcomes.get(day), error)
                raise
        return [outcomes[day] for day in batch]

    def _ingest(self, works: Sequence[DayWork], outcomes: dict[date, DayOutcome]) -> CepError | None:
        """Ingest and publish days; returns what stopped it, after the days before are published."""
        if not works:
            return None
        from cep_pipeline.spark.ingestion import ingest_days

        by_day = {work.day: work for work in works}
        first = min(by_day)
        earlier = [record.events for record in self.tables.days() if record.day < first]
        spark = self.session()
        begin = time.perf_counter()
        with self.observer.step(f"ingest {_span(list(by_day))}") as progress:
            try:
                for result in ingest_days(
                    spark,
                    self.stream.schema,
                    sorted(by_day),
                    self.stream.data,
                    events_directory=lambda day: self.tables.events_directory(day, run_id=self.run_id),
                    quarantine_directory=lambda day: self.tables.quarantine_directory(day, run_id=self.run_id),
                    scratch=f"{self.tables.warehouse.location}/scratch",
                    carry_in=self.tables.carry_in(first),
                    earlier_row_counts=earlier,
                    progress=progress,
                ):
                    outcomes[result.day] = self._publish(by_day[result.day], result, time.perf_counter() - begin)
                    begin = time.perf_counter()
                    if result.day == max(by_day):  # the seconds are of all days together
                        for name, seconds in result.seconds.items():
                            self.ingest_seconds[name] = self.ingest_seconds.get(name, 0.0) + seconds
            except CepError as error:
                failing = by_day.get(next((day for day in sorted(by_day) if day not in outcomes), first))
                if failing is not None and isinstance(error, FailedValidation):
                    failing.validation = error.document
                return error
        return None

    def _publish(self, work: DayWork, result: IngestResult, seconds: float) -> DayOutcome:
        for text in (*result.notes, *result.warnings):
            self.observer.note(f"{result.day}: {text}")
        work.done(RunStep("ingest", seconds, ingest_counts(result)))
        work.validation = result.validation
        if result.status == "skipped":
            return DayOutcome(result.day, "skipped", None, result.rejected)
        published = publish_ingested(work, result)
        return DayOutcome(result.day, "done", published.events, published.rejected)

    def _finish_day(self, work: DayWork, outcome: DayOutcome) -> DayOutcome:
        """Statistics, plan and detection of a day whose events are published."""
        if outcome.status == "skipped":
            return DayOutcome(outcome.day, "skipped", None, outcome.rejected, {}, tuple(work.steps))
        if work.day not in {record.day for record in self.tables.days()}:
            raise InputError(
                f"stream {self.stream.name!r}, day {work.day}: no events are published; run --steps ingest"
            )
        matches: dict[str, Mapping[str, int]] = {}
        pending: dict[str, Mapping[str, int]] = {}
        ends = work.day == self._last_day
        if self.pattern_sets and self.steps - {"ingest"}:
            self._estimate(work)
            for pattern_set in self.pattern_sets:
                plan = self._plan(work, pattern_set)
                if plan is not None:
                    if len(pattern_set.patterns) >= MANY_PATTERNS and self.plans.get(pattern_set.name) is not plan:
                        # They and their plan live as long as the run: to look through them for garbage again and again
                        # is a quarter of the time of a day's statistics.
                        gc.collect()
                        gc.freeze()
                    self.plans[pattern_set.name] = plan
                if "detect" in self.steps:
                    with self.observer.step(f"{work.day}: detect {pattern_set.name}") as progress:
                        detected = detect_day(self.session(), work, pattern_set, plan, progress, end_of_stream=ends)
                        publish_detected(work, detected)
                    matches[pattern_set.name] = detected.matches
                    pending[pattern_set.name] = detected.pending
        return DayOutcome(
            outcome.day, "done", outcome.events, outcome.rejected, matches, tuple(work.steps), pending, ends
        )

    def _estimate(self, work: DayWork) -> None:
        if "statistics" in self.steps or (
            any(current_plan(work, pattern_set) is None for pattern_set in self.pattern_sets)
            and any(published_statistics(work, pattern_set) is None for pattern_set in self.pattern_sets)
        ):
            with self.observer.step(f"{work.day}: statistics") as progress:
                estimate_day(self.session(), work, self.pattern_sets, progress)

    def _plan(self, work: DayWork, pattern_set: PatternSet) -> PlanRecord | None:
        snapshot = published_statistics(work, pattern_set)
        if snapshot is None or not snapshot.events:  # nothing to plan by, and nothing to detect
            return current_plan(work, pattern_set)
        if current_plan(work, pattern_set) is not None:
            return plan_day(work, pattern_set, snapshot)
        with self.observer.step(f"{work.day}: plan {pattern_set.name}") as progress:
            return plan_day(work, pattern_set, snapshot, progress)

    def _record_failure(
        self, work: DayWork, started: datetime, outcome: DayOutcome | None, error: BaseException
    ) -> None:
        """Record that a day failed; where that fails too (a full disk), the first error is the one to show."""
        said = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error) or repr(error)
        try:
            self._record(work, "failed", started, outcome, error=said)
        except CepError as second:
            self.observer.note(f"{work.day}: that the day failed could not be recorded: {second}")

    def _record(
        self,
        work: DayWork,
        status: Any,
        started: datetime,
        outcome: DayOutcome | None = None,
        error: str = "",
    ) -> None:
        matches = outcome.matches if outcome is not None else {}
        self.tables.record_run(
            RunRecord(
                run_id=self.run_id,
                day=work.day,
                status=status,
                started_at=started,
                finished_at=None if status == "running" else datetime.now(UTC),
                steps=tuple(work.steps),
                events=outcome.events if outcome is not None else None,
                rejected=outcome.rejected if outcome is not None else None,
                matches={f"{name}.{pattern}": n for name, found in matches.items() for pattern, n in found.items()},
                plans={name: plan.version for name, plan in self.plans.items() if name in matches},
                validation=work.validation,
                error=error,
                details=pending_details(outcome.pending, outcome.end_of_stream) if outcome is not None else {},
            )
        )


def refuse_end_before(day: date, tables: StreamTables) -> None:
    """Refuse to let the stream end with a day that others follow.

    Raises
    ------
    InputError
        A later day is published.
    """
    last = max((record.day for record in tables.days()), default=day)
    if last > day:
        raise InputError(
            f"stream {tables.name!r} cannot end with {day}: {last} is published; end it with that day, or leave "
            "--end-of-stream out"
        )


def _span(days: Sequence[date]) -> str:
    return str(min(days)) if len(days) == 1 else f"{len(days)} days, {min(days)} to {max(days)}"
