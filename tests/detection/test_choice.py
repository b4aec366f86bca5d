"""What is not worth planning is run in its own order, by the mechanism that is ahead; the answer is always the same."""

from __future__ import annotations

from unittest.mock import patch

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection import choice
from cep_pipeline.detection.detect import _prepare
from cep_pipeline.detection.mechanisms import MECHANISMS, choose_mechanisms
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.costs.mechanisms import WORK, MechanismCosts
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


def chosen_for(patterns: list[Pattern], events: pa.Table, output: str = "verbose", **also: bool) -> choice.Chosen:
    return choice.choose(patterns, _prepare(patterns, events), choose_mechanisms(patterns), output, **also)


def planned(patterns: list[Pattern], events: pa.Table, output: str = "verbose") -> list[str]:
    return [one.name for one in chosen_for(patterns, events, output).planned]


def costs_of(fused: float, multitree: float, planning: float = 0.0) -> MechanismCosts:
    """Constants by which a pattern costs each mechanism so many nanoseconds, and nothing else does."""
    by_pattern = {"fused": fused, "multitree": multitree}
    outputs = ("verbose", "count", "compressed")
    found = {
        name: {output: tuple(ns if unit == "pattern" else 0.0 for unit in WORK) for output in outputs}
        for name, ns in by_pattern.items()
    }
    return MechanismCosts(found, (0.0, 0.0, planning))


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
    events = events_table([*together, {"timestamp": 10**15, "seq": 300, "kind": "A", "x": 0}])
    assert planned([pattern], events) == []  # the windows of an average are empty
    with patch.object(choice, "CROWDED", 10**12):
        assert planned([pattern], events) == ["pattern_1"]


def test_the_mechanism_that_is_ahead_is_chosen() -> None:
    patterns = cep.parse_patterns(TEXT, stream_schema())
    events = events_table([{"timestamp": t * 1000, "seq": t, "kind": "ABC"[t % 3], "x": t} for t in range(9)])
    assert MECHANISMS["multitree"] and MECHANISMS.is_loaded("multitree")
    fastest = {"rare": "fused", "dense": "fused", "lists": "fused", "steps": "nfab"}
    for fused, expected in ((1e6, {**fastest, "rare": "multitree", "dense": "multitree"}), (10.0, fastest)):
        with patch.object(choice, "mechanism_costs", lambda fused=fused: costs_of(fused, 100.0)):
            assert chosen_for(patterns, events, any_mechanism=True).mechanisms == expected
            assert chosen_for(patterns, events).mechanisms == fastest
            _, metrics = cep.detect(patterns, events, metrics=True)
            assert metrics.mechanisms == fastest  # what is counted is told of the fastest mechanism


@settings(max_examples=examples(60), deadline=None)
@given(
    statement=statements(ANY_MATCH_LANGUAGE),
    stream_rows=rows(),
    costs=st.sampled_from([costs_of(1.0, 1e9), costs_of(1e9, 1.0), costs_of(1.0, 1.0, planning=-1e9)]),
    output=st.sampled_from(["verbose", "count"]),
)
def test_the_choice_changes_no_answer(
    statement: Statement, stream_rows: list[Row], costs: MechanismCosts, output: str
) -> None:
    pattern = statement.pattern
    table = events_table(stream_rows)
    expected = evaluate([pattern], table)
    with patch.object(choice, "mechanism_costs", lambda: costs):
        if output == "count" and not cep.detection.detect.has_output_policy(pattern):
            counted = cep.detect([pattern], table, output="count")[pattern.name]
            assert counted.column("count").to_pylist() == [str(len(expected))]
        found = cep.detect([pattern], table)
        assert comparable(from_tables([pattern], found)) == comparable(expected)
