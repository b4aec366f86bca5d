"""The compiled tier: a planner's whole search of a clause of few variables as one compiled call.

The result is numbers in arrays: the plan as the sets that it joins, and the comparisons that decided it. Most plans of
a stream are the ones in use already, and few of their comparisons are ever read. So orders, trees and comparisons are
made as Python objects only when somebody asks for them. They are those of the planner of the same name.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.numbers.clause_questions import ClauseQuestions
from cep_pipeline.planning.numbers.clause_statistics import ClauseNumbers, ClauseShape
from cep_pipeline.planning.orderings import DecidingComparison, Ordering, TreeOrdering
from cep_pipeline.planning.search import clause_search_codes as codes
from cep_pipeline.planning.search.sums import Array, SetSums, SumProgram, sums_of_all
from cep_pipeline.planning.trees import OrderOrTree, PositionTree, named_join
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

KERNEL = "cep_pipeline.planning.search.clause_search_kernel"
_SOURCES = (
    "cep_pipeline.compiled.pointers",
    "cep_pipeline.planning.search.clause_search_codes",
    "cep_pipeline.planning.search.set_sums_codes",
    "cep_pipeline.planning.search.set_sums_kernel",
)
_search, _price = (NativeKernel(KERNEL, name, ("int64*",), _SOURCES) for name in ("search", "price"))
_PROGRAM_KERNEL = "cep_pipeline.planning.search.clause_program_kernel"
_keep = NativeKernel(_PROGRAM_KERNEL, "keep", ("int64*",), (KERNEL, *_SOURCES))
_check = NativeKernel(_PROGRAM_KERNEL, "check", ("int64*", "int64*"), (KERNEL, *_SOURCES))

SEARCHED = {
    "greedy": codes.GREEDY,
    "zstream": codes.ZSTREAM,
    "zstream_ordered": codes.ZSTREAM_ORDERED,
    "dp_left_deep": codes.DP_LEFT_DEEP,
}
"""The planners that there are compiled searches of."""
_OF_TREES = (codes.ZSTREAM, codes.ZSTREAM_ORDERED)
Known: TypeAlias = "ClauseNumbers | StatisticsSnapshot"
"""The numbers of a clause, or the snapshot that has them."""
_MEASURES = {codes.STEP: "step", codes.COST: "cost", codes.TREE: "tree"}


def load_searches() -> None:
    """Load the compiled searches, or compile them where that has not been done on this machine: it takes seconds."""
    for kernel in (_search, _price):
        kernel.compile()


def load_checks() -> None:
    """Load the compiled checks of comparisons that searches have found, or compile them."""
    for kernel in (_keep, _check):
        kernel.compile()


def searched(
    shape: ClauseShape, planner: str, cost: CostModel, questions: ClauseQuestions | None = None
) -> ClauseSearch | None:
    """The compiled search of a planner; None where there is none.

    There is none for other planners, large clauses, costs that are no sums of a clause's numbers, latency, and trees
    where linear ones are told apart.

    Parameters
    ----------
    questions
        What snapshots are asked about the clause, where it is searched by snapshots.
    """
    kind = SEARCHED.get(planner)
    if kind is None or cost.waits or (kind in _OF_TREES and cost.held is not None):
        return None
    of_all = sums_of_all(shape, cost)
    return None if of_all is None else ClauseSearch(of_all.program, kind, questions)


class ClauseSearch:
    """Searches the plans of a clause by one planner and cost model.

    Parameters
    ----------
    program
        The sums of all sets.
    planner
        A value of `SEARCHED`.
    questions
        What snapshots are asked about the clause; None where it is searched by numbers.
    """

    def __init__(self, program: SumProgram, planner: int, questions: ClauseQuestions | None = None) -> None:
        self.size, self._planner = program.terms.shape.size, planner
        self._sums = SetSums(program)
        self._words = np.zeros(codes.SEARCH_WORDS, np.int64)
        self._room = np.zeros(codes.FOUND_LENGTH + codes.LOGS_LENGTH, np.int64)
        self._logs = self._room[codes.FOUND_LENGTH :].view(np.float64)
        self._bytes = memoryview(self._room.data).cast("B")
        # A plan is priced where it is put: in the first rows of room for another one.
        self._other = np.zeros(codes.COMPARED, np.int64)
        self.plan_bytes = 8 * (codes.PLAN + 2 * (2 * self.size - 1 if self.of_trees else self.size))
        address = self._room.ctypes.data
        self._words[codes.PLANNER] = planner
        self._words[codes.FOUND_AT], self._words[codes.LOGS_AT] = address, address + codes.FOUND_BYTES
        self._words[codes.PLAN_AT] = self._other.ctypes.data
        self._words[codes.SUMS_AT] = self._sums.address
        self._address = self._words.ctypes.data
        self._functions = _search.function, _price.function
        self._latest: Known | None = None
        self._questions, self._row = questions, None if questions is None else questions.row
        self._window = np.array([0.0 if questions is None else questions.window_us])
        self._words[codes.WINDOW_AT] = self._window.ctypes.data
        self._holds: ClauseSearchResult | None = None

    def take(self, numbers: Known) -> int:
        """Load numbers unless they are loaded already. Returns the address of the kernel's argument words.

        Raises
        ------
        PlanError
            The snapshot does not know one of the leaves.
        """
        if numbers is not self._latest:
            if isinstance(numbers, ClauseNumbers):
                self._take(numbers)
            else:
                self._read(numbers)
            self._latest = numbers
        return self._address

    def _take(self, numbers: ClauseNumbers) -> None:
        self._sums.take(numbers)
        self._words[codes.GATHERS] = 0

    def _read(self, snapshot: StatisticsSnapshot) -> None:
        row, questions = self._row, self._questions
        assert questions is not None
        if row is None or not questions.fills(snapshot):
            self._take(questions.asked(snapshot).numbers)
            return
        try:
            moved = row.take(snapshot)
        except KeyError:
            self._take(questions.asked(snapshot).numbers)  # says which leaf is not known
            return
        if moved:
            self._words[codes.ROW_AT], self._words[codes.PLACES_AT] = row.room.ctypes.data, row.places.ctypes.data
            self._words[codes.PRIORS_AT] = row.priors.ctypes.data
        if not self._words[codes.GATHERS]:
            self._sums.take_row(questions.last)
            self._words[codes.GATHERS] = 1

    def __call__(self, numbers: Known) -> ClauseSearchResult | None:
        """The planner's result for these numbers; None where two sides are too close to tell without measuring anew."""
        self.take(numbers)
        self._holds = None
        if self._functions[0](self._address):
            return None
        self._holds = ClauseSearchResult(self, numbers, bytes(self._bytes[: codes.FOUND_BYTES + 8 * codes.LN_BEST]))
        return self._holds

    def prices(self, plan: ClauseSearchResult, found: ClauseSearchResult) -> list[float]:
        """ln of what each step or node of a plan costs by the numbers that another one was found by."""
        if found is not self._holds or found.numbers is not self._latest:
            self(found.numbers)
        self._other[: self.plan_bytes // 8] = np.frombuffer(plan.plan, np.int64)
        count = self._functions[1](self._address)
        prices: list[float] = self._logs[:count].tolist()
        return prices

    def kept(self, found: ClauseSearchResult, most: int | None) -> KeptComparisons:
        """The tightest comparisons of each block of what was found, and the program that measures them.

        Parameters
        ----------
        most
            So many a block; None: all.
        """
        if found is not self._holds:
            self._bytes[: len(found.data)] = found.data
            self._holds = None
        kept = np.empty(codes.KEPT_LENGTH, np.int64)
        self._words[codes.KEPT_AT] = address = kept.ctypes.data
        self._words[codes.KEEP] = most or 0
        return KeptComparisons(found, kept, address, _keep.function(self._address))

    @property
    def of_trees(self) -> bool:
        """True if it searches trees."""
        return self._planner in _OF_TREES


class KeptComparisons:
    """Some of the comparisons that decided a plan, and the program that measures them.

    Attributes
    ----------
    found, count
        By what they were found, and how many there are.
    """

    def __init__(self, found: ClauseSearchResult, kept: Array, address: int, count: int) -> None:
        self.found, self.count = found, count
        self._kept, self._address, self._take, self._function = kept, address, found.search.take, _check.function

    def __call__(self, numbers: Known) -> int:
        """Measure them by these numbers; the place of the first one that is violated, or their number."""
        return self._function(self._address, self._take(numbers))

    def measure_against(self, ln_distances: Array | float) -> None:
        """Take these ln(1 + d) of the comparisons from now on."""
        at = codes.LN_DISTANCES_AT
        self._kept[at : at + self.count].view(np.float64)[:] = ln_distances

    @property
    def registers(self) -> Array:
        """The latest measures, float64."""
        at = codes.REGISTERS_AT
        return self._kept[at : at + int(self._kept[codes.INSTRUCTIONS])].view(np.float64)

    @cached_property
    def sides(self) -> Array:
        """int64, shape (comparisons, 3): the registers of both sides, and whether the chosen one wins ties."""
        return self._kept[codes.SIDES_AT : codes.SIDES_AT + 3 * self.count].reshape(-1, 3)

    def comparison(self, place: int) -> DecidingComparison:
        """One of them."""
        return self.found.comparison(int(self._kept[codes.SELECTED_AT + place]))


class ClauseSearchResult:
    """A plan of a clause, and what decided it.

    Attributes
    ----------
    search, numbers
        By what it was found, and by which numbers.
    data
        As `clause_search_codes` lays it out: what is found, and the logarithms of sides.
    """

    def __init__(self, search: ClauseSearch, numbers: Known, data: bytes) -> None:
        self.search, self.numbers, self.data = search, numbers, data

    def prices(self, plan: ClauseSearchResult) -> list[float]:
        """ln of what each step or node of a plan of the same clause and planner costs by its numbers."""
        return self.search.prices(plan, self)

    @property
    def plan(self) -> bytes:
        """The plan: equal for equal ones."""
        return self.data[: self.search.plan_bytes]

    @cached_property
    def rows(self) -> Array:
        """The result as `clause_search_codes` lays it out, int64."""
        return np.frombuffer(self.data, np.int64, codes.FOUND_LENGTH)

    @cached_property
    def logs(self) -> Array:
        """Logarithms, float64."""
        return np.frombuffer(self.data, np.float64, codes.LN_BEST, codes.FOUND_BYTES)

    @cached_property
    def ordering(self) -> Ordering | TreeOrdering:
        """The planner's result."""
        if self.search.of_trees:
            return TreeOrdering(self.tree, self.comparisons)
        return Ordering(self.order, self.comparisons)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The order, or the leaves from left to right."""
        return tuple(self.rows[codes.ORDER : codes.ORDER + self.search.size].tolist())

    @property
    def tree(self) -> PositionTree:
        """The tree."""
        return self._tree(0, len(self.order) - 1)

    def named(self, names: Sequence[str]) -> OrderOrTree:
        """The order or tree of variables, without what decided it."""
        tree = self.tree if self.search.of_trees else 0
        return tuple(names[place] for place in self.order) if isinstance(tree, int) else named_join(tree, names)

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
