"""Running a function over task descriptions in Spark, with progress that a person can watch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql import SparkSession

from cep_pipeline.errors import CepError
from cep_pipeline.spark.failures import explain_failures

Task = TypeVar("Task")
Result = TypeVar("Result")
Progress = Callable[[int, int], None]
"""Called with the number of tasks done and of all tasks."""

_POLL_S = 0.2


def run_tasks(
    spark: SparkSession,
    function: Callable[[Task, int], Result],
    tasks: Sequence[Task],
    *,
    what: str,
    progress: Progress | None = None,
) -> list[Result]:
    """Run a function over tasks, one Spark task each, and return the results in the order of the tasks.

    Parameters
    ----------
    spark
        The session.
    function
        Called on a worker with the task and the number of the attempt: only what a successful attempt returns counts,
        so that a file which an earlier attempt left behind is never part of a result.
    tasks
        Small, picklable descriptions; the data that they name are read and written by the function itself.
    what
        What is being done, for Spark's own page.
    progress
        Called as tasks finish.

    Raises
    ------
    CepError
        The first that a task raised, by the order of the tasks, which is not retried; or that the job failed, and why.
    """
    if not tasks:
        return []
    context = spark.sparkContext
    group = f"cep-{uuid4().hex}"

    def run(task: Task) -> Result | _Refusal:
        running = TaskContext.get()
        try:
            return function(task, running.attemptNumber() if running is not None else 0)
        except CepError as error:  # explained, and the same at every attempt: not for Spark to retry
            return _Refusal(error)

    done = threading.Event()
    watcher = None
    if progress is not None:
        progress(0, len(tasks))
        watcher = threading.Thread(target=_watch, args=(context, group, len(tasks), progress, done), daemon=True)
        watcher.start()
    try:
        context.setJobGroup(group, what, interruptOnCancel=True)
        with explain_failures(what):
            results: list[Result | _Refusal] = context.parallelize(list(tasks), numSlices=len(tasks)).map(run).collect()
    except KeyboardInterrupt:
        context.cancelJobGroup(group)
        raise
    finally:
        done.set()
        if watcher is not None:
            watcher.join()
    for result in results:
        if isinstance(result, _Refusal):
            raise result.error
    if progress is not None:
        progress(len(tasks), len(tasks))
    return cast(list[Result], results)


@dataclass(frozen=True)
class _Refusal:
    """A task's own error, carried to the driver as it is: through Spark it would arrive as text."""

    error: CepError


def _watch(context: Any, group: str, total: int, progress: Progress, done: threading.Event) -> None:
    tracker = context.statusTracker()
    while not done.wait(_POLL_S):
        finished = 0
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                stage_info = tracker.getStageInfo(stage)
                finished += stage_info.numCompletedTasks if stage_info is not None else 0
        progress(min(finished, total), total)
