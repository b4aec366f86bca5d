"""The statistics of a day know which events ended the matches of the day before."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from unittest import mock

import pytest

from cep_pipeline.cli.statistics import StatisticsView
from cep_pipeline.pipeline.statistics import Labelled, StatisticsOverview, with_observed_profiles
from cep_pipeline.statistics import StatisticsSnapshot
from cep_pipeline.warehouse.stream_tables import PinnedStatistics, StreamTables
from tests.pipeline.project import DAYS, MONDAY, TUESDAY, WEDNESDAY, Project, published

PATTERNS = """\
NAME same PATTERN SEQ(A a, B b, C c) WHERE a.x + 60 < b.x AND c.x + 60 < b.x WITHIN 30 minutes;
NAME both PATTERN AND(A a, B b) WITHIN 30 minutes
"""


@pytest.fixture
def project(project: Project) -> Project:
    """A busy stream, and two patterns."""
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


@pytest.mark.long
def test_the_next_day_knows_the_last_events_and_a_redone_day_what_it_knew(project: Project) -> None:
    project.run().run_days(DAYS)
    first, second, third = (snapshot_of(project, day) for day in DAYS)
    assert first.joints == () and first.output_profiles == () and first.notes == ()
    [profile] = second.output_profiles
    assert (profile.pattern, profile.variables) == ("both", ("a", "b"))
    assert profile.matches == project.tables().matches_days("all")[0].counts["both"] > 0
    view = StatisticsView(StatisticsOverview(Labelled("Tuesday", second), "UTC"))
    *_, last = view.tables()
    cells = [list(column.cells) for column in last.columns]
    assert cells[0] == ["both"] and cells[1] == [f"{profile.matches:,}"]
    assert f"b: {profile.last_share('b'):.1%}" in str(cells[2][0])
    before = [first, second, third], published(project.tables())
    observed = [record.observed for record in project.tables().statistics("all")]
    assert all(observed)
    project.run(redo=True).run_days([MONDAY])
    project.run(redo=True, steps=frozenset({"statistics"})).run_days([WEDNESDAY])
    assert project.run().run_stale().days == ()
    assert ([snapshot_of(project, day) for day in DAYS], published(project.tables())) == before
    assert [record.observed for record in project.tables().statistics("all")] == observed


class Recorded(PinnedStatistics):
    """What detection observed on Monday."""

    def __init__(self, content: object) -> None:
        super().__init__({("all", MONDAY): "file"}, lambda path: ROW | {"observed": json.dumps(content)})


ROW = dict.fromkeys(("recorded_at", "snapshot", "state", "basis")) | {
    "pattern_set": "all",
    "day": MONDAY,
    "run_id": "run",
}


@pytest.mark.parametrize(
    "content", [{"version": 1}, {"version": 2}, [], {"version": 2, "observations": [], "profiles": [3]}]
)
def test_what_cannot_be_read_is_said_and_left_out(content: object, caplog: pytest.LogCaptureFixture) -> None:
    work, pattern_set, snapshot = (
        SimpleNamespace(day=TUESDAY),
        SimpleNamespace(name="all"),
        StatisticsSnapshot(),
    )
    with caplog.at_level(logging.WARNING):
        assert with_observed_profiles(work, pattern_set, snapshot, Recorded(content)) == snapshot  # type: ignore[arg-type]
    assert f"the statistics of {TUESDAY} are made without it" in caplog.text
    assert f"observed on {MONDAY}: " in caplog.text


@pytest.mark.long
def test_a_run_that_dies_before_it_publishes_changes_nothing_and_detects_the_day_again(project: Project) -> None:
    project.run().run_days([MONDAY])
    rows = [f"{minute // 60:02}:{minute % 60:02}:00,{'AB'[minute % 2]},{minute % 89}" for minute in range(0, 1440, 3)]
    project.write_day(MONDAY, rows)
    project.run(warehouse="undisturbed").run_days([MONDAY])

    class Killed(Exception):
        """What a kill is to the test."""

    before = published(project.tables()), project.tables().statistics("all")
    with mock.patch.object(StreamTables, "publish", side_effect=Killed), pytest.raises(Killed):
        project.run().run_days([MONDAY])
    assert (published(project.tables()), project.tables().statistics("all")) == before
    project.run().run_days([MONDAY])
    (observed,), (undisturbed,) = (project.tables(name).statistics("all") for name in ("warehouse", "undisturbed"))
    assert observed.observed == undisturbed.observed is not None
