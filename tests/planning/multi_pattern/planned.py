"""Workloads to be planned: the strategies' members with statistics of generated events, and costs of parts of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from itertools import combinations
from random import Random

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_plans import Sharing
from cep_pipeline.planning.clause_statistics import ln_sum
from cep_pipeline.planning.costs import THROUGHPUT, CostModel
from cep_pipeline.planning.multi_pattern.costs import SHARED_COSTS, ln_node_cost, member_statistics
from cep_pipeline.planning.multi_pattern.members import Member, MemberId, members_of
from cep_pipeline.planning.multi_pattern.shared_plan import share
from cep_pipeline.planning.multi_pattern.workload import Plans, Workload
from cep_pipeline.statistics import StatisticsSnapshot, estimate_statistics
from tests.planning.multi_pattern.workloads import SCHEMA

TYPES = "AAABBBBCCDXX"


MODELS = pytest.mark.parametrize("model", SHARED_COSTS.values(), ids=SHARED_COSTS)
"""All cost models by which many patterns are planned together."""


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


def workload_of(members: Sequence[Member], sharing: Sharing, model: CostModel = THROUGHPUT) -> Workload:
    """Members with the statistics of the events."""
    statistics = member_statistics({member.id: member for member in members}, snapshot_of(members))
    return Workload(tuple(members), statistics, sharing, model=model)


def ln_cost_of_joins(workload: Workload, plans: Plans, component: Collection[MemberId]) -> float:
    """ln of what some members cost together, without the leaves of trees."""
    members = [member for member in workload.members if member.id in component]
    plan = share(members, [plans[member.id] for member in members], workload.sharing)
    nodes = (node for node in plan if node.left is not None or not workload.trees)
    return ln_sum(ln_node_cost(plan, node, workload.statistics, workload.model) for node in nodes)


@st.composite
def alike(draw: st.DrawFn, most: int = 5, largest: int = 5, *, distinct: bool = False) -> list[Member]:
    """Patterns that have much in common: conditions depend on types, variables of one type are alike, or `distinct`."""
    texts = []
    for _ in range(draw(st.integers(2, most))):
        types = draw(st.lists(st.sampled_from("ABBCDX"), min_size=2, max_size=largest, unique=distinct))
        if draw(st.booleans()):
            types.sort()
        operands = [f"{kind}+ v{k}[]" if kind == "X" else f"{kind} v{k}" for k, kind in enumerate(types)]
        some = list(combinations([(kind, f"v{k}") for k, kind in enumerate(types) if kind != "X"], 2))
        conditions = [
            f"{one}.x < {other}.x" if kind < other_kind else f"{one}.y = {other}.y"
            for (kind, one), (other_kind, other) in some
            if kind + other_kind in ("AB", "BC", "DD", "BA")
        ]
        where = f"WHERE {' AND '.join(conditions)}" if conditions and draw(st.booleans()) else ""
        structure = f"{draw(st.sampled_from(('SEQ', 'AND', 'AND')))}({', '.join(operands)})"
        texts.append(f"PATTERN {structure} {where} WITHIN {draw(st.sampled_from('122'))} seconds")
    return list(members_of(parse_patterns(";".join(texts), SCHEMA)))
