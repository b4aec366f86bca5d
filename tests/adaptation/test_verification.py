"""Checks of invariants: what they measure, and where they stop."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.adaptation.decisions import decision_function
from cep_pipeline.adaptation.invariants import InvariantCheck, Verification, invariants_of, is_violated
from cep_pipeline.errors import InputError
from cep_pipeline.planning import COSTS, plan
from cep_pipeline.planning.clause_questions import clause_statistics
from cep_pipeline.planning.orderings import ln_measure
from tests.adaptation import drifting
from tests.adaptation.test_invariants import ABC, CALM
from tests.thoroughness import examples

DECIDING = ("event_frequency", "greedy", "zstream", "zstream_ordered", "dp_left_deep", "dp_bushy")


def up_to_violation(found: tuple[Verification, ...]) -> tuple[Verification, ...]:
    first = next((place for place, one in enumerate(found) if one.violated), len(found))
    return found[: first + 1]


@pytest.mark.parametrize("planner", DECIDING)
@settings(max_examples=examples(60))
@given(data=st.data(), cost=st.sampled_from(sorted(COSTS)), k=st.sampled_from([1, 2, None]))
def test_checks_end_at_the_first_violation_or_go_to_the_end(
    planner: str, data: st.DataObject, cost: str, k: int | None
) -> None:
    """Of any planner, cost, K and d: the sides are what they measure, and the first violation is the last check."""
    patterns = data.draw(drifting.patterns())
    before, after = data.draw(drifting.snapshots(patterns)), data.draw(drifting.snapshots(patterns))
    alpha = 0.0 if cost == "latency" else data.draw(st.sampled_from([0.0, 0.5]))
    made = plan(patterns, before, planner, cost, alpha, compare=False)
    invariants = invariants_of(made, patterns, k)
    check = InvariantCheck(invariants, patterns)
    exactly = check.checked(after, to_the_end=True)
    # Distances at which an invariant is about to be violated, and some of its own for each.
    near = [math.expm1(min(one.left - one.right, 100.0)) for one in exactly if one.left > one.right]
    own = {one.key: 0.1 * place for place, one in enumerate(invariants) if place % 2}
    for snapshot in (before, after):
        for distance in (0.0, data.draw(st.sampled_from([0.01, *near])), own):
            every = check.checked(snapshot, distance=distance, to_the_end=True)
            assert [one.invariant for one in every] == [*invariants]
            for one in every:
                of, clause = one.invariant.comparison, patterns[0].clauses[one.invariant.clause]
                statistics = clause_statistics(patterns[0], clause, snapshot)
                asked = of.chosen, of.rejected
                sides = [ln_measure(of.measure, side, statistics, one.invariant.cost) for side in asked]
                assert [one.left, one.right] == pytest.approx(sides, abs=1e-9)
                assert one.violated == is_violated(of, one.left, one.right, one.distance)
                assert one.distance == (own.get(one.invariant.key, 0.0) if distance is own else distance)
            assert check.checked(snapshot, distance=distance) == up_to_violation(every)


def test_distances_are_checked() -> None:
    check = InvariantCheck(invariants_of(plan(ABC, CALM, "greedy"), ABC), ABC)
    check.checked(CALM)
    for distance in (-0.1, math.inf, math.nan):
        with pytest.raises(InputError, match="minimal distance"):
            check.checked(CALM, distance=distance)


def test_decisions_keep_their_check() -> None:
    """Where the plan stays, its checks are not made anew; a new plan has its own."""
    decision = decision_function("invariant")
    made = plan(ABC, CALM, "greedy")
    state = decision.begin(made, ABC, CALM)
    drifted = drifting.snapshot({"A": 15.0, "B": 20.0, "C": 5.0})
    verdict = decision.decide(state, drifted)
    assert decision.replanned(state, verdict, made, drifted, gain=0.0).check is state.check
    other = plan(ABC, drifted, "greedy")
    assert decision.replanned(state, verdict, other, drifted, gain=0.1).check is not state.check
