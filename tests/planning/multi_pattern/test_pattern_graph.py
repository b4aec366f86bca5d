"""The multi-pattern graph: the patent's examples, and workloads against all subsets and all mappings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.planning.multi_pattern.members import Member, MemberId, common_subpatterns, components, members_of
from cep_pipeline.planning.multi_pattern.plan_workload import components_of_patterns
from tests.planning.multi_pattern import literal
from tests.planning.multi_pattern.workloads import workloads
from tests.statistics.market import parse
from tests.thoroughness import examples


def members(text: str) -> tuple[Member, ...]:
    return members_of(parse(text))


def maximal_common(workload: Sequence[Member]) -> set[str]:
    """The sub-patterns that are no part of another one, by the names of the first member that has each."""
    common = [
        (frozenset(workload[uses[0].member].subsets.names(uses[0].inside)), frozenset(use.member for use in uses))
        for uses in common_subpatterns(workload, 1)
    ]
    return {
        "".join(sorted(names)) for names, of in common if not any(names < other and of == by for other, by in common)
    }


def connected(workload: Sequence[Member], size: int) -> list[tuple[MemberId, ...]]:
    return components([member.id for member in workload], [(member.id, member) for member in workload], size)


def test_the_maximal_common_subpattern_of_the_patents_two_patterns() -> None:
    """MCEP [0095]."""
    workload = members(
        "NAME p1 PATTERN SEQ(A a, B b, C c, D d) WITHIN 10 seconds; "
        "NAME p2 PATTERN SEQ(A a, E e, C c, D d) WITHIN 20 seconds"
    )
    assert maximal_common(workload) == {"acd"}


def test_several_maximal_common_subpatterns_are_kept() -> None:
    """MCEP [0162]: SEQ(A, B) and SEQ(A, C) of SEQ(A, B, C) and SEQ(A, C, B)."""
    workload = members("PATTERN SEQ(A a, B b, C c) WITHIN 1 second; PATTERN SEQ(A a, C c, B b) WITHIN 1 second")
    assert maximal_common(workload) == {"ab", "ac"}


def test_three_patterns_share_one_subpattern() -> None:
    """MCEP FIG. 7: P1, P2 and P3 have one maximal common sub-pattern; P3 and P4 have two."""
    p1, p2, p3, p4 = workload = members(
        """NAME p1 PATTERN SEQ(A a, B b, C c) WITHIN 1 second; NAME p2 PATTERN SEQ(A a, C c, D d) WITHIN 1 second;
        NAME p3 PATTERN SEQ(A a, AND(E e, SEQ(F f, G g)), C c) WITHIN 1 second;
        NAME p4 PATTERN SEQ(G x, E y, F z) WITHIN 1 second"""
    )
    [a_and_c] = common_subpatterns(workload, 2)
    assert {use.member for use in a_and_c} == {0, 1, 2} and maximal_common([p1, p2, p3]) == {"ac"}
    assert maximal_common([p3, p4]) == {"e", "f", "g"}
    assert connected(workload, 1) == [(p1.id, p2.id, p3.id, p4.id)]
    assert connected(workload, 2) == [(p1.id, p2.id, p3.id), (p4.id,)]


def test_a_conjunct_over_three_variables_leaves_their_pairs_in_common() -> None:
    workload = members(
        "NAME p1 PATTERN SEQ(A a, B b, C c, D d) WHERE a.price + b.price < c.price AND c.diff < d.diff WITHIN 1 second;"
        "NAME p2 PATTERN SEQ(A a, B b, C c, D d) WHERE c.diff < d.diff WITHIN 1 second"
    )
    assert maximal_common(workload) == {"abd", "acd", "bcd"}


# -- against all subsets and all mappings ------------------------------------------------------------------------------


@settings(max_examples=examples(120))
@given(workloads(), st.integers(1, 2))
def test_the_common_subpatterns_are_those_of_all_subsets_and_all_mappings(workload: list[Member], size: int) -> None:
    wanted = {
        (place, names)
        for place, member in enumerate(workload)
        for other in workload
        if other is not member
        for names in literal.common_subpatterns(member, other)
        if len(names) >= size
    }
    found = common_subpatterns(workload, size)
    uses = [
        [(member, tuple(workload[member].names[place] for place in slots)) for member, _, slots in common]
        for common in found
    ]
    of_all = [(member, frozenset(slots)) for common in uses for member, slots in common]
    assert set(of_all) <= wanted and len(of_all) == len(set(of_all))
    for place, names in wanted:  # of variables that are alike, others may stand for them
        assert any(
            place == member and literal.same(workload[place], tuple(names), workload[place], tuple(other))
            for member, other in of_all
        )
    for common in uses:
        (first, slots), *others = common
        assert len({member for member, _ in common}) > 1
        content = literal.content(workload[first], slots)
        assert all(literal.content(workload[member], own) == content for member, own in others)
    for (one, *_), (other, *_) in combinations(uses, 2):
        assert not literal.same(workload[one[0]], one[1], workload[other[0]], other[1])


@settings(max_examples=examples(80))
@given(workloads(max_size=8))
def test_patterns_are_connected_as_their_members_are(workload: list[Member]) -> None:
    patterns = [member.pattern for member in workload]
    prefix, subexpression = (components_of_patterns(patterns, one) for one in ("prefix", "subexpression"))
    assert prefix == [tuple(name for name, _ in component) for component in connected(workload, 1)]
    assert subexpression == [tuple(name for name, _ in component) for component in connected(workload, 2)]


@settings(max_examples=examples(80))
@given(workloads())
def test_components_have_nothing_in_common(workload: list[Member]) -> None:
    for size in (1, 2):
        found = connected(workload, size)
        place = {member: number for number, component in enumerate(found) for member in component}
        assert sorted(place) == sorted(member.id for member in workload)
        for one, other in combinations(workload, 2):
            joined = any(len(names) >= size for names in literal.common_subpatterns(one, other))
            assert not joined or place[one.id] == place[other.id]
        for component in found:  # each member but the first has something in common with one of the others
            parts = [m for m in workload if m.id in component]
            for one in parts:
                shares = any(len(n) >= size for m in parts if m is not one for n in literal.common_subpatterns(one, m))
                assert shares or len(parts) == 1
