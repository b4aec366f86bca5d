"""Programs that measure both sides of all comparisons of many clauses: one call of compiled code for each clause.

`orderings.ln_measure` defines what a side measures. Here the same sums are written once as instructions of
`set_sums_kernel.measure`. A plan of a thousand patterns has thousands of
comparisons, and each new snapshot measures all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from threading import Lock
from typing import Any, cast

import numpy as np

from cep_pipeline.planning.numbers.clause_questions import ClauseQuestions
from cep_pipeline.planning.numbers.clause_statistics import mask_of
from cep_pipeline.planning.numbers.logarithms import ln_sum
from cep_pipeline.planning.orderings import GRAIN, DecidingComparison, Side, positions_of
from cep_pipeline.planning.search import set_sums_codes as codes
from cep_pipeline.planning.search.sums import CostTerms, SetSums
from cep_pipeline.planning.trees import PositionTree
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

Array = np.ndarray[Any, Any]

_NONE = -1
"""The register of a side that is not there: its cost is nothing."""


class SideWriter:
    """Writes instructions that measure sides of comparisons of one clause; equal parts are measured once.

    Attributes
    ----------
    rows
        The instructions as `set_sums_codes` has them, with sets of variables by their bits in place of their places.
    sums
        Sides that are more than one register: registers that are added, ln of the share of parts that are given, and
        the registers of these parts.
    """

    def __init__(self, terms: CostTerms) -> None:
        _, pair, _, held, delay, *_ = terms.rows
        tests = codes.CHARGES_PAIR if pair >= 0 else 0
        self._held = codes.CHARGES_HELD if held >= 0 else 0
        self._step = tests | (codes.CHARGES_STEP_DELAY if delay >= 0 else 0)
        self._join = tests | (codes.CHARGES_JOIN_DELAY if delay >= 0 else 0)
        self._known: dict[object, int] = {}
        self._shapes: dict[PositionTree, tuple[int, bool]] = {}
        self.rows: list[tuple[int, ...]] = []
        self.sums: list[tuple[list[int], float, list[int]]] = []

    def side(self, measure: str, side: Side, given: Sequence[Side], share: float) -> int:
        """The register of a side; below -1 the place of one of `sums`, counted from -2 down."""
        if given:
            self.sums.append(self._beside(measure, side, given, share))
            return -1 - len(self.sums)
        key = measure, side
        register = self._known.get(key)
        if register is None:
            register = self._known[key] = self._alone(measure, side)
        return register

    def _alone(self, measure: str, side: Side) -> int:
        if measure == "tree":
            left, right = tree = cast("tuple[PositionTree, PositionTree]", side)
            return self._write(*self._own(tree), self._joins(left), self._joins(right))
        order = cast(tuple[int, ...], side)
        if measure == "instances":
            return self._write(0, order[-1], codes.IS_NUMBER)
        if measure == "step":
            return self._whole_step(order)
        return self._write(*self._bound(order), self._own_step(order), self._order(order[:-1]))

    def _beside(
        self, measure: str, side: Side, given: Sequence[Side], share: float
    ) -> tuple[list[int], float, list[int]]:
        if measure == "tree":
            left, right = tree = cast("tuple[PositionTree, PositionTree]", side)
            added = [self._write(*self._own(tree)), self._joins(left, given), self._joins(right, given)]
            parts = [self._joins(cast(PositionTree, part)) for part in given] if share else []
        else:
            order, begin = cast(tuple[int, ...], side), len(positions_of(given[0]))
            steps = (self._whole_step(order[:length]) for length in range(begin + 1, len(order)))
            added = [self._write(*self._bound(order), self._own_step(order)), *steps]
            parts = [self._order(cast(tuple[int, ...], part)) for part in given] if share else []
        return added, math.log(share) if share else 0.0, parts

    def _write(self, left: int, right: int, flags: int, one: int = _NONE, other: int = _NONE) -> int:
        row = (left if flags & codes.IS_NUMBER else left | right, left, right, flags, one, other)
        register = self._known.get(row)
        if register is None:
            register = self._known[row] = len(self.rows)
            self.rows.append(row)
        return register

    def _bound(self, beginning: tuple[int, ...]) -> tuple[int, int]:
        return mask_of(beginning[:-1]), 1 << beginning[-1]

    def _own_step(self, beginning: tuple[int, ...]) -> int:
        return self._step if len(beginning) > 1 else 0

    def _whole_step(self, beginning: tuple[int, ...]) -> int:
        return self._write(*self._bound(beginning), codes.CHARGES_NODE | self._own_step(beginning))

    def _order(self, order: tuple[int, ...]) -> int:
        register = _NONE
        for length in range(1, len(order) + 1):
            beginning = order[:length]
            flags = codes.CHARGES_NODE | self._own_step(beginning)
            register = self._write(*self._bound(beginning), flags, register)
        return register

    def _own(self, tree: tuple[PositionTree, PositionTree], node: int = 0) -> tuple[int, int, int]:
        """The two sets that a tree joins, and what is charged for it."""
        linear = self._shape(tree)[1]
        return self._shape(tree[0])[0], self._shape(tree[1])[0], node | self._join | (0 if linear else self._held)

    def _joins(self, tree: PositionTree, given: Sequence[Side] = ()) -> int:
        if isinstance(tree, int) or tree in given:
            return _NONE
        key = ("joins", tree, tuple(given))
        register = self._known.get(key)
        if register is None:
            below = self._joins(tree[0], given), self._joins(tree[1], given)
            register = self._known[key] = self._write(*self._own(tree, codes.CHARGES_NODE), *below)
        return register

    def _shape(self, tree: PositionTree) -> tuple[int, bool]:
        """The variables of a tree, and whether it runs as an order (`costs.is_linear`)."""
        if isinstance(tree, int):
            return 1 << tree, True
        found = self._shapes.get(tree)
        if found is None:
            (left, left_runs), (right, right_runs) = self._shape(tree[0]), self._shape(tree[1])
            runs = left_runs and right_runs and (isinstance(tree[0], int) or isinstance(tree[1], int))
            found = self._shapes[tree] = left | right, runs
        return found


class _ClauseSides(SetSums):
    """The sums of the sets in instructions, and the registers that the instructions fill."""

    def __init__(self, terms: CostTerms, rows: Sequence[tuple[int, ...]], registers: Array, begin: int) -> None:
        self.begin = begin
        self.instructions = np.array(rows, np.int64)
        sets = self.instructions[:, : codes.RIGHT + 1]
        numbers = (self.instructions[:, codes.FLAGS] & codes.IS_NUMBER) > 0
        used, places = np.unique(np.where(numbers[:, None], 0, sets), return_inverse=True)
        kept = self.instructions[:, codes.RIGHT].copy()
        self.instructions[:, : codes.RIGHT + 1] = places.reshape(sets.shape)
        self.instructions[numbers, codes.RIGHT] = kept[numbers]
        super().__init__(terms, used)
        self._words[codes.INSTRUCTIONS] = len(rows)
        self._words[codes.PROGRAM] = self.instructions.ctypes.data
        self._words[codes.REGISTERS] = registers.ctypes.data + 8 * begin

    def packed(self, put: Callable[[Array], int]) -> Array:
        """The argument words with places in bytes for addresses; that of the registers counts from where they begin."""
        words = super().packed(put)
        words[codes.INSTRUCTIONS], words[codes.PROGRAM] = len(self.instructions), put(self.instructions)
        words[codes.REGISTERS] = 8 * self.begin
        return words


class SidePrograms:
    """The programs of the comparisons of some clauses, for one snapshot after another.

    Parameters
    ----------
    clauses
        What is asked of snapshots about each clause, and its cost terms.
    comparisons
        The comparisons in their order, each with the place of its clause.
    """

    def __init__(
        self,
        clauses: Sequence[tuple[ClauseQuestions, CostTerms]],
        comparisons: Sequence[tuple[int, DecidingComparison]],
    ) -> None:
        writers = [SideWriter(terms) for _, terms in clauses]
        sides = [(place, writers[place].side(one.measure, *side)) for place, one in comparisons for side in one.sides]
        begins = [*accumulate((len(writer.rows) for writer in writers), initial=0)]
        sums_begin = [*accumulate((len(writer.sums) for writer in writers), initial=begins[-1])]
        self.registers = np.full(sums_begin[-1] + 1, -np.inf)
        """Results of the instructions of each clause, then of its sums; the last one stands for what is not there."""
        self.programs = [
            (questions, _ClauseSides(terms, writer.rows, self.registers, begin))
            for (questions, terms), writer, begin in zip(clauses, writers, begins[:-1], strict=True)
        ]
        self.sums = [
            (_registers(added, begin), _registers(parts, begin), ln_share)
            for begin, writer in zip(begins[:-1], writers, strict=True)
            for added, ln_share, parts in writer.sums
        ]
        """For each sum: the registers that it adds, the parts that are given, and ln of the share of these."""
        found = [(sums_begin[place] - 2 - side) if side < _NONE else begins[place] + side for place, side in sides]
        self.sides: Array = np.array(found, np.int64).reshape(-1, 2)
        self.wins_ties: Array = np.array([one.wins_ties for _, one in comparisons], bool)
        self._alone = Lock()

    def measured(self, snapshot: StatisticsSnapshot) -> Array:
        """Natural logarithms of the chosen and the rejected side of each comparison, float64 of shape (n, 2).

        Raises
        ------
        PlanError
            The snapshot does not know a leaf.
        """
        registers = self.registers
        with self._alone:  # pages are made by threads, and all of them fill the same registers
            self._run(snapshot)
            numbers, sums = registers.tolist(), list[float]()
            for added, parts, ln_share in self.sums:
                own = ln_sum([numbers[one] for one in added])
                sums.append(ln_sum((own, *(ln_share + numbers[part] for part in parts))) if parts else own)
            registers[len(registers) - 1 - len(sums) : -1] = sums
            return np.asarray(registers[self.sides])

    def _run(self, snapshot: StatisticsSnapshot) -> None:
        """Fill the registers of the instructions."""
        for questions, sides in self.programs:
            sides(questions.asked(snapshot).numbers)

    def violated(self, sides: Array, ln_distances: Array) -> Array:
        """Return for each comparison whether it is violated, as `verification.is_violated`, by its ln (1 + d)."""
        left, right = (np.rint(side / GRAIN) for side in (sides[:, 0], sides[:, 1] + ln_distances))
        return np.asarray((left > right) | ((left == right) & (ln_distances == 0.0) & ~self.wins_ties))


def _registers(some: Sequence[int], begin: int) -> list[int]:
    """Registers of a clause among those of all; the last one of all for what is not there."""
    return [_NONE if one == _NONE else begin + one for one in some]
