"""What plans cost by the sets of variables that they join, by logarithms, of clauses whose sums compiled code takes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from cep_pipeline.planning.cost_terms import Array
from cep_pipeline.planning.set_sums import Program, SetSums

if TYPE_CHECKING:
    from cep_pipeline.planning.clause_statistics import ClauseStatistics
    from cep_pipeline.planning.costs.model import CostModel
    from cep_pipeline.planning.trees import PositionTree

Numbers: TypeAlias = "list[float] | dict[int, float]"
"""Those of sets, by their bits."""


@dataclass(frozen=True, slots=True, eq=False)
class SetTables:
    """What a cost model charges for the sets of a clause: `SetCosts` by its logarithms, at the bits of each set.

    `delay` has the weight of latency in it; `last` is the variable after which that counts.
    """

    node: Numbers
    pair: Numbers | None
    product: Numbers | None
    held: Numbers | None = None
    delay: Numbers | None = None
    last: int = 0

    def ln_own(self, left: int, right: int, *, linear: bool) -> float:
        """ln of what joining two sets as sides of a tree costs beside the node of both."""
        found = self._ln_tests(left, right)
        if self.held is not None and not linear:
            found = ln_add(ln_add(found, self.held[left]), self.held[right])
        if self.delay is not None:
            if left >> self.last & 1:
                return ln_add(found, self.delay[right])
            if right >> self.last & 1:
                return ln_add(found, self.delay[left])
        return found

    def ln_join(self, left: int, right: int, *, linear: bool) -> float:
        """ln of what joining two sets as sides of a tree costs."""
        return ln_add(self.node[left | right], self.ln_own(left, right, linear=linear))

    def ln_own_step(self, bound: int, position: int) -> float:
        """ln of what a step, that binds a variable after those of a set, costs beside the node of all of them."""
        if not bound:
            return -math.inf
        found = self._ln_tests(bound, 1 << position)
        if self.delay is not None and bound >> self.last & 1:
            return ln_add(found, self.delay[1 << position])
        return found

    def ln_step(self, bound: int, position: int) -> float:
        """ln of what such a step costs."""
        return ln_add(self.node[bound | 1 << position], self.ln_own_step(bound, position))

    def ln_nodes(self, tree: PositionTree) -> list[float]:
        """ln of what each leaf and each join of a tree costs."""
        found: list[float] = []
        self._gather(tree, found)
        return found

    def _ln_tests(self, left: int, right: int) -> float:
        if self.pair is None:
            return -math.inf
        both = 0.0 if self.product is None else self.product[left] + self.product[right]
        return self.pair[left | right] + both

    def _gather(self, tree: PositionTree, into: list[float]) -> tuple[int, bool]:
        """The set of a tree, and whether it is linear."""
        if isinstance(tree, int):
            into.append(self.node[1 << tree])
            return 1 << tree, True
        (left, left_linear), (right, right_linear) = self._gather(tree[0], into), self._gather(tree[1], into)
        alone = isinstance(tree[0], int) or isinstance(tree[1], int)
        linear = alone and left_linear and right_linear
        into.append(self.ln_join(left, right, linear=linear))
        return left | right, linear


def ln_add(one: float, other: float) -> float:
    """ln of the sum of two numbers by their logarithms.

    Examples
    --------
    >>> round(ln_add(math.log(2), math.log(3)), 12) == round(math.log(5), 12), ln_add(-math.inf, 1.0)
    (True, 1.0)
    """
    if one < other:
        one, other = other, one
    return one + math.log1p(math.exp(other - one)) if other > -math.inf else one


def set_arrays(cost: CostModel, statistics: ClauseStatistics) -> list[Array | None] | None:
    """The terms of a cost model for all sets of a clause, float64 of shape (2^n,) each, as `CostModel.terms` has them;
    None where they are not known as sums."""
    sums = None if statistics.shape is None else statistics.shape.all_sets(cost)
    if sums is None:
        return None
    sums(statistics.numbers)
    return [None if row < 0 else sums.sums[row].copy() for row in sums.program.terms.rows]


def set_tables(cost: CostModel, statistics: ClauseStatistics) -> SetTables | None:
    """The costs of all sets of a clause; None where they are not known as sums."""
    if statistics.shape is None:
        return None
    if cost not in statistics.tables:
        arrays = set_arrays(cost, statistics)
        tables = None
        if arrays is not None:
            node, pair, product, held, delay = (None if array is None else array.tolist() for array in arrays)
            assert node is not None
            tables = SetTables(node, pair, product, held, delay, statistics.last_variable)
        statistics.tables[cost] = tables
    return statistics.tables[cost]


def tables_of_some(cost: CostModel, statistics: ClauseStatistics, sets: Iterable[int]) -> SetTables | None:
    """The costs of some sets of a clause of any size, the empty one among them; None as `set_tables`."""
    terms = None if statistics.shape is None else statistics.shape.terms(cost)
    if terms is None:
        return None
    asked = sorted({0, *sets})
    sums = SetSums(Program(terms, np.array(asked, np.int64)))
    sums(statistics.numbers)
    node, pair, product, held, delay = (
        None if row < 0 else dict(zip(asked, sums.sums[row].tolist(), strict=True)) for row in sums.program.terms.rows
    )
    assert node is not None
    return SetTables(node, pair, product, held, delay, statistics.last_variable)
