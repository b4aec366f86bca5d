"""References to lists as plain references: what chooses an element, or sums up a list, becomes a row of a column.

Where those rows and columns come from says a scope: complete lists, or what merged runs remember of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from cep_pipeline.patterns.conditions import Atom, Between, Comparison, Membership
from cep_pipeline.patterns.expressions import (
    Aggregate,
    Arithmetic,
    Call,
    Element,
    Expression,
    Length,
    Negative,
    Reference,
)


class ListScope(Protocol):
    """What references mean: a scope learns each name that a resolved expression will use."""

    def row(self, name: str, variable: str, element: Element) -> None:
        """Let `name` mean an event."""
        ...

    def summary(self, name: str, node: Length | Aggregate) -> None:
        """Let `name` mean a column made from lists, and its rows."""
        ...


def resolved_atom(atom: Atom, scope: ListScope) -> Atom:
    """The comparison with plain references only."""
    match atom:
        case Comparison(_, left, right):
            return replace(atom, left=resolved(left, scope), right=resolved(right, scope))
        case Membership(expression):
            return replace(atom, expression=resolved(expression, scope))
        case Between(expression, low, high):
            return replace(
                atom,
                expression=resolved(expression, scope),
                low=resolved(low, scope),
                high=resolved(high, scope),
            )


def resolved(expression: Expression, scope: ListScope) -> Any:
    """The expression with plain references only."""
    match expression:
        case Reference(variable, attribute, element):
            return _reference(expression, variable, attribute, element, scope)
        case Aggregate("first" | "last", variable, attribute, False):
            element = Element.FIRST if expression.function == "first" else Element.LAST
            return _reference(expression, variable, attribute, element, scope)
        case Aggregate(function, variable, attribute, prefix):
            name = f"{function}({variable}[{'..i-1' if prefix else ''}].{attribute})"
            scope.summary(name, expression)
            return Reference(name, name, Element.ONLY, expression.type)
        case Length(variable):
            name = f"{variable}[].LEN"
            scope.summary(name, expression)
            return Reference(name, name, Element.ONLY, expression.type)
        case Negative(operand):
            return replace(expression, operand=resolved(operand, scope))
        case Arithmetic(_, left, right):
            return replace(expression, left=resolved(left, scope), right=resolved(right, scope))
        case Call(_, arguments):
            return replace(expression, arguments=tuple(resolved(argument, scope) for argument in arguments))
        case _:
            return expression


def _reference(
    node: Reference | Aggregate, variable: str, attribute: str, element: Element, scope: ListScope
) -> Reference:
    name = f"{variable}[{element.value}]"
    scope.row(name, variable, element)
    return Reference(name, attribute, Element.ONLY, node.type)
