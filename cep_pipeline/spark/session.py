"""The Spark session that every step shares: Java found or explained, workers on this interpreter, quiet logs."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from cep_pipeline.errors import CepError, InputError
from cep_pipeline.spark.failures import reason_of
from cep_pipeline.spark.java import java_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession as SparkSession

logger = logging.getLogger(__name__)
_LOOPBACK = "127.0.0.1"
_MASTER = re.compile(r"local(\[[^\]]+\])?|local-cluster\[.+\]|spark://.+|k8s://.+|yarn")
_LOGGING = Path(__file__).with_name("log4j2.properties")
_DRIVER_OPTIONS = "spark.driver.extraJavaOptions"
_LOCAL_MASTER = re.compile(r"local(\[|$)|local-cluster|spark://(127\.0\.0\.1|localhost)[:/]?")


def spark_session(
    master: str | None = None, *, app_name: str = "cep", properties: Mapping[str, str] | None = None
) -> SparkSession:
    """Return the Spark session of this process, making it if there is none.

    Parameters
    ----------
    master
        `local[N]`, `spark://HOST:PORT`, …; None takes what spark-submit gave, or `local[*]`.
    properties
        Further Spark properties, over the ones set here.

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
    settings |= dict(properties or {})
    settings[_DRIVER_OPTIONS] = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()} {settings.get(_DRIVER_OPTIONS, '')}"
    builder = SparkSession.builder.appName(app_name).config(map=settings)
    if not submitted:
        builder = builder.master(master or "local[*]")
    try:
        with interruptions_held():
            session = builder.getOrCreate()
        logger.info("Spark %s on %s", session.version, session.sparkContext.master)
        return session
    except Py4JError as error:
        raise CepError(
            f"Spark does not start with master {master or 'local[*]'}: {reason_of(str(error))}; check that the master "
            "runs, can be reached from here, and that this machine has memory and ports left"
        ) from error


@contextmanager
def interruptions_held() -> Iterator[None]:
    """Keep Ctrl-C until the block is done: a JVM that is just being started would be left behind without a parent."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[FrameType | None] = []
    before = signal.signal(signal.SIGINT, lambda _, frame: held.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if held:
        raise KeyboardInterrupt


def _is_submitted() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ or "PYSPARK_SUBMIT_ARGS" in os.environ
