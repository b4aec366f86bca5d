"""Which invariant is violated next, and when, by the trend of the days."""

from __future__ import annotations

import math
from datetime import date, timedelta

import pytest

from cep_pipeline.adaptation import invariants_of
from cep_pipeline.adaptation.forecast import forecast
from cep_pipeline.planning import plan
from cep_pipeline.statistics import StatisticsSnapshot
from tests.adaptation.drifting import snapshot
from tests.adaptation.test_invariants import ABC, CALM

MADE = plan(ABC, CALM, "event_frequency")  # c 5, b 10, a 15
INVARIANTS = invariants_of(MADE, ABC)  # c before b, b before a
MONDAY = date(2026, 3, 2)


def days(*found: StatisticsSnapshot) -> dict[date, StatisticsSnapshot]:
    return {MONDAY + timedelta(days=place): stats for place, stats in enumerate(found)}


def test_a_rate_that_grows_by_a_tenth_a_day() -> None:
    """b grows from 10 towards a's 15: 1.1 ** 4 < 1.5 < 1.1 ** 5."""
    history = days(*(snapshot({"A": 15.0, "B": 10 * 1.1**day, "C": 5.0}) for day in range(4)))
    first, second = forecast(INVARIANTS, ABC, history)
    assert first.invariant == INVARIANTS[1]
    assert first.per_day == pytest.approx(-math.log(1.1))
    assert first.error == pytest.approx(0.0, abs=1e-9)
    assert first.falls
    assert first.violated_on == MONDAY + timedelta(days=5)
    assert first.between == (MONDAY + timedelta(days=5), MONDAY + timedelta(days=5))
    assert first.distances[0] == pytest.approx(math.log(1.5))
    assert (second.invariant, second.violated_on, second.falls) == (INVARIANTS[0], None, False)
    farther, _ = forecast(INVARIANTS, ABC, history, distance=0.3)
    assert farther.violated_on == MONDAY + timedelta(days=math.ceil(math.log(1.5 * 1.3) / math.log(1.1)))


def test_days_that_are_missing_are_gaps() -> None:
    history = days(*(snapshot({"A": 15.0, "B": 10 * 1.1**day, "C": 5.0}) for day in range(4)))
    del history[MONDAY + timedelta(days=1)]
    assert forecast(INVARIANTS, ABC, history)[0].violated_on == MONDAY + timedelta(days=5)


def test_noise_widens_what_it_lies_between() -> None:
    noisy = [1.0, 1.15, 1.18, 1.35]
    trend, _ = forecast(INVARIANTS, ABC, days(*(snapshot({"A": 15.0, "B": 10 * b, "C": 5.0}) for b in noisy)))
    soonest, latest = trend.between
    assert soonest is not None and latest is not None and trend.violated_on is not None
    assert MONDAY + timedelta(days=3) < soonest <= trend.violated_on <= latest
    assert soonest < latest
    noisier = [1.0, 1.4, 1.0, 1.3]
    trend, _ = forecast(INVARIANTS, ABC, days(*(snapshot({"A": 15.0, "B": 10 * b, "C": 5.0}) for b in noisier)))
    assert trend.violated_on is not None and trend.between[1] is None and not trend.falls


def test_without_a_trend_the_closest_comes_first() -> None:
    trends = forecast(INVARIANTS, ABC, days(CALM, CALM, CALM))
    assert [trend.violated_on for trend in trends] == [None, None]
    assert [trend.invariant for trend in trends] == [INVARIANTS[1], INVARIANTS[0]]
    assert not any(trend.falls for trend in trends)
    for some in ((CALM,), (CALM, CALM)):
        trends = forecast(INVARIANTS, ABC, days(*some))
        assert [trend.per_day for trend in trends] == [None, None]
    assert forecast(INVARIANTS, ABC, {}) == ()


def test_what_is_violated_is_violated_today() -> None:
    crossed = snapshot({"A": 9.0, "B": 10.0, "C": 5.0})
    for history in (days(CALM, crossed), days(CALM, CALM, CALM, crossed)):
        first, _ = forecast(INVARIANTS, ABC, history)
        assert first.latest.violated
        assert first.violated_on == max(history)


def test_what_falls_too_slowly_is_not_foretold() -> None:
    trend, _ = forecast(
        INVARIANTS, ABC, days(*(snapshot({"A": 15.0, "B": 10 * 1.00001**day, "C": 5.0}) for day in range(4)))
    )
    assert trend.per_day is not None and trend.per_day < 0
    assert trend.violated_on is None
