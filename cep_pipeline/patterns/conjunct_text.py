"""Conjuncts as text that is the same for all ways to write one: what tells equal conjuncts of different patterns.

They are compared as they are written but for what never changes their truth: names of variables, which become numbers
of slots; the order of the comparisons; the direction of one; the order of the two sides of `+` and `*`; the name of a
parameter (its values count); the order of the values after IN. A number that something is compared with is the same as
int and as float, as comparison is exact; a number in arithmetic is not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b

from cep_pipeline.patterns.conditions import (
    Atom,
    Between,
    Comparison,
    Conjunct,
    Like,
    Membership,
    NullTest,
    Truth,
    Value,
)
from cep_pipeline.patterns.expressions import (
    Aggregate,
    Arithmetic,
    Call,
    Expression,
    Length,
    Literal,
    Negative,
    Reference,
)

MOST_VALUES = 32
"""So many values after IN are written out; a digest stands for more."""


def conjunct_text(conjunct: Conjunct, slots: Mapping[str, int]) -> str:
    """A conjunct with the numbers of slots for its variables, the same for all ways to write it that are one.

    Examples
    --------
    >>> from cep_pipeline.patterns.conditions import Comparator
    >>> from cep_pipeline.patterns.expressions import Element, ValueType
    >>> x, y = (Reference(name, "price", Element.ONLY, ValueType.INT64) for name in "xy")
    >>> one = conjunct_text(Conjunct((Comparison(Comparator.LT, x, y),)), {"x": 0, "y": 1})
    >>> one, one == conjunct_text(Conjunct((Comparison(Comparator.GT, y, x),)), {"x": 0, "y": 1})
    ("(0 only 'price' int64) < (1 only 'price' int64)", True)
    """
    return " or ".join(sorted({_atom(atom, slots) for atom in conjunct.atoms}))


def _atom(atom: Atom, slots: Mapping[str, int]) -> str:
    match atom:
        case Comparison(comparator, left, right):
            one, other = _compared(left, slots), _compared(right, slots)
            if one == other:
                return f"{one} {min(comparator.value, comparator.mirror.value)} {other}"
            return f"{one} {comparator.value} {other}" if one < other else f"{other} {comparator.mirror.value} {one}"
        case Membership(expression, values, _, negated):
            members = _values(values, any(isinstance(value, bool) for value in values[:1]))
            return f"{_compared(expression, slots)} {'not in' if negated else 'in'} ({members})"
        case Between(expression, low, high, negated):
            sides = f"{_compared(low, slots)} and {_compared(high, slots)}"
            return f"{_compared(expression, slots)} {'not between' if negated else 'between'} {sides}"
        case NullTest(expression, negated):
            return f"{_compared(expression, slots)} is {'not null' if negated else 'null'}"
        case Like(expression, text, negated):
            return f"{_compared(expression, slots)} {'not like' if negated else 'like'} {text!r}"
        case Truth(holds):
            return repr(holds)


def _compared(expression: Expression, slots: Mapping[str, int]) -> str:
    """An expression that is compared: of a constant only the value counts, as comparison is exact."""
    return _value(expression.value) if isinstance(expression, Literal) else _expression(expression, slots)


@lru_cache(maxsize=256)
def _values(values: tuple[Value, ...], of_bools: bool) -> str:
    """A set of constants; of many, which a parameter may have, a digest.

    With `of_bools` True and 1 are told apart, which are one to a table.
    """
    texts = {_value(value) for value in values}
    text = ", ".join(sorted(texts))
    return text if len(texts) <= MOST_VALUES else blake2b(text.encode(), digest_size=16).hexdigest()


def _value(value: Value) -> str:
    if isinstance(value, bool | str):
        return repr(value)
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        value = int(value)
    return f"number {value!r}"


def _expression(expression: Expression, slots: Mapping[str, int]) -> str:
    match expression:
        case Literal(value, kind):
            return f"({value!r} {kind.value})"
        case Reference(variable, attribute, element, kind):
            return f"({slots[variable]} {element.value} {attribute!r} {kind.value})"
        case Length(variable):
            return f"({slots[variable]} length)"
        case Aggregate(function, variable, attribute, prefix, kind):
            over = "before" if prefix else "all"
            return f"({function} {slots[variable]} {over} {attribute!r} {kind.value})"
        case Negative(operand):
            return f"(- {_expression(operand, slots)})"
        case Arithmetic(operator, left, right):
            sides = [_expression(left, slots), _expression(right, slots)]
            if operator in ("+", "*"):
                sides.sort()
            return f"({operator} {sides[0]} {sides[1]})"
        case Call(function, arguments, _, zone):
            at = "" if zone is None else f" {zone}"
            return f"({function}{at} {' '.join(_expression(argument, slots) for argument in arguments)})"
