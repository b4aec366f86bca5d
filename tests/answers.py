"""Answers in one form, whoever gave them, so that they compare exactly: order, bindings, times, values and types."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from cep_pipeline.patterns.pattern import Pattern
from tests.conformance import Match, SummaryRow
from tests.language_cases import LanguageCase
from tests.oracle import OracleMatch, OracleSummary

FIXED_COLUMNS = ("pattern", "match_id", "start_ts", "end_ts", "bindings")


def comparable(answer: Iterable[OracleMatch | Match | OracleSummary | SummaryRow]) -> list[tuple[Any, ...]]:
    """Rows as tuples that are equal where the rows are: NaN equals NaN, and 1, 1.0 and True all differ."""
    return [
        (
            row.statement,
            row.pattern,
            *(
                (tuple(map(comparable_value, row.values)),)
                if isinstance(row, OracleSummary | SummaryRow)
                else (
                    row.start_ts,
                    row.end_ts,
                    tuple(row.bindings),
                    tuple(row.composed),
                    tuple(map(comparable_value, row.returns)),
                )
            ),
        )
        for row in answer
    ]


def comparable_value(value: Any) -> Any:
    """A value with its type, NaN as something that equals itself."""
    if isinstance(value, float) and math.isnan(value):
        return ("float", "NaN")
    if isinstance(value, list):
        return tuple(comparable_value(item) for item in value)
    return (type(value).__name__, value)


def from_tables(
    patterns: Sequence[Pattern], tables: Mapping[str, pa.Table], composed: Mapping[str, pa.Table] | None = None
) -> list[OracleMatch]:
    """The rows of the tables of `cep.detect`, statement after statement, without those of SUMMARIZE.

    `composed` are the tables of statements that the patterns compose, where they are not among the tables.
    """
    assert list(tables) == [pattern.name for pattern in patterns]
    numbers = {
        match_id: (name, number)
        for name, table in {**(composed or {}), **tables}.items()
        if "match_id" in table.column_names
        for number, match_id in enumerate(table.column("match_id").to_pylist())
    }
    matches = []
    for statement, pattern in enumerate(patterns):
        if pattern.summary is not None:
            continue
        table = tables[pattern.name]
        fixed = (*FIXED_COLUMNS, *(("composed",) if pattern.composes else ()))
        assert table.column_names == [*fixed, *(item.name for item in pattern.returns)]
        starts, ends = (table.column(name).cast(pa.int64()).to_pylist() for name in ("start_ts", "end_ts"))
        returned = [table.column(name).to_pylist() for name in table.column_names[len(fixed) :]]
        bound = table.column("composed").to_pylist() if pattern.composes else [()] * table.num_rows
        for row, (name, bindings) in enumerate(
            zip(table.column("pattern").to_pylist(), table.column("bindings").to_pylist(), strict=True)
        ):
            matches.append(
                OracleMatch(
                    statement=statement,
                    pattern=name,
                    start_ts=starts[row],
                    end_ts=ends[row],
                    bindings=tuple((binding["variable"], binding["seq"]) for binding in bindings),
                    returns=tuple(column[row] for column in returned),
                    composed=tuple((one["variable"], *numbers[one["match_id"]]) for one in bound[row]),
                )
            )
    return matches


def summaries_from_tables(patterns: Sequence[Pattern], tables: Mapping[str, pa.Table]) -> list[OracleSummary]:
    """The rows of SUMMARIZE in the tables of `cep.detect`, statement after statement."""
    rows = []
    for statement, pattern in enumerate(patterns):
        if pattern.summary is None:
            continue
        names = [column.name for column in (*pattern.summary.groups, *pattern.summary.aggregates)]
        table = tables[pattern.name]
        assert table.column_names == ["pattern", *names]
        columns = [table.column(name) for name in names]
        buckets = [group.bucket_us is not None for group in pattern.summary.groups]
        for place, is_bucket in enumerate(buckets):
            if is_bucket:
                assert columns[place].type == pa.timestamp("us", tz="UTC")
                columns[place] = columns[place].cast(pa.int64())
        values = [column.to_pylist() for column in columns]
        for row, name in enumerate(table.column("pattern").to_pylist()):
            rows.append(OracleSummary(statement, name, tuple(column[row] for column in values)))
    return rows


def check_language_case(case: LanguageCase, matches: Sequence[OracleMatch]) -> None:
    """Assert that matches are those of a hand-worked case."""
    found = [" ".join(f"{variable}{seq}" for variable, seq in match.bindings) for match in matches]
    assert found == list(case.matches)
    if case.returns is not None:
        expected = [tuple(comparable_value(value) for value in row) for row in case.returns]
        assert [tuple(comparable_value(value) for value in match.returns) for match in matches] == expected
