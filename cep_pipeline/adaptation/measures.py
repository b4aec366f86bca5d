"""What the sides of comparisons measure on fresh statistics: each sum is taken once a check and shared by all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from cep_pipeline.planning.cardinality import mask_of
from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.comparisons import NOTHING
from cep_pipeline.planning.costs import CostModel, SetTerm, is_linear
from cep_pipeline.planning.ln_tables import ln_add, set_tables, tables_of_some
from cep_pipeline.planning.logarithms import ln_sum
from cep_pipeline.planning.many_orders import ln_steps
from cep_pipeline.planning.ordering import DecidingComparison, Side
from cep_pipeline.planning.trees import PositionTree


class Measures:
    """The measures of a clause's orders and trees, as `comparisons.ln_measure`, on one set of statistics.

    Notes
    -----
    The chosen sides of a plan's comparisons are made of each other, and the rejected ones of much the same parts. So
    a check of k comparisons a block takes the cost of each join or step once, and a few sums a comparison.
    """

    def __init__(self, statistics: ClauseStatistics, cost: CostModel) -> None:
        self.statistics = statistics
        self._model = cost
        self._cost = replace(cost, node=_remembered(cost.node))
        self._bare = replace(self._cost, node=NOTHING)
        self._steps: dict[tuple[int, int], float] = {}
        self._orders: dict[tuple[int, ...], float] = {}
        self._trees: dict[PositionTree, float] = {}
        self._sets: dict[PositionTree, int] = {}
        self._tables = set_tables(cost, statistics)

    def prepare(self, comparisons: Sequence[DecidingComparison]) -> None:
        """Measure all sets, or steps, of these comparisons at once, by the very sums that planners take."""
        if self._tables is None:
            asked = [side for one in comparisons for side in (one.chosen, one.rejected)]
            self._tables = tables_of_some(self._model, self.statistics, {s for side in asked for s in _sets_of(side)})
        if self._tables is not None:
            return
        sides = [side for one in comparisons if one.measure == "step" for side in (one.chosen, one.rejected)]
        wanted = {_step_of(cast(tuple[int, ...], side)) for side in sides} - self._steps.keys()
        if not wanted:
            return
        steps = sorted(wanted)
        places = np.arange(self.statistics.size)
        earlier = np.array([[bound >> int(place) & 1 for place in places] for bound, _ in steps], dtype=bool)
        found = ln_steps(self._model, self.statistics, earlier, np.array([added for _, added in steps])).tolist()
        self._steps.update(zip(steps, found, strict=True))

    def of(self, measure: str, side: Side) -> float:
        """Natural logarithm of one side of a comparison, by a key of `ordering.MEASURES`."""
        if measure == "tree":
            return self._below(cast(PositionTree, side))
        order = cast(tuple[int, ...], side)
        if measure == "instances":
            return self.statistics.ln_instances[order[-1]]
        return self._step(order) if measure == "step" else self._before(order)

    def with_frozen(self, measure: str, side: Side, ln_constant: float) -> float:
        """The same where what `ln_frozen_part` covers is a constant."""
        if measure == "tree":
            left, right = cast("tuple[PositionTree, PositionTree]", side)
            roots = [self._node(part) for part in (left, right) if not isinstance(part, int)]
            return ln_sum((ln_constant, self._bare.ln_join(self.statistics, left, right), *roots))
        if measure == "cost":
            order = cast(tuple[int, ...], side)
            root = self._cost.node.one(self.statistics, order[:-1])
            return ln_sum((ln_constant, self._bare.ln_step(self.statistics, order), root))
        return self.of(measure, side)

    def ln_frozen_part(self, measure: str, side: Side) -> float:
        """ln of what the sub-plans of a side cost below their roots; minus infinity where it has none."""
        if measure == "tree":
            return ln_sum(self._below(part) for part in cast("tuple[PositionTree, PositionTree]", side))
        return self._before(cast(tuple[int, ...], side)[:-1]) if measure == "cost" else float("-inf")

    def _step(self, beginning: tuple[int, ...]) -> float:
        key = _step_of(beginning)
        if self._tables is not None:
            return self._tables.ln_step(*key)
        if key not in self._steps:
            self.prepare((DecidingComparison(0, "step", beginning, beginning, 0.0, 0.0),))
        return self._steps[key]

    def _before(self, beginning: tuple[int, ...]) -> float:
        if self._tables is not None:
            own = self._tables.ln_own_step(*_step_of(beginning))
        else:
            own = self._bare.ln_step(self.statistics, beginning)
        return ln_add(own, self._order(beginning[:-1]))

    def _order(self, order: tuple[int, ...]) -> float:
        if not order:
            return float("-inf")
        if order not in self._orders:
            if self._tables is not None:
                last = self._tables.ln_step(*_step_of(order))
            else:
                last = self._cost.ln_step(self.statistics, order)
            self._orders[order] = ln_add(last, self._order(order[:-1]))
        return self._orders[order]

    def _below(self, tree: PositionTree) -> float:
        if isinstance(tree, int):
            return float("-inf")
        left, right = tree
        if self._tables is not None:
            own = self._tables.ln_own(self._set(left), self._set(right), linear=is_linear(tree))
        else:
            own = self._bare.ln_join(self.statistics, left, right)
        return ln_add(ln_add(own, self._joins(left)), self._joins(right))

    def _joins(self, tree: PositionTree) -> float:
        if isinstance(tree, int):
            return float("-inf")
        if tree not in self._trees:
            left, right = tree
            if self._tables is not None:
                own = self._tables.ln_join(self._set(left), self._set(right), linear=is_linear(tree))
            else:
                own = self._cost.ln_join(self.statistics, left, right)
            self._trees[tree] = ln_add(ln_add(own, self._joins(left)), self._joins(right))
        return self._trees[tree]

    def _set(self, tree: PositionTree) -> int:
        if isinstance(tree, int):
            return 1 << tree
        if tree not in self._sets:
            self._sets[tree] = self._set(tree[0]) | self._set(tree[1])
        return self._sets[tree]

    def _node(self, tree: PositionTree) -> float:
        return self._cost.node.one(self.statistics, _positions(tree))


def _step_of(beginning: tuple[int, ...]) -> tuple[int, int]:
    return mask_of(beginning[:-1]), beginning[-1]


def _sets_of(side: Side) -> Iterator[int]:
    """The sets that a beginning of an order, or a tree, is made of."""
    if isinstance(side, int):
        yield 1 << side
    elif len(side) == 2 and not all(isinstance(part, int) for part in side):
        for part in side:
            yield from _sets_of(part)
        yield mask_of(_positions(cast(PositionTree, side)))
    else:
        bound = 0
        for position in cast("tuple[int, ...]", side):
            yield 1 << position
            yield (bound := bound | 1 << position)


def _positions(tree: PositionTree) -> tuple[int, ...]:
    return (tree,) if isinstance(tree, int) else (*_positions(tree[0]), *_positions(tree[1]))


def _remembered(term: SetTerm) -> SetTerm:
    known: dict[int, float] = {}

    def one(statistics: ClauseStatistics, positions: Sequence[int]) -> float:
        members = mask_of(positions)
        if members not in known:
            known[members] = term.one(statistics, positions)
        return known[members]

    return replace(term, one=one)
