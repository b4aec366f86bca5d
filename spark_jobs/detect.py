"""The matches of a pattern set that become final on a day, from its events and its plan.

    spark-submit spark_jobs/detect.py --config pipeline.yaml --stream S --day D --result detected.json

1. A day is cut into slices by the work that the plan expects: a slice owns the matches whose last event lies in it, and
   its task also reads the events before it that they reach back to.
2. Each slice is a Spark task, a row of `spark.range` (`spark.tasks`): it reads its events from Parquet, detects by the
   compiled plan, and writes its matches to a file.
3. What the slices have counted is added up. Where OUTPUT or CONSUME choose among matches, their candidates are decided
   in order; patterns that compose others run over the matches of those.

Nothing is published yet.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from cep_pipeline.language.doubts import doubts_about
from cep_pipeline.pipeline.configuration import PatternSet
from cep_pipeline.pipeline.day_work import DayWork, Progress
from cep_pipeline.pipeline.detection import DayInputs, detection_scratch, unplanned
from cep_pipeline.pipeline.plans import plan_of
from cep_pipeline.spark.composing import compose_day
from cep_pipeline.spark.detection import DetectedDay, detect_range
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
    begin = time.perf_counter()
    inputs = DayInputs.of(work, pattern_set, end_of_stream)
    with detection_scratch(work, pattern_set) as scratch:
        gathered = list(inputs.gathered(spark, scratch))
        planned = plan_of(plan) if plan else unplanned(pattern_set)
        job = inputs.job(planned, scratch, [source for source, _ in gathered])
        slices = inputs.slices(spark, job)
        for text in doubts_about(pattern_set.patterns, inputs.types) if slices or inputs.types else ():
            work.observer.note(f"{work.day}: {pattern_set.name}: {text}")
        found = detect_range(spark, job, slices, inputs.behind(), progress)
    if pattern_set.composing:
        found = compose_day(spark, inputs.composing_job(), found)
    counts = {"matches": sum(found.matches.values()), "slices": len(slices)}
    work.done(RunStep(f"detect {pattern_set.name}", time.perf_counter() - begin, counts))
    for name, limited in found.limited.items():
        work.observer.note(f"{work.day}: pattern {name!r} of {pattern_set.name} was {limited}")
    fingerprint = inputs.fingerprint(first_day for _, first_day in gathered)
    return replace(found, fingerprint=fingerprint, plan_version=plan.version if plan is not None else None)


if __name__ == "__main__":
    from cep_pipeline.pipeline.tasks import main

    main("detect", __doc__)
