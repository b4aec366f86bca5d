"""Matches in small parts are those of the oracle, in its order, on every mechanism that is cut or goes on."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.detection import MECHANISMS, clause_runs
from tests.contracts.mechanisms import answer, bindings, drawn, planned
from tests.oracle import evaluate
from tests.streams import Row, events_table, rows
from tests.thoroughness import examples


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data(), stream_rows=rows(), limit=st.sampled_from([1, 2, 5]))
def test_small_parts_are_the_answer(mechanism: str, data: st.DataObject, stream_rows: list[Row], limit: int) -> None:
    pattern, table = drawn(data, mechanism).pattern, events_table(stream_rows)
    plan = planned(pattern, table, "dp_left_deep", mechanism)
    with patch.object(clause_runs, "MATCHES_AT_ONCE", limit):
        found = answer(mechanism, pattern, table, plan)
    assert bindings(found) == bindings(evaluate([pattern], table))
