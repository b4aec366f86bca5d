"""Checks of invariants: what they measure, and where they stop."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.adaptation import Verification, decision_function, invariants_of
from cep_pipeline.adaptation.verification import InvariantCheck, is_violated
from cep_pipeline.errors import InputError
from cep_pipeline.planning import COSTS, plan
from cep_pipeline.planning.costs import THROUGHPUT
from cep_pipeline.planning.numbers.clause_questions import clause_statistics
from cep_pipeline.planning.orderings import GRAIN, ln_measure
from cep_pipeline.planning.search.sums import MOST_VARIABLES
from tests.adaptation import drifting
from tests.adaptation.test_invariants import ABC, CALM
from tests.statistics.market import parse
from tests.thoroughness import examples

DECIDING = ("event_frequency", "greedy", "zstream", "zstream_ordered", "dp_left_deep", "dp_bushy")


def up_to_violation(found: tuple[Verification, ...]) -> tuple[Verification, ...]:
    first = next((place for place, one in enumerate(found) if one.violated), len(found))
    return found[: first + 1]


def alike(one: Verification, other: Verification) -> None:
    """Both measure the same, but for rounding, and come to the same verdict where that does not decide it."""
    assert (one.invariant, one.distance) == (other.invariant, other.distance)
    assert [one.left, one.right] == pytest.approx([other.left, other.right], abs=1e-9)
    assert one.violated == is_violated(one.invariant.comparison, one.left, one.right, one.distance)
    assert one.violated == other.violated or abs(other.distance_to_violation) < 10 * GRAIN


@pytest.mark.parametrize("planner", DECIDING)
@settings(max_examples=examples(60))
@given(data=st.data(), cost=st.sampled_from(sorted(COSTS)), k=st.sampled_from([1, 2, None]))
def test_checks_end_at_the_first_violation_or_go_to_the_end(
    planner: str, data: st.DataObject, cost: str, k: int | None
) -> None:
    """Of any planner, cost, K and d: the same sides, the same verdicts, and the same first violation."""
    patterns = data.draw(drifting.patterns())
    before, after = data.draw(drifting.snapshots(patterns)), data.draw(drifting.snapshots(patterns))
    alpha = 0.0 if cost == "latency" else data.draw(st.sampled_from([0.0, 0.5]))
    made = plan(patterns, before, planner, cost, alpha, compare=False)
    check = InvariantCheck(invariants_of(made, patterns, k), patterns)
    exactly = check.checked(after, to_the_end=True)
    # Distances at which an invariant is about to be violated, and some of its own for each.
    near = [math.expm1(min(one.left - one.right, 100.0)) for one in exactly if one.left > one.right]
    own = {one.invariant.key: 0.1 * place for place, one in enumerate(check.verifications(after)) if place % 2}
    for snapshot in (before, after):
        for distance in (0.0, data.draw(st.sampled_from([0.01, *near])), own):
            every = check.checked(snapshot, distance=distance, to_the_end=True)
            readable = tuple(every)
            for one, other in zip(readable, check.verifications(snapshot, distance=distance), strict=True):
                alike(one, other)
            assert every.violated == tuple(one.invariant for one in readable if one.violated)
            first = check.checked(snapshot, distance=distance)
            assert first == up_to_violation(readable)
            if first.violated:
                again = check.checked(snapshot, distance=distance)
                assert again.first_violated == readable[len(first) - 1] == first[-1]


def test_large_clauses_are_measured_the_same() -> None:
    names = "abcdefghijk"
    assert len(names) > MOST_VARIABLES
    conditions = " AND ".join(f"{one}.diff < {other}.diff" for one, other in zip(names, names[2:], strict=False))
    operands = ", ".join(f"{name.upper()} {name}" for name in names)
    patterns = parse(f"NAME one PATTERN AND({operands}) WHERE {conditions} WITHIN 2 seconds")
    rates = {name.upper(): 1.0 + place % 4 for place, name in enumerate(names)}
    drifted = drifting.snapshot({kind: 5.0 - rate for kind, rate in rates.items()})
    for planner in ("greedy", "zstream", "dp_left_deep"):
        for cost in ("throughput", "kernel"):
            made = plan(patterns, drifting.snapshot(rates), planner, cost, compare=False)
            check = InvariantCheck(invariants_of(made, patterns, None), patterns)
            verified = check.checked(drifted, to_the_end=True)
            assert any(one.violated for one in verified)
            statistics = clause_statistics(patterns[0], patterns[0].clauses[0], drifted)
            for one in verified:
                of = one.invariant.comparison
                sides = [ln_measure(of.measure, side, statistics, COSTS[cost]) for side in (of.chosen, of.rejected)]
                assert [one.left, one.right] == pytest.approx(sides, abs=1e-9)


def test_costs_that_are_no_sums_are_checked_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COSTS, "odd", replace(THROUGHPUT, name="odd", node=replace(THROUGHPUT.node, sum=None)))
    drifted = drifting.snapshot({"A": 15.0, "B": 20.0, "C": 5.0})
    for cost in ("odd", "throughput"):
        check = InvariantCheck(invariants_of(plan(ABC, CALM, "greedy", cost), ABC, None), ABC)
        readable = tuple(check.verifications(drifted))
        every = tuple(check.checked(drifted, to_the_end=True))
        assert tuple(check.checked(drifted)) == up_to_violation(every)
        for one, other in zip(every, readable, strict=True):
            alike(one, other)
        assert [one.comparison.chosen for one in check.checked(drifted).violated] == [(2, 1)]


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
