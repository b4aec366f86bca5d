"""A backfill with several days on their way at once, by the real scheduler, while parts of it are killed.

In the middle of it the Spark Connect server is killed, and then the scheduler with all of its tasks, as when a machine
goes down. Both are started again, the tasks are tried again, and in the end the tables are those of one `cep
run`. Then tasks are cleared, and a day is run by `airflow dags test`.

It is a long test: two days, and with `make test-all` ten, over a weekend, for which there are no files.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from cep_pipeline.generate import generate_days
from cep_pipeline.pipeline.configuration import Configuration
from cep_pipeline.warehouse.stream_tables import StreamTables
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.end_to_end.drifting_trades import CHECKOUT, DAG, STALE, STREAM
from tests.thoroughness import ALL

pytestmark = pytest.mark.long

FIRST = date(2025, 1, 6) if ALL else date(2025, 1, 10)
LAST = FIRST + timedelta(days=9 if ALL else 1)
DAYS = [FIRST + timedelta(days=k) for k in range((LAST - FIRST).days + 1)]
TRADING = [day for day in DAYS if day.weekday() < 5]
AT_ONCE = 4
WAIT_S = 900
QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
SOON = {
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "30",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "90",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "3",
}
"""Settings by which the scheduler sees soon that another one is gone with its tasks; on a busy machine not too soon."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parallel")
    generate_days(folder / "raw", TRADING, stocks=8, events_per_day=3_000, seed=5)
    return folder


def write_pipeline(folder: Path, name: str) -> Path:
    stream = {
        "schema": str(CHECKOUT / "streams" / f"{STREAM}.yaml"),
        "data": "raw",
        "statistics": {"window": "1 minute"},
        "pattern_sets": {"market": {"file": str(CHECKOUT / "patterns" / f"{STREAM}.sase")}},
    }
    path = folder / f"{name}.yaml"
    settings = {"location": f"warehouse_{name}"}, {"master": "local[2]", "properties": QUICK}
    path.write_text(yaml.safe_dump({"streams": {STREAM: stream}, "warehouse": settings[0], "spark": settings[1]}))
    return path


def tables_of(folder: Path, name: str) -> StreamTables:
    stream = Configuration.load(folder / f"{name}.yaml").stream(STREAM)
    return Warehouse.open(folder / f"warehouse_{name}").stream(stream.schema)


@pytest.fixture(scope="module")
def sequential(folder: Path) -> StreamTables:
    """The tables of one `cep run` over all days."""
    command = [sys.executable, "-m", "cep_pipeline.cli", "run", "--config", str(write_pipeline(folder, "command"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return tables_of(folder, "command")


@pytest.fixture(scope="module")
def airflow(folder: Path) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(CHECKOUT / "scripts"))
        for name, value in SOON.items():
            patch.setenv(name, value)
        from airflow_local import LocalAirflow

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with LocalAirflow(folder / "home", port, write_pipeline(folder, "airflow"), "local[2]") as airflow:
            yield airflow


@pytest.fixture(scope="module")
def killed_backfill(folder: Path, airflow: Any) -> list[str]:
    """Run the backfill to its end; returns what was killed on the way."""
    airflow.run("dags", "unpause", DAG)
    bounds = ["--from-date", str(FIRST), "--to-date", str(LAST)]
    airflow.run("backfill", "create", "--dag-id", DAG, *bounds, "--max-active-runs", str(AT_ONCE))
    killed = []
    wait_until(airflow, lambda: any(one["state"] == "running" for one in tasks_of(airflow, "detect")), "detect")
    kill(airflow, "spark-connect")
    airflow.start_component("spark-connect")  # as whoever supervises it does
    killed.append("Spark")
    wait_until(airflow, lambda: bool(published_days(folder)), "the first day")
    kill(airflow, "scheduler")
    killed.append("scheduler")
    airflow.start_component("scheduler")
    wait_until(airflow, lambda: len(ended(airflow)) == len(DAYS), f"all of {len(DAYS)} days")
    return killed


def wait_until(airflow: Any, condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        airflow.check_alive()
        states = {run["dag_run_id"]: run["state"] for run in runs_of(airflow)}
        assert "failed" not in states.values(), f"{states}\n{task_logs(airflow.home)}"
        assert time.monotonic() < deadline, f"{what} did not come: {states}\n{task_logs(airflow.home)}"
        time.sleep(0.2)


def task_logs(home: Path) -> str:
    logs = sorted(home.glob("logs/dag_id=*/**/*.log"), key=lambda path: path.stat().st_mtime)
    return "\n".join(f"== {path}\n{path.read_text(errors='replace')[-3000:]}" for path in logs[-3:])


def runs_of(airflow: Any, dag: str = DAG) -> list[dict[str, Any]]:
    return list(airflow.get(f"/dags/{dag}/dagRuns?limit=100")["dag_runs"])


def ended(airflow: Any) -> list[str]:
    runs = [run for run in runs_of(airflow) if run["run_type"] == "backfill"]
    return [run["dag_run_id"] for run in runs if run["state"] == "success"]


def tasks_of(airflow: Any, task: str) -> list[dict[str, Any]]:
    found = airflow.get(f"/dags/{DAG}/dagRuns/~/taskInstances?limit=1000")["task_instances"]
    return [one for one in found if one["task_id"] == task]


def published_days(folder: Path) -> set[date]:
    return {unit.final_day for unit in tables_of(folder, "airflow").matches_days()}


def kill(airflow: Any, component: str) -> None:
    """Kill a component with all that it has started, as when its machine goes down."""
    process = psutil.Process(airflow.processes[component].pid)
    for one in [process, *process.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            one.kill()
    airflow.processes[component].wait()


@pytest.mark.long
def test_matches_and_events_are_those_of_one_sequential_run(
    folder: Path, killed_backfill: list[str], airflow: Any, sequential: StreamTables
) -> None:
    assert killed_backfill == ["Spark", "scheduler"]
    parallel = tables_of(folder, "airflow")
    if parallel.stale_days():  # a day that waited in vain for one that had been killed
        airflow.run("dags", "unpause", STALE)
        airflow.api.post(
            f"/dags/{STALE}/dagRuns", json={"dag_run_id": "by_hand", "logical_date": None}
        ).raise_for_status()
        wait_until(airflow, lambda: [run["state"] for run in runs_of(airflow, STALE)] == ["success"], "stale days")
    assert parallel.stale_days() == []
    assert [day.day for day in parallel.days()] == TRADING
    assert parallel.read_events().equals(sequential.read_events())
    matches = parallel.read_matches("market")
    assert matches.num_rows > 100 * len(TRADING)
    assert matches.equals(sequential.read_matches("market"))
    assert parallel.warehouse.leases() == []
    runs = {run.day: run.status for run in parallel.runs() if run.day in DAYS}
    assert runs == dict.fromkeys(DAYS, "succeeded")


def test_days_without_a_file_are_skipped_after_validate(killed_backfill: list[str], airflow: Any) -> None:
    by_state: dict[str, set[str]] = {}
    for run in ended(airflow):
        found = airflow.get(f"/dags/{DAG}/dagRuns/{urllib.parse.quote(run)}/taskInstances")["task_instances"]
        states = {one["task_id"]: one["state"] for one in found}
        assert states["ingest"] == "success"
        by_state.setdefault(states["validate"], set()).add(run)
        assert states["publish"] == states["validate"]
    assert len(by_state.get("success", ())) == len(TRADING)
    assert len(by_state.get("skipped", ())) == len(DAYS) - len(TRADING)


@pytest.mark.long
@pytest.mark.parametrize("task", ["ingest", "detect"])
def test_a_task_that_is_cleared_is_done_again_with_those_after_it(
    folder: Path, killed_backfill: list[str], airflow: Any, sequential: StreamTables, task: str
) -> None:
    runs = {run["dag_run_id"]: run["logical_date"] for run in runs_of(airflow)}
    run = next(run for run in ended(airflow) if runs[run].startswith(str(TRADING[0])))
    before = tables_of(folder, "airflow").runs()
    asked = {"dry_run": False, "dag_run_id": run, "task_ids": [task], "include_downstream": True, "only_failed": False}
    airflow.api.post(f"/dags/{DAG}/clearTaskInstances", json=asked).raise_for_status()
    wait_until(airflow, lambda: tables_of(folder, "airflow").runs() != before and run in ended(airflow), task)
    tables = tables_of(folder, "airflow")
    assert tables.read_matches("market").equals(sequential.read_matches("market"))
    assert tables.stale_days() == []


@pytest.mark.long
def test_a_day_runs_by_airflow_dags_test(folder: Path, killed_backfill: list[str], airflow: Any) -> None:
    """The DAG is paused, so that the scheduler does not run the same tasks at the same time."""
    before = tables_of(folder, "airflow").read_matches("market")
    airflow.run("dags", "pause", DAG)
    airflow.run("dags", "test", DAG, "--conf", f'{{"day": "{TRADING[-1]}"}}', timeout_s=WAIT_S)
    tables = tables_of(folder, "airflow")
    assert tables.read_matches("market").equals(before)
    assert tables.runs()[0].day == TRADING[-1] and tables.runs()[0].status == "succeeded"
