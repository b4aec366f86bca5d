"""Decisions that keep to a share of the time; a clock that only decisions and detection move says what it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

import cep_pipeline as cep
from cep_pipeline.adaptation import AdaptiveDetection, DecisionState, Verdict
from cep_pipeline.adaptation.decisions import Unconditional
from cep_pipeline.adaptation.loop_outputs import RowsOutput
from cep_pipeline.adaptation.plan_switch import Stretch
from cep_pipeline.errors import InputError
from cep_pipeline.statistics import StatisticsSnapshot
from tests.adaptation.test_loop import ABC, drifting, patterns_of

detect_adaptively = partial(cep.detect_adaptively, minimum_gain=0.0)
"""Which plans are used does not depend on the clock then."""

DECIDING_S = 30.0
EVENT_S = 1.0


class Watch:
    """A clock that stands still but for what tells it to go on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True)
class Costly(Unconditional):
    """Replans always, and takes its time to say so."""

    watch: Watch = field(default_factory=Watch)

    def decide(self, state: DecisionState, snapshot: StatisticsSnapshot) -> Verdict:
        self.watch.now += DECIDING_S
        return super().decide(state, snapshot)


@pytest.fixture()
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """An event takes a second to detect, a decision half a minute."""
    watch, find = Watch(), RowsOutput.find_unlisted

    def timed(self: RowsOutput, stretch: Stretch) -> bool:
        watch.now += EVENT_S * (stretch.stop - stretch.first)
        return find(self, stretch)

    monkeypatch.setattr(RowsOutput, "find_unlisted", timed)
    return watch


def run(watch: Watch, **settings: Any) -> Any:
    events = drifting(1200)
    found = detect_adaptively(
        patterns_of(ABC), events, decision=Costly(watch=watch), clock=watch, every_events=20, **settings
    )
    assert found[0] == cep.detect(patterns_of(ABC), events)
    return found[1]


def test_without_a_budget_all_decisions_are_taken(watch: Watch) -> None:
    report = run(watch)
    assert [check.row for check in report.checks] == list(range(40, 1200, 20))
    assert report.put_off == 0


@pytest.mark.parametrize("budget", [0.1, 0.25, 0.5])
@pytest.mark.parametrize("detect_events", [40, 10**9])
def test_decisions_take_no_more_than_their_share(watch: Watch, budget: float, detect_events: int) -> None:
    """Whether detection has run since the last decision, or the events still wait for it."""
    report = run(watch, budget=budget, detect_events=detect_events)
    rows = [check.row for check in report.checks]
    assert set(rows) <= set(range(40, 1200, 20)) and rows[0] == 40
    assert len(rows) + report.put_off == len(range(40, 1200, 20)) and report.put_off > 0
    apart = DECIDING_S * (1 - budget) / budget / EVENT_S
    assert all(later - earlier >= 0.9 * apart for earlier, later in pairwise(rows))
    assert all(later - earlier <= 1.5 * apart + 40 for earlier, later in pairwise(rows[1:]))
    assert report.total.overhead <= budget * (report.total.overhead + report.total.detecting) + DECIDING_S
    assert len(rows) > 2


def test_a_large_budget_puts_nothing_off(watch: Watch) -> None:
    report = run(watch, budget=0.9, detect_events=20)
    assert report.put_off <= 2


def test_budgets_are_shares() -> None:
    for budget in (0.0, 1.0, -0.1, float("nan")):
        with pytest.raises(InputError, match="share of the time"):
            AdaptiveDetection(budget=budget)
