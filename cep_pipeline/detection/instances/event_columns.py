"""Expressions that one event decides, computed for all events of a slice beforehand.

What is left for the interpreter are comparisons of such columns, and terms over several events.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakValueDictionary

import numpy as np

from cep_pipeline.expressions.columns import Array, Column, RowRange
from cep_pipeline.expressions.correlation import deviations_of_all
from cep_pipeline.expressions.evaluate import expression_values
from cep_pipeline.patterns.conditions import Atom, Membership, expressions_of
from cep_pipeline.patterns.expressions import (
    Aggregate,
    Element,
    Expression,
    Length,
    Literal,
    Reference,
    ValueType,
    walk,
)
from cep_pipeline.patterns.rewriting import Node, rewritten
from cep_pipeline.slices.keys import as_floats, comparable, is_exact
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import ANY_EVENT, atom_holds_for_all

EventOf = tuple[str, Element]
"""A variable, and which of its events."""
_ENDS = {"first": Element.FIRST, "last": Element.LAST}


def event_of(node: Reference | Aggregate) -> EventOf | None:
    """The one event that a reference (or `first`, `last`) reads; None for aggregates over several."""
    if isinstance(node, Reference):
        return node.variable, node.element
    return (node.variable, _ENDS[node.function]) if node.function in _ENDS else None


def events_of(*expressions: Expression) -> set[EventOf] | None:
    """The events that decide expressions; None where the length of a list or an aggregate does, too."""
    found: set[EventOf] = set()
    for expression in expressions:
        for node in walk(expression):
            if isinstance(node, Length):
                return None
            if isinstance(node, Reference | Aggregate):
                event = event_of(node)
                if event is None:
                    return None
                found.add(event)
    return found


def column_of(events: PreparedEvents, expression: Expression) -> Column:
    """The value of an expression over one event for each event of the slice; of a constant, a column of one row."""
    own = of_any_event(expression)
    if isinstance(own, Reference):
        return events.column(own.attribute)
    if not any(isinstance(node, Reference) for node in walk(own)):
        return expression_values(own, events, {ANY_EVENT: np.zeros(1, np.int32)})
    everything = RowRange(0, len(events))
    return events.derive(("values of all", own), lambda: expression_values(own, events, {ANY_EVENT: everything}))


def truths_of(events: PreparedEvents, atom: Atom) -> Array:
    """uint8: whether an atom over one event holds, for each event of the slice (or of one row for a constant)."""
    own = of_any_event(atom)
    return atom_holds_for_all(events, own).view(np.uint8)


def truths_as_reals(events: PreparedEvents, atom: Atom) -> Array:
    """float64: 1 where an atom over one event holds, NaN elsewhere, so that comparing it with itself tests it."""
    key = ("truths as reals", of_any_event(atom))
    return events.derive(key, lambda: np.where(truths_of(events, atom), 1.0, np.nan))


def comparable_columns(events: PreparedEvents, left: Expression, right: Expression) -> tuple[Array, Array]:
    """Return both sides of a comparison as float64 that compare as they do, NaN where they are unknown."""
    columns = [column_of(events, side) for side in (left, right)]
    if all(map(is_exact, columns)):
        return reals_of(events, left), reals_of(events, right)
    key = ("comparable of all", of_any_event(left), of_any_event(right))
    one, other = events.derive(key, lambda: tuple(comparable(columns)))
    return one, other


def reals_of(events: PreparedEvents, expression: Expression) -> Array:
    """A number or bool as float64, rounded where it must be, NaN where it is null."""
    column = column_of(events, expression)

    def make() -> Array:
        if is_exact(column):
            return as_floats(column)
        values: Array = column.values.astype(np.float64)
        if column.valid is not None:
            values[~column.valid] = np.nan
        return values

    return events.derive(("reals of all", of_any_event(expression)), make)


def lists_for_correlation(events: PreparedEvents, attribute: str) -> tuple[Array, Array, Array, Array]:
    """Deviations, starts, lengths and squares of all lists of an attribute, as `correlation` computes them."""
    return events.derive(("deviations of all", attribute), lambda: deviations_of_all(events.column(attribute)))


def of_any_event(node: Node) -> Node:
    """The expression or condition over `ANY_EVENT`, a single one, so that those over different events become equal."""

    def renamed(leaf: Expression) -> Expression:
        if isinstance(leaf, Reference | Aggregate):
            return Reference(ANY_EVENT, leaf.attribute, Element.ONLY, leaf.type)
        return leaf

    return rewritten(node, renamed)


class StringRanks:
    """Ranks of all strings that the conditions of a clause may compare, in one order: float64, NaN for null."""

    def __init__(self, events: PreparedEvents, atoms: list[Atom]) -> None:
        self.events = events
        texts: set[str] = set()
        for atom in atoms:
            if isinstance(atom, Membership):
                texts.update(value for value in atom.values if isinstance(value, str))
            for node in (node for side in expressions_of(atom) for node in walk(side)):
                if isinstance(node, Literal) and isinstance(node.value, str):
                    texts.add(node.value)
                elif isinstance(node, Reference | Aggregate):
                    dictionary = events.column(node.attribute).dictionary
                    if dictionary is not None:
                        texts.update(dictionary)
        self.place = {text: float(rank) for rank, text in enumerate(sorted(texts))}
        self._columns: dict[str, Array] = {}

    def column(self, attribute: str) -> Array:
        """The ranks of an attribute for all events."""
        if attribute not in self._columns:
            column = self.events.column(attribute)
            assert column.dictionary is not None
            ranks = np.array([*(self.place[text] for text in column.dictionary), np.nan])
            values = ranks[column.values] if len(column.dictionary) else np.full(len(column), np.nan)
            if column.valid is not None:
                values = np.where(column.valid, values, np.nan)
            self._columns[attribute] = values
        return self._columns[attribute]


def known_of(column: Column) -> Array | None:
    """uint8: where a column is not null; None where it never is."""
    return None if column.valid is None else np.ascontiguousarray(column.valid).view(np.uint8)


WHOLE, REAL = ValueType.INT64, ValueType.FLOAT64


Bound = tuple[Array | None, int]
"""An array and where its data are; None and 0 where there is none."""


_MAKERS: dict[str, Callable[..., Array | None]] = {
    "reals": reals_of,
    "wholes": lambda events, expression: np.ascontiguousarray(column_of(events, expression).values),
    "known": lambda events, expression: known_of(column_of(events, expression)),
    "truths": truths_of,
    "truths as reals": truths_as_reals,
    "left": lambda events, left, right: comparable_columns(events, left, right)[0],
    "right": lambda events, left, right: comparable_columns(events, left, right)[1],
}


@dataclass(frozen=True, eq=False)
class ColumnRead:
    """An array over the events of any slice: how it is made, and from what, over `ANY_EVENT`."""

    kind: str
    of: tuple[Expression | Atom, ...]

    def bind(self, events: PreparedEvents) -> Bound:
        """The array of these events, as long as they keep it."""
        return events.handle(self, self._made, events)

    def _made(self, events: PreparedEvents) -> Bound:
        array = _MAKERS[self.kind](events, *self.of)
        if array is None:
            return None, 0
        assert array.flags.c_contiguous
        return array, int(array.ctypes.data)


_reads: WeakValueDictionary[tuple[str, tuple[Expression | Atom, ...]], ColumnRead] = WeakValueDictionary()


def reading(kind: str, *of: Expression | Atom) -> ColumnRead:
    """The read of expressions or conditions over one event; the same one for all variables.

    Parameters
    ----------
    kind
        `reals` or `wholes` of an expression, where it is `known`; the `truths` of an atom, or these `truths as reals`;
        the `left` or the `right` side of a comparison as float64.
    """
    key = kind, tuple(map(of_any_event, of))
    known = _reads.get(key)
    if known is None:
        known = _reads[key] = ColumnRead(*key)
    return known
