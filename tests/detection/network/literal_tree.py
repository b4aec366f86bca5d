"""The instance-based tree as JQPG section 2.3 says it: every node a list of instances, every list scanned whole.

For patterns of single events without negation. Which events may stand together and which conditions hold is asked of
the oracle; what is counted are the mechanism's metrics.

Equalities that join all variables, as `a.k = b.k` does two, are `[k]` in plans and mechanisms (`with_agreement`): they
are no conditions that a candidate is tested for. An event without the value agrees with no other one, so it is joined
with none and held by no node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from cep_pipeline.patterns.pattern import Pattern, Ties
from cep_pipeline.planning.trees import Join, OrderOrTree, Tree, as_tree, leaves_of, nodes_of
from tests.oracle.clauses import OracleClause, Rules, clauses_of
from tests.oracle.events import Event, agree, read_events
from tests.oracle.values import Binding


@dataclass
class NodeWork:
    """What happened at a node, in the terms of `NodeCounts`."""

    candidates: int = 0
    passes: int = 0
    created: int = 0


class LiteralTree:
    """A tree over one clause, which reads the events one by one.

    Attributes
    ----------
    work
        What happened at the node with these variables.
    matches
        What left the root.
    held_after
        How many instances there were after each event. What is out of the window goes when an event is taken, by this
        clause or by another one of the pattern.
    """

    def __init__(self, pattern: Pattern, clause: OracleClause, tree: Tree, events: Sequence[Event]) -> None:
        self.pattern, self.clause, self.tree = pattern, clause, tree
        self.rules = Rules(pattern, clause, events)
        self.operands = {operand.variable: operand for operand in clause.positive}
        self.work = {leaves_of(node): NodeWork() for node in nodes_of(tree)}
        self.held: dict[Tree, list[Binding]] = {node: [] for node in nodes_of(tree)}
        self.matches: list[Binding] = []
        self.held_after: list[int] = []
        self.reads = all(conjunct.holds({}) for conjunct in clause.conjuncts if not conjunct.variables)

    def fitting(self, event: Event) -> list[str]:
        """The variables that an event can be bound to."""
        fitting = []
        for variable, operand in self.operands.items():
            work = self.work[variable,]
            work.candidates += operand.event_type in event.types
            if operand.event_type in event.types and self._hold([], {variable: (event,)}):
                work.passes += 1
                fitting.append(variable)
        return fitting

    def read(self, event: Event, fitting: Sequence[str], taken: bool) -> None:
        """Take an event for its variables; where any clause takes it, what is out of the window goes before."""
        if taken:
            self._forget(event)
        if fitting:
            self._take(event, fitting)
        self.held_after.append(sum(map(len, self.held.values())))

    def _take(self, event: Event, fitting: Sequence[str]) -> None:
        if len(self.operands) > 1 and self.clause.agree_on and not agree(event, event, self.clause.agree_on):
            return
        made: list[tuple[Tree, Binding]] = []
        for variable in fitting:
            node: Tree = variable
            new: list[Binding] = [{variable: (event,)}]
            while node != self.tree:
                made += [(node, instance) for instance in new]
                parent = self._parent(node)
                sides = (parent.left, parent.right)
                siblings = self.held[sides[0] if sides[1] == node else sides[1]]
                new = [pair for one in new for other in siblings if (pair := self._join(parent, one, other))]
                node = parent
            self.matches += new
        for node, instance in made:
            if self._may_be_joined(node):
                self.held[node].append(instance)
                self.work[leaves_of(node)].created += 1

    def _join(self, parent: Join, one: Binding, other: Binding) -> Binding | None:
        if not all(self.rules.fits(self.operands[name], event, other) for name, (event,) in one.items()):
            return None
        work = self.work[parent.leaves]
        work.candidates += 1
        joined = {**one, **other}
        if not self._hold([one, other], joined):
            return None
        work.passes += 1
        return joined

    def _hold(self, tested: Sequence[Binding], binding: Binding) -> bool:
        """Whether the conjuncts hold that have all their variables now, and had not in what it is made from."""
        return all(
            conjunct.holds(binding)
            for conjunct in self.clause.conjuncts
            if conjunct.variables <= binding.keys() and not any(conjunct.variables <= part.keys() for part in tested)
        )

    def _parent(self, node: Tree) -> Join:
        return next(n for n in nodes_of(self.tree) if isinstance(n, Join) and node in (n.left, n.right))

    def _may_be_joined(self, node: Tree) -> bool:
        """Whether an event that comes later can be joined with what a node holds."""
        others = set(self._parent(node).leaves) - set(leaves_of(node))
        return self.pattern.ties is Ties.ANY or any(
            all((later, own) not in self.clause.order for own in leaves_of(node)) for later in others
        )

    def _forget(self, event: Event) -> None:
        """Drop what an event is out of the window of."""
        for node, instances in self.held.items():
            self.held[node] = [
                instance
                for instance in instances
                if all(
                    self.rules.instant[event] - self.rules.instant[e] <= self.rules.width for (e,) in instance.values()
                )
            ]


def read_literally(pattern: Pattern, orders: Sequence[OrderOrTree], table: pa.Table) -> list[LiteralTree]:
    """The trees of all clauses, after they have read a table."""
    events = read_events(table, pattern)
    trees = [
        LiteralTree(pattern, replace(clause, agree_on=planned.agree_on), as_tree(order), events)
        for clause, planned, order in zip(clauses_of(pattern), pattern.clauses, orders, strict=True)
    ]
    reading = [tree for tree in trees if tree.reads]
    for event in events:
        fitting = [tree.fitting(event) for tree in reading]
        for tree, own in zip(reading, fitting, strict=True):
            tree.read(event, own, any(fitting))
    return trees
