"""What one event decides is the same for all events at once as for chosen rows, however the events are cut."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.expressions.evaluate import conjunct_holds
from cep_pipeline.patterns.conditions import Atom, Comparator, Comparison, Conjunct
from cep_pipeline.patterns.expressions import Expression, Literal, Reference
from cep_pipeline.patterns.rewriting import rewritten
from cep_pipeline.slices import keys, views
from cep_pipeline.slices.keys import leaf_by, leaves_by
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import EventLeaf, ManyLeaves, groups_of_view, holds_for_all, view_of_leaf, without_name
from tests.expressions.test_evaluate import FLOAT, atoms, correlations, rows
from tests.streams import events_table
from tests.thoroughness import examples


def of_one_event(atom: Atom) -> Atom:
    def renamed(leaf: Expression) -> Expression:
        return replace(leaf, variable="a") if isinstance(leaf, Reference) else leaf

    return rewritten(atom, renamed)


def correlated() -> st.SearchStrategy[Atom]:
    half = Literal(0.5, FLOAT)
    return correlations().map(lambda correlation: Comparison(Comparator.GT, correlation, half))


@settings(max_examples=examples(300), deadline=None)
@given(rows(), st.lists(st.one_of(atoms(), correlated()), min_size=1, max_size=3), st.integers(1, 4))
def test_all_events_at_once(drawn: list[dict[str, Any]], chosen: list[Atom], at_once: int) -> None:
    events = PreparedEvents(
        events_table([{**row, "timestamp": index} for index, row in enumerate(drawn)]), type_attribute="kind"
    )
    conjunct = Conjunct(tuple(map(of_one_event, chosen)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(views, "EVENTS_AT_ONCE", at_once)
        found = holds_for_all(events, conjunct)
    expected = conjunct_holds(conjunct, events, {"a": np.arange(len(drawn))})
    assert np.broadcast_to(found, len(drawn)).tolist() == expected.tolist()


def with_other_numbers(conjunct: Conjunct, more: int) -> Conjunct:
    def moved(leaf: Expression) -> Expression:
        return replace(leaf, value=leaf.value + more) if isinstance(leaf, Literal) and leaf.type.is_number else leaf

    return rewritten(conjunct, moved)


@settings(max_examples=examples(200), deadline=None)
@given(
    rows(),
    st.lists(st.lists(st.lists(atoms(), min_size=1, max_size=2), min_size=1, max_size=2), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["A", "B"]), st.integers(-2, 2)), min_size=1, max_size=6),
    st.integers(1, 40),
)
def test_leaves_found_together_are_those_found_one_by_one(
    drawn: list[dict[str, Any]], forms: list[list[list[Atom]]], chosen: list[tuple[int, str, int]], at_once: int
) -> None:
    table = events_table([{**row, "timestamp": at, "kind": "AB"[at % 2]} for at, row in enumerate(drawn)])
    events = PreparedEvents(table, type_attribute="kind")
    filters = [[Conjunct(tuple(map(of_one_event, each))) for each in form] for form in forms]
    filters = [[without_name(one, "a") for one in form if one.variables] for form in filters]
    leaves = [
        EventLeaf(kind, tuple(with_other_numbers(one, more) for one in filters[form % len(filters)]))
        for form, kind, more in chosen
    ]
    many = ManyLeaves(leaves)
    in_order = [leaves[place] for place in many.order.tolist()]
    assert sorted(many.order.tolist()) == [*range(len(leaves))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(views, "EVENTS_AT_ONCE", at_once)
        together = many.view(events, [events.leaf_rows(leaf.event_type) for leaf in in_order], "all")
    alone = [view_of_leaf(events, leaf, 0, len(events)) for leaf in in_order]
    assert parts(together.rows, together.starts) == [view.rows.tolist() for view in alone]
    some = np.arange(0, len(leaves), 2)
    part = groups_of_view(events, together, some)
    assert parts(part.rows, part.starts) == [alone[place].rows.tolist() for place in some.tolist()]
    for attributes in (("x",), ("s", "y")):
        by_key = leaves_by(events, together, attributes)
        assert by_key is not None
        view, starts = by_key
        apart = [leaf_by(events, one, attributes) for one in alone]
        assert parts(view.rows, view.starts) == [one.rows.tolist() for one in apart]
        assert starts.tolist() == [one.starts.tolist() for one in apart]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(keys, "MOST_CODES", 0)
            assert leaves_by(events, together, attributes) is None


def parts(values: np.ndarray[Any, Any], starts: np.ndarray[Any, Any]) -> list[list[int]]:
    return [part.tolist() for part in np.split(values, starts[1:-1])]
