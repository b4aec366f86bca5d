"""docker-compose.yaml, run: its services as processes take a day of the shipped pipeline from raw files to matches."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cep_pipeline.generate import generate_days
from cep_pipeline.storage import id_texts
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.docker.composition import HOST, Composition, make_roles, make_secrets
from tests.postgresql import postgresql

DAY = date(2025, 1, 6)
STREAM = "generated_trades"
DAG = f"daily_detection_{STREAM}"
DONE_AFTER_S = 900.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The volumes, with one small day of raw trades."""
    folder = tmp_path_factory.mktemp("composition")
    for name in ("airflow", "warehouse"):
        (folder / name).mkdir()
    generate_days(folder / "raw" / STREAM, [DAY], stocks=4, events_per_day=3_000, seed=5)
    return folder


def matches(location: Path, catalog: str | None = None) -> pa.Table:
    """All matches, by their ids: in the table they are in the order of slices, and more cores make more slices."""
    found = Warehouse.open(location, catalog).open_stream(STREAM).read_matches("market")
    assert set(found["final_day"].to_pylist()) == {DAY}
    found = found.set_column(found.schema.get_field_index("match_id"), "match_id", id_texts(found["match_id"]))
    return found.sort_by([("pattern", "ascending"), ("match_id", "ascending")])


@pytest.fixture(scope="module")
def of_the_cluster(folder: Path) -> pa.Table:
    """Matches by `cep run` in the place of the scheduler, on the Spark services; SQLite is in place of PostgreSQL."""
    places = {name: f"sqlite:///{folder / name}.db" for name in ("airflow", "cep_catalog")}
    services = dict.fromkeys(("spark-master", "spark-worker", "spark-connect", "spark-history"), 1)
    with Composition(folder, places, services) as composition:
        remote = f"sc://{HOST}:{composition.connect}"
        done = composition.run("cep", "run", "--remote", remote, "--stream", STREAM, "--day", DAY.isoformat())
        assert done.returncode == 0, done.stdout + done.stderr
        # What a worker has written is the proof that it, and no thread of the driver, did the work.
        assert list(folder.glob("tmp-spark-worker/spark/app-*/0/stderr"))
        with urllib.request.urlopen(
            f"http://{HOST}:{composition.pages['spark-history']}/api/v1/applications"
        ) as answer:
            assert [one["name"] for one in json.load(answer)] == ["cep"]
        check_airflow_image(composition)
    return matches(folder / "warehouse", places["cep_catalog"])


def check_airflow_image(composition: Composition) -> None:
    """In its place there are neither Spark's jars nor Java, and yet the operators and the jobs are there."""
    code = (
        "import pathlib, pyspark, pyspark.util, operators, spark_jobs.ingest, spark_jobs.detect\n"
        "print(pyspark.util.is_remote_only(), pathlib.Path(pyspark.__file__).with_name('jars').exists())"
    )
    path = composition.environment("scheduler")["AIRFLOW__CORE__DAGS_FOLDER"]
    done = composition.run("env", f"PYTHONPATH={path}", "python", "-c", code)
    assert done.stdout.splitlines()[-1:] == ["True False"], done.stdout + done.stderr


@pytest.mark.long
def test_a_day_on_the_spark_services(of_the_cluster: pa.Table) -> None:
    assert of_the_cluster.num_rows > 100


@pytest.fixture(scope="module")
def all_services(folder: Path) -> Iterator[tuple[Composition, str]]:
    with postgresql() as server:
        (folder / "all" / "airflow").mkdir(parents=True)
        (folder / "all" / "raw").symlink_to(folder / "raw")
        make_roles(server, make_secrets(folder / "all"))
        places = {name: f"{server.replace('//cep@', f'//{name}@')}/{name}" for name in ("airflow", "cep_catalog")}
        services = {"airflow-start": 1, "spark-master": 1, "spark-worker": 2, "spark-connect": 1}
        services |= dict.fromkeys(("api-server", "scheduler", "dag-processor", "triggerer"), 1)
        with Composition(folder / "all", places, services) as composition:
            yield composition, places["cep_catalog"]


@pytest.mark.long
def test_a_day_through_all_services(all_services: tuple[Composition, str], of_the_cluster: pa.Table) -> None:
    composition, catalog = all_services
    for command in (
        ["dags", "unpause", DAG],
        ["backfill", "create", "--dag-id", DAG, "--from-date", str(DAY), "--to-date", str(DAY)],
    ):
        done = composition.run("airflow", *command)
        assert done.returncode == 0, done.stdout + done.stderr
    deadline = time.monotonic() + DONE_AFTER_S
    states: list[str] = []
    while states != ["success"]:
        assert time.monotonic() < deadline and "failed" not in states, (states, composition.log("scheduler"))
        time.sleep(3)
        runs = api(composition, f"/dags/{DAG}/dagRuns")["dag_runs"]
        states = [run["state"] for run in runs if run["run_type"] == "backfill"]
    assert api(composition, "/importErrors")["import_errors"] == []
    assert matches(composition.folder / "warehouse", catalog).equals(of_the_cluster)
    assert not (composition.folder / "warehouse" / "catalog.db").exists()
    seen = composition.run("cep", "status", "--stream", STREAM, service="api-server")
    assert seen.returncode == 0 and str(DAY) in seen.stdout, seen.stdout + seen.stderr  # with the role that reads only
    (logs,) = (composition.folder / "airflow" / "logs" / f"dag_id={DAG}").glob("run_id=backfill__*")
    assert {one.name for one in logs.iterdir()} >= {
        f"task_id={step}" for step in ("ingest", "validate", "preprocess", "detect", "publish")
    }
    (detected,) = logs.glob("task_id=detect/map_index=0/attempt=1.log")
    assert str(DAY) in detected.read_text(), "Airflow shows what the job said"


@pytest.mark.long
@pytest.mark.parametrize("guess", [None, "a-guess"])
def test_a_stranger_is_not_registered_by_the_master(tmp_path: Path, guess: str | None) -> None:
    """Who does not know the secret is told, after a minute, that Spark does not start; who knows it is registered."""
    code = "import sys; from cep_pipeline.spark.session import spark_session; spark_session(sys.argv[1]).stop()"
    with Composition(tmp_path, {}, {"spark-master": 1}) as composition:

        def asked(secret: str | None) -> subprocess.CompletedProcess[str]:
            secrets = tmp_path / f"known-{secret}"
            secrets.mkdir()
            if secret:
                (secrets / "spark_secret").write_text(secret)
            known = composition.environment("spark-master")
            known = {**known, "SPARK_CONF_DIR": str(tmp_path / f"of-{secret}"), "CEP_SECRETS": str(secrets)}
            command = composition._entered("spark-master", [sys.executable, "-c", code])
            master = f"spark://{HOST}:{composition.master}"
            return subprocess.run([*command, master], env=known, capture_output=True, text=True, check=False)

        right = (composition.secrets / "spark_secret").read_text()
        assert (done := asked(right)).returncode == 0, done.stderr
        refused = asked(guess)
        assert refused.returncode != 0
        assert "CepError: Spark does not start" in refused.stderr


def api(composition: Composition, path: str) -> Any:
    """The answer of Airflow's API to the user of the file."""
    address = f"http://127.0.0.1:{composition.page}"
    login = json.dumps({"username": "admin", "password": (composition.secrets / "admin_password").read_text()}).encode()
    asked = urllib.request.Request(f"{address}/auth/token", login, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        token = json.load(answer)["access_token"]
    asked = urllib.request.Request(f"{address}/api/v2{path}", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return json.load(answer)
