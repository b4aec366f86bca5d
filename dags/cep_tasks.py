"""The shared part of the DAGs: the place of the pipeline, the business day of a run, and which failures are retried."""

from __future__ import annotations

import itertools
import logging
import os
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from airflow.sdk import Asset, ExceptionRetryPolicy, RetryAction, RetryRule, get_current_context
from airflow.sdk.exceptions import AirflowSkipException
from cep_signals import tell

from cep_pipeline.errors import NOT_RETRIED, CepError, InputError, LimitExceeded

logger = logging.getLogger(__name__)
PROJECT = Path(__file__).resolve().parents[1]


def tell_of_failure(context: Mapping[str, Any]) -> None:
    """Give the failure of a task, which is not tried again, to the notifier of pipeline.yaml."""
    task = context["ti"]
    sentence = f"{task.dag_id}, task {task.task_id} of run {context['run_id']} failed: {context.get('exception')}"
    tell(configuration_path(), sentence, context)


class UserError(SystemExit):
    """What a person has to mend: its log says what, without the traceback that Airflow prints of other errors."""

    def __init__(self, error: CepError) -> None:
        super().__init__(error.exit_code)
        self.message = str(error)

    def __str__(self) -> str:
        return self.message


TASK_TIMEOUT_HOURS = 6.0
"""Hours that a task may take where the stream has no `task_timeout_hours`: what hangs would hold its day for ever."""
RETRIES: dict[str, Any] = {
    "retries": 3,
    "retry_delay": timedelta(seconds=30),
    "retry_exponential_backoff": True,
    "max_retry_delay": timedelta(minutes=10),
    "execution_timeout": timedelta(hours=TASK_TIMEOUT_HOURS),
    "on_failure_callback": tell_of_failure,
    "retry_policy": ExceptionRetryPolicy(
        [RetryRule(UserError, RetryAction.FAIL, reason="a further try would end the same")]
    ),
    "owner": "cep",
}
"""Arguments of the tasks of all DAGs: retries, time limit, and the receiver of failures."""


ONE_AT_A_TIME: dict[str, Any] = {"catchup": False, "max_active_runs": 1}
"""Arguments of all DAGs: runs of the past are for a backfill, and runs follow each other."""


@dataclass(frozen=True)
class ConfiguredStream:
    """The things of a configured stream that its DAGs are made of."""

    name: str
    timezone: str
    pattern_sets: tuple[str, ...]
    wait_hours: float
    task_timeout_hours: float
    submits: bool

    @property
    def task_arguments(self) -> dict[str, Any]:
        """Return how the stream's tasks are retried, and how long one may take."""
        return {**RETRIES, "execution_timeout": timedelta(hours=self.task_timeout_hours)}


def configured_streams() -> list[ConfiguredStream]:
    """The streams of `pipeline.yaml`."""
    from cep_pipeline.pipeline.configuration import Configuration

    configuration = Configuration.load(configuration_path())
    submits = configuration.settings.spark.airflow == "submit"
    return [
        ConfiguredStream(
            name,
            configuration.stream_schema(name).timezone,
            tuple(settings.pattern_sets),
            settings.wait_hours,
            settings.task_timeout_hours,
            submits,
        )
        for name, settings in configuration.settings.streams.items()
    ]


def configuration_path() -> Path:
    """`pipeline.yaml`: the file that CEP_CONFIG names, or the one of this checkout."""
    return Path(os.environ.get("CEP_CONFIG") or PROJECT / "pipeline.yaml")


def events_asset(stream: str) -> Asset:
    """The published events of a stream, with their statistics and matches."""
    return Asset(name=f"cep_{stream}_events", uri=f"cep://{stream}/events")


def matches_asset(stream: str) -> Asset:
    """The published matches of a stream, of all pattern sets."""
    return Asset(name=f"cep_{stream}_matches", uri=f"cep://{stream}/matches")


def plan_asset(stream: str) -> Asset:
    """The current plans of a stream's pattern sets."""
    return Asset(name=f"cep_{stream}_plan", uri=f"cep://{stream}/plan")


def check_plans(stream: str) -> list[dict[str, Any]]:
    """Check the current plans of a stream; returns the replanning runs that are to be triggered."""
    from cep_pipeline.pipeline.tasks import check_plans

    context = get_current_context()
    with failures_explained():
        runs = check_plans(_stream_task(stream, context))
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
    from cep_pipeline.pipeline.tasks import plan_again

    context = get_current_context()
    given = context["params"]
    with failures_explained():
        return plan_again(_stream_task(stream, context), given["reason"], given["violation"])


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


def _stream_task(stream: str, context: Mapping[str, Any]) -> Any:
    from cep_pipeline.pipeline.tasks import StreamTask

    return StreamTask(configuration_path(), stream, context["run_id"], context["params"].get("pattern_set"))


def business_day(context: Mapping[str, Any], timezone: str) -> date:
    """The day that a run is for, by the context of a task.

    Runs of the schedule and of backfills have a day of their own: their logical date is its first instant. A run by
    hand is for its parameter `day`, or for the day that its logical date is in. An InputError says that a run has
    neither, that `day` is no date, or that it is another day than the run's own.
    """
    run, asked = context["dag_run"], context["params"].get("day")
    own = None
    if run.logical_date is not None and (not asked or run.run_type in ("scheduled", "backfill")):
        own = run.logical_date.astimezone(ZoneInfo(timezone)).date()
    chosen = _day_of(asked) if asked else own
    if chosen is None:
        raise InputError("this run has no day: trigger it with the parameter day, as in 2013-10-07")
    if own is not None and chosen != own:
        raise InputError(
            f"this run is for {own}, and its parameter day is {chosen}: leave `day` empty in a backfill, each of whose "
            "runs has a day of its own"
        )
    return chosen


def _day_of(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise InputError(f"{text!r} is no day; write it as 2013-10-07") from error


@contextmanager
def failures_explained() -> Iterator[None]:
    """Log an error of the pipeline in lines that fit a page; where a retry would end the same, it is a UserError."""
    try:
        yield
    except CepError as error:
        for paragraph in str(error).splitlines():
            for line in textwrap.wrap(paragraph, _WIDTH, break_on_hyphens=False) or [""]:
                logger.error("%s", line)
        if error.exit_code in NOT_RETRIED or isinstance(error, LimitExceeded):
            raise UserError(error) from None
        raise


_WIDTH = 110


def file_or_deadline(stream: str, timezone: str, wait_hours: float) -> bool:
    """True if the files of the day are there, or have been waited for long enough: `on_missing` says what follows."""
    from cep_pipeline.pipeline.configuration import Configuration
    from cep_pipeline.pipeline.run import files_are_there

    with failures_explained():
        day = business_day(get_current_context(), timezone)
        over = datetime.combine(day + timedelta(days=1), time(), ZoneInfo(timezone)) + timedelta(hours=wait_hours)
        return datetime.now(UTC) >= over or files_are_there(
            Configuration.load(configuration_path()).stream(stream), day
        )


def stale_days(stream: str) -> list[dict[str, Any]]:
    """Return the parameters of the runs that redo the stale days of a stream, the earliest first."""
    from cep_pipeline.pipeline import tasks

    context = get_current_context()
    tried = context["params"]["tried"] or []
    with failures_explained():
        found = tasks.stale_days(_stream_task(stream, context), tried)
    if not found:
        raise AirflowSkipException("no day is stale, or none that a run of the day mends")
    told = [f"{one['day']} ({'; '.join(one['reasons'])})" for one in found]
    tell(configuration_path(), f"{stream}: stale days are redone: {', '.join(told)}", context)
    context["ti"].xcom_push("tried", [*tried, *([one["day"], reason] for one in found for reason in one["reasons"])])
    return [{"day": one["day"], "detection_only": one["detection_only"]} for one in found]
