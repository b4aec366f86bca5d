"""One Spark application for all tasks of a scheduler, kept for some minutes after the last of them.

Starting Spark, its Python workers and the libraries of a step takes longer than the work of a small day. So the first
task that needs Spark starts a *keeper*, and later tasks find it:

    task (Airflow)  ── socket ──>  keeper ── forks ──>  one process a task: the code of the step, by `run_task`
                                      └── forks ──>  the process that owns the JVM of the Spark application

The keeper has loaded all that steps need, so a fork of it begins at once, and is the step's own process: it has its
own log, and it ends with its task. Where the task is killed, its connection closes; the process then cancels its Spark
jobs and ends. Where the JVM ends, the steps that use it fail, and the next one gets another. A keeper ends itself when
it has been idle for as long as `spark: idle_minutes:` says. On SIGTERM it interrupts its steps and ends after them.

Each user has a folder for the sockets, mode 0700, and in it a keeper for each master, Spark settings, version of the
code and environment. No secret is written to a file.
"""

from __future__ import annotations

import fcntl
import gc
import hashlib
import importlib
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from cep_pipeline import errors
from cep_pipeline.errors import CepError, InputError
from cep_pipeline.signals import ENDING, end_in_order
from cep_pipeline.version import code_digest

if TYPE_CHECKING:
    from cep_pipeline.pipeline.configuration import Configuration
    from cep_pipeline.spark.session import Gateway, SparkSession

logger = logging.getLogger(__name__)

FOLDER = "CEP_SPARK_FOLDER"
"""Environment variable that names the folder of the sockets and logs of keepers."""
LONGEST_FOLDER = 78
"""Characters that the path of that folder may have: a Unix socket takes 107 with its name."""
START_S = 120.0
GRACE_S = 20.0
"""A step whose task has gone, and a Spark application that is ended, have so long to end by themselves."""
_POLL_S = 0.2
_OF_SPARK = ("AWS_", "CEP_", "HADOOP_", "JAVA_", "JDK_", "LD_", "PATH", "PYSPARK_", "PYTHON", "SPARK_")
"""Beginnings of the environment variables that the JVM and the Python workers go by."""


@dataclass(frozen=True)
class Application:
    """A resident Spark application, running or not.

    `master`, `properties` and `package` are as `spark_session` takes them. It ends after `idle_s` seconds without a
    task. The folder has its socket, lock and log.
    """

    master: str
    properties: Mapping[str, str] = field(default_factory=dict)
    package: str | None = None
    idle_s: float = 300.0
    folder: Path = field(default_factory=lambda: keeper_folder())  # noqa: PLW0108 - defined below

    @classmethod
    def of(cls, configuration: Configuration, master: str | None = None) -> Application:
        """The application by the settings of a configuration; `master` overrides theirs."""
        settings = configuration.settings.spark
        return cls(master or settings.master, settings.properties, configuration.package, settings.idle_minutes * 60)

    @property
    def name(self) -> str:
        """A name that differs where the application would have to be another one."""
        environment = {name: value for name, value in os.environ.items() if name.startswith(_OF_SPARK)}
        facts = [
            self.master,
            sorted(self.properties.items()),
            self.package,
            self.idle_s,
            sys.executable,
            sys.version,
            code_digest(),  # a keeper runs the code that it began with
        ]
        return hashlib.sha256(json.dumps([*facts, sorted(environment.items())]).encode()).hexdigest()[:16]

    def call(self, job: str, arguments: Mapping[str, Any], *, start: bool = True) -> Any:
        """Do a job in a process of the keeper; its log becomes part of this process's log.

        The job is a function as `package.module:name`. Its first argument makes a session, given the name of a pool;
        the others and its result are JSON values. Without `start`, where there is no keeper, that is a NoKeeperError.
        Else a CepError is the job's own, or says that the keeper could not be started, or its process ended.
        """
        with self._connected(start) as connection:
            request = {
                "job": job,
                "arguments": dict(arguments),
                "environment": dict(os.environ),
                "level": logging.getLogger("cep_pipeline").getEffectiveLevel(),
            }
            with connection.makefile("rw", encoding="utf-8") as stream, suppress(ConnectionError):
                stream.write(f"{json.dumps(request)}\n")
                stream.flush()
                for line in stream:
                    said = json.loads(line)
                    if "log" in said:
                        level, name, message = said["log"]
                        logging.getLogger(name).log(level, "%s", message)
                    elif "error" in said:
                        raise _error_of(**said["error"])
                    else:
                        return said["result"]
        raise CepError(
            f"the process of the step ended in the middle of its work: it was killed, or it had too little memory. A "
            f"further try starts anew; the end of {self._path('log')}:\n{self._log_end()}"
        )

    @contextmanager
    def _connected(self, start: bool) -> Iterator[socket.socket]:
        """Connect to the keeper, under the lock by which one task starts it and it does not end meanwhile."""
        _make_private(self.folder)
        with _locked(self._path("lock")):
            connection = self._connect()
            if connection is None:
                if not start:
                    raise NoKeeperError(f"no Spark application of {self.master} is running")
                self._start()
                connection = self._connect()
        if connection is None:
            raise CepError(f"the keeper of the Spark application ended; the end of its log:\n{self._log_end()}")
        with connection:
            yield connection

    def _connect(self) -> socket.socket | None:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(self._path("sock")))
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            return None
        return connection

    def _start(self) -> None:
        """Start the keeper; it listens when this returns."""
        logger.info("starting a Spark application that tasks share; its log is %s", self._path("log"))
        settings = {**asdict(self), "folder": str(self.folder), "properties": dict(self.properties), "name": self.name}
        with self._path("log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "cep_pipeline.pipeline.resident"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                process.communicate(json.dumps(settings).encode(), timeout=START_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _path(self, ending: str) -> Path:
        return self.folder / f"{self.name}.{ending}"

    def _log_end(self) -> str:
        with suppress(OSError):
            return "\n".join(self._path("log").read_text(errors="replace").splitlines()[-10:])
        return ""


class NoKeeperError(CepError):
    """Error: there is no keeper, and none was to be started."""


def keeper_folder() -> Path:
    """The folder of this user's keepers."""
    return Path(os.environ.get(FOLDER) or Path(tempfile.gettempdir()) / f"cep-spark-{os.getuid()}")


def stop_applications(folder: Path) -> None:
    """End all resident applications of a folder, and wait until they have ended."""
    for path in folder.glob("*.sock"):
        with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
            connection.settimeout(START_S)
            connection.connect(str(path))
            connection.sendall(b'{"stop": true}\n')
            while connection.recv(1024):
                pass


def _make_private(folder: Path) -> None:
    """Make the folder, which only this user may enter.

    A folder that others own or may enter, or whose path is too long for a socket, is an InputError.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077 or folder.is_symlink():
        raise InputError(f"{folder} has to be a folder of this user alone, mode 0700; name another one by {FOLDER}")
    if len(str(folder)) > LONGEST_FOLDER:
        raise InputError(f"{folder}: the path is too long for a socket; name a shorter one by {FOLDER}")


@contextmanager
def _locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of a file for the block; False where another process has it and this one does not wait."""
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True


def _error_of(kinds: list[str], message: str, trace: str) -> CepError:
    """The error that ended a job: of the first of its classes, the own one first, that is a class of `errors`."""
    for kind in kinds:
        found = getattr(errors, kind, None)
        if isinstance(found, type) and issubclass(found, CepError):
            error: CepError = found.__new__(found, message)
            return error
    logger.error("%s", trace)
    return CepError(f"{kinds[0]}: {message}")


# -- the keeper --------------------------------------------------------------------------------------------------------


@dataclass
class _Keeper:
    """The process that holds the application and forks a process for each task. It has no threads, since it forks."""

    application: Application
    listener: socket.socket
    path: Path
    steps: set[int] = field(default_factory=set)
    idle_since: float = field(default_factory=time.monotonic)
    owner: _Owner | None = None
    waiting: list[socket.socket] = field(default_factory=list)
    is_ended: bool = False

    def serve(self) -> None:
        """Serve until the application is idle, or is to end: it is asked to, or Ctrl-C or SIGTERM comes."""
        stopping: socket.socket | None = None
        for number in ENDING:
            signal.signal(number, self._hear_signal)
        try:
            self._own_application()
            _load_steps()
            while stopping is None and not self.is_ended and not self._is_left():
                heard: list[socket.socket | int] = [self.listener]
                if self.owner is not None:
                    heard.append(self.owner.said)
                readable, _, _ = select.select(heard, [], [], _POLL_S)
                if self.owner is not None and self.owner.said in readable:
                    self._hear_owner(self.owner)
                if self.listener in readable:
                    stopping = self._answer(self.listener.accept()[0])
                self._reap()
        finally:
            self._end()
        if stopping is not None:
            stopping.close()

    def _hear_signal(self, *_: object) -> None:
        """End in order; a second signal ends the keeper at once, and the processes that it forked soon after."""
        self.is_ended = True
        for number in ENDING:
            signal.signal(number, signal.SIG_DFL)

    def _is_left(self) -> bool:
        """True if there has been no task for long, and none is just connecting; none can from then on."""
        if self.steps or time.monotonic() - self.idle_since < self.application.idle_s:
            return False
        with _locked(self.path.with_suffix(".lock"), wait=False) as held:
            if not held or select.select([self.listener], [], [], 0)[0]:
                return False
            self.path.unlink(missing_ok=True)
            return True

    def _answer(self, connection: socket.socket) -> socket.socket | None:
        """Do what a connection asks for; returns the connection that asked the keeper to end."""
        connection.settimeout(10)
        try:
            request = json.loads(_first_line(connection) or b"{}")
        except (OSError, ValueError):
            request = {}
        connection.settimeout(None)
        if "job" in request:
            child = os.fork()
            if child == 0:
                with _ending_here():
                    self._forget()
                    _Step(connection, self.path).run(request)
            self.steps.add(child)
        elif "gateway" in request:
            self._own_application()
            self.waiting.append(connection)
            self._hand_out()
            return None
        elif "stop" in request:
            return connection
        connection.close()
        return None

    def _forget(self) -> None:
        """Close in a process that has been forked what is the keeper's: others wait for the ends of these."""
        self.listener.close()
        for connection in self.waiting:
            connection.close()
        if self.owner is not None:
            os.close(self.owner.said)
            os.close(self.owner.keeper_lives)

    def _own_application(self) -> None:
        """Start the process that owns the Spark application, if there is none: Spark's client has threads."""
        if self.owner is not None:
            return
        said, saying = os.pipe()
        listening, keeper_lives = os.pipe()
        child = os.fork()
        if child == 0:
            with _ending_here():
                self._forget()
                os.close(said)
                os.close(keeper_lives)
                _own(self.application, listening, saying)
        os.close(saying)
        os.close(listening)
        self.owner = _Owner(child, said, keeper_lives)

    def _hear_owner(self, owner: _Owner) -> None:
        read = os.read(owner.said, 65536)
        owner.answer += read
        self._hand_out()
        if not read:
            self._end_owner(owner)

    def _hand_out(self) -> None:
        """Give the address of the JVM to those who wait for it, once there is one."""
        if self.owner is None or not self.owner.answer.endswith(b"\n"):
            return
        for connection in self.waiting:
            with suppress(OSError):
                connection.sendall(self.owner.answer)
            connection.close()
        self.waiting.clear()

    def _end_owner(self, owner: _Owner) -> None:
        for connection in self.waiting:
            connection.close()
        self.waiting.clear()
        os.close(owner.keeper_lives)
        os.close(owner.said)
        _wait_for(owner.process)
        self.owner = None

    def _reap(self) -> None:
        for child in list(self.steps):
            if os.waitpid(child, os.WNOHANG)[0]:
                self.steps.remove(child)
                self.idle_since = time.monotonic()

    def _end(self) -> None:
        """End the steps and the application."""
        self.path.unlink(missing_ok=True)
        self.listener.close()
        self._reap()
        for child in self.steps:
            os.kill(child, signal.SIGINT)
        for child in self.steps:
            _wait_for(child)
        if self.owner is not None:
            self._end_owner(self.owner)


@dataclass
class _Owner:
    """The process that owns the Spark application: what it has said, and a pipe that closes when the keeper ends."""

    process: int
    said: int
    keeper_lives: int
    answer: bytes = b""


@contextmanager
def _ending_here() -> Iterator[None]:
    """End this process with the block: a process that has been forked must not go on as the keeper."""
    try:
        yield
    except BaseException:  # noqa: BLE001 - it would be handled by the keeper's code
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(0)


def _wait_for(child: int) -> None:
    """Wait for a child, which is killed where it does not end by itself."""
    deadline = time.monotonic() + GRACE_S
    while time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _first_line(connection: socket.socket) -> bytes:
    received = b""
    while not received.endswith(b"\n"):
        part = connection.recv(1 << 20)
        if not part:
            return b""
        received += part
    return received


def _own(application: Application, keeper_lives: int, answer: int) -> None:
    """Own the Spark application until it has ended, or the keeper has; the JVM ends with this process."""
    from cep_pipeline.spark.session import gateway_of, is_stopped, spark_session

    for number in ENDING:  # the keeper ends the application when its steps have ended; the JVM does not inherit this
        signal.signal(number, lambda *_: None)
    try:
        properties = {"spark.scheduler.mode": "FAIR", **application.properties}
        session = spark_session(application.master, app_name="cep", properties=properties, package=application.package)
        said: dict[str, Any] = asdict(gateway_of(session))
    except BaseException as error:  # noqa: BLE001 - the task that asked for it raises it
        traceback.print_exc()
        said = {"error": _described(error)}
    with suppress(OSError):
        os.write(answer, f"{json.dumps(said)}\n".encode())
    if "error" not in said:
        while not is_stopped(session):
            if select.select([keeper_lives], [], [], 1.0)[0]:
                session.stop()
                break


def _load_steps() -> None:
    """Load what steps import when they run, so that each process that is forked has it."""
    for module in (
        "pyspark.sql.classic.dataframe",
        "cep_pipeline.spark.daemon",
        "cep_pipeline.pipeline.tasks",
        "cep_pipeline.pipeline.detection",
        "cep_pipeline.pipeline.run",
        "cep_pipeline.planning.planners",
        "cep_pipeline.warehouse.iceberg_tables",
        "pyiceberg.catalog.sql",
        "pyiceberg.io.pyarrow",
        "sqlalchemy.dialects.sqlite",
        "fastavro",
    ):
        importlib.import_module(module)
    from cep_pipeline.events.validate import start_import

    start_import().result()
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join(timeout=GRACE_S)
    gc.collect()
    gc.freeze()


def _described(error: BaseException) -> dict[str, Any]:
    trace = "".join(traceback.format_exception(error))
    kinds = [kind.__name__ for kind in type(error).__mro__]
    return {"kinds": kinds, "message": str(error) or repr(error), "trace": trace}


# -- one step in its own process ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Step:
    """The process of one job: what it logs, and what came of it, go over the connection."""

    connection: socket.socket
    keeper: Path
    lock: threading.Lock = field(default_factory=threading.Lock)
    over: threading.Event = field(default_factory=threading.Event)

    def run(self, request: Mapping[str, Any]) -> None:
        """Do the job, and send what came of it."""
        # Keeper and task may interrupt it at the same time as somebody else: only a second SIGTERM ends it at once.
        end_in_order(ignored_later=[signal.SIGINT])
        os.environ.clear()
        os.environ.update(request["environment"])
        handler = _Forwarding(self)
        handler.setFormatter(logging.Formatter("%(message)s"))
        logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
        logging.getLogger("cep_pipeline").setLevel(request["level"])
        logging.captureWarnings(True)
        threading.Thread(target=self._end_with_task, daemon=True).start()
        try:
            said: dict[str, Any] = {"result": resolve_name(request["job"])(self.session, **request["arguments"])}
        except BaseException as error:  # noqa: BLE001 - the task raises it
            said = {"error": _described(error)}
        self.over.set()
        # What the JVM holds for this process is given up: the application lives on.
        gc.unfreeze()
        gc.collect()
        self.say(said)

    def say(self, content: Mapping[str, Any]) -> None:
        """Send a line to the task; nobody minds where the task has gone."""
        with self.lock, suppress(OSError):
            self.connection.sendall(f"{json.dumps(content)}\n".encode())

    def session(self, pool: str) -> SparkSession:
        """A session on the resident application; its jobs are in the pool of this name."""
        from cep_pipeline.spark.session import attach

        return attach(self._gateway(), pool)

    def _gateway(self) -> Gateway:
        from cep_pipeline.spark.session import Gateway

        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(self.keeper))
                connection.sendall(b'{"gateway": true}\n')
                line = _first_line(connection)
        except OSError as error:
            raise CepError(f"the keeper of the Spark application has ended: {error}") from error
        if not line:
            raise CepError("the Spark application ended while it started; a further try starts another one")
        said = json.loads(line)
        if "error" in said:
            raise _error_of(**said["error"])
        return Gateway(**said)

    def _end_with_task(self) -> None:
        """Interrupt the step when its task has gone: jobs are cancelled, the lease is given back."""
        with suppress(OSError):
            while self.connection.recv(1024):
                pass
        if self.over.is_set():
            return
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(GRACE_S)
        os._exit(1)


class _Forwarding(logging.Handler):
    """Sends records to the task, whose log they become."""

    def __init__(self, step: _Step) -> None:
        super().__init__()
        self.step = step

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record, of a library only if it is a warning."""
        if record.levelno < logging.WARNING and not record.name.startswith("cep_pipeline"):
            return
        self.step.say({"log": [record.levelno, record.name, self.format(record)]})


def main() -> None:
    """Become a keeper: the settings are a JSON document on standard input, the caller waits until it listens."""
    settings = json.loads(sys.stdin.read())
    name, folder = settings.pop("name"), Path(settings.pop("folder"))
    path = folder / f"{name}.sock"
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(128)
    if os.fork():
        os._exit(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.chdir(folder)
    _Keeper(Application(folder=folder, **settings), listener, path).serve()


if __name__ == "__main__":
    main()
