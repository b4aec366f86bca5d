"""One explosive pattern of a set costs no other its day: it is stopped and recorded, and the others are published."""

from __future__ import annotations

import os
import re
import signal
import time
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cep_pipeline as cep
from cep_pipeline.detection.limits import LimitedPattern
from cep_pipeline.errors import CepError, LimitExceeded
from cep_pipeline.pipeline.configuration import Configuration, LimitSettings
from cep_pipeline.spark.tasks import run_tasks
from cep_pipeline.warehouse.records import short_run_id
from cep_pipeline.warehouse.stream_tables import StreamTables
from tests.cli.command_line import cep as command
from tests.pipeline.local_days import FIRST_DAY, LocalDays, events_by_day
from tests.pipeline.project import MONDAY, TUESDAY, Project, make_project
from tests.streams import stream_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOOD = "NAME good PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 40 minutes;\n"
BOOM = "NAME boom PATTERN SEQ(Tick a, Tick+ b[], Tick c) WITHIN 1 day;\n"
BURST = "NAME burst PATTERN SEQ(A first, A+ burst[], A turn) WITHIN 18 minutes;\n"
TICKS = 60
LIMITS = "limits: {max_matches: 500, time_limit: 3 seconds}\n"


@pytest.fixture
def explosive(tmp_path: Path, spark: SparkSession) -> Project:
    """Two days of ticks, of which the last hour of the first and the first hour of the second have the most."""
    project = make_project(tmp_path, spark)
    (tmp_path / "all.sase").write_text(GOOD + BOOM + BURST)
    with (tmp_path / "pipeline.yaml").open("a") as file:
        file.write(LIMITS)
    for path in (tmp_path / "raw").iterdir():
        path.unlink()
    project.write_day(MONDAY, [f"23:{minute:02}:00,{'AAB'[minute % 3]},{minute % 7}" for minute in range(TICKS)])
    project.write_day(TUESDAY, [f"00:{minute:02}:00,{'ABA'[minute % 3]},{minute % 5}" for minute in range(TICKS)])
    return project


def rows(tables: StreamTables) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tables.read_matches("all").to_pylist()
    return [{name: row[name] for name in ("pattern", "final_day", "match_id")} for row in found]


def limited(tables: StreamTables) -> dict[tuple[date, str], LimitedPattern]:
    return {(unit.final_day, name): one for unit in tables.matches_days() for name, one in unit.limited.items()}


@pytest.mark.long
def test_explosive_patterns_are_stopped_and_the_good_one_is_published(explosive: Project, tmp_path: Path) -> None:
    alone = make_project(tmp_path / "alone" if (tmp_path / "alone").mkdir() is None else tmp_path, explosive.spark)
    (alone.folder / "all.sase").write_text(GOOD)
    for path in (alone.folder / "raw").iterdir():
        path.unlink()
    for path in (explosive.folder / "raw").iterdir():
        (alone.folder / "raw" / path.name).write_text(path.read_text())
    alone.run().run_days([MONDAY, TUESDAY])
    expected = rows(alone.tables())
    assert {row["final_day"] for row in expected} == {MONDAY, TUESDAY}

    done = command("run", "--master", "local[2]", folder=explosive.folder)
    assert done.code == 5, done.errors
    tables = explosive.tables()
    assert rows(tables) == expected
    found = limited(tables)
    assert set(found) == {(day, name) for day in (MONDAY, TUESDAY) for name in ("boom", "burst")}
    chains = 2**TICKS - 1 - TICKS - TICKS * (TICKS - 1) // 2  # three events or more
    assert found[MONDAY, "boom"] == LimitedPattern("max_matches 500", "count", chains, exact=True)
    assert found[MONDAY, "burst"].limit == "max_matches 500"
    assert found[MONDAY, "burst"].exact and found[MONDAY, "burst"].matches > 500
    asked = command("status", folder=explosive.folder).output
    seen = [command("matches", *more, folder=explosive.folder).output for more in ((), ("--count",), ("--json",))]
    for text in (done.output, asked, *seen):
        assert f"{MONDAY}: pattern all.boom was stopped by its limit, max_matches 500: none of its" in text
        assert f"it has {chains:,} matches" in " ".join(text.split())
    assert all(name in str(tables.runs()[0].details["limited"]) for name in ("all.boom", "all.burst"))
    assert re.search(rf"│ {short_run_id(tables.runs()[0].run_id)} *│ .* │ limited ", asked)
    drawn = command("matches", "--pattern", "boom", "--chart", "boom.png", folder=explosive.folder)
    assert f"there is no match to draw: {MONDAY}: pattern all.boom was stopped by its limit" in drawn.error


@pytest.mark.long
def test_a_rerun_of_a_limited_day_is_the_same(explosive: Project) -> None:
    (explosive.folder / "all.sase").write_text(GOOD + BURST)
    explosive.run().run_days([MONDAY, TUESDAY])
    before = rows(explosive.tables()), limited(explosive.tables())
    assert set(before[1]) == {(day, "burst") for day in (MONDAY, TUESDAY)}
    again = explosive.run(redo=True).run_days([MONDAY, TUESDAY])
    assert (rows(explosive.tables()), limited(explosive.tables())) == before
    assert all("all.burst" in day.limited for day in again.days)
    assert [day.status for day in explosive.run().run_days([MONDAY, TUESDAY]).days] == ["fresh", "fresh"]


def test_a_day_that_is_to_fail_leaves_what_is_published(explosive: Project) -> None:
    (explosive.folder / "all.sase").write_text(GOOD)
    explosive.run().run_days([MONDAY])
    before = rows(explosive.tables())
    (explosive.folder / "all.sase").write_text(GOOD + BURST)
    pipeline = explosive.folder / "pipeline.yaml"
    pipeline.write_text(pipeline.read_text().replace("{file: all.sase}", "{file: all.sase, limits: {then: fail}}"))
    done = command("run", "--day", MONDAY.isoformat(), "--master", "local[2]", folder=explosive.folder)
    assert done.code == 1
    assert "pattern 'burst' reached its limit, max_matches 500" in done.error
    assert rows(explosive.tables()) == before


def test_settings_of_a_set_are_over_those_of_all(explosive: Project) -> None:
    pipeline = explosive.folder / "pipeline.yaml"
    limits = "{file: all.sase, limits: {then: skip, time_limit: null}}"
    pipeline.write_text(pipeline.read_text().replace("{file: all.sase}", limits))
    [own] = Configuration.load(pipeline).stream("ticks").pattern_sets
    assert own.limits.model_dump() == {"max_matches": 500, "time_limit": None, "then": "skip"}


@pytest.mark.parametrize("output", ["", "OUTPUT NON_OVERLAP ", "CONSUME MATCHED "])
@pytest.mark.parametrize("slices", [1, 4])
def test_a_limited_day_is_for_its_pattern_as_if_it_had_not_been(tmp_path: Path, output: str, slices: int) -> None:
    schema = stream_schema()
    text = f"NAME good PATTERN SEQ(A a, B b) WITHIN 3 hours; NAME many PATTERN SEQ(A a, B b) WITHIN 9 hours {output}"
    patterns = tuple(cep.parse_patterns(text, schema))
    gaps = [*[0.5] * 40, 12.0, *[3.0] * 6, 12.0, *[1.0] * 5]
    made = events_by_day(schema, [{"kind": "AB"[number % 2]} for number in range(len(gaps))], gaps)
    free = LocalDays(schema, patterns, tmp_path / "free", slices=slices)
    bound = LocalDays(
        schema,
        patterns,
        tmp_path / "bound",
        slices=slices,
        limits=LimitSettings(max_matches=60),
    )
    for days in (free, bound):
        days.folder.mkdir()
        for day, events in made.items():
            days.publish_events(day, events)
            days.detect(day)
    assert bound.detected[FIRST_DAY].limited["many"].limit == "max_matches 60"
    stopped = [day for day, one in bound.detected.items() if "many" in one.limited]
    assert FIRST_DAY in stopped and len(stopped) < len(made)
    assert bound.matches()["good"] == free.matches()["good"]
    for day in made:
        own = bound.matches([day])["many"]
        assert own == ([] if day in stopped else own)
    if not output:
        assert [bound.matches([day])["many"] for day in made if day not in stopped] == [
            free.matches([day])["many"] for day in made if day not in stopped
        ]


# -- tasks and the disk ------------------------------------------------------------------------------------------------


def test_a_task_that_fails_for_good_ends_the_others(spark: SparkSession, tmp_path: Path) -> None:
    def work(task: int, attempt: int) -> None:
        if task == 0:
            raise LimitExceeded("boom", "max_matches 1", "today")
        for _ in range(600):
            time.sleep(0.1)
        (tmp_path / "ended").touch()

    with pytest.raises(LimitExceeded, match="pattern 'boom' reached its limit, max_matches 1"):
        run_tasks(spark, work, [0, 1], what="a test")
    assert not (tmp_path / "ended").exists()
    assert run_tasks(spark, lambda task, _: task, [1, 2], what="the next job") == [1, 2]


def test_a_lost_worker_is_tried_again(spark: SparkSession) -> None:
    def work(task: int, attempt: int) -> int:
        if attempt == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return attempt

    assert run_tasks(spark, work, [0], what="a test") == [1]


def test_a_task_without_memory_says_so(spark: SparkSession) -> None:
    def work(task: int, attempt: int) -> None:
        raise MemoryError

    with pytest.raises(CepError, match="a test: a task has not enough memory"):
        run_tasks(spark, work, [0], what="a test")
