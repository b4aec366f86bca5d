"""Plans for the mechanisms that run them."""

from __future__ import annotations

import pytest

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.planned import plan_for, runs_on
from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.orderings import TreeOrdering
from tests.planning.given_planners import give
from tests.statistics.market import market, parse

TEXT = (
    "NAME any PATTERN SEQ(A a, B b, C c) WHERE a.diff < b.diff WITHIN 2 seconds;"
    "NAME next PATTERN SEQ(A a, B b) WHERE skip_till_next_match { a.diff < b.diff } WITHIN 2 seconds;"
    "NAME once PATTERN SEQ(A a, B b) WITHIN 2 seconds CONSUME MATCHED"
)
PATTERNS = parse(TEXT)
EVENTS = market(200)
SNAPSHOT = cep.estimate_statistics(PATTERNS, EVENTS)
CHOSEN = {"any": "fused", "next": "nfab", "once": "fused"}


@pytest.fixture
def trees(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a planner that joins the last two variables first."""

    def planned(statistics: ClauseStatistics, cost: CostModel) -> TreeOrdering:
        return TreeOrdering((0, (1, 2)) if statistics.size == 3 else (0, 1))

    return give(monkeypatch, planned, makes_trees=True)


def test_each_pattern_is_planned_by_the_cost_of_what_runs_it() -> None:
    made = plan_for(PATTERNS, SNAPSHOT, CHOSEN)
    assert [plan.cost_model for plan in made.patterns] == ["kernel", "throughput", "kernel"]
    assert [plan.planner for plan in made.patterns] == ["dp_left_deep", "trivial", "dp_left_deep"]
    lazy = plan_for(PATTERNS[:1], SNAPSHOT, {"any": "lazy_chain_nfa"})
    assert lazy.cost_model == "throughput"
    asked = plan_for(PATTERNS, SNAPSHOT, CHOSEN, "greedy", "latency")
    assert asked.cost_model == "latency"
    assert asked.planner == "greedy, trivial"


def test_consumed_events_change_no_plan() -> None:
    """CONSUME chooses among finished matches: the work is that of the pattern without it, and so is the plan."""
    text = "NAME p PATTERN SEQ(A a, B b, C c) WHERE a.diff < b.diff AND b.diff < c.diff WITHIN 2 seconds"
    [any_match], [consuming] = parse(text), parse(f"{text} CONSUME MATCHED")
    for mechanism in ("fused", "lazy_chain_nfa", "evaluation_tree"):
        plans = [plan_for([one], SNAPSHOT, {"p": mechanism}) for one in (any_match, consuming)]
        assert len({(plan.cost_model, plan.patterns[0].clauses[0].order) for plan in plans}) == 1


def test_trees_are_for_mechanisms_that_run_them(trees: str) -> None:
    for mechanism in MECHANISMS:
        chosen = {"any": mechanism}
        made = plan_for(PATTERNS[:1], SNAPSHOT, chosen, trees)
        [clause] = made.patterns[0].clauses
        assert (clause.tree is not None) == MECHANISMS[mechanism].runs_trees
        assert runs_on(made, PATTERNS[:1], chosen)
        found = cep.detect(PATTERNS[:1], EVENTS, plan=made, mechanism=mechanism)
        assert found["any"].equals(cep.detect(PATTERNS[:1], EVENTS)["any"])


def test_a_plan_fits_mechanisms_by_kind_and_order(trees: str) -> None:
    tree = plan_for(PATTERNS[:1], SNAPSHOT, {"any": "fused"}, trees)
    assert runs_on(tree, PATTERNS[:1], {"any": "evaluation_tree"})
    assert not runs_on(tree, PATTERNS[:1], {"any": "lazy_chain_nfa"})
    order = plan_for(PATTERNS[:1], SNAPSHOT, {"any": "fused"})
    assert order.patterns[0].clauses[0].order != ("a", "b", "c")
    assert runs_on(order, PATTERNS[:1], {"any": "lazy_chain_nfa"})
    assert not runs_on(order, PATTERNS[:1], {"any": "eager_nfa"})
