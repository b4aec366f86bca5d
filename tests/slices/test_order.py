"""`StreamOrder` and `WindowInstants` against their definitions: every pair of rows, by timestamps and rows alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.patterns.pattern import Ties
from cep_pipeline.slices.order import StreamOrder, instants_of
from cep_pipeline.slices.prepared import PreparedEvents
from tests.streams import events_table, stream_schema


def before(ties: Ties, times: list[int], one: int, other: int) -> bool:
    """The order of two distinct events (docs/language.md, section 3.2)."""
    if ties is Ties.ARRIVAL:
        return (times[one], one) < (times[other], other)
    return times[one] < times[other] if ties is Ties.STRICT else times[one] <= times[other]


@pytest.mark.parametrize("ties", Ties)
@given(times=st.lists(st.integers(0, 6), min_size=1, max_size=12).map(sorted))
def test_rows_before_and_after_an_event_are_those_of_the_definition(ties: Ties, times: list[int]) -> None:
    order, rows = StreamOrder(np.array(times, np.int64), ties), np.arange(len(times))
    after, ahead = order.rows_after(rows), order.rows_ahead(rows)
    assert after.dtype == ahead.dtype == np.int64
    for one in rows:
        others = [row for row in rows if row != one]
        assert [row for row in others if row >= after[one]] == [row for row in others if before(ties, times, one, row)]
        assert [row for row in others if row < ahead[one]] == [row for row in others if before(ties, times, row, one)]
        found = order.holds(np.full(len(others), one), np.array(others, np.int64))
        assert found.tolist() == [before(ties, times, one, row) for row in others]


@pytest.mark.parametrize("window", ["4 us", "3 events", "3 events PARTITION BY s"])
@given(stream=st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["p", "q", None])), min_size=1, max_size=12))
def test_rows_in_the_window_of_an_event_are_those_of_the_definition(
    window: str, stream: list[tuple[int, str | None]]
) -> None:
    stream = sorted(stream, key=lambda event: event[0])
    within, _, by = window.partition(" PARTITION BY ")
    partition = f" PARTITION BY {by}" if by else ""
    text = f"PATTERN SEQ(A a, B b) WITHIN {within}{partition}"
    [pattern] = cep.parse_patterns(text, stream_schema())
    table = events_table([{"timestamp": time, "kind": "A", "s": key} for time, key in stream])
    events = PreparedEvents(table, type_attribute=pattern.type_attribute, base_type=pattern.base_type)
    rows = np.arange(len(stream))
    instants = instants_of(pattern, events)
    begins, ends = instants.first_row_within(rows), instants.end_row_within(rows)
    for row, (time, key) in enumerate(stream):
        if by and key is None:  # in no partition: alone
            assert (begins[row], ends[row]) == (row, row + 1)
            continue
        members = [other for other, event in enumerate(stream) if not by or event[1] == key]
        if within == "4 us":
            near = [other for other in members if abs(stream[other][0] - time) <= 4]
        else:
            near = [other for other in members if abs(members.index(other) - members.index(row)) <= 2]
        assert [other for other in members if begins[row] <= other < ends[row]] == near
        assert (begins[row], ends[row] - 1) == (near[0], near[-1])
