"""The answer to statements: matches in order, OUTPUT, CONSUME and RETURN (docs/language.md, section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cep_pipeline.patterns.pattern import Consume, Output, Pattern, Strategy
from tests.oracle.any_match import any_matches
from tests.oracle.clauses import Rules, clauses_of
from tests.oracle.events import Event, partition_key, read_events
from tests.oracle.runs import run_matches
from tests.oracle.values import Binding, Choice, value_of


@dataclass(frozen=True)
class OracleMatch:
    """One row of the answer; timestamps in microseconds, `returns` in the order of RETURN."""

    statement: int
    pattern: str
    start_ts: int
    end_ts: int
    bindings: tuple[tuple[str, int], ...]
    returns: tuple[Any, ...]


def evaluate(patterns: Sequence[Pattern], table: pa.Table) -> list[OracleMatch]:
    """The matches of all statements, statement after statement, each in the page's order.

    Parameters
    ----------
    patterns
        Parsed statements.
    table
        Events: `timestamp`, `seq` and the attributes of the patterns' stream.
    """
    return [match for statement, pattern in enumerate(patterns) for match in _answer(statement, pattern, table)]


def _answer(statement: int, pattern: Pattern, table: pa.Table) -> list[OracleMatch]:
    return [_row(statement, pattern, binding) for binding in kept_matches(pattern, read_events(table, pattern))]


def kept_matches(pattern: Pattern, events: Sequence[Event]) -> list[Binding]:
    """The matches of one statement in order, after OUTPUT and CONSUME."""
    search = any_matches if pattern.strategy is Strategy.SKIP_TILL_ANY_MATCH else run_matches
    union = {
        tuple(flat(pattern, binding)): binding
        for clause in clauses_of(pattern)
        for binding in search(Rules(pattern, clause, events))
    }
    in_order = sorted(union.values(), key=lambda binding: _order_key(pattern, binding))
    return _select(pattern, in_order)


def flat(pattern: Pattern, binding: Binding) -> list[tuple[str, Event]]:
    """(variable, event) with variables in pattern order and Kleene elements in stream order."""
    return [
        (operand.variable, event)
        for operand in pattern.operands
        if operand.variable in binding
        for event in binding[operand.variable]
    ]


def _order_key(pattern: Pattern, binding: Binding) -> tuple[int, list[int], list[int]]:
    pairs = flat(pattern, binding)
    position = {operand.variable: index for index, operand in enumerate(pattern.operands)}
    return (
        max(event.place for _, event in pairs),
        [event.seq for _, event in pairs],
        [position[variable] for variable, _ in pairs],
    )


def _select(pattern: Pattern, in_order: list[Binding]) -> list[Binding]:
    """OUTPUT NON_OVERLAP and CONSUME MATCHED: a match must pass both tests against the matches kept before."""
    kept = []
    last_kept: dict[Any, int] = {}
    consumed: set[Event] = set()
    for binding in in_order:
        events = [event for _, event in flat(pattern, binding)]
        partition = partition_key(events[0], pattern.partition_by)
        if partition is None:  # alone in its partition
            partition = events[0]
        first, last = min(event.place for event in events), max(event.place for event in events)
        if pattern.output is Output.NON_OVERLAP and first <= last_kept.get(partition, -1):
            continue
        if pattern.consume is Consume.MATCHED and not consumed.isdisjoint(events):
            continue
        kept.append(binding)
        last_kept[partition] = last
        consumed.update(events)
    return kept


def _row(statement: int, pattern: Pattern, binding: Binding) -> OracleMatch:
    pairs = flat(pattern, binding)
    timestamps = [event.timestamp for _, event in pairs]
    return OracleMatch(
        statement=statement,
        pattern=pattern.name,
        start_ts=min(timestamps),
        end_ts=max(timestamps),
        bindings=tuple((variable, event.seq) for variable, event in pairs),
        returns=tuple(value_of(item.expression, binding, Choice()) for item in pattern.returns),
    )
