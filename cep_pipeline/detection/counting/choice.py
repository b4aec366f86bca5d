"""The sweep that counts the matches of a clause, if there is one, and the parts of clauses with lists that are swept.

How conditions join the variables of a clause, and in which orders their events may come, says which sweep there is.

Lists are counted by parts, where conditions name their first, their last, or all but their first element.
`SEQ(A a, B+ v[], C c) WHERE v[i].x > v[1].x` has the matches of two clauses together: one in which v is a single event,
and one in which a single event is followed by a list whose elements all have a greater x. In such parts no condition
asks for one element of a list, so that the number of lists follows from the number of candidates. Each list is in one
part. A part is counted only; the names of what it binds mean nothing to a user.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, permutations, product

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
from cep_pipeline.patterns.pattern import Pattern, Ties, once_a_pattern
from cep_pipeline.patterns.rewriting import MOST_US, rewritten
from cep_pipeline.slices.keys import keys_of, shared_attributes
from cep_pipeline.slices.views import clause_cache_of

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
    if not pattern.strategy.forks or len(positive) < 2 or clause.negated_structures:
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


@once_a_pattern
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
        left, right = (rewritten(side, of_one_event) for side in found.sides)
        return replace(found, sides=(left, right), of_each=True)
    adjacent = ((Element.PREVIOUS, Element.CURRENT),) if found.is_of_list else _ENDS_OF_LISTS
    elements = (*kinds[0], *kinds[1])
    if elements[::-1] in adjacent:
        found, elements = found.turned(), elements[::-1]
    if elements not in adjacent:
        return None
    left, right = (rewritten(side, of_one_event) for side in found.sides)
    return replace(found, sides=(left, right), neighbours=found.variables)


def of_one_event(node: Expression) -> Expression:
    """A reference to an element of a list as one to the only event of its variable."""
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


FIRST, LAST = "first", "last"
_ADJACENT = frozenset({Element.CURRENT, Element.PREVIOUS})
_NAMED = frozenset({Element.EACH, Element.FIRST, Element.CURRENT, Element.LAST})
"""The elements by which conditions of a list that is counted by parts may name it."""


MOST_PARTS = 27
"""Parts of a clause: those of three lists whose first and last elements are named."""


def parts_of_lists(
    pattern: Pattern, clause: Clause, asked: frozenset[tuple[str, Element]] | None = None
) -> tuple[Clause, ...] | None:
    """The clauses whose matches together are as many as those of a clause with lists.

    None where a condition asks for the whole list, where no condition asks for one element, and where the order of
    the stream is not that of events; where conditions ask for adjacent elements, or there are several lists, too,
    unless sweeps count all parts with a list. A list of limited length is written out for that, element by element.

    Parameters
    ----------
    asked
        The lists whose first or last elements are to be single variables, as those at the ends of the clause are then.
        A list of limited length is written out in any case, and nothing is said of sweeps.
    """
    if pattern.ties is not Ties.ARRIVAL or (clause.negations and asked is None):
        return None
    lists = [variable for variable in clause.positive if variable.kleene]
    if not lists:
        return None
    key = "parts of lists", pattern.strategy, asked
    return clause_cache_of(clause).once(key, lambda: _parts_of_all(pattern, clause, lists, asked))


def parts_of_neighbours(pattern: Pattern, clause: Clause) -> tuple[Clause, ...] | None:
    """The parts of a clause with one list whose neighbours are compared, which sweeps count however long lists are.

    Both ends of the list are single variables; a list of limited length is written out, element by element. None where
    sweeps do not count the parts, or count the clause as it is.
    """

    def make() -> tuple[Clause, ...] | None:
        lists = [variable.name for variable in clause.positive if variable.kleene]
        if clause.negations or len(lists) != 1 or sweep_of(pattern, clause):
            return None
        if not any(Uses.of(one).kinds.get(lists[0]) == _ADJACENT for one in clause.conjuncts):
            return None
        ends = frozenset((lists[0], end) for end in (Element.FIRST, Element.LAST))
        parts = parts_of_lists(pattern, clause, asked=ends) or ()
        return parts if all(sweep_of(pattern, one) for one in parts if len(one.positive) > 1) else None

    return clause_cache_of(clause).once(("parts of neighbours", pattern.strategy), make) or None


@dataclass(frozen=True)
class _Ends:
    """The ends of a list that are single variables in the parts in which it has several elements."""

    first: bool
    last: bool


_WITHIN = _Ends(first=False, last=False)


def _parts_of_all(
    pattern: Pattern,
    clause: Clause,
    lists: Sequence[Variable],
    asked: frozenset[tuple[str, Element]] | None,
) -> tuple[Clause, ...] | None:
    """The parts of one list after another; None where that changes nothing, and where several are not swept.

    What is counted behind events of the first or the last variable has single variables there: a list at an end is
    taken apart there even if no condition names its element.
    """
    begin, end = clause.positive[0], clause.positive[-1]
    outermost = {
        one.name: _Ends(
            first=one is begin or (one.name, Element.FIRST) in (asked or ()),
            last=one is end or (one.name, Element.LAST) in (asked or ()),
        )
        for one in lists
    }
    if asked is not None:
        parts = _split(clause, lists, outermost, written_out=True)
        return None if parts is None or len(parts) > MOST_PARTS else parts
    unswept = None
    for written_out, ends in product((False, True), [{}, outermost] if len(lists) > 1 else [{}]):
        parts = _split(clause, lists, ends, written_out=written_out)
        if parts is None or parts == (clause,) or len(parts) > MOST_PARTS:
            return None
        to_sweep = (part for part in parts if written_out or any(one.kleene for one in part.positive))
        if all(sweep_of(pattern, part) is not None for part in to_sweep):
            return parts
        unswept = unswept or parts
        if not any(_has_to_be_swept(clause, lists, part) for part in unswept):
            return unswept
    return None


def _has_to_be_swept(clause: Clause, lists: Sequence[Variable], part: Clause) -> bool:
    """Return whether nothing but a sweep counts a part: several lists, or one whose neighbours are compared."""
    if not any(variable.kleene for variable in part.positive):
        return False
    if len(lists) > 1:
        return True
    compared = any(Uses.of(one).kinds.get(lists[0].name) == _ADJACENT for one in clause.conjuncts)
    return compared and len(part.positive) > len(clause.positive)


def _split(
    clause: Clause, lists: Sequence[Variable], ends: Mapping[str, _Ends], *, written_out: bool
) -> tuple[Clause, ...] | None:
    parts: tuple[Clause, ...] = (clause,)
    for variable in lists:
        own_ends = ends.get(variable.name, _WITHIN)
        found = [_parts(part, variable, own_ends, written_out=written_out) for part in parts]
        if any(own is None for own in found):
            return None
        parts = tuple(part for own in found for part in own or ())
    return parts


def _parts(clause: Clause, variable: Variable, apart: _Ends, *, written_out: bool) -> tuple[Clause, ...] | None:
    """The parts of a clause by one of its lists, the ends that are to stand `apart` in any case among them.

    None where a condition asks for more than these.

    Parameters
    ----------
    written_out
        Whether a list of limited length has a part for each length, all of whose elements are single variables.
    """
    own, others, lengths = [], [], [(variable.minimum, variable.maximum)]
    for conjunct in clause.conjuncts:
        if variable.name not in conjunct.variables:
            others.append(conjunct)
        elif conjunct in variable.limits:
            continue
        elif (limits := _limits_in(conjunct)) is not None:
            lengths.append(limits)
        else:
            own.append(conjunct)
    kinds = [Uses.of(conjunct).kinds[variable.name] for conjunct in own]
    named = frozenset[Element | None]().union(*kinds)
    least = max(low for low, _ in lengths)
    most = min((high for _, high in lengths if high is not None), default=None)
    if Element.PREVIOUS in named and named <= {Element.EACH, Element.CURRENT, Element.PREVIOUS}:
        named = frozenset()  # adjacent elements are counted as they are; only the lengths may be told
    adjacent = Element.PREVIOUS in named
    if any(Element.PREVIOUS in kind and kind != _ADJACENT for kind in kinds):
        return None
    if not named - {Element.PREVIOUS} <= _NAMED or any({Element.CURRENT, Element.EACH} <= kind for kind in kinds):
        return None
    if most is not None and most < max(least, 1):
        return ()
    first = adjacent or apart.first or bool(named & {Element.FIRST, Element.CURRENT})
    ends = _Ends(first, adjacent or apart.last or Element.LAST in named)
    limited = written_out and (most is not None or least > ends.first + ends.last + 1)
    if limited and max(least, (most or MOST_PARTS) - least) > MOST_PARTS:
        return None
    if not (ends.first or ends.last or limited) and len(lengths) == 1:
        return (clause,)
    bounds = _bounds(variable, ends, least, most, written_out=limited)
    return tuple(_part(clause, variable, bound, own, others) for bound in bounds)


def _limits_in(conjunct: Conjunct) -> tuple[int, int | None] | None:
    """The least and the greatest length that a comparison of a list's length with a number lets pass."""
    match conjunct.atoms:
        case (Comparison(comparator, Length(), Literal(int() as number)),):
            pass
        case (Comparison(comparator, Literal(int() as number), Length()),):
            comparator = comparator.mirror
        case _:
            return None
    match comparator:
        case Comparator.EQ:
            return number, number
        case Comparator.GE | Comparator.GT:
            return number + (comparator is Comparator.GT), None
        case Comparator.LE | Comparator.LT:
            return 1, number - (comparator is Comparator.LT)
        case _:
            return None


def _bounds(
    variable: Variable, ends: _Ends, least: int, most: int | None, *, written_out: bool
) -> Iterator[tuple[Variable, ...]]:
    """The variables that are bound in place of a list, as the stream orders them: single ones, and a list at most.

    Written out there is one for each length; without a greatest one, a list of any length stands in the last of them.
    """
    single = replace(variable, kleene=False, minimum=1, maximum=None)

    def elements(*names: object) -> tuple[Variable, ...]:
        return tuple(replace(single, name=f"{variable.name}[{name}]") for name in names)

    around = ends.first + ends.last
    if written_out:
        for length in range(max(least, 1), (around if most is None else most) + 1):
            yield elements(*range(1, length + 1))
        if most is None:
            bound = elements(*range(1, max(least, around + 1) + 1))
            place = len(bound) - 1 - ends.last
            yield (*bound[:place], replace(variable, minimum=1, maximum=None), *bound[place + 1 :])
        return
    first, last = elements(FIRST), elements(LAST)
    if around and least <= 1:
        yield first if ends.first else last
    if around == 2 and least <= 2 and (most is None or most >= 2):
        yield (*first, *last)
    if most is None or most > around:
        middle = replace(variable, minimum=max(least - around, 1), maximum=None if most is None else most - around)
        yield (*first[: ends.first], middle, *last[: ends.last])


def _part(
    clause: Clause,
    variable: Variable,
    bound: tuple[Variable, ...],
    own: list[Conjunct],
    others: list[Conjunct],
) -> Clause:
    """The clause with some variables, in the order of the stream, in place of the list."""
    name = variable.name
    names = [one.name for one in bound]
    precedence = {(a, b) for a, b in clause.precedence if name not in (a, b)}
    precedence |= {(a, one) for a, b in clause.precedence if b == name for one in names}
    precedence |= {(one, b) for a, b in clause.precedence if a == name for one in names}
    precedence |= {(names[place], behind) for place in range(len(names)) for behind in names[place + 1 :]}
    positive = [one for each in clause.positive for one in (bound if each is variable else (each,))]
    conjuncts = dict.fromkeys([*others, *(limit for one in bound for limit in one.limits)])
    for conjunct in own:
        kinds = Uses.of(conjunct).kinds[name]
        if kinds == _ADJACENT:
            for pair in pairwise(bound):
                conjuncts[rewritten(conjunct, partial(_next_to, variable=name, pair=pair))] = None
            if any(one.kleene for one in bound):
                conjuncts[conjunct] = None
            continue
        ends: dict[Element, Variable] = {Element.FIRST: bound[0], Element.LAST: bound[-1]}
        each = bound[1:] if Element.CURRENT in kinds else bound if Element.EACH in kinds else (None,)
        for one in each:
            chosen = ends if one is None else {**ends, Element.CURRENT: one, Element.EACH: one}
            conjuncts[rewritten(conjunct, partial(_chosen, variable=name, elements=chosen))] = None
    return replace(clause, positive=tuple(positive), precedence=frozenset(precedence), conjuncts=tuple(conjuncts))


def _chosen(node: Expression, variable: str, elements: Mapping[Element, Variable]) -> Expression:
    if not isinstance(node, Reference) or node.variable != variable:
        return node
    one = elements[node.element]
    return replace(node, variable=one.name, element=Element.EACH if one.kleene else Element.ONLY)


def _next_to(node: Expression, variable: str, pair: tuple[Variable, Variable]) -> Expression:
    """An expression of two adjacent elements, with each as that of a variable, or as the nearest one of the list."""
    if not isinstance(node, Reference) or node.variable != variable:
        return node
    is_later = node.element is Element.CURRENT
    one, nearest = pair[is_later], Element.FIRST if is_later else Element.LAST
    return replace(node, variable=one.name, element=nearest if one.kleene else Element.ONLY)
