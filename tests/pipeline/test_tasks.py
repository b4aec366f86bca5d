"""The steps as a scheduler runs them end in the tables of `cep run`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import pytest

from cep_pipeline.errors import DataError, InputError
from cep_pipeline.pipeline import tasks
from cep_pipeline.pipeline.day import STEPS
from cep_pipeline.pipeline.tasks import DayTask, run_task
from tests.pipeline.project import DAYS, MONDAY, ROWS, TUESDAY, Project, published
from tests.thoroughness import long_but


def day_task(project: Project, day: date, *, end_of_stream: bool = False) -> DayTask:
    run_id = f"scheduled__{day}T00:00:00+00:00"
    return DayTask(project.folder / "pipeline.yaml", "ticks", day, run_id, end_of_stream=end_of_stream)


def run_day(project: Project, day: date, *, twice: bool = False, end_of_stream: bool = False) -> None:
    """All steps of a day, each once or, as after a retry, twice."""
    task = day_task(project, day, end_of_stream=end_of_stream)
    for step in STEPS:
        done = [run_task(step.name, task, lambda: project.spark) for _ in range(1 + (twice and step is not STEPS[-1]))]
        if done[-1]:
            return


@pytest.mark.parametrize("twice", [False, True])
def test_scheduled_days_give_the_tables_of_one_run(project: Project, twice: bool) -> None:
    for day in DAYS:
        run_day(project, day, twice=twice)
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
    assert list((project.folder / "warehouse" / "scratch").glob("*")) == []


def test_a_day_that_fails_validation_is_stopped_before_anything_is_published(project: Project) -> None:
    project.write_day(MONDAY, [*ROWS[MONDAY], "23:59:59.999,C,-1"])
    task = day_task(project, MONDAY)
    run_task("ingest", task, lambda: project.spark)
    with pytest.raises(DataError, match="failed validation"):
        run_task("validate", task)
    with pytest.raises(DataError):
        run_task("preprocess", task, lambda: project.spark)
    assert project.tables().days() == []
    (record,) = project.tables().runs()
    assert record.status == "failed" and record.validation is not None and not record.validation["success"]


def test_a_skipped_day_passes_through_and_publishes_nothing(project: Project) -> None:
    schema = (project.folder / "ticks.yaml").read_text()
    (project.folder / "ticks.yaml").write_text(schema + "on_missing: skip\n")
    (project.folder / "raw" / f"{TUESDAY}.csv").unlink()
    task = day_task(project, TUESDAY)
    # Without a session: a day without a file needs none. `validate` says that nothing is left to do.
    assert [run_task(step, task) for step in ("ingest", "validate")] == [False, True]
    assert project.tables().days() == []
    (record,) = project.tables().runs()
    assert (record.status, record.events) == ("succeeded", None)
    assert list((project.folder / "warehouse" / "scratch").glob("*")) == []


def test_days_that_are_begun_in_order_are_never_redone(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """All days are on their way at once, the later ones ahead: what carries over waits for the day before."""
    tasks = [day_task(project, day) for day in DAYS]
    for task in tasks:
        run_task("ingest", task, lambda: project.spark)

    def rest(task: DayTask) -> None:
        for step in STEPS[1:]:
            run_task(step.name, task, lambda: project.spark)

    with ThreadPoolExecutor(len(tasks)) as pool:
        list(pool.map(rest, reversed(tasks)))
    project.run(warehouse="run").run_days(DAYS)
    assert published(project.tables()) == published(project.tables("run"))
    assert project.run().run_stale().days == (), "no day was taken before the one before it"


@pytest.mark.parametrize("ended", ["failed for good", "killed"])
def test_a_day_that_will_not_come_is_not_waited_for(
    project: Project, monkeypatch: pytest.MonkeyPatch, ended: str
) -> None:
    if ended == "failed for good":
        project.write_day(MONDAY, [*ROWS[MONDAY], "23:59:59.999,C,-1"])
    run_task("ingest", day_task(project, MONDAY), lambda: project.spark)
    if ended == "failed for good":
        with pytest.raises(DataError):
            run_task("validate", day_task(project, MONDAY))
        project.write_day(MONDAY)
    else:
        monkeypatch.setattr("cep_pipeline.pipeline.tasks.LIVES_S", 0.0)
    run_day(project, TUESDAY)
    assert [record.day for record in project.tables().days()] == [TUESDAY]
    run_day(project, MONDAY)
    assert [day.day for day in project.run().run_stale().days] == [TUESDAY], "it is redone when its day before comes"


def test_events_that_are_not_published_are_in_no_match(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    task = day_task(project, MONDAY)
    for step in STEPS[:4]:
        run_task(step.name, task, lambda: project.spark)
    assert project.tables().days() == [] and project.tables().statistics("all") == []
    monkeypatch.setattr("cep_pipeline.pipeline.tasks.LIVES_S", 0.0)
    run_day(project, TUESDAY)
    tables = project.tables()
    bound = {one["seq"] for row in tables.read_matches("all").to_pylist() for one in row["bindings"]}
    assert bound and bound <= set(tables.read_events()["seq"].to_pylist())
    for step in STEPS[4:]:
        run_task(step.name, task, lambda: project.spark)
    project.run().run_stale()
    project.run(warehouse="run").run_days(DAYS[:2])
    assert published(tables) == published(project.tables("run"))


def test_a_step_without_the_one_before_says_so(project: Project) -> None:
    with pytest.raises(InputError, match="run the day again from the step ingest"):
        run_task("validate", day_task(project, MONDAY))


@pytest.mark.parametrize("step", long_but(["ingest", "plan"], [step.name for step in STEPS]))
def test_any_step_of_a_run_that_has_ended_can_be_repeated_with_those_after_it(project: Project, step: str) -> None:
    for day in DAYS[:2]:
        run_day(project, day)
    before = published(project.tables())
    task = day_task(project, MONDAY)
    for one in [one.name for one in STEPS][[one.name for one in STEPS].index(step) :]:
        run_task(one, task, lambda: project.spark)
    assert published(project.tables()) == before
    assert project.tables().stale_days() == []


def test_a_run_that_is_killed_while_it_tidies_up_has_ended(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    task = day_task(project, MONDAY)
    for step in STEPS[:-1]:
        run_task(step.name, task, lambda: project.spark)
    (scratch,) = Path(project.tables().warehouse.scratch).glob(f"ticks-{MONDAY}-*")

    def remove_some_and_die(_: str) -> None:
        (scratch / "drafted.json").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tasks, "remove_file", remove_some_and_die)
        with pytest.raises(KeyboardInterrupt):
            run_task("publish", task, lambda: project.spark)
    before = published(project.tables())
    assert before["events"] and scratch.exists()
    assert run_task("publish", task, lambda: project.spark)
    assert not scratch.exists() and published(project.tables()) == before


def test_a_schema_that_changes_between_steps_is_noticed(project: Project) -> None:
    task = day_task(project, MONDAY)
    run_task("ingest", task, lambda: project.spark)
    schema = (project.folder / "ticks.yaml").read_text()
    (project.folder / "ticks.yaml").write_text(
        schema.replace("derived: {", "derived: {last: {history: {of: x, length: 2}}, ")
    )
    with pytest.raises(InputError, match="ingest it again"):
        run_task("preprocess", task, lambda: project.spark)
