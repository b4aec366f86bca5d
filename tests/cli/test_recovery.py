"""The drill of docs/operations.md: a backup, each kind of loss, restores and a rollback; reading without writing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.command_line import CHECKOUT, Done, cep
from tests.pipeline.project import DAYS, MONDAY, PIPELINE, ROWS, TUESDAY, Project, make_project, published

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Project:
    """A project whose first two days are published and backed up, and one (`whole`) that has run over all three."""
    made = make_project(tmp_path_factory.mktemp("drill"), spark)
    made.run(warehouse="whole").run_days(DAYS)
    done = cep("run", "--day", str(MONDAY), "--day", str(TUESDAY), folder=made.folder)
    assert done.code == 0, done.errors
    done = cep("backup", "backup", "--keep", "3", folder=made.folder)
    assert done.code == 0 and "are new" in done.output, done
    return made


def ids(folder: Path) -> list[str]:
    done = cep("matches", "--out", "ids.json", folder=folder)
    assert done.code == 0, done.errors
    return [json.loads(line)["match_id"] for line in (folder / "ids.json").read_text().splitlines()]


LOSSES = {
    "the catalog": ["catalog.db"],
    "metadata": ["ticks/matches/metadata/*.metadata.json"],
    "manifest lists": ["ticks/matches/metadata/snap-*.avro"],
    "manifests": ["ticks/matches/metadata/*-m*.avro"],
    "data files": ["ticks/events/data/*/*.parquet", "ticks/matches/data/*/*/*.parquet"],
}


def explained(done: Done) -> None:
    """A command over a damaged warehouse says in one line which file is damaged and what to do."""
    assert done.code in (2, 3), done
    assert "Traceback" not in done.errors
    assert "`cep restore BACKUP --replace`" in done.error or "cep run" in done.output or "cep restore" in done.output, (
        done
    )


@pytest.mark.parametrize("how", ["gone", "cut off"])
@pytest.mark.parametrize("loss", LOSSES)
def test_what_was_lost_is_named_and_comes_back(project: Project, loss: str, how: str) -> None:
    before = ids(project.folder)
    assert before
    for pattern in LOSSES[loss]:
        files = list((project.folder / "warehouse").glob(pattern))
        assert files
        for file in files:
            if how == "gone":
                file.unlink()
            else:
                file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    explained(cep("matches", folder=project.folder))
    explained(cep("verify", folder=project.folder))
    done = cep("restore", "backup", "--replace", folder=project.folder)
    assert done.code == 0 and "cep verify" in done.output, done
    assert cep("verify", "--deep", folder=project.folder).code == 0
    assert ids(project.folder) == before


@pytest.fixture
def second(project: Project) -> Iterator[Project]:
    """The project with its warehouse at another place, where nothing is yet."""
    text = PIPELINE + "warehouse: {location: second}\n"
    (project.folder / "pipeline.yaml").write_text(text)
    yield project
    (project.folder / "pipeline.yaml").write_text(PIPELINE)
    shutil.rmtree(project.folder / "second", ignore_errors=True)


def test_a_restore_elsewhere_goes_on_with_the_same_ids(second: Project) -> None:
    done = cep("restore", "backup", "--to", str(second.folder / "second"), folder=second.folder)
    assert done.code == 0, done
    assert cep("verify", "--deep", folder=second.folder).code == 0
    done = cep("restore", "backup", folder=second.folder)
    assert done.code == 2 and "--replace" in done.error
    done = cep("run", folder=second.folder)
    assert done.code == 0, done.errors
    assert published(second.tables("second")) == published(second.tables("whole"))
    assert second.tables("second").stale_days() == []


def test_a_lost_catalog_is_made_from_the_tables_and_days_are_published_anew(second: Project) -> None:
    cep("restore", "backup", folder=second.folder)
    before = ids(second.folder)
    (second.folder / "second" / "catalog.db").unlink()
    done = cep("restore", "--rebuild-catalog", folder=second.folder)
    assert done.code == 0 and "2 days" in done.output and "cep forget" in done.output, done
    assert ids(second.folder) == before
    shown = cep("status", folder=second.folder)
    assert "its record was lost with the" in shown.output
    assert cep("run", "--stale", folder=second.folder).code == 0
    assert cep("run", folder=second.folder).code == 0
    assert published(second.tables("second")) == published(second.tables("whole"))
    assert second.tables("second").stale_days() == []


def test_a_day_goes_back_to_an_earlier_run(second: Project) -> None:
    cep("restore", "backup", folder=second.folder)
    before = published(second.tables("second"))
    second.write_day(TUESDAY, [*ROWS[TUESDAY][:3], "23:00:00,A,8"])
    try:
        assert cep("run", "--day", str(TUESDAY), folder=second.folder).code == 0
        assert published(second.tables("second")) != before
        done = cep("rollback", "--day", str(TUESDAY), folder=second.folder)
        assert done.code == 0 and "back to run" in done.output, done
        assert published(second.tables("second")) == before
        assert "rolled back from run" in cep("status", folder=second.folder).output
    finally:
        second.write_day(TUESDAY)
    assert cep("verify", "--deep", folder=second.folder).code == 0
    assert "rolled back from run" not in cep("status", folder=second.folder).output
    assert cep("run", folder=second.folder).code == 0
    assert published(second.tables("second")) == published(second.tables("whole"))


def test_a_backup_is_checked(project: Project) -> None:
    done = cep("backup", "backup", "--check", folder=project.folder)
    assert done.code == 0 and done.output.startswith("no damage"), done
    file = next((project.folder / "backup" / "files").rglob("*.parquet"))
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    done = cep("backup", "backup", "--check", folder=project.folder)
    assert done.code == 3 and str(file) in done.output, done
    file.write_bytes(content)
    for arguments in (["restore"], ["restore", "backup", "--rebuild-catalog"], ["restore", "--stream", "ticks", "b"]):
        assert cep(*arguments, folder=project.folder).code == 2
    assert "no backup is there" in cep("restore", "nothing", "--replace", folder=project.folder).error


def as_reader(*arguments: str, folder: Path) -> Done:
    """Call `cep` as somebody who may write only what its mode allows, which the super-user is not."""
    without_rights = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    if without_rights and shutil.which("setpriv") is None:
        pytest.skip("the super-user may write everywhere, and there is no setpriv to take that away")
    command = [*without_rights, sys.executable, "-m", "cep_pipeline.cli", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "COLUMNS": "200"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=180
    )
    return Done(done.returncode, done.stdout, done.stderr)


def test_who_may_only_read_reads_and_writes_nothing(project: Project) -> None:
    warehouse = project.folder / "warehouse"
    everything = [warehouse, *warehouse.rglob("*")]
    modes = {path: path.stat().st_mode for path in everything}
    files = {path: path.stat().st_mtime_ns for path in everything}
    for path in everything:
        path.chmod(modes[path] & 0o555)
    try:
        for command in (["matches"], ["matches", "--count"], ["status"], ["explain"], ["statistics"], ["verify"]):
            done = as_reader(*command, folder=project.folder)
            assert done.code == 0 and done.output, (command, done)
            assert done.output == cep(*command, folder=project.folder).output, command
        done = as_reader("backup", "another", folder=project.folder)
        assert done.code == 0, done
        for command in (["run", "--redo", "--day", str(MONDAY)], ["maintain"], ["rollback", "--day", str(MONDAY)]):
            done = as_reader(*command, folder=project.folder)
            assert done.code in (1, 2) and "Traceback" not in done.errors, (command, done)
            assert "write access" in done.error, (command, done)
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
    assert {path: path.stat().st_mtime_ns for path in [warehouse, *warehouse.rglob("*")]} == files
