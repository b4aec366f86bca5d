"""The commands about plans, for a pattern set whose patterns are planned together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command_line import cep
from tests.pipeline.drift import DRIFT_DAYS, DriftingStream
from tests.pipeline.test_shared_plans import COUNTS, FAR, FARTHER, OTHER, RISING, write_project


@pytest.fixture
def project(tmp_path: Path) -> DriftingStream:
    write_project(tmp_path, (RISING, OTHER, FAR, FARTHER))
    project = DriftingStream(tmp_path, COUNTS)
    project.publish(DRIFT_DAYS[:2])
    return project


def test_plan_is_made_as_the_pattern_set_is_configured(project: DriftingStream) -> None:
    planned = cep("plan", folder=project.folder)
    assert planned.code == 0, planned.errors
    assert "found by simulated_annealing, neighbourhood edge, seed 1, " in planned.output
    assert "is configured" not in cep("status", folder=project.folder).output
    config = project.folder / "pipeline.yaml"
    config.write_text(config.read_text().replace("planner: simulated_annealing", "planner: tabu"))
    assert "  made by simulated_annealing, and tabu is configured: daily runs go by this plan until `cep replan --" in (
        cep("status", folder=project.folder).output
    )
    apart = cep("plan", "--planner", "greedy", folder=project.folder)
    assert "planner greedy" in apart.output
    assert len(project.tables.plans("all")) == 1, "the current plan stays"


def test_explain_shows_what_is_shared_and_numbers_are_checked(project: DriftingStream) -> None:
    explained = cep("explain", folder=project.folder).output
    assert "sharing subexpression: equal subtrees are shared" in explained
    assert "invariants: none; the plans of all patterns together decided" in explained
    (shown,) = json.loads(cep("invariants", "--json", folder=project.folder).output)
    assert not shown["invariants"] and "moved" in shown


def test_one_pattern_of_a_plan_is_explained_when_it_is_asked_for(project: DriftingStream) -> None:
    one = cep("explain", "--pattern", "far", folder=project.folder).output
    assert "pattern far: " in one and "runs on fused, the fastest mechanism" in one and "rising" not in one
    wrong = cep("explain", "--pattern", "near", folder=project.folder)
    assert wrong.code == 2 and not wrong.output
    assert wrong.error == "the plan has no pattern 'near'; it has: rising, other, far, farther\n"


def test_of_many_invariants_those_are_shown_that_are_closest_to_violation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(tmp_path, (RISING, OTHER, FAR, FARTHER), "planner: dp_left_deep")
    project = DriftingStream(tmp_path, COUNTS)
    project.publish(DRIFT_DAYS[:2])
    whole = cep("invariants", folder=project.folder).output
    assert "closest to violation, " not in whole and "that have moved most" not in whole
    monkeypatch.setattr("cep_pipeline.cli.adaptation.MOST_SHOWN", 1)
    (content,) = json.loads(cep("invariants", "--json", folder=project.folder).output)
    closest, *others = sorted(content["invariants"], key=lambda one: one["distance_to_violation"])
    (table,) = cep("invariants", folder=project.folder).output.split("the 1 of ")[1:]
    assert table.startswith(f"{1 + len(others)} closest to violation, 0 violated")
    assert closest["says"][:30] in table and others and others[-1]["says"][:30] not in table


def test_replan_answers_for_the_component_that_is_concerned(project: DriftingStream) -> None:
    project.publish([DRIFT_DAYS[2]])
    checked = cep("invariants", "--check", folder=project.folder)
    part = "planned anew: 2 of 4 patterns (rising, other); 2 keep their plan"
    assert part in checked.output
    replanned = cep("replan", folder=project.folder)
    assert replanned.code == 0, replanned.errors
    assert "replaced" in replanned.output and part in replanned.output
    assert "far" not in replanned.output
