"""From a pattern and a snapshot to the numbers that planners see."""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_questions import clause_statistics, series_groups
from cep_pipeline.planning.clause_statistics import ClauseStatistics, ln_partial_matches
from cep_pipeline.statistics import LeafRate, Selectivity, Source, StatisticsSnapshot, estimate_statistics
from tests.statistics.market import SCHEMA, parse


def numbers(text: str, *selectivities: Selectivity, **rates: float) -> ClauseStatistics:
    """The numbers of the only clause of a pattern, with given rates a second in 10 s of 1,000 events."""
    (pattern,) = parse(text)
    snapshot = StatisticsSnapshot(
        events=1000,
        start_us=0,
        end_us=10_000_000,
        rates=tuple(LeafRate(leaf, per_s) for leaf, per_s in rates.items()),
        selectivities=selectivities,
    )
    return clause_statistics(pattern, pattern.clauses[0], snapshot)


def instances(statistics: ClauseStatistics) -> list[float]:
    return [math.exp(number) for number in statistics.ln_instances]


def test_instances_are_rate_times_window() -> None:
    statistics = numbers("PATTERN SEQ(A a, B b) WITHIN 500 ms", A=4.0, B=30.0)
    assert statistics.names == ("a", "b")
    assert instances(statistics) == pytest.approx([2.0, 15.0])
    assert statistics.sequences == (((0,), (1,)),)


def test_count_windows_hold_a_share_of_all_events() -> None:
    statistics = numbers("PATTERN AND(A a, Stock s) WITHIN 50 EVENTS", A=4.0, Stock=100.0)
    assert instances(statistics) == pytest.approx([2.0, 50.0])


def test_kleene_variables_count_their_lists() -> None:
    statistics = numbers("PATTERN SEQ(A a, B+ b[], C+ c[]) WITHIN 1 second", A=1.0, B=3.0, C=0.001)
    assert instances(statistics) == pytest.approx([1.0, 7.0, 2**0.001 - 1])
    million = numbers("PATTERN SEQ(A a, B+ b[]) WITHIN 1 second", A=1.0, B=1e6)
    assert million.ln_instances[1] == pytest.approx(1e6 * math.log(2))


@pytest.mark.parametrize("strategy", ["skip_till_next_match", "partition_contiguity", "strict_contiguity"])
@pytest.mark.parametrize(("kleene", "lists"), [("B+", 6.0), ("B{2,3}", 1.0), ("B{3,9}", 8 / 27)])
def test_lists_of_neighbours_are_told_by_their_ends(strategy: str, kleene: str, lists: float) -> None:
    text = f"PATTERN SEQ(A a, {kleene} b[]) WHERE {strategy} {{ a.price > 0 }} WITHIN 1 second"
    rates = {"A where x.price > 0": 1.0, "B": 2.0 if kleene != "B+" else math.sqrt(13) - 1}
    assert instances(numbers(text, **rates))[1] == pytest.approx(lists)


def test_nothing_seen_is_planned_as_half_an_event_and_half_a_pair() -> None:
    key = "(A) before (B) within 1 s: x.diff < y.diff"
    never = Selectivity(key, 0.0, pairs=99, tested=99, source=Source.ALL_PAIRS)
    statistics = numbers("PATTERN SEQ(A a, B b) WHERE a.diff < b.diff WITHIN 1 second", never, A=0.0, B=1.0)
    assert instances(statistics) == pytest.approx([0.05, 1.0])
    assert math.exp(statistics.conditions[0].ln_selectivity) == pytest.approx(0.005)


def test_negated_variables_and_their_conditions_are_no_part_of_the_order() -> None:
    text = "PATTERN SEQ(A a, ~B b, C c) WHERE a.diff < b.diff AND a.diff < c.diff WITHIN 1 second"
    statistics = numbers(text, A=1.0, B=5.0, C=2.0)
    assert statistics.names == ("a", "c")
    assert [condition.positions for condition in statistics.conditions] == [(0, 1)]
    assert statistics.sequences == (((0,), (1,)),)


def test_filters_belong_to_the_leaf_and_conditions_of_three_count_from_the_third() -> None:
    text = "PATTERN SEQ(A a, B b, C c) WHERE a.price > 3 AND a.diff + b.diff < c.diff WITHIN 1 second"
    statistics = numbers(text, **{"A where x.price > 3": 1.0, "B": 1.0, "C": 1.0})
    assert [condition.positions for condition in statistics.conditions] == [(0, 1, 2)]
    assert ln_partial_matches(statistics, (0, 1)) == pytest.approx(math.log(1 / 2))
    assert ln_partial_matches(statistics, (0, 1, 2)) == pytest.approx(math.log(1 / 6 / 3))


def test_agreement_counts_once_for_each_further_variable() -> None:
    statistics = numbers("PATTERN AND(A a, A b, A c) WHERE [sector] WITHIN 1 second", A=1.0)
    assert ln_partial_matches(statistics, (0, 1)) == pytest.approx(math.log(0.1))
    assert ln_partial_matches(statistics, (0, 1, 2)) == pytest.approx(2 * math.log(0.1))


@pytest.mark.parametrize(
    ("structure", "groups"),
    [
        ("A a", set()),
        ("AND(A a, B b)", set()),
        ("SEQ(A a, B b, C c)", {((0,), (1,), (2,))}),
        ("SEQ(A a, SEQ(B b, C c))", {((0,), (1,), (2,))}),
        ("SEQ(AND(A a, B b), C c)", {((0, 1), (2,))}),
        ("AND(SEQ(A a, B b), SEQ(C c, A d))", {((0,), (1,)), ((2,), (3,))}),
        ("SEQ(A a, AND(B b, SEQ(C c, A d)), B e)", {((0,), (1, 2, 3), (4,)), ((2,), (3,))}),
        ("SEQ(AND(A a, ~B b), C c)", {((0,), (1,))}),
    ],
)
def test_nested_orders_become_their_sequences(structure: str, groups: set[object]) -> None:
    (pattern,) = parse(f"PATTERN {structure} WITHIN 1 second")
    assert set(series_groups(pattern.clauses[0])) == groups


@given(st.integers(2, 10**9), st.data())
def test_a_smaller_window_never_raises_an_estimate(window_us: int, data: st.DataObject) -> None:
    smaller_us = data.draw(st.integers(1, window_us))
    rates = {name: data.draw(st.sampled_from([0.0, 1e-9, 1.0, 1e9])) for name in "ABC"}

    def estimate(length_us: int) -> list[float]:
        text = f"PATTERN SEQ(A a, B+ b[], C c) WHERE a.diff < c.diff WITHIN {length_us} us"
        statistics = numbers(text, **rates)
        return [ln_partial_matches(statistics, members) for members in ((0,), (1,), (0, 2), (0, 1, 2))]

    for larger, smaller in zip(estimate(window_us), estimate(smaller_us), strict=True):
        assert smaller <= larger + 1e-9


def test_the_estimate_counts_the_combinations_inside_one_window() -> None:
    """PM is a mean over windows: slide one over a stream without structure, and count."""
    draw = random.Random(11)
    times = sorted(draw.uniform(0, 4000e6) for _ in range(12_000))
    rows = [
        {"timestamp": int(time), "symbol": draw.choice("ABBCCC"), "diff": draw.gauss(0, 1)} for time in sorted(times)
    ]
    (pattern,) = parse("PATTERN SEQ(A a, AND(B b, C c)) WHERE a.diff < c.diff WITHIN 2 seconds")
    snapshot = estimate_statistics([pattern], SCHEMA.table(rows))
    expected = math.exp(ln_partial_matches(clause_statistics(pattern, pattern.clauses[0], snapshot), (0, 1, 2)))
    assert counted(pattern, rows) == pytest.approx(expected, rel=0.1)


def counted(pattern: Pattern, rows: list[dict[str, object]]) -> float:
    """Mean number of matches of `SEQ(A a, AND(B b, C c)) WHERE a.diff < c.diff` inside windows all over the rows."""
    times = [row["timestamp"] for row in rows]
    assert pattern.window.time_us is not None
    total, windows = 0, 0
    for start in range(0, 3_998_000_000, 500_000):
        inside = rows[bisect_left(times, start) : bisect_right(times, start + pattern.window.time_us)]  # type: ignore[type-var]
        windows += 1
        for index, first in enumerate(inside):
            if first["symbol"] == "A":
                later = inside[index + 1 :]
                frequent = sum(row["symbol"] == "B" for row in later)
                total += frequent * sum(row["symbol"] == "C" and first["diff"] < row["diff"] for row in later)  # type: ignore[operator]
    return total / windows
