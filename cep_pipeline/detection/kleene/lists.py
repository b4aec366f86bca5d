"""Bindings whose variables may bind lists of events, and conditions and expressions over them, exactly.

A node that chooses an element (`v[i]`, `v[1]`) or sums up a list (`v.LEN`, `avg(v[].x)`) becomes a plain reference to
one row of a column, which `evaluate` knows how to read: all of section 3.4 is decided in one place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from cep_pipeline.detection.columns import Array, Column, ColumnSource
from cep_pipeline.detection.evaluate import conjunct_holds, expression_values
from cep_pipeline.detection.kleene.aggregates import length_column, running
from cep_pipeline.detection.kleene.references import resolved
from cep_pipeline.patterns.conditions import Conjunct, expressions_of
from cep_pipeline.patterns.expressions import (
    Aggregate,
    Element,
    Expression,
    Length,
    Reference,
    walk,
)

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
    """How a conjunct uses its Kleene variables.

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
    """Whether a conjunct is true for every choice of elements and indexes, for each binding.

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
        part = np.arange(start, stop)
        scope = _Scope(events, take(bound, part), part - start)
        for name in uses.elements:
            scope.choose(scope.elements, name, 0)
        for name in uses.indexes:
            scope.choose(scope.indexes, name, 1)
        if len(scope.binding) == 0:
            continue
        truth = conjunct_holds(resolved(conjunct, scope), scope, scope.rows)
        holds[start + scope.binding[~truth]] = False
    return holds


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


def _lists(bound: Bound, name: str) -> Lists:
    lists = bound[name]
    assert isinstance(lists, Lists)
    return lists


@dataclass
class _Scope:
    """What the references of one expression mean: a source of columns with those that are derived from lists.

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
            self.derived[name], self.rows[name] = length_column(lists.lengths), self.binding
            return
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lists.lengths)))
        self.derived[name] = running(node, self.events.column(node.attribute), lists.flat(), offsets)
        if node.prefix:
            before = self.indexes[node.variable] - lists.starts[self.binding] - 1
            self.rows[name] = offsets[self.binding] + before
        else:
            self.rows[name] = offsets[self.binding + 1] - 1
