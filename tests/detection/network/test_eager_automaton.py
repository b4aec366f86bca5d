"""The automaton's states are the sets of bound variables that the clause's order allows."""

from __future__ import annotations

import pytest

import cep_pipeline as cep
from cep_pipeline.detection.network import eager
from cep_pipeline.detection.network.eager import EagerAutomaton, compile_automaton
from cep_pipeline.errors import UnsupportedPattern
from tests.streams import stream_schema


def automaton_of(structure: str) -> EagerAutomaton:
    [pattern] = cep.parse_patterns(f"PATTERN {structure} WITHIN 1 hour", stream_schema())
    return compile_automaton(pattern, pattern.clauses[0])


def states_of(structure: str) -> list[str]:
    return ["".join(sorted(state)) for state in automaton_of(structure).states]


def edges_of(structure: str) -> list[str]:
    compiled = automaton_of(structure)
    names = ["".join(sorted(state)) for state in compiled.states]
    return [f"{names[edge.source]}-{edge.variable}->{names[edge.target]}" for edge in compiled.edges]


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
    assert edges_of("SEQ(A a, B+ b[], C c)") == ["-a->a", "a-b->ab", "ab-b->ab", "ab-c->abc"]
    compiled = automaton_of("SEQ(A a, B+ b[], C c)")
    growing, complete = compiled.edges[2].after, compiled.edges[3].after
    assert growing.complete == {"a"}
    assert complete.complete == {"a", "b", "c"}


def test_a_list_that_nothing_follows_grows_in_the_final_state() -> None:
    compiled = automaton_of("AND(A+ a[], B b)")
    final = len(compiled.states) - 1
    assert compiled.is_final(final)
    assert compiled.goes_on(final)
    assert not automaton_of("SEQ(A a, B b)").goes_on(2)


def test_only_the_nearest_variables_before_are_looked_at() -> None:
    compiled = automaton_of("SEQ(A a, AND(B b, C c), X x)".replace("X x", '"X.1" x'))
    assert {edge.variable: set(edge.directly_before) for edge in compiled.edges} == {
        "a": set(),
        "b": {"a"},
        "c": {"a"},
        "x": {"b", "c"},
    }


def test_too_many_states_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager, "MOST_STATES", 7)
    assert len(automaton_of("SEQ(A a, AND(B b, C c))").states) == 5
    with pytest.raises(UnsupportedPattern, match="eager_nfa") as refusal:
        automaton_of("AND(A a, B b, C c)")
    assert refusal.value.feature == "an automaton of more than 7 states"
