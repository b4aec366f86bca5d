"""The pipeline as tasks of a scheduler: the steps of a day, checks of plans, replanning, maintenance.

The steps are those of `day.STEPS`, which `cep run` does in one process. As tasks each takes what the ones before have
returned, and returns what it has made: a small JSON document with the addresses of larger ones in a scratch folder of
the run and day, beside the staged events. Each step can be repeated; the folder goes with the last one.

Several days may be on their way at once. That a step which carries on from the day before (`Step.in_order`) waits until
that day is published is the scheduler's matter. Days that are begun in order are never redone.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from cep_pipeline.errors import BusyError, CepError, DataError, InputError, LimitExceeded, end_in_order
from cep_pipeline.events.parse import StagedDay
from cep_pipeline.guarded import brief
from cep_pipeline.pipeline.configuration import Configuration, check_runnable
from cep_pipeline.pipeline.day import (
    PUBLISH,
    STEPS,
    Step,
    record_failure,
    record_run,
    record_success,
    step_of,
)
from cep_pipeline.pipeline.day_work import DayWork
from cep_pipeline.pipeline.plan_checks import check_invariants
from cep_pipeline.pipeline.replanning import PlanRequest, replan
from cep_pipeline.pipeline.run import find_stale_days, has_files, new_run_id
from cep_pipeline.pipeline.violations import Violation
from cep_pipeline.spark.detection import DetectedDay
from cep_pipeline.storage import folder_name, make_directory, open_filesystem, remove_scratch, storage_errors
from cep_pipeline.warehouse.records import RunRecord, RunStep, StatisticsRecord
from cep_pipeline.warehouse.units import Draft, Drafts

if TYPE_CHECKING:
    from cep_pipeline.pipeline.configuration import PatternSet, Stream
    from cep_pipeline.spark.session import SparkSession
    from cep_pipeline.warehouse.stream_tables import StreamTables


logger = logging.getLogger(__name__)

LEASE_WAIT_S = 10.0
"""A task of the same run may just be giving the lease up."""
StepResult = Mapping[str, Any]
"""What a step returns, and hands on to the next: JSON values."""


@dataclass(frozen=True)
class StreamTask:
    """The configuration, stream, run and pattern set (None: all of the stream) that a task works for."""

    config: Path
    stream: str
    run_id: str
    pattern_set: str | None = None

    def open(self) -> tuple[Configuration, Stream, StreamTables, tuple[PatternSet, ...]]:
        """The configuration, the stream, its tables and the pattern sets that are meant."""
        configuration = Configuration.load(self.config)
        stream = configuration.stream(self.stream)
        tables = configuration.open_warehouse().stream(stream.schema)
        return configuration, stream, tables, stream.chosen_sets(self.pattern_set)


@dataclass(frozen=True, kw_only=True)
class DayTask(StreamTask):
    """A task for a day.

    - `end_of_stream`: the stream ends with the day, so that no match waits for later ones.
    - `detection_only`: the events stay as they are published, and only the matches are made anew.
    """

    day: date
    end_of_stream: bool = False
    detection_only: bool = False


def run_step(
    step: str,
    task: DayTask,
    handed: Iterable[StepResult] = (),
    spark: SparkSession | None = None,
) -> StepResult:
    """Do one step of a day, and return what it hands on.

    Parameters
    ----------
    handed
        What the steps before it have returned, in their order. What is published already is not taken again: a step
        that is repeated after its run has ended works on the tables.
    spark
        The session of a step that needs Spark.

    Returns
    -------
    dict
        With `done` if the day is done: after the last step, or where the day has no file and is skipped; with
        `pattern_sets` after the step `plan`, and the counts that the step tells.

    Raises
    ------
    InputError
        A document that the step needs is gone or damaged.
    DataError
        The day failed validation.
    """
    chosen = step_of(step)
    with _work(task, chosen, spark) as (work, scratch):
        recorded = next((run for run in work.tables.runs() if (run.run_id, run.day) == (task.run_id, task.day)), None)
        work.recorded = recorded
        fresh = [one for one in handed if not _is_published(one, recorded)]
        ended = chosen is STEPS[-1] and not fresh
        if ended:
            logger.info("%s: all that this run has made is published", task.day)
        if chosen is STEPS[0]:
            record_run(work, "running")
        for one in fresh:
            _take(work, one)
        taken = len(work.steps)
        if not ended and not (task.detection_only and chosen.option in ("ingest", "statistics")):
            if work.staged is None and chosen.option == "ingest" and chosen is not STEPS[0]:
                raise InputError(f"{task.day}: there are no staged events; run the day again from the step ingest")
            chosen.run([work])
        done = chosen is STEPS[-1] or (work.skipped and chosen is not STEPS[0])
        if done and not ended:
            record_success(work)
        result = _result(work, chosen, scratch, work.steps[taken:], done=done)
    if done:
        remove_scratch(scratch)
    return result


def _is_published(handed: StepResult, recorded: RunRecord | None) -> bool:
    """True for what was handed on before its run ended: all of it is published."""
    if recorded is None or recorded.status != "succeeded" or recorded.finished_at is None:
        return False
    return datetime.fromisoformat(handed["made_at"]) <= recorded.finished_at


def _result(work: DayWork, step: Step, scratch: str, steps: Sequence[RunStep], *, done: bool) -> dict[str, Any]:
    made = {} if done else {name: _DOCUMENTS[name][0](work) for name in step.gives}
    documents = {name: _handed_on(content, name, scratch) for name, content in made.items() if content is not None}
    counts: dict[str, Any] = {name: number for one in steps for name, number in one.counts.items()}
    matches = {name: one.matches for name, one in work.detected.items()}
    return {
        "step": step.name,
        "day": work.day.isoformat(),
        "made_at": datetime.now(UTC).isoformat(),
        "started": work.started.isoformat(),
        "steps": [[one.name, one.seconds, dict(one.counts), one.began_s] for one in steps],
        "told": dict(work.told),
        "documents": documents,
        "counts": {
            **counts,
            **({"plans": {name: record.version for name, record in work.plans.items()}} if step.name == "plan" else {}),
            **({"matches": matches} if step.name in ("detect", PUBLISH.name) and matches else {}),
        },
        "pattern_sets": [one.name for one in work.pattern_sets],
        "skipped": work.skipped,
        "done": done,
    }


def _handed_on(content: Any, name: str, scratch: str) -> str:
    """The address of the file that a document is written to."""
    make_directory(scratch)
    location = f"{scratch}/{name}-{uuid.uuid4().hex}.json"
    write_document(location, content)
    return location


def write_document(address: str, content: Any) -> None:
    """Write a JSON document to a file or an object store, whose folder is there."""
    filesystem, path = open_filesystem(address)
    with storage_errors(f"writing {address}"):
        with filesystem.open_output_stream(f"{path}.part") as file:
            file.write(json.dumps(content).encode())
        filesystem.move(f"{path}.part", path)


def read_document(address: str) -> Any:
    """Read a JSON document from a file or an object store; an InputError says that none is there."""
    filesystem, path = open_filesystem(address)
    try:
        with filesystem.open_input_stream(path) as file:
            return json.loads(file.read())
    except FileNotFoundError as error:
        raise InputError(
            f"{address} is not there: the run has ended and was tidied up; run the day again from the step ingest"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(address, error) from error


def _damaged(what: str, error: Exception) -> InputError:
    return InputError(f"{what} is damaged: {brief(error)}; run the day again from the step ingest")


def _take(work: DayWork, handed: StepResult) -> None:
    """Take what a step before has handed on."""
    with _reading(f"what the step {handed.get('step')} handed on"):
        work.started = min(work.started, datetime.fromisoformat(handed["started"]))
        work.steps += [RunStep(*one) for one in handed["steps"]]
        work.told.update(handed["told"])
        for name, address in handed["documents"].items():
            _DOCUMENTS[name][1](work, read_document(address))


@contextmanager
def _reading(what: str) -> Iterator[None]:
    """Tell of a document that lacks something, or holds something else."""
    try:
        yield
    except CepError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise _damaged(what, error) from error


def days_on_their_way(task: DayTask) -> dict[date, str]:
    """The earlier days that a run works on as far as the warehouse knows, each with the id of the latest such run."""
    _, _, tables, _ = task.open()
    runs = sorted(tables.runs(), key=lambda run: run.started_at)
    latest = {run.day: run for run in runs if run.day is not None}
    return {day: run.run_id for day, run in sorted(latest.items()) if run.status == "running" and day < task.day}


def documents_of(task: DayTask, step: str) -> tuple[str, str]:
    """The addresses by which a submitted program is given what it takes, and by which it hands on: new ones each time.

    They are in the scratch folder of the run and day, which goes with its last step.
    """
    _, _, tables, _ = task.open()
    scratch = _scratch_of(task, tables)
    make_directory(scratch)
    name = f"{scratch}/{step}-{uuid.uuid4().hex}"
    return f"{name}-given.json", f"{name}-result.json"


def _scratch_of(task: DayTask, tables: StreamTables) -> str:
    return f"{tables.warehouse.scratch}/{task.stream}-{task.day}-{folder_name(task.run_id)}"


def needs_spark(step: str, task: DayTask) -> bool:
    """Return True if the step needs Spark: where the events stay as they are only detection, and of files their day."""
    if task.detection_only and step != "detect":
        return False
    if step != STEPS[0].name:
        return True
    return has_files(Configuration.load(task.config).stream(task.stream), task.day)


def _take_staged(work: DayWork, content: Mapping[str, Any]) -> None:
    work.staged = StagedDay.from_json(content)


def _take_detected(work: DayWork, content: Sequence[dict[str, Any]]) -> None:
    for detected in map(DetectedDay.from_json, content):
        work.detected[detected.pattern_set] = detected


def _drafted(work: DayWork) -> dict[str, Any] | None:
    if work.drafted is None:
        return None
    return {"events": work.drafted.events.to_json(), "quarantine": work.drafted.quarantine.to_json()}


def _take_drafted(work: DayWork, content: Mapping[str, Any] | None) -> None:
    if content is not None:
        events, quarantine = (Draft.from_json(content[name]) for name in ("events", "quarantine"))
        work.tables.drafts.days[events.day] = work.tables.drafted(events, quarantine, run_id=work.run_id)


_STATISTICS = TypeAdapter(list[StatisticsRecord])


def _take_statistics(work: DayWork, content: Any) -> None:
    for record in _STATISTICS.validate_python(content):
        work.tables.drafts.statistics[record.pattern_set, record.day] = record


_DOCUMENTS: Mapping[str, tuple[Callable[[DayWork], Any], Callable[[DayWork, Any], None]]] = {
    "staged": (lambda work: work.staged and work.staged.to_json(), _take_staged),
    "drafted": (_drafted, _take_drafted),
    "statistics": (
        lambda work: _STATISTICS.dump_python(work.tables.drafts.statistics_of(work.day), mode="json"),
        _take_statistics,
    ),
    "detected": (lambda work: [one.to_json() for one in work.detected.values()], _take_detected),
}
"""Name in `gives` of a step -> function that makes the JSON form, function that takes it from that form."""


@contextmanager
def _work(task: DayTask, step: Step, spark: SparkSession | None) -> Iterator[tuple[DayWork, str]]:
    """Hold the lease of the day for a step; a failure is recorded with the run. Gives the work and its scratch."""
    _, stream, tables, pattern_sets = task.open()
    check_runnable(pattern_sets)
    scratch = _scratch_of(task, tables)
    # The pattern sets of a day are detected side by side, each under a lease of its own.
    part = task.pattern_set or "" if step.name == "detect" else ""
    with tables.day_lease(task.day, run_id=task.run_id, wait_s=LEASE_WAIT_S, part=part) as lease:
        work = DayWork(
            stream,
            tables.with_drafts(Drafts()),
            task.day,
            task.run_id,
            lease,
            pattern_sets,
            end_of_stream=task.end_of_stream,
            scratch=f"{scratch}/events",
        )
        if spark is not None:
            work.session = lambda: spark
        try:
            yield work, scratch
        except BaseException as error:
            record_failure(work, error)
            raise


def stale_days(task: StreamTask, tried: Sequence[Sequence[str]] = ()) -> list[dict[str, Any]]:
    """The stale days of a stream, the earliest first, each with what a run that redoes it needs to know.

    Parameters
    ----------
    tried
        What was stale before and has been redone since, as [day, reason]: what a run did not mend is not tried again.

    Returns
    -------
    list of dict
        With `day`, `detection_only`: the events of the day stay as they are, and `reasons`.
    """
    _, stream, tables, _ = task.open()
    found: dict[date, list[Any]] = {}
    for one in find_stale_days(stream, tables):
        if not any([str(one.day), reason] in [list(before) for before in tried] for reason in one.reasons):
            found.setdefault(one.day, []).append(one)
    return [
        {
            "day": day.isoformat(),
            "detection_only": all(one.step == "detect" for one in items),
            "reasons": [reason for one in items for reason in one.reasons],
        }
        for day, items in sorted(found.items())
    ]


def alerts_of_day(task: DayTask) -> list[str]:
    """The sentences that somebody should be told of a run of a day that has succeeded, by what it has recorded.

    An InputError says that nothing is recorded of them.
    """
    _, _, tables, _ = task.open()
    run = next((one for one in tables.runs() if (one.run_id, one.day) == (task.run_id, task.day)), None)
    if run is None:
        raise InputError(f"stream {task.stream!r}: run {task.run_id} has recorded nothing of {task.day}")
    limited = run.details.get("limited", {})
    return [f"{task.stream} {task.day}: pattern {name} was {what}" for name, what in limited.items()]


# -- checking and replanning: tasks are given texts, and hand on JSON values -------------------------------------------


def check_plans(task: StreamTask) -> list[dict[str, Any]]:
    """Check the current plans, and record a decision for each.

    For each violation that has not been handled the run is returned that is to handle it: `trigger_run_id`, the same
    however often it is seen, and `conf` with the parameters of that run.
    """
    _, stream, tables, pattern_sets = task.open()
    runs = []
    for one in check_invariants(tables, stream, pattern_sets, run_id=task.run_id):
        if one.violation is not None:
            conf = {
                "pattern_set": one.violation.pattern_set,
                "reason": one.violation.reason,
                "violation": one.violation.to_json(),
            }
            runs.append({"trigger_run_id": one.violation.run_id, "conf": conf})
    return runs


def plan_again(task: StreamTask, reason: str, violation: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Make the plan of a pattern set again; returns what came of it.

    The violation is as `check_plans` handed it on; None: a person wants the plan.
    """
    _, stream, tables, pattern_sets = task.open()
    answered = None if violation is None else Violation.from_json(violation)
    done = replan(tables, stream, pattern_sets[0], PlanRequest(reason, answered), run_id=task.run_id)
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
    """Expire old snapshots, remove files that no table names, and merge small files; returns how many.

    Damaged metadata of a table is a DataError; all other tables are maintained.
    """
    warehouse = Configuration.load(config).open_warehouse()
    report = warehouse.maintain(
        grace_s=grace_hours * 3600,
        keep_snapshots_s=keep_days * 86_400,
    )
    for table, done in report.by_table.items():
        logger.info("%s: %s", table, dict(done))
    _refuse_damages(report.damages, warehouse.location)
    return {
        "removed_files": report.removed_files,
        "removed_bytes": report.removed_bytes,
        "expired_snapshots": report.expired_snapshots,
        "merged_files": report.merged_files,
    }


def verify_warehouse(config: Path, deep: bool) -> dict[str, int]:
    """Check that all that is published is there, whole and as its records say; returns what was looked at.

    A damage is a DataError; the log says what is damaged, and what to do.
    """
    warehouse = Configuration.load(config).open_warehouse()
    report = warehouse.verify(deep=deep)
    _refuse_damages(report.damages, warehouse.location)
    return {"tables": report.tables, "files": report.files, "size_bytes": report.size_bytes, "rows": report.rows}


def _refuse_damages(damages: Sequence[object], location: str) -> None:
    for damage in damages:
        logger.error("damage: %s", damage)
    if damages:
        raise DataError(
            f"{len(damages)} damage(s) in {location}; the first is {damages[0]}. The log of the task names all of them"
        )


# -- the programs of `spark_jobs`: one step of a day, run by spark-submit ----------------------------------------------


def main(step: str, about: str | None) -> None:
    """Run a step as a program, and end with the exit code of `cep`.

    What the steps before have handed on is read from `--given`, and what the step hands on is written to `--result`:
    JSON documents, which a scheduler passes from program to program. An explained error is written there too.

    Parameters
    ----------
    step
        The name of the step.
    about
        What `--help` says first: the docstring of the program.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=Path("pipeline.yaml"), help="the pipeline configuration")
    parser.add_argument("--stream", required=True, help="the stream, by its name in the configuration")
    parser.add_argument("--day", type=date.fromisoformat, required=True, help="the day, as 2013-10-07")
    parser.add_argument("--run-id", default="", help="the id to record the run under, the same for all of its steps")
    parser.add_argument("--pattern-set", help="only this pattern set")
    parser.add_argument("--end-of-stream", action="store_true", help="the stream ends with the day")
    parser.add_argument("--detection-only", action="store_true", help="the events stay as they are published")
    parser.add_argument("--given", action="append", default=[], help="what a step before has written to --result")
    parser.add_argument("--result", help="where to write what the step hands on; without it, it is printed")
    asked = parser.parse_args()
    end_in_order()
    run_id = asked.run_id or new_run_id()
    of_day = {name: getattr(asked, name) for name in ("day", "end_of_stream", "detection_only")}
    task = DayTask(asked.config.resolve(), asked.stream, run_id, asked.pattern_set, **of_day)
    try:
        from cep_pipeline.spark.session import spark_session

        handed = [one for address in asked.given for one in _given(address)]
        properties = Configuration.load(task.config).settings.spark.properties
        spark = spark_session(app_name=f"cep {step} {asked.stream} {asked.day}", properties=properties)
        done = run_step(step, task, handed, spark)
    except CepError as error:
        sys.stderr.write(f"error: {error}\n")
        if asked.result:
            # A limit that was reached is, like failed data, the same at a further try.
            kind = DataError if isinstance(error, LimitExceeded) else error
            write_document(asked.result, {"error": str(error), "exit_code": kind.exit_code})
        sys.exit(error.exit_code)
    if asked.result:
        write_document(asked.result, done)
    else:
        sys.stdout.write(json.dumps(done, indent=2) + "\n")


def _given(address: str) -> list[StepResult]:
    """The results of steps before: of one step a document, or those of several as a list."""
    document = read_document(address)
    return document if isinstance(document, list) else [document]


def submitted_error(result: str) -> CepError | None:
    """The error that a submitted program has written in place of its result; None where it was killed before."""
    try:
        document = read_document(result)
    except InputError:
        return None
    if "error" not in document:
        return None
    kinds: dict[int, type[CepError]] = {kind.exit_code: kind for kind in (InputError, DataError, BusyError)}
    return kinds.get(document["exit_code"], CepError)(document["error"])
