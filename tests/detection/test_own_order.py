"""What is not worth planning is run in its own order; the answer is always the same."""

from __future__ import annotations

from unittest.mock import patch

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.detect import _prepare
from cep_pipeline.detection.mechanisms import choose_mechanisms
from cep_pipeline.detection.planned import worth_planning
from cep_pipeline.patterns.pattern import Pattern
from tests.answers import comparable, from_tables
from tests.oracle import evaluate
from tests.pattern_strategies import ANY_MATCH_LANGUAGE, Statement, statements
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

TEXT = """
NAME rare PATTERN SEQ(C c, B b, A a) WHERE a.x > b.x WITHIN 5 seconds;
NAME dense PATTERN AND(A a, A b, A c, A d) WHERE a.x > b.x WITHIN 1 day;
NAME lists PATTERN SEQ(C c, B+ b[]) WITHIN 5 seconds;
NAME steps PATTERN SEQ(C c, B b) WHERE skip_till_next_match { b.x > c.x } WITHIN 5 seconds
"""


def planned(patterns: list[Pattern], events: pa.Table, output: str = "verbose") -> list[str]:
    worth = worth_planning(patterns, _prepare(patterns, events), choose_mechanisms(patterns), output)
    return [one.name for one in worth]


def test_only_what_is_found_sooner_than_planned_is_not_planned() -> None:
    patterns = cep.parse_patterns(TEXT, stream_schema())
    kinds = ["A"] * 200 + ["B", "C", "B"]
    events = events_table([{"timestamp": t * 1000, "seq": t, "kind": kind, "x": t} for t, kind in enumerate(kinds)])
    assert planned(patterns, events) == ["dense"]
    assert planned(patterns, events.slice(198)) == planned(patterns, events.slice(0, 0)) == []
    found = cep.detect([one for one in patterns if one.name != "dense"], events)
    assert {name: table.num_rows for name, table in found.items()} == {"rare": 0, "lists": 1, "steps": 1}


def test_crowded_windows_are_seen() -> None:
    [pattern] = cep.parse_patterns("PATTERN SEQ(A a, A b, A c, A d) WHERE a.x > b.x WITHIN 1 second", stream_schema())
    together = [{"timestamp": t, "seq": t, "kind": "A", "x": t} for t in range(300)]
    apart = [{"timestamp": t * 10**7, "seq": t, "kind": "A", "x": t} for t in range(300)]
    assert planned([pattern], events_table(apart)) == []
    assert planned([pattern], events_table(together)) == ["pattern_1"]


@settings(max_examples=examples(60), deadline=None)
@given(
    statement=statements(ANY_MATCH_LANGUAGE),
    stream_rows=rows(),
    each_ns=st.sampled_from([-1e9, 0.0, 1e9]),
    output=st.sampled_from(["verbose", "count"]),
)
def test_the_choice_changes_no_answer(
    statement: Statement, stream_rows: list[Row], each_ns: float, output: str
) -> None:
    pattern = statement.pattern
    table = events_table(stream_rows)
    expected = evaluate([pattern], table)
    with patch("cep_pipeline.detection.planned.PATTERN_NS", each_ns):
        if output == "count" and not cep.detection.detect.has_output_policy(pattern):
            counted = cep.detect([pattern], table, output="count")[pattern.name]
            assert counted.column("count").to_pylist() == [str(len(expected))]
        found = cep.detect([pattern], table)
        assert comparable(from_tables([pattern], found)) == comparable(expected)
