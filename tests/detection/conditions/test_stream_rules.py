"""Windows and orders as rows say what docs/language.md says of instants and timestamps."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.conditions.program import Program, StreamRules
from cep_pipeline.slices.order import order_rows
from cep_pipeline.slices.prepared import PreparedEvents
from tests.oracle.clauses import Rules, clauses_of
from tests.oracle.events import agree, read_events
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

WINDOWS = ("2 seconds", "1 us", "5 days", "3 EVENTS", "1 EVENTS", "100 EVENTS")


@pytest.mark.parametrize("ties", ["ARRIVAL", "STRICT", "ANY"])
@pytest.mark.parametrize("partition", ["", " PARTITION BY id", " PARTITION BY s, f"])
@settings(max_examples=examples(60), deadline=None)
@given(stream=rows(min_size=2), window=st.sampled_from(WINDOWS))
def test_rows_say_what_instants_do(partition: str, ties: str, stream: list[Row], window: str) -> None:
    text = f"PATTERN SEQ(A a, B b) WITHIN {window}{partition} TIES {ties}"
    [pattern] = cep.parse_patterns(text, stream_schema())
    table = events_table(stream)
    events = PreparedEvents(table, type_attribute=pattern.type_attribute, base_type=pattern.base_type)
    [clause] = pattern.clauses
    arrays = StreamRules(pattern, clause, events, Program(pattern, clause, events))
    assert (len(arrays.reach) == 0) == (ties == "ARRIVAL"), "rows are the order"
    reach, onset = order_rows(events, pattern.ties)
    oracle_events = read_events(table, pattern)
    oracle = Rules(pattern, clauses_of(pattern)[0], oracle_events)
    for row, event in enumerate(oracle_events):
        for other_row, other in enumerate(oracle_events):
            before = other_row < reach[row] and other_row != row
            assert before == oracle.is_before(other, event)
            assert before == (row >= onset[other_row] and other_row != row)
            if row == other_row:
                continue
            agreeing = not partition or agree(event, other, pattern.partition_by)
            if partition:
                assert agreeing == (arrays.keys[row] >= 0 and arrays.keys[row] == arrays.keys[other_row])
            if agreeing and other_row < row:
                inside = abs(oracle.instant[event] - oracle.instant[other]) <= oracle.width
                assert inside == (other_row >= arrays.floor[row])
                assert inside == (row <= arrays.ceiling[other_row])
