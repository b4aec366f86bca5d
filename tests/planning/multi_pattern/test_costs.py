"""The patent's cost functions: against the sums of [0079] and [0169], written out."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.planning import Join, plan
from cep_pipeline.planning.clause_plans import Sharing, WorkloadSearch
from cep_pipeline.planning.costs import INSTANCES, THROUGHPUT, CostModel
from cep_pipeline.planning.multi_pattern.costs import ln_cost, ln_cost_apart, member_statistics, workload_plan
from cep_pipeline.planning.multi_pattern.members import Member, members_of
from cep_pipeline.planning.multi_pattern.shared_plan import SharedPlan, share
from cep_pipeline.planning.orderings import ln_order_cost, ln_tree_cost
from cep_pipeline.planning.trees import tree_of_positions
from cep_pipeline.statistics import estimate_statistics
from tests.planning.clauses import ln_partial_matches
from tests.planning.multi_pattern.literal import any_tree
from tests.planning.multi_pattern.workloads import SCHEMA, workloads
from tests.statistics.market import market, parse
from tests.thoroughness import examples

WORKLOAD = """
NAME one PATTERN SEQ(A a, B b, C c) WHERE a.diff < b.diff AND b.diff < c.diff WITHIN 1 second;
NAME two PATTERN SEQ(A x, B y) WHERE y.diff > x.diff WITHIN 4 seconds;
NAME three PATTERN AND(B p, C q, A r) WHERE p.diff < q.diff AND [sector] WITHIN 2 seconds
"""
STREAM = SCHEMA.table(
    [{"timestamp": k * 40_000, "type": "AABBCXD"[k * k % 7], "x": k * 5 % 11, "y": k % 3} for k in range(200)]
)
ORDERS = [("a", "b", "c"), ("x", "y"), ("r", "p", "q")]
TREES = [Join(Join("a", "b"), "c"), Join("y", "x"), Join("r", Join("q", "p"))]


def made(sharing: Sharing) -> tuple[SharedPlan, dict[str, list[tuple[float, float]]]]:
    """A plan, and of the nodes of single plans, by key, the windows and the expected partial matches."""
    patterns = parse(WORKLOAD)
    snapshot = estimate_statistics(patterns, market(500))
    shared = share(members_of(patterns), ORDERS if sharing == "prefix" else TREES, sharing)
    statistics = member_statistics(shared.members, snapshot)
    nodes: dict[str, list[tuple[float, float]]] = {}
    for member in shared.members.values():
        for form in member.forms.nodes(shared.plans[member.id]):
            numbers = statistics[member.id]
            places = [numbers.names.index(name) for name in form.slots]
            nodes.setdefault(form.key, []).append((member.window, math.exp(ln_partial_matches(numbers, places))))
    total = math.exp(ln_cost(shared, statistics))
    assert total == pytest.approx(sum(max(found)[1] for found in nodes.values()))
    apart = math.exp(ln_cost_apart(shared, statistics))
    assert apart == pytest.approx(sum(alive for found in nodes.values() for _, alive in found))
    return shared, nodes


@pytest.mark.parametrize("sharing", ["prefix", "subexpression"])
def test_shared_nodes_cost_once_what_they_cost_in_their_largest_window(sharing: Sharing) -> None:
    shared, nodes = made(sharing)
    assert len(shared) == len(nodes) < sum(map(len, nodes.values()))
    assert any(len({window for window, _ in found}) > 1 for found in nodes.values())


@settings(max_examples=examples(40))
@given(
    workloads(),
    st.sampled_from(["prefix", "subexpression"]),
    st.sampled_from([THROUGHPUT, INSTANCES]),
    st.randoms(),
)
def test_what_plans_cost_apart_is_what_single_plans_cost(
    workload: list[Member], sharing: Sharing, model: CostModel, random: Random
) -> None:
    snapshot = estimate_statistics([member.pattern for member in workload], STREAM)
    trees = [any_tree(member.names, random) for member in workload]
    orders = [tuple(random.sample(member.names, len(member.names))) for member in workload]
    plans = orders if sharing == "prefix" else trees
    shared = share(workload, plans, sharing)
    statistics = member_statistics(shared.members, snapshot)
    alone = 0.0
    for member, order, tree in zip(workload, orders, trees, strict=True):
        numbers = statistics[member.id]
        if sharing == "prefix":
            alone += math.exp(ln_order_cost(model, numbers, [numbers.names.index(name) for name in order]))
        else:
            alone += math.exp(ln_tree_cost(model, numbers, tree_of_positions(tree, numbers.names)))
    assert math.exp(ln_cost_apart(shared, statistics, model)) == pytest.approx(alone)
    assert ln_cost(shared, statistics, model) <= ln_cost_apart(shared, statistics, model) + 1e-9
    separate = share(workload, plans, "none")
    assert ln_cost(separate, statistics, model) == pytest.approx(math.log(alone))
    workload_plan(shared, statistics, WorkloadSearch("sharing"), model)


def test_a_plan_that_shares_nothing_costs_what_its_patterns_cost() -> None:
    patterns = parse(WORKLOAD)
    snapshot = estimate_statistics(patterns, market(500))
    single = plan(patterns, snapshot, "dp_left_deep", "throughput")
    shared = share(members_of(patterns), [one.clauses[0].order for one in single.patterns], "none")
    found = workload_plan(shared, member_statistics(shared.members, snapshot), WorkloadSearch("none"))
    assert replace(single, workload=found).ln_cost == pytest.approx(single.ln_cost)
    assert found.ln_apart == found.ln_cost and found.nodes == found.nodes_apart == 8
