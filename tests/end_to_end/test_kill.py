"""`cep run` is killed or stopped at many moments: each day is old or new in all tables, and a rerun begins at once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.project import DAYS, PATTERNS, PIPELINE, ROWS, Project, make_project
from tests.thoroughness import long_but

if TYPE_CHECKING:
    from datetime import date

    from pyspark.sql import SparkSession

    from cep_pipeline.warehouse.stream_tables import StreamTables

CHECKOUT = Path(__file__).parents[2]
Published = dict[tuple[str, "date"], Any]
"""(table, day) -> its rows, in the order in which they are read."""

WAITING = """
NAME quiet PATTERN SEQ(Tick a, Tick b, ~C n) WITHIN 3 hours OUTPUT NON_OVERLAP;
NAME count PATTERN SEQ(Tick a, ~C n) WITHIN 3 EVENTS PARTITION BY kind CONSUME MATCHED
"""
"""Patterns that hand on from day to day what waits and what is kept."""
VERSIONS = {
    "old": {day: [*rows, "12:34:56,A,nothing"] for day, rows in ROWS.items()},
    "new": {
        day: [rows[0].rpartition(",")[0] + ",2", *rows[1:], "nowhen,B,1", "23:59:58,A,9"] for day, rows in ROWS.items()
    },
}
"""Two deliveries of the raw files that differ in the events, the rejected rows and the matches of every day."""


def read(tables: StreamTables) -> Published:
    found = read_at_once(tables)
    for day in DAYS:
        found["carry state", day] = tables.matches_carry_in("all", day + timedelta(days=1))
    return found


def read_at_once(tables: StreamTables) -> Published:
    """All that is published with each day, at one moment; the matches with the events that they are of."""
    reader = tables.pinned()
    found: Published = {}
    events = {row["seq"]: row for row in reader.read_events().to_pylist()}
    for day in DAYS:
        found["events", day] = reader.read_events(day, day).to_pylist()
        found["quarantine", day] = reader.read_quarantine(day, day).to_pylist()
        matches = reader.read_matches("all", day, day).to_pylist()
        # A match may begin on a day before, which is published by itself.
        own = {row["seq"] for row in found["events", day]}
        of_events = [[events.get(one["seq"]) for one in row["bindings"] if one["seq"] in own] for row in matches]
        found["matches", day] = list(zip(matches, of_events, strict=True))
        found["statistics", day] = reader.read_statistics("all", day)
    return found


def check_days(found: Published, old: Published, new: Published, when: str) -> None:
    """Each day is as before, or new, in all of its tables."""
    for day in DAYS:
        tables = {table: rows for (table, of), rows in found.items() if of == day}
        versions = [{table: one[table, day] for table in tables} for one in (old, new)]
        if tables not in versions:
            old_ones = sorted(table for table, rows in tables.items() if rows == versions[0][table])
            new_ones = sorted(table for table, rows in tables.items() if rows == versions[1][table])
            raise AssertionError(f"{day} is neither as before nor new {when}: old {old_ones}, new {new_ones}")


@dataclass
class Deliveries:
    """The project with the tables of undisturbed runs over each of its deliveries."""

    project: Project
    undisturbed: dict[str, Published]

    def deliver(self, version: str) -> None:
        for day, rows in VERSIONS[version].items():
            self.project.write_day(day, rows)


@pytest.fixture(scope="module")
def deliveries(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Deliveries:
    made = Deliveries(make_project(tmp_path_factory.mktemp("killed"), spark), {})
    quick_start = "properties: {spark.driver.extraJavaOptions: '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC'}"
    (made.project.folder / "all.sase").write_text(f"{PATTERNS};{WAITING}")
    (made.project.folder / "pipeline.yaml").write_text(PIPELINE.replace("spark: {", f"spark: {{{quick_start}, "))
    for version in VERSIONS:
        made.deliver(version)
        made.project.run(warehouse=version).run_days(DAYS)
        made.undisturbed[version] = read(made.project.tables(version))
    assert all(made.undisturbed["new"]["carry state", day]["pending"] for day in DAYS)
    for unit, rows in made.undisturbed["old"].items():
        assert rows != made.undisturbed["new"][unit], f"{unit} is the same in both: the test would see no mix"
    return made


class RunningCep:
    """A `cep run` over all days in a process group of its own, with its JVM."""

    def __init__(self, folder: Path) -> None:
        self._log = (folder / "cep.log").open("w+")
        self.warehouse = folder / "warehouse"
        self._before = self._files()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cep_pipeline.cli", "run", "--master", "local[2]"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def _files(self) -> set[Path]:
        # Unlike rglob, walk passes over folders that the run removes meanwhile.
        return {Path(folder, name) for folder, _, names in os.walk(self.warehouse) for name in names}

    def wait_for_new_files(self, pattern: str, count: int) -> bool:
        """Wait until there are so many new files below the warehouse; False if the run ends before."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            ended = self.process.poll() is not None
            if sum(file.match(pattern) for file in self._files() - self._before) >= count:
                return True
            if ended:
                return False
            time.sleep(0.002)
        raise AssertionError(f"no new {pattern} after two minutes: {self.log()}")

    def kill(self) -> None:
        with suppress(ProcessLookupError):  # it has ended
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def log(self) -> str:
        self._log.seek(0)
        return self._log.read()


def check_kill(
    deliveries: Deliveries, warehouse_of: str, to: str, moment: tuple[str, int], delay_s: float = 0.0
) -> bool:
    """Run over a new delivery, kill the run at a moment, check what it left, and run again.

    Returns whether the run was still alive when it was killed.
    """
    project = deliveries.project
    old, new = deliveries.undisturbed[warehouse_of], deliveries.undisturbed[to]
    tables = project.tables()
    assert read(tables) == old
    deliveries.deliver(to)
    run = RunningCep(project.folder)
    try:
        with ThreadPoolExecutor(1) as pool, reading_all_the_time(pool, tables, old, new):
            reached = run.wait_for_new_files(*moment)
            time.sleep(delay_s)
            killed = run.process.poll() is None
    finally:
        run.kill()
    assert reached, f"the run ended before {moment}: {run.log()}"
    left = read(tables)
    check_days(left, old, new, f"after a kill at {moment}")
    assert killed or left == new

    assert "running" not in {record.status for record in tables.runs()}, "the run is known to be dead"
    project.run().run_days(DAYS)
    project.run().run_stale()
    assert read(tables) == new
    return killed


@contextmanager
def reading_all_the_time(
    pool: ThreadPoolExecutor, tables: StreamTables, old: Published, new: Published
) -> Iterator[None]:
    """Read all days again and again while the block works, and check each time."""
    over = threading.Event()

    def reads() -> None:
        while not over.is_set():
            check_days(read_at_once(tables), old, new, "while the run works")

    reading = pool.submit(reads)
    try:
        yield
    finally:
        over.set()
        reading.result()


MOMENTS = {
    "reading raw files": ("scratch/*/*.parquet", 1),
    "writing events": ("events/data/*/*.parquet", 2),
    "publishing the first day of events": ("events/metadata/*.metadata.json", 1),
    "writing statistics": ("statistics/data/*/*/*.parquet", 1),
    "writing matches": ("matches/data/*/*/*.parquet", 1),
    "publishing the second day of matches": ("matches/metadata/*.metadata.json", 2),
}
"""Moments in a run: so many new files of a kind in the warehouse."""
TRIED_ALWAYS = ("publishing the first day of events", "writing matches")
"""The moments of `make test`; the others are for `make test-all`."""


@pytest.fixture(scope="module")
def turns(deliveries: Deliveries) -> Iterator[tuple[str, str]]:
    """From which delivery to which the next killed run leads, to and fro."""
    deliveries.deliver("old")
    deliveries.project.run().run_days(DAYS)

    def to_and_fro() -> Iterator[tuple[str, str]]:
        while True:
            yield "old", "new"
            yield "new", "old"

    return to_and_fro()


@pytest.mark.long
@pytest.mark.parametrize("moment", long_but(TRIED_ALWAYS, MOMENTS))
def test_a_killed_run_leaves_each_day_old_or_new(
    deliveries: Deliveries, turns: Iterator[tuple[str, str]], moment: str
) -> None:
    before, after = next(turns)
    assert check_kill(deliveries, before, after, MOMENTS[moment]), "the run had ended before it was killed"


STOPS = {
    "before Spark": (("runs/metadata/*.metadata.json", 1), signal.SIGTERM),
    "in Spark's jobs": (("scratch/*/*.parquet", 1), signal.SIGTERM),
    "publishing": (MOMENTS["publishing the first day of events"], signal.SIGTERM),
    "publishing, by Ctrl-C": (MOMENTS["writing statistics"], signal.SIGINT),
}


@pytest.mark.long
@pytest.mark.parametrize("moment", long_but(["in Spark's jobs", "publishing, by Ctrl-C"], STOPS))
def test_a_stopped_run_gives_its_days_back(
    deliveries: Deliveries, turns: Iterator[tuple[str, str]], moment: str
) -> None:
    before, after = next(turns)
    project, (files, number) = deliveries.project, STOPS[moment]
    old, new = deliveries.undisturbed[before], deliveries.undisturbed[after]
    tables = project.tables()
    for day in DAYS:  # a run that was killed may hold the lease of one; the first record is to be the run's own
        tables.day_lease(day, run_id="none").release()
    known = {record.run_id for record in tables.runs()}
    deliveries.deliver(after)
    run = RunningCep(project.folder)
    try:
        assert run.wait_for_new_files(*files), run.log()
        run.process.send_signal(number)
        run.process.wait(120)
    finally:
        run.kill()
    assert run.process.returncode == (143 if number == signal.SIGTERM else 130), run.log()
    assert run.log().endswith("ed: nothing that was not finished has been published\n")
    assert "Traceback" not in run.log()
    assert tables.warehouse.leases() == []
    records = [record for record in tables.runs() if record.run_id not in known]
    assert len(records) == len(DAYS)
    statuses = {record.status for record in records}
    # A day that had been published before the signal came is done.
    assert "interrupted" in statuses and statuses <= {"interrupted", "succeeded"}
    check_days(read(tables), old, new, "after a stop")
    project.run().run_days(DAYS)
    project.run().run_stale()
    assert read(tables) == new


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_a_run_killed_at_a_random_moment(deliveries: Deliveries, turns: Iterator[tuple[str, str]], seed: int) -> None:
    chance = random.Random(seed)
    before, after = next(turns)
    check_kill(deliveries, before, after, chance.choice(list(MOMENTS.values())), chance.uniform(0.0, 1.5))
