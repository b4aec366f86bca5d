"""Group the conjuncts of a clause by the step of a mechanism with which they become testable, without the events.

A mechanism says at which *moments* its instances are, before and after a step, and gets the number of the group of
conjuncts that become testable with the step. `program.py` writes the groups over the events of a slice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cep_pipeline.detection.conditions import codes
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.lists import Uses
from cep_pipeline.patterns.conditions import Atom, Conjunct, expressions_of
from cep_pipeline.patterns.expressions import Aggregate, Element, Expression, Length, Reference, walk
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.patterns.rewriting import Node, rewritten
from cep_pipeline.patterns.structure import may_share_events
from cep_pipeline.planning.costs import in_test_order
from cep_pipeline.slices.views import ANY_EVENT, clause_cache_of

Mention = Reference | Length | Aggregate
"""A node of a condition that reads a variable."""
Test = tuple[int, int]
"""A conjunct by its place among those tested, and which of its choosers takes the newest element (-1: none)."""


@dataclass(frozen=True)
class Moment:
    """The knowledge of an instance: the variables it has bound, and the Kleene variables whose lists are complete.

    A list is complete when the instance, and whatever is made from it, never takes another element of it. Single
    variables count as complete when they are bound.
    """

    bound: frozenset[str] = frozenset()
    complete: frozenset[str] = frozenset()


NOTHING = Moment()


@dataclass(frozen=True)
class Chooser:
    """The choice of a Kleene variable: an element, or an index from 2."""

    variable: str
    kind: int


@dataclass(frozen=True, eq=False)
class TestedConjunct:
    """A conjunct that instances are tested for, how it uses Kleene variables, and what it chooses of them.

    `bounds` is the Kleene variable whose greatest number of events it is: a list of so many takes no further event.
    """

    conjunct: Conjunct
    uses: Uses
    choosers: tuple[Chooser, ...]
    bounds: str | None = None

    @classmethod
    def of(cls, conjunct: Conjunct, clause: Clause) -> TestedConjunct:
        """A conjunct of a clause that mentions a variable."""
        uses = Uses.of(conjunct)
        choosers = [Chooser(name, codes.ELEMENT) for name in uses.elements]
        bounds = next((variable.name for variable in clause.positive if variable.at_most == conjunct), None)
        return cls(conjunct, uses, (*choosers, *(Chooser(name, codes.INDEX) for name in uses.indexes)), bounds)

    def is_testable(self, moment: Moment) -> bool:
        """True if an instance knows enough."""
        return self.conjunct.variables <= moment.bound and self.uses.whole <= moment.complete


class ClauseConditions:
    """The conditions and rules of a clause without events.

    Attributes
    ----------
    variables
        The clause's variables by slot: the positive ones in pattern order, then the negated ones.
    slots
        Name -> slot.
    tested
        The conjuncts with variables that no single event decides, in the order in which they are tested.
    """

    def __init__(self, pattern: Pattern, clause: Clause) -> None:
        self.pattern, self.clause = pattern, clause
        self.variables: tuple[Variable, ...] = (*clause.positive, *clause.negated)
        self.slots = {variable.name: slot for slot, variable in enumerate(self.variables)}
        joint = [one for one in clause.conjuncts if one.variables and not _is_decided_by_one_event(one)]
        self.tested = tuple(TestedConjunct.of(one, clause) for one in in_test_order(joint))
        self._filters: dict[str, tuple[Conjunct, ...]] = {}

    def filters(self, name: str) -> tuple[Conjunct, ...]:
        """The conjuncts that one event decides of a variable, over the variable `ANY_EVENT`."""
        if name not in self._filters:
            self._filters[name] = filters_of(self.clause, name)
        return self._filters[name]

    @cached_property
    def kleene(self) -> Array:
        """uint8: whether each variable binds a list."""
        return np.array([variable.kleene for variable in self.variables], np.uint8)

    @cached_property
    def relations(self) -> Array:
        """The order of each two variables, int8 of shape (slots, slots).

        It is `codes.EARLIER` where all events of the first variable are before those of the second one, `LATER` or
        `UNRELATED`; with `MAY_SHARE` where an event may have both types.
        """
        variables, base = self.variables, self.pattern.base_type
        found = np.zeros((len(variables), len(variables)), np.int8)
        for one, first in enumerate(variables):
            for other, second in enumerate(variables):
                if (first.name, second.name) in self.clause.precedence:
                    found[one, other] = codes.EARLIER
                elif (second.name, first.name) in self.clause.precedence:
                    found[one, other] = codes.LATER
                if may_share_events(first.event_type, second.event_type, base):
                    found[one, other] += codes.MAY_SHARE
        return found


def conditions_of(pattern: Pattern, clause: Clause) -> ClauseConditions:
    """The conditions of a clause, put in order once, whatever the events."""
    key = "conditions of instances", pattern.base_type
    return clause_cache_of(clause).once(key, lambda: ClauseConditions(pattern, clause))


class ConditionGroups:
    """The groups of conjuncts that a mechanism asks for; iterating gives the tests of each by its number."""

    def __init__(self, conditions: ClauseConditions) -> None:
        self.conditions = conditions
        self._numbers: dict[tuple[Test, ...], int] = {}

    def __iter__(self) -> Iterator[tuple[Test, ...]]:
        return iter(self._numbers)

    @property
    def places(self) -> list[int]:
        """The conjuncts that are in some group, by their places, ascending."""
        return sorted({place for tests in self._numbers for place, _ in tests})

    def group(
        self,
        after: Moment,
        before: Iterable[Moment] = (NOTHING,),
        grown: str | None = None,
        begun: str | None = None,
        without: Collection[Conjunct] = (),
        beside: Collection[Conjunct] = (),
    ) -> int:
        """The number of the group of conjuncts that a step makes testable.

        Parameters
        ----------
        after
            What the new instance knows.
        before
            What the instances knew that it is made from: one, or two that are joined. Their conjuncts have been tested.
        grown
            The Kleene variable to whose list an element has been appended; its slot is the new cell. The conjuncts that
            were testable before are tested on the choices that include the element.
        begun
            The Kleene variable whose list has just got its first element: what is said of its indexes holds.
        without, beside
            Conjuncts that are not in the group, and some that are, whatever becomes testable.

        Returns
        -------
        int
            For `evaluator.group_holds`. Equal groups have one number. A group without conjuncts holds.
        """
        before = tuple(before)
        found: list[Test] = []
        for place, tested in enumerate(self.conditions.tested):
            if tested.conjunct in beside:
                found.append((place, -1))
            elif tested.conjunct in without:
                continue
            elif grown is not None and tested.bounds == grown:
                found.append((place, -1))
            elif not tested.is_testable(after):
                continue
            elif not any(map(tested.is_testable, before)):
                if begun not in tested.uses.indexes:
                    found.append((place, -1))
            elif grown is not None:
                found += ((place, n) for n, chooser in enumerate(tested.choosers) if chooser.variable == grown)
        return self._number(tuple(found))

    def first_group(self, name: str, before: Moment) -> int:
        """The group of a step that binds a variable: a single one, or the first element of a list."""
        done = frozenset[str]() if self.conditions.clause.by_name[name].kleene else {name}
        return self.group(Moment(before.bound | {name}, before.complete | done), (before,), begun=name)

    def element_group(self, name: str, moment: Moment) -> int:
        """The group of a step that appends an element to a list that is bound already."""
        return self.group(moment, (moment,), grown=name)

    def left_group(self, moment: Moment, complete: Iterable[str]) -> int:
        """The group of a step after which lists are complete."""
        return self.group(Moment(moment.bound, moment.complete | frozenset(complete)), (moment,))

    def rejecting_group(self, name: str) -> int:
        """The group of all conjuncts that mention a negated variable and others, on a match with its event in place."""
        tested = enumerate(self.conditions.tested)
        return self._number(tuple((place, -1) for place, one in tested if name in one.conjunct.variables))

    def group_of(self, conjuncts: Collection[Conjunct]) -> int:
        """The group of some conjuncts, for instances that know all that these mention."""
        tested = enumerate(self.conditions.tested)
        return self._number(tuple((place, -1) for place, one in tested if one.conjunct in conjuncts))

    def is_empty(self, group: int) -> bool:
        """True if a group has no conjuncts."""
        return not next(tests for tests, number in self._numbers.items() if number == group)

    def _number(self, tests: tuple[Test, ...]) -> int:
        return self._numbers.setdefault(tests, len(self._numbers))


def mentions(atoms: Iterable[Atom]) -> Iterator[Mention]:
    """All that some atoms read of variables."""
    for atom in atoms:
        for expression in expressions_of(atom):
            for node in walk(expression):
                if isinstance(node, Reference | Length | Aggregate):
                    yield node


def filters_of(clause: Clause, name: str) -> tuple[Conjunct, ...]:
    """The conjuncts that one event decides of a variable, over the variable `ANY_EVENT`."""
    own = (c for c in clause.conjuncts if c.variables == {name} and _is_decided_by_one_event(c))
    return tuple(map(of_any_event, own))


def _is_decided_by_one_event(conjunct: Conjunct) -> bool:
    """True if the event that a variable takes decides it, wherever in a list it stands."""
    kinds = Uses.of(conjunct).kinds
    return len(kinds) == 1 and next(iter(kinds.values())) in ({Element.ONLY}, {Element.EACH})


def of_any_event(node: Node) -> Node:
    """The expression or condition over `ANY_EVENT`, a single one, so that those over different events become equal."""

    def renamed(leaf: Expression) -> Expression:
        if isinstance(leaf, Reference | Aggregate):
            return Reference(ANY_EVENT, leaf.attribute, Element.ONLY, leaf.type)
        return leaf

    return rewritten(node, renamed)
