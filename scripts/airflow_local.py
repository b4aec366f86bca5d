"""`make airflow`: Airflow and Spark on this machine, with the DAGs and pages of this checkout. Ctrl-C stops all of it.

Spark is a Connect server, on which the tasks work, and a history server, which shows what it has done.

Everything it writes is under one folder (var/airflow): database, logs, password. It listens on the loopback interface.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import httpx
import psutil

from cep_pipeline.errors import ENDING, CepError, InputError, end_in_order
from cep_pipeline.pipeline.configuration import Configuration
from cep_pipeline.spark.session import DAEMON, java_environment, quick_start, with_second_try

CHECKOUT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
HOST = "127.0.0.1"
COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")
CONNECT, HISTORY = "spark-connect", "spark-history"
PRELOADED = (
    "airflow.dag_processing.dagbag",
    "airflow.executors.local_executor",
    "airflow.sdk.execution_time.task_runner",
    "airflow.providers.apache.spark.operators.spark_pyspark",
    "airflow.providers.apache.spark.operators.spark_submit",
    "airflow.providers.standard.decorators.python",
    "airflow.providers.standard.triggers.external_task",
    "pyspark.sql.connect.session",
    "great_expectations",
    "spark_jobs.detect",
    "spark_jobs.estimate_statistics",
    "spark_jobs.ingest",
    "spark_jobs.preprocess",
)
"""Modules that the LocalExecutor imports once, not each task anew: Great Expectations alone takes five seconds."""
SPARK_JOBS = 4
"""Slots of the pool `cep_spark`: Spark jobs at a time. They share the cores fairly."""
USER = "admin"
READY_AFTER_S = 240.0
STOPPED_AFTER_S = 20.0
DATABASE = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
"""The setting of the address, and the beginning of those that tell another way to it, `…_CMD` and `…_SECRET`."""


@dataclass
class LocalAirflow:
    """An Airflow of its own: database, api-server, scheduler, dag-processor and triggerer; and a Spark of its own.

    All that it writes is in the folder `home`; the ports are on the loopback interface. The master is that of the Spark
    Connect server which the connection `spark_default` names: local[N] or spark://HOST:PORT. As a context manager it is
    entered when Airflow answers and has read the DAGs, and left when no process is alive.

    Airflow makes its own keys and the password when it first starts; they are in the folder, which is the user's only.
    """

    home: Path
    port: int
    configuration: Path = CHECKOUT / "pipeline.yaml"
    spark_master: str = "local[*]"
    processes: dict[str, psutil.Popen] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=lambda: {name: _free_port() for name in (CONNECT, "ui", HISTORY)})

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def environment_file(self) -> Path:
        """A shell that reads it (`. var/airflow/env`) gives its `airflow` commands to this Airflow."""
        return self.home / "env"

    @property
    def password(self) -> str:
        return str(json.loads((self.home / "simple_auth_manager_passwords.json.generated").read_text())[USER])

    @property
    def spark_pages(self) -> str:
        """Address of the pages of the Connect server."""
        return f"http://{HOST}:{self.ports['ui']}"

    @property
    def history_pages(self) -> str:
        """Address of the pages of the history server."""
        return f"http://{HOST}:{self.ports[HISTORY]}"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def environment(self) -> dict[str, str]:
        """The environment that every Airflow command needs; it has to be there before Airflow is imported."""
        return {**os.environ, **self._settings()}

    def _settings(self) -> dict[str, str]:
        """The variables of it that a shell needs too."""
        return {
            **{name: value for name, value in os.environ.items() if name.startswith(("AIRFLOW_", "CEP_"))},
            **_of_all_processes(),
            **self._database(),
            "GX_ANALYTICS_ENABLED": "false",
            "CEP_CONFIG": str(self.configuration),
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(CHECKOUT / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(CHECKOUT / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__SCHEDULER__MP_START_METHOD": "forkserver",
            "AIRFLOW__CORE__MP_FORKSERVER_PRELOAD": ",".join(PRELOADED),
            # A supervisor that misses the end of its task's process sleeps so long, and keeps its slot.
            "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.address}/execution/",
            "AIRFLOW__API__HOST": HOST,
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__BASE_URL": self.address,
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "60",
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(self._spark_connection()),
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(_free_port()),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(_free_port()),
        }

    def _database(self) -> dict[str, str]:
        """The settings of the database: a file of its own, unless the environment names another database."""
        if any(name.startswith(DATABASE) for name in os.environ):
            return {}
        arguments = "scripts.airflow_sqlite.CONNECT_ARGUMENTS"
        return {
            DATABASE: f"sqlite:///{self.home.absolute()}/airflow.db",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONNECT_ARGS": arguments,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONNECT_ARGS_ASYNC": arguments,
        }

    def write_environment_file(self) -> None:
        """Write the settings that `airflow` commands need, readable by the user only: a token is among them."""
        settings = self._settings()
        settings.pop("PATH")
        lines = ["# Made by `make airflow`, for commands in a shell."]
        lines += [f"export {name}={shlex.quote(value)}" for name, value in settings.items()]
        lines.append(f'export PATH={shlex.quote(str(BIN))}:"$PATH"')
        _write_private(self.environment_file, "\n".join([*lines, ""]))

    def commands(self, dag_ids: list[str]) -> list[str]:
        """The lines to give to another shell: they switch on all DAGs of a stream."""
        here = Path.cwd()
        file = self.environment_file
        shown = file.relative_to(here) if file.is_relative_to(here) else file
        prefix = "daily_detection_"
        streams = [dag_id.removeprefix(prefix) for dag_id in dag_ids if dag_id.startswith(prefix)]
        unpause = "airflow dags unpause --yes --treat-dag-id-as-regex"
        return [f". {shlex.quote(str(shown))}", *(f"{unpause} '_{stream}$'" for stream in streams[:1])]

    def spark_command(self, name: str) -> list[str]:
        """The command of the Connect server, or of the history server."""
        events = self.home / "spark-events"
        events.mkdir(parents=True, exist_ok=True)
        if name == HISTORY:
            return [str(BIN / "spark-class"), "org.apache.spark.deploy.history.HistoryServer"]
        properties = {
            **DAEMON,
            "spark.app.name": "cep",
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": str(self.ports[CONNECT]),
            "spark.connect.session.manager.defaultSessionTimeout": "30d",
            "spark.scheduler.mode": "FAIR",
            "spark.ui.port": str(self.ports["ui"]),
            "spark.ui.showConsoleProgress": "false",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.cep.ui": self.spark_pages,
            "spark.cep.history": self.history_pages,
            "spark.driver.extraJavaOptions": quick_start(java_environment().get("CEP_JAVA") or os.environ["CEP_JAVA"]),
        }
        command = [str(BIN / "spark-submit"), "--master", with_second_try(self.spark_master)]
        command += [part for key, value in properties.items() for part in ("--conf", f"{key}={value}")]
        return [*command, "--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]

    def spark_environment(self) -> dict[str, str]:
        """The environment of Spark's processes. The token is not among the arguments, which all users can see."""
        events = (self.home / "spark-events").as_uri()
        history = {"fs.logDirectory": events, "ui.port": self.ports[HISTORY], "fs.update.interval": "5s"}
        options = " ".join(f"-Dspark.history.{name}={value}" for name, value in history.items())
        return {
            **os.environ,
            **_of_all_processes(),
            "SPARK_CONNECT_AUTHENTICATE_TOKEN": self._token(),
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_HISTORY_OPTS": options,
        }

    def _spark_connection(self) -> dict[str, Any]:
        if Configuration.load(self.configuration).settings.spark.airflow == "submit":
            told = "The master of the programs that `spark-submit` runs."
            return {"conn_type": "spark", "host": self.spark_master, "description": told}
        # With a token PySpark asks any host but localhost for TLS.
        place = {"host": "localhost", "port": self.ports[CONNECT], "password": self._token()}
        return {"conn_type": "spark_connect", **place, "description": "The Spark Connect server of make airflow."}

    def _token(self) -> str:
        """The secret of the Connect server, made once and readable by its user only."""
        path = self.home / "spark_token"
        if not path.exists():
            _write_private(path, secrets.token_hex(32))
        return path.read_text(encoding="utf-8")

    def _make_pool(self) -> None:
        """Make the pool of the tasks that work on Spark; one that is there stays as it is."""
        if "cep_spark" not in [pool["name"] for pool in self.get("/pools")["pools"]]:
            self.run("pools", "set", "cep_spark", str(SPARK_JOBS), "Spark jobs at a time")

    def run(self, *arguments: str, timeout_s: float = 120.0) -> str:
        """Run an `airflow` command to its end and return what it printed; a CepError says that it failed."""
        done = subprocess.run(
            [sys.executable, "-m", "airflow", *arguments],
            env=self.environment(),
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode:
            raise CepError(f"airflow {' '.join(arguments)} failed:\n{done.stdout[-10_000:]}\n{done.stderr[-2000:]}")
        return done.stdout

    def start(self) -> None:
        """Start everything, and return when Airflow answers and has read the DAGs.

        A CepError says that the port is in use, there is no Java, or a process ended.
        """
        _free_port(self.port)
        if not self.configuration.is_file():
            raise InputError(f"{self.configuration}: no such pipeline configuration; see --config")
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.write_environment_file()
        self.run("db", "migrate")
        for name in (CONNECT, HISTORY, *COMPONENTS):
            self.start_component(name)
        self._wait_until(self._healthy, "Airflow and Spark did not become healthy")
        self._make_pool()
        self._wait_until(lambda: bool(self.dag_ids()) or bool(self.import_errors()), "no DAG was loaded")

    def start_component(self, name: str) -> None:
        """Start a component of Airflow or Spark, in a session of its own: Ctrl-C reaches this process only."""
        logs = self.home / "logs"
        logs.mkdir(exist_ok=True)
        with (logs / f"{name}.log").open("ab") as log:
            self.processes[name] = psutil.Popen(
                [sys.executable, "-m", "airflow", name] if name in COMPONENTS else self.spark_command(name),
                env=self.environment() if name in COMPONENTS else self.spark_environment(),
                cwd=CHECKOUT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _wait_until(self, condition: Any, failure: str) -> None:
        deadline = time.monotonic() + READY_AFTER_S
        while not condition():
            self.check_alive()
            if time.monotonic() > deadline:
                raise CepError(f"{failure} within {READY_AFTER_S:.0f} s; see {self.home / 'logs'}")
            time.sleep(0.5)

    def check_alive(self) -> None:
        """Raise `CepError` with the end of its log where a component has ended."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                log = self.home / "logs" / f"{name}.log"
                end = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
                raise CepError(f"{name} ended with exit code {process.returncode}; the end of {log}:\n{end}")

    def _healthy(self) -> bool:
        try:
            httpx.get(self.spark_pages)
            health = httpx.get(f"{self.address}/api/v2/monitor/health").raise_for_status().json()
        except (httpx.HTTPError, ValueError):
            return False
        parts = ("metadatabase", "scheduler", "dag_processor", "triggerer")
        return all(health.get(part, {}).get("status") == "healthy" for part in parts)

    @cached_property
    def api(self) -> httpx.Client:
        """The REST API, `/api/v2` and on, for the logged-in user."""
        login = {"username": USER, "password": self.password}
        token = httpx.post(f"{self.address}/auth/token", json=login).raise_for_status().json()["access_token"]
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=f"{self.address}/api/v2", headers=headers, timeout=30)

    def get(self, path: str) -> Any:
        """Answer of the REST API to a GET."""
        return self.api.get(path).raise_for_status().json()

    def dag_ids(self) -> list[str]:
        """The DAGs that Airflow has loaded."""
        return [dag["dag_id"] for dag in self.get("/dags?limit=100")["dags"]]

    def import_errors(self) -> list[str]:
        """Why DAG files could not be loaded."""
        return [f"{error['filename']}: {error['stack_trace']}" for error in self.get("/importErrors")["import_errors"]]

    def stop(self) -> None:
        """Stop all processes: the components of Airflow and Spark, and the tasks and workers that they started."""
        alive = [one for one in self.processes.values() if one.is_running()]
        family = [part for one in alive for part in (one, *one.children(recursive=True))]
        for one in alive:
            one.terminate()
        _, stragglers = psutil.wait_procs(family, timeout=STOPPED_AFTER_S)
        for straggler in stragglers:
            with suppress(psutil.NoSuchProcess):
                straggler.kill()
        psutil.wait_procs(stragglers, timeout=STOPPED_AFTER_S)
        self.processes.clear()


def _of_all_processes() -> dict[str, str]:
    """The environment that the processes of Airflow and Spark have in common."""
    return {
        **java_environment(),
        "PATH": os.pathsep.join([str(BIN), os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH")])),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": HOST,
    }


def _free_port(port: int = 0) -> int:
    """A port that nobody listens at: this one, or any."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise InputError(
                f"port {port} on {HOST} cannot be used: {error.strerror}. Stop what listens there, or take another "
                f"port: make airflow ARGS='--port {port + 1}'"
            ) from error
        return int(probe.getsockname()[1])


def _write_private(path: Path, content: str) -> None:
    path.unlink(missing_ok=True)  # a file that is there keeps its mode
    path.touch(0o600, exist_ok=False)
    path.write_text(content, encoding="utf-8")


def main() -> int:
    """Run until Ctrl-C; returns the exit code."""
    parser = argparse.ArgumentParser(prog="make airflow", description=__doc__)
    parser.add_argument("--port", type=int, default=8080, help="of the pages (default: %(default)s)")
    parser.add_argument("--home", type=Path, default=CHECKOUT / "var" / "airflow", help="folder for all that it writes")
    parser.add_argument("--config", type=Path, default=CHECKOUT / "pipeline.yaml", help="pipeline configuration")
    parser.add_argument("--spark-master", default="local[*]", help="local[N] or spark://HOST:PORT")
    options = parser.parse_args()
    # Once: a second Ctrl-C must not interrupt the stopping, which would leave processes behind.
    end_in_order(ignored_later=ENDING)
    signal.signal(signal.SIGHUP, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    airflow = LocalAirflow(options.home.resolve(), options.port, options.config.resolve(), options.spark_master)
    say = sys.stdout.write
    try:
        say(f"Starting Airflow in {airflow.home} (half a minute; the first time longer) ...\n")
        sys.stdout.flush()
        with airflow:
            say(f"\n  Airflow   {airflow.address}\n  login     {USER}\n  password  {airflow.password}\n\n")
            say(f"  Spark     {airflow.spark_pages}, what it has done: {airflow.history_pages}\n\n")
            say("  DAGs      " + "\n            ".join(airflow.dag_ids() or ["none"]) + "\n")
            for error in airflow.import_errors():
                say(f"  not loaded: {error}\n")
            say("\n  commands  in another shell:\n            ")
            say("\n            ".join(airflow.commands(airflow.dag_ids())) + "\n")
            say(f"\n  logs in {airflow.home / 'logs'}; Ctrl-C stops it\n")
            sys.stdout.flush()
            while True:
                airflow.check_alive()
                time.sleep(1)
    except KeyboardInterrupt:
        say("\nAirflow is stopped.\n")
        return 0
    except CepError as error:
        sys.stderr.write(f"airflow: {error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
