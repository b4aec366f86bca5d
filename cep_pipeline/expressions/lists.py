"""Bindings whose variables may bind lists of events, and conditions and expressions over them, exactly.

A node that chooses an element (`v[i]`, `v[1]`) or sums up a list (`v.LEN`, `avg(v[].x)`) becomes a plain reference to
one row of a column, which `evaluate` knows how to read: all of section 3.4 is decided in one place.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import compress, pairwise
from typing import Protocol

import numpy as np

from cep_pipeline.expressions.columns import Array, Column, ColumnSource
from cep_pipeline.expressions.comparison import is_exceeded
from cep_pipeline.expressions.evaluate import conjunct_holds, expression_values
from cep_pipeline.patterns.conditions import Conjunct, expressions_of
from cep_pipeline.patterns.expressions import (
    Aggregate,
    Element,
    Expression,
    Length,
    Reference,
    ValueType,
    walk,
)
from cep_pipeline.patterns.rewriting import Node, rewritten

CHOICES_AT_ONCE = 1 << 20
"""Choices of elements and indexes (docs/language.md, section 3.4) that are held at once."""


@dataclass(frozen=True, eq=False)
class Lists:
    """One list of events for each of n bindings.

    Attributes
    ----------
    starts, lengths
        int64, shape (n,): binding m has `rows[starts[m] : starts[m] + lengths[m]]`.
    rows
        Row numbers in the events table, each list ascending.
    """

    starts: Array
    lengths: Array
    rows: Array

    def take(self, bindings: Array) -> Lists:
        """The lists of some of the bindings, or of some several times."""
        return Lists(self.starts[bindings], self.lengths[bindings], self.rows)

    def flat(self) -> Array:
        """All elements, list after list."""
        elements: Array = self.rows[ranges(self.starts, self.lengths)]
        return elements

    def firsts(self) -> Array:
        """The first element of each list."""
        rows: Array = self.rows[self.starts]
        return rows

    def lasts(self) -> Array:
        """The last element of each list."""
        rows: Array = self.rows[self.starts + self.lengths - 1]
        return rows


Bound = Mapping[str, "Array | Lists"]
"""Variable -> its row for each binding, or its list."""


def ranges(starts: Array, lengths: Array) -> Array:
    """The integers of all ranges, one range after another.

    Examples
    --------
    >>> ranges(np.array([5, 0, 2]), np.array([2, 0, 3])).tolist()
    [5, 6, 2, 3, 4]
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - ends + lengths, lengths) + np.arange(total, dtype=np.int64)


def take(bound: Bound, bindings: Array) -> dict[str, Array | Lists]:
    """The bindings at some places."""
    return {
        name: value.take(bindings) if isinstance(value, Lists) else value[bindings] for name, value in bound.items()
    }


@dataclass(frozen=True)
class Uses:
    """The uses that a conjunct makes of its Kleene variables.

    Attributes
    ----------
    elements, indexes
        Variables of which one element, or one index i, is chosen.
    whole
        Variables of which it needs the whole list: its last element, its length or an aggregate over all of it.
    kinds
        Variable -> the elements by which it is referred to.
    """

    elements: tuple[str, ...]
    indexes: tuple[str, ...]
    whole: frozenset[str]
    kinds: Mapping[str, frozenset[Element | None]]

    @classmethod
    def of(cls, conjunct: Conjunct) -> Uses:
        """The uses of a conjunct."""
        elements: dict[str, None] = {}
        indexes: dict[str, None] = {}
        whole: set[str] = set()
        kinds: dict[str, set[Element | None]] = {}
        for node in (n for atom in conjunct.atoms for e in expressions_of(atom) for n in walk(e)):
            if not isinstance(node, Reference | Length | Aggregate):
                continue
            kinds.setdefault(node.variable, set()).add(node.element if isinstance(node, Reference) else None)
            if isinstance(node, Reference):
                if node.element is Element.EACH:
                    elements[node.variable] = None
                elif node.element in (Element.CURRENT, Element.PREVIOUS):
                    indexes[node.variable] = None
                elif node.element is Element.LAST:
                    whole.add(node.variable)
            elif isinstance(node, Aggregate) and node.prefix:
                indexes[node.variable] = None
            else:
                whole.add(node.variable)
        return cls(tuple(elements), tuple(indexes), frozenset(whole), {name: frozenset(k) for name, k in kinds.items()})


def holds_over_lists(conjunct: Conjunct, events: ColumnSource, bound: Bound, count: int) -> Array:
    """Return whether a conjunct is true for every choice of elements and indexes, for each binding.

    Parameters
    ----------
    bound
        At least the conjunct's variables.
    count
        Number of bindings.

    Returns
    -------
    Array
        bool, shape (count,). Without any choice (an index of a list of one) it holds.
    """
    uses = Uses.of(conjunct)
    bound = {name: bound[name] for name in conjunct.variables}
    choices = np.ones(count, np.int64)
    for names, less in ((uses.elements, 0), (uses.indexes, 1)):
        for name in names:
            choices *= _lists(bound, name).lengths - less
    holds = np.ones(count, dtype=bool)
    for start, stop in pieces(choices, CHOICES_AT_ONCE):
        part = bound if stop - start == count else take(bound, np.arange(start, stop))
        scope = _choices(uses, events, part, stop - start)
        if len(scope.binding) == 0:
            continue
        truth = conjunct_holds(resolved(conjunct, scope), scope, scope.rows)
        holds[start + scope.binding[~truth]] = False
    return holds


def values_compared(
    conjunct: Conjunct, events: ColumnSource, bound: Bound, count: int = 1
) -> tuple[Array, list[tuple[Column, ...]]]:
    """The values that a conjunct compares in so many bindings, for every choice of elements and indexes.

    Returns
    -------
    truth : Array
        bool, shape (n,): whether the conjunct is true for each choice.
    values : list of tuple of Column
        For each atom the values of its expressions (`expressions_of`), each of length n.
    """
    scope = _choices(Uses.of(conjunct), events, {name: bound[name] for name in conjunct.variables}, count)
    plain = resolved(conjunct, scope)
    values = [tuple(expression_values(one, scope, scope.rows) for one in expressions_of(atom)) for atom in plain.atoms]
    return conjunct_holds(plain, scope, scope.rows), values


def values_over_lists(expression: Expression, events: ColumnSource, bound: Bound, count: int) -> Column:
    """The value of an expression without choices (an item of RETURN) for each binding."""
    scope = _Scope(events, bound, np.arange(count))
    return expression_values(resolved(expression, scope), scope, scope.rows)


def pieces(sizes: Array, limit: int) -> Iterator[tuple[int, int]]:
    """Cut a sequence into consecutive pieces of at most a limit in size, of one member at least.

    Examples
    --------
    >>> [*pieces(np.array([2, 3, 9, 0, 1]), 5)]
    [(0, 2), (2, 3), (3, 5)]
    """
    ends = np.cumsum(sizes)
    start, before = 0, 0
    while start < len(ends):
        stop = max(start + 1, int(np.searchsorted(ends, before + limit, "right")))
        yield start, stop
        start, before = stop, int(ends[stop - 1])


def _choices(uses: Uses, events: ColumnSource, bound: Bound, count: int) -> _Scope:
    """All choices of elements and indexes that a conjunct makes in so many bindings."""
    scope = _Scope(events, bound, np.arange(count))
    for name in uses.elements:
        scope.choose(scope.elements, name, 0)
    for name in uses.indexes:
        scope.choose(scope.indexes, name, 1)
    return scope


def _lists(bound: Bound, name: str) -> Lists:
    lists = bound[name]
    assert isinstance(lists, Lists)
    return lists


@dataclass
class _Scope:
    """The columns that the references of one expression read: a source, and columns derived from lists.

    `binding` is the binding of each choice; `elements` and `indexes` the place in the lists' rows that is chosen.
    """

    events: ColumnSource
    bound: Bound
    binding: Array
    elements: dict[str, Array] = field(default_factory=dict)
    indexes: dict[str, Array] = field(default_factory=dict)
    rows: dict[str, Array] = field(default_factory=dict)
    derived: dict[str, Column] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rows[""] = np.zeros(len(self.binding), np.int32)

    def column(self, name: str) -> Column:
        return self.derived[name] if name in self.derived else self.events.column(name)

    def choose(self, into: dict[str, Array], name: str, skipped: int) -> None:
        """Choose each element of a list but the first ones, beside all choices so far."""
        lists = _lists(self.bound, name)
        lengths = np.maximum(lists.lengths[self.binding] - skipped, 0)
        chosen = ranges(lists.starts[self.binding] + skipped, lengths)
        again = np.repeat(np.arange(len(self.binding)), lengths)
        for places in (self.elements, self.indexes):
            for other in places:
                places[other] = places[other][again]
        into[name] = chosen
        self.binding = self.binding[again]
        self.rows[""] = np.zeros(len(self.binding), np.int32)

    def row(self, name: str, variable: str, element: Element) -> None:
        """Let `name` mean an event."""
        if name in self.rows:
            return
        value = self.bound[variable]
        if not isinstance(value, Lists):
            self.rows[name] = value[self.binding]
            return
        match element:
            case Element.FIRST:
                place = value.starts[self.binding]
            case Element.LAST:
                place = (value.starts + value.lengths - 1)[self.binding]
            case Element.CURRENT:
                place = self.indexes[variable]
            case Element.PREVIOUS:
                place = self.indexes[variable] - 1
            case _:
                place = self.elements[variable]
        self.rows[name] = value.rows[place]

    def summary(self, name: str, node: Length | Aggregate) -> None:
        """Let `name` mean a column made from lists, and its rows."""
        if name in self.rows:
            return
        lists = _lists(self.bound, node.variable)
        if isinstance(node, Length):
            self.derived[name] = Column(ValueType.INT64, lists.lengths.astype(np.int64, copy=False))
            self.rows[name] = self.binding
            return
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lists.lengths)))
        self.derived[name] = running(node, self.events.column(node.attribute), lists.flat(), offsets)
        if node.prefix:
            before = self.indexes[node.variable] - lists.starts[self.binding] - 1
            self.rows[name] = offsets[self.binding] + before
        else:
            self.rows[name] = offsets[self.binding + 1] - 1


class ListScope(Protocol):
    """The meaning of references: a scope learns each name that a resolved expression will use."""

    def row(self, name: str, variable: str, element: Element) -> None:
        """Let `name` mean an event."""
        ...

    def summary(self, name: str, node: Length | Aggregate) -> None:
        """Let `name` mean a column made from lists, and its rows."""
        ...


def resolved(node: Node, scope: ListScope) -> Node:
    """The expression or condition with plain references only."""
    return rewritten(node, partial(_resolved, scope=scope))


def _resolved(expression: Expression, scope: ListScope) -> Expression:
    match expression:
        case Reference(variable, attribute, element):
            return _reference(expression, variable, attribute, element, scope)
        case Aggregate("first" | "last", variable, attribute, False):
            element = Element.FIRST if expression.function == "first" else Element.LAST
            return _reference(expression, variable, attribute, element, scope)
        case Aggregate(function, variable, attribute, prefix):
            name = f"{function}({variable}[{'..i-1' if prefix else ''}].{attribute})"
            scope.summary(name, expression)
            return Reference(name, name, Element.ONLY, expression.type)
        case Length(variable):
            name = f"{variable}[].LEN"
            scope.summary(name, expression)
            return Reference(name, name, Element.ONLY, expression.type)
        case _:
            return expression


def _reference(
    node: Reference | Aggregate, variable: str, attribute: str, element: Element, scope: ListScope
) -> Reference:
    name = f"{variable}[{element.value}]"
    scope.row(name, variable, element)
    return Reference(name, attribute, Element.ONLY, node.type)


SMALL = 2.0**-600
"""Values near the ends of float64 times or by this have squares in the midst of it."""
TINY = 1e-140
"""The squares of distances below this may vanish in float64."""
_LOW_BITS = 32
_EXACT = 2**53
"""Integers up to this size are exact as float64."""


def running(node: Aggregate, column: Column, rows: Array, offsets: Array) -> Column:
    """The aggregate over the elements of a list up to each element, for each element of all lists.

    Parameters
    ----------
    node
        `count`, `sum`, `avg`, `min`, `max`, `stddev` or `median`.
    column
        The attribute's column.
    rows
        Row numbers of the elements, list after list.
    offsets
        int64, shape (n + 1,): list m has the elements from `offsets[m]` to `offsets[m + 1]`, at least one.
    """
    valid = np.ones(len(rows), dtype=bool) if column.valid is None else column.valid[rows]
    if column.valid is None:
        counts = np.arange(1, len(rows) + 1) - np.repeat(offsets[:-1], np.diff(offsets))
    else:
        counts = _counts(valid, offsets)
    if node.function == "count":
        return Column(ValueType.INT64, counts)
    some = counts > 0
    values = column.values[rows]
    if node.function in ("min", "max"):
        replaces = partial(is_exceeded, smaller=node.function == "min")
        result = _by_steps(values, valid, offsets, lambda held, new: np.where(replaces(held, new), new, held))
        return Column(column.type, result, some, column.dictionary)
    if node.function == "stddev":
        deviations = _one_by_one(_deviations, values, valid, counts, offsets)
        return Column(ValueType.FLOAT64, deviations, (counts > 1) | ((counts == 1) & np.isnan(deviations)))
    if node.function == "median":
        return Column(ValueType.FLOAT64, _one_by_one(_medians, values, valid, counts, offsets), some)
    if column.type is ValueType.FLOAT64:
        # Adding to 0 turns a leading -0.0 into 0.0, as a sum that begins at 0 does.
        with np.errstate(all="ignore"):
            sums = _by_steps(values + 0.0, valid, offsets, np.add)
            return Column(ValueType.FLOAT64, sums if node.function == "sum" else sums / np.maximum(counts, 1), some)
    high, low = _integer_sums(np.where(valid, values, 0), offsets)
    fits = (high >= -(2**31)) & (high < 2**31)
    total = (np.where(fits, high, 0) << _LOW_BITS) | low
    if node.function == "sum":
        return Column(ValueType.INT64, total, some & fits)
    averages = total / np.maximum(counts, 1)
    large = ~fits | (np.abs(total) > _EXACT)
    for place in np.flatnonzero(large & some):
        averages[place] = ((int(high[place]) << _LOW_BITS) | int(low[place])) / int(counts[place])
    return Column(ValueType.FLOAT64, averages, some)


def _counts(valid: Array, offsets: Array) -> Array:
    """int64: the elements that are no null so far."""
    counted = np.cumsum(valid, dtype=np.int64)
    return counted - _before(counted, offsets)


def _before(cumulative: Array, offsets: Array) -> Array:
    """Return for each element the cumulated value before its list began."""
    begun = np.where(offsets[:-1] > 0, cumulative[offsets[:-1] - 1], 0)
    return np.repeat(begun, np.diff(offsets))


def _integer_sums(values: Array, offsets: Array) -> tuple[Array, Array]:
    """The exact sums so far as high * 2**32 + low, with low from 0 to 2**32 - 1."""
    halves = []
    for half in (values >> _LOW_BITS, values & (2**_LOW_BITS - 1)):
        cumulative = np.cumsum(half)
        halves.append(cumulative - _before(cumulative, offsets))
    high, low = halves
    return high + (low >> _LOW_BITS), low & (2**_LOW_BITS - 1)


def _one_by_one(
    function: Callable[[list[float]], Iterator[float]], values: Array, valid: Array, counts: Array, offsets: Array
) -> Array:
    """float64: what a function says of each list up to each element; it is given Python's numbers without nulls."""
    listed, known, numbers = values.tolist(), valid.tolist(), counts.tolist()
    found: list[float] = []
    for start, end in pairwise(offsets.tolist()):
        results = [0.0, *function([*compress(listed[start:end], known[start:end])])]
        found += [results[number] for number in numbers[start:end]]
    return np.array(found)


def _deviations(values: list[float]) -> Iterator[float]:
    """The standard deviation of the values up to each one, by their distances from the first; of a single one nothing.

    The sums of equal or of small whole distances are exact, and so is what they make.
    """
    total = squares = 0.0
    for number, value in enumerate(values, 1):
        if number == 1:
            yield math.nan if value != value else 0.0
        distance = float(value - values[0])  # of int64 exact, and then rounded
        total, squares, n = total + distance, squares + distance * distance, float(number)
        if number > 1:
            deviation = math.sqrt(max(n * squares - total * total, 0.0) / (n * (n - 1.0)))
            extreme = not math.isfinite(deviation) or 0 < abs(total) < TINY
            yield _scaled_deviation(values[:number]) if extreme and isinstance(value, float) else deviation


def _scaled_deviation(values: list[float]) -> float:
    """The standard deviation of values whose squares leave float64; NaN where one of them is NaN or infinite."""
    if not all(map(math.isfinite, values)):
        return math.nan
    scale = SMALL if max(map(abs, values)) > 1 else 1 / SMALL
    total = squares = 0.0
    for value in reversed(values):  # as the kernel goes through a list
        distance = value * scale - values[0] * scale
        total += distance
        squares += distance * distance
    n = float(len(values))
    return math.sqrt(max(n * squares - total * total, 0.0) / (n * (n - 1.0))) / scale


def _medians(values: list[float]) -> Iterator[float]:
    """The median of the values up to each one: of an even number the exact mean of two, rounded; NaN beside a NaN."""
    known: list[float] = []
    is_nan = False
    for number, value in enumerate(values, 1):
        insort(known, value)
        is_nan |= value != value
        low, high = known[(number - 1) // 2], known[number // 2]
        yield math.nan if is_nan else float(low) if number % 2 else (low + high) / 2


def _by_steps(values: Array, valid: Array, offsets: Array, add: Callable[[Array, Array], Array]) -> Array:
    """Fold each list from the left over its elements that are no null: all second elements, all third ones, ..."""
    result = values.copy()
    some = None if valid.all() else valid.copy()
    lengths = np.diff(offsets)
    starts = offsets[:-1]
    step = 1
    while True:
        longer = lengths > step
        if not longer.any():
            return result
        starts, lengths = starts[longer], lengths[longer]
        here = starts + step
        held, new = result[here - 1], values[here]
        step += 1
        if some is None:
            result[here] = add(held, new)
            continue
        has, gets = some[here - 1], valid[here]
        result[here] = np.where(gets, np.where(has, add(held, new), new), held)
        some[here] = has | gets
