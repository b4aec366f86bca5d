"""One DAG a configured stream: the raw files of a day to matches in the warehouse.

A run is for one day of the stream's time zone and starts when that day is over; a backfill over days is Airflow's own:

    airflow backfill create --dag-id daily_detection_us_equity_trades \\
        --from-date 2013-10-07 --to-date 2013-10-09 --max-active-runs 1

Each published day updates the asset of the stream's events, which `invariant_check` waits for. All tasks share one
Spark application. The schedule runs one day at a time; a backfill may have several on their way (`--max-active-runs
4`): a step that carries on from the day before waits until that day has come as far. Days in another order are right
too; those that an earlier day changes afterwards are stale, and the DAG `stale_days` redoes them.

A day without a file goes by `on_missing` of the stream schema: `skip` skips the steps after `validate`, `error` fails.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param, chain, task
from cep_days import LocalDays
from cep_signals import LineageOperator, deadline
from cep_tasks import (
    ConfiguredStream,
    configuration_path,
    configured_streams,
    events_asset,
    file_or_deadline,
    run_step,
)

from cep_pipeline.pipeline.day import STEPS

LOOKS = timedelta(minutes=5)
"""A day that waits for its file looks for it so often."""


def daily_detection(stream: ConfiguredStream) -> DAG:
    """The DAG of one stream."""
    with DAG(
        dag_id=f"daily_detection_{stream.name}",
        description=f"{stream.name}: raw files of a day to published matches",
        doc_md=__doc__,
        schedule=LocalDays(stream.timezone),
        catchup=False,
        max_active_runs=1,
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
        },
        # Of tasks that wait for a slot those of days that are nearly done come first.
        default_args={**stream.task_arguments, "weight_rule": "upstream"},
    ) as dag:
        tasks = []
        if stream.wait_hours:
            # Rescheduled, it holds no slot; it gives up by its own, later than any deadline that can be set.
            waiting = task.sensor(
                task_id="wait_for_file", mode="reschedule", poke_interval=LOOKS, timeout=timedelta(days=9)
            )
            tasks.append(waiting(file_or_deadline)(stream.name, stream.timezone, stream.wait_hours))
        for step in STEPS:
            outlets = [events_asset(stream.name)] if step is STEPS[-1] else []
            given = [step.name, stream.name, stream.timezone]
            tasks.append(LineageOperator(task_id=step.name, outlets=outlets, python_callable=run_step, op_args=given))
        chain(*tasks)
    return dag


for configured in configured_streams():
    daily_detection(configured)
