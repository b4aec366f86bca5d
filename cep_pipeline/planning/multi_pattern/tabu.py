"""Tabu search over shared plans (MCEP [0166])."""

from __future__ import annotations

from cep_pipeline.planning.multi_pattern.component_search import Budget, search_components
from cep_pipeline.planning.multi_pattern.local_search import LocalSearch
from cep_pipeline.planning.multi_pattern.workload import Plans, SearchOptions, Workload

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
    search.set_tabu(REMEMBERED, NEIGHBOURS)
    while steps := budget.take():
        search.tabu(steps)
