"""Estimate arrival rates and selectivities over the events of a day."""

from __future__ import annotations

import sys

from cep_pipeline.pipeline.tasks import run_spark_job

if __name__ == "__main__":
    sys.exit(run_spark_job("estimate_statistics", __doc__))
