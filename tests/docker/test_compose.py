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

CHECKOUT = Path(__file__).resolve().parents[2]
COMPOSE = CHECKOUT / "docker-compose.yaml"
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
    location = yaml.safe_load((CHECKOUT / "docker" / "pipeline.yaml").read_text())["warehouse"]["location"]
    for name in ("scheduler", "api-server", "spark-worker"):
        assert f"warehouse:{location}" in services[name]["volumes"]


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


def test_the_image_is_made_of_what_is_there() -> None:
    dockerfile = (CHECKOUT / "docker" / "Dockerfile").read_text()
    copied = [source for line in re.findall(r"^COPY (.+)$", dockerfile, re.M) for source in line.split()[:-1]]
    shown = [line[1:] for line in (CHECKOUT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert sorted(copied) == sorted(shown)
    for source in copied:
        assert (CHECKOUT / source).exists(), source
    assert "USER cep" in dockerfile


def test_its_pipeline_is_the_checkouts_with_other_places() -> None:
    composed, local = (Configuration.load(CHECKOUT / path) for path in ("docker/pipeline.yaml", "pipeline.yaml"))
    assert composed.stream_names() == local.stream_names()
    for name in local.stream_names():
        here, there = local.stream_settings(name), composed.stream_settings(name)
        assert (composed.folder / there.schema_file).resolve() == (local.folder / here.schema_file).resolve()
        assert there.data == f"/var/lib/cep/raw/{name}"
        assert list(there.pattern_sets) == list(here.pattern_sets)
        for key, pattern_set in here.pattern_sets.items():
            file = composed.folder / there.pattern_sets[key].file
            assert file.resolve() == (local.folder / pattern_set.file).resolve()


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
