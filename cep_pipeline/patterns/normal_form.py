"""Normal form: a pattern as a disjunction of conjunctive clauses with a partial order (JQPG section 5.4).

The structure becomes a disjunction of clauses, each a set of variables with a partial order; the condition
becomes a conjunction of conjuncts, each of which constrains exactly the clauses that have all its variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

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
from cep_pipeline.patterns.expressions import Length, Literal, Span, ValueType
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
        """Its variables, in pattern order."""
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
    agree_on
        Attributes of equivalence tests and PARTITION BY, on which all events of a match agree.
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
