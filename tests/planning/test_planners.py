"""The records of planners: names, functions, what their comparisons measure, and the help that is made from them."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.cli import cli
from cep_pipeline.planning import COSTS, PLANNERS
from cep_pipeline.planning.orderings import MEASURES, TreeOrdering
from cep_pipeline.planning.planners import (
    LOCAL_SEARCHES,
    MULTI_PATTERN_PLANNERS,
    keeps_order,
    planners_text,
    without_invariants_because,
)
from tests.planning import clauses


def test_each_record_stands_under_its_name() -> None:
    for planners in (PLANNERS, MULTI_PATTERN_PLANNERS):
        assert [planner.name for planner in planners.values()] == list(planners)
        assert all(planner.summary for planner in planners.values())
    assert not PLANNERS.keys() & MULTI_PATTERN_PLANNERS.keys()
    assert {"simulated_annealing", "tabu"} == LOCAL_SEARCHES


@pytest.mark.parametrize("name", PLANNERS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_record_says_what_its_planner_makes(name: str, data: st.DataObject) -> None:
    planner = PLANNERS[name]
    statistics = data.draw(clauses.clause_statistics(min_size=3, max_size=5))
    made = planner(statistics, COSTS["throughput"])
    assert isinstance(made, TreeOrdering) == planner.makes_trees
    assert {one.measure for one in made.comparisons} <= MEASURES.keys()
    assert bool(made.comparisons) != bool(planner.without_invariants_because) or statistics.size < 3


def test_reasons_are_told_by_name() -> None:
    assert without_invariants_because("ii_greedy").startswith("local search")
    assert without_invariants_because("tabu") and without_invariants_because("trivial")
    assert without_invariants_because("greedy") == ""
    assert without_invariants_because("of another version") == "" and not keeps_order("of another version")
    assert [name for name in (*PLANNERS, *MULTI_PATTERN_PLANNERS) if keeps_order(name)] == [
        "trivial",
        "none",
        "sharing",
    ]


@pytest.mark.parametrize("command", ["plan"])
def test_the_help_of_commands_lists_all_planners(command: str) -> None:
    shown = CliRunner().invoke(cli, [command, "--help"]).output
    for line in planners_text().splitlines():
        assert line in shown
    for planner in (*PLANNERS.values(), *MULTI_PATTERN_PLANNERS.values()):
        assert f"{planner.name} " in shown and planner.summary in shown
    assert f"Cost models: {', '.join(COSTS)}." in shown and "{planners}" not in shown
