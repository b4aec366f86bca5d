"""Pattern sets whose patterns are planned together: what changes or drifts reaches its component only."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cep_pipeline.detection.detect import detect
from cep_pipeline.errors import InputError
from cep_pipeline.pipeline.configuration import Configuration
from cep_pipeline.pipeline.plan_checks import PlanCheck, check_invariants
from cep_pipeline.pipeline.plans import change_since, record_plan
from cep_pipeline.pipeline.replanning import PlanRequest, Replanning, replan
from cep_pipeline.pipeline.tasks import StreamTask, check_plans, plan_again
from cep_pipeline.planning import Plan
from cep_pipeline.warehouse.records import PlanRecord
from tests.pipeline.drift import DRIFT_DAYS, DriftingStream, drifting_rows
from tests.pipeline.project import PIPELINE, SCHEMA, Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RISING = "NAME rising PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 10 minutes"
OTHER = "NAME other PATTERN SEQ(A p, B q, D r) WHERE p.x < q.x WITHIN 15 minutes"
FAR = "NAME far PATTERN SEQ(E e, F f, G g) WHERE e.x < f.x AND f.x < g.x WITHIN 10 minutes"
FARTHER = "NAME farther PATTERN SEQ(E s, F t, H u) WHERE s.x < t.x WITHIN 10 minutes"
MORE = "NAME more PATTERN SEQ(A v, B w, C y, D z) WHERE v.x < w.x AND w.x < y.x WITHIN 30 minutes"
FIRST, SECOND = {"rising", "other"}, {"far", "farther"}

FARTHER_TYPES = {"E": 90, "F": 30, "G": 60, "H": 40}
C_IS_RARE = {"A": 200, "B": 80, "C": 10, "D": 40, **FARTHER_TYPES}
A_IS_RARE = {"A": 10, "B": 80, "C": 200, "D": 40, **FARTHER_TYPES}
COUNTS = dict(zip(DRIFT_DAYS, (C_IS_RARE, C_IS_RARE, A_IS_RARE, A_IS_RARE, C_IS_RARE), strict=True))
SEARCH = "planner: simulated_annealing, steps: 3000, seed: 1"


def write_project(folder: Path, statements: Iterable[str], search: str = SEARCH, adaptation: str = "") -> None:
    (folder / "ticks.yaml").write_text(SCHEMA)
    (folder / "all.sase").write_text(";\n".join(statements))
    pipeline = PIPELINE.replace("{file: all.sase}", f"{{file: all.sase, {search}}}")
    (folder / "pipeline.yaml").write_text(pipeline + (f"adaptation: {adaptation}\n" if adaptation else ""))


@pytest.fixture
def project(tmp_path: Path) -> DriftingStream:
    write_project(tmp_path, (RISING, OTHER, FAR, FARTHER))
    return DriftingStream(tmp_path, COUNTS)


def current(of: DriftingStream) -> PlanRecord:
    found = of.tables.current_plan("all")
    assert found is not None
    return found


def patterns_in(record: PlanRecord) -> dict[str, Any]:
    """All that a plan says of each pattern, as it is stored."""
    return {one["pattern"]: one for one in record.plan["patterns"]}


def trees_in(record: PlanRecord, names: Iterable[str]) -> dict[str, object]:
    plan = Plan.from_json(record.plan, "plan")
    return {name: plan.for_pattern(name).clauses[0].order_or_tree for name in names}


def plan_changed(of: DriftingStream) -> PlanRecord:
    snapshot = of.publish_statistics(DRIFT_DAYS[1])
    before, why = current(of), "the pattern set has changed"
    return record_plan(of.tables, of.pattern_set, snapshot, in_place_of=before, run_id="next", reason=why)


def check(of: DriftingStream, run_id: str) -> PlanCheck:
    (found,) = check_invariants(of.tables, of.stream, of.stream.pattern_sets, run_id=run_id)
    return found


def answer(of: DriftingStream, asked: PlanRequest, run_id: str = "replan") -> Replanning:
    return replan(of.tables, of.stream, of.pattern_set, asked, run_id=run_id)


def matches_alone(of: DriftingStream, days: Iterable[date], plan: Plan | None = None) -> dict[str, int]:
    """The matches of each pattern by itself, or by a plan of all of them."""
    days = list(days)
    events = of.tables.read_events(days[0], days[-1])
    patterns = of.pattern_set.patterns
    parts = [[one] for one in patterns] if plan is None else [list(patterns)]
    return {
        name: found.num_rows
        for part in parts
        for name, found in detect(part, events, plan=None if plan is None else plan).items()
    }


def test_patterns_are_planned_together_and_the_plan_says_what_they_share(project: DriftingStream) -> None:
    project.publish(DRIFT_DAYS[:1])
    record = current(project)
    plan = Plan.from_json(record.plan, "plan")
    assert plan.workload is not None and plan.sharing == "subexpression"
    search = plan.workload.search
    assert (search.planner, search.seed, search.neighbourhood) == ("simulated_annealing", 1, "edge")
    shared = [{use.pattern for use in node.uses} for node in plan.workload.shared if len(node.uses[0].variables) > 1]
    assert shared and all(names in (FIRST, SECOND) for names in shared)
    assert "found by simulated_annealing" in record.explain
    assert set(record.statements) == FIRST | SECOND
    assert matches_alone(project, DRIFT_DAYS[:1], plan) == matches_alone(project, DRIFT_DAYS[:1])


def test_a_pattern_that_is_added_changes_the_plans_of_its_component_only(project: DriftingStream) -> None:
    project.publish(DRIFT_DAYS[:2])
    before = current(project)
    write_project(project.folder, (RISING, OTHER, FAR, FARTHER, MORE))
    after = plan_changed(project)
    assert after.version == 2
    assert "added more; planned anew: 3 of 5 patterns; 2 keep their plan" in after.reason
    kept = patterns_in(before)
    assert all(patterns_in(after)[name] == kept[name] for name in SECOND), "all of it, as it was"
    plan = Plan.from_json(after.plan, "plan")
    assert plan.workload is not None
    assert any({"more", "rising"} <= {use.pattern for use in node.uses} for node in plan.workload.shared)
    assert matches_alone(project, DRIFT_DAYS[:2], plan) == matches_alone(project, DRIFT_DAYS[:2])


def test_a_pattern_that_goes_leaves_the_others_as_they_are(project: DriftingStream) -> None:
    write_project(project.folder, (RISING, OTHER, FAR, FARTHER, MORE))
    project.publish(DRIFT_DAYS[:2])
    before = current(project)
    write_project(project.folder, (FAR, RISING, FARTHER, OTHER))
    after = plan_changed(project)
    assert "removed more; planned anew: 2 of 4 patterns; 2 keep their plan" in after.reason
    assert [one["pattern"] for one in after.plan["patterns"]] == ["far", "rising", "farther", "other"]
    assert all(patterns_in(after)[name] == patterns_in(before)[name] for name in SECOND)
    # One that nothing is connected with takes no plan with it.
    write_project(project.folder, (FAR, RISING, FARTHER, OTHER, "NAME alone PATTERN SEQ(G g, H h) WITHIN 1 minute"))
    plan_changed(project)
    write_project(project.folder, (RISING, FAR, FARTHER, OTHER))
    last = plan_changed(project)
    assert "removed alone; planned anew: 0 of 4 patterns; 4 keep their plan" in last.reason
    assert trees_in(last, FIRST | SECOND) == trees_in(after, FIRST | SECOND)


def test_a_statement_that_changes_is_another_pattern(project: DriftingStream) -> None:
    project.publish(DRIFT_DAYS[:2])
    before = current(project)
    write_project(project.folder, (RISING, OTHER.replace("15 minutes", "20 minutes"), FAR, FARTHER))
    change = change_since(before, project.pattern_set)
    assert change is not None and change[0] == FIRST and change[1].startswith("changed other; ")
    # Where it no longer has anything in common, those are planned anew that it shared work with: none.
    write_project(project.folder, (RISING, "NAME other PATTERN SEQ(G g, C c) WITHIN 1 minute", FAR, FARTHER))
    change = change_since(before, project.pattern_set)
    assert change is not None and change[0] == {"other"}
    write_project(project.folder, (FAR, OTHER, RISING, FARTHER))
    change = change_since(before, project.pattern_set)
    assert change is not None and not change[0]


@pytest.mark.long
@pytest.mark.parametrize("search", ["planner: tabu, steps: 100", "planner: dp_bushy", f"{SEARCH}, sharing: prefix"])
def test_another_planner_or_sharing_plans_everything(project: DriftingStream, search: str) -> None:
    project.publish(DRIFT_DAYS[:2])
    before = current(project)
    write_project(project.folder, (RISING, OTHER, FAR, FARTHER, MORE), search)
    assert change_since(before, project.pattern_set) is None
    after = plan_changed(project)
    assert "planned anew" not in after.reason and len(patterns_in(after)) == 5


def test_a_drift_replans_one_component_and_leaves_the_other_untouched(project: DriftingStream) -> None:
    write_project(project.folder, (RISING, OTHER, FAR, FARTHER), adaptation="{threshold: 2.0}")
    project.publish(DRIFT_DAYS[:2])
    assert check(project, "one").decision.outcome == "keep"
    before = current(project)
    project.publish([DRIFT_DAYS[2]])
    second = check(project, "two")
    assert second.decision.outcome == "replan" and second.violation is not None
    assert set(second.violation.patterns) <= FIRST
    assert "planned anew: 2 of 4 patterns (rising, other); 2 keep their plan" in second.decision.reason

    done = answer(project, PlanRequest(second.violation.reason, violation=second.violation), second.violation.run_id)
    assert done.decision.outcome == "replaced" and done.comparison is not None and done.comparison.better
    assert done.decision.details["planned_again"] == sorted(FIRST)
    after = current(project)
    assert trees_in(after, FIRST) != trees_in(before, FIRST)
    assert all(patterns_in(after)[name] == patterns_in(before)[name] for name in SECOND)
    assert done.decision.reason.count("planned anew") == 1
    plan = Plan.from_json(after.plan, "plan")
    assert matches_alone(project, DRIFT_DAYS[2:3], plan) == matches_alone(project, DRIFT_DAYS[2:3])
    assert check(project, "three").decision.outcome == "keep"


def test_a_replanning_answers_what_is_violated_by_then(project: DriftingStream) -> None:
    """Not only what the check had found: until it is done, that is the same violation."""
    project.publish(DRIFT_DAYS[:3])
    first = check(project, "one").violation
    assert first is not None and set(first.patterns) <= FIRST
    project.counts = {**COUNTS, DRIFT_DAYS[3]: {**A_IS_RARE, "E": 300, "F": 200, "G": 5, "H": 5}}
    project.publish([DRIFT_DAYS[3]])
    second = check(project, "two").violation
    assert second is not None and set(second.patterns) & SECOND and second.run_id == first.run_id
    done = answer(project, PlanRequest(first.reason, violation=first), first.run_id).decision
    assert done.outcome == "replaced" and done.details["planned_again"] == sorted(FIRST | SECOND)
    assert check(project, "three").violation is None


def test_the_tasks_of_the_scheduler_hand_on_what_a_violation_concerns(project: DriftingStream) -> None:
    project.publish(DRIFT_DAYS[:3])
    config = project.folder / "pipeline.yaml"
    (run,) = check_plans(StreamTask(config, "ticks", "check"))
    conf = json.loads(json.dumps(run["conf"]))
    assert set(conf["violation"]["patterns"]) <= FIRST
    task = StreamTask(config, "ticks", run["trigger_run_id"], conf["pattern_set"])
    before = current(project)
    done = plan_again(task, conf["reason"], violation=conf["violation"])
    assert done["outcome"] == "replaced" and "planned anew: 2 of 4 patterns" in done["reason"]
    assert all(patterns_in(current(project))[name] == patterns_in(before)[name] for name in SECOND)
    assert plan_again(task, conf["reason"], violation=conf["violation"]) == done, "a task that is repeated"


def test_by_hand_all_of_it_is_planned_again(project: DriftingStream) -> None:
    project.publish(DRIFT_DAYS[:2])
    everything = answer(project, PlanRequest("by hand"), "one")
    assert everything.decision.details["planned_again"] == "all"
    write_project(project.folder, (RISING, OTHER, FAR, FARTHER), "planner: dp_bushy")
    apart = answer(project, PlanRequest("by hand", force=True), "two")
    assert apart.decision.outcome == "replaced" and current(project).plan["sharing"] == "none"


@pytest.mark.long
def test_two_days_by_the_daily_run_with_a_pattern_added_between_them(
    project: DriftingStream, spark: SparkSession
) -> None:
    daily = Project(project.folder, spark)
    for day in DRIFT_DAYS[:2]:
        daily.write_day(day, drifting_rows(day, COUNTS))
    daily.run().run_days(DRIFT_DAYS[:1])
    before = current(project)
    write_project(project.folder, (RISING, OTHER, FAR, FARTHER, MORE))
    outcome = daily.run().run_days(DRIFT_DAYS[1:2])
    record = outcome.plans["all"]
    assert record.version == 2 and "added more; planned anew: 3 of 5 patterns" in record.reason
    assert all(patterns_in(record)[name] == patterns_in(before)[name] for name in SECOND)
    alone = matches_alone(project, DRIFT_DAYS[1:2])
    assert outcome.days[0].matches["all"] == alone and all(alone[name] for name in (*FIRST, *SECOND, "more"))


@pytest.mark.parametrize(
    ("search", "line", "words"),
    [
        ("planner: annealing", 6, "no planner 'annealing'"),
        ("planner: tabu, sharing: everything", 6, "'prefix' or 'subexpression'"),
        ("planner: tabu, time_limit_s: 0", 6, "greater than 0"),
        ("planner: dp_bushy, steps: 100", 6, "steps: for planners of many patterns together, not for 'dp_bushy'"),
        ("steps: 100", 6, "not for 'dp_left_deep'"),
        ("planner: tabu, cost: latency", 6, "by the cost 'throughput'"),
    ],
)
def test_wrong_settings_name_file_and_line(tmp_path: Path, search: str, line: int, words: str) -> None:
    write_project(tmp_path, (RISING,), search)
    with pytest.raises(InputError, match=rf"pipeline\.yaml:{line}: .*{words}"):
        Configuration.load(tmp_path / "pipeline.yaml").stream("ticks")


def test_settings_of_planning_are_for_the_sets_that_are_planned_together(tmp_path: Path) -> None:
    write_project(tmp_path, (RISING,), "planner: tabu, seed: 3")
    with (tmp_path / "pipeline.yaml").open("a") as file:
        file.write("planning: {sharing: prefix, seed: 7, steps: 50}\n")
    (pattern_set,) = Configuration.load(tmp_path / "pipeline.yaml").stream("ticks").pattern_sets
    assert pattern_set.search == {"sharing": "prefix", "seed": 3, "steps": 50}
    write_project(tmp_path, (RISING,), "planner: greedy")
    with (tmp_path / "pipeline.yaml").open("a") as file:
        file.write("planning: {seed: 7}\n")
    (pattern_set,) = Configuration.load(tmp_path / "pipeline.yaml").stream("ticks").pattern_sets
    assert not pattern_set.search


def test_a_plan_from_before_statements_were_recorded_is_replaced_as_a_whole(project: DriftingStream) -> None:
    project.publish(DRIFT_DAYS[:2])
    older = replace(current(project), statements={})
    write_project(project.folder, (RISING, OTHER, FAR, FARTHER, MORE))
    assert change_since(older, project.pattern_set) is None
