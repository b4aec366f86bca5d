"""`cep bench scale` over tiny days: what is run, what is kept, and what the page says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from benchmarks.experiments.experiment import Row, number
from benchmarks.measure import Progress
from benchmarks.scale import DAYS, EVENTS, MEASURED, draw_patterns, measure_scale, scale_text, sizes_of, watched
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.language.parser import parse_patterns

LARGE: Row = {"axis": EVENTS, "size": 80_000_000, "days": 1, "streams": 1, "events": 80_000_000, "matches": 4_000_000}
LARGE = {**LARGE, "slices": 80, "seconds": 800.0, "processor_s": 1_300.0, "driver": 900_000_000, "jvm": 500_000_000}
LARGE = {**LARGE, "worker": 1_500_000_000, "files": 240, "metadata": 200_000, "step detect market": 90.0}
LARGE = {**LARGE, "step ingest": 3.0, "step preprocess": 2.0, "step plan": 1.0}


@pytest.mark.long
def test_what_is_measured_is_kept_and_days_are_of_one_warehouse(tmp_path: Path) -> None:
    begun: list[str] = []
    progress = Progress(lambda what, _: begun.append(what))
    one, two = measure_scale(tmp_path, {DAYS: (1, 2)}, "local[1]", progress)
    assert (one["days"], one["events"], two["days"], two["events"]) == (1, 1_000, 2, 2_000)
    assert number(two, "files") > number(one, "files") and number(two, "slices") >= 1 and "step detect market" in two
    assert min(number(two, kind) for kind in ("driver", "jvm", "worker")) > 20e6 and number(two, "processor_s") > 1
    begun.clear()
    assert measure_scale(tmp_path, {DAYS: (1, 2)}, "local[1]", progress) == [one, two] and not begun
    assert "wall a day" in scale_text([one, two], "local[1]") and [*tmp_path.iterdir()] == [tmp_path / MEASURED]


def test_the_page_has_a_table_of_each_axis() -> None:
    page = scale_text([LARGE, {**LARGE, "axis": DAYS, "size": 20, "days": 19}], "local[2]")
    _, events, days, *_ = page.split("\n## ")
    assert "| 80,000,000 | 4,000,000 | 80 " in events and "13.3 min" in events
    assert "| 20 " in days and "42.11 s" in days


def test_a_share_keeps_the_shape_of_the_sizes() -> None:
    assert sizes_of(1)[EVENTS] == (1_000_000, 5_000_000, 20_000_000, 80_000_000)
    assert sizes_of(0.001)[DAYS] == (1,)


@pytest.mark.skipif(not psutil.LINUX, reason="this system does not tell what processes hold")
def test_what_a_process_that_was_started_uses_counts() -> None:
    busy = "import time\nwhile time.process_time() < 1: pass"
    starting = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
    with subprocess.Popen([sys.executable, "-c", starting]) as process, watched(process.pid) as used:
        process.wait()
    assert len(used.processor_s) == 2 and 0.3 < sum(used.processor_s.values()) < 3


def test_drawn_patterns_are_of_the_stream_and_begin_with_those_of_a_shorter_file() -> None:
    attributes = {"symbol": "string", "price": "float64", "size": "int64", "diff": "float64"}
    schema = StreamSchema.from_dict({"base_type": "Trade", "type_attribute": "symbol", "attributes": attributes})
    text = draw_patterns(1_000)
    patterns = parse_patterns(text, schema)
    assert text.startswith(draw_patterns(20).removesuffix("\n") + ";\n")
    assert len({one.split(" ", 2)[2] for one in text.split(";\n")}) == len(patterns) == 1_000
    assert 150 < sum("KL(" in one or "NOT(" in one for one in text.split(";\n")) < 250
