"""Comparisons that mix two events on one side, such as `b.x - a.x > 2`, as comparisons of a rank with a bound.

The sum of two numbers rises with each of them, rounded or not. So the events of the one that pass with an event of the
other are a beginning or an end of them in the order of what they add, and a search tells where it ends. The search
evaluates the comparison as it is written: nothing is moved to the other side, which would round otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from cep_pipeline.expressions.columns import Array, Column
from cep_pipeline.expressions.comparison import compare, known
from cep_pipeline.expressions.evaluate import expression_values
from cep_pipeline.patterns.conditions import Comparator, Comparison
from cep_pipeline.patterns.expressions import (
    Aggregate,
    Arithmetic,
    Element,
    Expression,
    Length,
    Literal,
    Negative,
    Reference,
    walk,
)
from cep_pipeline.patterns.rewriting import rewritten
from cep_pipeline.slices.keys import comparable
from cep_pipeline.slices.prepared import PreparedEvents

_ONE, _OTHER = "one", "other"
_BELOW, _ABOVE = (Comparator.LT, Comparator.LE), (Comparator.GT, Comparator.GE)

Event = tuple[str, Element]
"""A variable, and which of its events is meant."""


@dataclass(frozen=True)
class MixedComparison:
    """A comparison of sums of two terms, each over one event.

    Attributes
    ----------
    events
        The two events that it mentions.
    terms
        What each adds, as it is written.
    comparison
        The comparison with the variables `one` and `other` for the two events.
    rises
        Whether it turns from false to true, and not from true to false, as the term of each rises.
    """

    events: tuple[Event, Event]
    terms: tuple[Expression, Expression]
    comparison: Comparison
    rises: tuple[bool, bool]

    @classmethod
    def of(cls, comparison: Comparison) -> MixedComparison | None:
        """The comparison taken apart; None where it is no `<`, `<=`, `>` or `>=` of sums of two such terms."""
        if comparison.comparator not in (*_BELOW, *_ABOVE):
            return None
        found = [*_terms(comparison.left, True), *_terms(comparison.right, False)]
        if len(found) != 2 or any(event is None for event, _, _ in found):
            return None
        (one, first, one_rises), (other, second, other_rises) = found
        if one is None or other is None or one == other:
            return None
        above = comparison.comparator in _ABOVE
        names = {one: _ONE, other: _OTHER}

        def renamed(node: Expression) -> Expression:
            if not isinstance(node, Reference):
                return node
            return replace(node, variable=names[node.variable, node.element], element=Element.ONLY)

        return cls(
            (one, other), (first, second), rewritten(comparison, renamed), (one_rises == above, other_rises == above)
        )

    def turned(self) -> MixedComparison:
        """The same comparison with the other event first."""
        names = {_ONE: _OTHER, _OTHER: _ONE}

        def renamed(node: Expression) -> Expression:
            return replace(node, variable=names[node.variable]) if isinstance(node, Reference) else node

        return MixedComparison(
            self.events[::-1], self.terms[::-1], rewritten(self.comparison, renamed), self.rises[::-1]
        )

    def holds(self, events: PreparedEvents, rows: tuple[Array, Array]) -> Array:
        """Return whether it is true, of each pair of rows: bool, shape (n,)."""
        left, right = self._sides(events, rows)
        return compare(self.comparison.comparator, left, right)

    def is_known(self, events: PreparedEvents, rows: tuple[Array, Array]) -> bool:
        """Return whether it is true or false for all pairs of some events whose terms have values.

        It is unknown where a sum overflows, or where infinite terms add up to no number; if the least and the greatest
        terms do neither, no others do.
        """
        extremes = []
        for own, values in zip(rows, self._values(events, rows), strict=True):
            if np.isnan(values).all():
                return True
            extremes.append(own[[np.nanargmin(values), np.nanargmax(values)]])
        pairs = np.repeat(extremes[0], 2), np.tile(extremes[1], 2)
        masks = [known(side) for side in self._sides(events, pairs)]
        return all(mask is None or bool(mask.all()) for mask in masks)

    def ranked(self, events: PreparedEvents, rows: tuple[Array, Array]) -> tuple[Comparator, list[Array]]:
        """Numbers of the first and the second events, float64, and how those of a pair compare where it is true.

        The number of a first event is the rank of its term. One without a value has none, and is NaN. What
        `is_known` says must hold for these events.
        """
        numbers, firsts = [], []
        for own, values in zip(rows, self._values(events, rows), strict=True):
            present = np.flatnonzero(~np.isnan(values))
            _, begins, ranks = np.unique(values[present], return_index=True, return_inverse=True)
            spread = np.full(len(own), np.nan)
            spread[present] = ranks.reshape(-1)
            numbers.append(spread)
            firsts.append(own[present[begins]])
        one, other = firsts
        rises = self.rises[0]
        low, high = np.zeros(len(other), np.int64), np.full(len(other), len(one))
        for _ in range(len(one).bit_length()):
            middle = (low + high) >> 1
            tried = np.minimum(middle, len(one) - 1)
            before = (self.holds(events, (one[tried], other)) != rises) & (low < high)
            low, high = np.where(before, middle + 1, low), np.where(before | (low >= high), high, middle)
        present = ~np.isnan(numbers[1])
        numbers[1][present] = low[numbers[1][present].astype(np.int64)]
        return Comparator.GE if rises else Comparator.LT, numbers

    def _values(self, events: PreparedEvents, rows: tuple[Array, Array]) -> list[Array]:
        """The terms of some first and some second events, each in an order of its own; NaN where there is no value."""
        found = []
        for term, own in zip(self.terms, rows, strict=True):
            name = next(node.variable for node in walk(term) if isinstance(node, Reference))
            only = rewritten(
                term, lambda node: replace(node, element=Element.ONLY) if isinstance(node, Reference) else node
            )
            found += comparable([expression_values(only, events, {name: own})])
        return [values[: len(own)] for values, own in zip(found, rows, strict=True)]

    def _sides(self, events: PreparedEvents, rows: tuple[Array, Array]) -> list[Column]:
        bound = dict(zip((_ONE, _OTHER), rows, strict=True))
        return [expression_values(side, events, bound) for side in (self.comparison.left, self.comparison.right)]


def _terms(expression: Expression, rises: bool) -> Iterator[tuple[Event | None, Expression, bool]]:
    """The largest parts over one event each, and whether the whole rises with them; a part without event is no such."""
    nodes = list(walk(expression))
    if any(isinstance(node, Length | Aggregate) for node in nodes):
        yield None, expression, rises
        return
    mentioned = {(node.variable, node.element) for node in nodes if isinstance(node, Reference)}
    if len(mentioned) <= 1:
        for event in mentioned:
            yield event, expression, rises
        return
    match expression:
        case Negative(operand):
            yield from _terms(operand, not rises)
        case Arithmetic("+" | "-" as operator, left, right):
            yield from _terms(left, rises)
            yield from _terms(right, rises == (operator == "+"))
        case Arithmetic("*", Literal(int() | float() as factor), scaled) | Arithmetic(
            "*" | "/", scaled, Literal(int() | float() as factor)
        ) if factor:
            yield from _terms(scaled, rises == (factor > 0))
        case _:
            yield None, expression, rises
