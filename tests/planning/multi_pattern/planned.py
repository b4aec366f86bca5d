"""Workloads to be planned: the strategies' members with statistics of generated events, and costs of parts of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from random import Random

import pyarrow as pa

from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.logarithms import ln_sum
from cep_pipeline.planning.multi_pattern import Member, MemberId, Sharing, share
from cep_pipeline.planning.multi_pattern.costs import ln_node_cost, member_statistics
from cep_pipeline.planning.multi_pattern.workload import Plans, Workload
from cep_pipeline.statistics import StatisticsSnapshot, estimate_statistics
from tests.planning.multi_pattern.workloads import SCHEMA

TYPES = "AAABBBBCCDXX"


@cache
def events() -> pa.Table:
    """Events of all types, several a second."""
    random = Random(3)
    return SCHEMA.table(
        [
            {
                "timestamp": 230_000 * number,
                "type": random.choice(TYPES),
                "x": random.randrange(6),
                "y": random.randrange(3),
            }
            for number in range(120)
        ]
    )


def patterns_of(members: Sequence[Member]) -> list[Pattern]:
    """The patterns of members."""
    return list({member.pattern.name: member.pattern for member in members}.values())


def snapshot_of(members: Sequence[Member]) -> StatisticsSnapshot:
    """The statistics of the events."""
    return estimate_statistics(patterns_of(members), events())


def workload_of(members: Sequence[Member], sharing: Sharing) -> Workload:
    """Members with the statistics of the events."""
    statistics = member_statistics({member.id: member for member in members}, snapshot_of(members))
    return Workload(tuple(members), statistics, sharing)


def ln_cost_of_joins(workload: Workload, plans: Plans, component: Collection[MemberId]) -> float:
    """ln of what some members cost together, without the leaves of trees."""
    members = [member for member in workload.members if member.id in component]
    plan = share(members, [plans[member.id] for member in members], workload.sharing)
    nodes = (node for node in plan if node.left is not None or not workload.trees)
    return ln_sum(ln_node_cost(plan, node, workload.statistics) for node in nodes)
