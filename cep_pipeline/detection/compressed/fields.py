"""The states of merged runs, the numbers that a run remembers (its fields), and the values of expressions over them.

A run reads the stream in order, so that its state is the set of variables that have an event, as in the eager NFA
(DEBS'15 section 3). A field keeps what a later conjunct, or a negated variable, may still ask of a run; a field that
nothing asks for any more is forgotten, and the runs that it told apart are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from cep_pipeline.detection.compressed.components import (
    Choice,
    Component,
    Condition,
    Group,
    NegatedVariable,
    choice_of,
    mentions,
    needs_first,
)
from cep_pipeline.expressions.columns import Array, Column, ColumnSource
from cep_pipeline.expressions.evaluate import conjunct_holds, expression_values
from cep_pipeline.expressions.lists import resolved
from cep_pipeline.patterns.conditions import Comparison, Conjunct
from cep_pipeline.patterns.expressions import Aggregate, Element, Expression, Length, Literal, Reference, ValueType
from cep_pipeline.patterns.pattern import Ties
from cep_pipeline.slices.order import before_is_earlier

Known = Callable[[int], bool]
"""Something that is so in some states, by their bit masks."""


_TABLED = (1 << 12) - 1
"""The greatest state up to which a table of all states is made."""


@dataclass(frozen=True)
class Field:
    """A number that a run remembers: an int64, with one value that means nothing."""

    name: str
    empty: int
    needed: Known


class RunStates:
    """The states of the runs of a group.

    Parameters
    ----------
    ties
        The mode of the order.

    Attributes
    ----------
    in_order
        Events come in the stream as they come in a match. Where they need not, nothing is complete before the match is:
        an event may come earlier than another one that it is after.
    """

    def __init__(self, group: Group, ties: Ties) -> None:
        self.group, self.in_order = group, before_is_earlier(ties)
        self.names = tuple(variable.name for variable in group.positive)
        self.bit = {name: 1 << place for place, name in enumerate(self.names)}
        self.full = (1 << len(self.names)) - 1
        self.before = {name: self.mask(a for a, b in group.precedence if b == name) for name in self.names}
        self.after = {name: self.mask(b for a, b in group.precedence if a == name) for name in self.names}
        self.singles = self.mask(v.name for v in group.positive if not v.kleene)
        self.guessed = self.mask(group.guessed)
        self._closed = lru_cache(maxsize=None)(self._find_closed)

    def mask(self, names: Iterable[str]) -> int:
        """The bits of some variables."""
        return sum(self.bit[name] for name in set(names))

    def where(self, known: Known, states: Array) -> Array:
        """A bool for each state of an array: the states in which something is so."""
        if self.full > _TABLED:
            distinct, place = np.unique(states, return_inverse=True)
            return np.array([known(state) for state in distinct.tolist()], dtype=bool)[place.reshape(-1)]
        present = np.flatnonzero(np.bincount(states, minlength=1))
        so = np.zeros(self.full + 1, dtype=bool)
        so[present] = [known(state) for state in present.tolist()]
        found: Array = so[states]
        return found

    def closed(self, state: int) -> int:
        """The variables that have all their events."""
        return int(self._closed(state))

    def _find_closed(self, state: int) -> int:
        if not self.in_order:
            return state & self.singles
        return state & (self.singles | self.mask(name for name in self.names if self.after[name] & state))

    def is_decided(self, condition: Condition, state: int) -> bool:
        """Return whether no later event can change a condition over positive variables."""
        if any(component.negated for component in condition.components):
            return False
        bound = self.mask(condition.events) & ~(state | self.guessed) == 0
        return bound and self.mask(condition.lists) & ~self.closed(state) == 0

    def is_known(self, component: Component, choice: Choice, state: int) -> bool:
        """Return whether all that a component compares a choice with is known."""
        if component.negated is not None:
            return False
        if len(component.choices) > 1:
            [other] = [c for c in component.choices if c != choice]
            return other.variable != choice.variable and self.closed(state) & self.bit[other.variable] != 0
        if self.mask(component.events) & ~(state | self.guessed):
            return False
        return self.mask(component.wholes) & ~self.closed(state) == 0

    def is_always_known(self, component: Component, choice: Choice) -> bool:
        """Return whether that is so whenever an event is chosen."""
        if component.negated is not None:
            return False
        sure = self.before[choice.variable] if self.in_order else 0
        if len(component.choices) > 1:
            return all(self.bit[c.variable] & sure for c in component.choices if c != choice)
        own = self.bit[choice.variable]
        return not (self.mask(component.events) & ~(sure | self.guessed | own) or self.mask(component.wholes) & ~sure)

    def is_rejection_decided(self, negation: NegatedVariable, state: int) -> bool:
        """Return whether all is known of a match that a negated variable asks for."""
        if not self.in_order or not negation.before or not self.mask(negation.after) & state:
            return False
        if self.mask(negation.before) & ~self.closed(state):
            return False
        return all(
            self.mask(condition.events) & ~(state | self.guessed) == 0
            and self.mask(condition.lists) & ~self.closed(state) == 0
            for condition in negation.conditions
        )

    def asks(self, conditions: Iterable[Condition], negations: Iterable[NegatedVariable]) -> Known:
        """A bool for each state: the states in which some of the conditions or negated variables are not decided."""
        conditions, negations = tuple(conditions), tuple(negations)

        def needed(state: int) -> bool:
            return any(not self.is_decided(c, state) for c in conditions) or any(
                not self.is_rejection_decided(n, state) for n in negations
            )

        return needed


NOTHING, SOME, BROKEN = 0, 1, 2
"""States of a side's extreme: no element yet, a value, or elements with which no value can be compared."""

Fields = Mapping[str, Array]


def fields_of(group: Group, states: RunStates) -> tuple[Field, ...]:
    """All fields that the runs of a group may need."""
    asked: dict[str, tuple[int, list[Known]]] = {}

    def ask(name: str, empty: int, needed: Known) -> None:
        asked.setdefault(name, (empty, []))[1].append(needed)

    kleene = {variable.name for variable in group.positive if variable.kleene}
    for condition, negation in all_conditions(group):
        undecided = states.asks([condition] if negation is None else [], [] if negation is None else [negation])
        for component in condition.components:
            _ask_for(component, condition, negation, undecided, states, kleene, ask)
    for negation in group.negations:
        undecided = states.asks([], [negation])
        for name in negation.excluded:
            ask(f"own {name}", -1, undecided)
        if negation.before:
            ask(f"after {negation.name}", 0, undecided)
        if negation.after:
            ask(f"before {negation.name}", -1, undecided)
    return tuple(Field(name, empty, _any(needed)) for name, (empty, needed) in asked.items())


def all_conditions(group: Group) -> Iterator[tuple[Condition, NegatedVariable | None]]:
    """The conditions of a group with the negated variable that they mention."""
    for condition in group.conditions:
        yield condition, None
    for negation in group.negations:
        for condition in negation.conditions:
            yield condition, negation


def _any(needed: list[Known]) -> Known:
    return lambda state: any(one(state) for one in needed)


def _ask_for(
    component: Component,
    condition: Condition,
    negation: NegatedVariable | None,
    undecided: Known,
    states: RunStates,
    kleene: set[str],
    ask: object,
) -> None:
    assert callable(ask)
    for node in mentions(component.atoms):
        choice = choice_of(node)
        if choice is not None:
            growing = _growing(states, choice.variable)
            if isinstance(node, Reference):
                if node.element is Element.PREVIOUS:
                    ask(f"last {choice.variable}", -1, growing)
            elif isinstance(node, Aggregate):
                ask(summary_field(node), 0 if node.function == "count" else -1, growing)
        elif node.variable not in kleene:
            if node.variable in states.bit and node.variable not in states.group.guessed:
                ask(f"row {node.variable}", -1, undecided)
        elif needs_first(node):
            ask(f"first {node.variable}", -1, undecided)
        elif isinstance(node, Reference) or (isinstance(node, Aggregate) and node.function == "last"):
            ask(f"last {node.variable}", -1, undecided)
        else:
            counts = isinstance(node, Length) or node.function == "count"
            ask(summary_field(node), 0 if counts else -1, undecided)
    for choice in component.choices:
        if has_extreme(component, choice, states):

            def needed(state: int, choice: Choice = choice) -> bool:
                return undecided(state) and not states.is_known(component, choice, state)

            ask(f"extreme {component.number} {choice.index:d} {choice.variable}", 0, needed)
            ask(f"has {component.number} {choice.index:d} {choice.variable}", NOTHING, needed)
    if component.choices and keeps_failure(condition, negation):
        ask(f"failed {component.number}", 0, undecided)


def has_extreme(component: Component, choice: Choice, states: RunStates) -> bool:
    """Return whether elements of a choice may come before what they are compared with."""
    return component.sides is not None and not states.is_always_known(component, choice)


def keeps_failure(condition: Condition, negation: NegatedVariable | None) -> bool:
    """Return whether a run lives on though a component has failed."""
    return negation is not None or len(condition.components) > 1


def _growing(states: RunStates, name: str) -> Known:
    bit = states.bit[name]
    return lambda state: bool(state & bit) and not states.closed(state) & bit


def longest_told_apart(conjuncts: Iterable[Conjunct], name: str) -> int | None:
    """The length from which on conditions tell no lists of a variable apart; None where there may be none.

    Conditions that compare the length with whole numbers do not tell apart what is longer than all of these.
    """
    longest = 1
    for atom in (atom for conjunct in conjuncts for atom in conjunct.atoms):
        match atom:
            case Comparison(_, Length(variable), Literal(int(number))) | Comparison(
                _, Literal(int(number)), Length(variable)
            ) if variable == name:
                longest = max(longest, number + 1)
            case _ if any(isinstance(node, Length) and node.variable == name for node in mentions((atom,))):
                return None
    return longest


def summary_field(node: Length | Aggregate) -> str:
    """The field of a length or an aggregate."""
    if isinstance(node, Length):
        return f"len {node.variable}"
    return f"{node.function} {node.variable} {node.attribute}"


@dataclass
class RunScope:
    """The meaning of references for each of some runs.

    Attributes
    ----------
    fields
        Of the runs.
    rows
        Rows of the variables whose events are no fields: guessed and negated ones.
    chosen
        Variable -> the element that is being bound to it, and the fields before that.
    """

    events: ColumnSource
    fields: Fields
    size: int
    rows: dict[str, Array]
    chosen: Mapping[str, tuple[Array, Fields]] = field(default_factory=dict)
    named: dict[str, Array] = field(default_factory=dict)
    derived: dict[str, Column] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.named[""] = np.zeros(self.size, np.int64)

    def column(self, name: str) -> Column:
        return self.derived[name] if name in self.derived else self.events.column(name)

    def row(self, name: str, variable: str, element: Element) -> None:
        """Let `name` mean an event."""
        match element:
            case Element.ONLY:
                rows = self.rows[variable] if variable in self.rows else self.fields[f"row {variable}"]
            case Element.FIRST:
                rows = self.fields[f"first {variable}"]
            case Element.LAST:
                rows = self.fields[f"last {variable}"]
            case Element.PREVIOUS:
                rows = self.chosen[variable][1][f"last {variable}"]
            case _:
                rows = self.chosen[variable][0]
        self.named[name] = rows

    def summary(self, name: str, node: Length | Aggregate) -> None:
        """Let `name` mean the length of a list or an aggregate over it."""
        fields = self.chosen[node.variable][1] if isinstance(node, Aggregate) and node.prefix else self.fields
        values = fields[summary_field(node)]
        if isinstance(node, Length) or node.function == "count":
            self.derived[name], self.named[name] = Column(ValueType.INT64, values), np.arange(self.size)
            return
        column = self.events.column(node.attribute)
        present = values >= 0
        taken = column.take(np.maximum(values, 0))
        valid = present if taken.valid is None else present & taken.valid
        self.derived[name] = Column(column.type, taken.values, valid, column.dictionary)
        self.named[name] = np.arange(self.size)

    def holds(self, component: Component) -> Array:
        """Return whether one of the component's atoms is true, for each run."""
        atoms = tuple(resolved(atom, self) for atom in component.atoms)
        return conjunct_holds(Conjunct(atoms), self, self.named)

    def values(self, expression: Expression) -> Column:
        """The value of an expression for each run."""
        return expression_values(resolved(expression, self), self, self.named)


def to_bits(column: Column) -> tuple[Array, Array]:
    """Values as int64, and where they are neither null nor NaN."""
    known = np.ones(len(column), dtype=bool) if column.valid is None else column.valid.copy()
    values = column.values
    if column.type is ValueType.FLOAT64:
        known &= ~np.isnan(values)
        return np.ascontiguousarray(values, np.float64).view(np.int64), known
    return values.astype(np.int64), known


def from_bits(bits: Array, like: Column) -> Column:
    """The values again, as a column of the type of another one."""
    if like.type is ValueType.FLOAT64:
        return Column(like.type, np.ascontiguousarray(bits).view(np.float64))
    return Column(like.type, bits.astype(like.values.dtype), None, like.dictionary)


def equal_rows(events: ColumnSource, attributes: Iterable[str], rows: Array, size: int) -> Array:
    """Return for each event the first one of `rows` with the same values, so that runs over equal events are equal.

    Returns
    -------
    Array
        int64, shape (size,); an event that is not among `rows` is itself.
    """
    same = np.arange(size, dtype=np.int64)
    codes = np.zeros(len(rows), np.int64)
    for name in sorted(set(attributes)):
        column = events.column(name)
        if name in ("timestamp", "seq") or column.offsets is not None:
            return same
        bits, _ = to_bits(column.take(rows))
        valid = np.ones(len(rows), dtype=bool) if column.valid is None else column.valid[rows]
        distinct, code = np.unique(np.where(valid, bits, 0), return_inverse=True)
        code = np.where(valid, code.reshape(-1) + 1, 0)
        distinct, codes = np.unique(codes * (len(distinct) + 1) + code, return_inverse=True)
        codes = codes.reshape(-1)
    _, first, place = np.unique(codes, return_index=True, return_inverse=True)
    same[rows] = rows[first][place.reshape(-1)]
    return same
