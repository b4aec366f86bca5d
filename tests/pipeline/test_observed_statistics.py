"""The statistics of a day know what the detection of the day before observed."""

from __future__ import annotations

import logging

import pytest

from cep_pipeline.statistics import Source, StatisticsSnapshot
from tests.pipeline.project import DAYS, MONDAY, TUESDAY, WEDNESDAY, Project, published

PATTERNS = """\
NAME same PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND a.diff < b.diff AND b.x < c.x WITHIN 30 minutes;
NAME both PATTERN AND(A a, B b) WITHIN 30 minutes
"""


@pytest.fixture
def project(project: Project) -> Project:
    """A busy stream whose x jumps with its diff, and samples of few pairs."""
    (project.folder / "all.sase").write_text(PATTERNS)
    for number, day in enumerate(DAYS):
        rows = [
            f"{minute // 60:02}:{minute % 60:02}:00,{'ABC'[minute * 7 % 3]},{(minute * 7919 + number) % 101}"
            for minute in range(0, 1440, 2)
        ]
        project.write_day(day, rows)
    return project


def snapshot_of(project: Project, day: object, warehouse: str = "warehouse") -> StatisticsSnapshot:
    content = project.tables(warehouse).read_statistics("all", day)  # type: ignore[arg-type]
    assert content is not None
    return StatisticsSnapshot.from_json(content)


def test_the_next_day_knows_what_was_observed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.run().run_days([MONDAY, TUESDAY])
    first, second = snapshot_of(project, MONDAY), snapshot_of(project, TUESDAY)
    assert first.joints == () and first.order_profiles == () and first.notes == ()
    [profile] = second.order_profiles
    assert (profile.pattern, profile.variables) == ("both", ("a", "b"))
    assert profile.matches == sum(unit.counts["both"] for unit in project.tables().matches_days("all")[:1])
    assert any(str(MONDAY) in note for note in second.notes)
    assert any(len(joint.conditions) == 2 for joint in second.joints)
    assert {s.source for s in second.selectivities} <= {Source.ALL_PAIRS, Source.SAMPLED_PAIRS, Source.COMBINED}


def test_a_redone_day_has_the_statistics_that_it_had_and_makes_nothing_stale(project: Project) -> None:
    project.run().run_days(DAYS)
    before = [snapshot_of(project, day) for day in DAYS], published(project.tables())
    observed = [record.observed for record in project.tables().statistics("all")]
    assert all(observed)
    project.run(redo=True).run_days([MONDAY])
    project.run(redo=True, steps=frozenset({"statistics"})).run_days([WEDNESDAY])
    assert project.run().run_stale().days == ()
    assert ([snapshot_of(project, day) for day in DAYS], published(project.tables())) == before
    assert [record.observed for record in project.tables().statistics("all")] == observed


def test_what_cannot_be_read_is_said_and_left_out(project: Project, caplog: pytest.LogCaptureFixture) -> None:
    project.run().run_days([MONDAY])
    tables = project.tables()
    with tables.day_lease(MONDAY, run_id="older") as lease:
        tables.publish_observed("all", MONDAY, {"version": 0}, lease=lease)
    with caplog.at_level(logging.WARNING):
        project.run().run_days([TUESDAY])
    assert f"the statistics of {TUESDAY} are made without it" in caplog.text
    assert snapshot_of(project, TUESDAY).order_profiles == ()
