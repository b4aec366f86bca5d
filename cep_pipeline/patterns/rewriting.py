"""Parts of patterns made anew: expressions and conditions with other references, structures with fewer variables.

Conditions on the time between two events are read as bounds (`spans_in`) however they are written: with the constant on
either side, by BETWEEN or by `abs`. The events of a list come in the order of time. So a bound on
its last event bounds each of them, and is asked of each as the list grows (`asked_of_elements`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from cep_pipeline.patterns.conditions import (
    Atom,
    Between,
    Comparator,
    Comparison,
    Conjunct,
    Like,
    Membership,
    NullTest,
    expressions_of,
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
    walk,
)
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.structure import Composite, EventOperand, Negation, Structure

Node = TypeVar("Node", bound=Expression | Atom | Conjunct)
MOST_US = 1 << 60
"""Larger constants are left alone: arithmetic on timestamps could overflow."""


def rewritten(node: Node, leaf: Callable[[Expression], Expression]) -> Node:
    """The node with `leaf(e)` for each expression e in it without operands: references, lengths, aggregates, literals.

    A node of which nothing changes stays the same object.

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
    if isinstance(node, Conjunct):
        atoms = tuple(_rewritten(atom, leaf) for atom in node.atoms)
        return node if all(map(operator.is_, atoms, node.atoms)) else Conjunct(atoms)
    if isinstance(node, Call):
        return replace(node, arguments=tuple(_rewritten(argument, leaf) for argument in node.arguments))
    names = _WITHIN.get(type(node))
    if names is None:
        return leaf(node) if isinstance(node, Reference | Literal | Length | Aggregate) else node
    before = [getattr(node, name) for name in names]
    after = [_rewritten(one, leaf) for one in before]
    return node if all(map(operator.is_, before, after)) else replace(node, **dict(zip(names, after, strict=True)))


_WITHIN: dict[type, tuple[str, ...]] = {
    Comparison: ("left", "right"),
    Membership: ("expression",),
    Between: ("expression", "low", "high"),
    NullTest: ("expression",),
    Like: ("expression",),
    Negative: ("operand",),
    Arithmetic: ("left", "right"),
}
"""The fields of atoms and expressions that are expressions."""


def with_values(conjunct: Conjunct, *, sets: bool = False) -> Conjunct:
    """The conjunct with the value of each `$name` in place of the name; with `sets` also the values after IN."""
    named = rewritten(
        conjunct,
        lambda node: replace(node, parameter=None) if isinstance(node, Literal) and node.parameter else node,
    )
    return Conjunct(
        tuple(
            replace(atom, names=(), parameter=None if sets else atom.parameter)
            if isinstance(atom, Membership)
            else atom
            for atom in named.atoms
        ),
        named.span,
    )


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


# -- bounds on time ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """The timestamp of `second` minus that of `first` is at most `most_us`, which may be negative."""

    first: str
    second: str
    most_us: int


def time_spans(clause: Clause) -> dict[Conjunct, tuple[TimeSpan, ...]]:
    """Return the spans of time that each conjunct over two timestamps alone allows; other conjuncts are left out."""
    single = {variable.name for variable in (*clause.positive, *clause.negated) if not variable.kleene}
    pairs = (one for one in clause.conjuncts if len(one.variables) == 2 and one.variables <= single)
    return {conjunct: found for conjunct in pairs if (found := spans_in(conjunct))}


def spans_in(conjunct: Conjunct) -> tuple[TimeSpan, ...]:
    """The spans that a conjunct says; nothing where it says anything else."""
    match conjunct.atoms:
        case (Comparison(comparator, left, right),):
            return _spans_of(comparator, left, right)
        case (Between(expression, low, high, False),):
            ends = _spans_of(Comparator.GE, expression, low), _spans_of(Comparator.LE, expression, high)
            return (*ends[0], *ends[1]) if all(ends) else ()
    return ()


def _spans_of(comparator: Comparator, left: Expression, right: Expression) -> tuple[TimeSpan, ...]:
    if number_of(left) is not None:
        comparator, left, right = comparator.mirror, right, left
    limit = number_of(right)
    if limit is not None:
        match left:
            case Call("abs", (within,)) if comparator in (Comparator.LT, Comparator.LE):
                low = Literal(-limit, ValueType.INT64 if isinstance(limit, int) else ValueType.FLOAT64)
                ends = _spans_of(comparator, within, right), _spans_of(comparator.mirror, within, low)
                return (*ends[0], *ends[1]) if all(ends) else ()
    limit = limit or 0
    sides = _timestamps(left), ({}, 0) if number_of(right) is not None else _timestamps(right)
    if sides[0] is None or sides[1] is None:
        return ()
    constant = sides[0][1] - sides[1][1]
    counts = {name: sides[0][0].get(name, 0) - sides[1][0].get(name, 0) for name in {**sides[0][0], **sides[1][0]}}
    largest = abs(sides[0][1]) + abs(sides[1][1]) + abs(limit)
    if sorted(counts.values()) != [-1, 1] or largest > MOST_US or len(sides[0][0]) + len(sides[1][0]) > 2:
        return ()
    second, first = (next(name for name, count in counts.items() if count == sign) for sign in (1, -1))
    # t(second) - t(first) is compared with this number, and is whole.
    most, least = math.floor(limit) - constant, math.ceil(limit) - constant
    whole = most == least
    at_most = TimeSpan(first, second, most if comparator is not Comparator.LT or not whole else most - 1)
    at_least = TimeSpan(second, first, -(least if comparator is not Comparator.GT or not whole else least + 1))
    match comparator:
        case Comparator.LT | Comparator.LE:
            return (at_most,)
        case Comparator.GT | Comparator.GE:
            return (at_least,)
        case Comparator.EQ:
            return (at_most, at_least)
        case Comparator.NE:
            return ()


def number_of(expression: Expression) -> int | float | None:
    """The number that a constant expression is; None where it is none, or one that no span is made of."""
    match expression:
        case Literal(int() | float() as value) if not isinstance(value, bool):
            return value if math.isfinite(value) else None
        case Negative(operand):
            found = number_of(operand)
            return None if found is None else -found
        case Arithmetic("+" | "-" | "*" | "/" as sign, left, right):
            one, other = number_of(left), number_of(right)
            if one is None or other is None or (sign == "/" and not other):
                return None
            value = _OPERATIONS[sign](one, other)
            return value if -MOST_US <= value <= MOST_US else None
    return None


_OPERATIONS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": lambda one, other: float(one) / float(other)
}  # fmt: skip
"""Arithmetic as the language does it where no integer overflows."""


def _timestamps(expression: Expression) -> tuple[dict[str, int], int] | None:
    """An expression as a sum: how often the timestamp of each variable is in it, and a constant; None: it is none."""
    match expression:
        case Literal(value) if isinstance(value, int) and not isinstance(value, bool):
            return {}, value
        case Reference(variable, "timestamp", Element.ONLY):
            return {variable: 1}, 0
        case Negative(operand):
            found = _timestamps(operand)
            return found and ({name: -count for name, count in found[0].items()}, -found[1])
        case Arithmetic("+" | "-" as sign, left, right):
            one, other = _timestamps(left), _timestamps(right)
            if one is None or other is None or not one[0].keys().isdisjoint(other[0]):
                return None
            times = 1 if sign == "+" else -1
            counts = {**one[0], **{name: times * count for name, count in other[0].items()}}
            constants = (one[1], times * other[1])
            if max(map(abs, constants)) > MOST_US:
                return None
            return counts, sum(constants)
        case Arithmetic("*", left, right):
            one, other = _timestamps(left), _timestamps(right)
            if one is None or other is None or one[0] or other[0] or abs(one[1] * other[1]) > MOST_US:
                return None
            return {}, one[1] * other[1]
    return None


# -- lists ------------------------------------------------------------------------------------------------------------


def asked_of_elements(clause: Clause) -> Clause:
    """The clause with bounds on the time of each element of a list in place of those on its last one.

    `first(v[].x)` becomes `v[1].x`, and `last(v[].x)` becomes `v[v.LEN].x`, which say the same.
    `v[v.LEN].timestamp - a.timestamp <= 10000000` becomes `v[].timestamp - a.timestamp <= 10000000`, and
    `v[v.LEN].timestamp - v[1].timestamp <= 10000000` becomes `v[i].timestamp - v[1].timestamp <= 10000000`: a list that
    has gone beyond the bound is not grown. The very clause, where there are none.
    """
    kleene = {variable.name for variable in clause.positive if variable.kleene}
    negated = {variable.name for variable in clause.negated}
    found: dict[Conjunct, None] = {}
    for conjunct in clause.conjuncts:
        if not conjunct.variables.isdisjoint(kleene) and conjunct.variables.isdisjoint(negated):
            conjunct = rewritten(conjunct, _as_element)
            conjunct = _of_each_element(conjunct, kleene) or conjunct
        found[conjunct] = None
    return clause if tuple(found) == clause.conjuncts else replace(clause, conjuncts=tuple(found))


def _as_element(node: Expression) -> Expression:
    """The first or the last element of a list in place of the aggregate that has its value."""
    match node:
        case Aggregate("first" | "last" as function, variable, attribute, False, type_of, span):
            return Reference(variable, attribute, Element.FIRST if function == "first" else Element.LAST, type_of, span)
    return node


def _of_each_element(conjunct: Conjunct, kleene: set[str]) -> Conjunct | None:
    """The conjunct about each element of a list that says what this one says of the last one; None where none does."""
    read = {node for atom in conjunct.atoms for side in expressions_of(atom) for node in walk(side)}
    references = {node for node in read if isinstance(node, Reference)}
    last = [node.variable for node in references if node.element is Element.LAST]
    others = [node for node in references if node.element is not Element.LAST]
    if len(last) != 1 or len(others) != 1:
        return None
    [name], [other] = last, others
    if other.variable == name:
        if other.element is not Element.FIRST:
            return None
    elif other.element is not Element.ONLY or other.variable in kleene:
        return None
    first, end = "first", "last"
    spans = spans_in(
        rewritten(
            conjunct,
            lambda node: (
                replace(node, variable=end if node.element is Element.LAST else first, element=Element.ONLY)
                if isinstance(node, Reference)
                else node
            ),
        )
    )
    # The last event is not before the first one of its list.
    bounds = [span for span in spans if other.variable != name or span.first == first or span.most_us < 0]
    if not bounds or any(span.first != first or (other.variable == name and span.most_us < 0) for span in bounds):
        return None
    each = Element.CURRENT if other.variable == name else Element.EACH
    return rewritten(
        conjunct,
        lambda node: (
            replace(node, element=each) if isinstance(node, Reference) and node.element is Element.LAST else node
        ),
    )
