"""Distributed statistics: each slice is counted where it is read, and the counts are added up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from cep_pipeline.detection.extent import columns_needed
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.spark.slicing import Slice
from cep_pipeline.spark.tasks import Progress, run_tasks
from cep_pipeline.statistics import PartialStatistics, StatisticsSnapshot, combine, partial_statistics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class _Counting:
    patterns: tuple[Pattern, ...]
    seed: int


def estimate_over_slices(
    spark: SparkSession,
    patterns: Sequence[Pattern],
    slices: Sequence[Slice],
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> StatisticsSnapshot:
    """Estimate what planning needs from the events of slices, in one pass over them for all patterns.

    Parameters
    ----------
    patterns
        Patterns of one stream.
    slices
        Their union is what the snapshot is of; each reads the look-back that its pairs reach into.
    seed
        Decides which pairs are drawn.
    """
    if not slices:
        return no_statistics(patterns)
    parts = run_tasks(
        spark,
        partial(_count, _Counting(tuple(patterns), seed)),
        slices,
        what=f"{patterns[0].stream}: statistics",
        progress=progress,
    )
    return combine(parts)


def _count(counting: _Counting, task: Slice, _: int) -> PartialStatistics:
    events = task.read(columns_needed(counting.patterns))
    return partial_statistics(counting.patterns, events, start=task.start, end=task.end, seed=counting.seed)


def no_statistics(patterns: Sequence[Pattern]) -> StatisticsSnapshot:
    """The statistics of no events."""
    return combine([_no_events(patterns)])


def _no_events(patterns: Sequence[Pattern]) -> PartialStatistics:
    import pyarrow as pa

    from cep_pipeline.events.schema import ARROW_TYPES

    types = dict(patterns[0].attributes)
    fields = [("timestamp", pa.timestamp("us", tz="UTC")), ("seq", pa.int64())]
    fields += [(name, ARROW_TYPES[kind]) for name, kind in types.items()]
    return partial_statistics(patterns, pa.schema(fields).empty_table())
