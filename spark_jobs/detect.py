"""The matches of a pattern set that become final on a day, from its events and its plan.

    spark-submit spark_jobs/detect.py --config pipeline.yaml --stream S --day D --result detected.json

1. A day is cut into slices by the work that the plan expects: a slice owns the matches whose last event lies in it, and
   its task also reads the events before it that they reach back to.
2. Each slice is a Spark task, a row of `spark.range` (`spark.tasks`): it reads its events from Parquet, detects by the
   compiled plan, and writes its matches to a file.
3. What the slices have counted is added up. Where OUTPUT or CONSUME choose among matches, their candidates are decided
   in order; patterns that compose others run over the matches of those.

Nothing is published yet. Days that need nothing of one another are detected side by side, as tasks of one Spark job.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING

from cep_pipeline.language.doubts import doubts_about
from cep_pipeline.pipeline.configuration import PatternSet
from cep_pipeline.pipeline.day_work import SKIPPED_EVENTS, DayWork, DetectedDay, Progress
from cep_pipeline.pipeline.detection import (
    KEPT_PATTERNS,
    MOST_ORDERS_PUBLISHED,
    DayInputs,
    PreparedDay,
    detection_scratch,
    independent_days,
    nothing_detected,
    observed_before,
    tell_of_limits,
    unplanned,
    with_composed,
    with_kept,
)
from cep_pipeline.pipeline.plans import plan_of
from cep_pipeline.spark.detection import detect_together
from cep_pipeline.warehouse.records import PlanRecord, RunStep

if TYPE_CHECKING:
    from cep_pipeline.spark.session import SparkSession


def detect_day(
    spark: SparkSession,
    work: DayWork,
    pattern_set: PatternSet,
    plan: PlanRecord | None,
    progress: Progress | None = None,
    *,
    end_of_stream: bool = False,
) -> DetectedDay:
    """Detect the matches of a pattern set that become final on the day, by its plan.

    There is no plan where there was nothing yet to plan by. At the end of the stream all matches are final.
    """
    (detected,) = detect_days(spark, [work], pattern_set, plan, progress, end_of_stream=end_of_stream)
    return detected


def detect_days(
    spark: SparkSession,
    works: Sequence[DayWork],
    pattern_set: PatternSet,
    plan: PlanRecord | None,
    progress: Progress | None = None,
    *,
    end_of_stream: bool = False,
) -> list[DetectedDay]:
    """Detect several days side by side, as tasks of one Spark job.

    They are in order of time, with published events and no other published day between them; there is more than one
    only where they are `independent_days`. The stream ends with the last one. What is recorded of each day are the
    seconds of all of them together, shared out by their slices. The patterns that are kept on all of the days are not
    detected (`DayWork.keeps_unchanged`).
    """
    assert len(works) == 1 or independent_days(pattern_set), "each of these days goes on from the one before"
    begin = time.perf_counter()
    planned = plan_of(plan) if plan else unplanned(pattern_set)
    # The days before that are detected at the same time have nothing to hand on.
    inputs = [DayInputs.of(work, pattern_set, end_of_stream and work is works[-1], work is works[0]) for work in works]
    kept = frozenset.intersection(*(one.unchanged for one in inputs))
    detected = pattern_set
    if kept:
        own = tuple(pattern for pattern in pattern_set.patterns if pattern.name not in kept)
        detected, planned = replace(pattern_set, patterns=own), planned.part(pattern.name for pattern in own)
    with ExitStack() as stack:
        days: list[PreparedDay] = []
        for work, own_inputs in zip(works, inputs, strict=True) if detected.patterns else ():
            scratch = stack.enter_context(detection_scratch(work, pattern_set))
            day = PreparedDay.of(spark, work, detected, planned, own_inputs, kept, scratch)
            tell_of_limits(work, detected, planned, day.span_us)
            if day.sliced.slices or day.types:
                for text in doubts_about(detected.patterns, day.types, day.read_us):
                    work.observer.note(f"{work.day}: {pattern_set.name}: {text}")
            days.append(day)
        if days:
            results = detect_together(spark, [day.sliced for day in days], progress)
        else:
            results = [nothing_detected(pattern_set) for _ in works]
    if kept:
        results = [
            with_kept(spark, work, own_inputs, kept, result)
            for work, own_inputs, result in zip(works, inputs, results, strict=True)
        ]
    if pattern_set.composing:
        results = [with_composed(spark, works[0], inputs[0], results[0])]
    seconds, slices = time.perf_counter() - begin, sum(result.slices for result in results)
    made = []
    for work, own_inputs, prepared, result in zip(
        works, inputs, days or repeat(None, len(works)), results, strict=True
    ):
        counts = {"matches": sum(result.matches.values()), "slices": result.slices}
        if kept:
            counts[KEPT_PATTERNS] = len(kept)
        if prepared is not None and prepared.skipped_events:
            counts[SKIPPED_EVENTS] = prepared.skipped_events
        # Where only candidates were read, shares of what was read say nothing of the day.
        observed = replace(result.observed, observations=()) if SKIPPED_EVENTS in counts else result.observed
        if kept:
            observed += observed_before(work, pattern_set, kept)
        share = result.slices / slices if slices else 1 / len(works)
        work.done(RunStep(f"detect {pattern_set.name}", seconds * share, counts))
        made.append(
            DetectedDay(
                pattern_set.name,
                result.files,
                result.matches,
                own_inputs.fingerprint(work, prepared.first_days if prepared is not None else frozenset(), kept),
                plan.version if plan is not None else None,
                result.carry_out.to_json(),
                result.pending,
                observed.shortened(MOST_ORDERS_PUBLISHED),
                result.limited,
                tuple(pattern.name for pattern in pattern_set.patterns if pattern.name in kept),
                result.summaries,
                result.routes,
            )
        )
        for name, limited in result.limited.items():
            work.observer.note(f"{work.day}: pattern {name!r} of {pattern_set.name} was {limited}")
    return made


if __name__ == "__main__":
    from cep_pipeline.pipeline.program import main

    main("detect", __doc__)
