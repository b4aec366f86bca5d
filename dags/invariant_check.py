"""Do the current plans of a stream still fit the data? One decision a pattern set; a violation starts `replanning`.

Two DAGs a stream: `invariant_check_<stream>` runs every morning, and when the asset of the stream's events is updated
by hand or by other programs; `invariant_check_days_<stream>` runs for each day that `daily_detection` publishes, since
Airflow tells updates of partitions only to DAGs of partitions. A check that finds no new events records that, and a
violation that is being handled starts no second run: the id of its run is made from the plan and how often that was
planned again. Where the run has failed, the next check starts another attempt.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, AssetOrTimeSchedule, CronTriggerTimetable, Param, PartitionedAssetTimetable, task
from cep_tasks import RETRIES, check_plans, configured_streams, events_asset, replanning_dag, statistics_params

EVERY_MORNING = "0 6 * * *"


def invariant_check(dag_id: str, stream: str, schedule: Any, pattern_sets: list[str]) -> DAG:
    """A DAG that checks the plans of one stream."""
    with DAG(
        dag_id=dag_id,
        description=f"{stream}: do the current plans still fit the data?",
        doc_md=__doc__,
        schedule=schedule,
        catchup=False,
        max_active_runs=1,
        tags=["cep", stream],
        params={
            "pattern_set": Param(
                None, type=["null", "string"], enum=[None, *pattern_sets], description="Only this pattern set."
            ),
            **statistics_params(),
        },
        default_args=RETRIES,
    ) as dag:
        violations = task(task_id="check")(check_plans)(stream)
        TriggerDagRunOperator.partial(
            task_id="replan",
            trigger_dag_id=replanning_dag(stream),
            logical_date=None,
            skip_when_already_exists=True,
        ).expand_kwargs(violations)
    return dag


for stream in configured_streams():
    events = events_asset(stream.name)
    schedules = {
        f"invariant_check_{stream.name}": AssetOrTimeSchedule(
            timetable=CronTriggerTimetable(EVERY_MORNING, timezone=stream.timezone), assets=[events]
        ),
        f"invariant_check_days_{stream.name}": PartitionedAssetTimetable(assets=events),
    }
    for dag_id, schedule in schedules.items() if stream.pattern_sets else ():
        invariant_check(dag_id, stream.name, schedule, list(stream.pattern_sets))
