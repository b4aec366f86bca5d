"""The daemon that forks Spark's Python workers, with all that tasks use loaded before the first fork.

Spark runs it as `python -m cep_pipeline.spark.daemon` (`spark.python.daemon.module`). Without it every new worker
spends seconds on imports; a fork of this process has them.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder

from cep_pipeline.spark.workers import library_is_missing


def prefer_installed() -> None:
    """Import PySpark from where it is installed, if it is: the archive that Spark ships has no compiled modules."""
    shipped = [place for place in sys.path if place.endswith(".zip")]
    others = [place for place in sys.path if place not in shipped]
    if PathFinder.find_spec("pyspark", others) is not None:
        sys.path[:] = [*others, *shipped]


def load() -> None:
    """Load what tasks use."""
    import cep_pipeline.detection.detect
    import cep_pipeline.spark.detection  # noqa: F401
    import spark_jobs.estimate_statistics
    import spark_jobs.ingest
    import spark_jobs.preprocess  # noqa: F401


if __name__ == "__main__":
    prefer_installed()
    try:
        load()
    except ImportError as error:
        raise library_is_missing(error) from error
    from pyspark.daemon import manager

    manager()
