"""Attributes that get a new name in the stream schema: no file of the days before is rewritten, and all read it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow.parquet as pq
import pytest

from cep_pipeline.errors import InputError
from cep_pipeline.spark.slicing import read_row_groups, types_in
from tests.pipeline.project import DAYS, MONDAY, PATTERNS, SCHEMA, TUESDAY, WEDNESDAY, Project, published
from tests.pipeline.scheduler import Scheduler

if TYPE_CHECKING:
    from cep_pipeline.warehouse.stream_tables import StreamTables

NEW_SCHEMA = (
    SCHEMA.replace("type_attribute: kind", "type_attribute: sort")
    .replace("kind: string", "sort: {type: string, was: kind, column: kind}")
    .replace("x: int64", "px: {type: int64, was: x, column: x}")
    .replace("of: x", "of: px")
    .replace("column: x, at_least", "column: px, at_least")
)
COUNTED = ";\nNAME counted PATTERN SEQ(Tick a, Tick b) WHERE a.x < b.x WITHIN 3 EVENTS PARTITION BY kind"


def write_files(project: Project, schema: str, patterns: str) -> None:
    (project.folder / "ticks.yaml").write_text(schema)
    (project.folder / "all.sase").write_text(patterns)


def rename(project: Project) -> None:
    patterns = re.sub(r"\b([abc])\.x\b", r"\1.px", PATTERNS + COUNTED)
    write_files(project, NEW_SCHEMA, patterns.replace("PARTITION BY kind", "PARTITION BY sort"))


def names_in_files(tables: StreamTables) -> dict[date, set[str]]:
    return {file.day: set(pq.read_schema(file.path).names) for file in tables.events_files()}


def contents(tables: StreamTables) -> Mapping[str, bytes]:
    return {file.path: Path(file.path).read_bytes() for file in tables.events_files()}


@pytest.fixture
def renamed(project: Project) -> Project:
    """Two days under the old names, and from then on the new ones."""
    write_files(project, SCHEMA, PATTERNS + COUNTED)
    project.run().run_days([MONDAY, TUESDAY])
    rename(project)
    return project


@pytest.mark.long
def test_days_before_and_after_are_as_if_the_name_had_always_been_the_new_one(renamed: Project) -> None:
    tables = renamed.tables()
    before = contents(tables)
    assert {
        (entry.what, entry.day)
        for entry in tables.stale_days(schema=renamed.configuration.stream("ticks").schema.digest)
    } == set()
    outcome = renamed.run().run_days([WEDNESDAY])
    assert [day.day for day in outcome.days] == [WEDNESDAY]
    # The patterns were edited: their matches are made anew over events that stay as they are.
    renamed.run().run_stale()
    tables = renamed.tables()
    assert before.items() <= contents(tables).items()
    names = names_in_files(tables)
    assert {"kind", "x"} <= names[TUESDAY]
    assert {"sort", "px"} <= names[WEDNESDAY]
    renamed.run(warehouse="afresh").run_days(DAYS)
    afresh, now = published(renamed.tables("afresh")), published(tables)
    for one in (afresh, now):  # of a pattern that was kept the matches stay in files of their own
        one["matches"].sort(key=lambda row: (row["final_day"], row["pattern"]))
    assert now == afresh
    assert {row["pattern"] for row in afresh["matches"]} == {"rising", "pairs", "jumps", "counted"}
    assert tables.stale_days() == []


@pytest.mark.long
def test_other_engines_read_all_days_by_the_new_name(renamed: Project) -> None:
    renamed.run().run_days([WEDNESDAY])
    table = renamed.tables().warehouse.catalog.load_table(("ticks", "events"))
    scanned = table.scan(row_filter="px > 4", selected_fields=("seq", "sort", "px")).to_arrow().sort_by("seq")
    events = renamed.tables().read_events()
    expected = [
        {name: row[name] for name in ("seq", "sort", "px")} for row in events.to_pylist() if (row["px"] or 0) > 4
    ]
    assert len({row["seq"] >> 40 for row in expected}) == len(DAYS)
    assert scanned.to_pylist() == expected
    found = table.scan().to_duckdb("events", duckdb.connect()).sql("select seq, sort, px from events order by seq")
    assert found.fetchall() == [(row["seq"], row["sort"], row["px"]) for row in events.to_pylist()]


@pytest.mark.long
def test_days_of_both_names_are_merged_and_verified(renamed: Project) -> None:
    renamed.run().run_days([WEDNESDAY])
    before = published(renamed.tables())
    renamed.run(redo=True).run_days([TUESDAY])  # a day of the old name, written anew
    assert published(renamed.tables())["events"] == before["events"]
    tables = renamed.tables()
    assert "px" in names_in_files(tables)[TUESDAY]
    assert tables.warehouse.verify(deep=True).damages == ()


@pytest.mark.long
def test_the_types_of_a_file_are_read_by_the_new_names(renamed: Project) -> None:
    tables = renamed.tables()
    (file,) = tables.events_files(TUESDAY, TUESDAY)
    types = set(tables.read_events(TUESDAY, TUESDAY)["sort"].to_pylist())
    assert types_in("sort", read_row_groups([file.path], tables.events_schema)) == types
    assert types_in("sort", read_row_groups([file.path])) == {None}


def test_a_day_that_was_staged_under_the_old_name_is_ingested_again(project: Project) -> None:
    scheduler = Scheduler(project)
    scheduler.do(MONDAY, "ingest")
    before = project.configuration.stream("ticks").schema
    rename(project)
    assert project.configuration.stream("ticks").schema.digest == before.digest
    with pytest.raises(InputError, match="ingest it again"):
        scheduler.do(MONDAY, "preprocess")


@pytest.mark.long
@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ("px: {type: int64, was: y}", "was 'y', and the published events have no such column; there are: .*'?x"),
        ("px: {type: float64, was: x}", "'px', which was 'x', is int64 in the published events, and float64"),
        ("x: float64", "'x' is int64 in the published events, and float64 in the stream schema; an attribute keeps"),
        ("px: {type: int64, was: [x, other]}", "columns 'other' and 'x': they cannot become one"),
        ("other: {type: int64, was: x}", "columns 'other' and 'x': they cannot become one"),
    ],
)
def test_names_and_types_that_do_not_fit_what_is_published(project: Project, attributes: str, said: str) -> None:
    first = SCHEMA.replace("x: int64", "x: int64, other: {type: int64, column: x}")
    write_files(project, first, PATTERNS)
    project.run(steps=frozenset({"ingest"})).run_days([MONDAY])
    name = attributes.split(":", maxsplit=1)[0]
    schema = (
        SCHEMA.replace("x: int64", attributes).replace("of: x", f"of: {name}").replace("column: x,", f"column: {name},")
    )
    write_files(project, schema, PATTERNS.replace(".x", f".{name}"))
    with pytest.raises(InputError, match=said):
        project.tables()


@pytest.mark.long
def test_an_old_name_is_given_to_no_other_attribute(renamed: Project) -> None:
    earlier = renamed.tables()
    with pytest.raises(
        InputError, match=r"attribute 'kind' has been renamed to 'sort'.*\(`sort: {type: …, was: kind}`"
    ):
        write_files(renamed, SCHEMA, PATTERNS)
        renamed.tables()
    rename(renamed)
    write_files(renamed, NEW_SCHEMA.replace("px: {type", "x: string, px: {type"), PATTERNS)
    with pytest.raises(InputError, match=r"ticks\.yaml:\d+: .*'px' was 'x', and 'x' is a name of 'x' too"):
        renamed.tables()
    # Another process gives the attribute a third name; a reader that was opened before does not read nulls.
    third = NEW_SCHEMA.replace("px: {type: int64, was: x", "p: {type: int64, was: [x, px]").replace("of: px", "of: p")
    write_files(renamed, third.replace("column: px", "column: p"), PATTERNS.replace(".x", ".p"))
    again = renamed.tables()
    assert again.read_events(MONDAY, MONDAY + timedelta(days=1)).column("p").null_count == 0
    with pytest.raises(InputError, match="attribute 'px' has been renamed to 'p'"):
        earlier.read_events()
