"""Plans run side by side: all find the same, by what the mechanism runs; what is chosen is what is planned."""

from __future__ import annotations

import json

import pytest

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.errors import CepError, InputError, PlanError
from cep_pipeline.planning import PLANNERS, Join
from cep_pipeline.questions.compare_plans import PlanRun, compare_plans, measure_runs
from cep_pipeline.statistics import estimate_statistics
from tests.statistics.market import market, parse

RISE = "NAME rise PATTERN SEQ(A a, B b, C c) WHERE a.diff < c.diff WITHIN 2 seconds"


@pytest.mark.parametrize("mechanism", sorted(MECHANISMS))
def test_every_planner_is_compared_and_all_find_the_matches(mechanism: str) -> None:
    (pattern,) = parse(RISE)
    events = market(600)
    snapshot = estimate_statistics([pattern], events)
    comparison = compare_plans(pattern, snapshot, events, mechanism, "greedy")
    assert [plan.planned.planner for plan in comparison.plans] == list(PLANNERS)
    matches = cep.detect([pattern], events)["rise"].num_rows
    assert matches > 0
    for plan in comparison.plans:
        if plan.run is None:
            assert plan.refused
            continue
        assert plan.run.matches == matches and plan.run.per_s > 0 and plan.run.mechanism == mechanism
    ran = {plan.planned.planner for plan in comparison.plans if plan.run is not None}
    if MECHANISMS[mechanism].in_pattern_order:
        assert ran < set(PLANNERS) and "trivial" in ran
    else:
        assert ran == (
            set(PLANNERS)
            if MECHANISMS[mechanism].runs_trees
            else {one.name for one in PLANNERS.values() if not one.makes_trees}
        )
    chosen = "trivial" if MECHANISMS[mechanism].in_pattern_order else "greedy"
    assert [plan.planned.planner for plan in comparison.plans if plan.chosen] == [chosen]
    assert comparison.fastest is not None and comparison.fastest.run is not None
    content = json.loads(json.dumps(comparison.to_json(), allow_nan=False))
    assert content["sample_events"] == 600 and len(content["planners"]) == len(PLANNERS)


def test_a_tree_planner_is_replaced_where_trees_do_not_run() -> None:
    (pattern,) = parse(RISE)
    events = market(100)
    comparison = compare_plans(pattern, estimate_statistics([pattern], events), events, "lazy_chain_nfa", "dp_bushy")
    assert [plan.planned.planner for plan in comparison.plans if plan.chosen] == ["dp_left_deep"]
    assert comparison.cost_model == "throughput"


def test_a_sample_with_too_many_matches_is_refused() -> None:
    (pattern,) = parse(RISE)
    events = market(600)
    with pytest.raises(InputError, match="--sample"):
        compare_plans(pattern, estimate_statistics([pattern], events), events, "fused", limit=5)


def test_runs_that_are_the_same_are_measured_once_and_consumption_is_part_of_them() -> None:
    (pattern,) = parse(f"{RISE} CONSUME MATCHED")
    events = market(600)
    one, other = ("c", "b", "a"), ("a", "b", "c")
    runs = {
        "x": PlanRun("lazy_chain_nfa", [one]),
        "y": PlanRun("lazy_chain_nfa", [list(one)]),
        "z": PlanRun("evaluation_tree", [Join("c", Join("b", "a"))]),
        "pattern's": PlanRun("fused", [other]),
    }
    measured = measure_runs(pattern, runs, events, 1)
    assert measured["x"] is measured["y"] and measured["x"] is not measured["z"]
    expected = cep.detect([pattern], events)["rise"].num_rows
    assert {run.matches for run in measured.values()} == {expected} and expected > 0
    assert measured["z"].candidates > 0 and measured["z"].peak_instances > 0


def test_different_matches_are_no_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    broken = replace(MECHANISMS["fused"], find=lambda *_: iter(()))
    monkeypatch.setattr("cep_pipeline.questions.compare_plans.MECHANISMS", {**MECHANISMS, "fused": broken})
    (pattern,) = parse(RISE)
    runs = {"tree": PlanRun("evaluation_tree", ["abc"]), "kernel": PlanRun("fused", ["abc"])}
    with pytest.raises(CepError, match="kernel on fused finds 0 matches"):
        measure_runs(pattern, runs, market(600))


def test_a_plan_that_a_mechanism_does_not_run_is_refused() -> None:
    (pattern,) = parse(RISE)
    with pytest.raises(PlanError):
        measure_runs(pattern, {"tree": PlanRun("lazy_chain_nfa", [Join("a", Join("b", "c"))])}, market(50))
