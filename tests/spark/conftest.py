from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.ingester import Ingester

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def ingest(spark: SparkSession, tmp_path: Path) -> Ingester:
    return Ingester(spark, tmp_path)
