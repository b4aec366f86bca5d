"""Add derived attributes to an ingested day and publish its events."""

from __future__ import annotations

import sys

from cep_pipeline.pipeline.tasks import run_spark_job

if __name__ == "__main__":
    sys.exit(run_spark_job("preprocess", __doc__))
