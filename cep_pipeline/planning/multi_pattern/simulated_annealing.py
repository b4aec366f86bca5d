"""Simulated annealing over shared plans (MCEP [0165])."""

from __future__ import annotations

from cep_pipeline.planning.multi_pattern.component_search import Budget, search_components
from cep_pipeline.planning.multi_pattern.local_search import LocalSearch
from cep_pipeline.planning.multi_pattern.workload import Plans, SearchOptions, Workload

ALPHA = 0.99
"""What the threshold is multiplied by (MCEP [0165])."""
PROBED = 1000
"""Neighbours of the start among which the largest difference of cost is the first threshold (MCEP [0165])."""
STEPS_PER_MEMBER = 1
"""The threshold is lowered once for so many steps times the number of members."""
FROZEN = 1e-9
"""Where the threshold has come down to this share of the first one, nothing dearer is accepted any more."""


def simulated_annealing(workload: Workload, options: SearchOptions) -> tuple[Plans, int]:
    """Search by simulated annealing, each component by itself.

    Notes
    -----
    A neighbour that is not dearer is always taken, a dearer one with probability exp(-difference / threshold). The
    patent lowers the threshold "each step"; its steps were few for the size of the workload, ours are many.
    """
    return search_components(workload, options, anneal)


def anneal(search: LocalSearch, budget: Budget) -> None:
    """Anneal one component until the budget is used."""
    probed = 0
    largest = 0.0
    while probed < PROBED and (steps := budget.take()):
        largest = search.probe(min(steps, PROBED - probed))
        probed += steps
    search.set_threshold(largest, ALPHA, max(1, int(STEPS_PER_MEMBER * len(search.problem.members))))
    while steps := budget.take():
        search.anneal(steps)
        if search.threshold < FROZEN * largest:
            search.restart()
            search.set_threshold(largest, ALPHA, max(1, int(STEPS_PER_MEMBER * len(search.problem.members))))
