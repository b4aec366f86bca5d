"""The benchmark of the statistics step runs days one by one in a process of their own, and says which bars are met."""

from __future__ import annotations

from datetime import date

import pytest

from benchmarks import daily_statistics
from benchmarks.daily_statistics import DailyStatistics, DaySeconds, days_table, measure_days
from benchmarks.measure import Progress


def test_short_generated_days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daily_statistics, "EVENTS_PER_DAY", 5000)
    monkeypatch.setattr(daily_statistics, "GENERATED_DAYS", (date(2025, 1, 6), date(2025, 1, 7)))
    (result,) = measure_days(None, "local[1]", Progress())
    assert result.stream == "generated trades" and len(result.days) == 2
    assert all(3000 < day.events < 8000 and day.statistics_s > 0 and day.ingest_s > 0 for day in result.days)


def test_the_table_tells_the_first_day_from_the_later_ones_and_bars_that_are_missed() -> None:
    days = (
        DaySeconds(1000, 8.0, 0.4),
        DaySeconds(2000, 1.0, 0.1),
        DaySeconds(3000, 1.0, 0.3),
        DaySeconds(4000, 1.0, 0.2),
    )
    first, later = days_table([DailyStatistics("trades", days)]).splitlines()[2:]
    assert "fresh process" in first and "1,000" in first and "0.050: met" in first
    assert "after it (median)" in later and "3,000" in later and "0.200: MISSED" in later
    assert len(days_table([DailyStatistics("trades", days[:1])]).splitlines()) == 3
