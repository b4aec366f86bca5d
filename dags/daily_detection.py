"""One DAG a configured stream: the raw files of a day to matches in the warehouse.

A run is for one day of the stream's time zone and starts when that day is over; a backfill over days is Airflow's own:

    airflow backfill create --dag-id daily_detection_us_equity_trades \\
        --from-date 2013-10-07 --to-date 2013-10-09 --max-active-runs 1

Each published day updates the asset of the stream's events, which `invariant_check` waits for. One run at a time, so
that each day carries in from the day before; days in another order are right too, and those that an earlier day
changes afterwards are listed as stale.
"""

from __future__ import annotations

from airflow.sdk import DAG, CronPartitionTimetable, Param, XComArg, chain, task
from cep_tasks import RETRIES, SparkJob, configuration_path, events_asset, run_step

from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.pipeline.configuration import Configuration
from cep_pipeline.pipeline.day import STEPS, Step


def daily_detection(stream: str, timezone: str, pattern_sets: list[str]) -> DAG:
    """The DAG of one stream."""
    with DAG(
        dag_id=f"daily_detection_{stream}",
        description=f"{stream}: raw files of a day to published matches",
        doc_md=__doc__,
        schedule=CronPartitionTimetable("0 0 * * *", timezone=timezone, run_offset=-1, key_format="%Y-%m-%d"),
        catchup=False,
        max_active_runs=1,
        tags=["cep", stream],
        params={
            "day": Param(None, type=["null", "string"], format="date", description="Day to run, by its local date."),
            "pattern_set": Param(
                None, type=["null", "string"], enum=[None, *pattern_sets], description="Only this pattern set."
            ),
            "end_of_stream": Param(
                False, type="boolean", description="The stream ends with the day: no match waits for later ones."
            ),
        },
        default_args=RETRIES,
    ) as dag:

        def task_of(step: Step) -> SparkJob | XComArg:
            outlets = [events_asset(stream)] if step is STEPS[-1] else []
            if step.needs_spark:
                return SparkJob(task_id=step.name, job=step.name, stream=stream, timezone=timezone, outlets=outlets)
            return task(task_id=step.name, outlets=outlets)(run_step)(step.name, stream, timezone)

        chain(*map(task_of, STEPS))
    return dag


configuration = Configuration.load(configuration_path())
for name in configuration.stream_names():
    settings = configuration.stream_settings(name)
    schema = StreamSchema.load(configuration.folder / settings.schema_file)
    daily_detection(name, schema.timezone, list(settings.pattern_sets))
