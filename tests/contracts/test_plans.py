"""No plan changes the answer of a mechanism: whatever the planner, the order or the tree."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.detection import MECHANISMS
from cep_pipeline.errors import PlanError
from cep_pipeline.planning import PLANNERS
from tests.answers import comparable
from tests.contracts.mechanisms import (
    RUN_TREES,
    answer,
    drawn,
    many_orders,
    match_ids,
    needs_trees,
    orders_of,
    planned,
    takes_pattern_order,
)
from tests.oracle import evaluate
from tests.streams import Row, events_table, rows
from tests.thoroughness import examples
from tests.tree_plans import many_trees


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=examples(40), deadline=None)
@given(data=st.data(), stream_rows=rows(max_size=16))
def test_planner_does_not_change_the_answer(
    mechanism: str, planner: str, data: st.DataObject, stream_rows: list[Row]
) -> None:
    pattern, table = drawn(data, mechanism).pattern, events_table(stream_rows)
    plan = planned(pattern, table, planner, mechanism)
    if needs_trees(plan) and mechanism not in RUN_TREES:
        if stream_rows:  # without events nothing is run
            with pytest.raises(PlanError, match=f"by the tree .*; {mechanism} runs orders only"):
                answer(mechanism, pattern, table, plan)
        return
    assert comparable(answer(mechanism, pattern, table, plan)) == comparable(evaluate([pattern], table))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=examples(80), deadline=None)
@given(data=st.data(), stream_rows=rows())
def test_no_order_changes_the_answer(mechanism: str, data: st.DataObject, stream_rows: list[Row]) -> None:
    pattern, table = drawn(data, mechanism).pattern, events_table(stream_rows)
    expected = comparable(evaluate([pattern], table))
    ids = match_ids(mechanism, pattern, table)
    assert len(set(ids)) == len(ids)
    trivial = planned(pattern, table, "trivial", mechanism)
    for order in many_orders(trivial):
        if takes_pattern_order(pattern, mechanism) and orders_of(order) != orders_of(trivial):
            if stream_rows:  # without events nothing is run
                with pytest.raises(PlanError, match="in the pattern's order"):
                    answer(mechanism, pattern, table, order)
            continue
        assert comparable(answer(mechanism, pattern, table, order)) == expected
        assert match_ids(mechanism, pattern, table, order) == ids


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=examples(80), deadline=None)
@given(data=st.data(), stream_rows=rows())
def test_no_tree_changes_the_answer(mechanism: str, data: st.DataObject, stream_rows: list[Row]) -> None:
    pattern, table = drawn(data, mechanism).pattern, events_table(stream_rows)
    expected = comparable(evaluate([pattern], table))
    ids = match_ids(mechanism, pattern, table)
    for tree in many_trees(planned(pattern, table, "trivial", mechanism), seed=data.draw(st.integers(0, 99))):
        if mechanism not in RUN_TREES and needs_trees(tree):
            if stream_rows:  # without events nothing is run
                with pytest.raises(PlanError, match=f"by the tree .*; {mechanism} runs orders only"):
                    answer(mechanism, pattern, table, tree)
            continue
        assert comparable(answer(mechanism, pattern, table, tree)) == expected
        assert match_ids(mechanism, pattern, table, tree) == ids
