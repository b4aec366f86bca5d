"""Merged runs count what the oracle lists, whatever the pattern, and numbers of any size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.compressed import runs
from cep_pipeline.detection.compressed.tables import count_merged
from cep_pipeline.detection.mechanisms import Counters, Sink
from cep_pipeline.detection.outputs import route_of
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.storage import from_decimal_text
from tests.oracle import evaluate
from tests.pattern_strategies import ANY_MATCH_LANGUAGE, Statement, statements
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

LANGUAGE = replace(ANY_MATCH_LANGUAGE, output=False, consume=False)
WITH_LISTS = [
    "PATTERN SEQ({T}+ v[], {T} a) WHERE {C}",
    "PATTERN SEQ({T} a, {T}+ v[]) WHERE {C}",
    "PATTERN AND({T} a, {T}+ v[]) WHERE {C}",
    "PATTERN SEQ(AND({T} a, {T}+ v[]), C+ w[]) WHERE {C}",
    "PATTERN SEQ({T}+ v[], {T}+ w[], {T} a) WHERE {C}",
    "PATTERN AND(SEQ({T}+ v[], C+ w[]), {T} a) WHERE {C}",
    "PATTERN SEQ({T} a, ~C n, {T}+ v[]) WHERE {C}",
    "PATTERN SEQ({T}+ v[], ~C n, {T} a) WHERE {C}",
    "PATTERN SEQ(~C n, AND({T}+ v[], {T} a)) WHERE {C}",
    "PATTERN AND({T}+ v[], {T} a, OR(~C n, ~B m)) WHERE {C}",
]
CONDITIONS = [
    "v.x < a.x",
    "a.y >= v[i].y - v[i-1].y",
    "v[i].x > v[i-1].x",
    "v.x BETWEEN a.x AND 7",
    "v.y BETWEEN v[i].x AND v.x",
    "v[i].y BETWEEN a.x AND v[1].x",
    "a.x BETWEEN v[i].x AND v.LEN",
    "(v.x < a.x OR v[i].y > v[i-1].y)",
    "(v[].x != a.x OR v.LEN > 2)",
    "v.x + a.x > 4",
    "v[i].s = a.s",
    "v.s = a.s",
    "v[].x <= max(v[].x) - 1",
    "v[i].x >= v[].x",
    "min(v[].y) < a.y",
    "max(v[].x) - min(v[].x) < 4",
    "count(v[].y) = v.LEN",
    "v[v.LEN].x > v[1].x",
    "last(v[].x) >= first(v[].x) AND v.LEN <= 3",
    "v[i].x > min(v[..i-1].x)",
    "v[i].y >= count(v[..i-1].y) + a.y",
    "v.LEN % 2 = 0",
]
WITH_TWO = ["v.x < w.x", "v[i].x <= w[1].x", "w.LEN > v.LEN", "v.y = w.y", "(v.x < w.x OR v.LEN = 1)"]
WITH_NEGATED = ["n.x > a.x", "n.x < v.x", "n.x >= max(v[].x)", "n.x > v.LEN", "(n.x > a.x OR v.x < 3)", "n.x != v[1].x"]


def parsed(text: str) -> Pattern:
    [pattern] = cep.parse_patterns(text, stream_schema())
    return pattern


def merged(pattern: Pattern, table: pa.Table) -> int | None:
    events = PreparedEvents(table, type_attribute=pattern.type_attribute, base_type=pattern.base_type)
    return count_merged(pattern, events, Counters())


@settings(max_examples=examples(100), deadline=None)
@given(statement=statements(LANGUAGE), stream_rows=rows())
def test_the_whole_language(statement: Statement, stream_rows: list[Row]) -> None:
    pattern = statement.pattern
    table = events_table(stream_rows)
    found = merged(pattern, table)
    assert (found is None) == route_of(pattern, Sink.COMPRESS).lists
    assume(found is not None)
    assert found == len(evaluate([pattern], table))


@settings(max_examples=examples(250), deadline=None)
@given(data=st.data(), stream_rows=rows(min_size=4, max_size=10, types=("A", "B", "A", "B", "C")))
def test_conditions_over_lists(data: st.DataObject, stream_rows: list[Row]) -> None:
    structure = data.draw(st.sampled_from(WITH_LISTS))
    usable = [*CONDITIONS, *(WITH_TWO if " w[]" in structure else ()), *(WITH_NEGATED if "~C n" in structure else ())]
    condition = " AND ".join(data.draw(st.lists(st.sampled_from(usable), min_size=1, max_size=2)))
    text = structure.replace("{T}", data.draw(st.sampled_from(["A", "B", "Ev"]))).replace("{C}", condition)
    text += f" WITHIN {data.draw(st.sampled_from(['2 seconds', '5 seconds', '1 day', '5 EVENTS']))}"
    text += f"{data.draw(st.sampled_from(['', ' PARTITION BY id']))} TIES "
    pattern = parsed(text + data.draw(st.sampled_from(["ARRIVAL", "STRICT"])))
    table = events_table(stream_rows)
    with (
        patch.object(runs, "RUNS_AT_ONCE", data.draw(st.sampled_from([1 << 21, 4]))),
        patch.object(runs, "LANES_AT_ONCE", data.draw(st.sampled_from([1 << 14, 2]))),
        patch.object(runs, "PAIRS_AT_ONCE", data.draw(st.sampled_from([1 << 20, 1]))),
    ):
        found = merged(pattern, table)
    if found is not None:
        assert found == len(evaluate([pattern], table))


@settings(max_examples=examples(100), deadline=None)
@given(data=st.data(), stream_rows=rows(min_size=4, max_size=10, types=("A", "B", "A", "B", "C")))
def test_conditions_between_events_that_are_guessed(data: st.DataObject, stream_rows: list[Row]) -> None:
    """A condition on elements of a list and two events behind it makes both known before any event is bound."""
    structure = data.draw(st.sampled_from(["SEQ({T}+ v[], {T} b, {T} c)", "SEQ({T}+ v[], AND({T} b, {T} c))"]))
    mixing = data.draw(st.sampled_from(["v[i].x * c.x < b.x", "v.x + c.y > b.x", "v[i].x + b.x < c.y"]))
    between = data.draw(st.sampled_from(["b.x < c.x", "abs(b.y - c.x) < 2", "(b.x = c.x OR b.y > c.y)", "c.s != b.s"]))
    text = f"PATTERN {structure} WHERE {mixing} AND {between} WITHIN 5 seconds TIES "
    text = text.replace("{T}", data.draw(st.sampled_from(["A", "Ev"])))
    pattern = parsed(text + data.draw(st.sampled_from(["ARRIVAL", "STRICT"])))
    table = events_table(stream_rows)
    assert merged(pattern, table) == len(evaluate([pattern], table))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("PATTERN A+ v[] WHERE sum(v[].x) > 1 WITHIN 1 day", "sum() over the list 'v'"),
        ("PATTERN A+ v[] WHERE v[i].x > avg(v[..i-1].x) WITHIN 1 day", "avg() over the list 'v'"),
        ("PATTERN SEQ(A+ v[], B+ w[]) WHERE v.x + w.x > 1 WITHIN 1 day", "mixes elements of 'v' and 'w'"),
        ("PATTERN SEQ(A+ v[], B b) WHERE v.x + b.x > 1 WITHIN 1 day", None),
        ("PATTERN SEQ(A+ v[], B b) WHERE max(v[].x) < v.LEN AND v[1].x < v[v.LEN].x WITHIN 1 day", None),
        ("PATTERN SEQ(A+ v[], B b) WHERE skip_till_next_match { v.x < b.x } WITHIN 1 day", "skip_till_next_match"),
        ("PATTERN SEQ(A+ v[], B b) WITHIN 1 day TIES ANY", "TIES ANY"),
    ],
)
def test_what_needs_the_lists_is_named(text: str, reason: str | None) -> None:
    found = route_of(parsed(text), Sink.COMPRESS).because
    assert not found if reason is None else reason in found


def stream(middle: str) -> pa.Table:
    kinds = f"A{middle}C"
    return stream_schema().table([{"timestamp": t, "kind": kind, "x": t} for t, kind in enumerate(kinds)])


@pytest.mark.parametrize("mechanism", ["fused", None])
@pytest.mark.parametrize(
    ("text", "middle", "expected"),
    [
        ("PATTERN SEQ(A a, B+ v[], ~D n, C c) WITHIN 1 day", "B" * 60, lambda: 2**60 - 1),
        ("PATTERN SEQ(A a, B+ v[], ~D n, C c) WITHIN 1 day", "B" * 30 + "D" + "B" * 30, lambda: 2**60 - 2**30),
        ("PATTERN SEQ(A a, B+ v[], B+ w[], C c) WITHIN 1 day", "B" * 70, lambda: 70 * 2**69 - 2**70 + 1),
        ("PATTERN AND(A a, B+ v[], B+ w[]) WITHIN 1 day", "B" * 100, lambda: 3**100 - 2 * 2**100 + 1),
        ("PATTERN SEQ(A a, B+ v[], C c) WHERE v.LEN % 2 = 0 WITHIN 1 day", "B" * 60, lambda: 2**59 - 1),
        ("PATTERN SEQ(A a, B+ v[], C c) WHERE max(v[].x) >= 60 WITHIN 1 day", "B" * 60, lambda: 2**59),
        ("PATTERN SEQ(A a, B+ v[], C c) WHERE v.x < c.x - 1 WITHIN 1 day", "B" * 61, lambda: 2**60 - 1),
        ("PATTERN SEQ(A a, B+ v[], C c) WHERE v.x != c.x - 1 WITHIN 1 day", "B" * 61, lambda: 2**60 - 1),
        ("PATTERN SEQ(A a, B+ v[], C c) WITHIN 1 day", "B" * 20_000, lambda: 2**20_000 - 1),
        (
            "PATTERN SEQ(A a, B+ v[], C+ c[]) WHERE v[i].x > v[i-1].x + 1 AND c.LEN = 1 WITHIN 1 day",
            "BB" * 2,
            lambda: 7,
        ),
    ],
)
def test_large_counts_are_exact(text: str, middle: str, expected: Callable[[], int], mechanism: str | None) -> None:
    patterns = cep.parse_patterns(text, stream_schema())
    [table] = cep.detect(patterns, stream(middle), mechanism=mechanism, output="count").values()
    assert from_decimal_text(table.column("count")[0].as_py()) == expected()
