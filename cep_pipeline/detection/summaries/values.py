"""The values that groups and aggregates read, numbered in their order: a count asks for matches with some of them.

The number of an event's value stands in a further column of the events. A condition on such a column is what tells the
matches of a group.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from cep_pipeline.detection.matches import column_to_arrow
from cep_pipeline.detection.summaries.partial import FRACTION_BITS, Value, group_codes, is_nan, rank, whole_units
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.evaluate import expression_values
from cep_pipeline.patterns.conditions import Comparator, Comparison, Condition
from cep_pipeline.patterns.expressions import (
    Aggregate,
    Arithmetic,
    Element,
    Expression,
    Length,
    Literal,
    Negative,
    Reference,
    ValueType,
    variables_of,
    walk,
)
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.rewriting import rewritten
from cep_pipeline.slices.keys import agreement_codes
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import leaf_of, leaf_view, view_of_leaf

_ROUNDED = "a sum of float64 is rounded in each match"
Columns = dict[str, Array]
"""Further columns of the events, by name: int64, -1 where a row has nothing."""
Signed = list[tuple[int, tuple[Condition, ...]]]
"""Conditions whose numbers of matches, added up with these signs, are the number that is asked."""


class NotCounted(Exception):
    """Something about a summary, as the text says, asks for the matches themselves."""


@dataclass
class Values:
    """The values of an expression that reads one event of a variable, or its list as a whole.

    Attributes
    ----------
    tested
        What a condition compares with the number of a value: a column of the event, or the length of the list.
    values
        The distinct values, ascending; null is the last one.
    rows, codes
        The events, by their rows, and the number of the value that each has; without rows for a length.
    known_greatest
        Whether it is known how long lists are.
    apart
        The list of which the event is one element, which stands apart from the others; the value is added up over them.
    widest
        The greatest size that such a sum may have, in the units of `whole_units`.
    """

    tested: Expression
    values: list[Value]
    rows: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    codes: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    known_greatest: bool = False
    apart: str | None = None
    widest: int = 0

    @property
    def has_null(self) -> bool:
        return bool((self.codes == len(self.values) - 1).any())

    @property
    def are_finite(self) -> bool:
        return all(map(is_finite, self.values[:-1]))

    def between(self, low: int, high: int) -> Signed:
        """The matches in which the number of the value is one of these."""
        tested = self.tested
        if isinstance(tested, Aggregate):  # the greatest one is at most this: each one is
            each = Reference(tested.variable, tested.attribute, Element.EACH, ValueType.INT64)
            none = len(self.values) - 1
            if tested.function == "max":  # elements without a value are numbered as less than all, or more
                if low == none:
                    return [(1, (_compared(each, Comparator.LE, -1),))]
                return _less(*(_compared(each, Comparator.LE, end) for end in (high, low - 1)))
            if low == none:
                return [(1, (_compared(each, Comparator.GE, none),))]
            return _less(*(_compared(each, Comparator.GE, end) for end in (low, high + 1)))
        first = isinstance(tested, Length)
        if low == high:
            return [(1, (_compared(tested, Comparator.EQ, low + first),))]
        ends = (Comparator.GE, low), (Comparator.LE, high)
        return [(1, tuple(_compared(tested, comparator, end + first) for comparator, end in ends))]

    def known(self) -> list[Signed]:
        """The matches in which there is a value."""
        return [self.between(0, len(self.values) - 2)] if self.has_null and not self.apart else []

    def null_elements(self, variable: str) -> Signed:
        """The matches in which each element of a list has no value, if this is of one element of the list."""
        assert isinstance(self.tested, Reference)
        each = replace(self.tested, variable=variable, element=Element.EACH)
        return [(1, (_compared(each, Comparator.EQ, len(self.values) - 1),))]

    def note(self, columns: Columns, events: PreparedEvents) -> None:
        """Add the columns that conditions ask for."""
        if isinstance(self.tested, Length):
            return
        assert isinstance(self.tested, Reference | Aggregate)
        codes = self.codes
        if isinstance(self.tested, Aggregate) and self.tested.function == "max":
            codes = np.where(codes == len(self.values) - 1, -1, codes)
        columns[self.tested.attribute] = spread(codes, self.rows, len(events))


def _compared(tested: Expression, comparator: Comparator, number: int) -> Comparison:
    return Comparison(comparator, tested, Literal(number, ValueType.INT64))


def _less(some: Condition, others: Condition) -> Signed:
    """The matches that fulfil one condition and not another one, which implies it."""
    return [(1, (some,)), (-1, (others,))]


def spread(numbers: Array, rows: Array, size: int) -> Array:
    """A column of `size` events with these numbers in some rows, and -1 elsewhere."""
    column = np.full(size, -1, np.int64)
    column[rows] = numbers
    return column


def values_of(
    expression: Expression, clause: Clause, events: PreparedEvents, column: str, of: tuple[str, Array] | None = None
) -> Values:
    """The values of an expression that reads one event of one variable, or a list's length or extremes.

    Parameters
    ----------
    column
        The name of the column for the numbers of the values.
    of
        A variable that is not in the clause, and its events; None: the variable that the expression reads, or any.
    """
    names = variables_of(expression)
    if of is not None:
        variable = of[0]
    else:
        if len(names) > 1:
            raise NotCounted(f"one value is read of {in_words(sorted(names))}")
        any_variable = next((one for one in clause.positive if not one.kleene), clause.positive[0])
        variable = next(iter(names), any_variable.name)
    tested: Expression = Reference(variable, column, Element.ONLY, ValueType.INT64)
    if of is not None:
        rows = of[1]
    elif not (bound := clause.by_name[variable]).kleene:
        rows = rows_of(variable, clause, events)
    else:
        rows = np.array(leaf_view(events, bound.event_type, (), 0, len(events)).rows)
        if isinstance(expression, Length):
            most = len(rows) if bound.maximum is None else min(bound.maximum, len(rows))
            return Values(expression, [*range(1, most + 1), None])
        expression, tested = _on_one_element(expression, column)
    read = column_to_arrow(expression_values(expression, events, {variable: rows}))
    if isinstance(tested, Aggregate) and any(map(is_nan, read.to_pylist())):
        raise NotCounted("elements are NaN")
    codes, keys = group_codes([read], len(rows))
    values = [value for (value,) in keys]
    order = sorted(range(len(values)), key=lambda place: rank(values[place]))
    places = np.zeros(len(values), np.int64)
    places[order] = np.arange(len(order))
    ascending = [values[place] for place in order if values[place] is not None]
    return Values(tested, [*ascending, None], rows, places[codes])


def rows_of(variable: str, clause: Clause, events: PreparedEvents) -> Array:
    """The events that a single variable may bind, by their rows."""
    return np.array(view_of_leaf(events, leaf_of(clause, variable), 0, len(events)).rows)


def _on_one_element(expression: Expression, column: str) -> tuple[Expression, Expression]:
    """An expression over a list as one over a single event, and what a condition asks of the list's column.

    That is the first or the last element, or the extreme of all.
    """
    if isinstance(expression, Aggregate) and expression.function in ("min", "max") and not expression.prefix:
        of_one = Reference(expression.variable, expression.attribute, Element.ONLY, expression.type)
        return of_one, replace(expression, attribute=column, type=ValueType.INT64)
    nodes = [node for node in walk(expression) if isinstance(node, Reference | Length | Aggregate)]
    elements = {node.element if isinstance(node, Reference) else None for node in nodes}
    element = elements.pop() if len(elements) == 1 else None
    if element not in (Element.FIRST, Element.LAST):
        raise NotCounted("one value is made of several elements of a list")
    tested = Reference(nodes[0].variable, column, element, ValueType.INT64)

    def only(node: Expression) -> Expression:
        return replace(node, element=Element.ONLY) if isinstance(node, Reference) else node

    return rewritten(expression, only), tested


# Sums of values of several variables.


@dataclass
class SumOfTerms:
    """A sum of products of values, exact in each match.

    Attributes
    ----------
    terms
        Of each product a whole number; how many of the factors, this one included, are in units of 2 ** -1074, as
        float64 are; and the values that are multiplied.
    """

    terms: list[tuple[int, int, list[Values]]]
    is_float: bool


def is_of_one(expression: Expression) -> bool:
    """Return whether an expression reads one event, asks one thing of a list, or reads nothing."""
    if isinstance(expression, Length | Aggregate):
        return True
    nodes = [node for node in walk(expression) if isinstance(node, Reference | Length | Aggregate)]
    read = {(node.variable, node.element) for node in nodes if isinstance(node, Reference)}
    return len(read) <= 1 and all(isinstance(node, Reference) for node in nodes)


def terms_of(expression: Expression, sign: int = 1) -> Iterator[tuple[int, tuple[Expression, ...]]]:
    """The terms of a sum or difference, each with its sign and its factors, which read one event or list each."""
    if is_of_one(expression):
        yield sign, (expression,)
        return
    match expression:
        case Arithmetic("+" | "-" as operator, left, right):
            yield from terms_of(left, sign)
            yield from terms_of(right, sign if operator == "+" else -sign)
        case Arithmetic("*", left, right):
            for (one, factors), (other, more) in product(terms_of(left), terms_of(right)):
                yield sign * one * other, (*factors, *more)
        case Negative(operand):
            yield from terms_of(operand, -sign)
        case _:
            names = variables_of(expression)
            several = "made of several elements of a list" if len(names) < 2 else f"read of {in_words(sorted(names))}"
            raise NotCounted(f"one value is {several}")


def check_exact(of: SumOfTerms, clause: Clause, events: PreparedEvents) -> None:
    """Refuse a sum that is not exact in some match, by the values of events that agree on what a match agrees on."""
    widest, digits, whole = [], [], 0
    for coefficient, units, factors in of.terms:
        sizes, lowest, of_ints = abs(coefficient), abs(coefficient) & -abs(coefficient), 1
        for values in factors:
            own = [abs(whole_units(value)) for value in values.values[:-1]]
            size, together = max([1, values.widest, *own]), 0
            for unit in own:
                together |= unit
            sizes, lowest = sizes * size, lowest * ((together & -together) or 1)
            of_ints *= 1 if isinstance(values.values[0], float) else size
        whole += of_ints
        if of.is_float:
            moved = FRACTION_BITS * (units - 1)
            if moved > 0 and lowest % (1 << moved):
                raise NotCounted(_ROUNDED)
            sizes, lowest = (one >> moved if moved >= 0 else one << -moved for one in (sizes, lowest))
        widest.append(sizes)
        digits.append(lowest)
    if whole >= 2**63 or (not of.is_float and sum(widest) >= 2**63):
        raise NotCounted("a sum may exceed int64")
    if not of.is_float or is_held(sum(widest), digits):
        return
    if len(of.terms) > 2 or any(abs(one) != 1 or len(values) != 1 or values[0].apart for one, _, values in of.terms):
        raise NotCounted(_ROUNDED)
    # The difference of two values of one key, such as two prices of a stock, may be exact where others are not.
    keys, number = np.zeros(len(events), np.int64), 1
    if clause.agree_on:
        keys, number = agreement_codes(events, clause.agree_on)
    low, high, digits = ([0] * number for _ in range(3))
    for sign, _, (values,) in of.terms:
        units_of = [0 if value is None else sign * whole_units(value) for value in values.values]
        own_keys = keys[values.rows].astype(np.int64)
        pairs = np.unique((own_keys * len(units_of) + values.codes)[own_keys >= 0])
        ends: dict[int, tuple[int, int]] = {}
        for pair in pairs.tolist():
            key, unit = pair // len(units_of), units_of[pair % len(units_of)]
            least, greatest = ends.get(key, (unit, unit))
            ends[key] = min(least, unit), max(greatest, unit)
            digits[key] |= abs(unit)
        for key, (least, greatest) in ends.items():
            low[key] += least
            high[key] += greatest
    for key in range(number):
        if not is_held(max(abs(low[key]), abs(high[key])), [digits[key]]):
            raise NotCounted(_ROUNDED)


def is_held(widest: int, units: Iterable[int]) -> bool:
    """Return whether float64 holds all whole multiples, up to `widest`, of the last bit that any of the units has."""
    together = 0
    for unit in units:
        together |= abs(unit)
    return widest <= (together & -together) << 53


def is_finite(value: Value) -> bool:
    """Return whether a value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def in_words(names: Sequence[str]) -> str:
    """Names as a list in a sentence."""
    return " and ".join((", ".join(names[:-1]), names[-1]) if len(names) > 1 else names)
