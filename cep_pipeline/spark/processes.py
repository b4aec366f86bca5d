"""Running tasks in processes of this machine, without Spark: a small run would pay more for a JVM than for its work.

The processes are forks of this one, so they have loaded what tasks use, and they live as long as the run, so that
kernels are loaded once. A task gets from them what it gets from Spark: one that raises what it does not explain, or
whose process is lost, is tried again; an error that it explains ends the others; Ctrl-C and SIGTERM end all of them at
once, and so does the end of the process that forked them.
"""

from __future__ import annotations

import gc
import logging
import math
import os
import pickle
import re
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

from cep_pipeline.errors import CepError, NoRoom
from cep_pipeline.storage import keep_free, kept_free, object_store_properties, reach_object_stores

logger = logging.getLogger(__name__)

Task = TypeVar("Task")
Result = TypeVar("Result")

TRIES = 2
"""Number of tries of a task; an error that the task itself explains is not tried again."""
_POLL_S = 0.2
_GRACE_S = 1.0
"""Time after an error in which earlier tasks may fail too: the first error in the order of the tasks is reported."""


def local_cores(master: str) -> int | None:
    """Return the cores that a `local` master stands for; None for others.

    Examples
    --------
    >>> local_cores("local"), local_cores("local[3]"), local_cores("local[3,2]"), local_cores("spark://host:7077")
    (1, 3, 3, None)
    """
    found = re.fullmatch(r"local(?:\[(\*|[1-9]\d*)(?:,.*)?\])?", master)
    if found is None:
        return None
    if found[1] != "*":
        return int(found[1] or 1)
    cores = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError):  # a container may have fewer: as Java sees it, and so Spark
        allowed, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        cores = max(1, min(cores, int(allowed) // int(period)))
    return min(cores, _MOST)


_MOST = 16
"""A small run has no work for more processes, unless somebody asks for them."""


@dataclass(eq=False)
class _Worker:
    """A forked process, and what it is doing: the number of the task and of the attempt; None where it waits."""

    pid: int
    connection: Connection
    doing: tuple[int, int] | None = None
    knows: bytes = b""
    """The job that it has been told of last."""

    def end(self) -> None:
        """Kill the process, and wait until it is gone."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.connection.close()
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


@dataclass
class LocalProcesses:
    """Processes of this machine that run tasks.

    They are forked when the object is made, which must be before this process has threads that load modules: a lock
    that such a thread holds is never given back in a fork.

    Attributes
    ----------
    count
        How many tasks run at a time.
    load
        Loads what tasks use, before the first fork.
    """

    count: int
    load: Callable[[], None]
    _workers: list[_Worker] = field(default_factory=list)
    _lifeline: tuple[int, int] = field(default_factory=os.pipe)

    def __post_init__(self) -> None:
        gc.disable()
        self.load()
        gc.freeze()
        gc.enable()
        self._fork()

    def stop(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.end()
        self._workers.clear()

    def run(
        self,
        function: Callable[[Task, int], Result],
        tasks: Sequence[Task],
        *,
        what: str,
        progress: Callable[[int], None],
    ) -> list[Result]:
        """Run a function over tasks, as `run_tasks` does; `progress` is told of the tasks done."""
        job = pickle.dumps((function, what, object_store_properties(), kept_free()), protocol=5)
        waiting = deque((number, 0) for number in range(len(tasks)))
        results: dict[int, Result] = {}
        refused: dict[int, CepError] = {}
        ends = math.inf
        try:
            while len(results) < len(tasks) and time.monotonic() < ends:
                if not self._workers:
                    self._fork()
                self._hand_out(job, tasks, waiting)
                self._take(waiting, results, refused, what)
                progress(len(results))
                if refused:
                    waiting.clear()
                    before = [
                        one.doing for one in self._workers if one.doing is not None and one.doing[0] < min(refused)
                    ]
                    ends = min(ends, time.monotonic() + _GRACE_S) if before else 0
        finally:  # after an error or an interruption: a kernel does not end before its time, but its process does
            for worker in [worker for worker in self._workers if worker.doing is not None]:
                self._workers.remove(worker)
                worker.end()
        if refused:
            raise refused[min(refused)]
        return [results[number] for number in range(len(tasks))]

    def _fork(self) -> None:
        for _ in range(self.count):
            own, other = Pipe()
            pid = os.fork()
            if pid:
                other.close()
                self._workers.append(_Worker(pid, own))
                continue
            try:
                os.close(self._lifeline[1])
                own.close()
                for worker in self._workers:
                    worker.connection.close()
                _serve(other, self._lifeline[0])
            finally:
                os._exit(1)

    def _hand_out(self, job: bytes, tasks: Sequence[Any], waiting: deque[tuple[int, int]]) -> None:
        for worker in self._workers:
            if worker.doing is not None or not waiting:
                continue
            worker.doing = number, attempt = waiting.popleft()
            with suppress(OSError):  # it is seen to be lost when it is asked for the result
                if worker.knows != job:
                    worker.connection.send_bytes(job)
                    worker.knows = job
                worker.connection.send_bytes(pickle.dumps((tasks[number], attempt), protocol=5))

    def _take(
        self, waiting: deque[tuple[int, int]], results: dict[int, Any], refused: dict[int, CepError], what: str
    ) -> None:
        """Wait for the next outcomes, and note them."""
        busy = {worker.connection: worker for worker in self._workers if worker.doing is not None}
        for connection in cast("list[Connection]", wait(list(busy), _POLL_S)):
            worker = busy[connection]
            assert worker.doing is not None
            number, attempt = worker.doing
            try:
                kind, content = pickle.loads(connection.recv_bytes())
            except (EOFError, OSError):
                self._workers.remove(worker)
                worker.end()
                kind, content = "failed", _LOST
            worker.doing = None
            if kind == "result":
                results[number] = content
            elif kind == "refused":
                refused[number] = content
            elif attempt + 1 < TRIES:
                logger.warning("%s: task %s is tried again: %s", what, number, content)
                waiting.append((number, attempt + 1))
            else:
                refused[number] = CepError(f"{what}: {content}")


_LOST = (
    "a process of the run was killed, most likely since the machine ran out of memory; give the run fewer processes "
    "(pipeline.yaml, spark: master: local[N])"
)


def _serve(connection: Connection, lifeline: int) -> NoReturn:
    """Do tasks until the process that forked this one has ended; a job is told before its first task."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal: the first one decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.freeze()
    threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
    function: Callable[[Any, int], Any] | None = None
    what = ""
    properties: Mapping[str, str]
    while True:
        try:
            told = pickle.loads(connection.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)
        if len(told) > len(("task", "attempt")):
            function, what, properties, free = told
            reach_object_stores(properties)
            keep_free(free)
            continue
        assert function is not None
        task, attempt = told
        connection.send_bytes(_outcome(function, task, attempt, what))


def _outcome(function: Callable[[Any, int], Any], task: Any, attempt: int, what: str) -> bytes:
    try:
        return pickle.dumps(("result", function(task, attempt)), protocol=5)
    except CepError as error:  # explained, and the same at every attempt
        return pickle.dumps(("refused", error), protocol=5)
    except MemoryError:
        refusal = NoRoom(f"{what}: a task has not enough memory; give it fewer or smaller slices")
        return pickle.dumps(("refused", refusal), protocol=5)
    except Exception as error:
        logger.debug("a task failed", exc_info=True)
        return pickle.dumps(("failed", f"{type(error).__name__}: {error}"), protocol=5)


def _end_with_parent(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(1)
