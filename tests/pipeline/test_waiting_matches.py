"""Matches that wait for later events are published by the day in which they become final."""

from __future__ import annotations

import pytest

import cep_pipeline as cep
from tests.pipeline.project import DAYS, MONDAY, TUESDAY, WEDNESDAY, Project
from tests.pipeline.test_output_policy import kept

PATTERNS = """\
NAME quiet PATTERN SEQ(A+ a[], ~C n) WITHIN 40 minutes;
NAME long  PATTERN SEQ(B+ a[], ~C n) WHERE n.x < 8 WITHIN 20 hours;
NAME both  PATTERN OR(SEQ(A+ a[], B b), SEQ(~C m, B+ c[], ~A n)) WITHIN 1 hour
"""


def over_all_days_until(project: Project, end_us: int) -> dict[str, list[tuple[tuple[str, int], ...]]]:
    """The bindings of the matches over the whole stream that are final before a time, sorted."""
    patterns = project.configuration.stream("ticks").pattern_set("all").patterns
    found = {}
    for pattern in patterns:
        table = cep.detect([pattern], project.tables().read_events())[pattern.name]
        starts = table["start_ts"].cast("int64").to_pylist()
        bindings = [tuple((b["variable"], b["seq"]) for b in row) for row in table["bindings"].to_pylist()]
        clauses = {frozenset(v.name for v in clause.positive): clause for clause in pattern.clauses}
        found[pattern.name] = sorted(
            row
            for row, start in zip(bindings, starts, strict=True)
            if not clauses[frozenset(name for name, _ in row)].negated or start + (pattern.window.time_us or 0) < end_us
        )
    return found


def published_bindings(project: Project) -> dict[str, list[tuple[tuple[str, int], ...]]]:
    tables = project.tables()
    return {
        name: sorted(
            tuple((b["variable"], b["seq"]) for b in row)
            for row in tables.read_matches("all", pattern=name)["bindings"].to_pylist()
        )
        for name in kept(project)
    }


WEDNESDAY_ENDS_US = 1_709_787_600_000_000
"""Midnight of 2024-03-07 in New York."""


@pytest.mark.long
def test_the_union_of_the_days_is_what_is_final_by_then(project: Project) -> None:
    (project.folder / "all.sase").write_text(PATTERNS)
    for day in DAYS:
        project.run().run_days([day])
    expected = over_all_days_until(project, WEDNESDAY_ENDS_US)
    assert published_bindings(project) == expected
    assert all(expected.values())
    later = [
        row
        for row in project.tables().read_matches("all", TUESDAY).to_pylist()
        if row["bindings"][-1]["seq"] < TUESDAY.toordinal() << 40
    ]
    assert later, "no match waits over midnight: the test tests nothing"


@pytest.mark.long
def test_they_are_published_by_an_empty_day_and_after_a_skipped_one(project: Project) -> None:
    (project.folder / "all.sase").write_text(PATTERNS)
    project.write_day(TUESDAY, [])
    for day in DAYS:
        project.run().run_days([day])
    expected = over_all_days_until(project, WEDNESDAY_ENDS_US)
    assert published_bindings(project) == expected
    assert project.tables().read_matches("all", TUESDAY, TUESDAY).num_rows > 0
    schema = (project.folder / "ticks.yaml").read_text()
    (project.folder / "ticks.yaml").write_text(schema + "on_missing: skip\n")
    (project.folder / "raw" / f"{TUESDAY}.csv").unlink()
    for day in DAYS:
        project.run(warehouse="skipped").run_days([day])
    tables = project.tables("skipped")
    assert [record.day for record in tables.days()] == [MONDAY, WEDNESDAY]
    assert {name: sorted(ids) for name, ids in kept(project, "skipped").items()} == {
        name: sorted(ids) for name, ids in kept(project).items()
    }
    project.run(warehouse="skipped").run_stale()
    assert project.run(warehouse="skipped").run_stale().days == ()
