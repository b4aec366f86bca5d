"""With independent selectivities a further conjunct or a smaller window never raises an estimate."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning import plan
from cep_pipeline.planning.costs import COSTS
from cep_pipeline.planning.plans import Plan
from cep_pipeline.statistics import LeafRate, Selectivity, Source, StatisticsSnapshot
from cep_pipeline.statistics.terms import format_conjunct, terms_of
from tests.statistics.market import parse
from tests.thoroughness import examples, part_of

STRUCTURES = {
    "SEQ(A a, B b, C c)": "abc",
    "AND(A a, B b, C c, A d)": "abcd",
    "SEQ(A a, ~B n, AND(B b, C c), A d)": "abcd",
    "SEQ(A a, B+ k[], C c)": "ac",
    "OR(SEQ(A a, B b), AND(C c, A d))": "abcd",
}
"""Structures, and their variables that bind one event."""


def conjuncts(names: str) -> list[str]:
    """Comparisons of each two of the variables, and tests of each alone; in an OR some belong to one clause only."""
    pairs = [f"{one}.diff < {other}.diff" for one in names for other in names if one < other]
    equal = [f"{one}.sector = {other}.sector" for one in names for other in names if one < other]
    return [*pairs, *equal, *(f"{name}.price > 20" for name in names), "[sector]"]


def snapshot(patterns: Sequence[Pattern], seed: int) -> StatisticsSnapshot:
    """The same rates of types and shares of conditions whatever the window, each drawn by what it is of."""

    def share(what: str) -> float:
        return 10 ** random.Random(f"{seed} {what}").uniform(-6, 0)

    leaves, conditions = terms_of(patterns)
    rates = {}
    for leaf in leaves:
        rate = 10 ** random.Random(f"{seed} {leaf.event_type}").uniform(-2, 4)
        for conjunct in leaf.filters:
            rate *= share(f"{leaf.event_type} {format_conjunct(conjunct)}")
        rates[leaf.key] = LeafRate(leaf.key, rate)
    shares = {}
    for condition in conditions:
        types = sorted((condition.scope.first.event_type, condition.scope.second.event_type))
        # Which event is the first of a pair depends on the filters of both.
        attributes = format_conjunct(condition.conjunct).replace("x.", "").replace("y.", "")
        value = share(f"{types} {attributes}")
        shares[condition.key] = Selectivity(condition.key, value, 10**6, 10**6, Source.ALL_PAIRS)
    return StatisticsSnapshot("market", 10**6, 0, 10**9, tuple(rates.values()), tuple(shares.values()))


def assert_not_above(smaller: Plan, larger: Plan) -> None:
    for one, other in zip(smaller.patterns[0].clauses, larger.patterns[0].clauses, strict=True):
        for step, before in zip(one.steps, other.steps, strict=True):
            assert step.ln_partial_matches <= before.ln_partial_matches + 1e-9
            assert step.ln_made <= before.ln_made + 1e-9
        assert one.ln_cost <= other.ln_cost + 1e-9
    assert smaller.ln_cost <= larger.ln_cost + 1e-9


def text_of(structure: str, chosen: Sequence[str], window: str) -> str:
    where = f" WHERE {' AND '.join(chosen)}" if chosen else ""
    return f"PATTERN {structure}{where} WITHIN {window}"


def assert_no_more(
    structure: str,
    chosen: Sequence[str],
    further: str,
    seed: int,
    cost: str,
    window: str = "2 seconds",
    alpha: float = 0.0,
) -> None:
    """Plan the pattern with the chosen conjuncts, and with a further one: no estimate is higher."""
    patterns = [*parse(text_of(structure, chosen, window)), *parse(text_of(structure, [*chosen, further], window))]
    known = snapshot(patterns, seed)
    before, after = (plan([pattern], known, "trivial", cost, alpha) for pattern in patterns)
    assert_not_above(after, before)


# In an OR some conditions are over several branches and constrain nothing, as the language warns.
every_cost = pytest.mark.parametrize("cost", sorted(COSTS))


@every_cost
@settings(deadline=None, max_examples=examples(40))
@given(
    structure=st.sampled_from(sorted(STRUCTURES)),
    draw=st.data(),
    window=st.sampled_from(["50 ms", "2 seconds", "1 hour", "7 events"]),
    seed=st.integers(0, 10**6),
    alpha=st.sampled_from([0.0, 0.7]),
)
def test_a_further_conjunct(
    cost: str, structure: str, draw: st.DataObject, window: str, seed: int, alpha: float
) -> None:
    every = conjuncts(STRUCTURES[structure])
    chosen = draw.draw(st.lists(st.sampled_from(every), max_size=4, unique=True))
    further = draw.draw(st.sampled_from([conjunct for conjunct in every if conjunct not in chosen]))
    assert_no_more(structure, chosen, further, seed, cost, window, 0.0 if cost == "latency" else alpha)


@every_cost
@settings(deadline=None, max_examples=examples(40))
@given(
    structure=st.sampled_from(["SEQ(A a, B b, C c)", "AND(A a, B b, C c, A d)", "SEQ(A a, ~B n, AND(B b, C c), A d)"]),
    draw=st.data(),
    seed=st.integers(0, 10**6),
)
def test_a_further_equality(cost: str, structure: str, draw: st.DataObject, seed: int) -> None:
    every = [conjunct for conjunct in conjuncts(STRUCTURES[structure]) if "sector" in conjunct]
    every.append("b.sector = a.sector")
    chosen = draw.draw(st.lists(st.sampled_from(every), max_size=4, unique=True))
    further = draw.draw(st.sampled_from([conjunct for conjunct in every if conjunct not in chosen]))
    assert_no_more(structure, chosen, further, seed, cost)


@every_cost
@pytest.mark.parametrize(
    ("structure", "chosen", "further"),
    [
        ("SEQ(A a, B b, C c)", ["a.sector = b.sector", "[sector]"], "a.sector = c.sector"),
        ("SEQ(A a, B b, C c)", ["[sector]"], "a.sector = b.sector"),
        (
            "AND(A a, B b, C c, A d)",
            ["a.sector = b.sector", "b.sector = c.sector", "a.sector = c.sector"],
            "a.sector = d.sector",
        ),
        ("AND(A a, B b, C c, A d)", ["a.sector = c.sector", "b.sector = c.sector"], "[sector]"),
        ("AND(A a, B b, C c, A d)", ["a.sector = b.sector"], "b.sector = a.sector"),
    ],
)
def test_equalities_that_follow_from_others(cost: str, structure: str, chosen: list[str], further: str) -> None:
    """They count once: beside agreement not at all, and of three of three events only two."""
    for seed in part_of(range(30), 0):
        assert_no_more(structure, chosen, further, seed, cost)


def test_an_equality_beside_agreement_changes_nothing_within_partitions() -> None:
    """Without agreement it makes no partition of its own."""
    alone, beside, other = (
        parse(f"PATTERN SEQ(A a, B b, C c) WHERE partition_contiguity {{ {written} }} WITHIN 2 seconds")[0]
        for written in ("[sector]", "[sector] AND a.sector = b.sector", "a.sector = b.sector AND b.sector = c.sector")
    )
    assert alone.clauses == beside.clauses
    assert other.clauses == other.written_clauses


@pytest.mark.parametrize("equalities", ["a.sector = b.sector", "a.sector = c.sector AND b.sector = c.sector"])
def test_an_equality_beside_agreement_changes_nothing(equalities: str) -> None:
    for same in ("[sector]", "a.sector = b.sector AND b.sector = c.sector"):
        alone, beside = (
            parse(text_of("SEQ(A a, B b, C c)", written, "2 seconds"))[0] for written in ([same], [same, equalities])
        )
        assert alone.clauses == beside.clauses


@every_cost
@settings(deadline=None, max_examples=examples(40))
@given(
    structure=st.sampled_from(sorted(STRUCTURES)),
    draw=st.data(),
    kind=st.sampled_from(["ms", "events"]),
    sizes=st.lists(st.integers(1, 10**5), min_size=2, max_size=2).map(sorted),
    seed=st.integers(0, 10**6),
)
def test_a_smaller_window(
    cost: str, structure: str, draw: st.DataObject, kind: str, sizes: list[int], seed: int
) -> None:
    chosen = draw.draw(st.lists(st.sampled_from(conjuncts(STRUCTURES[structure])), max_size=4, unique=True))
    patterns = [pattern for size in sizes for pattern in parse(text_of(structure, chosen, f"{size} {kind}"))]
    known = snapshot(patterns, seed)
    smaller, larger = (plan([replace(pattern, name="same")], known, "trivial", cost) for pattern in patterns)
    assert_not_above(smaller, larger)


def test_costs_whose_logarithms_are_coarser_than_their_grain() -> None:
    """Lists of millions of events: the cheapest split of a set is among those that are equal to it."""
    structure = "SEQ(A a, B+ k[], C c)"
    given_conjuncts = ["a.diff < c.diff", "a.price > 20", "[sector]"]
    (pattern,) = parse(text_of(structure, given_conjuncts, "1 hour"))
    (clause,) = plan([pattern], snapshot([pattern], 58), "dp_bushy", "latency").patterns[0].clauses
    assert sorted(clause.order) == ["a", "c", "k"] and clause.ln_cost > 10**6
