"""OUTPUT and CONSUME over days: they decide as over the whole stream, whatever days are run, redone and stale."""

from __future__ import annotations

import json

import pytest

import cep_pipeline as cep
from tests.pipeline.project import DAYS, MONDAY, ROWS, TUESDAY, WEDNESDAY, Project, published
from tests.pipeline.scheduler import run_day

PATTERNS = """\
NAME apart    PATTERN SEQ(Tick a, Tick b) WITHIN 1 hour OUTPUT NON_OVERLAP RETURN b.x AS x;
NAME every    PATTERN SEQ(A a, Tick b) WITHIN 45 minutes;
NAME by_kind  PATTERN AND(Tick a, Tick b) WHERE a.x <= b.x WITHIN 90 minutes PARTITION BY kind OUTPUT NON_OVERLAP;
NAME once     PATTERN SEQ(Tick a, Tick b) WITHIN 1 hour CONSUME MATCHED;
NAME both     PATTERN OR(SEQ(A a, Tick b, Tick c), AND(Tick d, B e)) WITHIN 1 hour OUTPUT NON_OVERLAP CONSUME MATCHED
"""
WITH_POLICY = {"apart", "by_kind", "once", "both"}


@pytest.fixture
def project(project: Project) -> Project:
    (project.folder / "all.sase").write_text(PATTERNS)
    return project


def kept(project: Project, warehouse: str = "warehouse") -> dict[str, list[str]]:
    """The ids of the published matches, in the order in which they are read."""
    patterns = project.configuration.stream("ticks").pattern_set("all").patterns
    tables = project.tables(warehouse)
    return {p.name: tables.read_matches("all", pattern=p.name)["match_id"].to_pylist() for p in patterns}


def over_all_days(project: Project, warehouse: str = "warehouse") -> dict[str, list[str]]:
    patterns = project.configuration.stream("ticks").pattern_set("all").patterns
    found = cep.detect(patterns, project.tables(warehouse).read_events())
    return {name: table["match_id"].to_pylist() for name, table in found.items()}


def carries(project: Project, warehouse: str = "warehouse") -> list[str]:
    return [unit.carry_out_digest for unit in project.tables(warehouse).matches_days("all")]


@pytest.mark.long
def test_three_daily_runs_are_one_run_over_three_days(project: Project) -> None:
    outcome = project.run(warehouse="together").run_days(DAYS)
    for day in DAYS:
        project.run(warehouse="apart").run_days([day])
    assert published(project.tables("apart")) == published(project.tables("together"))
    assert carries(project, "apart") == carries(project, "together")
    expected = over_all_days(project, "together")
    assert kept(project, "together") == expected
    assert all(expected.values())
    assert {name: sum(day.matches["all"][name] for day in outcome.days) for name in expected} == {
        name: len(ids) for name, ids in expected.items()
    }
    assert not list((project.folder / "together" / "scratch").glob("candidates*"))


@pytest.mark.long
def test_the_day_before_decides(project: Project) -> None:
    """Tuesday keeps other matches where Monday is not detected yet: else the tests here test nothing."""
    project.run(steps=frozenset({"ingest"})).run_days([MONDAY])
    project.run().run_days([TUESDAY])
    before = kept(project)
    assert project.run().run_stale().days
    after = over_all_days(project)
    assert kept(project) == after
    for name in WITH_POLICY:
        assert not set(before[name]) <= set(after[name]), name


@pytest.mark.long
def test_scheduled_steps_hand_the_state_on(project: Project) -> None:
    for day in (MONDAY, TUESDAY):
        run_day(project, day)
    assert kept(project) == over_all_days(project)
    assert project.run().run_stale().days == ()


@pytest.mark.long
def test_days_in_another_order_end_equal_once_stale_days_are_redone(project: Project) -> None:
    for day in (WEDNESDAY, MONDAY, TUESDAY):
        project.run().run_days([day])
    assert project.run().run_stale().days
    assert kept(project) == over_all_days(project)
    assert project.run().run_stale().days == ()


@pytest.mark.long
def test_a_redone_day_makes_nothing_stale(project: Project) -> None:
    project.run().run_days(DAYS)
    before = published(project.tables()), carries(project)
    project.run(redo=True).run_days([MONDAY])
    assert project.run().run_stale().days == ()
    assert (published(project.tables()), carries(project)) == before


@pytest.mark.long
def test_a_changed_carry_state_makes_the_next_day_stale_and_an_unchanged_one_ends_the_cascade(
    project: Project,
) -> None:
    (project.folder / "all.sase").write_text("NAME p PATTERN SEQ(Tick a, Tick b) WITHIN 1 hour OUTPUT NON_OVERLAP")
    project.run().run_days(DAYS)
    before = carries(project)
    # One event less changes which events of the evening pair up. The last value of each kind stays.
    project.write_day(MONDAY, [*ROWS[MONDAY][:2], *ROWS[MONDAY][3:]])
    project.run(steps=frozenset({"ingest"})).run_days([MONDAY])
    project.run(steps=frozenset({"detect"})).run_days([MONDAY])
    after = carries(project)
    assert after[0] != before[0]
    stale = project.tables().stale_days(
        pattern_sets={"all": project.configuration.stream("ticks").pattern_set("all").version}
    )
    reasons = [reason for entry in stale if entry.day == TUESDAY for reason in entry.reasons]
    assert "the carry state from the day before has changed" in reasons
    outcome = project.run(steps=frozenset({"detect"})).run_stale()
    assert TUESDAY in [day.day for day in outcome.days]
    assert WEDNESDAY not in [day.day for day in outcome.days], "the last hour of Tuesday is as it was"
    assert carries(project)[1:] == before[1:]
    assert kept(project) == over_all_days(project)


@pytest.mark.long
def test_an_empty_day_hands_on_what_the_next_day_can_reach(project: Project) -> None:
    (project.folder / "all.sase").write_text(
        "NAME long  PATTERN SEQ(Tick a, Tick b) WITHIN 2 days OUTPUT NON_OVERLAP CONSUME MATCHED;"
        "NAME short PATTERN SEQ(Tick a, Tick b) WITHIN 1 hour CONSUME MATCHED"
    )
    project.write_day(TUESDAY, [])
    for day in DAYS:
        project.run().run_days([day])
    assert kept(project) == over_all_days(project)
    states = project.tables().matches_carry_in("all", WEDNESDAY)["patterns"]
    assert set(states) == {"long"}
    json.dumps(states, allow_nan=False)


@pytest.mark.long
def test_a_changed_pattern_set_starts_anew(project: Project) -> None:
    project.run().run_days(DAYS)
    (project.folder / "all.sase").write_text(PATTERNS.replace("1 hour", "70 minutes"))
    project.run(steps=frozenset({"detect"})).run_days([WEDNESDAY])
    assert project.run().run_stale().days
    assert kept(project) == over_all_days(project)
    (project.folder / "all.sase").write_text("NAME plain PATTERN SEQ(A a, B b) WITHIN 1 hour")
    project.run().run_days(DAYS)
    assert project.tables().matches_carry_in("all", WEDNESDAY) == {}
    assert project.run().run_stale().days == ()


WAITING = """\
NAME quiet  PATTERN SEQ(Tick a, ~C n) WITHIN 90 minutes OUTPUT NON_OVERLAP RETURN a.x AS x;
NAME once   PATTERN OR(SEQ(Tick a, Tick b, ~C n), SEQ(A c, B d)) WITHIN 13 hours CONSUME MATCHED;
NAME tied   PATTERN SEQ(Tick a, ~C n, Tick b) WITHIN 1 hour TIES ANY OUTPUT NON_OVERLAP CONSUME MATCHED;
NAME in_kind PATTERN SEQ(Tick a, Tick b, ~Tick n) WHERE n.x < b.x WITHIN 3 EVENTS PARTITION BY kind OUTPUT NON_OVERLAP
"""


@pytest.mark.long
def test_matches_that_wait_are_decided_about_in_the_page_s_order(project: Project) -> None:
    (project.folder / "all.sase").write_text(WAITING)
    expected = {}
    for day in DAYS:
        outcome = project.run().run_days([day])
        found, whole = kept(project), over_all_days(project)
        pending = outcome.pending["all"]
        assert {name: set(ids) <= set(whole[name]) for name, ids in found.items()} == dict.fromkeys(found, True)
        assert all(name in pending for name in found if len(found[name]) < len(whole[name]))
        expected = whole
    assert project.tables().matches_carry_in("all", TUESDAY)["patterns"]["once"]["undecided"], "none waits for others"
    project.run(end_of_stream=True).run_days([WEDNESDAY])
    assert {name: sorted(ids) for name, ids in kept(project).items()} == {
        name: sorted(ids) for name, ids in expected.items()
    }
