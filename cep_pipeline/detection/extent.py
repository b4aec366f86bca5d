"""What part of a stream a set of patterns needs: which columns, and how far before a slice its events reach."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cep_pipeline.detection.finality import Finality, finality_of
from cep_pipeline.errors import UnsupportedPattern
from cep_pipeline.patterns.conditions import AllOf, AnyOf, Condition, Equivalence, Not, expressions_of
from cep_pipeline.patterns.expressions import Aggregate, Expression, Reference, walk
from cep_pipeline.patterns.pattern import Pattern


def columns_needed(patterns: Iterable[Pattern]) -> tuple[str, ...]:
    """The columns that detection reads: timestamp, seq, the type attribute and every attribute that is mentioned."""
    names: dict[str, None] = dict.fromkeys(("timestamp", "seq"))
    for pattern in patterns:
        names[pattern.type_attribute] = None
        names.update(dict.fromkeys(pattern.partition_by))
        names.update(dict.fromkeys(_attributes(_expressions(pattern.condition))))
        names.update(dict.fromkeys(_equivalences(pattern.condition)))
        names.update(dict.fromkeys(_attributes(item.expression for item in pattern.returns)))
    return tuple(names)


def attributes_returned(pattern: Pattern) -> tuple[str, ...]:
    """The attributes that RETURN reads, each once."""
    return tuple(dict.fromkeys(_attributes(item.expression for item in pattern.returns)))


def look_back_us(patterns: Iterable[Pattern]) -> int:
    """How long before the start of a slice its task must read, in microseconds.

    The window W of the longest pattern; 2W where one negated variable has nothing before it and one has nothing after
    it: the match that ends its wait now began W ago, and what rejects it may lie W before that. They need not stand in
    one clause: bindings that two clauses share are owned once, so the slice that owns them by one asks for the other.

    Raises
    ------
    UnsupportedPattern
        A count window reaches back over events, not over time.
    """
    longest = 0
    for pattern in patterns:
        window_us = pattern.window.time_us
        if window_us is None:
            raise UnsupportedPattern("slices by time", "count windows", pattern=pattern.name)
        negated = [(clause, variable.name) for clause in pattern.clauses for variable in clause.negated]
        leading = any(not clause.predecessors(name) for clause, name in negated)
        trailing = any(not clause.successors(name) for clause, name in negated)
        longest = max(longest, 2 * window_us if leading and trailing else window_us)
    return longest


def waits_for_later_events(pattern: Pattern) -> bool:
    """Whether matches become final only after their last event: by a negated variable with nothing after it, say."""
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
