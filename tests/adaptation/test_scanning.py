"""The minimal distance that is the best for events of the past: by the work that was counted with each."""

from __future__ import annotations

import pytest

from cep_pipeline.adaptation.decisions import InvariantBased, Static
from cep_pipeline.adaptation.distance import Fixed
from cep_pipeline.adaptation.loop import TRIES_OF_A_PLAN, AdaptiveDetection, scan_distance
from cep_pipeline.errors import InputError
from tests.adaptation.test_loop import ABC, drifting, in_parts, patterns_of

LOOP = AdaptiveDetection(mechanism="lazy_chain_nfa", planner="event_frequency", every_events=50, minimum_gain=0.0)


def test_the_best_distance_has_the_least_work() -> None:
    patterns, events = patterns_of(ABC), drifting()
    told: list[tuple[int, int]] = []
    found = scan_distance(
        LOOP,
        patterns,
        lambda: in_parts(events, 40),
        candidates=(0.0, 0.5, 1000.0),
        progress=lambda done, of: told.append((done, of)),
    )
    assert [one.distance for one in found.tried] == [0.0, 0.5, 1000.0] and told == [(1, 3), (2, 3), (3, 3)]
    eager, _, never = found.tried
    assert eager.switches > 0 == never.replannings == never.switches
    # Each is what a run with this distance counts.
    fixed = AdaptiveDetection(**{**vars(LOOP), "decision": InvariantBased(distance=Fixed(0.5))})
    _, report = fixed.detect(patterns, events, output="count")
    tries = sum(node.candidates for node in report.metrics.nodes)
    assert (found.tried[1].tries, found.tried[1].replannings) == (tries, report.replannings)
    assert found.tried[1].work == tries + TRIES_OF_A_PLAN * report.replannings
    least = min(found.tried, key=lambda one: one.work)
    assert found.best == least.distance
    assert scan_distance(LOOP, patterns, lambda: events, candidates=(1000.0, 2000.0)).best == 1000.0, "the first"


def test_distances_are_those_of_invariants() -> None:
    patterns, events = patterns_of(ABC), drifting(100)
    with pytest.raises(InputError, match="has to be invariant"):
        scan_distance(AdaptiveDetection(decision=Static()), patterns, lambda: events)
    with pytest.raises(InputError, match="nothing to try"):
        scan_distance(LOOP, patterns, lambda: events, candidates=())
    with pytest.raises(InputError, match="a minimal distance is a finite number"):
        scan_distance(LOOP, patterns, lambda: events, candidates=(-1.0,))
