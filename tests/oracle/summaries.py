"""The rows of SUMMARIZE: aggregates over the matches of a statement (docs/language.md, on aggregates over matches)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cep_pipeline.patterns.expressions import ValueType
from cep_pipeline.patterns.pattern import Pattern, SummaryAggregate, SummaryGroup
from tests.oracle.answer import flat, kept_matches, read_stream, returned_value
from tests.oracle.clock import bucket
from tests.oracle.events import is_absent
from tests.oracle.values import Binding, aggregate


@dataclass(frozen=True)
class OracleSummary:
    """One row of SUMMARIZE: the values of the groups, then the aggregates; a bucket is in microseconds."""

    statement: int
    pattern: str
    values: tuple[Any, ...]


def summarize(patterns: Sequence[Pattern], table: pa.Table) -> list[OracleSummary]:
    """The rows of all statements with SUMMARIZE, statement after statement, each in the page's order."""
    return [
        OracleSummary(statement, pattern.name, values)
        for statement, pattern in enumerate(patterns)
        if pattern.summary is not None
        for values in _rows(pattern, kept_matches(pattern, read_stream(table, pattern)))
    ]


def _rows(pattern: Pattern, matches: Sequence[Binding]) -> list[tuple[Any, ...]]:
    assert pattern.summary is not None
    members: dict[tuple[Any, ...], list[Binding]] = {} if pattern.summary.groups else {(): []}
    keys: dict[tuple[Any, ...], tuple[Any, ...]] = {(): ()}
    for match in matches:
        key = tuple(_group(pattern, group, match) for group in pattern.summary.groups)
        place = tuple(map(_place, key))
        keys.setdefault(place, key)
        members.setdefault(place, []).append(match)
    return [
        (*keys[place], *(_aggregate(pattern, one, members[place]) for one in pattern.summary.aggregates))
        for place in sorted(members)
    ]


def _group(pattern: Pattern, group: SummaryGroup, match: Binding) -> Any:
    if group.expression is not None:
        return returned_value(pattern, group.expression, match)
    assert group.bucket_us is not None
    end = max(event.timestamp for _, event in flat(pattern, match))
    return bucket(end, group.bucket_us, pattern.timezone)


def _place(value: Any) -> tuple[int, Any]:
    """The place of a group: values in ascending order, then NaN, then null."""
    if value is None:
        return (2, 0)
    return (1, 0) if is_absent(value) else (0, value)


def _aggregate(pattern: Pattern, item: SummaryAggregate, matches: Sequence[Binding]) -> Any:
    if item.expression is None:
        return str(len(matches))
    values = [returned_value(pattern, item.expression, match) for match in matches]
    if item.function == "sum" and item.expression.type is ValueType.INT64:
        present = [value for value in values if value is not None]
        return str(sum(present)) if present else None
    return aggregate(item.function, values)
