"""Engines in processes of their own: none finds memory, threads and settings as another one left them.

The processes are copies of a small one that has loaded the code of our own engines and nothing else. They map a file of
events, in Arrow's format.
"""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from benchmarks.measure import Measurement

Engine = Callable[[], Measurement]
"""Does the work once."""

_engine: Engine | None = None


@contextmanager
def engine_process(start: Callable[[], Engine]) -> Iterator[Engine]:
    """Start an engine in a process of its own, which ends with the block; what it raises is raised here.

    The function that starts it, and what it is bound to, must be importable by name.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.detection"])
    with ProcessPoolExecutor(1, mp_context=context) as process:
        process.submit(_start, start).result()
        yield lambda: process.submit(_run).result()


def _start(start: Callable[[], Engine]) -> None:
    global _engine
    pa.set_cpu_count(1)
    _engine = start()


def _run() -> Measurement:
    assert _engine is not None
    gc.collect()  # or the run pays for what the one before it has left
    return _engine()


def write_events(events: pa.Table, path: Path) -> None:
    """Write events as the processes read them."""
    with pa.ipc.new_file(pa.OSFile(str(path), "wb"), events.schema) as file:
        file.write_table(events)


def read_events(path: Path) -> pa.Table:
    """Map a file of events; nothing is copied."""
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()
