"""One DAG a configured stream: the raw files of a day to matches in the warehouse.

A run is for one day of the stream's time zone and starts when that day is over; a backfill over days is Airflow's own:

    airflow backfill create --dag-id daily_detection_us_equity_trades \\
        --from-date 2013-10-07 --to-date 2013-10-09 --max-active-runs 1

Each step returns what the next ones take: counts and small documents, as XComs. Detection is one task a pattern set.
Each published day updates the assets of the stream: its events, its matches, and its plans where they are new.

The schedule runs one day at a time; a backfill may have several on their way (`--max-active-runs 4`): the step
`preprocess`, which carries on from the day before, is deferred, in no slot, until that day is published. Days in
another order are right too; those that an earlier day changes afterwards are stale, and the DAG `stale_days` redoes
them.

A day without a file goes by `on_missing` of the stream schema: `skip` skips the steps after `validate`, `error` fails.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, chain, task
from cep_days import LocalDays
from cep_signals import deadline
from cep_tasks import (
    ONE_AT_A_TIME,
    ConfiguredStream,
    configuration_path,
    configured_streams,
    events_asset,
    file_or_deadline,
    matches_asset,
    plan_asset,
)
from operators import HANDED, POOL, CepOperator, CepSparkOperator, CepSparkSubmitOperator

LOOKS = timedelta(minutes=5)
"""A day that waits for its file looks for it so often."""


def daily_detection(stream: ConfiguredStream) -> DAG:
    """The DAG of one stream."""
    with DAG(
        dag_id=f"daily_detection_{stream.name}",
        description=f"{stream.name}: raw files of a day to published matches",
        doc_md=__doc__,
        schedule=LocalDays(stream.timezone),
        **ONE_AT_A_TIME,
        deadline=deadline(configuration_path(), stream.name),
        tags=["cep", stream.name],
        params={
            "day": Param(
                None,
                type=["null", "string"],
                format="date",
                description="Day to run, by its local date. Leave it empty in a backfill.",
            ),
            "pattern_set": Param(
                None, type=["null", "string"], enum=[None, *stream.pattern_sets], description="Only this pattern set."
            ),
            "end_of_stream": Param(
                False, type="boolean", description="The stream ends with the day: no match waits for later ones."
            ),
            "detection_only": Param(
                False, type="boolean", description="The events stay as they are published; only matches are made anew."
            ),
        },
        # Of tasks that wait for a slot those of days that are nearly done come first.
        default_args={**stream.task_arguments, "weight_rule": "upstream"},
    ) as dag:
        spark_operator = CepSparkSubmitOperator if stream.submits else CepSparkOperator
        given: dict[str, Any] = {"stream": stream.name, "timezone": stream.timezone}
        ingest = spark_operator(
            step="ingest",
            doc_md="Spark reads the raw files of the day, checks their rows, and puts the events in order. Rows that "
            "cannot be read are kept with file, line and reason. Nothing is published yet.",
            **given,
        )
        validate = CepOperator(
            step="validate",
            doc_md="Great Expectations has judged the day by the expectations of the stream schema; a day that fails a "
            "critical one ends here, and all that is published stays as it was.",
            handed=[ingest.output],
            **given,
        )
        preprocess = spark_operator(
            step="preprocess",
            doc_md="Spark adds the derived attributes, which carry on from the day before, and writes the files of the "
            "day's events and rejected rows.",
            handed=[ingest.output],
            **given,
        )
        estimate_statistics = spark_operator(
            step="estimate_statistics",
            doc_md="Spark estimates arrival rates and selectivities of the day with sliding-window histograms.",
            handed=[ingest.output, preprocess.output],
            **given,
        )
        plan = CepOperator(
            step="plan",
            doc_md="Makes an evaluation plan, by the statistics and a cost model, for each pattern set that has none. "
            "A plan that is there stays until `replanning` makes a better one.",
            handed=[ingest.output, estimate_statistics.output],
            outlets=[plan_asset(stream.name)],
            **given,
        )
        chain(ingest, validate, preprocess, estimate_statistics, plan)
        handed = [ingest.output, preprocess.output, estimate_statistics.output, plan.output[HANDED]]
        if stream.pattern_sets:
            detect = spark_operator.partial(
                task_id="detect",
                step="detect",
                doc_md="Spark detects the matches of one pattern set that become final on the day, slice by slice.",
                handed=handed,
                pool=POOL,
                map_index_template="{{ task.pattern_set.pattern_set }}",
                **given,
            ).expand(pattern_set=plan.output)
            plan >> detect
            handed = [*handed, detect.output]
        publish = CepOperator(
            step="publish",
            doc_md="Publishes all that was made of the day, in all tables at once: the one step that readers see.",
            handed=handed,
            outlets=[events_asset(stream.name), matches_asset(stream.name)],
            **given,
        )
        plan >> publish
        if stream.wait_hours:
            # Rescheduled, it holds no slot; it gives up by its own, later than any deadline that can be set.
            waiting = task.sensor(
                task_id="wait_for_file",
                doc_md="Looks for a file of the day until there is one, or until `wait_hours` are over.",
                mode="reschedule",
                poke_interval=LOOKS,
                timeout=timedelta(days=9),
            )
            waiting(file_or_deadline)(stream.name, stream.timezone, stream.wait_hours) >> ingest
    return dag


for configured in configured_streams():
    daily_detection(configured)
