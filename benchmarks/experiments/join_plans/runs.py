"""Runs of plans within a time limit: a plan that would run on and on is ended, and bounds its cost from below."""

from __future__ import annotations

import signal
from collections.abc import Hashable, Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection

import pyarrow as pa

from cep_pipeline.errors import CepError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.questions.compare_plans import MeasuredRun, PlanRun, measure_runs

FEW_EVENTS = 500
"""Number of events over which plans run first, so that compiling their code does not count against the limit."""


def measure_within(
    pattern: Pattern, runs: Mapping[str, PlanRun], events: pa.Table, repetitions: int, limit_s: float
) -> dict[str, MeasuredRun | None]:
    """Measure the runs that end within a time limit, as `measure_runs` does.

    Parameters
    ----------
    pattern, runs, events, repetitions
        As `measure_runs` takes them.
    limit_s
        Processor seconds of one run. Each distinct run is tried once in a process that ends when it reaches them.

    Returns
    -------
    dict of str to measured run
        None for a run that reached the limit.

    Raises
    ------
    CepError
        Two of them found different numbers of matches, or a process was ended from outside.
    """
    measure_runs(pattern, runs, events.slice(0, FEW_EVENTS), 0)
    reached = _reach_limit(pattern, runs, events, limit_s)
    measured = measure_runs(
        pattern, {name: run for name, run in runs.items() if run.key not in reached}, events, repetitions
    )
    return {name: measured.get(name) for name in runs}


def _reach_limit(
    pattern: Pattern, runs: Mapping[str, PlanRun], events: pa.Table, limit_s: float
) -> frozenset[Hashable]:
    """The keys of the runs that reach a limit of processor seconds."""
    left = list({run.key: run for run in runs.values()}.values())
    reached: set[Hashable] = set()
    # A fork has the events and the compiled code at once, and its memory is free again when it has been ended.
    context = get_context("fork")
    while left:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_try, args=(pattern, left, events, limit_s, theirs), daemon=True)
        process.start()
        theirs.close()
        with ours:
            finished = _count_until_end(ours)
        process.join()
        if process.exitcode == -signal.SIGPROF:
            reached.add(left[finished].key)
            finished += 1
        elif process.exitcode != 0:
            raise CepError(
                f"join_plans: the process that tried plans of {pattern.name!r} was ended with {process.exitcode}, most "
                "likely for want of memory"
            )
        left = left[finished:]
    return frozenset(reached)


def _try(pattern: Pattern, runs: Sequence[PlanRun], events: pa.Table, limit_s: float, told: Connection) -> None:
    """Run one plan after the other, and tell of each that has ended; the process ends at the limit of one."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    for run in runs:
        signal.setitimer(signal.ITIMER_PROF, limit_s)
        measure_runs(pattern, {"tried": run}, events, 0)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        told.send_bytes(b".")


def _count_until_end(told: Connection) -> int:
    count = 0
    while True:
        try:
            told.recv_bytes()
        except EOFError:
            return count
        count += 1
