"""The counts of detection at one node of a plan: the record by which it tells statistics what it saw."""

from __future__ import annotations

from dataclasses import dataclass, field

from cep_pipeline.patterns.conditions import Conjunct


@dataclass(frozen=True, slots=True)
class NodeCounts:
    """The counts of one node of a plan.

    Attributes
    ----------
    pattern, clause, node
        The pattern's name, the index of the clause, and the variables bound at the node, in plan order.
    candidates
        Tuples of events in order and window that the conditions were tested on.
    passes
        Those for which they held.
    created
        Partial matches stored; a kernel that stores none counts 0.
    tested
        The conjuncts that alone decided which candidates pass; all others over the node's variables held of each
        candidate. None where something else decided too (order, window, a negated variable, which slice owns a match),
        or not the same conjuncts each time: passes / candidates is then no share of conjuncts.
    shared_with
        Where patterns are run together, the other places of their plans that this node stands for, each as pattern,
        clause and variables in the order of `node`: what happened there is counted here, once.
    """

    pattern: str
    clause: int
    node: tuple[str, ...]
    candidates: int
    passes: int
    created: int = 0
    tested: tuple[Conjunct, ...] | None = field(default=None, compare=False)
    shared_with: tuple[tuple[str, int, tuple[str, ...]], ...] = ()

    def plus(self, other: NodeCounts) -> NodeCounts:
        """Add the counts of the node over another part of the stream."""
        return NodeCounts(
            self.pattern,
            self.clause,
            self.node,
            self.candidates + other.candidates,
            self.passes + other.passes,
            self.created + other.created,
            self._tested_with(other),
            tuple(dict.fromkeys((*self.shared_with, *other.shared_with))),
        )

    def _tested_with(self, other: NodeCounts) -> tuple[Conjunct, ...] | None:
        """The conjuncts that decided about the candidates of both; where one has none, those of the other."""
        if self.candidates and other.candidates:
            return self.tested if self.tested == other.tested else None
        return self.tested if self.candidates else other.tested
