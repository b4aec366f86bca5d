"""The values that groups and aggregates read, numbered in their order: a count asks for matches with some of them.

The number of an event's value stands in a further column of the events, and so does each bit of its value. A condition
on such a column is what tells the matches of a count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple

import numpy as np

from cep_pipeline.detection.matches import column_to_arrow
from cep_pipeline.detection.summaries.partial import FRACTION_BITS, Value, group_codes, is_nan, rank, whole_units
from cep_pipeline.expressions.columns import Array, ColumnSource
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

    def parts(self) -> list[tuple[int, list[Signed]]]:
        """The finite values as a sum: how much a match adds, in the units of `whole_units`, if it fulfils so much."""
        finite = [code for code, value in enumerate(self.values) if is_finite(value)]
        if not finite:
            return []
        least, shift, _ = self._span()
        some = self.has_null or len(finite) < len(self.values) - 1
        found = [(least, [self.between(finite[0], finite[-1])] if some else [])] if least else []
        bits = self.bits()
        found += [(1 << (bit + shift), [self.bit(bit)]) for bit in range(len(bits))]
        if not bits:
            units = ((whole_units(self.values[code]), code) for code in finite)
            found += [(unit - least, [self.between(code, code)]) for unit, code in units if unit != least]
        return found

    def bit(self, number: int) -> Signed:
        """The matches in which a value, above the least one, has a bit."""
        assert isinstance(self.tested, Reference)
        return [(1, (_compared(replace(self.tested, attribute=self._bit_column(number)), Comparator.EQ, 1),))]

    def null_elements(self, variable: str) -> Signed:
        """The matches in which each element of a list has no value, if this is of one element of the list."""
        assert isinstance(self.tested, Reference)
        each = replace(self.tested, variable=variable, element=Element.EACH)
        return [(1, (_compared(each, Comparator.EQ, len(self.values) - 1),))]

    def note(self, columns: Columns, events: PreparedEvents, *, with_bits: bool = False) -> None:
        """Add the columns that conditions ask for."""
        if isinstance(self.tested, Length):
            return
        assert isinstance(self.tested, Reference | Aggregate)
        codes = self.codes
        if isinstance(self.tested, Aggregate) and self.tested.function == "max":
            codes = np.where(codes == len(self.values) - 1, -1, codes)
        columns[self.tested.attribute] = spread(codes, self.rows, len(events))
        if with_bits and isinstance(self.tested, Reference):
            for number, bit in enumerate(self.bits()):
                columns[self._bit_column(number)] = spread(bit[self.codes], self.rows, len(events))

    def _bit_column(self, number: int) -> str:
        assert isinstance(self.tested, Reference)
        return f"{self.tested.attribute} bit {number}"

    def bits(self) -> list[Array]:
        """Each bit of the distinct values, above the least of them; none where there are fewer values than bits."""
        finite = np.array(list(map(is_finite, self.values)))
        if not finite.any() or not isinstance(self.tested, Reference):
            return []
        least, shift, bits = self._span()
        if np.count_nonzero(finite) <= bits:
            return []
        own: Array = np.zeros(len(self.values), np.int64)
        whole = self._whole()
        if whole is not None:
            own[finite] = (whole.numbers - whole.numbers.min()) >> (shift - whole.scale)
            return [own >> bit & 1 for bit in range(bits)]
        units = [whole_units(value) - least >> shift if is_finite(value) else 0 for value in self.values]
        return [np.array([unit >> bit & 1 for unit in units], np.int64) for bit in range(bits)]

    def _span(self) -> tuple[int, int, int]:
        """The span (`span_of`) of the finite values, in the units of `whole_units`."""
        whole = self._whole()
        if whole is None:
            return span_of([whole_units(value) for value in self.values if is_finite(value)])
        least = int(whole.numbers.min())
        above = whole.numbers - least
        together = int(np.bitwise_or.reduce(above))
        shift = (together & -together).bit_length() - 1 if together else 0
        return least << whole.scale, shift + whole.scale, (int(above.max()) >> shift).bit_length()

    def _whole(self) -> _WholeNumbers | None:
        return _whole_numbers([value for value in self.values if is_finite(value)])


class _WholeNumbers(NamedTuple):
    """Numbers as int64, of which each stands for 2 ** scale of the units of `whole_units`."""

    scale: int
    numbers: Array


def _whole_numbers(finite: Sequence[Value]) -> _WholeNumbers | None:
    """Finite values without a step of Python for each; None where one unit does not do for all of them in int64."""
    numbers, scale = np.array(finite), 0
    if numbers.dtype == np.float64:
        fractions, exponents = np.frexp(numbers)
        numbers, shifts = np.ldexp(fractions, 53).astype(np.int64), exponents.astype(np.int64) - 53
        zeros = np.frexp((numbers & -numbers).astype(np.float64))[1] - 1  # at the end of each
        lowest = int((shifts + zeros)[numbers != 0].min(initial=0))
        if int((shifts + 53 - lowest).max(initial=0)) > _BITS_OF_A_NUMBER:
            return None
        up = shifts - lowest
        numbers = np.where(up >= 0, numbers << np.maximum(up, 0), numbers >> np.maximum(-up, 0))
        scale = lowest + FRACTION_BITS
    if numbers.dtype != np.int64 or int(numbers.max()) - int(numbers.min()) >= 1 << _BITS_OF_A_NUMBER:
        return None
    return _WholeNumbers(scale, numbers)


_BITS_OF_A_NUMBER = 62
"""Bits of a number such that the difference of two fits an int64."""


def _compared(tested: Expression, comparator: Comparator, number: int) -> Comparison:
    return Comparison(comparator, tested, Literal(number, ValueType.INT64))


def _less(some: Condition, others: Condition) -> Signed:
    """The matches that fulfil one condition and not another one, which implies it."""
    return [(1, (some,)), (-1, (others,))]


def span_of(units: Sequence[int]) -> tuple[int, int, int]:
    """The least of some numbers, the zeros at the end of all differences from it, and the bits that they differ in."""
    least, together = min(units), 0
    for unit in units:
        together |= unit - least
    shift = (together & -together).bit_length() - 1 if together else 0
    return least, shift, ((max(units) - least) >> shift).bit_length()


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


# Expressions over two variables that rise or fall with one value of one of them, such as `b.price - a.price`.

_SIGN = np.int64(2**63 - 1)


def moving_value(expression: Expression) -> Reference | None:
    """The value with which an expression over two variables rises or falls, whatever the other one is; None: none.

    Examples
    --------
    >>> from cep_pipeline.patterns.expressions import ValueType
    >>> a, b = (Reference(name, "x", Element.ONLY, ValueType.INT64) for name in "ab")
    >>> gain = Arithmetic("/", Arithmetic("-", b, a, ValueType.INT64), a, ValueType.FLOAT64)
    >>> moving_value(gain).variable
    'b'
    """
    names = variables_of(expression)
    if len(names) != 2:
        return None
    for reference in (node for node in walk(expression) if isinstance(node, Reference)):
        alone = sum(getattr(node, "variable", None) == reference.variable for node in walk(expression)) == 1
        if alone and reference.element is Element.ONLY and reference.type.is_number and _moves(expression, reference):
            return reference
    return None


def _moves(expression: Expression, reference: Reference) -> bool:
    if expression == reference:
        return True
    match expression:
        case Negative(operand):
            return _moves(operand, reference)
        case Arithmetic("+" | "-" | "*", left, right):
            return _moves(right if reference.variable in variables_of(right) else left, reference)
        case Arithmetic("/", left, _):
            return _moves(left, reference)
    return False


class Monotone:
    """The results of an expression for events of one variable and the distinct values of the other one.

    For an event of the other variable the pairs with a result of at least `r` are those whose value is on one side of a
    bound, which is found by bisection over the distinct values. So "some match has a result of at least r" is a
    comparison of the value's number with a number of the other event, and the greatest result is found by asking so for
    some r. Results are computed as the language computes them, rounding included: to round changes no order.

    Parameters
    ----------
    moving
        The value with which the expression moves.
    other, rows
        The other variable, and its events, by their rows.
    values
        An event of each distinct value, ascending, by their rows; one at least.

    Attributes
    ----------
    known
        bool: the events of the other variable for which there is a result.
    is_plain
        Whether there is a finite result for each value or for none; otherwise nothing is asked.
    """

    def __init__(
        self, expression: Expression, moving: Reference, other: str, source: ColumnSource, rows: Array, values: Array
    ) -> None:
        self._expression, self._source = expression, source
        self._other, self._moving, self._rows, self._values = other, moving.variable, rows, values
        first, known = self._results(np.zeros(len(rows), np.int64))
        last, also = self._results(np.full(len(rows), len(values) - 1))
        self.known = known
        self.is_plain = bool(
            (known == also).all() and np.isfinite(first[known]).all() and np.isfinite(last[known]).all()
        )
        self._rises = last >= first
        ends = np.concatenate((first[known], last[known]))
        self.least, self.greatest = (0, -1) if not len(ends) else (_key(ends.min()), _key(ends.max()))
        self._type = first.dtype

    def _results(self, numbers: Array) -> tuple[Array, Array]:
        rows = {self._other: self._rows, self._moving: self._values[numbers]}
        column = expression_values(self._expression, self._source, rows)
        return column.values, np.ones(len(column), bool) if column.valid is None else np.asarray(column.valid)

    def result(self, key: int) -> int | float:
        """The result with a key: keys are whole numbers in the order of the results."""
        if self._type != np.float64:
            return key
        bits = np.array(key if key >= 0 else -key, np.int64)
        size = float(bits.view(np.float64))
        return size if key >= 0 else -size

    def bounds(self, key: int, *, greatest: bool) -> tuple[Array, Array]:
        """The values with which each event has a result at least, or at most, as large as that of a key.

        Returns
        -------
        up : Array
            bool: whether they are all from a value on, not all up to one.
        bound : Array
            int64: the number of that value, which may be one beyond all.
        """
        result, up = self.result(key), self._rises if greatest else ~self._rises
        low, high = np.zeros(len(self._rows), np.int64), np.full(len(self._rows), len(self._values))
        while (open_ := low < high).any():
            middle = (low + high) // 2
            found, _ = self._results(np.minimum(middle, len(self._values) - 1))
            holds = (found >= result if greatest else found <= result) == up
            high = np.where(open_ & holds, middle, high)
            low = np.where(open_ & ~holds, middle + 1, low)
        return up, np.where(up, low, low - 1)


def _key(result: int | float) -> int:
    if not isinstance(result, np.float64):
        return int(result)
    bits = int(np.abs(result).view(np.int64) & _SIGN)
    return bits if result >= 0 else -bits
