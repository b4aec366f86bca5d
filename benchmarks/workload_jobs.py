"""Running the projects of `cep bench workload`: each job in a fresh process that does what `cep run` does, and watched.

What a job took is kept beside its project, part by part, so that one that was stopped is gone on with.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import Progress
from benchmarks.processes import Watched
from cep_pipeline.errors import CepError

if TYPE_CHECKING:
    from benchmarks.workload_projects import Project
    from cep_pipeline.pipeline.day_work import Progress as Told
    from cep_pipeline.spark.session import SparkSession

PARTS = "jobs.jsonl"
"""File of a project's folder: what each part of its jobs took."""
DAYS, CHECK, ONE_MORE = "all days", "check of the plan", "a day with one pattern more"
_TELL_S = 0.1
_STOP_S = 60.0


@dataclass(frozen=True)
class Job:
    """Days that are run in one process, and by how many of the drawn patterns; no days: the plan is checked."""

    name: str
    patterns: int
    days: tuple[date, ...] = ()


@dataclass(frozen=True)
class JobPart:
    """The cost of one process that worked on a job, with all that it started.

    `seconds` are on the wall, `processor_s` of all processors. `peak_kb` is the most memory that all of them held at
    once, and `processes` how many they were; 0 where the system does not tell. `ended` says that it came to the end of
    the job.
    """

    job: str
    seconds: float
    processor_s: float
    peak_kb: int
    processes: int
    ended: bool


def jobs_of(project: Project) -> tuple[Job, ...]:
    """All days in one job, a check of the plan, and the later day with one pattern more."""
    request = project.request
    jobs = Job(DAYS, request.patterns, request.run_days), Job(CHECK, request.patterns)
    if request.workload.later is None:
        return jobs
    return (*jobs, Job(ONE_MORE, request.patterns + 1, (request.workload.later,)))


def parts_of(project: Project) -> list[JobPart]:
    """Read the times of the parts of a project's jobs so far."""
    try:
        lines = (project.folder / PARTS).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [JobPart(**json.loads(line)) for line in lines]


def run_jobs(project: Project, master: str, progress: Progress) -> list[JobPart]:
    """Run the jobs of a project that have not come to their end yet, in order; returns the parts of all.

    A job that fails is a CepError; what it has published stays, and the next call goes on from there.
    """
    ended = {part.job for part in parts_of(project) if part.ended}
    for job in jobs_of(project):
        if job.name not in ended:
            project.write_patterns(job.patterns)
            project.use_master(master)
            _run(project, job, progress)
    return parts_of(project)


def _run(project: Project, job: Job, progress: Progress) -> None:
    def keep(watched: Watched, seconds: float, ended: bool) -> None:
        part = JobPart(job.name, seconds, watched.processor_s, watched.peak_kb, watched.processes, ended)
        with (project.folder / PARTS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(part)) + "\n")

    run_watched(
        project.configuration, job.days, f"{project.request.workload.name}: {job.patterns:,} patterns", progress, keep
    )


def run_watched(
    configuration: Path,
    days: Sequence[date],
    what: str,
    progress: Progress,
    keep: Callable[[Watched, float, bool], None],
) -> None:
    """Do a job for each stream of a `pipeline.yaml` in a fresh process, and watch it with all that it starts.

    The job takes days from raw files to matches; without days it checks the plans. `keep` is told what it took, also
    where it failed: the watched processes, seconds on the wall, and True if it came to its end. A job that fails is a
    CepError; what it has published stays.
    """
    receiving, sending = get_context("spawn").Pipe(duplex=False)
    process = get_context("spawn").Process(target=do_job, args=(configuration, days, sending))
    begin, ended = time.perf_counter(), False
    process.start()
    sending.close()
    assert process.pid is not None
    watched = Watched(process.pid)
    try:
        with watched:
            _follow(receiving, what, progress)
            process.join()
        if process.exitcode:
            raise CepError(
                f"{configuration.parent}: the job ended with exit code {process.exitcode} and without a word; the same "
                "command goes on with the days that are left"
            )
        ended = True
    finally:
        process.join(_STOP_S)  # after Ctrl-C it stops by itself, and its Spark with it
        if process.is_alive():
            process.terminate()
            process.join()
        keep(watched, time.perf_counter() - begin, ended)


def _follow(receiving: Connection, what: str, progress: Progress) -> None:
    """Show what a job tells of itself, until it has nothing more to say; raise what it could not go on with."""
    shown, done = ("", 0), 0
    while True:
        try:
            told = receiving.recv()
        except EOFError:
            return
        if isinstance(told, CepError):
            raise told
        step, now, total = told
        if (step, total) != shown or now < done:
            progress.begin(f"{what}, {step}", total)
            shown, done = (step, total), 0
        for _ in range(now - done):
            progress.advance()
        done = now


def do_job(configuration: Path, days: Sequence[date], sending: Connection) -> None:
    """Do as `cep run` does with days, or as `cep invariants --check` without any; send each step, and errors."""
    from cep_pipeline.pipeline.configuration import Configuration
    from cep_pipeline.pipeline.plan_checks import check_invariants
    from cep_pipeline.pipeline.run import PipelineRun, new_run_id
    from cep_pipeline.warehouse.warehouse import Warehouse

    observer = _Telling(sending)
    try:
        read = Configuration.load(configuration)
        warehouse, settings = Warehouse.open(read.warehouse_location), read.settings.spark
        for stream in map(read.stream, read.stream_names()):
            tables, sets = warehouse.stream(stream.schema), stream.pattern_sets
            if days:
                PipelineRun(stream, tables, settings, sets, lambda: _session(settings.master), observer).run_days(days)
            else:
                with observer.step(CHECK) as progress:
                    check_invariants(tables, stream, sets, run_id=new_run_id(), progress=progress)
    except CepError as error:
        sending.send(error)
    except KeyboardInterrupt:
        pass  # the process that asked has it, too
    finally:
        sending.close()


def _session(master: str) -> SparkSession:
    from cep_pipeline.spark.session import spark_session

    return spark_session(master, app_name="cep bench workload")


class _Telling:
    """An observer that sends what it is told of to another process."""

    def __init__(self, sending: Connection) -> None:
        self._sending = sending

    @contextmanager
    def step(self, what: str) -> Iterator[Told]:
        last = 0.0
        self._sending.send((what, 0, 0))

        def told(done: int, total: int) -> None:
            nonlocal last
            if done == total or time.monotonic() - last > _TELL_S:
                last = time.monotonic()
                self._sending.send((what, done, total))

        yield told

    def note(self, text: str) -> None:
        self._sending.send((text, 0, 0))
