from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from pyspark.sql import SparkSession

from cep_pipeline.spark.session import spark_session
from tests.process_state import process_state_kept
from tests.thoroughness import examples

CHECKOUT = Path(__file__).resolve().parents[1]

# No test depends on how busy the machine is: a draw that a stalled machine makes slow is no failure.
# A mechanism may refuse many of the drawn statements: the share that it refuses in one run is no failure either.
settings.register_profile(
    "any machine",
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("any machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests that take minutes come first: begun last, they would keep one worker busy while the others wait."""
    items.sort(key=lambda item: "end_to_end" not in item.path.parts)


@pytest.fixture(autouse=True)
def process_state() -> Iterator[None]:
    """Commands that a test calls in this process leave it as it was."""
    with process_state_kept():
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark session for all tests of a process: starting one takes seconds.

    A command that an earlier test called in this process may have left a session with another master and, as the test
    had changed folders, with workers that do not find the modules of the tests.
    """
    if (left := SparkSession.getActiveSession()) is not None:
        left.stop()
    session = spark_session(
        "local[2]",
        app_name="tests",
        properties={
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.executorEnv.PYTHONPATH": str(CHECKOUT),
        },
    )
    yield session
    session.stop()
