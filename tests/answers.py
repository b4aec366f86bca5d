"""Answers in one form, whoever gave them, so that they compare exactly: order, bindings, times, values and types."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from cep_pipeline.patterns.pattern import Pattern
from tests.conformance import Match
from tests.language_cases import LanguageCase
from tests.oracle import OracleMatch

FIXED_COLUMNS = ("pattern", "match_id", "start_ts", "end_ts", "bindings")


def comparable(matches: Iterable[OracleMatch | Match]) -> list[tuple[Any, ...]]:
    """Matches as tuples that are equal where the matches are: NaN equals NaN, and 1, 1.0 and True all differ."""
    return [
        (
            match.statement,
            match.pattern,
            match.start_ts,
            match.end_ts,
            tuple(match.bindings),
            tuple(comparable_value(value) for value in match.returns),
        )
        for match in matches
    ]


def comparable_value(value: Any) -> Any:
    """A value with its type, NaN as something that equals itself."""
    if isinstance(value, float) and math.isnan(value):
        return ("float", "NaN")
    if isinstance(value, list):
        return tuple(comparable_value(item) for item in value)
    return (type(value).__name__, value)


def from_tables(patterns: Sequence[Pattern], tables: Mapping[str, pa.Table]) -> list[OracleMatch]:
    """The rows of the tables of `cep.detect`, statement after statement."""
    assert list(tables) == [pattern.name for pattern in patterns]
    matches = []
    for statement, pattern in enumerate(patterns):
        table = tables[pattern.name]
        names = table.column_names
        assert names == [*FIXED_COLUMNS, *(item.name for item in pattern.returns)]
        starts, ends = (table.column(name).cast(pa.int64()).to_pylist() for name in ("start_ts", "end_ts"))
        returned = [table.column(name).to_pylist() for name in names[len(FIXED_COLUMNS) :]]
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
                )
            )
    return matches


def check_language_case(case: LanguageCase, matches: Sequence[OracleMatch]) -> None:
    """Assert that matches are those of a hand-worked case."""
    found = [" ".join(f"{variable}{seq}" for variable, seq in match.bindings) for match in matches]
    assert found == list(case.matches)
    if case.returns is not None:
        expected = [tuple(comparable_value(value) for value in row) for row in case.returns]
        assert [tuple(comparable_value(value) for value in match.returns) for match in matches] == expected
