"""Conjuncts as tests of the kernel's loops: which can be compiled exactly, and the columns that they read.

A comparison of an expression over one event with one over another becomes a test of two columns. Arithmetic over
several events is compiled where float64 computes it exactly as the language does. What cannot be compiled stays a
residual conjunct, which `evaluate.py` decides on the partial matches.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from cep_pipeline.detection.fused.shape import Alternative, Constant, Operation, Slot, Term, Test, TestedConjunct
from cep_pipeline.expressions.columns import Array, Column
from cep_pipeline.expressions.comparison import EXACT_IN_FLOAT
from cep_pipeline.expressions.evaluate import atom_holds, expression_values
from cep_pipeline.patterns.conditions import Atom, Between, Comparator, Comparison, Conjunct, Membership, expressions_of
from cep_pipeline.patterns.expressions import (
    Arithmetic,
    Call,
    Element,
    Expression,
    Negative,
    Reference,
    ValueType,
    variables_of,
)
from cep_pipeline.slices.keys import as_floats, comparable, is_exact, largest
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.routines import gather, padded
from cep_pipeline.slices.views import ANY_EVENT, ClauseCache, View, without_name


@dataclass(frozen=True)
class RemadeColumn:
    """A column that can be made again over another slice.

    Attributes
    ----------
    level
        The level whose view it is of.
    key
        What it is, whatever the view.
    values
        Makes it of the events and a view: float64, padded; None where float64 does not hold the values there.
    """

    level: int
    key: Hashable
    values: Callable[[PreparedEvents, View], Array | None]


@dataclass
class TestColumns:
    """The float64 columns and constants that the tests of one plan read, by the numbers that the shape gives them.

    Attributes
    ----------
    again
        For each column how it is made over another slice; None where its values, or whether there is a column at all,
        depend on more than the events of its view.
    """

    arrays: list[Array] = field(default_factory=list)
    constants: list[float] = field(default_factory=list)
    again: list[RemadeColumn | None] = field(default_factory=list)
    _slots: dict[Hashable, Slot] = field(default_factory=dict)

    def slot(self, level: int, key: Hashable, values: Array, again: RemadeColumn | None = None) -> Slot:
        """The slot of a column of this level's view; equal keys of one level share it."""
        place = (level, key)
        if place not in self._slots:
            self._slots[place] = Slot(level, len(self.arrays))
            self.arrays.append(values)
            self.again.append(again)
        return self._slots[place]

    def constant(self, value: float) -> Constant:
        self.constants.append(value)
        return Constant(len(self.constants) - 1)


@dataclass(frozen=True)
class LevelScope:
    """The views that names stand for: the plan levels of one clause.

    Attributes
    ----------
    levels
        The level that binds each variable; one level may bind several.
    views
        The events of each variable, in the order of `levels`; those of one level's variables lie beside each other.
    cache
        That of the clause that the compiled conjuncts are of; None where they are of none.
    """

    events: PreparedEvents
    levels: Mapping[str, int]
    views: tuple[View, ...]
    columns: TestColumns
    cache: ClauseCache | None = None

    def own(self, expression: Expression, variable: str) -> Expression:
        """An expression over one variable as one over `ANY_EVENT`."""
        if self.cache is None:
            return without_name(expression, variable)
        return self.cache.once(("own", id(expression), variable), lambda: without_name(expression, variable))

    def owners(self, expression: Expression) -> frozenset[str]:
        """The variables that an expression mentions."""
        if self.cache is None:
            return variables_of(expression)
        return self.cache.once(("owners", id(expression)), lambda: variables_of(expression))

    def view(self, variable: str) -> View:
        return self._views[variable]

    @cached_property
    def _views(self) -> dict[str, View]:
        return dict(zip(self.levels, self.views, strict=False))  # a level more than is named is not asked for

    def evaluated(self, own: Expression, variable: str) -> Column:
        """The value of an expression over `ANY_EVENT` alone, for each row of a variable's view."""
        return _evaluated(self.events, self.view(variable), own)


def _evaluated(events: PreparedEvents, view: View, own: Expression) -> Column:
    def make() -> Column:
        if isinstance(own, Reference) and own.type is ValueType.FLOAT64:
            column = events.column(own.attribute)
            if column.type is ValueType.FLOAT64 and column.valid is None:
                return Column(ValueType.FLOAT64, gather(column.values, view.rows))
        return expression_values(own, events, {ANY_EVENT: view.rows})

    return events.derive(("values", view.identity, _key_of(own)), make)


def _as_floats(events: PreparedEvents, view: View, own: Expression, column: Column) -> Array:
    return events.derive(("floats", view.identity, _key_of(own)), lambda: as_floats(column))


def _exact_values(events: PreparedEvents, view: View, *, own: Expression) -> Array | None:
    column = _evaluated(events, view, own)
    return _as_floats(events, view, own, column) if is_exact(column) else None


def _key_of(own: Expression) -> Hashable:
    """A key of an expression over one event; the name of an attribute is quick to hash."""
    return own.attribute if isinstance(own, Reference) and own.element is Element.ONLY else own


def compile_conjunct(conjunct: Conjunct, scope: LevelScope) -> TestedConjunct | None:
    """The tests of a conjunct over at least two variables; None where it must be evaluated on partial matches.

    An alternative that always holds makes the result an empty conjunct.
    """
    alternatives: list[Alternative] = []
    for atom in conjunct.atoms:
        compiled = _compile_atom(atom, scope)
        if compiled is None:
            return None
        alternatives.extend(compiled)
    return tuple(alternatives)


def _compile_atom(atom: Atom, scope: LevelScope) -> tuple[Alternative, ...] | None:
    variables = frozenset(name for expression in expressions_of(atom) for name in scope.owners(expression))
    if len(variables) <= 1:
        # One event decides it (or none: then any event will do).
        variable = next(iter(variables), next(iter(scope.levels)))
        return ((_truth(atom, variable, scope),),)
    match atom:
        case Membership():
            return None
        case Comparison(comparator, left, right):
            test = _compile_comparison(comparator, left, right, scope)
            return None if test is None else ((test,),)
        case Between(expression, low, high, negated):
            ends = (Comparator.LT, Comparator.GT) if negated else (Comparator.GE, Comparator.LE)
            below = _compile_comparison(ends[0], expression, low, scope)
            above = _compile_comparison(ends[1], expression, high, scope)
            if below is None or above is None:
                return None
            return ((below,), (above,)) if negated else ((below, above),)


def _truth(atom: Atom, variable: str, scope: LevelScope) -> Test:
    """A test of a column that is 1 where the atom is true, and NaN elsewhere."""
    view = scope.view(variable)
    own = without_name(atom, variable)

    def make() -> Array:
        values = padded(len(view), np.float64)
        values[:] = np.where(atom_holds(own, scope.events, {ANY_EVENT: view.rows}), 1.0, np.nan)
        return values

    values = scope.events.derive(("truth", view.identity, own), make)
    slot = scope.columns.slot(scope.levels[variable], ("truth", view.identity, own), values)
    return Test(Comparator.EQ, slot, slot)


def _compile_comparison(comparator: Comparator, left: Expression, right: Expression, scope: LevelScope) -> Test | None:
    sides = (left, right)
    owners = [scope.owners(side) for side in sides]
    if all(len(owner) == 1 for owner in owners) and owners[0] != owners[1]:
        (one,), (other,) = owners
        return Test(comparator, *_compare_columns(sides, (one, other), scope))
    if not all(side.type.is_number for side in sides):
        return _compare_with_one(comparator, left, right, scope)
    terms = [_compile_number(side, scope) for side in sides]
    if terms[0] is None or terms[1] is None:
        return None
    return Test(comparator, terms[0].term, terms[1].term)


def _compare_with_one(comparator: Comparator, left: Expression, right: Expression, scope: LevelScope) -> Test | None:
    """A part of a BETWEEN of strings over several events that mentions one event only."""
    variables = variables_of(left) | variables_of(right)
    if len(variables) > 1:
        return None
    return _truth(Comparison(comparator, left, right), next(iter(variables), next(iter(scope.levels))), scope)


def _compare_columns(
    sides: tuple[Expression, Expression], owners: tuple[str, str], scope: LevelScope
) -> tuple[Slot, Slot]:
    own = [scope.own(side, owner) for side, owner in zip(sides, owners, strict=True)]
    columns = [scope.evaluated(side, owner) for side, owner in zip(own, owners, strict=True)]
    views = [scope.view(owner) for owner in owners]
    if all(map(is_exact, columns)):
        return (
            _exact_slot(own[0], owners[0], columns[0], scope),
            _exact_slot(own[1], owners[1], columns[1], scope),
        )
    joint = ("joint", _key_of(own[0]), views[0].identity, _key_of(own[1]), views[1].identity)
    values = scope.events.derive(joint, lambda: comparable(columns))
    return (
        scope.columns.slot(scope.levels[owners[0]], (joint, 0), values[0]),
        scope.columns.slot(scope.levels[owners[1]], (joint, 1), values[1]),
    )


def _exact_slot(own: Expression, variable: str, column: Column, scope: LevelScope) -> Slot:
    view, level = scope.view(variable), scope.levels[variable]
    what = _key_of(own)
    again = RemadeColumn(level, ("floats", what), partial(_exact_values, own=own))
    values = _as_floats(scope.events, view, own, column)
    return scope.columns.slot(level, ("floats", view.identity, what), values, again)


@dataclass(frozen=True)
class _Number:
    """A term and what is known of its values: for int64 the largest magnitude, which float64 holds exactly."""

    term: Term
    integer: bool
    magnitude: int = 0


def _compile_number(expression: Expression, scope: LevelScope) -> _Number | None:
    """A numeric expression as arithmetic on columns; None where float64 would not compute just what the language says.

    int64 results are exact in float64 while no intermediate one exceeds 2^53, and then overflow is out of reach, too.
    """
    variables = scope.owners(expression)
    if len(variables) == 1:
        (variable,) = variables
        own = scope.own(expression, variable)
        column = scope.evaluated(own, variable)
        if not is_exact(column):
            return None
        slot = _exact_slot(own, variable, column, scope)
        return _Number(slot, column.type is ValueType.INT64, largest(column) if column.type is ValueType.INT64 else 0)
    if not variables:
        column = expression_values(expression, scope.events, {ANY_EVENT: np.zeros(1, np.int32)})
        if not is_exact(column):
            return None
        known = column.valid is None or bool(column.valid[0])
        value = float(column.values[0]) if known else float("nan")
        integer = column.type is ValueType.INT64
        return _Number(scope.columns.constant(value), integer, largest(column) if integer else 0)
    match expression:
        case Negative(operand):
            inner = _compile_number(operand, scope)
            return inner and _Number(Operation("negative", (inner.term,)), inner.integer, inner.magnitude)
        case Call("abs" | "sqrt" as function, (operand,)):
            inner = _compile_number(operand, scope)
            integer = inner is not None and inner.integer and function == "abs"
            return inner and _Number(Operation(function, (inner.term,)), integer, inner.magnitude if integer else 0)
        case Arithmetic("+" | "-" | "*" | "/" as operator, left, right):
            one, other = _compile_number(left, scope), _compile_number(right, scope)
            if one is None or other is None:
                return None
            term = Operation(operator, (one.term, other.term))
            if operator == "/" or not (one.integer and other.integer):
                return _Number(term, integer=False)
            magnitude = one.magnitude * other.magnitude if operator == "*" else one.magnitude + other.magnitude
            return _Number(term, True, magnitude) if magnitude <= EXACT_IN_FLOAT else None
        case _:
            return None
