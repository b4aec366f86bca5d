"""The steps as a scheduler runs them end in the tables of `cep run`."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from cep_pipeline.errors import DataError, InputError
from cep_pipeline.pipeline import tasks
from cep_pipeline.pipeline.tasks import StreamTask, days_on_their_way, needs_spark, stale_days
from tests.pipeline.project import DAYS, MONDAY, ROWS, TUESDAY, Project, published
from tests.pipeline.scheduler import Scheduler
from tests.thoroughness import long_but

NAMES = [step.name for step in tasks.STEPS]


@pytest.fixture
def scheduler(project: Project) -> Scheduler:
    return Scheduler(project)


@pytest.mark.parametrize("twice", long_but([False], [False, True]))
def test_scheduled_days_give_the_tables_of_one_run(project: Project, scheduler: Scheduler, twice: bool) -> None:
    """Each step once, and each twice, as after a retry."""
    for day in DAYS:
        scheduler.day(day, twice=twice)
    project.run(warehouse="run").run_days(DAYS)
    assert published(project.tables()) == published(project.tables("run"))
    assert project.run().run_stale().days == ()
    records = {record.day: record for record in project.tables().runs()}
    assert {record.status for record in records.values()} == {"succeeded"}
    by_run = {record.day: record for record in project.tables("run").runs()}
    for day in DAYS:
        assert (records[day].events, records[day].rejected) == (by_run[day].events, by_run[day].rejected)
        assert records[day].matches == by_run[day].matches
        assert records[day].validation == by_run[day].validation
        assert "detect all" in [step.name for step in records[day].steps]
        assert records[day].details["spark"].startswith("Spark, local[")
        assert set(records[day].details["routes"]) == {"listed by finding each match"}
        assert records[day].details["routes"] == by_run[day].details["routes"]
    assert list((project.folder / "warehouse" / "scratch").glob("*")) == []


@pytest.mark.long
def test_what_a_step_returns_tells_its_counts(project: Project, scheduler: Scheduler) -> None:
    scheduler.day(MONDAY)
    told = {step: json.loads(scheduler.returned[MONDAY, step]) for step in NAMES}
    assert told["ingest"]["counts"]["events"] == project.tables().days()[0].events
    assert told["plan"]["pattern_sets"] == ["all"] and told["plan"]["counts"]["plans"] == {"all": 1}
    (record,) = project.tables().runs()
    found = {f"all.{name}": number for name, number in told["detect"]["counts"]["matches"]["all"].items()}
    assert found == record.matches and sum(found.values()) > 0
    assert told["publish"]["done"] and not told["detect"]["done"]


def test_a_day_that_fails_validation_is_stopped_before_anything_is_published(
    project: Project, scheduler: Scheduler
) -> None:
    project.write_day(MONDAY, [*ROWS[MONDAY], "23:59:59.999,C,-1"])
    scheduler.do(MONDAY, "ingest")
    with pytest.raises(DataError, match="failed validation"):
        scheduler.do(MONDAY, "validate")
    with pytest.raises(DataError):
        scheduler.do(MONDAY, "preprocess")
    assert project.tables().days() == []
    (record,) = project.tables().runs()
    assert record.status == "failed" and record.validation is not None and not record.validation["success"]


def test_a_skipped_day_passes_through_and_publishes_nothing(project: Project, scheduler: Scheduler) -> None:
    schema = (project.folder / "ticks.yaml").read_text()
    (project.folder / "ticks.yaml").write_text(schema + "on_missing: skip\n")
    (project.folder / "raw" / f"{TUESDAY}.csv").unlink()
    assert not needs_spark("ingest", scheduler.task(TUESDAY)), "a day without a file needs no Spark"
    assert not scheduler.do(TUESDAY, "ingest", spark=False)["done"]
    assert scheduler.do(TUESDAY, "validate")["done"], "nothing is left to do"
    assert project.tables().days() == []
    (record,) = project.tables().runs()
    assert (record.status, record.events) == ("succeeded", None)
    assert list((project.folder / "warehouse" / "scratch").glob("*")) == []


@pytest.mark.long
def test_days_that_are_begun_in_order_are_never_redone(project: Project, scheduler: Scheduler) -> None:
    """All days are on their way at once: what carries on from the day before waits until that one is published."""
    first = next(step.name for step in tasks.STEPS if step.in_order)
    for step in NAMES[: NAMES.index(first)]:
        for day in DAYS:
            scheduler.do(day, step)
    for day in DAYS:
        scheduler.day(day, first)
    project.run(warehouse="run").run_days(DAYS)
    assert published(project.tables()) == published(project.tables("run"))
    assert project.run().run_stale().days == (), "no day was taken before the one before it"


@pytest.mark.long
def test_a_day_that_failed_is_not_on_its_way(project: Project, scheduler: Scheduler) -> None:
    project.write_day(MONDAY, [*ROWS[MONDAY], "23:59:59.999,C,-1"])
    scheduler.do(MONDAY, "ingest")
    assert days_on_their_way(scheduler.task(TUESDAY)) == {MONDAY: scheduler.task(MONDAY).run_id}
    assert days_on_their_way(scheduler.task(MONDAY)) == {}
    with pytest.raises(DataError):
        scheduler.do(MONDAY, "validate")
    assert days_on_their_way(scheduler.task(TUESDAY)) == {}
    project.write_day(MONDAY)
    scheduler.day(TUESDAY)
    assert [record.day for record in project.tables().days()] == [TUESDAY]
    scheduler.day(MONDAY)
    assert [day.day for day in project.run().run_stale().days] == [TUESDAY], "it is redone when its day before comes"


@pytest.mark.long
def test_events_that_are_not_published_are_in_no_match(project: Project, scheduler: Scheduler) -> None:
    for step in NAMES[:4]:
        scheduler.do(MONDAY, step)
    assert project.tables().days() == [] and project.tables().statistics("all") == []
    scheduler.day(TUESDAY)
    tables = project.tables()
    bound = {one["seq"] for row in tables.read_matches("all").to_pylist() for one in row["bindings"]}
    assert bound and bound <= set(tables.read_events()["seq"].to_pylist())
    scheduler.day(MONDAY, "plan")
    project.run().run_stale()
    project.run(warehouse="run").run_days(DAYS[:2])
    assert published(tables) == published(project.tables("run"))


@pytest.mark.long
@pytest.mark.parametrize("step", long_but(["ingest", "detect"], ["ingest", "plan", "detect", "publish"]))
def test_a_step_of_a_run_that_has_ended_can_be_repeated_with_those_after_it(
    project: Project, scheduler: Scheduler, step: str
) -> None:
    for day in DAYS[:2]:
        scheduler.day(day)
    before, (recorded,) = published(project.tables()), [run for run in project.tables().runs() if run.day == MONDAY]
    scheduler.day(MONDAY, step)
    assert published(project.tables()) == before
    assert project.tables().stale_days() == []
    (again,) = (run for run in project.tables().runs() if run.day == MONDAY)
    assert (again.events, again.rejected, again.validation) == (recorded.events, recorded.rejected, recorded.validation)


def test_preprocessing_again_needs_the_staged_events(project: Project, scheduler: Scheduler) -> None:
    """They go with the end of the run: its results are known to be published, and the day begins with its files."""
    scheduler.day(MONDAY)
    with pytest.raises(InputError, match="run the day again from the step ingest"):
        scheduler.do(MONDAY, "preprocess")


def test_a_document_that_is_gone_or_damaged_says_so(project: Project, scheduler: Scheduler) -> None:
    scheduler.do(MONDAY, "ingest")
    (document,) = Path(project.tables().warehouse.scratch).glob("*/staged-*.json")
    whole = document.read_text()
    for damaged in (whole[:-20], json.dumps({**json.loads(whole), "day": "next week"}), json.dumps([1])):
        document.write_text(damaged)
        with pytest.raises(InputError, match=r"is damaged: .*; run the day again from the step ingest"):
            scheduler.do(MONDAY, "validate")
    document.unlink()
    with pytest.raises(InputError, match=r"staged-\w+\.json is not there: .* run the day again from the step ingest"):
        scheduler.do(MONDAY, "validate")


@pytest.mark.long
def test_a_run_that_is_killed_while_it_tidies_up_has_ended(
    project: Project, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in NAMES[:-1]:
        scheduler.do(MONDAY, step)
    (scratch,) = Path(project.tables().warehouse.scratch).glob(f"ticks-{MONDAY}-*")

    def die(_: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tasks, "remove_scratch", die)
        with pytest.raises(KeyboardInterrupt):
            scheduler.do(MONDAY, "publish")
    before = published(project.tables())
    assert before["events"] and scratch.exists()
    assert scheduler.do(MONDAY, "publish")["done"]
    assert not scratch.exists() and published(project.tables()) == before


@pytest.mark.long
def test_a_run_that_is_killed_before_it_records_what_it_published_publishes_it_again(
    project: Project, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The small files that one file of matches was put together of are there until the record says that all is done."""
    for step in NAMES[:-1]:
        scheduler.do(MONDAY, step)
    (detected,) = tasks.read_document(json.loads(scheduler.returned[MONDAY, "detect"])["documents"]["detected"])
    small = [Path(path) for path, *_ in detected["files"]]
    assert len(small) > 1

    def die(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tasks, "record_success", die)
        with pytest.raises(KeyboardInterrupt):
            scheduler.do(MONDAY, "publish")
    before = published(project.tables())
    assert before["matches"] and all(path.exists() for path in small)
    assert scheduler.do(MONDAY, "publish")["done"]
    assert published(project.tables()) == before
    assert [run.status for run in project.tables().runs()] == ["succeeded"]


def test_a_schema_that_changes_between_steps_is_noticed(project: Project, scheduler: Scheduler) -> None:
    scheduler.do(MONDAY, "ingest")
    schema = (project.folder / "ticks.yaml").read_text()
    (project.folder / "ticks.yaml").write_text(
        schema.replace("derived: {", "derived: {last: {history: {of: x, length: 2}}, ")
    )
    with pytest.raises(InputError, match="ingest it again"):
        scheduler.do(MONDAY, "preprocess")


@pytest.mark.long
def test_stale_days_are_named_until_they_are_redone(project: Project, scheduler: Scheduler) -> None:
    for day in DAYS[:2]:
        scheduler.day(day)
    asked = StreamTask(project.folder / "pipeline.yaml", "ticks", "stale__1")
    assert stale_days(asked) == []
    project.write_day(MONDAY, ROWS[MONDAY][1:])
    (found,) = stale_days(asked)
    assert (found["day"], found["detection_only"]) == (str(MONDAY), False)
    assert stale_days(asked, [[found["day"], reason] for reason in found["reasons"]]) == [], "it has been tried"
    scheduler.day(MONDAY)
    patterns = project.folder / "all.sase"
    patterns.write_text(patterns.read_text().replace("WITHIN", " WITHIN", 1).replace(">", ">=", 1))
    redone = stale_days(asked)
    assert {one["day"]: one["detection_only"] for one in redone} == {str(MONDAY): True, str(TUESDAY): True}
    for one in redone:
        scheduler.returned.clear()
        scheduler.day(date.fromisoformat(one["day"]), detection_only=one["detection_only"])
    project.run(warehouse="run").run_days(DAYS[:2])
    assert stale_days(asked) == []
    assert published(project.tables()) == published(project.tables("run"))
