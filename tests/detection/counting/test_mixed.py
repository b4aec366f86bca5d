"""Comparisons that mix two events: their ranks and bounds say what the comparison says of each pair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.counting.mixed import MixedComparison
from cep_pipeline.expressions.columns import Column
from cep_pipeline.expressions.comparison import compare
from cep_pipeline.patterns.conditions import Comparator, Comparison
from cep_pipeline.patterns.expressions import Element, ValueType
from cep_pipeline.slices.prepared import PreparedEvents
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

CONDITIONS = (
    "b.x - a.x > 2",
    "a.x - b.x <= -1",
    "a.y - b.y < 0.3",
    "-(a.y + b.y) >= -4.1",
    "b.y / 3 < a.x * 0.1 - 1",
    "2 * (b.x - a.x) > 3 - 1.5",
    "a.y > 1 - b.y * -3",
    "b.x * b.y - a.x > 0.5",
    "b.timestamp - a.timestamp < 2 seconds",
)


def _comparison(condition: str) -> Comparison:
    [pattern] = cep.parse_patterns(f"PATTERN AND(Ev a, Ev b) WHERE {condition} WITHIN 1 day", stream_schema())
    [atom] = pattern.clauses[0].conjuncts[0].atoms
    assert isinstance(atom, Comparison)
    return atom


@settings(max_examples=examples(200), deadline=None)
@given(
    condition=st.sampled_from(CONDITIONS),
    turned=st.booleans(),
    stream_rows=st.booleans().flatmap(lambda edges: rows(min_size=1, edges=edges)),
)
def test_ranks_and_bounds_say_what_the_comparison_says(condition: str, turned: bool, stream_rows: list[Row]) -> None:
    table = events_table(stream_rows)
    events = PreparedEvents(table, type_attribute="kind", base_type="Ev")
    mixed = MixedComparison.of(_comparison(condition))
    assert mixed is not None
    mixed = mixed.turned() if turned else mixed
    every = np.arange(len(table), dtype=np.int32)
    if not mixed.is_known(events, (every, every)):
        return
    comparator, (ranks, bounds) = mixed.ranked(events, (every, every))
    one, other = np.repeat(every, len(every)), np.tile(every, len(every))
    found = compare(comparator, *(Column(ValueType.FLOAT64, own) for own in (ranks[one], bounds[other])))
    assert found.tolist() == mixed.holds(events, (one, other)).tolist()


@pytest.mark.parametrize(
    "condition",
    ["b.x * a.x > 2", "b.x - a.x = 2", "b.x - a.x + b.y > 2", "abs(b.x - a.x) > 2", "a.x > 3", "1 / b.y > a.y + b.y"],
)
def test_other_comparisons_are_not_taken_apart(condition: str) -> None:
    assert MixedComparison.of(_comparison(condition)) is None


def test_terms_are_told_by_their_events() -> None:
    mixed = MixedComparison.of(_comparison("b.x - a.x > 2"))
    assert mixed is not None
    assert mixed.events == (("b", Element.ONLY), ("a", Element.ONLY))
    assert mixed.rises == (True, False)
    assert mixed.turned().rises == (False, True)
    assert mixed.turned().turned() == mixed
    assert mixed.comparison.comparator is Comparator.GT


def test_sums_that_overflow_are_not_known() -> None:
    table = stream_schema().table(
        [{"timestamp": t, "kind": "A", "x": x} for t, x in enumerate((-(2**63), 5, 2**63 - 1))]
    )
    events = PreparedEvents(table, type_attribute="kind", base_type="Ev")
    mixed = MixedComparison.of(_comparison("b.x - a.x > 2"))
    assert mixed is not None
    every, small = np.arange(3, dtype=np.int32), np.array([1], np.int32)
    assert not mixed.is_known(events, (every, every))
    assert mixed.is_known(events, (small, small))
