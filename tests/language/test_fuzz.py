"""Whatever the text, the parser answers with patterns or with a PatternError; patterns survive formatting."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cep_pipeline.errors import PatternError
from cep_pipeline.language.formatter import format_pattern
from cep_pipeline.language.parser import parse_patterns
from tests.conformance import TWIN_CASES
from tests.language.schemas import SCHEMA
from tests.pattern_strategies import (
    PARAMETERS,
    SCALARS,
    THIRD_EDITION,
    WHOLE_LANGUAGE,
    File,
    Statement,
    files,
    statements,
)

VOCABULARY = r"""
NAME PATTERN WHERE WITHIN PARTITION BY TIES OUTPUT CONSUME RETURN SEQ AND OR NOT KL IN BETWEEN AS TRUE FALSE
ARRIVAL STRICT ANY ALL NON_OVERLAP NONE MATCHED EVENTS seconds us LEN i avg first corr abs strict_contiguity
IS NULL LIKE TIMESTAMP TIME SUMMARIZE GROUP bucket count(*) stddev least coalesce time_of_day 5s 1.5 min {2} {1,2} (A|B)
A B a b k x y s f h id nope timestamp 0 1 2.5 1e3 9223372036854775808 'p' "X.1" $numbers $nope
~ ( ) [ ] { } , ; . .. + - * / % = == != <> < <= > >= -- /* */ ' " $ ? |
'2023-11-14' '09:30' '5%' $limit $word
"""
WORDS = (*VOCABULARY.split(), "\n")
"""Words and marks of the language, right and wrong ones."""

FRAMES = (
    "{}",
    "NAME {} PATTERN A a WITHIN 1 day",
    "PATTERN {} WITHIN 1 day",
    "PATTERN SEQ(A a, K+ k[], ~B b) WHERE {} WITHIN 1 day",
    "PATTERN SEQ(A a, K+ k[], ~B b) WITHIN {}",
    "PATTERN SEQ(A a, K+ k[]) WITHIN 1 day RETURN {}",
    "PATTERN SEQ(A a, ~SEQ(B b, {}), K* k[]) WITHIN 1 day",
    "PATTERN SEQ(A a, K+ k[]) WITHIN 1 day SUMMARIZE {} GROUP BY a.x",
    "NAME n PATTERN A a WITHIN 1 day RETURN a.x AS x; PATTERN n b WHERE {} WITHIN 1 day",
)
"""Texts in which drawn words reach each part of the parser."""


def check(text: str) -> None:
    """Either a PatternError with a place inside the text, or patterns that equal their formatted selves."""
    try:
        patterns = parse_patterns(text, SCHEMA, {**PARAMETERS, **SCALARS})
    except PatternError as error:
        lines = text.split("\n")
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1
        assert error.message
        return
    formatted = ";\n".join(format_pattern(pattern) for pattern in patterns)
    again = parse_patterns(formatted, SCHEMA, {**PARAMETERS, **SCALARS})
    assert again == patterns
    assert ";\n".join(format_pattern(pattern) for pattern in again) == formatted
    assert all(clause.positive for pattern in patterns for clause in pattern.clauses)


@settings(deadline=None)
@given(st.text())
@example("\x00")
@example("\u0661 \u00b2x")
@example("PATTERN \ud800 a WITHIN 1 day")
@example("PATTERN A ın WITHIN 1 day")
def test_any_text(text: str) -> None:
    check(text)


@settings(deadline=None)
@given(st.sampled_from(FRAMES), st.lists(st.sampled_from(WORDS), max_size=12))
def test_any_words(frame: str, words: list[str]) -> None:
    check(frame.format(" ".join(words)))


@settings(deadline=None)
@given(statements(WHOLE_LANGUAGE))
def test_valid_statements_are_accepted_and_survive_formatting(statement: Statement) -> None:
    assert len(parse_patterns(statement.text, SCHEMA, statement.params)) == 1
    check(statement.text)


@settings(deadline=None)
@given(st.data())
def test_mutated_statements(data: st.DataObject) -> None:
    texts = st.sampled_from([case.text for case in TWIN_CASES])
    text = data.draw(st.one_of(statements(WHOLE_LANGUAGE).map(lambda statement: statement.text), texts))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        length = data.draw(st.sampled_from([0, 0, 1, 1, 2, 5, 20]))
        inserted = data.draw(st.one_of(st.sampled_from(["", *WORDS]), st.text(max_size=2)))
        text = text[:start] + inserted + text[start + length :]
    check(text)


@pytest.mark.parametrize("word", WORDS)
def test_cut_off_after_any_word(word: str) -> None:
    for frame in FRAMES:
        check(frame.partition("{}")[0] + word)


@settings(deadline=None)
@given(files(replace(THIRD_EDITION, summaries=True)))
def test_valid_files_of_the_second_edition_are_accepted_and_survive_formatting(file: File) -> None:
    assert len(parse_patterns(file.text, SCHEMA, file.params)) == len(file.statements)
    check(file.text)
