"""Plans run side by side: all find the same, and runs that are the same are measured once."""

from __future__ import annotations

import pytest

import cep_pipeline as cep
from benchmarks.experiments.join_plans import PlanRun, measure_runs
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.errors import CepError, PlanError
from cep_pipeline.planning import Join
from tests.statistics.market import market, parse

RISE = "NAME rise PATTERN SEQ(A a, B b, C c) WHERE a.diff < c.diff WITHIN 2 seconds"


def test_runs_that_are_the_same_are_measured_once() -> None:
    (pattern,) = parse(RISE)
    events = market(600)
    one, other = ("c", "b", "a"), ("a", "b", "c")
    runs = {
        "x": PlanRun("lazy_chain_nfa", [one]),
        "y": PlanRun("lazy_chain_nfa", [list(one)]),
        "z": PlanRun("evaluation_tree", [Join("c", Join("b", "a"))]),
        "pattern's": PlanRun("fused", [other]),
    }
    measured = measure_runs(pattern, runs, events, 1)
    assert measured["x"] is measured["y"] and measured["x"] is not measured["z"]
    expected = cep.detect([pattern], events)["rise"].num_rows
    assert {run.matches for run in measured.values()} == {expected} and expected > 0
    assert measured["z"].candidates > 0 and measured["z"].counters.peak_instances > 0


def test_different_matches_are_no_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    broken = replace(MECHANISMS["fused"], find=lambda *_: iter(()))
    monkeypatch.setattr("benchmarks.experiments.join_plans.MECHANISMS", {**MECHANISMS, "fused": broken})
    (pattern,) = parse(RISE)
    runs = {"tree": PlanRun("evaluation_tree", ["abc"]), "kernel": PlanRun("fused", ["abc"])}
    with pytest.raises(CepError, match="kernel on fused finds 0 matches"):
        measure_runs(pattern, runs, market(600))


def test_a_plan_that_a_mechanism_does_not_run_is_refused() -> None:
    (pattern,) = parse(RISE)
    with pytest.raises(PlanError):
        measure_runs(pattern, {"tree": PlanRun("lazy_chain_nfa", [Join("a", Join("b", "c"))])}, market(50))
