"""Matches that wait are counted, and published when the stream is said to end; it may go on after all."""

from __future__ import annotations

import pytest

import cep_pipeline as cep
from tests.pipeline.project import DAYS, MONDAY, TUESDAY, WEDNESDAY, Project
from tests.pipeline.scheduler import run_day
from tests.pipeline.test_output_policy import kept, over_all_days

PATTERNS = """\
NAME quiet PATTERN SEQ(Tick a, ~C n) WITHIN 2 hours;
NAME long  PATTERN SEQ(B a, ~C n) WHERE n.x < 8 WITHIN 20 hours OUTPUT NON_OVERLAP;
NAME count PATTERN SEQ(Tick a, ~C n) WITHIN 3 EVENTS PARTITION BY kind;
NAME plain PATTERN SEQ(A a, B b) WITHIN 1 hour
"""


@pytest.fixture
def project(project: Project) -> Project:
    (project.folder / "all.sase").write_text(PATTERNS)
    return project


def by_name(found: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: sorted(ids) for name, ids in found.items()}


def closed(project: Project) -> list[object]:
    return [unit.final_day for unit in project.tables().matches_days("all") if unit.fingerprint.end_of_stream]


@pytest.mark.long
def test_what_waits_is_counted_and_published_by_the_run_that_ends_the_stream(project: Project) -> None:
    outcome = project.run().run_days([MONDAY, TUESDAY])
    units = {unit.final_day: unit for unit in project.tables().matches_days("all")}
    assert outcome.pending["all"] == dict(units[TUESDAY].pending) and set(outcome.pending["all"]) == {"quiet", "count"}
    assert units[MONDAY].pending and set(units[MONDAY].counts) == {"quiet", "long", "count", "plain"}
    (record,) = [run for run in project.tables().runs() if run.day == TUESDAY]
    assert record.details["pending"] == {f"all.{name}": n for name, n in outcome.pending["all"].items()}
    whole = over_all_days(project)
    assert by_name(kept(project)) != by_name(whole)
    ended = project.run(end_of_stream=True).run_days([MONDAY, TUESDAY])
    assert [(day.day, day.status, day.end_of_stream) for day in ended.days] == [
        (MONDAY, "fresh", False),
        (TUESDAY, "done", True),
    ]
    assert by_name(kept(project)) == by_name(whole)
    assert not any(ended.pending.values()) and closed(project) == [TUESDAY]
    assert [day.status for day in project.run(end_of_stream=True).run_days([TUESDAY]).days] == ["fresh"]
    assert project.run().run_stale().days == ()


@pytest.mark.long
def test_a_stream_that_goes_on_makes_its_end_stale(project: Project) -> None:
    project.run(end_of_stream=True).run_days([MONDAY, TUESDAY])
    project.run().run_days([WEDNESDAY])
    version = project.configuration.stream("ticks").pattern_set("all").version
    found = project.tables().stale_days(pattern_sets={"all": version})
    assert [(entry.day, entry.reasons) for entry in found] == [
        (TUESDAY, ("the stream was taken to end with it, and has gone on",))
    ]
    project.run().run_stale()
    assert closed(project) == [] and project.run().run_stale().days == ()
    whole = over_all_days(project)
    project.run(end_of_stream=True).run_days([WEDNESDAY])
    assert by_name(kept(project)) == by_name(whole)
    project.write_day(WEDNESDAY, ["00:05:00,B,2", "00:30:00,A,3"])
    project.run().run_stale()
    assert closed(project) == [WEDNESDAY], "a stale day is redone as it was"
    assert by_name(kept(project)) == by_name(over_all_days(project))


@pytest.mark.long
def test_a_stream_ends_with_its_last_published_day(project: Project) -> None:
    project.run(steps=frozenset({"ingest"})).run_days([MONDAY, WEDNESDAY])
    with pytest.raises(cep.InputError, match="2024-03-06 is published"):
        project.run(end_of_stream=True).run_days([TUESDAY])
    with pytest.raises(cep.InputError, match="detect"):
        project.run(end_of_stream=True, steps=frozenset({"ingest"}))
    schema = (project.folder / "ticks.yaml").read_text()
    (project.folder / "ticks.yaml").write_text(schema + "on_missing: skip\n")
    (project.folder / "raw" / f"{WEDNESDAY}.csv").unlink()
    outcome = project.run(warehouse="skipping", end_of_stream=True).run_days(DAYS)
    assert {day.day: day.status for day in outcome.days}[WEDNESDAY] == "skipped"
    tables = project.tables("skipping")
    assert [unit.fingerprint.end_of_stream for unit in tables.matches_days("all")] == [False, True]
    assert by_name(kept(project, "skipping")) == by_name(over_all_days(project, "skipping"))


@pytest.mark.long
def test_a_scheduled_day_ends_the_stream_too(project: Project) -> None:
    run_day(project, MONDAY, end_of_stream=True)
    assert closed(project) == [MONDAY]
    assert by_name(kept(project)) == by_name(over_all_days(project))
    (record,) = project.tables().runs()
    assert record.details["end_of_stream"]
    run_day(project, TUESDAY)
    (record,) = [run for run in project.tables().runs() if run.day == TUESDAY]
    assert record.details["pending"]
