"""Every conformance case: what must parse parses to canonical text and back, what is wrong is refused at its place."""

from __future__ import annotations

import pytest

from cep_pipeline.errors import PatternError
from cep_pipeline.language.formatter import format_pattern
from cep_pipeline.language.parser import parse_patterns
from tests.conformance import CASES, Case
from tests.thoroughness import check_each

ANSWERED = [case for case in CASES if case.matches is not None]


def test_formatted_text_is_the_same_pattern() -> None:
    check_each(check_formatted, ANSWERED)


def check_formatted(case: Case) -> None:
    text = ";\n".join(format_pattern(pattern) for pattern in case.patterns)
    again = parse_patterns(text, case.schema, case.params)
    assert again == case.patterns
    assert [hash(pattern.clauses) for pattern in again] == [hash(pattern.clauses) for pattern in case.patterns]
    assert ";\n".join(format_pattern(pattern) for pattern in again) == text


def test_names_and_columns_fit_the_expected_matches() -> None:
    check_each(check_names, ANSWERED)


def check_names(case: Case) -> None:
    assert case.matches is not None
    for match in case.matches:
        pattern = case.patterns[match.statement]
        assert match.pattern == pattern.name
        assert len(match.returns) == len(pattern.returns)
        positive = [operand.variable for operand in pattern.operands if not operand.negated]
        assert {variable for variable, _ in match.bindings} <= set(positive)


@pytest.mark.parametrize("case", [case for case in CASES if case.error is not None], ids=str)
def test_refused_at_the_given_place(case: Case) -> None:
    assert case.error is not None
    with pytest.raises(PatternError) as raised:
        _ = case.patterns
    error = raised.value
    assert (error.line, error.column) == (case.error.line, case.error.column), str(error)
    assert error.source == case.id
    line, underline = error.excerpt.split("\n")
    assert underline.strip(" ") == "^" * underline.count("^")
    assert len(underline) <= max(len(line), underline.index("^") + 1)
