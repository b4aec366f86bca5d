"""The form of a cost model: a cost that adds up over the steps of an order, or over the nodes of a tree."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
from cep_pipeline.planning.numbers.logarithms import ln_sum
from cep_pipeline.planning.trees import PositionTree, positions_below

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class SetSum:
    """The numbers of a clause that a term of a cost model adds up, by their logarithms.

    Attributes
    ----------
    instances
        The instances of the set's variables count.
    rarest
        Only the instances of the rarest variable count.
    equalities, tested
        The selectivities of equalities count, and those of conditions that have to be tested.
    joints
        The corrections for conditions that depend on each other count.
    together
        The share of combinations in temporal order counts, and agreement on attributes.
    singles
        Kleene variables count as one instance without conditions.
    grown
        The number of variables is a factor (of single ones, where `singles`).
    factor, whole
        A factor of each set, and of the set of all variables in its place.
    ends
        This factor times the events at both edges of a set, after which and before which none of it is ordered, is
        added to the sum.
    """

    instances: bool = True
    rarest: bool = False
    equalities: bool = True
    tested: bool = True
    joints: bool = True
    together: bool = True
    singles: bool = False
    grown: bool = False
    factor: float = 1.0
    whole: float | None = None
    ends: float | None = None


@dataclass(frozen=True, slots=True)
class SetTerm:
    """A number that every set of variables has, by its natural logarithm (minus infinity: 0).

    Attributes
    ----------
    one
        (statistics, positions) -> that of one set.
    all
        statistics -> that of every set: float64, shape (2^n,), by the bits of the set; the empty set's is not used.
    some
        (statistics, members) -> those of m sets: float64, shape (m,), for bools of shape (m, n); None: one by one.
    sum
        Makes the description of the sum that this term is; None: it is no sum of a clause's numbers.
    """

    one: Callable[[ClauseStatistics, Sequence[int]], float]
    all: Callable[[ClauseStatistics], Array]
    some: Callable[[ClauseStatistics, Array], Array] | None = None
    sum: Callable[[], SetSum] | None = None

    def of(self, statistics: ClauseStatistics, members: Array) -> Array:
        """The numbers of some sets, float64 of shape (m,), for bools of shape (m, n): the variables of each set."""
        if self.some is not None:
            return self.some(statistics, members)
        return np.array([self.one(statistics, np.flatnonzero(row).tolist()) for row in members], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class CostModel:
    """A cost that adds up over the steps of an order, or over the nodes of a tree.

    The cost of an **order** with the prefixes S_1 to S_n, S_k = S_(k-1) + v, is the sum over k of

        node[S_k]  +  pair[S_k] product[S_(k-1)] product[v], k > 1  +  alpha delay[v] where `last` is in S_(k-1).

    The cost of a **tree** is the sum of node[v] over its leaves, and over its joins of L and R, S = L + R, of

        node[S]  +  pair[S] product[L] product[R]  +  alpha (delay[R] where `last` is in L, delay[L] where it is in R)
        +  held[L] + held[R] where the join is not linear.

    A join is *linear* where one side is a variable, and the other one a variable or a linear join: such a part of a
    tree runs as an order. Exact search keeps the cheapest linear tree of each set beside the cheapest of all, as what
    is joined to a set costs more behind a tree that is not linear.

    Attributes
    ----------
    name, unit
        As `cep plan --cost` and explain write them.
    node
        What the partial matches of a set cost.
    pair, product
        What joining costs beside that: tests of candidates. None: nothing, and a product of 1.
    held
        What it costs to store the partial matches of a set; None: linear joins cost as much as others.
    delay, alpha
        What a match waits for, after the event of the variable `last` (`ClauseStatistics.last_variable`) has come,
        where the other side of a join has to be looked through, and the weight of that.
    """

    name: str
    unit: str
    node: SetTerm
    pair: SetTerm | None = None
    product: SetTerm | None = None
    held: SetTerm | None = None
    delay: SetTerm | None = None
    alpha: float = 0.0

    def ln_step(self, statistics: ClauseStatistics, beginning: Sequence[int]) -> float:
        """ln of what the last step of the beginning of an order costs."""
        *earlier, position = beginning
        terms = [self.node.one(statistics, beginning)]
        if earlier and self.pair is not None:
            terms.append(self._ln_pair(statistics, earlier, [position]))
        terms.append(self.ln_step_delay(statistics, beginning))
        return ln_sum(terms)

    def ln_step_delay(self, statistics: ClauseStatistics, beginning: Sequence[int]) -> float:
        """ln of the share of a step's cost that is latency, weighed: what is bound after the last event waits."""
        *earlier, position = beginning
        if not self.waits or statistics.last_variable not in earlier:
            return -math.inf
        return self._ln_delay(statistics, [position])

    def ln_leaf(self, statistics: ClauseStatistics, position: int) -> float:
        """ln of what a leaf of a tree costs."""
        return self.node.one(statistics, [position])

    def ln_join(self, statistics: ClauseStatistics, left: PositionTree, right: PositionTree) -> float:
        """ln of what joining two trees costs, without what they cost themselves."""
        sides = positions_below(left), positions_below(right)
        terms = [self.node.one(statistics, [*sides[0], *sides[1]])]
        if self.pair is not None:
            terms.append(self._ln_pair(statistics, *sides))
        if self.held is not None and not is_linear((left, right)):
            terms += [self.held.one(statistics, side) for side in sides]
        terms.append(self.ln_join_delay(statistics, left, right))
        return ln_sum(terms)

    def ln_join_delay(self, statistics: ClauseStatistics, left: PositionTree, right: PositionTree) -> float:
        """ln of the share of a join's cost that is latency, weighed: all is looked through beside the last event."""
        sides = positions_below(left), positions_below(right)
        if not self.waits or statistics.last_variable not in (*sides[0], *sides[1]):
            return -math.inf
        return self._ln_delay(statistics, sides[1] if statistics.last_variable in sides[0] else sides[0])

    @property
    def terms(self) -> tuple[SetTerm | None, ...]:
        """Node, pair, product, held and delay; None for those that nothing is charged by."""
        return self.node, self.pair, self.product, self.held, self.delay if self.waits else None

    @property
    def waits(self) -> bool:
        """True if latency counts."""
        return self.delay is not None and self.alpha > 0

    def _ln_pair(self, statistics: ClauseStatistics, left: Sequence[int], right: Sequence[int]) -> float:
        assert self.pair is not None
        total = self.pair.one(statistics, [*left, *right])
        if self.product is not None:
            total += self.product.one(statistics, left) + self.product.one(statistics, right)
        return total

    def _ln_delay(self, statistics: ClauseStatistics, members: Sequence[int]) -> float:
        assert self.delay is not None
        return math.log(self.alpha) + self.delay.one(statistics, members)


def is_linear(tree: PositionTree) -> bool:
    """True if a tree runs as an order: one side of each join is a variable.

    Examples
    --------
    >>> is_linear((2, (0, 1))), is_linear(((0, 1), (2, 3)))
    (True, False)
    """
    while not isinstance(tree, int):
        left, right = tree
        if not isinstance(left, int) and not isinstance(right, int):
            return False
        tree = left if isinstance(right, int) else right
    return True
