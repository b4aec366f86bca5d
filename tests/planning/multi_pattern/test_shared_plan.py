"""Shared plans: what is merged, by whom nodes are used, and that members come and go without a trace."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.errors import PlanError
from cep_pipeline.planning.clause_plans import SHARINGS, Sharing
from cep_pipeline.planning.multi_pattern.members import Member, members_of
from cep_pipeline.planning.multi_pattern.shared_plan import SharedPlan, share
from cep_pipeline.planning.trees import Join
from tests.planning.multi_pattern.literal import any_tree
from tests.planning.multi_pattern.workloads import workloads
from tests.statistics.market import parse
from tests.thoroughness import examples

SECOND = 1_000_000


def members(text: str) -> tuple[Member, ...]:
    return members_of(parse(text))


def test_the_patents_two_patterns_share_what_their_orders_begin_with() -> None:
    """MCEP FIG. 5: SEQ(A, B, C) within 10 and SEQ(A, B, D) within 20 by three pairs of orders."""
    both = members(
        "NAME one PATTERN SEQ(A a, B b, C c) WITHIN 10 seconds; NAME two PATTERN SEQ(A x, B y, D z) WITHIN 20 seconds"
    )
    most = share(both, [("a", "b", "c"), ("x", "y", "z")], "prefix")
    assert [(node.window // SECOND, node.uses) for node in most] == [(20, 2), (20, 2), (10, 1), (20, 1)]
    assert most[1].sharers == {("one", 0): (("a", "b"),), ("two", 0): (("x", "y"),)}
    assert [node.members for node in most] == [[], [], [("one", 0)], [("two", 0)]]
    middle = share(both, [("b", "c", "a"), ("y", "x", "z")], "prefix")
    assert len(middle) == 5 and [node.size for node in middle.shared] == [1]
    least = share(both, [("c", "b", "a"), ("x", "z", "y")], "prefix")
    assert len(least) == 6 and least.shared == []


def test_a_pattern_within_another_ends_at_an_inner_node() -> None:
    """MCEP [0069]."""
    plan = share(
        members("NAME one PATTERN SEQ(A a, B b, C c) WITHIN 1 second; NAME two PATTERN SEQ(A x, B y) WITHIN 1 second"),
        [("a", "b", "c"), ("x", "y")],
        "prefix",
    )
    assert [node.members for node in plan] == [[], [("two", 0)], [("one", 0)]]
    assert plan.roots == {("one", 0): 2, ("two", 0): 1}


def test_the_patents_multitree_shares_two_subtrees_of_one_pattern() -> None:
    """MCEP FIG. 9: what orders cannot share."""
    three = members(
        """NAME p1 PATTERN SEQ(A a, B b, C c, D d) WITHIN 1 second; NAME p2 PATTERN SEQ(A a, E e, C c, F f)
        WITHIN 1 second; NAME p3 PATTERN SEQ(G g, B b, H h, D d) WITHIN 1 second"""
    )
    trees = [
        Join(Join("a", "c"), Join("b", "d")),
        Join(Join("a", "c"), Join("e", "f")),
        Join(Join("d", "b"), Join("g", "h")),
    ]
    plan = share(three, trees, "subexpression")
    assert {frozenset(next(iter(node.sharers.values()))[0]) for node in plan.shared if node.size > 1} == {
        frozenset("ac"),
        frozenset("bd"),
    }
    assert len(plan) == 8 + 4 + 3


def test_variables_that_are_alike_use_one_node_twice() -> None:
    (one,) = members("NAME twice PATTERN AND(SEQ(A a, B b), SEQ(A c, B d)) WITHIN 1 second")
    plan = share([one], [Join(Join("a", "b"), Join("d", "c"))], "subexpression")
    a, b, pair, root = plan
    assert (pair.left, pair.right) in [(a.index, b.index), (b.index, a.index)]
    assert root.left == root.right == pair.index
    assert (a.uses, b.uses, pair.uses, root.uses) == (2, 2, 2, 1)
    plan.remove(one.id)
    assert len(plan) == 0


def test_the_window_of_a_node_is_the_largest_of_those_left() -> None:
    three = members(";".join(f"NAME p{size} PATTERN SEQ(A a, B b) WITHIN {size} seconds" for size in (2, 3, 1)))
    plan = share(three, [("a", "b")] * 3, "prefix")
    seen = []
    for left in (("p3", 0), ("p1", 0)):
        plan.remove(left)
        seen.append([node.window // SECOND for node in plan])
    assert seen == [[2, 2], [2, 2]]
    plan.add(three[1], ("a", "b"))
    assert [node.window // SECOND for node in plan] == [3, 3]


def test_a_root_that_two_patterns_have_is_the_others_where_one_leaves() -> None:
    two = members("NAME one PATTERN AND(A a, B b) WITHIN 1 second; NAME two PATTERN AND(B p, A q) WITHIN 1 second")
    plan = share(two, [Join("a", "b"), Join("p", "q")], "subexpression")
    root = plan[plan.roots["one", 0]]
    assert root.members == [("one", 0), ("two", 0)]
    plan.remove(("one", 0))
    assert root.members == [("two", 0)] and plan.roots == {("two", 0): root.index}


def test_what_is_no_plan_of_a_member_is_refused_and_changes_nothing() -> None:
    (one,) = members("NAME one PATTERN SEQ(A a, B b) WITHIN 1 second")
    plan = share([one], [("a", "b")], "prefix")
    with pytest.raises(PlanError, match="has one already"):
        plan.add(one, ("a", "b"))
    with pytest.raises(PlanError, match="each positive variable once"):
        plan.replace(one.id, ("a", "a"))
    with pytest.raises(PlanError, match="no member"):
        plan.remove(("two", 0))
    with pytest.raises(PlanError, match="not trees"):
        plan.replace(one.id, Join("a", "b"))
    with pytest.raises(PlanError, match="no sharing 'all'"):
        SharedPlan("all")  # type: ignore[arg-type]
    assert [node.uses for node in plan] == [1, 1]


Described = dict[str, object]


def described(plan: SharedPlan) -> dict[str, Described]:
    """The nodes of a plan by their keys, without their numbers."""
    return {
        node.key: {
            "below": [plan[side].key for side in (node.left, node.right) if side is not None],
            "sharers": {name: sorted(uses) for name, uses in node.sharers.items()},
            "window": node.window,
            "members": sorted(node.members),
        }
        for node in plan
    }


def any_plan(member: Member, sharing: Sharing, random: Random) -> tuple[str, ...] | Join | str:
    tree = any_tree(member.names, random)
    return tuple(random.sample(member.names, len(member.names))) if sharing == "prefix" else tree


@settings(max_examples=examples(80))
@given(workloads(), st.sampled_from(SHARINGS), st.lists(st.integers(0, 4), max_size=10), st.randoms())
def test_members_that_come_and_go_leave_the_plan_that_the_others_make(
    workload: list[Member], sharing: Sharing, moves: list[int], random: Random
) -> None:
    plans = {member.id: any_plan(member, sharing, random) for member in workload}
    plan = share(workload, plans.values(), sharing)
    for move in moves:
        member = workload[move % len(workload)]
        if member.id not in plan.members:
            plan.add(member, plans[member.id])
        elif random.random() < 0.5:
            plan.remove(member.id)
        else:
            plans[member.id] = any_plan(member, sharing, random)
            plan.replace(member.id, plans[member.id])
    left = [member for member in workload if member.id in plan.members]
    assert described(plan) == described(share(left, [plans[member.id] for member in left], sharing))
    seen: set[int] = set()
    for node in plan:
        assert {side for side in (node.left, node.right) if side is not None} <= seen
        seen.add(node.index)
    for member in left:
        nodes = plan.nodes_of(member.id)
        assert nodes[-1].index == plan.roots[member.id] and member.id in nodes[-1].members
        assert len(nodes) == len(member.names) * (1 if sharing == "prefix" else 2) - (sharing != "prefix")
    if sharing == "none":
        assert plan.shared == []


@settings(max_examples=examples(60))
@given(workloads(), st.sampled_from(SHARINGS), st.randoms())
def test_slots_are_those_of_the_nodes_below(workload: list[Member], sharing: Sharing, random: Random) -> None:
    """Of each sharer: whichever of its uses, what is below it are uses of the same member."""
    plan = share(workload, [any_plan(member, sharing, random) for member in workload], sharing)
    for node in plan:
        for name, uses in node.sharers.items():
            for slots in uses:
                if node.left is None:
                    assert len(slots) == 1
                    continue
                cut = plan[node.left].size
                assert slots[:cut] in plan[node.left].sharers[name]
                if node.right is not None:
                    assert slots[cut:] in plan[node.right].sharers[name]
                else:
                    assert len(slots) == cut + 1


def test_members_of_the_same_patterns_are_the_same() -> None:
    """With the keys that were worked out of them; equal patterns that were read again have members of their own."""
    text = "NAME p PATTERN OR(A a, SEQ(B b, C c)) WITHIN 1 second; NAME q PATTERN AND(A x, B y) WITHIN 1 second"
    patterns, others = parse(text), parse(text)
    first = members_of(patterns)
    assert [id(one) for one in members_of(patterns)] == [id(one) for one in first]
    assert [one.pattern is pattern for one, pattern in zip(first, [patterns[0], patterns[0], patterns[1]], strict=True)]
    assert not {id(one) for one in members_of(others)} & {id(one) for one in first}
