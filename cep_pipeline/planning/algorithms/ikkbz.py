"""IKKBZ: the cheapest order without cross products where conditions form a tree, in polynomial time.

Ibaraki and Kameda 1984; Krishnamurthy, Boral and Zaniolo 1986. JQPG appendix A shows that the throughput cost of
orders has the property that it needs (ASI): which of two neighbouring pieces of an order comes first is decided by
their ranks, whatever is around them. Above the budget of the exact planners it gives their order; where the conditions
of a clause do not form a tree, it runs over the strictest ones that do, and is a heuristic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from heapq import merge

from cep_pipeline.planning.clause_statistics import ClauseStatistics, ln_sum
from cep_pipeline.planning.costs import PARTIAL_MATCHES, CostModel


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an order that stays together: its variables, and ln of T and C of JQPG appendix A."""

    order: tuple[int, ...]
    ln_product: float
    ln_cost: float

    @property
    def rank(self) -> tuple[int, float]:
        """(T - 1) / C as a key that sorts like it, of numbers of any size: its sign, and its signed logarithm."""
        if self.ln_product == 0:
            return 0, 0.0
        if self.ln_product > 0:
            return 1, self.ln_product + math.log(-math.expm1(-self.ln_product)) - self.ln_cost
        return -1, self.ln_cost - math.log(-math.expm1(self.ln_product))

    def then(self, other: Piece) -> Piece:
        """Join both to one piece: T(uv) = T(u) T(v), C(uv) = C(u) + T(u) C(v)."""
        ln_cost = ln_sum((self.ln_cost, self.ln_product + other.ln_cost))
        return Piece(self.order + other.order, self.ln_product + other.ln_product, ln_cost)


@dataclass(frozen=True)
class ConditionGraph:
    """The variables of a clause and the conditions that connect them, as a forest.

    Attributes
    ----------
    ln_instances
        Of each variable, with its own conditions.
    neighbours
        Of each variable those that it has a condition with in the forest, and ln of the selectivity.
    exact
        Whether partial matches are products over this forest, which is one tree: nothing was left out.
    """

    ln_instances: tuple[float, ...]
    neighbours: tuple[dict[int, float], ...]
    exact: bool

    @classmethod
    def of(cls, statistics: ClauseStatistics) -> ConditionGraph:
        """The strictest conditions between pairs that form no cycle: of all pairs, taken the most selective first."""
        size = statistics.size
        single = list(statistics.ln_instances)
        pairs: dict[tuple[int, int], float] = {}
        larger = False
        for positions, factor in statistics.factors:
            if len(positions) == 1:
                single[positions[0]] += factor
            elif len(positions) == 2:
                one, other = positions
                pairs[one, other] = pairs.get((one, other), 0.0) + factor
            else:
                larger = True
        whole = not larger and not statistics.agreements and not statistics.sequences and len(pairs) == size - 1
        for agreement in statistics.agreements:
            for one in range(size):
                for other in range(one + 1, size):
                    ln_selectivity = agreement.ln_selectivities[one][other]
                    pairs[one, other] = pairs.get((one, other), 0.0) + ln_selectivity
        component = list(range(size))
        neighbours: tuple[dict[int, float], ...] = tuple({} for _ in range(size))
        taken = 0
        for (one, other), ln_selectivity in sorted(pairs.items(), key=lambda pair: (pair[1], pair[0])):
            if component[one] != component[other]:
                old, new = component[other], component[one]
                component = [new if label == old else label for label in component]
                neighbours[one][other] = neighbours[other][one] = ln_selectivity
                taken += 1
        return cls(tuple(single), neighbours, whole and taken == size - 1)


def has_asi(statistics: ClauseStatistics, cost: CostModel) -> bool:
    """True if IKKBZ's order is the cheapest one without cross products, under this cost model."""
    plain = cost.pair is None and (cost.delay is None or cost.alpha == 0)
    return plain and cost.node is PARTIAL_MATCHES and ConditionGraph.of(statistics).exact


def ikkbz_order(statistics: ClauseStatistics) -> tuple[int, ...]:
    """The order that is cheapest by throughput over the condition graph; components are interleaved by their ranks.

    Notes
    -----
    O(n^2 log n): each variable of a component is tried as its root.
    """
    graph = ConditionGraph.of(statistics)
    unseen = set(range(statistics.size))
    chains: list[list[Piece]] = []
    while unseen:
        members = _component(graph, min(unseen))
        unseen -= set(members)
        best = min((_chain(graph, root) for root in members), key=lambda chain: (_whole(chain).ln_cost, chain[0].order))
        chains.append(best)
    return tuple(position for piece in merge(*chains, key=lambda piece: piece.rank) for position in piece.order)


def _chain(graph: ConditionGraph, root: int) -> list[Piece]:
    """The pieces of a component's order from this root, by ascending rank."""
    parents = {root: root}
    sequence = [root]
    for position in sequence:
        for neighbour in graph.neighbours[position]:
            if neighbour not in parents:
                parents[neighbour] = position
                sequence.append(neighbour)
    below: dict[int, list[list[Piece]]] = {position: [] for position in sequence}
    chain: list[Piece] = []
    for position in reversed(sequence):
        ln_product = graph.ln_instances[position]
        if position != root:
            ln_product += graph.neighbours[position][parents[position]]
        piece = Piece((position,), ln_product, ln_product)
        merged = list(merge(*below[position], key=lambda piece: piece.rank))
        # What may not come before its parent, but should by its rank, is bound to it.
        while merged and merged[0].rank < piece.rank:
            piece = piece.then(merged.pop(0))
        chain = [piece, *merged]
        if position != root:
            below[parents[position]].append(chain)
    return chain


def _whole(chain: list[Piece]) -> Piece:
    whole = chain[0]
    for piece in chain[1:]:
        whole = whole.then(piece)
    return whole


def _component(graph: ConditionGraph, start: int) -> list[int]:
    members = [start]
    for position in members:
        members += [neighbour for neighbour in graph.neighbours[position] if neighbour not in members]
    return members
