"""One DAG a stream: redoes the days whose inputs have changed since they were published, the earliest first.

A raw file was corrected, or days were run in another order than that of time: then a day carries in something else than
it did. `cep status` lists such days with the reason. The DAG runs every morning, after the day's own run, and by hand,
such as after a backfill. Where no day is stale it does nothing, and its task shows as skipped.
"""

from __future__ import annotations

from airflow.sdk import DAG, CronTriggerTimetable, task
from cep_tasks import ConfiguredStream, configured_streams, redo_stale_days

EVERY_MORNING = "0 5 * * *"


def stale_days(stream: ConfiguredStream) -> DAG:
    """The DAG of one stream."""
    with DAG(
        dag_id=f"stale_days_{stream.name}",
        description=f"{stream.name}: redoes the days whose inputs have changed",
        doc_md=__doc__,
        schedule=CronTriggerTimetable(EVERY_MORNING, timezone=stream.timezone),
        catchup=False,
        max_active_runs=1,
        tags=["cep", stream.name],
        default_args=stream.task_arguments,
    ) as dag:
        task(task_id="redo")(redo_stale_days)(stream.name)
    return dag


for configured in configured_streams():
    stale_days(configured)
