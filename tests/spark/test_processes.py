"""Tasks in processes of this machine: what Spark promises of tasks holds there too, and the tables are the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import cep_pipeline as cep
from cep_pipeline.errors import CepError, NoRoom
from cep_pipeline.spark.daemon import load
from cep_pipeline.spark.processes import LocalProcesses
from cep_pipeline.spark.tasks import TaskSteps, run_tasks, task_steps
from tests.pipeline.project import DAYS, make_project, published

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def processes() -> Iterator[LocalProcesses]:
    made = LocalProcesses(2, load)
    yield made
    made.stop()


def twice(task: int, attempt: int) -> int:
    return 2 * task


def refuse(folder: Path, task: int, attempt: int) -> None:
    if task == 1:
        raise cep.DataError(f"task {task} refuses")
    time.sleep(60)
    (folder / "ended").touch()


def break_down(folder: Path, task: int, attempt: int) -> float:
    (folder / f"{task}-{attempt}").touch()
    return 1 / (task + attempt)


def be_killed(most: int, task: int, attempt: int) -> int:
    if task == 0 and attempt < most:
        os.kill(os.getpid(), signal.SIGKILL)
    return attempt


def want_memory(task: int, attempt: int) -> None:
    raise MemoryError


def test_results_are_in_the_order_of_the_tasks(processes: LocalProcesses) -> None:
    told: list[tuple[int, int]] = []
    found = run_tasks(processes, twice, list(range(50)), what="doubling", progress=lambda *at: told.append(at))
    assert found == [2 * task for task in range(50)]
    assert told[0] == (0, 50) and told[-1] == (50, 50) and told == sorted(told)
    assert run_tasks(processes, twice, [], what="nothing") == []


def test_an_error_that_a_task_explains_ends_the_others(processes: LocalProcesses, tmp_path: Path) -> None:
    with pytest.raises(cep.DataError, match="task 1 refuses"):
        run_tasks(processes, partial(refuse, tmp_path), [0, 1, 2], what="refusing")
    assert not (tmp_path / "ended").exists()
    assert run_tasks(processes, twice, [1, 2], what="the next job") == [2, 4]


def test_a_task_that_breaks_down_is_tried_again_once(processes: LocalProcesses, tmp_path: Path) -> None:
    assert run_tasks(processes, partial(break_down, tmp_path), [0, 1], what="dividing") == [1.0, 1.0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0-0", "0-1", "1-0"]
    with pytest.raises(CepError, match=r"dividing: TypeError: "):
        run_tasks(processes, partial(break_down, tmp_path), ["none"], what="dividing")  # type: ignore[list-item]
    with pytest.raises(NoRoom, match="wanting: a task has not enough memory"):
        run_tasks(processes, want_memory, [0], what="wanting")


def test_a_lost_process_is_replaced_and_its_task_is_tried_again(processes: LocalProcesses) -> None:
    assert run_tasks(processes, partial(be_killed, 1), [0, 1, 2], what="dying") == [1, 0, 0]
    alone = LocalProcesses(1, load)
    try:
        assert run_tasks(alone, partial(be_killed, 1), [0, 1], what="dying") == [1, 0]
        with pytest.raises(CepError, match="dying: a process of the run was killed, most likely since"):
            run_tasks(alone, partial(be_killed, 2), [0], what="dying")
        assert run_tasks(alone, twice, [4], what="the next job") == [8]
    finally:
        alone.stop()


def test_tasks_tell_how_far_they_are(processes: LocalProcesses) -> None:
    told: list[tuple[int, int]] = []
    with task_steps(processes, 2, 10) as steps:
        assert steps is not None
        run_tasks(
            processes, partial(tell, steps), [0, 1], what="telling", progress=lambda *at: told.append(at), steps=steps
        )
        assert steps.finished() == 10
    assert told[0] == (0, 20) and told[-1] == (20, 20)


def tell(steps: TaskSteps, task: int, attempt: int) -> None:
    steps.tell(task, 5)


PARENT = """\
import os, sys, time
from cep_pipeline.spark.processes import LocalProcesses

def wait(task, attempt):
    print(os.getpid(), flush=True)
    time.sleep(600)

LocalProcesses(1, lambda: None).run(wait, [0], what="waiting", progress=lambda done: None)
"""


def test_processes_end_with_the_one_that_forked_them() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 60
    while is_alive(child):
        assert time.monotonic() < deadline, "the process goes on without the one that forked it"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_tables_are_those_of_a_run_in_spark(processes: LocalProcesses, spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    (tmp_path / "here").mkdir()
    in_spark = make_project(tmp_path / "spark", spark)
    here = replace(make_project(tmp_path / "here", spark), spark=processes)
    for project, ran in (in_spark, "Spark, local[2"), (here, "2 processes of this machine"):
        outcome = project.run().run_days(DAYS)
        assert [day.status for day in outcome.days] == ["done"] * len(DAYS)
        assert all(record.details["workers"].startswith(ran) for record in project.tables().runs())
    assert published(here.tables()) == published(in_spark.tables())
    assert len(published(here.tables())["matches"]) > 5


def test_a_run_knows_how_much_is_ahead(processes: LocalProcesses, spark: SparkSession, tmp_path: Path) -> None:
    project = replace(make_project(tmp_path, spark), spark=processes)
    run = project.run()
    asked: list[int] = []
    run.session = lambda: asked.append(run.events_ahead()) or processes  # type: ignore[func-returns-value]
    run.run_days(DAYS)
    sizes = sum((tmp_path / "raw" / f"{day}.csv").stat().st_size // 4 for day in DAYS)
    assert asked[0] == sizes
    again = project.run(redo=True, steps=frozenset({"detect"}))
    again.session = lambda: asked.append(again.events_ahead()) or processes  # type: ignore[func-returns-value]
    again.run_days(DAYS[:2])
    assert asked[-1] == sum(record.events for record in project.tables().days() if record.day in DAYS[:2])
