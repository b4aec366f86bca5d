"""Make docs/scale.md: days of more and more events, and more and more days, from raw files to published matches.

    python scripts/scale_page.py     in some 25 minutes

Each row is a project of its own: `cep generate` makes its days, and `cep run` runs them in a process that is looked at
until it ends, with the JVM and the workers that it has started.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from cep_pipeline.pipeline.configuration import Configuration

CHECKOUT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(CHECKOUT))

from benchmarks.report import machine, markdown_table  # noqa: E402

PIPELINE, STREAM = CHECKOUT / "pipeline.yaml", "generated_trades"
SIZES = {
    "Events of a day": [(1, 100_000), (1, 1_000_000), (1, 5_000_000), (1, 10_000_000)],
    "Days": [(1, 1_000), (10, 1_000), (100, 1_000)],
}
"""Heading -> what is measured: days, and events of each."""
STEPS = ("ingest", "preprocess", "statistics", "detect market")
COLUMNS = ("days", "events a day", "matches", "wall, s", *(f"{step}, s" for step in STEPS))
MEMORY = {"driver, MB": "driver", "JVM, MB": "jvm", "largest worker, MB": "worker"}
PAGE = """# Scale

Made by `python scripts/scale_page.py` on {machine}.

Each row is one run of `cep run` on `local[*]` over days that `cep generate` has made, in a process of its own. Times
are rough, memory is not: it is the most that one process of each kind held, shared memory divided by its users.
"""


def main() -> None:
    """Measure all sizes, and write the page."""
    page = PAGE.format(machine=machine())
    for heading, sizes in SIZES.items():
        rows = [measured(days, events) for days, events in sizes]
        page += f"\n## {heading}\n\n{markdown_table([*COLUMNS, *MEMORY], rows)}\n"
    (CHECKOUT / "docs" / "scale.md").write_text(page, encoding="utf-8")


def measured(days: int, events: int) -> list[str]:
    """The row of so many days of so many events."""
    sys.stderr.write(f"{days:,} days of {events:,} events\n")
    with TemporaryDirectory() as place:
        stocks = min(max(events // 10_000, 8), 2_100)  # a larger day has more stocks and not faster ones
        size = f"--days={days}", f"--events-per-day={events}", f"--stocks={stocks}"
        os.environ.update(CEP_DATA=place, CEP_WAREHOUSE=f"{place}/warehouse")
        assert cep("generate", f"--out={place}/{STREAM}", *size).wait() == 0
        begin = time.perf_counter()
        running = cep("run", f"--config={PIPELINE}")
        most, wall = most_bytes(running), time.perf_counter() - begin
        assert running.wait() == 0
        tables = Configuration.load(PIPELINE).open_warehouse().open_stream(STREAM)
        seconds: Counter[str] = Counter()
        for step in (step for record in tables.runs() for step in record.steps):
            seconds[step.name] += step.seconds
        read = sum(record.events for record in tables.days()) // days
        matches = sum(unit.matches for unit in tables.matches_days())
        figures = [f"{days:,}", f"{read:,}", f"{matches:,}", f"{wall:.1f}", *(f"{seconds[step]:.1f}" for step in STEPS)]
        return [*figures, *(f"{most[kind] / 1e6:,.0f}" for kind in MEMORY.values())]


def cep(*arguments: str) -> subprocess.Popen[Any]:
    """A command that runs beside this one."""
    return subprocess.Popen([sys.executable, "-m", "cep_pipeline.cli", *arguments], stdout=subprocess.DEVNULL)


def most_bytes(running: subprocess.Popen[Any]) -> Counter[str]:
    """The most memory that a process of each kind holds until the first one ends, looked at twice a second."""
    most: Counter[str] = Counter()
    while running.poll() is None:
        with suppress(psutil.Error):
            for process in (first := psutil.Process(running.pid), *first.children(recursive=True)):
                kind = "jvm" if process.name() == "java" else "driver" if process == first else "worker"
                most[kind] = max(most[kind], process.memory_full_info().pss)
        time.sleep(0.5)
    return most


if __name__ == "__main__":
    main()
