"""Plans for the mechanisms that run them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.fused import reduction
from cep_pipeline.detection.planned import (
    OUTPUTS,
    expected_lines,
    expected_seconds,
    expected_seconds_of_set,
    explained_choice,
    plan_for,
    runs_on,
)
from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.costs.mechanisms import expected_work, mechanism_costs
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
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


def test_what_follows_from_conditions_is_explained() -> None:
    schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}})
    swept = "many matches are counted by a sweep over the events, without being found"
    conditions = {
        "a.x < b.x AND b.x < c.x": f"{swept}; it follows that a.x < c.x",
        "b.timestamp - a.timestamp <= 10000000 AND c.timestamp - b.timestamp <= 500000": (
            "b.timestamp - a.timestamp <= 10000000 is a range of times, which is not tested; "
            "c.timestamp - b.timestamp <= 500000 is a range of times, which is not tested; "
            "it follows that c is at most 10500 ms later than a"
        ),
        "a.x < b.x": swept,
        "a.x > 3 AND a.x < b.x": f"{swept}; it follows that b.x > 3",
        "a.x + 1 = b.x AND (b.x != c.x OR a.x = 3)": "a.x + 1 = b.x is a key of a and b",
    }
    for condition, said in conditions.items():
        patterns = cep.parse_patterns(f"PATTERN SEQ(A a, B b, C c) WHERE {condition} WITHIN 1 hour", schema)
        assert explained_choice(patterns)["pattern_1"] == f"fused, the fastest mechanism; {said}"
        assert explained_choice(patterns, "multitree")["pattern_1"] == "multitree, as asked for"
    for_all = {
        "a.x < 3 AND a.x > 5": "it has no matches: no events fulfil a.x < 3 and a.x > 5",
        "c.timestamp - a.timestamp > 2 hours AND a.x < b.x": (
            "it has no matches: no events within 1 h, in the order of the pattern, fulfil "
            "c.timestamp - a.timestamp > 7200000000"
        ),
        "a.x = b.x AND c.x = b.x": "a.x = b.x AND c.x = b.x is a key of all events, like [x]",
    }
    for condition, said in for_all.items():
        patterns = cep.parse_patterns(f"PATTERN SEQ(A a, B b, C c) WHERE {condition} WITHIN 1 hour", schema)
        counted = "" if "no matches" in said else f"; {swept}"
        assert explained_choice(patterns)["pattern_1"] == f"fused, the fastest mechanism{counted}; {said}"
        assert explained_choice(patterns, "multitree")["pattern_1"] == f"multitree, as asked for; {said}"
    text = "PATTERN SEQ(A? a, B b) WHERE a.x < b.x AND b.x < a.x WITHIN 1 hour"
    explained = explained_choice(cep.parse_patterns(text, schema))["pattern_1"]
    assert "; clause 1 has no matches, since no events fulfil a.x < b.x and b.x < a.x" in explained


SET = parse(
    "NAME one PATTERN SEQ(A a, B b, C c) WHERE a.diff < b.diff WITHIN 2 seconds;"
    "NAME two PATTERN SEQ(B b, C c, A a) WHERE b.diff < c.diff WITHIN 1 second;"
    "NAME list PATTERN SEQ(A a, B+ b[], C c) WHERE b.diff > 1 WITHIN 300 ms"
)
SET_SNAPSHOT = cep.estimate_statistics(SET, EVENTS)


def test_a_set_is_expected_to_take_what_its_patterns_take_and_one_call_of_each_mechanism() -> None:
    chosen = dict.fromkeys(("one", "two", "list"), "fused")
    made = plan_for(SET, SET_SNAPSHOT, chosen)
    ways = expected_seconds_of_set(SET, made, chosen)
    assert next(iter(ways)) == "as it is run: fused"
    assert "multitree for 2, fused for 1" in ways  # costs do not describe lists: such a pattern keeps its mechanism
    costs, works = mechanism_costs(), [expected_work(one, made.statistics) for one in made.patterns]
    together = (1.0, EVENTS.num_rows, *(sum(work[place] for work in works) for place in range(2, 7)))
    for output in OUTPUTS:
        assert ways["as it is run: fused"][output] == pytest.approx(costs.seconds("fused", together, output))
    alone = expected_seconds(SET, made, chosen)
    once = costs.seconds("fused", (1.0, EVENTS.num_rows, *[0.0] * 5))
    own = sum(alone[name]["fused"] for name in chosen) - 2 * once
    assert ways["as it is run: fused"]["verbose"] == pytest.approx(own)


def test_the_ways_of_a_set_are_a_table_of_forms_of_output() -> None:
    chosen = dict.fromkeys(("one", "two", "list"), "fused")
    made = plan_for(SET, SET_SNAPSHOT, chosen)
    lines = expected_lines(SET, made, chosen)
    assert lines[0] == "  expected time of all 3 patterns together, by the form of output:"
    assert lines[1].split() == ["mechanisms", "listing", "compressed", "count"]
    assert lines[2].strip().startswith("as it is run: fused") and any("multitree for 2" in line for line in lines)
    assert "\n".join(lines) in made.explain(expected=lines)
    assert all(len(line) <= 118 for line in lines)
    assert expected_lines(SET[:1], made, chosen) == []
    other = {**chosen, "one": "multi_pattern_nfa"}
    assert expected_lines(SET, made, other) == []  # which was not measured


@given(st.lists(st.sampled_from(["fused", "multitree", "lazy_chain_nfa", "evaluation_tree"]), min_size=3, max_size=3))
def test_whatever_runs_a_set_is_its_first_way_and_each_way_is_told_once(names: list[str]) -> None:
    chosen = dict(zip(("one", "two", "list"), names, strict=True))
    made = plan_for(SET, SET_SNAPSHOT, chosen)
    ways = expected_seconds_of_set(SET, made, chosen)
    first, *others = ways
    assert first.startswith("as it is run: ")
    assert all(name in first for name in names)
    assert first.removeprefix("as it is run: ") not in others or len(set(names)) > 1
    assert all(seconds[output] > 0 for seconds in ways.values() for output in OUTPUTS)


def test_a_pattern_with_lists_is_expected_to_take_so_long_beside_them() -> None:
    made = plan_for(SET, SET_SNAPSHOT, dict.fromkeys(("one", "two", "list"), "fused"))
    said = explained_choice(SET, None, made)
    assert " beside its lists (" in said["list"] and "beside its lists" not in said["one"]


def test_events_that_are_removed_first_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "PATTERN SEQ(A a, B b, C c) WHERE a.diff < b.diff AND b.diff + 40 < c.diff WITHIN 1 second"
    patterns = parse(text)
    made = plan_for(patterns, cep.estimate_statistics(patterns, EVENTS), {"pattern_1": "fused"})
    told = "removed first, where samples show that at most half of the combinations stay"
    assert told not in explained_choice(patterns, None, made)["pattern_1"]
    monkeypatch.setattr(reduction, "FEWEST_CANDIDATES", 0)
    monkeypatch.setattr(reduction, "CANDIDATES_AN_EVENT", 0)
    said = explained_choice(patterns, None, made)["pattern_1"]
    assert told in said
    assert "% of b" in said and "% of c" in said
    assert told not in explained_choice(patterns, "multitree", made)["pattern_1"]


def test_it_is_explained_how_groups_are_made() -> None:
    schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}})
    counted = "groups are made by sweeps over the events, and matches are not listed"
    listed = "matches are listed to make groups, since "
    for text, said in {
        "SEQ(A a, C c, B? b) WITHIN 1 s SUMMARIZE count(*) GROUP BY a.x, bucket(1 h)": counted,
        "SEQ(A a, B b, C c) WITHIN 1 s SUMMARIZE sum(a.x * c.x)": counted,
        "SEQ(A a, B b, C c) WHERE a.x < c.x WITHIN 1 s SUMMARIZE min(a.x), max(c.x)": counted,
        "SEQ(A a, B b, C c) WITHIN 1 s SUMMARIZE min(a.x * c.x)": f"{listed}one value is read of a and c",
        "SEQ(A a, B b, C c) WHERE a.x <> c.x WITHIN 1 s SUMMARIZE min(a.x)": f"{listed}matches are not counted",
        "SEQ(A a, B+ b[], C c) WHERE b[].x > 1 WITHIN 1 s SUMMARIZE max(b.LEN)": counted,
        "SEQ(A a, B+ b[], C c) WITHIN 1 s SUMMARIZE max(stddev(b[].x))": f"{listed}one value is made of",
        "SEQ(A a, ~B b, C c) WITHIN 1 s SUMMARIZE max(a.x), sum(a.x * c.x)": counted,
        "SEQ(A a, C c) WITHIN 1 s OUTPUT NON_OVERLAP SUMMARIZE max(a.x)": f"{listed}OUTPUT and CONSUME choose",
    }.items():
        told = explained_choice(cep.parse_patterns(f"PATTERN {text}", schema))["pattern_1"]
        assert f"; {said}" in told, text


@pytest.mark.parametrize(
    ("condition", "tried"),
    [
        ("sum(b[].x) < 3", False),
        ("b.LEN = 2", False),
        ("max(b[].x) < a.x", False),
        ("avg(b[].x) < 3", True),
    ],
)
def test_lists_that_no_condition_ends_are_explained(condition: str, tried: bool) -> None:
    schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}})
    patterns = cep.parse_patterns(f"PATTERN SEQ(A a, B+ b[]) WHERE {condition} WITHIN 1 hour", schema)
    said = f"; for {condition}, which only a whole list decides, all lists are tried: 2**n of n events"
    assert explained_choice(patterns)["pattern_1"].endswith(said) is tried


def test_lists_that_are_counted_by_parts_are_explained() -> None:
    schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}})
    text = "PATTERN SEQ(A a, B+ b[]) WHERE b[i].x + b[b.LEN].x > b[1].x WITHIN 1 hour"
    patterns = cep.parse_patterns(text, schema)
    listed = "they are listed to be compressed, because of "
    assert f"; matches are counted without being listed; {listed}" in explained_choice(patterns)["pattern_1"]
    assert "counted without being listed" not in explained_choice(patterns, "lazy_chain_nfa")["pattern_1"]


@pytest.mark.parametrize(
    ("condition", "mechanism", "apart"),
    [
        ("b[1].x < c[1].x", "fused", False),
        ("b[1].x < c[1].x", "lazy_chain_nfa", True),
        ("b[].x < c[].x", "fused", True),
        ("b[1].x < 3 AND c[1].x > 3", "lazy_chain_nfa", False),
    ],
)
def test_lists_that_keep_runs_apart_are_explained(condition: str, mechanism: str, apart: bool) -> None:
    schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}})
    patterns = cep.parse_patterns(f"PATTERN SEQ(A a, B+ b[], C+ c[]) WHERE {condition} WITHIN 1 hour", schema)
    said = f"counted and compressed without being listed; for {condition}, which joins two lists, runs are kept apart"
    assert (said in explained_choice(patterns, mechanism)["pattern_1"]) is apart
