"""Where memory is short, what an event makes is taken back and made again with more room: nothing is lost or twice."""

from __future__ import annotations

from typing import Any

import pytest

import cep_pipeline as cep
from cep_pipeline.detection.conditions.program import CellRing
from cep_pipeline.detection.network import memory, run
from cep_pipeline.errors import DataError
from tests.streams import events_table, stream_schema

TEXT = """
NAME pair PATTERN AND(A a, B b) WHERE a.x < b.x WITHIN 60 us;
NAME three PATTERN SEQ(A p, B q, A r) WHERE p.x < q.x WITHIN 90 us;
NAME keyed PATTERN SEQ(A a, A b, B c) WHERE [id] WITHIN 200 us;
NAME lists PATTERN SEQ(A a, B+ b[]) WHERE sum(b[].x) > 9 WITHIN 40 us;
NAME begun PATTERN SEQ(B+ b[], A a) WHERE b[i].x > b[i-1].x WITHIN 60 us;
NAME late PATTERN SEQ(A a, A b, NOT(B n)) WHERE n.x > a.x WITHIN 30 us
"""
ROWS = [
    {"timestamp": 10 * (place // 2), "kind": "AB"[place % 3 % 2], "x": place * 7 % 10, "id": place % 4}
    for place in range(80)
]


@pytest.mark.parametrize("mechanism", ["multi_pattern_nfa", "multitree"])
def test_little_memory_grows(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patterns, events = cep.parse_patterns(TEXT, stream_schema()), events_table(ROWS)
    expected, counted = cep.detect(patterns, events, mechanism=mechanism, metrics=True)
    assert all(found.num_rows > 9 for found in expected.values())
    monkeypatch.setattr(memory, "CellRing", lambda *of: CellRing(*of, size=1))
    monkeypatch.setattr(memory, "ROOM", 1)
    monkeypatch.setattr(run, "FIRST_FOUND", 1)
    found, counted_again = cep.detect(patterns, events, mechanism=mechanism, metrics=True)
    assert all(found[name].equals(expected[name]) for name in expected)
    assert counted_again == counted


@pytest.mark.parametrize("mechanism", ["multi_pattern_nfa", "multitree"])
def test_a_window_that_holds_too_much_is_refused(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patterns, events = cep.parse_patterns(TEXT, stream_schema()), events_table(ROWS)
    monkeypatch.setattr(memory, "ROOM", 1)
    monkeypatch.setattr(memory, "MOST_WORDS", 64)
    with pytest.raises(DataError, match=r"a node of the shared plan holds more than .* shorten the window"):
        cep.detect(patterns, events, mechanism=mechanism)


@pytest.mark.parametrize("mechanism", ["multi_pattern_nfa", "multitree"])
def test_nothing_is_run_without_events_or_where_a_condition_never_holds(mechanism: str) -> None:
    schema: Any = stream_schema()
    patterns = cep.parse_patterns("NAME never PATTERN SEQ(A a, B b) WHERE 1 > 2 WITHIN 1 second;" + TEXT, schema)
    empty = cep.detect(patterns, events_table([]), mechanism=mechanism)
    assert all(found.num_rows == 0 for found in empty.values())
    found = cep.detect(patterns, events_table(ROWS), mechanism=mechanism)
    assert [name for name, own in found.items() if own.num_rows == 0] == ["never"]
