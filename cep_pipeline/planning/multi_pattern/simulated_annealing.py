"""Simulated annealing over shared plans (MCEP [0165])."""

from __future__ import annotations

import math

from cep_pipeline.planning.multi_pattern.component_search import Budget, search_components
from cep_pipeline.planning.multi_pattern.local_search import LocalSearch
from cep_pipeline.planning.multi_pattern.workload import Plans, SearchOptions, Workload

ALPHA = 0.99
"""What the threshold is multiplied by (MCEP [0165])."""
PROBED = 1000
"""Neighbours of the start among which the largest difference of cost is the first threshold (MCEP [0165])."""
FROZEN = 1e-7
"""The threshold has come down to this share of c0 when the steps or the time end."""
FIRST = 1e-2
"""The search begins at this share of c0, the largest difference: differences have some orders of magnitude, and above
it nearly all neighbours are taken, until what is good in the plan that it starts from is lost."""
REHEATED = 3e-3
"""Where there are many steps it goes on from the best plan, some times, from this share of c0 on."""
FEW_MEMBERS = 10
"""A search over fewer begins, and goes on, from c0: it finds again what it loses, and with so few neighbours the one
that leads out of a local optimum may be as dear as any."""
QUENCHED = 0.1
"""In this last share of the limit nothing dearer is taken: even below the last threshold there are differences."""
STEPS_PER_MEMBER = 1_000
"""There is one cooling for each so many steps times the number of members, but no more than `MAX_COOLINGS`."""
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
        largest = search.probe(steps)
        probed += steps
    begun = used = budget.used
    schedule, last = None, 0
    while steps := budget.take():
        if budget.used > 1.0 - QUENCHED:
            if search.threshold:
                search.restart()
            search.set_threshold(0.0, ALPHA, 1)
            search.anneal(steps)
            continue
        if schedule is None:
            expected = (1.0 - QUENCHED - begun) * search.steps / max(begun, 1e-9)
            members = len(search.problem.members)
            schedule = Cooling(int(expected / (STEPS_PER_MEMBER * members)), from_c0=members < FEW_MEMBERS)
            # Of fewer steps than one cooling has the beginning is left out.
            skipped = max(0.0, 1.0 - expected / (STEPS_PER_MEMBER * members))
            cooling = max(1, round(expected / ((1.0 - skipped) * schedule.thresholds)))
        # By what was used before these steps: of few steps in all, one chunk is much.
        number, power = schedule.at(skipped + (1.0 - skipped) * (used - begun) / (1.0 - QUENCHED - begun))
        if number > last:
            search.restart()
            last = number
        search.set_threshold(largest * ALPHA**power, ALPHA, cooling)
        search.anneal(steps)
        used = budget.used


class Cooling:
    """How a threshold comes down, once or several times, while a budget is used.

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

    @property
    def thresholds(self) -> int:
        """The number of different thresholds that are gone through."""
        return self._coolings * self._last - self._first - (self._coolings - 1) * self._reheated

    def at(self, used: float) -> tuple[int, int]:
        """Where a share of the budget is used: the number of the cooling, from 0, and the power of `ALPHA` there."""
        place = min(used, 1.0) * self._coolings
        number = min(int(place), self._coolings - 1)
        first = self._reheated if number else self._first
        return number, first + round((place - number) * (self._last - first))
