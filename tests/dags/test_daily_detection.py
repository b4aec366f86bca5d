from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from cep_pipeline.errors import BusyError, DataError, InputError
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


def test_a_last_step_that_runs_on_spark_updates_the_asset_too(
    dags: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.dag_processing.dagbag import DagBag

    from cep_pipeline.pipeline import day

    shorter = day.STEPS[:-1]
    assert shorter[-1].needs_spark
    monkeypatch.setattr(day, "STEPS", shorter)
    bag = DagBag(str(CHECKOUT / "dags" / "daily_detection.py"), bundle_name="dags-folder")
    assert bag.import_errors == {}
    for stream in STREAMS:
        tasks = bag.dags[f"daily_detection_{stream}"].tasks
        outlets = {task.task_id: [asset.uri for asset in task.outlets] for task in tasks}
        assert outlets == {**{step.name: [] for step in shorter}, shorter[-1].name: [f"cep://{stream}/events"]}


@pytest.mark.parametrize("name", ["daily_detection", "invariant_check", "invariant_check_days", "replanning"])
@pytest.mark.parametrize("stream", STREAMS)
def test_one_run_at_a_time_and_retries_that_wait_longer_each_time(dags: dict[str, Any], stream: str, name: str) -> None:
    dag = dags[f"{name}_{stream}"]
    assert dag.max_active_runs == 1
    assert dag.catchup is False
    for task in dag.tasks:
        assert task.retries > 0
        assert task.retry_exponential_backoff


def test_spark_work_is_submitted_on_the_default_connection(dags: dict[str, Any]) -> None:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

    dag = dags["daily_detection_us_equity_trades"]
    jobs = {task.task_id: task for task in dag.tasks if isinstance(task, SparkSubmitOperator)}
    assert sorted(jobs) == ["detect", "estimate_statistics", "ingest", "preprocess"]
    for name, job in jobs.items():
        assert job._conn_id == "spark_default"
        assert Path(job.application) == CHECKOUT / "spark_jobs" / f"{name}.py"
        assert Path(job.application).is_file()


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


def serialized_timetable(dags: dict[str, Any], stream: str) -> Any:
    from airflow.serialization.serialized_objects import DagSerialization

    return DagSerialization.from_dict(DagSerialization.to_dict(dags[f"daily_detection_{stream}"])).timetable


@pytest.mark.parametrize("stream", ["us_equity_trades", "aarhus_traffic"])
@pytest.mark.parametrize(
    ("first", "last"), [("2013-10-07", "2013-10-09"), ("2014-03-08", "2014-03-10"), ("2014-10-25", "2014-11-03")]
)
def test_a_backfill_has_each_day_once_both_ends_included(
    dags: dict[str, Any], stream: str, first: str, last: str
) -> None:
    # Over the changes to and from daylight saving time too.
    bounds = [datetime.fromisoformat(day).replace(tzinfo=UTC) for day in (first, last)]
    runs = serialized_timetable(dags, stream).iter_partition_dagrun_infos(earliest=bounds[0], latest=bounds[1])
    days = range(bounds[0].toordinal(), bounds[1].toordinal() + 1)
    assert [run.partition_key for run in runs] == [date.fromordinal(day).isoformat() for day in days]


def test_a_scheduled_run_is_for_the_day_that_just_ended(dags: dict[str, Any]) -> None:
    from airflow.timetables.base import TimeRestriction

    timetable = serialized_timetable(dags, "us_equity_trades")
    start = datetime(2013, 10, 8, 1, tzinfo=UTC)
    run = timetable.next_dagrun_info_v2(last_dagrun_info=None, restriction=TimeRestriction(start, None, True))
    assert (run.run_after, run.partition_key) == (datetime(2013, 10, 8, 4, tzinfo=UTC), "2013-10-07")


def context(
    day: str | None = None, partition: str | None = None, logical_date: datetime | None = None
) -> dict[str, Any]:
    run = SimpleNamespace(partition_key=partition, logical_date=logical_date)
    return {"params": {"day": day, "pattern_set": None}, "dag_run": run, "run_id": "manual__1"}


MIDNIGHT_UTC = datetime(2013, 10, 9, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "timezone", "expected"),
    [
        ({"day": "2013-10-07"}, "UTC", date(2013, 10, 7)),
        ({"day": "2013-10-07", "partition": "2013-10-08", "logical_date": MIDNIGHT_UTC}, "UTC", date(2013, 10, 7)),
        ({"partition": "2013-10-08", "logical_date": MIDNIGHT_UTC}, "UTC", date(2013, 10, 8)),
        ({"logical_date": MIDNIGHT_UTC}, "UTC", date(2013, 10, 9)),
        ({"logical_date": MIDNIGHT_UTC}, "America/New_York", date(2013, 10, 8)),
        ({"logical_date": MIDNIGHT_UTC}, "Asia/Tokyo", date(2013, 10, 9)),
    ],
)
def test_the_business_day_comes_from_parameter_partition_or_logical_date(
    airflow_home: Path, given: dict[str, Any], timezone: str, expected: date
) -> None:
    from cep_tasks import business_day

    assert business_day(context(**given), timezone) == expected


@pytest.mark.parametrize("given", [{}, {"day": "yesterday"}, {"partition": "2013-10-07|SPY"}])
def test_a_run_without_a_day_fails_for_good(airflow_home: Path, given: dict[str, Any]) -> None:
    from airflow.sdk.exceptions import AirflowFailException
    from cep_tasks import business_day

    with pytest.raises(AirflowFailException, match="2013-10-07"):
        business_day(context(**given), "UTC")


def test_wrong_input_and_failed_data_are_not_retried(airflow_home: Path) -> None:
    from airflow.sdk.exceptions import AirflowFailException
    from cep_tasks import failures_explained

    for error in (InputError("no such file"), DataError("price is negative")):
        with pytest.raises(AirflowFailException, match=str(error)), failures_explained():
            raise error
    for passing in (BusyError("held by another run"), OSError("disk full")):
        with pytest.raises(type(passing)), failures_explained():
            raise passing


def submit(folder: Path, monkeypatch: pytest.MonkeyPatch, exit_code: int, **params: str | bool) -> str:
    """Run the ingest job with a spark-submit that notes its command and ends with an exit code."""
    from cep_tasks import SparkJob

    command = folder / "spark-submit"
    command.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {folder}/arguments\necho the reason\nexit {exit_code}\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CEP_CONFIG", "/etc/cep/pipeline.yaml")
    given = context(partition="2013-10-07")
    given["params"].update(params)
    SparkJob(task_id="ingest", job="ingest", stream="trades", timezone="UTC").execute(given)
    return (folder / "arguments").read_text()


@pytest.mark.parametrize("ends", [False, True])
def test_a_step_without_spark_is_given_the_same_as_a_job(
    airflow_home: Path, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    import cep_tasks

    given = context(partition="2013-10-07")
    given["params"].update(pattern_set="market", end_of_stream=ends)
    done: list[tuple[str, DayTask]] = []
    monkeypatch.setenv("CEP_CONFIG", "/etc/cep/pipeline.yaml")
    monkeypatch.setattr(cep_tasks, "get_current_context", lambda: given)
    monkeypatch.setattr("cep_pipeline.pipeline.tasks.run_task", lambda step, task: done.append((step, task)))
    cep_tasks.run_step("publish", "trades", "UTC")
    task = DayTask(Path("/etc/cep/pipeline.yaml"), "trades", date(2013, 10, 7), "manual__1", "market", ends)
    assert done == [("publish", task)]


def test_a_job_is_given_configuration_stream_day_and_run(
    airflow_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = submit(tmp_path, monkeypatch, 0, pattern_set="market", end_of_stream=True).splitlines()
    assert arguments[arguments.index("--master") + 1] == "local[2]"
    assert arguments[-7:] == [
        str(CHECKOUT / "spark_jobs" / "ingest.py"),
        "--config=/etc/cep/pipeline.yaml",
        "--stream=trades",
        "--day=2013-10-07",
        "--run-id=manual__1",
        "--pattern-set=market",
        "--end-of-stream",
    ]


@pytest.mark.parametrize(("exit_code", "final"), [(1, False), (2, True), (3, True), (4, False), (137, False)])
def test_the_exit_code_of_a_job_says_whether_it_is_retried(
    airflow_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exit_code: int, final: bool
) -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    with pytest.raises(AirflowException, match="the reason") as raised:
        submit(tmp_path, monkeypatch, exit_code)
    assert isinstance(raised.value, AirflowFailException) is final
