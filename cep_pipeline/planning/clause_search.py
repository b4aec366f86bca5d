"""Planners of clauses of few variables by one compiled call, for whoever plans a clause again and again.

What is found is numbers in arrays: the plan as the sets that it joins, and the comparisons that decided it. Most plans
of a stream are the ones in use already, and few of their comparisons are ever read; so orders, trees and comparisons
are made where somebody asks for them. All of it is what the planner of the same name makes, to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.planning import clause_search_codes as codes
from cep_pipeline.planning import set_sums_codes
from cep_pipeline.planning.cost_terms import Array
from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.ordering import DecidingComparison, Ordering, TreeOrdering
from cep_pipeline.planning.set_sums import ClauseNumbers, ClauseShape, Program, SetSums
from cep_pipeline.planning.trees import PositionTree

KERNEL = "cep_pipeline.planning.clause_search_kernel"
_SOURCES = (
    "cep_pipeline.compiled.pointers",
    "cep_pipeline.planning.clause_search_codes",
    "cep_pipeline.planning.set_sums_codes",
    "cep_pipeline.planning.set_sums_kernel",
)
_search, _price = (NativeKernel(KERNEL, name, ("int64*",), _SOURCES) for name in ("search", "price"))
_keep = NativeKernel("cep_pipeline.planning.clause_program_kernel", "keep", ("int64*",), (KERNEL, *_SOURCES))

SEARCHED = {
    "greedy": codes.GREEDY,
    "zstream": codes.ZSTREAM,
    "zstream_ordered": codes.ZSTREAM_ORDERED,
    "dp_left_deep": codes.DP_LEFT_DEEP,
}
"""The planners that there are compiled searches of."""
_OF_TREES = (codes.ZSTREAM, codes.ZSTREAM_ORDERED)
_MEASURES = {codes.STEP: "step", codes.COST: "cost", codes.TREE: "tree"}


def load_kernel() -> None:
    """Load the compiled code, or compile it where that has not been done on this machine: it takes seconds."""
    for kernel in (_search, _price, _keep):
        kernel.compile()


def searched(shape: ClauseShape, planner: str, cost: CostModel) -> ClauseSearch | None:
    """The compiled search of a planner; None where there is none: for other planners, large clauses, costs that are no
    sums of a clause's numbers, latency, and trees where linear ones are told apart."""
    kind = SEARCHED.get(planner)
    if kind is None or cost.waits or (kind in _OF_TREES and cost.held is not None):
        return None
    of_all = shape.all_sets(cost)
    return None if of_all is None else ClauseSearch(of_all.program, kind)


class ClauseSearch:
    """Searches the plans of a clause by one planner and cost model.

    Parameters
    ----------
    program
        The sums of all sets.
    planner
        A value of `SEARCHED`.
    """

    def __init__(self, program: Program, planner: int) -> None:
        self.program, self._planner = program, planner
        self._sums = SetSums(program)
        self._words, self._found = np.zeros(codes.SEARCH_WORDS, np.int64), np.zeros(codes.FOUND_LENGTH, np.int64)
        self._logs, self._kept = np.zeros(codes.LOGS_LENGTH), np.zeros(codes.KEPT_LENGTH, np.int64)
        self._words[codes.PLANNER] = planner
        self._addresses = self._found.ctypes.data, self._logs.ctypes.data
        self._words[codes.FOUND_AT], self._words[codes.LOGS_AT] = self._addresses
        self._words[codes.KEPT_AT] = self._kept.ctypes.data
        self._address = self._words.ctypes.data
        self._functions = _search.function, _price.function, _keep.function
        self._latest: ClauseNumbers | None = None

    def __call__(self, numbers: ClauseNumbers) -> FoundClause | None:
        """What the planner finds by these numbers; None where two sides are so close that it measures them anew."""
        self._words[codes.SUMS_AT], self._latest = self._sums.take(numbers), numbers
        if self._functions[0](self._address):
            return None
        return FoundClause(self, numbers, self._found.copy(), self._logs[: codes.LN_BEST].copy())

    def prices(self, plan: FoundClause, numbers: ClauseNumbers) -> list[float]:
        """ln of what each step or node of a plan costs by these numbers."""
        if numbers is not self._latest:
            self(numbers)
        self._words[codes.PLAN_AT] = plan.rows.ctypes.data
        count = self._functions[1](self._address)
        prices: list[float] = self._logs[:count].tolist()
        return prices

    def kept(self, found: FoundClause, most: int | None) -> tuple[list[int], SetSums]:
        """The tightest comparisons of each block of what was found, by their places, and what measures them.

        Parameters
        ----------
        most
            So many a block; None: all.
        """
        words = self._words
        words[codes.FOUND_AT], words[codes.LOGS_AT] = found.rows.ctypes.data, found.logs.ctypes.data
        words[codes.KEEP] = most or 0
        count = self._functions[2](self._address)
        words[codes.FOUND_AT], words[codes.LOGS_AT] = self._addresses
        kept = self._kept
        instructions, used = int(kept[codes.INSTRUCTIONS]), int(kept[codes.USED])
        end = codes.PROGRAM_AT + instructions * set_sums_codes.COLUMNS
        program = self.program.running(
            kept[codes.PROGRAM_AT : end].reshape(-1, set_sums_codes.COLUMNS).copy(),
            kept[codes.USED_AT : codes.USED_AT + used].copy(),
        )
        sides = kept[codes.SIDES_AT : codes.SIDES_AT + 3 * count].reshape(-1, 3).copy()
        return kept[codes.SELECTED_AT : codes.SELECTED_AT + count].tolist(), SetSums(program, sides)

    @property
    def of_trees(self) -> bool:
        """Whether it searches trees."""
        return self._planner in _OF_TREES


class FoundClause:
    """A plan of a clause, and what decided it.

    Attributes
    ----------
    search, numbers
        By what it was found, and by which numbers.
    rows, logs
        As `clause_search_codes` lays them out.
    """

    def __init__(self, search: ClauseSearch, numbers: ClauseNumbers, rows: Array, logs: Array) -> None:
        self.search, self.numbers, self.rows, self.logs = search, numbers, rows, logs

    def prices(self, plan: FoundClause) -> list[float]:
        """ln of what each step or node of a plan of the same clause and planner costs by its numbers."""
        return self.search.prices(plan, self.numbers)

    @cached_property
    def plan(self) -> bytes:
        """The plan: equal for equal ones."""
        return self.rows[: codes.PLAN + 2 * codes.MOST_NODES][: 1 + 2 * int(self.rows[0])].tobytes()

    @cached_property
    def ordering(self) -> Ordering | TreeOrdering:
        """What the planner returns."""
        if self.search.of_trees:
            return TreeOrdering(self.tree, self.comparisons)
        return Ordering(self.order, self.comparisons)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The order, or the leaves from left to right."""
        return tuple(self.rows[codes.ORDER : codes.ORDER + self.search.program.terms.shape.size].tolist())

    @property
    def tree(self) -> PositionTree:
        """The tree."""
        return self._tree(0, len(self.order) - 1)

    @cached_property
    def comparisons(self) -> tuple[DecidingComparison, ...]:
        """All comparisons that decided it."""
        return tuple(map(self.comparison, range(int(self.rows[codes.COMPARED]))))

    def comparison(self, place: int) -> DecidingComparison:
        """One of them."""
        at = codes.ROWS + place * codes.ROW
        measure, block, where, chosen, rejected, wins_ties = self.rows[at : at + codes.ROW].tolist()
        logs = codes.LN_SIDES + 2 * place
        ln_chosen, ln_rejected = self.logs[logs : logs + 2].tolist()
        one, other = (self._side(measure, block, where, which) for which in (chosen, rejected))
        return DecidingComparison(block, _MEASURES[measure], one, other, ln_chosen, ln_rejected, bool(wins_ties))

    def _side(self, measure: int, block: int, where: int, which: int) -> tuple[int, ...] | PositionTree:
        if measure == codes.STEP:
            return (*self.order[:block], which)
        if measure == codes.COST:
            return (*self._order_of(where ^ 1 << which), which)
        first, last = divmod(where, codes.MOST)
        return self._tree(first, which), self._tree(which + 1, last)

    def _order_of(self, members: int) -> Sequence[int]:
        """The best order of a set."""
        found: list[int] = []
        while members:
            found.append(int(self.rows[codes.TABLE + members]))
            members ^= 1 << found[-1]
        return found[::-1]

    def _tree(self, first: int, last: int) -> PositionTree:
        """The best tree of a range of leaves."""
        if first == last:
            return self.order[first]
        middle = int(self.rows[codes.TABLE + first * codes.MOST + last])
        return self._tree(first, middle), self._tree(middle + 1, last)
