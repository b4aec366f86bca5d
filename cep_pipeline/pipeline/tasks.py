"""The steps of a day as separate processes, for a scheduler: each takes over what the one before handed on.

`ingest`, `preprocess`, `estimate_statistics` and `detect` run in a Spark application (`spark_jobs/`); `validate`,
`plan` and `publish` need none. They do what `cep run` does in one process, with the same functions and tables.

What a step hands on is a JSON document in a scratch folder of the run and day, beside the staged events. Each step can
be repeated; the folder goes with the last one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.fs as pafs

from cep_pipeline.errors import CepError, InputError
from cep_pipeline.events.staged_day import StagedDay
from cep_pipeline.pipeline.configuration import Configuration, PatternSet
from cep_pipeline.pipeline.detection import DetectedDay, detect_day, publish_detected
from cep_pipeline.pipeline.outcomes import pending_details
from cep_pipeline.pipeline.run import refuse_end_before
from cep_pipeline.pipeline.statistics import estimate_day, published_statistics
from cep_pipeline.pipeline.steps import (
    DayWork,
    check_runnable,
    current_plan,
    ingest_counts,
    plan_day,
    publish_ingested,
)
from cep_pipeline.storage import folder_name, make_directory, open_filesystem, storage_errors
from cep_pipeline.warehouse import Warehouse
from cep_pipeline.warehouse.records import RunRecord, RunStatus, RunStep

if TYPE_CHECKING:
    from cep_pipeline.spark.session import SparkSession

logger = logging.getLogger(__name__)

STAGED, STEPS, DETECTED = "staged", "steps", "detected"


@dataclass(frozen=True)
class DayTask:
    """Which day of which stream a task works on, by which configuration, in which run.

    Attributes
    ----------
    pattern_set
        Only this pattern set; None: all of the stream.
    end_of_stream
        Whether the stream ends with the day, so that no match waits for later ones.
    """

    config: Path
    stream: str
    day: date
    run_id: str
    pattern_set: str | None = None
    end_of_stream: bool = False


def ingest(task: DayTask, spark: SparkSession) -> None:
    """Read, check, order and validate the raw files of the day; publishes nothing, and refuses nothing yet."""
    from cep_pipeline.spark.ingestion import stage_days
    from cep_pipeline.storage import remove_scratch

    with _work(task, "ingest", first=True) as (work, handover, _):
        remove_scratch(handover.events)
        earlier = [record.events for record in work.tables.days() if record.day < task.day]
        with work.timed("ingest") as counts:
            (staged,) = stage_days(
                spark,
                work.stream.schema,
                [task.day],
                work.stream.data,
                scratch=handover.events,
                earlier_row_counts=earlier,
            )
            counts.update(ingest_counts(staged))
        handover.write(STAGED, staged.to_json())


def validate(task: DayTask) -> tuple[str, ...]:
    """Refuse the day if it failed validation; returns what a person should know of it.

    Raises
    ------
    DataError
        Too many rejected rows, or a failed critical expectation.
    """
    with _work(task, "validate") as (work, handover, _):
        staged = StagedDay.from_json(handover.read(STAGED))
        work.validation = staged.validation
        staged.require()
    return (*staged.notes, *staged.warnings)


def preprocess(task: DayTask, spark: SparkSession) -> None:
    """Add derived attributes and publish the day: rejected rows, then events."""
    from cep_pipeline.spark.ingestion import preprocess_days

    with _work(task, "preprocess") as (work, handover, _):
        staged = StagedDay.from_json(handover.read(STAGED))
        work.validation = staged.validation
        if staged.skipped:
            return
        with work.timed("preprocess"):
            (result,) = preprocess_days(
                spark,
                work.stream.schema,
                [staged],
                events_directory=lambda day: work.tables.events_directory(day, run_id=task.run_id),
                quarantine_directory=lambda day: work.tables.quarantine_directory(day, run_id=task.run_id),
                carry_in=work.tables.carry_in(task.day),
            )
        publish_ingested(work, result)


def estimate_statistics(task: DayTask, spark: SparkSession) -> None:
    """Estimate the statistics of the day for all pattern sets, and publish them."""
    with _work(task, "estimate_statistics") as (work, handover, pattern_sets):
        if pattern_sets and not StagedDay.from_json(handover.read(STAGED)).skipped:
            estimate_day(spark, work, pattern_sets)


def plan(task: DayTask) -> None:
    """Make a plan for each pattern set that has none."""
    with _work(task, "plan") as (work, _, pattern_sets):
        for pattern_set in pattern_sets:
            snapshot = published_statistics(work, pattern_set)
            if snapshot is not None and snapshot.events:
                plan_day(work, pattern_set, snapshot)


def detect(task: DayTask, spark: SparkSession) -> None:
    """Detect the matches that become final on the day; publishes nothing."""
    with _work(task, "detect") as (work, handover, pattern_sets):
        if StagedDay.from_json(handover.read(STAGED)).skipped:
            return
        if task.end_of_stream:
            refuse_end_before(task.day, work.tables)
        found = [
            detect_day(
                spark, work, pattern_set, current_plan(work, pattern_set), end_of_stream=task.end_of_stream
            ).to_json()
            for pattern_set in pattern_sets
        ]
        handover.write(DETECTED, found)


def publish(task: DayTask) -> None:
    """Publish the matches of the day, and record the run as done."""
    from cep_pipeline.storage import remove_scratch

    with _work(task, "publish") as (work, handover, _):
        staged = StagedDay.from_json(handover.read(STAGED))
        work.validation = staged.validation
        found = [] if staged.skipped else [DetectedDay.from_json(content) for content in handover.read(DETECTED)]
        for detected in found:
            publish_detected(work, detected)
        matches = {f"{d.pattern_set}.{pattern}": number for d in found for pattern, number in d.matches.items()}
        plans = {d.pattern_set: d.plan_version for d in found if d.plan_version is not None}
        _record(
            work,
            "succeeded",
            handover,
            events=None if staged.skipped else staged.events,
            rejected=staged.rejected_rows,
            matches=matches,
            plans=plans,
            details=pending_details(
                {d.pattern_set: d.pending for d in found}, any(d.fingerprint.end_of_stream for d in found)
            ),
        )
    remove_scratch(handover.location)


@dataclass(frozen=True)
class _Handover:
    """Documents that the steps of one run and day hand on."""

    location: str

    @property
    def events(self) -> str:
        """Where the staged events lie."""
        return f"{self.location}/events"

    def write(self, name: str, content: Any) -> None:
        make_directory(self.location)
        filesystem, path = open_filesystem(f"{self.location}/{name}.json")
        with storage_errors(f"writing {self.location}/{name}.json"):
            with filesystem.open_output_stream(f"{path}.part") as file:
                file.write(json.dumps(content).encode())
            filesystem.move(f"{path}.part", path)

    def read(self, name: str, default: Any = None) -> Any:
        filesystem, path = open_filesystem(f"{self.location}/{name}.json")
        if filesystem.get_file_info(path).type != pafs.FileType.File:
            if default is not None:
                return default
            raise InputError(
                f"{self.location}/{name}.json is not there: an earlier step of this run has not been done, or the run "
                "has ended and was tidied up; run the day again from the step ingest"
            )
        with filesystem.open_input_stream(path) as file:
            return json.loads(file.read())


@contextmanager
def _work(
    task: DayTask, step: str, *, first: bool = False
) -> Iterator[tuple[DayWork, _Handover, tuple[PatternSet, ...]]]:
    """The day under its lease; a failure is recorded with the run, and what was timed is handed on."""
    configuration = Configuration.load(task.config)
    stream = configuration.stream(task.stream)
    pattern_sets = (stream.pattern_set(task.pattern_set),) if task.pattern_set else stream.pattern_sets
    check_runnable(pattern_sets)
    warehouse = Warehouse.open(configuration.warehouse_location, configuration.settings.warehouse.catalog)
    tables = warehouse.stream(stream.schema)
    name = f"{task.stream}-{task.day}-{folder_name(task.run_id)}"
    handover = _Handover(f"{warehouse.scratch}/{name}")
    with tables.day_lease(task.day, run_id=task.run_id, wait_s=LEASE_WAIT_S) as lease:
        work = DayWork(stream, tables, configuration.settings.spark, task.day, task.run_id, lease)
        if first:
            handover.write(STEPS, {"started": datetime.now(UTC).isoformat(), "steps": []})
            _record(work, "running", handover)
        try:
            yield work, handover, pattern_sets
        except CepError as error:
            try:
                _record(work, "failed", handover, error=str(error))
            except CepError as second:  # a full disk, say: the first error is the one to show
                logger.warning("%s: that the day failed could not be recorded: %s", task.day, second)
            raise
        if step != "publish":
            before = handover.read(STEPS)
            done = [[s.name, s.seconds, dict(s.counts)] for s in work.steps]
            handover.write(STEPS, {**before, "steps": [*before["steps"], *done]})


LEASE_WAIT_S = 10.0
"""A task of the same run may just be giving the lease up."""


def _record(
    work: DayWork,
    status: RunStatus,
    handover: _Handover,
    *,
    events: int | None = None,
    rejected: int | None = None,
    matches: Mapping[str, int] | None = None,
    plans: Mapping[str, int] | None = None,
    error: str = "",
    details: Mapping[str, Any] | None = None,
) -> None:
    before = handover.read(STEPS, {"started": datetime.now(UTC).isoformat(), "steps": []})
    work.tables.record_run(
        RunRecord(
            run_id=work.run_id,
            day=work.day,
            status=status,
            started_at=datetime.fromisoformat(before["started"]),
            finished_at=None if status == "running" else datetime.now(UTC),
            steps=(*(RunStep(*step) for step in before["steps"]), *work.steps),
            events=events,
            rejected=rejected,
            matches=matches or {},
            plans=plans or {},
            validation=work.validation,
            error=error,
            details=details or {},
        )
    )


SPARK_TASKS: Mapping[str, Callable[[DayTask, SparkSession], None]] = {
    "ingest": ingest,
    "preprocess": preprocess,
    "estimate_statistics": estimate_statistics,
    "detect": detect,
}
"""The steps that run in a Spark application, by the name of their script in `spark_jobs/`."""
PLAIN_TASKS: Mapping[str, Callable[[DayTask], object]] = {"validate": validate, "plan": plan, "publish": publish}
"""The steps that need no Spark."""
