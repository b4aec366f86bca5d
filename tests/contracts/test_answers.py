"""Each mechanism gives exactly the page's answer, or refuses the pattern by name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS
from tests.answers import check_language_case, comparable
from tests.contracts.mechanisms import ANY_MATCH, DRAWN, MUST_RUN, answer, answer_or_refusal, drawn
from tests.language_cases import CASES, LanguageCase, stream
from tests.oracle import evaluate
from tests.pattern_strategies import WHOLE_LANGUAGE, Statement, statements
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import check_each, examples


def test_every_mechanism_states_what_it_must_run() -> None:
    assert MUST_RUN.keys() == DRAWN.keys() == MECHANISMS.keys()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_hand_worked_cases(mechanism: str) -> None:
    check_each(partial(check_hand_worked_case, mechanism), CASES)


def check_hand_worked_case(mechanism: str, case: LanguageCase) -> None:
    [pattern] = cep.parse_patterns(case.text, stream_schema(), params=case.params)
    found = answer_or_refusal(mechanism, pattern, events_table(stream(case.events)))
    if found is not None:
        check_language_case(case, found)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=examples(150), deadline=None)
@given(statement=statements(WHOLE_LANGUAGE), stream_rows=rows())
def test_random_statement_is_answered_or_refused(mechanism: str, statement: Statement, stream_rows: list[Row]) -> None:
    pattern, table = statement.pattern, events_table(stream_rows)
    found = answer_or_refusal(mechanism, pattern, table)
    if found is not None:
        assert comparable(found) == comparable(evaluate([pattern], table))


IMPLIED = (
    ("SEQ(A a, B b, C c)", "a.x = b.x"),
    ("AND(A a, B b, C c)", "a.x = c.x AND b.x = a.x"),
    ("SEQ(A a, B+ b[], C c)", "b.x = a.x AND b[i].x = b[i-1].x"),
    ("SEQ(A a, ~B n, C c)", "n.x = a.x"),
    ("SEQ(A a, ~SEQ(B n, C m), C c)", "n.x = m.x AND m.x = c.x"),
    ("SEQ(A+ a[])", "a[i].x = a[i-1].x"),
    ("SEQ(A+ a[])", "a.x = a[1].x"),
)
"""Structures, and equalities that say no more than `[x]` does, but for those of a list of one event without a value."""


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=examples(60), deadline=None)
@given(
    of=st.sampled_from(IMPLIED),
    strategy=st.sampled_from(
        ["skip_till_any_match", "skip_till_next_match", "strict_contiguity", "partition_contiguity"]
    ),
    partition=st.booleans(),
    stream_rows=rows(),
)
def test_equalities_beside_agreement(
    mechanism: str, of: tuple[str, str], strategy: str, partition: bool, stream_rows: list[Row]
) -> None:
    """They are not tested again where they follow from it."""
    structure, equalities = of
    agreement = equalities if partition else f"[x] AND {equalities}"
    text = f"PATTERN {structure} WHERE {strategy} {{ {agreement} }} WITHIN 1 second"
    [pattern] = cep.parse_patterns(f"{text} PARTITION BY x" if partition else text, stream_schema())
    table = events_table(stream_rows)
    found = answer_or_refusal(mechanism, pattern, table)
    if found is not None:
        assert comparable(found) == comparable(evaluate([pattern], table))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data(), stream_rows=rows())
def test_count_output_counts_the_matches(mechanism: str, data: st.DataObject, stream_rows: list[Row]) -> None:
    pattern, table = drawn(data, mechanism, output=False, consume=False).pattern, events_table(stream_rows)
    counted = cep.detect([pattern], table, mechanism=mechanism, output="count")[pattern.name]
    assert counted.to_pylist() == [{"pattern": pattern.name, "count": str(len(evaluate([pattern], table)))}]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=examples(80), deadline=None)
@given(data=st.data(), stream_rows=rows())
def test_form_of_the_table_does_not_matter(mechanism: str, data: st.DataObject, stream_rows: list[Row]) -> None:
    """Dictionaries, several chunks, a slice of a longer table and other columns between give the same answer."""
    pattern, table = drawn(data, mechanism).pattern, events_table(stream_rows)
    expected = comparable(answer(mechanism, pattern, table))
    cut = data.draw(st.integers(0, table.num_rows))
    chunked = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    assert comparable(answer(mechanism, pattern, chunked)) == expected
    encoded = pa.table({"unused": pa.nulls(table.num_rows)} | {name: table.column(name) for name in table.column_names})
    for name in ("s", "kind"):
        place = encoded.schema.get_field_index(name)
        codes = encoded.column(name).cast(pa.dictionary(pa.int32(), pa.string()))
        encoded = encoded.set_column(place, name, codes)
    assert comparable(answer(mechanism, pattern, encoded)) == expected
    rest = events_table(stream_rows[cut:])
    assert comparable(answer(mechanism, pattern, table.slice(cut))) == comparable(answer(mechanism, pattern, rest))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_tables_have_the_columns_of_the_page(mechanism: str) -> None:
    strategy = "skip_till_any_match" if mechanism in ANY_MATCH else "skip_till_next_match"
    patterns = cep.parse_patterns(
        f"NAME one PATTERN SEQ(A a, B b) WHERE {strategy} {{ 1 = 1 }} WITHIN 1 second "
        "RETURN a.x, b.y AS y, a.s, b.f, a.x / 2 AS half;"
        f"NAME none PATTERN A a WHERE {strategy} {{ a.x = 77 }} WITHIN 1 second",
        stream_schema(),
    )
    tables = cep.detect(patterns, events_table(stream("A 0 x=1 s=p; B 1 y=2 f=true")), mechanism=mechanism)
    assert [tables[name].num_rows for name in ("one", "none")] == [1, 0]
    fixed = {
        "pattern": pa.string(),
        "match_id": pa.uuid(),
        "start_ts": pa.timestamp("us", tz="UTC"),
        "end_ts": pa.timestamp("us", tz="UTC"),
        "bindings": pa.list_(pa.struct([("variable", pa.string()), ("seq", pa.int64())])),
    }
    returned = {"a.x": pa.int64(), "y": pa.float64(), "a.s": pa.string(), "b.f": pa.bool_(), "half": pa.float64()}
    assert columns_of(tables["one"]) == {**fixed, **returned}
    assert columns_of(tables["none"]) == fixed


def columns_of(table: pa.Table) -> dict[str, pa.DataType]:
    names: Sequence[str] = table.column_names
    return dict(zip(names, table.schema.types, strict=True))
