"""Decisions about plans as compiled searches find them are those about the same plans written down, to the last bit."""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from itertools import takewhile

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cep_pipeline.adaptation import decision_function, invariants_of
from cep_pipeline.adaptation.compiled_check import LazyInvariants, found_invariants
from cep_pipeline.adaptation.decisions import DecisionState, Verdict
from cep_pipeline.adaptation.thresholds import Deviation, ThresholdCheck, deviations, numbers_now, questions_of
from cep_pipeline.adaptation.verification import InvariantCheck
from cep_pipeline.errors import PlanError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.replanning import LazyPlan, Replanner, runs_of
from cep_pipeline.planning.search import clause_search_codes
from cep_pipeline.planning.search.clause_search import SEARCHED
from cep_pipeline.statistics.joint import SMALLEST
from cep_pipeline.statistics.terms import terms_of
from tests.adaptation import drifting
from tests.adaptation.test_verification import up_to_violation
from tests.statistics.market import parse
from tests.thoroughness import examples


def found_by(pattern: Pattern, planner: str, cost: str, data: st.DataObject) -> tuple[Replanner, LazyPlan]:
    replanner = Replanner(pattern, planner, cost)
    found = replanner.search(data.draw(drifting.snapshots([pattern])))
    assume(found.clauses is not None)
    plan = LazyPlan.of(found)
    assert isinstance(plan, LazyPlan)
    return replanner, plan


@pytest.mark.parametrize("planner", sorted(SEARCHED))
@settings(max_examples=examples(30))
@given(data=st.data(), cost=st.sampled_from(["throughput", "instances"]), k=st.sampled_from([1, 2, None]))
def test_checks_of_found_plans_are_those_of_written_ones(
    planner: str, data: st.DataObject, cost: str, k: int | None
) -> None:
    pattern = data.draw(drifting.patterns())[0]
    _, plan = found_by(pattern, planner, cost, data)
    invariants = found_invariants(plan, k)
    assert isinstance(invariants, LazyInvariants) and "written" not in plan.__dict__
    assert tuple(invariants) == invariants_of(plan.written, [pattern], k) and len(invariants) == len(tuple(invariants))
    check, readable = invariants.check(), InvariantCheck(tuple(invariants), [pattern])
    own = {one.key: 0.1 * place for place, one in enumerate(invariants) if place % 2}
    for _ in range(2):
        after = data.draw(drifting.snapshots([pattern]))
        for distance in (0.0, data.draw(st.sampled_from([0.01, 0.3])), own):
            expected = tuple(readable.checked(after, distance=distance, to_the_end=True))
            every = check.checked(after, distance=distance, to_the_end=True)
            assert tuple(every) == expected and len(every) == len(expected)
            assert every.violated == tuple(one.invariant for one in expected if one.violated)
            first = check.checked(after, distance=distance)
            assert first == up_to_violation(expected) and first.is_violated == any(one.violated for one in expected)
            asked, reason, checks = check.first_violation(after, distance)
            assert (asked, checks) == (first.is_violated, first) and reason()


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


def up_to(threshold: float, found: Sequence[Deviation]) -> list[Deviation]:
    small = list(takewhile(lambda one: one.relative < threshold, found))
    return [*found][: len(small) + 1]


@settings(max_examples=examples(60))
@given(data=st.data(), threshold=st.sampled_from([0.05, 0.5, 2.0]))
def test_thresholds_in_a_row_are_the_readable_ones(data: st.DataObject, threshold: float) -> None:
    pattern = data.draw(drifting.patterns())[0]
    before, after = (data.draw(drifting.snapshots([pattern])) for _ in range(2))
    questions = questions_of([pattern])[pattern.name]
    check, known = ThresholdCheck(pattern.name, questions), numbers_now(questions, before)
    assert dict(zip(check.keys, check.numbers(before).tolist(), strict=True)) == known
    for now in (after, before, after):
        expected = list(deviations({pattern.name: known}, {pattern.name: questions}, now))
        first, found = check.first_moved(now, check.numbers(before), threshold)
        assert tuple(found) == tuple(up_to(threshold, expected))
        assert (first is None) == all(one.relative < threshold for one in expected)
        assert first is None or found[first] == found[-1] == expected[first]
    assert check.first_moved(after, check.numbers(before), math.inf)[1] == tuple(
        deviations({pattern.name: known}, {pattern.name: questions}, after)
    )


@settings(max_examples=examples(25))
@given(data=st.data(), name=st.sampled_from(["constant_threshold", "invariant"]))
def test_decisions_are_those_about_a_written_plan(data: st.DataObject, name: str) -> None:
    """Check after check, with plans that are found again or replaced in between."""
    pattern = data.draw(drifting.patterns())[0]
    replanner, plan = found_by(pattern, "greedy", "throughput", data)
    decision, before = decision_function(name), plan.found.snapshot if plan.found else None
    states = [decision.begin(plan, [pattern], before), decision.begin(plan.written, [pattern], before)]
    assert isinstance(states[0].invariants, LazyInvariants) == (name == "invariant" and bool(states[1].invariants))
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


def test_numbers_of_one_key_count_once() -> None:
    """Two events of a type, and two conditions that ask the same of them."""
    [pattern] = parse("NAME p PATTERN SEQ(A a, A b, A c) WHERE a.diff < b.diff AND b.diff < c.diff WITHIN 2 seconds")
    questions = questions_of([pattern])[pattern.name]
    snapshot = drifting.snapshot({"A": 2.0})
    assert list(ThresholdCheck("p", questions).keys) == list(numbers_now(questions, snapshot))
    assert len(questions[0].asked_numbers) > len(numbers_now(questions, snapshot))


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
