"""References to lists as plain references: what chooses an element, or sums up a list, becomes a row of a column.

Where those rows and columns come from says a scope: complete lists, or what merged runs remember of them.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from cep_pipeline.patterns.expressions import (
    Aggregate,
    Element,
    Expression,
    Length,
    Reference,
)
from cep_pipeline.patterns.rewriting import Node, rewritten


class ListScope(Protocol):
    """What references mean: a scope learns each name that a resolved expression will use."""

    def row(self, name: str, variable: str, element: Element) -> None:
        """Let `name` mean an event."""
        ...

    def summary(self, name: str, node: Length | Aggregate) -> None:
        """Let `name` mean a column made from lists, and its rows."""
        ...


def resolved(node: Node, scope: ListScope) -> Node:
    """The expression or condition with plain references only."""
    return rewritten(node, partial(_resolved, scope=scope))


def _resolved(expression: Expression, scope: ListScope) -> Expression:
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
        case _:
            return expression


def _reference(
    node: Reference | Aggregate, variable: str, attribute: str, element: Element, scope: ListScope
) -> Reference:
    name = f"{variable}[{element.value}]"
    scope.row(name, variable, element)
    return Reference(name, attribute, Element.ONLY, node.type)
