"""Conditions on lists, taken apart: merged runs remember only the answers that a later event may ask for.

Two runs of a clause may be merged if all that can still be asked of them is equal. A conjunct holds if it is true for
every choice of elements and indexes; its atoms are split into *components* that share no choice, of which one must hold
for all its choices (for all x: A(x) or B is the same as (for all x: A(x)) or B). A component is decided

- as each element comes, where all else that it mentions is known by then: nothing is remembered but that it failed;
- otherwise by the extreme of one side, where the elements stand on a side of their own of `<`, `<=`, `>`, `>=`, `=`:
  all elements are below a number exactly if the greatest one is;
- otherwise by *guessing* the event of a single variable ahead: runs with each of its candidates go apart from their
  beginning.

What fits none of these (sums, and comparisons that mix the elements of two lists) needs the lists themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from cep_pipeline.patterns.conditions import Atom, Between, Comparator, Comparison, Conjunct, expressions_of
from cep_pipeline.patterns.expressions import Aggregate, Element, Expression, Length, Reference, walk
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Pattern, Strategy
from cep_pipeline.slices.order import before_is_earlier, may_be_one
from cep_pipeline.slices.views import implied_by

_EXTREMES = {
    Comparator.LT: (False, True),
    Comparator.LE: (False, True),
    Comparator.GT: (True, False),
    Comparator.GE: (True, False),
    Comparator.EQ: (None, None),
}
"""Comparison -> for its left and right side True if the least value decides, False if the largest one does; None: all
values are equal."""


Mention = Reference | Length | Aggregate


class NeedsLists(Exception):
    """A conjunct asks more of lists than merged runs remember; the text names it."""


@dataclass(frozen=True)
class Choice:
    """The bound element of a Kleene variable (`index` False), or its index i."""

    variable: str
    index: bool


@dataclass(frozen=True)
class Side:
    """One side of a separable comparison.

    Attributes
    ----------
    choice
        What the side's value depends on; None: on variables that bind one event and whole lists.
    least
        Whether the least value decides, or the greatest; None: all values must be equal.
    """

    expression: Expression
    choice: Choice | None
    least: bool | None


@dataclass(frozen=True)
class Component:
    """Atoms of a conjunct that share choices.

    Attributes
    ----------
    number
        A number of the component in its group.
    choices
        None, one, or two where the component is separable.
    events
        Positive variables whose one event (that of a single variable, or the first of a list) it mentions.
    wholes
        Kleene variables whose length, last element or aggregates it mentions.
    negated
        The negated variable that it mentions.
    comparator, sides
        For separable components.
    """

    number: int
    atoms: tuple[Atom, ...]
    choices: tuple[Choice, ...]
    events: frozenset[str]
    wholes: frozenset[str]
    negated: str | None
    comparator: Comparator | None = None
    sides: tuple[Side, Side] | None = None

    def other_side(self, choice: Choice) -> Side:
        """The side that a choice is compared with."""
        assert self.sides is not None
        return self.sides[1] if self.sides[0].choice == choice else self.sides[0]


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
        chosen = {choice.variable for component in self.components for choice in component.choices}
        return frozenset(chosen).union(*(component.wholes for component in self.components))


def split(conjunct: Conjunct) -> Iterator[Conjunct]:
    """BETWEEN as two comparisons, which are true together exactly where it is.

    Of a list of one there is no index i, and BETWEEN holds whatever it says besides: both comparisons must mention i.
    """
    match conjunct.atoms:
        case (Between(expression, low, high, False),):
            parts = [Comparison(Comparator.GE, expression, low), Comparison(Comparator.LE, expression, high)]
            indexes = [{c for c in map(choice_of, mentions((part,))) if c is not None and c.index} for part in parts]
            yield from [Conjunct((part,)) for part in parts] if indexes[0] == indexes[1] else [conjunct]
        case _:
            yield conjunct


def is_of_elements(conjunct: Conjunct) -> bool:
    """Return whether a conjunct asks something of each event of a variable alone."""
    return all(
        isinstance(node, Reference) and node.element in (Element.ONLY, Element.EACH)
        for node in mentions(conjunct.atoms)
    )


def mentions(atoms: Iterable[Atom]) -> Iterator[Mention]:
    """The references of some atoms."""
    for atom in atoms:
        for expression in expressions_of(atom):
            yield from _mentions(expression)


def _mentions(expression: Expression) -> Iterator[Mention]:
    for node in walk(expression):
        if isinstance(node, Reference | Length | Aggregate):
            yield node


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
        comparator, sides = _separated(atoms)
        self.components += 1
        component = Component(
            self.components - 1,
            atoms,
            tuple(choices),
            frozenset(events),
            frozenset(wholes),
            mentioned,
            comparator,
            sides,
        )
        if choices and sides is None:
            self._decide_at_once(component)
        return component

    def _decide_at_once(self, component: Component) -> None:
        """Check that the component can be decided when an element comes; raise `NeedsLists` where it cannot."""
        if len(component.choices) > 1:
            names = " and ".join(sorted({f"'{choice.variable}'" for choice in component.choices}))
            raise NeedsLists(f"a comparison that mixes elements of {names}")
        [choice] = component.choices
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
        return before_is_earlier(self.pattern.ties) and (name, other) in self.clause.precedence


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


def _separated(atoms: tuple[Atom, ...]) -> tuple[Comparator | None, tuple[Side, Side] | None]:
    """The sides of one comparison whose elements stand on sides of their own."""
    match atoms:
        case (Comparison(comparator, left, right),) if comparator in _EXTREMES:
            sides = []
            for expression, least in zip((left, right), _EXTREMES[comparator], strict=True):
                choices = {choice_of(node) for node in _mentions(expression)} or {None}
                if len(choices) > 1:
                    return None, None
                sides.append(Side(expression, choices.pop(), least))
            one, other = sides
            if one.choice is not None and one.choice == other.choice:
                return None, None
            return comparator, (one, other)
        case _:
            return None, None


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
        A conjunct cannot be decided over merged runs, the strategy is not skip_till_any_match, or a composite or a
        list is negated.
    """
    if pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH:
        raise NeedsLists(f"the strategy {pattern.strategy.value}")
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
            conditions.extend(analysis.condition(part) for part in split(conjunct))
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
        conditions=tuple(analysis.condition(p, name) for c in conjuncts if c.variables != {name} for p in split(c)),
        excluded=frozenset(excluded),
    )
