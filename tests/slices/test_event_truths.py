"""What one event decides is the same for all events at once as for chosen rows, however the events are cut."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.expressions.evaluate import conjunct_holds
from cep_pipeline.patterns.conditions import Atom, Comparator, Comparison, Conjunct
from cep_pipeline.patterns.expressions import Expression, Literal, Reference
from cep_pipeline.patterns.rewriting import rewritten
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import holds_for_all
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
@given(rows(), st.lists(st.one_of(atoms(), correlated()), min_size=1, max_size=3))
def test_all_events_at_once(drawn: list[dict[str, Any]], chosen: list[Atom]) -> None:
    events = PreparedEvents(
        events_table([{**row, "timestamp": index} for index, row in enumerate(drawn)]), type_attribute="kind"
    )
    conjunct = Conjunct(tuple(map(of_one_event, chosen)))
    found = holds_for_all(events, conjunct)
    expected = conjunct_holds(conjunct, events, {"a": np.arange(len(drawn))})
    assert np.broadcast_to(found, len(drawn)).tolist() == expected.tolist()
