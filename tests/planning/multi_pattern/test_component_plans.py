"""The components of a workload: which patterns are connected, and a shared plan of which some are made anew."""

from __future__ import annotations

import math
from random import Random

import pytest

from cep_pipeline.adaptation.plan_makers import ln_cost_on
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_plans import Sharing
from cep_pipeline.planning.multi_pattern.plan_workload import components_of_patterns, plan_workload, with_part
from cep_pipeline.planning.plans import Plan
from cep_pipeline.planning.trees import Join
from cep_pipeline.statistics import StatisticsSnapshot, estimate_statistics
from tests.planning.multi_pattern.workloads import SCHEMA


def rates(patterns: list[Pattern], numbers: dict[str, int]) -> StatisticsSnapshot:
    kinds = [kind for kind, number in numbers.items() for _ in range(number)]
    Random(1).shuffle(kinds)
    rows = [{"timestamp": 100_000 * place, "type": kind, "x": 1, "y": 1} for place, kind in enumerate(kinds)]
    return estimate_statistics(patterns, SCHEMA.table(rows))


def test_an_and_that_is_gone_serves_no_seq() -> None:
    """A pattern that took what an AND makes has a join of its own where that AND is made otherwise."""
    text = """NAME and PATTERN AND(A a, B b, C c) WHERE a.x + 2 < b.x WITHIN 2 seconds;
              NAME seq PATTERN SEQ(A p, B q) WHERE p.x + 2 < q.x WITHIN 2 seconds"""
    patterns = parse_patterns(text.replace("NAME and", "NAME both"), SCHEMA)
    before = rates(patterns, {"A": 20, "B": 20, "C": 90})
    kept = plan_workload(patterns, before, steps=50)
    served = kept.for_pattern("seq").clauses[0].tree
    assert served is not None and served.in_order and "1 join takes what an AND of another pattern" in kept.explain()
    assert Plan.from_json(kept.to_json()) == kept
    fresh = rates(patterns, {"A": 20, "B": 20, "C": 1})
    made = plan_workload(patterns[:1], fresh, steps=50)
    assert str(made.for_pattern("both").clauses[0].tree) != str(kept.for_pattern("both").clauses[0].tree)
    whole = with_part(kept, made, patterns, fresh)
    assert whole.for_pattern("seq").clauses[0].tree == Join(served.left, served.right)
    assert math.isclose(whole.ln_cost, ln_cost_on(whole, patterns, fresh))
    assert with_part(kept, None, patterns, before).for_pattern("seq") is kept.for_pattern("seq")


@pytest.mark.parametrize("sharing", ["prefix", "subexpression", "none"])
def test_components_connect_the_clauses_of_a_pattern(sharing: Sharing) -> None:
    text = """NAME p PATTERN OR(SEQ(A a, B b), SEQ(C c, D d)) WITHIN 2 seconds;
              NAME q PATTERN SEQ(A a, B b) WITHIN 2 seconds; NAME r PATTERN SEQ(C c, D d) WITHIN 2 seconds;
              NAME s PATTERN SEQ(X a, X b) WITHIN 2 seconds"""
    found = components_of_patterns(parse_patterns(text, SCHEMA), sharing)
    assert found == ([("p",), ("q",), ("r",), ("s",)] if sharing == "none" else [("p", "q", "r"), ("s",)])


def test_a_part_made_anew_stands_beside_the_others_as_they_were() -> None:
    text = """NAME p PATTERN SEQ(A a, B b, C c) WITHIN 2 seconds; NAME q PATTERN SEQ(A a, B b, D d) WITHIN 2 seconds;
              NAME s PATTERN AND(X a, D b) WITHIN 2 seconds"""
    patterns = parse_patterns(text, SCHEMA)
    kept = plan_workload(patterns, rates(patterns, {"A": 9, "B": 5, "C": 2, "D": 3, "X": 4}), steps=50)
    fresh = rates(patterns, {"A": 2, "B": 9, "C": 8, "D": 3, "X": 1})
    made = plan_workload(patterns[:2], fresh, steps=50)
    whole = with_part(kept, made, patterns, fresh)
    assert whole.for_pattern("s") is kept.for_pattern("s") and whole.for_pattern("p") is made.for_pattern("p")
    assert whole.statistics.digest == fresh.digest
    assert math.isclose(whole.ln_cost, ln_cost_on(whole, patterns, fresh))
    assert whole.workload is not None and {use.pattern for node in whole.workload.shared for use in node.uses} == {
        "p",
        "q",
        "s",
    }
