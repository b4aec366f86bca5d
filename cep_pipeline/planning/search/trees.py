"""Exact search over trees: the cheapest tree of every set of variables, and what it is made of."""

from __future__ import annotations

import math
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.planning.costs import is_linear
from cep_pipeline.planning.numbers.cardinality import mask_of
from cep_pipeline.planning.orderings import GRAIN, MOST_COMPARISONS, Way, grains, ln_below, positions_of
from cep_pipeline.planning.search.tables import (
    ABOVE,
    KERNEL,
    SMALLEST,
    Array,
    SetTables,
    cheapest_orders,
    exchange,
    least_above,
    least_nodes,
    marked,
    positions_in,
)
from cep_pipeline.planning.trees import PositionTree

LOW_VARIABLES = 5
LOW_VARIABLES_OF_PAIRS = 4
"""Variables of a block (see the kernel), so that its rows stay in the first cache: where candidates are tested there
are twice as many."""
COLUMNS = 64
"""The kernel's."""
THREADS = 4
MIN_THREADED = 14
"""Below this size threads cost more than they bring."""

_search_blocks = NativeKernel(
    KERNEL, "search_blocks", ("int64",) * 7 + ("float64*", "int64*", "uint8*") + ("float64*",) * 10
)
_cheapest_split = NativeKernel(KERNEL, "cheapest_split", ("int64",) * 4 + ("float64*",) * 5)


class OutOfTime(Exception):
    """The search did not finish within its time."""


@dataclass(eq=False)
class TreeSearch:
    """The cheapest tree of every set, without leaves.

    Attributes
    ----------
    tables
        What plans cost.
    best, stored, late, linear
        Of each set the cost of its cheapest tree, infinity where none within the limit has it as a side of a join
        that is not linear; the same with what holding it there costs; the same where the other side has the variable
        after which latency counts; and that of its cheapest linear tree. The latter three are the same array as `best`
        where the cost model makes no difference.
    """

    tables: SetTables
    best: Array
    stored: Array
    late: Array
    linear: Array
    _trees: dict[tuple[int, bool], PositionTree] = field(default_factory=dict)
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
        # Beside those of a set of k variables and the root a tree has n - k - 1 joins more.
        least = least_nodes(tables)[2:-1].min(initial=math.inf)
        limits = np.array(
            [ABOVE - max(size - members - 1, 0) * least if size > 2 else ABOVE for members in range(size + 1)]
        )
        limits[size] = ABOVE
        # The sides of the root may be two of those.
        others = np.array([0.0 if size < 3 else max(size - members - 3, 0) * least for members in range(size + 1)])
        linear = cheapest_orders(tables, limits, of_tree=True) if tables.held is not None else None
        # The kernel wants the variable after which latency counts to be the highest.
        top = size - 1
        swapped = top if tables.last < 0 else tables.last
        own = tables.exchanged(swapped, top)
        own_limits = ABOVE - least_above(own) - others[np.bitwise_count(np.arange(1 << size, dtype=np.uint32))]
        best = np.empty(1 << size)
        stored = np.empty(1 << size) if tables.held is not None else best
        late = np.empty(1 << size) if tables.latency is not None else stored
        if size < MIN_THREADED:
            threads = 1
        _run_blocks(own, own_limits, best, stored, late, linear, swapped, deadline, threads)
        found = {
            id(array): exchange(array, swapped, top) if swapped != top else array for array in (best, stored, late)
        }
        return cls(tables, found[id(best)], found[id(stored)], found[id(late)], best if linear is None else linear)

    def split(self, members: int, *, linear: bool = False) -> tuple[int, bool]:
        """The right side of the cheapest tree of a set, and whether the left one is the linear tree.

        Of equal splits the one with the smallest right side is taken, of several the one with the later variables.
        """
        found, value = 0, math.inf
        holding = self.tables.held is not None
        if not (linear and holding):
            found, value = self._general_split(members)
        if not holding:
            return found, False
        ways = {1 << position: self.below_linear(members, position) for position in positions_in(members)}
        cheapest = min((*ways.values(), value))
        ceiling = self._ceiling(cheapest)
        equal = [bit for bit, cost in ways.items() if cost <= ceiling]
        if not equal or (value <= ceiling and _rank(found) < _rank(max(equal))):
            return found, False
        return max(equal), True

    def below_linear(self, members: int, position: int) -> float:
        """The cost below a linear join whose one side is this variable."""
        bit = 1 << position
        rest = members & ~bit
        cost = float(self.linear[rest])
        if self.tables.pair is not None and self.tables.product is not None:
            cost += float(self.tables.pair[members] * (self.tables.product[rest] * self.tables.product[bit]))
        if self.tables.latency is not None and members >> self.tables.last & 1:
            cost += float(self.tables.latency[rest if position == self.tables.last else bit])
        return cost

    def tree(self, members: int, *, linear: bool = False) -> PositionTree:
        """The cheapest tree of a set."""
        if members & (members - 1) == 0:
            return members.bit_length() - 1
        key = (members, linear)
        if key not in self._trees:
            right, of_linear = self.split(members, linear=linear)
            self._trees[key] = (self.tree(members & ~right, linear=of_linear), self.tree(right))
        return self._trees[key]

    def ways(self, tree: PositionTree, *, linear: bool) -> list[Way]:
        """The cheapest ways to build a join; those that were given up as too dear were never looked at."""
        members = mask_of(positions_of(tree))
        ways = []
        holding = self.tables.held is not None
        if holding:
            for position in positions_in(members):
                bit = 1 << position
                way: PositionTree = (self.tree(members & ~bit, linear=True), position)
                ways.append(self._way(way, self.below_linear(members, position), bit, of_linear=True))
        if not (linear and holding):
            for right, below in self._tightest(members):
                way = (self.tree(members & ~right), self.tree(right))
                # One that runs as an order is among the linear ones.
                if not (holding and is_linear(way)):
                    ways.append(self._way(way, below, right, of_linear=False))
        return [way for way in ways if way.ln_measure < math.inf]

    def _way(self, tree: PositionTree, below: float, right: int, *, of_linear: bool) -> Way:
        tables = self.tables
        if below < SMALLEST:
            logarithm = ln_below(tables.cost, tables.statistics, tree)
        else:
            logarithm = math.log(below) + tables.ln_limit
        return Way(tree, logarithm, (*_rank(right), int(not of_linear)))

    def _tightest(self, members: int) -> list[tuple[int, float]]:
        """Right sides of the cheapest splits of a set, and the cost below each."""
        rights = _sides_without_top(members)
        lefts = members ^ rights
        tables = self.tables
        below: Array = self.stored[lefts] + self.stored[rights]
        if tables.latency is not None and members >> tables.last & 1:
            with_last = lefts >> tables.last & 1 == 1
            below = np.where(with_last, self.stored[lefts] + self.late[rights], self.late[lefts] + self.stored[rights])
        if tables.pair is not None and tables.product is not None:
            below += tables.pair[members] * (tables.product[lefts] * tables.product[rights])
        few = np.flatnonzero(below < np.inf)
        if len(few) > 2 * MOST_COMPARISONS:
            few = few[np.argpartition(below[few], 2 * MOST_COMPARISONS)[: 2 * MOST_COMPARISONS]]
            # Of more splits that are equal to the chosen one than are taken it may be left out.
            chosen, _ = self._general_split(members)
            few = np.union1d(few, np.searchsorted(rights, min(chosen, members ^ chosen)))
        sides = zip(lefts[few].tolist(), rights[few].tolist(), below[few].tolist(), strict=True)
        return [(min(left, right, key=_rank), cost) for left, right, cost in sides]

    def _general_split(self, members: int) -> tuple[int, float]:
        if members not in self._splits:
            tables, ceiling, arrays = self.tables, self._room, self._addresses
            arguments = (tables.size, members, tables.last, int(tables.pair is not None))
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
        pair = self.best if self.tables.pair is None else self.tables.pair
        product = self.best if self.tables.product is None else self.tables.product
        arrays = (self._room, pair, product, self.stored, self.late)
        return tuple(int(array.ctypes.data) for array in arrays)

    def _ceiling(self, value: float) -> float:
        """The largest cost that is equal to this one, by its grain."""
        if value in (0.0, math.inf):
            return value
        logarithm = math.log(value) + self.tables.ln_limit
        # The logarithm of a cost with millions of events in a list is coarser than a grain.
        return max(value, value * (1.0 + ((grains(logarithm) + 0.5) * GRAIN - logarithm)))


def _run_blocks(
    tables: SetTables,
    limits: Array,
    best: Array,
    stored: Array,
    late: Array,
    linear: Array | None,
    swapped: int,
    deadline: float,
    threads: int,
) -> None:
    size = tables.size
    low = min(LOW_VARIABLES if tables.pair is None else LOW_VARIABLES_OF_PAIRS, size - 1)
    counts = np.bitwise_count(np.arange(1 << (size - low), dtype=np.uint32))
    highs = np.argsort(counts, kind="stable").astype(np.int64)
    ends = np.cumsum(np.bincount(counts))
    alive = np.zeros(1 << (size - low), np.uint8)
    node = marked(tables.node, limits)
    pair = tables.node if tables.pair is None else tables.pair
    product = tables.node if tables.product is None else tables.product
    held = tables.node if tables.held is None else tables.held
    latency = tables.node if tables.latency is None else tables.latency
    linears = best if linear is None else exchange(linear, swapped, size - 1) if swapped != size - 1 else linear

    def search(first: int, end: int) -> None:
        if time.monotonic() > deadline:
            raise OutOfTime
        _search_blocks(
            first,
            end,
            low,
            size,
            int(tables.pair is not None),
            int(tables.held is not None),
            int(tables.latency is not None),
            limits,
            highs,
            alive,
            node,
            pair,
            product,
            held,
            latency,
            linears,
            best,
            stored,
            late,
            np.empty((5, 1 << low, COLUMNS)),
        )

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
