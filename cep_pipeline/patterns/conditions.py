"""Conditions of a WHERE clause: comparisons, their boolean combinations, and conjuncts in normal form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

from cep_pipeline.patterns.expressions import NOWHERE, Expression, Span, variables_of

Value = int | float | bool | str


class Comparator(Enum):
    """A comparison's operator; `==` and `<>` are spelled `=` and `!=`."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    @property
    def negation(self) -> Comparator:
        """The operator that holds where this one does not (both are unknown on null and NaN)."""
        return _NEGATION[self]

    @property
    def mirror(self) -> Comparator:
        """The operator `o` with `a self b` = `b o a`."""
        return _MIRROR[self]


_NEGATION = {
    Comparator.EQ: Comparator.NE,
    Comparator.NE: Comparator.EQ,
    Comparator.LT: Comparator.GE,
    Comparator.GE: Comparator.LT,
    Comparator.GT: Comparator.LE,
    Comparator.LE: Comparator.GT,
}
_MIRROR = {
    Comparator.EQ: Comparator.EQ,
    Comparator.NE: Comparator.NE,
    Comparator.LT: Comparator.GT,
    Comparator.GT: Comparator.LT,
    Comparator.LE: Comparator.GE,
    Comparator.GE: Comparator.LE,
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left comparator right`."""

    comparator: Comparator
    left: Expression
    right: Expression
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Membership:
    """`expression [NOT] IN (values)`, or `IN $parameter` with the values that the caller bound.

    Where a `$name` stands in the list of values, `names` has a member for each value: that name, or None.
    """

    expression: Expression
    values: tuple[Value, ...]
    parameter: str | None = None
    negated: bool = False
    names: tuple[str | None, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Between:
    """`expression [NOT] BETWEEN low AND high`, both ends included."""

    expression: Expression
    low: Expression
    high: Expression
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class NullTest:
    """`expression IS [NOT] NULL`: true or false, never unknown; NaN is not null."""

    expression: Expression
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Like:
    r"""`expression [NOT] LIKE 'text'`: `%` is any text, `_` one character; `\%`, `\_` and `\\` are these characters."""

    expression: Expression
    text: str
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Truth:
    """`TRUE` as a condition, or `NOT TRUE`."""

    holds: bool = True
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    """A negated condition."""

    operand: Condition
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class AllOf:
    """Conjunction as written: `a AND b AND c`."""

    operands: tuple[Condition, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Disjunction as written: `a OR b OR c`."""

    operands: tuple[Condition, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Equivalence:
    """`[attr, ...]`: all positive events, and the negated ones that count, agree on each attribute."""

    attributes: tuple[str, ...]
    span: Span = field(default=NOWHERE, compare=False)


Atom = Comparison | Membership | Between | NullTest | Like | Truth
Condition = Atom | Not | AllOf | AnyOf | Equivalence


def parts_of(condition: Condition | None) -> Iterator[Atom | Equivalence]:
    """The comparisons and other tests of a condition, in the order they are written."""
    match condition:
        case AllOf(operands) | AnyOf(operands):
            for operand in operands:
                yield from parts_of(operand)
        case Not(operand):
            yield from parts_of(operand)
        case Comparison() | Membership() | Between() | NullTest() | Like() | Truth() | Equivalence():
            yield condition


def expressions_of(atom: Atom) -> tuple[Expression, ...]:
    """The expressions that an atom compares."""
    match atom:
        case Comparison(_, left, right):
            return (left, right)
        case Membership(expression):
            return (expression,)
        case Between(expression, low, high):
            return (expression, low, high)
        case NullTest(expression) | Like(expression):
            return (expression,)
        case Truth():
            return ()


def negate(atom: Atom) -> Atom:
    """The atom that is true exactly where `atom` is false (unknown stays unknown)."""
    match atom:
        case Comparison(comparator, left, right, span):
            return Comparison(comparator.negation, left, right, span)
        case Truth(holds, span):
            return Truth(not holds, span)
        case _:
            return replace(atom, negated=not atom.negated)


@dataclass(frozen=True)
class Conjunct:
    """One member of the conjunctive normal form: it holds if any of its atoms is true.

    Three-valued logic needs no more than that: a conjunct counts only where it is true, and a disjunction is
    true exactly where one of its atoms is.
    """

    atoms: tuple[Atom, ...]
    span: Span = field(default=NOWHERE, compare=False)

    @cached_property
    def variables(self) -> frozenset[str]:
        """Names of all variables that the conjunct mentions."""
        return frozenset(
            name for atom in self.atoms for expression in expressions_of(atom) for name in variables_of(expression)
        )
