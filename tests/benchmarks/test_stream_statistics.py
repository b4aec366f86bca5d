"""The benchmark of statistics finds estimates where they promise to be."""

from __future__ import annotations

import pytest

from benchmarks import stream_statistics
from benchmarks.measure import Progress
from benchmarks.stream_statistics import EPSILON, measure_statistics, statistics_table


def test_a_short_generated_day(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"EVENTS_PER_DAY": 20_000, "MOMENTS": 30, "SEEDS": 3}.items():
        monkeypatch.setattr(stream_statistics, name, value)
    steps: list[str] = []
    (result,) = measure_statistics(None, 1, Progress(advance=lambda: steps.append("step")))
    assert result.worst_error <= EPSILON
    assert (result.outside, result.counts) == (0, 30 * 7)
    assert 0 < result.held <= result.shares
    assert result.whole_bytes < 2 * result.half_bytes
    assert len(steps) == 1 + 30 + 3
    text = statistics_table([result])
    assert f"{result.events:,}" in text
    assert "210 of 210" in text
