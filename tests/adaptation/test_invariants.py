"""Invariants: which comparisons they are, when they are violated, and their JSON form."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep_pipeline.adaptation.invariants import (
    Invariant,
    describe,
    describe_verification,
    invariants_of,
    is_violated,
    without_invariants,
)
from cep_pipeline.errors import InputError, PlanError
from cep_pipeline.planning import PLANNERS, plan
from cep_pipeline.planning.algorithms.dynamic_programming import dp_left_deep_order
from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.costs import COSTS, CostModel
from cep_pipeline.planning.orderings import DecidingComparison, Ordering
from tests.adaptation.drifting import PATTERNS, snapshot
from tests.adaptation.verified import verify
from tests.statistics.market import parse

ABC = parse("NAME one PATTERN AND(A a, B b, C c) WITHIN 1 seconds")
CALM = snapshot({"A": 15.0, "B": 10.0, "C": 5.0})


def test_the_patents_example() -> None:
    """Three cameras with rates C < B < A: the invariants are C < B and B < A, in this order."""
    made = plan(ABC, CALM, "event_frequency")
    every = invariants_of(made, ABC, k=None)
    assert [describe(one, ABC) for one in every] == [
        "pattern one, step 1: c rather than b",
        "pattern one, step 1: c rather than a",
        "pattern one, step 2: b rather than a",
    ]
    tightest = invariants_of(made, ABC)
    assert tightest == (every[0], every[2])
    assert [one.block for one in tightest] == [0, 1]
    drifted = verify(tightest, ABC, snapshot({"A": 15.0, "B": 20.0, "C": 5.0}))
    assert [one.violated for one in drifted] == [False, True]
    assert math.isclose(math.exp(drifted[1].left), 20) and math.isclose(math.exp(drifted[1].right), 15)
    assert math.isclose(drifted[1].distance_to_violation, math.log(15 / 20))


def test_k_invariants_a_block_are_the_tightest_ones() -> None:
    patterns = parse(PATTERNS[-1])
    rates = dict(zip("ABCDEF", [9.0, 3.0, 27.0, 1.0, 81.0, 2.0], strict=True))
    made = plan(patterns, snapshot(rates), "event_frequency")
    for k in (1, 2, 3, None):
        found = invariants_of(made, patterns, k)
        for block in range(5):
            of_block = [one.comparison for one in found if one.block == block]
            assert len(of_block) == min(k or 6, 5 - block)
            left_out = [
                one.comparison
                for one in invariants_of(made, patterns, None)
                if one.block == block and one.comparison not in of_block
            ]
            differences = [
                [math.exp(one.ln_rejected) - math.exp(one.ln_chosen) for one in some] for some in (of_block, left_out)
            ]
            assert differences[0] == sorted(differences[0])
            assert all(kept <= left for kept in differences[0] for left in differences[1])
    for refused in (0, "some"):
        with pytest.raises(InputError, match="one invariant or more"):
            invariants_of(made, patterns, refused)


@pytest.mark.parametrize(("planner", "k"), [("greedy", 1), ("dp_left_deep", 3), ("zstream", 2), ("dp_bushy", 3)])
def test_without_a_number_a_block_has_those_that_its_planner_needs(planner: str, k: int) -> None:
    patterns = parse(PATTERNS[-1])
    rates = snapshot(dict(zip("ABCDEF", [9.0, 3.0, 27.0, 1.0, 81.0, 2.0], strict=True)))
    made = plan(patterns, rates, planner, "throughput")
    assert invariants_of(made, patterns) == invariants_of(made, patterns, k) != invariants_of(made, patterns, k + 1)


def test_trees_are_verified_from_the_leaves_up_and_greedys_invariants_before() -> None:
    patterns = parse(PATTERNS[-1])
    stats = snapshot(dict(zip("ABCDEF", [9.0, 3.0, 27.0, 1.0, 81.0, 2.0], strict=True)))
    for planner in ("zstream", "dp_bushy"):
        blocks = [one.block for one in invariants_of(plan(patterns, stats, planner), patterns, 1)]
        assert blocks == sorted(blocks) and len(set(blocks)) == len(blocks)
    found = invariants_of(plan(patterns, stats, "zstream_ordered"), patterns, 1)
    measures = [one.comparison.measure for one in found]
    assert measures == ["step"] * 5 + ["tree"] * (len(found) - 5)


@given(
    left=st.floats(-50, 50),
    right=st.floats(-50, 50),
    distance=st.one_of(st.just(0.0), st.floats(0.001, 10)),
    wins_ties=st.booleans(),
)
def test_violated_if_and_only_if_the_left_side_is_that_much_larger(
    left: float, right: float, distance: float, wins_ties: bool
) -> None:
    one = DecidingComparison(0, "instances", (0,), (1,), 0.0, 1.0, wins_ties)
    found = is_violated(one, left, right, distance)
    gap = left - right - math.log1p(distance)
    if abs(gap) > 1e-8:
        assert found == (gap > 0)
    assert found == (not one.holds(left, right)) or distance > 0
    assert is_violated(one, left, left, distance) == (distance == 0 and not wins_ties)
    assert found or not is_violated(one, left, right, distance + 0.1)


@pytest.mark.parametrize("distance", [-0.1, math.inf, math.nan])
def test_what_is_no_distance(distance: float) -> None:
    made = plan(ABC, CALM, "greedy")
    with pytest.raises(InputError, match="minimal distance"):
        verify(invariants_of(made, ABC), ABC, CALM, distance=distance)


def test_a_distance_of_each_invariant() -> None:
    made = plan(ABC, CALM, "greedy", "throughput")
    first, second = invariants_of(made, ABC)
    drifted = snapshot({"A": 15.0, "B": 20.0, "C": 22.0})
    assert [one.violated for one in verify((first, second), ABC, drifted)] == [True, True]
    found = verify((first, second), ABC, drifted, distance={second.key: 0.5})
    assert [(one.distance, one.violated) for one in found] == [(0.0, True), (0.5, False)]
    assert describe_verification(found[0], ABC) == "pattern one, step 1: c rather than b: 22 exceeds 20"
    assert "does not exceed 1.5 times " in describe_verification(found[1], ABC)


def test_the_same_question_has_the_same_key_whichever_side_was_chosen() -> None:
    keys = []
    for planner in ("greedy", "dp_left_deep", "event_frequency"):
        found = [
            {one.key for one in invariants_of(plan(ABC, stats, planner), ABC)}
            for stats in (CALM, snapshot({"A": 15.0, "B": 5.0, "C": 10.0}))
        ]
        assert found[0] & found[1]
        keys += [*found[0]]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("planner", sorted(PLANNERS))
def test_planners_without_invariants_say_so(planner: str) -> None:
    made = plan(ABC, CALM, planner, "throughput")
    reasons = without_invariants(made)
    assert bool(reasons) == bool(PLANNERS[planner].without_invariants_because)
    assert bool(reasons) != bool(invariants_of(made, ABC))
    if planner.startswith("ii_"):
        assert reasons["one"].startswith("local search")


def order_of_two(statistics: ClauseStatistics, cost: CostModel) -> Ordering:
    return dp_left_deep_order(statistics, cost, max_variables=2)


def test_an_exact_planner_beyond_its_budget_has_none_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    short = replace(PLANNERS["dp_left_deep"], function=f"{__name__}:order_of_two")
    monkeypatch.setitem(PLANNERS, "dp_left_deep", short)
    made = plan(ABC, CALM, "dp_left_deep")
    assert invariants_of(made, ABC) == ()
    assert "exceed the exact search's budget" in without_invariants(made)["one"]


def test_patterns_of_two_variables_have_what_they_need() -> None:
    patterns = parse(PATTERNS[0])
    for planner in PLANNERS:
        made = plan(patterns, CALM, planner, "throughput")
        if planner in ("zstream", "dp_bushy"):  # two leaves have one tree: nothing decided it
            assert invariants_of(made, patterns) == ()
            assert without_invariants(made) == {}
            again = plan(patterns, snapshot({"A": 1.0, "B": 9.0}), planner, "throughput")
            assert again.patterns[0].clauses[0].tree == made.patterns[0].clauses[0].tree


def test_trees_that_run_as_orders_are_compared_as_orders_are() -> None:
    """The kernel runs a tree as the order of its leaves: over given leaves nothing is chosen."""
    [by_order, by_tree] = (invariants_of(plan(ABC, CALM, name, "kernel"), ABC) for name in ("dp_left_deep", "dp_bushy"))
    assert [one.comparison.ln_chosen for one in by_tree] == [one.comparison.ln_chosen for one in by_order]
    assert invariants_of(plan(ABC, CALM, "zstream", "kernel"), ABC) == ()


def test_invariants_of_other_patterns_are_refused() -> None:
    made = plan(ABC, CALM, "greedy")
    others = parse("NAME other PATTERN AND(A a, B b) WITHIN 1 seconds")
    with pytest.raises(PlanError, match="has no pattern 'other'"):
        invariants_of(made, others)
    with pytest.raises(PlanError, match="not among the patterns other"):
        verify(invariants_of(made, ABC), others, CALM)


def test_an_invariant_knows_what_its_sides_are_measured_by() -> None:
    for cost in COSTS:
        alpha = 0.0 if cost == "latency" else 0.25
        made = plan(ABC, CALM, "greedy", cost, alpha)
        for one in invariants_of(made, ABC):
            assert isinstance(one, Invariant)
            assert (one.cost.name, one.cost.alpha) == (cost, 1.0 if cost == "latency" else alpha)


@pytest.mark.parametrize("planner", sorted(PLANNERS))
def test_explain_lists_the_invariants_by_name(planner: str) -> None:
    patterns = parse(PATTERNS[-1])
    stats = snapshot(dict(zip("ABCDEF", [9.0, 3.0, 27.0, 1.0, 81.0, 2.0], strict=True)))
    made = plan(patterns, stats, planner, compare=False)
    text = " ".join(made.explain().split())
    for one in invariants_of(made, patterns, 1):  # the tightest of each block
        assert describe(one, patterns).removeprefix("pattern one, ") in text
    for reason in without_invariants(made).values():
        assert f"invariants: none; {reason}" in text
