"""The multi-pattern graph: the patent's examples, and members that come and go."""

from __future__ import annotations

from itertools import combinations, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.errors import PlanError
from cep_pipeline.planning.multi_pattern import (
    Member,
    MemberId,
    PatternGraph,
    Subpattern,
    maximal_common,
    members_of,
    subpattern_of,
)
from cep_pipeline.planning.multi_pattern.component_plans import components_of_patterns
from cep_pipeline.planning.multi_pattern.pattern_graph import _maximal_cliques
from tests.planning.multi_pattern.literal import common_subpatterns, content, maximal
from tests.planning.multi_pattern.workloads import workloads
from tests.statistics.market import parse
from tests.thoroughness import examples


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


def test_a_subpattern_stays_only_while_two_members_have_no_larger_one() -> None:
    three = members(
        "NAME p1 PATTERN SEQ(A a, B b, C c) WITHIN 1 second; NAME p2 PATTERN SEQ(A a, B b, C c) WITHIN 1 second; "
        "NAME p3 PATTERN SEQ(A a, B b) WITHIN 1 second"
    )
    graph = PatternGraph(three)
    assert sorted(part.size for part, _ in graph.common) == [2, 3]
    graph.remove(("p3", 0))
    assert [part.size for part, _ in graph.common] == [3]


def test_a_conjunct_over_three_variables_leaves_their_pairs_in_common() -> None:
    one, two = members(
        "NAME p1 PATTERN SEQ(A a, B b, C c, D d) WHERE a.price + b.price < c.price AND c.diff < d.diff WITHIN 1 second;"
        "NAME p2 PATTERN SEQ(A a, B b, C c, D d) WHERE c.diff < d.diff WITHIN 1 second"
    )
    assert named(maximal_common(one, two), one) == {"abd", "acd", "bcd"}


@given(st.integers(0, 8), st.data())
def test_maximal_cliques_are_those_of_all_sets_of_vertices(size: int, data: st.DataObject) -> None:
    edges = data.draw(st.sets(st.sampled_from([*combinations(range(size), 2)]))) if size > 1 else set()
    near = tuple(sum(1 << w for w in range(size) if (min(v, w), max(v, w)) in edges) for v in range(size))
    cliques = {
        chosen
        for chosen in range(1 << size)
        if all(chosen & ~(near[v] | 1 << v) == 0 for v in range(size) if chosen >> v & 1)
    }
    wanted = {one for one in cliques if not any(one != other and one & other == one for other in cliques)}
    assert sorted(_maximal_cliques(near)) == sorted(wanted)


# -- against all subsets and all mappings ------------------------------------------------------------------------------


@settings(max_examples=examples(120))
@given(workloads())
def test_the_graph_has_what_all_subsets_and_all_mappings_have(workload: list[Member]) -> None:
    graph = PatternGraph(workload)
    adjacent: dict[MemberId, set[MemberId]] = {member.id: set() for member in workload}
    for one, other in permutations(workload, 2):
        common = common_subpatterns(one, other)
        wanted = {subpattern_of(one, names).key for names in maximal(one, common)}
        assert {part.key for part in graph.maximal_common(one.id, other.id)} == wanted
        assert {part.key for part in maximal_common(one, other)} == wanted
        if common:
            adjacent[one.id].add(other.id)
        for names in common:
            part = subpattern_of(one, names)
            slots = part.embeddings(one)[0]
            found = part.embeddings(other)
            assert found and all(content(one, slots) == content(other, others) for others in found)
    for member in workload:
        assert set(graph.neighbours(member.id)) == adjacent[member.id]
        for size in range(1, len(member.names) + 1):
            for names in combinations(member.names, size):
                part = subpattern_of(member, names)
                having = [m.id for m in workload if part.is_in(m)]
                assert list(graph.members_with(part)) == having
                assert having == [
                    m.id for m in workload if m is member or frozenset(names) in common_subpatterns(member, m)
                ]
    assert graph.edges() == sum(map(len, adjacent.values())) // 2


@settings(max_examples=examples(80))
@given(workloads(max_size=7), st.lists(st.integers(0, 6), max_size=12))
def test_members_that_come_and_go_leave_the_graph_that_the_others_make(
    workload: list[Member], moves: list[int]
) -> None:
    graph = PatternGraph(workload)
    for move in moves:
        member = workload[move % len(workload)]
        if member.id in graph.members:
            graph.remove(member.id)
        else:
            graph.add(member)
    left = [member for member in workload if member.id in graph.members]
    anew = PatternGraph(left)
    assert tables(graph) == tables(anew)
    for member in left:
        assert {part.key for part in graph.common_of(member.id)} == {part.key for part in anew.common_of(member.id)}
    for size in (1, 2):
        assert set(map(frozenset, graph.components(size))) == set(map(frozenset, anew.components(size)))
        assert graph.edges(size) == anew.edges(size)


def tables(graph: PatternGraph) -> dict[str, set[MemberId]]:
    return {part.key: set(members) for part, members in graph.common}


@settings(max_examples=examples(80))
@given(workloads(max_size=8))
def test_single_variables_and_pairs_connect_the_patterns_that_the_graph_connects(workload: list[Member]) -> None:
    patterns, graph = [member.pattern for member in workload], PatternGraph(workload)
    prefix, subexpression = (components_of_patterns(patterns, one) for one in ("prefix", "subexpression"))
    assert prefix == [tuple(name for name, _ in component) for component in graph.components(1)]
    assert subexpression == [tuple(name for name, _ in component) for component in graph.components(2)]


@settings(max_examples=examples(80))
@given(workloads())
def test_components_have_nothing_in_common(workload: list[Member]) -> None:
    for size in (1, 2):
        components = PatternGraph(workload).components(size)
        place = {member: number for number, component in enumerate(components) for member in component}
        assert sorted(place) == sorted(member.id for member in workload)
        for one, other in combinations(workload, 2):
            joined = any(len(names) >= size for names in common_subpatterns(one, other))
            assert not joined or place[one.id] == place[other.id]
        for component in components:  # each member but the first has something in common with one of the others
            parts = [m for m in workload if m.id in component]
            for one in parts:
                shares = any(len(n) >= size for m in parts if m is not one for n in common_subpatterns(one, m))
                assert shares or len(parts) == 1
