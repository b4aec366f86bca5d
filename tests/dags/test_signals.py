"""The alerts that the DAGs send of a day: a notifier, deadlines."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import yaml

from cep_pipeline.errors import CepError
from cep_pipeline.pipeline.configuration import Configuration
from cep_pipeline.pipeline.tasks import DayTask
from cep_pipeline.warehouse.records import RunRecord
from tests.dags.conftest import CHECKOUT
from tests.dags.test_daily_detection import write_stream

DAY = date(2013, 10, 7)
BEGUN = datetime(2013, 10, 8, 4, 1, tzinfo=UTC)
RUN = RunRecord(
    "manual__1",
    DAY,
    "succeeded",
    BEGUN,
    BEGUN + timedelta(minutes=90),
    details={"limited": {"market.v_reversal": "stopped by its limit"}},
)


class Notifier:
    """Takes the place of one of Airflow's; a class, since it is made by its name."""

    told: ClassVar[list[tuple[str, dict[str, Any]]]] = []

    def __init__(self, **arguments: str) -> None:
        self.arguments = arguments

    def __call__(self, context: dict[str, Any]) -> None:
        if self.arguments.get("to") == "nobody":
            raise ConnectionRefusedError("no mail server")
        self.told.append((context["cep_alert"], self.arguments))


def configured(folder: Path, monkeypatch: pytest.MonkeyPatch, **alerts: Any) -> Path:
    write_stream(folder)
    file = folder / "pipeline.yaml"
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), "alerts": alerts}))
    monkeypatch.setenv("CEP_CONFIG", str(file))
    monkeypatch.setattr(Notifier, "told", [])
    return file


NOTIFIER = f"{__name__}.Notifier"


def test_a_failed_task_and_a_limited_day_are_told(
    airflow_home: Path, dags: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cep_signals

    file = configured(tmp_path, monkeypatch, notifier=NOTIFIER, arguments={"to": "ops"}, late_hours=1)
    opened = Configuration.load(file), None, SimpleNamespace(runs=lambda: [RUN]), ()
    monkeypatch.setattr(DayTask, "open", lambda _: opened)
    cep_signals.tell_of_day(file, "trades", DAY, {"run_id": "manual__1"})
    task = SimpleNamespace(dag_id="verify", task_id="verify")
    for one in (task for dag in dags.values() for task in dag.tasks):
        (callback,) = one.on_failure_callback
        callback({"ti": task, "run_id": "manual__1", "exception": CepError("damaged {{ ti }}")})
    assert Notifier.told[:1] == [
        ("trades 2013-10-07: pattern market.v_reversal was stopped by its limit", {"to": "ops"})
    ]
    assert {sentence for sentence, _ in Notifier.told[1:]} == {
        "verify, task verify of run manual__1 failed: damaged {{ ti }}"
    }


def test_stale_days_that_are_redone_are_told(
    airflow_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cep_tasks

    configured(tmp_path, monkeypatch, notifier=NOTIFIER)
    instance = SimpleNamespace(xcom_push=lambda key, value: None)
    now = {"run_id": "manual__1", "params": {"tried": None}, "ti": instance}
    monkeypatch.setattr(cep_tasks, "get_current_context", lambda: now)
    stale = {"day": "2013-10-07", "detection_only": False, "reasons": ["a raw file has changed"]}
    monkeypatch.setattr("cep_pipeline.pipeline.tasks.stale_days", lambda *_: [stale])
    cep_tasks.stale_days("trades")
    assert [sentence for sentence, _ in Notifier.told] == [
        "trades: stale days are redone: 2013-10-07 (a raw file has changed)"
    ]


@pytest.mark.parametrize(
    "alerts", [{}, {"notifier": "no.such.notifier"}, {"notifier": NOTIFIER, "arguments": {"to": "nobody"}}]
)
def test_nothing_that_goes_wrong_with_an_alert_fails_a_task(
    airflow_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, alerts: Any
) -> None:
    import cep_signals

    file = configured(tmp_path, monkeypatch, **alerts)
    cep_signals.tell(file, "something happened", {})
    assert "alert: something happened" in caplog.text
    assert ("the notifier of pipeline.yaml failed" in caplog.text) is bool(alerts)
    cep_signals.tell_of_day(file, "generated_trades", DAY, {"run_id": "unknown"})
    assert "nobody was told of generated_trades 2013-10-07" in caplog.text


def test_a_late_run_is_a_deadline_of_airflow(
    airflow_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import structlog
    from airflow.dag_processing.dagbag import DagBag
    from airflow.sdk.execution_time.callback_supervisor import execute_callback
    from airflow.serialization.serialized_objects import DagSerialization

    arguments = {"to": "ops", "text": "{{ cep_alert }} ({{ dag_run.run_id }})"}
    configured(tmp_path, monkeypatch, notifier=NOTIFIER, arguments=arguments, late_hours=2.5)
    bag = DagBag(str(CHECKOUT / "dags" / "daily_detection.py"), bundle_name="dags-folder")
    assert bag.import_errors == {}
    dag = bag.dags["daily_detection_generated_trades"]
    (alert,) = dag.deadline
    assert alert.interval == timedelta(hours=2.5)
    assert DagSerialization.to_dict(dag)
    # As Airflow's executor calls it: the class by its name, then what it made with what is known of the run.
    late = "generated_trades: the run of a day has not ended 2.5 hours after it was queued"
    done, error = execute_callback(
        alert.callback.path,
        {**alert.callback.kwargs, "context": {"cep_alert": "late"}},
        Path("daily_detection.py"),
        CHECKOUT / "dags",
        structlog.get_logger(),
    )
    assert (done, error) == (True, None)
    ((_, given),) = Notifier.told
    assert (given["to"], given["text"]) == ("ops", f"{late} ({{{{ dag_run.run_id }}}})")


def test_no_deadline_is_set_where_none_is_asked_for(dags: dict[str, Any]) -> None:
    assert all(not dag.deadline for dag in dags.values())
