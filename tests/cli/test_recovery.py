"""Backup and restore (docs/operations.md): a copy, each kind of loss, a lost catalog; readers only read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.command_line import CHECKOUT, Done, cep
from tests.pipeline.project import DAYS, MONDAY, TUESDAY, Project, make_project, published

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Project:
    """A project whose first two days are published and copied, and one (`whole`) that has run over all three."""
    made = make_project(tmp_path_factory.mktemp("drill"), spark)
    made.run(warehouse="whole").run_days(DAYS)
    done = cep("run", "--day", str(MONDAY), "--day", str(TUESDAY), folder=made.folder)
    assert done.code == 0, done.errors
    shutil.copytree(made.folder / "warehouse", made.folder / "backup")
    return made


@pytest.fixture
def second(project: Project) -> Project:
    """The project with its warehouse as it was copied."""
    shutil.rmtree(project.folder / "warehouse")
    shutil.copytree(project.folder / "backup", project.folder / "warehouse")
    return project


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
    said = done.error + done.output
    assert "`cep help operations`" in said or "cep run" in said or "cep restore" in said, done


@pytest.mark.long
@pytest.mark.parametrize("how", ["gone", "cut off"])
@pytest.mark.parametrize("loss", LOSSES)
def test_what_was_lost_is_named_and_comes_back(second: Project, loss: str, how: str) -> None:
    project = second
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
    shutil.copytree(project.folder / "backup", project.folder / "warehouse", dirs_exist_ok=True)
    assert cep("verify", "--deep", folder=project.folder).code == 0
    assert ids(project.folder) == before


@pytest.mark.long
def test_what_was_copied_goes_on_with_the_same_ids(second: Project) -> None:
    assert cep("run", folder=second.folder).code == 0
    shutil.rmtree(second.folder / "warehouse")
    shutil.copytree(second.folder / "backup", second.folder / "warehouse")
    done = cep("run", folder=second.folder)
    assert done.code == 0, done.errors
    assert published(second.tables()) == published(second.tables("whole"))
    assert second.tables().stale_days() == []


@pytest.mark.long
def test_a_lost_catalog_is_made_from_the_tables_and_days_are_published_anew(second: Project) -> None:
    before = ids(second.folder)
    refused = cep("restore", folder=second.folder)
    assert refused.code == 2 and "--replace" in refused.error
    (second.folder / "warehouse" / "catalog.db").unlink()
    done = cep("restore", folder=second.folder)
    assert done.code == 0 and "2 days" in done.output, done
    again = cep("restore", "--replace", "--json", folder=second.folder)
    assert json.loads(again.output)["days"] == 2
    assert ids(second.folder) == before
    shown = cep("status", folder=second.folder)
    assert "its record was lost with the" in shown.output
    assert cep("run", "--stale", folder=second.folder).code == 0
    assert cep("run", folder=second.folder).code == 0
    assert published(second.tables()) == published(second.tables("whole"))
    assert second.tables().stale_days() == []


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


@pytest.mark.long
def test_who_may_only_read_reads_and_writes_nothing(second: Project) -> None:
    project, warehouse = second, second.folder / "warehouse"
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
        for command in (["run", "--redo", "--day", str(MONDAY)], ["maintain"]):
            done = as_reader(*command, folder=project.folder)
            assert done.code in (1, 2) and "Traceback" not in done.errors, (command, done)
            assert "write access" in done.error, (command, done)
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
    assert {path: path.stat().st_mtime_ns for path in [warehouse, *warehouse.rglob("*")]} == files
