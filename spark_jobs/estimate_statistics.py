"""The statistics of a day: arrival rates and selectivities for all pattern sets, by sliding-window histograms.

    spark-submit spark_jobs/estimate_statistics.py --config pipeline.yaml --stream S --day D --result statistics.json

1. The day is cut into slices of about equal numbers of events; each also reads the events that its pairs reach back to.
2. Each slice is a Spark task, a row of `spark.range` (`spark.tasks`): it counts the events of its slice.
3. What the slices have counted is merged in order, on top of the state that the day before has left: a window goes on
   over midnight.

The snapshot of the day, which plans are made from, and the state become drafts: nothing is published yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from cep_pipeline.patterns.pattern import Pattern, Window
from cep_pipeline.pipeline.configuration import PatternSet, patterns_of
from cep_pipeline.pipeline.day_work import DayWork, Progress
from cep_pipeline.pipeline.statistics import (
    PublishedEvents,
    basis_of,
    carried_state,
    cut_slices,
    with_observed_profiles,
)
from cep_pipeline.slices.events_input import columns_needed
from cep_pipeline.spark.slicing import Slice
from cep_pipeline.spark.tasks import cores_of, run_tasks
from cep_pipeline.statistics import StatisticsSnapshot
from cep_pipeline.statistics.estimate import windowed_statistics
from cep_pipeline.statistics.windowed import WindowedStatistics
from cep_pipeline.storage import canonical_json
from cep_pipeline.warehouse.records import DayStatistics

if TYPE_CHECKING:
    from cep_pipeline.spark.session import SparkSession


def estimate_day(
    spark: SparkSession, work: DayWork, pattern_sets: Sequence[PatternSet], progress: Progress | None = None
) -> StatisticsSnapshot:
    """Estimate the statistics of the day for all pattern sets in one pass, and make a draft of them for each.

    The state goes on from that of the latest published earlier day, never from the day's own, so that a rerun gives
    the same. Where that one is missing, of another version, window or pattern set, or of events that have been
    published anew since, that is logged, and the window begins with the day.
    """
    settings = work.stream.statistics
    patterns = patterns_of(pattern_sets)
    with work.timed("statistics") as counts:
        events = PublishedEvents.pin(work.tables, work.stream.schema.timezone)
        known = work.tables.pin_statistics(work.day)
        carried, digest = carried_state(work, pattern_sets, events.snapshot, known)
        slices = cut_slices(events, work, patterns, cores_of(spark))
        counting = tuple(patterns), settings.length, settings.epsilon
        count = partial(count_slice, *counting)
        counted = run_tasks(spark, count, slices, what=f"{work.stream.name}: statistics", progress=progress)
        state = merged(*counting, counted, carried)
        snapshot = state.business_day(work.start[0], work.end[0])
        text = canonical_json(state.to_json())
        published = events.snapshot.days.get(work.day)
        made = {
            pattern_set.name: DayStatistics(
                with_observed_profiles(work, pattern_set, snapshot, known).to_json(),
                text,
                basis_of(pattern_set, settings, published, digest),
            )
            for pattern_set in pattern_sets
        }
        for record in work.tables.draft_statistics(work.day, made, run_id=work.run_id, known=known):
            work.tables.drafts.statistics[record.pattern_set, work.day] = record
        counts.update(events=published.events if published else 0, slices=len(slices))
    return snapshot


def count_slice(
    patterns: Sequence[Pattern], window: Window, epsilon: float, task: Slice, _: int = 0
) -> WindowedStatistics:
    """Count the events of a slice, which is read with the look-back that its pairs reach into."""
    events = task.read(columns_needed(patterns))
    return windowed_statistics(patterns, events, window, epsilon, start=task.start, end=task.end)


def merged(
    patterns: Sequence[Pattern],
    window: Window,
    epsilon: float,
    counted: Sequence[WindowedStatistics],
    carried: WindowedStatistics | None = None,
) -> WindowedStatistics:
    """Merge what consecutive slices have counted, in their order, on top of what is carried, which is not changed."""
    state = WindowedStatistics.of(patterns, window, epsilon)
    for part in counted if carried is None else (carried, *counted):
        state.merge(part)
    return state


if __name__ == "__main__":
    from cep_pipeline.pipeline.tasks import main

    main("estimate_statistics", __doc__)
