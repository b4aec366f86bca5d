"""Patterns with Kleene variables have the oracle's answer: every kind of reference, negation, pieces, slices."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection import clause_runs
from cep_pipeline.detection.detect import detect_slice
from cep_pipeline.detection.kleene import growing
from cep_pipeline.errors import PlanError
from cep_pipeline.expressions import lists
from cep_pipeline.slices.ownership import look_back
from tests.answers import comparable, from_tables
from tests.oracle import evaluate
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

STRUCTURES = [
    "SEQ(A a, B+ v[], Ev b)",
    "SEQ(B+ v[], C+ w[])",
    "AND(B+ v[], C+ w[])",
    "AND(Ev+ v[], C+ w[], A a)",
    "SEQ(A+ v[], ~B n, C+ w[])",
    "SEQ(~A n, Ev+ v[])",
    "SEQ(A+ v[], ~B n)",
    "SEQ(~A m, A+ v[], ~B n)",
    "AND(A a, ~B n, Ev+ v[])",
    "OR(SEQ(A+ v[], B b), AND(A+ w[], ~C n))",
    "SEQ(Ev+ v[], OR(A a, B+ w[]))",
]
CONDITIONS = [
    "v[i].x > v[i-1].x",
    "v[i].x > avg(v[..i-1].x)",
    "v[i].y >= max(v[..i-1].y)",
    "sum(v[..i-1].x) < 5",
    "count(v[..i-1].y) < v.LEN - 1",
    "v[1].x <= v[i].x",
    "v[v.LEN].x >= v[1].x",
    "v.LEN >= 2",
    "v.LEN % 2 = 1",
    "sum(v[].x) > 2",
    "avg(v[].y) < 2.5",
    "min(v[].s) = 'p'",
    "max(v[].y) > first(v[].y)",
    "last(v[].x) != first(v[].x)",
    "count(v[].y) = v.LEN",
    "corr(v[1].h, v[v.LEN].h) > 0",
    "v.x != v[1].y",
    "v.x < v[i].y",
    "(v[i].x = v[i-1].x OR v.y > 1)",
    "v.x < w.x",
    "v[i].x <= w[i].x",
    "v[i].x != w[i-1].y",
    "sum(v[].x) < sum(w[].x)",
    "(w[i].x > sum(v[].x) OR w[1].s = v[i].s)",
    "v.x < a.x",
    "v[i].x - v[i-1].x < b.x",
    "n.x > v.x",
    "n.x <= v[i].x",
    "n.y < avg(v[].y)",
    "n.s = v[v.LEN].s",
    "[id]",
]
RETURN = " RETURN v[1].x, v[v.LEN].s, v.LEN, sum(v[].x), avg(v[].x), avg(v[].y), min(v[].s), max(v[].y), first(v[].h)"


@st.composite
def texts(draw: st.DrawFn) -> str:
    structure = draw(st.sampled_from(STRUCTURES))
    unused = [f"{name}" for name in "vwabn" if f" {name}" not in structure]
    usable = [
        text
        for text in CONDITIONS
        if not any(f"{name}{mark}" in text.replace("min", "").replace("in(", "") for name in unused for mark in ".[")
    ]
    conditions = draw(st.lists(st.sampled_from(usable), min_size=1, max_size=2, unique=True))
    window = draw(st.sampled_from(["1500 ms", "2 seconds", "3 seconds", "5 seconds", "3 EVENTS", "5 EVENTS"]))
    ties = draw(st.sampled_from(["ARRIVAL", "STRICT", "ANY"]))
    partition = draw(st.sampled_from(["", "", " PARTITION BY s"]))
    text = f"PATTERN {structure} WHERE {' AND '.join(conditions)} WITHIN {window}{partition} TIES {ties}"
    return text + draw(st.sampled_from(["", RETURN]))


@settings(max_examples=examples(250), deadline=None)
@given(text=texts(), stream_rows=rows(max_size=10), at_once=st.sampled_from([1 << 18, 5]))
def test_answer_is_the_oracles(text: str, stream_rows: list[Row], at_once: int) -> None:
    """In pieces of any size."""
    patterns = cep.parse_patterns(text, stream_schema())
    table = events_table(stream_rows)
    with (
        patch.object(growing, "ELEMENTS_AT_ONCE", at_once),
        patch.object(lists, "CHOICES_AT_ONCE", at_once),
        patch.object(clause_runs, "MATCHES_AT_ONCE", at_once),
    ):
        found = from_tables(patterns, cep.detect(patterns, table, mechanism="fused"))
    assert comparable(found) == comparable(evaluate(patterns, table))


LISTS_IN_TURN = [
    "SEQ(A a, B+ v[], C+ w[])",
    "SEQ(B+ v[], C+ w[])",
    "SEQ(B+ v[], A a, C+ w[], ~A n)",
    "SEQ(B{1,2} v[], A a, B{2,3} w[])",
    "SEQ(B+ v[], C+ w[], B+ u[])",
    "OR(SEQ(A a, C+ w[], B+ v[]), SEQ(B b, C+ u[]))",
    "SEQ(A a, ~SEQ(C c, B d), B+ v[])",
    "SEQ(Ev+ v[], A a, Ev+ w[])",
]
ASKED = [
    "sum(v[].x) > {0}",
    "avg(v[].y) * {0} < v.LEN + {1}",
    "v.x < w.x + {0}",
    "w[1].x >= v[v.LEN].x - {1}",
    "w.y > v[1].y + {0}",
    "v[i].x > v[i-1].x - {1}",
    "v[].x = w[].x",
    "v[].s = a.s AND w[].s = a.s",
    "d.x + {0} > c.x",
    "n.x > sum(w[].x) - {1}",
    "min(v[].s) = 'p'",
    "first(u[].x) != last(w[].x) + {0}",
]


@settings(max_examples=examples(300), deadline=None)
@given(data=st.data(), streams=st.lists(rows(max_size=12), min_size=1, max_size=2))
def test_patterns_that_differ_in_numbers_are_asked_together(data: st.DataObject, streams: list[list[Row]]) -> None:
    """Lists found in turn, and whole matches that are asked, as if each pattern were alone."""
    structure = data.draw(st.sampled_from(LISTS_IN_TURN))
    usable = [one for one in ASKED if all(f" {name}" in structure for name in re.findall(r"\b([acdnuvw])[.\[]", one))]
    conditions = data.draw(st.lists(st.sampled_from(usable), max_size=2, unique=True))
    numbers = st.sampled_from(["0", "1", "-2", "0.5", "9223372036854775807"])
    rest = data.draw(
        st.sampled_from(["2 seconds", "4 seconds", "4 EVENTS", "6 EVENTS PARTITION BY s", "3 seconds TIES ANY"])
    )
    written = [
        " AND ".join(one.format(data.draw(numbers), data.draw(numbers)) for one in conditions)
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    returns = st.sampled_from(["", " RETURN sum(v[].x), avg(v[].y), v.LEN", " RETURN max(v[].s), v[1].x"])
    text = ";".join(
        f"NAME p{place} PATTERN {structure} {'WHERE ' + where if where else ''} WITHIN {rest}{data.draw(returns)}"
        for place, where in enumerate(written)
    )
    patterns = cep.parse_patterns(text, stream_schema())
    for stream_rows in streams:
        table = events_table(stream_rows)
        found = from_tables(patterns, cep.detect(patterns, table, mechanism="fused"))
        assert comparable(found) == comparable(evaluate(patterns, table))


LIMITS = [
    "sum(v[].x) < 4",
    "sum(v[].x) <= a.x",
    "3 > sum(v[].y)",
    "sum(v[].x) BETWEEN 2 AND 4",
    "sum(v[].x) = 3",
    "sum(v[].x) > -3",
    "max(v[].y) <= 2.5",
    "max(v[].s) = 'p'",
    "min(v[].x) >= a.x",
    "min(v[].y) < 2",
    "avg(v[].x) < 2",
    "v.LEN = 2",
    "v.LEN < 3",
    "count(v[].y) <= 2",
    "last(v[].x) < 3",
    "sum(v[].x) < v.LEN",
]


@settings(max_examples=examples(150), deadline=None)
@given(
    conditions=st.lists(st.sampled_from(LIMITS), min_size=1, max_size=2, unique=True),
    structure=st.sampled_from(["SEQ(A a, B+ v[])", "AND(A a, Ev+ v[])", "SEQ(B+ v[], A a)"]),
    signs=st.sampled_from([[0, 1, 2, 3], [-3, -2, -1, 0], [-2, 0, 3], [0, 1, None]]),
    data=st.data(),
)
def test_lists_that_have_reached_a_limit_are_not_grown(
    conditions: list[str], structure: str, signs: list[int | None], data: st.DataObject
) -> None:
    """Values that are never negative, or never positive, bound what sums of longer lists may be; others do not."""
    stream_rows: list[Row] = [
        {
            "timestamp": place,
            "kind": data.draw(st.sampled_from("ABBB")),
            "x": data.draw(st.sampled_from(signs)),
            "y": data.draw(st.sampled_from([0.0, 0.1, 2.5, math.nan if None in signs else 3.0])),
            "s": data.draw(st.sampled_from(["p", "q", None] if None in signs else ["p", "q"])),
        }
        for place in range(data.draw(st.integers(2, 9)))
    ]
    text = f"PATTERN {structure} WHERE {' AND '.join(conditions)} WITHIN 1 second"
    patterns = cep.parse_patterns(text, stream_schema())
    table = events_table(stream_rows)
    found = from_tables(patterns, cep.detect(patterns, table, mechanism="fused"))
    assert comparable(found) == comparable(evaluate(patterns, table))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [("sum(v[].x) <= 3", 64 + 64 * 63 // 2 + 64 * 63 * 62 // 6), ("v.LEN = 2", 64 * 63 // 2), ("max(v[].x) < 1", 0)],
)
def test_few_lists_of_many_candidates(condition: str, expected: int) -> None:
    """There are 2**64 lists without the condition."""
    table = events_table([{"timestamp": place, "kind": "B", "x": 1} for place in range(64)])
    patterns = cep.parse_patterns(f"PATTERN B+ v[] WHERE {condition} WITHIN 1 second", stream_schema())
    counted = cep.detect(patterns, table, mechanism="fused", output="count")["pattern_1"]
    assert counted.column("count").to_pylist() == [str(expected)]


@settings(max_examples=examples(80), deadline=None)
@given(text=texts(), stream_rows=rows(max_size=9))
def test_slices_own_every_match_once(text: str, stream_rows: list[Row]) -> None:
    """Slices between every two events: with negation a match may end its wait later.

    Each reads its look-back only; with a count window, whose look-back is no time, all before its end.
    """
    [pattern] = cep.parse_patterns(text, stream_schema())
    table = events_table(stream_rows)
    plan = cep.plan([pattern], cep.estimate_statistics([pattern], table))
    reach_us = look_back([pattern]).time_us if pattern.window.time_us is not None else 2**62
    points = [(row["timestamp"], row["seq"]) for row in stream_rows]
    found: list[str] = []
    for start, end in pairwise([None, *points, None]):
        read = [
            row
            for row in stream_rows
            if (start is None or row["timestamp"] >= start[0] - reach_us)
            and (end is None or (row["timestamp"], row["seq"]) < end)
        ]
        batches: list[pa.RecordBatch] = []
        detect_slice([pattern], plan, events_table(read), (start, end), lambda _, b, to=batches: to.append(b), "fused")
        found += [match_id for batch in batches for match_id in batch.column("match_id").to_pylist()]
    expected = cep.detect([pattern], table, plan=plan, mechanism="fused")[pattern.name].column("match_id").to_pylist()
    assert len(expected) == len(evaluate([pattern], table))
    assert sorted(found) == sorted(expected)


def test_first_matches_of_very_many_come_at_once() -> None:
    """Lists are made in pieces: 2**200 of them would not fit anywhere."""
    from cep_pipeline.detection import MECHANISMS
    from cep_pipeline.detection.mechanisms import EVERYTHING, Counters
    from cep_pipeline.slices.prepared import PreparedEvents

    events = [{"timestamp": place, "kind": "A" if place == 0 else "B"} for place in range(201)]
    [pattern] = cep.parse_patterns("PATTERN SEQ(A a, B+ v[]) WITHIN 1 day", stream_schema())
    prepared = PreparedEvents(stream_schema().table(events), type_attribute="kind", base_type="Ev")
    blocks = iter(MECHANISMS["fused"].find(pattern, [["a", "v"]], prepared, EVERYTHING, Counters()))
    with patch.object(growing, "ELEMENTS_AT_ONCE", 1000):
        seen = [len(next(blocks)) for _ in range(50)]
    assert all(1 <= size <= 1000 for size in seen)


def test_an_order_of_other_variables_is_refused() -> None:
    from cep_pipeline.detection.clause_runs import ClauseSlice
    from cep_pipeline.detection.kleene.growing import StagedRun
    from cep_pipeline.slices.prepared import PreparedEvents

    [pattern] = cep.parse_patterns("PATTERN SEQ(A a, B+ v[]) WITHIN 1 day", stream_schema())
    prepared = PreparedEvents(stream_schema().table([]), type_attribute="kind", base_type="Ev")
    with pytest.raises(PlanError, match="binds a, v: plan the pattern again"):
        StagedRun(ClauseSlice(pattern, pattern.clauses[0], prepared), ["a"])
