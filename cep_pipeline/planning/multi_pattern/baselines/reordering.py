"""Reordering only, RE (MCEP [0146])."""

from __future__ import annotations

from cep_pipeline.planning.algorithms.greedy import greedy_order
from cep_pipeline.planning.multi_pattern.workload import Plans, SearchOptions, Workload, named_order


def reordering(workload: Workload, options: SearchOptions) -> tuple[Plans, int]:
    """Every pattern by itself, in the order that greedy choice makes.

    The patent "greedily rebuilds the event sequence by picking the event type maximizing the cost function at each
    step"; as its cost is of what is done, the best type is the one with the least cost: planner `greedy`.
    """
    return {
        member.id: named_order(greedy_order(workload.statistics[member.id], workload.model).order, member.names)
        if not workload.keeps_order(member)
        else member.names
        for member in workload.members
    }, 0
