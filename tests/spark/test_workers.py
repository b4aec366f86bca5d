"""What is said of Spark workers that do not run what the driver runs, or are in trouble.

Workers are started for real: quick tests start the daemon of a worker as Spark does; the long ones a standalone
cluster whose Python has no library.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cep_pipeline.spark.session import reason_of
from tests.spark.cluster import bare_environment, cluster

CHECKOUT = Path(__file__).resolve().parents[2]
DAEMON = ["-m", "cep_pipeline.spark.daemon"]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without any library."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder / "bin" / "python"


def start_daemon(
    python: Path | str = sys.executable, limit: Callable[[], None] | None = None, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Start the daemon of a worker as Spark does; without standard input it ends by itself when all is well."""
    return subprocess.run(
        [str(python), *DAEMON],
        env={**bare_environment(), "PYTHON_WORKER_FACTORY_SECRET": "x", **environment},
        cwd="/",  # `-m` puts the working folder on the path
        stdin=subprocess.DEVNULL,
        capture_output=True,
        preexec_fn=limit,
        check=False,
    )


def said_by_spark(done: subprocess.CompletedProcess[bytes]) -> str:
    """The sentence for a user, out of the text that Spark makes of a daemon that has ended."""
    said = done.stderr.decode().replace("\n", "\n  ")
    return reason_of(
        f"org.apache.spark.SparkException: \nError from python worker:\n  {said}\nPYTHONPATH was:\n  /x\n"
        "org.apache.spark.SparkException: EOFException occurred while reading the port number from "
        "cep_pipeline.spark.daemon's stdout."
    )


def test_a_worker_that_runs_what_the_driver_runs_starts() -> None:
    done = start_daemon(PYTHONPATH=str(CHECKOUT))
    assert done.stderr == b""
    assert len(done.stdout) == 4, "the port, by which Spark reaches the daemon"


def test_a_worker_without_the_project_is_named(bare: Path) -> None:
    said = said_by_spark(start_daemon(bare))
    assert said.startswith("a Spark worker's Python has not the project. Install on each worker what the driver has")


def test_a_worker_without_libraries_is_named(bare: Path) -> None:
    assert "cannot load a library: No module named" in said_by_spark(start_daemon(bare, PYTHONPATH=str(CHECKOUT)))


def test_a_worker_without_memory_is_named() -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (150 << 20, 150 << 20))

    done = start_daemon(limit=limit, PYTHONPATH=str(CHECKOUT))
    assert done.returncode != 0
    assert said_by_spark(done).startswith("a Spark worker ran out of memory ("), done.stderr[-2000:]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("OSError: Could not find/load shared object file 'libllvmlite.so'", "a Spark worker ran out of memory"),
        ('java.io.IOException: Cannot run program "/p/python": error=2, No such file', "has no Python at /p/python"),
        ("SparkException: Python worker exited unexpectedly (crashed)", "a Spark worker was killed"),
        ("ExecutorLostFailure (executor 1 exited): Command exited with code 137", "a Spark worker was killed"),
        ("ExecutorLostFailure (executor 1 exited): worker lost", "Spark lost its workers"),
    ],
)
def test_what_spark_says_of_workers_is_told_in_a_sentence(text: str, sentence: str) -> None:
    assert sentence in reason_of(f"Job aborted due to stage failure: {text}\n\tat org.apache.spark.X(Y.scala:1)")


# -- a cluster ---------------------------------------------------------------------------------------------------------

DRIVER = """
import json, os, signal, sys
from cep_pipeline.errors import CepError
from cep_pipeline.spark.session import spark_session
from cep_pipeline.spark.tasks import run_tasks

def work(task, attempt):
    if task == "allocate":
        return len(bytearray(3 << 30))
    if task == "be killed":
        os.kill(os.getpid(), signal.SIGKILL)
    import cep_pipeline.detection.detect
    return cep_pipeline.__file__

master, properties, task = json.loads(sys.argv[1])
spark = spark_session(master, properties=properties)
try:
    print("found:", *run_tasks(spark, work, [task] * 2, what="working"))
except CepError as error:
    print("error:", error)
"""


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory, bare: Path) -> Iterator[str]:
    """The address of a cluster whose Python knows nothing."""
    with cluster(
        tmp_path_factory.mktemp("cluster"),
    ) as address:
        yield address


def drive(
    master: str,
    task: str,
    *,
    python: Path | str | None = None,
    properties: dict[str, str] | None = None,
) -> str:
    """What a driver says that runs two tasks on the cluster."""
    asked = json.dumps([master, properties or {}, task])
    environment = {**os.environ, **({"PYSPARK_PYTHON": str(python)} if python else {})}
    done = subprocess.run([sys.executable, "-c", DRIVER, asked], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_workers_without_something_are_named_through_spark(master: str, bare: Path) -> None:
    assert "error: working: a Spark worker's Python has not the project" in drive(master, "work", python=bare)
    assert "a Spark worker has no Python at /none/python" in drive(master, "work", python="/none/python")
    checkout = {"spark.executorEnv.PYTHONPATH": str(CHECKOUT)}
    assert "cannot load a library: No module named" in drive(master, "work", python=bare, properties=checkout)
    tight = {"spark.executor.pyspark.memory": "2g"}
    assert "error: working: a task has not enough memory" in drive(master, "allocate", properties=tight)
    assert "a Spark worker was killed" in drive(master, "be killed")
