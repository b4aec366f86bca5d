"""What makes nodes and sub-patterns equal, literally: by trying all mappings of variables; and patterns in disguise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, permutations
from random import Random
from typing import Any

from cep_pipeline.patterns.conditions import (
    AllOf,
    AnyOf,
    Atom,
    Between,
    Comparison,
    Condition,
    Conjunct,
    Membership,
    Not,
)
from cep_pipeline.patterns.expressions import Aggregate, Arithmetic, Call, Expression, Length, Literal, Negative
from cep_pipeline.patterns.expressions import Reference as AttributeReference
from cep_pipeline.patterns.pattern import Pattern, Strategy
from cep_pipeline.patterns.structure import Composite, EventOperand, Operator, Structure
from cep_pipeline.planning.multi_pattern.members import Member
from cep_pipeline.planning.trees import Join, Tree, leaves_of

Content = tuple[Any, ...]


def content(member: Member, slots: Sequence[str]) -> Content:
    """All that decides which events a node's slots bind, but for the size of the window."""
    pattern, clause = member.pattern, member.clause
    number = {name: place for place, name in enumerate(slots)}
    variables = [clause.by_name[name] for name in slots]
    several = len(slots) > 1 or variables[0].kleene
    before = {(number[a], number[b]) for a, b in clause.precedence if a in number and b in number}
    counted = pattern.window.events is not None
    return (
        [(variable.event_type, variable.kleene) for variable in variables],
        before,
        pattern.ties if before else None,
        {_conjunct(c, number) for c in clause.conjuncts if c.variables and c.variables <= set(slots)},
        {*clause.partition_by, *clause.equivalences} if several else None,
        (counted, set(clause.partition_by) if counted else None),
        None if pattern.strategy is Strategy.SKIP_TILL_ANY_MATCH else member.id,
    )


def same(one: Member, names: Sequence[str], other: Member, others: Sequence[str]) -> bool:
    """Whether some mapping makes two sub-patterns equal."""
    wanted = content(one, names)
    return len(names) == len(others) and any(content(other, slots) == wanted for slots in permutations(others))


def same_tree(one: Member, tree: Tree, other: Member, other_tree: Tree) -> bool:
    """Whether some mapping makes two trees equal, with what their nodes bind."""
    names, wanted = leaves_of(tree), content(one, leaves_of(tree))
    if len(names) != len(leaves_of(other_tree)):
        return False
    for slots in permutations(leaves_of(other_tree)):
        mapping = dict(zip(names, slots, strict=True))
        if _shape(tree, mapping) == _shape(other_tree, {}) and content(other, slots) == wanted:
            return True
    return False


def common_subpatterns(one: Member, other: Member) -> set[frozenset[str]]:
    """The sets of the first member's variables whose sub-pattern the second one has, too."""
    parts = [names for size in range(1, len(other.names) + 1) for names in combinations(other.names, size)]
    return {
        frozenset(names)
        for size in range(1, len(one.names) + 1)
        for names in combinations(one.names, size)
        if any(same(one, names, other, part) for part in parts if len(part) == size)
    }


def maximal(one: Member, found: Iterable[frozenset[str]]) -> set[frozenset[str]]:
    """Those of some sub-patterns of a member that are equal to no part of a larger one of them."""
    sets = list(found)
    return {
        part
        for part in sets
        if not any(
            same(one, tuple(part), one, smaller)
            for larger in sets
            if len(larger) > len(part)
            for smaller in combinations(larger, len(part))
        )
    }


def _shape(tree: Tree, mapping: dict[str, str]) -> Any:
    if isinstance(tree, str):
        return mapping.get(tree, tree)
    return frozenset({_shape(tree.left, mapping), _shape(tree.right, mapping)})


def _conjunct(conjunct: Conjunct, number: dict[str, int]) -> frozenset[Any]:
    return frozenset(_atom(atom, number) for atom in conjunct.atoms)


def _atom(atom: Atom, number: dict[str, int]) -> Any:
    match atom:
        case Comparison(comparator, left, right):
            one, other = _side(left, number), _side(right, number)
            return frozenset({(comparator, one, other), (comparator.mirror, other, one)})
        case Membership(expression, values, _, negated):
            return "in", _side(expression, number), frozenset(map(_exact, values)), negated
        case Between(expression, low, high, negated):
            return "between", *(_side(side, number) for side in (expression, low, high)), negated


def _side(expression: Expression, number: dict[str, int]) -> Any:
    return _exact(expression.value) if isinstance(expression, Literal) else _value(expression, number)


def _exact(value: Any) -> Any:
    """A constant as it is compared: Python's ints equal floats exactly where their values do."""
    return type(value) if isinstance(value, bool | str) else "number", value


def _value(expression: Expression, number: dict[str, int]) -> Any:
    match expression:
        case Literal(value, kind):
            return kind, repr(value)
        case AttributeReference(variable, attribute, element, kind):
            return number[variable], attribute, element, kind
        case Length(variable):
            return number[variable], "LEN"
        case Aggregate(function, variable, attribute, prefix, _):
            return function, number[variable], attribute, prefix
        case Negative(operand):
            return "-", _value(operand, number)
        case Arithmetic("+" | "*" as operator, left, right):
            sides = _value(left, number), _value(right, number)
            return operator, frozenset({(sides[0], sides[1]), (sides[1], sides[0])})
        case Arithmetic(operator, left, right):
            return operator, _value(left, number), _value(right, number)
        case Call(function, arguments):
            return function, *(_value(argument, number) for argument in arguments)


# -- patterns in disguise ----------------------------------------------------------------------------------------------


def disguised(pattern: Pattern, random: Random) -> tuple[Pattern, dict[str, str]]:
    """The same statement in other words, and what its variables are called now."""
    names = [operand.variable for operand in pattern.operands]
    renamed = dict(zip(names, random.sample([f"other_{name}" for name in names], len(names)), strict=True))
    changed = replace(
        pattern,
        name=f"other_{pattern.name}",
        structure=_structure(pattern.structure, renamed, random),
        condition=None if pattern.condition is None else _condition(pattern.condition, renamed, random),
        partition_by=tuple(random.sample(pattern.partition_by, len(pattern.partition_by))),
        parameters=tuple((f"other_{name}", values) for name, values in pattern.parameters),
        returns=(),
    )
    return changed, renamed


def _structure(structure: Structure, renamed: dict[str, str], random: Random) -> Structure:
    if isinstance(structure, EventOperand):
        return replace(structure, variable=renamed[structure.variable])
    operands = [_structure(operand, renamed, random) for operand in structure.operands]
    if structure.operator is Operator.AND:
        random.shuffle(operands)
    return Composite(structure.operator, tuple(operands))


def _condition(condition: Condition, renamed: dict[str, str], random: Random) -> Condition:
    match condition:
        case Not(operand):
            return Not(_condition(operand, renamed, random))
        case AllOf(operands) | AnyOf(operands):
            shuffled = random.sample(operands, len(operands))
            return replace(condition, operands=tuple(_condition(operand, renamed, random) for operand in shuffled))
        case Comparison(comparator, left, right):
            one, other = _named(left, renamed, random), _named(right, renamed, random)
            if random.random() < 0.5:
                return Comparison(comparator, one, other)
            return Comparison(comparator.mirror, other, one)
        case Membership(expression, values, parameter, negated):
            shuffled_values = random.sample([*values, values[0]], len(values) + 1) if values else []
            other_name = None if parameter is None else f"other_{parameter}"
            return Membership(_named(expression, renamed, random), tuple(shuffled_values), other_name, negated)
        case Between(expression, low, high, negated):
            sides = [_named(side, renamed, random) for side in (expression, low, high)]
            return Between(*sides, negated)
        case _:
            return condition


def _named(expression: Expression, renamed: dict[str, str], random: Random) -> Expression:
    match expression:
        case AttributeReference() | Length() | Aggregate():
            return replace(expression, variable=renamed[expression.variable])
        case Negative(operand):
            return replace(expression, operand=_named(operand, renamed, random))
        case Arithmetic(operator, left, right):
            sides = [_named(left, renamed, random), _named(right, renamed, random)]
            if operator in "+*" and random.random() < 0.5:
                sides.reverse()
            return replace(expression, left=sides[0], right=sides[1])
        case Call(_, arguments):
            return replace(expression, arguments=tuple(_named(a, renamed, random) for a in arguments))
        case _:
            return expression


def any_tree(names: Sequence[str], random: Random) -> Tree:
    """Some tree over variables."""
    if len(names) == 1:
        return names[0]
    shuffled = random.sample(list(names), len(names))
    cut = random.randint(1, len(names) - 1)
    return Join(any_tree(shuffled[:cut], random), any_tree(shuffled[cut:], random))


def renamed_tree(tree: Tree, renamed: dict[str, str], random: Random) -> Tree:
    """The tree over other names, sides of joins exchanged by chance."""
    if isinstance(tree, str):
        return renamed[tree]
    sides = [renamed_tree(side, renamed, random) for side in (tree.left, tree.right)]
    random.shuffle(sides)
    return Join(*sides)


def all_trees(names: Sequence[str]) -> Iterator[Tree]:
    """All trees over variables, up to the order of the sides."""
    if len(names) == 1:
        yield names[0]
        return
    first, *others = names
    for size in range(len(others)):
        for chosen in combinations(others, size):
            rest = [name for name in others if name not in chosen]
            for left in all_trees([first, *chosen]):
                for right in all_trees(rest):
                    yield Join(left, right)
