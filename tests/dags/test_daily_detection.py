from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from cep_pipeline.errors import BusyError, DataError, InputError, LimitExceeded
from cep_pipeline.pipeline.tasks import DayTask
from tests.dags.conftest import CHECKOUT

STEPS = ["ingest", "validate", "preprocess", "estimate_statistics", "plan", "detect", "publish"]
STREAMS = sorted(yaml.safe_load((CHECKOUT / "pipeline.yaml").read_text())["streams"])


def test_each_configured_stream_has_its_dag(dags: dict[str, Any]) -> None:
    assert [dag_id for dag_id in sorted(dags) if dag_id.startswith("daily")] == [
        f"daily_detection_{s}" for s in STREAMS
    ]


@pytest.mark.parametrize("stream", STREAMS)
def test_the_steps_follow_each_other(dags: dict[str, Any], stream: str) -> None:
    dag = dags[f"daily_detection_{stream}"]
    assert sorted(dag.task_ids) == sorted(STEPS)
    for step, next_step in zip(STEPS, [*STEPS[1:], None], strict=True):
        assert dag.get_task(step).downstream_task_ids == ({next_step} if next_step else set())


@pytest.mark.parametrize("stream", STREAMS)
def test_the_last_step_updates_the_asset_of_the_events(dags: dict[str, Any], stream: str) -> None:
    outlets = {task.task_id: [asset.uri for asset in task.outlets] for task in dags[f"daily_detection_{stream}"].tasks}
    assert outlets == {**{step: [] for step in STEPS}, "publish": [f"cep://{stream}/events"]}


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
    from airflow.sdk.exceptions import AirflowFailException
    from cep_tasks import business_day

    with pytest.raises(AirflowFailException, match="2013-10-07"):
        business_day(context(**given), "UTC")


@pytest.mark.parametrize("run_type", ["backfill", "scheduled"])
def test_a_run_whose_parameter_names_another_day_fails_for_good(airflow_home: Path, run_type: str) -> None:
    from airflow.sdk.exceptions import AirflowFailException
    from cep_tasks import business_day

    with pytest.raises(AirflowFailException, match=r"2013-10-09.*2013-10-11: leave `day` empty in a backfill"):
        business_day(context(day="2013-10-11", logical_date=MIDNIGHT_UTC, run_type=run_type), "UTC")


def test_wrong_input_and_failed_data_are_not_retried(airflow_home: Path) -> None:
    from airflow.sdk.exceptions import AirflowFailException
    from cep_tasks import failures_explained

    too_many = LimitExceeded("bursts", "max_matches 7", "2025-01-06")
    for error in (InputError("no such file"), DataError("price is negative"), too_many):
        with pytest.raises(AirflowFailException, match=re.escape(str(error))), failures_explained():
            raise error
    for passing in (BusyError("held by another run"), OSError("disk full")):
        with pytest.raises(type(passing)), failures_explained():
            raise passing


Step = tuple[str, DayTask, str | None]


@pytest.fixture
def steps(airflow_home: Path, monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """The steps that tasks hand to the shared application, which does nothing here."""
    given: list[Step] = []
    monkeypatch.setenv("CEP_CONFIG", "/etc/cep/pipeline.yaml")

    def take(step: str, task: DayTask, master: str | None) -> bool:
        given.append((step, task, master))
        return step in DONE_AFTER

    monkeypatch.setattr("cep_pipeline.pipeline.tasks.run_step", take)
    return given


DONE_AFTER: set[str] = {"publish"}


def do_step(monkeypatch: pytest.MonkeyPatch, step: str, **params: str | bool) -> None:
    import cep_tasks

    given = context(logical_date=datetime(2013, 10, 7, tzinfo=UTC), run_type="backfill")
    given["params"].update(params)
    monkeypatch.setattr(cep_tasks, "get_current_context", lambda: given)
    cep_tasks.run_step(step, "trades", "UTC")


@pytest.mark.parametrize("ends", [False, True])
def test_a_step_is_given_configuration_stream_day_run_and_master(
    steps: list[Step], monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    for step in ("ingest", "publish"):
        do_step(monkeypatch, step, pattern_set="market", end_of_stream=ends)
    task = DayTask(Path("/etc/cep/pipeline.yaml"), "trades", date(2013, 10, 7), "manual__1", "market", ends)
    assert steps == [("ingest", task, "local[2]"), ("publish", task, "local[2]")]


@pytest.mark.parametrize(
    ("connection", "master"),
    [
        ('{"conn_type": "spark", "host": "spark://spark-master", "port": 7077}', "spark://spark-master:7077"),
        ('{"conn_type": "spark", "host": "local[*]", "extra": {"deploy-mode": "client"}}', "local[*]"),
        (None, None),
    ],
)
def test_the_connection_names_the_master(
    airflow_home: Path, monkeypatch: pytest.MonkeyPatch, connection: str | None, master: str | None
) -> None:
    from airflow.sdk import Connection
    from airflow.sdk.exceptions import AirflowNotFoundException
    from cep_tasks import spark_master

    if connection is None:

        def missing(conn_id: str) -> Any:
            raise AirflowNotFoundException(conn_id)

        monkeypatch.setattr(Connection, "get", missing)
    else:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", connection)
    assert spark_master() == master


def test_what_follows_a_day_without_a_file_is_skipped(steps: list[Step], monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    monkeypatch.setattr(f"{__name__}.DONE_AFTER", {"validate", "publish"})
    do_step(monkeypatch, "ingest")
    with pytest.raises(AirflowSkipException, match="2013-10-07 has no file"):
        do_step(monkeypatch, "validate")


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


def test_stale_days_are_redone_and_where_there_are_none_the_task_is_skipped(
    airflow_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cep_tasks
    from airflow.sdk.exceptions import AirflowSkipException

    monkeypatch.setattr(cep_tasks, "get_current_context", context)
    found = ["2013-10-08"]
    monkeypatch.setattr("cep_pipeline.pipeline.tasks.redo_stale", lambda *_: found)
    assert cep_tasks.redo_stale_days("trades") == ["2013-10-08"]
    found.clear()
    with pytest.raises(AirflowSkipException, match="no day is stale"):
        cep_tasks.redo_stale_days("trades")
