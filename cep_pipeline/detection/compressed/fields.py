"""Conditions on lists, taken apart, and the fields that merged runs remember of what a later event may ask for.

Two runs of a clause may be merged if all that can still be asked of them is equal. A conjunct holds if it is true for
every choice of elements and indexes; its atoms are split into *components* that share no choice, of which one must hold
for all its choices (for all x: A(x) or B is the same as (for all x: A(x)) or B). A component is decided

- as each element comes, where all else that it mentions is known by then: nothing is remembered but that it failed;
- where that is the event of a single variable that may come later, by *guessing* this event ahead: runs with each of
  its candidates go apart from their beginning.

What fits neither of these (sums, and comparisons that mix the elements of two lists) needs the lists themselves.

A run reads the stream in order, so that its state is the set of variables that have an event, as in the eager NFA
(DEBS'15 section 3). A field keeps what a later conjunct, or a negated variable, may still ask of a run; a field that
nothing asks for any more is forgotten, and the runs that it told apart are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from cep_pipeline.detection.conditions.groups import Mention, mentions
from cep_pipeline.expressions.columns import Array, Column, ColumnSource
from cep_pipeline.expressions.evaluate import conjunct_holds
from cep_pipeline.expressions.lists import resolved
from cep_pipeline.patterns.conditions import Atom, Conjunct
from cep_pipeline.patterns.expressions import (
    Aggregate,
    Element,
    Length,
    Reference,
    ValueType,
)
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.order import before_is_earlier, may_be_one
from cep_pipeline.slices.views import implied_by


class NeedsLists(Exception):
    """A conjunct asks more of lists than merged runs remember; the text names it."""


@dataclass(frozen=True)
class Choice:
    """The bound element of a Kleene variable (`index` False), or its index i."""

    variable: str
    index: bool


@dataclass(frozen=True)
class Component:
    """Atoms of a conjunct that share choices.

    Attributes
    ----------
    number
        A number of the component in its group.
    choice
        What it is asked of each of; None: it is asked once.
    events
        Positive variables whose one event (that of a single variable, or the first of a list) it mentions.
    wholes
        Kleene variables whose length, last element or aggregates it mentions.
    negated
        The negated variable that it mentions.
    """

    number: int
    atoms: tuple[Atom, ...]
    choice: Choice | None
    events: frozenset[str]
    wholes: frozenset[str]
    negated: str | None


@dataclass(frozen=True)
class Condition:
    """A conjunct by its components, one of which must hold."""

    conjunct: Conjunct
    components: tuple[Component, ...]

    @cached_property
    def events(self) -> frozenset[str]:
        """Positive variables of which it needs no more than one event."""
        return frozenset().union(*(component.events for component in self.components))

    @cached_property
    def lists(self) -> frozenset[str]:
        """Kleene variables that must be complete for it to be decided."""
        chosen = {component.choice.variable for component in self.components if component.choice is not None}
        return frozenset(chosen).union(*(component.wholes for component in self.components))


def is_of_elements(conjunct: Conjunct) -> bool:
    """Return whether a conjunct asks something of each event of a variable alone."""
    return all(
        isinstance(node, Reference) and node.element in (Element.ONLY, Element.EACH)
        for node in mentions(conjunct.atoms)
    )


def choice_of(node: Mention) -> Choice | None:
    """The choice that a node depends on."""
    if isinstance(node, Reference):
        if node.element is Element.EACH:
            return Choice(node.variable, False)
        if node.element in (Element.CURRENT, Element.PREVIOUS):
            return Choice(node.variable, True)
    elif isinstance(node, Aggregate) and node.prefix:
        return Choice(node.variable, True)
    return None


def needs_first(node: Mention) -> bool:
    """Return whether a node means the first element of a list."""
    if isinstance(node, Reference):
        return node.element is Element.FIRST
    return isinstance(node, Aggregate) and node.function == "first"


def _is_single(node: Mention) -> bool:
    return isinstance(node, Reference) and node.element is Element.ONLY


class Analysis:
    """Takes the conjuncts of one group apart."""

    def __init__(self, pattern: Pattern, clause: Clause, kleene: frozenset[str]) -> None:
        self.pattern, self.clause, self.kleene = pattern, clause, kleene
        self.guessed: set[str] = set()
        self.components = 0

    def condition(self, conjunct: Conjunct, negated: str | None = None) -> Condition:
        """A conjunct by components; notes which variables must be guessed for it."""
        return Condition(conjunct, tuple(self._component(atoms, negated) for atoms in _components(conjunct)))

    def _component(self, atoms: tuple[Atom, ...], negated: str | None) -> Component:
        choices: dict[Choice, None] = {}
        events, wholes = set(), set()
        mentioned = None
        for node in mentions(atoms):
            if isinstance(node, Aggregate) and node.function in ("sum", "avg", "stddev", "median"):
                raise NeedsLists(f"{node.function}() over the list '{node.variable}'")
            choice = choice_of(node)
            if choice is not None:
                choices[choice] = None
            elif node.variable == negated:
                mentioned = negated
            elif _is_single(node) or needs_first(node):
                events.add(node.variable)
            else:
                wholes.add(node.variable)
        if len(choices) > 1:
            names = " and ".join(sorted({f"'{choice.variable}'" for choice in choices}))
            raise NeedsLists(f"a comparison that mixes elements of {names}")
        choice = next(iter(choices), None)
        self.components += 1
        component = Component(self.components - 1, atoms, choice, frozenset(events), frozenset(wholes), mentioned)
        if choice is not None:
            self._decide_at_once(component, choice)
        return component

    def _decide_at_once(self, component: Component, choice: Choice) -> None:
        """Check that the component can be decided when an element comes; raise `NeedsLists` where it cannot."""
        if component.negated is not None:
            raise NeedsLists(f"a comparison that mixes elements of '{choice.variable}' with '{component.negated}'")
        for name in sorted(component.wholes):
            if not self.surely_before(name, choice.variable):
                raise NeedsLists(f"a comparison that mixes elements of '{choice.variable}' with the whole of '{name}'")
        for name in sorted(component.events - {choice.variable}):
            if self.surely_before(name, choice.variable):
                continue
            if name in self.kleene:
                raise NeedsLists(f"a comparison that mixes elements of '{choice.variable}' with '{name}[1]'")
            self.guessed.add(name)

    def surely_before(self, name: str, other: str) -> bool:
        """Return whether a variable is complete when an event is bound to another one."""
        return (name, other) in self.clause.precedence


def _components(conjunct: Conjunct) -> list[tuple[Atom, ...]]:
    """The atoms of a conjunct, those together that share a choice, and those together that have none."""
    parts: list[tuple[set[Choice], list[Atom]]] = []
    for atom in conjunct.atoms:
        chosen = {choice for choice in map(choice_of, mentions((atom,))) if choice is not None}
        atoms = [atom]
        apart = []
        for choices, others in parts:
            if chosen & choices or (not chosen and not choices):
                chosen |= choices
                atoms = [*others, *atoms]
            else:
                apart.append((choices, others))
        parts = [*apart, (chosen, atoms)]
    return [tuple(atoms) for _, atoms in parts]


@dataclass(frozen=True)
class NegatedVariable:
    """A negated variable of one clause of a group.

    Attributes
    ----------
    clause
        Place of the clause in the group.
    before, after
        The positive variables P(n) and S(n).
    leaf, conditions
        The conjuncts on its event alone, and those with others.
    excluded
        Single variables that may bind an event of the range in which its events reject.
    """

    variable: Variable
    clause: int
    before: frozenset[str]
    after: frozenset[str]
    leaf: tuple[Conjunct, ...]
    conditions: tuple[Condition, ...]
    excluded: frozenset[str]

    @property
    def name(self) -> str:
        return f"{self.clause}:{self.variable.name}"


@dataclass(frozen=True)
class Group:
    """The clauses of a pattern that bind the same variables: they differ in what they negate only.

    Attributes
    ----------
    positive, precedence
        The variables and their order.
    leaf
        Variable -> the conjuncts on each of its events alone.
    conditions
        The other conjuncts over positive variables.
    constants
        The conjuncts that mention no variable.
    guessed
        Single variables whose event is guessed.
    negations
        Of all clauses; empty where one clause negates nothing, since what the others add it has already.
    clauses
        Number of clauses that may still match.
    """

    positive: tuple[Variable, ...]
    precedence: frozenset[tuple[str, str]]
    leaf: dict[str, tuple[Conjunct, ...]]
    conditions: tuple[Condition, ...]
    constants: tuple[Conjunct, ...]
    guessed: tuple[str, ...]
    negations: tuple[NegatedVariable, ...]
    clauses: int


def reason_to_list(pattern: Pattern) -> str | None:
    """Why the matches of a pattern cannot be counted or compressed without listing them; None if they can."""
    try:
        groups_of(pattern)
    except NeedsLists as reason:
        return str(reason)
    return None


def groups_of(pattern: Pattern) -> list[Group]:
    """The groups of clauses of a pattern, which have no match in common; clauses that contradict themselves have none.

    Raises
    ------
    NeedsLists
        A conjunct cannot be decided over merged runs, the strategy is not skip_till_any_match, an event may be before
        one that comes earlier (TIES ANY), or a composite or a list is negated.
    """
    if not pattern.strategy.forks:
        raise NeedsLists(f"the strategy {pattern.strategy.value}")
    if not before_is_earlier(pattern.ties):
        raise NeedsLists(f"TIES {pattern.ties.value}")
    for structure in (one for clause in pattern.clauses for one in clause.negated_structures):
        names = ", ".join(variable.name for variable in structure.variables)
        raise NeedsLists(f"the negation of {names}, which is asked of each match")
    by_variables: dict[tuple[Variable, ...], list[Clause]] = {}
    for clause in pattern.clauses:
        if not implied_by(clause, pattern.window, pattern.ties).contradiction:
            by_variables.setdefault(clause.positive, []).append(clause)
    return [_group(pattern, clauses) for clauses in by_variables.values()]


def _group(pattern: Pattern, clauses: list[Clause]) -> Group:
    first = clauses[0]
    names = frozenset(variable.name for variable in first.positive)
    kleene = frozenset(variable.name for variable in first.positive if variable.kleene)
    analysis = Analysis(pattern, first, kleene)
    leaf: dict[str, tuple[Conjunct, ...]] = dict.fromkeys(names, ())
    constants: list[Conjunct] = []
    conditions: list[Condition] = []
    for conjunct in (c for c in first.conjuncts if c.variables <= names):
        if not conjunct.variables:
            constants.append(conjunct)
        elif len(conjunct.variables) == 1 and is_of_elements(conjunct):
            (name,) = conjunct.variables
            leaf[name] = (*leaf[name], conjunct)
        else:
            conditions.append(analysis.condition(conjunct))
    negations: list[NegatedVariable] = []
    if all(clause.negated for clause in clauses):
        for place, clause in enumerate(clauses):
            negations.extend(_negation(pattern, analysis, clause, place, variable) for variable in clause.negated)
    return Group(
        positive=first.positive,
        precedence=frozenset(pair for pair in first.precedence if names.issuperset(pair)),
        leaf=leaf,
        conditions=tuple(conditions),
        constants=tuple(constants),
        guessed=tuple(v.name for v in first.positive if v.name in analysis.guessed),
        negations=tuple(negations),
        clauses=len(clauses) if negations else 1,
    )


def _negation(pattern: Pattern, analysis: Analysis, clause: Clause, place: int, variable: Variable) -> NegatedVariable:
    name = variable.name
    conjuncts = [conjunct for conjunct in clause.conjuncts if name in conjunct.variables]
    excluded = set()
    for other in clause.positive:
        if may_be_one(pattern, clause, variable, other):
            if other.kleene:
                raise NeedsLists(f"events of '{name}' that may be elements of '{other.name}'")
            excluded.add(other.name)
    return NegatedVariable(
        variable=variable,
        clause=place,
        before=frozenset(v.name for v in clause.predecessors(name)),
        after=frozenset(v.name for v in clause.successors(name)),
        leaf=tuple(c for c in conjuncts if c.variables == {name}),
        conditions=tuple(analysis.condition(c, name) for c in conjuncts if c.variables != {name}),
        excluded=frozenset(excluded),
    )


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
    """The states of the runs of a group."""

    def __init__(self, group: Group) -> None:
        self.group = group
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
        return state & (self.singles | self.mask(name for name in self.names if self.after[name] & state))

    def is_decided(self, condition: Condition, state: int) -> bool:
        """Return whether no later event can change a condition over positive variables."""
        if any(component.negated for component in condition.components):
            return False
        bound = self.mask(condition.events) & ~(state | self.guessed) == 0
        return bound and self.mask(condition.lists) & ~self.closed(state) == 0

    def is_rejection_decided(self, negation: NegatedVariable, state: int) -> bool:
        """Return whether all is known of a match that a negated variable asks for."""
        if not negation.before or not self.mask(negation.after) & state:
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


Fields = Mapping[str, Array]


def fields_of(group: Group, states: RunStates) -> tuple[Field, ...]:
    """All fields that the runs of a group may need."""
    asked: dict[str, tuple[int, list[Known]]] = {}
    for name, empty, needed in _asked(group, states):
        asked.setdefault(name, (empty, []))[1].append(needed)
    return tuple(Field(name, empty, _any(needed)) for name, (empty, needed) in asked.items())


def _asked(group: Group, states: RunStates) -> Iterator[tuple[str, int, Known]]:
    """The fields that are asked of runs: a name, the value that means nothing, and the states in which it is needed."""
    kleene = {variable.name for variable in group.positive if variable.kleene}
    for condition, negation in all_conditions(group):
        undecided = states.asks([condition] if negation is None else [], [] if negation is None else [negation])
        for component in condition.components:
            for node in mentions(component.atoms):
                yield from _asked_by(node, undecided, states, kleene)
            if component.choice is not None and keeps_failure(condition, negation):
                yield f"failed {component.number}", 0, undecided
    for negation in group.negations:
        undecided = states.asks([], [negation])
        for name in negation.excluded:
            yield f"own {name}", -1, undecided
        if negation.before:
            yield f"after {negation.name}", 0, undecided
        if negation.after:
            yield f"before {negation.name}", -1, undecided


def _asked_by(node: Mention, undecided: Known, states: RunStates, kleene: set[str]) -> Iterator[tuple[str, int, Known]]:
    """The fields that a reference asks of runs."""
    name, growing = node.variable, choice_of(node) is not None
    needed = _growing(states, name) if growing else undecided
    if not growing and name not in kleene:
        if name in states.bit and name not in states.group.guessed:
            yield f"row {name}", -1, needed
    elif isinstance(node, Reference):
        if node.element not in (Element.EACH, Element.CURRENT):
            yield f"{'first' if needs_first(node) else 'last'} {name}", -1, needed
    elif not growing and isinstance(node, Aggregate) and node.function in ("first", "last"):
        yield f"{node.function} {name}", -1, needed
    else:
        counts = isinstance(node, Length) or node.function == "count"
        yield summary_field(node), 0 if counts else -1, needed


def all_conditions(group: Group) -> Iterator[tuple[Condition, NegatedVariable | None]]:
    """The conditions of a group with the negated variable that they mention."""
    for condition in group.conditions:
        yield condition, None
    for negation in group.negations:
        for condition in negation.conditions:
            yield condition, negation


def _any(needed: list[Known]) -> Known:
    return lambda state: any(one(state) for one in needed)


def keeps_failure(condition: Condition, negation: NegatedVariable | None) -> bool:
    """Return whether a run lives on though a component has failed."""
    return negation is not None or len(condition.components) > 1


def _growing(states: RunStates, name: str) -> Known:
    bit = states.bit[name]
    return lambda state: bool(state & bit) and not states.closed(state) & bit


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


def to_bits(column: Column) -> tuple[Array, Array]:
    """Values as int64, and where they are neither null nor NaN."""
    known = np.ones(len(column), dtype=bool) if column.valid is None else column.valid.copy()
    values = column.values
    if column.type is ValueType.FLOAT64:
        known &= ~np.isnan(values)
        return np.ascontiguousarray(values, np.float64).view(np.int64), known
    return values.astype(np.int64), known


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
