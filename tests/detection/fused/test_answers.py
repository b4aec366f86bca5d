"""The kernel's answers are the oracle's, whatever the order, the slices and the size of the blocks."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.detection.fused.running import boundaries_of, expected, found, orders_of, pattern_of, prepare, written_orders
from tests.pattern_strategies import FIRST_SLICE, Statement, statements
from tests.streams import events_table, rows
from tests.thoroughness import examples

FEATURES = replace(FIRST_SLICE, nested=True, max_operands=3, max_condition_variables=3)
THOROUGH = settings(max_examples=examples(120), deadline=None, suppress_health_check=list(HealthCheck))


@THOROUGH
@given(statements(FEATURES), rows(max_size=14), st.data())
def test_any_order_and_any_blocks_give_the_answer_of_the_oracle(
    statement: Statement, stream: list[dict[str, Any]], data: st.DataObject
) -> None:
    pattern = statement.pattern
    table = events_table(stream)
    orders = [data.draw(st.permutations(order)) for order in written_orders(pattern)]
    block_rows = data.draw(st.sampled_from([1, 2, 3, 100]))
    assert found(pattern, prepare(pattern, table), orders, block_rows=block_rows) == expected(pattern, table)


@THOROUGH
@given(statements(FEATURES), rows(min_size=1, max_size=14), st.data())
def test_slices_between_all_events_own_every_match_once(
    statement: Statement, stream: list[dict[str, Any]], data: st.DataObject
) -> None:
    pattern = statement.pattern
    events = prepare(pattern, events_table(stream))
    orders = [data.draw(st.permutations(order)) for order in written_orders(pattern)]
    whole = found(pattern, events, orders)
    points = [None, *boundaries_of(events), None]
    parts = [found(pattern, events, orders, owned) for owned in pairwise(points)]
    assert sorted(match for part in parts for match in part) == whole
    for owner, part in zip(range(-1, len(events)), parts, strict=True):
        assert all(max(row for _, row in match) == max(owner, 0) for match in part)


TIED = [
    {"timestamp": second * 1_000_000, "kind": kind, "x": (7 * place) % 3, "y": float(place % 4), "id": place % 2}
    for place, (second, kind) in enumerate(
        zip(
            [0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5, 5, 5],
            ["A", "B", "A", "C", "A", "B", "B", "A", "C", "A", "C", "B", "B", "A", "C", "C", "A", "B"],
            strict=True,
        )
    )
]
STRUCTURES = [
    "SEQ(A a, B b, C c)",
    "AND(A a, B b, C c)",
    "SEQ(A a, A b, A c)",
    "AND(A a, A b, C c)",
    "SEQ(AND(A a, B b), C c)",
    "SEQ(A a, AND(B b, SEQ(Ev c, C d)))",
    "AND(SEQ(A a, B b), SEQ(Ev c, C d))",
    "SEQ(Ev a, A b, Ev c)",
]
CONDITIONS = [
    "",
    "WHERE a.x < b.x",
    "WHERE [id]",
    "WHERE [id, x]",
    "WHERE [id] AND a.x = b.x AND c.x = b.x",
    "WHERE a.x = b.id",
    "WHERE a.id = b.id AND b.x = c.x AND a.y <= c.y",
    "WHERE a.x + b.x > c.x OR b.y = 2",
    "WHERE a.x % 2 = b.x % 2 AND (a.x * b.x) % 3 != c.x",
]


@pytest.mark.parametrize("ties", ["ARRIVAL", "STRICT", "ANY"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_every_order_gives_the_same_matches(structure: str, ties: str) -> None:
    table = events_table(TIED)
    for place, condition in enumerate(CONDITIONS):
        pattern = pattern_of(f"PATTERN {structure} {condition} WITHIN 2 seconds TIES {ties}")
        answer = expected(pattern, table)
        events = prepare(pattern, table)
        for order in orders_of(pattern.clauses[0], place):
            assert found(pattern, events, [order], block_rows=7) == answer, (condition, order)


@pytest.mark.parametrize("ties", ["ARRIVAL", "STRICT", "ANY"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_slice_between_events_of_one_time_owns_by_the_stream_order(structure: str, ties: str) -> None:
    pattern = pattern_of(f"PATTERN {structure} WITHIN 2 seconds TIES {ties}")
    events = prepare(pattern, events_table(TIED))
    answer = expected(pattern, events.table)
    points = boundaries_of(events)
    for order in (["a", "b", "c"], ["c", "b", "a"]) if len(pattern.operands) == 3 else (["b", "d", "a", "c"],):
        for place, owned in enumerate(pairwise([*points, None])):
            mine = [match for match in answer if max(row for _, row in match) == place]
            assert found(pattern, events, [order], owned) == mine


@pytest.mark.parametrize(
    "condition",
    [
        "a.x < b.x",
        "a.x <= b.y",
        "a.x != b.x",
        "a.y != b.y",
        "a.s < b.s",
        "a.s = b.s",
        "a.s != b.s",
        "a.f = b.f",
        "a.f != b.f",
        "a.x = b.x",
        "a.x = b.y",
        "a.y = b.y",
        "a.x BETWEEN b.x AND b.y",
        "a.x NOT BETWEEN b.x AND b.y",
        "a.s BETWEEN b.s AND 'q'",
        "a.x + b.x > 3",
        "b.x - a.x < a.y",
        "a.x * b.y >= b.x / a.x",
        "-a.x + abs(b.x) < sqrt(a.y + b.y)",
        "a.x + b.x > a.x - 1",
        "a.x % b.x = 0",
        "ln(a.y + b.y) > 1",
        "corr(a.h, b.h) > 0.1",
        "a.x + b.x IN (1, 2, 3)",
        "a.x > 3 OR b.x < a.y OR 1 = 2",
        "a.x > 3 OR 1 < 2",
        "1 > 2",
        "a.timestamp + 500 > b.timestamp OR a.seq > 3",
        "a.x = a.y AND a.x = b.x",
        "a.x = b.x AND a.id = b.x AND b.y = a.x",
    ],
)
def test_conditions_on_edge_values(condition: str) -> None:
    big, top = 2**53, 2**63
    integers = [None, 0, 1, -1, 3, big, big + 1, -big - 1, top - 1, -top]
    reals = [None, float("nan"), 0.0, -0.0, 1.0, float(big), float(big + 2), float("inf"), -float("inf"), float(top)]
    stream = [
        {
            "timestamp": place // 3,
            "kind": "AB"[place % 2],
            "x": integers[place % 10 if place < 40 else (place * 7) % 6],
            "y": reals[(place * 3 + place // 10) % 10],
            "id": place % 3 or None,
            "s": [None, "", "p", "q", "é", "z\U0001f600", "\uffff"][(place * 5 + place // 7) % 7],
            "f": [None, True, False][(place + place // 3) % 3],
            "h": [None, [1.0, 2.0, 3.0], [1.0, None, 2.0], [3.0, 1.0, 2.0], [1.0, 1.0, 1.0], [2.0, 1.0]][place % 6],
        }
        for place in range(60)
    ]
    table = events_table(stream)
    pattern = pattern_of(f"PATTERN AND(A a, B b) WHERE {condition} WITHIN 1 day")
    answer = expected(pattern, table)
    events = prepare(pattern, table)
    assert found(pattern, events, [("a", "b")]) == answer
    assert found(pattern, events, [("b", "a")], block_rows=5) == answer


@pytest.mark.parametrize(
    "condition", ["a.x * b.x > a.id * b.id", "a.x * b.x - a.id * b.id = 1", "a.x * b.x * b.x != 0"]
)
def test_arithmetic_that_float64_would_round(condition: str) -> None:
    """Every value is exact in float64, but products are not, and some exceed int64, which makes them null."""
    large = [2**27 + 1, 2**27 - 1, 2**27, 2**32, 2**32 + 1, 94_906_267, 0, 1]
    stream = [
        {"timestamp": place, "kind": "AB"[place % 2], "x": large[place % 8], "id": large[(place * 3 + place // 8) % 8]}
        for place in range(48)
    ]
    table = events_table(stream)
    pattern = pattern_of(f"PATTERN AND(A a, B b) WHERE {condition} WITHIN 1 day")
    answer = expected(pattern, table)
    assert answer
    assert found(pattern, prepare(pattern, table)) == answer


def test_conditions_over_three_variables_filter_between_stages() -> None:
    stream = [
        {
            "timestamp": place,
            "kind": "ABC"[place % 3],
            "x": (place * 11) % 7,
            "y": float((place * 5) % 9),
            "id": place % 2,
        }
        for place in range(36)
    ]
    table = events_table(stream)
    pattern = pattern_of(
        "PATTERN SEQ(A a, B b, C c, A d) WHERE a.x % b.x = 1 AND a.x * b.x % c.x != 2 AND c.y < d.y "
        "AND ln(c.y + d.y) > 2 WITHIN 24 us"
    )
    answer = expected(pattern, table)
    assert answer
    for order in orders_of(pattern.clauses[0]):
        events = prepare(pattern, table)
        assert found(pattern, events, [order], block_rows=4) == answer
        half = boundaries_of(events)[17]
        parts = [found(pattern, events, [order], owned, 4) for owned in ((None, half), (half, None))]
        assert sorted(parts[0] + parts[1]) == answer


@pytest.mark.parametrize("operator", ["SEQ", "AND"])
def test_many_variables(operator: str) -> None:
    names = "abcdefghijklmnopqrstuvwx"[: 22 if operator == "SEQ" else 7]
    stream = [{"timestamp": place, "kind": f"T{place % len(names)}", "x": place} for place in range(len(names) + 3)]
    operands = ", ".join(f"T{place} {name}" for place, name in enumerate(names))
    pattern = pattern_of(f"PATTERN {operator}({operands}) WHERE {names[0]}.x < {names[-1]}.x WITHIN 1 second")
    table = events_table(stream)
    answer = expected(pattern, table)
    assert answer
    for order in (names, names[::-1], names[::2] + names[1::2]):
        assert found(pattern, prepare(pattern, table), [tuple(order)], block_rows=2) == answer
