"""Exact search: the cheapest order and the cheapest tree of every set of a clause's variables.

The costs of all sets are linear numbers, relative to the cost of a known plan. 22 variables take a fraction of a second
for orders.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics, mask_of
from cep_pipeline.planning.orderings import GRAIN, MOST_COMPARISONS, Way, grains, ln_before, ln_below, positions_of
from cep_pipeline.planning.trees import PositionTree

Array = np.ndarray[Any, Any]

ABOVE = 1.0 + 1e-6
"""The limit, where it is 1: a plan that costs as much as the best known one is not lost to rounding."""
LARGEST_LN = 340.0
"""Products of two numbers and a third one up to here are floats."""
LN_UNPRUNED = 300.0
"""Added to the limit, it keeps all but what is beyond comparison with a known plan."""
SMALLEST = math.exp(-600.0)
"""Costs below are not told apart: beside a plan they are nothing."""
LOW_VARIABLES = 5
LOW_VARIABLES_OF_PAIRS = 4
"""Variables of a block (see the kernel), so that its rows stay in the first cache: where candidates are tested there
are twice as many."""
COLUMNS = 64
"""The kernel's."""
THREADS = 4
MIN_THREADED = 14
"""Smallest size at which threads bring more than they cost."""

KERNEL = "cep_pipeline.planning.search.set_search_kernel"
_search_orders = NativeKernel(KERNEL, "search_orders", ("int64",) * 3 + ("float64*",) * 9)
_search_blocks = NativeKernel(
    KERNEL, "search_blocks", ("int64",) * 6 + ("float64*", "int64*", "uint8*") + ("float64*",) * 7
)
_cheapest_split = NativeKernel(KERNEL, "cheapest_split", ("int64",) * 4 + ("float64*",) * 5)


@dataclass(frozen=True, eq=False)
class SetTables:
    """The terms of a cost model (`CostModel`) for all sets, divided by e^ln_limit: above 1 they exceed a known plan.

    The arrays are float64 of shape (2^n,), by the bits of the set. The node of all variables, which is in every plan,
    is 0; that of a set that is in no better plan is infinite. `late` has the terms of `LateTests`, which orders alone
    have, and the nanoseconds of all its conditions within a set.
    """

    statistics: ClauseStatistics
    cost: CostModel
    ln_limit: float
    node: Array
    pair: Array | None
    product: Array | None
    late: tuple[Array, ...] | None
    latency: Array | None
    last: int

    @classmethod
    def of(cls, statistics: ClauseStatistics, cost: CostModel, ln_limit: float) -> SetTables:
        """The tables of a clause, given the cost of a known plan."""

        def linear(logarithms: Array, divided_by: float) -> Array:
            logarithms -= divided_by
            np.clip(logarithms, -2 * LARGEST_LN, LARGEST_LN, out=logarithms)
            return np.asarray(np.exp(logarithms, out=logarithms))

        def share(logarithms: Array) -> Array:
            return np.asarray(
                np.exp(np.clip(logarithms, -LARGEST_LN, LARGEST_LN / 2))
            )  # two of the least are a float yet

        node, pair, product, delay = _terms_of_all(cost, statistics)
        assert node is not None
        if pair is not None:
            pair = linear(pair, ln_limit)
            product = np.ones(1 << statistics.size) if product is None else share(product)
        tests, late = cost.late_of(statistics), None
        if tests is not None:
            within = np.zeros(1 << statistics.size)
            for positions, ns in tests.costs(statistics):
                mask = np.uint32(mask_of(positions))
                within += ns * (np.arange(1 << statistics.size, dtype=np.uint32) & mask == mask)
            late = linear(tests.tuples.all(statistics), ln_limit), share(tests.passing.all(statistics)), within
        node = linear(node, ln_limit)
        node[-1] = 0.0
        return cls(
            statistics,
            cost,
            ln_limit,
            node,
            pair,
            None if pair is None else product,
            late,
            None if delay is None else linear(delay, ln_limit),
            statistics.last_variable if cost.waits else -1,
        )

    def exchanged(self, one: int, other: int) -> SetTables:
        """The tables with two variables exchanged."""
        if one == other:
            return self

        def changed(array: Array | None) -> Array | None:
            return None if array is None else exchange(array, one, other)

        return replace(
            self,
            node=exchange(self.node, one, other),
            pair=changed(self.pair),
            product=changed(self.product),
            latency=changed(self.latency),
            last={one: other, other: one}.get(self.last, self.last),
        )

    @property
    def size(self) -> int:
        """Number of variables."""
        return self.statistics.size

    @property
    def tested(self) -> int:
        """The charges for joins beside those for nodes: 0 for none, 1 if candidates are tested, 2 if some late, too."""
        return 2 if self.late is not None else int(self.pair is not None)

    def given(self, *arrays: Array | None) -> tuple[Array, ...]:
        """Arrays for a kernel, another one in the place of those that the model has not."""
        return tuple(self.node if array is None else array for array in arrays)

    def of_tests(self, whole: Array | int, left: Array | int, right: Array | int) -> Any:
        """The tests where two sets are joined."""
        if self.pair is None or self.product is None:
            return 0.0
        found = self.pair[whole] * (self.product[left] * self.product[right])
        if self.late is not None:
            tuples, passing, within = self.late
            found = found + tuples[whole] * (passing[left] * passing[right]) * (
                within[whole] - within[left] - within[right]
            )
        return found


def _terms_of_all(cost: CostModel, statistics: ClauseStatistics) -> list[Array | None]:
    """The terms of a cost model for all sets, as `CostModel.terms` has them; the delay weighed."""
    found = [None if term is None else term.all(statistics) for term in cost.terms]
    if found[-1] is not None:
        found[-1] = found[-1] + math.log(cost.alpha)
    return found


def exchange(array: Array, one: int, other: int) -> Array:
    """A table of all sets in which two variables are in each other's place."""
    if one == other:
        return array
    low, high = sorted((one, other))
    parts = array.reshape(-1, 2, 1 << (high - low - 1), 2, 1 << low)
    return np.ascontiguousarray(parts.swapaxes(1, 3)).reshape(-1)


def cheapest_orders(tables: SetTables, limits: Array) -> Array:
    """The cost of the cheapest order of each set.

    Parameters
    ----------
    limits
        float64 of shape (n + 1,): what a set of k variables may cost.

    Returns
    -------
    Array
        float64 of shape (2^n,), that of all variables without its last step's node; infinity above the limit.
    """
    best = np.empty(1 << tables.size)
    node = marked(tables.node, limits[np.bitwise_count(np.arange(1 << tables.size, dtype=np.uint32))])
    charges = tables.given(tables.pair, tables.product, *(tables.late or (None,) * 3), tables.latency)
    _search_orders(tables.size, tables.last, tables.tested, limits, node, *charges, best)
    return best


def least_nodes(tables: SetTables) -> Array:
    """The least cost of a node by the size of its set, float64 of shape (n + 1,)."""
    sizes = np.bitwise_count(np.arange(1 << tables.size, dtype=np.uint32))
    least = np.full(tables.size + 1, np.inf)
    np.minimum.at(least, sizes, tables.node)
    return least


def least_above(tables: SetTables) -> Array:
    """The least cost of a tree above each of its sets, float64 of shape (2^n,); 0 for the set of all variables.

    Above a set are the root's tests, which join some set that holds it to the rest, and the nodes of these two.
    """
    side = tables.node.copy()
    side[1 << np.arange(tables.size)] = 0.0  # leaves, which all plans share
    rest = side[::-1].copy()  # the set without the bits of m is the one m places before the last
    if tables.pair is not None and tables.product is not None:
        rest += tables.pair[-1] * (tables.product * tables.product[::-1])
    rest[[0, -1]] = np.inf  # no sides of the root
    above = rest + side
    for position in range(tables.size):
        without, having = above.reshape(-1, 2, 1 << position).swapaxes(0, 1)
        np.minimum(without, having, out=without)
    np.minimum(above, rest, out=above)
    above[-1] = 0.0
    return above


def marked(node: Array, limits: Array) -> Array:
    """The nodes of all sets, infinity for those that alone are above their limit."""
    return np.where(node > limits, np.inf, node)


def positions_in(members: int) -> Iterator[int]:
    """The positions of a set, ascending."""
    return (position for position in range(members.bit_length()) if members >> position & 1)


@dataclass(eq=False)
class OrderSearch:
    """The cheapest order of every set.

    Attributes
    ----------
    tables
        What plans cost.
    best
        The cost of each set's cheapest order, that of all variables without its last step's node; infinity where no
        order of all variables within the limit begins with the set.
    """

    tables: SetTables
    best: Array
    _orders: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def run(cls, tables: SetTables) -> OrderSearch:
        """Search; 22 variables take a fraction of a second."""
        least = least_nodes(tables)
        # Below the last step an order has one more step of each size.
        limits = [ABOVE - float(np.sum(least[size + 1 : -1])) for size in range(tables.size + 1)]
        return cls(tables, cheapest_orders(tables, np.array(limits)))

    def order(self, members: int) -> tuple[int, ...]:
        """The cheapest order of a set; of equal ones the one that binds the pattern's last variables last."""
        if members & (members - 1) == 0:
            return tuple(positions_in(members))
        if members not in self._orders:
            cells = {
                position: grains(math.log(below) + self.tables.ln_limit)
                for position in positions_in(members)
                if (below := self._below(members, position)) < math.inf
            }
            last = min(cells, key=lambda position: (cells[position], -position))
            self._orders[members] = (*self.order(members & ~(1 << last)), last)
        return self._orders[members]

    def ways(self, beginning: Sequence[int]) -> Iterator[Way]:
        """The ways to bind the variables of the beginning of an order.

        Each of them is bound last, after the cheapest order of the others; ways beyond the limit are left out.
        """
        members = mask_of(beginning)
        tables = self.tables
        for position in positions_in(members):
            below = self._below(members, position)
            if below < math.inf:
                order = (*self.order(members & ~(1 << position)), position)
                ln_below = (
                    ln_before(tables.cost, tables.statistics, order)
                    if below < SMALLEST
                    else math.log(below) + tables.ln_limit
                )
                yield Way(order, ln_below, (-position,))

    def _below(self, members: int, last: int) -> float:
        """The cost of the cheapest order of a set that binds this variable last, without the last step's node."""
        tables = self.tables
        bit = 1 << last
        rest = members & ~bit
        below = float(self.best[rest]) + float(tables.of_tests(members, rest, bit))
        if tables.latency is not None and rest >> tables.last & 1:
            below += float(tables.latency[bit])
        return below


class OutOfTime(Exception):
    """The search did not finish within its time."""


@dataclass(eq=False)
class TreeSearch:
    """The cheapest tree of every set, without leaves.

    Attributes
    ----------
    tables
        What plans cost.
    best, late
        Of each set the cost of its cheapest tree, infinity where none is within the limit; and the same as a side whose
        other side has the variable after which latency counts, the same array where it does not count.
    """

    tables: SetTables
    best: Array
    late: Array
    _trees: dict[int, PositionTree] = field(default_factory=dict)
    _splits: dict[int, tuple[int, float]] = field(default_factory=dict)

    @classmethod
    def run(cls, tables: SetTables, *, max_seconds: float = math.inf, threads: int = THREADS) -> TreeSearch:
        """Search.

        Raises
        ------
        OutOfTime
            It takes longer than `max_seconds`.
        """
        deadline = time.monotonic() + max_seconds
        size = tables.size
        # Beside those of a set of k variables and the root a tree has n - k - 1 joins more, of which two may be the
        # root's sides.
        least = least_nodes(tables)[2:-1].min(initial=math.inf)
        others = np.array([0.0 if size < 3 else max(size - members - 3, 0) * least for members in range(size + 1)])
        # The kernel wants the variable after which latency counts to be the highest.
        top = size - 1
        swapped = top if tables.last < 0 else tables.last
        own = tables.exchanged(swapped, top)
        own_limits = ABOVE - least_above(own) - others[np.bitwise_count(np.arange(1 << size, dtype=np.uint32))]
        best = np.empty(1 << size)
        late = best if tables.latency is None else np.empty(1 << size)
        _run_blocks(own, own_limits, best, late, deadline, threads if size >= MIN_THREADED else 1)
        best_of_all = exchange(best, swapped, top)
        return cls(tables, best_of_all, best_of_all if late is best else exchange(late, swapped, top))

    def tree(self, members: int) -> PositionTree:
        """The cheapest tree of a set.

        Of equal splits the one with the smallest right side is taken, of several the one with the later variables.
        """
        if members & (members - 1) == 0:
            return members.bit_length() - 1
        if members not in self._trees:
            right, _ = self._split(members)
            self._trees[members] = (self.tree(members & ~right), self.tree(right))
        return self._trees[members]

    def ways(self, tree: PositionTree) -> list[Way]:
        """The cheapest ways to build a join; those that were given up as too dear were never looked at."""
        members = mask_of(positions_of(tree))
        return [self._way(members, right, below) for right, below in self._tightest(members)]

    def _way(self, members: int, right: int, below: float) -> Way:
        tables = self.tables
        tree = self.tree(members & ~right), self.tree(right)
        if below < SMALLEST:
            logarithm = ln_below(tables.cost, tables.statistics, tree)
        else:
            logarithm = math.log(below) + tables.ln_limit
        return Way(tree, logarithm, _rank(right))

    def _tightest(self, members: int) -> list[tuple[int, float]]:
        """Right sides of the cheapest splits of a set, and the cost below each."""
        rights = _sides_without_top(members)
        lefts = members ^ rights
        tables = self.tables
        below: Array = self.best[lefts] + self.best[rights]
        if tables.latency is not None and members >> tables.last & 1:
            with_last = lefts >> tables.last & 1 == 1
            below = np.where(with_last, self.best[lefts] + self.late[rights], self.late[lefts] + self.best[rights])
        below += tables.of_tests(members, lefts, rights)
        few = np.flatnonzero(below < np.inf)
        if len(few) > 2 * MOST_COMPARISONS:
            few = few[np.argpartition(below[few], 2 * MOST_COMPARISONS)[: 2 * MOST_COMPARISONS]]
            # Of more splits that are equal to the chosen one than are taken it may be left out.
            chosen, _ = self._split(members)
            few = np.union1d(few, np.searchsorted(rights, min(chosen, members ^ chosen)))
        sides = zip(lefts[few].tolist(), rights[few].tolist(), below[few].tolist(), strict=True)
        return [(min(left, right, key=_rank), cost) for left, right, cost in sides]

    def _split(self, members: int) -> tuple[int, float]:
        if members not in self._splits:
            tables, ceiling, arrays = self.tables, self._room, self._addresses
            arguments = (tables.size, members, tables.last, tables.tested)
            ceiling[0] = -1.0
            _cheapest_split.function(*arguments, *arrays)
            value = float(ceiling[0])
            ceiling[0] = self._ceiling(value)
            self._splits[members] = _cheapest_split.function(*arguments, *arrays), value
        return self._splits[members]

    @cached_property
    def _room(self) -> Array:
        return np.zeros(1)

    @cached_property
    def _addresses(self) -> tuple[int, ...]:
        """The addresses of the arrays in which splits are looked up: reading them takes longer than a look-up."""
        arrays = (self._room, *self.tables.given(self.tables.pair, self.tables.product), self.best, self.late)
        return tuple(int(array.ctypes.data) for array in arrays)

    def _ceiling(self, value: float) -> float:
        """The largest cost that is equal to this one, by its grain."""
        if value in (0.0, math.inf):
            return value
        logarithm = math.log(value) + self.tables.ln_limit
        # The logarithm of a cost with millions of events in a list is coarser than a grain.
        return max(value, value * (1.0 + ((grains(logarithm) + 0.5) * GRAIN - logarithm)))


def _run_blocks(tables: SetTables, limits: Array, best: Array, late: Array, deadline: float, threads: int) -> None:
    size = tables.size
    low = min(LOW_VARIABLES if tables.pair is None else LOW_VARIABLES_OF_PAIRS, size - 1)
    counts = np.bitwise_count(np.arange(1 << (size - low), dtype=np.uint32))
    highs = np.argsort(counts, kind="stable").astype(np.int64)
    ends = np.cumsum(np.bincount(counts))
    alive = np.zeros(1 << (size - low), np.uint8)
    node = marked(tables.node, limits)
    charges = tables.given(tables.pair, tables.product, tables.latency)
    pairs, waits = int(tables.pair is not None), int(tables.latency is not None)

    def search(first: int, end: int) -> None:
        if time.monotonic() > deadline:
            raise OutOfTime
        scratch = np.empty((5, 1 << low, COLUMNS))
        _search_blocks(first, end, low, size, pairs, waits, limits, highs, alive, node, *charges, best, late, scratch)

    with ThreadPoolExecutor(max(1, min(threads, len(os.sched_getaffinity(0))))) as pool:
        start = 0
        for end in map(int, ends):
            step = max(8, (end - start) // 64)
            parts = [(first, min(first + step, end)) for first in range(start, end, step)]
            if threads == 1 or len(parts) == 1:
                for part in parts:
                    search(*part)
            else:
                list(pool.map(lambda part: search(*part), parts))
            start = end


def _rank(side: int) -> tuple[int, int]:
    """The rank of a split among equal ones: the one whose right side ranks lowest is taken."""
    return side.bit_count(), -side


def _sides_without_top(members: int) -> Array:
    """The right sides of all splits, int64: the sets of members without the highest one."""
    sides = np.zeros(1, np.int64)
    for position in list(positions_in(members))[:-1]:
        sides = np.concatenate((sides, sides | (1 << position)))
    return sides[1:]
