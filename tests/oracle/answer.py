"""The answer to statements: matches in order, OUTPUT, CONSUME and RETURN (docs/language.md, section 5); composition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cep_pipeline.patterns.expressions import Expression
from cep_pipeline.patterns.pattern import Consume, Pattern, Strategy
from cep_pipeline.patterns.structure import EventOperand, Negation, Operator, Structure
from tests.oracle.any_match import any_matches
from tests.oracle.clauses import Rules, choices_of, clauses_of
from tests.oracle.events import Event, partition_key, read_events, with_matches
from tests.oracle.runs import run_matches
from tests.oracle.values import Binding, Choice, value_of


@dataclass(frozen=True)
class OracleMatch:
    """One row of the answer; timestamps in microseconds, `returns` in the order of RETURN.

    `composed` names the bound events that are matches: the variable, the statement, and the number of the match there.
    """

    statement: int
    pattern: str
    start_ts: int
    end_ts: int
    bindings: tuple[tuple[str, int], ...]
    returns: tuple[Any, ...]
    composed: tuple[tuple[str, str, int], ...] = ()


def evaluate(patterns: Sequence[Pattern], table: pa.Table) -> list[OracleMatch]:
    """The matches of all statements without SUMMARIZE, statement after statement, each in the page's order.

    Parameters
    ----------
    patterns
        Parsed statements.
    table
        Events: `timestamp`, `seq` and the attributes of the patterns' stream.
    """
    return [
        _row(statement, pattern, binding)
        for statement, pattern in enumerate(patterns)
        if pattern.summary is None
        for binding in kept_matches(pattern, read_stream(table, pattern))
    ]


def read_stream(table: pa.Table, pattern: Pattern) -> list[Event]:
    """The stream of a statement: the events of a table, and the matches of the statements that it composes."""
    matches = [
        _as_event(statement, number, binding)
        for statement in pattern.composes
        for number, binding in enumerate(kept_matches(statement, read_stream(table, statement)))
    ]
    return with_matches(read_events(table, pattern), matches)


def _as_event(statement: Pattern, number: int, binding: Binding) -> Event:
    """A match as an event of the type that its statement names."""
    row = _row(0, statement, binding)
    last = max((event for _, event in flat(statement, binding)), key=lambda event: event.place)
    returned = zip(statement.returns, row.returns, strict=True)
    attributes = {
        **{item.name: value for item, value in returned if item.named},
        "timestamp": row.end_ts,
        "seq": last.seq,
        "start_ts": row.start_ts,
        "end_ts": row.end_ts,
        "match_id": f"match {number} of {statement.name}",
    }
    types = frozenset({statement.name})
    return Event(0, row.end_ts, last.seq, types, attributes, last.underlying, match=(statement.name, number))


def kept_matches(pattern: Pattern, events: Sequence[Event]) -> list[Binding]:
    """The matches of one statement in order, after OUTPUT and CONSUME."""
    search = any_matches if pattern.strategy is Strategy.SKIP_TILL_ANY_MATCH else run_matches
    found = [
        (choice, binding)
        for clause, choice in zip(clauses_of(pattern), choices_of(pattern.structure), strict=True)
        for binding in search(Rules(pattern, clause, events))
    ]
    if pattern.output.is_preferred:
        found = _preferred(pattern, found)
    union = {tuple(flat(pattern, binding)): binding for _, binding in found}
    in_order = sorted(union.values(), key=lambda binding: _order_key(pattern, binding))
    if not pattern.output.is_preferred:
        return _select(pattern, in_order)
    kept = _select(pattern, sorted(in_order, key=lambda binding: _first_place(pattern, binding)))
    return [binding for binding in in_order if binding in kept]


def _first_place(pattern: Pattern, binding: Binding) -> int:
    return min(event.place for _, event in flat(pattern, binding))


def _preferred(pattern: Pattern, found: Sequence[tuple[Any, Binding]]) -> list[tuple[Any, Binding]]:
    """Of the matches with each first event the one that the walk through the pattern, as it is written, prefers."""
    best: dict[int, tuple[Any, Binding]] = {}
    for choice, binding in sorted(found, key=lambda one: _walked(pattern.structure, *one)):
        best.setdefault(_first_place(pattern, binding), (choice, binding))
    return list(best.values())


def _walked(structure: Structure, choice: Any, binding: Binding) -> list[int]:
    """What is met on the walk through a structure; of two matches the one with the lesser list is preferred."""
    if isinstance(structure, Negation) or (isinstance(structure, EventOperand) and structure.negated):
        return []
    if isinstance(structure, EventOperand):
        sign = -1 if structure.reluctant else 1
        if choice == "absent":
            return [sign]
        places = [event.place for event in binding[structure.variable]]
        said = [0] if structure.optional else []
        return [*said, -sign * len(places), *places] if structure.kleene else [*said, *places]
    if structure.operator is Operator.OR:
        number, inner = choice
        return [number, *_walked(structure.operands[number], inner, binding)]
    parts = zip(structure.operands, choice, strict=True)
    return [met for operand, inner in parts for met in _walked(operand, inner, binding)]


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
        [event.place if pattern.composes else event.seq for _, event in pairs],
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
        if pattern.output.is_apart and first <= last_kept.get(partition, -1):
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
        returns=tuple(returned_value(pattern, item.expression, binding) for item in pattern.returns),
        composed=tuple((variable, *event.match) for variable, event in pairs if event.match is not None),
    )


def returned_value(pattern: Pattern, expression: Expression, binding: Binding) -> Any:
    """The value of an item of RETURN; an absent `v*` is a list without events."""
    absent = {operand.variable: () for operand in pattern.operands if operand.kleene and operand.optional}
    return value_of(expression, {**absent, **binding}, Choice())
