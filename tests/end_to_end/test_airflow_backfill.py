"""The DAG by the real scheduler: a backfill of three days makes the tables that `cep run` makes."""

from __future__ import annotations

import gzip
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from cep_pipeline.generate import generate_days
from cep_pipeline.warehouse import StreamTables, Warehouse

CHECKOUT = Path(__file__).resolve().parents[2]
STREAM = "generated_trades"
DAG = f"daily_detection_{STREAM}"
FIRST = date(2025, 1, 6)
DAYS = [FIRST + timedelta(days=k) for k in range(3)]
BACKFILL_S = 600

PATTERNS = """
NAME rising
PATTERN SEQ(SPY a, BAC b, SPY c)
WHERE a.price < c.price AND b.diff > 0
WITHIN 2 seconds;

NAME together
PATTERN AND(AIG a, IBM b)
WHERE a.size = b.size
WITHIN 5 seconds;
"""


def write_pipeline(folder: Path, name: str) -> Path:
    """A pipeline over the generated days, with a warehouse of its own."""
    stream = {
        "schema": str(CHECKOUT / "streams" / f"{STREAM}.yaml"),
        "data": "raw",
        "pattern_sets": {"market": {"file": "patterns.sase"}},
    }
    configuration = folder / f"{name}.yaml"
    settings = {
        "streams": {STREAM: stream},
        "warehouse": {"location": f"warehouse_{name}"},
        "spark": {"master": "local[2]"},
    }
    configuration.write_text(yaml.safe_dump(settings))
    return configuration


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("end_to_end")
    generate_days(folder / "raw", DAYS, stocks=4, events_per_day=4_000, seed=11)
    # One row that is rejected, so that quarantine is compared too.
    path = folder / "raw" / DAYS[1].isoformat() / "trades.csv.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()) + b'"SPY",no time,1.0,100,"P",false\n'))
    (folder / "patterns.sase").write_text(PATTERNS)
    return folder


@pytest.fixture(scope="module")
def environment() -> Iterator[None]:
    """What the processes of this module get: a Java that starts fast, and no runs but those of the backfill."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        patch.setenv("AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE", "False")
        yield


@pytest.fixture(scope="module")
def command(folder: Path, environment: None) -> Iterator[subprocess.Popen[str]]:
    """`cep run` over the days, running while Airflow starts."""
    configuration = write_pipeline(folder, "command")
    days = ["--from", DAYS[0].isoformat(), "--to", DAYS[-1].isoformat()]
    arguments = ["-m", "cep_pipeline.cli", "run", "--config", str(configuration), "--stream", STREAM, *days]
    with subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        yield process
        process.kill()


@pytest.fixture(scope="module")
def tables_of_the_command(folder: Path, command: subprocess.Popen[str]) -> StreamTables:
    said, _ = command.communicate()
    assert command.returncode == 0, said
    return Warehouse.open(folder / "warehouse_command").open_stream(STREAM)


@pytest.fixture(scope="module")
def airflow(folder: Path, command: subprocess.Popen[str]) -> Iterator[Any]:
    """An Airflow of its own, started and stopped by the script behind `make airflow`, after the backfill."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(CHECKOUT / "scripts"))
        from airflow_local import LocalAirflow

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        configuration = write_pipeline(folder, "airflow")
        with LocalAirflow(folder / "home", port, configuration, "local[2]") as airflow:
            assert airflow.import_errors() == []
            assert DAG in airflow.dag_ids()
            airflow.run("dags", "unpause", DAG)
            bounds = ["--from-date", DAYS[0].isoformat(), "--to-date", DAYS[-1].isoformat()]
            airflow.run("backfill", "create", "--dag-id", DAG, *bounds, "--max-active-runs", "1")
            wait_for_runs(airflow)
            yield airflow
            family = [p for part in airflow.processes.values() for p in psutil.Process(part.pid).children(True)]
        assert not any(process.is_running() for process in family)
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0


def wait_for_runs(airflow: Any) -> None:
    deadline = time.monotonic() + BACKFILL_S
    states: dict[str, str] = {}
    while time.monotonic() < deadline:
        airflow.check_alive()
        runs = airflow.get(f"/dags/{DAG}/dagRuns")["dag_runs"]
        states = {run["partition_key"]: run["state"] for run in runs if run["run_type"] == "backfill"}
        if "failed" in states.values():
            break
        if len(states) == len(DAYS) and set(states.values()) == {"success"}:
            return
        time.sleep(2)
    pytest.fail(f"the backfill did not succeed: {states}\n{task_logs(airflow.home)}")


def task_logs(home: Path) -> str:
    """The ends of the logs of the tasks, the latest last."""
    logs = sorted(home.glob("logs/dag_id=*/**/*.log"), key=lambda path: path.stat().st_mtime)
    return "\n".join(f"== {path}\n{path.read_text(errors='replace')[-3000:]}" for path in logs[-3:])


@pytest.fixture(scope="module")
def tables_of_airflow(folder: Path, airflow: Any) -> StreamTables:
    return Warehouse.open(folder / "warehouse_airflow").open_stream(STREAM)


def test_events_and_rejected_rows_are_the_same(
    tables_of_airflow: StreamTables, tables_of_the_command: StreamTables
) -> None:
    events = tables_of_airflow.read_events()
    assert events.num_rows > 10_000
    assert events.equals(tables_of_the_command.read_events())
    rejected = tables_of_airflow.read_quarantine()
    assert rejected.num_rows == 1
    assert rejected.equals(tables_of_the_command.read_quarantine())
    assert published(tables_of_airflow) == published(tables_of_the_command)


def published(tables: StreamTables) -> list[tuple[date, int, str]]:
    return [(day.day, day.events, day.fingerprint.digest) for day in tables.days()]


def test_statistics_and_plans_are_the_same(
    tables_of_airflow: StreamTables, tables_of_the_command: StreamTables
) -> None:
    for day in DAYS:
        of_airflow = tables_of_airflow.read_statistics("market", day)
        assert of_airflow is not None
        assert of_airflow == tables_of_the_command.read_statistics("market", day)
    plans = tables_of_airflow.plans("market")
    assert [plan.version for plan in plans] == [1], "a plan is made only where there is none"
    assert [(p.plan, p.explain) for p in plans] == [(p.plan, p.explain) for p in tables_of_the_command.plans("market")]


def test_matches_are_the_same(tables_of_airflow: StreamTables, tables_of_the_command: StreamTables) -> None:
    matches = tables_of_airflow.read_matches("market")
    assert set(matches["pattern"].to_pylist()) == {"rising", "together"}
    assert set(matches["final_day"].to_pylist()) == set(DAYS)
    assert matches.equals(tables_of_the_command.read_matches("market"))


def test_each_day_has_one_run_that_succeeded(tables_of_airflow: StreamTables) -> None:
    runs = {run.day: run for run in tables_of_airflow.runs()}
    assert sorted(runs) == DAYS
    for day, run in runs.items():
        assert run.status == "succeeded"
        assert run.run_id.startswith("backfill__")
        assert run.events == tables_of_airflow.read_events(day, day).num_rows
        assert run.plans == {"market": 1}
        assert run.validation is not None and run.validation["success"]
        assert sum(run.matches.values()) == tables_of_airflow.read_matches("market", day, day).num_rows


def test_nothing_is_stale_and_no_lease_is_held(folder: Path, tables_of_airflow: StreamTables) -> None:
    assert tables_of_airflow.stale_days() == []
    assert Warehouse.open(folder / "warehouse_airflow").leases() == []


def test_the_page_shows_the_runs_and_leads_to_airflows(airflow: Any) -> None:
    login = json.dumps({"username": "admin", "password": airflow.password}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{airflow.address}/auth/token", login, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        token = json.load(answer)["access_token"]
    request = urllib.request.Request(f"{airflow.address}/cep/", headers={"Cookie": f"_token={token}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        page = answer.read().decode()
    for day in DAYS:
        assert day.isoformat() in page
    assert page.count(">DAG run</a>") == len(DAYS)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{airflow.address}/cep/", timeout=30)
