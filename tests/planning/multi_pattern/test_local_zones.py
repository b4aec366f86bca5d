"""The local plans inside a shared plan: their comparisons, and what a search that goes on begins with."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep_pipeline.adaptation import invariants_of
from cep_pipeline.adaptation.plan_quality import ln_cost_on, same_plans
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.costs import THROUGHPUT, CostModel
from cep_pipeline.planning.multi_pattern import Member, MemberId, Sharing, members_of, share, shared_plan_of
from cep_pipeline.planning.multi_pattern.component_plans import components_of_patterns, with_part
from cep_pipeline.planning.multi_pattern.costs import Statistics, ln_cost, member_statistics
from cep_pipeline.planning.multi_pattern.local_plans import LocalPlans
from cep_pipeline.planning.multi_pattern.local_zones import zones_anew
from cep_pipeline.planning.multi_pattern.plan_workload import plan_workload
from cep_pipeline.planning.plans import Plan
from cep_pipeline.planning.trees import Join
from cep_pipeline.statistics import StatisticsSnapshot, estimate_statistics
from tests.adaptation.verified import verify
from tests.planning.multi_pattern.planned import MODELS, alike, patterns_of, snapshot_of
from tests.planning.multi_pattern.workloads import SCHEMA, workloads

SHARING = st.sampled_from(("prefix", "subexpression"))


def other_snapshot(members: list[Member], seed: int) -> StatisticsSnapshot:
    """The statistics of other events, whose rates differ by much."""
    random = Random(seed)
    weights = [random.choice((1, 4, 20)) for _ in "ABCDX"]
    rows = [
        {
            "timestamp": 230_000 * number,
            "type": random.choices("ABCDX", weights)[0],
            "x": random.randrange(6),
            "y": random.randrange(3),
        }
        for number in range(100)
    ]
    return estimate_statistics(patterns_of(members), SCHEMA.table(rows))


def local_plans(statistics: Statistics, model: CostModel) -> dict[MemberId, LocalPlans]:
    return {name: LocalPlans(numbers, model) for name, numbers in statistics.items()}


@MODELS
@given(st.one_of(alike(), workloads()), SHARING, st.integers(0, 30))
def test_zones_anew_share_the_same_and_cost_no_more(
    model: CostModel, members: list[Member], sharing: Sharing, seed: int
) -> None:
    patterns = patterns_of(members)
    made = plan_workload(patterns, snapshot_of(members), cost=model.name, sharing=sharing, steps=60, seed=seed)
    plan = shared_plan_of(made, patterns).without_order_tests()  # as planning again begins with it
    statistics = member_statistics(plan.members, other_snapshot(members, seed))
    anew = zones_anew(plan, local_plans(statistics, model))
    again = share(plan.members.values(), [anew[name] for name in plan.members], sharing)
    assert ln_cost(again, statistics, model) <= ln_cost(plan, statistics, model) + 1e-9
    # What members shared they share still: of no set of variables there are more nodes than before.
    assert len(again) <= len(plan)


@MODELS
@given(st.one_of(alike(), workloads()), SHARING, st.integers(0, 30))
def test_whenever_an_invariant_is_violated_planning_again_gives_a_cheaper_plan(
    model: CostModel, members: list[Member], sharing: Sharing, seed: int
) -> None:
    """Theorem 1 of the acep-invariants patent, for the local plans inside of shared ones."""
    patterns = patterns_of(members)
    first = snapshot_of(members)
    made = plan_workload(patterns, first, cost=model.name, sharing=sharing, steps=60, seed=seed)
    invariants = invariants_of(made, patterns, None)
    assert not any(one.violated for one in verify(invariants, patterns, first)), "they hold when the plan is made"
    fresh = other_snapshot(members, seed)
    alone = [one for one in invariants if not one.comparison.share]  # that is of several members
    if any(one.violated for one in verify(alone, patterns, fresh)):
        again = plan_workload(patterns, fresh, cost=model.name, sharing=sharing, steps=1, seed=seed, start=made)
        assert not same_plans(made, again)
        assert again.ln_cost < ln_cost_on(made, patterns, fresh)


def test_a_zone_that_several_share_is_put_together_once_for_all_of_them() -> None:
    text = """NAME p PATTERN AND(A a, B b, C c, D d) WITHIN 2 seconds;
              NAME q PATTERN AND(A x, B y, C z, X k) WITHIN 2 seconds"""
    patterns = parse_patterns(text, SCHEMA)
    orders = [("a", "b", "c", "d"), ("x", "y", "z", "k")]
    plan = share(members_of(patterns), orders, "subexpression")
    statistics = member_statistics(plan.members, rates(patterns, {"A": 60, "B": 10, "C": 3, "D": 90, "X": 90}))
    anew = zones_anew(plan, local_plans(statistics, THROUGHPUT))
    # A is the busiest of the three that both have: it comes after the join of the others, for both alike.
    shared = [{frozenset(slots) for uses in node.sharers.values() for slots in uses} for node in plan.shared]
    assert {frozenset("abc"), frozenset("xyz")} in shared
    again = share(plan.members.values(), list(anew.values()), "subexpression")
    shared = [{frozenset(slots) for uses in node.sharers.values() for slots in uses} for node in again.shared]
    assert {frozenset("bc"), frozenset("yz")} in shared and {frozenset("abc"), frozenset("xyz")} in shared


def rates(patterns: list[Pattern], numbers: dict[str, int]) -> StatisticsSnapshot:
    kinds = [kind for kind, number in numbers.items() for _ in range(number)]
    Random(1).shuffle(kinds)
    rows = [{"timestamp": 100_000 * place, "type": kind, "x": 1, "y": 1} for place, kind in enumerate(kinds)]
    return estimate_statistics(patterns, SCHEMA.table(rows))


def test_an_and_that_is_gone_serves_no_seq() -> None:
    """A pattern that took what an AND makes has a join of its own where that AND is made otherwise."""
    text = """NAME and PATTERN AND(A a, B b, C c) WHERE a.x + 2 < b.x WITHIN 2 seconds;
              NAME seq PATTERN SEQ(A p, B q) WHERE p.x + 2 < q.x WITHIN 2 seconds"""
    patterns = parse_patterns(text.replace("NAME and", "NAME both"), SCHEMA)
    before = rates(patterns, {"A": 20, "B": 20, "C": 90})
    kept = plan_workload(patterns, before, steps=50)
    served = kept.for_pattern("seq").clauses[0].tree
    assert served is not None and served.in_order and "1 join takes what an AND of another pattern" in kept.explain()
    assert Plan.from_json(kept.to_json()) == kept
    fresh = rates(patterns, {"A": 20, "B": 20, "C": 1})
    made = plan_workload(patterns[:1], fresh, steps=50)
    assert str(made.for_pattern("both").clauses[0].tree) != str(kept.for_pattern("both").clauses[0].tree)
    whole = with_part(kept, made, patterns, fresh)
    assert whole.for_pattern("seq").clauses[0].tree == Join(served.left, served.right)
    assert math.isclose(whole.ln_cost, ln_cost_on(whole, patterns, fresh))
    assert with_part(kept, None, patterns, before).for_pattern("seq") is kept.for_pattern("seq")


@pytest.mark.parametrize("sharing", ["prefix", "subexpression", "none"])
def test_components_connect_the_clauses_of_a_pattern(sharing: Sharing) -> None:
    text = """NAME p PATTERN OR(SEQ(A a, B b), SEQ(C c, D d)) WITHIN 2 seconds;
              NAME q PATTERN SEQ(A a, B b) WITHIN 2 seconds; NAME r PATTERN SEQ(C c, D d) WITHIN 2 seconds;
              NAME s PATTERN SEQ(X a, X b) WITHIN 2 seconds"""
    found = components_of_patterns(parse_patterns(text, SCHEMA), sharing)
    assert found == ([("p",), ("q",), ("r",), ("s",)] if sharing == "none" else [("p", "q", "r"), ("s",)])


def test_a_part_made_anew_stands_beside_the_others_as_they_were() -> None:
    text = """NAME p PATTERN SEQ(A a, B b, C c) WITHIN 2 seconds; NAME q PATTERN SEQ(A a, B b, D d) WITHIN 2 seconds;
              NAME s PATTERN AND(X a, D b) WITHIN 2 seconds"""
    patterns = parse_patterns(text, SCHEMA)
    kept = plan_workload(patterns, rates(patterns, {"A": 9, "B": 5, "C": 2, "D": 3, "X": 4}), steps=50)
    fresh = rates(patterns, {"A": 2, "B": 9, "C": 8, "D": 3, "X": 1})
    made = plan_workload(patterns[:2], fresh, steps=50)
    whole = with_part(kept, made, patterns, fresh)
    assert whole.for_pattern("s") is kept.for_pattern("s") and whole.for_pattern("p") is made.for_pattern("p")
    assert whole.statistics.digest == fresh.digest
    assert math.isclose(whole.ln_cost, ln_cost_on(whole, patterns, fresh))
    assert whole.workload is not None and {use.pattern for node in whole.workload.shared for use in node.uses} == {
        "p",
        "q",
        "s",
    }
