"""The steps of a day, from raw files to published matches, in their order.

`STEPS` is the one list of them. `cep run` does the steps of many days in one process (`run`); Airflow does them one at
a time, each in a process of its own (`tasks`). Both take the steps, and the recording of what a run did, from here. To
add a step, write its function and put a `Step` into the list: it shows in `cep run`, in the DAG of each stream and in
`--steps`.

A step works on the days that it is given, each under its lease. It reads what is published, and what the steps before
it have put into the `DayWork` and the drafts of its tables. Only the step `publish` changes what is published of a
day, and it changes all of it at once: a run that fails leaves every published table as it was.

The DAG files and the command line import this module, so the functions import what they need when they run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from cep_pipeline.errors import CepError, InputError
from cep_pipeline.foreign_text import listed
from cep_pipeline.pipeline.configuration import data_docs_folder

if TYPE_CHECKING:
    from cep_pipeline.events.parse import StagedDay
    from cep_pipeline.pipeline.day_work import DayWork
    from cep_pipeline.warehouse.records import RunStatus
    from cep_pipeline.warehouse.stream_tables import StreamTables


@dataclass(frozen=True)
class Step:
    """One step of a day.

    - `name`, `option`: name of the task in the DAG, and the value of `--steps` that asks `cep run` for it; steps that
      belong together share one.
    - `run`: does the step for some days of one stream.
    - `side_by_side`: `cep run` gives it several days at once; else one day. A scheduler gives it one day.
    - `needed`: tells whether `cep run` does the step for a day though it is not asked for.
    - `gives`: what it hands on to the steps behind it: `staged` events, `drafted` events and rejected rows,
      `statistics`, or `detected` matches.
    - `in_order`: it carries on from the day before, which must be published first where both are on their way.
    """

    name: str
    option: str
    run: Callable[[Sequence[DayWork]], None]
    needs_spark: bool = False
    side_by_side: bool = False
    needed: Callable[[DayWork], bool] = lambda _: False
    gives: tuple[str, ...] = ()
    in_order: bool = False


def ingest(works: Sequence[DayWork]) -> None:
    """Read, check, order and validate the raw files of the days; this publishes nothing, and refuses nothing yet."""
    from cep_pipeline.storage import remove_scratch
    from spark_jobs.ingest import stage_days

    first = works[0]
    remove_scratch(first.scratch)
    with first.observer.step(f"ingest {_span(works)}") as progress, first.timed("ingest") as counts:
        staged_days = stage_days(
            first.spark,
            first.stream.schema,
            [work.day for work in works],
            first.stream.data,
            scratch=first.scratch,
            earlier_row_counts=[record.events for record in first.tables.days() if record.day < first.day],
            data_docs=partial(data_docs_folder, first.stream.checks_folder, first.stream.name, first.run_id),
            progress=progress,
        )
        counts.update(ingest_counts(staged_days[0]))
    for work, staged in zip(works, staged_days, strict=False):  # the days after one that fails are not staged
        work.staged = staged
        if work is not first:  # the time is that of all days together
            with work.timed("ingest") as counts:
                counts.update(ingest_counts(staged))


def validate(works: Sequence[DayWork]) -> None:
    """Refuse a day that failed validation (DataError), and tell what a person should know of the others."""
    for work in works:
        if work.staged is not None:
            work.staged.require()
            for text in (*work.staged.notes, *work.staged.warnings):
                work.observer.note(f"{work.day}: {text}")


def preprocess(works: Sequence[DayWork]) -> None:
    """Add derived attributes, and write the files of events and rejected rows; this publishes nothing."""
    from spark_jobs.preprocess import preprocess_days

    taken = [work for work in works if not work.skipped]
    if not taken:
        return
    first = taken[0]
    with first.observer.step(f"preprocess {_span(taken)}") as progress, first.timed("preprocess"):
        results = preprocess_days(
            first.spark(),
            first.stream.schema,
            [work.staged for work in taken if work.staged is not None],
            events_directory=lambda day: first.tables.events_directory(day, run_id=first.run_id),
            quarantine_directory=lambda day: first.tables.quarantine_directory(day, run_id=first.run_id),
            carry_in=first.tables.carry_in(first.day),
            progress=progress,
        )
    for work, result in zip(taken, results, strict=True):
        work.tables.drafts.days[work.day] = work.tables.draft_events(
            work.day,
            result.events_files,
            result.quarantine_files,
            run_id=work.run_id,
            fingerprint=result.fingerprint,
            carry_out=result.carry_out,
        )


def estimate_statistics(works: Sequence[DayWork]) -> None:
    """Estimate the statistics of the day for all pattern sets; this publishes nothing."""
    from spark_jobs.estimate_statistics import estimate_day

    for work in works:
        if work.pattern_sets and not work.skipped:
            with work.observer.step(f"{work.day}: statistics") as progress:
                estimate_day(work.spark(), work, work.pattern_sets, progress)


def lacks_statistics(work: DayWork) -> bool:
    """Return True if a pattern set has no plan to run by and no statistics to make one from."""
    from cep_pipeline.pipeline.plans import current_plan
    from cep_pipeline.pipeline.statistics import published_statistics

    return any(current_plan(work, one) is None for one in work.pattern_sets) and any(
        published_statistics(work, one) is None for one in work.pattern_sets
    )


def plan(works: Sequence[DayWork]) -> None:
    """Make a plan for each pattern set that has none; without statistics of events there is nothing to plan by."""
    from cep_pipeline.pipeline.plans import current_plan, plan_day
    from cep_pipeline.pipeline.statistics import published_statistics

    for work in works:
        for pattern_set in work.pattern_sets:
            snapshot = published_statistics(work, pattern_set)
            record = current_plan(work, pattern_set)
            if snapshot is not None and snapshot.events:
                if record is None:
                    with work.observer.step(f"{work.day}: plan {pattern_set.name}"):
                        record = plan_day(work, pattern_set, snapshot)
                else:
                    record = plan_day(work, pattern_set, snapshot)
            if record is not None:
                work.plans[pattern_set.name] = record


def detect(works: Sequence[DayWork]) -> None:
    """Detect the matches that become final on the day; this publishes nothing."""
    from cep_pipeline.pipeline.plans import current_plan
    from spark_jobs.detect import detect_day

    for work in works:
        if work.skipped:
            continue
        if work.end_of_stream:
            refuse_end_before(work.day, work.tables)
        for pattern_set in work.pattern_sets:
            with work.observer.step(f"{work.day}: detect {pattern_set.name}") as progress:
                work.detected[pattern_set.name] = detect_day(
                    work.spark(),
                    work,
                    pattern_set,
                    current_plan(work, pattern_set),
                    progress,
                    end_of_stream=work.end_of_stream,
                )


def publish(works: Sequence[DayWork]) -> None:
    """Publish all that was made of the day, in all of its tables at once: the one step that readers see."""
    from cep_pipeline.pipeline.detection import draft_detected

    for work in works:
        found = [work.detected[one.name] for one in work.pattern_sets if one.name in work.detected]
        if work.skipped or not (found or work.drafted or work.tables.drafts.statistics_of(work.day)):
            continue
        assert work.lease is not None, "a day is held while it is published"
        with work.timed("publish") as counts:
            drafts = [draft for detected in found for draft in draft_detected(work, detected)]
            if work.drafted is not None:
                drafts += [work.drafted.quarantine, work.drafted.events]
                counts.update(events=work.drafted.record.events, rejected=work.drafted.record.rejected)
            statistics = work.tables.drafts.statistics_of(work.day)
            rows = work.tables.publish(work.day, drafts, statistics, lease=work.lease)
            of_table = Counter[str]()
            for draft, number in zip(drafts, rows, strict=True):
                of_table[draft.table] += number
            if found:
                counts["matches"] = of_table["matches"]
            if "summaries" in of_table:
                counts["summaries"] = of_table["summaries"]


PUBLISH = Step("publish", "detect", publish)
"""The step that `cep run` does whatever else it is asked for."""

STEPS: tuple[Step, ...] = (
    Step("ingest", "ingest", ingest, needs_spark=True, side_by_side=True, gives=("staged",)),
    Step("validate", "ingest", validate, side_by_side=True),
    Step("preprocess", "ingest", preprocess, needs_spark=True, side_by_side=True, gives=("drafted",), in_order=True),
    Step(
        "estimate_statistics", "statistics", estimate_statistics, True, needed=lacks_statistics, gives=("statistics",)
    ),
    Step("plan", "plan", plan, needed=lambda _: True),
    Step("detect", "detect", detect, needs_spark=True, gives=("detected",)),
    PUBLISH,
)
"""The steps of a day in their order. The list begins with those that `cep run` does for several days side by side."""

OPTIONS = tuple(dict.fromkeys(step.option for step in STEPS))
"""The values of `--steps`. `cep run` also makes statistics and plans that detection lacks, asked for or not."""


def step_of(name: str) -> Step:
    """Return the step of a name."""
    return next(step for step in STEPS if step.name == name)


# -- recording what a run did ------------------------------------------------------------------------------------------


def record_run(work: DayWork, status: RunStatus, error: str = "") -> None:
    """Record what a run has done with a day so far; matches count when all of them are published."""
    from cep_pipeline.warehouse.records import RunRecord

    detected = work.detected.values() if status == "succeeded" else ()
    before = work.recorded if status == "succeeded" else None
    work.tables.record_run(
        RunRecord(
            run_id=work.run_id,
            day=work.day,
            status=status,
            started_at=work.started,
            finished_at=None if status == "running" else datetime.now(UTC),
            steps=tuple(work.steps),
            events=before.events if before is not None and work.events is None else work.events,
            rejected=before.rejected if before is not None and work.rejected is None else work.rejected,
            matches={f"{one.pattern_set}.{name}": number for one in detected for name, number in one.matches.items()},
            plans={one.pattern_set: one.plan_version for one in detected if one.plan_version is not None},
            validation=before.validation if before is not None and work.validation is None else work.validation,
            error=error,
            details={**work.told, **(_details(work) if status == "succeeded" else {})},
        )
    )


def record_success(work: DayWork) -> None:
    """Record that a day is done."""
    record_run(work, "succeeded")


def record_failure(work: DayWork, error: BaseException) -> None:
    """Record that a day failed or was interrupted; where that cannot be recorded (a full disk), the error is shown."""
    try:
        if isinstance(error, Exception):
            record_run(work, "failed", str(error) or repr(error))
        else:  # Ctrl-C, SIGTERM, or what a scheduler raises for it
            record_run(work, "interrupted", str(error) or "interrupted")
    except CepError as second:
        work.observer.note(f"{work.day}: that the day failed could not be recorded: {second}")


def _details(work: DayWork) -> dict[str, Any]:
    """Return what is recorded of matches that wait, limited patterns, the end of the stream, and ways of detection."""
    pending = {
        f"{one.pattern_set}.{name}": number for one in work.detected.values() for name, number in one.pending.items()
    }
    ends = work.end_of_stream or any(
        one.fingerprint and one.fingerprint.end_of_stream for one in work.detected.values()
    )
    limited = {
        f"{one.pattern_set}.{name}": str(what) for one in work.detected.values() for name, what in one.limited.items()
    }
    routes: dict[str, list[str]] = {}
    for one in work.detected.values():
        for route, names in one.routes.items():
            routes.setdefault(route, []).extend(f"{one.pattern_set}.{name}" for name in names)
    found = {
        "pending": pending,
        "limited": limited,
        "end_of_stream": ends,
        "routes": {route: listed(names) for route, names in routes.items()},
    }
    return {name: value for name, value in found.items() if value}


def ingest_counts(staged: StagedDay) -> dict[str, int]:
    """Return the counts that are recorded of the step that reads a day's raw files."""
    return {"events": staged.events, "rejected": staged.rejected_rows}


def refuse_end_before(day: date, tables: StreamTables) -> None:
    """Refuse, with an InputError, to let the stream end with a day that others follow."""
    last = max((record.day for record in tables.days()), default=day)
    if last > day:
        raise InputError(
            f"stream {tables.name!r} cannot end with {day}: {last} is published; end it with that day, or leave "
            "--end-of-stream out"
        )


def _span(works: Sequence[DayWork]) -> str:
    if len(works) == 1:
        return str(works[0].day)
    return f"{len(works)} days, {works[0].day} to {works[-1].day}"
