"""Count windows over days: the look-back is over events, in partitions from as many days as that takes."""

from __future__ import annotations

import pytest

from cep_pipeline.warehouse.records import StaleDay
from tests.pipeline.project import DAYS, MONDAY, ROWS, TUESDAY, WEDNESDAY, Project
from tests.pipeline.test_output_policy import kept, over_all_days

PATTERNS = """\
NAME near     PATTERN SEQ(Tick a, Tick b) WHERE a.x < b.x WITHIN 3 EVENTS;
NAME in_kind  PATTERN SEQ(Tick a, Tick b) WHERE a.x <= b.x WITHIN 3 EVENTS PARTITION BY kind;
NAME in_value PATTERN AND(Tick a, Tick b) WITHIN 2 EVENTS PARTITION BY x;
NAME strict   PATTERN SEQ(Tick a, Tick b) WHERE strict_contiguity { [kind] } WITHIN 4 EVENTS;
NAME waits    PATTERN SEQ(A a, ~C n) WITHIN 4 EVENTS;
NAME apart    PATTERN SEQ(Tick a, Tick b) WITHIN 4 EVENTS PARTITION BY kind OUTPUT NON_OVERLAP;
NAME once     PATTERN SEQ(Tick a, Tick b) WITHIN 2 EVENTS CONSUME MATCHED;
NAME timed    PATTERN SEQ(Tick a, Tick b) WHERE a.x < b.x WITHIN 1 hour
"""


@pytest.fixture
def project(project: Project) -> Project:
    (project.folder / "all.sase").write_text(PATTERNS)
    return project


@pytest.mark.long
def test_three_daily_runs_are_one_run_over_three_days(project: Project) -> None:
    for day in DAYS:
        outcome = project.run(warehouse="apart").run_days([day])
    found, whole = kept(project, "apart"), over_all_days(project, "apart")
    pending = outcome.pending["all"]
    assert set(pending) == {"waits"}
    assert {name: len(ids) + pending.get(name, 0) for name, ids in found.items()} == {
        n: len(i) for n, i in whole.items()
    }
    assert {name: ids for name, ids in found.items() if name != "waits"} == {
        n: i for n, i in whole.items() if n != "waits"
    }
    assert all(whole.values())
    assert not list((project.folder / "apart" / "scratch").glob("candidates*"))


def stale(project: Project) -> list[StaleDay]:
    version = project.configuration.stream("ticks").pattern_set("all").version
    return project.tables().stale_days(pattern_sets={"all": version})


@pytest.mark.long
def test_a_changed_day_inside_the_look_back_makes_matches_stale_and_only_those(project: Project) -> None:
    (project.folder / "all.sase").write_text("NAME near PATTERN SEQ(A a, Tick b) WITHIN 5 EVENTS")
    project.run().run_days(DAYS)
    reached = {unit.final_day: unit.fingerprint.events_from for unit in project.tables().matches_days("all")}
    assert reached == {MONDAY: None, TUESDAY: MONDAY, WEDNESDAY: TUESDAY}
    project.write_day(MONDAY, [*ROWS[MONDAY][:-1], "23:59:59.999,B,7"])
    project.run(steps=frozenset({"ingest"})).run_days([MONDAY])
    assert [entry.day for entry in stale(project) if entry.pattern_set] == [MONDAY, TUESDAY]
    project.run().run_stale()
    assert kept(project) == over_all_days(project)
