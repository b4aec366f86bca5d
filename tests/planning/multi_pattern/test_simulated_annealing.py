"""Simulated annealing over shared plans is frozen when its limit is reached, and making the tables is in its time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep_pipeline.errors import InputError
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.planning.costs import INSTANCES
from cep_pipeline.planning.multi_pattern.members import Member, members_of
from cep_pipeline.planning.multi_pattern.search_planners import (
    ALPHA,
    FIRST,
    FROZEN,
    MAX_COOLINGS,
    PROBED,
    REHEATED,
    Budget,
    Cooling,
    anneal,
    search_components,
    search_of,
    simulated_annealing,
    tabu,
)
from cep_pipeline.planning.multi_pattern.workload import Neighbourhood, Plans, SearchOptions
from tests.planning.multi_pattern.planned import alike, workload_of
from tests.planning.multi_pattern.workloads import SCHEMA
from tests.thoroughness import long_but

TEXT = """
NAME two PATTERN AND(D v0, A v1) WITHIN 2 seconds;
NAME three PATTERN AND(A v0, C v1, D v2) WITHIN 2 seconds
"""


@given(st.integers(-3, 50), st.lists(st.floats(0.0, 1.0), min_size=2))
def test_a_threshold_only_comes_down_but_where_the_search_goes_on_from_the_best_plan(
    coolings: int, shares: list[float]
) -> None:
    schedule = Cooling(coolings)
    places = [schedule.at(share) for share in sorted(shares)]
    for (number, power), (next_number, next_power) in pairwise(places):
        assert (number, power) <= (next_number, next_power)
    assert all(FIRST * 1.01 >= ALPHA**power >= FROZEN * 0.99 for _, power in places)
    assert schedule.at(0.0) == (0, round(math.log(FIRST, ALPHA)))
    last, power = schedule.at(1.0)
    assert last == min(max(coolings, 1), MAX_COOLINGS) - 1 and power == round(math.log(FROZEN, ALPHA))
    if last:
        assert schedule.at(1 / (last + 1)) == (1, round(math.log(REHEATED, ALPHA)))


@pytest.mark.parametrize("steps", long_but([PROBED + 500], [PROBED + 500, PROBED + 20_000]))
@given(alike())
def test_a_search_of_some_steps_is_frozen_when_they_end(steps: int, members: list[Member]) -> None:
    workload = workload_of(members, "subexpression")
    options = SearchOptions(Neighbourhood.of("edge"), None, steps, seed=1)
    for number in range(len(workload.components)):
        search = search_of(workload, options, number)
        anneal(search, Budget(search, steps, None, 100))
        assert search.steps == steps
        assert search.threshold == 0.0
        assert search.ln_cost == pytest.approx(search.ln_best, abs=1e-9)  # nothing dearer was taken since


def test_a_search_of_few_steps_begins_warm_enough_to_leave_a_local_optimum() -> None:
    workload = workload_of(members_of(parse_patterns(TEXT, SCHEMA)), "prefix", INSTANCES)
    for seed in range(3):
        plans, _ = simulated_annealing(workload, SearchOptions(Neighbourhood.of("edge"), None, 5_000, seed))
        # Both may begin with A, too, which is dearer, and better than its own neighbours.
        assert plans == {("two", 0): ("v0", "v1"), ("three", 0): ("v2", "v0", "v1")}


@given(alike())
def test_time_counts_from_when_the_workload_was_given(members: list[Member]) -> None:
    workload = workload_of(members, "subexpression")
    late = SearchOptions(Neighbourhood.of("edge"), 10.0, begun=time.monotonic() - 20.0)
    plans, steps = search_components(workload, late, anneal)
    assert steps == 0 and plans == workload.start


@pytest.mark.parametrize("search", [simulated_annealing, tabu])
def test_a_search_ends_when_it_finds_nothing_cheaper(search: Callable[..., tuple[Plans, int]]) -> None:
    workload = workload_of(members_of(parse_patterns(TEXT, SCHEMA)), "prefix", INSTANCES)
    edge = Neighbourhood.of("edge")
    found, taken = search(workload, SearchOptions(edge, None, 100_000, seed=1, idle_steps=3_000))
    assert 3_000 <= taken < 50_000
    assert workload.ln_cost(found) <= workload.ln_cost(workload.start)
    with pytest.raises(InputError, match="nothing cheaper"):
        SearchOptions(edge, None, 10, idle_steps=0)


def test_a_budget_knows_how_much_of_it_is_used() -> None:
    workload = workload_of(members_of(parse_patterns(TEXT, SCHEMA)), "prefix", INSTANCES)
    search = search_of(workload, SearchOptions(Neighbourhood.of("edge"), None, 1), 0)
    budget = Budget(search, 250, None, 100)
    seen = []
    while taken := budget.take():
        seen.append((taken, budget.used))
    assert seen == [(100, 0.4), (100, 0.8), (50, 1.0)]
    assert Budget(search, None, 1e-9, 100, begun=time.monotonic() - 1.0).used == 1.0
