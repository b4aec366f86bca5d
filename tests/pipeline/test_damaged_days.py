"""A damaged day, from the disk to its repair: no run reads on, `cep verify` makes it stale, a redo makes it again."""

from __future__ import annotations

from pathlib import Path

import pytest

from cep_pipeline.errors import DamagedFile
from tests.cli.command_line import Done, cep
from tests.pipeline.project import DAYS, MONDAY, TUESDAY, Project, published


def damage(path: Path) -> None:
    """Flip a bit in the first page of a file."""
    whole = path.read_bytes()
    path.write_bytes(whole[:60] + bytes([whole[60] ^ 8]) + whole[61:])


def verify(project: Project) -> Done:
    return cep("verify", "--deep", folder=project.folder)


def test_a_damaged_day_is_made_again_from_its_raw_files(project: Project) -> None:
    project.run().run_days(DAYS)
    before = published(project.tables())
    assert verify(project).code == 0
    tables = project.tables()
    (events,) = tables.events_files(MONDAY, MONDAY)
    matches = next((project.folder / "warehouse").glob(f"ticks/matches/data/**/final_day={TUESDAY}/*.parquet"))
    statistics = next((project.folder / "warehouse").glob(f"ticks/statistics/data/**/day={TUESDAY}/*.parquet"))
    for path in (Path(events.path), matches, statistics):
        damage(path)
    with pytest.raises(DamagedFile, match=r"is damaged \(.*`cep verify --deep` notes"):
        project.run(steps=frozenset({"detect"}), redo=True).run_days([MONDAY])
    for command in (("matches",), ("matches", "--out", "m.csv")):
        shown = cep(*command, folder=project.folder)
        assert (shown.code, matches.name in shown.error) == (3, True)

    found = verify(project)
    assert found.code == 3 and found.output.count("damage: ") >= 3 and "Traceback" not in found.errors
    status = " ".join(cep("status", "--runs", "0", folder=project.folder).output.replace("│", " ").split())
    assert "of events is damaged: its SHA-256" in status and "2 stale days" in status
    assert [(day.day, day.status) for day in project.run().run_days([MONDAY]).days] == [(MONDAY, "done")]
    assert [day.day for day in project.run().run_stale().days] == [TUESDAY]
    assert project.run().run_stale().days == ()
    assert published(project.tables()) == before
    assert cep("maintain", "--keep-days", "0", folder=project.folder).code == 0
    assert verify(project).code == 0
