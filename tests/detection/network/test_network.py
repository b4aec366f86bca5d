"""The network of a shared plan: which states an event can advance, whose window a node has, who leaves where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.conditions.groups import ClauseConditions, ConditionGroups
from cep_pipeline.detection.network import codes
from cep_pipeline.detection.network.network import Network
from cep_pipeline.errors import PlanError, UnsupportedPattern
from cep_pipeline.planning.clause_plans import Sharing
from cep_pipeline.planning.multi_pattern.members import members_of
from cep_pipeline.planning.multi_pattern.shared_plan import share
from cep_pipeline.planning.trees import Join, OrderOrTree
from cep_pipeline.slices.prepared import PreparedEvents

SCHEMA = cep.StreamSchema.from_dict(
    {"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64", "id": "int64"}}
)


def network_of(text: str, plans: Sequence[OrderOrTree], sharing: Sharing) -> Network:
    patterns = cep.parse_patterns(text, SCHEMA)
    members = members_of(patterns)
    groups = {member.id: ConditionGroups(ClauseConditions(member.pattern, member.clause)) for member in members}
    orders = [tuple(plan) if isinstance(plan, str) else plan for plan in plans]
    return Network(share(members, orders, sharing), groups)


def advanced(network: Network) -> dict[str, list[tuple[str, ...]]]:
    """For each event type what states an event of it leads to: the variables that they have bound."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for node in network.nodes:
        if node.events is not None:
            states = found.setdefault(node.events.event_type, [])
            states += [place[2] for place in node.places[:1]]
            states += [network.nodes[edge.parent].places[0][2] for edge in node.edges]
    return {name: sorted(set(states)) for name, states in sorted(found.items())}


def test_the_lists_of_the_patents_figure() -> None:
    """MCEP figure 5B and [0071]: orders B, C, A and B, A, D of two patterns with windows 10 and 20."""
    text = """NAME p1 PATTERN SEQ(A a, B b, C c) WITHIN 10 seconds;
              NAME p2 PATTERN SEQ(A a, B b, D d) WITHIN 20 seconds"""
    network = network_of(text, ["bca", "bad"], "prefix")
    assert advanced(network) == {
        "A": [("b", "a"), ("b", "c", "a")],
        "B": [("b",), ("b", "a"), ("b", "c")],
        "C": [("b", "c")],
        "D": [("b", "a", "d")],
    }
    windows = {node.places[0][2]: max(node.windows) // 1_000_000 for node in network.nodes if node.places}
    assert windows == {("b",): 20, ("b", "c"): 10, ("b", "c", "a"): 10, ("b", "a"): 20, ("b", "a", "d"): 20}
    roots = {name: node.places[0][2] for node in network.nodes for name, _ in node.members}
    assert roots == {("p1", 0): ("b", "c", "a"), ("p2", 0): ("b", "a", "d")}


def test_a_final_state_may_be_inside() -> None:
    """MCEP [0069]: SEQ(A, B) ends where SEQ(A, B, C) goes on."""
    text = "NAME p PATTERN SEQ(A a, B b, C c) WITHIN 9 seconds; NAME q PATTERN SEQ(A x, B y) WITHIN 5 seconds"
    [inside] = [
        node for node in network_of(text, ["abc", "xy"], "prefix").nodes if len(node.places) == 2 == len(node.slots)
    ]
    assert inside.members == [(("q", 0), ("x", "y"))]
    assert [edge.role for edge in inside.edges] == [codes.SIDE]
    assert max(inside.windows) == 9_000_000


def test_a_multitree_shares_two_subtrees_of_one_pattern() -> None:
    """MCEP figure 9: P1 shares A and C with P2, B and D with P3."""
    text = """NAME p1 PATTERN SEQ(A a, B b, C c, D d) WITHIN 9 seconds;
              NAME p2 PATTERN SEQ(A a, E e, C c, F f) WITHIN 9 seconds;
              NAME p3 PATTERN SEQ(G g, B b, H h, D d) WITHIN 9 seconds"""
    trees = [
        Join(Join("a", "c"), Join("b", "d")),
        Join(Join("a", "c"), Join("e", "f")),
        Join(Join("g", "h"), Join("d", "b")),
    ]
    joins = [node for node in network_of(text, trees, "subexpression").nodes if node.kind == codes.JOIN]
    shared = {node.places[0][2]: [place[0] for place in node.places] for node in joins if len(node.places) > 1}
    assert shared == {("a", "c"): ["p1", "p2"], ("b", "d"): ["p1", "p3"]}
    assert len(joins) == 7


def test_lists_of_a_tree_are_made_for_the_other_side_of_their_join() -> None:
    """All lists of a window are made for the pattern that is nothing else, and for one of two such sides."""
    text = """NAME p PATTERN SEQ(A a, B+ b[], C c) WITHIN 9 seconds; NAME q PATTERN SEQ(A x, B+ y[]) WITHIN 5 seconds;
              NAME r PATTERN AND(D+ d[], E+ e[]) WITHIN 5 seconds"""
    network = network_of(text, [Join("b", Join("c", "a")), Join("y", "x"), Join("d", "e")], "subexpression")
    lists = {node.places[0][2]: node for node in network.nodes if node.kind == codes.LISTS and node.places}
    assert {frozenset(names) for names in lists} == {
        frozenset("abc"),
        frozenset("xy"),
        frozenset("de"),
        frozenset(["d"]) if ("d",) in lists else frozenset(["e"]),
    }
    for node in lists.values():
        assert node.last.kleene and node.sides == len(node.slots) - 1
    [leaf] = [node for node in network.event_nodes if node.events is not None and node.events.event_type == "B"]
    assert [place[2] for place in leaf.places] == [("b",), ("y",)]
    assert {name: slots for node in network.nodes for name, slots in node.members}["p", 0][-1] == "b"


def test_two_variables_that_are_alike_are_one_node_joined_with_itself() -> None:
    network = network_of("PATTERN AND(A a, A b) WHERE a.x < b.x WITHIN 9 seconds", [Join("a", "b")], "subexpression")
    leaf, join = network.nodes
    assert [edge.sibling for edge in leaf.edges] == [leaf.number, leaf.number]
    assert [(edge.own, edge.other) for edge in leaf.edges] == [(0, 1), (1, 0)]
    assert join.stored is False and leaf.stored


def test_what_agrees_on_something_else_is_beside_it() -> None:
    text = """NAME p PATTERN SEQ(A a, B b) WHERE [id] WITHIN 9 seconds;
              NAME q PATTERN SEQ(A a, B b) WITHIN 9 seconds;
              NAME r PATTERN SEQ(A a, B b) WITHIN 9 EVENTS"""
    network = network_of(text, ["ab", "ab", "ab"], "prefix")
    assert all(len(node.places) <= 1 for node in network.nodes)
    assert len([node for node in network.nodes if node.events is not None]) == 6


@pytest.mark.parametrize("mechanism", ["multi_pattern_nfa", "multitree"])
def test_other_strategies_are_refused_by_name(mechanism: str) -> None:
    text = "NAME p PATTERN SEQ(A a, B b) WHERE skip_till_next_match { a.x < b.x } WITHIN 9 seconds"
    patterns: list[Any] = cep.parse_patterns("NAME q PATTERN A a WITHIN 1 second;" + text, SCHEMA)
    with pytest.raises(UnsupportedPattern, match=f"{mechanism}.*the strategy skip_till_next_match"):
        cep.detect(patterns, SCHEMA.table([]), mechanism=mechanism)


def test_plans_of_other_variables_are_refused() -> None:
    patterns = cep.parse_patterns("NAME q PATTERN SEQ(A a, B b) WITHIN 1 second", SCHEMA)
    events = PreparedEvents(SCHEMA.table([]), type_attribute="kind")
    for mechanism in ("multi_pattern_nfa", "multitree"):
        with pytest.raises(PlanError, match="binds a, b"):
            list(MECHANISMS[mechanism].find(patterns[0], [("a", "c")], events, (None, None), None))
