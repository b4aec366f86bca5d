"""What asks for a replanning once, and only once: whatever events come, whoever else checks, whatever run fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from cep_pipeline.pipeline import plans
from cep_pipeline.pipeline.plan_checks import InvariantReport, show_invariants
from cep_pipeline.pipeline.violations import REPLANNING, answer_to, describe_answer, pending_violation
from cep_pipeline.warehouse.stream_tables import StreamTables
from tests.pipeline.drift import COUNTS, DRIFT_DAYS, DriftingStream, write_project
from tests.pipeline.test_adaptation import answer, check, current, decisions, keep_the_plan, plan_again

NONE: dict[str, int] = {}


@pytest.fixture
def drifting(tmp_path: Path) -> DriftingStream:
    write_project(tmp_path)
    return DriftingStream(tmp_path)


def test_days_that_are_not_in_the_statistics_are_nothing_new(drifting: DriftingStream) -> None:
    """A day without events, and one of long ago: the violation has been answered on these very numbers."""
    drifting.publish(DRIFT_DAYS[1:3])
    keep_the_plan(drifting, check(drifting, "one").violation)
    drifting.counts = {**COUNTS, DRIFT_DAYS[3]: NONE}
    drifting.publish_events(DRIFT_DAYS[3])
    empty = check(drifting, "two")
    assert (empty.decision.outcome, empty.violation) == ("no new data", None)
    drifting.publish(DRIFT_DAYS[:1])
    older = check(drifting, "three")
    assert (older.decision.outcome, older.violation) == ("no new data", None)
    assert older.decision.reason == f"the statistics of business day {DRIFT_DAYS[2]} are those that plan 1 was " + (
        "checked by before"
    )


@pytest.mark.long
def test_a_violation_that_has_been_dealt_with_shows_as_dealt_with(drifting: DriftingStream) -> None:
    def shown() -> InvariantReport:
        stream = drifting.stream
        return show_invariants(drifting.tables, stream, stream.pattern_sets[0])

    drifting.publish(DRIFT_DAYS[:3])
    found = check(drifting, "one")
    assert shown().verdict.replan and shown().answered == "" == answer_to(found.decision, decisions(drifting))
    keep_the_plan(drifting, found.violation)
    latest = decisions(drifting)
    (kept,) = (one for one in latest if one.kind == REPLANNING)
    said = f"replanned {kept.decided_at:%Y-%m-%d %H:%M}, kept: "
    assert shown().verdict.replan, "the numbers are as they were"
    assert shown().answered == answer_to(found.decision, latest) == describe_answer(kept)
    assert shown().answered.startswith(said) and found.decision.reason not in shown().answered
    assert shown().to_json()["answered"] == shown().answered
    assert [answer_to(one, latest) for one in latest[1:]] == [""], "it is no violation itself"
    drifting.counts = {**COUNTS, DRIFT_DAYS[3]: {"A": 100, "B": 20, "C": 300}}
    drifting.publish(DRIFT_DAYS[3:4])
    assert shown().verdict.replan and shown().answered == "", "other numbers ask anew"
    second = check(drifting, "two")
    assert second.violation is not None and answer_to(second.decision, decisions(drifting)) == ""
    assert answer(drifting, second.violation).decision.outcome == "replaced"
    assert answer_to(second.decision, decisions(drifting)).startswith("replanned ")
    assert answer_to(found.decision, decisions(drifting)).startswith(said), "the first answer counts"
    assert not shown().verdict.replan and shown().answered == ""


def test_it_is_the_same_whatever_is_violated_first(drifting: DriftingStream) -> None:
    drifting.publish(DRIFT_DAYS[:3])
    first = check(drifting, "one").violation
    drifting.counts = {**COUNTS, DRIFT_DAYS[3]: {"A": 100, "B": 20, "C": 300}}
    drifting.publish(DRIFT_DAYS[3:4])
    second = check(drifting, "two").violation
    assert first is not None and second is not None
    assert first.reason != second.reason and first.run_id == second.run_id
    assert answer(drifting, first).decision.outcome == "replaced"
    assert check(drifting, "three").violation is None


def test_plans_of_one_number_in_different_warehouses_are_different_plans(tmp_path: Path) -> None:
    found = []
    for name in ("one", "anew"):
        (tmp_path / name).mkdir()
        write_project(tmp_path / name)
        of = DriftingStream(tmp_path / name)
        of.publish(DRIFT_DAYS[:3])
        violation = check(of).violation
        assert violation is not None and violation.plan_version == 1
        found.append(violation.run_id)
    assert found[0] != found[1]


def test_a_replanning_that_comes_too_late_is_one_of_the_old_plan(drifting: DriftingStream) -> None:
    drifting.publish(DRIFT_DAYS[:3])
    violation = check(drifting, "one").violation
    assert plan_again(drifting).decision.outcome == "replaced"
    drifting.publish(DRIFT_DAYS[3:])
    found = check(drifting, "two").violation
    assert answer(drifting, violation).decision.plan_version == 1
    assert pending_violation(drifting.tables.decisions("all"), 2) == found is not None


@pytest.mark.long
@pytest.mark.parametrize("killed_at", ["record_decision", "_append"])
def test_a_run_that_was_killed_when_an_earlier_plan_came_back(drifting: DriftingStream, killed_at: str) -> None:
    """Plan and decision are one commit: either both are there or neither is."""
    drifting.publish(DRIFT_DAYS[:3])
    answer(drifting, check(drifting, "one").violation)
    drifting.publish(DRIFT_DAYS[3:])
    violation = check(drifting, "two").violation
    with mock.patch.object(StreamTables, killed_at, side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        answer(drifting, violation)
    assert current(drifting).version == 2
    done = answer(drifting, violation).decision
    assert (done.outcome, done.details["current"], current(drifting).version) == ("replaced", 1, 1)
    assert {"snapshot", "distances", "comparison"} <= set(done.details)
    assert [record.version for record in drifting.tables.plans("all")] == [2, 1]
    assert check(drifting, "three").decision.outcome == "keep"


def test_a_day_takes_the_plan_that_was_made_while_it_made_one(drifting: DriftingStream) -> None:
    for day in DRIFT_DAYS[:2]:
        drifting.publish_events(day)
    snapshot = drifting.publish_statistics(DRIFT_DAYS[1])
    work: Any = mock.MagicMock(tables=drifting.tables, run_id="day", day=DRIFT_DAYS[1])
    make = plans.plan_of_changed

    def while_it_searches(*arguments: Any, **options: Any) -> Any:
        with mock.patch.object(plans, "plan_of_changed", make):
            plan_again(drifting, "by-hand")
        return make(*arguments, **options)

    with mock.patch.object(plans, "plan_of_changed", while_it_searches):
        taken = plans.plan_day(work, drifting.pattern_set, snapshot)
    assert taken.run_id == current(drifting).run_id == "by-hand"
    assert [record.version for record in drifting.tables.plans("all")] == [1]


def test_recorded_statistics_of_an_older_version_are_as_good_as_gone(drifting: DriftingStream) -> None:
    drifting.publish(DRIFT_DAYS[:1])
    older = current(drifting)
    assert older.statistics is not None
    old = {**older.statistics, "version": 1}
    with drifting.tables.plan_lease("all", run_id="older") as lease:
        drifting.tables.record_plan(
            "all",
            older.plan,
            lease=lease,
            explain="",
            reason="",
            pattern_set_version=older.pattern_set_version,
            statistics=old,
            in_place_of=1,
        )
    drifting.publish(DRIFT_DAYS[1:2])
    found = check(drifting)
    assert found.decision.outcome == "keep"
