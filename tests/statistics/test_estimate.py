"""Estimates: exact where they can be, equal to the oracle's counts, and the same whatever the slices."""

from __future__ import annotations

import json
import random
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.errors import InputError
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Ties, Window
from cep_pipeline.slices.order import StreamOrder
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics import (
    PartialStatistics,
    Selectivity,
    Source,
    StatisticsSnapshot,
    estimate_statistics,
    partial_statistics,
)
from cep_pipeline.statistics.estimate import rough_statistics, snapshot_of
from cep_pipeline.statistics.tuples import FirstEvents, draw_pairs
from tests import streams
from tests.oracle.answer import evaluate
from tests.pattern_strategies import ANY_MATCH_LANGUAGE, Statement, statements
from tests.statistics.market import market, parse
from tests.thoroughness import examples


def rates(snapshot: StatisticsSnapshot) -> dict[str, tuple[int | None, float]]:
    return {rate.leaf: (rate.count, rate.per_s) for rate in snapshot.rates}


def test_rates_are_counts_over_the_span_of_the_data() -> None:
    events = market(101)  # 100 ms apart: 10 seconds
    symbols = events.column("symbol").to_pylist()
    prices = events.column("price").to_pylist()
    patterns = parse("PATTERN SEQ(A a, ~B b, Stock c) WHERE a.price > 50 WITHIN 1 second")
    snapshot = estimate_statistics(patterns, events)
    high = sum(symbol == "A" and price > 50 for symbol, price in zip(symbols, prices, strict=True))
    assert rates(snapshot) == {
        "A where x.price > 50": (high, high / 10),
        "B": (symbols.count("B"), symbols.count("B") / 10),
        "Stock": (101, 10.1),
    }
    assert (snapshot.events, snapshot.span_s, snapshot.stream) == (101, 10.0, "market")
    assert {rate.source for rate in snapshot.rates} == {Source.COUNT}


def test_a_type_that_never_comes_has_rate_zero_and_its_conditions_no_number() -> None:
    patterns = parse("PATTERN SEQ(A a, Missing b) WHERE a.diff < b.diff WITHIN 1 second")
    snapshot = estimate_statistics(patterns, market(50))
    assert rates(snapshot)["Missing"] == (0, 0.0)
    assert snapshot.selectivities == ()
    (clause,) = patterns[0].clauses
    assert snapshot.selectivity(patterns[0], clause, clause.conjuncts[0]).source is Source.PRIOR


@pytest.mark.parametrize("events", [0, 1])
def test_no_span(events: int) -> None:
    patterns = parse("PATTERN SEQ(Stock a, Stock b) WHERE a.diff < b.diff WITHIN 1 second")
    snapshot = estimate_statistics(patterns, market(events))
    assert rates(snapshot) == {"Stock": (events, float(events))}
    assert snapshot.selectivities == ()
    assert StatisticsSnapshot.from_json(json.loads(json.dumps(snapshot.to_json()))) == snapshot


def test_patterns_of_several_streams_are_refused() -> None:
    other = StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string"}}, name="other")
    patterns = [*parse("PATTERN A a WITHIN 1 second"), *parse_patterns("PATTERN A b WITHIN 1 second", other)]
    with pytest.raises(InputError, match="market, other"):
        estimate_statistics(patterns, market(3))
    with pytest.raises(InputError, match="none"):
        estimate_statistics([], market(3))


def test_at_least_one_pair() -> None:
    with pytest.raises(InputError, match="max_pairs"):
        estimate_statistics(parse("PATTERN A a WITHIN 1 second"), market(3), max_pairs=0)


def condition_of(text: str, events: pa.Table, **options: Any) -> Selectivity:
    (pattern,) = parse(text)
    snapshot = estimate_statistics([pattern], events, **options)
    (clause,) = pattern.clauses
    return snapshot.selectivity(pattern, clause, clause.conjuncts[0])


def test_a_sample_is_near_the_whole_and_says_what_it_rests_on() -> None:
    text = "PATTERN SEQ(A a, B b) WHERE a.price + 20 < b.price WITHIN 20 seconds"
    events = market(3000)
    whole = condition_of(text, events, max_pairs=10**9)
    sample = condition_of(text, events, max_pairs=4000)
    assert (whole.source, whole.tested) == (Source.ALL_PAIRS, whole.pairs)
    assert (sample.source, sample.tested, sample.pairs) == (Source.SAMPLED_PAIRS, 4000, whole.pairs)
    assert sample.value == pytest.approx(whole.value, abs=5 * (0.25 / 4000) ** 0.5)


def test_a_sample_of_one_type_with_itself_holds_no_event_twice() -> None:
    text = "PATTERN AND(Stock a, Stock b) WHERE a.timestamp = b.timestamp WITHIN 1 second"
    sample = condition_of(text, market(500), max_pairs=1000)
    assert sample.value == 0
    assert 900 < sample.tested <= 1000
    assert sample.pairs == sum(min(i, 10) + min(499 - i, 10) for i in range(500))


def test_the_same_seed_gives_the_same_snapshot_and_another_seed_another_sample() -> None:
    patterns = parse("PATTERN SEQ(A a, B b) WHERE a.diff < b.diff WITHIN 20 seconds")
    events = market(2000)
    one = estimate_statistics(patterns, events, seed=1, max_pairs=500)
    assert one == estimate_statistics(patterns, events, seed=1, max_pairs=500)
    assert one != estimate_statistics(patterns, events, seed=2, max_pairs=500)


def test_a_number_does_not_depend_on_what_else_is_estimated() -> None:
    events = market(2000)
    alone = parse("NAME p PATTERN SEQ(A a, B b) WHERE a.diff < b.diff WITHIN 20 seconds")
    more = parse("PATTERN AND(C c, Stock s) WHERE c.diff < s.diff WITHIN 9 seconds")
    (expected,) = estimate_statistics(alone, events, max_pairs=500).selectivities
    assert expected in estimate_statistics([*more, *alone], events, max_pairs=500).selectivities


@st.composite
def pair_statements(draw: st.DrawFn) -> tuple[str, str]:
    """A statement of two variables, without and with one condition between them."""
    operator = draw(st.sampled_from(["SEQ", "AND"]))
    one, other = draw(st.sampled_from(streams.TYPES)), draw(st.sampled_from([*streams.TYPES, "Ev"]))
    window = draw(st.sampled_from(["1 second", "3 seconds", "1 EVENTS", "4 EVENTS", "1 hour"]))
    ties = draw(st.sampled_from(["ARRIVAL", "STRICT", "ANY"]))
    condition = draw(
        st.sampled_from(
            [
                "a.x < b.x",
                "a.y <= b.y",
                "a.s = b.s",
                "a.x + b.x > 3 OR a.y = b.y",
                "a.x BETWEEN b.x AND 5",
                "NOT (a.y = b.y)",
            ]
        )
    )
    text = f'PATTERN {operator}("{one}" a, "{other}" b) {{}} WITHIN {window} TIES {ties}'
    return text.format(""), text.format(f"WHERE {condition}")


@settings(max_examples=examples(200), deadline=None)
@given(pair_statements(), streams.rows(max_size=14))
def test_selectivities_are_the_oracles_when_all_pairs_are_tested(texts: tuple[str, str], rows: list[Any]) -> None:
    events = streams.events_table(rows)
    without, conditioned = (parse_patterns(text, streams.stream_schema()) for text in texts)
    pairs, passing = (len(evaluate(patterns, events)) for patterns in (without, conditioned))
    (clause,) = conditioned[0].written_clauses
    found = estimate_statistics(conditioned, events).selectivity(conditioned[0], clause, clause.conjuncts[0])
    if pairs:
        assert (found.pairs, found.tested, found.source) == (pairs, pairs, Source.ALL_PAIRS)
        assert found.value == pytest.approx(passing / pairs)
    else:
        assert found.source is Source.PRIOR


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(statements(ANY_MATCH_LANGUAGE), min_size=1, max_size=2), streams.rows(max_size=12), st.randoms())
def test_slices_add_up_to_the_whole(texts: list[Statement], rows: list[Any], draw: random.Random) -> None:
    events = streams.events_table(rows)
    patterns = [
        pattern
        for index, statement in enumerate(texts)
        for pattern in parse_patterns(f"NAME p{index} {statement.text}", streams.stream_schema(), statement.params)
    ]
    timestamps = events.column("timestamp").cast(pa.int64()).to_pylist()
    points = sorted(zip(timestamps, events.column("seq").to_pylist(), strict=True))
    cuts = sorted(draw.sample(points, min(len(points), 3)))
    bounds = [None, *cuts, None]
    parts = [partial_statistics(patterns, events, start=start, end=end) for start, end in pairwise(bounds)]
    whole = estimate_statistics(patterns, events)
    assert snapshot_of(reduce(add, parts)) == whole


def test_a_slice_needs_no_more_than_its_look_back() -> None:
    patterns = parse("PATTERN AND(A a, B b) WHERE a.diff < b.diff WITHIN 1 second")
    events = market(300)
    seqs = events.column("seq").to_pylist()
    parts = []
    for first in range(0, 300, 50):
        start = (first * 100_000, seqs[first])
        end = ((first + 50) * 100_000, 0) if first < 250 else None
        look_back = max(first - 10, 0)
        parts.append(
            partial_statistics(patterns, events.slice(look_back, first + 50 - look_back), start=start, end=end)
        )
    assert snapshot_of(reduce(add, parts)) == estimate_statistics(patterns, events)


def test_sampled_slices_are_weighed_by_their_pairs() -> None:
    text = "PATTERN SEQ(A a, B b) WHERE a.price < b.price WITHIN 5 seconds"
    patterns, events = parse(text), market(4000)
    bounds = [None, (100 * 100_000, 0), None]
    parts = [
        partial_statistics(patterns, events, start=start, end=end, max_pairs=2000) for start, end in pairwise(bounds)
    ]
    (found,) = snapshot_of(reduce(add, parts)).selectivities
    (exact,) = estimate_statistics(patterns, events, max_pairs=10**9).selectivities
    assert found.pairs == exact.pairs
    assert found.source is Source.SAMPLED_PAIRS
    assert found.value == pytest.approx(exact.value, abs=5 * (0.25 / 2000) ** 0.5)


def test_parts_of_several_streams_do_not_combine() -> None:
    part = partial_statistics(parse("PATTERN A a WITHIN 1 second"), market(3))
    other = PartialStatistics("other", 0, None, None, {}, {})
    with pytest.raises(InputError, match="other"):
        add(part, other)


def test_events_out_of_order_are_refused() -> None:
    with pytest.raises(InputError, match="order of time"):
        estimate_statistics(parse("PATTERN A a WITHIN 1 second"), market(9).take([3, 2, 1]))


def test_what_patterns_share_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cost grows with different questions, not with patterns: thirty that ask the same cost as much as one."""
    from cep_pipeline.statistics import samples

    asked: list[object] = []
    evaluate_conjunct = samples.conjunct_holds

    def counted(conjunct: Any, *arguments: Any) -> Any:
        asked.append(conjunct)
        return evaluate_conjunct(conjunct, *arguments)

    monkeypatch.setattr(samples, "conjunct_holds", counted)
    conditions = "a{}.price > 9 AND b{}.price > 9 AND a{}.diff < b{}.diff"
    text = f"NAME p{{}} PATTERN SEQ(A a{{}}, B b{{}}, C c) WHERE {conditions} WITHIN 1 second"
    evaluations = []
    for number in (1, 30):
        asked.clear()
        estimate_statistics(parse(";".join(text.replace("{}", str(n)) for n in range(number))), market(200))
        evaluations.append(len(asked))
    assert evaluations[0] == evaluations[1] >= 3


@settings(max_examples=examples(100), deadline=None)
@given(
    times=st.lists(st.integers(0, 12), min_size=1, max_size=30).map(sorted),
    data=st.data(),
    window=st.sampled_from([Window(time_us=1), Window(time_us=3), Window(events=1), Window(events=4)]),
    ordered=st.booleans(),
    ties=st.sampled_from(Ties),
)
def test_pairs_are_those_of_the_window_and_the_order(
    times: list[int], data: st.DataObject, window: Window, ordered: bool, ties: Ties
) -> None:
    timestamps = np.array(times, np.int64)
    rows = st.sets(st.integers(0, len(times) - 1), min_size=1).map(sorted)
    first, second = (np.array(data.draw(rows), np.int32) for _ in range(2))
    begin = data.draw(st.integers(0, len(times)))
    end = data.draw(st.integers(begin, len(times)))
    order = StreamOrder(timestamps, ties)

    def is_pair(one: int, other: int) -> bool:
        apart = abs(times[other] - times[one]) if window.time_us is not None else abs(other - one) + 1
        in_order = not ordered or bool(order.holds(np.array([one]), np.array([other]))[0])
        return (
            one != other and begin <= max(one, other) < end and apart <= (window.time_us or window.events) and in_order
        )

    found = FirstEvents(timestamps, first, (begin, end)).ranges(second, window=window, ordered=ordered, ties=ties)
    pairs = list(zip(*(rows.tolist() for rows in draw_pairs(found, 10**6, np.random.SeedSequence(2))), strict=True))
    assert pairs == [(one, other) for one in first for other in second if is_pair(int(one), int(other))]
    assert found.count == len(pairs)


def test_of_events_at_one_instant_a_count_window_takes_neighbours() -> None:
    times, rows = np.zeros(5, np.int64), np.arange(5, dtype=np.int32)
    found = FirstEvents(times, rows).ranges(rows, window=Window(events=2), ordered=True, ties=Ties.ANY)
    firsts, seconds = draw_pairs(found, 100, np.random.SeedSequence(1))
    assert {*zip(firsts.tolist(), seconds.tolist(), strict=True)} == {
        (one, other) for one in range(5) for other in range(5) if abs(one - other) == 1
    }


def test_rough_statistics_are_near_the_whole() -> None:
    patterns = parse(
        "PATTERN SEQ(Stock a, Stock b) WHERE a.price + 20 < b.price WITHIN 2 seconds;"
        "PATTERN AND(A a, Stock b) WHERE a.diff < b.diff AND a.price > 50 WITHIN 20 EVENTS",
    )
    events = market(30_000)
    whole = estimate_statistics(patterns, events, max_pairs=10**9)
    prepared = PreparedEvents(events, type_attribute=patterns[0].type_attribute, base_type=patterns[0].base_type)
    rough = rough_statistics(patterns, prepared)
    assert rates(rough) == rates(whole)
    for pattern in patterns:
        (clause,) = pattern.clauses
        for conjunct in clause.conjuncts:
            if len(conjunct.variables) == 2:
                near, exact = (of.selectivity(pattern, clause, conjunct) for of in (rough, whole))
                assert near.source is Source.SAMPLED_PAIRS
                assert near.value == pytest.approx(exact.value, abs=0.03)
                assert near.pairs == pytest.approx(exact.pairs, rel=0.05)
    assert rough == rough_statistics(patterns, prepared)
    alone = rough_statistics(patterns[1:], prepared)
    assert set(alone.selectivities) <= set(rough.selectivities)
