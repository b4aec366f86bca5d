"""Two DAGs for the whole warehouse: `maintain` tidies it every night, `verify` checks it every week.

`maintain` expires old snapshots and removes what killed runs left behind, as `cep maintain` does. `verify` checks that
all that is published is there and whole, as `cep verify` does. It fails where anything is damaged, and its log says
what, and what to do. Both may run beside the other DAGs.
"""

from __future__ import annotations

from airflow.sdk import DAG, CronTriggerTimetable, Param, task
from cep_tasks import ONE_AT_A_TIME, RETRIES, maintain_warehouse, verify_warehouse

EVERY_NIGHT = "30 3 * * *"
EVERY_SUNDAY = "30 4 * * 0"

with DAG(
    dag_id="maintain",
    description="expires old snapshots, and removes files that no table names",
    doc_md=__doc__,
    schedule=CronTriggerTimetable(EVERY_NIGHT, timezone="UTC"),
    **ONE_AT_A_TIME,
    tags=["cep"],
    params={
        "grace_hours": Param(24.0, type="number", minimum=1, description="Files younger than this are left alone."),
        "keep_days": Param(5.0, type="number", minimum=0, description="Snapshots younger than this are kept."),
    },
    default_args=RETRIES,
):
    task(task_id="maintain", doc_md="Expires old snapshots, and removes files that no table names.")(
        maintain_warehouse
    )()

with DAG(
    dag_id="verify",
    description="checks that all that is published is there and whole",
    doc_md=__doc__,
    schedule=CronTriggerTimetable(EVERY_SUNDAY, timezone="UTC"),
    **ONE_AT_A_TIME,
    tags=["cep"],
    params={"deep": Param(False, type="boolean", description="Read all data, and compare it with its checksums.")},
    default_args=RETRIES,
):
    task(task_id="verify", doc_md="Reads what is published, and names what is missing or damaged.")(verify_warehouse)()
