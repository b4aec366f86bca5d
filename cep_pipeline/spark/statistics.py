"""Distributed statistics: each slice is counted where it is read, and what the slices counted is merged in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cep_pipeline.patterns.pattern import Pattern, Window
from cep_pipeline.slices.events_input import columns_needed
from cep_pipeline.spark.slicing import Slice
from cep_pipeline.statistics import StatisticsSnapshot, partial_statistics
from cep_pipeline.statistics.estimate import snapshot_of, windowed_statistics
from cep_pipeline.statistics.windowed import WindowedStatistics


@dataclass(frozen=True)
class Counting:
    """What is counted: for which patterns, in which sliding window, with which largest relative error."""

    patterns: tuple[Pattern, ...]
    window: Window
    epsilon: float


def count_slice(counting: Counting, task: Slice, _: int = 0) -> WindowedStatistics:
    """Count the events of a slice, which is read with the look-back that its pairs reach into."""
    events = task.read(columns_needed(counting.patterns))
    return windowed_statistics(
        counting.patterns, events, counting.window, counting.epsilon, start=task.start, end=task.end
    )


def merged(
    counting: Counting,
    counted: Sequence[WindowedStatistics],
    *,
    carried: WindowedStatistics | None = None,
) -> WindowedStatistics:
    """Merge what consecutive slices have counted, in their order.

    Parameters
    ----------
    counting
        What they have counted.
    carried
        The state before the first slice; it is not changed.
    """
    state = WindowedStatistics.of(counting.patterns, counting.window, counting.epsilon)
    for part in ([carried] if carried is not None else []) + list(counted):
        state.merge(part)
    return state


def no_statistics(patterns: Sequence[Pattern]) -> StatisticsSnapshot:
    """The statistics of no events."""
    import pyarrow as pa

    from cep_pipeline.events.columns import ARROW_TYPES

    fields = [("timestamp", pa.timestamp("us", tz="UTC")), ("seq", pa.int64())]
    fields += [(name, ARROW_TYPES[kind]) for name, kind in patterns[0].attributes]
    return snapshot_of(partial_statistics(patterns, pa.schema(fields).empty_table()))
