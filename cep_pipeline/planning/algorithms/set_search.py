"""Exact search: the cheapest order or the cheapest tree of every set of a clause's variables.

The costs of all sets are linear numbers, relative to the cost of a known plan. 22 variables take a fraction of a second
for orders.
"""

from __future__ import annotations

import math
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.planning.clause_statistics import ClauseStatistics, mask_of
from cep_pipeline.planning.costs import CostModel, over_all_sets
from cep_pipeline.planning.orderings import MOST_COMPARISONS, Way, ln_measure
from cep_pipeline.planning.trees import Side, positions_of

Array = np.ndarray[Any, Any]

LARGEST_LN = 340.0
"""Products of two numbers and a third one up to here are floats."""
ABOVE = 1.0 + 1e-6
"""The limit, where it is 1: a plan that costs as much as the best known one is not lost to rounding."""
LN_UNPRUNED = 300.0
"""Added to the limit, it keeps all but what is beyond comparison with a known plan."""
SMALLEST = math.exp(-600.0)
"""Costs below are not told apart: beside a plan they are nothing."""
THREADS = 4
MIN_THREADED = 14
"""Smallest size at which threads bring more than they cost."""
PARTS = 64
"""Parts of the sets of one size: one thread looks for the best plans of a part."""

_search_sets = NativeKernel(
    "cep_pipeline.planning.algorithms.set_search_kernel",
    "search_sets",
    ("int64",) * 6 + ("int64*",) + ("float64*",) * 9 + ("int64*",),
)


@dataclass(frozen=True, eq=False)
class SetTables:
    """The terms of a cost model (`CostModel`) for all sets, divided by e^ln_limit: above 1 they exceed a known plan.

    The arrays are float64 of shape (2^n,), by the bits of the set. The node of all variables, which is in every plan,
    is 0. `late` has the terms of `LateTests`, which orders alone have, and the nanoseconds of all its conditions within
    a set.
    """

    statistics: ClauseStatistics
    cost: CostModel
    ln_limit: float
    node: Array
    pair: Array | None
    product: Array | None
    late: tuple[Array, ...] | None
    latency: Array | None

    @classmethod
    def of(cls, statistics: ClauseStatistics, cost: CostModel, ln_limit: float) -> SetTables:
        """The tables of a clause, given the cost of a known plan."""

        def linear(logarithms: Array, divided_by: float) -> Array:
            logarithms -= divided_by
            np.clip(logarithms, -2 * LARGEST_LN, LARGEST_LN, out=logarithms)
            return np.asarray(np.exp(logarithms, out=logarithms))

        def share(logarithms: Array) -> Array:
            # Two of the least are a float yet.
            return np.asarray(np.exp(np.clip(logarithms, -LARGEST_LN, LARGEST_LN / 2)))

        pair = product = latency = late = None
        if cost.pair is not None:
            pair = linear(cost.pair.all(statistics), ln_limit)
            product = np.ones(1 << statistics.size) if cost.product is None else share(cost.product.all(statistics))
        tests = cost.late_of(statistics)
        if tests is not None:
            within = over_all_sets(statistics.size, lambda members: tests.within(statistics, members))
            late = linear(tests.tuples.all(statistics), ln_limit), share(tests.passing.all(statistics)), within
        if cost.delay is not None and cost.waits:
            latency = linear(cost.delay.all(statistics) + math.log(cost.alpha), ln_limit)
        node = linear(cost.node.all(statistics), ln_limit)
        node[-1] = 0.0
        return cls(statistics, cost, ln_limit, node, pair, product, late, latency)

    @property
    def tested(self) -> int:
        """The charges for joins beside those for nodes: 0 for none, 1 if candidates are tested, 2 if some late, too."""
        return 2 if self.late is not None else int(self.pair is not None)

    @property
    def given(self) -> tuple[Array, ...]:
        """The arrays for the kernel, another one in the place of those that the model has not."""
        arrays = self.node, self.pair, self.product, *(self.late or (None,) * 3), self.latency
        return tuple(self.node if array is None else array for array in arrays)

    def of_joins(self, whole: int, left: Array, right: Array) -> Array:
        """The charges where two sides of a set are joined, beside the set's node."""
        found = np.zeros(len(left))
        if self.pair is not None and self.product is not None:
            found += self.pair[whole] * (self.product[left] * self.product[right])
        if self.late is not None:
            tuples, passing, within = self.late
            found += tuples[whole] * (passing[left] * passing[right]) * (within[whole] - within[left] - within[right])
        return found


def least_above(tables: SetTables) -> Array:
    """The least cost of a tree above each of its sets, float64 of shape (2^n,); 0 for the set of all variables.

    A side of the root stands beside the other side's node and what joining the two costs; any other set also below
    one of the sides.
    """
    side = tables.node.copy()
    side[1 << np.arange(tables.statistics.size)] = 0.0  # leaves, which all plans share
    rest = side[::-1].copy()  # the set without the bits of m is the one m places before the last
    if tables.pair is not None and tables.product is not None:
        rest += tables.pair[-1] * (tables.product * tables.product[::-1])
    rest[[0, -1]] = np.inf  # no sides of the root
    above = rest + side
    for position in range(tables.statistics.size):
        without, having = above.reshape(-1, 2, 1 << position).swapaxes(0, 1)
        np.minimum(without, having, out=without)
    np.minimum(above, rest, out=above)
    above[-1] = 0.0
    return above


class OutOfTime(Exception):
    """The search did not finish within its time."""


@dataclass(eq=False)
class SetSearch:
    """The cheapest order of every set, or the cheapest tree without its leaves.

    Attributes
    ----------
    tables
        What plans cost.
    orders
        Whether plans are orders, not trees.
    best, split
        Of each set the cost of its cheapest plan, that of all variables without its root's node; infinity where none is
        within the limit. And the right side of that plan, of an order the variable that is bound last. Of equal plans
        it is the one whose right side has the fewest variables, and of those the pattern's last ones.
    """

    tables: SetTables
    orders: bool
    best: Array
    split: Array
    _plans: dict[int, Any] = field(default_factory=dict)

    @classmethod
    def run(
        cls, tables: SetTables, *, orders: bool, max_seconds: float = math.inf, threads: int = THREADS
    ) -> SetSearch:
        """Search the sets of one size after the other.

        Raises
        ------
        OutOfTime
            It takes longer than `max_seconds`.
        """
        deadline = time.monotonic() + max_seconds
        size = tables.statistics.size
        last = tables.statistics.last_variable if tables.latency is not None else -1
        counts = np.bitwise_count(np.arange(1 << size, dtype=np.uint32))
        sets = np.argsort(counts, kind="stable").astype(np.int64)
        limits = np.full(1 << size, ABOVE) if orders else ABOVE - least_above(tables)
        best, split = np.full(1 << size, np.inf), np.zeros(1 << size, np.int64)

        def search(first: int, end: int) -> None:
            if time.monotonic() > deadline:
                raise OutOfTime
            _search_sets(first, end, size, last, int(orders), tables.tested, sets, limits, *tables.given, best, split)

        with ThreadPoolExecutor(min(threads, len(os.sched_getaffinity(0)))) as pool:
            start = 1
            for end in np.cumsum(np.bincount(counts))[1:].tolist():
                step = (end - start) // PARTS + 1 if size >= MIN_THREADED else end - start
                parts = [(first, min(first + step, end)) for first in range(start, end, step)]
                if len(parts) > 1:
                    list(pool.map(lambda part: search(*part), parts))
                else:
                    search(*parts[0])
                start = end
        return cls(tables, orders, best, split)

    def plan(self, members: int) -> Any:
        """The cheapest order or tree of a set."""
        if members not in self._plans:
            if members & (members - 1) == 0:
                self._plans[members] = (members.bit_length() - 1,) if self.orders else members.bit_length() - 1
            else:
                self._plans[members] = self._joined(members, int(self.split[members]))
        return self._plans[members]

    def _joined(self, members: int, right: int) -> Any:
        left = self.plan(members ^ right)
        return (*left, right.bit_length() - 1) if self.orders else (left, self.plan(right))

    def ways(self, side: Side) -> list[Way]:
        """The cheapest ways to build a join, or a beginning of an order; those that were given up are left out."""
        members, tables = mask_of(positions_of(side)), self.tables
        rights = _right_sides(members, orders=self.orders)
        lefts = members ^ rights
        below = self.best[lefts] + (0.0 if self.orders else self.best[rights]) + tables.of_joins(members, lefts, rights)
        last = tables.statistics.last_variable
        if tables.latency is not None and members >> last & 1:
            left_waits = 0.0 if self.orders else tables.latency[lefts]
            below += np.where(lefts >> last & 1 == 1, tables.latency[rights], left_waits)
        few = np.flatnonzero(below < np.inf)
        if len(few) > 2 * MOST_COMPARISONS:
            few = few[np.argpartition(below[few], 2 * MOST_COMPARISONS)[: 2 * MOST_COMPARISONS]]
            # Of more splits that are equal to the chosen one than are taken it may be left out.
            chosen = int(self.split[members])
            few = np.union1d(few, np.flatnonzero((rights == chosen) | (lefts == chosen)))
        return [self._way(members, int(rights[place]), float(below[place])) for place in few]

    def _way(self, members: int, right: int, below: float) -> Way:
        tables = self.tables
        if not self.orders:
            right = min(right, members ^ right, key=_rank)
        plan = self._joined(members, right)
        if below < SMALLEST:
            measure = "cost" if self.orders else "tree"
            return Way(plan, ln_measure(measure, plan, tables.statistics, tables.cost), _rank(right))
        return Way(plan, math.log(below) + tables.ln_limit, _rank(right))


def _rank(side: int) -> tuple[int, int]:
    """The rank of a split among equal ones: the one whose right side ranks lowest is taken."""
    return side.bit_count(), -side


def _right_sides(members: int, *, orders: bool) -> Array:
    """The right sides of all splits of a set, int64: single variables, or the sets without its first variable."""
    bits = [1 << place for place in range(members.bit_length()) if members >> place & 1]
    if orders:
        return np.array(bits)
    sides = np.zeros(1, np.int64)
    for bit in bits[1:]:
        sides = np.concatenate((sides, sides | bit))
    return sides[1:]
