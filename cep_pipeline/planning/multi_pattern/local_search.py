"""Local search over the shared plans of one component (MCEP [0100]-[0115]): the compiled loops, and what they keep."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.planning.costs.model import Array
from cep_pipeline.planning.multi_pattern import search_codes as c
from cep_pipeline.planning.multi_pattern.local_plans import KERNEL_SOURCES, LOCAL_KERNEL, LOCAL_KERNELS
from cep_pipeline.planning.multi_pattern.search_problem import SearchProblem
from cep_pipeline.planning.multi_pattern.workload import Neighbourhood
from cep_pipeline.planning.numbers.clause_statistics import mask_of
from cep_pipeline.planning.trees import PositionTree, positions_below

PositionPlan: TypeAlias = "tuple[int, ...] | PositionTree"
"""The plan of a member over the places of its variables: an order, or a tree."""

_search = NativeKernel(
    "cep_pipeline.planning.multi_pattern.search_kernel", "search", ("int64*",), (LOCAL_KERNEL, *KERNEL_SOURCES)
)


def compile_kernels() -> None:
    """Compile what searches run, where that was not done before: it is no part of their time."""
    for kernel in (_search, *LOCAL_KERNELS):
        kernel.compile()


class LocalSearch:
    """A search from the cheapest local plans on, or from given ones.

    Parameters
    ----------
    problem
        Two members or more that share something.
    neighbourhood
        What neighbours are.
    seed
        Of the random numbers.
    start
        A plan for each member; None: the cheapest one of each (MCEP [0115]).
    recompute
        Whether each neighbour's cost is computed anew from all plans, instead of from what it changes: the reference
        that the difference is tested and measured against.

    Notes
    -----
    A step is a neighbour that is drawn and evaluated (MCEP [0114]).
    """

    def __init__(
        self,
        problem: SearchProblem,
        neighbourhood: Neighbourhood,
        seed: int,
        start: Sequence[PositionPlan] | None = None,
        *,
        recompute: bool = False,
    ) -> None:
        self.problem = problem
        count, width, windows = len(problem.members), problem.width, len(problem.windows)
        together = max(2, min(neighbourhood.together, max(map(len, (s.members for s in problem.common)))))
        capacity = count * width + (together + 1) * width + 1
        chains = 1 << max(4, capacity.bit_length())
        room = 1 << min(width, c.MAX_ITEMS)
        relations, (members, sets, slots) = problem.relations, problem.entries
        numbers = np.zeros(c.NUMBERS, np.int64)
        for place, number in {
            c.COUNT: count,
            c.WIDTH: width,
            c.WINDOWS: windows,
            c.TREES: int(problem.trees),
            c.GROUPS: len(problem.common),
            c.TOGETHER: together,
            c.CAPACITY: capacity,
            c.CHAINS: chains,
            c.FULL: int(recompute),
            c.ROOM: room,
            c.COOLING: 1,
            c.NEIGHBOURS: 1,
            c.TABU_CHAINS: 1,
            c.TABU_LENGTH: 1,
        }.items():
            numbers[place] = number
        words = chains + (6 + windows) * capacity + 3
        self._numbers = numbers
        self._registers = np.zeros(c.REGISTERS, np.int64)
        self._registers[c.RANDOM] = np.random.SeedSequence(seed).generate_state(1, np.uint64).view(np.int64)[0]
        self._measures = np.zeros(c.MEASURES)
        self._plans = np.zeros(count * (1 + 4 * width), np.int64)
        self._best = np.zeros_like(self._plans)
        self._constant = (
            problem.sizes,
            problem.window_ranks,
            problem.tables_at,
            *problem.costs,
            problem.first,
            problem.second,
            problem.leaves.reshape(-1),
            problem.agreement,
            relations.at,
            relations.sets,
            relations.places_at,
            relations.places,
            relations.templates_at,
            relations.templates,
            np.cumsum([neighbourhood.weight(len(subpattern.uses)) for subpattern in problem.common]),
            problem.entries_at,
            members,
            sets,
            slots.reshape(-1),
        )
        self._room = (
            np.zeros(words, np.int64),
            np.zeros((2 + windows) * capacity),
            np.zeros(words, np.int64),
            np.zeros((2 + windows) * capacity),
        )
        self._scratch = (
            np.zeros((together + 1) * (1 + 4 * width), np.int64),
            np.zeros(2 * together + width + 2 * room, np.int64),
            np.zeros(room),
            np.zeros(4 * width, np.int64),
        )
        self._tabu = np.zeros(2, np.int64)
        for place, plan in enumerate(start or self._cheapest()):
            self._write(place, plan)
        self._run(c.START)

    def _cheapest(self) -> list[PositionPlan]:
        trees = self.problem.trees
        return [plans.cheapest_tree() if trees else plans.cheapest_order() for plans in self.problem.local]

    # -- what it has found -----------------------------------------------------------------------------------------

    @property
    def ln_cost(self) -> float:
        """ln of what the plan now costs, without the leaves of trees, which are the same whatever the trees."""
        return self._ln(c.COST)

    @property
    def ln_best(self) -> float:
        """ln of what the best plan costs that was found."""
        return self._ln(c.BEST)

    @property
    def steps(self) -> int:
        """Neighbours evaluated."""
        return int(self._registers[c.STEPS])

    @property
    def accepted(self) -> int:
        """Neighbours that became the plan."""
        return int(self._registers[c.ACCEPTED])

    @property
    def threshold(self) -> float:
        """The threshold of simulated annealing, in the search's own unit."""
        return float(self._measures[c.THRESHOLD])

    def plans(self) -> list[PositionPlan]:
        """The plan of each member now."""
        return self._read(self._plans)

    def best(self) -> list[PositionPlan]:
        """The plan of each member in the best plan that was found."""
        return self._read(self._best)

    def _ln(self, place: int) -> float:
        cost = float(self._measures[place])
        return math.log(cost) + self.problem.ln_scale if cost > 0 else -math.inf

    # -- what it does ----------------------------------------------------------------------------------------------

    def probe(self, neighbours: int) -> float:
        """The largest difference of cost among some neighbours of the plan, which stays as it is."""
        self._run(c.PROBE, neighbours)
        return float(self._measures[c.LARGEST])

    def anneal(self, steps: int) -> None:
        """Some steps of simulated annealing."""
        self._run(c.ANNEAL, steps)

    def set_threshold(self, threshold: float, factor: float, cooling: int) -> None:
        """Let simulated annealing go on from a threshold, multiplied by a factor every `cooling` steps."""
        self._measures[c.THRESHOLD], self._measures[c.FACTOR] = threshold, factor
        self._numbers[c.COOLING], self._registers[c.COUNTED] = cooling, 0

    def tabu(self, steps: int) -> None:
        """Some steps of tabu search; it moves once for each `neighbours` of `set_tabu`."""
        self._run(c.TABU, steps)

    def set_tabu(self, length: int, neighbours: int) -> None:
        """Let tabu search remember so many plans, and choose among so many neighbours."""
        chains = 1 << length.bit_length()
        self._tabu = np.full(chains + 2 * length, -1, np.int64)
        self._numbers[[c.TABU_CHAINS, c.TABU_LENGTH, c.NEIGHBOURS]] = chains, length, neighbours
        self._registers[[c.TABU_COUNT, c.TABU_NEXT]] = 0

    def restart(self) -> None:
        """Go on from the best plan."""
        self._plans[:] = self._best
        best = self._measures[c.BEST]
        self._run(c.START)
        self._measures[c.BEST] = min(best, self._measures[c.BEST])

    def _run(self, task: int, amount: int = 0) -> None:
        self._numbers[c.TASK], self._numbers[c.AMOUNT] = task, amount
        arrays = (
            self._numbers,
            self._registers,
            self._measures,
            *self._constant,
            *self._room,
            self._plans,
            self._best,
            *self._scratch,
            self._tabu,
        )
        _search(np.array([array.ctypes.data for array in arrays], np.int64))

    # -- plans as integers -----------------------------------------------------------------------------------------

    def _part(self, whole: Array, number: int) -> Array:
        """The counts (0), or the sets (1) or sides (2) of the nodes of plans, as a view."""
        count, width = len(self.problem.members), self.problem.width
        if number == 0:
            return whole[:count]
        return whole[count + (number - 1) * count * width :][: count * width].reshape(count, width)

    def _write(self, place: int, plan: PositionPlan) -> None:
        nodes = _tree_nodes(plan) if self.problem.trees else _order_nodes(plan)
        self._part(self._plans, 0)[place] = len(nodes)
        for number, (members, side) in enumerate(nodes):
            self._part(self._plans, 1)[place, number] = members
            self._part(self._plans, 2)[place, number] = side

    def _read(self, whole: Array) -> list[PositionPlan]:
        counts, sets, sides = (self._part(whole, number).tolist() for number in range(3))
        found: list[PositionPlan] = []
        for count, own_sets, own_sides, plans in zip(counts, sets, sides, self.problem.local, strict=True):
            if not self.problem.trees:
                found.append(tuple(own_sides[:count]))
                continue
            trees: dict[int, PositionTree] = {1 << place: place for place in range(plans.size)}
            for members, side in zip(own_sets[:count], own_sides[:count], strict=True):
                trees[members] = (trees[side], trees[members ^ side])
            found.append(trees[(1 << plans.size) - 1])
        return found


def _tree_nodes(tree: PositionPlan) -> list[tuple[int, int]]:
    """The joins of a tree as sets in ascending order, with one side of each."""
    found = []
    waiting: list[PositionTree] = [tree]  # type: ignore[list-item]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, int):
            left, right = node
            found.append((mask_of(positions_below(node)), mask_of(positions_below(left))))
            waiting += [left, right]
    return sorted(found)


def _order_nodes(order: PositionPlan) -> list[tuple[int, int]]:
    """The beginnings of an order as sets, with the last variable of each."""
    assert not isinstance(order, int)
    return [(mask_of(order[: length + 1]), place) for length, place in enumerate(order)]  # type: ignore[arg-type,misc]
