"""The pipeline as tasks of a scheduler: the steps of a day as processes, checks of plans, replanning, maintenance.

The steps are those of `day.STEPS`, which `cep run` does in one process. As tasks they share one Spark application
(`resident`). Each takes over what the one before handed on: JSON documents in a scratch folder of the run
and day, beside the staged events. Each step can be repeated; the folder goes with the last one.

Several days may be on their way at once. A step that carries on from the day before waits until that day has come as
far (`Step.follows`), so that days which are begun in order are never redone. A day whose run has died is left behind.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.fs as pafs

from cep_pipeline.errors import NOT_RETRIED, CepError, DataError, InputError
from cep_pipeline.events.staged_day import StagedDay
from cep_pipeline.guarded import brief
from cep_pipeline.pipeline.configuration import Configuration, check_runnable
from cep_pipeline.pipeline.day import STEPS, Step, do_step, record_failure, record_run, step_of
from cep_pipeline.pipeline.day_work import DayWork, DetectedDay, SilentObserver
from cep_pipeline.pipeline.fresh_statistics import StatisticsRequest
from cep_pipeline.pipeline.plan_checks import check_invariants
from cep_pipeline.pipeline.replanning import PlanRequest, replan
from cep_pipeline.pipeline.resident import Application, NoKeeperError
from cep_pipeline.pipeline.run_log import kept_log
from cep_pipeline.pipeline.stream_days import find_stale_days, has_files
from cep_pipeline.pipeline.violations import Violation
from cep_pipeline.storage import (
    folder_name,
    make_directory,
    open_filesystem,
    remove_file,
    remove_scratch,
    storage_errors,
)
from cep_pipeline.warehouse.drafts import Draft, Drafts
from cep_pipeline.warehouse.layout import row_of, statistics_record
from cep_pipeline.warehouse.leases import day_unit
from cep_pipeline.warehouse.records import RunStep

if TYPE_CHECKING:
    from cep_pipeline.pipeline.configuration import PatternSet, Stream
    from cep_pipeline.spark.session import SparkSession
    from cep_pipeline.warehouse.stream_tables import StreamTables
    from cep_pipeline.warehouse.warehouse import Warehouse


logger = logging.getLogger(__name__)

DONE = "steps"
"""Document that says since when the run works on the day, and which steps are done."""
LEASE_WAIT_S = 10.0
"""A task of the same run may just be giving the lease up."""
_WAITED_S = 1.0
"""A lease that was free is had sooner."""
LIVES_S = 120.0
"""A day on its way of which no task has worked for so long is not waited for."""
_POLL_S = 0.25


@dataclass(frozen=True)
class DayTask:
    """The day, stream, configuration, run and pattern set (None: all of the stream) that a task works for.

    `end_of_stream` is True if the stream ends with the day, so that no match waits for later ones.
    """

    config: Path
    stream: str
    day: date
    run_id: str
    pattern_set: str | None = None
    end_of_stream: bool = False


def run_task(step: str, task: DayTask, session: Callable[[], SparkSession] | None = None) -> bool:
    """Do one step of a day, and hand on what it made; `session` makes the session of a step that needs Spark.

    True says that the day is done: after the last step, or where the day has no file and is skipped. An InputError says
    that the step before has not been done, and the run has not ended either: of a run that has ended each step can be
    repeated, and those before it are done again too. A DataError says that the day failed validation.
    """
    chosen = step_of(step)
    if chosen is not STEPS[0] and _has_ended(task, chosen):
        if chosen is STEPS[-1]:
            logger.info("%s: the run has ended already: all that it made is published", task.day)
            remove_scratch(_scratch_of(task, Configuration.load(task.config).open_warehouse()))
            return True
        logger.info("%s: the run had ended and was tidied up; the steps before %s are done again", task.day, step)
        for earlier in STEPS[: STEPS.index(chosen)]:
            if run_task(earlier.name, task, session):
                return True
    with _work(task, chosen, session) as (work, handover):
        _wait_for_days_before(work, chosen)
        do_step(chosen, [work])
        done = chosen is STEPS[-1] or (work.skipped and chosen is not STEPS[0])
        if done:
            record_run(work, "succeeded")
        else:
            handover.hand_on(work, chosen)
    if done:
        handover.remove()
    return done


def _has_ended(task: DayTask, step: Step) -> bool:
    """True if the run of the task has succeeded.

    Before the last step, that is asked only where nothing that the steps had handed on is left.
    """
    configuration = Configuration.load(task.config)
    warehouse = configuration.open_warehouse()
    filesystem, path = open_filesystem(f"{_scratch_of(task, warehouse)}/{DONE}.json")
    if step is not STEPS[-1] and filesystem.get_file_info(path).type == pafs.FileType.File:
        return False
    runs = warehouse.stream(configuration.stream(task.stream).schema).runs()
    return any((run.run_id, run.day, run.status) == (task.run_id, task.day, "succeeded") for run in runs)


def _scratch_of(task: DayTask, warehouse: Warehouse) -> str:
    return f"{warehouse.scratch}/{task.stream}-{task.day}-{folder_name(task.run_id)}"


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
        try:
            with filesystem.open_input_stream(path) as file:
                return json.loads(file.read())
        except FileNotFoundError as error:
            if default is not None:
                return default
            raise InputError(
                f"{self.location}/{name}.json is not there: an earlier step of this run has not been done, or the run "
                "has ended and was tidied up; run the day again from the step ingest"
            ) from error
        except (OSError, ValueError, RecursionError) as error:
            raise self._damaged(name, error) from error

    def remove(self) -> None:
        """Remove all documents, first the one by which others see that the run is on its way.

        So a kill in between leaves a run that has ended, and none that lacks a document.
        """
        remove_file(f"{self.location}/{DONE}.json")
        remove_scratch(self.location)

    def _damaged(self, name: str, error: Exception) -> InputError:
        return InputError(
            f"{self.location}/{name}.json is damaged: {brief(error)}; run the day again from the step ingest"
        )

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        """A handover that lacks something, or holds something else, is told with its file."""
        try:
            yield
        except CepError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise self._damaged(name, error) from error

    def hand_on(self, work: DayWork, step: Step) -> None:
        """Write what a step has made, and that it is done."""
        for name in step.gives:
            to_json, _ = _DOCUMENTS[name]
            self.write(name, to_json(work))
        self.tell(work, step.name)

    def tell(self, work: DayWork, last: str = "", *, failed: bool = False) -> None:
        """Write how far the run has come: the last step that is done, or that the run has failed for good."""
        steps = [[one.name, one.seconds, dict(one.counts)] for one in work.steps]
        told = {"started": work.started.isoformat(), "steps": steps, "last": last, "failed": failed}
        self.write(DONE, {**told, "lease_wait_s": work.lease_wait_s})

    def take_over(self, work: DayWork, step: Step) -> None:
        """Read what the steps before have made into the work of a step."""
        before = self.read(DONE, {"started": work.started.isoformat(), "steps": []})
        with self._reading(DONE):
            work.started = datetime.fromisoformat(before["started"])
            work.lease_wait_s += before.get("lease_wait_s", 0.0)
            work.steps += [RunStep(*one) for one in before["steps"]]
        # The record of the run, which the last step writes, is of all that was made.
        made = {name for earlier in STEPS[:-1] for name in earlier.gives}
        for name in made if step is STEPS[-1] else step.takes:
            _, take = _DOCUMENTS[name]
            content = self.read(name)
            with self._reading(name):
                take(work, content)

    def take_over_before(self, work: DayWork, day: date, *, statistics: bool) -> None:
        """Read the draft of an earlier day that is on its way, unless another run has published the day since."""
        content = self.read("drafted", {})
        published = next((record for record in work.tables.days() if record.day == day), None)
        with self._reading("drafted"):
            if content and (published is None or published.published_at.timestamp() < content["made_at"]):
                _take_drafted(work, content)
                for row in self.read("statistics", []) if statistics else ():
                    _take_statistics(work, [row])


def _take_staged(work: DayWork, content: Mapping[str, Any]) -> None:
    work.staged = StagedDay.from_json(content)


def _take_detected(work: DayWork, content: Sequence[dict[str, Any]]) -> None:
    for detected in map(DetectedDay.from_json, content):
        work.detected[detected.pattern_set] = detected


def _drafted(work: DayWork) -> dict[str, Any] | None:
    if work.drafted is None:
        return None
    events, quarantine = work.drafted.events.to_json(), work.drafted.quarantine.to_json()
    return {"events": events, "quarantine": quarantine, "made_at": work.tables.warehouse.clock()}


def _take_drafted(work: DayWork, content: Mapping[str, Any] | None) -> None:
    if content is not None:
        events, quarantine = (Draft.from_json(content[name]) for name in ("events", "quarantine"))
        work.tables.drafts.days[events.day] = work.tables.drafted(events, quarantine, run_id=work.run_id)


def _statistics(work: DayWork) -> list[dict[str, Any]]:
    rows = map(row_of, work.tables.drafts.statistics_of(work.day))
    return [{**row, "day": str(row["day"]), "recorded_at": row["recorded_at"].isoformat()} for row in rows]


def _take_statistics(work: DayWork, content: Sequence[dict[str, Any]]) -> None:
    for row in content:
        moment = datetime.fromisoformat(row["recorded_at"])
        record = statistics_record({**row, "day": date.fromisoformat(row["day"]), "recorded_at": moment})
        work.tables.drafts.statistics[record.pattern_set, record.day] = record


_DOCUMENTS: Mapping[str, tuple[Callable[[DayWork], Any], Callable[[DayWork, Any], None]]] = {
    "staged": (lambda work: work.staged and work.staged.to_json(), _take_staged),
    "drafted": (_drafted, _take_drafted),
    "statistics": (_statistics, _take_statistics),
    "detected": (lambda work: [one.to_json() for one in work.detected.values()], _take_detected),
}
"""Name in `takes` or `gives` of a step -> function that makes the JSON form, function that takes it from that form."""


@contextmanager
def _work(task: DayTask, step: Step, session: Callable[[], SparkSession] | None) -> Iterator[tuple[DayWork, _Handover]]:
    """Hold the lease of the day for a step; a failure is recorded with the run."""
    configuration = Configuration.load(task.config)
    stream = configuration.stream(task.stream)
    pattern_sets = stream.chosen_sets(task.pattern_set)
    check_runnable(pattern_sets)
    warehouse = configuration.open_warehouse()
    tables = warehouse.stream(stream.schema)
    handover = _Handover(_scratch_of(task, warehouse))
    begin = time.perf_counter()
    with (
        kept_log(stream.log_folder, task.stream, task.run_id),
        tables.day_lease(task.day, run_id=task.run_id, wait_s=LEASE_WAIT_S) as lease,
    ):
        work = DayWork(
            stream,
            tables.with_drafts(Drafts()),
            configuration.settings.spark,
            task.day,
            task.run_id,
            lease,
            pattern_sets,
            task.end_of_stream,
            observer=_TaskObserver(),
            scratch=handover.events,
            lease_wait_s=waited if (waited := time.perf_counter() - begin) >= _WAITED_S else 0.0,
        )
        if session is not None:
            work.session = cache(session)
        try:
            if step is STEPS[0]:
                handover.tell(work)
                record_run(work, "running")
            else:
                handover.take_over(work, step)
            yield work, handover
        except BaseException as error:
            record_failure(work, error)
            if isinstance(error, CepError) and error.exit_code in NOT_RETRIED:
                handover.tell(work, failed=True)
            raise


# -- several days on their way -----------------------------------------------------------------------------------------


def _wait_for_days_before(work: DayWork, step: Step) -> None:
    """Wait until the days before have come as far as the step needs, and take over what they have handed on.

    A note says for which day it waits.
    """
    if not step.follows:
        return
    noted: set[date] = set()
    while (day := _day_before(work, step)) is not None:
        if day not in noted:
            noted.add(day)
            logger.info(
                "%s: waiting for the step %s of %s, which carries over to this day", work.day, step.follows, day
            )
        time.sleep(_POLL_S)
    if step.follows == STEPS[-1].name:
        return  # matches are of published events, and of the day's own, which are published with them
    before = {one.day: one for one in _days_on_their_way(work) if not one.failed}  # the newest of each day
    for day, one in before.items():
        one.handover.take_over_before(work, day, statistics=day == max(before))


@dataclass(frozen=True)
class _DayOnItsWay:
    """An earlier day of which a run has done some steps, and has not published it yet."""

    day: date
    handover: _Handover
    last: int
    failed: bool
    told_at: datetime


def _days_on_their_way(work: DayWork) -> list[_DayOnItsWay]:
    """The earlier days that are on their way, and when their runs have last told of them, the newest last."""
    order = [one.name for one in STEPS]
    scratch = work.tables.warehouse.scratch
    filesystem, path = open_filesystem(scratch)
    found = []
    for folder in filesystem.get_file_info(pafs.FileSelector(path, allow_not_found=True)):
        named = re.match(rf"{re.escape(work.stream.name)}-(\d{{4}}-\d\d-\d\d)-", folder.base_name)
        if named is None or (day := date.fromisoformat(named[1])) >= work.day:
            continue
        handover = _Handover(f"{scratch}/{folder.base_name}")
        info = filesystem.get_file_info(f"{folder.path}/{DONE}.json")
        if info.type != pafs.FileType.File:  # it has just been tidied up
            continue
        told = handover.read(DONE, {"failed": True})
        last = order.index(told["last"]) if told.get("last") in order else -1
        found.append(_DayOnItsWay(day, handover, last, bool(told.get("failed")), info.mtime))
    return sorted(found, key=lambda one: (one.day, one.told_at))


def _day_before(work: DayWork, step: Step) -> date | None:
    """The first earlier day on its way that has not come as far as the step needs."""
    needed = [one.name for one in STEPS].index(step.follows)
    for one in _days_on_their_way(work):
        if one.failed or one.last >= needed:
            continue
        idle_s = (datetime.now(UTC) - one.told_at).total_seconds()
        if idle_s < LIVES_S or _is_worked_on(work, one.day):
            return one.day
    return None


def _is_worked_on(work: DayWork, day: date) -> bool:
    leases = [lease for lease in work.tables.warehouse.leases() if lease.stream == work.stream.name]
    return any(lease.unit == day_unit(day) and not lease.expired for lease in leases)


# -- checking and replanning: tasks are given texts, and hand on JSON values -------------------------------------------


@dataclass(frozen=True)
class AdaptationTask:
    """The stream, configuration, run, pattern set (None: all) and `StatisticsRequest` that a task works for."""

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

    For each violation that has not been handled the run is returned that is to handle it: `trigger_run_id`, the same
    however often it is seen, and `conf` with the parameters of that run.
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

    The violation is as `check_plans` handed it on; None: a person wants the plan. Of a plan of many patterns together
    only `patterns` are planned, with what is connected with them; None: as the violation says.
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
    """Expire old snapshots, remove files that no table names, and merge small files; returns how many.

    Damaged metadata of a table is a DataError; all other tables are maintained.
    """
    configuration = Configuration.load(config)
    warehouse = configuration.open_warehouse()
    report = warehouse.maintain(
        grace_s=grace_hours * 3600,
        keep_snapshots_s=keep_days * 86_400,
        file_rows=configuration.settings.warehouse.file_rows,
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


# -- jobs of the resident application ----------------------------------------------------------------------------------


_STEP_JOB, _STALE_JOB = f"{__name__}:step_job", f"{__name__}:stale_job"


def step_job(session: Callable[[str], SparkSession], step: str, task: dict[str, Any]) -> bool:
    """Do one step of a day; the task is given by its JSON values."""
    known = {**task, "config": Path(task["config"]), "day": date.fromisoformat(task["day"])}
    # A process has one session, however many steps it does.
    return run_task(step, DayTask(**known), cache(lambda: session(task["stream"])))


def stale_job(session: Callable[[str], SparkSession], config: str, stream: str, run_id: str) -> list[str]:
    """Redo the stale days of a stream; returns them."""
    from cep_pipeline.pipeline.run import PipelineRun

    configuration = Configuration.load(Path(config))
    chosen = configuration.stream(stream)
    tables = configuration.open_warehouse().stream(chosen.schema)
    run = PipelineRun(
        chosen,
        tables,
        configuration.settings.spark,
        chosen.pattern_sets,
        cache(lambda: session(stream)),
        _TaskObserver(),
        run_id=run_id,
    )
    return [day.day.isoformat() for day in run.run_stale().days]


def run_step(step: str, task: DayTask, master: str | None = None) -> bool:
    """Do one step of a day in the resident application, as `run_task` does in this process.

    The application is started, on `master` or the configured one, where a step needs Spark. A day without files needs
    none, so it is looked at here.
    """
    configuration = Configuration.load(task.config)
    application = Application.of(configuration, master)
    chosen = step_of(step)
    start = chosen.needs_spark and (chosen is not STEPS[0] or has_files(configuration.stream(task.stream), task.day))
    arguments = {"step": step, "task": {**vars(task), "config": str(task.config), "day": task.day.isoformat()}}
    try:
        return bool(application.call(_STEP_JOB, arguments, start=start))
    except NoKeeperError:
        if chosen is STEPS[0] or not _has_ended(task, chosen):
            return run_task(step, task)
    return bool(application.call(_STEP_JOB, arguments))


def redo_stale(config: Path, stream: str, run_id: str, master: str | None = None) -> list[str]:
    """Redo the stale days of a stream in the resident application; returns the days that were redone."""
    configuration = Configuration.load(config)
    chosen = configuration.stream(stream)
    if not find_stale_days(chosen, configuration.open_warehouse().stream(chosen.schema)):
        return []
    application = Application.of(configuration, master)
    return list(application.call(_STALE_JOB, {"config": str(config), "stream": stream, "run_id": run_id}))
