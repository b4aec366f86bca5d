"""The sweep for preferred matches under skip_till_any_match, beside the oracle, and where listing is out of reach."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.preferred.sweep import steps_of
from cep_pipeline.patterns.pattern import Pattern
from tests.answers import comparable, from_tables
from tests.oracle import evaluate
from tests.pattern_strategies import THIRD_EDITION, Statement, statements
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

CHAINS = replace(
    THIRD_EDITION, chains=True, strategies=("skip_till_any_match",), negation=False, ties=("ARRIVAL", "STRICT")
)


def parsed(text: str) -> Pattern:
    [pattern] = cep.parse_patterns(text, stream_schema())
    return pattern


def is_swept(pattern: Pattern) -> bool:
    return any(steps_of(pattern, clause) is not None for clause in pattern.clauses)


@settings(max_examples=examples(400), deadline=None)
@given(statement=statements(CHAINS), stream_rows=rows())
def test_drawn_chains(statement: Statement, stream_rows: list[Row]) -> None:
    clauses = [clause for clause in statement.clauses if not clause.startswith("OUTPUT")]
    behind = next((n for n, one in enumerate(clauses) if one.startswith(("CONSUME", "RETURN"))), len(clauses))
    clauses.insert(behind, "OUTPUT PREFERRED")
    pattern = replace(statement, clauses=tuple(clauses)).pattern
    assume(is_swept(pattern))
    table = events_table(stream_rows)
    assert comparable(from_tables([pattern], cep.detect([pattern], table))) == comparable(evaluate([pattern], table))


CONDITIONS = (
    "b[].x > a[1].x",
    "b[1].x > a[a.LEN].x",
    "b[b.LEN].x >= a[1].x",
    "b[i].x > b[i-1].x",
    "a[i].x <= a[i-1].x",
    "b[i].x != a[1].x",
    "a[a.LEN].x > a[1].x",
    "c.x > b[b.LEN].x",
    "c.x != a[1].x",
    "[id]",
    "c.y > 0",
    "b.LEN >= 2",
    "a.LEN < 3",
    "b.LEN BETWEEN 1 AND 2",
    "2 = a.LEN",
)
QUANTIFIERS = ("+", "+?", "{2}", "{2,}", "{2,}?", "{1,2}", "{1,3}?", "*", "*?")


@settings(max_examples=examples(600), deadline=None)
@given(data=st.data(), stream_rows=rows(max_size=9))
def test_chains_of_lists(data: st.DataObject, stream_rows: list[Row]) -> None:
    first, second = (data.draw(st.sampled_from(QUANTIFIERS[: 7 if place == 0 else None])) for place in range(2))
    types = [data.draw(st.sampled_from(["A", "B", "(A | B)", "Ev"])) for _ in range(3)]
    conditions = data.draw(st.lists(st.sampled_from(CONDITIONS), max_size=3, unique=True))
    ties = data.draw(st.sampled_from(["ARRIVAL", "STRICT"]))
    pattern = parsed(
        f"PATTERN SEQ({types[0]}{first} a[], {types[1]}{second} b[], {types[2]} c) WHERE "
        f"{' AND '.join(conditions) or 'TRUE'} WITHIN {data.draw(st.sampled_from(['5 seconds', '1 day', '6 EVENTS']))} "
        f"TIES {ties} OUTPUT PREFERRED"
    )
    event(f"swept: {is_swept(pattern)}")
    table = events_table(stream_rows)
    assert comparable(from_tables([pattern], cep.detect([pattern], table))) == comparable(evaluate([pattern], table))


@pytest.mark.parametrize(
    ("structure", "condition", "lengths"),
    [
        ("SEQ(A a, B+ b[], C c)", "TRUE", [98]),
        ("SEQ(A a, B{2,5} b[], C c)", "TRUE", [5]),
        ("SEQ(A a, B{2,}? b[], C c)", "TRUE", [2]),
        ("SEQ(A a, B+ b[], C c)", "b[].x > a.x", [49]),
        ("SEQ(A a, B+ b[], C c)", "b[i].x > b[i-1].x", [10]),
        ("SEQ(A a, B+ b[], C c)", "b.LEN > 97", [98]),
        ("B+ b[]", "TRUE", list(range(98, 0, -1))),
    ],
)
def test_lists_of_which_there_are_too_many(structure: str, condition: str, lengths: list[int]) -> None:
    """Behind one A there are 98 B, and so 2^98 lists; x rises from 0 to 9 again and again."""
    kinds = ["A", *["B"] * 98, "C"]
    table = stream_schema().table(
        [{"timestamp": n, "kind": kind, "x": 4 if kind == "A" else n % 10} for n, kind in enumerate(kinds)]
    )
    pattern = parsed(f"PATTERN {structure} WHERE {condition} WITHIN 1 day OUTPUT PREFERRED RETURN b.LEN AS n")
    assert cep.detect([pattern], table)[pattern.name]["n"].to_pylist() == lengths


@pytest.mark.parametrize(
    ("condition", "exists"),
    [
        ("b.LEN = 0", False),
        ("b.LEN < 1", False),
        ("b.LEN BETWEEN -3 AND 0", False),
        ("0 = b.LEN", False),
        ("b.LEN < -9223372036854775808", False),
        ("b.LEN > 9223372036854775807", False),
        ("b.LEN >= 9223372036854775807", False),
        ("b.LEN <= 9223372036854775807", True),
        ("b.LEN BETWEEN 0 AND 1", True),
    ],
)
@pytest.mark.parametrize("quantifier", ["+", "+?", "*", "*?"])
def test_numbers_that_no_list_has(condition: str, exists: bool, quantifier: str) -> None:
    pattern = parsed(
        f"PATTERN SEQ(A a, B{quantifier} b[], C c) WHERE {condition} WITHIN 1 day OUTPUT PREFERRED RETURN b.LEN AS n"
    )
    assert is_swept(pattern)
    table = events_table([{"timestamp": n, "kind": kind} for n, kind in enumerate("ABBC")])
    found = cep.detect([pattern], table)
    assert comparable(from_tables([pattern], found)) == comparable(evaluate([pattern], table))
    assert any(found[pattern.name]["n"].to_pylist()) == (exists and quantifier != "*?")


@pytest.mark.parametrize(
    "condition", ["sum(b[].x) > 3", "b.LEN != 3", "b[].x > c.x", "b[i].x > b[1].x", "c.x > a.x AND b[].x < avg(b[].x)"]
)
def test_what_a_sweep_does_not_know_is_listed(condition: str) -> None:
    pattern = parsed(f"PATTERN SEQ(A a, B+ b[], C c) WHERE {condition} WITHIN 1 day OUTPUT PREFERRED")
    assert not is_swept(pattern)
