"""All planners side by side: the plans and costs that `plan` gives, one planner at a time."""

from __future__ import annotations

import pytest

from cep_pipeline.errors import InputError
from cep_pipeline.planning import PLANNERS, plan
from cep_pipeline.planning.make_plan import compare_planners, planners_for
from cep_pipeline.statistics import estimate_statistics
from tests.statistics.market import market, parse

EITHER = "PATTERN OR(SEQ(A a, B b, C c), SEQ(C z, A w)) WHERE a.diff < c.diff WITHIN 2 seconds"
ALONE = "PATTERN SEQ(A a) WHERE a.diff > 0 WITHIN 1 second"


@pytest.mark.parametrize("text", [EITHER, ALONE])
@pytest.mark.parametrize("alpha", [0.0, 2.0])
def test_each_planner_does_as_it_does_by_itself(text: str, alpha: float) -> None:
    patterns = parse(text)
    snapshot = estimate_statistics(patterns, market(400))
    compared = compare_planners(patterns[0], snapshot, cost="throughput", alpha=alpha)
    assert [one.planner for one in compared] == list(PLANNERS)
    for one in compared:
        (alone,) = plan(patterns, snapshot, one.planner, "throughput", alpha).patterns
        assert list(one.orders) == [clause.order_or_tree for clause in alone.clauses]
        assert one.ln_cost == alone.ln_cost
        assert one.notes == tuple(clause.note for clause in alone.clauses if clause.note)
        assert one.seconds > 0
    best = {
        kind: min(one.ln_cost for one in compared if PLANNERS[one.planner].makes_trees is kind)
        for kind in (False, True)
    }
    exact = {one.planner: one.ln_cost for one in compared}
    assert best == pytest.approx({False: exact["dp_left_deep"], True: exact["dp_bushy"]})


def test_the_cost_is_that_of_the_kernel_where_none_is_asked_for() -> None:
    patterns = parse(EITHER)
    snapshot = estimate_statistics(patterns, market(400))
    (found,) = compare_planners(patterns[0], snapshot, ["greedy"])
    assert found.ln_cost == plan(patterns, snapshot, "greedy").ln_cost


def test_other_strategies_have_one_planner() -> None:
    (pattern,) = parse("PATTERN SEQ(A a, B b) WHERE skip_till_next_match { a.diff < b.diff } WITHIN 1 second")
    assert planners_for(pattern) == ("trivial",)
    (found,) = compare_planners(pattern, estimate_statistics([pattern], market(100)))
    assert found.orders == (("a", "b"),) and found.text == "a, b"


@pytest.mark.parametrize(
    ("options", "word"), [({"planners": ["best"]}, "best"), ({"alpha": -1.0}, "alpha"), ({"cost": "gold"}, "gold")]
)
def test_what_is_unknown_is_refused(options: dict[str, object], word: str) -> None:
    (pattern,) = parse(ALONE)
    with pytest.raises(InputError, match=word):
        compare_planners(pattern, estimate_statistics([pattern], market(50)), **options)  # type: ignore[arg-type]
