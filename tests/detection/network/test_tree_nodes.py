"""The nodes of an evaluation tree: where it tests what, and what it need not store."""

from __future__ import annotations

import pytest

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters
from cep_pipeline.detection.network import codes
from cep_pipeline.detection.network.network import Edge, Network, Node, network_of
from cep_pipeline.errors import PlanError
from cep_pipeline.planning import Join
from cep_pipeline.planning.multi_pattern.members import members_of
from cep_pipeline.planning.trees import Tree, leaves_of, nodes_of
from cep_pipeline.slices.prepared import PreparedEvents
from tests.streams import events_table, stream_schema

BUSHY = Join(Join("a", "c"), Join("b", "d"))
LEFT_DEEP = Join(Join(Join("a", "b"), "c"), "d")
NO_EVENTS = PreparedEvents(events_table([]), type_attribute="kind", base_type="Ev")


def network(text: str, tree: Tree) -> Network:
    patterns = cep.parse_patterns(f"PATTERN {text}", stream_schema())
    return network_of(members_of(patterns), [tree], "none", NO_EVENTS)


def tree_of(structure: str, tree: Tree, rest: str = "WITHIN 10 seconds") -> dict[str, Node]:
    """The nodes of a tree, as the plan writes them, the leaves of each join before it."""
    made = network(f"{structure} {rest}", tree)
    return {_written(tree, set(node.places[0][2])): node for node in made.nodes if node.places}


def _written(tree: Tree, names: set[str]) -> str:
    return next(str(node) for node in nodes_of(tree) if {*leaves_of(node)} == names)


def test_every_join_has_two_sides() -> None:
    nodes = tree_of("SEQ(A a, B b, C c, D d)", BUSHY)
    assert {*nodes} == {"a", "b", "c", "d", "(a, c)", "(b, d)", "((a, c), (b, d))"}
    assert {name for name, node in nodes.items() if node.kind == codes.EVENTS} == {*"abcd"}
    numbers = {node.number: name for name, node in nodes.items()}
    siblings = {name: [numbers[edge.sibling] for edge in node.edges] for name, node in nodes.items()}
    assert siblings == {
        "a": ["c"],
        "c": ["a"],
        "b": ["d"],
        "d": ["b"],
        "(a, c)": ["(b, d)"],
        "(b, d)": ["(a, c)"],
        "((a, c), (b, d))": [],
    }


def test_leaves_that_read_the_same_are_one_node() -> None:
    made = network("SEQ(A a, A b, B c, B d) WITHIN 10 seconds", BUSHY)
    leaves = [{place[2][0] for place in node.places} for node in made.event_nodes]
    assert leaves == [{"a", "b"}, {"c", "d"}]
    assert [{slots_of(made, edge) for edge in node.edges if edge.holds} for node in made.event_nodes] == [
        {"a", "b"},
        set(),
    ]


def slots_of(made: Network, edge: Edge) -> str:
    return made.nodes[edge.parent].slots[edge.own]


def stored_in(made: Network, tree: Tree) -> set[str]:
    """The nodes of a tree that hold what later events can meet; of leaves that are one node, those that do."""
    found = {slots_of(made, edge) for node in made.event_nodes for edge in node.edges if edge.holds}
    joins = [node for node in made.nodes if node.places and node.kind != codes.EVENTS]
    return found | {_written(tree, {*node.slots}) for node in joins if node.stored}


def test_a_kleene_variable_is_a_leaf_of_lists() -> None:
    """JQPG section 5.2: the leaf makes the lists, and what is above joins them as it joins anything else."""
    nodes = tree_of("SEQ(A a, B+ b[], C c)", Join(Join("a", "b"), "c"))
    assert {name: node.kind for name, node in nodes.items()} == {
        "a": codes.EVENTS,
        "b": codes.LISTS,
        "c": codes.EVENTS,
        "(a, b)": codes.JOIN,
        "((a, b), c)": codes.JOIN,
    }
    assert nodes["b"].slots == ("b",)


@pytest.mark.parametrize(
    ("structure", "tree", "stored"),
    [
        ("SEQ(A a, A b, B c, B d)", LEFT_DEEP, ["a", "(a, b)", "((a, b), c)"]),
        ("SEQ(A a, A b, B c, B d)", BUSHY, ["a", "b", "(a, c)"]),
        ("AND(A a, A b, B c, B d)", BUSHY, ["a", "b", "c", "d", "(a, c)", "(b, d)"]),
        ("SEQ(AND(A a, A b), AND(B c, B d))", LEFT_DEEP, ["a", "b", "d", "(a, b)", "((a, b), c)"]),
        ("SEQ(A a, A+ b[])", Join("b", "a"), ["b", "a"]),  # lists of b, for they may grow
        ("A a", "a", []),
    ],
)
def test_what_is_stored(structure: str, tree: Tree, stored: list[str]) -> None:
    assert stored_in(network(f"{structure} WITHIN 10 seconds", tree), tree) == {*stored}


def test_everything_but_the_root_is_stored_where_later_events_may_be_before() -> None:
    tree = Join("a", "b")
    assert stored_in(network("SEQ(A a, B b) WITHIN 10 seconds TIES ANY", tree), tree) == {"a", "b"}


@pytest.mark.parametrize(
    ("structure", "tree", "node"),
    [
        ("SEQ(A a, ~C n, A b, B c, B d)", LEFT_DEEP, "(a, b)"),
        ("SEQ(A a, ~C n, A b, B c, B d)", BUSHY, "((a, c), (b, d))"),
        ("SEQ(A a, A b, ~C n, B c, C d)", Join(Join("b", "c"), Join("a", "d")), "(b, c)"),  # what is d comes after c
        ("SEQ(A a, A b, B c, ~C n, B d)", LEFT_DEEP, "(((a, b), c), d)"),
        ("AND(SEQ(A a, ~C n, A b), B c, B d)", LEFT_DEEP, "(a, b)"),
        ("AND(SEQ(A a, ~C n, A b), B c, C d)", LEFT_DEEP, "(((a, b), c), d)"),  # d may be the very event
        ("SEQ(~C n, A a, A b, B c, B d)", LEFT_DEEP, "(((a, b), c), d)"),  # the window of the whole match decides
        ("SEQ(A a, A b, B c, B d, ~C n)", LEFT_DEEP, "(((a, b), c), d)"),
    ],
)
def test_the_node_of_a_negated_variable(structure: str, tree: Tree, node: str) -> None:
    assert asking(tree_of(structure, tree)) == [node]


def asking(nodes: dict[str, Node]) -> list[str]:
    """The nodes that ask for negated variables; the root does where no other one does."""
    [root] = [name for name, node in nodes.items() if node.members]
    return [name for name, node in nodes.items() if node.negated] or [root]


def test_a_negated_variable_waits_for_what_it_is_compared_with() -> None:
    nodes = tree_of("SEQ(A a, ~C n, A b, B c, B d) WHERE n.x < c.x", LEFT_DEEP)
    assert asking(nodes) == ["((a, b), c)"]
    assert nodes["((a, b), c)"].negated == ("n",)


def test_a_negated_variable_is_asked_for_once() -> None:
    made = network("SEQ(A a, ~C n, A b, ~C m, B c, B d) WHERE m.x < d.x WITHIN 10 seconds", LEFT_DEEP)
    [root] = [node for node in made.nodes if node.members]
    assert [node.negated for node in made.nodes if node.negated] == [("n",)]
    assert made.rejecting_last(root.members[0][0]) == ["m"]


def test_under_ties_any_no_partial_match_is_rejected() -> None:
    tree = Join(Join("a", "b"), "c")
    assert asking(tree_of("SEQ(A a, ~C n, A b, B c)", tree, "WITHIN 10 seconds TIES ANY")) == ["((a, b), c)"]


def test_conditions_are_tested_at_the_lowest_node_that_has_their_variables() -> None:
    text = "SEQ(A a, A b, B c, B d) WHERE a.x < 3 AND a.x < c.x AND (b.x < d.x OR b.y < d.y) AND a.x + b.x < d.x"
    patterns = cep.parse_patterns(f"PATTERN {text} WITHIN 10 seconds", stream_schema())
    [member] = members_of(patterns)
    planned = network_of([member], [BUSHY], "none", NO_EVENTS)
    groups = {node.slots: node.complete for node in planned.nodes if node.kind == codes.JOIN}
    assert {*groups} == {("a", "c"), ("b", "d"), ("a", "c", "b", "d")}
    assert len({*groups.values()}) == 3
    assert not any(planned.groups[member.id].is_empty(group) for group in groups.values())
    leaves = [node.events for node in planned.event_nodes]
    assert [len(leaf.filters) for leaf in leaves if leaf is not None] == [1, 0, 0]


def test_a_tree_of_other_variables_is_refused() -> None:
    [pattern] = cep.parse_patterns("PATTERN SEQ(A a, B b) WITHIN 10 seconds", stream_schema())
    for tree in (Join("a", "c"), ("a",), Join("a", Join("b", "c"))):
        with pytest.raises(PlanError, match=r"binds a, b, its order or tree .*; plan the pattern again"):
            list(MECHANISMS["evaluation_tree"].find(pattern, [tree], NO_EVENTS, EVERYTHING, Counters()))
