"""Parts of patterns made anew: expressions and conditions with other references, structures with fewer variables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from operator import is_
from typing import Any, TypeVar

from cep_pipeline.patterns.conditions import Atom, Between, Comparison, Conjunct, Like, Membership, NullTest, Truth
from cep_pipeline.patterns.expressions import Arithmetic, Call, Element, Expression, Literal, Negative, Reference
from cep_pipeline.patterns.structure import Composite, EventOperand, Negation, Structure

Node = TypeVar("Node", bound=Expression | Atom | Conjunct)


def rewritten(node: Node, leaf: Callable[[Expression], Expression]) -> Node:
    """The node with `leaf(e)` for each expression e in it without operands: references, lengths, aggregates, literals.

    A conjunct or comparison of which nothing changes stays the same object.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from cep_pipeline.patterns.expressions import Element, Reference, ValueType
    >>> node = Negative(Reference("a", "x", Element.ONLY, ValueType.INT64), ValueType.INT64)
    >>> rewritten(node, lambda e: replace(e, variable="b")).operand.variable
    'b'
    """
    result: Node = _rewritten(node, leaf)
    return result


def _rewritten(node: Expression | Atom | Conjunct, leaf: Callable[[Expression], Expression]) -> Any:
    if isinstance(node, Reference | Literal):  # most nodes
        return leaf(node)
    match node:
        case Conjunct(atoms):
            parts = tuple(_rewritten(atom, leaf) for atom in atoms)
            return node if all(map(is_, parts, atoms)) else Conjunct(parts)
        case Comparison(comparator, left, right):
            sides = _rewritten(left, leaf), _rewritten(right, leaf)
            return node if sides[0] is left and sides[1] is right else Comparison(comparator, *sides, node.span)
        case Arithmetic(_, left, right):
            return replace(node, left=_rewritten(left, leaf), right=_rewritten(right, leaf))
        case Membership(expression):
            return replace(node, expression=_rewritten(expression, leaf))
        case Between(expression, low, high):
            return replace(
                node,
                expression=_rewritten(expression, leaf),
                low=_rewritten(low, leaf),
                high=_rewritten(high, leaf),
            )
        case NullTest(expression) | Like(expression):
            return replace(node, expression=_rewritten(expression, leaf))
        case Negative(operand):
            return replace(node, operand=_rewritten(operand, leaf))
        case Call(_, arguments):
            return replace(node, arguments=tuple(_rewritten(argument, leaf) for argument in arguments))
        case Truth():
            return node
        case _:
            return leaf(node)


def with_operands(structure: Structure, changed: Callable[[EventOperand], EventOperand]) -> Structure:
    """The structure with `changed(o)` for each event operand o."""
    if isinstance(structure, EventOperand):
        return changed(structure)
    if isinstance(structure, Negation):
        return replace(structure, operand=with_operands(structure.operand, changed))
    return replace(structure, operands=tuple(with_operands(operand, changed) for operand in structure.operands))


def restricted(structure: Structure, names: Collection[str]) -> Structure | None:
    """The structure of some of its variables; None: of none.

    Examples
    --------
    >>> from cep_pipeline.patterns.structure import Operator, structure_text
    >>> a, b, c = (EventOperand("T", name) for name in "abc")
    >>> whole = Composite(Operator.SEQ, (a, Composite(Operator.OR, (b, c))))
    >>> structure_text(restricted(whole, "ac"))
    'SEQ(T a, T c)'
    """
    if isinstance(structure, EventOperand):
        return structure if structure.variable in names else None
    if isinstance(structure, Negation):
        inside = restricted(structure.operand, names)
        if inside is None:
            return None
        single = isinstance(inside, EventOperand) and not inside.kleene
        return inside if single else Negation(inside, structure.span)
    kept = tuple(one for operand in structure.operands if (one := restricted(operand, names)) is not None)
    if not kept:
        return None
    return kept[0] if len(kept) == 1 and len(structure.operands) > 1 else Composite(structure.operator, kept)


NUMBERS = "\0numbers"
"""The variable that stands for the numbers of conditions."""


def number_name(place: int) -> str:
    """The attribute of `NUMBERS` that is the number at a place."""
    return f"{NUMBERS} {place}"


def without_numbers(conjuncts: Iterable[Conjunct]) -> tuple[tuple[Conjunct, ...], tuple[Literal, ...]]:
    """Conditions with attributes of `NUMBERS` in place of their numbers, and the numbers: equal for equal forms."""
    numbers: list[Literal] = []

    def lift(leaf: Expression) -> Expression:
        if not isinstance(leaf, Literal) or not leaf.type.is_number:
            return leaf
        numbers.append(leaf)
        return Reference(NUMBERS, number_name(len(numbers) - 1), Element.ONLY, leaf.type)

    return tuple(rewritten(conjunct, lift) for conjunct in conjuncts), tuple(numbers)
