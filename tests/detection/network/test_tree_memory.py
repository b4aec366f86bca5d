"""What the current event made is taken back where there is no room, and made again with more: nothing is lost."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.conditions.program import CellRing
from cep_pipeline.detection.mechanisms import Metrics
from cep_pipeline.detection.network import memory, run
from cep_pipeline.errors import DataError
from tests.answers import comparable
from tests.contracts.mechanisms import answer
from tests.oracle import evaluate
from tests.pattern_strategies import ANY_MATCH_LANGUAGE, statements
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples


@pytest.fixture
def cramped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for next to nothing at first."""
    monkeypatch.setattr(memory, "ROOM", 1)
    monkeypatch.setattr(memory, "CellRing", lambda *of: CellRing(*of, size=1))
    monkeypatch.setattr(run, "FIRST_FOUND_ALONE", 1)


@pytest.mark.usefixtures("cramped")
def test_answers_without_room() -> None:
    check_random_answers()  # a fixture of one test does not go with a test of many examples


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data(), stream_rows=rows(max_size=16))
def check_random_answers(data: st.DataObject, stream_rows: list[Row]) -> None:
    pattern, table = data.draw(statements(ANY_MATCH_LANGUAGE)).pattern, events_table(stream_rows)
    assert comparable(answer("evaluation_tree", pattern, table)) == comparable(evaluate([pattern], table))


TEXTS = (
    "PATTERN SEQ(A a, B b, C c) WHERE a.x < c.x WITHIN 20 seconds",
    "PATTERN AND(A a, A b, B c) WHERE a.x < b.x AND b.x < c.x WITHIN 8 seconds",
    "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x > b[i-1].x AND b.LEN < 4 WITHIN 9 seconds",
    "PATTERN SEQ(A a, B+ b[]) WHERE [id] AND sum(b[].x) > 9 WITHIN 20 seconds",
    "PATTERN AND(A a, ~C n, B b) WHERE n.x > a.x AND [id] WITHIN 7 EVENTS PARTITION BY s",
    "PATTERN SEQ(A a, ~C n, B b, ~C m) WHERE n.x = a.x AND m.x = b.x WITHIN 8 seconds",
    "PATTERN SEQ(A a, B+ b[], ~C n) WHERE n.x = a.x WITHIN 6 seconds TIES ANY",
)


def counted(text: str) -> tuple[Iterable[str], Metrics]:
    [pattern] = cep.parse_patterns(text, stream_schema())
    events = [
        {
            "timestamp": second // 2 * 1_000_000,
            "seq": second,
            "kind": "ABCAB"[second % 5],
            "x": second * 7 % 11,
            "id": second % 3,
            "s": "pq"[second % 2],
        }
        for second in range(60)
    ]
    found, metrics = cep.detect([pattern], events_table(events), mechanism="evaluation_tree", metrics=True)
    return found[pattern.name].column("match_id").to_pylist(), metrics


@pytest.mark.parametrize("text", TEXTS)
def test_nothing_is_counted_twice(text: str, request: pytest.FixtureRequest) -> None:
    before = counted(text)
    assert before[0]
    request.getfixturevalue("cramped")
    assert counted(text) == before


def test_more_instances_than_there_may_be_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MOST_WORDS", 1 << 10)
    with pytest.raises(DataError, match="a node of the tree holds more than 256 instances within a window: shorten"):
        counted("PATTERN AND(Ev a, Ev b, Ev c) WHERE a.x < b.x WITHIN 1 minute")
