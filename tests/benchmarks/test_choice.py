"""The benchmark of what is chosen: all ways find the same, and what mechanisms cost is found from their times."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

import cep_pipeline as cep
from benchmarks.choice import (
    CHOSEN,
    EVERY_WINDOWS_MS,
    OUTPUTS,
    SUMMARIZED,
    WINDOWS_MS,
    Cell,
    MeasuredCell,
    cells,
    choice_page,
    drawn,
    measure_cells,
    write_constants,
)
from benchmarks.measure import Progress
from benchmarks.stock_stream import StockStream, generate_stock_stream
from cep_pipeline.detection.planned import expected_seconds, plan_for
from cep_pipeline.planning.costs.mechanisms import WORK, MechanismCosts, expected_work


def test_all_ways_of_a_cell_find_the_same() -> None:
    wanted = [Cell(2, 1_000, "some", output) for output in (*OUTPUTS, SUMMARIZED)]
    found = measure_cells(generate_stock_stream(1_000), wanted, 1, Progress())
    assert [one.cell for one in found] == wanted
    assert len({one.matches for one in found}) == 1 and found[0].matches > 0
    assert all(CHOSEN not in one.others_s and one.ratio >= 1 for one in found)
    assert set(found[2].others_s) == {*found[0].others_s, "listed", "merged runs"}
    assert set(found[3].others_s) == {*found[0].others_s, "listed and grouped"}
    assert "fused, own order" in found[0].others_s
    assert [one.of_listing is None for one in found] == [output != "compressed" for output in (*OUTPUTS, SUMMARIZED)]


def test_the_grid_is_bounded_and_the_page_says_what_is_worst(tmp_path: Path) -> None:
    grid = cells()
    assert {one.patterns for one in grid} == {1, 10, 100, 1000} and max(one.events for one in grid) == 1_000_000
    assert all(one.size <= 10_000_000 for one in grid if (one.density, one.output) == ("dense", "verbose"))
    assert {one.output for one in grid} == {*OUTPUTS, SUMMARIZED}
    measured = [
        MeasuredCell(Cell(1, 1_000, "rare", output), 3, 0.001 * place, {"fused, own order": 0.001, "multitree": 0.004})
        for place, output in enumerate(OUTPUTS, 1)
    ]
    units = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
    costs = MechanismCosts({"fused": {"count": units}}, (8.0, 9.0, 10.0), "here")
    page = choice_page(measured, costs)
    assert "| compressed | 1     | 3.00   | 3.00            | 3.00  | 1 x 1,000 rare, compressed |" in page
    assert "4.0 ms (multitree)" in page
    write_constants(costs, tmp_path / "costs.json")
    content = json.loads((tmp_path / "costs.json").read_text())
    assert content["mechanisms"]["fused"]["count"] == dict(zip(WORK, units, strict=True))
    assert content["planning"] == {"call": 8.0, "row": 9.0, "pattern": 10.0}
    assert "| fused     | count  | 1.0  | 2.0 | 3.0     |" in page


@pytest.mark.parametrize(
    ("listing_ms", "row"),
    [
        ((2, 2), "| 2     | 1.25   | 1.50    | 10 x 1,000 rare, compressed | 0         | met |"),
        ((2, 1), "| 2     | 2.00   | 3.00    | 10 x 1,000 rare, compressed | 1         | MISSED |"),
    ],
)
def test_the_page_says_what_compressed_takes_beside_listing(listing_ms: tuple[float, float], row: str) -> None:
    took = {"fused, own order": 0.003}
    measured = [MeasuredCell(Cell(1, 1_000, "rare", "count"), 3, 0.001, took)] + [
        MeasuredCell(Cell(patterns, 1_000, "rare", "compressed"), 3, chosen_s, took, own_ms / 1000)
        for patterns, chosen_s, own_ms in zip((1, 10), (0.002, 0.003), listing_ms, strict=True)
    ]
    assert row in choice_page(measured, MechanismCosts({}, (1.0, 1.0, 1.0), ""))


@cache
def stream() -> StockStream:
    """The stream of the benchmarks, made once."""
    return generate_stock_stream(100_000)


@pytest.mark.parametrize("events", [1_000, 100_000])
@pytest.mark.parametrize("kind", [*WINDOWS_MS, *EVERY_WINDOWS_MS])
def test_the_kernel_is_expected_to_list_a_pattern_sooner_than_runs_over_a_buffer(kind: str, events: int) -> None:
    """So it is by the clock, and `explain` calls it the fastest: the numbers beside that must say the same."""
    patterns, table = drawn(1, kind), stream().prefix(events).table()
    made = plan_for(patterns, cep.estimate_statistics(patterns, table), {"p0": "fused"}, "trivial")
    seconds = expected_seconds(patterns, made, {"p0": "fused"})["p0"]
    assert seconds["fused"] < seconds["nfab"]


@pytest.mark.parametrize("kind", EVERY_WINDOWS_MS)
def test_patterns_of_every_event_read_the_stream_for_each_variable(kind: str) -> None:
    patterns, table = drawn(2, kind), stream().prefix(30_000).table()
    made = plan_for(patterns, cep.estimate_statistics(patterns, table), {"p0": "fused", "p1": "fused"}, "trivial")
    for one in made.patterns:
        work = dict(zip(WORK, expected_work(one, made.statistics), strict=True))
        assert 2 * table.num_rows < work["event"] < 2.1 * table.num_rows
