"""Running a function over task descriptions, in Spark or in processes of this machine, with progress to watch."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast
from uuid import uuid4

from cep_pipeline.errors import CepError, NoRoom
from cep_pipeline.spark.processes import LocalProcesses
from cep_pipeline.spark.session import explain_failures
from cep_pipeline.storage import keep_free, kept_free, object_store_properties, reach_object_stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Workers: TypeAlias = SparkSession | LocalProcesses
    """The workers that run tasks: those of a Spark session, or processes of this machine."""

logger = logging.getLogger(__name__)

Task = TypeVar("Task")
Result = TypeVar("Result")
Progress = Callable[[int, int], None]
"""Called with the number of tasks done and of all tasks."""

_POLL_S = 0.2


def cores_of(workers: Workers) -> int:
    """Return how many tasks run at a time, as far as is known."""
    if isinstance(workers, LocalProcesses):
        return workers.count
    return int(workers.sparkContext.defaultParallelism)


def described(workers: Workers) -> str:
    """Return what a run records of where its tasks ran.

    Examples
    --------
    >>> described(LocalProcesses(2, load=lambda: None))
    '2 processes of this machine'
    """
    if isinstance(workers, LocalProcesses):
        return f"{workers.count} processes of this machine"
    return f"Spark, {workers.sparkContext.master}"


def on_this_machine(workers: Workers) -> bool:
    """Return True if tasks run on this machine, so that they can tell something by a file."""
    return isinstance(workers, LocalProcesses) or workers.sparkContext.master.startswith("local")


def run_tasks(
    workers: Workers,
    function: Callable[[Task, int], Result],
    tasks: Sequence[Task],
    *,
    what: str,
    progress: Progress | None = None,
    steps: TaskSteps | None = None,
) -> list[Result]:
    """Run a function over tasks, one Spark task each, and return the results in the order of the tasks.

    Parameters
    ----------
    workers
        The Spark session, or the processes of this machine.
    function
        Called on a worker with the task and the number of the attempt: only what a successful attempt returns counts,
        so that a file which an earlier attempt left behind is never part of a result.
    tasks
        Small, picklable descriptions; the data that they name are read and written by the function itself.
    what
        What is being done, for Spark's own page.
    progress
        Called as tasks finish, or as their steps do.
    steps
        Where the tasks tell how far they are; None: they do not.

    Raises
    ------
    CepError
        One that a task raised, which is not retried, and which ends the other tasks; or that the job failed, and why.
    """
    if not tasks:
        return []
    if isinstance(workers, LocalProcesses):
        return _run_in_processes(workers, function, tasks, what, progress, steps)
    from pyspark import TaskContext

    context = workers.sparkContext
    group = f"cep-{uuid4().hex}"
    properties, free = object_store_properties(), kept_free()
    refusals = context.accumulator([], _Refusals())

    def run(numbered: tuple[int, Task]) -> Result | None:
        number, task = numbered
        reach_object_stores(properties)
        keep_free(free)
        running = TaskContext.get()
        try:
            return function(task, running.attemptNumber() if running is not None else 0)
        except CepError as error:  # explained, and the same at every attempt: not for Spark to retry
            refusals.add([(number, error)])
        except MemoryError:
            refusals.add([(number, NoRoom(f"{what}: a task has not enough memory; give it fewer or smaller slices"))])
        return None

    done = threading.Event()
    total = len(tasks) if steps is None else steps.total
    finished = None
    if progress is not None:
        progress(0, total)
        finished = partial(_tasks_finished, context, group) if steps is None else steps.finished
    refused = partial(_cancel_refused, context, group, refusals)
    watcher = threading.Thread(target=_watch, args=(finished, total, progress, refused, done), daemon=True)
    watcher.start()
    try:
        context.setJobGroup(group, what, interruptOnCancel=True)
        numbered = list(enumerate(tasks))
        with explain_failures(what):
            results: list[Result | None] = context.parallelize(numbered, numSlices=len(tasks)).map(run).collect()
    except KeyboardInterrupt:
        try:
            context.cancelJobGroup(group)
        except Exception as error:  # noqa: BLE001 - the JVM may have had the same signal, and have ended
            logger.debug("the jobs of %s could not be cancelled: %s", what, error)
        raise
    except CepError:
        if not refusals.value:
            raise
    finally:
        done.set()
        watcher.join()
    if refusals.value:
        raise min(refusals.value, key=itemgetter(0))[1]
    if progress is not None:
        progress(total, total)
    return cast(list[Result], results)


def _run_in_processes(
    processes: LocalProcesses,
    function: Callable[[Task, int], Result],
    tasks: Sequence[Task],
    what: str,
    progress: Progress | None,
    steps: TaskSteps | None,
) -> list[Result]:
    total = len(tasks) if steps is None else steps.total

    def tell(done: int) -> None:
        if progress is not None:
            progress(min(done if steps is None else steps.finished(), total), total)

    tell(0)
    results = processes.run(function, tasks, what=what, progress=tell)
    if progress is not None:
        progress(total, total)
    return results


class _Refusals:
    """Errors of tasks. They reach the driver as they are, when a task is over; through Spark they would be text."""

    def zero(self, value: list[tuple[int, CepError]]) -> list[tuple[int, CepError]]:
        """Return the list without errors with which Spark begins."""
        return []

    def addInPlace(  # noqa: N802 - the name is PySpark's
        self, value1: list[tuple[int, CepError]], value2: list[tuple[int, CepError]]
    ) -> list[tuple[int, CepError]]:
        """Errors of several tasks."""
        value1 += value2
        return value1


def _cancel_refused(context: Any, group: str, refusals: Any) -> bool:
    """End the tasks that still run where one of them has failed for good; True once that is done."""
    if not refusals.value:
        return False
    context.cancelJobGroup(group)
    return True


@dataclass(frozen=True)
class TaskSteps:
    """A file in which all tasks of a job write how many of their steps are done; all have the same number of steps.

    Attributes
    ----------
    file
        Eight bytes a task, on the machine where driver and workers are.
    tasks, each
        How many tasks there are, and steps of each.
    """

    file: str
    tasks: int
    each: int

    @property
    def total(self) -> int:
        """The steps of all tasks."""
        return self.tasks * self.each

    def tell(self, task: int, done: int) -> None:
        """Write how many steps a task has done. Nothing is written if the file is gone: nobody reads it any more."""
        with suppress(OSError), Path(self.file).open("r+b") as file:
            file.seek(_STEP_BYTES * task)
            file.write(min(done, self.each).to_bytes(_STEP_BYTES, "little"))

    def finished(self) -> int:
        """The steps that all tasks have said that they have done."""
        told = Path(self.file).read_bytes()
        return sum(int.from_bytes(told[at : at + _STEP_BYTES], "little") for at in range(0, len(told), _STEP_BYTES))


@contextmanager
def task_steps(workers: Workers, tasks: int, each: int) -> Iterator[TaskSteps | None]:
    """Give the file in which tasks tell how far they are, for the block; None where they run on other machines.

    Spark itself hears nothing of a task before it is over.
    """
    if not on_this_machine(workers):
        yield None
        return
    with NamedTemporaryFile(prefix="cep-steps-") as file:
        file.write(bytes(_STEP_BYTES * tasks))
        file.flush()
        yield TaskSteps(file.name, tasks, each)


_STEP_BYTES = 8


def _watch(
    finished: Callable[[], int] | None,
    total: int,
    progress: Progress | None,
    refused: Callable[[], bool],
    done: threading.Event,
) -> None:
    cancelled = False
    while not done.wait(_POLL_S):
        if progress is not None and finished is not None:
            progress(min(finished(), total), total)
        cancelled = cancelled or refused()


def _tasks_finished(context: Any, group: str) -> int:
    tracker = context.statusTracker()
    finished = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info is not None else ():
            stage_info = tracker.getStageInfo(stage)
            finished += stage_info.numCompletedTasks if stage_info is not None else 0
    return finished
