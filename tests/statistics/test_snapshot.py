"""Snapshots: what they refuse, their JSON form, and what they answer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep_pipeline.errors import InputError, PlanError
from cep_pipeline.statistics import Kind, LeafRate, Selectivity, Source, StatisticsSnapshot
from tests.statistics.market import parse

rates = st.builds(
    LeafRate,
    st.text(max_size=8),
    st.floats(0, 1e12, allow_nan=False),
    st.none() | st.integers(0, 10**12),
    st.sampled_from(Source),
)
selectivities = st.builds(
    lambda condition, value, tested, more, source: Selectivity(condition, value, tested + more, tested, source),
    st.text(max_size=8),
    st.floats(0, 1),
    st.integers(0, 10**6),
    st.integers(0, 10**12),
    st.sampled_from(Source),
)
snapshots = st.builds(
    lambda events, start, length, rates, selectivities: StatisticsSnapshot(
        "s", events, start, start + length, tuple(rates), tuple(selectivities)
    ),
    st.integers(0, 10**9),
    st.integers(-(10**15), 10**15),
    st.integers(0, 10**12),
    st.lists(rates, max_size=5, unique_by=lambda rate: rate.leaf),
    st.lists(selectivities, max_size=5, unique_by=lambda selectivity: selectivity.condition),
)


@given(snapshots)
def test_json_round_trip(snapshot: StatisticsSnapshot) -> None:
    text = json.dumps(snapshot.to_json(), allow_nan=False)
    again = StatisticsSnapshot.from_json(json.loads(text))
    assert again == snapshot
    assert again.digest == snapshot.digest


def test_the_digest_depends_on_every_number_and_not_on_the_order() -> None:
    a, b = LeafRate("A", 1.0), LeafRate("B", 2.0)
    one = StatisticsSnapshot(rates=(a, b))
    assert one.digest == StatisticsSnapshot(rates=(b, a)).digest
    assert one.digest != StatisticsSnapshot(rates=(a, LeafRate("B", 2.0000001))).digest
    assert one.digest != StatisticsSnapshot(rates=(a, b), events=1).digest


@pytest.mark.parametrize(
    "make",
    [
        lambda: LeafRate("A", -1.0),
        lambda: LeafRate("A", float("nan")),
        lambda: LeafRate("A", float("inf")),
        lambda: LeafRate("A", 1.0, -1),
        lambda: Selectivity("c", 1.5),
        lambda: Selectivity("c", float("nan")),
        lambda: Selectivity("c", 0.5, pairs=1, tested=2),
        lambda: StatisticsSnapshot(start_us=1),
        lambda: StatisticsSnapshot(start_us=2, end_us=1),
        lambda: StatisticsSnapshot(events=-1),
        lambda: StatisticsSnapshot(rates=(LeafRate("A", 1.0), LeafRate("A", 2.0))),
    ],
)
def test_wrong_numbers_are_refused(make: object) -> None:
    with pytest.raises(ValueError):
        make()  # type: ignore[operator]


@pytest.mark.parametrize(
    "content",
    [
        [],
        {},
        {"version": 2},
        {**StatisticsSnapshot().to_json(), "version": 1},
        {**StatisticsSnapshot().to_json(), "rates": [{"leaf": "A"}]},
        {**StatisticsSnapshot().to_json(), "rates": 3},
        {**StatisticsSnapshot(rates=(LeafRate("A", 1.0),)).to_json(), "events": -1},
    ],
)
def test_json_of_something_else_is_an_input_error_that_names_the_file(content: object) -> None:
    with pytest.raises(InputError, match=r"day\.json"):
        StatisticsSnapshot.from_json(content, "day.json")  # type: ignore[arg-type]


def test_a_leaf_that_was_not_measured_is_named() -> None:
    (pattern,) = parse("NAME rise PATTERN SEQ(A a, B b) WHERE b.price > 3 WITHIN 1 second")
    (clause,) = pattern.clauses
    snapshot = StatisticsSnapshot(rates=(LeafRate("A", 1.0),))
    assert snapshot.rate(pattern, clause, "a").per_s == 1.0
    with pytest.raises(PlanError, match=r"'B where x\.price > 3'.*rise.*estimate"):
        snapshot.rate(pattern, clause, "b")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a.price = b.price", 0.1),
        ("a.price != b.price", 0.9),
        ("a.price < b.price", 1 / 3),
        ("a.price BETWEEN b.price AND 2 * b.price", 1 / 4),
        ("a.price NOT BETWEEN b.price AND 2 * b.price", 3 / 4),
        ("a.price - b.price IN (1, 2)", 0.2),
        ("a.price = b.price OR a.diff = b.diff", 1 - 0.9**2),
    ],
)
def test_a_condition_that_was_not_measured_has_a_prior_by_its_form(condition: str, expected: float) -> None:
    (pattern,) = parse(f"PATTERN AND(A a, B b) WHERE {condition} WITHIN 1 second")
    (clause,) = pattern.written_clauses
    found = StatisticsSnapshot().selectivity(pattern, clause, clause.conjuncts[0])
    assert found.value == pytest.approx(expected)
    assert found.source is Source.PRIOR


def test_all_that_a_snapshot_of_a_business_day_holds_comes_back() -> None:
    snapshot = StatisticsSnapshot(
        "s",
        10,
        0,
        86_400_000_000,
        (LeafRate("A", 1.0, 10, Source.WINDOW, 0.9, 1.1, 4.0),),
        (Selectivity("c", 0.5, 100, 10, Source.SAMPLED_PAIRS, 0.2, 0.8),),
        kind=Kind.BUSINESS_DAY,
        window_us=60_000_000,
        as_of_us=86_400_000_000,
        windows=4,
        notes=("a note",),
    )
    again = StatisticsSnapshot.from_json(json.loads(json.dumps(snapshot.to_json())))
    assert again == snapshot
    assert again.span_s == 60.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: LeafRate("A", 1.0, low=0.5),
        lambda: LeafRate("A", 1.0, low=1.5, high=2.0),
        lambda: Selectivity("c", 0.5, low=0.1, high=0.4),
        lambda: StatisticsSnapshot(window_us=5),
        lambda: StatisticsSnapshot(kind=Kind.WINDOW),
        lambda: StatisticsSnapshot(kind=Kind.WINDOW, window_us=5, window_events=5),
        lambda: StatisticsSnapshot(confidence=1.0),
    ],
)
def test_intervals_and_windows_that_cannot_be_are_refused(make: object) -> None:
    with pytest.raises(ValueError):
        make()  # type: ignore[operator]
