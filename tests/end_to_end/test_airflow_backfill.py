"""The DAGs by the real scheduler: backfills make the tables that `cep run` makes, and the plan follows the data.

On the first two days BAC is rare, on the last two SPY is. After each published day `invariant_check` runs: it passes
until the third day, whose violation starts `replanning`; the fourth day runs on the new plan. At last the checks that
are not of days run: when the asset of the events is updated by hand, and by hand.

Airflow is used as the tutorial says: `. env`, then the printed lines in a shell.

The patterns of one set are planned together. Two of them share work over SPY and BAC, two over AIG and IBM, whose
rates stay: the violation is answered for the first two alone. Before the last day a pattern comes that is connected
with the other two.

Every day is late, since it may take seconds only, and Airflow's deadline tells so.

`.ci/run` runs the first day and its check; `make test-all` all days and what follows from them.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from datetime import UTC, date, datetime
from datetime import time as clock
from itertools import product
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import psutil
import pyarrow.compute as pc
import pytest

from cep_pipeline.planning import Plan
from cep_pipeline.warehouse.records import Decision, PlanRecord
from cep_pipeline.warehouse.stream_tables import StreamTables
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.end_to_end.drifting_trades import (
    ADDED,
    CHECK,
    CHECKOUT,
    DAG,
    DAYS,
    DRIFTING,
    ONE_MORE,
    REPLANNING,
    STALE,
    STEADY,
    STREAM,
    TOGETHER,
    write_days,
    write_pipeline,
)
from tests.thoroughness import ALL

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("airflow")]

BACKFILL_S = 600
LATE_HOURS = 0.001
RUN_DAYS = DAYS if ALL else DAYS[:1]
"""The days that are run."""
of_all_days = pytest.mark.skipif(not ALL, reason="needs all days: run by `make test-all`")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("end_to_end")
    write_days(folder)
    return folder


@pytest.fixture(scope="module")
def environment() -> Iterator[None]:
    """What the processes of this module get: a Java that starts fast."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        yield


RUN_TWICE = """
import shutil, sys
from cep_pipeline.cli import main

configuration, stream, patterns, more, *days = sys.argv[1:]
for first, last in zip(days[::2], days[1::2]):
    sys.argv = ["cep", "run", "--config", configuration, "--stream", stream, "--from", first, "--to", last]
    try:
        main()
    except SystemExit as done:
        if done.code:
            raise
    shutil.copy(more, patterns)
"""


@pytest.fixture(scope="module")
def command(folder: Path, environment: None) -> Iterator[subprocess.Popen[str]]:
    """`cep run` over the first days, and with the added pattern over the last one, running while Airflow starts."""
    last_of_first = RUN_DAYS[:3][-1]
    configuration = write_pipeline(folder, "command", TOGETHER)
    (folder / "more.sase").write_text(TOGETHER + ONE_MORE)
    days = [day.isoformat() for day in (DAYS[0], last_of_first, *(DAYS[3:] * 2 if ALL else ()))]
    arguments = [str(configuration), STREAM, str(folder / "command.sase"), str(folder / "more.sase"), *days]
    with subprocess.Popen(
        [sys.executable, "-c", RUN_TWICE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        yield process
        process.kill()


@pytest.fixture(scope="module")
def tables_of_the_command(folder: Path, command: subprocess.Popen[str]) -> StreamTables:
    said, _ = command.communicate()
    assert command.returncode == 0, said
    return Warehouse.open(folder / "warehouse_command").open_stream(STREAM)


@pytest.fixture(scope="module")
def airflow(folder: Path, command: subprocess.Popen[str]) -> Iterator[Any]:
    """An Airflow of its own, started and stopped by the script behind `make airflow`, after the backfill."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(CHECKOUT / "scripts"))
        from airflow_local import LocalAirflow

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        # A deadline is told with the run as the REST API shows it, which names its id otherwise than a task does.
        text = "{{ dag_run.dag_run_id or dag_run.run_id }}: {{ cep_alert }}"
        said = {"path": str(folder / "told.txt"), "text": text}
        notifier = "tests.end_to_end.told.FileNotifier"
        alerts = {"notifier": notifier, "arguments": said, "late_hours": LATE_HOURS}
        configuration = write_pipeline(folder, "airflow", TOGETHER, alerts=alerts)
        with LocalAirflow(folder / "home", port, configuration, "local[2]") as airflow:
            assert airflow.import_errors() == []
            of_stream = {DAG, CHECK, REPLANNING, STALE}
            assert set(airflow.dag_ids()) == of_stream | {"maintain", "verify"}
            assert airflow.commands([DAG])[1] == documented("airflow dags unpause"), "printed as in the tutorial"
            in_a_shell(airflow, documented("airflow dags unpause"))
            dags = airflow.get("/dags?limit=100")["dags"]
            assert {dag["dag_id"] for dag in dags if not dag["is_paused"]} == of_stream
            backfill(airflow, RUN_DAYS[:2])
            if ALL:
                backfill(airflow, DAYS[2:3])
                wait_for_runs(airflow, REPLANNING, 2)
                write_pipeline(folder, "airflow", TOGETHER + ONE_MORE, alerts=alerts)
                backfill(airflow, DAYS[3:])
            yield airflow
            family = [p for part in airflow.processes.values() for p in psutil.Process(part.pid).children(True)]
        assert not any(process.is_running() for process in family)
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0


def documented(beginning: str) -> str:
    """The command of the tutorial that begins so, for the stream of this test."""
    text = (CHECKOUT / "docs" / "tutorial.md").read_text().replace("\\\n", " ")
    (command,) = (line for line in text.splitlines() if line.startswith(beginning))
    return command.replace("cold_rooms", STREAM)


def in_a_shell(airflow: Any, command: str) -> None:
    """Give a command to a shell that has done what `make airflow` prints first, and knows nothing else of Airflow."""
    bare = {"PATH": os.defpath, "HOME": str(airflow.home / "nowhere")}
    line = f"{airflow.commands([])[0]} && {command}"
    done = subprocess.run(["sh", "-c", line], env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (airflow.home / "nowhere").exists(), "no second Airflow is made"


def backfill(airflow: Any, days: list[date]) -> None:
    """Run the next days, and wait for the checks that their events start."""
    command = documented("airflow backfill create")
    for option, day in (("--from-date", days[0]), ("--to-date", days[-1])):
        command, once = re.subn(rf"{option} \S+", f"{option} {day}", command)
        assert once == 1
    in_a_shell(airflow, command)
    so_far = DAYS.index(days[-1]) + 1
    wait_for_runs(airflow, DAG, so_far)
    wait_for_runs(airflow, CHECK, so_far)
    wait_until_no_backfill_runs(airflow)


def wait_until_no_backfill_runs(airflow: Any) -> None:
    """Wait until the scheduler has seen that the backfill is done: there can be one at a time."""
    deadline = time.monotonic() + BACKFILL_S
    while time.monotonic() < deadline:
        airflow.check_alive()
        if all(one["completed_at"] for one in airflow.get(f"/backfills?dag_id={DAG}")["backfills"]):
            return
        time.sleep(1)
    pytest.fail("the scheduler does not see that the backfill is done")


def wait_for_runs(airflow: Any, dag: str, number: int) -> None:
    """Wait until a DAG has so many runs, and all have succeeded.

    Once there are runs of a backfill, the scheduler also runs yesterday. It has no file, and is skipped.
    """
    deadline = time.monotonic() + BACKFILL_S
    states: dict[str, str] = {}
    while time.monotonic() < deadline:
        airflow.check_alive()
        runs = airflow.get(f"/dags/{dag}/dagRuns")["dag_runs"]
        states = {run["dag_run_id"]: run["state"] for run in runs if run["run_type"] != "scheduled"}
        if "failed" in states.values():
            break
        if len(states) == number and set(states.values()) == {"success"}:
            return
        time.sleep(1)
    pytest.fail(f"the runs of {dag} did not succeed: {states}\n{task_logs(airflow.home)}")


def task_logs(home: Path) -> str:
    """The ends of the logs of the tasks, the latest last."""
    logs = sorted(home.glob("logs/dag_id=*/**/*.log"), key=lambda path: path.stat().st_mtime)
    return "\n".join(f"== {path}\n{path.read_text(errors='replace')[-3000:]}" for path in logs[-3:])


@pytest.fixture(scope="module")
def tables_of_airflow(folder: Path, airflow: Any) -> StreamTables:
    return Warehouse.open(folder / "warehouse_airflow").open_stream(STREAM)


def test_events_and_rejected_rows_are_the_same(
    tables_of_airflow: StreamTables, tables_of_the_command: StreamTables
) -> None:
    events = tables_of_airflow.read_events()
    assert events.num_rows > 1_250 * len(RUN_DAYS)
    assert events.equals(tables_of_the_command.read_events())
    rejected = tables_of_airflow.read_quarantine()
    assert rejected.num_rows == 1
    assert rejected.equals(tables_of_the_command.read_quarantine())
    assert published(tables_of_airflow) == published(tables_of_the_command)


def published(tables: StreamTables) -> list[tuple[date, int, str]]:
    return [(day.day, day.events, day.fingerprint.digest) for day in tables.days()]


def test_statistics_and_plans_are_the_same(
    tables_of_airflow: StreamTables, tables_of_the_command: StreamTables
) -> None:
    for name, day in product(("market", "together"), RUN_DAYS):
        of_airflow = tables_of_airflow.read_statistics(name, day)
        assert of_airflow is not None
        assert of_airflow == tables_of_the_command.read_statistics(name, day)
    (by_command,) = tables_of_the_command.plans("market")
    first, *later = tables_of_airflow.plans("market")[::-1]
    expected = [2] if ALL else []
    assert first.version == 1
    assert [plan.version for plan in later] == expected, "daily runs make a plan only where there is none"
    assert (first.plan, first.explain) == (by_command.plan, by_command.explain)


def test_the_day_that_unpausing_starts_is_skipped_and_not_red(airflow: Any) -> None:
    runs = airflow.get(f"/dags/{DAG}/dagRuns")["dag_runs"]
    for run in runs:
        if run["run_type"] == "scheduled" and run["state"] not in ("queued", "running"):
            assert run["state"] == "success"
            tasks = airflow.get(f"/dags/{DAG}/dagRuns/{urllib.parse.quote(run['dag_run_id'])}/taskInstances")
            states = {one["task_id"]: one["state"] for one in tasks["task_instances"]}
            assert states.pop("ingest") == "success"
            assert set(states.values()) == {"skipped"}


def test_the_form_of_a_backfill_offers_each_local_day(airflow: Any) -> None:
    """The form asks for the midnights of the zone that its user has chosen, and shows the runs before they are made."""
    zone = ZoneInfo("America/New_York")
    for asked_in in (UTC, zone):
        first, last = (datetime.combine(day, clock(), asked_in).isoformat() for day in (DAYS[0], DAYS[2]))
        asked = {"dag_id": DAG, "from_date": first, "to_date": last, "reprocess_behavior": "completed"}
        found = airflow.api.post("/backfills/dry_run", json=asked).raise_for_status().json()["backfills"]
        starts = [datetime.fromisoformat(one["logical_date"]) for one in found]
        assert starts == [datetime.combine(day, clock(), zone) for day in DAYS[:3]]


def decisions_of(tables: StreamTables, pattern_set: str) -> list[Decision]:
    """The decisions about plans, the oldest first; the check of the hour may come before there is a plan."""
    return [one for one in reversed(tables.decisions(pattern_set)) if one.plan_version is not None]


def test_the_first_check_passes(tables_of_airflow: StreamTables) -> None:
    for name in ("market", "together"):
        first = decisions_of(tables_of_airflow, name)[0]
        assert (first.kind, first.outcome, first.plan_version) == ("invariant", "keep", 1)


@of_all_days
def test_a_check_passes_one_fails_and_the_next_day_runs_on_the_new_plan(
    airflow: Any, tables_of_airflow: StreamTables
) -> None:
    decisions = decisions_of(tables_of_airflow, "market")
    # On a slow machine the first check may come when the second day is there already.
    assert decisions[0].outcome == "keep" and {one.outcome for one in decisions[:2]} <= {"keep", "no new data"}
    assert [(one.kind, one.outcome, one.day, one.plan_version) for one in decisions[2:]] == [
        ("invariant", "replan", DAYS[2], 1),
        ("replanning", "replaced", DAYS[2], 1),
        ("invariant", "keep", DAYS[3], 2),
    ]
    violated = decisions[2].details["violation"]
    assert "pattern rising" in violated["reason"]
    (run,) = replannings_of(airflow, "market")
    assert run["dag_run_id"] == decisions[3].run_id == f"violation__market__v1__{violated['key']}"
    assert run["conf"]["reason"] == violated["reason"]
    plan = tables_of_airflow.current_plan("market")
    assert plan is not None and plan.version == 2 and violated["reason"] in plan.reason
    assert [plans_of_day(tables_of_airflow, day)["market"] for day in DAYS] == [1, 1, 1, 2]


def replannings_of(airflow: Any, pattern_set: str) -> list[dict[str, Any]]:
    """The runs of the replanning of a pattern set."""
    runs = airflow.get(f"/dags/{REPLANNING}/dagRuns")["dag_runs"]
    return [run for run in runs if run["conf"]["pattern_set"] == pattern_set]


def plans_of_day(tables: StreamTables, day: date) -> dict[str, int]:
    """The version of each pattern set's plan that a day ran on."""
    (found,) = (run.plans for run in tables.runs() if run.day == day)
    return dict(found)


@of_all_days
def test_of_a_shared_plan_one_component_is_searched_again(airflow: Any, tables_of_airflow: StreamTables) -> None:
    decisions = decisions_of(tables_of_airflow, "together")
    assert [(one.kind, one.outcome, one.day, one.plan_version) for one in decisions[2:5]] == [
        ("invariant", "replan", DAYS[2], 1),
        ("replanning", "replaced", DAYS[2], 1),
        ("invariant", "keep", DAYS[3], 3),
    ]
    violated = decisions[2].details["violation"]
    assert set(violated["patterns"]) <= set(DRIFTING)
    (run,) = replannings_of(airflow, "together")
    assert run["dag_run_id"] == decisions[3].run_id == f"violation__together__v1__{violated['key']}"
    assert run["conf"]["violation"] == violated
    assert decisions[3].details["planned_again"] == sorted(DRIFTING)
    second, first = tables_of_airflow.plans("together")[1:]
    before, after = patterns_in(first), patterns_in(second)
    assert second.run_id == run["dag_run_id"] and violated["reason"] in second.reason
    assert {name: after[name] for name in STEADY} == {name: before[name] for name in STEADY}, "to the letter"
    assert all(after[name] != before[name] for name in DRIFTING)
    assert [plans_of_day(tables_of_airflow, day)["together"] for day in DAYS] == [1, 1, 1, 3]


def patterns_in(record: PlanRecord) -> dict[str, Any]:
    """All that a plan says of each pattern, as it is stored."""
    return {one["pattern"]: one for one in record.plan["patterns"]}


@of_all_days
def test_a_pattern_that_comes_is_planned_with_its_component(tables_of_airflow: StreamTables) -> None:
    third, second, _ = tables_of_airflow.plans("together")
    assert third.version == 3 and third.run_id.startswith("backfill__")
    assert f"added {ADDED}; planned anew: 3 of 5 patterns; 2 keep their plan" in third.reason
    before, after = patterns_in(second), patterns_in(third)
    assert set(after) == {*DRIFTING, *STEADY, ADDED}
    assert {name: after[name] for name in DRIFTING} == {name: before[name] for name in DRIFTING}, "to the letter"
    plan = Plan.from_json(third.plan, "plan 3")
    assert plan.workload is not None
    of_two = [work.uses for work in plan.workload.shared if len(work.uses[0].variables) == 2]
    assert any({ADDED, "small"} <= {use.pattern for use in uses} for uses in of_two)


def test_matches_are_the_same(tables_of_airflow: StreamTables, tables_of_the_command: StreamTables) -> None:
    matches = tables_of_airflow.read_matches("market")
    assert set(matches["pattern"].to_pylist()) == {"rising", "together"}
    assert set(matches["final_day"].to_pylist()) == set(RUN_DAYS)
    assert matches.equals(tables_of_the_command.read_matches("market"))


def test_matches_of_patterns_planned_together_are_the_same(
    tables_of_airflow: StreamTables, tables_of_the_command: StreamTables
) -> None:
    matches = tables_of_airflow.read_matches("together")
    added = [(ADDED, DAYS[3])] if ALL else []
    assert set(matches["pattern"].to_pylist()) == {*DRIFTING, *STEADY, *(name for name, _ in added)}
    of_added = matches.filter(pc.equal(matches["pattern"], ADDED))
    assert set(of_added["final_day"].to_pylist()) == {day for _, day in added}
    assert matches.equals(tables_of_the_command.read_matches("together"))


def test_each_day_has_one_run_that_succeeded(tables_of_airflow: StreamTables) -> None:
    runs = {run.day: run for run in tables_of_airflow.runs() if run.day in RUN_DAYS}
    assert sorted(runs) == RUN_DAYS
    for day, run in runs.items():
        assert run.status == "succeeded"
        assert run.run_id.startswith("backfill__")
        assert run.events == tables_of_airflow.read_events(day, day).num_rows
        assert run.validation is not None and run.validation["success"]
        of_sets = [tables_of_airflow.read_matches(name, day, day).num_rows for name in ("market", "together")]
        assert sum(run.matches.values()) == sum(of_sets)


def test_a_day_that_is_late_is_told_by_a_deadline(folder: Path, airflow: Any) -> None:
    """The scheduler sees that the deadline is missed, and its executor calls the notifier of `pipeline.yaml`."""
    runs = airflow.get(f"/dags/{DAG}/dagRuns")["dag_runs"]
    days = {run["dag_run_id"] for run in runs if run["run_type"] == "backfill"}
    assert len(days) == len(RUN_DAYS)
    late = f"{STREAM}: the run of a day has not ended {LATE_HOURS:g} hours after it was queued"
    until = time.monotonic() + BACKFILL_S
    told: list[str] = []
    while time.monotonic() < until and {run for run in days if f"{run}: {late}" in told} != days:
        airflow.check_alive()
        time.sleep(1)
        told = (folder / "told.txt").read_text().splitlines() if (folder / "told.txt").exists() else []
    assert [told.count(f"{run}: {late}") for run in days] == [1] * len(days), told


def test_nothing_is_stale_and_no_lease_is_held(folder: Path, tables_of_airflow: StreamTables) -> None:
    assert tables_of_airflow.stale_days() == []
    assert Warehouse.open(folder / "warehouse_airflow").leases() == []


def test_the_page_shows_the_runs_and_leads_to_airflows(airflow: Any) -> None:
    login = json.dumps({"username": "admin", "password": airflow.password}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{airflow.address}/auth/token", login, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        token = json.load(answer)["access_token"]
    request = urllib.request.Request(f"{airflow.address}/cep/", headers={"Cookie": f"_token={token}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        page = answer.read().decode()
    for day in RUN_DAYS:
        assert day.isoformat() in page
    assert page.count(">DAG run</a>") >= len(RUN_DAYS)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{airflow.address}/cep/", timeout=30)


@pytest.mark.long
@of_all_days
def test_checks_of_updates_and_by_hand(airflow: Any, tables_of_airflow: StreamTables) -> None:
    """When another program updates the events, and by hand: there is nothing new, and no replanning is started."""
    before = tables_of_airflow.decisions("market")
    (asset,) = airflow.get(f"/assets?name_pattern=cep_{STREAM}_events")["assets"]
    airflow.api.post("/assets/events", json={"asset_id": asset["id"]}).raise_for_status()
    asked = {"dag_run_id": "by_hand", "logical_date": None, "conf": {"pattern_set": "market"}}
    airflow.api.post(f"/dags/{CHECK}/dagRuns", json=asked).raise_for_status()
    wait_for_runs(airflow, CHECK, len(DAYS) + 2)
    wait_for_runs(airflow, REPLANNING, 2)
    found = {one.run_id: one for one in tables_of_airflow.decisions("market") if one not in before}
    (updated,) = (one for run_id, one in found.items() if run_id.startswith("asset_triggered__"))
    assert (updated.plan_version, updated.day) == (2, DAYS[3])
    assert updated.outcome in ("no new data", "keep"), "whether it comes before the other one or after it"
    assert found["by_hand"].outcome in ("no new data", "keep")
    plan = tables_of_airflow.current_plan("market")
    assert plan is not None and plan.version == 2
