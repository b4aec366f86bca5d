"""Where the plan asks for negated variables is where mechanisms ask for them (JQPG section 5.3)."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.fused.clause import KernelRun
from cep_pipeline.detection.network.network import network_of
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.multi_pattern.members import members_of
from cep_pipeline.planning.orderings import Ordering
from cep_pipeline.planning.planned_clauses import Expectations
from cep_pipeline.planning.trees import PositionTree, named_join
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics import estimate_statistics
from tests.planning.costs.test_costs import trees
from tests.planning.given_planners import give
from tests.statistics.market import market, parse
from tests.thoroughness import examples

STRUCTURES = [
    "SEQ(A a, ~B n, C c, A d)",
    "SEQ(~B n, A a, C c, A d)",
    "SEQ(A a, C c, A d, ~B n)",
    "AND(SEQ(A a, ~B n, C c), A d)",
    "AND(~B n, A a, C c, A d)",
    "SEQ(A a, ~Stock n, AND(C c, A d))",
    "SEQ(AND(A a, A c), ~B n, AND(C d, ~A m))",
]
CONDITIONS = ["", "n.diff < a.diff", "n.diff < d.diff AND n.price > 3", "[sector]"]
WINDOWS = ["2 seconds", "9 events"]
TIES = ["", " TIES ANY", " TIES STRICT"]
EVENTS = market(60)


def pattern_of(structure: str, condition: str, window: str, ties: str) -> Pattern:
    where = f" WHERE {condition}" if condition else ""
    [pattern] = parse(f"PATTERN {structure}{where} WITHIN {window}{ties}")
    return pattern


def expectations(pattern: Pattern) -> Expectations:
    [clause] = pattern.clauses
    return Expectations(pattern, clause, estimate_statistics([pattern], EVENTS))


patterns = st.builds(
    pattern_of,
    st.sampled_from(STRUCTURES),
    st.sampled_from(CONDITIONS),
    st.sampled_from(WINDOWS),
    st.sampled_from(TIES),
)


@settings(deadline=None, max_examples=examples(80))
@given(pattern=patterns, order=st.sampled_from(list(permutations(range(3)))))
def test_orders_ask_where_the_fused_kernel_does(pattern: Pattern, order: tuple[int, ...]) -> None:
    [clause] = pattern.clauses
    expected = expectations(pattern)
    names = [clause.positive[position].name for position in order]
    reached = [tuple(names[: max(length, 2)]) for length in range(1, 4)]
    prepared = PreparedEvents(EVENTS, type_attribute=pattern.type_attribute, base_type=pattern.base_type)
    run = KernelRun(ClauseSlice(pattern, clause, prepared), tuple(names), 100)
    run.prepare()
    assume(run._levels is not None)  # some variable has no event
    assert run._levels is not None
    levels = {negation.name: negation.level for level in run._levels.negations for negation in level}
    for placed in expected.negations(reached):
        if placed.variable in levels:  # the others are tests of a level's columns
            assert len(placed.asked_with) - 1 == levels[placed.variable]
        assert {*placed.between, *placed.compared} <= {*placed.asked_with}


@settings(deadline=None, max_examples=examples(80))
@given(pattern=patterns, tree=trees((0, 1, 2)))
def test_trees_ask_where_the_evaluation_tree_does(pattern: Pattern, tree: PositionTree) -> None:
    [clause] = pattern.clauses
    expected = expectations(pattern)
    assert not isinstance(tree, int)
    join = named_join(tree, expected.statistics.names)
    [member] = members_of([pattern])
    prepared = PreparedEvents(EVENTS, type_attribute=pattern.type_attribute, base_type=pattern.base_type)
    network = network_of([member], [join], "none", prepared)
    asked_with = {name: {*node.slots} for node in network.nodes for name in node.negated}
    root = {variable.name for variable in clause.positive}
    nodes = expected.nodes(tree)
    placed = list(expected.negations([node.variables for node in nodes], whole=True))
    assert len(placed) == len(clause.negated)
    for one in placed:
        assert {*one.asked_with} == asked_with.get(one.variable, root)
    assert sorted(network.rejecting_last(member.id)) == sorted(
        variable.name for variable in clause.negated if variable.name not in asked_with
    )


@pytest.mark.parametrize(
    ("order", "step"), [((0, 1, 2), "step 2"), ((2, 0, 1), "step 3"), ((1, 0, 2), "step 2"), ((2, 1, 0), "step 3")]
)
def test_explain_says_where_and_why(order: tuple[int, ...], step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planner = give(monkeypatch, lambda statistics, cost: Ordering(order))
    pattern = pattern_of(STRUCTURES[0], CONDITIONS[1], WINDOWS[0], "")
    text = cep.plan([pattern], estimate_statistics([pattern], EVENTS), planner).explain()
    assert f"is asked at {step}, the earliest with all of these bound" in text
    assert "its place is said by the events of a, c, and it is compared with a" in text
