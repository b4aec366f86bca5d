"""A tree plan as the kernel reads it: which node tests what, and where instances can still be joined.

Every node holds the instances of its variables. Conditions belong to the lowest node that has all their variables. Of
the pairs of ordered variables a join tests those that neither follow from others nor from the bounds of its scan.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from cep_pipeline.detection.evaluation_tree.ascents import Ascents
from cep_pipeline.detection.instances import NOTHING, Moment, Program
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Pattern, Ties
from cep_pipeline.planning.numbers.negation import compared_with, may_be_one, next_before, next_behind
from cep_pipeline.planning.trees import Join, Tree, leaves_of, nodes_of


@dataclass(frozen=True, eq=False)
class Assembly:
    """A tree over the positive variables of a clause.

    Positive variables are numbered in pattern order, the negated ones behind them. Node i is the leaf of variable i as
    far as there are positive variables; the joins follow, each behind the nodes that it joins, the root last.

    Attributes
    ----------
    pattern, clause, tree
        The tree has each positive variable of the clause once.
    """

    pattern: Pattern
    clause: Clause
    tree: Tree

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each variable."""
        return {variable.name: n for n, variable in enumerate((*self.clause.positive, *self.clause.negated))}

    @cached_property
    def nodes(self) -> tuple[Tree, ...]:
        """The nodes by number."""
        return (*(v.name for v in self.clause.positive), *(n for n in nodes_of(self.tree) if isinstance(n, Join)))

    @cached_property
    def members(self) -> tuple[tuple[int, ...], ...]:
        """The variables of each node, ascending."""
        return tuple(tuple(sorted(self.numbers[name] for name in leaves_of(node))) for node in self.nodes)

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """The parent of each node; -1 of the root."""
        found = [-1] * len(self.nodes)
        number = {node: n for n, node in enumerate(self.nodes)}
        for n, node in enumerate(self.nodes):
            if isinstance(node, Join):
                found[number[node.left]] = found[number[node.right]] = n
        return tuple(found)

    @cached_property
    def siblings(self) -> tuple[int, ...]:
        """The node that each is joined with; -1 of the root."""
        return tuple(
            -1 if parent < 0 else next(s for s, p in enumerate(self.parents) if p == parent and s != node)
            for node, parent in enumerate(self.parents)
        )

    @property
    def root(self) -> int:
        return len(self.nodes) - 1

    def lowest(self, variables: Iterable[int]) -> int:
        """The lowest node that has all these variables."""
        wanted = set(variables)
        return min(
            (n for n in range(len(self.nodes)) if wanted <= set(self.members[n])), key=lambda n: len(self.members[n])
        )

    def groups(self, program: Program) -> list[int]:
        """The groups of conjuncts: of nodes, of elements that continue a list, of those that begin one, of negation.

        Those of a node are the conjuncts that it is the lowest to have all variables of.
        """
        names = [frozenset(leaves_of(node)) for node in self.nodes]
        known = [Moment(own, own) for own in names]
        found = []
        for node, own in enumerate(self.nodes):
            if isinstance(own, Join):
                sides = [known[other] for other, parent in enumerate(self.parents) if parent == node]
                found.append(program.groups.group(known[node], sides))
            else:
                kleene = self.clause.by_name[own].kleene
                found.append(program.groups.group(known[node], (Moment(names[node]) if kleene else known[node],)))
        for variable in self.clause.positive:
            begun = Moment(frozenset((variable.name,)))
            found.append(program.groups.element_group(variable.name, begun) if variable.kleene else -1)
        for variable in self.clause.positive:
            found.append(program.groups.first_group(variable.name, NOTHING) if variable.kleene else -1)
        return found + [program.groups.rejecting_group(variable.name) for variable in self.clause.negated]

    def rejects_early(self, variable: Variable) -> bool:
        """Whether a negated variable can reject partial matches: what is rejected does not depend on what follows.

        With nothing before it or nothing after it the window of the whole match decides; under TIES ANY an event that
        comes later may still be before those that have been.
        """
        between = self.clause.predecessors(variable.name) and self.clause.successors(variable.name)
        return bool(between) and self.pattern.ties is not Ties.ANY

    @cached_property
    def rejecting_at(self) -> tuple[int, ...]:
        """For each negated variable its node (JQPG section 5.3): the lowest that has all it is compared with."""
        return tuple(
            self.lowest(self._compared_with(variable)) if self.rejects_early(variable) else self.root
            for variable in self.clause.negated
        )

    def _compared_with(self, negated: Variable) -> set[int]:
        names = {*next_before(self.clause, negated.name), *next_behind(self.clause, negated.name)}
        names |= {*compared_with(self.pattern, self.clause, negated)}
        return {self.numbers[name] for name in names}

    def excluded_by(self, negated: Variable) -> tuple[int, ...]:
        """The positive variables that may bind the very event that would reject."""
        return tuple(
            n for n, other in enumerate(self.clause.positive) if may_be_one(self.pattern, self.clause, negated, other)
        )

    @cached_property
    def stored(self) -> tuple[bool, ...]:
        """Whether an instance of each node can be joined later: some event of the other side may come after it."""
        return tuple(
            sibling >= 0 and any(self._ascents.may_come_last(own, self.members[node]) for own in self.members[sibling])
            for node, sibling in enumerate(self.siblings)
        )

    def words(self, program: Program) -> Array:
        """int64: all of it in one array, which `kernel.Layout` reads."""
        nodes, positive, negated = range(len(self.nodes)), self.clause.positive, self.clause.negated
        clause = self.clause
        writer = _Writer()
        writer.put(self.parents)
        writer.put(self.siblings)
        writer.put(self.stored)
        writer.put_lists(self.members)
        writer.put_lists([m for m, at in enumerate(self.rejecting_at) if at == node] for node in nodes)
        writer.put_lists(
            self._ascent(node, variable) if variable in self.members[node] else ()
            for node, variable in product(nodes, range(len(positive)))
        )
        writer.put_lists([self.numbers[name] for name in next_before(clause, n.name)] for n in negated)
        writer.put_lists([self.numbers[name] for name in next_behind(clause, n.name)] for n in negated)
        writer.put_lists(map(self.excluded_by, negated))
        writer.put(self.pattern.ties is Ties.ANY or not clause.successors(n.name) for n in negated)
        writer.put(self.groups(program))
        return writer.array()

    def _ascent(self, node: int, variable: int) -> list[int]:
        sibling = self.siblings[node]
        return [0] if sibling < 0 else self._ascents.words(self.members[node], self.members[sibling], variable)

    def is_single_leaf(self, node: int) -> bool:
        """Whether the instances of a node are single events."""
        return node < len(self.clause.positive) and not self.clause.positive[node].kleene

    @cached_property
    def _ascents(self) -> Ascents:
        return Ascents(self.pattern, self.clause)


class _Writer:
    """Parts of one int64 array, found through their places at its beginning."""

    def __init__(self) -> None:
        self.parts: list[list[int]] = []

    def put(self, numbers: Iterable[int]) -> None:
        self.parts.append([int(number) for number in numbers])

    def put_lists(self, lists: Iterable[Iterable[int]]) -> None:
        """Lists of numbers: where each begins (and the last ends) in the next part, and that part."""
        held = [list(map(int, numbers)) for numbers in lists]
        self.put(np.cumsum([0, *map(len, held)]))
        self.put(number for numbers in held for number in numbers)

    def array(self) -> Array:
        places = np.cumsum([len(self.parts), *map(len, self.parts)])[:-1]
        return np.array([*places, *(number for part in self.parts for number in part), 0], np.int64)
