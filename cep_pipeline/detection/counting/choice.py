"""The sweep that counts the matches of a clause, if there is one, and whether it takes less time than to find them.

The clause alone says which sweep there is: how conditions join its variables, and in which orders their events may
come. The events say what it takes, and what finding takes: how many there are of each variable, what share of the
slice a window is, and, where comparisons join three variables, how many pairs of a sample pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, permutations

from cep_pipeline.expressions.lists import Uses
from cep_pipeline.patterns.conditions import Comparator, Comparison, Conjunct
from cep_pipeline.patterns.expressions import (
    Aggregate,
    Arithmetic,
    Element,
    Expression,
    Length,
    Literal,
    Reference,
    ValueType,
    variables_of,
    walk,
)
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Pattern, Strategy
from cep_pipeline.patterns.rewriting import MOST_US, rewritten
from cep_pipeline.slices.keys import keys_of, shared_attributes

MOST_STATES = 64
"""States up to which a sweep pays: an AND of six variables, a sequence of any length that anybody writes."""
MOST_VARIABLES = 16
"""Variables, negated ones too, that a word of bits tells apart."""
MOST_ORDERS = 24
"""Orders of the variables of an AND that are swept one by one."""
LANES = 64
"""First events that are counted behind side by side."""


@dataclass(frozen=True)
class Sweep:
    """The way in which the matches of a clause are counted by a sweep.

    Attributes
    ----------
    agree_on
        The attributes on which all events of a match agree.
    joining
        The comparisons of two variables that the sweep tests.
    backwards
        Whether the sweep goes from the last event to the first, since a negated variable has nothing after it.
    """

    agree_on: tuple[str, ...]
    joining: tuple[Joining, ...]
    backwards: bool


Sides = tuple[Expression, Expression]


@dataclass(frozen=True)
class Joining:
    """The condition that joins two variables: one comparison, or equalities and one comparison more.

    Attributes
    ----------
    comparator, sides
        The comparison of an expression over one variable with one over the other.
    equal
        The sides of the equalities beside it.
    neighbours
        The two variables in the order of the stream, if one of them is a list whose element next to the other one is
        compared, or if they are one list whose adjacent elements are.
    of_each
        Whether one of the two variables is a list each of whose elements is compared with the event of the other one.
    """

    comparator: Comparator
    variables: tuple[str, str]
    sides: Sides
    equal: tuple[Sides, ...] = ()
    neighbours: tuple[str, str] | None = None
    of_each: bool = False

    @property
    def is_of_list(self) -> bool:
        """True where it joins the adjacent elements of one list, the sides of the earlier one first."""
        return self.variables[0] == self.variables[1]

    def turned(self) -> Joining:
        """The same condition with the other side first."""
        return replace(
            self,
            comparator=self.comparator.mirror,
            variables=self.variables[::-1],
            sides=self.sides[::-1],
            equal=tuple(own[::-1] for own in self.equal),
        )

    def all_of(self, place: int) -> list[Expression]:
        """The expressions of the first or the second variable that are compared."""
        return [own[place] for own in (*self.equal, self.sides)]

    def sides_of(self, variables: tuple[str, str]) -> Sides:
        """The sides for its variables in this order."""
        return self.sides if self.variables == variables else self.sides[::-1]


def sweep_of(pattern: Pattern, clause: Clause) -> Sweep | None:
    """The sweep that counts the matches of a clause over most events; None where there is none.

    Notes
    -----
    Events of one timestamp, where TIES says that they are in no order, may still ask for something else.
    """
    positive = clause.positive
    if pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH or len(positive) < 2 or clause.negated_structures:
        return None
    if len(positive) + len(clause.negated) > MOST_VARIABLES:
        return None
    names = {variable.name for variable in positive}
    types = {**dict(pattern.attributes), "timestamp": ValueType.INT64, "seq": ValueType.INT64}
    keys = [key for key in keys_of(clause, types) if set(key.variables) == names]
    agree_on, made_true = clause.agree_on, frozenset[Conjunct]()
    if keys and (shared := shared_attributes(keys[0])) is not None:
        agree_on, made_true = shared, keys[0].conjuncts
    lists = {variable.name for variable in positive if variable.kleene}
    if any(conjunct.variables & lists for conjunct in made_true):
        return None
    joining = [one for one in clause.conjuncts if len(one.variables) > 1 and one not in made_true]
    joining += [one for one in clause.conjuncts if len(one.variables) == 1 and not of_elements(clause, one)]
    if clause.negated and agree_on != clause.agree_on:
        return None  # what only positive events agree on leaves the negated ones of all keys
    backwards = any(not clause.successors(one.name) for one in clause.negated)
    if backwards and any(not clause.predecessors(one.name) for one in clause.negated):
        return None
    if not joining:
        return Sweep(agree_on, (), backwards) if states_of(clause, backwards=backwards) is not None else None
    found = [one for conjunct in joining if (one := _joining(clause, conjunct)) is not None]
    if clause.negated or len(found) < len(joining) or not orders_of(clause):
        return None
    known = _together_joined(found)
    is_swept = counted_as_chain(known) or counted_behind(clause, known)
    return Sweep(agree_on, known, False) if is_swept else None


def binds_lists(pattern: Pattern) -> bool:
    """Return whether matches of a pattern bind lists: others are found where only one event after another is fixed."""
    return any(operand.kleene and not operand.negated for operand in pattern.operands)


def _together_joined(joining: Sequence[Joining]) -> tuple[Joining, ...]:
    """The conditions, with the equalities of each two variables as one, which goes with a comparison of them."""
    by_pair: dict[tuple[frozenset[str], bool], list[Joining]] = {}
    for one in joining:
        by_pair.setdefault((frozenset(one.variables), one.of_each), []).append(one)
    made = []
    for several in by_pair.values():
        equalities = [one for one in several if one.comparator is Comparator.EQ]
        first, *others = [one for one in several if one.comparator is not Comparator.EQ] or equalities[:1]
        equal = tuple(one.sides_of(first.variables) for one in equalities if one is not first)
        made += [replace(first, equal=equal), *others]
    return tuple(made)


def counted_behind(clause: Clause, joining: Sequence[Joining]) -> bool:
    """Return whether conditions join single variables with the one before or the first, or mirrored, in all orders.

    A list may stand between the first and the last variable.
    """
    if len(clause.positive) < 3:
        return False
    return all(
        _follow_each_other(order, joining) and any(True for _ in ways_behind(order, joining))
        for order in orders_of(clause)
    )


def counted_as_chain(joining: Sequence[Joining]) -> bool:
    """Return whether one comparison of two single variables, which a sweep tests, is all that joins variables."""
    return len(joining) == 1 and not joining[0].neighbours and not joining[0].of_each


def joins_neighbours(order: Sequence[Variable], joining: Sequence[Joining]) -> bool:
    """Return whether each comparison joins two events that follow each other, and no two the same variables."""
    if any(each.of_each for each in joining):
        return False
    neighbours = {frozenset((one.name, other.name)) for one, other in pairwise(order)}
    pairs = [frozenset(each.variables) for each in joining if not each.is_of_list]
    return len(set(pairs)) == len(pairs) and neighbours.issuperset(pairs)


def sweeps_over(pattern: Pattern) -> bool:
    """Return whether sweeps count the matches of all clauses of a pattern over most events.

    Examples
    --------
    >>> import cep_pipeline as cep
    >>> schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}})
    >>> free, joined = cep.parse_patterns(
    ...     "PATTERN SEQ(A a, B b) WITHIN 1 day; PATTERN SEQ(A a, B b) WHERE a.x * b.x > 3 WITHIN 1 day", schema
    ... )
    >>> sweeps_over(free), sweeps_over(joined)
    (True, False)
    """
    distinct = len({clause.positive for clause in pattern.clauses}) == len(pattern.clauses)
    return distinct and all(sweep_of(pattern, clause) is not None for clause in pattern.clauses)


def of_elements(clause: Clause, conjunct: Conjunct) -> bool:
    """Return whether a conjunct over one variable is decided by one event."""
    [name] = conjunct.variables
    return not clause.by_name[name].kleene or Uses.of(conjunct).kinds[name] == {Element.EACH}


def _joining(clause: Clause, conjunct: Conjunct) -> Joining | None:
    """The comparison of two events, or of elements of two variables or one; None where it is no such."""
    match conjunct.atoms:
        case (Comparison(comparator) as comparison,) if comparator is not Comparator.NE:
            if any(one.kleene for one in clause.positive):  # single events so far apart are found by a range of times
                comparison = _without_difference(comparison)
            owners = [variables_of(side) for side in (comparison.left, comparison.right)]
            if any(len(names) != 1 for names in owners):
                return None
            one, other = (clause.by_name[name] for names in owners for name in names)
            if one.negated or other.negated:
                return None
            found = Joining(comparison.comparator, (one.name, other.name), (comparison.left, comparison.right))
            if not one.kleene and not other.kleene:
                return None if one is other else found
            return _joining_lists(found)
    return None


def _without_difference(comparison: Comparison) -> Comparison:
    """`b.timestamp - a.timestamp < t` as `b.timestamp < a.timestamp + t`; no such number of microseconds is rounded."""
    match comparison:
        case Comparison(
            comparator, Arithmetic("-", Reference() as later, Reference() as earlier) as apart, Literal(int() as most)
        ) if {later.attribute, earlier.attribute} == {"timestamp"} and abs(most) <= MOST_US:
            return Comparison(comparator, later, replace(apart, operator="+", left=earlier, right=comparison.right))
        case Comparison(comparator, Literal() as left, Arithmetic("-") as right):
            turned = Comparison(comparator.mirror, right, left)
            moved = _without_difference(turned)
            return comparison if moved is turned else moved
    return comparison


_ENDS_OF_LISTS = (
    (Element.LAST, Element.FIRST),
    (Element.LAST, Element.ONLY),
    (Element.ONLY, Element.FIRST),
)
"""The elements of two variables that are next to each other, of the earlier one and of the later one."""


def _joining_lists(found: Joining) -> Joining | None:
    """The condition on two adjacent elements, of which at least one is of a list, or on each element of one list.

    None where it is no such.
    """
    kinds = [{one.element for one in walk(side) if isinstance(one, Reference)} for side in found.sides]
    if any(isinstance(node, Length | Aggregate) for side in found.sides for node in walk(side)):
        return None
    if len(kinds[0]) != 1 or len(kinds[1]) != 1:
        return None
    if kinds[0] | kinds[1] == {Element.ONLY, Element.EACH}:
        left, right = (rewritten(side, _only) for side in found.sides)
        return replace(found, sides=(left, right), of_each=True)
    adjacent = ((Element.PREVIOUS, Element.CURRENT),) if found.is_of_list else _ENDS_OF_LISTS
    elements = (*kinds[0], *kinds[1])
    if elements[::-1] in adjacent:
        found, elements = found.turned(), elements[::-1]
    if elements not in adjacent:
        return None
    left, right = (rewritten(side, _only) for side in found.sides)
    return replace(found, sides=(left, right), neighbours=found.variables)


def _only(node: Expression) -> Expression:
    return replace(node, element=Element.ONLY) if isinstance(node, Reference) else node


def _follow_each_other(order: Sequence[Variable], joining: Sequence[Joining]) -> bool:
    """Return whether the variables of conditions on adjacent elements are so in an order.

    What is compared of an element is the same for the next element of its list and for the variable behind the list.
    """
    names = [one.name for one in order]
    apart = {(one, other) for one, other in pairwise(names)}
    lists = [one for one in joining if one.neighbours]
    by_pair = {one.neighbours: one for one in lists}
    for one in lists:
        if not one.is_of_list:
            if one.neighbours not in apart:
                return False
            continue
        place = names.index(one.variables[0])
        for ahead, earlier, at in ((place, place + 1, 0), (place - 1, place, 1)):
            if ahead < 0 or earlier == len(names):
                continue
            other = by_pair.get((names[ahead], names[earlier]))
            if other is not None and other.all_of(at) != one.all_of(at):
                return False
    return True


def orders_of(clause: Clause) -> list[tuple[Variable, ...]]:
    """All orders in which the events of a match may come, with each list at one place; [] where that cannot be said."""
    positive, before = clause.positive, clause.precedence
    ordered = tuple(sorted(positive, key=lambda variable: len(clause.predecessors(variable.name))))
    if all((one.name, other.name) in before for one, other in pairwise(ordered)):
        return [ordered]
    if len(positive) > 4 or any(variable.kleene for variable in positive):
        return []
    found = [
        order
        for order in permutations(positive)
        if not any(
            (later.name, earlier.name) in before for place, later in enumerate(order) for earlier in order[:place]
        )
    ]
    return found if len(found) <= MOST_ORDERS else []


@dataclass(frozen=True)
class StateSpace:
    """The states of a clause: sets of its positive variables, as bits, that may be bound before the others.

    Attributes
    ----------
    states
        Smaller sets first: the first one is empty. The set of all variables is a state only where a list may still
        grow there.
    after, before
        For each variable, as bits, those that come after it and before it.
    """

    clause: Clause
    states: tuple[int, ...]
    after: tuple[int, ...]
    before: tuple[int, ...]

    @property
    def full(self) -> int:
        """All variables."""
        return (1 << len(self.after)) - 1

    def open_lists(self, state: int, fits: int) -> Iterator[int]:
        """The lists that an event which fits these variables may be added to."""
        for place, variable in enumerate(self.clause.positive):
            if variable.kleene and state >> place & fits >> place & 1 and not self.after[place] & state:
                yield place

    def next_states(self, state: int, fits: int) -> Iterator[tuple[int, int]]:
        """The variables that such an event may be bound to, each with the state behind."""
        for place in range(len(self.after)):
            if fits >> place & 1 and not state >> place & 1 and not self.before[place] & ~state:
                yield place, state | 1 << place

    def rejects(self, state: int, fits: int) -> bool:
        """Return whether such an event of a negated variable rejects what a state has bound."""
        names = {variable.name: 1 << place for place, variable in enumerate(self.clause.positive)}
        for place, variable in enumerate(self.clause.negated, start=len(names)):
            behind = sum(names[one.name] for one in self.clause.predecessors(variable.name))
            ahead = sum(names[one.name] for one in self.clause.successors(variable.name))
            if fits >> place & 1 and not behind & ~state and not ahead & state:
                return True
        return False


def states_of(clause: Clause, *, backwards: bool = False) -> StateSpace | None:
    """The states of a clause, of its mirror image if that is asked; None where they do not say all, or are too many."""
    if backwards:
        turned = frozenset((other, one) for one, other in clause.precedence)
        clause = replace(clause, precedence=turned)
    names = {variable.name: place for place, variable in enumerate(clause.positive)}
    after, before = [0] * len(names), [0] * len(names)
    for one, other in clause.precedence:
        if one in names and other in names:
            after[names[one]] |= 1 << names[other]
            before[names[other]] |= 1 << names[one]
    for negated in clause.negated:  # a list that grows behind an event which rejects it is not rejected
        behind = clause.predecessors(negated.name)
        if any(
            one.kleene and not any((one.name, other.name) in clause.precedence for other in behind) for one in behind
        ):
            return None
    space = StateSpace(clause, (), tuple(after), tuple(before))
    found, waiting = {0}, [0]
    while waiting:
        state = waiting.pop()
        for _, following in space.next_states(state, space.full):
            if following not in found:
                found.add(following)
                waiting.append(following)
        if len(found) > MOST_STATES:
            return None
    if not any(True for _ in space.open_lists(space.full, space.full)):
        found.discard(space.full)
    return replace(space, states=tuple(sorted(found, key=lambda state: (state.bit_count(), state))))


@dataclass(frozen=True)
class WayBehind:
    """A way to count a sequence behind, or ahead of, each event of its first or last variable, the anchors.

    Attributes
    ----------
    order
        The variable of the anchors, then the others as they are bound, each with conditions only on the anchor and on
        the one bound before it.
    from_last
        Whether the anchors are the last events.
    beside_list
        Whether the anchor is compared with the element of a list next to it, and with nothing else.
    """

    order: tuple[Variable, ...]
    from_last: bool
    beside_list: bool = False

    @property
    def last_in_time(self) -> int:
        """The place of the variable whose events come last."""
        return 0 if self.from_last else len(self.order) - 1


def ways_behind(order: Sequence[Variable], joining: Sequence[Joining]) -> Iterator[WayBehind]:
    """The ways that the conditions on a sequence allow."""
    for from_last in (False, True):
        if order[0].kleene or order[-1].kleene:
            return
        anchor, *others = tuple(order)[::-1] if from_last else order
        beside_list = any(each.neighbours is not None and anchor.name in each.variables for each in joining)
        if beside_list and not joins_neighbours(order, joining):
            continue
        if any(each.of_each and anchor.name not in each.variables for each in joining):
            continue
        among = [each for each in joining if not each.is_of_list]
        between = [frozenset(each.variables) for each in among if anchor.name not in each.variables]
        neighbours = {frozenset((one.name, other.name)) for one, other in pairwise(others)}
        if len(set(between)) == len(between) and neighbours.issuperset(between):
            yield WayBehind((anchor, *others), from_last, beside_list)
