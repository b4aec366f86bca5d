"""The text of explain, as people see it."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from cep_pipeline.detection.detect import detect
from cep_pipeline.planning import Plan, plan
from cep_pipeline.planning.orderings import TreeOrdering
from cep_pipeline.planning.plans import explain_analyzed
from cep_pipeline.planning.trees import PositionTree
from cep_pipeline.statistics import LeafRate, Selectivity, Source, StatisticsSnapshot, estimate_statistics
from tests.planning.given_planners import give
from tests.statistics.market import market, parse

SNAPSHOTS = Path(__file__).parent / "snapshots"

PATTERNS = """
NAME rise
PATTERN SEQ(A a, B b, C c) WHERE a.price > 20 AND a.diff < b.diff AND b.diff < c.diff WITHIN 5 seconds;

NAME runs
PATTERN OR(SEQ(C c, ~B n, A+ a[]), AND(Stock s, Missing m)) WHERE a[i].diff > a[i-1].diff AND [sector] WITHIN 2 seconds;

NAME lonely
PATTERN C c WITHIN 1 second
"""


@pytest.mark.parametrize("planner", ["dp_left_deep", "trivial"])
def test_explain_of_estimates(planner: str) -> None:
    patterns = parse(PATTERNS)
    snapshot = estimate_statistics(patterns, market(1000), max_pairs=5000)
    text = plan(patterns, snapshot, planner, "throughput").explain({"rise": "fused"})
    # Identifiers hash numbers to the last bit, which may differ between processors.
    text = re.sub(r"\b[0-9a-f]{32}\b", "<id>", text)
    assert text == (SNAPSHOTS / f"{planner}.txt").read_text(encoding="utf-8")


def test_explain_of_numbers_beyond_a_float() -> None:
    (pattern,) = parse("NAME huge PATTERN SEQ(A a, B+ b[]) WHERE a.diff < b.diff WITHIN 1 hour")
    snapshot = StatisticsSnapshot(
        "market",
        rates=(LeafRate("A", 1e12), LeafRate("B", 45.0)),
        selectivities=(
            Selectivity("(A) before (B) within 1 h: x.diff < y.diff", 1e-9, 10**12, 10**6, Source.SAMPLED_PAIRS),
        ),
    )
    text = plan([pattern], snapshot).explain()
    assert "×10⁴⁸" in text
    assert "1×10⁻⁹" in text
    assert "1,000,000 of 1,000,000,000,000 pairs" in text
    assert "0 events of market\n" in text


def test_explain_says_what_a_dear_condition_costs() -> None:
    patterns = parse(
        "NAME dear PATTERN SEQ(A a, B b, C c) WHERE ln(a.price * b.price) > 3 AND a.diff < c.diff WITHIN 2 seconds;"
        "NAME plain PATTERN SEQ(A a, B b) WHERE ln(a.price) < ln(b.price) WITHIN 2 seconds"
    )
    made = plan(patterns, estimate_statistics(patterns, market(500)))
    again = Plan.from_json(json.loads(json.dumps(made.to_json())))
    assert again == made
    dear, plain = (again.explain(patterns=[name]) for name in ("dear", "plain"))
    assert re.search(r"a test on fused\n(.*\n)*.*ln\(a.price \* b.price\) > 3.* ns \(function\)\n", dear)
    assert "a test on fused" not in plain
    text = json.dumps(made.to_json())
    assert text.count('"kind": "function"') == 1
    Plan.from_json(json.loads(text.replace(', "kind": "function"', "").replace('"kind": "function", ', "")))


def test_explain_names_the_mechanism() -> None:
    patterns = parse(PATTERNS)
    made = plan(patterns, estimate_statistics(patterns, market(100)))
    assert made.explain("fused").count("runs on fused") == 3
    assert "runs on" not in made.explain()


def test_ties_are_said() -> None:
    (pattern,) = parse("PATTERN AND(A a, B b) WITHIN 1 second")
    snapshot = StatisticsSnapshot("market", rates=(LeafRate("A", 1.0), LeafRate("B", 1.0)))
    assert "a tie: the pattern's order decides" in plan([pattern], snapshot, planner="greedy").explain()


def in_tree(tree: PositionTree, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a planner that plans every clause by this tree; the quick ones are beside it."""
    return give(monkeypatch, lambda statistics, cost: TreeOrdering(tree), makes_trees=True)


def test_trees_are_drawn_with_what_is_expected_at_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    (pattern,) = parse(PATTERNS.split(";", maxsplit=1)[0])
    snapshot = estimate_statistics([pattern], market(1000), max_pairs=5000)
    made = plan([pattern], snapshot, in_tree((0, (1, 2)), monkeypatch), "throughput")
    text = made.explain("evaluation_tree")
    drawn = [
        line.strip().split("  ")[0] for line in text.splitlines() if "- " in line or line.startswith("    join 2:")
    ]
    assert drawn[:5] == ["join 2: a, b, c", "|- a", "`- join 1: b, c", "|- b", "`- c"]
    (clause,) = made.patterns[0].clauses
    (step, *_), (below, root) = clause.steps, clause.nodes
    line = next(line for line in text.splitlines() if "join 1: b, c" in line)
    assert line.split()[-2:] == ["0.2431", "19.12"]
    assert below.ln_partial_matches == pytest.approx(math.log(19.12), rel=1e-3)
    assert step.leaf in next(line for line in text.splitlines() if "|- a" in line)
    assert "join 1  b.diff < c.diff       0.4862  all 1,489 pairs" in text
    assert "join 2  a.diff < b.diff       0.4644" in text
    assert math.exp(clause.ln_cost) == pytest.approx(
        sum(math.exp(one.ln_partial_matches) for one in (*clause.steps, below, root))
    )
    assert "the same tree by event_frequency, greedy, dp_left_deep" in text  # c, b, a: the sides of joins do not matter
    assert "runner-up: ((a, b), c) (by trivial), cost 189, 1.424 times this one's" in text
    assert Plan.from_json(json.loads(json.dumps(made.to_json()))).explain("evaluation_tree") == text


def test_beside_an_order_trees_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    (pattern,) = parse(PATTERNS.split(";", maxsplit=1)[0])
    snapshot = estimate_statistics([pattern], market(1000), max_pairs=5000)
    in_tree((0, (1, 2)), monkeypatch)
    made = plan([pattern], snapshot, "greedy", "throughput")
    assert re.search(r"also tried: \(a, \(b, c\)\) \(by .*given", made.explain().replace("\n", " "))
    runner_up = made.patterns[0].clauses[0].runner_up
    assert runner_up is not None
    assert runner_up.tree is None


@pytest.mark.parametrize("bushy", [False, True])
def test_twenty_two_variables_stay_readable(bushy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"v{number}" for number in range(22)]
    text = ", ".join(f"{'ABC'[number % 3]} {name}" for number, name in enumerate(names))
    where = " AND ".join(f"{one}.diff < {other}.diff" for one, other in pairwise(names))
    (pattern,) = parse(f"NAME long PATTERN AND({text}) WHERE {where} WITHIN 5 seconds")
    tree: PositionTree = 0
    for number in range(1, 11):
        tree = (tree, number)
    other: PositionTree = 11
    for number in range(12, 22):
        other = (number, other)
    bushily = in_tree((tree, other), monkeypatch)
    planner = bushily if bushy else "greedy"
    snapshot = estimate_statistics([pattern], market(200), max_pairs=100)
    explained = plan([pattern], snapshot, planner, "throughput").explain("evaluation_tree")
    # Only the columns of a drawn tree are as wide as the tree is deep.
    assert max(len(line) for line in explained.splitlines()) <= (160 if bushy else 120)
    assert explained.count("\n") < 140
    if bushy:
        assert "join 21: v0, v1, ..., v12, v11" in explained
        assert explained.count("|- ") == 21


def analyzed(text: str, snapshot_of: int, events: int) -> tuple[Plan, str]:
    """A plan by the statistics of some events, and the text of its analysis over others."""
    patterns = parse(text)
    made = plan(patterns, estimate_statistics(patterns, market(snapshot_of)))
    _, metrics = detect(patterns, market(events), plan=made, metrics=True)
    return made, explain_analyzed(made, metrics, events)


def test_analyze_puts_what_happened_beside_what_was_expected() -> None:
    made, text = analyzed(PATTERNS.split(";", maxsplit=1)[0], 1000, 1000)
    heading = next(place for place, line in enumerate(text.splitlines()) if "candidates" in line)
    rows = [line.split() for line in text.splitlines()[heading + 1 : heading + 4]]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    # Of each step all events, or 0.4862 of 1,489 pairs and 0.3 of 8,205 triples.
    assert [row[2] for row in rows] == ["115", "1,489", "8,205"]
    assert [row[3] for row in rows] == ["115", "724", "2,498"]
    assert "<<" not in text
    assert "runs on fused" in text
    for line in made.explain("fused").splitlines():
        assert line in text


@pytest.mark.parametrize("mechanism", ["multi_pattern_nfa", "multitree"])
def test_patterns_that_share_a_node_show_it_each(mechanism: str) -> None:
    text = "NAME one PATTERN SEQ(A a, B b, C c) WITHIN 1 second; NAME other PATTERN SEQ(A x, B y) WITHIN 1 second"
    patterns = parse(text)
    made = plan(patterns, estimate_statistics(patterns, market(200)), "trivial")
    _, metrics = detect(patterns, market(200), plan=made, mechanism=mechanism, metrics=True)
    shared = [node for node in metrics.nodes if node.shared_with]
    assert [node.shared_with[0][2] for node in shared if len(node.node) == 2] == [("x", "y")]
    text = explain_analyzed(made, metrics)
    assert "the mechanism has no such node" not in text
    assert text.count("found once for 2 uses") == 4  # a, and a with b, of the order of each


def test_estimates_that_were_far_off_are_marked() -> None:
    patterns = parse("NAME rise PATTERN SEQ(A a, B b) WHERE a.diff < b.diff WITHIN 5 seconds")
    known = estimate_statistics(patterns, market(1000))
    wrong = replace(
        known, selectivities=tuple(Selectivity(one.condition, 0.001, 10, 10) for one in known.selectivities)
    )
    made = plan(patterns, wrong)
    _, metrics = detect(patterns, market(1000), plan=made, metrics=True)
    marked = [line for line in explain_analyzed(made, metrics).splitlines() if "<<" in line]
    assert len(marked) == 1
    assert marked[0].split()[0] == "2"
    assert marked[0].endswith("<< partial matches and selectivity off by more than 10x")


def test_of_nodes_that_the_mechanism_does_not_have_it_says_so() -> None:
    text = "NAME runs PATTERN SEQ(B+ b[], C c, A a) WITHIN 1 second"
    patterns = parse(text)
    made = plan(patterns, estimate_statistics(patterns, market(100)), "trivial")
    _, metrics = detect(patterns, market(100), plan=made, metrics=True, output="count")
    assert "the mechanism has no such node" in explain_analyzed(made, metrics)


STRUCTURES = {
    "negation": "SEQ(A a, ~C n, B b) WHERE a.diff < b.diff WITHIN 5 seconds",
    "or": "OR(SEQ(A a, B b), AND(C c, A d)) WHERE a.diff < b.diff AND c.diff < d.diff WITHIN 5 seconds",
    "count window": "SEQ(A a, B b, C c) WHERE a.diff < b.diff AND b.diff < c.diff WITHIN 30 events",
    "kleene": "SEQ(A a, B+ b[], C c) WHERE a.diff < c.diff AND b[i].diff < a.diff WITHIN 1 second",
}


@pytest.mark.parametrize("mechanism", ["fused", "evaluation_tree"])
@pytest.mark.parametrize("planner", ["dp_left_deep", "dp_bushy"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_wrong_estimates_are_marked_whatever_the_pattern(structure: str, planner: str, mechanism: str) -> None:
    patterns, events = parse(f"NAME rise PATTERN {STRUCTURES[structure]}"), market(1000)
    right = estimate_statistics(patterns, events)
    wrong = replace(
        right, selectivities=tuple(Selectivity(one.condition, 0.0005, 10, 10) for one in right.selectivities)
    )
    rare = replace(right, rates=tuple(LeafRate(rate.leaf, rate.per_s / 50) for rate in right.rates))

    def marked(known: StatisticsSnapshot) -> list[str]:
        made = plan(patterns, known, planner, "throughput")
        _, metrics = detect(patterns, events, plan=made, metrics=True, mechanism=mechanism)
        return [line for line in explain_analyzed(made, metrics, len(events)).splitlines() if "<<" in line]

    assert not marked(right)
    assert any("selectivity" in line for line in marked(wrong))
    assert len(marked(rare)) > 1
