from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from cep_pipeline.errors import BusyError, DataError, InputError, LimitExceeded
from cep_pipeline.pipeline import day as pipeline_day
from cep_pipeline.pipeline.tasks import DayTask
from tests.dags.conftest import CHECKOUT

STEPS = ["ingest", "validate", "preprocess", "estimate_statistics", "plan", "detect", "publish"]
STREAMS = sorted(yaml.safe_load((CHECKOUT / "pipeline.yaml").read_text())["streams"])


def test_each_configured_stream_has_its_dag(dags: dict[str, Any]) -> None:
    assert [dag_id for dag_id in sorted(dags) if dag_id.startswith("daily")] == [
        f"daily_detection_{s}" for s in STREAMS
    ]


def test_each_task_says_what_it_does(dags: dict[str, Any]) -> None:
    assert [task.task_id for dag in dags.values() for task in dag.tasks if not task.doc_md] == []


@pytest.mark.parametrize("stream", STREAMS)
def test_the_chain_of_a_day_is_that_of_its_steps(dags: dict[str, Any], stream: str) -> None:
    """Each step follows all before it, is described, and is a Spark operator where it needs Spark."""
    from airflow.providers.apache.spark.operators.spark_pyspark import PySparkOperator

    dag = dags[f"daily_detection_{stream}"]
    assert sorted(dag.task_ids) == sorted(STEPS)
    for at, step in enumerate(STEPS):
        assert set(STEPS[:at]) == dag.get_task(step).get_flat_relative_ids(upstream=True), step
        assert dag.get_task(step).doc_md
    mapped = dag.get_task("detect")
    assert mapped.is_mapped and issubclass(mapped.operator_class, PySparkOperator)
    on_spark = {step.name for step in pipeline_day.STEPS if step.needs_spark}
    assert {one for one in STEPS if isinstance(dag.get_task(one), PySparkOperator)} == on_spark - {"detect"}
    assert {task.pool for task in dag.tasks if task.task_id in on_spark} == {"cep_spark"}


@pytest.mark.parametrize("stream", STREAMS)
def test_steps_update_the_assets_of_what_they_publish(dags: dict[str, Any], stream: str) -> None:
    outlets = {task.task_id: [asset.uri for asset in task.outlets] for task in dags[f"daily_detection_{stream}"].tasks}
    published = [f"cep://{stream}/events", f"cep://{stream}/matches"]
    assert outlets == {**{step: [] for step in STEPS}, "plan": [f"cep://{stream}/plan"], "publish": published}


@pytest.mark.parametrize("name", ["daily_detection", "invariant_check", "replanning", "stale_days"])
@pytest.mark.parametrize("stream", STREAMS)
def test_one_run_at_a_time_and_retries_that_wait_longer_each_time(dags: dict[str, Any], stream: str, name: str) -> None:
    dag = dags[f"{name}_{stream}"]
    assert dag.max_active_runs == 1
    assert dag.catchup is False
    for task in dag.tasks:
        assert task.retries > 0
        assert task.retry_exponential_backoff
        assert task.execution_timeout is not None, "what hangs would hold its day for ever"


def test_a_dag_file_is_parsed_without_heavy_imports(airflow_home: Path) -> None:
    script = (
        "import sys\n"
        f"sys.path.insert(0, {str(CHECKOUT / 'dags')!r})\n"
        "from airflow.dag_processing.dagbag import DagBag\n"
        f"bag = DagBag({str(CHECKOUT / 'dags')!r}, bundle_name='dags-folder')\n"
        "assert bag.dags and not bag.import_errors, bag.import_errors\n"
        "heavy = ('pyspark', 'great_expectations', 'numba', 'llvmlite', 'pyiceberg', 'pandas', 'duckdb')\n"
        "print('loaded:', [name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["loaded: []"], done.stdout + done.stderr


@pytest.mark.parametrize("stream", STREAMS)
def test_a_dag_has_a_run_for_each_local_day(dags: dict[str, Any], stream: str) -> None:
    timetable = dags[f"daily_detection_{stream}"].timetable
    (timezone,) = timetable.serialize().values()
    schema = yaml.safe_load((CHECKOUT / "pipeline.yaml").read_text())["streams"][stream]["schema"]
    assert timezone == yaml.safe_load((CHECKOUT / schema).read_text()).get("timezone", "UTC")


def context(
    day: str | None = None,
    logical_date: datetime | None = None,
    run_type: str = "manual",
) -> dict[str, Any]:
    run = SimpleNamespace(logical_date=logical_date, run_type=run_type)
    return {"params": {"day": day, "pattern_set": None}, "dag_run": run, "run_id": "manual__1"}


MIDNIGHT_UTC = datetime(2013, 10, 9, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "timezone", "expected"),
    [
        ({"day": "2013-10-07"}, "UTC", date(2013, 10, 7)),
        ({"day": "2013-10-07", "logical_date": MIDNIGHT_UTC}, "UTC", date(2013, 10, 7)),
        ({"day": "2013-10-09", "logical_date": MIDNIGHT_UTC, "run_type": "backfill"}, "UTC", date(2013, 10, 9)),
        ({"logical_date": MIDNIGHT_UTC}, "UTC", date(2013, 10, 9)),
        ({"logical_date": MIDNIGHT_UTC}, "America/New_York", date(2013, 10, 8)),
        ({"logical_date": MIDNIGHT_UTC}, "Asia/Tokyo", date(2013, 10, 9)),
    ],
)
def test_the_business_day_comes_from_parameter_or_logical_date(
    airflow_home: Path, given: dict[str, Any], timezone: str, expected: date
) -> None:
    from cep_tasks import business_day

    assert business_day(context(**given), timezone) == expected


@pytest.mark.parametrize("given", [{}, {"day": "yesterday"}])
def test_a_run_without_a_day_fails_for_good(airflow_home: Path, given: dict[str, Any]) -> None:
    from cep_tasks import business_day

    with pytest.raises(InputError, match="2013-10-07"):
        business_day(context(**given), "UTC")


@pytest.mark.parametrize("run_type", ["backfill", "scheduled"])
def test_a_run_whose_parameter_names_another_day_fails_for_good(airflow_home: Path, run_type: str) -> None:
    from cep_tasks import business_day

    with pytest.raises(InputError, match=r"2013-10-09.*2013-10-11: leave `day` empty in a backfill"):
        business_day(context(day="2013-10-11", logical_date=MIDNIGHT_UTC, run_type=run_type), "UTC")


def test_wrong_input_and_failed_data_are_not_retried(
    airflow_home: Path, dags: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    from airflow.sdk import RetryAction
    from cep_tasks import UserError, failures_explained

    policy = dags["daily_detection_us_equity_trades"].get_task("ingest").retry_policy
    too_many = LimitExceeded("bursts", "max_matches 7", "2025-01-06")
    long = InputError("no such file " + "x y " * 60)
    for error in (long, DataError("price is negative"), too_many):
        with pytest.raises(UserError) as raised, failures_explained():
            raise error
        assert str(raised.value) == str(error) and raised.value.__cause__ is None
        assert policy.evaluate(raised.value, 1, 3).action is RetryAction.FAIL
    assert max(len(record.getMessage()) for record in caplog.records) <= 110
    assert " ".join(record.getMessage() for record in caplog.records[:3]).startswith(str(long).strip()[:200])
    for passing in (BusyError("held by another run"), OSError("disk full")):
        with pytest.raises(type(passing)), failures_explained():
            raise passing
        assert policy.evaluate(passing, 1, 3).action is RetryAction.DEFAULT


class Instance:
    """What a step asks of its task instance: the runs and tasks of other days, and their results."""

    dag_id = "daily_detection_trades"

    def __init__(self, alive: bool = False, state: str | None = None) -> None:
        self.alive, self.state = alive, state
        self.pushed: dict[str, Any] = {}

    def get_dr_count(self, **_: Any) -> int:
        return int(self.alive)

    def get_task_states(self, *, dag_id: str, task_ids: list[str], run_ids: list[str]) -> dict[str, Any]:
        return {run_ids[0]: {task_ids[0]: self.state}}

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


Asked = tuple[str, DayTask, list[Any]]


@pytest.fixture
def asked(airflow_home: Path, monkeypatch: pytest.MonkeyPatch) -> list[Asked]:
    """What the operators ask of the pipeline, which does nothing here."""
    given: list[Asked] = []
    monkeypatch.setenv("CEP_CONFIG", "/etc/cep/pipeline.yaml")

    def take(step: str, task: DayTask, handed: Any, spark: Any) -> dict[str, Any]:
        given.append((step, task, list(handed)))
        counts = {"events": 1_234, "matches": {"market": {"rise": 7}}}
        return {"step": step, "counts": counts, "pattern_sets": ["market"], "done": step in ("validate", "publish")}

    monkeypatch.setattr("cep_pipeline.pipeline.tasks.run_step", take)
    monkeypatch.setattr("cep_pipeline.pipeline.tasks.days_on_their_way", lambda task: {date(2013, 10, 6): "other"})
    monkeypatch.setattr("cep_pipeline.pipeline.tasks.needs_spark", lambda *_: False)
    monkeypatch.setattr("operators.tell_of_day", lambda *_: None)
    return given


def do_step(step: str, instance: Instance, **given: Any) -> Any:
    from collections import defaultdict

    from operators import CepOperator, CepSparkOperator

    kind = CepSparkOperator if step == "preprocess" else CepOperator
    operator = kind(step=step, stream="trades", timezone="UTC", **given)
    now = {**context(day="2013-10-07"), "ti": instance, "outlet_events": defaultdict(SimpleNamespace)}
    now["params"].update(pattern_set="market", end_of_stream=True)
    return operator.execute(now), now["outlet_events"]


def test_a_step_is_given_what_others_have_handed_on(asked: list[Asked]) -> None:
    class Several(list[Any]):
        """As the results of a mapped task come."""

    handed = [{"step": "ingest"}, Several([{"step": "detect", "of": 1}, {"step": "detect", "of": 2}]), None]
    done, events = do_step("publish", Instance(), handed=handed)
    (step, task, given) = asked[0]
    assert step == "publish"
    told = Path("/etc/cep/pipeline.yaml"), "trades", "manual__1", "market"
    assert task == DayTask(*told, day=date(2013, 10, 7), end_of_stream=True)
    assert given == [{"step": "ingest"}, {"step": "detect", "of": 1}, {"step": "detect", "of": 2}]
    assert done["done"]
    extras = {asset.uri: told.extra for asset, told in events.items()}
    assert extras == {
        "cep://trades/events": {"day": "2013-10-07", "events": 1_234},
        "cep://trades/matches": {"day": "2013-10-07", "matches": {"market": {"rise": 7}}},
    }


def test_detection_is_mapped_over_what_plan_returns(asked: list[Asked]) -> None:
    instance = Instance()
    returned, _ = do_step("plan", instance)
    assert returned == [{"pattern_set": "market", "plan_version": None}]
    assert instance.pushed["handed"]["step"] == "plan"
    do_step("detect", instance, pattern_set={"pattern_set": "other", "plan_version": 3})
    assert asked[-1][1].pattern_set == "other"


def test_what_follows_a_day_without_a_file_is_skipped(asked: list[Asked]) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    with pytest.raises(AirflowSkipException, match="2013-10-07 has no file"):
        do_step("validate", Instance())


def test_a_trigger_looks_when_the_executor_knows_that_the_task_has_ended(
    airflow_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cep_triggers

    done: list[Any] = []

    async def sleep(seconds: float) -> None:
        done.append(seconds)

    async def count(_: Any, states: Any) -> int:
        done.append(states)
        return int("success" in states)

    monkeypatch.setattr(cep_triggers.asyncio, "sleep", sleep)
    monkeypatch.setattr(cep_triggers.DayBeforeTrigger, "_get_count_af_3", count)
    trigger = cep_triggers.DayBeforeTrigger(
        "dag", run_ids=["run"], external_task_ids=["plan"], allowed_states=["success"]
    )

    async def events() -> list[Any]:
        return [event.payload async for event in trigger.run()]

    assert asyncio.run(events()) == [{"status": "success"}]
    assert done == [cep_triggers.FIRST_LOOK_S, ["success"]]


def test_a_step_waits_in_no_slot_for_the_day_before(asked: list[Asked]) -> None:
    from airflow.sdk._shared.module_loading import import_string
    from airflow.sdk.exceptions import TaskDeferred

    with pytest.raises(TaskDeferred) as deferred:
        do_step("preprocess", Instance(alive=True, state="running"))
    assert deferred.value.trigger.external_task_ids == ["publish"] and deferred.value.trigger.run_ids == ["other"]
    assert deferred.value.method_name == "resume"
    path, _ = deferred.value.trigger.serialize()
    assert import_string(path) is type(deferred.value.trigger), "the triggerer makes it anew"
    for alive, state in ((True, "success"), (True, "failed"), (False, "running")):
        do_step("preprocess", Instance(alive=alive, state=state))
        assert asked.pop()[0] == "preprocess", "what is there, or will not come, is not waited for"
    do_step("plan", Instance(alive=True, state="running"))
    assert asked.pop()[0] == "plan", "only the step that carries on waits"


@pytest.mark.parametrize(
    ("connection", "properties"),
    [
        (
            '{"conn_type": "spark", "host": "spark://spark-master", "port": 7077}',
            ("master", "spark://spark-master:7077"),
        ),
        ('{"conn_type": "spark", "host": "local[2]"}', ("master", "local[2,2]")),
        (
            '{"conn_type": "spark_connect", "host": "localhost", "port": 15002, "password": "secret"}',
            ("remote", "sc://localhost:15002/;token=secret cep/trades"),
        ),
        (None, ("master", "local[3,2]")),
    ],
)
def test_the_connection_says_where_spark_is(
    airflow_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    connection: str | None,
    properties: tuple[str, str],
) -> None:
    import operators
    from airflow.sdk.exceptions import AirflowNotFoundException

    from cep_pipeline.spark import session

    write_stream(tmp_path)
    settings = yaml.safe_load((tmp_path / "pipeline.yaml").read_text())
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump({**settings, "spark": {"master": "local[3]"}}))
    monkeypatch.setenv("CEP_CONFIG", str(tmp_path / "pipeline.yaml"))
    monkeypatch.setattr(session, "shared_session", lambda remote, name: f"{remote} {name}")
    if connection is None:

        def missing(conn_id: str) -> Any:
            raise AirflowNotFoundException(conn_id)

        monkeypatch.setattr(operators.BaseHook, "get_connection", missing)
    else:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", connection)
    operator = operators.CepSparkOperator(step="detect", stream="trades", timezone="UTC")
    operator._find_spark()
    kind, value = properties
    assert operator.config_kwargs[f"spark.{kind}"].startswith(value)
    assert (operator.conn_id is None) is (connection is None)


def write_stream(folder: Path, **settings: Any) -> None:
    """A configuration with one stream, whose days are files of their own."""
    (folder / "raw").mkdir()
    schema = yaml.safe_load((CHECKOUT / "streams" / "generated_trades.yaml").read_text())
    (folder / "trades.yaml").write_text(yaml.safe_dump(schema))
    stream = {"schema": "trades.yaml", "data": "raw", **settings}
    (folder / "pipeline.yaml").write_text(yaml.safe_dump({"streams": {"generated_trades": stream}}))


def test_a_stream_sets_how_long_its_tasks_may_take(
    airflow_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cep_tasks

    for settings, hours in (({}, 6), ({"task_timeout_hours": 2}, 2)):
        (tmp_path / str(hours)).mkdir()
        write_stream(tmp_path / str(hours), **settings)
        monkeypatch.setenv("CEP_CONFIG", str(tmp_path / str(hours) / "pipeline.yaml"))
        [stream] = cep_tasks.configured_streams()
        assert stream.task_arguments["execution_timeout"] == timedelta(hours=hours)
        assert stream.task_arguments["retries"] > 0


def test_programs_are_submitted_where_the_configuration_says_so(
    airflow_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.dag_processing.dagbag import DagBag

    (tmp_path / "market.sase").write_text("PATTERN SEQ(INTC a, MSFT b) WITHIN 1 minute")
    write_stream(tmp_path, pattern_sets={"market": {"file": "market.sase"}})
    document = yaml.safe_load((tmp_path / "pipeline.yaml").read_text())
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump({**document, "spark": {"airflow": "submit"}}))
    monkeypatch.setenv("CEP_CONFIG", str(tmp_path / "pipeline.yaml"))
    bag = DagBag(str(CHECKOUT / "dags" / "daily_detection.py"), bundle_name="dags-folder")
    assert bag.import_errors == {}
    tasks = bag.dags["daily_detection_generated_trades"].tasks
    of_spark = {one.task_id for one in tasks if one.operator_class.__name__ == "CepSparkSubmitOperator"}
    assert of_spark == {"ingest", "preprocess", "estimate_statistics", "detect"}


def test_a_day_that_waits_for_its_file_looks_for_it_until_the_deadline(
    airflow_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cep_tasks
    from airflow.dag_processing.dagbag import DagBag

    write_stream(tmp_path, wait_hours=3)
    monkeypatch.setenv("CEP_CONFIG", str(tmp_path / "pipeline.yaml"))
    bag = DagBag(str(CHECKOUT / "dags" / "daily_detection.py"), bundle_name="dags-folder")
    assert bag.import_errors == {}
    dag = bag.dags["daily_detection_generated_trades"]
    sensor = dag.get_task("wait_for_file")
    assert sensor.mode == "reschedule", "no slot is held"
    assert sensor.downstream_task_ids == {"ingest"}
    day = datetime.now(UTC).date()
    monkeypatch.setattr(cep_tasks, "get_current_context", lambda: context(day=day.isoformat()))
    assert not cep_tasks.file_or_deadline("generated_trades", "UTC", 3.0)
    assert cep_tasks.file_or_deadline("generated_trades", "UTC", -25.0), "on_missing says what follows"
    (tmp_path / "raw" / day.isoformat()).mkdir()
    (tmp_path / "raw" / day.isoformat() / "trades.csv.gz").touch()
    assert cep_tasks.file_or_deadline("generated_trades", "UTC", 3.0)


def test_a_wrong_configuration_is_explained_where_the_dags_are_read(
    airflow_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cep_tasks import configured_streams

    write_stream(tmp_path)
    monkeypatch.setenv("CEP_CONFIG", str(tmp_path / "pipeline.yaml"))
    assert [one.name for one in configured_streams()] == ["generated_trades"]
    (tmp_path / "trades.yaml").unlink()
    with pytest.raises(InputError, match=r"trades\.yaml"):
        configured_streams()
    (tmp_path / "pipeline.yaml").write_text("streams: [trades]")
    with pytest.raises(InputError, match=r"pipeline\.yaml"):
        configured_streams()


def test_stale_days_are_redone_by_runs_and_where_there_are_none_the_tasks_are_skipped(
    airflow_home: Path, dags: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import cep_tasks
    from airflow.sdk.exceptions import AirflowSkipException

    instance, found = Instance(), [{"day": "2013-10-08", "detection_only": True, "reasons": ["a", "b"]}]
    now = {"params": {"tried": [["2013-10-07", "c"]]}, "run_id": "manual__1", "ti": instance}
    monkeypatch.setattr(cep_tasks, "get_current_context", lambda: now)
    monkeypatch.setattr("cep_pipeline.pipeline.tasks.stale_days", lambda task, tried: found)
    assert cep_tasks.stale_days("trades") == [{"day": "2013-10-08", "detection_only": True}]
    assert instance.pushed["tried"] == [["2013-10-07", "c"], ["2013-10-08", "a"], ["2013-10-08", "b"]]
    found.clear()
    with pytest.raises(AirflowSkipException, match="no day is stale"):
        cep_tasks.stale_days("trades")
    redo = dags["stale_days_us_equity_trades"].get_task("redo")
    assert redo.is_mapped and redo.partial_kwargs["deferrable"] and redo.partial_kwargs["wait_for_completion"]
    assert redo.partial_kwargs["trigger_dag_id"] == "daily_detection_us_equity_trades"
