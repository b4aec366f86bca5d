"""The lazy tree's states: where the next event lies, what a choice knows, and which states there are."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.conditions.groups import ClauseConditions, ConditionGroups
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters
from cep_pipeline.detection.network import codes as c
from cep_pipeline.detection.network import network, run
from cep_pipeline.detection.network.network import Choices, Network, parts_of
from cep_pipeline.planning.multi_pattern.members import Member, members_of
from cep_pipeline.planning.multi_pattern.shared_plan import share
from cep_pipeline.slices.prepared import PreparedEvents
from tests.streams import stream_schema


def member_of(structure: str, where: str = "", rest: str = "") -> Member:
    text = f"PATTERN {structure} {where and 'WHERE ' + where} WITHIN 1 hour {rest}"
    [member] = members_of(cep.parse_patterns(text, stream_schema()))
    return member


def parts_of_search(member: Member, bound: str, other: str) -> list[list[int]]:
    """What a search of a variable's events looks at: the variables before and behind, and the pairs told apart."""
    words, parts = parts_of(member).ascent(tuple(bound), (other,), other)[1:], []
    for width in (1, 1, 2, 2):
        parts.append(words[1 : 1 + width * words[0]])
        words = words[1 + width * words[0] :]
    return parts


def scopes_of(member: Member, order: str) -> list[tuple[str, str]]:
    """What each variable of an order comes after, and before, of those that are bound before it."""
    letters, found = sorted(order), []
    for place, name in enumerate(order):
        after, ahead, *_ = parts_of_search(member, order[:place], name)
        found.append(tuple("".join(sorted(letters[slot] for slot in slots)) for slots in (after, ahead)))
    return [(after, ahead) for after, ahead in found]


@pytest.mark.parametrize(
    ("order", "scopes"),
    [
        # The examples of DEBS'15 section 4 (figure 4), where "" is "start" on the left side and "finish" on the right.
        ("abc", [("", ""), ("a", ""), ("ab", "")]),
        ("cab", [("", ""), ("", "c"), ("a", "c")]),
        ("bca", [("", ""), ("b", ""), ("", "bc")]),
    ],
)
def test_scoping_parameters_of_a_sequence(order: str, scopes: Sequence[tuple[str, str]]) -> None:
    assert scopes_of(member_of("SEQ(A a, B b, C c)"), order) == scopes


def test_scoping_parameters_of_a_partial_order() -> None:
    member = member_of("SEQ(AND(A a, B b), C c, B d)")
    assert scopes_of(member, "dabc") == [("", ""), ("", "d"), ("", "d"), ("ab", "d")]


def test_events_are_told_apart_where_the_order_does_not() -> None:
    def distinct(structure: str, rest: str = "") -> list[int]:
        return parts_of_search(member_of(structure, rest=rest), "a", "b")[3]

    assert distinct("SEQ(A a, A b)") == []
    assert distinct("SEQ(A a, A b)", "TIES ANY") == [0, 1]
    assert distinct("AND(A a, A b)") == [0, 1]
    assert distinct("AND(A a, Ev b)") == [0, 1]
    assert distinct("AND(A a, B b)") == []


def test_the_same_conjuncts_share_their_counts_in_every_order() -> None:
    choices = Choices(member_of("AND(A a, B b, C c)", "a.x < b.x AND b.x < c.x").clause)
    assert choices.share((0,), 1) == choices.share((1,), 0) == choices.pairs[1] > 0
    assert choices.share((1,), 2) == choices.pairs[2 * 3 + 1] not in (0, choices.share((0,), 1))
    assert choices.share((0,), 2) == choices.share((), 0) == 0
    assert choices.share((0, 2), 1) not in (0, choices.share((0,), 1), choices.share((1,), 2))


def test_a_choice_knows_what_is_joined_next() -> None:
    choices = Choices(member_of("AND(A a, B b, C c, A d)", "a.x < b.x AND b.x < c.x AND b.x + c.x < d.x").clause)
    words = choices.after((0,))
    assert words[c.H_NODE :: c.CHOICE_WORDS] == [c.BOUND, c.UNMADE, c.UNMADE, c.UNMADE]
    assert words[c.H_LINKED :: c.CHOICE_WORDS][1:] == [0b100, 0b10, 0b10]


def tree_of(member: Member) -> Network:
    groups = {member.id: ConditionGroups(ClauseConditions(member.pattern, member.clause))}
    names = tuple(variable.name for variable in member.clause.positive)
    return Network(share([member], [names], "none"), groups, automaton="lazy")


def test_a_tree_makes_states_when_they_are_asked_for() -> None:
    network = tree_of(member_of("SEQ(A a, B b, C c)"))
    assert [node.places[0][2] for node in network.nodes if node.places] == [("a",), ("b",), ("c",)]
    [last] = [node for node in network.nodes if node.places and node.slots == ("c",)]
    for _ in range(2):  # the second time it is there
        network.wait_for(last, 0)
        waiting, after = network.nodes[-2:]
        assert (waiting.kind, waiting.slots, after.slots) == (c.WAITING, ("c",), ("c", "a"))
        assert last.choices[c.H_NODE :: c.CHOICE_WORDS] == [waiting.number, c.UNMADE, c.BOUND]
    assert not waiting.stored  # no a to come lies before a c that has come
    assert len(network.nodes) == 9  # what is complete, three events, three first states, and these two
    [a] = [node for node in network.nodes if node.places and node.slots == ("a",)]
    network.wait_for(a, 2)
    assert network.nodes[-2].stored and network.nodes[-1].open is False
    network.wait_for(network.nodes[-1], 1)
    assert network.nodes[-1].slots == ("a", "c", "b") and network.nodes[-1].final == 0


def test_a_run_goes_on_while_another_one_adds_states_to_the_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks are kept, and runs of one thread may take turns: each has memory for the states that it reached."""
    monkeypatch.setattr(run, "MOST_FOUND", 1)
    [pattern] = cep.parse_patterns(
        "PATTERN AND(A a, B b, C c, D d) WHERE a.x < b.x AND c.x < d.x WITHIN 40 us", stream_schema()
    )
    find, order = MECHANISMS["lazy_tree_nfa"].find, [tuple("abcd")]

    def stream(seed: int) -> PreparedEvents:
        draw = random.Random(seed)
        weights = [draw.random() ** 3 + 0.01 for _ in "ABCD"]
        drawn = [{"timestamp": t, "kind": draw.choices("ABCD", weights)[0], "x": draw.randrange(9)} for t in range(800)]
        return PreparedEvents(stream_schema().table(drawn), type_attribute="kind", base_type="Ev")

    def number_of(events: PreparedEvents, *, disturbed: bool) -> tuple[int, int]:
        network._made.cache_clear()
        counters, found, others = Counters(), 0, iter(range(1_000, 1_001))
        for block in find(pattern, order, events, EVERYTHING, counters):
            found += len(block)
            for seed in others if disturbed else ():
                sum(map(len, find(pattern, order, stream(seed), EVERYTHING, Counters())))
        return found, sum(node.passes for node in counters.nodes.values())

    for seed in range(6):
        events = stream(seed)
        assert number_of(events, disturbed=True) == number_of(events, disturbed=False)
