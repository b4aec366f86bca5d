"""A standalone Spark cluster of processes on this machine, whose workers know nothing of the project."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pyspark

from cep_pipeline.spark.session import java_environment

HOST = "127.0.0.1"
STARTED_AFTER_S = 120.0
BARE = {
    "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "SPARK_HOME": str(Path(pyspark.__file__).parent),
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def bare_environment() -> dict[str, str]:
    """What a machine with Java and Spark has, and nothing of this process: neither its paths nor its settings."""
    kept = {
        name: os.environ[name] for name in ("HOME", "LANG", "JAVA_HOME", "CEP_JAVA", "TMPDIR") if name in os.environ
    }
    return {**kept, **java_environment(), **BARE, "PATH": "/usr/local/bin:/usr/bin:/bin", "SPARK_LOCAL_IP": HOST}


@contextmanager
def cluster(folder: Path, *, workers: int = 1, cores: int = 2, worker: Mapping[str, str] = {}) -> Iterator[str]:
    """A master and workers; gives the address of the master.

    Parameters
    ----------
    folder
        For logs and the working folders of executors.
    worker
        Further environment variables of the workers.
    """
    port, page = free_port(), free_port()
    command = [str(Path(sys.executable).with_name("spark-class"))]
    processes: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str, **environment: str) -> None:
        with (folder / f"{name}.log").open("wb") as log:
            processes.append(
                subprocess.Popen(
                    [*command, f"org.apache.spark.deploy.{arguments[0]}", "--host", HOST, *arguments[1:]],
                    env={**bare_environment(), **environment},
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )

    try:
        start("master", "master.Master", "--port", str(port), "--webui-port", str(page))
        shape = ["--cores", str(cores), "--memory", "2g", "--webui-port", "0", "--work-dir", str(folder / "work")]
        for number in range(workers):
            start(f"worker{number}", "worker.Worker", *shape, f"spark://{HOST}:{port}", **worker)
        wait_for_workers(page, workers)
        yield f"spark://{HOST}:{port}"
    finally:
        stop(processes)


def wait_for_workers(page: int, number: int) -> None:
    """Wait until a master, by its web page, has so many workers."""
    deadline = time.monotonic() + STARTED_AFTER_S
    alive = 0
    while alive < number:
        if time.monotonic() > deadline:
            raise AssertionError(f"{alive} of {number} Spark workers within {STARTED_AFTER_S:.0f} s")
        with suppress(OSError, ValueError), urllib.request.urlopen(f"http://{HOST}:{page}/json/", timeout=5) as answer:
            alive = int(json.load(answer)["aliveworkers"])
        time.sleep(0.2)


def stop(processes: list[subprocess.Popen[bytes]]) -> None:
    """End processes and all that they have started."""
    family: list[psutil.Process] = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            parent = psutil.Process(process.pid)
            family += [*parent.children(recursive=True), parent]
        process.terminate()
    _, alive = psutil.wait_procs(family, timeout=20)
    for straggler in alive:
        with suppress(psutil.NoSuchProcess):
            straggler.kill()
    for process in processes:
        process.wait()
