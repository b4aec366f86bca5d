"""Conditions over lists and larger tuples: equal to the oracle's counts where all are looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.statistics import Source, estimate_statistics
from cep_pipeline.statistics.terms import tuple_of
from tests import streams
from tests.oracle.answer import evaluate
from tests.statistics.market import market, parse
from tests.thoroughness import examples

ORDERS = ["SEQ(A a, B b, C c)", "AND(A a, B b, C c)", "SEQ(A a, AND(B b, C c))", "SEQ(AND(A a, Ev b), C c)"]
THREE = ["a.x + b.x > c.x", "a.y + b.y <= c.y OR a.x = c.x", "c.x BETWEEN a.x AND b.x"]
LISTS = ["SEQ(A a, Ev+ b[])", "AND(A a, Ev+ b[])", "SEQ(KL(Ev b), A a)", "KL(B b)", "SEQ(A a, B+ b[], C c)"]
ONE_LIST = ["b.LEN > 2", "b[i].x > b[i-1].x", "sum(b[].x) > 3", "b[i].y > avg(b[..i-1].y)"]
WITH_A = ["sum(b[].x) > a.x", "b[i].x > a.x", "a.x + b.LEN > 2"]


@st.composite
def tuple_statements(draw: st.DrawFn) -> tuple[str, str]:
    """A statement all of whose variables are in one condition, without and with it."""
    if draw(st.booleans()):
        structure, condition = draw(st.sampled_from(ORDERS)), draw(st.sampled_from(THREE))
    else:
        structure = draw(st.sampled_from(LISTS[:4]))
        condition = draw(st.sampled_from(ONE_LIST if structure == "KL(B b)" else WITH_A))
    window = draw(st.sampled_from(["1 second", "3 seconds", "4 EVENTS", "1 hour"]))
    ties = draw(st.sampled_from(["ARRIVAL", "STRICT", "ANY"]))
    text = f"PATTERN {structure} {{}} WITHIN {window} TIES {ties}"
    return text.format(""), text.format(f"WHERE {condition}")


@settings(max_examples=examples(200), deadline=None)
@given(tuple_statements(), streams.rows(max_size=9))
def test_selectivities_are_the_oracles_when_all_tuples_are_tested(texts: tuple[str, str], rows: list[Any]) -> None:
    events = streams.events_table(rows)
    without, conditioned = (parse_patterns(text, streams.stream_schema()) for text in texts)
    tuples, passing = (len(evaluate(patterns, events)) for patterns in (without, conditioned))
    (clause,) = conditioned[0].clauses
    assert tuple_of(conditioned[0], clause, clause.conjuncts[0]) is not None
    found = estimate_statistics(conditioned, events).selectivity(conditioned[0], clause, clause.conjuncts[0])
    if tuples:
        assert (found.pairs, found.tested, found.source) == (tuples, tuples, Source.ALL_PAIRS)
        assert found.value == pytest.approx(passing / tuples)
    else:
        assert found.source is Source.PRIOR


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN SEQ(A a, B b, C c) WHERE a.diff + b.diff < c.diff WITHIN 3 seconds",
        "PATTERN AND(A a, B b, Stock s) WHERE a.price < b.price + s.price WITHIN 20 EVENTS",
        "PATTERN SEQ(A a, KL(C c)) WHERE avg(c[].price) > a.price WITHIN 4 seconds",
        "PATTERN KL(C c) WHERE c[i].diff > c[i-1].diff WITHIN 8 seconds",
    ],
)
def test_sampled_tuples_have_the_true_share_in_their_intervals(text: str) -> None:
    (pattern,) = parse(text)
    (clause,) = pattern.clauses
    events = market(400)
    draws = [
        estimate_statistics([pattern], market(800), seed=seed, max_pairs=300).selectivity(
            pattern, clause, clause.conjuncts[0]
        )
        for seed in range(40)
    ]
    assert {found.source for found in draws} <= {Source.SAMPLED_PAIRS, Source.ALL_PAIRS}
    centre = float(np.mean([found.value for found in draws]))
    held = sum(found.low <= centre <= found.high for found in draws if found.low is not None and found.high is not None)
    assert held >= 34  # of 40, where 38 are expected
    whole = estimate_statistics([pattern], events).selectivity(pattern, clause, clause.conjuncts[0])
    assert 0 < whole.value < 1


def test_long_lists_are_drawn_from_a_run_of_events() -> None:
    (pattern,) = parse("PATTERN SEQ(A a, Stock+ s[]) WHERE s.LEN > 12 WITHIN 1 hour")
    (clause,) = pattern.clauses
    found = estimate_statistics([pattern], market(2000)).selectivity(pattern, clause, clause.conjuncts[0])
    assert (found.value, found.source) == (0.0, Source.SAMPLED_PAIRS)
    assert found.high is not None
    assert found.high < 0.01


def test_two_lists_share_no_event() -> None:
    (pattern,) = parse("PATTERN AND(KL(Stock s), KL(Stock t)) WHERE sum(s[].price) = sum(t[].price) WITHIN 500 ms")
    (clause,) = pattern.clauses
    prices = market(6).column("price").to_pylist()
    found = estimate_statistics([pattern], market(6)).selectivity(pattern, clause, clause.conjuncts[0])
    lists = [{place for place in range(6) if bits >> place & 1} for bits in range(1, 64)]
    pairs = [(s, t) for s in lists for t in lists if not s & t]
    sums = [(sum(prices[i] for i in sorted(s)), sum(prices[i] for i in sorted(t))) for s, t in pairs]
    assert (found.pairs, found.value) == (len(pairs), sum(one == other for one, other in sums) / len(pairs))
