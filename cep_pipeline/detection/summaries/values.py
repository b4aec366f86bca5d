"""The values that groups and aggregates read, numbered in their order, and the weights of events that have them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal as OneOf

import numpy as np

from cep_pipeline.detection.counting.sweep import filters_of
from cep_pipeline.detection.matches import column_to_arrow
from cep_pipeline.detection.summaries.partial import FRACTION_BITS, Value, group_codes, is_nan, rank, whole_units
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.evaluate import expression_values
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
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import leaf_of, leaf_view, view_of_leaf

_ROUNDED = "a sum of float64 is rounded in each match"
_SEVERAL = "one value is made of several elements of a list"
Factors = Mapping[tuple[str, Element], Array]
"""Variable, and which of its events -> a number for each event of the slice: the factor by which a match counts that
binds the event. `ONLY` is that of a single variable, `EACH` are all elements of a list."""
Signed = list[tuple[int, Factors]]
"""Factors whose sums over the matches, added up with these signs, are the sum that is asked."""


class NotCounted(Exception):
    """Something about a summary, as the text says, asks for the matches themselves."""


@dataclass(eq=False)
class Values:
    """The values of an expression that reads one event of a variable, or its list as a whole.

    Attributes
    ----------
    read
        The event of the variable; or of its list the least or the greatest value, the length, or the sum.
    values
        The distinct values, ascending; null is the last one. Of a sum those that each element adds; none of a length.
    rows, codes
        The events, by their rows, and the number of the value that each has.
    size
        The number of events of the slice.
    widest
        The greatest size that the sum of a list may have, in the units of `whole_units`.
    """

    variable: str
    read: Element | OneOf["min", "max", "length", "sum"]
    values: list[Value]
    rows: Array
    codes: Array
    size: int
    widest: int = 0

    @property
    def key(self) -> tuple[str, Element]:
        """What a factor of these values belongs to."""
        return self.variable, self.read if isinstance(self.read, Element) else Element.EACH

    @property
    def has_null(self) -> bool:
        return bool((self.codes == len(self.values) - 1).any())

    @property
    def are_finite(self) -> bool:
        return all(map(is_finite, self.values[:-1]))

    def by_event(self, numbers: Sequence[int] | Array, kind: type = object) -> Array:
        """A number for each event of the slice, by those of the values; 0 where an event has none."""
        found: Array = np.zeros(self.size, kind)
        found[self.rows] = np.array(numbers, kind)[self.codes]
        return found

    def units(self) -> tuple[int, Array]:
        """A unit in `whole_units`, and the value of each event in it; 0 where it is no finite number."""
        units = [whole_units(value) if is_finite(value) else 0 for value in self.values]
        unit = math.gcd(*units) or 1
        return unit, self.by_event([one // unit for one in units])

    def between(self, low: int, high: int) -> Signed:
        """The matches in which the number of the value is one of these."""
        none = len(self.values) - 1
        numbers = np.arange(none + 1)
        if self.read not in ("min", "max") or low == none:
            return [(1, self._some((numbers >= low) & (numbers <= high)))]
        if self.read == "max":  # the greatest one is at most this: each one is, or is null
            most, less = (numbers <= high) | (numbers == none), (numbers < low) | (numbers == none)
        else:
            most, less = numbers >= low, numbers > high
        return [(1, self._some(most)), (-1, self._some(less))]

    def _some(self, chosen: Array) -> Factors:
        return {self.key: self.by_event(chosen, bool)}

    def known(self) -> list[Signed]:
        """The matches in which there is a value, where one may be null; of a sum only all elements together are."""
        none = len(self.values) - 1
        if not self.has_null:
            return []
        [(_, null)] = self.between(none, none)
        return [[(1, {}), (-1, null)] if self.read == "sum" else self.between(0, none - 1)]


def values_of(expression: Expression, clause: Clause, events: PreparedEvents, *, added: bool = False) -> Values:
    """The values of an expression that reads one event of one variable, or a list's length or extremes.

    Parameters
    ----------
    added
        Whether the values are added up over the matches: then a length, a sum and a number of values may be read as
        what each element adds to it.
    """
    names = variables_of(expression)
    if len(names) > 1:
        raise NotCounted(f"one value is read of {in_words(sorted(names))}")
    any_variable = next((one for one in clause.positive if not one.kleene), clause.positive[0])
    bound = clause.by_name[next(iter(names), any_variable.name)]
    if not bound.kleene:
        rows = np.array(view_of_leaf(events, leaf_of(clause, bound.name), 0, len(events)).rows)
        return Values(bound.name, Element.ONLY, *_coded(expression, bound.name, rows, events), len(events))
    if isinstance(expression, Length) and not added:
        return Values(bound.name, "length", [None], np.zeros(0, np.int64), np.zeros(0, np.int64), len(events))
    rows = np.array(leaf_view(events, bound.event_type, filters_of(clause, bound), 0, len(events)).rows)
    if added and isinstance(expression, Length):
        share: Expression = Literal(1, ValueType.INT64)
        return _bounded_sum(
            expression, Values(bound.name, "sum", *_coded(share, bound.name, rows, events), len(events))
        )
    if isinstance(expression, Aggregate) and not expression.prefix:
        share = Reference(expression.variable, expression.attribute, Element.ONLY, expression.type)
        values, rows, codes = _coded(share, bound.name, rows, events)
        match expression.function:
            case "min" | "max" as end:
                if any(map(is_nan, values)):
                    raise NotCounted("elements are NaN")
                return Values(bound.name, end, values, rows, codes, len(events))
            case "sum" if added:
                return _bounded_sum(expression, Values(bound.name, "sum", values, rows, codes, len(events)))
            case "count" if added:
                present = (codes < len(values) - 1).astype(np.int64)
                return _bounded_sum(expression, Values(bound.name, "sum", [0, 1, None], rows, present, len(events)))
    nodes = [node for node in walk(expression) if isinstance(node, Reference | Length | Aggregate)]
    elements = {node.element if isinstance(node, Reference) else None for node in nodes}
    element = elements.pop() if len(elements) == 1 else None
    if element not in (Element.FIRST, Element.LAST):
        raise NotCounted(_SEVERAL)

    def only(node: Expression) -> Expression:
        return replace(node, element=Element.ONLY) if isinstance(node, Reference) else node

    return Values(bound.name, element, *_coded(rewritten(expression, only), bound.name, rows, events), len(events))


def _coded(
    expression: Expression, variable: str, rows: Array, events: PreparedEvents
) -> tuple[list[Value], Array, Array]:
    """The distinct values of an expression over one event, ascending, then null; the rows, and the number of each."""
    read = column_to_arrow(expression_values(expression, events, {variable: rows}))
    codes, keys = group_codes([read], len(rows))
    values = [value for (value,) in keys]
    order = sorted(range(len(values)), key=lambda place: rank(values[place]))
    places = np.zeros(len(values), np.int64)
    places[order] = np.arange(len(order))
    ascending = [values[place] for place in order if values[place] is not None]
    return [*ascending, None], rows, places[codes]


def _bounded_sum(expression: Length | Aggregate, values: Values) -> Values:
    """The values of a sum over a list, which is exact whatever the list binds."""
    units = [abs(whole_units(value)) if is_finite(value) else 0 for value in values.values]
    times = np.bincount(values.codes, minlength=len(units)).tolist()
    values.widest = sum(unit * number for unit, number in zip(units, times, strict=True))
    if expression.type is ValueType.FLOAT64:
        if not values.are_finite or not is_held(values.widest, units):
            raise NotCounted("the sum of a list is rounded")
    elif values.widest >= 2**63:
        raise NotCounted("the sum of a list may exceed int64")
    return values


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
            raise NotCounted(_SEVERAL if len(names) < 2 else f"one value is read of {in_words(sorted(names))}")


def check_exact(of: SumOfTerms) -> None:
    """Refuse a sum that may not be exact in some match."""
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
    if of.is_float and not is_held(sum(widest), digits):
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
