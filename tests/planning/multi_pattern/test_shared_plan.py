"""Shared plans: what is merged, by whom nodes are used, and that members come and go without a trace."""

from __future__ import annotations

import pytest

from cep_pipeline.errors import PlanError
from cep_pipeline.planning.multi_pattern import Member, SharedPlan, members_of, share
from cep_pipeline.planning.trees import Join
from tests.statistics.market import parse

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
