"""The part of a stream that a set of patterns needs: its columns, and the time before a slice that must be read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cep_pipeline.patterns.conditions import AllOf, AnyOf, Condition, Equivalence, Not, expressions_of
from cep_pipeline.patterns.expressions import Aggregate, Expression, Reference, walk
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.ownership import Finality, finality_of


def columns_needed(patterns: Iterable[Pattern]) -> tuple[str, ...]:
    """The columns that detection reads: timestamp, seq, the type attribute and every attribute that is mentioned."""
    names: dict[str, None] = dict.fromkeys(("timestamp", "seq"))
    for pattern in patterns:
        names.update(_columns_of(pattern))
    return tuple(names)


_MOST_PATTERNS = 1 << 12
_columns: OrderedDict[int, tuple[Pattern, dict[str, None]]] = OrderedDict()


def _columns_of(pattern: Pattern) -> dict[str, None]:
    """The columns of one pattern, found once for this very object: every slice asks for them."""
    known = _columns.get(id(pattern))
    if known is not None:  # it holds the pattern, so that no other one can have its id
        return known[1]
    names: dict[str, None] = {pattern.type_attribute: None}
    names.update(dict.fromkeys(pattern.partition_by))
    names.update(dict.fromkeys(_attributes(_expressions(pattern.condition))))
    names.update(dict.fromkeys(_equivalences(pattern.condition)))
    names.update(dict.fromkeys(_attributes(item.expression for item in pattern.returns)))
    _columns[id(pattern)] = pattern, names
    while len(_columns) > _MOST_PATTERNS:
        _columns.popitem(last=False)
    return names


def attributes_returned(pattern: Pattern) -> tuple[str, ...]:
    """The attributes that RETURN reads, each once."""
    return tuple(dict.fromkeys(_attributes(item.expression for item in pattern.returns)))


@dataclass(frozen=True, slots=True)
class LookBack:
    """The distance before the start of a slice from which its task reads.

    Attributes
    ----------
    time_us
        For time windows, in microseconds.
    positions
        For count windows: so many events before those of the time at which the slice starts. Where positions are
        counted in partitions, so many of each partition that has events in the slice.
    """

    time_us: int = 0
    positions: int = 0


def look_back(patterns: Iterable[Pattern]) -> LookBack:
    """Compute how long before the start of a slice its task must read, and how many events.

    The window W of the longest pattern; 2W where one negated variable has nothing before it and one has nothing after
    it: the match that ends its wait now began W ago, and what rejects it may lie W before that. They need not stand in
    one clause: bindings that two clauses share are owned once, so the slice that owns them by one asks for the other.
    """
    time_us = positions = 0
    for pattern in patterns:
        negated = [(clause, variable.name) for clause in pattern.clauses for variable in clause.negated]
        leading = any(not clause.predecessors(name) for clause, name in negated)
        trailing = any(not clause.successors(name) for clause, name in negated)
        windows = 2 if leading and trailing else 1
        if pattern.window.time_us is not None:
            time_us = max(time_us, windows * pattern.window.time_us)
        if pattern.window.events is not None:
            positions = max(positions, windows * (pattern.window.events - 1))
    return LookBack(time_us, positions)


def look_back_us(patterns: Iterable[Pattern]) -> int:
    """The part of the look-back that is time; 0 where all windows are of a number of events."""
    return look_back(patterns).time_us


def counts_in_partitions(pattern: Pattern) -> bool:
    """Return whether the pattern's window counts the events of a partition, which may lie far apart in the stream."""
    return pattern.window.events is not None and bool(pattern.partition_by)


def can_pend(pattern: Pattern) -> bool:
    """Return whether matches may still wait when a day is over, for a window that reaches into the next day."""
    return any(finality_of(pattern, clause) is Finality.WINDOW_END for clause in pattern.clauses)


def waits_for_later_events(pattern: Pattern) -> bool:
    """Return whether matches become final only after their last event, as by a negated variable at the end."""
    return any(finality_of(pattern, clause) is not Finality.LAST_EVENT for clause in pattern.clauses)


def _conditions(condition: Condition | None) -> Iterator[Condition]:
    match condition:
        case None:
            return
        case AllOf(operands) | AnyOf(operands):
            for operand in operands:
                yield from _conditions(operand)
        case Not(operand):
            yield from _conditions(operand)
        case _:
            yield condition


def _expressions(condition: Condition | None) -> Iterator[Expression]:
    for part in _conditions(condition):
        if not isinstance(part, Equivalence | Not | AllOf | AnyOf):
            yield from expressions_of(part)


def _equivalences(condition: Condition | None) -> Iterator[str]:
    for part in _conditions(condition):
        if isinstance(part, Equivalence):
            yield from part.attributes


def _attributes(expressions: Iterable[Expression]) -> Iterator[str]:
    for expression in expressions:
        for node in walk(expression):
            if isinstance(node, Reference | Aggregate):
                yield node.attribute
