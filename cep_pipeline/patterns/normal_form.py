"""Normal form: a pattern as a disjunction of conjunctive clauses with a partial order (JQPG section 5.4).

The structure becomes a disjunction of clauses, each a set of variables with a partial order; the condition
becomes a conjunction of conjuncts, each of which constrains exactly the clauses that have all its variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from typing import TypeVar

from cep_pipeline.patterns.conditions import (
    AllOf,
    AnyOf,
    Atom,
    Comparator,
    Comparison,
    Condition,
    Conjunct,
    Equivalence,
    Not,
    Truth,
    negate,
)
from cep_pipeline.patterns.expressions import Element, Length, Literal, Reference, Span, ValueType
from cep_pipeline.patterns.structure import (
    Composite,
    EventOperand,
    EventType,
    Negation,
    Operator,
    Structure,
    event_operands,
)

MAX_CLAUSES = 4096
"""Largest disjunctive normal form that is accepted (docs/language.md, section 6)."""
MAX_CONJUNCTS = 4096
"""Largest conjunctive normal form that is accepted."""


class NormalFormTooLarge(ValueError):
    """The normal form of a structure or a condition would exceed its limit; `span` is what asks for it."""

    def __init__(self, message: str, span: Span) -> None:
        self.span = span
        super().__init__(message)


@dataclass(frozen=True)
class Variable:
    """A variable of a clause: one event operand of the pattern.

    `position` is its place among all event operands of the pattern as written, from 0; `minimum` and `maximum` are the
    least and the greatest number of events of a list.
    """

    name: str
    event_type: EventType
    kleene: bool
    negated: bool
    position: int
    minimum: int = 1
    maximum: int | None = None

    @cached_property
    def at_least(self) -> Conjunct | None:
        """The condition `v.LEN >= minimum`; None where every list fulfils it."""
        return None if self.minimum == 1 else _length_test(self.name, Comparator.GE, self.minimum)

    @cached_property
    def at_most(self) -> Conjunct | None:
        """The condition `v.LEN <= maximum`; None where there is no maximum."""
        return None if self.maximum is None else _length_test(self.name, Comparator.LE, self.maximum)

    @property
    def limits(self) -> tuple[Conjunct, ...]:
        """The conditions that the numbers of `A{n,m} v[]` are, which the clauses with the variable have."""
        return tuple(limit for limit in (self.at_least, self.at_most) if limit is not None)


def _length_test(name: str, comparator: Comparator, length: int) -> Conjunct:
    return Conjunct((Comparison(comparator, Length(name), Literal(length, ValueType.INT64)),))


@dataclass(frozen=True)
class NegatedStructure:
    """A negated composite or list of a clause (SIGMOD'08 section 3.1).

    Attributes
    ----------
    name
        Its first variable, by which the clause's `precedence` orders the structure as one negated variable.
    clauses
        The normal form of what is negated: a binding of all variables of one of them rejects a match. Their variables
        are in `positive` there, and their conjuncts may mention positive variables of the clause that they stand in.
    """

    name: str
    clauses: tuple[Clause, ...]

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The variables of all clauses, in pattern order."""
        found = {variable.name: variable for clause in self.clauses for variable in clause.positive}
        return tuple(sorted(found.values(), key=lambda variable: variable.position))


@dataclass(frozen=True)
class Clause:
    """One conjunctive clause: a match binds all its positive variables.

    Attributes
    ----------
    index
        Place of the clause in the pattern's normal form, from 0.
    positive, negated
        Variables in pattern order; a negated one is a single event that must not occur.
    precedence
        All pairs `(a, b)` of names, negated ones too, where every event of a comes before every event of b;
        transitively closed by construction.
    conjuncts
        Conjuncts whose variables are all in `positive` and `negated`, and the limits of lists.
    equivalences
        Attributes of equivalence tests, and of equalities that say as much (`with_agreement`).
    agree_on
        Those attributes and the ones of PARTITION BY: all events of a match agree on them.
    """

    index: int
    positive: tuple[Variable, ...]
    negated: tuple[Variable, ...]
    precedence: frozenset[tuple[str, str]]
    conjuncts: tuple[Conjunct, ...]
    equivalences: tuple[str, ...]
    partition_by: tuple[str, ...]
    negated_structures: tuple[NegatedStructure, ...] = ()

    @cached_property
    def by_name(self) -> dict[str, Variable]:
        return {variable.name: variable for variable in (*self.positive, *self.negated)}

    @property
    def negations(self) -> tuple[str, ...]:
        """The names by which `precedence` orders what is negated: negated variables, and negated structures."""
        return (*(one.name for one in self.negated), *(one.name for one in self.negated_structures))

    @property
    def read(self) -> tuple[Variable, ...]:
        """All variables whose events decide about matches, those of negated structures last."""
        within = (variable for structure in self.negated_structures for variable in structure.variables)
        return (*self.positive, *self.negated, *within)

    @property
    def agree_on(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.partition_by, *self.equivalences)))

    def predecessors(self, name: str) -> tuple[Variable, ...]:
        """P(n) of docs/language.md, section 3.5: positive variables that come before `name`."""
        return tuple(v for v in self.positive if (v.name, name) in self.precedence)

    def successors(self, name: str) -> tuple[Variable, ...]:
        """S(n) of docs/language.md, section 3.5: positive variables that come after `name`."""
        return tuple(v for v in self.positive if (name, v.name) in self.precedence)

    def next_before(self, name: str) -> list[str]:
        """The positive variables directly before one: what is after these is after all that are before it."""
        before = [variable.name for variable in self.predecessors(name)]
        return [one for one in before if not any((one, other) in self.precedence for other in before)]

    def next_behind(self, name: str) -> list[str]:
        """The positive variables directly behind one."""
        behind = [variable.name for variable in self.successors(name)]
        return [one for one in behind if not any((other, one) in self.precedence for other in behind)]


def normalize(
    structure: Structure, condition: Condition | None = None, partition_by: tuple[str, ...] = ()
) -> tuple[Clause, ...]:
    """Rewrite structure and condition of a pattern to its clauses, in the order of the branches as written.

    Raises
    ------
    NormalFormTooLarge
        More than `MAX_CLAUSES` clauses, or `MAX_CONJUNCTS` conjuncts.
    """
    if count_clauses(structure) > MAX_CLAUSES:
        message = f"the disjunctive normal form has more than {MAX_CLAUSES:,} clauses"
        raise NormalFormTooLarge(message, structure.span)
    variables = {
        operand.variable: Variable(
            operand.variable,
            operand.event_type,
            operand.kleene,
            operand.negated,
            position,
            operand.minimum,
            operand.maximum,
        )
        for position, operand in enumerate(event_operands(structure))
    }
    conjuncts, equivalences = split_condition(condition)
    # A number of events is a condition on the length of the list; runs take it as a bound, too.
    limits = (limit for variable in variables.values() for limit in variable.limits)
    conjuncts = tuple(dict.fromkeys((*conjuncts, *limits)))
    negated = {_name_of(negation): negation for negation in negations(structure)}
    clauses = []
    for index, (names, precedence) in enumerate(_branches(structure)):
        members = sorted((variables[name] for name in names if name not in negated), key=lambda one: one.position)
        present = frozenset(member.name for member in members)
        positive = tuple(member for member in members if not member.negated)
        clauses.append(
            Clause(
                index=index,
                positive=positive,
                negated=tuple(member for member in members if member.negated),
                precedence=precedence,
                conjuncts=tuple(c for c in conjuncts if c.variables <= present),
                equivalences=equivalences,
                partition_by=partition_by,
                negated_structures=tuple(
                    NegatedStructure(
                        name,
                        tuple(
                            Clause(
                                index=number,
                                positive=tuple(sorted((variables[one] for one in own), key=lambda one: one.position)),
                                negated=(),
                                precedence=order,
                                conjuncts=_conjuncts_of_negated(conjuncts, own, positive),
                                equivalences=equivalences,
                                partition_by=partition_by,
                            )
                            for number, (own, order) in enumerate(_branches(negated[name].operand))
                        ),
                    )
                    for name in sorted(names, key=lambda name: variables[name].position)
                    if name in negated
                ),
            )
        )
    return tuple(clauses)


def _conjuncts_of_negated(
    conjuncts: tuple[Conjunct, ...], own: tuple[str, ...], positive: tuple[Variable, ...]
) -> tuple[Conjunct, ...]:
    """The conjuncts that mention a variable of a negated clause, and otherwise only positive ones."""
    known = frozenset(own) | {variable.name for variable in positive}
    return tuple(c for c in conjuncts if c.variables <= known and not c.variables.isdisjoint(own))


def negations(structure: Structure) -> Iterator[Negation]:
    """The negated composites and lists of a structure, in the order they are written."""
    if isinstance(structure, Negation):
        yield structure
    elif isinstance(structure, Composite):
        for operand in structure.operands:
            yield from negations(operand)


def negation_of(structure: Structure, negated: NegatedStructure) -> Negation:
    """The negation, as it is written in a structure, that a negated structure of a clause is the normal form of."""
    return next(negation for negation in negations(structure) if _name_of(negation) == negated.name)


def _name_of(negation: Negation) -> str:
    return next(event_operands(negation)).variable


def count_clauses(structure: Structure) -> int:
    """Size of the disjunctive normal form, without building it; a negated operand counts as one."""
    if isinstance(structure, EventOperand):
        return 2 if structure.optional else 1
    if isinstance(structure, Negation):
        return 1
    counts = [count_clauses(operand) for operand in structure.operands]
    if structure.operator is Operator.OR:
        return sum(counts)
    size = 1
    for count in counts:
        size *= count
    return size


def _branches(structure: Structure) -> Iterator[tuple[tuple[str, ...], frozenset[tuple[str, str]]]]:
    """Each clause as its variable names and its precedence pairs; a negated operand is there by its first variable."""
    if isinstance(structure, EventOperand):
        yield (structure.variable,), frozenset()
        if structure.optional:
            yield (), frozenset()
        return
    if isinstance(structure, Negation):
        yield (_name_of(structure),), frozenset()
        return
    if structure.operator is Operator.OR:
        for operand in structure.operands:
            yield from _branches(operand)
        return
    for choice in product(*(tuple(_branches(operand)) for operand in structure.operands)):
        names = tuple(name for part, _ in choice for name in part)
        pairs = {pair for _, precedence in choice for pair in precedence}
        if structure.operator is Operator.SEQ:
            for later in range(1, len(choice)):
                for earlier in range(later):
                    pairs |= set(product(choice[earlier][0], choice[later][0]))
        yield names, frozenset(pairs)


def split_condition(
    condition: Condition | None, *, as_written: bool = False
) -> tuple[tuple[Conjunct, ...], tuple[str, ...]]:
    """The conjuncts of the conjunctive normal form, and the attributes of all equivalence tests.

    NOT is pushed to the comparisons and OR is distributed over AND. Equal conjuncts are kept once. A conjunct that has
    TRUE among its atoms is left out, since it always holds, and so is NOT TRUE beside other atoms, unless
    `as_written` asks for them.
    """
    conjuncts: dict[Conjunct, None] = {}
    attributes: dict[str, None] = {}
    for part in _top_level(condition):
        if isinstance(part, Equivalence):
            attributes.update(dict.fromkeys(part.attributes))
            continue
        for atoms in _conjunctive(part, negated=False):
            if not as_written:
                if any(isinstance(atom, Truth) and atom.holds for atom in atoms):
                    continue
                atoms = tuple(atom for atom in atoms if not isinstance(atom, Truth)) or atoms
            conjuncts[Conjunct(tuple(dict.fromkeys(atoms)), part.span)] = None
        if len(conjuncts) > MAX_CONJUNCTS:
            raise _too_many_conjuncts(part.span)
    return tuple(conjuncts), tuple(attributes)


def _top_level(condition: Condition | None) -> Iterator[Condition]:
    if isinstance(condition, AllOf):
        for operand in condition.operands:
            yield from _top_level(operand)
    elif condition is not None:
        yield condition


def _conjunctive(condition: Condition, *, negated: bool) -> list[tuple[Atom, ...]]:
    """Conjunctive normal form of a condition without equivalence tests: a list of disjunctions."""
    match condition:
        case Not(operand):
            return _conjunctive(operand, negated=not negated)
        case AllOf(operands) | AnyOf(operands):
            parts = [_conjunctive(operand, negated=negated) for operand in operands]
            if isinstance(condition, AllOf) != negated:
                size = sum(len(part) for part in parts)
                if size > MAX_CONJUNCTS:
                    raise _too_many_conjuncts(condition.span)
                return [disjunction for part in parts for disjunction in part]
            size = 1
            for part in parts:
                size *= len(part)
            if size > MAX_CONJUNCTS:
                raise _too_many_conjuncts(condition.span)
            return [tuple(atom for choice in combination for atom in choice) for combination in product(*parts)]
        case Equivalence():
            raise ValueError("an equivalence test stands under OR or NOT")
        case _:
            return [(negate(condition) if negated else condition,)]


def _too_many_conjuncts(span: Span) -> NormalFormTooLarge:
    return NormalFormTooLarge(f"the conjunctive normal form has more than {MAX_CONJUNCTS:,} conjuncts", span)


# -- equalities that are spelled out ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Equality:
    """A conjunct that equates an attribute of some events with the same attribute of others."""

    attribute: str
    sides: tuple[tuple[str, Element], tuple[str, Element]]

    @property
    def ends(self) -> tuple[str, str]:
        return self.sides[0][0], self.sides[1][0]

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(self.ends)

    @property
    def elements(self) -> frozenset[Element]:
        return frozenset(element for _, element in self.sides)

    @property
    def joins(self) -> bool:
        """True if it joins two variables, whatever the length of their lists: of one event there is no `v[i]`."""
        return len(self.variables) == 2 and self.elements.isdisjoint((Element.CURRENT, Element.PREVIOUS))

    def unifies(self, name: str) -> bool:
        """True if all events of the list `name` agree by it."""
        if len(self.variables) == 1:
            return name in self.variables and self.elements in _UNIFYING
        return self.joins and (name, Element.EACH) in self.sides


_UNIFYING = tuple(
    map(
        frozenset,
        (
            (Element.CURRENT, Element.PREVIOUS),
            (Element.CURRENT, Element.FIRST),
            (Element.PREVIOUS, Element.LAST),
            *((Element.EACH, other) for other in (Element.CURRENT, Element.PREVIOUS, Element.FIRST, Element.LAST)),
        ),
    )
)
"""Aggregates of a list that are equal where all of its events agree."""


def with_agreement(clauses: tuple[Clause, ...], *, by_runs: bool, in_partitions: bool = False) -> tuple[Clause, ...]:
    """The clauses with `[k]` in place of equalities that say the same, such as `a.k = b.k AND b.k = c.k`.

    Wherever `[k]` divides events by their keys, the equalities do so, too: in plans, statistics and all mechanisms.
    An attribute is taken if the equalities join all events of each clause, those of lists and negated ones included.
    Beside `[k]` or PARTITION BY an equality such as `a.k = b.k` says nothing more: it is left out, so that no estimate
    counts it twice.
    What an attribute of events says of their time stays as it is written: it bounds the time between them.

    Parameters
    ----------
    by_runs
        Whether events are taken one after another. Then the equalities of the first variables must join these.
    in_partitions
        Whether one more `[k]` would make other partitions. Then only equalities beside a `[k]` that is there go.
    """
    attributes = dict.fromkeys(
        one.attribute for clause in clauses for conjunct in clause.conjuncts if (one := _equality(conjunct)) is not None
    )
    if in_partitions:
        attributes = {one: None for one in attributes if all(one in clause.agree_on for clause in clauses)}
    for attribute in attributes:
        if all(_is_agreement(clause, attribute, by_runs=by_runs) for clause in clauses):
            clauses = tuple(_agreeing(clause, attribute) for clause in clauses)
    return clauses


def _equality(conjunct: Conjunct) -> _Equality | None:
    match conjunct.atoms:
        case (Comparison(Comparator.EQ, Reference() as left, Reference() as right),):
            same = left.attribute == right.attribute and left.type is right.type
            if same and left.attribute not in ("timestamp", "seq"):
                sides = (left.variable, left.element), (right.variable, right.element)
                return None if sides[0] == sides[1] else _Equality(left.attribute, sides)
    return None


def _equalities(conjuncts: Iterable[Conjunct], attribute: str) -> list[_Equality]:
    found = (_equality(conjunct) for conjunct in conjuncts)
    return [one for one in found if one is not None and one.attribute == attribute]


def _is_agreement(clause: Clause, attribute: str, *, by_runs: bool) -> bool:
    """Return whether the equalities of an attribute say of the events of a clause what `[attribute]` says of them."""
    said = _equalities(clause.conjuncts, attribute)
    positive, names = clause.positive, [variable.name for variable in clause.positive]
    if len(positive) == 1 and positive[0].kleene:
        # A list of one event without a value fulfils `[k]` and `v[i].k = v[i-1].k`, and not `v.k = v[1].k`.
        alone = [one for one in said if one.variables == {names[0]}]
        if any(one.elements.isdisjoint((Element.CURRENT, Element.PREVIOUS)) for one in alone):
            return False
    if attribute in clause.agree_on:
        return True
    if by_runs:
        if not all(pair in clause.precedence for pair in pairwise(names)):
            return False
        for count in range(1, len(names) + 1):
            # The last event of a list is known when the list is left.
            known = [one for one in said if (names[count - 1], Element.LAST) not in one.sides]
            if not _joined(positive[:count], known):
                return False
    elif not _joined(positive, said):
        return False
    if any(not any(one.joins and variable.name in one.variables for one in said) for variable in clause.negated):
        return False
    return all(
        _joined((*positive, *negated.positive), [*said, *_equalities(negated.conjuncts, attribute)])
        for structure in clause.negated_structures
        for negated in structure.clauses
    )


def _joined(variables: Sequence[Variable], said: Iterable[_Equality]) -> bool:
    """Return whether equalities join all events of some variables."""
    names = {variable.name for variable in variables}
    among = [one for one in said if one.variables <= names]
    if any(variable.kleene and not any(one.unifies(variable.name) for one in among) for variable in variables):
        return False
    return len(connected_parts(names, (one.ends for one in among if one.joins))) == 1


def equal_variables(clause: Clause) -> dict[str, list[tuple[str, str]]]:
    """The pairs of single positive variables whose events conjuncts ask to have one attribute equal, by attribute."""
    single = {variable.name for variable in clause.positive if not variable.kleene}
    found: dict[str, list[tuple[str, str]]] = {}
    for one in map(_equality, clause.conjuncts):
        if one is not None and one.joins and one.variables <= single:
            found.setdefault(one.attribute, []).append(one.ends)
    return found


Member = TypeVar("Member", int, str)


def connected_parts(members: Iterable[Member], edges: Iterable[tuple[Member, Member]]) -> list[tuple[Member, ...]]:
    """The parts of a graph that are connected, each in ascending order, those with the smallest members first.

    Examples
    --------
    >>> connected_parts("abcde", [("d", "a"), ("e", "d")])
    [('a', 'd', 'e'), ('b',), ('c',)]
    """
    above = {member: member for member in members}

    def top(member: Member) -> Member:
        while above[member] != member:
            above[member] = above[above[member]]
            member = above[member]
        return member

    for one, other in edges:
        above[top(one)] = top(other)
    found: dict[Member, list[Member]] = {}
    for member in above:
        found.setdefault(top(member), []).append(member)
    return sorted(tuple(sorted(part)) for part in found.values())


def _agreeing(clause: Clause, attribute: str) -> Clause:
    structures = (
        replace(structure, clauses=tuple(_agreeing(negated, attribute) for negated in structure.clauses))
        for structure in clause.negated_structures
    )
    agreed = attribute in clause.agree_on
    return replace(
        clause,
        conjuncts=tuple(
            conjunct
            for conjunct in clause.conjuncts
            if (one := _equality(conjunct)) is None or one.attribute != attribute
        ),
        equivalences=clause.equivalences if agreed else (*clause.equivalences, attribute),
        negated_structures=tuple(structures),
    )
