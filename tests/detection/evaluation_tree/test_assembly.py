"""Where a tree tests what, and what it need not store."""

from __future__ import annotations

import pytest

import cep_pipeline as cep
from cep_pipeline.detection.evaluation_tree.assembly import Assembly
from cep_pipeline.detection.evaluation_tree.find import find_by_trees
from cep_pipeline.detection.instances import compile_program
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters
from cep_pipeline.errors import PlanError
from cep_pipeline.planning import Join
from cep_pipeline.planning.trees import Tree
from cep_pipeline.slices.prepared import PreparedEvents
from tests.streams import events_table, stream_schema

BUSHY = Join(Join("a", "c"), Join("b", "d"))
LEFT_DEEP = Join(Join(Join("a", "b"), "c"), "d")


def assembled(text: str, tree: Tree) -> Assembly:
    [pattern] = cep.parse_patterns(f"PATTERN {text} WITHIN 10 seconds", stream_schema())
    return Assembly(pattern, pattern.clauses[0], tree)


def test_leaves_come_first_and_the_root_last() -> None:
    bushy = assembled("SEQ(A a, A b, B c, B d)", BUSHY)
    assert [str(node) for node in bushy.nodes] == ["a", "b", "c", "d", "(a, c)", "(b, d)", "((a, c), (b, d))"]
    assert bushy.parents == (4, 5, 4, 5, 6, 6, -1)
    assert bushy.siblings == (2, 3, 0, 1, 5, 4, -1)
    assert bushy.members == ((0,), (1,), (2,), (3,), (0, 2), (1, 3), (0, 1, 2, 3))


@pytest.mark.parametrize(
    ("structure", "tree", "stored"),
    [
        ("SEQ(A a, A b, B c, B d)", LEFT_DEEP, ["a", "(a, b)", "((a, b), c)"]),
        ("SEQ(A a, A b, B c, B d)", BUSHY, ["a", "b", "(a, c)"]),
        ("AND(A a, A b, B c, B d)", BUSHY, ["a", "b", "c", "d", "(a, c)", "(b, d)"]),
        ("SEQ(AND(A a, A b), AND(B c, B d))", LEFT_DEEP, ["a", "b", "d", "(a, b)", "((a, b), c)"]),
        ("SEQ(A a, A+ b[])", Join("b", "a"), ["a"]),
        ("A a", "a", []),
    ],
)
def test_what_is_stored(structure: str, tree: Tree, stored: list[str]) -> None:
    found = assembled(structure, tree)
    assert [str(node) for node, kept in zip(found.nodes, found.stored, strict=True) if kept] == stored


def test_everything_but_the_root_is_stored_where_later_events_may_be_before() -> None:
    [pattern] = cep.parse_patterns("PATTERN SEQ(A a, B b) WITHIN 10 seconds TIES ANY", stream_schema())
    assert Assembly(pattern, pattern.clauses[0], Join("a", "b")).stored == (True, True, False)


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
    found = assembled(structure, tree)
    assert [str(found.nodes[at]) for at in found.rejecting_at] == [node]


def test_a_negated_variable_waits_for_what_it_is_compared_with() -> None:
    found = assembled("SEQ(A a, ~C n, A b, B c, B d) WHERE n.x < c.x", LEFT_DEEP)
    assert [str(found.nodes[at]) for at in found.rejecting_at] == ["((a, b), c)"]


def test_under_ties_any_no_partial_match_is_rejected() -> None:
    [pattern] = cep.parse_patterns("PATTERN SEQ(A a, ~C n, A b, B c) WITHIN 10 seconds TIES ANY", stream_schema())
    found = Assembly(pattern, pattern.clauses[0], Join(Join("a", "b"), "c"))
    assert found.rejecting_at == (found.root,)


def test_conditions_are_tested_at_the_lowest_node_that_has_their_variables() -> None:
    text = "SEQ(A a, A b, B c, B d) WHERE a.x < 3 AND a.x < c.x AND (b.x < d.x OR b.y < d.y) AND a.x + b.x < d.x"
    found = assembled(text, BUSHY)
    events = PreparedEvents(events_table([]), type_attribute="kind", base_type="Ev")
    program = compile_program(found.pattern, found.clause, events)
    groups = found.groups(program)
    empty = [str(node) for node, group in zip(found.nodes, groups, strict=False) if program.groups.is_empty(group)]
    assert empty == ["a", "b", "c", "d"]
    assert len(set(groups[4:7])) == 3


def test_a_tree_of_other_variables_is_refused() -> None:
    [pattern] = cep.parse_patterns("PATTERN SEQ(A a, B b) WITHIN 10 seconds", stream_schema())
    events = PreparedEvents(events_table([]), type_attribute="kind", base_type="Ev")
    for tree in (Join("a", "c"), ("a",), Join("a", Join("b", "c"))):
        with pytest.raises(PlanError, match="clause 0 binds a, b: plan the pattern again"):
            list(find_by_trees(pattern, [tree], events, EVERYTHING, Counters()))
