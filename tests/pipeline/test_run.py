"""Runs over days: whatever the order, the repetition and the interruption, the same tables."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import cep_pipeline as cep
from cep_pipeline.errors import BusyError, DataError, InputError, UnsupportedPattern
from cep_pipeline.spark import detection
from spark_jobs import detect as job
from tests.pipeline.project import (
    DAYS,
    MONDAY,
    PATTERNS,
    PIPELINE,
    ROWS,
    SCHEMA,
    TUESDAY,
    WEDNESDAY,
    Project,
    published,
)
from tests.thoroughness import long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cep_pipeline.warehouse.stream_tables import StreamTables


def ids(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return sorted((row["pattern"], row["match_id"]) for row in rows)


@pytest.mark.long
def test_the_union_of_the_days_is_one_detection_over_all_of_them(project: Project) -> None:
    outcome = project.run().run_days(DAYS)
    tables = project.tables()
    patterns = project.configuration.stream("ticks").pattern_set("all").patterns
    whole = cep.detect(patterns, tables.read_events())
    expected = [(name, match_id) for name, table in whole.items() for match_id in table["match_id"].to_pylist()]
    assert len(expected) > 20
    assert ids(published(tables)["matches"]) == sorted(expected)
    assert any(
        len({binding["seq"] >> 40 for binding in row["bindings"]}) > 1 for row in published(tables)["matches"]
    ), "no match reaches over midnight: the test tests nothing"
    counts = {name: sum(day.matches["all"][name] for day in outcome.days) for name in whole}
    assert counts == {name: table.num_rows for name, table in whole.items()}


@pytest.mark.long
def test_three_daily_runs_are_one_run_over_three_days(project: Project) -> None:
    project.run(warehouse="together").run_days(DAYS)
    for day in DAYS:
        project.run(warehouse="apart").run_days([day])
    assert published(project.tables("apart")) == published(project.tables("together"))


@pytest.mark.parametrize("order", long_but([], list(permutations(range(3)))[1:]))
def test_days_in_any_order_end_equal_once_stale_days_are_redone(project: Project, order: tuple[int, ...]) -> None:
    project.run(warehouse="in_order").run_days(DAYS)
    for number in order:
        project.run().run_days([DAYS[number]])
    stale = project.run().run_stale()
    assert stale.days
    assert published(project.tables()) == published(project.tables("in_order"))
    assert project.run().run_stale().days == ()


def statistics_of(tables: StreamTables) -> list[tuple[object, ...]]:
    return [(row.day, row.snapshot, row.state) for row in tables.statistics("all")]


@pytest.mark.long
def test_days_before_one_whose_detection_fails_are_done_all_the_same(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    detect_range = job.detect_range

    def fails(spark: Any, asked: detection.DetectionJob, *others: Any) -> Any:
        if asked.final_day == WEDNESDAY:
            raise DataError(f"{WEDNESDAY} cannot be detected")
        return detect_range(spark, asked, *others)

    monkeypatch.setattr(job, "detect_range", fails)
    with pytest.raises(DataError, match="2024-03-06 cannot be detected"):
        project.run(run_id="failing").run_days(DAYS)
    assert {record.day: record.status for record in project.tables().runs() if record.run_id == "failing"} == {
        MONDAY: "succeeded",
        TUESDAY: "succeeded",
        WEDNESDAY: "failed",
    }
    assert {unit.final_day for unit in project.tables().matches_days()} == {MONDAY, TUESDAY}
    assert [day.day for day in project.tables().days()] == [MONDAY, TUESDAY], "nothing of a day is published before all"


@pytest.mark.long
def test_days_of_one_run_are_those_of_several(project: Project) -> None:
    outcome = project.run(warehouse="together").run_days(DAYS)
    for day in DAYS:
        project.run(warehouse="apart").run_days([day])
    apart, together = project.tables("apart"), project.tables("together")
    assert published(apart) == published(together)
    assert statistics_of(apart) == statistics_of(together)
    assert [one.fingerprint for one in apart.matches_days()] == [one.fingerprint for one in together.matches_days()]
    for day in outcome.days:
        (detected,) = [step for step in day.steps if step.name == "detect all"]
        assert detected.counts["matches"] == sum(day.matches["all"].values()) and detected.seconds > 0


@pytest.mark.long
def test_a_second_run_has_nothing_to_do_and_a_redone_day_is_the_same(project: Project) -> None:
    project.run().run_days(DAYS)
    before = published(project.tables())
    assert [day.status for day in project.run().run_days(DAYS).days] == ["fresh"] * 3
    assert [day.status for day in project.run(redo=True).run_days([TUESDAY]).days] == ["done"]
    assert published(project.tables()) == before
    assert project.run().run_stale().days == ()


@pytest.mark.long
def test_a_changed_raw_file_redoes_its_day_and_only_what_follows_from_it(project: Project) -> None:
    project.run().run_days(DAYS)
    # The last value of each kind stays, so that Tuesday's carry-out and with it Wednesday's events stay too.
    project.write_day(TUESDAY, [ROWS[TUESDAY][0], *ROWS[TUESDAY][2:]])
    outcome = project.run().run_days(DAYS)
    assert (outcome.days[0].day, outcome.days[0].status) == (MONDAY, "fresh")
    redone = {day.day: [step.name for step in day.steps] for day in outcome.days if day.status == "done"}
    assert "ingest" in redone[TUESDAY]
    assert WEDNESDAY not in redone or "ingest" not in redone[WEDNESDAY]
    project.run(warehouse="anew").run_days(DAYS)
    assert published(project.tables()) == published(project.tables("anew"))


@pytest.mark.long
def test_a_changed_pattern_set_is_detected_again_over_the_events_that_are_there(project: Project) -> None:
    project.run().run_days(DAYS)
    events = project.tables().read_events()
    (project.folder / "all.sase").write_text(PATTERNS.replace("a.diff > 1", "a.diff > 2"))
    outcome = project.run().run_days(DAYS)
    assert all("ingest" not in [step.name for step in day.steps] for day in outcome.days)
    assert project.tables().read_events() == events
    plan = project.tables().current_plan("all")
    assert plan is not None and plan.version == 2 and "the pattern set has changed" in plan.reason
    project.run(warehouse="anew").run_days(DAYS)
    assert ids(published(project.tables())["matches"]) == ids(published(project.tables("anew"))["matches"])


@pytest.mark.long
def test_later_days_use_the_plan_that_there_is(project: Project) -> None:
    project.run().run_days(DAYS)
    assert [record.version for record in project.tables().plans("all")] == [1]
    assert {run.plans["all"] for run in project.tables().runs()} == {1}


def test_a_day_that_fails_leaves_the_tables_and_the_days_before_it_are_done(project: Project) -> None:
    project.run().run_days(DAYS)
    before = published(project.tables())
    project.write_day(MONDAY, [*ROWS[MONDAY], "23:59:59.999,C,0"])
    project.write_day(TUESDAY, [*ROWS[TUESDAY], "23:59:30,A,-5"])
    with pytest.raises(DataError, match="2024-03-05"):
        project.run(run_id="failing").run_days(DAYS)
    after = published(project.tables())
    assert len(after["events"]) == len(before["events"]) + 1
    assert [e for e in after["events"] if e["seq"] >= TUESDAY.toordinal() << 40] == [
        e for e in before["events"] if e["seq"] >= TUESDAY.toordinal() << 40
    ]
    records = {record.day: record for record in project.tables().runs() if record.run_id == "failing"}
    assert records[MONDAY].status == "succeeded"
    assert records[TUESDAY].status == "failed"
    assert "failed validation" in records[TUESDAY].error and "-5" in records[TUESDAY].error
    assert records[TUESDAY].validation is not None and records[TUESDAY].validation["success"] is False
    assert WEDNESDAY not in records, "the day after it has nothing to do as long as Tuesday is as it was"
    project.write_day(TUESDAY)
    project.run().run_days(DAYS)
    project.run(warehouse="anew").run_days(DAYS)
    assert published(project.tables()) == published(project.tables("anew"))


def test_an_expectation_of_the_schema_refuses_a_day_and_its_data_docs_are_kept(project: Project) -> None:
    (project.folder / "ticks.yaml").write_text(SCHEMA.replace("at_least: 0,", "at_least: 0, at_most: 599,"))
    (project.folder / "pipeline.yaml").write_text(PIPELINE + "checks: {folder: checks}\n")
    project.write_day(TUESDAY, [*ROWS[TUESDAY], "23:59:30,A,600"])
    with pytest.raises(DataError, match=r"x must be at least 0 and at most 599: 1 of \d+ values are not, such as 600"):
        project.run(run_id="own").run_days([MONDAY, TUESDAY])
    records = {record.day: record for record in project.tables().runs()}
    assert [records[day].status for day in (MONDAY, TUESDAY)] == ["succeeded", "failed"]
    validation = records[TUESDAY].validation
    assert validation is not None and validation["profile"]["x_outside"] == 1
    assert [one["expectation"] for one in validation["results"] if not one["success"]] == [
        "expect_column_max_to_be_between"
    ]
    folders = sorted((project.folder / "checks" / "ticks" / "own").iterdir())
    assert [folder.name for folder in folders] == [str(MONDAY), str(TUESDAY)]
    for folder, said in zip(folders, ("Succeeded", "Failed"), strict=True):
        (page,) = (folder / "validations").rglob("*.html")
        assert said in page.read_text()


def test_an_interrupted_run_is_recorded_as_such(project: Project) -> None:
    run = project.run(run_id="stopped")

    def interrupted() -> SparkSession:
        raise KeyboardInterrupt

    run.session = interrupted
    with pytest.raises(KeyboardInterrupt):
        run.run_days([MONDAY])
    [record] = project.tables().runs()
    assert (record.status, record.error) == ("interrupted", "interrupted")
    assert project.tables().days() == []


def test_rejected_rows_are_published_with_their_reason(project: Project) -> None:
    project.write_day(MONDAY, [*ROWS[MONDAY], "12:00:00,A,many", "24:00:00,A,1"])
    outcome = project.run().run_days([MONDAY])
    assert outcome.days[0].rejected == 2
    rows = published(project.tables())["quarantine"]
    assert [(row["file"], row["line"]) for row in rows] == [("2024-03-04.csv", 8), ("2024-03-04.csv", 9)]
    assert "'many' is no int64" in str(rows[0]["reason"])


@pytest.mark.long
def test_an_empty_day_is_published_and_looked_back_over(project: Project) -> None:
    project.write_day(TUESDAY, [])
    project.run().run_days(DAYS)
    tables = project.tables()
    assert [(record.day, record.events) for record in tables.days()] == [(MONDAY, 6), (TUESDAY, 0), (WEDNESDAY, 4)]
    patterns = project.configuration.stream("ticks").pattern_set("all").patterns
    whole = cep.detect(patterns, tables.read_events())
    assert len(published(tables)["matches"]) == sum(table.num_rows for table in whole.values())


@pytest.mark.long
def test_a_second_run_of_the_same_day_at_the_same_time_is_busy(project: Project) -> None:
    with project.tables().day_lease(TUESDAY, run_id="other"), pytest.raises(BusyError, match="other"):
        project.run().run_days(DAYS)
    assert project.tables().days() == []
    assert [day.status for day in project.run().run_days(DAYS).days] == ["done"] * 3


def test_detection_alone_needs_published_events(project: Project) -> None:
    with pytest.raises(InputError, match="no events are published"):
        project.run(steps=frozenset({"detect"})).run_days([MONDAY])
    project.run(steps=frozenset({"ingest"})).run_days([MONDAY])
    assert project.tables().matches_days() == []
    project.run(steps=frozenset({"detect"})).run_days([MONDAY])
    assert [unit.final_day for unit in project.tables().matches_days()] == [MONDAY]


def test_what_cannot_be_run_is_refused_before_anything_is_read(project: Project) -> None:
    with pytest.raises(InputError, match="there is no step guess"):
        project.run(steps=frozenset({"guess"})).run_days([MONDAY])
    (project.folder / "all.sase").write_text(
        "NAME n PATTERN SEQ(A+ a[], B b) WHERE strict_contiguity { a[1].diff < b.diff } WITHIN 1 hour"
    )
    (project.folder / "pipeline.yaml").write_text(
        PIPELINE.replace("file: all.sase", "file: all.sase, mechanism: fused")
    )
    with pytest.raises(UnsupportedPattern, match="mechanism 'fused' does not run"):
        project.run().run_days([MONDAY])
    assert project.tables().days() == []


def test_a_missing_day_stops_the_run_and_says_what_to_do(project: Project) -> None:
    (project.folder / "raw" / f"{TUESDAY}.csv").unlink()
    with pytest.raises(InputError, match="on_missing"):
        project.run().run_days(DAYS)


@pytest.mark.long
def test_matches_of_a_day_read_in_the_order_of_their_last_events(project: Project) -> None:
    project.run().run_days(DAYS)
    patterns = project.configuration.stream("ticks").pattern_set("all").patterns
    whole = cep.detect(patterns, project.tables().read_events())
    for name, table in whole.items():
        read = project.tables().read_matches("all", pattern=name)
        assert read["match_id"].to_pylist() == table["match_id"].to_pylist()
        assert read["end_ts"].cast(pa.int64()).to_pylist() == table["end_ts"].cast(pa.int64()).to_pylist()


@pytest.mark.long
def test_what_redoing_does_not_mend_stays_stale_and_the_run_ends(project: Project) -> None:
    schema = (project.folder / "ticks.yaml").read_text()
    (project.folder / "ticks.yaml").write_text(schema + "on_missing: skip\n")
    project.run().run_days(DAYS)
    (project.folder / "raw" / f"{TUESDAY}.csv").unlink()
    outcome = project.run().run_stale()
    assert [(day.day, day.status) for day in outcome.days] == [(TUESDAY, "skipped")]
    assert [record.day for record in project.tables().days()] == list(DAYS)


@pytest.mark.long
def test_stale_matches_are_left_alone_by_a_run_that_only_ingests(project: Project) -> None:
    project.run().run_days(DAYS)
    (project.folder / "all.sase").write_text(PATTERNS.replace("a.diff > 1", "a.diff > 2"))
    assert project.run(steps=frozenset({"ingest"})).run_stale().days == ()
    assert len(project.run(steps=frozenset({"detect"})).run_stale().days) == 3


@pytest.mark.long
def test_runs_of_the_other_strategies_reach_over_slices_and_days(project: Project) -> None:
    (project.folder / "all.sase").write_text(
        "NAME next PATTERN SEQ(A a, B b, Tick c) WHERE skip_till_next_match { a.x <= b.x } WITHIN 1 hour;"
        "NAME strict PATTERN SEQ(Tick a, Tick b) WHERE strict_contiguity { a.x < b.x } WITHIN 1 hour;"
        "NAME any PATTERN SEQ(A a, B b) WITHIN 1 hour"
    )
    project.run().run_days(DAYS)
    patterns = project.configuration.stream("ticks").pattern_set("all").patterns
    whole = cep.detect(patterns, project.tables().read_events())
    expected = [(name, match_id) for name, table in whole.items() for match_id in table["match_id"].to_pylist()]
    assert all(table.num_rows for table in whole.values())
    assert ids(published(project.tables())["matches"]) == sorted(expected)


@pytest.mark.long
def test_a_pattern_set_runs_by_the_mechanism_that_it_names(project: Project) -> None:
    any_order = "NAME back PATTERN SEQ(Tick a, Tick b, C c) WHERE a.x < c.x WITHIN 1 day"
    (project.folder / "all.sase").write_text(any_order)
    project.run().run_days([MONDAY, TUESDAY])
    before = published(project.tables())["matches"]
    (pattern,) = project.tables().plans("all")[0].plan["patterns"]
    assert before and pattern["clauses"][0]["steps"][0]["variable"] == "c", (
        "planned in another order than the pattern's"
    )
    named = PIPELINE.replace("file: all.sase", "file: all.sase, mechanism: eager_nfa")
    (project.folder / "pipeline.yaml").write_text(named)
    project.run(redo=True).run_days([TUESDAY])
    assert ids(published(project.tables())["matches"]) == ids(before)
    plan = project.tables().current_plan("all")
    assert plan is not None and plan.version == 2 and "the mechanism of the pattern set has changed" in plan.reason
    assert "eager_nfa, as asked for" in plan.explain
    (project.folder / "all.sase").write_text(any_order + " TIES ANY")
    with pytest.raises(UnsupportedPattern, match="mechanism 'eager_nfa' does not run TIES ANY"):
        project.run().run_days([TUESDAY])


@pytest.mark.long
def test_only_the_pattern_set_that_has_changed_is_done_again(project: Project) -> None:
    settings = (project.folder / "pipeline.yaml").read_text()
    both = settings.replace(
        "      all: {file: all.sase}\n", "      all: {file: all.sase}\n      few: {file: few.sase}\n"
    )
    (project.folder / "pipeline.yaml").write_text(both)
    (project.folder / "few.sase").write_text("NAME falls PATTERN SEQ(Tick a, Tick b) WHERE a.x > b.x WITHIN 1 hour")
    project.run().run_days(DAYS)
    before = {unit.final_day: unit for unit in project.tables().matches_days("all")}
    (project.folder / "few.sase").write_text("NAME falls PATTERN SEQ(Tick a, Tick b) WHERE a.x > b.x WITHIN 40 minutes")
    outcome = project.run().run_stale()
    assert [day.day for day in outcome.days] == list(DAYS)
    assert all(set(day.matches) == {"few"} for day in outcome.days)
    detected = {step.name for day in outcome.days for step in day.steps if step.name.startswith("detect")}
    assert detected == {"detect few"}
    assert {unit.final_day: unit for unit in project.tables().matches_days("all")} == before
    assert project.run().run_stale().days == ()
    anew = project.run(warehouse="anew")
    anew.run_days(DAYS)
    assert ids(published(project.tables())["matches"]) == ids(published(project.tables("anew"))["matches"])
    # A day that is stale for one set, before one that is stale for the other: the first set is done on both.
    (project.folder / "all.sase").write_text(PATTERNS.replace("a.diff > 1", "a.diff > 2"))
    assert {name for day in project.run().run_days(DAYS).days for name in day.matches} == {"all"}
    assert project.run().run_stale().days == ()
