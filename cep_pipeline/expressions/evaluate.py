"""Vectorized evaluation of expressions and conjuncts over bindings of variables to rows of an events table.

A binding is a mapping from variable to an array of row numbers; element i of all arrays together is one (partial)
match. What a value means (three-valued logic, int64 overflow, division by zero) is said in docs/language.md, section
3.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from cep_pipeline.expressions.arithmetic import FUNCTIONS, INT64_MAX, INT64_MIN, arithmetic, correlation, negative
from cep_pipeline.expressions.columns import Array, Column, ColumnSource
from cep_pipeline.expressions.comparison import CHOICES, between, compare, is_null, like, member
from cep_pipeline.expressions.local_time import clock_reading
from cep_pipeline.patterns.conditions import (
    Atom,
    Between,
    Comparison,
    Conjunct,
    Like,
    Membership,
    NullTest,
    Truth,
)
from cep_pipeline.patterns.expressions import (
    Aggregate,
    Arithmetic,
    Call,
    Element,
    Expression,
    Length,
    Literal,
    Negative,
    Reference,
    ValueType,
)

Rows = Mapping[str, Array | range]
"""Variable -> rows in the events table, integers of shape (n,) or a range, the same n for all variables."""

_DTYPE = {ValueType.INT64: np.int64, ValueType.FLOAT64: np.float64, ValueType.BOOL: np.bool_}


def conjunct_holds(conjunct: Conjunct, source: ColumnSource, rows: Rows) -> Array:
    """Return whether the conjunct is true, for each binding.

    Parameters
    ----------
    conjunct
        A conjunct over variables that bind one event each.
    source
        The columns of the events.
    rows
        Rows of at least the conjunct's variables, and of at least one variable.

    Returns
    -------
    Array
        bool, shape (n,). Unknown is False.
    """
    count = bindings_of(rows)
    truth = np.zeros(count, dtype=bool)
    for atom in conjunct.atoms:
        truth |= atom_holds(atom, source, rows)
    return truth


def atom_holds(atom: Atom, source: ColumnSource, rows: Rows) -> Array:
    """Return for each binding whether a comparison is true; one bool of shape (1,) where it has no variable."""
    match atom:
        case Comparison(comparator, left, right):
            return compare(comparator, _evaluate(left, source, rows), _evaluate(right, source, rows))
        case Membership(expression, values, _, negated):
            return member(_evaluate(expression, source, rows), values, negated=negated)
        case Between(expression, low, high, negated):
            operand = _evaluate(expression, source, rows)
            return between(operand, _evaluate(low, source, rows), _evaluate(high, source, rows), negated=negated)
        case NullTest(expression, negated):
            if isinstance(expression, Reference) and expression.type is ValueType.FLOAT64_LIST:
                return _list_is_null(expression, source, rows, negated=negated)
            return is_null(_evaluate(expression, source, rows), negated=negated)
        case Like(expression, text, negated):
            return like(_evaluate(expression, source, rows), text, negated=negated)
        case Truth(holds):
            return np.array([holds])


def constants_hold(conjuncts: Iterable[Conjunct], source: ColumnSource) -> bool:
    """Return whether those of the conjuncts that mention no variable hold."""
    return all(
        any(bool(atom_holds(atom, source, {}).all()) for atom in conjunct.atoms)
        for conjunct in conjuncts
        if not conjunct.variables
    )


def expression_values(expression: Expression, source: ColumnSource, rows: Rows) -> Column:
    """The expression's value for each binding.

    Returns
    -------
    Column
        Of the expression's type and length n, a constant repeated n times.
    """
    count = bindings_of(rows)
    result = _evaluate(expression, source, rows)
    if len(result) == count and (result.valid is None or len(result.valid) == count):
        return result  # a constant that is null leaves a mask of one
    valid = None if result.valid is None else np.broadcast_to(result.valid, count)
    return Column(result.type, np.broadcast_to(result.values, count), valid, result.dictionary)


def bindings_of(rows: Rows) -> int:
    """Number of bindings."""
    return len(next(iter(rows.values())))


def _evaluate(expression: Expression, source: ColumnSource, rows: Rows) -> Column:
    """The value for each binding; of length 1 where the expression has no variable (so constants fold)."""
    match expression:
        case Literal(value, kind):
            return _constant(value, kind)
        case Reference(variable, attribute):
            _refuse_kleene(expression)
            return source.column(attribute).take(rows[variable])
        case Negative(operand):
            return negative(_evaluate(operand, source, rows))
        case Arithmetic(operator, left, right):
            return arithmetic(operator, _evaluate(left, source, rows), _evaluate(right, source, rows))
        case Call("corr", (Reference() as x, Reference() as y)):
            _refuse_kleene(x)
            _refuse_kleene(y)
            return correlation(
                source.column(x.attribute),
                _as_array(rows[x.variable]),
                source.column(y.attribute),
                _as_array(rows[y.variable]),
            )
        case Call("time_of_day" | "day_of_week" as function, (argument,), _, str() as zone):
            return clock_reading(function, _evaluate(argument, source, rows), zone)
        case Call("least" | "greatest" | "coalesce" as function, arguments, kind):
            return CHOICES[function](kind, [_evaluate(argument, source, rows) for argument in arguments])
        case Call(function, (argument,)):
            return FUNCTIONS[function](_evaluate(argument, source, rows))
        case Length() | Aggregate():
            raise _of_a_list(expression.variable)
        case _:
            raise TypeError(f"{expression!r} is no expression of the language")


def _as_array(rows: Array | range) -> Array:
    return np.arange(rows.start, rows.stop) if isinstance(rows, range) else rows


def _list_is_null(reference: Reference, source: ColumnSource, rows: Rows, *, negated: bool) -> Array:
    """`v.attr IS [NOT] NULL` of a list attribute, whose elements are not asked for."""
    _refuse_kleene(reference)
    valid, chosen = source.column(reference.attribute).valid, _as_array(rows[reference.variable])
    if valid is None:
        return np.full(len(chosen), negated)
    return valid[chosen] if negated else ~valid[chosen]


def _refuse_kleene(reference: Reference) -> None:
    if reference.element is not Element.ONLY:
        raise _of_a_list(reference.variable)


def _of_a_list(variable: str) -> TypeError:
    return TypeError(f"a Kleene variable ('{variable}') is bound to a list, not to one event: see `expressions.lists`")


def _constant(value: int | float | bool | str, kind: ValueType) -> Column:
    if kind is ValueType.STRING:
        return Column(kind, np.zeros(1, np.int32), None, np.array([value], dtype=object))
    if kind is ValueType.INT64 and not INT64_MIN <= int(value) <= INT64_MAX:
        return Column(kind, np.zeros(1, np.int64), np.zeros(1, dtype=bool))
    return Column(kind, np.array([value], _DTYPE[kind]))
