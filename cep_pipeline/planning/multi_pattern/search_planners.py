"""The planners that search for a shared plan: simulated annealing (MCEP [0165]) and tabu search (MCEP [0166]).

Both search the components of a workload one after another, within one limit of time and steps (MCEP [0098]).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from cep_pipeline.planning.multi_pattern.local_plans import named_plan, plan_of_places
from cep_pipeline.planning.multi_pattern.local_search import LocalSearch
from cep_pipeline.planning.multi_pattern.workload import Plans, SearchOptions, Workload

CHUNK = 50
"""Steps between two looks at the clock, by which the threshold of simulated annealing falls."""


@dataclass
class Budget:
    """The steps that the search of one component may take.

    Attributes
    ----------
    search
        The search.
    steps
        Those that are left; None: no limit.
    seconds
        Those that it has from now on; None: no limit.
    chunk
        Most steps at once.
    idle
        The budget is used up when so many steps have found nothing cheaper; None: it is not.
    """

    search: LocalSearch
    steps: int | None
    seconds: float | None
    chunk: int
    begun: float = field(default_factory=time.monotonic)
    idle: int | None = None
    _cheapest: tuple[float, int] = field(default=(math.inf, 0), init=False)
    _given: int = field(default=0, init=False)

    @property
    def used(self) -> float:
        """The used share, from 0 to 1: of the steps or of the seconds, of which there is less left."""
        shares = [0.0]
        if self.steps is not None:
            shares.append(self._given / max(self._given + self.steps, 1))
        if self.seconds is not None:
            shares.append((time.monotonic() - self.begun) / self.seconds if self.seconds > 0 else 1.0)
        return min(max(shares), 1.0)

    def take(self) -> int:
        """The steps to take next; 0: the search ends."""
        if self.seconds is not None and time.monotonic() - self.begun >= self.seconds:
            return 0
        if self.idle is not None:
            ln_best, steps = self.search.ln_best, self.search.steps
            if ln_best < self._cheapest[0]:
                self._cheapest = ln_best, steps
            elif steps - self._cheapest[1] >= self.idle:
                return 0
        if self.steps is None:
            return self.chunk
        taken = min(self.steps, self.chunk)
        self.steps -= taken
        self._given += taken
        return taken


MetaHeuristic: TypeAlias = Callable[[LocalSearch, Budget], None]
"""Search until the budget is used."""


def search_components(workload: Workload, options: SearchOptions, search_by: MetaHeuristic) -> tuple[Plans, int]:
    """The best plans that a meta-heuristic finds, and the steps that it took.

    Notes
    -----
    Steps and time are shared out by the number of members; time counts from when the workload was given. Members that
    have nothing in common with others keep the plans that they start from.
    """
    components = workload.components
    searches = [search_of(workload, options, number) for number in range(len(components))]
    begun = options.begun
    left = sum(map(len, components))
    steps = options.steps
    for component, search in zip(components, searches, strict=True):
        share = len(component) / left
        seconds = None
        if options.time_limit_s is not None:
            seconds = max(options.time_limit_s - (time.monotonic() - begun), 0.0) * share
        own = None if steps is None else max(math.ceil(steps * share), 0)
        search_by(search, Budget(search, own, seconds, CHUNK, idle=options.idle_steps))
        steps = None if steps is None else steps - search.steps
        left -= len(component)
    plans = dict(workload.start)
    for component, search in zip(components, searches, strict=True):
        for member, plan in zip(component, search.best, strict=True):
            plans[member.id] = named_plan(plan, member.names, trees=workload.trees)
    # A node has the numbers of the first of its sharers; where those of others differ, the search may be wrong.
    if workload.ln_cost(plans) > workload.ln_cost(workload.start):
        plans = dict(workload.start)
    return plans, sum(search.steps for search in searches)


def search_of(workload: Workload, options: SearchOptions, number: int) -> LocalSearch:
    """The search of one component, at its start."""
    component = workload.components[number]
    seed = int(np.random.SeedSequence([options.seed, number]).generate_state(1)[0])
    return LocalSearch(
        component,
        workload.local,
        options.neighbourhood,
        seed,
        [plan_of_places(workload.start[member.id], member.names) for member in component],
    )


ALPHA = 0.99
"""The factor by which the threshold falls (MCEP [0165])."""
PROBED = 1000
"""Neighbours of the start among which the largest difference of cost is the first threshold (MCEP [0165])."""
FROZEN = 1e-7
"""The threshold has come down to this share of c0 when the steps or the time end."""
FIRST = 1e-2
"""The search begins at this share of c0, the largest difference: differences have some orders of magnitude, and above
it nearly all neighbours are taken, until what is good in the plan that it starts from is lost."""
REHEATED = 3e-3
"""Share of c0 from which the search goes on, some times, from the best plan, where there are many steps."""
FEW_MEMBERS = 10
"""A search over fewer begins, and goes on, from c0: it finds again what it loses, and with so few neighbours the one
that leads out of a local optimum may be as dear as any."""
QUENCHED = 0.1
"""Last share of the limit in which nothing dearer is taken: even below the last threshold there are differences."""
STEPS_PER_MEMBER = 1_000
"""Steps between two coolings, times the number of members; there are no more coolings than `MAX_COOLINGS`."""
MAX_COOLINGS = 8


def simulated_annealing(workload: Workload, options: SearchOptions) -> tuple[Plans, int]:
    """Search by simulated annealing, each component by itself.

    Notes
    -----
    A neighbour that is not dearer is always taken, a dearer one with probability exp(-difference / threshold). The
    patent begins at c0 and multiplies by alpha each step; here the threshold begins at a share of c0, and is
    multiplied by alpha as often as lets it be frozen when the limit is reached, whether that is of steps or of time. Of
    few members it begins at c0. At last the search goes on from the best plan, and takes nothing that is dearer.
    """
    return search_components(workload, options, anneal)


def anneal(search: LocalSearch, budget: Budget) -> None:
    """Anneal one component until the budget is used."""
    probed, largest = 0, 0.0
    while probed < PROBED and (steps := budget.take()):
        largest = max(largest, search.probe(steps))
        probed += steps
    begun = used = budget.used
    schedule, last = None, 0
    while steps := budget.take():
        if budget.used > 1.0 - QUENCHED:
            if search.threshold:
                search.restart()
            search.threshold = 0.0
            search.anneal(steps)
            continue
        if schedule is None:
            expected = (1.0 - QUENCHED - begun) * search.steps / max(begun, 1e-9)
            members = len(search.members)
            schedule = Cooling(int(expected / (STEPS_PER_MEMBER * members)), from_c0=members < FEW_MEMBERS)
            # Of fewer steps than one cooling has the beginning is left out.
            skipped = max(0.0, 1.0 - expected / (STEPS_PER_MEMBER * members))
        # By what was used before these steps: of few steps in all, one chunk is much.
        number, power = schedule.at(skipped + (1.0 - skipped) * (used - begun) / (1.0 - QUENCHED - begun))
        if number > last:
            search.restart()
            last = number
        search.threshold = largest * ALPHA**power
        search.anneal(steps)
        used = budget.used


class Cooling:
    """The course of a threshold, which comes down once or several times while a budget is used.

    Parameters
    ----------
    coolings
        How many times; at least once, at most `MAX_COOLINGS` times.
    from_c0
        Whether each time from c0, not from `FIRST` and `REHEATED`.

    Examples
    --------
    >>> cooling = Cooling(2)
    >>> cooling.at(0.0), cooling.at(0.5), cooling.at(1.0)
    ((0, 458), (1, 578), (1, 1604))
    """

    def __init__(self, coolings: int, *, from_c0: bool = False) -> None:
        self._coolings = min(max(coolings, 1), MAX_COOLINGS)
        self._first, self._reheated, self._last = (
            round(math.log(share) / math.log(ALPHA))
            for share in ((1.0, 1.0, FROZEN) if from_c0 else (FIRST, REHEATED, FROZEN))
        )

    def at(self, used: float) -> tuple[int, int]:
        """The place after a share of the budget: the number of the cooling, from 0, and the power of `ALPHA`."""
        place = min(used, 1.0) * self._coolings
        number = min(int(place), self._coolings - 1)
        first = self._reheated if number else self._first
        return number, first + round((place - number) * (self._last - first))


NEIGHBOURS = 100
"""L: neighbours of which the cheapest is the next plan (MCEP [0166])."""
REMEMBERED = 10_000
"""C: plans on the tabu list."""


def tabu(workload: Workload, options: SearchOptions) -> tuple[Plans, int]:
    """Search by tabu search, each component by itself.

    Notes
    -----
    Of 100 random neighbours the cheapest one that is not on the list of the last 10,000 plans becomes the plan, dearer
    or not. Each neighbour is a step.
    """
    return search_components(workload, options, search_tabu)


def search_tabu(search: LocalSearch, budget: Budget) -> None:
    """Search one component until the budget is used."""
    budget.chunk = NEIGHBOURS
    while steps := budget.take():
        search.tabu(steps, REMEMBERED)
