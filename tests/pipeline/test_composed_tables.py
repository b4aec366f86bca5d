"""Patterns that compose others in published tables: runs, late rows, readers, tables of older versions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import cep_pipeline as cep
from cep_pipeline.warehouse import layout
from cep_pipeline.warehouse.match_pages import draw_published, events_of, explain_match, find_match, opened_match
from tests.cli.command_line import cep as command
from tests.pipeline.project import DAYS, MONDAY, TUESDAY, WEDNESDAY, Project, make_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATTERNS = """\
NAME rising PATTERN SEQ(A a, B b) WHERE a.x <= b.x WITHIN 1 hour RETURN a.x AS x;
NAME quiet  PATTERN SEQ(B b, ~C n) WITHIN 40 minutes OUTPUT NON_OVERLAP;
NAME both   PATTERN SEQ(rising r, quiet q) WITHIN 2 hours RETURN r.x AS x;
NAME third  PATTERN SEQ(rising r, both b, Tick t) WHERE r.x <= b.x WITHIN 80 minutes
"""
ROWS = {
    MONDAY: ["23:00:00,A,1", "23:10:00,A,2", "23:20:00,B,2", "23:40:00,A,1", "23:50:00,B,3", "23:55:00,Tick,0"],
    TUESDAY: ["00:10:00,B,4", "00:20:00,A,0", "00:45:00,B,1", "12:00:00,C,1", "23:30:00,A,0", "23:45:00,B,9"],
    WEDNESDAY: ["00:15:00,B,2", "00:40:00,B,3", "03:00:00,C,3"],
}
NEW_YORK = ZoneInfo("America/New_York")


@pytest.fixture(scope="module")
def published(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Three days that have been run one by one."""
    project = composing_project(tmp_path_factory.mktemp("published"), spark)
    for day in DAYS:
        project.run().run_days([day])
    return project


def composing_project(folder: Path, spark: SparkSession) -> Project:
    project = make_project(folder, spark)
    (folder / "all.sase").write_text(PATTERNS)
    for day in DAYS:
        project.write_day(day, ROWS[day])
    return project


def ids(project: Project, warehouse: str = "warehouse") -> dict[str, set[str]]:
    rows = project.tables(warehouse).read_matches("all")
    found: dict[str, set[str]] = {}
    for name, match_id in zip(rows["pattern"].to_pylist(), rows["match_id"].to_pylist(), strict=True):
        found.setdefault(name, set()).add(str(match_id))
    return found


def over_all_days(project: Project, warehouse: str = "warehouse") -> dict[str, set[str]]:
    patterns = project.configuration.stream("ticks").pattern_set("all").statements
    found = cep.detect(patterns, project.tables(warehouse).read_events())
    return {name: set(map(str, found[name]["match_id"].to_pylist())) for name in found if len(found[name])}


@pytest.mark.long
def test_days_publish_what_one_run_finds_and_are_sound(published: Project) -> None:
    expected = over_all_days(published)
    assert ids(published) == expected
    assert set(expected) == {"rising", "quiet", "both", "third"}
    tables = published.tables()
    rows = tables.read_matches("all")
    assert rows["composed"].type == layout.COMPOSED
    composing = set(rows.filter(rows["composed"].is_valid())["pattern"].to_pylist())
    assert composing == {"both", "third"}
    ends = [row["end_ts"].astimezone(NEW_YORK).date() for row in rows.to_pylist() if row["pattern"] == "both"]
    final = [row["final_day"] for row in rows.to_pylist() if row["pattern"] == "both"]
    assert any(end < day for end, day in zip(ends, final, strict=True)), "no match waits over midnight"
    assert published.run()._stale(list(DAYS)) == {}
    assert tables.warehouse.verify(deep=True).damages == ()


@pytest.mark.long
def test_a_late_row_is_corrected_over_the_days_that_it_touches(spark: SparkSession, tmp_path: Path) -> None:
    project = composing_project(tmp_path, spark)
    late = ROWS[MONDAY].pop(3)
    project.write_day(MONDAY, ROWS[MONDAY])
    ROWS[MONDAY].insert(3, late)
    for day in DAYS:
        project.run().run_days([day])
    before = ids(project)
    project.write_day(MONDAY, ROWS[MONDAY])
    project.run(redo=True).run_days([MONDAY])
    project.run().run_stale()
    assert project.run().run_stale().days == ()
    assert ids(project) == over_all_days(project) != before


@pytest.mark.long
def test_readers_show_the_events_inside(published: Project) -> None:
    tables = published.tables()
    rows = tables.read_matches("all", pattern="third")
    events = tables.read_match_events(rows.slice(0, 1))
    row = rows.slice(0, 1).to_pylist()[0]
    inside = {str(one["match_id"]): one["bindings"] for one in tables.read_matches("all").to_pylist()}
    named = events["variable"].to_pylist()
    assert named == ["r.a", "r.b", "b.r.a", "b.r.b", "b.q.b", "t"]
    assert events["seq"].to_pylist()[:2] == [one["seq"] for one in inside[str(row["composed"][0]["match_id"])]]
    assert events["x"].null_count == 0
    found = find_match(tables, "all", row["final_day"], str(row["match_id"]))
    assert found is not None
    opened = opened_match(tables, found)
    assert [one["variable"] for one in opened["bindings"]] == named
    assert opened["start_ts"] <= found["start_ts"]
    assert set(events_of(tables, found)["seq"].to_pylist()) == set(events["seq"].to_pylist())
    pattern = published.configuration.stream("ticks").pattern_named("all", "third")
    assert pattern is not None
    assert "r.a" in draw_published(tables, found, pattern=pattern).svg
    explained = explain_match(tables, found, pattern)
    assert explained.is_match and explained.match_id == str(found["match_id"])
    assert [variable for variable, *_ in explained.inside_rows()] == ["r", "b", "b.r", "b.q"]
    assert all(one.is_match for one in explained.inside)


def test_the_command_shows_the_events_inside(published: Project, tmp_path: Path) -> None:
    folder = published.folder
    shown = command("matches", "--events", "--pattern", "both", folder=folder)
    assert shown.code == 0, shown.errors
    assert "r.a" in shown.output and "q.b" in shown.output
    told = command("matches", "--json", "--pattern", "both", "--limit", "1", folder=folder)
    [match] = json.loads(told.output)["matches"]
    assert [one["variable"] for one in match["composed"]] == ["r", "q"]
    assert {one["match_id"] for one in match["composed"]} <= {one for own in ids(published).values() for one in own}
    for name in ("status", "explain", "check"):
        assert command(name, folder=folder).code == 0, name
    for pattern, composes in (("both", True), ("rising", False)):
        out = tmp_path / f"{pattern}.csv"
        assert command("matches", "--out", out, "--pattern", pattern, folder=folder).code == 0
        assert ("composed" in out.read_text().splitlines()[0]) == composes


@pytest.mark.long
def test_a_table_of_an_older_version_gets_the_column(spark: SparkSession, tmp_path: Path) -> None:
    project = composing_project(tmp_path, spark)

    def older(events_schema: pa.Schema) -> dict[str, layout.TableLayout]:
        layouts = layout.table_layouts(events_schema)
        columns = layout.without_composed(layout.MATCHES_SCHEMA)
        return {**layouts, "matches": replace(layouts["matches"], schema=columns)}

    with mock.patch("cep_pipeline.warehouse.warehouse.table_layouts", older):
        tables = project.tables()
    assert "composed" not in tables._published("matches").columns.names
    assert project.tables().read_matches("all")["composed"].type == layout.COMPOSED
    for day in (MONDAY, TUESDAY):
        project.run().run_days([day])
    assert project.tables()._published("matches").columns.field("composed").type == layout.COMPOSED
    assert ids(project)["both"] < over_all_days(project)["both"]  # some wait for the next day
    assert project.tables().read_matches("all", pattern="both")["composed"].null_count == 0
