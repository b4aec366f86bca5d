"""`cep bench switches` on small streams: the loop's default is never far behind the better simple answer."""

from __future__ import annotations

import pytest

from benchmarks.measure import Progress
from benchmarks.switches import DISTANCES, MOST, PLANNERS, ROTATING, TIED, Case, measure_switches, switches_table

SEEDS = (1, 2, 3)


@pytest.mark.parametrize(("stream", "seconds", "share"), [(ROTATING, 800, 0.6), (TIED, 500, MOST)])
def test_the_loop_switches_where_that_pays(stream: str, seconds: int, share: float) -> None:
    """On three streams, by each planner and distance; all together take at most this share of the static tries."""
    cases = [Case(stream, seconds, seed, per_s=5.0) for seed in SEEDS]
    found = [*measure_switches(cases, Progress())]
    assert len(found) == len(SEEDS) * len(PLANNERS) * len(DISTANCES)
    assert max(one.ratio for one in found) <= MOST
    assert sum(one.default for one in found) <= share * sum(one.static for one in found)
    table = switches_table(found)
    assert table.count("met") == len(found)
    assert "MISSED" not in table
