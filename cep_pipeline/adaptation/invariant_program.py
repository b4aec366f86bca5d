"""Invariants of a clause as a program over the sums of its sets: what `Measures` and `is_violated` say, by one call.

The chosen sides of a plan's comparisons are made of each other, and the rejected ones of much the same parts. So each
join or step is one instruction, and the program of a plan has a few instructions a comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from cep_pipeline.planning import set_sums_codes as codes
from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.ordering import DecidingComparison, Side
from cep_pipeline.planning.set_sums import ClauseShape, Program, SetSums
from cep_pipeline.planning.trees import PositionTree


def compiled(shape: ClauseShape, cost: CostModel, comparisons: Sequence[DecidingComparison]) -> SetSums | None:
    """The sums that comparisons ask for, with their program; None where the cost is no sum of a clause's numbers."""
    terms = shape.terms(cost)
    if terms is None:
        return None

    def made() -> tuple[Program, dict[tuple[str, Side], int]]:
        instructions = _Instructions(cost)
        places = {side: instructions.side(*side) for one in comparisons for side in _sides(one)}
        rows = np.array(instructions.rows, np.int64).reshape(-1, codes.COLUMNS)
        return Program(terms, np.array(list(instructions.sets), np.int64), rows), places

    # The comparisons of a plan come in the order of their margins, which is another one each time.
    key = cost, frozenset((one.measure, one.chosen, one.rejected) for one in comparisons)
    program, places = shape.known(key, made)
    sides = [(*(places[side] for side in _sides(one)), one.wins_ties) for one in comparisons]
    return SetSums(program, np.array(sides, np.int64).reshape(-1, 3))


def _sides(comparison: DecidingComparison) -> tuple[tuple[str, Side], tuple[str, Side]]:
    return (comparison.measure, comparison.chosen), (comparison.measure, comparison.rejected)


class _Instructions:
    """Instructions as they are asked for, each once."""

    def __init__(self, cost: CostModel) -> None:
        self.rows: list[tuple[int, ...]] = []
        self.sets: dict[int, int] = {0: 0}
        self._known: dict[tuple[object, ...], int] = {}
        _, pair, _, held, delay = cost.terms
        tests = codes.CHARGES_PAIR if pair is not None else 0
        self._step = tests | (codes.CHARGES_STEP_DELAY if delay is not None else 0)
        self._linear_join = tests | (codes.CHARGES_JOIN_DELAY if delay is not None else 0)
        self._join = self._linear_join | (codes.CHARGES_HELD if held is not None else 0)

    def side(self, measure: str, side: Side) -> int:
        """The register of one side of a comparison."""
        if measure == "tree":
            return self._tree(cast(PositionTree, side), node=0)[0]
        order = cast(tuple[int, ...], side)
        if measure == "instances":
            return self._add(0, 0, order[-1], codes.IS_NUMBER, -1, -1)
        if measure == "step":
            return self._last_step(order, codes.CHARGES_NODE, -1)
        return self._last_step(order, 0, self._order(order[:-1]))

    def _order(self, order: Sequence[int]) -> int:
        """The register of what an order costs; -1 of none."""
        if not order:
            return -1
        key = ("order", *order)
        if key not in self._known:
            self._known[key] = self._last_step(order, codes.CHARGES_NODE, self._order(order[:-1]))
        return self._known[key]

    def _last_step(self, order: Sequence[int], node: int, before: int) -> int:
        bound = 0
        for position in order[:-1]:
            bound |= 1 << position
        return self._join_step(bound, order[-1], node, before)

    def _join_step(self, bound: int, position: int, node: int, before: int) -> int:
        own = 1 << position
        return self._add(bound | own, bound, own, node | (self._step if bound else 0), before, -1)

    def _tree(self, tree: PositionTree, node: int = codes.CHARGES_NODE) -> tuple[int, int, bool]:
        """The register of a tree without its leaves, -1 of a leaf; its set; and whether it is linear."""
        if isinstance(tree, int):
            return -1, 1 << tree, True
        key = (tree, node)
        left, left_set, left_linear = self._tree(tree[0])
        right, right_set, right_linear = self._tree(tree[1])
        linear = left_linear and right_linear and (left < 0 or right < 0)
        if key not in self._known:
            flags = node | (self._linear_join if linear else self._join)
            self._known[key] = self._add(left_set | right_set, left_set, right_set, flags, left, right)
        return self._known[key], left_set | right_set, linear

    def _add(self, whole: int, left: int, right: int, flags: int, one: int, other: int) -> int:
        if not flags & codes.IS_NUMBER:
            whole, left, right = (self.sets.setdefault(members, len(self.sets)) for members in (whole, left, right))
        row = (whole, left, right, flags, one, other)
        if row not in self._known:
            self._known[row] = len(self.rows)
            self.rows.append(row)
        return self._known[row]
