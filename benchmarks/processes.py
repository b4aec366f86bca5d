"""Runs in processes of their own: memory and processor time of a process and all that it started, JVM and workers."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from cep_pipeline.errors import CepError

EVERY_S = 0.5
"""Seconds between two looks."""


def told_here() -> bool:
    """Return whether this system tells what processes hold."""
    return bool(psutil.LINUX)


def processor_s(process: psutil.Process) -> float:
    """Seconds of the processor that it has used so far, all its threads together; 0 where it has ended."""
    with suppress(psutil.Error):
        used = process.cpu_times()
        return float(used.user + used.system)
    return 0.0


@dataclass
class Watched:
    """A process that is watched with all that it started, from entering the context to leaving it.

    `used_s` has of each process the seconds of the processor at the last look. `largest_kb` is the most memory that one
    process held, where shared memory is divided by its users: `driver`, the first of them; `jvm`; `worker`, each other
    process of Python. Linux alone tells. What is used between the last look at a process and its end is missing: half a
    second at most.
    """

    pid: int
    used_s: dict[int, float] = field(default_factory=dict)
    largest_kb: dict[str, int] = field(default_factory=dict)
    _done: threading.Event = field(default_factory=threading.Event, repr=False)
    _thread: threading.Thread | None = field(default=None, repr=False)

    @property
    def processor_s(self) -> float:
        """Seconds of the processor of all processes together."""
        return sum(self.used_s.values())

    def look(self) -> None:
        """Look once; a process that ends meanwhile holds nothing."""
        family: list[psutil.Process] = []
        with suppress(psutil.Error):
            first = psutil.Process(self.pid)
            family = [first, *first.children(recursive=True)]
        for process in family:
            self.used_s[process.pid] = max(self.used_s.get(process.pid, 0.0), processor_s(process))
            with suppress(psutil.Error):
                kb = process.memory_full_info().pss // 1024
                kind = "driver" if process is family[0] else "jvm" if process.name() == "java" else "worker"
                self.largest_kb[kind] = max(self.largest_kb.get(kind, 0), kb)

    def __enter__(self) -> Self:
        if told_here():
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        self.look()
        while not self._done.wait(EVERY_S):
            self.look()


def run_watched(configuration: Path, days: Sequence[date]) -> tuple[Watched, float]:
    """Do a job for each stream of a `pipeline.yaml` in a fresh process, and watch it with all that it starts.

    The job takes days from raw files to matches. Returned are the watched processes, and the seconds on the wall. A job
    that fails is a CepError; what it has published stays.
    """
    begin = time.perf_counter()
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        try:
            with Watched(process.submit(os.getpid).result()) as watched:
                process.submit(do_job, configuration, days).result()
        except BrokenProcessPool as error:
            raise CepError(
                f"{configuration.parent}: the job ended without a word; the same command goes on with the days that "
                "are left"
            ) from error
        return watched, time.perf_counter() - begin


def do_job(configuration: Path, days: Sequence[date]) -> None:
    """Do as `cep run` does with days."""
    from cep_pipeline.pipeline.configuration import Configuration
    from cep_pipeline.pipeline.day_work import LogObserver
    from cep_pipeline.pipeline.run import PipelineRun
    from cep_pipeline.spark.session import spark_session

    read = Configuration.load(configuration)
    warehouse, settings = read.open_warehouse(), read.settings.spark
    for stream in map(read.stream, read.stream_names()):
        tables = warehouse.stream(stream.schema)
        session = partial(spark_session, settings.master, app_name="cep bench")
        PipelineRun(stream, tables, stream.pattern_sets, session, LogObserver()).run_days(days)
