from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cep_pipeline.errors import BusyError, CepError, InputError
from cep_pipeline.warehouse.records import Decision, PlanRecord, RunRecord, RunStep
from cep_pipeline.warehouse.stream_tables import StreamTables
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.warehouse.published_days import MONDAY, TUESDAY, Trades

START = datetime(2013, 10, 8, 1, 0, tzinfo=UTC)


def record_plan(tables: StreamTables, pattern_set: str = "demo", *, make_current: bool = True) -> PlanRecord:
    """In place of the current one."""
    current = tables.current_plan(pattern_set)
    with tables.plan_lease(pattern_set, run_id="run") as lease:
        return tables.record_plan(
            pattern_set,
            {"order": ["a", "b"]},
            lease=lease,
            explain="a then b",
            reason="first plan",
            pattern_set_version="v1",
            make_current=make_current,
            in_place_of=None if current is None else current.version,
        )


def test_a_run_is_read_back_as_it_was_recorded(tables: StreamTables) -> None:
    record = RunRecord(
        "run-1",
        MONDAY,
        "failed",
        START,
        START + timedelta(seconds=90),
        steps=(RunStep("ingest", 1.5, {"rows": 3}), RunStep("detect", 2.0)),
        events=3,
        rejected=1,
        matches={"rise": 7},
        plans={"demo": 2},
        validation={"success": False, "results": [1, None, "x"]},
        error="the disk is full",
        details={"master": "local[2]"},
    )
    tables.record_run(record)
    assert tables.runs() == [record]
    assert record.seconds == 90.0


def test_the_latest_record_of_each_run_and_day_counts(tables: StreamTables) -> None:
    tables.record_run(RunRecord("run-1", MONDAY, "running", START))
    tables.record_run(RunRecord("run-1", TUESDAY, "running", START + timedelta(hours=1)))
    tables.record_run(RunRecord("run-2", None, "running", START + timedelta(hours=2)))
    tables.record_run(RunRecord("run-1", MONDAY, "succeeded", START, START + timedelta(minutes=1)))
    assert [(run.run_id, run.day, run.status) for run in tables.runs()] == [
        ("run-2", None, "running"),
        ("run-1", TUESDAY, "running"),
        ("run-1", MONDAY, "succeeded"),
    ]
    assert [run.run_id for run in tables.runs(limit=1)] == ["run-2"]
    # The table itself only grows.
    assert tables.warehouse.catalog.load_table(("trades", "runs")).scan().count() == 4


def test_plans_are_numbered_within_their_pattern_set(tables: StreamTables) -> None:
    assert tables.current_plan("demo") is None
    first = record_plan(tables)
    second = record_plan(tables)
    assert (first.version, second.version, record_plan(tables, "other").version) == (1, 2, 1)
    assert tables.current_plan("demo") == second
    assert tables.plans("demo") == [second, first]
    assert len(tables.plans()) == 3


def test_a_plan_can_be_recorded_without_becoming_current(tables: StreamTables) -> None:
    first = record_plan(tables)
    record_plan(tables, make_current=False)
    assert tables.current_plan("demo") == first


def test_the_current_plan_changes_by_compare_and_set_with_the_decision(tables: StreamTables) -> None:
    record_plan(tables, make_current=False)
    record_plan(tables, make_current=False)
    decided = Decision("demo", "replanning", "replaced", "because", START, MONDAY, 1, "run")

    def decide(version: int, in_place_of: int | None) -> None:
        tables.record_decision(decided, makes_current=version, in_place_of=in_place_of)

    decide(1, None)
    with pytest.raises(BusyError, match="no longer none"):
        decide(2, None)
    decide(2, 1)
    with pytest.raises(BusyError, match="no longer version 1"):
        decide(1, 1)
    with pytest.raises(InputError, match="no plan of version 9"):
        decide(9, 2)
    current = tables.current_plan("demo")
    assert current is not None
    assert current.version == 2
    assert tables.decisions() == [decided] * 2, "what came too late is not recorded either"


def replace_plan(
    tables: StreamTables, in_place_of: int | None, statistics: dict[str, object] | None = None
) -> PlanRecord:
    with tables.plan_lease("demo", run_id="run") as lease:
        return tables.record_plan(
            "demo",
            {"order": ["b", "a"]},
            lease=lease,
            explain="b then a",
            reason="a violated invariant",
            pattern_set_version="v1",
            statistics=statistics,
            in_place_of=in_place_of,
        )


def test_a_plan_replaces_only_the_one_that_it_was_compared_with(tables: StreamTables) -> None:
    record_plan(tables)
    second = replace_plan(tables, 1, {"events": 7})
    assert tables.current_plan("demo") == second
    assert second.version == 2 and second.statistics == {"events": 7}
    with pytest.raises(BusyError, match="no longer version 1"):
        replace_plan(tables, 1)
    with pytest.raises(BusyError, match="no longer none"):
        replace_plan(tables, None)
    assert tables.plans("demo")[0] == second, "nothing was recorded"


def test_a_plan_needs_the_lease_of_its_pattern_set(tables: StreamTables) -> None:
    with tables.day_lease(MONDAY, run_id="run") as lease, pytest.raises(CepError, match="plan:demo"):
        tables.record_plan("demo", {}, lease=lease, explain="", reason="", pattern_set_version="v1")
    assert tables.plans() == []


def test_a_plan_of_a_run_that_lost_its_lease_is_not_recorded(tmp_path: Path) -> None:
    now = [1_000_000.0]
    tables = Warehouse.open(tmp_path, clock=lambda: now[0]).stream(Trades())
    slow = tables.plan_lease("demo", run_id="slow")
    now[0] += 121
    with tables.plan_lease("demo", run_id="quick"), pytest.raises(BusyError, match="no longer holds"):
        tables.record_plan("demo", {}, lease=slow, explain="", reason="", pattern_set_version="v1")
    assert tables.plans() == []
    assert tables.current_plan("demo") is None


def test_decisions_are_appended(tables: StreamTables) -> None:
    decisions = [
        Decision("demo", "invariant", "keep", "all invariants hold", START, MONDAY, 1, "run", {"checked": 3}),
        Decision("other", "static", "no new data", "nothing new", START + timedelta(hours=1)),
        Decision("demo", "invariant", "replan", "a < b is violated", START + timedelta(hours=2), TUESDAY, 1, "run"),
    ]
    for decision in decisions:
        tables.record_decision(decision)
    assert tables.decisions() == decisions[::-1]
    assert tables.decisions("demo", limit=1) == [decisions[2]]
