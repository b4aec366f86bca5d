"""Decisions about plans as compiled searches find them are those about the same plans written down, to the last bit."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cep_pipeline.adaptation import decision_function
from cep_pipeline.adaptation.decisions import DecisionState, Verdict
from cep_pipeline.errors import PlanError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.replanning import LazyPlan, Replanner, runs_of
from cep_pipeline.planning.search import clause_search_codes
from cep_pipeline.planning.search.clause_search import SEARCHED
from cep_pipeline.statistics.joint import SMALLEST
from cep_pipeline.statistics.terms import terms_of
from tests.adaptation import drifting
from tests.statistics.market import parse
from tests.thoroughness import examples


def found_by(pattern: Pattern, planner: str, cost: str, data: st.DataObject) -> tuple[Replanner, LazyPlan]:
    replanner = Replanner(pattern, planner, cost)
    found = replanner.search(data.draw(drifting.snapshots([pattern])))
    assume(found.clauses is not None)
    plan = LazyPlan.of(found)
    assert isinstance(plan, LazyPlan)
    return replanner, plan


@settings(max_examples=examples(40))
@given(data=st.data(), planner=st.sampled_from(sorted(SEARCHED)))
def test_a_found_plan_is_the_plan_it_is_written_as(data: st.DataObject, planner: str) -> None:
    """What it runs is known without writing it; found again, it keeps its numbers and has the new comparisons."""
    pattern = data.draw(drifting.patterns())[0]
    replanner, plan = found_by(pattern, planner, "instances", data)
    assert list(runs_of(plan, pattern.name)) == list(runs_of(plan.written, pattern.name))
    assert plan == plan.written and plan.written == plan and hash(plan) == hash(plan.written)
    assert pickle.loads(pickle.dumps(plan)) == plan and plan.plan_id == plan.written.plan_id
    again = replanner.search(data.draw(drifting.snapshots([pattern])))
    if replanner.is_of(plan, again):
        confirmed = replanner.confirmed(replanner.confirmed(plan, again), again)
        assert confirmed == replanner.with_comparisons(plan.written, again)
        assert [one.steps for one in confirmed.patterns[0].clauses] == [one.steps for one in plan.patterns[0].clauses]
    else:
        assert list(runs_of(LazyPlan.of(again), pattern.name)) != list(runs_of(plan, pattern.name))


@settings(max_examples=examples(25))
@given(data=st.data(), name=st.sampled_from(["constant_threshold", "invariant"]))
def test_decisions_are_those_about_a_written_plan(data: st.DataObject, name: str) -> None:
    """Check after check, with plans that are found again or replaced in between."""
    pattern = data.draw(drifting.patterns())[0]
    replanner, plan = found_by(pattern, "greedy", "throughput", data)
    decision, before = decision_function(name), plan.found.snapshot if plan.found else None
    states = [decision.begin(plan, [pattern], before), decision.begin(plan.written, [pattern], before)]
    assert states[0].invariants == states[1].invariants
    for _ in range(4):
        now = data.draw(drifting.snapshots([pattern]))
        verdict, readable = (decision.decide(state, now) for state in states)
        assert verdict == readable and verdict.violated == readable.violated
        if not verdict.replan:
            continue
        found = replanner.search(now)
        if replanner.is_of(plan, found):
            used = [replanner.confirmed(one, found) for one in (plan, plan.written)]
        else:
            used = [LazyPlan.of(found), replanner.written(found)]
        assert used[0] == used[1]
        states = [_after(decision, state, verdict, one, now) for state, one in zip(states, used, strict=True)]
        plan = used[0] if isinstance(used[0], LazyPlan) else plan


def _after(decision, state: DecisionState, verdict: Verdict, plan, now) -> DecisionState:  # type: ignore[no-untyped-def]
    after: DecisionState = decision.replanned(state, verdict, plan, now, gain=0.1)
    return after


def test_kernels_bound_numbers_as_planning_does() -> None:
    assert clause_search_codes.SMALLEST == SMALLEST


def test_what_a_snapshot_does_not_know_is_said() -> None:
    """Of a leaf, as planning says it; of a condition there is a prior, also where it was measured before."""
    pattern = parse(drifting.PATTERNS[2])[0]
    leaves, conditions = terms_of([pattern])
    rates, shares = {leaf.key: 2.0 for leaf in leaves}, {condition.key: 0.1 for condition in conditions}
    decision, replanner = decision_function("constant_threshold"), Replanner(pattern, "greedy", "throughput")
    known = drifting.snapshot(rates, shares)
    plan = LazyPlan.of(replanner.search(known))
    states = decision.begin(plan, [pattern], known), decision_function("invariant").begin(plan, [pattern], known)
    assert decision.decide(states[0], drifting.snapshot(rates)).replan
    assert (
        replanner.search(drifting.snapshot(rates)).orderings
        == Replanner(pattern, "greedy", "throughput").search(drifting.snapshot(rates)).orderings
    )
    lacking = drifting.snapshot(dict(list(rates.items())[1:]), shares)
    for asked in (
        lambda: replanner.search(lacking),
        lambda: decision.decide(states[0], lacking),
        lambda: decision_function("invariant").decide(states[1], lacking),
    ):
        with pytest.raises(PlanError, match="no arrival rate"):
            asked()
