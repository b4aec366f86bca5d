from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from cep_pipeline.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark session for all tests of a process: starting one takes seconds."""
    session = spark_session(
        "local[2]",
        app_name="tests",
        properties={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
    )
    yield session
    session.stop()
