"""Random statements of the second edition: mechanisms, forms of output and slices give the oracle's answer.

A mechanism may refuse a statement by name. Several statements of one file may compose each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import assume, given, seed, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.output_policy import has_output_policy
from cep_pipeline.detection.summaries import unlisted
from cep_pipeline.errors import UnsupportedPattern
from cep_pipeline.patterns.pattern import Pattern
from tests.answers import comparable, from_tables, summaries_from_tables
from tests.contracts.mechanisms import answer, has_few_bindings
from tests.contracts.test_slices import check_slices
from tests.oracle import OracleMatch, OracleSummary, evaluate, summarize
from tests.pattern_strategies import THIRD_EDITION, File, Statement, files, statements
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

ZONED = replace(stream_schema(), timezone="America/New_York")
CASES, PARTS = 10_000, 10
MOST_COMPOSED = 40
"""Most matches of a statement that is composed: brute force over more takes long."""


def parsed(drawn: Statement | File) -> list[Pattern]:
    return cep.parse_patterns(drawn.text, ZONED, params=drawn.params)


def oracle(patterns: Sequence[Pattern], table: pa.Table) -> list[OracleMatch | OracleSummary]:
    for statement in {one.name: one for pattern in patterns for one in pattern.composes}.values():
        assume(len(evaluate([statement], table)) <= MOST_COMPOSED)
    for pattern in patterns:
        assume(not pattern.composes or has_few_bindings(pattern, table))
    return [*evaluate(patterns, table), *summarize(patterns, table)]


def check_mechanisms(pattern: Pattern, table: pa.Table) -> None:
    """At least one mechanism runs the pattern, and none gives another answer than the oracle.

    What a pattern composes may need another mechanism, which is taken when none is named.
    """
    expected = comparable(oracle([pattern], table))
    answers = {}
    for mechanism in (*MECHANISMS, *((None,) if pattern.composes else ())):
        try:
            answers[mechanism] = comparable(answer(mechanism, pattern, table))
        except UnsupportedPattern as refusal:
            assert refusal.mechanism == mechanism
            assert refusal.feature
    assert answers
    for mechanism, found in answers.items():
        assert found == expected, mechanism


def check_outputs(pattern: Pattern, table: pa.Table) -> None:
    """The number of matches, and the compressed ones expanded."""
    expected = oracle([pattern], table)
    counted = cep.detect([pattern], table, output="count")[pattern.name]
    assert counted.to_pylist() == [{"pattern": pattern.name, "count": str(len(expected))}]
    compressed = cep.detect([pattern], table, output="compressed")[pattern.name]
    expanded = cep.expand(compressed).read_all()
    composed = cep.detect(list(pattern.composes), table) if pattern.composes else {}
    assert comparable(from_tables([pattern], {pattern.name: expanded}, composed)) == comparable(expected)


def check_file(file: File, stream_rows: list[Row]) -> None:
    """All statements together, on the mechanisms that are taken when none is named."""
    patterns, table = parsed(file), events_table(stream_rows)
    expected = comparable(oracle(patterns, table))
    tables = cep.detect(patterns, table)
    assert comparable([*from_tables(patterns, tables), *summaries_from_tables(patterns, tables)]) == expected


SUMMARIES = replace(THIRD_EDITION, summaries=True, float_sums=True)
COUNTED = replace(
    SUMMARIES,
    output=False,
    preferred=False,
    consume=False,
    strategies=("skip_till_any_match",),
    max_condition_variables=1,
)
LISTED = replace(THIRD_EDITION, output=False, preferred=False, consume=False)


@settings(max_examples=examples(200), deadline=None)
@given(statement=statements(THIRD_EDITION), stream_rows=rows())
def test_every_mechanism_answers_or_refuses(statement: Statement, stream_rows: list[Row]) -> None:
    check_mechanisms(*parsed(statement), events_table(stream_rows))


FULL = ("A{2}", "A{1,2}", "(A | B){1}", "(A | B){2}", "B{1,2}")
OTHERS = ("A", "B", "B?", "A*", "~B", "B{2,}")


@st.composite
def sequences_with_full_lists(draw: st.DrawFn) -> str:
    """A statement under skip_till_next_match that begins with a list with a greatest number."""
    written = [draw(st.sampled_from(FULL)), *draw(st.lists(st.sampled_from((*FULL, *OTHERS)), max_size=2))]
    operands = [f"{types} v{place}{'[]' if types[-1] in '}*' else ''}" for place, types in enumerate(written)]
    condition = draw(st.sampled_from(["TRUE", "v0[i].x >= v0[i-1].x", "sum(v0[].x) > 3", "v0.LEN = 2", "[id]"]))
    structure = f"SEQ({', '.join(operands)})"
    if draw(st.booleans()):
        structure = f"OR({structure}, SEQ(A{{2}} w0[], B w1))"
    return f"PATTERN {structure} WHERE skip_till_next_match {{ {condition} }} WITHIN 1 day"


@settings(max_examples=examples(200), deadline=None)
@given(text=sequences_with_full_lists(), stream_rows=rows(min_size=4, types=("A", "B")))
def test_full_lists_are_left(text: str, stream_rows: list[Row]) -> None:
    [pattern], table = cep.parse_patterns(text, ZONED), events_table(stream_rows)
    check_mechanisms(pattern, table)
    for option in ("merge", "backtrack"):
        tables = cep.detect([pattern], table, mechanism="nfab", options=(option,))
        assert comparable(from_tables([pattern], tables)) == comparable(oracle([pattern], table))
    check_slices("nfab", pattern, stream_rows)


@settings(max_examples=examples(100), deadline=None)
@given(statement=statements(LISTED), stream_rows=rows())
def test_outputs_say_the_same(statement: Statement, stream_rows: list[Row]) -> None:
    check_outputs(*parsed(statement), events_table(stream_rows))


@settings(max_examples=examples(100), deadline=None)
@given(statement=statements(SUMMARIES), stream_rows=rows(edges=False))
def test_summaries(statement: Statement, stream_rows: list[Row]) -> None:
    check_mechanisms(*parsed(statement), events_table(stream_rows))


@settings(max_examples=examples(100), deadline=None)
@given(statement=statements(COUNTED), stream_rows=rows(edges=False))
def test_summaries_without_listing(statement: Statement, stream_rows: list[Row]) -> None:
    patterns, table = parsed(statement), events_table(stream_rows)
    assume(patterns[0].summary is not None)
    expected = comparable(oracle(patterns, table))
    count = unlisted.count_owned
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(unlisted, "FEW_SUMMARIZED", -1)
        patched.setattr(unlisted, "LEAST_S", 1e9)
        patched.setattr(unlisted, "MOST_COUNTS", 200)
        patched.setattr(unlisted, "LONG_NS", 0.0)
        patched.setattr(unlisted, "count_owned", lambda *of, always=True, **asked: count(*of, always=True, **asked))
        found = comparable(summaries_from_tables(patterns, cep.detect(patterns, table)))
    assert found == expected


@settings(max_examples=examples(100), deadline=None)
@given(file=files(replace(THIRD_EDITION, summaries=True)), stream_rows=rows(max_size=8))
def test_files_of_statements(file: File, stream_rows: list[Row]) -> None:
    check_file(file, stream_rows)


@settings(max_examples=examples(100), deadline=None)
@given(file=files(THIRD_EDITION), stream_rows=rows(max_size=8))
def test_composing_statements_on_every_mechanism(file: File, stream_rows: list[Row]) -> None:
    check_mechanisms(parsed(file)[-1], events_table(stream_rows))


@settings(max_examples=examples(80), deadline=None)
@given(data=st.data(), statement=statements(THIRD_EDITION), stream_rows=rows())
def test_slices_follow_each_other(data: st.DataObject, statement: Statement, stream_rows: list[Row]) -> None:
    [pattern] = parsed(statement)
    try:
        check_slices(data.draw(st.sampled_from(sorted(MECHANISMS))), pattern, stream_rows)
    except UnsupportedPattern:
        assume(False)


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_random_cases(part: int) -> None:
    @seed(part)
    @settings(max_examples=CASES // PARTS, deadline=None, database=None)
    @given(file=files(replace(THIRD_EDITION, summaries=True)), statement=statements(THIRD_EDITION), stream_rows=rows())
    def check(file: File, statement: Statement, stream_rows: list[Row]) -> None:
        [pattern], table = parsed(statement), events_table(stream_rows)
        check_mechanisms(pattern, table)
        if not has_output_policy(pattern):
            check_outputs(pattern, table)
        check_file(file, stream_rows[:8])

    check()
