"""The multi-pattern graph: the patent's examples, and members that come and go."""

from __future__ import annotations

import pytest

from cep_pipeline.errors import PlanError
from cep_pipeline.planning.multi_pattern import Member, PatternGraph, Subpattern, members_of, subpattern_of
from tests.statistics.market import parse


def members(text: str) -> tuple[Member, ...]:
    return members_of(parse(text))


def named(subpatterns: tuple[Subpattern, ...], member: Member) -> set[str]:
    """Sub-patterns by the names of a member's variables."""
    return {"".join(sorted(part.embeddings(member)[0])) for part in subpatterns}


def test_the_maximal_common_subpattern_of_the_patents_two_patterns() -> None:
    """MCEP [0095]."""
    one, two = members(
        "NAME p1 PATTERN SEQ(A a, B b, C c, D d) WITHIN 10 seconds; "
        "NAME p2 PATTERN SEQ(A a, E e, C c, D d) WITHIN 20 seconds"
    )
    graph = PatternGraph([one, two])
    assert named(graph.maximal_common(one.id, two.id), one) == {"acd"}
    assert graph.members_with(subpattern_of(one, "ad")) == (one.id, two.id)
    assert not subpattern_of(one, "ab").is_in(two)


def test_several_maximal_common_subpatterns_are_kept() -> None:
    """MCEP [0162]: SEQ(A, B) and SEQ(A, C) of SEQ(A, B, C) and SEQ(A, C, B)."""
    one, two = members("PATTERN SEQ(A a, B b, C c) WITHIN 1 second; PATTERN SEQ(A a, C c, B b) WITHIN 1 second")
    graph = PatternGraph([one, two])
    assert named(graph.maximal_common(one.id, two.id), one) == {"ab", "ac"}


def test_a_triplet_shares_one_entry_of_the_table() -> None:
    """MCEP FIG. 7: P1, P2 and P3 have one maximal common sub-pattern; P3 and P4 have two."""
    p1, p2, p3, p4 = members(
        """NAME p1 PATTERN SEQ(A a, B b, C c) WITHIN 1 second; NAME p2 PATTERN SEQ(A a, C c, D d) WITHIN 1 second;
        NAME p3 PATTERN SEQ(A a, AND(E e, SEQ(F f, G g)), C c) WITHIN 1 second;
        NAME p4 PATTERN SEQ(G x, E y, F z) WITHIN 1 second"""
    )
    graph = PatternGraph([p1, p2, p3, p4])
    tables = {named((part,), graph.members[ids[0]]).pop(): ids for part, ids in graph.common}
    assert tables["ac"] == (p1.id, p2.id, p3.id)
    assert named(graph.maximal_common(p3.id, p4.id), p3) == {"e", "f", "g"}
    assert graph.neighbours(p4.id) == (p3.id,) and graph.edges() == 4 and graph.edges(2) == 3
    assert graph.components() == [(p1.id, p2.id, p3.id, p4.id)]
    assert graph.components(min_size=2) == [(p1.id, p2.id, p3.id), (p4.id,)]
    assert graph.density(2) == 0.5


def test_members_come_and_go() -> None:
    one, two = members("NAME p1 PATTERN SEQ(A a, B b) WITHIN 1 second; NAME p2 PATTERN SEQ(A a, B b) WITHIN 1 second")
    graph = PatternGraph([one, two])
    with pytest.raises(PlanError, match="has p1 already"):
        graph.add(one)
    graph.remove(two.id)
    assert list(graph.common) == [] and graph.neighbours(one.id) == () and graph.density() == 0
    with pytest.raises(PlanError, match=r"no member \('p2', 0\)"):
        graph.neighbours(two.id)
    graph.add(two)
    assert [ids for _, ids in graph.common] == [(one.id, two.id)]
