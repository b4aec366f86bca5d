"""Expressions over the events of a match: references, literals, arithmetic, functions, aggregates.

All nodes are immutable. A node's `span` tells where it stands in the source text and takes no part in
equality, so that a pattern equals the pattern parsed from its own formatted text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum


@dataclass(frozen=True, slots=True)
class Span:
    """Character offsets `[start, end)` in the source text."""

    start: int
    end: int


NOWHERE = Span(0, 0)


class ValueType(Enum):
    """Type of an attribute or of an expression's value."""

    INT64 = "int64"
    FLOAT64 = "float64"
    BOOL = "bool"
    STRING = "string"
    FLOAT64_LIST = "list<float64>"

    @property
    def is_number(self) -> bool:
        return self in (ValueType.INT64, ValueType.FLOAT64)


class Element(Enum):
    """The event of a variable that a reference means (docs/language.md, section 2)."""

    ONLY = "only"
    """`v.attr` of a variable that binds one event."""
    EACH = "each"
    """`v.attr` or `v[].attr` of a Kleene variable: the bound element, any of the list."""
    FIRST = "first"
    """`v[1].attr`"""
    CURRENT = "current"
    """`v[i].attr`"""
    PREVIOUS = "previous"
    """`v[i-1].attr`"""
    LAST = "last"
    """`v[v.LEN].attr`"""


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: int, float, bool or str.

    `parameter` names the `$name` that it was bound to, if it was. `is_duration` is true of microseconds that are
    written as a number and a unit of time.
    """

    value: int | float | bool | str
    type: ValueType
    parameter: str | None = None
    span: Span = field(default=NOWHERE, compare=False)
    is_duration: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Reference:
    """An attribute of an event that a variable binds."""

    variable: str
    attribute: str
    element: Element
    type: ValueType
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Length:
    """`v.LEN`: the number of events that a Kleene variable binds."""

    variable: str
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def type(self) -> ValueType:
        return ValueType.INT64


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`f(v[].attr)`, or with `prefix` `f(v[..i-1].attr)`: over all of v, or over those before v[i]."""

    function: str
    variable: str
    attribute: str
    prefix: bool
    type: ValueType
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Negative:
    """Unary minus."""

    operand: Expression
    type: ValueType
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left operator right` with operator one of `+ - * / %`."""

    operator: str
    left: Expression
    right: Expression
    type: ValueType
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function of values, such as `abs(x)`, `corr(x, y)` or `coalesce(x, y, z)`.

    `zone` is the time zone of functions that read a local clock, `time_of_day` and `day_of_week`; others have none.
    """

    function: str
    arguments: tuple[Expression, ...]
    type: ValueType
    zone: str | None = None
    span: Span = field(default=NOWHERE, compare=False)


Expression = Literal | Reference | Length | Aggregate | Negative | Arithmetic | Call


def operands(expression: Expression) -> tuple[Expression, ...]:
    """The direct sub-expressions, in written order."""
    match expression:
        case Negative(operand):
            return (operand,)
        case Arithmetic(_, left, right):
            return (left, right)
        case Call(_, arguments):
            return arguments
        case _:
            return ()


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and all its sub-expressions, parents first."""
    yield expression
    for operand in operands(expression):
        yield from walk(operand)


def variables_of(expression: Expression) -> frozenset[str]:
    """Names of all variables that the expression mentions."""
    return frozenset(node.variable for node in walk(expression) if isinstance(node, Reference | Length | Aggregate))
