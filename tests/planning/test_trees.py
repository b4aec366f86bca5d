"""Tree plans: what they refuse, their JSON form, how they are explained, and who runs them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

import cep_pipeline as cep
from cep_pipeline.errors import InputError, PlanError
from cep_pipeline.planning import Join, Plan, plan, validate
from cep_pipeline.planning.trees import as_tree, nodes_of
from cep_pipeline.statistics import estimate_statistics
from tests.statistics.market import market, parse
from tests.tree_plans import all_trees, many_trees

TEXT = "NAME rise PATTERN SEQ(A a, B b, C c) WHERE a.diff < b.diff WITHIN 2 seconds"
TREE = Join("c", Join("a", "b"))


def made(tree: Join | None = TREE, text: str = TEXT) -> Plan:
    patterns = parse(text)
    one = plan(patterns, estimate_statistics(patterns, market(200)), planner="trivial")
    [of_pattern] = one.patterns
    [clause] = of_pattern.clauses
    return replace(one, patterns=(replace(of_pattern, clauses=(replace(clause, tree=tree),)),))


def test_a_tree_has_each_variable_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        Join("a", Join("b", "a"))
    with pytest.raises(ValueError, match="a variable or a join"):
        Join("a", ("b", "c"))  # type: ignore[arg-type]
    for tree in (Join("a", "b"), Join(Join("a", "b"), "d")):
        with pytest.raises(ValueError, match="each positive variable once"):
            made(tree)


def test_an_order_is_a_left_deep_tree() -> None:
    assert as_tree(["b", "a", "c"]) == Join(Join("b", "a"), "c")
    assert as_tree(["a"]) == "a"
    assert as_tree(TREE) is TREE
    assert [str(node) for node in nodes_of(TREE)] == ["c", "a", "b", "(a, b)", "(c, (a, b))"]


def test_json_round_trip_keeps_the_tree() -> None:
    one = made()
    content = json.loads(json.dumps(one.to_json(), allow_nan=False))
    assert content["patterns"][0]["clauses"][0]["tree"] == ["c", ["a", "b"]]
    again = Plan.from_json(content)
    assert again == one
    assert again.plan_id == one.plan_id != made(None).plan_id


def test_a_plan_without_a_tree_says_so() -> None:
    content = made(None).to_json()
    assert content["patterns"][0]["clauses"][0]["tree"] is None
    assert Plan.from_json(content).patterns[0].clauses[0].order_or_tree == ("a", "b", "c")


@pytest.mark.parametrize("tree", ["a", ["a"], ["a", "b", "c"], ["a", ["b", "b"]], ["a", ["b", 3]], {"a": 1, "b": 2}])
def test_json_that_is_no_tree_of_the_clause_is_an_input_error(tree: Any) -> None:
    content = made().to_json()
    content["patterns"][0]["clauses"][0]["tree"] = tree
    with pytest.raises(InputError, match="no plan"):
        Plan.from_json(content)


def test_explain_prints_each_node_above_those_that_it_joins() -> None:
    text = made().explain()
    assert "  tree  (c, (a, b))\n" in text
    drawn = [
        line.split("  ")[0] for line in (part.strip() for part in text.splitlines()) if "join" in line or "- " in line
    ]
    assert drawn == ["join 2: c, a, b", "|- c", "`- join 1: a, b", "|- a", "`- b"]
    assert "  order a, b, c\n" not in text


def test_a_tree_of_another_pattern_is_refused() -> None:
    with pytest.raises(PlanError, match="an order or a tree has each positive variable"):
        validate(made(), parse(TEXT.replace("C c", "C d")))


def test_nfab_names_a_tree_that_it_does_not_run() -> None:
    text = TEXT.replace("a.diff < b.diff", "skip_till_next_match { a.diff < b.diff }")
    with pytest.raises(PlanError, match=r"clause 0 by the tree \(c, \(a, b\)\); nfab runs orders only"):
        cep.detect(parse(text), market(50), plan=made(text=text), mechanism="nfab")


def test_many_trees_are_all_trees_of_a_small_clause() -> None:
    assert len(list(all_trees("abcd"))) == 120
    found = [one.patterns[0].clauses[0].tree for one in many_trees(made(None))]
    assert len(found) == len(set(map(str, found))) == 12
