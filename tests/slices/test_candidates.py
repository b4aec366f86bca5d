"""Summaries of files, and the instants that they leave for matches: no match of the oracle is ever ruled out."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.events import type_spells
from cep_pipeline.events.type_spells import FOOTER_KEY, TypeSpells, footer_of, spells_in
from cep_pipeline.patterns.pattern import Strategy
from cep_pipeline.slices.candidates import final_instants
from cep_pipeline.slices.ownership import Finality, finality_of
from tests.oracle.answer import flat
from tests.oracle.any_match import any_matches
from tests.oracle.clauses import Rules, clauses_of
from tests.oracle.events import read_events
from tests.oracle.runs import run_matches
from tests.pattern_strategies import SECOND_EDITION, Statement, statements
from tests.streams import SECOND, TYPES, Row, cut, events_table, mostly, rows, stream_schema
from tests.thoroughness import examples

LANGUAGE = replace(
    SECOND_EDITION, output=False, consume=False, returns=False, parameters=False, max_condition_variables=2
)
SPARSE = (*["C"] * 12, *TYPES, "rest", "rest")
WINDOWS = st.one_of(st.sampled_from(["1 seconds", "3 seconds", "8 seconds"]), st.integers(1, 6).map("{} EVENTS".format))
COARSENESS = st.fixed_dictionaries(
    {
        "LEAST_CUTS": st.sampled_from([0, 1, 3, 16]),
        "MOST_TYPES": st.sampled_from([64, 128, 4096]),
        "MOST_TEXTS": st.sampled_from([1, 4096]),
    }
)
"""What makes summaries of small files as coarse as those of large ones: few spells, types put together by a hash."""


@settings(deadline=None, max_examples=examples(300))
@given(
    data=st.data(),
    statement=statements(LANGUAGE),
    window=WINDOWS,
    stream_rows=rows(max_size=14, types=SPARSE),
    coarseness=COARSENESS,
)
def test_every_match_of_the_oracle_is_final_at_an_instant_that_is_left(
    data: st.DataObject, statement: Statement, window: str, stream_rows: list[Row], coarseness: dict[str, int]
) -> None:
    (pattern,) = cep.parse_patterns(statement.within(window).text, stream_schema(), statement.params)
    events = events_table(stream_rows)
    places = sorted(data.draw(st.sets(st.integers(1, max(events.num_rows - 1, 1)), max_size=3)))
    summaries = []
    with mock.patch.multiple(type_spells, **coarseness):
        for part in cut(events, [place for place in places if place < events.num_rows]):
            if part.num_rows:
                times = part["timestamp"].cast(pa.int64()).to_pylist()
                known = data.draw(mostly(st.just(True), st.just(False)))
                unknown = TypeSpells.unknown("kind", times[0], times[-1], part.num_rows)
                summaries.append(read_back(part) if known else unknown)
    left = final_instants([pattern], summaries).pairs
    search = any_matches if pattern.strategy is Strategy.SKIP_TILL_ANY_MATCH else run_matches
    for own, clause in zip(clauses_of(pattern), pattern.clauses, strict=True):
        for binding in search(Rules(pattern, own, read_events(events, pattern))):
            times = [event.timestamp for _, event in flat(pattern, binding)]
            instant = max(times)
            if finality_of(pattern, clause) is Finality.WINDOW_END and pattern.window.time_us is not None:
                instant = min(times) + pattern.window.time_us
            assert any(first <= instant <= last for first, last in left)


def read_back(events: pa.Table) -> TypeSpells:
    """The summary of events as a reader of the file gets it."""
    footer = {key.encode(): text.encode() for key, text in footer_of(events, "kind").items()}
    spells = spells_in(footer, "kind")
    assert spells is not None
    assert spells_in(footer, "other") is None
    return spells


HOUR = 3600 * SECOND


def stream_of(kinds: dict[int, str], x: dict[int, int] | None = None, hours: int = 1000) -> TypeSpells:
    """The summary of an event of type B an hour, but at some hours of another; `x` is 1 where it is not given."""
    return read_back(
        events_table(
            [
                {"timestamp": hour * HOUR, "seq": hour, "kind": kinds.get(hour, "B"), "x": (x or {}).get(hour, 1)}
                for hour in range(hours)
            ]
        )
    )


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("SEQ(A a, B b) WITHIN 2 hours", [(101, 102), (501, 501), (504, 505)]),
        ("SEQ(B b, A a) WITHIN 2 hours", [(100, 100), (500, 500), (503, 503)]),
        ("SEQ(A a, A other) WITHIN 2 hours", []),
        ("SEQ(A a, A other) WITHIN 3 hours", [(503, 503)]),
        ("AND(A a, C c) WITHIN 3 hours", [(503, 503)]),
        ("SEQ(A a, C c) WITHIN 3 hours", [(502, 502)]),
        ("SEQ(C c, A a) WITHIN 2 hours", [(503, 503)]),
        ("SEQ(C c, C other) WITHIN 1 day", []),
        ("SEQ(A a, ~B b) WITHIN 2 hours", [(102, 102), (502, 502), (505, 505)]),
        ("OR(C c, SEQ(A a, X.1 x)) WITHIN 3 hours".replace("X.1", '"X.1"'), [(502, 502)]),
        ("Ev e WHERE e.kind = 'C' WITHIN 1 second", [(502, 502)]),
        ("SEQ(A a, Ev e) WHERE a.x IN (7, 8) WITHIN 1 hour", [(501, 501)]),
        ("A a WHERE NOT a.x BETWEEN 1 AND 5 WITHIN 1 hour", [(500, 500)]),
        ("A a WHERE a.x > 7 OR a.x < 0 WITHIN 1 hour", []),
        ("SEQ(A+ a[], C c) WHERE a.x = 7 WITHIN 1 day", [(502, 502)]),
        ("SEQ(A a, C c) WITHIN 3 EVENTS", [(502, 502)]),
        ("SEQ(A a, C c) WITHIN 2 EVENTS", []),
    ],
)
def test_rare_types_leave_little(text: str, hours: list[tuple[int, int]]) -> None:
    summary = stream_of({100: "A", 500: "A", 502: "C", 503: "A"}, {500: 7})
    (pattern,) = cep.parse_patterns(f"PATTERN {text}", stream_schema())
    left = final_instants([pattern], [summary]).pairs
    wanted = [(first * HOUR, last * HOUR) for first, last in hours]
    # What is left may be larger where frequent types are known by long spells, but by no more than a few hours.
    for first, last in wanted:
        assert any(begin <= first and last <= end for begin, end in left)
    for begin, end in left:
        assert any(first - 3 * HOUR <= begin and end <= last + 3 * HOUR for first, last in wanted)


def test_a_summary_is_small() -> None:
    schema = cep.StreamSchema.load("streams/generated_trades.yaml")
    count = 50_000
    events = schema.table(
        [
            {
                "timestamp": 1000 * row + row * row % 997,
                "symbol": f"S{row * row % 61}",
                "price": row * 7 % 1013 / 100,
                "size": 100 * (row * 31 % 17),
                "exchange": "PQN"[row % 3],
            }
            for row in range(count)
        ]
    )
    assert len(footer_of(events, "symbol")[FOOTER_KEY]) < count / 2
