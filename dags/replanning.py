"""One DAG a stream: makes the plan of a pattern set again, and makes it the current one where it is better.

Triggered by hand, with a form, or by `invariant_check` with the violated invariant as its reason. The new plan is
compared with the current one by cost; plan, comparison and reason are recorded. The next day's `daily_detection` runs
on the current plan.

Where all patterns of a set are planned together, the search goes on from the current plan, and only for what is
connected with the patterns that the violation names; all others keep their plan.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param, task
from cep_tasks import ONE_AT_A_TIME, RETRIES, configured_streams, plan_again, replanning_dag


def replanning(stream: str, pattern_sets: list[str]) -> DAG:
    """The DAG of one stream."""
    with DAG(
        dag_id=replanning_dag(stream),
        description=f"{stream}: makes the plan of a pattern set again",
        doc_md=__doc__,
        schedule=None,
        **ONE_AT_A_TIME,
        tags=["cep", stream],
        params={
            "pattern_set": Param(pattern_sets[0], type="string", enum=pattern_sets, description="Whose plan."),
            "reason": Param("by hand", type="string", minLength=1, description="Why, for the record."),
            "violation": Param(
                None, type=["null", "object"], description="What invariant_check found; empty where a person asks."
            ),
        },
        default_args=RETRIES,
    ) as dag:
        replan = task(
            task_id="replan",
            doc_md="Makes a plan by the latest statistics, and puts it in the place of the current one if it is "
            "better. The decision and its reason are recorded.",
        )
        replan(plan_again)(stream)
    return dag


for configured in configured_streams():
    if configured.pattern_sets:
        replanning(configured.name, list(configured.pattern_sets))
