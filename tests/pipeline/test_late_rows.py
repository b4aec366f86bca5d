"""Late rows: once what is stale has been redone, all days are those of a run over the files as they are now."""

from __future__ import annotations

import shutil

import pytest

from tests.pipeline.project import DAYS, MONDAY, ROWS, TUESDAY, Project, published

DERIVED = "\nderived: {diff: {diff: {of: x}}}\n"


@pytest.fixture
def project(project: Project) -> Project:
    """A project whose only pattern looks back over midnight, for less than a day."""
    schema = (project.folder / "ticks.yaml").read_text()
    (project.folder / "ticks.yaml").write_text("\n".join(x for x in schema.splitlines() if not x.startswith("derived")))
    (project.folder / "all.sase").write_text("NAME near PATTERN SEQ(A a, B b) WITHIN 40 minutes")
    return project


@pytest.mark.long
@pytest.mark.parametrize("derived", ["", DERIVED])
def test_late_rows_are_corrected_over_the_days_that_read_them(project: Project, derived: str) -> None:
    with (project.folder / "ticks.yaml").open("a") as schema:
        schema.write(derived)
    project.run().run_days(DAYS)
    assert project.tables().read_matches("all").num_rows
    project.write_day(MONDAY, sorted([*ROWS[MONDAY], "23:45:00,A,1", "09:00:00,C,1"]))
    redone = [day.day for day in project.run().run_stale().days]
    assert redone[:2] == [MONDAY, TUESDAY] and (derived or len(redone) == 2), "Wednesday has not read Monday"
    project.run(warehouse="anew").run_days(DAYS)
    assert published(project.tables()) == published(project.tables("anew"))
    shutil.rmtree(project.folder / "anew")
    assert project.run().run_stale().days == ()
