"""The automaton's states are the sets of bound variables that the clause's order allows."""

from __future__ import annotations

import pytest

import cep_pipeline as cep
from cep_pipeline.detection.conditions.groups import ClauseConditions, ConditionGroups
from cep_pipeline.detection.network import codes as c
from cep_pipeline.detection.network import network
from cep_pipeline.detection.network.network import Edge, Network, Node
from cep_pipeline.errors import UnsupportedPattern
from cep_pipeline.planning.multi_pattern.members import members_of
from cep_pipeline.planning.multi_pattern.shared_plan import share
from tests.streams import stream_schema


def automaton_of(structure: str) -> Network:
    [member] = members_of(cep.parse_patterns(f"PATTERN {structure} WITHIN 1 hour", stream_schema()))
    groups = {member.id: ConditionGroups(ClauseConditions(member.pattern, member.clause))}
    names = tuple(variable.name for variable in member.clause.positive)
    return Network(share([member], [names], "none"), groups, automaton="eager")


def nodes_of(automaton: Network) -> list[Node]:
    return [node for node in automaton.nodes if node.kind == c.STATE]


def states_of(structure: str) -> list[str]:
    return ["", *("".join(node.slots) for node in nodes_of(automaton_of(structure)))]


def take_edges(automaton: Network) -> dict[str, Edge]:
    found = {}
    for edge in (edge for node in automaton.event_nodes for edge in node.edges):
        source = automaton.nodes[edge.sibling].slots if edge.role == c.SIDE else ()
        target = automaton.nodes[edge.parent].slots
        found[f"{''.join(source)}-{target[edge.own]}->{''.join(target)}"] = edge
    return found


def edges_of(structure: str) -> list[str]:
    return list(take_edges(automaton_of(structure)))


def test_a_sequence_is_the_chain_of_the_paper() -> None:
    assert states_of("SEQ(A a, B b, C c)") == ["", "a", "ab", "abc"]
    assert edges_of("SEQ(A a, B b, C c)") == ["-a->a", "a-b->ab", "ab-c->abc"]


def test_negated_variables_are_no_states() -> None:
    assert states_of("SEQ(A a, ~B b, C c)") == ["", "a", "ac"]


def test_a_conjunction_has_all_sets() -> None:
    assert states_of("AND(A a, B b, C c)") == ["", "a", "b", "c", "ab", "ac", "bc", "abc"]


def test_a_partial_order_has_the_sets_that_it_allows() -> None:
    assert states_of("SEQ(AND(A a, B b), C c)") == ["", "a", "b", "ab", "abc"]
    assert states_of("AND(SEQ(A a, B b), C c)") == ["", "a", "c", "ab", "ac", "abc"]


def test_a_list_grows_until_what_follows_it_is_bound() -> None:
    edges = take_edges(automaton_of("SEQ(A a, B+ b[], C c)"))
    assert list(edges) == ["-a->a", "a-b->ab", "ab-b->ab", "ab-c->abc"]
    assert [edge.bound for edge in edges.values()] == [None, ("a",), ("a", "b"), None]


def test_a_list_that_nothing_follows_grows_in_the_final_state() -> None:
    assert nodes_of(automaton_of("AND(A+ a[], B b)"))[-1].stored
    assert not nodes_of(automaton_of("SEQ(A a, B b)"))[-1].stored


def test_too_many_states_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "MOST_STATES", 7)
    assert len(states_of("SEQ(A a, AND(B b, C c))")) == 5
    with pytest.raises(UnsupportedPattern, match="eager_nfa") as refusal:
        automaton_of("AND(A a, B b, C c)")
    assert refusal.value.feature == "an automaton of more than 7 states"
