"""The daemon that forks Spark's Python workers, with all that tasks use loaded before the first fork.

Spark runs it as `python -m cep_pipeline.spark.daemon` (`spark.python.daemon.module`). Without it every new worker
spends seconds on imports; a fork of this process has them.
"""

from __future__ import annotations

import cep_pipeline.detection.detect
import cep_pipeline.events.merge
import cep_pipeline.spark.detection
import cep_pipeline.spark.ingestion
import cep_pipeline.spark.statistics  # noqa: F401

if __name__ == "__main__":
    from pyspark.daemon import manager

    manager()
