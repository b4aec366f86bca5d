"""`cep bench skipping` on small days: same matches, and only the days that can have one are read."""

from __future__ import annotations

import pytest

from benchmarks.measure import Progress
from benchmarks.skipping import Workload, measure_skipping, skipping_table


@pytest.mark.usefixtures("spark")
def test_days_without_rare_types_are_not_read() -> None:
    workload = Workload(days=4, events=2_000, every=3)
    without, with_summaries = measure_skipping("local[2]", [workload], Progress(lambda *_: None, lambda: None))
    assert without.matches == with_summaries.matches > 0
    assert (without.read, with_summaries.read) == (6_000, 2_000)
    assert "| 3.0x less |" in skipping_table([without, with_summaries])
