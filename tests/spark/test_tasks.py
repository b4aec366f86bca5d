"""Tasks on Spark, classic and Connect: results, refusals, retries, progress and interruptions."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import cep_pipeline as cep
from cep_pipeline.errors import CepError, InputError, NoRoom
from cep_pipeline.spark import tasks
from cep_pipeline.spark.session import spark_session
from cep_pipeline.spark.tasks import Batches, cores_of, described, of_partitions, run_tasks
from tests.thoroughness import long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKOUT = Path(__file__).resolve().parents[2]
on_both = pytest.mark.parametrize("either", long_but(["classic"], ["classic", "connect"]), indirect=True)
"""Run the test on a classic session and on one of a Spark Connect server, by `make test`, too."""


def twice(task: int, attempt: int) -> int:
    return 2 * task


def refuse(folder: Path, task: int, attempt: int) -> None:
    if task >= 1:
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


@on_both
def test_results_are_in_the_order_of_the_tasks(either: SparkSession) -> None:
    told: list[tuple[int, int]] = []
    found = run_tasks(either, twice, list(range(20)), what="doubling", progress=lambda *at: told.append(at))
    assert found == [2 * task for task in range(20)]
    assert told[0] == (0, 20) and told[-1] == (20, 20) and told == sorted(told)
    assert run_tasks(either, twice, [], what="nothing") == []


def test_what_is_told_of_spark(either: SparkSession) -> None:
    assert re.fullmatch(r"Spark, local\[2,2\], application local-\d+", described(either))
    assert cores_of(either) == 2


def test_cores_that_the_master_does_not_name_are_asked_of_spark(either: SparkSession) -> None:
    assert tasks._parts_of_a_range(either) == 2


@on_both
def test_an_error_that_a_task_explains_ends_the_others(either: SparkSession, tmp_path: Path) -> None:
    begin = time.monotonic()
    with pytest.raises(cep.DataError, match=r"task [12] refuses"):
        run_tasks(either, partial(refuse, tmp_path), [0, 1, 2], what="refusing")
    assert time.monotonic() - begin < 55
    assert not (tmp_path / "ended").exists()
    assert run_tasks(either, twice, [1, 2], what="the next job") == [2, 4]


def test_an_explained_error_arrives_as_it_is_and_progress_is_told_on_a_cluster_too(
    either: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "is_local", lambda _: False)
    with pytest.raises(cep.DataError, match=r"^task [12] refuses$"):
        run_tasks(either, partial(refuse, tmp_path), [1, 2], what="refusing")
    told: list[tuple[int, int]] = []
    assert run_tasks(either, twice, [1, 2], what="doubling", progress=lambda *at: told.append(at)) == [2, 4]
    assert told[0] == (0, 2) and told[-1] == (2, 2)


@pytest.mark.long
def test_a_task_that_breaks_down_is_tried_again_once(either: SparkSession, tmp_path: Path) -> None:
    assert run_tasks(either, partial(break_down, tmp_path), [0, 1], what="dividing") == [1.0, 1.0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0-0", "0-1", "1-0"]
    with pytest.raises(CepError, match=r"dividing: TypeError: "):
        run_tasks(either, partial(break_down, tmp_path), ["none"], what="dividing")  # type: ignore[list-item]
    with pytest.raises(NoRoom, match="wanting: a task has not enough memory"):
        run_tasks(either, want_memory, [0], what="wanting")


@pytest.mark.long
def test_a_lost_worker_is_replaced_and_its_task_is_tried_again(either: SparkSession) -> None:
    assert run_tasks(either, partial(be_killed, 1), [0, 1, 2], what="dying") == [1, 0, 0]
    with pytest.raises(CepError, match="dying: a Spark worker was killed, most likely since"):
        run_tasks(either, partial(be_killed, 2), [0], what="dying")
    assert run_tasks(either, twice, [4], what="the next job") == [8]


def test_a_worker_that_runs_another_version_is_refused(either: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "is_local", lambda _: False)
    other = {"Python": "3.11", "cep-pipeline": "0.0.9", "numpy": "1.0"}
    monkeypatch.setattr(tasks, "installation", lambda: other)
    with pytest.raises(CepError, match=r"the Spark worker on .* differs from the driver: it has cep-pipeline"):
        run_tasks(either, twice, [1], what="doubling")


WAITING = """\
import sys, time
from pathlib import Path
from cep_pipeline.errors import end_in_order
from cep_pipeline.spark.session import is_connect, spark_session
from cep_pipeline.spark.tasks import run_tasks

def wait(folder, attempt):
    Path(folder, "begun").touch()
    time.sleep(60)
    Path(folder, "ended").touch()

spark = spark_session("local[1]", remote=sys.argv[2] or None)
end_in_order()
run_tasks(spark, wait, [sys.argv[1]], what="waiting")
"""


@pytest.mark.long
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("kind", ["classic", "connect"])
def test_a_signal_ends_the_job_with_its_tasks(
    kind: str, sent: signal.Signals, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    remote = request.getfixturevalue("connect_address") if kind == "connect" else ""
    command = [sys.executable, "-c", WAITING, str(tmp_path), remote]
    with subprocess.Popen(command, cwd=CHECKOUT, stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "begun").exists():
            assert process.poll() is None, process.stderr and process.stderr.read()
            time.sleep(0.1)
        process.send_signal(sent)
        begin = time.monotonic()
        _, said = process.communicate(timeout=50)
    assert time.monotonic() - begin < 50
    assert process.returncode != 0
    assert said.strip().splitlines()[-1].startswith(("KeyboardInterrupt", "cep_pipeline.errors.Terminated"))
    assert not (tmp_path / "ended").exists()


def test_no_server_is_said_at_once() -> None:
    with pytest.raises(CepError, match=r"no Spark Connect server answers at localhost:1 .*start it"):
        spark_session(remote="sc://localhost:1")
    with pytest.raises(cep.InputError, match="is no address of a Spark Connect server"):
        spark_session(remote="localhost:15002")


def test_functions_of_partitions_give_refuse_fail_and_are_interrupted(either: SparkSession) -> None:
    frame = either.range(0, 10, 1, 3)

    def count(rows: Batches, number: int, attempt: int) -> tuple[int, int]:
        return number, sum(batch.num_rows for batch in rows)

    def refuse(rows: Batches, number: int, attempt: int) -> None:
        raise InputError("one line\nand another")

    def fail(rows: Batches, number: int, attempt: int) -> None:
        raise OSError("the worker is lost")

    def sleep(rows: Batches, number: int, attempt: int) -> None:
        time.sleep(300)

    assert sorted(of_partitions(either, frame, count, "counting")) == [(0, 3), (1, 3), (2, 4)]
    assert of_partitions(either, frame.where("id < 0"), count, "counting nothing") == []
    with pytest.raises(InputError, match=r"^one line\nand another$"):
        of_partitions(either, frame, refuse, "refusing")
    with pytest.raises(CepError, match=r"^failing: OSError: the worker is lost$"):
        of_partitions(either, frame, fail, "failing")
    begin = time.monotonic()
    threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        of_partitions(either, frame, sleep, "sleeping")
    assert time.monotonic() - begin < 200
    assert len(of_partitions(either, frame, count, "counting again")) == 3
