"""Do the current plans of a stream still fit the data? One decision a pattern set; a violation starts `replanning`.

One DAG a stream, `invariant_check_<stream>`: it runs after each day that `daily_detection` publishes, when the asset of
the stream's events is updated by hand or by other programs, and every morning. Days that are published while a check
is on its way are checked together by the next one. A check that finds no new events records that, and a violation that
is being handled starts no second run: the id of its run is made from the plan and how often that was planned again.
Where the run has failed, the next check starts another attempt.
"""

from __future__ import annotations

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, AssetOrTimeSchedule, CronTriggerTimetable, Param, task
from cep_tasks import (
    ONE_AT_A_TIME,
    RETRIES,
    ConfiguredStream,
    check_plans,
    configured_streams,
    events_asset,
    replanning_dag,
)

EVERY_MORNING = "0 6 * * *"


def invariant_check(stream: ConfiguredStream) -> DAG:
    """The DAG that checks the plans of one stream."""
    every_morning = CronTriggerTimetable(EVERY_MORNING, timezone=stream.timezone)
    with DAG(
        dag_id=f"invariant_check_{stream.name}",
        description=f"{stream.name}: do the current plans still fit the data?",
        doc_md=__doc__,
        schedule=AssetOrTimeSchedule(timetable=every_morning, assets=[events_asset(stream.name)]),
        **ONE_AT_A_TIME,
        tags=["cep", stream.name],
        params={
            "pattern_set": Param(
                None, type=["null", "string"], enum=[None, *stream.pattern_sets], description="Only this pattern set."
            ),
        },
        default_args=RETRIES,
    ) as dag:
        check = task(
            task_id="check",
            doc_md="Compares the invariants of the current plans with the statistics of the latest days. A violation "
            "is recorded, and is dealt with once.",
        )
        violations = check(check_plans)(stream.name)
        TriggerDagRunOperator.partial(
            task_id="replan",
            doc_md="Starts a run of `replanning` for each plan that is violated.",
            trigger_dag_id=replanning_dag(stream.name),
            logical_date=None,
            skip_when_already_exists=True,
        ).expand_kwargs(violations)
    return dag


for configured in configured_streams():
    if configured.pattern_sets:
        invariant_check(configured)
