"""One DAG a stream: redoes the days whose inputs have changed since they were published, the earliest first.

A raw file was corrected, or days were run in another order than that of time: then a day carries in something else than
it did. `cep status` lists such days with the reason. The DAG runs every morning, after the day's own run, and by hand,
such as after a backfill. Each stale day is redone by a run of `daily_detection`, which is waited for in no slot; a day
that becomes stale by that is redone by the next run of this DAG, which starts by itself. Where no day is stale it does
nothing, and its tasks show as skipped.
"""

from __future__ import annotations

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, CronTriggerTimetable, Param, task
from cep_tasks import ONE_AT_A_TIME, ConfiguredStream, configured_streams, stale_days

EVERY_MORNING = "0 5 * * *"


def stale_days_of(stream: ConfiguredStream) -> DAG:
    """The DAG of one stream."""
    dag_id = f"stale_days_{stream.name}"
    with DAG(
        dag_id=dag_id,
        description=f"{stream.name}: redoes the days whose inputs have changed",
        doc_md=__doc__,
        schedule=CronTriggerTimetable(EVERY_MORNING, timezone=stream.timezone),
        **ONE_AT_A_TIME,
        tags=["cep", stream.name],
        params={
            "tried": Param(
                None, type=["null", "array"], description="What has been redone already; leave it empty by hand."
            )
        },
        default_args=stream.task_arguments,
    ) as dag:
        find = task(task_id="find", doc_md="Finds the days that are stale, and why.")(stale_days)(stream.name)
        redo = TriggerDagRunOperator.partial(
            task_id="redo",
            doc_md="Has `daily_detection` run a stale day again, and waits for it in no slot.",
            trigger_dag_id=f"daily_detection_{stream.name}",
            logical_date=None,
            wait_for_completion=True,
            deferrable=True,
            poke_interval=5,
        ).expand(conf=find)
        again = TriggerDagRunOperator(
            task_id="look_again",
            doc_md="Looks for days that have become stale by it.",
            trigger_dag_id=dag_id,
            logical_date=None,
            conf={"tried": find["tried"]},
        )
        redo >> again
    return dag


for configured in configured_streams():
    stale_days_of(configured)
