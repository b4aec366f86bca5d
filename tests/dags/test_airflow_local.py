"""Starting Airflow on this machine: what can be wrong before it starts. The end-to-end tests start it for real."""

from __future__ import annotations

import json
import socket
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dags.conftest import CHECKOUT

SCRIPT = CHECKOUT / "scripts" / "airflow_local.py"


def start(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_a_port_in_use_is_said_with_another_to_take(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = start("--port", str(port), "--home", str(tmp_path / "home"))
    assert done.returncode == 2
    assert f"port {port} on 127.0.0.1 cannot be used: Address already in use" in done.stderr
    assert f"make airflow ARGS='--port {port + 1}'" in done.stderr
    assert not (tmp_path / "home").exists(), "nothing is left of a start that was refused"


def test_a_missing_configuration_is_said(tmp_path: Path) -> None:
    done = start("--port", "0", "--home", str(tmp_path / "home"), "--config", str(tmp_path / "none.yaml"))
    assert done.returncode == 2
    assert "none.yaml: no such pipeline configuration" in done.stderr


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):  # type: ignore[no-untyped-def]
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from airflow_local import LocalAirflow

    (tmp_path / "home").mkdir()
    return LocalAirflow(tmp_path / "home", 8123, spark_master="spark://host:7077")


def test_the_token_is_made_once_and_is_the_users_own(local, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    first, second = local.environment(), local.environment()
    assert first["AIRFLOW_CONN_SPARK_DEFAULT"] == second["AIRFLOW_CONN_SPARK_DEFAULT"]
    assert stat.S_IMODE((tmp_path / "home" / "spark_token").stat().st_mode) == 0o600


def test_a_shell_that_reads_the_environment_file_knows_this_airflow(  # type: ignore[no-untyped-def]
    local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = "postgresql+psycopg2://cep:a word's quote@host/airflow"
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", database)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not for a file")
    local.environment_file.write_text("# of before, readable by all")
    local.write_environment_file()
    file = tmp_path / "home" / "env"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    monkeypatch.chdir(tmp_path)
    read, unpause = local.commands(["maintain", "daily_detection_cold_rooms", "daily_detection_others"])
    assert read == ". home/env"
    assert unpause == "airflow dags unpause --yes --treat-dag-id-as-regex '_cold_rooms$'"
    show = "import json, os; print(json.dumps(dict(os.environ)))"
    line = f"{read} && \"{sys.executable}\" -c '{show}' && command -v airflow"
    done = subprocess.run(["sh", "-c", line], env={"PATH": "/bin"}, capture_output=True, text=True, check=True)
    shown, place = done.stdout.splitlines()
    known = json.loads(shown)
    assert Path(place) == Path(sys.executable).parent / "airflow"
    assert known["PATH"].endswith(":/bin")
    assert known["AIRFLOW_HOME"] == str(tmp_path / "home")
    assert known["AIRFLOW__CORE__DAGS_FOLDER"] == str(CHECKOUT / "dags")
    assert known["AIRFLOW__CORE__PLUGINS_FOLDER"] == str(CHECKOUT / "plugins"), "the schedules of DAGs are there"
    assert known["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] == database
    assert known["CEP_CONFIG"] == str(CHECKOUT / "pipeline.yaml")
    assert "AWS_SECRET_ACCESS_KEY" not in known


def test_it_listens_on_the_loopback_interface(local) -> None:  # type: ignore[no-untyped-def]
    environment = local.environment()
    assert environment["AIRFLOW__API__HOST"] == "127.0.0.1"
    assert environment["AIRFLOW__API__BASE_URL"] == "http://127.0.0.1:8123"


def test_spark_is_a_connect_server_on_the_master_asked_for(local) -> None:  # type: ignore[no-untyped-def]
    connection = json.loads(local.environment()["AIRFLOW_CONN_SPARK_DEFAULT"])
    assert (connection["conn_type"], connection["host"]) == ("spark_connect", "localhost")
    command = local.spark_command("spark-connect")
    assert command[1:3] == ["--master", "spark://host:7077"]
    assert f"spark.connect.grpc.binding.port={connection['port']}" in command
    assert "spark.connect.grpc.binding.address=127.0.0.1" in command
    token = local.spark_environment()["SPARK_CONNECT_AUTHENTICATE_TOKEN"]
    assert connection["password"] == token and not any(token in part for part in command)


def test_a_process_that_has_read_may_write_behind_others(local, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """So it is with each run of a backfill that is created; the others are the scheduler and the api-server."""
    environment = {"PATH": "/bin", **{name: text for name, text in local.environment().items() if "AIRFLOW" in name}}
    environment["PYTHONPATH"] = str(CHECKOUT)
    database = tmp_path / "home" / "airflow.db"
    sqlite3.connect(database).execute("CREATE TABLE run (day INTEGER)").connection.close()
    command = [sys.executable, "-c", CREATES_RUNS, str(database)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "60000 ms, runs [1, 2]"


CREATES_RUNS = """
import sqlite3, sys, threading, time
from sqlalchemy import text
from airflow import settings

def write(held_s):
    other = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    begun.set()
    time.sleep(held_s)
    other.execute("INSERT INTO run VALUES (1)")
    other.execute("COMMIT")

with settings.Session() as session:
    waits = session.scalar(text("PRAGMA busy_timeout"))
    begun = threading.Event()
    with session.begin_nested():
        session.execute(text("SELECT * FROM run")).all()
        other = threading.Thread(target=write, args=(0.2,))
        other.start()
        begun.wait(1)
        session.execute(text("INSERT INTO run VALUES (2)"))
    session.commit()
    other.join()
    print(f"{waits} ms, runs", sorted(session.scalars(text("SELECT day FROM run"))))
"""


def test_another_database_has_no_arguments_of_sqlite(local, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_CMD", "echo postgresql+psycopg2://host/airflow")
    assert not any("CONNECT_ARGS" in name for name in local.environment())
