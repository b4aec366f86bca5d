"""States of lazy automata: between which bound events the next one lies, and which states there are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import cep_pipeline as cep
from cep_pipeline.detection.instances.program import Program, StreamRules
from cep_pipeline.detection.lazy_tree import codes as c
from cep_pipeline.detection.lazy_tree.run import States
from cep_pipeline.slices.prepared import PreparedEvents
from tests.streams import events_table, stream_schema


def states_of(structure: str, where: str = "", rest: str = "") -> States:
    text = f"PATTERN {structure} {where and 'WHERE ' + where} WITHIN 1 hour {rest}"
    [pattern] = cep.parse_patterns(text, stream_schema())
    events = PreparedEvents(events_table([]), type_attribute="kind", base_type="Ev")
    program = Program(pattern, pattern.clauses[0], events)
    return States(program, StreamRules(pattern, pattern.clauses[0], events, program))


def path_through(states: States, order: str) -> list[int]:
    """The states that bind the variables of one letter in an order, made where they are missing."""
    letters = "".join(sorted(order))
    path = [int(states.children[0, letters.index(order[0])])]
    for name in order[1:]:
        path.append(states.add(path[-1], letters.index(name)))
    assert states.path(path[-1]) == tuple(order)
    return path


def scopes_of(states: States, order: str) -> list[tuple[str, str]]:
    """What each variable of an order comes directly after, and directly before, of those that are bound before it."""
    found = []
    letters = sorted(order)
    for state in path_through(states, order):
        words = states.scopes[state].tolist()
        after, ahead = words[1 : 1 + words[0]], words[2 + words[0] : 2 + words[0] + words[1 + words[0]]]
        found.append(("".join(letters[slot] for slot in after), "".join(letters[slot] for slot in ahead)))
    return found


@pytest.mark.parametrize(
    ("order", "scopes"),
    [
        # The examples of DEBS'15 section 4 (figure 4), where "" is "start" on the left side and "finish" on the right.
        ("abc", [("", ""), ("a", ""), ("b", "")]),
        ("cab", [("", ""), ("", "c"), ("a", "c")]),
        ("bca", [("", ""), ("b", ""), ("", "b")]),
    ],
)
def test_scoping_parameters_of_a_sequence(order: str, scopes: Sequence[tuple[str, str]]) -> None:
    assert scopes_of(states_of("SEQ(A a, B b, C c)"), order) == scopes


def test_scoping_parameters_of_a_partial_order() -> None:
    states = states_of("SEQ(AND(A a, B b), C c, B d)")
    assert scopes_of(states, "dabc") == [("", ""), ("", "d"), ("", "d"), ("ab", "d")]


def test_a_tree_makes_states_when_they_are_asked_for() -> None:
    states = states_of("SEQ(A a, B b, C c)")
    assert [states.path(state) for state in range(len(states))] == [(), ("a",), ("b",), ("c",)]
    states.add_children(3)
    assert [states.path(state) for state in range(4, len(states))] == [("c", "a"), ("c", "b")]
    assert states.children[3].tolist() == [4, 5, -1]
    assert states.children[1].tolist() == [-1, -1, -1]


def test_states_beyond_the_first_room_keep_what_is_known_of_the_others() -> None:
    states = states_of("AND(A a, B b, C c, A d, B e)")
    states.counts[3, c.C_TRIED] = 7
    for state in range(1, 20):
        states.add_children(state)
    assert len(states) == 1 + 5 + 5 * 4 + 14 * 3
    assert states.counts[3, c.C_TRIED] == 7
    assert len({states.path(state) for state in range(len(states))}) == len(states)


def test_the_same_conjuncts_share_their_counts_in_every_order() -> None:
    states = states_of("AND(A a, B b, C c)", "a.x < b.x AND b.x < c.x")
    states.add_children(1)
    states.add_children(2)
    share = {states.path(state): int(states.words[state, c.S_SHARE]) for state in range(1, len(states))}
    assert share["a", "b"] == share["b", "a"] == states.pairs[0, 1] > 0
    assert share["b", "c"] == states.pairs[2, 1] not in (0, share["a", "b"])
    assert share["a", "c"] == share["a",] == 0


def test_events_are_told_apart_where_the_order_does_not() -> None:
    def distinct(structure: str, rest: str = "") -> int:
        states = states_of(structure, rest=rest)
        return int(states.words[path_through(states, "ab")[-1], c.S_DISTINCT])

    assert distinct("SEQ(A a, A b)") == 0
    assert distinct("SEQ(A a, A b)", "TIES ANY") == 1
    assert distinct("AND(A a, A b)") == 1
    assert distinct("AND(A a, Ev b)") == 1
    assert distinct("AND(A a, B b)") == 0
