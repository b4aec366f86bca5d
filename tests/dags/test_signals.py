"""What the DAGs send of a day: real StatsD packets, OpenLineage's own classes, a notifier, deadlines."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import yaml

from cep_pipeline.errors import CepError
from cep_pipeline.events.raw_files import RawFile
from cep_pipeline.pipeline.signals import DayReport
from cep_pipeline.warehouse.records import EventsFingerprint, PublishedDay, RunRecord, RunStep
from tests.dags.conftest import CHECKOUT
from tests.dags.test_daily_detection import write_stream

DAY = date(2013, 10, 7)
OVER = datetime(2013, 10, 8, 4, tzinfo=UTC)
RUN = RunRecord(
    "manual__1",
    DAY,
    "succeeded",
    OVER + timedelta(minutes=1),
    OVER + timedelta(minutes=10),
    steps=(RunStep("detect market", 12.5),),
    events=388_417,
    rejected=3,
    matches={"market.v_reversal": 1_234},
    details={"lease_wait_s": 0.25, "unusual": {"market.v_reversal": {"matches": 1_234, "least": 5, "most": 50}}},
)
FINGERPRINT = EventsFingerprint((RawFile("2013-10-07/trades.csv.gz", 4_711, "00"),), "schema")
REPORT = DayReport(
    "trades",
    DAY,
    RUN,
    OVER,
    PublishedDay(DAY, 388_417, 3, FINGERPRINT, "", {}, "manual__1", OVER, 1),
    "s3://bucket/raw",
    "/srv/warehouse/trades/events",
    "/srv/warehouse/trades/matches",
    {"market": 1_234},
)


@pytest.fixture
def collector(airflow_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A StatsD server of the test, and Airflow's Stats as a task sets them up."""
    from airflow.sdk.observability import stats
    from airflow.sdk.observability.metrics import stats_utils

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(10)
        address, port = server.getsockname()
        for name, value in {"ON": "True", "HOST": address, "PORT": str(port), "PREFIX": "airflow"}.items():
            monkeypatch.setenv(f"AIRFLOW__METRICS__STATSD_{name}", value)
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=True)
        yield server
    monkeypatch.undo()
    stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=True)


def test_metrics_reach_a_statsd_server(collector: socket.socket) -> None:
    import cep_signals

    cep_signals.send_metrics(REPORT)
    awaited = {
        "airflow.cep.events:388417|c",
        "airflow.cep.events.trades:388417|c",
        "airflow.cep.rejected.trades:3|c",
        "airflow.cep.matches.trades.market.v_reversal:1234|c",
        "airflow.cep.step.trades.detect_market:12500.000000|ms",
        "airflow.cep.lateness.trades:600.0|g",
        "airflow.cep.lease_wait.trades:250.000000|ms",
        "airflow.cep.unusual.trades:1|g",
        "airflow.cep.limited.trades:0|g",
    }
    received: set[str] = set()
    for _ in range(2 * len(list(REPORT.metrics()))):
        received.add(collector.recv(1000).decode())
    assert awaited <= received


def test_metrics_have_tags_where_the_collector_knows_them(airflow_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import cep_signals

    sent: list[tuple[str, Any]] = []
    for kind in ("incr", "timing", "gauge"):
        monkeypatch.setattr(cep_signals.stats, kind, lambda name, value, *, tags: sent.append((name, tags)))
    cep_signals.send_metrics(REPORT)
    assert len(sent) == len(list(REPORT.metrics())), "without StatsD no name has a value in it"
    assert ("cep.matches", {"stream": "trades", "pattern_set": "market", "pattern": "v_reversal"}) in sent


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


def test_a_failed_task_and_an_unusual_day_are_told(
    airflow_home: Path, dags: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cep_signals

    file = configured(tmp_path, monkeypatch, notifier=NOTIFIER, arguments={"to": "ops"})
    monkeypatch.setattr(DayReport, "read", lambda *_: REPORT)
    cep_signals.tell_of_day(file, "trades", DAY, {"run_id": "manual__1"})
    task = SimpleNamespace(dag_id="verify", task_id="verify")
    for one in (task for dag in dags.values() for task in dag.tasks):
        (callback,) = one.on_failure_callback
        callback({"ti": task, "run_id": "manual__1", "exception": CepError("damaged {{ ti }}")})
    assert Notifier.told[0] == (
        "trades 2013-10-07: market.v_reversal has 1,234 matches; 5 to 50 are usual",
        {"to": "ops"},
    )
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


def test_a_step_says_what_it_has_read_and_written(
    dags: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the manager of Airflow's provider, as its listener asks when a task has succeeded."""
    from airflow.providers.openlineage.extractors.manager import ExtractorManager
    from airflow.utils.state import TaskInstanceState

    manager: Any = ExtractorManager()
    read: list[tuple[Any, ...]] = []

    def read_report(*asked: Any) -> DayReport:
        read.append(asked)
        return REPORT

    monkeypatch.setattr(DayReport, "read", read_report)
    dag = dags["daily_detection_us_equity_trades"]
    context = {
        "params": {"day": None},
        "dag_run": SimpleNamespace(logical_date=datetime(2013, 10, 7, 4, tzinfo=UTC), run_type="scheduled"),
    }
    instance = SimpleNamespace(run_id="manual__1", get_template_context=lambda: context)
    run: Any = SimpleNamespace(run_id="manual__1")

    def flow(step: str) -> Any:
        task = dag.get_task(step)
        return manager.extract_metadata(run, task, TaskInstanceState.SUCCESS, instance)

    (raw,), (events, matches) = (published := flow("publish")).inputs, published.outputs
    assert (raw.namespace, raw.name) == ("s3://bucket", "raw/2013-10-07/trades.csv.gz")
    assert raw.inputFacets["inputStatistics"].size == 4_711
    assert (events.namespace, events.name) == ("file", "/srv/warehouse/trades/events")
    assert events.outputFacets["outputStatistics"].rowCount == 388_417
    assert (matches.namespace, matches.name) == ("file", "/srv/warehouse/trades/matches")
    assert matches.outputFacets["outputStatistics"].rowCount == 1_234
    for drafting in ("preprocess", "detect"):
        assert flow(drafting).inputs == flow(drafting).outputs == []
    assert {asked[1:] for asked in read} == {("us_equity_trades", DAY, "manual__1")}
