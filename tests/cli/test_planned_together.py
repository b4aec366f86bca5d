"""The commands about plans, for a pattern set whose patterns are planned together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command_line import cep
from tests.pipeline.drift import DRIFT_DAYS, DriftingStream
from tests.pipeline.test_shared_plans import COUNTS, FAR, FARTHER, MORE, OTHER, RISING, write_project


@pytest.fixture
def project(tmp_path: Path) -> DriftingStream:
    write_project(tmp_path, (RISING, OTHER, FAR, FARTHER))
    project = DriftingStream(tmp_path, COUNTS)
    project.publish(DRIFT_DAYS[:2])
    return project


def test_plan_is_what_the_next_day_would_be_planned_by(project: DriftingStream) -> None:
    planned = cep("plan", folder=project.folder)
    assert planned.code == 0, planned.errors
    assert "found by simulated_annealing, neighbourhood edge, seed 1, " in planned.output
    assert "planned anew" not in planned.output
    write_project(project.folder, (RISING, OTHER, FAR, FARTHER, MORE))
    project.publish_statistics(DRIFT_DAYS[1])
    changed = cep("plan", "--steps", "50", folder=project.folder)
    assert changed.output.splitlines()[-1] == (
        "since plan 1: added more; planned anew: 3 of 5 patterns; 2 keep their plan"
    )
    apart = cep("plan", "--planner", "greedy", folder=project.folder)
    assert "planner greedy" in apart.output and "since plan" not in apart.output
    assert len(project.tables.plans("all")) == 1, "the current plan stays"


def test_explain_and_invariants_show_what_is_shared_and_checked(project: DriftingStream) -> None:
    explained = cep("explain", folder=project.folder).output
    assert "sharing subexpression: equal subtrees are shared" in explained
    assert "what is connected with it is planned again" in explained
    (shown,) = json.loads(cep("invariants", "--json", folder=project.folder).output)
    assert shown["invariants"] and not any(one["violated"] for one in shown["invariants"])
    assert {one["pattern"] for one in shown["moved"]} >= {"rising", "far"}, "its numbers have a threshold, too"


def test_replan_answers_for_the_component_that_is_concerned(project: DriftingStream) -> None:
    project.publish([DRIFT_DAYS[2]])
    checked = cep("invariants", "--check", folder=project.folder)
    part = "planned anew: 2 of 4 patterns; 2 keep their plan (rising, other)"
    assert part in checked.output
    replanned = cep("replan", folder=project.folder)
    assert replanned.code == 0, replanned.errors
    assert "replaced" in replanned.output and part in replanned.output
    assert "far" not in replanned.output
    other = cep("replan", "--pattern", "far", "--dry-run", "--json", folder=project.folder)
    assert json.loads(other.output)["details"]["planned_again"] == ["far", "farther"]
    wrong = cep("replan", "--pattern", "near", folder=project.folder)
    assert wrong.code == 2 and "no pattern 'near'" in wrong.error
