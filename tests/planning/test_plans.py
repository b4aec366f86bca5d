"""Plans: what they refuse, their JSON form, and whether they fit their patterns."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from cep_pipeline.errors import InputError, PlanError
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.planning import PLANNERS, Plan, plan, validate
from cep_pipeline.planning.clause_statistics import from_ln, ln_sum
from cep_pipeline.statistics import estimate_statistics
from cep_pipeline.statistics.observed import OutputProfile
from tests.statistics.market import market, parse

TEXT = """
NAME rise PATTERN SEQ(A a, B b, C c) WHERE a.diff < b.diff AND [sector] WITHIN 2 seconds;
NAME either PATTERN OR(AND(A x, B y), SEQ(C z, A w)) WITHIN 1 second
"""


def made(text: str = TEXT, **options: Any) -> Plan:
    patterns = parse(text)
    return plan(patterns, estimate_statistics(patterns, market(400)), **options)


def test_json_round_trip_keeps_the_plan_and_its_id() -> None:
    one = made()
    again = Plan.from_json(json.loads(json.dumps(one.to_json(), allow_nan=False)))
    assert again == one
    assert again.plan_id == one.plan_id == one.to_json()["plan_id"]
    assert again.explain() == one.explain()


def test_the_id_changes_with_the_order_and_the_numbers() -> None:
    ids = {made().plan_id, made(planner="trivial").plan_id, made(TEXT.replace("2 seconds", "3 seconds")).plan_id}
    assert len(ids) == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda content: 3,
        lambda content: {},
        lambda content: {**content, "version": 99},
        lambda content: {**content, "version": 1},
        lambda content: {**content, "version": 2},
        lambda content: {**content, "sharing": "everything"},
        lambda content: {**content, "workload": {"nodes": 3}},
        lambda content: {**content, "alpha": -2},
        lambda content: {**content, "patterns": [{"pattern": "rise"}]},
        lambda content: {**content, "patterns": content["patterns"] * 2},
        lambda content: {**content, "statistics": {}},
    ],
)
def test_json_of_something_else_is_an_input_error_that_names_the_file(change: Any) -> None:
    with pytest.raises(InputError, match=r"my-plan\.json"):
        Plan.from_json(change(made().to_json()), "my-plan.json")


@pytest.mark.parametrize("side", [[1, True], [1, "2"], [1, 2.0], [1], [1, 1], [], [1, -2], None, [1, 3]])
def test_a_side_of_a_comparison_that_cannot_be_is_refused(side: Any) -> None:
    content = made().to_json()
    Plan.from_json(content)
    comparisons = content["patterns"][0]["clauses"][0]["comparisons"]
    assert comparisons[0]["rejected"] == [1, 2]
    comparisons[0]["rejected"] = side
    said = r"comparisons\[0\]\.rejected|a comparison of step 1 binds"
    with pytest.raises(InputError, match=said):
        Plan.from_json(content)


def test_a_tree_that_nests_too_deeply_is_refused() -> None:
    content = made().to_json()
    side: Any = 0
    for _ in range(100_000):
        side = [side]
    content["patterns"][0]["clauses"][0]["comparisons"][0]["chosen"] = side
    with pytest.raises(InputError, match=r"no plan: .*recursion"):
        Plan.from_json(content)


def test_an_order_that_the_steps_do_not_have_is_refused() -> None:
    content = made().to_json()
    content["patterns"][0]["clauses"][0]["order"].reverse()
    with pytest.raises(InputError, match="the steps bind"):
        Plan.from_json(content)


def test_a_plan_fits_its_patterns_and_part_of_them() -> None:
    patterns = parse(TEXT)
    validate(made(), patterns)
    validate(made(), patterns[:1])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("NAME other PATTERN A a WITHIN 1 second", r"no pattern 'other'; it has: rise, either"),
        ("NAME rise PATTERN SEQ(A a, B b) WITHIN 1 second", r"binds a, b, the plan .* orders"),
        ("NAME rise PATTERN SEQ(A a, B b, C d) WITHIN 1 second", r"binds a, b, d, the plan .* orders"),
        ("NAME either PATTERN AND(A x, B y) WITHIN 1 second", r"has 1 clauses, the plan .* has 2"),
    ],
)
def test_a_plan_of_other_patterns_is_refused(text: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        validate(made(), parse(text))


def test_plans_that_cannot_be_are_refused() -> None:
    one = made()
    (rise, either) = one.patterns
    (clause,) = rise.clauses
    with pytest.raises(ValueError, match="twice"):
        replace(clause, steps=(clause.steps[0], clause.steps[0]), order=())
    with pytest.raises(ValueError, match="at least one"):
        replace(clause, steps=())
    with pytest.raises(ValueError, match="finite"):
        replace(clause, ln_cost=math.inf)
    with pytest.raises(ValueError, match="one plan a clause"):
        replace(either, clauses=either.clauses[::-1])
    with pytest.raises(ValueError, match="one entry a pattern"):
        replace(one, patterns=(rise, rise))


def test_costs_add_up() -> None:
    one = made(cost="throughput")
    total = sum(math.exp(clause.ln_cost) for pattern in one.patterns for clause in pattern.clauses)
    assert one.cost == pytest.approx(total)
    steps = one.for_pattern("rise").clauses[0].steps
    assert math.exp(one.for_pattern("rise").ln_cost) == pytest.approx(
        sum(math.exp(step.ln_partial_matches) for step in steps)
    )
    assert ln_sum([]) == -math.inf
    assert ln_sum([2000.0, 2000.0]) == pytest.approx(2000 + math.log(2))
    assert from_ln(2000.0) == math.inf


def test_of_latencies_of_clauses_the_largest_counts() -> None:
    """JQPG section 6.1: a disjunction waits as long as the operand that waits longest."""
    text = "NAME either PATTERN OR(AND(A x, B y), SEQ(C z, A w, B v)) WITHIN 1 second"
    weighed = made(text, planner="event_frequency", cost="throughput", alpha=0.5).patterns[0]
    work = made(text, planner="event_frequency", cost="throughput").patterns[0]
    waiting = [clause.ln_waiting for clause in weighed.clauses]
    assert None not in waiting
    assert all(clause.ln_waiting is None for clause in work.clauses)
    for clause, alone, share in zip(weighed.clauses, work.clauses, waiting, strict=True):
        assert math.exp(clause.ln_cost) == pytest.approx(math.exp(alone.ln_cost) + math.exp(share or 0.0))
    assert math.exp(weighed.ln_cost) == pytest.approx(math.exp(work.ln_cost) + max(math.exp(w or 0.0) for w in waiting))
    assert "of which latency" in made(text, planner="event_frequency", alpha=0.5).explain()


def test_the_output_profile_says_which_event_of_a_conjunction_is_the_last() -> None:
    patterns = parse("NAME both PATTERN AND(A a, B b) WITHIN 1 second")
    snapshot = estimate_statistics(patterns, market(200))
    profile = OutputProfile("both", ("a", "b"), (9, 1))
    profiled = replace(snapshot, output_profiles=(profile,))
    costs = {
        first: plan(patterns, known, cost="latency", planner="trivial").ln_cost
        for first, known in (("a", snapshot), ("b", profiled))
    }
    # Of the pattern's order, b is the last; where a mostly comes last, its match has to wait for what b has buffered.
    instances = plan(patterns, snapshot, planner="trivial").patterns[0].clauses[0].steps[1].ln_instances
    assert math.exp(costs["a"]) == pytest.approx(2)
    assert math.exp(costs["b"]) == pytest.approx(2 + math.exp(instances))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"planner": "fastest"}, f"no planner 'fastest'; there are: {', '.join(PLANNERS)}"),
        ({"cost": "money"}, "no cost model 'money'; there are: throughput"),
        ({"alpha": -0.5}, "alpha is -0.5"),
        ({"alpha": 0.5, "cost": "latency"}, "weighs latency against another cost"),
    ],
)
def test_unknown_names_are_input_errors_that_list_the_known_ones(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        made(**options)


def test_statistics_of_other_patterns_are_refused() -> None:
    snapshot = estimate_statistics(parse("PATTERN A a WITHIN 1 second"), market(10))
    with pytest.raises(PlanError, match="'B'"):
        plan(parse(TEXT), snapshot)


def test_the_runner_up_is_the_cheapest_other_order() -> None:
    (clause,) = made().for_pattern("rise").clauses
    assert clause.runner_up is not None
    assert clause.runner_up.order != clause.order
    assert clause.runner_up.ln_cost == min(o.ln_cost for o in clause.alternatives if o.order != clause.order)
    (single,) = made("PATTERN A a WITHIN 1 second").patterns[0].clauses
    assert single.runner_up is None


def test_patterns_among_many_are_planned_as_each_alone() -> None:
    structures = (
        "SEQ(A a, B b, C c)",
        "AND(C a, A b, B c)",
        "SEQ(B a, AND(A b, C c), A d)",
        "OR(SEQ(A a, C b), AND(B c, A d))",
    )
    wheres = "a.diff < b.diff", "a.diff < b.diff AND [sector]"
    patterns = parse(
        ";".join(
            f"NAME p{number} PATTERN {structure} WHERE {where} WITHIN {seconds} seconds"
            for number, (structure, where, seconds) in enumerate(product(structures, wheres, (1, 3)))
        )
    )
    snapshot = estimate_statistics(patterns, market(400))
    many = plan(patterns, snapshot, compare=False)
    for pattern, planned in zip(patterns, many.patterns, strict=True):
        [alone] = plan([pattern], snapshot, compare=False).patterns
        for one, other in zip(planned.clauses, alone.clauses, strict=True):
            assert one.order == other.order
            assert [step.conditions for step in one.steps] == [step.conditions for step in other.steps]
            assert one.ln_cost == pytest.approx(other.ln_cost, rel=1e-9, abs=1e-9)
            told = [[(found.step, found.chosen, found.rejected) for found in own.comparisons] for own in (one, other)]
            assert told[0] == told[1]


def test_patterns_of_other_strategies_are_planned_in_their_own_order() -> None:
    schema = StreamSchema.from_dict({"type_attribute": "k", "attributes": {"k": "string", "x": "int64"}})
    patterns = parse_patterns(
        "NAME run PATTERN SEQ(A a, B b) WHERE skip_till_next_match { a.x < b.x } WITHIN 1 second;"
        "NAME any PATTERN SEQ(A a, B b) WITHIN 1 second",
        schema,
    )
    rows = [{"timestamp": t, "k": "AAAAB"[t % 5], "x": t} for t in range(100)]
    snapshot = estimate_statistics(patterns, schema.table(rows))
    mixed = plan(patterns, snapshot)
    assert [plan.pattern for plan in mixed.patterns] == ["run", "any"]
    assert mixed.for_pattern("run").clauses[0].order == ("a", "b")
    assert mixed.for_pattern("any").clauses[0].order == ("b", "a")
    assert plan(patterns[:1], snapshot).planner == "trivial"
    assert Plan.from_json(mixed.to_json()) == mixed
