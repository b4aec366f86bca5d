"""The search for preferred matches under contiguity: its tree of choices, and its matches beside the oracle's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.preferred import search
from cep_pipeline.detection.preferred import words as at
from cep_pipeline.detection.preferred.search import is_searched, tree_of
from cep_pipeline.patterns.pattern import Pattern
from tests.answers import comparable, from_tables
from tests.oracle import evaluate
from tests.pattern_strategies import THIRD_EDITION, Statement, statements
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

CONTIGUOUS = replace(
    THIRD_EDITION, strategies=("partition_contiguity", "strict_contiguity"), negation=False, max_operands=4
)


@settings(max_examples=examples(400), deadline=None)
@given(statement=statements(CONTIGUOUS), stream_rows=rows(), apart=st.booleans())
def test_search_finds_what_the_walk_prefers(statement: Statement, stream_rows: list[Row], apart: bool) -> None:
    clauses = [clause for clause in statement.clauses if not clause.startswith("OUTPUT")]
    behind = next((n for n, one in enumerate(clauses) if one.startswith(("CONSUME", "RETURN"))), len(clauses))
    clauses.insert(behind, f"OUTPUT PREFERRED{' NON_OVERLAP' * apart}")
    pattern = replace(statement, clauses=tuple(clauses)).pattern
    assume(is_searched(pattern))
    table = events_table(stream_rows)
    assert comparable(from_tables([pattern], cep.detect([pattern], table))) == comparable(evaluate([pattern], table))


def parsed(text: str) -> Pattern:
    [pattern] = cep.parse_patterns(text, stream_schema())
    return pattern


@pytest.mark.parametrize(
    ("structure", "choices"),
    [
        ("SEQ(A a, B+ b[], C c)", "a: b | b: more, c | c: end 0"),
        ("SEQ(A a, B+? b[], C c)", "a: b | b: c, more | c: end 0"),
        ("SEQ(A a, B? b, C?? c)", "a: b, end 3, c | b: end 1, c | c: end 0 | c: end 2"),
        ("OR(SEQ(A a, B* b[]), C c)", "a: b, end 1 | b: more, end 0 | c: end 2"),
        ("SEQ(OR(A? a, B? b), C c)", "a: c | c: end 0 | c: end 1 | b: c | c: end 2"),
    ],
)
def test_choices_stand_in_the_order_of_the_walk(structure: str, choices: str) -> None:
    tree = tree_of(parsed(f"PATTERN {structure} WHERE strict_contiguity {{ TRUE }} WITHIN 1 day OUTPUT PREFERRED"))
    names = [variable.name for variable in tree.clause.positive]

    def said(choice: int) -> str:
        if choice == at.TAKING:
            return "more"
        return f"end {at.FINISHING - choice}" if choice <= at.FINISHING else names[tree.nodes[choice, at.N_SLOT]]

    found = [
        f"{names[node[at.N_SLOT]]}: {', '.join(map(said, tree.choices[node[at.N_CHOICES] : node[at.N_END]]))}"
        for node in tree.nodes[1:]
    ]
    assert " | ".join(found) == choices


def test_long_lists_are_found_once_where_matches_do_not_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rise of 30,000 events has 450 million matches; room for fewer events than a match has grows."""
    monkeypatch.setattr(search, "ELEMENTS_AT_ONCE", 1 << 10)
    rising = [{"timestamp": number, "kind": "A", "x": number % 30_000} for number in range(60_000)]
    pattern = parsed(
        "PATTERN A{2,} a[] WHERE strict_contiguity { a[i].x > a[i-1].x } WITHIN 1 day OUTPUT PREFERRED NON_OVERLAP "
        "RETURN a.LEN AS n"
    )
    found = cep.detect([pattern], stream_schema().table(rising))[pattern.name]
    assert found["n"].to_pylist() == [30_000, 30_000]
