"""`StreamOrder` against its definition: every pair of rows, by timestamps and rows alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep_pipeline.patterns.pattern import Ties
from cep_pipeline.slices.order import StreamOrder


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
