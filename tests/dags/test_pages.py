from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urljoin
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import cep_pipeline as cep
from cep_pipeline.adaptation.decisions import Verdict
from cep_pipeline.detection.limits import LimitedPattern
from cep_pipeline.events.columns import QUARANTINE_SCHEMA
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.pipeline.configuration import Configuration, data_docs_folder
from cep_pipeline.pipeline.plan_checks import InvariantReport, show_invariants
from cep_pipeline.pipeline.violations import Violation
from cep_pipeline.statistics import LeafRate, Source, StatisticsSnapshot
from cep_pipeline.storage import digest_of, write_data_file
from cep_pipeline.warehouse.match_pages import MatchesQuery
from cep_pipeline.warehouse.records import DayStatistics, Decision, EventsFingerprint, RunRecord, RunStep
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.cli.command_line import cep as call
from tests.dags.conftest import CHECKOUT
from tests.pipeline.drift import DriftingStream, write_project
from tests.statistics.market import market, parse
from tests.warehouse.published_days import publish_match_files, publish_quarantine, publish_statistics

MONDAY = date(2013, 10, 7)
STARTED = datetime(2013, 10, 8, 4, 0, tzinfo=UTC)
HOSTILE = "<script>alert('rows')</script>\x1b[2J\u202e"
STATISTICS = StatisticsSnapshot(
    "trades", 1_000, 0, 80_000_000, (LeafRate("IBM < 3", 12.5, 1_000, Source.COUNT, 12.0, 13.0, worst_per_s=40.25),)
)
RUN_PAGE = "/cep/run?stream=trades&run_id=backfill__1&day=2013-10-07"
PLAN_PAGE = "/cep/plan?stream=trades&pattern_set=market&version=1"
HAND_PAGE = "/cep/run?" + urlencode({"stream": "trades", "run_id": f"by hand & {HOSTILE}", "day": "2013-10-08"})
HOSTILE_PAGES = ["/cep/", "/cep/?stream=trades", "/cep/decisions", RUN_PAGE, HAND_PAGE]
REAL = "stream=generated_trades"
REAL_PAGES = [
    f"/cep/matches?{REAL}",
    f"/cep/match?{REAL}&pattern_set=market&day=2025-01-06&match_id=MATCH",
    f"/cep/download?{REAL}&format=csv",
    f"/cep/plans?{REAL}",
    f"/cep/statistics?{REAL}",
    f"/cep/invariants?{REAL}",
    "/cep/dag?dag_id=daily_detection_generated_trades",
]
"""Pages of a stream that `cep run` has published; MATCH stands for the id of a match."""
PAGES = [*HOSTILE_PAGES, PLAN_PAGE, *REAL_PAGES]
FOLLOW = "; ".join(
    f"NAME {name} PATTERN SEQ(SPY s, {', '.join(f'{symbol} {symbol.lower()}' for symbol in symbols)}) "
    f"WHERE s.diff < 0 AND {' AND '.join(f'{symbol.lower()}.diff < s.diff' for symbol in symbols)} WITHIN 1 second"
    for name, symbols in {
        "bac_follows": ("BAC",),
        "financials_follow": ("BAC", "AIG"),
        "bank_and_ibm_follow": ("BAC", "IBM"),
        "all_follow": ("BAC", "AIG", "IBM"),
    }.items()
)
"""Patterns that are planned together, and share work."""
COMBINED = """
NAME drop PATTERN SEQ(SPY a, SPY b) WHERE b.diff <= -0.03 WITHIN 1 second RETURN a.price AS price;
NAME drop_then_bank PATTERN SEQ(drop d, BAC b) WHERE b.size >= 300 WITHIN 1 second;
NAME blocks PATTERN SEQ(Trade a, Trade b) WHERE [symbol] AND a.size >= 400 AND b.size > a.size WITHIN 2 seconds
    SUMMARIZE count(*) AS number, max(b.price - a.price) AS highest GROUP BY a.symbol AS stock;
NAME pairs PATTERN SEQ(Trade a, Trade b) WITHIN 2 seconds
"""
"""A pattern of matches of another one, one that is summarized, and one that reaches the limit of the set."""


@pytest.fixture(scope="module")
def airflow_app(airflow_database: Path) -> Any:
    from airflow.api_fastapi.app import create_app

    return create_app(apps="core")


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A pipeline with a run that succeeded, one that failed, and a stream that `cep run` has published."""
    folder = tmp_path_factory.mktemp("pipeline")
    for name in ("streams", "patterns"):
        shutil.copytree(CHECKOUT / name, folder / name)
    schema = {
        "name": "trades",
        "base_type": "Trade",
        "type_attribute": "symbol",
        "attributes": {"symbol": "string", "price": "float64"},
        "timestamp": {"column": "timestamp", "format": "iso"},
        "timezone": "UTC",
        "source": {"format": "csv", "path": "{day:%Y-%m-%d}.csv"},
    }
    import yaml

    (folder / "trades.yaml").write_text(yaml.safe_dump(schema))
    stream = {"schema": "trades.yaml", "data": "raw", "pattern_sets": {"market": {"file": "market.sase"}}}
    (folder / "others.yaml").write_text(yaml.safe_dump({**schema, "name": "others"}))
    unpublished = {**stream, "schema": "others.yaml", "data": "other"}
    real = {
        "schema": "streams/generated_trades.yaml",
        "data": "generated",
        "statistics": {"window": "5 minutes"},
        "pattern_sets": {
            "market": {"file": "patterns/generated_trades.sase"},
            "follow": {"file": "patterns/follow.sase", "planner": "sharing"},
            "combined": {"file": "patterns/combined.sase", "limits": {"max_matches": 100_000}},
        },
    }
    (folder / "patterns" / "follow.sase").write_text(FOLLOW)
    (folder / "patterns" / "combined.sase").write_text(COMBINED)
    streams = {"generated_trades": real, "others": unpublished, "trades": stream}
    document = {"streams": streams, "warehouse": {"location": "warehouse"}, "checks": {"folder": "log"}}
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    for command in (
        ["generate", "--days", "3", "--events-per-day", "2000", "--out", str(folder / "generated")],
        ["run", "--config", str(folder / "pipeline.yaml"), "--stream", "generated_trades", "--master", "local[2]"],
    ):
        assert call(*command, folder=folder).code == (5 if command[0] == "run" else 0)
    tables = Warehouse.open(folder / "warehouse").stream(StreamSchema.load(folder / "trades.yaml"))
    with tables.plan_lease("market", run_id="backfill__1") as lease:
        tables.record_plan(
            "market",
            {"version": 1},
            lease=lease,
            explain="order: c < a < b, because c is rare",
            reason="first plan",
            pattern_set_version="v1",
        )
    rejected = pa.table(
        {
            "day": pa.array([MONDAY] * 3, pa.date32()),
            "file": ["trades.csv"] * 3,
            "line": pa.array([4, 7, 9], pa.int64()),
            "reason": ["price: no number", "price: no number", HOSTILE],
            "raw": ["a", "b", "c"],
        }
    )
    with tables.day_lease(MONDAY, run_id="backfill__1") as lease:
        directory = tables.quarantine_directory(MONDAY, run_id="backfill__1")
        file = write_data_file(directory.file(0), rejected, QUARANTINE_SCHEMA)
        publish_quarantine(tables, MONDAY, [file], lease=lease, fingerprint=EventsFingerprint((), digest_of("")))
        made = {"market": DayStatistics(STATISTICS.to_json()), "older": DayStatistics({"version": 1})}
        publish_statistics(tables, MONDAY, made, lease=lease)
    tables.record_run(
        RunRecord(
            run_id="backfill__1",
            day=MONDAY,
            status="succeeded",
            started_at=STARTED,
            finished_at=STARTED + timedelta(seconds=93.5),
            steps=(
                RunStep("ingest", 12.25, {"events": 388_417}, STARTED.timestamp() + 8),
                RunStep("detect", 40.5, began_s=STARTED.timestamp() + 50),
            ),
            events=388_417,
            rejected=3,
            matches={"market.v_reversal": 1_234, "market.lead_lag": 5, "older.lead_lag": 0},
            plans={"market": 1},
            validation={
                "success": True,
                "results": [
                    {
                        "expectation": "expect_column_values_to_be_between",
                        "arguments": {"column": "price_mean", "min_value": 0},
                        "severity": "critical",
                        "success": True,
                        "unexpected_count": 0,
                    }
                ],
            },
        )
    )
    tables.record_run(
        RunRecord(
            run_id=f"by hand & {HOSTILE}",
            day=MONDAY + timedelta(days=1),
            status="failed",
            started_at=STARTED + timedelta(days=1),
            finished_at=STARTED + timedelta(days=1, seconds=2),
            error=f"trades.csv:4: {HOSTILE}",
            steps=(RunStep(HOSTILE, 1.5, {HOSTILE: 7}),),
            matches={f"market.{HOSTILE}": 1},
            plans={HOSTILE: 1},
            validation={
                "success": False,
                "results": [
                    {
                        "expectation": HOSTILE,
                        "arguments": {HOSTILE: HOSTILE},
                        "severity": HOSTILE,
                        "success": False,
                        "unexpected_count": 3,
                    }
                ],
            },
        )
    )
    tables.record_decision(
        Decision("market", "invariant", "replan", f"c exceeds a {HOSTILE}", STARTED, MONDAY, 1, "check__1")
    )
    replaced = Decision("market", "replanning", "replaced", "for that", STARTED, MONDAY, 1, "violation__1")
    tables.record_decision(replace(replaced, decided_at=STARTED + timedelta(minutes=1), details={"current": 2}))
    return folder / "pipeline.yaml"


@pytest.fixture
def client(airflow_app: Any, configuration: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from fastapi.testclient import TestClient

    monkeypatch.setenv("CEP_CONFIG", str(configuration))
    yield TestClient(airflow_app, base_url="http://testserver", follow_redirects=False)


@pytest.fixture
def viewer(airflow_app: Any, client: Any) -> Any:
    """The same, logged in as a user who may only look."""
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    token = airflow_app.state.auth_manager.generate_jwt(SimpleAuthManagerUser(username="ada", role="viewer"))
    client.headers["Authorization"] = f"Bearer {token}"
    return client


@pytest.fixture(scope="module")
def match_id(configuration: Path) -> str:
    """The id of a match of the published stream."""
    tables = Warehouse.open(configuration.parent / "warehouse").open_stream("generated_trades")
    return str(tables.read_matches("market", date(2025, 1, 6), date(2025, 1, 6), limit=1)["match_id"][0].as_py())


def hidden(html: str) -> list[str]:
    """The characters that a reader does not see, or that move others."""
    return [one for one in html if one not in "\n\t" and unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


def text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


@pytest.mark.parametrize("path", [*PAGES, "/cep/run?stream=nothing&run_id=x", "/cep/run"])
def test_nobody_sees_anything_without_logging_in(client: Any, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 401
    assert "backfill__1" not in answer.text


@pytest.mark.parametrize("path", PAGES)
def test_a_forged_login_is_refused(client: Any, path: str) -> None:
    import jwt

    forged = jwt.encode({"sub": "ada", "role": "admin", "exp": 4_000_000_000}, "another secret" * 6, "HS512")
    answer = client.get(path, headers={"Authorization": f"Bearer {forged}"})
    assert answer.status_code in (401, 403)
    assert "backfill__1" not in answer.text


def test_a_user_without_the_right_to_plugin_pages_is_refused(
    airflow_app: Any, viewer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.api_fastapi.auth.managers.models.resource_details import AccessView

    manager = type(airflow_app.state.auth_manager)
    monkeypatch.setattr(
        manager, "is_authorized_view", lambda self, *, access_view, user: access_view != AccessView.PLUGINS
    )
    for path in PAGES:
        assert viewer.get(path).status_code == 403, path


def test_every_page_is_tried_with_hostile_values(viewer: Any, match_id: str) -> None:
    """Names, reasons, errors and arguments are shown as text, in values and addresses; nothing of them is hidden."""
    from cep_pages import app
    from cep_plugin import PREFIX

    # The pages of data checks have their own test: their address names a file.
    plain = {f"{PREFIX}{route.path}" for route in app.routes if not route.path.startswith("/checks/")}
    assert plain == {path.partition("?")[0] for path in PAGES}
    for path in PAGES:
        answer = viewer.get(path.replace("MATCH", match_id), follow_redirects=True)
        assert answer.status_code == 200, path
        if "/download" in path:
            continue
        assert "<script" not in answer.text.lower() and hidden(answer.text) == []
        shown = "&lt;script&gt;alert(&#39;rows&#39;)&lt;/script&gt;\\x1b[2J\\u202e" in answer.text
        assert shown is (path in HOSTILE_PAGES)
        assert not re.search(r"""(href|class)=[^"]|href="[^/"?#]""", answer.text)


class Rights:
    """A manager of rights that lets a user see some DAGs, and some of what belongs to a DAG."""

    def __init__(self, dags: set[str], entities: set[str | None]) -> None:
        self.dags, self.entities = dags, entities
        self.asked: set[tuple[str, str]] = set()

    def __call__(self, *, method: str, user: Any, access_entity: Any = None, details: Any = None) -> bool:
        self.asked.add((user.username, method))
        entity = None if access_entity is None else access_entity.name
        return details is not None and details.id in self.dags and entity in self.entities


def addresses(match_id: str) -> list[str]:
    """An address of each page that the plugin has: all of them show something of a stream."""
    from cep_pages import app
    from cep_plugin import PREFIX

    known = [*PAGES, "/cep/decisions?stream=trades"]
    # The pages of data checks are shown to whoever sees the stream (`tables_of`); their address names a file.
    routes = {f"{PREFIX}{route.path}" for route in app.routes if not route.path.startswith("/checks/")}
    missing = "a new page needs an address here, so that the rights to it are tested"
    assert routes == {address.partition("?")[0] for address in known}, missing
    return [address.replace("MATCH", match_id) for address in known if address != HAND_PAGE]


BOTH_STREAMS = {"daily_detection_trades", "daily_detection_generated_trades"}
ALL_OF_IT: set[str | None] = {None, "RUN"}
SHOWS = re.compile("backfill__1|because c is rare|c exceeds a|generated_trades|v_reversal|match_id")


@pytest.mark.long
@pytest.mark.parametrize(
    ("dags", "entities", "sees"),
    [
        (BOTH_STREAMS, ALL_OF_IT, True),
        ({"daily_detection_others"}, ALL_OF_IT, False),
        (set(), ALL_OF_IT, False),
        (BOTH_STREAMS, {None}, False),
        (BOTH_STREAMS, {"RUN"}, False),
    ],
)
def test_who_may_not_see_the_dag_of_a_stream_sees_nothing_of_it(
    airflow_app: Any,
    viewer: Any,
    monkeypatch: pytest.MonkeyPatch,
    dags: set[str],
    entities: set[str | None],
    sees: bool,
    match_id: str,
) -> None:
    rights = Rights(dags, entities)
    monkeypatch.setattr(type(airflow_app.state.auth_manager), "is_authorized_dag", rights)
    for address in addresses(match_id):
        answer = viewer.get(address, follow_redirects=True)
        assert (SHOWS.search(answer.text) is not None) is sees, address
        whole = "?" not in address or "/dag?" in address
        assert answer.status_code == (200 if sees or whole else 404)
        if not sees:
            assert "trades" not in answer.text
            other = address.replace("stream=trades", "stream=unknown").replace("generated_trades", "unknown")
            unknown = viewer.get(other)
            assert answer.text == unknown.text, "whether there is such a stream is not told"
    assert rights.asked == ({("ada", "GET"), ("ada", "POST")} if sees else {("ada", "GET")})


@pytest.mark.parametrize("path", ["/cep/docs", "/cep/redoc", "/cep/openapi.json"])
def test_there_are_no_pages_that_need_no_login(client: Any, path: str) -> None:
    assert client.get(path).status_code in (401, 404)


def test_runs_are_listed_with_plan_rejected_rows_and_matches(viewer: Any) -> None:
    answer = viewer.get("/cep/")
    assert answer.status_code == 200
    shown = text(answer.text)
    assert "trades 2013-10-07 backfill__1 succeeded 2013-10-08 04:00:00 93.5 388,417 3 1,239 market v1" in shown
    assert shown.index("trades 2013-10-08") < shown.index("trades 2013-10-07 backfill__1"), "the latest comes first"


def test_decisions_are_listed_the_latest_first(viewer: Any) -> None:
    shown = text(viewer.get("/cep/decisions?stream=trades").text)
    made = "market 2013-10-08 04:01:00 2013-10-07 replanning replaced v1 → v2 for that"
    assert made in shown and f"trades {made}" not in shown, "the stream is in the address of the page"
    assert f"trades {made}" in text(viewer.get("/cep/decisions").text)
    assert shown.index(made) < shown.index("invariant replan v1 c exceeds a")
    assert viewer.get("/cep/decisions?stream=others").status_code == 404


def test_a_violation_that_waits_leads_to_its_replanning(
    viewer: Any, configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the list of runs and that of decisions, until a replanning has answered it."""
    waits = "of trades, market, no longer fits, and no replanning has answered yet"
    pages = ["/cep/", "/cep/decisions"]
    assert not any(waits in text(viewer.get(path).text) for path in pages)
    tables = Warehouse.open(configuration.parent / "warehouse").open_stream("trades")
    plan = tables.current_plan("market")
    assert plan is not None
    violation = Violation("market", plan.version, "0123", f"c exceeds a {HOSTILE}")
    details = {"statistics": {"digest": "these numbers"}, "replannings": 1, "violation": violation.to_json()}
    check = Decision("market", "invariant", "replan", violation.reason, STARTED, MONDAY, plan.version, "check__2")
    tables.record_decision(replace(check, decided_at=STARTED + timedelta(minutes=2), details=details))
    for path in pages:
        answer = viewer.get(path)
        assert waits in text(answer.text)
        assert '<a href="/dags/replanning_trades">Trigger the replanning</a>' in answer.text
        assert "<script" not in answer.text and hidden(answer.text) == []
    address = f"/dags/replanning_trades/runs/{violation.run_id}"
    trigger = '<a href="/dags/replanning_trades">Trigger the replanning</a>'
    for failed in (False, True):
        monkeypatch.setattr("cep_pages.last_attempt", lambda *_, failed=failed: (address, failed))
        for path in pages:
            shown = viewer.get(path).text
            assert f'<a href="{address}">The replanning run</a>' in shown
            assert ("has failed; the next check starts another" in shown) is (trigger in shown) is failed
    answered = Decision("market", "replanning", "kept", "the old one", STARTED, MONDAY, plan.version, violation.run_id)
    dealt_with = "replanned 2013-10-08 04:03, kept: the old one"
    assert dealt_with not in text(viewer.get("/cep/decisions").text)
    tables.record_decision(replace(answered, decided_at=STARTED + timedelta(minutes=3)))
    assert not any(waits in text(viewer.get(path).text) for path in pages)
    assert dealt_with in text(viewer.get("/cep/decisions").text)


def test_a_stream_that_is_not_published_is_not_listed(viewer: Any) -> None:
    assert "others" not in viewer.get("/cep/").text
    assert viewer.get("/cep/?stream=others").status_code == 404


def test_a_run_shows_steps_matches_plan_rejected_rows_and_validation(viewer: Any) -> None:
    answer = viewer.get(RUN_PAGE)
    assert answer.status_code == 200
    shown = text(answer.text)
    for part in (
        "From its first step to its end 93.5 s",
        "ingest 12.2 events 388,417",
        "v_reversal 1,234",
        "lead_lag 5",
        "Pattern set market plan v1 , statistics",
        "price: no number 2",
        "1 of 1 checks are met",
        "expect_column_values_to_be_between: column price_mean, min_value 0 critical met 0",
    ):
        assert part in shown, part
    assert "because c is rare" not in shown, "the plan has a page of its own"


def run_drawn(viewer: Any, tables: Any, record: RunRecord) -> tuple[list[str], str]:
    """What the parts of a run's line of time say, and the page in words."""
    tables.record_run(record)
    html = viewer.get(RUN_PAGE.replace("backfill__1", record.run_id)).text
    return drawn_nodes(html), text(html)


def test_a_run_of_airflow_is_drawn_from_its_request_to_its_end(viewer: Any, configuration: Path) -> None:
    """With what it waited for; the sums leave nothing out."""
    from airflow.models.dagrun import DagRun
    from airflow.models.log import Log
    from airflow.utils.session import create_session

    tables = Warehouse.open(configuration.parent / "warehouse").open_stream("trades")
    (record,) = (run for run in tables.runs() if run.run_id == "backfill__1")
    name, begin = "drawn__1", STARTED.timestamp()
    with create_session() as session:
        run = DagRun(dag_id="daily_detection_trades", run_id=name, run_type="manual", state="success")
        run.run_after = run.queued_at = STARTED - timedelta(seconds=10)
        session.add(run)
        happened = {
            "ingest": {-4: "running", 6: "up_for_retry", 9: "running", 15: "success"},
            "preprocess": {17: "running", 20: "deferred", 50: "running", 60: "success"},
            "validate": {61: "running", 62: "failed"},
        }
        for task, states in happened.items():
            for at, state in states.items():
                one = Log(event=state, task_id=task, dag_id=run.dag_id, run_id=name, map_index=-1)
                one.dttm = STARTED + timedelta(seconds=at)
                session.add(one)
    steps = (RunStep("ingest", 4, began_s=begin + 10), RunStep("preprocess", 5, began_s=begin + 52))
    parts, shown = run_drawn(viewer, tables, replace(record, run_id=name, steps=steps))
    process, queue, wait = "start and end of processes", "in Airflow's queue", "waiting for another day"
    assert sorted(unescape(one) for one in parts) == sorted(
        [
            f"ingest: {queue}, 6.0 s",
            f"ingest: {process}, 10.0 s",
            "ingest: waiting for the next try, 3.0 s",
            f"ingest: {process}, 6.0 s",
            "ingest: at work, 4.0 s",
            f"preprocess: {queue}, 2.0 s",
            f"preprocess: {process}, 3.0 s",
            f"preprocess: {wait}, 30.0 s",
            f"preprocess: {process}, 10.0 s",
            "preprocess: at work, 5.0 s",
            f"validate: {queue}, 1.0 s",
            "validate: ended by an error, 1.0 s",
        ]
    )
    assert "seconds since 2013-10-08 03:59:50 UTC" in shown
    sums = f"at work: 9.0 s {process}: 20.0 s {queue}: 9.0 s {wait}: 30.0 s waiting for the next try: 3.0 s"
    assert sums in re.sub(r" +", " ", unescape(shown))


def test_a_day_of_a_run_of_the_command_line_waits_for_its_other_days(viewer: Any, configuration: Path) -> None:
    tables = Warehouse.open(configuration.parent / "warehouse").open_stream("trades")
    (record,) = (run for run in tables.runs() if run.run_id == "backfill__1")
    begin = STARTED.timestamp()
    before = replace(record, run_id="two days", day=MONDAY - timedelta(days=1))
    tables.record_run(replace(before, steps=(RunStep("ingest", 20, began_s=begin + 2),)))
    steps = (RunStep("ingest", 0, began_s=begin + 22), RunStep("detect all", 5, began_s=begin + 23))
    parts, _ = run_drawn(viewer, tables, replace(record, run_id="two days", steps=steps))
    own = "start and end of processes, 1.0 s"
    waits = "ingest: waiting for another day, 22.0 s"
    assert parts[:2] == [waits, f"detect all: {own}"] and "detect all: at work, 5.0 s" in parts


def test_steps_of_one_name_have_one_number_beside_their_bars(viewer: Any, configuration: Path) -> None:
    """Numbers over each other cannot be read."""
    tables = Warehouse.open(configuration.parent / "warehouse").open_stream("trades")
    (record,) = (run for run in tables.runs() if run.run_id == "backfill__1")
    steps = tuple(RunStep("plan", 1 + at, began_s=STARTED.timestamp() + 5 * at) for at in range(3))
    tables.record_run(replace(record, run_id="three plans", steps=steps))
    html = viewer.get(RUN_PAGE.replace("backfill__1", "three+plans")).text
    assert re.findall(r">([\d.]+ s)</text>", html) == ["6.0 s"]


def test_a_run_leads_to_the_data_docs_of_its_checkpoint(viewer: Any, configuration: Path) -> None:
    tables = Warehouse.open(configuration.parent / "warehouse").open_stream("generated_trades")
    run = next(run for run in tables.runs() if run.day == date(2025, 1, 6))
    asked = urlencode({"stream": "generated_trades", "run_id": run.run_id, "day": "2025-01-06"})
    (link,) = re.findall('href="(/cep/checks/[^"]+)"', viewer.get(f"/cep/run?{asked}").text)
    answer = viewer.get(link)
    assert answer.status_code == 200 and "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "price must be above 0" in unescape(answer.text)
    assert "of the rows may be rejected" in answer.text
    # the links between the pages lead to pages
    for leading in (part for part in re.findall('href="([^"#]+)"', answer.text) if "//" not in part):
        expected = 404 if leading.endswith(".ico") else 200
        assert viewer.get(urljoin(link, leading)).status_code == expected, leading


def test_only_pages_of_a_runs_checks_are_given_away(viewer: Any, configuration: Path) -> None:
    folder = data_docs_folder(configuration.parent / "log", "trades", "backfill__1", MONDAY)
    assert folder is not None
    folder.mkdir(parents=True)
    (folder / "index.html").write_text("<head></head>the checks of backfill__1")
    (folder / "secret.txt").write_text("secret")
    (folder.parent / "beside.html").write_text("secret")
    (folder.parent.parent / "other.html").write_text("secret")
    here = f"/cep/checks/trades/backfill__1/{MONDAY}"
    assert "the checks of backfill__1" in viewer.get(f"{here}/index.html").text
    wrong = ["secret.txt", "../beside.html", "%2e%2e/beside.html", "..%2f..%2fother.html", "%2fetc/passwd", "%00", ""]
    tried = [f"{here}/{page}" for page in wrong]
    tried += [f"{here.replace('trades', stream)}/index.html" for stream in ("nothing", "others", "generated_trades")]
    tried += [f"{here.replace('backfill__1', run)}/index.html" for run in ("..", "backfill__2", "%2e%2e")]
    tried += [here.replace(str(MONDAY), "2013-10-08") + "/index.html"]
    for path in tried:
        answer = viewer.get(path)
        assert answer.status_code in (404, 307) and "secret" not in answer.text, path  # 307: to Airflow's own pages
    del viewer.headers["Authorization"]
    assert viewer.get(f"{here}/index.html").status_code == 401


def test_a_plan_of_many_patterns_is_a_list_that_leads_to_each(viewer: Any, configuration: Path) -> None:
    names = [f"p{number}" for number in range(30)]
    statements = (f"NAME {name} PATTERN SEQ(A a, B b) WHERE a.price < b.price WITHIN 5 seconds" for name in names)
    patterns = parse("; ".join(statements))
    plan = cep.plan(patterns, cep.estimate_statistics(patterns, market(100)), planner="greedy")
    tables = Warehouse.open(configuration.parent / "warehouse").open_stream("trades")
    with tables.plan_lease("many", run_id=f"by {HOSTILE}") as lease:
        tables.record_plan(
            "many", plan.to_json(), lease=lease, explain=plan.explain(), reason=HOSTILE, pattern_set_version="v"
        )
    path = "/cep/plan?stream=trades&pattern_set=many&version=1"
    whole = viewer.get(path)
    assert whole.status_code == 200 and "<script" not in whole.text and hidden(whole.text) == []
    assert "the 30 that cost most by themselves" in whole.text and "invariants: " not in whole.text
    links = [link.replace("&amp;", "&") for link in re.findall(r'href="([^"]+)"', whole.text) if "pattern=" in link]
    assert links == [f"{path}&pattern={name}" for name in names]
    one = viewer.get(links[7]).text
    assert "<strong>p7</strong>" in one and one.count("invariants: ") == 1 and "pattern p7: " in one
    older = viewer.get("/cep/plan?stream=trades&pattern_set=market&version=1").text
    assert "because c is rare" in older and "pattern=" not in older


def test_long_parts_of_a_run_are_opened_when_they_are_asked_for(viewer: Any, configuration: Path) -> None:
    tables = Warehouse.open(configuration.parent / "warehouse").open_stream("trades")
    (record,) = (run for run in tables.runs() if run.run_id == "backfill__1")
    matches = {f"market.p{number}": number for number in range(61)}
    tables.record_run(replace(record, run_id="many", matches=matches))
    path = RUN_PAGE.replace("backfill__1", "many")
    assert "<details><summary>61 patterns</summary>" in viewer.get(path).text
    assert "patterns</summary>" not in viewer.get(RUN_PAGE).text


def rows_of(html: str) -> int:
    return html.count("<tr>")


@pytest.mark.long
def test_pages_of_a_thousand_patterns_show_a_bounded_part(
    viewer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Published records as the runs of six days would leave them, with as many rates as patterns."""
    import cep_pages

    names = [f"p{number}" for number in range(1_000)]
    write_project(tmp_path)
    patterns = (f"NAME {name} PATTERN SEQ(A a, B b) WHERE a.x < {k} WITHIN 1 second" for k, name in enumerate(names))
    (tmp_path / "all.sase").write_text(";\n".join(patterns))
    days = [date(2024, 3, 4) + timedelta(days=number) for number in range(6)]
    stream = DriftingStream(tmp_path, {day: {"A": 3, "B": 2} for day in days})
    tables, window, version = stream.tables, stream.stream.statistics.window, stream.pattern_set.version
    for number, day in enumerate(days):
        stream.publish_events(day)
        began = datetime(day.year, day.month, day.day, 15, tzinfo=UTC)
        rates = [
            LeafRate(f"A where x.x < {k}", (per_s := k + 1.0 + number), 3, Source.COUNT, per_s - 1, per_s + 1)
            for k in range(1_000)
        ]
        first = int(began.timestamp() * 1e6)
        snapshot = StatisticsSnapshot("ticks", 5, first, first + 1_000_000, tuple(rates))
        basis = {"events": tables.days()[-1].fingerprint.digest, "window": window, "epsilon": 0.02}
        counts = {name: k * 10 for k, name in enumerate(names)}
        with tables.day_lease(day, run_id="publish") as lease:
            publish_statistics(tables, day, {"all": DayStatistics(snapshot.to_json(), basis=basis)}, lease=lease)
            fingerprint = tables.pin_events().matches_fingerprint(version, day, day, carry_in=digest_of({}))
            publish_match_files(tables, "all", day, [], lease=lease, fingerprint=fingerprint, counts=counts)
        matches = {f"all.{name}": count for name, count in counts.items()}
        tables.record_run(RunRecord("publish", day, "succeeded", began, began, events=5, matches=matches))
    monkeypatch.setenv("CEP_CONFIG", str(tmp_path / "pipeline.yaml"))
    shown = {
        page: viewer.get(f"/cep/{page}").text
        for page in ("", "statistics?stream=ticks", f"run?stream=ticks&run_id=publish&day={days[-1]}")
    }
    overview, statistics, run = shown.values()
    assert [len(page) < 200_000 for page in shown.values()] == [True] * 3
    assert overview.count('"numbers of matches of the latest days"') == cep_pages.SHOWN_PATTERNS
    assert "all.p999" in overview and ">all.p9<" not in overview, "the most frequent ones are shown"
    assert rows_of(statistics) == 1 + cep_pages.SHOWN_RUNS
    assert all(text(one).count("200 of 1,000 are shown") == 1 for one in (statistics, run))
    assert run.count("<li>") == cep_pages.SHOWN_RUNS and "all.p999" in run and "all.p799<" not in run
    chosen = viewer.get(f"/cep/run?stream=ticks&run_id=publish&day={days[-1]}&match=p77").text
    assert set(re.findall(r">all\.(p\d+)<", chosen)) == {name for name in names if "p77" in name}


def test_statistics_are_named_by_patterns_and_drawn_by_windows(viewer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one window nothing is drawn: each bar would be as high as all others."""
    import cep_pages

    html = viewer.get(f"/cep/statistics?{REAL}").text
    assert "<svg" not in html and "windows" not in text(html) and "market_wide_uptick.a" in html
    of_day = cep_pages.StatisticsHistory.of_day

    def with_another_window(self: Any, day: date | None) -> Any:
        overview = of_day(self, day)
        (window,) = overview.windows
        following = replace(window, start_us=window.end_us, end_us=window.end_us + 60_000_000)
        return replace(overview, windows=(window, following))

    monkeypatch.setattr(cep_pages.StatisticsHistory, "of_day", with_another_window)
    html = viewer.get(f"/cep/statistics?{REAL}").text
    shown = unescape(text(html))
    assert "market_wide_uptick.a AIG where x.diff > 0 rate " in shown
    assert "v_reversal: low.price < high.price * 0.9995 (IBM where x.size >= 300) before (IBM) within 10 s: " in shown
    assert html.count("in the windows of the day, at most") == html.count("<tr>") - 1 > 20
    assert "events from" not in shown and len(drawn_nodes(html)) == 2, "the rate of all events in each window"
    earlier = viewer.get(f"/cep/statistics?{REAL}&day=2025-01-06").text
    assert "business day 2025-01-06" in earlier and "business day 2025-01-08" in html
    assert viewer.get(f"/cep/statistics?{REAL}&day=2024-01-06").status_code == 422


def test_where_there_is_no_window_no_bar_is_drawn() -> None:
    from cep_pictures import histogram, small_histogram

    second = 1_000_000
    bars = [(0, second, 2.0), (second, 2 * second, None), (8 * second, 10 * second, 4.0)]
    assert re.findall(r"M([\d.]+),26V([\d.]+)H([\d.]+)", small_histogram(bars)) == [
        ("0.0", "14.0", "24.0"),
        ("192.0", "2.0", "240.0"),
    ]
    drawn = histogram(bars, "America/New_York", "matches")
    assert [tip.partition(" ")[0] for tip in drawn_nodes(drawn)] == [
        "2",
        "4",
    ] and "1969-12-31, America/New_York" in drawn
    assert ">matches</text>" in drawn, "the axis says what is counted"


def test_a_stream_is_read_anew_where_one_of_its_files_has_changed(tmp_path: Path) -> None:
    from cep_pages import loaded_stream

    write_project(tmp_path)
    configuration = Configuration.load(tmp_path / "pipeline.yaml")
    stream = loaded_stream(configuration, "ticks")
    assert loaded_stream(configuration, "ticks") is stream
    file = tmp_path / "all.sase"
    file.write_text(file.read_text().replace("rising", "falls"))
    assert [one.name for one in loaded_stream(configuration, "ticks").pattern_set("all").patterns] == ["falls"]


def test_a_limited_pattern_is_a_line_of_its_run(viewer: Any, configuration: Path) -> None:
    tables = Warehouse.open(configuration.parent / "warehouse").open_stream("trades")
    (record,) = (run for run in tables.runs() if run.run_id == "backfill__1")
    limited = {"market.bursts": str(LimitedPattern("max_matches 7", "count", 2**70, exact=True))}
    tables.record_run(replace(record, run_id="limited", details={"limited": limited}))
    assert re.search(r"limited</a></td>\s*<td class=\"limited\">limited</td>", viewer.get("/cep/").text)
    shown = text(viewer.get(RUN_PAGE.replace("backfill__1", "limited")).text)
    said = "market.bursts was stopped by its limit, max_matches 7: none of its matches is published, it has"
    assert f"{said} {2**70:,} matches" in shown


@pytest.mark.parametrize("path", PAGES)
def test_nothing_is_shown_unescaped_and_nothing_is_loaded(viewer: Any, path: str, match_id: str) -> None:
    answer = viewer.get(path.replace("MATCH", match_id), follow_redirects=True)
    assert "<script" not in answer.text
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", answer.text), "a page needs no network"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_failed_run_shows_its_error(viewer: Any) -> None:
    listed = viewer.get("/cep/").text
    link = next(link for link in re.findall(r'href="([^"]+)"', listed) if "hand" in link)
    first = re.search(r'<p class="failed"><a href="([^"]+)">2013-10-08</a> failed: trades.csv:4: &lt;script', listed)
    assert first is not None and first[1] == link, "what has failed stands under the days"
    answer = viewer.get(link.replace("&amp;", "&"))
    assert answer.status_code == 200
    assert "trades.csv:4: &lt;script&gt;" in answer.text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/cep/?stream=../../etc", 404),
        ("/cep/?stream=" + "x" * 300, 422),
        (f"/cep/?stream={quote(HOSTILE)}", 404),
        ("/cep/run?stream=trades&run_id=backfill__1", 404),
        ("/cep/run?stream=trades&run_id=backfill__1&day=monday", 422),
        ("/cep/run?stream=trades&run_id=' OR 1=1 --&day=2013-10-07", 404),
        ("/cep/plan?stream=trades&pattern_set=market&version=2", 404),
        ("/cep/plan?stream=trades&pattern_set=market&version=0", 422),
        ("/cep/plan?stream=trades&pattern_set=none&version=1", 404),
        (f"/cep/plan?stream=trades&pattern_set=market&version=1&pattern={quote(HOSTILE)}", 404),
        ("/cep/nothing", 404),
    ],
)
def test_a_wrong_request_is_refused_and_not_echoed_as_a_page(viewer: Any, path: str, status: int) -> None:
    answer = viewer.get(path)
    assert answer.status_code == status
    if answer.headers["content-type"].startswith("text/html"):
        assert "<script" not in answer.text and hidden(answer.text) == []


def test_runs_of_airflow_lead_to_their_dag_run_and_others_do_not(viewer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunType

    assert "cep_plugin" in sys.modules
    with create_session() as session:
        session.add(
            DagRun(
                dag_id="daily_detection_trades",
                run_id="backfill__1",
                run_type=DagRunType.BACKFILL_JOB,
                state=DagRunState.SUCCESS,
                run_after=STARTED,
            )
        )
    listed = viewer.get("/cep/").text
    rows = [row for row in listed.split("<tr>") if ">DAG run" in row and "drawn__1" not in row]
    assert [re.findall(r'href="(/dags[^"]+)"', row) for row in rows] == [
        ["/dags/daily_detection_trades/runs/backfill__1"]
    ]
    assert "/dags/daily_detection_trades/runs/backfill__1" in viewer.get(RUN_PAGE).text


def test_a_pipeline_that_cannot_be_read_is_explained(
    viewer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CEP_CONFIG", str(tmp_path / "pipeline.yaml"))
    answer = viewer.get("/cep/")
    assert answer.status_code == 422
    assert "pipeline.yaml" in answer.text


def test_a_fault_of_the_program_is_one_line_of_a_page(viewer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RecursionError("deep within")

    monkeypatch.setattr("cep_pipeline.pipeline.configuration.Configuration.load", fail)
    monkeypatch.setattr(viewer._transport, "raise_server_exceptions", False)
    answer = viewer.get("/cep/")
    assert answer.status_code == 500
    assert "This page cannot be shown: RecursionError." in answer.text
    assert "Traceback" not in answer.text and "deep within" not in answer.text


def test_the_navigation_has_an_entry(airflow_app: Any, viewer: Any) -> None:
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    token = airflow_app.state.auth_manager.generate_jwt(SimpleAuthManagerUser(username="root", role="admin"))
    answer = viewer.get("/api/v2/plugins", headers={"Authorization": f"Bearer {token}"})
    views = [view for plugin in answer.json()["plugins"] for view in plugin["external_views"]]
    assert {view["destination"]: view["href"] for view in views} == {
        "nav": "/cep/",
        "dag": "/cep/dag?dag_id={DAG_ID}",
        "dag_run": "/cep/dag?dag_id={DAG_ID}&run_id={RUN_ID}",
    }
    assert all(view["url_route"] and view["icon"].startswith("data:image/svg+xml,") for view in views)
    assert len({view["url_route"] for view in views}) == len(views), "or Airflow leaves some of them away"
    assert (CHECKOUT / "plugins" / "cep_plugin.py").is_file()


def test_tasks_load_the_plugin_without_the_web_application(airflow_home: Path) -> None:
    script = (
        "import sys, airflow.plugins_manager as manager\n"
        "plugins, errors = manager._get_plugins()\n"
        "assert not errors and {'cep', 'cep_days'} <= {plugin.name for plugin in plugins}, (plugins, errors)\n"
        "assert not {'fastapi', 'cep_pages', 'cep_pictures', 'pyarrow'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_a_failed_run_says_what_to_do(viewer: Any, configuration: Path) -> None:
    tables = Warehouse.open(configuration.parent / "warehouse").open_stream("trades")
    (record,) = (run for run in tables.runs() if run.run_id == "backfill__1")
    tables.record_run(replace(record, run_id="full", status="failed", error="writing failed: the disk is full"))
    shown = text(viewer.get(RUN_PAGE.replace("backfill__1", "full")).text)
    assert "What to do Free space: `cep maintain" in shown and "Spark does not start" not in shown
    assert "Correct what the message names" in text(viewer.get(HAND_PAGE).text)
    assert "What to do" not in text(viewer.get(RUN_PAGE).text)


def test_a_run_shows_rejected_rows_with_file_and_line(viewer: Any) -> None:
    assert "trades.csv 4 price: no number a" in text(viewer.get(RUN_PAGE).text)


def test_matches_are_chosen_and_downloaded_as_they_are_chosen(viewer: Any, configuration: Path) -> None:
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq

    tables = Warehouse.open(configuration.parent / "warehouse").open_stream("generated_trades")
    day = date(2025, 1, 6)
    pattern = "accelerating_blocks"
    published = tables.read_matches("market", day, day, pattern=pattern)["match_id"].to_pylist()
    chosen = f"{REAL}&day={day}&pattern={pattern}"
    assert f"{len(published):,} matches" in text(viewer.get(f"/cep/matches?{chosen}").text)
    found = pq.read_table(pa.BufferReader(viewer.get(f"/cep/download?{chosen}").content))
    assert found["match_id"].to_pylist() == published
    sent = viewer.get(f"/cep/download?{chosen}&format=csv")
    rows = pa_csv.read_csv(pa.BufferReader(sent.content))
    assert rows.num_rows == len(published) > 50
    assert rows["match_id"].to_pylist() == list(map(str, published))
    assert sent.headers["Content-Disposition"] == 'attachment; filename="generated_trades_2025-01-06.csv"'
    assert "Content-Length" not in sent.headers, "it is sent as it is made"
    listed: list[str] = []
    address: str | None = f"/cep/matches?{chosen}"
    while address is not None:
        html = viewer.get(address).text
        listed += re.findall(r"match_id=([0-9a-f-]{36})", html)
        further = re.search(r'href="([^"]+)">Further matches', html)
        address = further and further[1].replace("&amp;", "&")
    assert sorted(listed) == sorted(map(str, published)), "each stands on one page, with those of its first event"
    early = pq.read_table(pa.BufferReader(viewer.get(f"/cep/download?{chosen}&start=09:30&end=09:30:10").content))
    last = datetime(2025, 1, 6, 14, 30, 10, tzinfo=UTC)
    rows_by_end = tables.read_matches("market", day, day, pattern=pattern)["end_ts"].to_pylist()
    assert 0 < early.num_rows == sum(end < last for end in rows_by_end) < len(published)
    slips = ("start=10:00&end=09:00", "start=25:00", "day=2025-13-01", "after=-1.0.0", "pattern_set=" + "x" * 300)
    ends = ("day=9999-12-31", "day=0001-01-01&end=00:00", "day=9999-12-31&start=09:30")
    for wrong in (*slips, *ends):
        assert viewer.get(f"/cep/matches?{REAL}&{wrong}").status_code == 422, wrong
    for day_without in ("9999-12-30", "0001-01-02"):
        assert "0 matches" in text(viewer.get(f"/cep/matches?{REAL}&day={day_without}&start=00:00").text)
    assert viewer.get(f"/cep/matches?{REAL}&pattern_set=none").status_code == 404
    assert viewer.get(f"/cep/match?{REAL}&pattern_set=market&day={day}&match_id=none").status_code == 404


def test_matches_over_a_day_are_drawn_from_the_first_to_the_last(viewer: Any, configuration: Path) -> None:
    """The bars of a day of a few seconds are short, and none of its matches is left out."""
    tables = Warehouse.open(configuration.parent / "warehouse").open_stream("generated_trades")
    day = date(2025, 1, 6)
    ends = tables.read_matches("market", day, day)["end_ts"].to_pylist()
    assert max(ends) - min(ends) < timedelta(minutes=1)
    tips = drawn_nodes(viewer.get(f"/cep/matches?{REAL}&day={day}").text)
    assert len(tips) > 10 and sum(int(tip.partition(" ")[0].replace(",", "")) for tip in tips) == len(ends)
    assert re.fullmatch(r"\d+ matches from 2025-01-06 09:30:00 to 2025-01-06 09:30:01", tips[0])


@pytest.mark.parametrize(
    ("given", "ends", "first", "last", "seconds"),
    [
        ((None, None), ("09:30:00.5", "09:30:37.7"), "09:30:00", "09:30:38", 1),
        ((None, None), ("09:30:00", "16:00:00"), "09:30:00", "16:10:00", 600),
        (("10:00", "10:07"), ("09:30:00", "16:00:00"), "10:00:00", "10:07:00", 10),
        (("10:00:05", None), ("09:30:00", "12:00:00"), "10:00:00", "12:02:00", 120),
        ((None, None), None, "00:00:00", "24:00:00", 1800),
    ],
)
def test_the_bars_of_a_day_begin_and_end_with_its_matches(
    airflow_app: Any, given: Any, ends: Any, first: str, last: str, seconds: int
) -> None:
    from cep_pages import bars_of_day

    midnight = int(datetime(2025, 1, 6, 5, tzinfo=UTC).timestamp()) * 1_000_000

    def at(clock: str) -> int:
        hours, minutes, *more = (float(part) for part in clock.split(":"))
        return midnight + round((hours * 3600 + minutes * 60 + sum(more)) * 1e6)

    bounds = [None if one is None else at(one) for one in given]
    query = MatchesQuery("market", date(2025, 1, 6), None, *bounds)
    edges = bars_of_day(query, "America/New_York", ends and (at(ends[0]), at(ends[1])))
    assert (edges[0], edges[-1]) == (at(first), at(last))
    assert {end - begin for begin, end in pairwise(edges)} == {seconds * 1_000_000}


def test_matches_of_one_first_event_are_folded_and_show_times_and_values(viewer: Any, configuration: Path) -> None:
    tables = Warehouse.open(configuration.parent / "warehouse").open_stream("generated_trades")
    day = date(2025, 1, 6)
    rows = tables.read_matches("market", day, day, pattern="accelerating_blocks", limit=200).to_pylist()
    beginning: dict[int, list[Any]] = {}
    for row in rows:
        beginning.setdefault(row["bindings"][0]["seq"], []).append(row)
    html = viewer.get(f"/cep/matches?{REAL}&day={day}&pattern=accelerating_blocks").text
    folded = re.findall(r"<summary>(\d+) matches, the last until", html)
    assert [int(one) for one in folded] == [len(own) for own in beginning.values() if len(own) > 1] != []
    events = {row["seq"]: row for row in tables.read_events(day, day).to_pylist()}
    for one in rows[0]["bindings"]:
        event = events[one["seq"]]
        assert f"{one['variable']} {event['timestamp'].astimezone(ZoneInfo('America/New_York')):%H:%M:%S}" in html
        assert f"{event['symbol']} {event['price']:.8g}" in html


def test_a_match_is_drawn_over_the_attribute_that_is_chosen(viewer: Any, match_id: str) -> None:
    address = f"/cep/match?{REAL}&pattern_set=market&day=2025-01-06&match_id={match_id}"
    price, size = viewer.get(address).text, viewer.get(f"{address}&attribute=size").text
    for html, name in ((price, "price"), (size, "size")):
        assert f" {name}</text>" in html and len(drawn_nodes(html)) == html.count(f": {name} ") > 0
    shown = text(price)
    assert "NAME " in shown and re.search(r"WITHIN [^,]* [\d.]+ of [\d.]+ s, \d+%", shown)
    rules = shown.partition("Seen in the match")[2]
    assert " before " in rules and "not fulfilled" not in rules and re.search(r"\d [<>]=? \d", unescape(rules))
    assert viewer.get(f"{address}&attribute=exchange").status_code == 404


def test_only_who_may_trigger_the_replanning_is_shown_the_way_to_it(airflow_app: Any, viewer: Any) -> None:
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    address = f"/cep/plan?{REAL}&pattern_set=market&version=1"
    assert "Replan now" not in viewer.get(address).text
    token = airflow_app.state.auth_manager.generate_jwt(SimpleAuthManagerUser(username="root", role="admin"))
    shown = viewer.get(address, headers={"Authorization": f"Bearer {token}"}).text
    assert '<a href="/dags/replanning_generated_trades">Replan now' in shown


def test_tabs_and_links_of_airflow_lead_to_the_page_of_the_run(viewer: Any) -> None:
    from types import SimpleNamespace

    from cep_plugin import RunPageLink

    key = SimpleNamespace(dag_id="daily_detection_trades", run_id="backfill__1")
    answer = viewer.get(RunPageLink().get_link(None, ti_key=key))
    assert (answer.status_code, answer.headers["location"]) == (303, RUN_PAGE)
    assert RunPageLink().get_link(None, ti_key=SimpleNamespace(dag_id="another", run_id="x")) == ""
    decisions = viewer.get("/cep/dag?dag_id=replanning_trades&run_id=violation__1")
    assert decisions.headers["location"] == "/cep/decisions?stream=trades"
    for unknown in ("another", "daily_detection_others", "trades"):
        assert "runs nothing of a stream" in viewer.get(f"/cep/dag?dag_id={unknown}").text


def drawn_nodes(html: str) -> list[str]:
    """What the nodes of the first drawing say where a user points at them."""
    return re.findall("<title>([^<]*)</title>", html.partition("<svg")[2].partition("</svg>")[0])


def test_the_overview_says_of_which_patterns_there_are_no_matches_and_why(viewer: Any) -> None:
    """Days of which the same is to be said are one line."""
    html = viewer.get(f"/cep/?{REAL}").text
    shown = text(html)
    same = "2025-01-08 , 2025-01-07 , 2025-01-06 limited: combined.pairs reached a limit, and its matches are not"
    assert same in shown and len(re.findall("limited: combined.pairs", re.sub("<title>.*?</title>", "", html))) == 1
    assert "combined.blocks 2025-01-08 summarized" in shown and "combined.pairs 2025-01-08 limited" in shown
    assert 'aria-label="Streams"' not in html, "the way to other streams is above, and stands there once"
    assert "Airflow" not in shown, "no run is one of Airflow"


def test_groups_of_a_day_stand_beside_its_matches(viewer: Any, configuration: Path) -> None:
    tables = Warehouse.open(configuration.parent / "warehouse").open_stream("generated_trades")
    day = date(2025, 1, 6)
    address = f"/cep/matches?{REAL}&pattern_set=combined&day={day}"
    shown = text(viewer.get(address).text)
    rows = tables.read_summaries("combined", day, day).to_pylist()
    assert len(rows) > 3
    for row in rows:
        group, made = json.loads(row["groups"]), json.loads(row["aggregates"])
        assert f"{group['stock']} {made['number']} {made['highest']:.10g}" in shown
    limited = "pairs was stopped by its limit, max_matches 100,000: none of its matches is published"
    assert limited in shown and "blocks: summarized" in shown
    of_drop = text(viewer.get(f"{address}&pattern=drop").text)
    assert limited not in of_drop and "summarized" not in of_drop
    of_none = viewer.get(f"{address}&pattern=pairs").text
    assert "<svg" not in of_none and limited in text(of_none), "nothing is drawn of no match"


def test_a_run_says_which_patterns_are_limited_or_summarized(viewer: Any, configuration: Path) -> None:
    tables = Warehouse.open(configuration.parent / "warehouse").open_stream("generated_trades")
    run = next(run for run in tables.runs() if run.day == date(2025, 1, 6))
    asked = urlencode({"stream": "generated_trades", "run_id": run.run_id, "day": "2025-01-06"})
    shown = text(viewer.get(f"/cep/run?{asked}").text)
    assert "generated_trades, 2025-01-06: limited" in shown
    assert "combined.blocks summarized" in shown and "combined.pairs limited" in shown
    assert "price must be above 0 critical met 0" in shown
    assert "timestamp must be on 2025-01-06, America/New_York critical met 0" in shown


def test_a_match_of_matches_says_so_and_shows_values_in_words(viewer: Any, configuration: Path, match_id: str) -> None:
    tables = Warehouse.open(configuration.parent / "warehouse").open_stream("generated_trades")
    day = date(2025, 1, 6)
    found = tables.read_matches("combined", day, day, pattern="drop_then_bank", limit=1)["match_id"][0].as_py()
    shown = text(viewer.get(f"/cep/match?{REAL}&pattern_set=combined&day={day}&match_id={found}").text)
    said = "Variables with a dot are events of the matches that this one is made of"
    assert said in shown and " d.a " in shown
    plain = text(viewer.get(f"/cep/match?{REAL}&pattern_set=market&day={day}&match_id={match_id}").text)
    assert said not in plain and "The match is shaded." in plain
    assert "False" not in plain and " no " in plain and "[170" not in plain
    assert re.search(r", 2025-01-06 [\d:.]+( to [\d:.]+)? America", plain), "the day of the match stands there once"


def test_a_failed_day_is_told_by_what_was_wrong(viewer: Any, configuration: Path) -> None:
    """The first lines of the error, without what the page says already."""
    tables = Warehouse.open(configuration.parent / "warehouse").open_stream("trades")
    (record,) = (run for run in tables.runs() if run.run_id == "backfill__1")
    day, said = MONDAY - timedelta(days=7), "the events failed validation, nothing of the day is published:"
    error = f"stream 'trades', day {day}: {said}\n  price must be above 0: 97 of 3,851 values are not\nCorrect it"
    tables.record_run(replace(record, run_id="invalid", day=day, status="failed", error=error))
    shown = text(viewer.get("/cep/?stream=trades").text)
    assert f"{day} failed: {said} price must be above 0: 97 of 3,851 values are not" in shown


def test_plans_of_other_pattern_sets_are_one_click_away(viewer: Any) -> None:
    html = viewer.get(f"/cep/plan?{REAL}&pattern_set=market&version=1").text
    assert "generated_trades, market: plan 1" in text(html)
    links = {unescape(link) for link in re.findall(r'href="([^"]+)"', html)}
    assert f"/cep/plans?{REAL}&pattern_set=follow" in links
    assert viewer.get(f"/cep/plans?{REAL}&pattern_set=follow").headers["location"].startswith("/cep/plan?")
    assert html.index("pattern=v_reversal") < html.index("<pre>"), "the way to a pattern stands before the long text"


def test_costs_of_invariants_are_numbers_as_in_the_reason(viewer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import cep_pages

    from cep_pipeline.planning.clause_statistics import format_ln

    seen: list[InvariantReport] = []

    def kept(*given: Any, **more: Any) -> InvariantReport:
        seen.append(show_invariants(*given, **more))
        return seen[0]

    monkeypatch.setattr(cep_pages, "show_invariants", kept)
    shown = text(viewer.get(f"/cep/invariants?{REAL}&pattern_set=market").text)
    invariants = seen[0].to_json()["invariants"]
    assert len(invariants) > 5
    for one in invariants:
        chosen, rejected = (format_ln(side) for side in one["now"])
        assert re.search(rf"{re.escape(one['says'])} {chosen} {rejected} (-?[\d.]+%|× [\d,.]+) (yes|no)", shown)


def test_a_decision_shows_what_it_brought(viewer: Any, configuration: Path) -> None:
    """The costs as they were recorded."""
    tables = Warehouse.open(configuration.parent / "warehouse").open_stream("generated_trades")
    comparison = {"same": False, "ln_current": 2.0, "ln_new": 1.0}
    reason, decided = "the market has opened", datetime.now(UTC)
    brought = Decision("market", "replanning", "replaced", reason, decided, None, 1, "violation__7")
    tables.record_decision(replace(brought, details={"current": 2, "comparison": comparison}))
    shown = text(viewer.get(f"/cep/invariants?{REAL}&pattern_set=market").text)
    assert "replanning replaced v1 → v2 the market has opened 7.389 → 2.718" in shown


def test_a_violation_that_has_been_dealt_with_is_not_red(viewer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import cep_pages

    answered = "replanned 2025-01-09 16:59, kept: the new plan does more"

    def shown(answer: str) -> str:
        def violated(*given: Any, **more: Any) -> InvariantReport:
            report = show_invariants(*given, **more)
            verdict = Verdict(True, "11 exceeds 10", report.verdict.checks)
            checks = [replace(one, violated=True) for one in report.verifications]
            return replace(report, verdict=verdict, verifications=checks, answered=answer)

        monkeypatch.setattr(cep_pages, "show_invariants", violated)
        page: str = viewer.get(f"/cep/invariants?{REAL}&pattern_set=market").text
        return page

    open_one, dealt_with = shown(""), shown(answered)
    assert '<p class="failed">11 exceeds 10</p>' in open_one and '<td class="failed">yes</td>' in open_one
    assert f"This has been dealt with: {answered}" in text(dealt_with)
    assert "11 exceeds 10" in dealt_with and '<p class="failed">' not in dealt_with
    assert '<td class="failed">' not in dealt_with and '<td class="">yes</td>' in dealt_with
