"""The costs of all sets of a small clause at once: sums of its numbers, whose terms are known before the numbers are.

ln PM(S) is a sum of logarithms: of the instances of the variables of S, of the selectivities of the conditions within
S, and of the share in order. Which of them are in the sum of which set follows from the clause alone. Whoever plans a
clause again and again, or verifies the invariants of its plan, writes that down once, as the rows of a matrix; then the
numbers of a snapshot give the cost of every set by one product, in microseconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from cep_pipeline.planning.clause_statistics import ClauseStatistics
    from cep_pipeline.planning.costs.model import CostModel
    from cep_pipeline.planning.trees import PositionTree

Array = np.ndarray[Any, Any]
Form = tuple[Array, Array]
"""A number of every set: the matrix, float64 of shape (2^n, numbers), and what is added, float64 of shape (2^n,)."""

MOST_VARIABLES = 8
"""Clauses of more variables are searched as they are: there are 2^n sets."""


@dataclass(frozen=True, eq=False)
class SetForms:
    """Which numbers of a clause are in the sums of its sets.

    The numbers are ln instances of the variables, then ln selectivities of the conditions. Set m has the positions of
    the bits of m.

    Attributes
    ----------
    partial_matches
        ln PM.
    candidates
        ln PM without the conditions that have to be tested.
    passing
        The sum of those alone.
    sizes
        float64, shape (2^n,): ln of the number of variables; of no variable 0.
    """

    partial_matches: Form
    candidates: Form
    passing: Form
    sizes: Array
    _of_costs: dict[CostModel, tuple[Form | None, ...] | None] = field(default_factory=dict, init=False)

    @classmethod
    def of(
        cls,
        size: int,
        conditions: Sequence[tuple[tuple[int, ...], bool]],
        sequences: Sequence[Sequence[Sequence[int]]],
    ) -> SetForms | None:
        """Those of a clause by the positions of its conditions, and whether each asks to be equal; None: too large."""
        if size > MOST_VARIABLES:
            return None
        sets = np.arange(1 << size)
        having = (sets[:, None] >> np.arange(size) & 1).astype(np.float64)
        within = np.ones((len(sets), len(conditions)))
        for place, (positions, _) in enumerate(conditions):
            within[:, place] = having[:, list(positions)].all(axis=1)
        tested = np.array([not equality for _, equality in conditions], dtype=np.float64)
        ln_factorial = np.array([math.lgamma(count + 1) for count in range(size + 1)])
        order = np.zeros(len(sets))
        for groups in sequences:
            counts = [having[:, list(group)].sum(axis=1).astype(np.int64) for group in groups]
            order += sum(ln_factorial[count] for count in counts) - ln_factorial[sum(counts)]
        nothing = np.zeros_like(having)
        return cls(
            (np.hstack((having, within)), order),
            (np.hstack((having, within * (1 - tested))), order),
            (np.hstack((nothing, within * tested)), np.zeros(len(sets))),
            np.log(np.maximum(having.sum(axis=1), 1.0)),
        )

    def of_cost(self, cost: CostModel) -> tuple[Form | None, ...] | None:
        """Those of a cost model's node, pair and product; None where one of them is no such sum."""
        if cost not in self._of_costs:
            terms = (cost.node, cost.pair, cost.product)
            linear = all(term is None or term.form is not None for term in terms)
            found = tuple(None if term is None or term.form is None else term.form(self) for term in terms)
            self._of_costs[cost] = found if linear else None
        return self._of_costs[cost]

    def grown(self, form: Form, factor: float) -> Form:
        """With ln(factor k) added, of sets of k variables."""
        return form[0], form[1] + self.sizes + math.log(factor)


@dataclass(frozen=True, slots=True, eq=False)
class SetTables:
    """What a cost model charges for the sets of a clause: `SetCosts` by its logarithms, at the bits of each set."""

    node: list[float]
    pair: list[float] | None
    product: list[float] | None

    def ln_own(self, left: int, right: int) -> float:
        """ln of what joining two sets costs beside the node of both."""
        if self.pair is None:
            return -math.inf
        both = 0.0 if self.product is None else self.product[left] + self.product[right]
        return self.pair[left | right] + both

    def ln_join(self, left: int, right: int) -> float:
        """ln of what joining two sets costs."""
        return ln_add(self.node[left | right], self.ln_own(left, right))

    def ln_step(self, bound: int, position: int) -> float:
        """ln of what a step costs that binds a variable after those of a set."""
        return self.ln_join(bound, 1 << position) if bound else self.node[1 << position]

    def ln_nodes(self, tree: PositionTree) -> list[float]:
        """ln of what each leaf and each join of a tree costs."""
        found: list[float] = []
        self._gather(tree, found)
        return found

    def _gather(self, tree: PositionTree, into: list[float]) -> int:
        if isinstance(tree, int):
            into.append(self.node[1 << tree])
            return 1 << tree
        left, right = self._gather(tree[0], into), self._gather(tree[1], into)
        into.append(self.ln_join(left, right))
        return left | right


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


def set_tables(cost: CostModel, statistics: ClauseStatistics) -> SetTables | None:
    """The costs of all sets of a clause; None where they are not sums that were written down before."""
    forms = statistics.forms
    if forms is None or cost.held is not None or cost.waits:
        return None
    if cost not in statistics.tables:
        found = forms.of_cost(cost)
        tables = None
        if found is not None:
            numbers = np.array((*statistics.ln_instances, *(one.ln_selectivity for one in statistics.conditions)))
            node, pair, product = (None if form is None else _sums(form, numbers) for form in found)
            assert node is not None
            tables = SetTables(node, pair, product)
        statistics.tables[cost] = tables
    return statistics.tables[cost]


def _sums(form: Form, numbers: Array) -> list[float]:
    # einsum, and no matrix product, which may start threads.
    sums: list[float] = (np.einsum("ij,j->i", form[0], numbers) + form[1]).tolist()
    return sums
