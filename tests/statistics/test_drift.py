"""Drift: factors and widths, and which numbers of two snapshots are compared."""

from __future__ import annotations

import math

import pytest

from cep_pipeline.statistics import JointSelectivity, LeafRate, Selectivity, Source, StatisticsSnapshot
from cep_pipeline.statistics.drift import Drift, drift_between, numbers_of
from cep_pipeline.statistics.sliding_window import Estimate


def exactly(value: float) -> Estimate:
    return Estimate(value, value, value)


@pytest.mark.parametrize(
    ("before", "now", "factor", "widths", "sure"),
    [
        (Estimate(2, 1.5, 2.5), Estimate(3, 2.9, 3.1), 1.5, 1.0, False),
        (Estimate(2, 1.9, 2.1), Estimate(1, 0.9, 1.1), 0.5, 5.0, True),
        (exactly(2), exactly(2), 1.0, 0.0, False),
        (exactly(2), exactly(3), 1.5, math.inf, True),
        (exactly(0), Estimate(3, 2, 4), math.inf, 1.5, True),
        (exactly(0), exactly(0), 1.0, 0.0, False),
        (Estimate(2, 1, 3), exactly(0), 0.0, 1.0, False),
    ],
)
def test_a_drift_is_a_factor_and_a_number_of_widths(
    before: Estimate, now: Estimate, factor: float, widths: float, sure: bool
) -> None:
    drift = Drift(before, now)
    assert (drift.factor, drift.widths, drift.sure) == (factor, pytest.approx(widths), sure)
    assert Drift(now, before).widths == pytest.approx(widths), "there and back is as far"


def snapshot(rate: float, share: float, *, further: bool = False) -> StatisticsSnapshot:
    rates = [LeafRate("A", rate, 5, Source.WINDOW, rate * 0.9, rate * 1.1, worst_per_s=rate * 3)]
    shares = [
        Selectivity("c", share, 100, 50, Source.SAMPLED_PAIRS, share * 0.5, share * 1.5),
        Selectivity("given", 0.25),
    ]
    joint = JointSelectivity(("c", "d"), 0.125, 0.1, 0.2, 40, 0.01, ((0, 1), (1, 2)))
    if further:
        rates.append(LeafRate("B", 1.0))
    return StatisticsSnapshot(
        events=10, start_us=0, end_us=1, rates=tuple(rates), selectivities=tuple(shares), joints=(joint,)
    )


def test_the_numbers_of_a_snapshot_say_what_they_rest_on() -> None:
    numbers = numbers_of(snapshot(2.0, 0.5, further=True))
    assert list(numbers) == [
        ("rate", "A"),
        ("rate", "B"),
        ("selectivity", "c"),
        ("selectivity", "given"),
        ("joint selectivity", "c (0, 1) and d (1, 2)"),
    ]
    assert numbers["rate", "A"].rests == "window: 5 events" and numbers["rate", "A"].worst == 6.0
    assert numbers["selectivity", "c"].rests == "sampled pairs: 50 of 100"
    assert numbers["selectivity", "given"].rests == "given"
    assert numbers["selectivity", "given"].estimate == exactly(0.25)
    assert numbers["joint selectivity", "c (0, 1) and d (1, 2)"].rests == "sampled pairs: 40; 0.01 if independent"


def test_only_what_both_snapshots_have_is_compared() -> None:
    moved = drift_between(snapshot(2.0, 0.5), snapshot(4.0, 0.5, further=True))
    assert moved["rate", "A"].factor == 2.0
    assert moved["selectivity", "c"].widths == 0.0
    assert ("rate", "B") not in moved
