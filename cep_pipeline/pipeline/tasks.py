"""The pipeline as tasks of a scheduler: the steps of a day as processes, checks of plans, replanning, maintenance.

The steps are those of `day.STEPS`, which `cep run` does in one process. Those that need Spark run in an application of
their own (`spark_jobs/`), the others in the process of the task. Each takes over what the one before handed on: JSON
documents in a scratch folder of the run and day, beside the staged events. Each step can be repeated; the folder goes
with the last one.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.fs as pafs

from cep_pipeline.errors import CepError, DataError, InputError
from cep_pipeline.events.staged_day import StagedDay
from cep_pipeline.pipeline.configuration import Configuration
from cep_pipeline.pipeline.day import PUBLISH_EVENTS, STEPS, Step, record_failure, record_run, step_of
from cep_pipeline.pipeline.day_work import DayWork, DetectedDay, SilentObserver
from cep_pipeline.pipeline.fresh_statistics import StatisticsRequest
from cep_pipeline.pipeline.plan_checks import Violation, check_invariants
from cep_pipeline.pipeline.plans import check_runnable
from cep_pipeline.pipeline.replanning import PlanRequest, replan
from cep_pipeline.storage import folder_name, make_directory, open_filesystem, remove_scratch, storage_errors
from cep_pipeline.warehouse.records import RunStep

if TYPE_CHECKING:
    from cep_pipeline.pipeline.configuration import PatternSet, Stream
    from cep_pipeline.spark.session import SparkSession
    from cep_pipeline.warehouse.stream_tables import StreamTables


logger = logging.getLogger(__name__)

DONE = "steps"
"""Document that says since when the run works on the day, and which steps are done."""
LEASE_WAIT_S = 10.0
"""A task of the same run may just be giving the lease up."""


@dataclass(frozen=True)
class DayTask:
    """The day, stream, configuration and run that a task works for.

    Attributes
    ----------
    pattern_set
        Only this pattern set; None: all of the stream.
    end_of_stream
        True if the stream ends with the day, so that no match waits for later ones.
    """

    config: Path
    stream: str
    day: date
    run_id: str
    pattern_set: str | None = None
    end_of_stream: bool = False


def run_task(step: str, task: DayTask, spark: SparkSession | None = None) -> None:
    """Do one step of a day, and hand on what it made.

    Parameters
    ----------
    step
        Name of a step.
    spark
        The session of a step that needs Spark.

    Raises
    ------
    InputError
        The step before has not been done.
    DataError
        The day failed validation: too many rejected rows, or a failed critical expectation.
    """
    chosen = step_of(step)
    with _work(task, chosen, spark) as (work, handover):
        chosen.run([work])
        if chosen is STEPS[-1]:
            record_run(work, "succeeded")
        else:
            handover.hand_on(work, chosen)
    if chosen is STEPS[-1]:
        remove_scratch(handover.location)


class _TaskObserver(SilentObserver):
    """Writes notes into the log of the task."""

    def note(self, text: str) -> None:
        """Log a note."""
        logger.warning("%s", text)


@dataclass(frozen=True)
class _Handover:
    """Documents that the steps of one run and day hand on."""

    location: str

    @property
    def events(self) -> str:
        """Folder of the staged events."""
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

    def hand_on(self, work: DayWork, step: Step) -> None:
        """Write what a step has made, and that it is done."""
        for name in step.gives:
            to_json, _ = _DOCUMENTS[name]
            self.write(name, to_json(work))
        done = [[one.name, one.seconds, dict(one.counts)] for one in work.steps]
        self.write(DONE, {"started": work.started.isoformat(), "steps": done})

    def take_over(self, work: DayWork, step: Step) -> None:
        """Read what the steps before have made into the work of a step."""
        before = self.read(DONE, {"started": work.started.isoformat(), "steps": []})
        work.started = datetime.fromisoformat(before["started"])
        work.steps += [RunStep(*one) for one in before["steps"]]
        # The record of the run, which the last step writes, is of all that was made.
        made = {name for earlier in STEPS[:-1] for name in earlier.gives}
        for name in made if step is STEPS[-1] else step.takes:
            _, take = _DOCUMENTS[name]
            take(work, self.read(name))
        if any(one.name == PUBLISH_EVENTS for one in work.steps):
            work.published = next((record for record in work.tables.days() if record.day == work.day), None)


def _take_staged(work: DayWork, content: Mapping[str, Any]) -> None:
    work.staged = StagedDay.from_json(content)


def _take_detected(work: DayWork, content: Sequence[dict[str, Any]]) -> None:
    for detected in map(DetectedDay.from_json, content):
        work.detected[detected.pattern_set] = detected


_DOCUMENTS: Mapping[str, tuple[Callable[[DayWork], Any], Callable[[DayWork, Any], None]]] = {
    "staged": (lambda work: work.staged and work.staged.to_json(), _take_staged),
    "detected": (lambda work: [one.to_json() for one in work.detected.values()], _take_detected),
}
"""Attribute of `DayWork` -> what makes its JSON form, and what takes the attribute from that form."""


@contextmanager
def _work(task: DayTask, step: Step, spark: SparkSession | None) -> Iterator[tuple[DayWork, _Handover]]:
    """Hold the lease of the day for a step; a failure is recorded with the run."""
    configuration = Configuration.load(task.config)
    stream = configuration.stream(task.stream)
    pattern_sets = stream.chosen_sets(task.pattern_set)
    check_runnable(pattern_sets)
    warehouse = configuration.open_warehouse()
    tables = warehouse.stream(stream.schema)
    handover = _Handover(f"{warehouse.scratch}/{task.stream}-{task.day}-{folder_name(task.run_id)}")
    with tables.day_lease(task.day, run_id=task.run_id, wait_s=LEASE_WAIT_S) as lease:
        work = DayWork(
            stream,
            tables,
            configuration.settings.spark,
            task.day,
            task.run_id,
            lease,
            pattern_sets,
            task.end_of_stream,
            observer=_TaskObserver(),
            scratch=handover.events,
        )
        if spark is not None:
            work.session = lambda: spark
        try:
            if step is STEPS[0]:
                handover.write(DONE, {"started": work.started.isoformat(), "steps": []})
                record_run(work, "running")
            else:
                handover.take_over(work, step)
            yield work, handover
        except CepError as error:
            record_failure(work, error)
            raise


# -- the scripts in spark_jobs/ ----------------------------------------------------------------------------------------


def run_spark_job(step: str, description: str, arguments: Sequence[str] | None = None) -> int:
    """Run a step of a day in a Spark session, and return the exit code.

    Parameters
    ----------
    step
        Name of a step that needs Spark.
    description
        Text for the help of the script.
    arguments
        Those of the command line, if not the process's own.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--config", type=Path, required=True, help="pipeline.yaml")
    parser.add_argument("--stream", required=True, help="a stream of the configuration")
    parser.add_argument("--day", required=True, help="day to work on, YYYY-MM-DD")
    parser.add_argument("--run-id", required=True, help="the run that all steps of the day share")
    parser.add_argument("--pattern-set", help="only this pattern set")
    parser.add_argument("--end-of-stream", action="store_true", help="the stream ends with the day")
    parser.add_argument("--master", help="Spark master, where spark-submit does not give one")
    parsed = parser.parse_args(arguments)
    try:
        return _run(step, parsed)
    except CepError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - a script's own output
        return error.exit_code


def _run(step: str, parsed: argparse.Namespace) -> int:
    from cep_pipeline.spark.session import spark_session

    try:
        day = date.fromisoformat(parsed.day)
    except ValueError:
        raise InputError(f"--day {parsed.day!r} is no day; write it as 2013-10-07") from None
    task = DayTask(parsed.config, parsed.stream, day, parsed.run_id, parsed.pattern_set, parsed.end_of_stream)
    configuration = Configuration.load(parsed.config)
    spark = spark_session(
        parsed.master,
        app_name=f"cep {step} {parsed.stream} {day}",
        properties=configuration.settings.spark.properties,
        package=configuration.package,
    )
    try:
        run_task(step, task, spark)
    finally:
        spark.stop()
    return 0


# -- checking and replanning: tasks are given texts, and hand on JSON values -------------------------------------------


@dataclass(frozen=True)
class AdaptationTask:
    """The stream, configuration and run that a task works for.

    Attributes
    ----------
    pattern_set
        Only this pattern set; None: all of the stream.
    as_of, window
        Which statistics (`StatisticsRequest`).
    """

    config: Path
    stream: str
    run_id: str
    pattern_set: str | None = None
    as_of: str | None = None
    window: str | None = None

    @property
    def asked(self) -> StatisticsRequest:
        """The statistics that the task is to use."""
        return StatisticsRequest(self.as_of or None, self.window or None)

    def open(self) -> tuple[Stream, StreamTables, tuple[PatternSet, ...]]:
        """The stream, its tables and the pattern sets that are meant."""
        configuration = Configuration.load(self.config)
        stream = configuration.stream(self.stream)
        return stream, configuration.open_warehouse().stream(stream.schema), stream.chosen_sets(self.pattern_set)


def check_plans(task: AdaptationTask) -> list[dict[str, Any]]:
    """Check the current plans, and record a decision for each.

    Returns
    -------
    list of dict
        For each violation that has not been handled the run that is to handle it: `trigger_run_id`, the same however
        often it is seen, and `conf` with the parameters of that run.
    """
    stream, tables, pattern_sets = task.open()
    runs = []
    for one in check_invariants(tables, stream, pattern_sets, run_id=task.run_id, asked=task.asked):
        for note in one.notes:
            logger.warning("%s: %s", one.decision.pattern_set, note)
        if one.violation is not None:
            conf = {
                "pattern_set": one.violation.pattern_set,
                "reason": one.violation.reason,
                "violation": one.violation.to_json(),
                **one.violation.statistics,
            }
            runs.append({"trigger_run_id": one.violation.run_id, "conf": conf})
    return runs


def plan_again(
    task: AdaptationTask,
    reason: str,
    planner: str | None = None,
    cost: str | None = None,
    violation: Mapping[str, Any] | None = None,
    patterns: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Make the plan of a pattern set again; returns what came of it.

    Parameters
    ----------
    violation
        As `check_plans` handed it on; None: a person wants the plan.
    patterns
        Of a plan of many patterns together: only these, with what is connected with them; None: as the violation says.
    """
    stream, tables, pattern_sets = task.open()
    answered = None if violation is None else Violation.from_json(violation)
    asked = PlanRequest(reason, planner or None, cost or None, answered, task.asked, patterns=tuple(patterns or ()))
    done = replan(tables, stream, pattern_sets[0], asked, run_id=task.run_id)
    for note in done.notes:
        logger.warning("%s", note)
    return {
        "pattern_set": done.decision.pattern_set,
        "outcome": done.decision.outcome,
        "reason": done.decision.reason,
        "plan_version": None if done.current is None else done.current.version,
    }


# -- the warehouse as a whole ------------------------------------------------------------------------------------------


def maintain_warehouse(config: Path, grace_hours: float, keep_days: float) -> dict[str, int]:
    """Expire old snapshots and remove files that no table names; returns how many."""
    warehouse = Configuration.load(config).open_warehouse()
    report = warehouse.maintain(grace_s=grace_hours * 3600, keep_snapshots_s=keep_days * 86_400)
    for table, done in report.by_table.items():
        logger.info("%s: %s", table, dict(done))
    return {
        "removed_files": report.removed_files,
        "removed_bytes": report.removed_bytes,
        "expired_snapshots": report.expired_snapshots,
    }


def verify_warehouse(config: Path, deep: bool) -> dict[str, int]:
    """Check that all that is published is there, whole and as its records say; returns what was looked at.

    Raises
    ------
    DataError
        Something is damaged; the log says what, and what to do.
    """
    warehouse = Configuration.load(config).open_warehouse()
    report = warehouse.verify(deep=deep)
    for damage in report.damages:
        logger.error("damage: %s", damage)
    if report.damages:
        raise DataError(
            f"{len(report.damages)} damage(s) in {warehouse.location}; the first is {report.damages[0]}. "
            "The log of the task names all of them"
        )
    return {"tables": report.tables, "files": report.files, "size_bytes": report.size_bytes, "rows": report.rows}
