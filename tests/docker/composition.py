"""The services of docker-compose.yaml as processes of this machine: their commands, environment and health checks.

What stands in the file is what runs. Exchanged are only places that a process shares with others and a container does
not: paths, host names and ports. The database of the file's image is one that the test has started.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import yaml

from tests.spark.cluster import HOST, bare_environment, free_port, stop

CHECKOUT = Path(__file__).resolve().parents[2]
COMPOSE = CHECKOUT / "docker-compose.yaml"
HEALTHY_AFTER_S = 400.0
_DATABASE = re.compile(r"postgresql\+psycopg2://[^@]+@postgres/(\w+)")
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


def settings_of_the_image() -> dict[str, str]:
    """The environment variables that the Dockerfile sets."""
    text = (CHECKOUT / "docker" / "Dockerfile").read_text().replace("\\\n", " ")
    return dict(pair.split("=", 1) for line in re.findall(r"^ENV (.+)$", text, re.M) for pair in line.split())


def entry_of_the_image() -> list[str]:
    """The entry point of the Dockerfile, without `tini`: that is for the first process of a container."""
    (text,) = re.findall(r"^ENTRYPOINT (.+)$", (CHECKOUT / "docker" / "Dockerfile").read_text(), re.M)
    first, dashes, *entry = json.loads(text)
    assert (first, dashes) == ("tini", "--")
    return [str(part) for part in entry]


def filled(content: Any, settings: dict[str, str]) -> Any:
    """A part of the file with the settings of `.env` put in, as docker-compose does."""
    if isinstance(content, dict):
        return {key: filled(value, settings) for key, value in content.items()}
    if isinstance(content, list):
        return [filled(value, settings) for value in content]
    if isinstance(content, str):
        return _VARIABLE.sub(lambda found: settings.get(found[1]) or (found[3] if found[2] == "-" else ""), content)
    return content


@dataclass
class Composition:
    """Some services of the file, started in the order of what they depend on.

    Parameters
    ----------
    folder
        In place of the containers' volumes (/var/lib/cep).
    databases
        Addresses in place of those of PostgreSQL's two databases, by their names in the file: airflow and cep_catalog.
    settings
        The `.env` file.
    wanted
        The services, each with its number of processes; the database is not among them.
    further
        Environment variables that a user has added to all services.
    """

    folder: Path
    databases: dict[str, str]
    settings: dict[str, str]
    wanted: dict[str, int]
    further: dict[str, str] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.page, self.master, self.master_page = free_port(), free_port(), free_port()
        self.settings = {**self.settings, "AIRFLOW_PORT": str(self.page)}
        self.services: dict[str, Any] = filled(yaml.safe_load(COMPOSE.read_text())["services"], self.settings)
        self.pages = {name: free_port() for name, number in self.wanted.items() for name in self._names(name, number)}
        self.pages |= {"api-server": self.page, "spark-master": self.master_page}
        # Of tasks and triggers; each container has the default ports for itself.
        ports = ("AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT", "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT")
        self.log_ports = {name: str(free_port()) for name in ports}

    @staticmethod
    def _names(service: str, number: int) -> list[str]:
        return [service if number == 1 else f"{service}-{one}" for one in range(1, number + 1)]

    def exchanged(self, text: str, page: int) -> str:
        """A text of the file with this machine's places; `page` is the port of the service's own pages."""
        places = {
            "spark://spark-master:7077": f"spark://{HOST}:{self.master}",
            '"spark://spark-master", "port": 7077': f'"spark://{HOST}", "port": {self.master}',
            "http://api-server:8080": f"http://{HOST}:{self.page}",
            "http://spark-master:8080": f"http://{HOST}:{self.master_page}",
            "http://localhost:8080": f"http://{HOST}:{page}",
            "http://localhost:8081": f"http://{HOST}:{page}",
            "/var/lib/cep": str(self.folder),
            "/opt/cep": str(CHECKOUT),
            "/opt/venv": sys.prefix,
            "/tmp/spark": str(self.folder / "spark"),
        }
        text = _DATABASE.sub(lambda found: self.databases[found[1]], text)
        for before, after in places.items():
            text = text.replace(before, after)
        own = {"0.0.0.0": HOST, "spark-master": HOST}
        own |= {"7077": str(self.master), "8080": str(page), "8081": str(page)}
        return own.get(text, text)

    def environment(self, service: str) -> dict[str, str]:
        """What a process has in the container of a service."""
        page = self.pages.get(service, self.page)
        inside = {**settings_of_the_image(), **self.services[service].get("environment", {})}
        inside = {name: self.exchanged(str(value), page) for name, value in inside.items() if name != "PATH"}
        own_name = self.services[service].get("hostname")
        inside = {name: HOST if value == own_name else value for name, value in inside.items()}
        inside["SPARK_CONF_DIR"] = str(self.folder / f"spark-conf-{service}")  # a container has its own /tmp
        outside = bare_environment()
        paths = os.pathsep.join([str(Path(sys.executable).parent), outside["PATH"]])
        return {**outside, **self.log_ports, **inside, **self.further, "PATH": paths}

    def command(self, service: str, name: str) -> list[str]:
        """The entry and the command of a service."""
        return self._entered(
            [self.exchanged(str(part), self.pages[name]) for part in self.services[service]["command"]]
        )

    def _entered(self, command: Sequence[str]) -> list[str]:
        return [*(self.exchanged(part, self.page) for part in entry_of_the_image()), *command]

    def __enter__(self) -> Self:
        with ExitStack() as on_failure:
            on_failure.callback(self.stop)
            for service in self.wanted:
                self._start(service)
            for service, number in self.wanted.items():
                for name in self._names(service, number):
                    self.wait_until_healthy(service, name)
            on_failure.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End all processes."""
        stop(list(self.processes.values()))

    def _start(self, service: str) -> None:
        for needed, how in self.services[service].get("depends_on", {}).items():
            if needed in self.wanted and how["condition"] == "service_healthy":
                for name in self._names(needed, self.wanted[needed]):
                    self.wait_until_healthy(needed, name)
            elif needed in self.wanted:
                assert how["condition"] == "service_completed_successfully"
                assert self.processes[needed].wait(HEALTHY_AFTER_S) == 0, self.log(needed)
        for name in self._names(service, self.wanted[service]):
            with (self.folder / f"{name}.log").open("wb") as log:
                self.processes[name] = subprocess.Popen(
                    self.command(service, name),
                    env=self.environment(service),
                    cwd=CHECKOUT,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )

    def wait_until_healthy(self, service: str, name: str) -> None:
        """Wait until the health check of a service passes; one without a check is to have ended well."""
        if "healthcheck" not in self.services[service]:
            assert self.processes[name].wait(HEALTHY_AFTER_S) == 0, self.log(name)
            return
        _, *check = self.services[service]["healthcheck"]["test"]
        check = [self.exchanged(part, self.pages[name]) for part in check]
        deadline = time.monotonic() + HEALTHY_AFTER_S
        while (done := self._done(check, service)).returncode:
            assert self.processes[name].poll() is None, f"{name} has ended: {self.log(name)}"
            assert time.monotonic() < deadline, f"{name} is not healthy: {done.stdout}{done.stderr}{self.log(name)}"
            time.sleep(1)

    def run(self, *command: str, service: str = "scheduler") -> subprocess.CompletedProcess[str]:
        """Run a command in the place of a service, as `docker compose run` does."""
        return self._done(self._entered(command), service)

    def _done(self, command: Sequence[str], service: str) -> subprocess.CompletedProcess[str]:
        environment = self.environment(service)
        return subprocess.run(command, env=environment, cwd=CHECKOUT, capture_output=True, text=True, check=False)

    def log(self, name: str) -> str:
        """The end of the log of a process."""
        return (self.folder / f"{name}.log").read_text(errors="replace")[-3000:]


def make_roles(server: str, settings: dict[str, str]) -> None:
    """Make the databases and roles of the composition on a server of the test, as PostgreSQL's image does."""
    address = server.replace("postgresql+psycopg2://", "postgresql://")
    script = CHECKOUT / "docker" / "postgres" / "roles.sql"
    command = ["psql", "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--file", script, f"{address}/postgres"]
    passwords = {name: settings[name] for name in ("AIRFLOW_DATABASE_PASSWORD", "CATALOG_PASSWORD")}
    subprocess.run(command, env={**os.environ, **passwords}, check=True)
