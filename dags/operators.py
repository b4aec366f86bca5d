"""The operators of a day's steps. Nothing else in the DAGs knows how Spark is reached.

`CepSparkOperator` is the provider's PySparkOperator on the connection `spark_default`. One of type `spark_connect`
names a Spark Connect server, one of type `spark` a master for which each task starts Spark itself. Without the
connection `spark: remote:` or `spark: master:` of pipeline.yaml counts. All tasks of a stream share one session of a
Connect server, so that its Python workers stay warm.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
from airflow.providers.apache.spark.operators.spark_pyspark import PySparkOperator
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook, BaseOperator, BaseOperatorLink
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException, AirflowSkipException
from cep_signals import tell_of_day
from cep_tasks import (
    PROJECT,
    business_day,
    configuration_path,
    events_asset,
    failures_explained,
    matches_asset,
    plan_asset,
)
from cep_triggers import DayBeforeTrigger

logger = logging.getLogger(__name__)

SPARK_CONNECTION = "spark_default"
POOL = "cep_spark"
"""The pool of the tasks that work on Spark: its slots are how many Spark jobs run at a time."""
_OVER = ("success", "failed", "skipped", "upstream_failed", "removed")
HANDED = "handed"
"""Key of what the step `plan` hands on."""
_LOOKS_S = 1.0
"""A task that waits for the day before is deferred, and its trigger looks so often."""


class SparkPageLink(BaseOperatorLink):
    """The link from a task to its page of Spark: its history server's, or that of the running application."""

    name = "Spark"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """The address that the task has found; Airflow asks for it when the task has ended."""
        return str(getattr(operator, "spark_page", ""))


class _Step(BaseOperator):
    """What the operators of all steps have in common: the day, what is handed on, and waiting for the days before."""

    def __init__(
        self, *, step: str, stream: str, timezone: str, handed: Any = (), pattern_set: Any = None, **kwargs: Any
    ) -> None:
        self.step, self.stream, self.timezone = step, stream, timezone
        self.handed, self.pattern_set = handed, pattern_set
        super().__init__(**{"task_id": step, **self.arguments(), **kwargs})

    def arguments(self) -> dict[str, Any]:
        """The arguments of the operator of Airflow, where the DAG does not name others."""
        return {}

    def task(self, context: Mapping[str, Any]) -> Any:
        """The task of the pipeline that the run asks for."""
        from cep_pipeline.pipeline.tasks import DayTask

        asked = context["params"]
        return DayTask(
            configuration_path(),
            self.stream,
            context["run_id"],
            self.pattern_set["pattern_set"] if self.pattern_set else asked.get("pattern_set"),
            day=business_day(context, self.timezone),
            end_of_stream=bool(asked.get("end_of_stream")),
            detection_only=bool(asked.get("detection_only")),
        )

    def wait_for_days_before(self, task: Any, context: Mapping[str, Any]) -> None:
        """Defer a step that carries on from the days before until those on their way have been published."""
        from cep_pipeline.pipeline.day import PUBLISH, step_of
        from cep_pipeline.pipeline.tasks import days_on_their_way

        instance = context["ti"]
        # The latest first: it waits for those before it, and one that is deferred again and again takes longer.
        for day, run_id in sorted(days_on_their_way(task).items(), reverse=True) if step_of(self.step).in_order else ():
            alive = {"dag_id": instance.dag_id, "run_ids": [run_id], "states": ["queued", "running"]}
            if not instance.get_dr_count(**alive):
                continue  # a run that has ended without publishing its day is left behind
            states = instance.get_task_states(dag_id=instance.dag_id, task_ids=[PUBLISH.name], run_ids=[run_id])
            if states.get(run_id, {}).get(PUBLISH.name) in _OVER:
                continue
            logger.info("%s: waiting until %s is published, which carries over to this day", task.day, day)
            trigger = DayBeforeTrigger(
                external_dag_id=instance.dag_id,
                run_ids=[run_id],
                external_task_ids=[PUBLISH.name],
                allowed_states=["success"],
                failed_states=list(_OVER[1:]),
                poke_interval=_LOOKS_S,
            )
            self.defer(trigger=trigger, method_name="resume", timeout=self.execution_timeout)  # type: ignore[attr-defined]

    def resume(self, context: Mapping[str, Any], event: Any = None) -> Any:
        """Go on where a day before has come far enough, or has failed."""
        return self.execute(context)

    def do(self, context: Mapping[str, Any], spark: Any = None) -> Any:
        """Do the step, and tell of it."""
        from cep_pipeline.pipeline.tasks import run_step

        task = self.task(context)
        with failures_explained():
            done = run_step(self.step, task, _all_of(self.handed), spark)
        return self.told(task, done, context)

    def told(self, task: Any, done: Mapping[str, Any], context: Mapping[str, Any]) -> Any:
        """Tell of a step that is done, and return what Airflow is to keep of it."""
        self.tell(task, done, context)
        if self.step != "plan":
            return done
        # Detection is mapped over what this step returns: one entry a pattern set.
        context["ti"].xcom_push(HANDED, done)
        plans = done["counts"].get("plans", {})
        return [{"pattern_set": name, "plan_version": plans.get(name)} for name in done["pattern_sets"]]

    def tell(self, task: Any, done: Mapping[str, Any], context: Mapping[str, Any]) -> None:
        """Log what the step has done, and give the counts to the assets that it updates."""
        for name, number in done.get("counts", {}).items():
            for line in _lines(name, number):
                logger.info("%s", line)
        if self.step == "plan":
            context["outlet_events"][plan_asset(self.stream)].extra = {
                "day": str(task.day),
                "plans": done["counts"].get("plans", {}),
            }
        if self.step == "publish":
            counts = done.get("counts", {})
            told = {events_asset(self.stream): ("events", "rejected"), matches_asset(self.stream): ("matches",)}
            for asset, names in told.items():
                extra = {name: counts[name] for name in names if name in counts}
                context["outlet_events"][asset].extra = {"day": str(task.day), **extra}
        if done["done"]:
            tell_of_day(configuration_path(), self.stream, task.day, context)
        if done["done"] and self.step != "publish":
            raise AirflowSkipException(f"{task.day} has no file, and the stream schema says on_missing: skip")


def _all_of(handed: Any) -> list[Any]:
    """The results that steps before have handed on; those of a mapped task come as a sequence."""
    found: list[Any] = []
    for one in handed or ():
        if isinstance(one, Mapping):
            found.append(one)
        elif one is not None:
            found += [one[at] for at in range(len(one))]
    return found


def _lines(name: str, number: Any, of: str = "") -> Iterator[str]:
    """The lines of a log that tell a count, or the counts of patterns."""
    if isinstance(number, Mapping):
        for key, value in number.items():
            yield from _lines(name, value, f"{of}.{key}" if of else f" of {key}")
    else:
        yield f"{name}{of}: {number:,}" if isinstance(number, int) else f"{name}{of}: {number}"


class CepOperator(_Step):
    """A step of a day that needs no Spark: validation, planning, publishing."""

    template_fields: Sequence[str] = ("handed", "pattern_set")
    ui_color = "#e8f1e4"

    def execute(self, context: Any) -> Any:
        """Do the step."""
        return self.do(context)


class CepSparkOperator(_Step, PySparkOperator):
    """A step of a day that works on Spark."""

    template_fields: Sequence[str] = ("handed", "pattern_set", *PySparkOperator.template_fields)
    operator_extra_links = (SparkPageLink(),)
    ui_color = "#fbe3d0"

    _spark: Any = None
    _instance = ""
    _properties: Mapping[str, str] = MappingProxyType({})
    spark_page = ""

    def arguments(self) -> dict[str, Any]:
        own = {"python_callable": _with_spark, "show_return_value_in_logs": False}
        return {"conn_id": SPARK_CONNECTION, "pool": POOL, **own}

    def execute(self, context: Any) -> Any:
        """Find Spark, where the step needs it, and do the step on it."""
        from cep_pipeline.pipeline.tasks import needs_spark

        with failures_explained():
            task = self.task(context)
            self.wait_for_days_before(task, context)
            if not needs_spark(self.step, task):
                return self.do(context)
            self._find_spark()
        own = context["ti"]
        self._instance = f"{own.dag_id}.{own.run_id}.{own.task_id}.{own.map_index}"
        self.op_kwargs = {"operator": self, "context": context}
        return super().execute(context)

    def _find_spark(self) -> None:
        """Set the properties by which the provider opens the session."""
        from cep_pipeline.pipeline.configuration import Configuration
        from cep_pipeline.spark.session import classic_settings, shared_session

        settings = Configuration.load(configuration_path()).settings.spark
        try:
            connection = BaseHook.get_connection(SPARK_CONNECTION)
        except AirflowNotFoundException:
            self.conn_id = None
            remote, master = settings.remote, settings.master
        else:
            connects = connection.conn_type == SparkConnectHook.conn_type
            remote = SparkConnectHook(SPARK_CONNECTION).get_connection_url() if connects else None
            master = f"{connection.host}:{connection.port}" if connection.port else connection.host or settings.master
        if remote:
            # The provider would set properties of applications too, which a server refuses.
            self._properties = settings.properties
            self.config_kwargs = {"spark.remote": shared_session(remote, f"cep/{self.stream}")}
        else:
            self.config_kwargs = classic_settings(master, settings.properties)

    def on_kill(self) -> None:
        """Interrupt what the task does on a Connect server; a classic session ends with its task."""
        from cep_pipeline.spark.session import is_connect

        if self._spark is not None and is_connect(self._spark):
            self._spark.interruptTag(self._tag())

    def _tag(self) -> str:
        return re.sub(r"\W+", "_", self._instance)

    def work_on(self, spark: Any, context: Any) -> Any:
        """Do the step on a session."""
        from cep_pipeline.spark.session import is_connect, prepare_session, spark_page
        from cep_pipeline.spark.tasks import described

        prepare_session(spark, self.config_kwargs.get("spark.remote"), self._properties)
        self._spark = spark
        if is_connect(spark):
            spark.release_session_on_close = False  # the workers of the session stay warm for the next task
            spark.addTag(self._tag())
        self.spark_page = spark_page(spark)
        logger.info("%s: %s", described(spark), self.spark_page or "it has no page")
        context["ti"].xcom_push(SparkPageLink().xcom_key, self.spark_page)
        return self.do(context, spark)


class CepSparkSubmitOperator(_Step, SparkSubmitOperator):
    """A step of a day that is a program of `spark_jobs`, run by spark-submit: for YARN and Kubernetes in cluster mode.

    What is handed on goes through documents in the scratch of the warehouse, which all machines reach.
    """

    template_fields: Sequence[str] = ("handed", "pattern_set", *SparkSubmitOperator.template_fields)
    ui_color = CepSparkOperator.ui_color

    def arguments(self) -> dict[str, Any]:
        program = str(PROJECT / "spark_jobs" / f"{self.step}.py")
        name = f"cep_{self.stream}_{self.step}"
        return {"conn_id": SPARK_CONNECTION, "pool": POOL, "application": program, "name": name}

    def execute(self, context: Any) -> Any:
        """Submit the program, and take what it has written."""
        from cep_pipeline.pipeline.tasks import (
            documents_of,
            needs_spark,
            read_document,
            submitted_error,
            write_document,
        )

        with failures_explained():
            task = self.task(context)
            self.wait_for_days_before(task, context)
            if not needs_spark(self.step, task):
                return self.do(context)
            given, result = documents_of(task, self.step)
            write_document(given, _all_of(self.handed))
        self.application_args = _arguments(task, given, result)
        try:
            super().execute(context)
        except AirflowException as error:
            with failures_explained():
                raise submitted_error(result) or error from None
        with failures_explained():
            done = read_document(result)
        return self.told(task, done, context)


def _arguments(task: Any, given: str, result: str) -> list[str]:
    """The arguments of a program of `spark_jobs`."""
    named = {"--config": task.config, "--stream": task.stream, "--day": task.day, "--run-id": task.run_id}
    named |= {"--given": given, "--result": result}
    if task.pattern_set:
        named["--pattern-set"] = task.pattern_set
    arguments = [part for name, value in named.items() for part in (name, str(value))]
    asked = {"--end-of-stream": task.end_of_stream, "--detection-only": task.detection_only}
    return [*arguments, *(name for name, value in asked.items() if value)]


def _with_spark(operator: CepSparkOperator, context: Any, spark: Any = None) -> Any:
    """What the provider calls with the session."""
    return operator.work_on(spark, context)
