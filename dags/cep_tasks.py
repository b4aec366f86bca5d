"""The shared part of the DAGs: the place of the pipeline, the business day of a run, and which failures are retried."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Asset, Param, get_current_context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from cep_pipeline.errors import CepError, DataError, InputError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from cep_pipeline.pipeline.tasks import AdaptationTask

PROJECT = Path(__file__).resolve().parents[1]
NOT_RETRIED = frozenset({InputError.exit_code, DataError.exit_code})
"""Exit codes of wrong input and of data that failed validation: a second try would end the same."""

RETRIES: dict[str, Any] = {
    "retries": 3,
    "retry_delay": timedelta(seconds=30),
    "retry_exponential_backoff": True,
    "max_retry_delay": timedelta(minutes=10),
}
"""How the tasks of all DAGs are retried."""


def configuration_path() -> Path:
    """`pipeline.yaml`: the file that CEP_CONFIG names, or the one of this checkout."""
    return Path(os.environ.get("CEP_CONFIG") or PROJECT / "pipeline.yaml")


def events_asset(stream: str) -> Asset:
    """The published events of a stream, with their statistics and matches; a day is a partition."""
    return Asset(name=f"cep_{stream}_events", uri=f"cep://{stream}/events")


def statistics_params() -> dict[str, Param]:
    """Parameters that say by which statistics plans are checked or made: the latest day's if none are given."""
    return {
        "as_of": Param(
            None, type=["null", "string"], description="By the window that ends then: 14:30 of the latest day."
        ),
        "window": Param(
            None, type=["null", "string"], description="Length of the windows, such as 20 minutes or 5000 events."
        ),
    }


def check_plans(stream: str) -> list[dict[str, Any]]:
    """Check the current plans of a stream; returns the replanning runs that are to be triggered."""
    from cep_pipeline.pipeline.tasks import AdaptationTask, check_plans

    context = get_current_context()
    with failures_explained():
        runs = check_plans(_adaptation_task(AdaptationTask, stream, context))
    for run in runs:
        run["trigger_run_id"] = _at_it(context["ti"], replanning_dag(stream), run["trigger_run_id"])
    return runs


def replanning_dag(stream: str) -> str:
    """The id of the DAG that makes plans of a stream again."""
    return f"replanning_{stream}"


def _at_it(task_instance: Any, dag_id: str, run_id: str) -> str:
    """The id of the run that is at something, or is to be: those before it have failed, and will not do it any more."""
    attempts = (run_id if number == 1 else f"{run_id}__attempt_{number}" for number in itertools.count(1))
    return next(
        one for one in attempts if not task_instance.get_dr_count(dag_id=dag_id, run_ids=[one], states=["failed"])
    )


def plan_again(stream: str) -> dict[str, Any]:
    """Make the plan of a pattern set again, as the parameters of the run say; returns what came of it."""
    from cep_pipeline.pipeline.tasks import AdaptationTask, plan_again

    context = get_current_context()
    given = context["params"]
    with failures_explained():
        task = _adaptation_task(AdaptationTask, stream, context)
        chosen = (given[name] for name in ("reason", "planner", "cost", "violation", "patterns"))
        return plan_again(task, *chosen)


def maintain_warehouse() -> dict[str, int]:
    """Maintain the warehouse, as the parameters of the run say."""
    from cep_pipeline.pipeline.tasks import maintain_warehouse

    given = get_current_context()["params"]
    with failures_explained():
        return maintain_warehouse(configuration_path(), given["grace_hours"], given["keep_days"])


def verify_warehouse() -> dict[str, int]:
    """Verify the warehouse; a damage ends the task without a retry."""
    from cep_pipeline.pipeline.tasks import verify_warehouse

    with failures_explained():
        return verify_warehouse(configuration_path(), get_current_context()["params"]["deep"])


def _adaptation_task(kind: type[AdaptationTask], stream: str, context: Mapping[str, Any]) -> AdaptationTask:
    asked = {name: context["params"].get(name) for name in ("pattern_set", "as_of", "window")}
    return kind(configuration_path(), stream, context["run_id"], **asked)


def business_day(context: Mapping[str, Any], timezone: str) -> date:
    """The day that a run is for.

    Parameters
    ----------
    context
        Of a task. The first of these decides: the parameter `day`, the run's partition (schedules and backfills give
        one), the date of its logical date.
    timezone
        In which the logical date is a date: the stream's.

    Raises
    ------
    AirflowFailException
        None of them is there (a run that was triggered by hand without a day), or it is no date.
    """
    chosen = context["params"].get("day") or context["dag_run"].partition_key
    if chosen:
        try:
            return date.fromisoformat(chosen)
        except ValueError as error:
            raise AirflowFailException(f"{chosen!r} is no day; write it as 2013-10-07") from error
    logical_date = context["dag_run"].logical_date
    if logical_date is None:
        raise AirflowFailException("this run has no day: trigger it with the parameter day, as in 2013-10-07")
    return logical_date.astimezone(ZoneInfo(timezone)).date()


@contextmanager
def failures_explained() -> Iterator[None]:
    """Turn an error of the pipeline into a failure of the task, final where a retry would end the same."""
    try:
        yield
    except CepError as error:
        if error.exit_code in NOT_RETRIED:
            raise AirflowFailException(str(error)) from error
        raise


def run_step(step: str, stream: str, timezone: str) -> None:
    """Run a step that needs no Spark for the day of the current run, in the process of the task.

    Parameters
    ----------
    step
        Name of the step.
    stream, timezone
        The stream, and its time zone.
    """
    # Imported here: parsing a DAG file must not load what only its tasks need.
    from cep_pipeline.pipeline.tasks import DayTask, run_task

    context = get_current_context()
    day = business_day(context, timezone)
    chosen, ends = (context["params"].get(name) for name in ("pattern_set", "end_of_stream"))
    with failures_explained():
        run_task(step, DayTask(configuration_path(), stream, day, context["run_id"], chosen, bool(ends)))


class SparkJob(SparkSubmitOperator):
    """Submits a script of `spark_jobs/` for the day of the run, on the connection `spark_default`.

    Parameters
    ----------
    job
        Name of the script, without its ending.
    stream, timezone
        The stream that it works on, and its time zone.
    """

    def __init__(self, *, job: str, stream: str, timezone: str, **kwargs: Any) -> None:
        super().__init__(
            application=str(PROJECT / "spark_jobs" / f"{job}.py"),
            name=f"cep {job} {stream}",
            **kwargs,
        )
        self.stream = stream
        self.timezone = timezone

    def execute(self, context: Context) -> None:
        """Submit the job and wait for it.

        Raises
        ------
        AirflowFailException
            It ended with an exit code that says that a retry would end the same.
        """
        self.application_args = [
            f"--config={configuration_path()}",
            f"--stream={self.stream}",
            f"--day={business_day(context, self.timezone).isoformat()}",
            f"--run-id={context['run_id']}",
        ]
        pattern_set = context["params"].get("pattern_set")
        if pattern_set:
            self.application_args.append(f"--pattern-set={pattern_set}")
        if context["params"].get("end_of_stream"):
            self.application_args.append("--end-of-stream")
        self._hook = self._get_hook()
        try:
            super().execute(context)
        except AirflowException as error:
            # In client mode spark-submit ends with the exit code of the script; the provider only puts it in its text.
            submitted = self._hook._submit_sp
            if submitted is not None and submitted.returncode in NOT_RETRIED:
                raise AirflowFailException(str(error)) from error
            raise
