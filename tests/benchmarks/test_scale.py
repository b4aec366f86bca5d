"""`cep bench scale` over tiny days: what is run, what is kept, and what the page says."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.measure import Progress
from benchmarks.processes import Watched, told_here
from benchmarks.scale import DAYS, EVENTS, MEASURED, Measured, draw_patterns, measure_scale, scale_text, sizes_of
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.language.parser import parse_patterns

LARGE = Measured(
    EVENTS, 80_000_000, 1, 1, 80_000_000, 4_000_000, 80, 800.0, 1_300.0, 900_000, 500_000, 1_500_000, 240,
    200_000, {"detect market": 90.0, "publish": 8.0},
)  # fmt: skip


@pytest.mark.long
def test_days_are_run_once_and_further_days_go_on_in_their_warehouse(tmp_path: Path) -> None:
    begun: list[str] = []
    progress = Progress(lambda what, _: begun.append(what))
    one, two = measure_scale(tmp_path, {DAYS: (1, 2)}, "local[1]", progress)
    assert (one.days, one.events, two.days, two.events) == (1, 1_000, 1, 1_000)
    assert two.files > one.files and two.slices >= 1 and "detect market" in two.steps_s
    if told_here():
        assert min(two.driver_kb, two.jvm_kb, two.worker_kb) > 20_000 and two.processor_s > 1
    begun.clear()
    assert measure_scale(tmp_path, {DAYS: (1, 2)}, "local[1]", progress) == [one, two] and not begun
    assert measure_scale(tmp_path, {EVENTS: ()}, "local[1]", progress) == [one, two] and not begun
    # A run over further days that was stopped has left a raw day that no result tells of.
    (tmp_path / DAYS / "raw" / "2025-01-08.parquet").touch()
    measured = (tmp_path / MEASURED).read_text()
    (again,) = measure_scale(tmp_path, {DAYS: (1,)}, "local[1]", progress)
    assert again.files == one.files and begun and len((tmp_path / MEASURED).read_text()) > len(measured)


def test_the_page_has_a_table_of_each_axis() -> None:
    page = scale_text([LARGE, replace(LARGE, axis=DAYS, size=20, days=19)], "local[2]")
    _, events, days, *_ = page.split("\n## ")
    assert "| 80,000,000 | 4,000,000 | 80 " in events and "13.3 min" in events
    assert "| 20 " in days and "42.11 s" in days


def test_a_share_keeps_the_shape_of_the_sizes() -> None:
    assert sizes_of(1)[EVENTS] == (1_000_000, 5_000_000, 20_000_000, 80_000_000)
    assert sizes_of(0.001)[DAYS] == (1,)


@pytest.mark.skipif(not told_here(), reason="this system does not tell what processes hold")
def test_what_a_process_that_was_started_uses_counts() -> None:
    busy = "import time\nwhile time.process_time() < 1: pass"
    starting = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
    with subprocess.Popen([sys.executable, "-c", starting]) as process, Watched(process.pid) as watched:
        process.wait()
    assert len(watched.used_s) == 2 and 0.3 < watched.processor_s < 3


def test_drawn_patterns_are_of_the_stream_and_begin_with_those_of_a_shorter_file() -> None:
    attributes = {"symbol": "string", "price": "float64", "size": "int64", "diff": "float64"}
    schema = StreamSchema.from_dict({"base_type": "Trade", "type_attribute": "symbol", "attributes": attributes})
    text = draw_patterns(1_000)
    patterns = parse_patterns(text, schema)
    assert text.startswith(draw_patterns(20).removesuffix("\n") + ";\n")
    assert len({one.split(" ", 2)[2] for one in text.split(";\n")}) == len(patterns) == 1_000
    assert 150 < sum("KL(" in one or "NOT(" in one for one in text.split(";\n")) < 250
