from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from cep_pipeline.errors import CepError, InputError, Terminated
from cep_pipeline.spark import session
from cep_pipeline.spark.session import explain_failures, reason_of, shared_session, spark_session
from cep_pipeline.spark.tasks import run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_no_java_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nonexistent/java")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    monkeypatch.setattr(session, "_packaged_java", lambda: None)
    with pytest.raises(InputError, match="Spark needs Java 17 or newer"):
        spark_session("local[1]")


@pytest.mark.parametrize("master", ["locale[2]", "", "spark:/host", "local["])
def test_a_wrong_master_is_refused(master: str) -> None:
    with pytest.raises(InputError, match="is not known"):
        spark_session(master)


def test_the_session_runs_this_interpreter_quietly(spark: SparkSession) -> None:
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert run_tasks(spark, python_of, [0], what="asking for the Python") == [sys.executable]


def test_the_failure_of_a_job_says_why(spark: SparkSession) -> None:
    with pytest.raises(CepError, match="counting: OSError: the cable is cut"):
        run_tasks(spark, fail, [0], what="counting")


def python_of(task: int, attempt: int) -> str:
    return sys.executable


def fail(task: int, attempt: int) -> None:
    raise OSError("the cable is cut")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "An error occurred:\n: java.lang.IllegalStateException: stopped\n\tat a.b(C:1)",
            "java.lang.IllegalStateException: stopped",
        ),
        ("x\ncep_pipeline.errors.CepError: writing /a: the disk is full\n\tat y", "writing /a: the disk is full"),
        ("nothing known", "nothing known"),
        ("", "the Spark job failed"),
    ],
)
def test_the_line_that_says_why(text: str, reason: str) -> None:
    assert reason_of(text) == reason


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, Terminated])
def test_an_interruption_stays_one_where_the_call_that_it_ends_clears_up_in_vain(
    interruption: type[KeyboardInterrupt],
) -> None:
    with pytest.raises(interruption), explain_failures("counting"):
        try:
            raise interruption
        finally:
            raise ConnectionError("the JVM has ended")


@pytest.mark.long
def test_a_shared_session_is_one_until_the_server_has_closed_it(
    connect: SparkSession, connect_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")  # what opens a session sets it for the process
    first = shared_session(connect_address, "cep/trades")
    assert shared_session(f"{connect_address}/", "cep/trades") == first
    assert shared_session(connect_address, "cep/bars") != first
    closing = spark_session(remote=first)
    closing.stop()  # releases it
    again = shared_session(connect_address, "cep/trades")
    assert again != first
    opened = spark_session(remote=again)
    assert opened.conf.get("spark.app.id") == connect.conf.get("spark.app.id")
    opened.stop()
