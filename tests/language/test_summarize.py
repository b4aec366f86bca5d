"""SUMMARIZE … GROUP BY …: what is read, how its columns are named, and what is refused at which place."""

from __future__ import annotations

import pytest

from cep_pipeline.errors import PatternError
from cep_pipeline.language.formatter import format_pattern
from cep_pipeline.patterns.pattern import Summary
from tests.language.schemas import parse_one

HEAD = "PATTERN SEQ(A a, B+ k[]) WITHIN 9 seconds "


def summary_of(clause: str) -> Summary:
    summary = parse_one(HEAD + clause).summary
    assert summary is not None
    return summary


@pytest.mark.parametrize(
    "clause",
    [
        "SUMMARIZE count(*)",
        "SUMMARIZE count(*) AS n, sum(a.x + 1), avg(sum(k[].x)), min(a.s), max(k.LEN) AS most",
        "SUMMARIZE count(*) GROUP BY a.s, bucket(15 minutes) AS quarter, bucket(7 days), k[1].f AS f",
        "OUTPUT NON_OVERLAP\nCONSUME MATCHED\nSUMMARIZE sum(a.x), sum(a.x)",
    ],
)
def test_canonical_text_is_read_as_the_same_pattern(clause: str) -> None:
    pattern = parse_one(HEAD + clause)
    text = format_pattern(pattern)
    assert text.endswith(clause)
    assert parse_one(text) == pattern


def test_key_words_in_any_case_and_units_of_buckets() -> None:
    summary = summary_of("summarize COUNT(*), Sum(a.x) Group By BUCKET(0.5 h), bucket(90 s), bucket(1 d)")
    assert [one.function for one in summary.aggregates] == ["count", "sum"]
    assert [group.bucket_us for group in summary.groups] == [1_800_000_000, 90_000_000, 86_400_000_000]


def test_key_words_are_names_elsewhere() -> None:
    pattern = parse_one(
        "PATTERN SEQ(A summarize, B group, C bucket) WITHIN 9 seconds SUMMARIZE min(group.x) GROUP BY bucket.x"
    )
    assert pattern.summary is not None
    assert [item.name for item in pattern.items] == ["bucket.x", "group.x"] or pattern.summary.groups[
        0
    ].bucket_us is None


def test_columns_are_named_as_those_of_return_are() -> None:
    summary = summary_of("SUMMARIZE count(*), count(*), sum(a.x) AS x GROUP BY a.x AS x, bucket(60 minutes)")
    assert [one.name for one in summary.aggregates] == ["count(*)", "count(*)_2", "x"]
    assert [group.name for group in summary.groups] == ["x_2", "bucket(1 hour)"]


@pytest.mark.parametrize(
    ("clause", "at", "message"),
    [
        ("RETURN a.x SUMMARIZE count(*)", "SUMMARIZE", "RETURN or SUMMARIZE, not both"),
        ("SUMMARIZE count(*) RETURN a.x", "RETURN", "RETURN or SUMMARIZE, not both"),
        ("SUMMARIZE sum(k[].x)", "k[].x", "only as k\\[1\\], k\\[k.LEN\\], k.LEN or an aggregate"),
        ("SUMMARIZE count(a.x)", "a.x", "expected '\\*'"),
        ("SUMMARIZE count(*) GROUP BY bucket(7 h)", "7 h", "divides a day"),
        ("SUMMARIZE count(*) GROUP BY bucket(0.3 us)", "0.3", "positive whole number of microseconds"),
        ("SUMMARIZE count(*) GROUP BY bucket(7 weeks)", "weeks", "expected a unit"),
        ("SUMMARIZE count(*) GROUP BY bucket(x)", "x)", "expected a number.*bucket\\(15 minutes\\)"),
        ("SUMMARIZE sum(a.s)", "sum(", "cannot apply sum to string"),
        ("SUMMARIZE avg(a.f)", "avg(", "cannot apply avg to bool"),
        ("SUMMARIZE min(a.f)", "min(", "values have no order"),
        ("SUMMARIZE max(a.h)", "max(", "values have no order"),
        ("SUMMARIZE count(*) GROUP BY a.h", "a.h", "a list is no group"),
        ("SUMMARIZE median(a.x)", "median", "expected count"),
        ("SUMMARIZE a.x", "a.x", "expected count"),
        ("SUMMARIZE sum(a.x) + 1", "+ 1", "after the end of the statement"),
        ("SUMMARIZE count(*) AS pattern", "pattern", "fixed column"),
        ("SUMMARIZE count(*) GROUP a.x", "a.x", "expected BY"),
        ("SUMMARIZE count(*) OUTPUT NON_OVERLAP", "OUTPUT", "clauses stand in the order"),
    ],
)
def test_refusals_name_the_place(clause: str, at: str, message: str) -> None:
    with pytest.raises(PatternError, match=message) as refused:
        parse_one(HEAD + clause)
    assert refused.value.column == len(HEAD) + clause.index(at) + 1
