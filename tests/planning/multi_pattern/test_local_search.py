"""The local search: its costs are those of whole plans, its plans those of the local planner, its seeds repeat."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.planning.clause_plans import Sharing
from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.multi_pattern.local_plans import named_plan
from cep_pipeline.planning.multi_pattern.local_search import LocalSearch
from cep_pipeline.planning.multi_pattern.members import Member
from cep_pipeline.planning.multi_pattern.search_planners import search_of
from cep_pipeline.planning.multi_pattern.workload import Neighbourhood, Plans, SearchOptions, Workload
from tests.planning.multi_pattern.planned import MODELS, alike, ln_cost_of_joins, workload_of
from tests.planning.multi_pattern.workloads import workloads
from tests.thoroughness import examples

RULES: tuple[Sharing, ...] = ("prefix", "subexpression")


def options(neighbourhood: str = "edge", steps: int = 1, seed: int = 0) -> SearchOptions:
    return SearchOptions(Neighbourhood.of(neighbourhood), None, steps, seed)


def plans_of(workload: Workload, number: int, search: LocalSearch) -> Plans:
    component = workload.components[number]
    return {
        member.id: named_plan(plan, member.names, trees=workload.trees)
        for member, plan in zip(component, search.plans, strict=True)
    }


@MODELS
@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=examples(40))
@given(st.one_of(workloads(), alike(), alike()), st.sampled_from(["edge", "vertex:3"]), st.integers(0, 99))
def test_after_every_step_the_cost_is_that_of_the_whole_plan(
    rule: Sharing, model: CostModel, members: list[Member], neighbourhood: str, seed: int
) -> None:
    workload = workload_of(members, rule, model)
    for number, component in enumerate(workload.components):
        ids = {member.id for member in component}
        search = search_of(workload, options(neighbourhood, seed=seed), number)
        assert search.ln_cost == pytest.approx(ln_cost_of_joins(workload, plans_of(workload, number, search), ids))
        search.threshold = search.probe(20)
        seen = search.accepted
        for _ in range(30):
            search.anneal(1)
            if search.accepted > seen:
                seen = search.accepted
                plans = plans_of(workload, number, search)
                assert search.ln_cost == pytest.approx(ln_cost_of_joins(workload, plans, ids), abs=1e-9)
