"""The baselines: each does what the patent says of it, and nothing that it says others alone do."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings

from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.planning.algorithms.heuristics import greedy_order
from cep_pipeline.planning.clause_plans import Sharing
from cep_pipeline.planning.costs import THROUGHPUT
from cep_pipeline.planning.multi_pattern.baselines import Block, BlockCosts, common_blocks, cover_greedily, plan_around
from cep_pipeline.planning.multi_pattern.costs import member_statistics
from cep_pipeline.planning.multi_pattern.members import Member, members_of
from cep_pipeline.planning.multi_pattern.workload import Neighbourhood, Plans, SearchOptions, Workload
from cep_pipeline.planning.planners import MULTI_PATTERN_PLANNERS
from cep_pipeline.planning.trees import Join, as_tree, leaves_of, nodes_of
from cep_pipeline.statistics import estimate_statistics
from tests.planning.multi_pattern.planned import alike, workload_of
from tests.planning.multi_pattern.workloads import SCHEMA
from tests.statistics.market import market, parse
from tests.thoroughness import examples

SHARING_ONES = ("sharing", "redundancy_ratio", "merge_decomposition")
NO_SEARCH = SearchOptions(Neighbourhood.of("edge"), 1.0)


def workload(text: str, sharing: Sharing = "subexpression") -> Workload:
    members = members_of(parse(text))
    snapshot = estimate_statistics(parse(text), market(400, symbols="AAABBCDE"))
    return Workload(members, member_statistics({member.id: member for member in members}, snapshot), sharing)


def made_by(planner: str, of: Workload) -> Plans:
    plans, steps = MULTI_PATTERN_PLANNERS[planner](of, NO_SEARCH)
    assert steps == 0
    return plans


def test_none_and_reordering_plan_each_pattern_by_itself() -> None:
    three = workload(
        """NAME one PATTERN AND(A a, B b, C c) WITHIN 1 second; NAME two PATTERN AND(E e, A a, D d) WITHIN 1 second;
        NAME three PATTERN OR(A a, SEQ(A x, C y)) WITHIN 1 second""",
        "none",
    )
    assert made_by("none", three) == {member.id: member.names for member in three.members}
    assert made_by("reordering", three) == {
        member.id: tuple(member.names[place] for place in greedy_order(three.statistics[member.id], THROUGHPUT).order)
        for member in three.members
    }
    assert made_by("reordering", three)["one", 0] == ("c", "b", "a")


def test_sharing_takes_what_saves_the_most_nodes_whatever_it_costs() -> None:
    """A B C is in two patterns, B C in four: 2 nodes saved, or 3."""
    four = workload(
        """NAME p1 PATTERN SEQ(A a, B b, C c) WITHIN 1 second; NAME p2 PATTERN SEQ(A a, B b, C c, D d) WITHIN 1 second;
        NAME p3 PATTERN SEQ(B b, C c, E e) WITHIN 2 seconds; NAME p4 PATTERN SEQ(D d, B b, C c) WITHIN 1 second"""
    )
    plans = made_by("sharing", four)
    assert {str(plan) for plan in plans.values()} == {
        "(a, (b, c))",
        "((a, (b, c)), d)",
        "((b, c), e)",
        "(d, (b, c))",
    }
    assert len(four.shared(plans)) == 5 + 1 + 1 + 1 + 1 + 1
    ordered = workload(
        """NAME p1 PATTERN SEQ(A a, B b, C c) WITHIN 1 second; NAME p2 PATTERN SEQ(B b, C c, D d) WITHIN 1 second""",
        "prefix",
    )
    assert made_by("sharing", ordered) == {("p1", 0): ("b", "c", "a"), ("p2", 0): ("b", "c", "d")}


def test_redundancy_shares_substrings_of_patterns_only() -> None:
    """A and C follow one another in one of the two patterns only: SPASS does not see them, SH does."""
    two = workload(
        "NAME p1 PATTERN SEQ(A a, B b, C c) WITHIN 1 second; NAME p2 PATTERN SEQ(A a, C c, D d) WITHIN 1 second"
    )
    assert str(made_by("redundancy_ratio", two)["p1", 0]) == "((a, b), c)"
    assert str(made_by("sharing", two)["p1", 0]) == "((a, c), b)"


def test_the_redundancy_ratio_is_the_work_apart_beside_the_work_once() -> None:
    two = workload(
        """NAME p1 PATTERN SEQ(A a, B b) WITHIN 1 second; NAME p2 PATTERN SEQ(A a, B b) WITHIN 1 second;
        NAME p3 PATTERN SEQ(A a, B b) WITHIN 3 seconds"""
    )
    (group,) = common_blocks(two)
    costs = BlockCosts(two)
    assert costs.ratio(group[:2]) == pytest.approx(2)
    assert costs.ratio(group) == pytest.approx(1 + 2 / 9)
    assert costs.cost(group[2]) == pytest.approx(9 * costs.cost(group[0]))


def test_decomposition_splits_a_pattern_where_that_is_cheaper() -> None:
    """B C stands at the end of both: nothing is shared in pattern order, and much is gained by splitting both."""
    two = workload(
        """NAME p1 PATTERN SEQ(A a, B b, C c) WHERE b.diff + 1 < c.diff WITHIN 1 second;
        NAME p2 PATTERN SEQ(D d, B b, C c) WHERE b.diff + 1 < c.diff WITHIN 1 second"""
    )
    assert set(map(str, made_by("merge_decomposition", two).values())) == {"(a, (b, c))", "(d, (b, c))"}


def test_merging_goes_on_from_what_another_pattern_begins_with() -> None:
    two = workload("NAME p1 PATTERN SEQ(A a, B b) WITHIN 1 second; NAME p2 PATTERN SEQ(A a, B b, C c) WITHIN 1 second")
    plans = made_by("merge_decomposition", two)
    assert str(plans["p2", 0]) == "((a, b), c)" and len(two.shared(plans)) == 5


@pytest.mark.parametrize("planner", SHARING_ONES)
@settings(max_examples=examples(20))
@given(alike())
def test_sharing_baselines_do_not_reorder(planner: str, members: list[Member]) -> None:
    """What is joined one after another is in pattern order, but for what the order of a shared part says."""
    of = workload_of(members, "subexpression")
    plans = made_by(planner, of)
    shared = of.shared(plans)
    for member in of.members:
        plan = plans[member.id]
        parts = {
            frozenset(slots) for node in shared.shared for slots in node.sharers.get(member.id, ()) if node.size > 1
        }
        assert isinstance(plan, Join | str)
        for part in nodes_of(plan):
            if isinstance(part, Join) and not any(set(leaves_of(part)) <= shared_part for shared_part in parts):
                first, second = (min(map(member.names.index, leaves_of(side))) for side in (part.left, part.right))
                assert first < second


@settings(max_examples=examples(30))
@given(alike())
def test_merging_and_decomposition_is_never_dearer_than_pattern_order(members: list[Member]) -> None:
    of = workload_of(members, "subexpression")
    in_order: Plans = {member.id: as_tree(member.names) for member in members}
    assert of.ln_cost(made_by("merge_decomposition", of)) <= of.ln_cost(in_order) + 1e-9


def test_blocks_of_a_member_have_nothing_in_common() -> None:
    three = workload(
        """NAME p1 PATTERN SEQ(A a, B b, C c, D d) WITHIN 1 second; NAME p2 PATTERN SEQ(A a, B b) WITHIN 1 second;
        NAME p3 PATTERN SEQ(C c, D d, E e) WITHIN 1 second"""
    )

    def size(blocks: Sequence[Block]) -> float:
        return float(len(blocks) - 1)

    chosen = cover_greedily(three, common_blocks(three), size)
    assert sorted(block.places for block in chosen if block.member == 0) == [(0, 1), (2, 3)]
    tree = plan_around(three, three.members[0], [block for block in chosen if block.member == 0])
    assert str(tree) == "((a, b), (c, d))"


@pytest.mark.parametrize("sharing", ["prefix", "subexpression"])
def test_parts_of_one_pattern_that_are_alike_are_merged_with_those_of_another(sharing: Sharing) -> None:
    """Two nodes of a member may have one key: a block is found by its variables."""
    structure = "SEQ(B v0, X+ v1[], B v2, B v3, X+ v4[])"
    text = f"PATTERN {structure} WITHIN 1 second; PATTERN {structure} WITHIN 2 seconds"
    alike_ones = workload_of(members_of(parse_patterns(text, SCHEMA)), sharing)
    in_order = {member.id: member.names for member in alike_ones.members}
    assert alike_ones.ln_cost(made_by("merge_decomposition", alike_ones)) <= alike_ones.ln_cost(in_order)
