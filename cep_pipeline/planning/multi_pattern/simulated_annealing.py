"""Simulated annealing over shared plans (MCEP [0165])."""

from __future__ import annotations

from cep_pipeline.planning.multi_pattern.component_search import Budget, search_components
from cep_pipeline.planning.multi_pattern.local_search import LocalSearch
from cep_pipeline.planning.multi_pattern.workload import Plans, SearchOptions, Workload

ALPHA = 0.99
"""What the threshold is multiplied by (MCEP [0165])."""
PROBED = 1000
"""Neighbours of the start among which the largest difference of cost is the first threshold (MCEP [0165])."""
STEPS_PER_MEMBER = 0.2
"""The threshold is lowered once in so many steps times the number of members."""
FROZEN = 1e-6
"""Where the threshold has come down to this share of the first one, the search goes on from the best plan, as warm as
at the beginning: else a search by time would take no dearer plan for most of it."""


def simulated_annealing(workload: Workload, options: SearchOptions) -> tuple[Plans, int]:
    """Search by simulated annealing, each component by itself.

    Notes
    -----
    A neighbour that is not dearer is always taken, a dearer one with probability exp(-difference / threshold). The
    patent lowers the threshold each step; here that takes the more steps, the more members there are.
    """
    return search_components(workload, options, anneal)


def anneal(search: LocalSearch, budget: Budget) -> None:
    """Anneal one component until the budget is used."""
    probed, largest = 0, 0.0
    while probed < PROBED and (steps := budget.take()):
        largest = search.probe(steps)
        probed += steps
    cooling = max(1, round(STEPS_PER_MEMBER * len(search.problem.members)))
    search.set_threshold(largest, ALPHA, cooling)
    while steps := budget.take():
        search.anneal(steps)
        if search.threshold < FROZEN * largest:
            search.restart()
            search.set_threshold(largest, ALPHA, cooling)
