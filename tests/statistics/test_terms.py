"""Keys of what is measured: independent of variable names, different wherever the number would differ."""

from __future__ import annotations

import pytest

from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.statistics.terms import pair_of, terms_of, uses_of_terms
from tests.statistics.market import SCHEMA, parse


def keys(text: str) -> tuple[list[str], list[str]]:
    leaves, conditions = terms_of(parse(text))
    return [leaf.key for leaf in leaves], [condition.key for condition in conditions]


def test_keys_read_like_the_language() -> None:
    leaves, conditions = keys("PATTERN SEQ(A a, B b) WHERE a.price > 10 AND a.diff < b.diff WITHIN 1500 ms")
    assert leaves == ["A where x.price > 10", "B"]
    assert conditions == ["(A where x.price > 10) before (B) within 1500 ms: x.diff < y.diff"]


def test_the_places_of_a_term_are_named_as_the_patterns_write_it() -> None:
    rise = "NAME rise PATTERN SEQ(A a, B b) WHERE [sector] AND a.diff < b.diff AND a.price > 10 WITHIN 1 second"
    again = "NAME again PATTERN SEQ(A p, ~A no, B q) WHERE p.diff < q.diff AND p.price > 10 WITHIN 1 second"
    uses = uses_of_terms(parse(f"{rise}; {again}"))
    assert uses["A where x.price > 10"] == ["rise.a", "again.p"] and uses["A"] == ["again.no"]
    assert uses["B"] == ["rise.b", "again.q"]
    pair = "(A where x.price > 10) before (B) within 1 s: x."
    assert uses[f"{pair}diff < y.diff"] == ["rise: a.diff < b.diff", "again: p.diff < q.diff"]
    assert uses[f"{pair}sector = y.sector"] == ["rise: a.sector = b.sector"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SEQ(A a, B b) WHERE a.diff < b.diff", "SEQ(A p, B q) WHERE p.diff < q.diff"),
        ("SEQ(A a, C c, B b) WHERE a.diff < b.diff", "SEQ(A a, B b, C c) WHERE a.diff < b.diff"),
        ("AND(A a, B b) WHERE a.diff < b.diff", "AND(B z, A y) WHERE y.diff < z.diff"),
        ("SEQ(A a, B b) WHERE a.price > 1 AND a.diff > 2", "SEQ(A z, B b) WHERE z.diff > 2 AND z.price > 1"),
        ("SEQ(A a, B+ b[]) WHERE a.diff < b.diff", "SEQ(A a, B b) WHERE a.diff < b.diff"),
        ("SEQ(A a, B b) WHERE [sector]", "SEQ(A a, B b) WHERE a.sector = b.sector"),
    ],
)
def test_the_same_question_has_one_key(one: str, other: str) -> None:
    first, second = ([set(part) for part in keys(f"PATTERN {text} WITHIN 1 second")] for text in (one, other))
    assert first == second


@pytest.mark.parametrize(
    "other",
    [
        "SEQ(A a, B b) WHERE a.diff <= b.diff WITHIN 1 second",
        "SEQ(B b, A a) WHERE a.diff < b.diff WITHIN 1 second",
        "AND(A a, B b) WHERE a.diff < b.diff WITHIN 1 second",
        "SEQ(A a, B b) WHERE a.diff < b.diff WITHIN 2 seconds",
        "SEQ(A a, B b) WHERE a.diff < b.diff WITHIN 1000 EVENTS",
        "SEQ(A a, B b) WHERE a.diff < b.diff WITHIN 1 second TIES STRICT",
        "SEQ(A a, B b) WHERE a.diff < b.diff AND b.price > 1 WITHIN 1 second",
    ],
)
def test_another_question_has_another_key(other: str) -> None:
    _, first = keys("PATTERN SEQ(A a, B b) WHERE a.diff < b.diff WITHIN 1 second")
    _, second = keys(f"PATTERN {other}")
    assert not set(first) & set(second)


def test_ties_do_not_matter_without_an_order() -> None:
    _, first = keys("PATTERN AND(A a, B b) WHERE a.diff < b.diff WITHIN 1 second TIES STRICT")
    _, second = keys("PATTERN AND(A a, B b) WHERE a.diff < b.diff WITHIN 1 second TIES ANY")
    assert first == second


def test_a_parameter_counts_by_its_values_and_not_by_their_number() -> None:
    text = "PATTERN SEQ(Stock a, B b) WHERE a.symbol IN $wanted WITHIN 1 second"

    def key(values: list[str]) -> str:
        return terms_of(parse_patterns(text, SCHEMA, params={"wanted": values}))[0][0].key

    assert key(["A"]) == key(["A"])
    assert key(["A"]) != key(["A", "B"])
    assert len(key([f"T{number}" for number in range(2100)])) < 80


@pytest.mark.parametrize(
    "condition", ["b.LEN > 2", "b[i].diff > b[i-1].diff", "avg(b[].diff) > a.diff", "b[i].diff > a.diff"]
)
def test_conditions_on_whole_lists_are_not_measured_on_single_events(condition: str) -> None:
    (pattern,) = parse(f"PATTERN SEQ(A a, B+ b[]) WHERE {condition} WITHIN 1 second")
    (clause,) = pattern.clauses
    leaves, conditions = terms_of([pattern])
    assert [leaf.key for leaf in leaves] == ["A", "B"]
    assert conditions == []
    assert pair_of(pattern, clause, clause.conjuncts[0]) is None


def test_partitions_of_a_count_window_are_its_scope_and_no_condition() -> None:
    _, by_count = keys("PATTERN SEQ(A a, B b) WITHIN 5 EVENTS PARTITION BY sector")
    _, by_time = keys("PATTERN SEQ(A a, B b) WITHIN 5 ms PARTITION BY sector")
    assert by_count == []
    assert by_time == ["(A) before (B) within 5 ms: x.sector = y.sector"]
