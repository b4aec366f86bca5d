"""The Spark session that every step shares: Java found or explained, workers on this interpreter, quiet logs."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cep_pipeline.errors import CepError, InputError
from cep_pipeline.spark.java import java_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOPBACK = "127.0.0.1"
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
        There is no Java, or the master cannot be reached or understood.
    """
    if not _is_submitted():
        # Under spark-submit the JVM runs already.
        os.environ.update(java_environment())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.daemon.module": "cep_pipeline.spark.daemon",
    }
    submitted = master is None and _is_submitted()
    if not submitted and _LOCAL_MASTER.match(master or "local"):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
        settings |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
    settings |= dict(properties or {})
    builder = SparkSession.builder.appName(app_name).config(map=settings)
    if not submitted:
        builder = builder.master(master or "local[*]")
    try:
        return builder.getOrCreate()
    except PySparkException as error:
        raise InputError(f"Spark does not start with master {master!r}: {error}") from error
    except Exception as error:
        raise CepError(f"Spark does not start with master {master!r}: {_first_line(error)}") from error


def _is_submitted() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ or "PYSPARK_SUBMIT_ARGS" in os.environ


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if "Exception" in line or "Error" in line), lines[0] if lines else repr(error))
