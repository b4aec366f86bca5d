"""The cost models against their formulas, factor by factor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.planning.clause_statistics import ClauseStatistics, PlanCondition
from cep_pipeline.planning.costs import (
    CANDIDATE_NS,
    CONDITION_KINDS,
    CONSUME_MATCHED,
    COSTS,
    INSTANCES,
    KERNEL,
    LATENCY,
    PARTIAL_MATCH_NS,
    THROUGHPUT,
    UNITS,
    CostModel,
    KernelCosts,
    in_test_order,
    kernel_costs,
    kernel_model,
    kind_of,
    with_latency,
)
from cep_pipeline.planning.orderings import ln_order_cost, ln_tree_cost
from cep_pipeline.planning.planners import PLANNERS
from cep_pipeline.planning.trees import PositionTree, positions_of
from cep_pipeline.statistics.terms import format_conjunct
from tests.planning import clauses
from tests.thoroughness import examples

every_model = pytest.mark.parametrize(
    "model", [*COSTS.values(), with_latency(THROUGHPUT, 0.5), with_latency(KERNEL, 7.0)]
)
OF_LISTS = StreamSchema.from_dict(
    {
        "type_attribute": "type",
        "attributes": {"type": "string", "s": "string", "x": "int64", "y": "int64", "h": "list<float64>"},
    }
)
COSTS_OF_TEST = KernelCosts(candidate=0.5, partial_match=4.0, match=2.0, event=3.0)


@st.composite
def trees(draw: st.DrawFn, members: tuple[int, ...]) -> PositionTree:
    """Any tree over the positions."""
    if len(members) == 1:
        return members[0]
    mixed = draw(st.permutations(members))
    cut = draw(st.integers(1, len(mixed) - 1))
    return draw(trees(tuple(mixed[:cut]))), draw(trees(tuple(mixed[cut:])))


def joins(tree: PositionTree) -> Iterator[tuple[PositionTree, PositionTree]]:
    if not isinstance(tree, int):
        yield from joins(tree[0])
        yield from joins(tree[1])
        yield tree


def mask(positions: Sequence[int]) -> int:
    return sum(1 << position for position in positions)


@dataclass(frozen=True)
class SetNumbers:
    """The terms of a cost model for all sets of variables, as `CostModel` names them, divided by e^ln_scale."""

    node: Any
    ln_scale: float
    pair: Any = None
    product: Any = None
    latency: Any = None
    late: Any = None
    last: int | None = None

    @classmethod
    def of(cls, model: CostModel, statistics: ClauseStatistics) -> SetNumbers:
        delay = model.delay if model.waits else None
        terms = {"node": model.node, "pair": model.pair, "product": model.product, "latency": delay}
        logs = {name: term.all(statistics) for name, term in terms.items() if term is not None}
        if model.waits:
            logs["latency"] += math.log(model.alpha)
        ln_scale = float(max(array[1:].max() for name, array in logs.items() if name != "product")) - 600.0
        numbers = {name: np.exp(array - (0.0 if name == "product" else ln_scale)) for name, array in logs.items()}
        for array in numbers.values():
            array[0] = 0.0
        late = model.late_of(statistics)
        if late is not None:
            bits = np.arange(1 << statistics.size)[:, None] >> np.arange(statistics.size) & 1 == 1
            tuples = np.exp(late.tuples.all(statistics) - ln_scale)
            numbers["late"] = tuples, np.exp(late.passing.all(statistics)), late.within(statistics, bits)
        return cls(ln_scale=ln_scale, last=statistics.last_variable if model.waits else None, **numbers)

    def late_tests(self, whole: int, left: int, right: int) -> float:
        if self.late is None:
            return 0.0
        tuples, passing, within = self.late
        return float(tuples[whole] * passing[left] * passing[right] * (within[whole] - within[left] - within[right]))


def scaled_order_cost(costs: SetNumbers, order: Sequence[int]) -> float:
    """The cost of an order by the numbers for exact search, as `CostModel` says."""
    total = 0.0
    for length in range(1, len(order) + 1):
        earlier, last, whole = mask(order[: length - 1]), 1 << order[length - 1], mask(order[:length])
        total += costs.node[whole]
        if costs.pair is not None and earlier:
            product = 1.0 if costs.product is None else costs.product[earlier] * costs.product[last]
            total += costs.pair[whole] * product + costs.late_tests(whole, earlier, last)
        if costs.latency is not None and costs.last in order[: length - 1]:
            total += costs.latency[last]
    return float(total)


def scaled_tree_cost(costs: SetNumbers, tree: PositionTree) -> float:
    """The cost of a tree by the numbers for exact search, as `CostModel` says."""
    total = float(sum(costs.node[1 << leaf] for leaf in positions_of(tree)))
    for join in joins(tree):
        sides = [mask(positions_of(side)) for side in join]
        whole = sum(sides)
        total += costs.node[whole]
        if costs.pair is not None:
            product = 1.0 if costs.product is None else costs.product[sides[0]] * costs.product[sides[1]]
            total += costs.pair[whole] * product + costs.late_tests(whole, *sides)
        if costs.latency is not None and costs.last is not None:
            for side, other in (sides, sides[::-1]):
                total += costs.latency[other] if side >> costs.last & 1 else 0.0
    return float(total)


@every_model
@settings(deadline=None, max_examples=examples(40))
@given(statistics=clauses.clause_statistics(max_size=5), draw=st.data())
def test_the_numbers_of_all_sets_give_the_costs_of_orders_and_trees(
    model: CostModel, statistics: ClauseStatistics, draw: st.DataObject
) -> None:
    costs = SetNumbers.of(model, statistics)
    assert all(np.isfinite(array).all() for array in (costs.node, costs.pair) if array is not None)
    order = draw.draw(st.permutations(range(statistics.size)))
    tree = draw.draw(trees(tuple(order)))
    for scaled, logarithm in (
        (scaled_order_cost(costs, order), ln_order_cost(model, statistics, order)),
        (
            scaled_order_cost(costs, positions_of(tree)) if model.runs_orders else scaled_tree_cost(costs, tree),
            ln_tree_cost(model, statistics, tree),
        ),
    ):
        assert scaled > 0
        assert math.log(scaled) + costs.ln_scale == pytest.approx(logarithm, rel=1e-9, abs=1e-6)


def three() -> ClauseStatistics:
    """AND(a, b, c): 2, 3 and 5 instances in a window, a half of the pairs of a and c pass."""
    return ClauseStatistics(tuple("abc"), tuple(map(math.log, (2, 3, 5))), (PlanCondition((0, 2), math.log(0.5)),))


def cost(model: CostModel, order: Sequence[int], statistics: ClauseStatistics | None = None) -> float:
    return math.exp(ln_order_cost(model, statistics or three(), order))


def test_throughput_of_orders_and_trees() -> None:
    """JQPG sections 4.1 and 4.2."""
    assert cost(THROUGHPUT, (0, 1, 2)) == pytest.approx(2 + 6 + 15)
    assert cost(THROUGHPUT, (2, 0, 1)) == pytest.approx(5 + 5 + 15)
    assert math.exp(ln_tree_cost(THROUGHPUT, three(), (1, (0, 2)))) == pytest.approx(2 + 3 + 5 + 5 + 15)


def test_latency_of_orders_counts_what_is_bound_after_the_last_event() -> None:
    """JQPG section 6.1; the pattern's last variable counts as the last one where nothing else is known."""
    steps = 3
    assert cost(LATENCY, (0, 1, 2)) == pytest.approx(steps)
    assert cost(LATENCY, (0, 2, 1)) == pytest.approx(steps + 3)
    assert cost(LATENCY, (2, 0, 1)) == pytest.approx(steps + 2 + 3)
    profiled = ClauseStatistics(tuple("abc"), three().ln_instances, three().conditions, last=0)
    assert cost(LATENCY, (0, 2, 1), profiled) == pytest.approx(steps + 5 + 3)


def test_alpha_weighs_latency() -> None:
    model = with_latency(THROUGHPUT, 0.5)
    assert cost(model, (2, 0, 1)) == pytest.approx(25 + 0.5 * (2 + 3))
    assert with_latency(THROUGHPUT, 0.0) is THROUGHPUT


def test_consume_matched_is_bounded_by_the_rarest() -> None:
    """JQPG section 6.2: m[k] = W min(r) times the selectivities."""
    assert cost(CONSUME_MATCHED, (2, 0, 1)) == pytest.approx(5 + 2 * 0.5 + 2 * 0.5)
    assert math.exp(ln_tree_cost(CONSUME_MATCHED, three(), ((1, 2), 0))) == pytest.approx(2 + 3 + 5 + 3 + 1)


def test_the_kernel_counts_candidates_partial_matches_matches_and_range_ends() -> None:
    model = kernel_model(lambda: COSTS_OF_TEST)
    # Order a, c, b: k PM of each beginning, candidates before the condition on a and c, both edges of an AND.
    work = 4.0 * (2 + 2 * 5) + 2.0 * 3 * 15
    tested = 0.5 * (2 * 10 + 3 * 30 * 0.5)
    ends = 3.0 * 2 * (2 + 7 + 10)
    assert cost(model, (0, 2, 1)) == pytest.approx(work + tested + ends)
    # A sequence has one event at each edge, and a sixth of the combinations in order.
    ordered = ClauseStatistics(tuple("abc"), three().ln_instances, sequences=(((0,), (1,), (2,)),))
    work = 4.0 * (2 + 2 * 3) + 2.0 * 3 * 5
    tested = 0.5 * (2 * 3 + 3 * 5)
    ends = 3.0 * ((2 + 2) + (2 + 3) + (2 + 5))
    assert cost(model, (0, 1, 2), ordered) == pytest.approx(work + tested + ends)


def test_the_kernel_counts_what_a_dear_condition_costs_where_it_is_first_tested() -> None:
    dear = replace(COSTS_OF_TEST, tests={"number": 0.25, "arithmetic": 0.45, "root": 1.25, "correlation": 100.0})
    model, alike = kernel_model(lambda: dear), kernel_model(lambda: COSTS_OF_TEST)
    numbers = three()

    def of_kind(kind: str) -> ClauseStatistics:
        compared = PlanCondition((0, 1), math.log(0.1))
        return replace(numbers, conditions=(replace(numbers.conditions[0], kind=kind), compared))

    def more(kind: str, order: tuple[int, ...]) -> float:
        return cost(model, order, of_kind(kind)) - cost(alike, order, of_kind(kind))

    # A root is taken of all candidates: 0.5 ns and 1 ns more, of 2 pairs of a and c, or of 3 triples of what passes.
    assert more("root", (0, 2, 1)) == pytest.approx(2 * 10 * 1.0)
    assert more("root", (0, 1, 2)) == pytest.approx(3 * 30 * 0.1 * 1.0)
    # A correlation of what passes all else: behind a and b only a tenth is left, whichever step tests the comparison.
    assert more("correlation", (0, 2, 1)) == pytest.approx(2 * 10 * 100.0)
    assert more("correlation", (0, 1, 2)) == more("correlation", (2, 1, 0)) == pytest.approx(3 * 30 * 0.1 * 100.0)
    for kind in ("number", "arithmetic", "choice"):  # the last one was not measured
        assert more(kind, (0, 1, 2)) == more(kind, (0, 2, 1)) == 0


def test_a_dear_condition_decides_the_order() -> None:
    statistics = ClauseStatistics(
        tuple("abc"),
        (math.log(5), math.log(2), math.log(8)),
        (PlanCondition((0, 1), math.log(0.3), kind="correlation"), PlanCondition((0, 2), math.log(0.01))),
    )
    alike = kernel_model(lambda: replace(kernel_costs(), tests={}))
    assert PLANNERS["dp_left_deep"](statistics, alike).order[:2] in ((0, 1), (1, 0))
    assert PLANNERS["dp_left_deep"](statistics, KERNEL).order[:2] in ((0, 2), (2, 0))


@pytest.mark.parametrize(
    ("condition", "kind", "across"),
    [
        ("a.x < c.x", "number", "number"),
        ("a.s < c.s", "text", "number"),
        ("a.x + c.x > 3", "arithmetic", "arithmetic"),
        ("abs(a.x - c.x) > 3", "arithmetic", "arithmetic"),
        ("sqrt(a.x) > c.y + 1", "root", "number"),
        ("sqrt(a.x * c.x) > 3", "root", "root"),
        ("a.x % c.x > 3", "function", "function"),
        ("ln(a.x) < ln(c.x)", "function", "number"),
        ("least(a.x, c.x) > 3", "function", "function"),
        ("coalesce(a.s, c.s) LIKE 'x%'", "function", "function"),
        ("a.s LIKE 'x%' OR a.x > c.x", "choice", "number"),
        ("coalesce(a.x, c.x) IN (1, 2)", "function", "function"),
        ("day_of_week(greatest(a.timestamp, c.timestamp)) > 5", "clock", "clock"),
        ("corr(a.h, c.h) > 0.5", "correlation", "correlation"),
    ],
)
def test_conditions_have_the_kind_of_their_dearest_part(condition: str, kind: str, across: str) -> None:
    [pattern] = parse_patterns(f"PATTERN SEQ(A a, C c) WHERE {condition} WITHIN 9 seconds", OF_LISTS)
    [conjunct] = pattern.clauses[0].conjuncts
    assert (kind_of(conjunct), kind_of(conjunct, across=True)) == (kind, across)


def test_fused_tests_what_it_has_no_code_for_by_its_own_costs() -> None:
    [pattern] = parse_patterns(
        """PATTERN SEQ(A a, C c) WHERE corr(a.h, c.h) > 0.5 AND ln(a.x * c.x) > 3 AND a.x < c.x WITHIN 9 seconds""",
        OF_LISTS,
    )
    tests = kernel_costs().tests
    assert tests["number"] < tests["root"] < tests["function"] < tests["correlation"]
    found = in_test_order(pattern.clauses[0].conjuncts, across=True)
    assert [kind_of(conjunct, across=True) for conjunct in found] == ["number", "function", "correlation"]


def test_mechanisms_that_keep_instances_test_candidates_and_make_partial_matches() -> None:
    # Order a, c, b: k PM of each beginning; of a and c all pairs are tested, with b those that passed beside each b.
    made = PARTIAL_MATCH_NS * (2 + 2 * 5 + 3 * 15)
    tested = CANDIDATE_NS * (2 * 10 + 3 * 30 * 0.5)
    assert cost(INSTANCES, (0, 2, 1)) == pytest.approx(made + tested)
    # A tree has its leaves too; b joins a before the condition can be tested.
    made = PARTIAL_MATCH_NS * (2 + 3 + 5 + 2 * 6 + 3 * 15)
    tested = CANDIDATE_NS * (2 * 6 + 3 * 30)
    assert math.exp(ln_tree_cost(INSTANCES, three(), ((0, 1), 2))) == pytest.approx(made + tested)


def test_what_is_equal_is_looked_up_and_not_tested() -> None:
    model = kernel_model(lambda: COSTS_OF_TEST)
    tested = ClauseStatistics(("a", "b"), (math.log(2), math.log(3)), (PlanCondition((0, 1), math.log(0.1)),))
    equal = ClauseStatistics(("a", "b"), tested.ln_instances, (PlanCondition((0, 1), math.log(0.1), equality=True),))
    saved = COSTS_OF_TEST.candidate * 2 * 6 * (1 - 0.1)
    assert cost(model, (0, 1), tested) - cost(model, (0, 1), equal) == pytest.approx(saved)


def test_a_tree_costs_the_kernel_what_the_order_of_its_leaves_does() -> None:
    statistics = ClauseStatistics(tuple("abcd"), tuple(map(math.log, (2, 3, 5, 7))))
    for tree in (((0, 1), (2, 3)), (0, (1, (2, 3))), (((0, 1), 2), 3)):
        assert ln_tree_cost(KERNEL, statistics, tree) == ln_order_cost(KERNEL, statistics, (0, 1, 2, 3))


def test_lists_are_bound_behind_single_events_whatever_the_plan_says() -> None:
    model = kernel_model(lambda: COSTS_OF_TEST)
    lists = ClauseStatistics(
        tuple("akb"),
        (math.log(2), 1e4, math.log(3)),
        (PlanCondition((0, 1), math.log(0.5)),),
        kleene=frozenset({1}),
        ln_events=tuple(map(math.log, (2, 14_427, 3))),
    )
    assert cost(model, (0, 2, 1), lists) < cost(model, (0, 1, 2), lists) < cost(model, (1, 0, 2), lists) < 1e7


def test_the_constants_that_are_delivered_say_where_they_were_measured() -> None:
    costs = kernel_costs()
    assert costs.measured_on
    assert costs.measured_at
    assert all(getattr(costs, name) > 0 for name in UNITS)


def test_conditions_are_tested_in_the_order_of_their_cost() -> None:
    """By kind and by the share that passes; those that are as good stay in the order of the pattern."""
    [pattern] = parse_patterns(
        """PATTERN SEQ(A a, B+ b[], C c) WHERE corr(a.h, c.h) > 0.5 AND avg(b[].x) > c.x AND a.x + c.x > 3
        AND a.x < c.x AND a.y < c.y AND a.s = c.s AND (a.x < c.y OR a.y > c.x) WITHIN 9 seconds""",
        OF_LISTS,
    )
    found = in_test_order(pattern.clauses[0].conjuncts)
    kinds = [kind_of(conjunct) for conjunct in found]
    assert kinds[:5] == ["text", "number", "number", "number", "arithmetic"]
    assert {*kinds[5:]} == {"list", "correlation"}
    assert [format_conjunct(conjunct) for conjunct in found][1:3] == ["a.x < c.x", "a.y < c.y"]
    assert {*kernel_costs().conditions} == {*CONDITION_KINDS}
    with pytest.raises(ValueError, match="condition of the kind text"):
        replace(kernel_costs(), conditions={"text": 0.0})
    with pytest.raises(ValueError, match="a unit of work costs something"):
        replace(kernel_costs(), candidate=0.0)
