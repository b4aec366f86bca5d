"""Negation in every position, count windows, and which slice owns a match that waits for events behind it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.fused import negation
from cep_pipeline.detection.mechanisms import Counters, Owned
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.ownership import Finality, finality_of, look_back
from tests.detection.fused.running import (
    Binding,
    Orders,
    boundaries_of,
    expected,
    found,
    orders_of,
    pattern_of,
    prepare,
    written_orders,
)
from tests.pattern_strategies import FIRST_SLICE, Statement, statements
from tests.streams import Row, events_table, rows
from tests.thoroughness import examples

FEATURES = replace(
    FIRST_SLICE, nested=True, negation=True, count_windows=True, max_operands=3, max_condition_variables=3
)
THOROUGH = settings(max_examples=examples(80), deadline=None, suppress_health_check=list(HealthCheck))
SECOND = 1_000_000
TIES = ["ARRIVAL", "STRICT", "ANY"]

TIED: list[Row] = [
    {
        "timestamp": second * SECOND,
        "kind": kind,
        "x": (7 * place) % 5,
        "y": float(place % 4),
        "id": place % 3 or None,
        "s": "pq"[place % 2],
        "h": [1.0, float(place % 3), 2.0, float(place % 5)],
    }
    for place, (second, kind) in enumerate(
        zip(
            [0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5, 5, 5, 8, 9, 9],
            ["A", "B", "N", "C", "A", "N", "B", "A", "C", "A", "N", "B", "B", "N", "C", "C", "A", "B", "A", "C", "B"],
            strict=True,
        )
    )
]
POSITIONS = [
    "SEQ(~N n, A a, B b)",
    "SEQ(A a, ~N n, B b)",
    "SEQ(A a, B b, ~N n)",
    "SEQ(~N n, A a, ~N m, B b, ~N o)",
    "SEQ(A a, AND(B b, ~N n))",
    "SEQ(AND(A a, B b), ~N n, C c)",
    "SEQ(A a, ~N n, AND(B b, C c))",
    "AND(A a, ~N n, B b)",
    "AND(SEQ(A a, ~N n), B b)",
    "SEQ(A a, ~A n, B b)",
    "AND(A a, ~A n, B b)",
    "SEQ(A a, ~Ev n, B b)",
    "SEQ(AND(A a, ~Ev n), B b)",
    "SEQ(B b, ~Ev n)",
    "AND(B b, ~Ev n)",
    "SEQ(~N n, B b)",
]
CONDITIONS = [
    "",
    "n.x < b.x",
    "b.x != n.x AND n.y >= b.y",
    "n.x < 3",
    "[id]",
    "[id, s] AND n.x > b.x",
    "n.s = b.s AND n.y < 2",
    "n.x % 3 = b.x % 3",
    "corr(n.h, b.h) > 0.2",
    "n.x + b.x IN (1, 2, 5, 6)",
    "n.x < b.x OR n.y = 2",
    "n.timestamp < b.timestamp",
]
PAIR_CONDITIONS = [
    "n.x < a.x",
    "n.y > a.y AND n.x != b.x",
    "n.x + a.x > b.x",
    "n.s = a.s AND a.id = b.id",
    "corr(n.h, a.h) > b.y",
]


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("structure", POSITIONS)
def test_every_position_and_order_gives_the_answer_of_the_oracle(structure: str, ties: str) -> None:
    table = events_table(TIED)
    conditions = [*CONDITIONS, *(PAIR_CONDITIONS if "A a" in structure else ())]
    conditions = ["", *conditions[1 + TIES.index(ties) :: 3]]  # each one under one of the modes
    windows = ("2 seconds", "6 EVENTS", "4 EVENTS PARTITION BY s")
    for place, condition in enumerate(conditions):
        where = f"WHERE {condition} " if condition else ""
        window = windows[place % 3] if condition else windows[0]
        pattern = pattern_of(f"PATTERN {structure} {where}WITHIN {window} TIES {ties}")
        answer = expected(pattern, table)
        events = prepare(pattern, table)
        for order in orders_of(pattern.clauses[0], place):
            assert found(pattern, events, [order], block_rows=7) == answer, (condition, window, order)


@THOROUGH
@given(statements(FEATURES), rows(max_size=14), st.data())
def test_any_order_and_any_blocks_give_the_answer_of_the_oracle(
    statement: Statement, stream: list[Row], data: st.DataObject
) -> None:
    pattern = statement.pattern
    table = events_table(stream)
    orders = [data.draw(st.permutations(order)) for order in written_orders(pattern)]
    block_rows = data.draw(st.sampled_from([1, 2, 3, 100]))
    assert set(found(pattern, prepare(pattern, table), orders, block_rows=block_rows)) == set(expected(pattern, table))


def owned_by(pattern: Pattern, stream: list[Row], owned: Owned, orders: Orders | None = None) -> list[Binding]:
    """What is found in a slice that reads its look-back and nothing behind its end, by rows of the stream."""
    start, end = owned
    read = [
        place
        for place, row in enumerate(stream)
        if (start is None or row["timestamp"] >= start[0] - look_back([pattern]).time_us)
        and (end is None or (row["timestamp"], row["seq"]) < end)
    ]
    events = prepare(pattern, events_table([stream[place] for place in read]))
    blocks = MECHANISMS["fused"].find(pattern, orders or written_orders(pattern), events, owned, Counters())
    names = {clause.index: [variable.name for variable in clause.positive] for clause in pattern.clauses}
    matches = {
        tuple((name, read[row]) for name, row in zip(names[block.clause.index], match, strict=True))
        for block in blocks
        for match in block.rows.T.tolist()
    }
    return sorted(matches)


def numbered(stream: list[Row]) -> list[Row]:
    return [{**row, "seq": place} for place, row in enumerate(stream)]


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("structure", POSITIONS)
def test_the_slice_that_sees_the_end_of_the_wait_owns_the_match(structure: str, ties: str) -> None:
    stream = numbered(TIED)
    pattern = pattern_of(f"PATTERN {structure} WHERE n.x <= b.x WITHIN 2 seconds TIES {ties}")
    finality = finality_of(pattern, pattern.clauses[0])

    def final(match: Binding) -> tuple[int, float]:
        first, last = (stream[pick(row for _, row in match)] for pick in (min, max))
        if finality is Finality.WINDOW_END:
            return first["timestamp"] + 2 * SECOND, float("inf")
        return last["timestamp"], float("inf") if finality is Finality.LAST_INSTANT else last["seq"]

    answer = expected(pattern, events_table(stream))
    points: list[Any] = [(row["timestamp"], row["seq"]) for row in stream]
    points = sorted({*points, *((time + 7, 0) for time, _ in points), (9 * SECOND + 1, -5), (99 * SECOND, 0)})
    for orders in ([order] for order in orders_of(pattern.clauses[0], TIES.index(ties))):
        for start, end in pairwise([None, *points, None]):
            mine = [
                match
                for match in answer
                if (start is None or start <= final(match)) and (end is None or final(match) < end)
            ]
            assert owned_by(pattern, stream, (start, end), orders) == mine


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN OR(SEQ(A a, ~N n), SEQ(A a2, B b)) WITHIN 2 seconds",
        "PATTERN AND(A a, OR(SEQ(B b, ~N n), SEQ(~N m, B b2))) WITHIN 2 seconds",
        "PATTERN SEQ(A a, OR(~N n, ~C m), B b) WITHIN 2 seconds",
        "PATTERN SEQ(A a, B b, OR(~N n, ~C m)) WITHIN 2 seconds",
        "PATTERN SEQ(OR(~N l, ~C k), A a, OR(~N n, SEQ(~C m, ~N o)), B b) WITHIN 2 seconds",
        "PATTERN AND(SEQ(A a, B b), OR(~N n, SEQ(~N m, C c), SEQ(C c2, ~N o))) WITHIN 2 seconds",
        "PATTERN SEQ(A a, B b, OR(AND(~N n), SEQ(~C m))) WHERE n.x < a.x AND m.x < a.x WITHIN 2 seconds",
        "PATTERN OR(AND(A a, OR(SEQ(~N n), ~C m)), SEQ(A z, B b)) WITHIN 2 seconds",
        "PATTERN AND(SEQ(A a, OR(~N n, ~C m, B b)), OR(~C k, C c)) WITHIN 2 seconds",
    ],
)
@pytest.mark.parametrize("ties", ["ARRIVAL", "ANY"])
def test_bindings_of_several_clauses_count_once_over_all_slices(text: str, ties: str) -> None:
    stream = numbered(TIED)
    pattern = pattern_of(f"{text} TIES {ties}")
    answer = expected(pattern, events_table(stream))
    assert answer
    assert owned_by(pattern, stream, (None, None)) == answer
    points: list[Any] = [None, *((row["timestamp"], row["seq"]) for row in stream), (8 * SECOND + 1, 0), None]
    points = [None, *sorted(points[1:-1]), None]
    assert sorted(m for owned in pairwise(points) for m in owned_by(pattern, stream, owned)) == answer


def test_bindings_that_are_final_earlier_by_another_clause() -> None:
    """One positive set, a clause that waits for the window's end and one that does not."""
    stream = numbered(TIED)
    pattern = pattern_of("PATTERN AND(SEQ(A a, OR(SEQ(~N n, B b), SEQ(B b1, ~N m)))) WITHIN 2 seconds")
    assert {finality_of(pattern, clause) for clause in pattern.clauses} == {Finality.LAST_EVENT, Finality.WINDOW_END}
    pattern = pattern_of("PATTERN SEQ(A a, OR(SEQ(~N n), AND(~C m, ~N o)), B b) WITHIN 2 seconds")
    both = pattern_of("PATTERN AND(A a, B b, OR(SEQ(~N n), ~C m)) WITHIN 2 seconds")
    for mixed in (pattern, both):
        points: list[Any] = [None, *((row["timestamp"], row["seq"]) for row in stream), None]
        parts = [owned_by(mixed, stream, owned) for owned in pairwise(points)]
        assert sorted(match for part in parts for match in part) == expected(mixed, events_table(stream))


@THOROUGH
@given(statements(replace(FEATURES, count_windows=False)), rows(min_size=1, max_size=14), st.data())
def test_slices_own_every_match_once(statement: Statement, stream: list[Row], data: st.DataObject) -> None:
    pattern = statement.pattern
    orders = [data.draw(st.permutations(order)) for order in written_orders(pattern)]
    points: list[Any] = [(row["timestamp"] + data.draw(st.sampled_from([0, 0, 1])), row["seq"]) for row in stream]
    parts = [owned_by(pattern, stream, owned, orders) for owned in pairwise([None, *sorted(points), None])]
    whole = expected(pattern, events_table(stream))
    assert sorted(match for part in parts for match in part) == whole


@pytest.mark.parametrize(
    "condition", ["n.x < a.x", "n.x + a.x > b.x", "corr(n.h, a.h) > 0", "n.x != a.x AND n.y = b.y"]
)
@pytest.mark.parametrize("pairs", [1, 3, 1000])
def test_long_ranges(condition: str, pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """More events could reject than are compared at a time; the one that does may be the last of them."""
    monkeypatch.setattr(negation, "PAIRS_AT_ONCE", pairs)
    stream = [
        {
            "timestamp": place,
            "kind": "A" if place % 50 == 0 else "B" if place % 50 == 49 else "N",
            "x": place * 37 % 101 if place % 50 != 47 else place % 3,
            "y": float(place % 29),
            "h": [0.0, float(place % 7), 1.0],
        }
        for place in range(200)
    ]
    pattern = pattern_of(f"PATTERN SEQ(A a, ~N n, B b) WHERE {condition} WITHIN 120 us")
    answer = expected(pattern, events_table(stream))
    for order in orders_of(pattern.clauses[0]):
        assert found(pattern, prepare(pattern, events_table(stream)), [order], block_rows=2) == answer


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("clauses", ["", "PARTITION BY s", "PARTITION BY id, s"])
@pytest.mark.parametrize(
    "structure", ["SEQ(A a, B b)", "AND(A a, B b, C c)", "SEQ(A a, Ev b, B c)", "SEQ(AND(A a, C b), B c)", "A a"]
)
def test_count_windows(structure: str, clauses: str, ties: str) -> None:
    table = events_table(TIED)
    for size in (1, 2, 3, 5, 8, 100, 2**62):
        pattern = pattern_of(f"PATTERN {structure} WHERE a.x >= 0 WITHIN {size} EVENTS {clauses} TIES {ties}")
        answer = expected(pattern, table)
        events = prepare(pattern, table)
        points = [None, *boundaries_of(events), None]
        for order in orders_of(pattern.clauses[0], TIES.index(ties)):
            assert found(pattern, events, [order]) == answer
            parts = [found(pattern, events, [order], owned) for owned in pairwise(points)]
            assert sorted(match for part in parts for match in part) == answer


def test_slices_of_a_count_window_that_waits_own_each_match_once() -> None:
    pattern = pattern_of("PATTERN SEQ(A a, ~B b) WITHIN 3 EVENTS")
    events = prepare(pattern, events_table(TIED))
    points = [None, *boundaries_of(events), None]
    parts = [found(pattern, events, ["a"], owned) for owned in pairwise(points)]
    assert sorted(match for part in parts for match in part) == expected(pattern, events.table)
