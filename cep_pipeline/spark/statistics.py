"""Distributed statistics: each slice is counted where it is read, and what the slices counted is merged in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from cep_pipeline.patterns.pattern import Pattern, Window
from cep_pipeline.slices.events_input import columns_needed
from cep_pipeline.spark.slicing import Slice
from cep_pipeline.statistics import StatisticsSnapshot, partial_statistics
from cep_pipeline.statistics.estimate import windowed_statistics
from cep_pipeline.statistics.partial import snapshot_of
from cep_pipeline.statistics.windowed import WindowedStatistics

if TYPE_CHECKING:
    import pyarrow as pa

    from cep_pipeline.slices.prepared import Boundary
    from cep_pipeline.spark.session import SparkSession
    from cep_pipeline.spark.tasks import Progress

Result = TypeVar("Result")
Runner = Callable[[Callable[[Slice, int], Result], Sequence[Slice]], list[Result]]
"""Calls a function with each slice and the number of the attempt; the results are in the order of the slices."""


def in_tasks(spark: SparkSession, stream: str, progress: Progress | None = None) -> Runner[Result]:
    """One task a slice."""

    def run(function: Callable[[Slice, int], Result], slices: Sequence[Slice]) -> list[Result]:
        from cep_pipeline.spark.tasks import run_tasks

        return run_tasks(spark, function, slices, what=f"{stream}: statistics", progress=progress)

    return run


def in_this_process(progress: Progress | None = None) -> Runner[Result]:
    """One slice after the other."""

    def run(function: Callable[[Slice, int], Result], slices: Sequence[Slice]) -> list[Result]:
        results = []
        for number, task in enumerate(slices):
            if progress is not None:
                progress(number, len(slices))
            results.append(function(task, 0))
        if progress is not None:
            progress(len(slices), len(slices))
        return results

    return run


@dataclass(frozen=True)
class _Counting:
    patterns: tuple[Pattern, ...]
    window: Window
    epsilon: float
    threads: int = 1


def count_slices(
    patterns: Sequence[Pattern],
    slices: Sequence[Slice],
    *,
    window: Window,
    epsilon: float,
    run: Runner[WindowedStatistics],
    carried: WindowedStatistics | None = None,
    since_us: int | None = None,
    threads: int = 1,
) -> WindowedStatistics:
    """Count the events of slices for all patterns, in one pass over them.

    Parameters
    ----------
    patterns
        Patterns of one stream.
    slices
        Consecutive ones; each reads the look-back that its pairs reach into.
    window, epsilon
        Of the sliding window that the statistics are of, and the largest relative error of its counts.
    run
        Where the slices are counted.
    carried
        The state before the first slice; it is not changed.
    since_us
        Where the slices begin, if the stream began before: that no event came since then is known too.
    threads
        That each slice is counted by.
    """
    counting = partial(_count, _Counting(tuple(patterns), window, epsilon, threads))
    state = WindowedStatistics.of(patterns, window, epsilon)
    for part in ([carried] if carried is not None else []) + run(counting, slices):
        state.merge(part)
    if since_us is not None:
        state.since_us = since_us if state.since_us is None else min(since_us, state.since_us)
    return state


def count_table(
    patterns: Sequence[Pattern], events: pa.Table, *, window: Window, epsilon: float, end: Boundary | None = None
) -> WindowedStatistics:
    """Count events in memory up to a point (None: all of them), as `count_slices` counts those of slices."""
    return _counted(_Counting(tuple(patterns), window, epsilon), events, None, end)


def _count(counting: _Counting, task: Slice, _: int) -> WindowedStatistics:
    return _counted(counting, task.read(columns_needed(counting.patterns)), task.start, task.end)


def _counted(counting: _Counting, events: pa.Table, start: Boundary | None, end: Boundary | None) -> WindowedStatistics:
    return windowed_statistics(
        counting.patterns,
        events,
        counting.window,
        counting.epsilon,
        start=start,
        end=end,
        threads=counting.threads,
    )


def no_statistics(patterns: Sequence[Pattern]) -> StatisticsSnapshot:
    """The statistics of no events."""
    import pyarrow as pa

    from cep_pipeline.events.columns import ARROW_TYPES

    fields = [("timestamp", pa.timestamp("us", tz="UTC")), ("seq", pa.int64())]
    fields += [(name, ARROW_TYPES[kind]) for name, kind in patterns[0].attributes]
    return snapshot_of(partial_statistics(patterns, pa.schema(fields).empty_table()))
