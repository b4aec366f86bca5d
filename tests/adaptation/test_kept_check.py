"""A check that is kept says what the check says that it was made of, to the last bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.adaptation import decision_function, invariants_of
from cep_pipeline.adaptation.kept_check import KeptCheck, packed
from cep_pipeline.adaptation.verification import InvariantCheck
from cep_pipeline.errors import PlanError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.plans import Plan
from cep_pipeline.statistics import StatisticsSnapshot
from cep_pipeline.statistics.joint import ClauseTerms
from cep_pipeline.statistics.output_profile import OrderProfile
from cep_pipeline.statistics.snapshot import JointSelectivity
from tests.adaptation import drifting
from tests.planning.multi_pattern.planned import patterns_of
from tests.planning.multi_pattern.workloads import workloads
from tests.thoroughness import examples


@st.composite
def snapshots(draw: st.DrawFn, of: Sequence[Pattern]) -> StatisticsSnapshot:
    """Numbers of all that is asked, some conditions unmeasured, orders of matches, and conditions that depend."""
    found = draw(drifting.snapshots(of))
    measured = tuple(one for one in found.selectivities if draw(st.integers(0, 5)))
    joints, profiles = dict[tuple[str, ...], JointSelectivity](), list[OrderProfile]()
    for pattern in of:
        for clause in pattern.clauses:
            names = tuple(one.name for one in clause.positive)
            if draw(st.booleans()):
                last = draw(st.integers(0, len(names) - 1))
                profiles.append(
                    OrderProfile(pattern.name, names, 1, tuple(int(k == last) for k in range(len(names))), ())
                )
            terms = ClauseTerms(pattern, clause, StatisticsSnapshot()).terms
            if len(terms) < 2 or draw(st.booleans()):
                continue
            both = draw(st.lists(st.sampled_from(terms), min_size=2, max_size=2, unique_by=id))
            over = [name for name in names if any(name in one.names for one in both)]
            if not over:
                continue
            members = sorted({(one.key, tuple(over.index(name) for name in one.names)) for one in both})
            if len(members) == 2:
                keys, places = (tuple(column) for column in zip(*members, strict=True))
                joints[keys] = JointSelectivity(keys, draw(drifting.SHARES), 0.0, 1.0, 1000, 0.25, places)
    profiles = [*{one.pattern: one for one in profiles}.values()]
    return replace(found, selectivities=measured, joints=tuple(joints.values()), order_profiles=tuple(profiles))


def shared_plan(data: st.DataObject, of: Sequence[Pattern]) -> Plan:
    """A plan that a search for shared parts has found."""
    sharing = data.draw(st.sampled_from(["prefix", "subexpression"]))
    return cep.plan(of, data.draw(drifting.snapshots(of)), "simulated_annealing", sharing=sharing, steps=60, seed=1)


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_a_kept_check_is_the_check_that_it_was_made_of(data: st.DataObject) -> None:
    patterns = patterns_of(data.draw(workloads()))
    if data.draw(st.booleans()):
        plan = shared_plan(data, patterns)
    else:  # plans of each pattern alone may weigh latency, which the last event decides
        plan = cep.plan(patterns, data.draw(drifting.snapshots(patterns)), "greedy", alpha=0.5)
    invariants = invariants_of(plan, patterns)
    check = InvariantCheck(invariants, patterns)
    content = packed(check, ["A", "B"], plan.sharing, [["p", "q"]])
    assume(content is not None)
    assert content is not None
    kept = KeptCheck(content, patterns)
    assert (kept.leaves, kept.sharing, kept.components) == (["A", "B"], plan.sharing, [["p", "q"]])
    assert tuple(kept.invariants) == invariants
    own = {one.key: 0.1 * place for place, one in enumerate(invariants) if place % 2}
    drawn = data.draw(st.lists(snapshots(patterns), min_size=2, max_size=2))
    for after in (*drawn, replace(drawn[0], joints=()), replace(drawn[1], order_profiles=())):
        for distance in (0.0, data.draw(st.sampled_from([0.01, 0.3])), own):
            for to_the_end in (True, False):
                expected = check.checked(after, distance=distance, to_the_end=to_the_end)
                assert kept.checked(after, distance=distance, to_the_end=to_the_end) == expected
                assert expected.are_violated == [one.violated for one in expected]
                assert expected.distances_to_violation == [one.distance_to_violation for one in expected]


@settings(max_examples=examples(20), deadline=None)
@given(data=st.data())
def test_a_decision_by_a_kept_check_is_the_decision_about_the_plan(data: st.DataObject) -> None:
    patterns = patterns_of(data.draw(workloads()))
    plan = shared_plan(data, patterns)
    function = decision_function("invariant")
    state = function.begin(plan, patterns)
    assume(state.unguarded == ([], []) and state.invariants)
    content = packed(InvariantCheck(state.invariants, patterns), (), plan.sharing, ())
    assume(content is not None)
    assert content is not None
    kept = function.begin(plan, patterns, check=KeptCheck(content, patterns))
    for _ in range(2):
        after = data.draw(snapshots(patterns))
        assert function.decide(kept, after) == function.decide(state, after)


def test_a_leaf_that_the_statistics_lack_is_told() -> None:
    patterns = drifting.parse(
        "NAME p PATTERN SEQ(A a, B b, C c) WHERE a.diff < c.diff WITHIN 2 seconds;"
        "NAME q PATTERN SEQ(A a, B b, D d) WHERE a.diff < d.diff WITHIN 2 seconds"
    )
    rates = {"A": 1.0, "B": 2.0, "C": 3.0, "D": 4.0}
    plan = cep.plan(patterns, drifting.snapshot(rates), "simulated_annealing", steps=60, seed=1)
    check = InvariantCheck(invariants_of(plan, patterns), patterns)
    content = packed(check, rates, plan.sharing, ())
    assert content is not None and check.invariants
    kept = KeptCheck(content, patterns)
    assert kept.checked(drifting.snapshot(rates), to_the_end=True)
    del rates["B"]
    with pytest.raises(PlanError, match="no arrival rate of 'B'"):
        kept.checked(drifting.snapshot(rates), to_the_end=True)
