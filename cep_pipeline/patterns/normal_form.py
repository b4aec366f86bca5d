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
    Condition,
    Conjunct,
    Equivalence,
    Not,
    negate,
)
from cep_pipeline.patterns.expressions import Span
from cep_pipeline.patterns.structure import EventOperand, Operator, Structure, event_operands

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

    `position` is its place among all event operands of the pattern as written, from 0.
    """

    name: str
    event_type: str
    kleene: bool
    negated: bool
    position: int


@dataclass(frozen=True)
class Clause:
    """One conjunctive clause: a match binds all its positive variables.

    Attributes
    ----------
    index
        Place of the clause in the pattern's normal form, from 0.
    positive, negated
        Variables in pattern order.
    precedence
        All pairs `(a, b)` of names, negated ones too, where every event of a comes before every event of b;
        transitively closed by construction.
    conjuncts
        Conjuncts whose variables all belong to this clause.
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

    @cached_property
    def by_name(self) -> dict[str, Variable]:
        return {variable.name: variable for variable in (*self.positive, *self.negated)}

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
        operand.variable: Variable(operand.variable, operand.event_type, operand.kleene, operand.negated, position)
        for position, operand in enumerate(event_operands(structure))
    }
    conjuncts, equivalences = split_condition(condition)
    clauses = []
    for index, (names, precedence) in enumerate(_branches(structure)):
        members = sorted((variables[name] for name in names), key=lambda variable: variable.position)
        present = frozenset(names)
        clauses.append(
            Clause(
                index=index,
                positive=tuple(v for v in members if not v.negated),
                negated=tuple(v for v in members if v.negated),
                precedence=precedence,
                conjuncts=tuple(c for c in conjuncts if c.variables <= present),
                equivalences=equivalences,
                partition_by=partition_by,
            )
        )
    return tuple(clauses)


def count_clauses(structure: Structure) -> int:
    """Size of the disjunctive normal form, without building it."""
    if isinstance(structure, EventOperand):
        return 1
    counts = [count_clauses(operand) for operand in structure.operands]
    if structure.operator is Operator.OR:
        return sum(counts)
    size = 1
    for count in counts:
        size *= count
    return size


def _branches(structure: Structure) -> Iterator[tuple[tuple[str, ...], frozenset[tuple[str, str]]]]:
    """Each clause as its variable names and its precedence pairs."""
    if isinstance(structure, EventOperand):
        yield (structure.variable,), frozenset()
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


def split_condition(condition: Condition | None) -> tuple[tuple[Conjunct, ...], tuple[str, ...]]:
    """The conjuncts of the conjunctive normal form, and the attributes of all equivalence tests.

    NOT is pushed to the comparisons and OR is distributed over AND; nothing else is rewritten. Equal conjuncts
    are kept once.
    """
    conjuncts: dict[Conjunct, None] = {}
    attributes: dict[str, None] = {}
    for part in _top_level(condition):
        if isinstance(part, Equivalence):
            attributes.update(dict.fromkeys(part.attributes))
            continue
        for atoms in _conjunctive(part, negated=False):
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
