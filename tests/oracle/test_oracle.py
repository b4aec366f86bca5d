"""The oracle against answers that it did not compute: hand-worked cases, and the conformance suite where it is."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings

import cep_pipeline as cep
from cep_pipeline.patterns.conditions import Comparator
from tests.answers import check_language_case, comparable
from tests.conformance import CASES as CONFORMANCE
from tests.conformance import Case
from tests.language_cases import CASES, LanguageCase, stream
from tests.oracle import evaluate, summarize
from tests.oracle.values import aggregate, arithmetic, call, compare
from tests.pattern_strategies import WHOLE_LANGUAGE, Statement, statements
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import check_each, examples

RUNS = replace(WHOLE_LANGUAGE, strategies=WHOLE_LANGUAGE.strategies[1:], output=False, consume=False)
ANSWERED = [case for case in CONFORMANCE if case.matches is not None]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_hand_worked_case(case: LanguageCase) -> None:
    patterns = cep.parse_patterns(case.text, stream_schema(), params=case.params)
    check_language_case(case, evaluate(patterns, events_table(stream(case.events))))


def test_conformance_cases() -> None:
    check_each(check_conformance_case, ANSWERED)


def check_conformance_case(case: Case) -> None:
    assert comparable(evaluate(case.patterns, case.events)) == comparable(case.matches or ())
    assert comparable(summarize(case.patterns, case.events)) == comparable(case.summary)


@settings(max_examples=examples(150), deadline=None)
@given(statements(WHOLE_LANGUAGE), rows())
def test_every_answer_obeys_the_page(statement: Statement, stream_rows: list[Row]) -> None:
    """What can be read off an answer without a second evaluator: order, distinctness, types and the window."""
    pattern = statement.pattern
    matches = evaluate([pattern], events_table(stream_rows))
    by_seq = {row["seq"]: row for row in stream_rows}
    last_seqs = [max(seq for _, seq in match.bindings) for match in matches]
    assert last_seqs == sorted(last_seqs)
    assert len({match.bindings for match in matches}) == len(matches)
    types = {operand.variable: operand.event_type for operand in pattern.operands if not operand.negated}
    for match in matches:
        seqs = [seq for _, seq in match.bindings]
        assert len(set(seqs)) == len(seqs)
        assert all(types[variable] in ("Ev", by_seq[seq]["kind"]) for variable, seq in match.bindings)
        timestamps = [by_seq[seq]["timestamp"] for seq in seqs]
        assert (match.start_ts, match.end_ts) == (min(timestamps), max(timestamps))
        if pattern.window.time_us is not None:
            assert match.end_ts - match.start_ts <= pattern.window.time_us


@settings(max_examples=examples(150), deadline=None)
@given(statements(RUNS), rows(max_size=10))
def test_a_stricter_strategy_finds_a_subset(statement: Statement, stream_rows: list[Row]) -> None:
    """Runs (section 4) and bindings (section 3) are found apart, yet a strategy's matches are among the next one's."""
    table = events_table(stream_rows)
    found = []
    for strategy in ("strict_contiguity", "partition_contiguity", "skip_till_next_match", "skip_till_any_match"):
        pattern = replace(statement, strategy=strategy).pattern
        found.append([match.bindings for match in evaluate([pattern], table)])
    for narrow, wide in pairwise(found):
        assert narrow == [match for match in wide if match in set(narrow)]


@pytest.mark.parametrize(
    ("operator", "left", "right", "expected"),
    [
        ("+", 2**63 - 1, 1, None),
        ("-", -(2**63), 1, None),
        ("*", 2**32, 2**31, None),
        ("*", -(2**32), 2**31, -(2**63)),
        ("+", 2**63 - 1, 1.0, 2.0**63),
        ("/", 7, 2, 3.5),
        ("/", 1, 0, None),
        ("/", 1.0, -0.0, None),
        ("%", -7, 3, -1),
        ("%", 7, -3, 1),
        ("%", -7.5, 2, -1.5),
        ("%", -(2**63), -1, 0),
        ("%", 5, 0, None),
        ("%", math.inf, 2, math.nan),
        ("+", None, 1, None),
    ],
)
def test_arithmetic(operator: str, left: Any, right: Any, expected: Any) -> None:
    assert _same(arithmetic(operator, left, right), expected)


@pytest.mark.parametrize(
    ("comparator", "left", "right", "expected"),
    [
        (Comparator.GT, 2**53 + 1, float(2**53), True),
        (Comparator.EQ, 2**53 + 1, float(2**53), False),
        (Comparator.LT, 2**63 - 1, 2.0**63, True),
        (Comparator.EQ, 0.0, -0.0, True),
        (Comparator.NE, math.nan, 1, None),
        (Comparator.LE, None, 1, None),
        (Comparator.LT, "Z", "a", True),
        (Comparator.LT, "\uffff", "\U0001f600", True),
        (Comparator.EQ, [1.0], [1.0], None),
    ],
)
def test_compare(comparator: Comparator, left: Any, right: Any, expected: bool | None) -> None:
    assert compare(comparator, left, right) is expected


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        ("abs", [-(2**63)], None),
        ("abs", [-3], 3),
        ("sqrt", [-1], None),
        ("sqrt", [math.nan], math.nan),
        ("ln", [0], None),
        ("ln", [1], 0.0),
        ("corr", [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]], 1.0),
        ("corr", [[1e308, -1e308], [1.0, 2.0]], -1.0),
        ("corr", [[1e308, 0.0], [1e308, 0.0]], 1.0),
        ("corr", [[0.1, 0.1, 0.1], [1.0, 2.0, 3.0]], None),
        ("corr", [[1.0, 2.0], [1.0, 2.0, 3.0]], None),
        ("corr", [[1.0, math.nan], [1.0, 2.0]], None),
        ("corr", [[1.0, None], [1.0, 2.0]], None),
        ("corr", [[1.0], [1.0]], None),
        ("corr", [[], []], None),
        ("corr", [None, [1.0, 2.0]], None),
    ],
)
def test_functions(function: str, arguments: list[Any], expected: Any) -> None:
    assert _same(call(function, arguments), expected)


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        ("sum", [1, None, 2], 3),
        ("sum", [2**63 - 1, 1], None),
        ("sum", [None, None], None),
        ("count", [None, math.nan, 1.0], 2),
        ("count", [None], 0),
        ("avg", [1, 2], 1.5),
        ("avg", [None], None),
        ("max", [1.0, math.nan], math.nan),
        ("min", [None, 2, 1], 1),
        ("first", [None, 2], None),
        ("last", [None, 2], 2),
    ],
)
def test_aggregates(function: str, values: list[Any], expected: Any) -> None:
    assert _same(aggregate(function, values), expected)


def _same(found: Any, expected: Any) -> bool:
    """Equal in value and type; NaN equals NaN."""
    if isinstance(expected, float) and math.isnan(expected):
        return isinstance(found, float) and math.isnan(found)
    return type(found) is type(expected) and found == expected
