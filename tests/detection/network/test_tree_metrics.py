"""The counts of the evaluation tree: those of a tree that scans whole lists, and cases that can be counted by hand."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.mechanisms import Metrics
from cep_pipeline.planning import Join, Plan
from cep_pipeline.slices.views import implied_by
from cep_pipeline.statistics.observed import NodeCounts
from tests.contracts.mechanisms import planned
from tests.detection.network.literal_tree import read_literally
from tests.pattern_strategies import FIRST_SLICE, statements
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples
from tests.tree_plans import many_trees

SINGLE_EVENTS = replace(
    FIRST_SLICE, nested=True, count_windows=True, partition_by=False, max_operands=3, max_condition_variables=3
)


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data(), stream_rows=rows(max_size=16))
def test_counts_are_those_of_the_literal_tree(data: st.DataObject, stream_rows: list[Row]) -> None:
    pattern, table = data.draw(statements(SINGLE_EVENTS)).pattern, events_table(stream_rows)
    assume(not any(implied_by(clause, pattern.window, pattern.ties).contradiction for clause in pattern.clauses))
    plans = list(many_trees(planned(pattern, table, "trivial", "evaluation_tree"), seed=data.draw(st.integers(0, 99))))
    check_against_literal_tree(pattern, table, data.draw(st.sampled_from(plans)))


@pytest.mark.parametrize("equal", ["[x]", "a.x = b.x", "NOT (a.x != b.x)"])
@pytest.mark.parametrize(("structure", "agreeing"), [("SEQ(A a, A b)", 2), ("AND(A a, A b)", 4)])
def test_an_equality_that_is_spelled_out_counts_as_agreement(equal: str, structure: str, agreeing: int) -> None:
    """Events without the value are joined with none, and only those that agree are candidates."""
    [pattern] = cep.parse_patterns(f"PATTERN {structure} WHERE {equal} WITHIN 1 day TIES ARRIVAL", stream_schema())
    events = stream("AAAAA", "01010")
    events[0]["x"] = None  # of the others 1 and 1 agree, and 0 and 0
    table = events_table(events)
    for plan in many_trees(planned(pattern, table, "trivial", "evaluation_tree")):
        check_against_literal_tree(pattern, table, plan)
        _, metrics = cep.detect([pattern], table, plan, "evaluation_tree", metrics=True)
        nodes = {node.node: node for node in metrics.nodes}
        [pairs] = (work for names, work in nodes.items() if len(names) == 2)
        assert (pairs.candidates, pairs.passes) == (agreeing, agreeing)
        assert all(work.created in (0, 4) for names, work in nodes.items() if len(names) == 1)


def check_against_literal_tree(pattern: cep.Pattern, table: pa.Table, plan: Plan) -> None:
    """Compare what the mechanism counts and finds with what the literal tree does."""
    orders = [clause.order_or_tree for clause in plan.patterns[0].clauses]
    literal = read_literally(pattern, orders, table)
    found, metrics = cep.detect([pattern], table, plan, "evaluation_tree", metrics=True)
    nodes = {
        (index, names): (work.candidates, work.passes, work.created)
        for index, tree in enumerate(literal)
        for names, work in tree.work.items()
    }
    if table.num_rows:
        assert nodes == {
            (node.clause, node.node): (node.candidates, node.passes, node.created) for node in metrics.nodes
        }
    held = [sum(numbers) for numbers in zip(*(tree.held_after for tree in literal if tree.held_after), strict=True)]
    assert metrics.peak_instances == max(held, default=0)
    assert metrics.events_buffered == 0
    bindings = {
        tuple((name, event.seq) for name, (event,) in sorted(match.items()))
        for tree in literal
        for match in tree.matches
    }
    assert found[pattern.name].num_rows == len(bindings)


def test_an_instance_goes_with_its_window_whichever_clause_takes_the_event() -> None:
    text = "PATTERN SEQ(OR(B a, A b), A c) WITHIN 1500 ms TIES ARRIVAL"
    [pattern] = cep.parse_patterns(text, stream_schema())
    table = events_table(stream("AABA"))
    plan = planned(pattern, table, "trivial", "evaluation_tree")
    _, metrics = cep.detect([pattern], table, plan, "evaluation_tree", metrics=True)
    assert metrics.peak_instances == 2  # when b comes, the first a is out of its window: one a and the b are left


def test_what_is_made_of_instances_goes_with_its_window_whichever_clause_takes_the_event() -> None:
    text = "PATTERN OR(AND(A a, B b, D c), AND(C d, C e, C f)) WITHIN 4 EVENTS"
    [pattern] = cep.parse_patterns(text, stream_schema())
    table = events_table(stream("AABCCCC"))
    for plan in many_trees(planned(pattern, table, "trivial", "evaluation_tree")):
        check_against_literal_tree(pattern, table, plan)


def stream(kinds: str, x: str | None = None) -> list[Row]:
    """Events of these types a second apart, with these digits as x."""
    digits = x or "0" * len(kinds)
    return [
        {"timestamp": second * 1_000_000, "seq": second, "kind": kind, "x": int(digit)}
        for second, (kind, digit) in enumerate(zip(kinds, digits, strict=True))
    ]


def counted(
    text: str, events: list[Row], tree: Join | None = None
) -> tuple[int, Metrics, dict[tuple[str, ...], NodeCounts]]:
    """The number of matches of one clause, the metrics, and those of each node by its variables."""
    [pattern] = cep.parse_patterns(text, stream_schema())
    table = events_table(events)
    plan = cep.plan([pattern], cep.estimate_statistics([pattern], table), planner="trivial")
    found, metrics = cep.detect([pattern], table, with_tree(plan, tree), "evaluation_tree", metrics=True)
    return found[pattern.name].num_rows, metrics, {node.node: node for node in metrics.nodes}


def with_tree(plan: Plan, tree: Join | None) -> Plan:
    [of_pattern] = plan.patterns
    [clause] = of_pattern.clauses
    return replace(plan, patterns=(replace(of_pattern, clauses=(replace(clause, tree=tree),)),))


@pytest.mark.parametrize(
    ("tree", "pairs"), [(Join("a", Join("b", "c")), ("b", "c")), (Join(Join("a", "c"), "b"), ("a", "c"))]
)
def test_the_tree_says_which_pairs_are_made(tree: Join, pairs: tuple[str, str]) -> None:
    text = "PATTERN SEQ(A a, B b, C c) WHERE a.x < c.x WITHIN 10 seconds"
    matches, metrics, nodes = counted(text, stream("AABBCC", "150023"), tree)
    assert matches == 4
    assert nodes[pairs].candidates == 4
    assert nodes[pairs].passes == (4 if pairs == ("b", "c") else 2)
    assert nodes[tree.leaves].passes == 4
    evaluations = nodes[pairs].candidates if pairs == ("a", "c") else nodes[tree.leaves].candidates
    assert metrics.condition_evaluations == evaluations


def test_what_nothing_can_join_later_is_not_stored() -> None:
    _, metrics, nodes = counted("PATTERN SEQ(A a, B b, C c) WITHIN 10 seconds", stream("ABCABC"))
    assert nodes["c",].created == 0  # a and b come before it
    assert nodes["a",].created == 2
    assert nodes["a", "b"].created == 3
    assert nodes["a", "b", "c"].created == 0
    assert metrics.peak_instances == 5  # two a, three pairs: b is not stored, since an a that joins it is there


def test_instances_go_with_their_window() -> None:
    _, metrics, nodes = counted("PATTERN AND(A a, B b) WITHIN 2 seconds", stream("AAAAAAAAAB"))
    assert nodes["a",].created == 9
    assert metrics.peak_instances == 3
    assert nodes["a", "b"].candidates == 2


def test_a_kleene_leaf_makes_the_power_set_and_prunes_it() -> None:
    free = "PATTERN SEQ(A a, B+ b[], C c) WITHIN 10 seconds"
    matches, metrics, nodes = counted(free, stream("ABBBC"))
    assert matches == 7
    assert (nodes["b",].candidates, nodes["b",].passes, nodes["b",].created) == (7, 7, 7)
    assert metrics.condition_evaluations == 0
    rising = "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x > b[i-1].x WITHIN 10 seconds"
    matches, metrics, nodes = counted(rising, stream("ABBBC", "03210"))
    assert matches == 3
    assert (nodes["b",].candidates, nodes["b",].passes, nodes["b",].created) == (6, 3, 3)
    assert metrics.condition_evaluations == 3  # a list of one has no i


def test_lists_that_are_not_complete_yet_are_held_and_not_joined() -> None:
    text = "PATTERN SEQ(A a, B+ b[], C c) WHERE b.LEN >= 3 WITHIN 10 seconds"
    matches, _, nodes = counted(text, stream("ABBBC"))
    assert matches == 1
    assert (nodes["b",].candidates, nodes["b",].passes, nodes["b",].created) == (7, 1, 7)
    assert nodes["a", "b"].candidates == 1


def test_negation_rejects_where_all_that_it_needs_is_bound() -> None:
    text = 'PATTERN SEQ(A a, ~B n, C c, "X.1" d) WITHIN 10 seconds'
    events = stream("ABCACXX")
    for event in events:
        event["kind"] = event["kind"].replace("X", "X.1")
    matches, metrics, nodes = counted(text, events, Join(Join("a", "c"), "d"))
    assert matches == 2
    assert nodes["a", "c"].passes == 3
    assert nodes["a", "c"].created == 1  # the pairs with a b between them are gone before any d comes
    assert metrics.events_buffered == 1
    late = counted(text, events, Join("a", Join("c", "d")))
    assert late[0] == 2
    assert late[2]["c", "d"].created == 0
    assert late[2]["a", "c", "d"].passes == 6


def test_what_may_still_be_rejected_is_asked_for_at_once() -> None:
    """The slice has the events until the window ends. A match is no partial match: none waits, and none is counted."""
    text = "PATTERN SEQ(A a, C c, ~B n) WHERE n.x > a.x WITHIN 4 seconds"
    matches, metrics, nodes = counted(text, stream("ACCBCCCCCC", "1000000000"))
    assert matches == 3  # c at 1, 2 and 4 seconds
    assert (nodes["a", "c"].passes, nodes["a", "c"].created) == (3, 0)
    assert metrics.condition_evaluations == 2  # of the b on the two matches before it
    assert counted(text, stream("ACCBCCCCCC", "1002000000"))[0] == 1


def test_what_is_rejected_at_the_root_is_tested_once() -> None:
    text = "PATTERN AND(A a, C c, ~B n) WHERE n.x > a.x WITHIN 4 seconds"
    matches, metrics, nodes = counted(text, stream("ABCCC", "12000"))
    assert matches == 0
    assert nodes["a", "c"].passes == 3
    assert nodes["a", "c"].created == 0
    assert metrics.condition_evaluations == 3
    found, metrics, later = counted(text, stream("ACCBC", "10020"))
    assert (found, later["a", "c"].passes, later["a", "c"].created) == (0, 3, 0)
    assert metrics.condition_evaluations == 3


def test_clauses_count_together() -> None:
    text = "PATTERN OR(AND(A a, B b), AND(A c, C d)) WITHIN 10 seconds"
    [pattern] = cep.parse_patterns(text, stream_schema())
    _, metrics = cep.detect([pattern], events_table(stream("AABC")), mechanism="evaluation_tree", metrics=True)
    assert metrics.peak_instances == 6
    assert {node.clause for node in metrics.nodes} == {0, 1}
