"""A damaged day, from the disk to its repair: no run reads on, `cep verify` names it, a redo makes it again."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from cep_pipeline.errors import DamagedError
from tests.cli.command_line import Done, cep
from tests.pipeline.project import DAYS, MONDAY, TUESDAY, Project, published
from tests.warehouse.test_damage import damage


def files_of(project: Project, name: str, day: date) -> list[Path]:
    """The files of a day that a table names."""
    table = project.tables().warehouse.catalog.load_table(("ticks", name))
    return [Path(task.file.file_path) for task in table.scan().plan_files() if f"day={day}" in task.file.file_path]


def verify(project: Project) -> Done:
    return cep("verify", "--deep", folder=project.folder)


@pytest.mark.long
def test_a_damaged_day_is_made_again_from_its_raw_files(project: Project) -> None:
    project.run().run_days(DAYS)
    before = published(project.tables())
    assert verify(project).code == 0
    (events,) = files_of(project, "events", MONDAY)
    matches, *_ = files_of(project, "matches", TUESDAY)
    for path in (events, matches, *files_of(project, "statistics", TUESDAY)):
        damage(path)
    with pytest.raises(DamagedError, match=r"is damaged \(.*`cep verify --deep` names"):
        project.run(steps=frozenset({"detect"}), redo=True).run_days([MONDAY])
    for command in (("matches",), ("matches", "--out", "m.csv")):
        shown = cep(*command, folder=project.folder)
        assert (shown.code, matches.name in shown.error) == (3, True)

    found = verify(project)
    assert found.code == 3 and found.output.count("damage: ") >= 3 and "Traceback" not in found.errors
    assert f"--redo --day {MONDAY}" in found.output and f"--redo --day {TUESDAY}" in found.output
    assert {day.status for day in project.run(redo=True).run_days([MONDAY, TUESDAY]).days} == {"done"}
    assert project.run().run_stale().days == ()
    assert published(project.tables()) == before
    assert cep("maintain", "--keep-days", "0", folder=project.folder).code == 0
    assert verify(project).code == 0
