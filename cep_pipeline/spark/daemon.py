"""The daemon that forks Spark's Python workers, with all that tasks use loaded before the first fork.

Spark runs it as `python -m cep_pipeline.spark.daemon` (`spark.python.daemon.module`). Without it every new worker
spends seconds on imports; a fork of this process has them. Before that it checks that this worker runs what the driver
runs: what it raises here is what Spark tells the driver.
"""

from __future__ import annotations

from cep_pipeline.spark.shipping import check_worker, library_is_missing


def load() -> None:
    """Load what tasks use."""
    import cep_pipeline.detection.detect
    import cep_pipeline.events.merge
    import cep_pipeline.spark.detection
    import cep_pipeline.spark.ingestion
    import cep_pipeline.spark.statistics  # noqa: F401


if __name__ == "__main__":
    check_worker()
    try:
        load()
    except ImportError as error:
        raise library_is_missing(error) from error
    from pyspark.daemon import manager

    manager()
