"""Checks of current plans and replannings over days whose rates drift: what is decided, and done only once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from cep_pipeline.errors import BusyError, InputError
from cep_pipeline.pipeline import replanning
from cep_pipeline.pipeline.plan_checks import PlanCheck, check_invariants
from cep_pipeline.pipeline.replanning import PlanComparison, PlanRequest, Replanning, replan
from cep_pipeline.pipeline.violations import Violation
from cep_pipeline.planning import Plan
from cep_pipeline.warehouse.records import Decision, PlanRecord
from tests.pipeline.drift import DRIFT_DAYS, DriftingStream, drifting_rows, write_project
from tests.pipeline.project import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEFORE, DRIFT = DRIFT_DAYS[:2], DRIFT_DAYS[2]


@pytest.fixture
def drifting(tmp_path: Path) -> DriftingStream:
    write_project(tmp_path)
    return DriftingStream(tmp_path)


def check(of: DriftingStream, run_id: str = "check") -> PlanCheck:
    stream = of.stream
    (found,) = check_invariants(of.tables, stream, stream.pattern_sets, run_id=run_id)
    return found


def plan_again(
    of: DriftingStream, run_id: str = "replan", asked: PlanRequest | None = None, **options: Any
) -> Replanning:
    stream = of.stream
    given = asked or PlanRequest("by hand", **options)
    return replan(of.tables, stream, stream.pattern_sets[0], given, run_id=run_id)


def answer(of: DriftingStream, violation: Violation | None, run_id: str = "") -> Replanning:
    assert violation is not None
    return plan_again(of, run_id or violation.run_id, PlanRequest(violation.reason, violation=violation))


def keep_the_plan(of: DriftingStream, violation: Violation | None) -> Replanning:
    """Answer a violation by a new plan that is not better."""
    with mock.patch.object(PlanComparison, "better", False):
        kept = answer(of, violation)
    assert kept.decision.outcome == "kept"
    return kept


def current(of: DriftingStream) -> PlanRecord:
    found = of.tables.current_plan("all")
    assert found is not None
    return found


def order(record: PlanRecord) -> tuple[str, ...]:
    return Plan.from_json(record.plan, "plan").for_pattern("rising").clauses[0].order


def decisions(of: DriftingStream) -> list[Decision]:
    return of.tables.decisions("all")[::-1]


@pytest.mark.long
def test_a_check_that_passes_one_that_fails_the_replanning_and_the_next_day(
    drifting: DriftingStream, spark: SparkSession
) -> None:
    daily = Project(drifting.folder, spark)
    for day in DRIFT_DAYS[:4]:
        daily.write_day(day, drifting_rows(day))
    daily.run().run_days(BEFORE)
    first = check(drifting, "one")
    assert (first.decision.outcome, first.violation) == ("keep", None)
    assert first.decision.details["statistics"]["label"] == f"business day {BEFORE[-1]}"

    daily.run().run_days([DRIFT])
    second = check(drifting, "two")
    assert second.decision.outcome == "replan" and second.violation is not None
    assert second.decision.plan_version == 1 and second.decision.day == DRIFT

    done = answer(drifting, second.violation)
    assert done.decision.outcome == "replaced"
    assert done.comparison is not None and done.comparison.better
    assert done.comparison.ln_new < done.comparison.ln_current
    record = current(drifting)
    assert (record.version, record.run_id) == (2, second.violation.run_id)
    assert second.violation.reason in record.reason
    assert order(record) != order(drifting.tables.plans("all")[-1])

    daily.run().run_days([DRIFT_DAYS[3]])
    versions = {one.day: one.plans for one in drifting.tables.runs()}
    assert versions == {day: {"all": 1 if day <= DRIFT else 2} for day in DRIFT_DAYS[:4]}
    assert check(drifting, "three").decision.outcome == "keep"
    kinds = [(one.kind, one.outcome, one.plan_version) for one in decisions(drifting)]
    assert kinds == [
        ("invariant", "keep", 1),
        ("invariant", "replan", 1),
        ("replanning", "replaced", 1),
        ("invariant", "keep", 2),
    ]


def test_without_new_events_there_is_nothing_to_decide(drifting: DriftingStream) -> None:
    drifting.publish(BEFORE)
    assert check(drifting, "one").decision.outcome == "keep"
    again = check(drifting, "two")
    assert again.decision.outcome == "no new data" and again.violation is None
    # The same events published again are none either; other settings are another question.
    drifting.publish(BEFORE)
    assert check(drifting, "three").decision.outcome == "no new data"
    write_project(drifting.folder, "{decision: constant_threshold, threshold: 0.9}")
    assert check(drifting, "five").decision.kind == "constant_threshold"
    assert check(drifting, "six").decision.outcome == "no new data"


def test_a_violation_that_is_being_handled_is_the_same_one(drifting: DriftingStream) -> None:
    drifting.publish(DRIFT_DAYS[:3])
    first = check(drifting, "one")
    assert first.violation is not None
    waiting = check(drifting, "two")
    assert waiting.decision.outcome == "no new data" and waiting.violation == first.violation
    drifting.publish([DRIFT_DAYS[3]])
    more = check(drifting, "three")
    assert more.decision.outcome == "replan" and more.violation is not None
    assert more.violation.run_id == first.violation.run_id, "no second run"

    done = answer(drifting, first.violation)
    assert answer(drifting, first.violation).decision == done.decision, "a task that is repeated"
    assert answer(drifting, more.violation, "other-run").decision == done.decision, "another run for the same"
    assert [record.version for record in drifting.tables.plans("all")] == [2, 1]
    assert sum(one.kind == "replanning" for one in decisions(drifting)) == 1


def test_a_violation_of_a_plan_that_is_no_longer_current_changes_nothing(drifting: DriftingStream) -> None:
    drifting.publish(DRIFT_DAYS[:3])
    violation = check(drifting).violation
    assert plan_again(drifting).decision.outcome == "replaced"
    late = answer(drifting, violation)
    assert late.decision.outcome == "kept"
    assert late.decision.reason == "plan 1 is no longer the current one: version 2 is"
    assert current(drifting).version == 2
    assert check(drifting, "two").decision.outcome == "keep"


def test_the_same_plan_is_no_new_version(drifting: DriftingStream) -> None:
    drifting.publish(BEFORE)
    for run_id in ("one", "two"):
        same = plan_again(drifting, run_id)
        assert same.decision.outcome == "kept" and same.comparison is not None and same.comparison.same
    assert not same.comparison.better
    assert plan_again(drifting, "three", force=True).decision.outcome == "kept"
    # By another planner it is another plan, if somebody insists.
    with (drifting.folder / "pipeline.yaml").open("a") as configuration:
        configuration.write("planning: {planner: greedy}\n")
    assert plan_again(drifting, "four").decision.outcome == "kept"
    assert plan_again(drifting, "five", force=True).decision.outcome == "replaced"
    assert current(drifting).version == 2 and current(drifting).plan["patterns"][0]["planner"] == "greedy"


def test_when_the_rates_come_back_so_does_the_plan(drifting: DriftingStream) -> None:
    drifting.publish(DRIFT_DAYS[:3])
    answer(drifting, check(drifting, "one").violation)
    drifting.publish(DRIFT_DAYS[3:])
    back = answer(drifting, check(drifting, "two").violation)
    assert back.decision.outcome == "replaced"
    assert (back.decision.plan_version, back.decision.details["current"]) == (2, 1)
    assert current(drifting).version == 1
    assert [record.version for record in drifting.tables.plans("all")] == [2, 1]
    assert check(drifting, "three").decision.outcome == "keep"


def test_a_plan_that_saves_less_than_the_least_gain_is_not_deployed(drifting: DriftingStream) -> None:
    write_project(drifting.folder, "{minimum_gain: 0.999}")
    drifting.publish(DRIFT_DAYS[:3])
    violation = check(drifting, "one").violation
    kept = answer(drifting, violation)
    assert kept.decision.outcome == "kept" and current(drifting).version == 1
    assert "it has to save more than 99.9% (minimum_gain)" in kept.decision.reason
    assert check(drifting, "two").decision.outcome == "no new data", "what was decided is not decided again"
    # On new events it is a new question.
    drifting.publish([DRIFT_DAYS[3]])
    again = check(drifting, "three")
    assert again.violation is not None and violation is not None
    assert again.violation.run_id != violation.run_id
    write_project(drifting.folder)
    assert answer(drifting, again.violation).decision.outcome == "replaced"


def test_a_run_that_was_killed_before_its_decision_finds_its_plan(drifting: DriftingStream) -> None:
    drifting.publish(DRIFT_DAYS[:3])
    violation = check(drifting).violation
    with (
        mock.patch("cep_pipeline.warehouse.stream_tables.StreamTables.record_decision", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        answer(drifting, violation)
    assert current(drifting).version == 1, "a plan becomes current with its decision"
    done = answer(drifting, violation)
    assert done.decision.outcome == "replaced" and current(drifting).version == 2
    assert [record.version for record in drifting.tables.plans("all")] == [2, 1]
    assert [one.outcome for one in decisions(drifting)] == ["replan", "replaced"]
    assert check(drifting, "two").decision.outcome == "keep"


def test_a_plan_that_became_current_in_the_meantime_is_not_overwritten(drifting: DriftingStream) -> None:
    drifting.publish(DRIFT_DAYS[:3])
    violation = check(drifting).violation
    compare = replanning.compare

    def while_it_compares(*arguments: Any) -> Any:
        with mock.patch.object(replanning, "compare", compare):
            plan_again(drifting, "by-hand")
        return compare(*arguments)

    with (
        mock.patch.object(replanning, "compare", while_it_compares),
        pytest.raises(BusyError, match="version 1"),
    ):
        answer(drifting, violation)
    assert (current(drifting).version, current(drifting).run_id) == (2, "by-hand")
    assert answer(drifting, violation).decision.reason == "plan 1 is no longer the current one: version 2 is"


def test_a_dry_run_records_nothing(drifting: DriftingStream) -> None:
    drifting.publish(DRIFT_DAYS[:3])
    stream = drifting.stream
    shown = replan(drifting.tables, stream, stream.pattern_sets[0], PlanRequest("to see"), run_id="dry", dry_run=True)
    assert shown.decision.outcome == "replaced" and shown.made is not None
    assert current(drifting).version == 1 and decisions(drifting) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("settings", "outcomes"),
    [
        ("{decision: static}", ["keep", "keep"]),
        ("{decision: unconditional}", ["replan", "replan"]),
        ("{decision: constant_threshold, threshold: 0.6}", ["keep", "replan"]),
        ("{decision: constant_threshold, threshold: 100}", ["keep", "keep"]),
        ("{decision: invariant, k: all, distance: 0.3}", ["keep", "replan"]),
        ("{decision: invariant, distance: 1000}", ["keep", "keep"]),
    ],
)
def test_each_decision_function_decides(drifting: DriftingStream, settings: str, outcomes: list[str]) -> None:
    write_project(drifting.folder, settings)
    found = []
    for days, run_id in ((BEFORE, "one"), ([DRIFT], "two")):
        drifting.publish(days)
        found.append(check(drifting, run_id).decision.outcome)
    assert found == outcomes


def test_a_threshold_is_measured_from_what_was_planned_from_last(drifting: DriftingStream) -> None:
    write_project(drifting.folder, "{decision: constant_threshold, threshold: 0.6}")
    drifting.publish(DRIFT_DAYS[:3])
    keep_the_plan(drifting, check(drifting, "one").violation)
    drifting.publish([DRIFT_DAYS[3]])
    assert check(drifting, "two").decision.outcome == "keep", "the rates have not moved since"


def test_the_distance_follows_what_replanning_brings(drifting: DriftingStream) -> None:
    write_project(drifting.folder, "{decision: invariant, distance: meta_adaptive}")
    drifting.publish(DRIFT_DAYS[:3])
    first = check(drifting, "one")
    assert first.decision.details["distances"]["everywhere"] == 0
    kept = keep_the_plan(drifting, first.violation)
    assert kept.decision.details["distances"]["everywhere"] == 0.01
    drifting.publish([DRIFT_DAYS[3]])
    second = check(drifting, "two")
    assert second.decision.details["distances"]["everywhere"] == 0.01
    assert answer(drifting, second.violation).decision.details["distances"]["everywhere"] == 0.005
    by_hand = plan_again(drifting, "by-hand")
    assert by_hand.decision.details["distances"]["everywhere"] == 0.005


def test_without_statistics_of_the_latest_day_nothing_is_decided(drifting: DriftingStream) -> None:
    drifting.publish(BEFORE)
    drifting.publish_events(DRIFT)
    found = check(drifting)
    assert found.decision.outcome == "keep" and found.violation is None
    command = f"cep run --stream ticks --steps statistics --redo --day {DRIFT}"
    assert found.decision.reason.startswith(f"there are no statistics of {DRIFT} ")
    assert found.decision.reason.endswith(command)
    with pytest.raises(InputError, match=command):
        plan_again(drifting)
    drifting.publish_statistics(DRIFT)
    assert check(drifting).decision.outcome == "replan"


def test_without_plan_or_events_nothing_is_checked(drifting: DriftingStream) -> None:
    none = check(drifting)
    assert (none.decision.outcome, none.decision.plan_version) == ("no new data", None)
    with pytest.raises(InputError, match="has no events to plan by"):
        plan_again(drifting)
    for day in BEFORE:
        drifting.publish_events(day)
        drifting.publish_statistics(day)
    unplanned = check(drifting, "two")
    assert unplanned.decision.outcome == "keep" and "has no plan yet" in unplanned.decision.reason
    made = plan_again(drifting)
    assert made.decision.outcome == "made" and current(drifting).version == 1


def test_a_plan_of_other_patterns_is_not_checked_but_made_again(drifting: DriftingStream) -> None:
    drifting.publish(BEFORE)
    text = (drifting.folder / "all.sase").read_text()
    (drifting.folder / "all.sase").write_text(text.replace("10 minutes", "12 minutes"))
    assert "the pattern set has changed" in check(drifting).decision.reason
    assert plan_again(drifting).decision.outcome == "made"
    assert current(drifting).version == 2
