"""What a plan says of sharing: its JSON form, its cost, its text."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from cep_pipeline.adaptation.plan_makers import ln_cost_on, same_plans
from cep_pipeline.errors import InputError, PlanError
from cep_pipeline.planning import Join, Plan, plan
from cep_pipeline.planning.clause_plans import NodeUse, SharedPlanNode, Sharing, WorkloadPlan, WorkloadSearch
from cep_pipeline.planning.multi_pattern.costs import member_statistics, workload_plan
from cep_pipeline.planning.multi_pattern.members import members_of
from cep_pipeline.planning.multi_pattern.shared_plan import share, shared_plan_of
from cep_pipeline.statistics import estimate_statistics
from tests.statistics.market import market, parse

TEXT = """
NAME rise PATTERN SEQ(A a, B b, C c) WHERE a.diff < b.diff WITHIN 2 seconds;
NAME fall PATTERN SEQ(A p, B q, C r) WHERE q.diff > p.diff AND r.price > 20 WITHIN 5 seconds
"""
SEARCH = WorkloadSearch("simulated_annealing", "vertex:3", 7, 12_345)


def made(sharing: Sharing) -> Plan:
    patterns = parse(TEXT)
    snapshot = estimate_statistics(patterns, market(400))
    single = plan(patterns, snapshot, "trivial", "throughput")
    shared = share(members_of(patterns), [one.clauses[0].order for one in single.patterns], sharing)
    return replace(
        single,
        sharing=sharing,
        workload=workload_plan(shared, member_statistics(shared.members, snapshot), SEARCH),
    )


def test_json_round_trip_keeps_what_is_shared() -> None:
    for sharing in ("none", "prefix"):
        one = made(sharing)
        again = Plan.from_json(json.loads(json.dumps(one.to_json(), allow_nan=False)))
        assert again == one and again.plan_id == one.plan_id
    assert made("none").plan_id != made("prefix").plan_id


def test_the_cost_of_a_plan_counts_what_is_shared_once() -> None:
    one = made("prefix")
    (rise, fall) = (pattern.clauses[0] for pattern in one.patterns)
    steps = [math.exp(step.ln_partial_matches) for step in (*fall.steps, rise.steps[2])]
    assert one.cost == pytest.approx(sum(steps))
    assert one.workload is not None
    assert math.exp(one.workload.ln_apart) == pytest.approx(math.exp(rise.ln_cost) + math.exp(fall.ln_cost))
    assert made("none").cost == pytest.approx(math.exp(rise.ln_cost) + math.exp(fall.ln_cost))


def test_explain_says_what_is_shared_by_whom_and_what_that_saves() -> None:
    text = made("prefix").explain()
    assert "sharing prefix: equal beginnings of orders are shared" in text
    assert "found by simulated_annealing, neighbourhood vertex:3, seed 7, 12,345 steps" in text
    assert "4 nodes instead of 6" in text
    assert "rise: a, b; fall: p, q" in text and "rise: a; fall: p" in text
    assert "6 nodes instead of 6" in made("none").explain() and "uses" not in made("none").explain()


def test_of_many_shared_nodes_and_patterns_explain_names_some() -> None:
    one = made("prefix")
    assert one.workload is not None
    uses = tuple(NodeUse(("rise", "fall")[number % 2], number % 2, ("v", "w")) for number in range(9))
    work = SharedPlanNode(uses, "1 s", 1.0, 2.0)
    of_one = replace(work, uses=tuple(use._replace(variables=("v",)) for use in uses))
    shared = (of_one, *(work,) * 30)
    text = replace(one, workload=replace(one.workload, shared=shared, nodes=31, nodes_apart=279)).explain()
    assert "rise: v, w; fall (2): v, w; rise: v, w; fall (2): v, w; and 5 more" in text
    assert "25: 2 variables " in text and "26: 2 variables" not in text and "and 5 more that save less" in text
    assert "1 variable " not in text


def test_of_many_patterns_explain_is_a_list_until_some_are_asked_for() -> None:
    one = made("prefix")
    rise, fall = one.patterns
    many = [replace(rise, pattern=f"rise {number}") for number in range(50)]
    cheap = replace(fall, clauses=(replace(fall.clauses[0], ln_cost=-9.0),))
    whole = Plan(0.0, one.statistics, (cheap, *many, rise, replace(fall, pattern="more")))
    text = whole.explain({"rise": "fused", "more": "nfab", **{pattern.pattern: "fused" for pattern in many}})
    assert "51 of 53 patterns run on fused\n1 of 53 patterns run on nfab\n" in text
    assert f"the 40 that cost most by themselves, in {rise.unit}:" in text
    listed = {line.strip().partition("  ")[0] for line in text.splitlines() if line.endswith(("a, b, c", "p, q, r"))}
    assert len(listed) == 40 and "fall" not in listed, "those that cost most"
    assert "invariants:" not in text and "`cep explain --pattern NAME`" in text and len(text) < 5_000
    few = whole.explain("fused", ["rise 7", "fall"])
    assert few.count("invariants:") == 2 and "pattern rise 7: " in few and "pattern fall: " in few
    assert whole.explain(patterns=[pattern.pattern for pattern in whole.patterns]).count("invariants:") == 53
    with pytest.raises(InputError, match=r"no pattern 'none'; it has: fall, rise 0, \.\.\., rise, more"):
        whole.explain(patterns=["rise", "none"])
    other = replace(whole, patterns=(*whole.patterns[:-1], replace(whole.patterns[-1], unit="ns")))
    assert "the 40 that come first:" in other.explain() and f"0.0001234 {fall.unit}" in other.explain()


def test_sharing_that_cannot_be_is_refused() -> None:
    one = made("prefix")
    clause = one.patterns[0].clauses[0]
    tree = replace(clause, tree=Join(Join("a", "b"), "c"))
    with pytest.raises(ValueError, match="not trees"):
        replace(one, patterns=(replace(one.patterns[0], clauses=(tree,)), one.patterns[1]))
    with pytest.raises(ValueError, match="shares nothing has shared nodes"):
        replace(one, sharing="none")
    with pytest.raises(ValueError, match="no sharing"):
        replace(one, sharing="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="several uses"):
        SharedPlanNode((NodeUse("one", 0, ("a",)),), "1 s", 0.0, 0.0)
    with pytest.raises(ValueError, match="several uses"):
        SharedPlanNode((NodeUse("one", 0, ("a",)), NodeUse("two", 0, ("a", "b"))), "1 s", 0.0, 0.0)
    with pytest.raises(ValueError, match="finite"):
        WorkloadPlan(SEARCH, "cost", math.inf, 0.0, 1, 1)
    shared = SharedPlanNode((NodeUse("one", 0, ("a",)), NodeUse("two", 0, ("a",))), "1 s", 0.0, 0.0)
    with pytest.raises(ValueError, match="0 nodes for 1, 1 of them shared"):
        WorkloadPlan(SEARCH, "cost", 0.0, 0.0, 0, 1, (shared,))
    # A part of a plan may test the order of a conjunction that patterns outside the part share with it.
    assert WorkloadPlan(SEARCH, "cost", 0.0, 0.0, 6, 5).nodes == 6
    with pytest.raises(ValueError, match="no negative number of steps"):
        WorkloadSearch("tabu", steps=-1)


def test_what_a_shared_plan_costs_on_other_statistics() -> None:
    patterns = parse(TEXT)
    for sharing in ("none", "prefix"):
        one = made(sharing)
        assert ln_cost_on(one, patterns, estimate_statistics(patterns, market(400))) == pytest.approx(one.ln_cost)
        drifted = estimate_statistics(patterns, market(900))
        alone = replace(one, sharing="none", workload=None)
        assert one.ln_cost != ln_cost_on(one, patterns, drifted) <= ln_cost_on(alone, patterns, drifted)
    assert same_plans(made("prefix"), made("prefix")) and not same_plans(made("prefix"), made("none"))


def test_part_of_a_plan_has_its_rule_and_its_own_cost() -> None:
    one = made("prefix")
    part = one.part(["fall"])
    assert part.sharing == "prefix" and part.workload is None
    assert part.ln_cost == pytest.approx(one.for_pattern("fall").ln_cost)
    with pytest.raises(ValueError, match="by `part`"):
        replace(one, patterns=one.patterns[1:])
    with pytest.raises(PlanError, match="no pattern 'other'"):
        one.part(["other"])


def test_a_plan_is_made_a_shared_plan_again() -> None:
    one = made("prefix")
    shared = shared_plan_of(one, parse(TEXT))
    assert one.workload is not None and len(shared) == one.workload.nodes
    with pytest.raises(PlanError, match="no pattern"):
        shared_plan_of(one, parse("NAME other PATTERN A a WITHIN 1 second"))
