"""Conditions that single pairs do not decide: over three or more variables, over lists, and temporal order itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.expressions import Aggregate, Expression, Length, Reference
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Ties, Window
from cep_pipeline.patterns.rewriting import rewritten
from cep_pipeline.statistics.terms import (
    Leaf,
    PairScope,
    conjunct_key,
    leaf_of,
    pair_of,
    positive_conjuncts,
)


@dataclass(frozen=True)
class Member:
    """A variable of a tuple: its leaf, and whether it binds a list of the leaf's events."""

    leaf: Leaf
    kleene: bool


@dataclass(frozen=True)
class TupleScope:
    """The combinations of events, and of lists of events, that could stand in one partial match.

    Attributes
    ----------
    members
        In pattern order; in keys they are called x1, x2, ...
    precedence
        Pairs of places in `members`, the earlier one first.
    """

    members: tuple[Member, ...]
    precedence: tuple[tuple[int, int], ...]
    window: Window
    ties: Ties = Ties.ARRIVAL

    @cached_property
    def key(self) -> str:
        """Canonical text, such as `(A) x1, (B)+ x2, x1 before x2, within 2 s`."""
        members = [
            f"({member.leaf.key}){'+' if member.kleene else ''} {member_name(place)}"
            for place, member in enumerate(self.members)
        ]
        before = "before" if self.ties is Ties.ARRIVAL else f"before[{self.ties.value}]"
        order = [f"{member_name(one)} {before} {member_name(other)}" for one, other in self.precedence]
        return ", ".join((*members, *order, f"within {self.window}"))


@dataclass(frozen=True)
class TupleCondition:
    """A conjunct over the members of a scope."""

    scope: TupleScope
    conjunct: Conjunct

    @cached_property
    def key(self) -> str:
        """Canonical text, such as `(A) x1, (B)+ x2, within 2 s: x2.LEN > 3`."""
        return f"{self.scope.key}: {conjunct_key(self.conjunct)}"


@dataclass(frozen=True)
class OrderCondition:
    """The condition that the first event of a pair in one window comes before the second, by TIES."""

    scope: PairScope
    ties: Ties

    @cached_property
    def key(self) -> str:
        """Canonical text, such as `(A) with (B) within 2 s: x before[STRICT] y`."""
        return f"{self.scope.key}: x before{'' if self.ties is Ties.ARRIVAL else f'[{self.ties.value}]'} y"


def member_name(place: int) -> str:
    """The name of a member of a tuple in keys."""
    return f"x{place + 1}"


def tuple_of(pattern: Pattern, clause: Clause, conjunct: Conjunct) -> TupleCondition | None:
    """The measurable form of a conjunct of a plan that no pair decides; None of others."""
    if not conjunct.variables or pair_of(pattern, clause, conjunct) is not None:
        return None
    names = sorted(conjunct.variables, key=lambda name: clause.by_name[name].position)
    members = tuple(Member(leaf_of(pattern, clause, name), clause.by_name[name].kleene) for name in names)
    precedence = tuple(
        (one, other)
        for one in range(len(names))
        for other in range(len(names))
        if (names[one], names[other]) in clause.precedence
    )
    places = {name: member_name(place) for place, name in enumerate(names)}

    def renamed(node: Expression) -> Expression:
        if isinstance(node, Reference | Length | Aggregate):
            return replace(node, variable=places[node.variable])
        return node

    ties = pattern.ties if precedence else Ties.ARRIVAL
    return TupleCondition(TupleScope(members, precedence, pattern.window, ties), rewritten(conjunct, renamed))


def order_of(pattern: Pattern, clause: Clause, first: str, second: str) -> OrderCondition:
    """The condition that the temporal order of a clause puts on two variables."""
    one, other = (leaf_of(pattern, clause, name) for name in (first, second))
    return OrderCondition(PairScope(one, other, ordered=False, window=pattern.window), pattern.ties)


def tuples_and_orders(patterns: Iterable[Pattern]) -> tuple[list[TupleCondition], list[OrderCondition]]:
    """The conditions of patterns that are no pairwise ones, each once.

    Of the temporal order, those between variables that follow one another: the others follow from them.
    """
    tuples: dict[TupleCondition, None] = {}
    orders: dict[OrderCondition, None] = {}
    for pattern in patterns:
        for clause in pattern.clauses:
            for conjunct in positive_conjuncts(clause):
                condition = tuple_of(pattern, clause, conjunct)
                if condition is not None:
                    tuples[condition] = None
            for first, second in neighbours(clause):
                orders[order_of(pattern, clause, first, second)] = None
    return list(tuples), list(orders)


def neighbours(clause: Clause) -> list[tuple[str, str]]:
    """The positive variables that follow one another in the temporal order, none between them."""
    names = [variable.name for variable in clause.positive]
    follows = {(one, other) for one in names for other in names if (one, other) in clause.precedence}
    return sorted(
        (one, other)
        for one, other in follows
        if not any((one, name) in follows and (name, other) in follows for name in names)
    )
