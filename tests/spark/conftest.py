from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cep_pipeline.spark.session import spark_session
from tests.spark.connect_server import connect_server
from tests.spark.ingester import Ingester

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def ingest(spark: SparkSession, tmp_path: Path) -> Ingester:
    return Ingester(spark, tmp_path)


@pytest.fixture(scope="session")
def connect_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Spark Connect server of this process."""
    with connect_server(tmp_path_factory.mktemp("connect")) as address:
        yield address


@pytest.fixture(scope="session")
def connect(connect_address: str) -> Iterator[SparkSession]:
    """A session of a Spark Connect server; use it by `either`, which tells PySpark which kind of session it is."""
    session = spark_session(remote=connect_address, app_name="tests")
    os.environ.pop("SPARK_CONNECT_MODE_ENABLED")
    yield session
    session.stop()


@pytest.fixture(params=["classic", pytest.param("connect", marks=pytest.mark.long)])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """A classic session, and then one of a Spark Connect server: a test that takes it runs on both.

    `make test` runs on Spark Connect what all jobs are made of (`test_tasks.py`), `make test-all` the jobs, too.
    """
    if request.param == "classic":
        return request.getfixturevalue("spark")
    session: SparkSession = request.getfixturevalue("connect")
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    return session
