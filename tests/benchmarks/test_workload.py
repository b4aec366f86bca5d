"""`cep bench workload` over small generated days: projects, jobs in processes of their own, and what the page tells."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.measure import Progress
from benchmarks.processes import Watched, told_here
from benchmarks.workload import (
    PARTS,
    TRADES,
    TRAFFIC,
    WORKLOADS,
    JobPart,
    Project,
    Request,
    make_project,
    parts_of,
    run_job,
    workload_tables,
)
from cep_pipeline.errors import InputError, PatternError
from tests.cli.command_line import cep

LITTLE_TRAFFIC = Request(WORKLOADS[TRAFFIC], patterns=6, days=1, search_s=0.1, sensors=12)


def cells_of(table: str) -> list[str]:
    """The cells of the first line of a table."""
    return [cell.strip() for cell in table.splitlines()[2].strip("|").split("|")]


@pytest.mark.long
def test_a_day_of_trades_is_run_and_told_once(tmp_path: Path) -> None:
    # Without expectations about the rows, for reading what checks them takes longer than all the rest.
    schema = WORKLOADS[TRADES].schema.partition("quality:")[0]
    workload = replace(WORKLOADS[TRADES], schema=schema)
    request = Request(workload, 12, search_s=0.1, trades_per_day=3000)
    begun: list[str] = []
    progress = Progress(lambda what, _: begun.append(what))
    tables = workload_tables([request], tmp_path, "local[1]", progress, lambda _: None)
    (part,) = parts_of(make_project(tmp_path, request))
    assert part.ended
    if told_here():
        assert part.peak_kb > 100_000 and part.processor_s > 0.5 and part.processes >= 3
    events, _, _, number, matches, *_, alone = cells_of(tables["jobs"])
    assert events == "generated trades of four US stocks, 2013-10-07" and 1000 < int(number.replace(",", "")) < 9000
    assert alone == f"12: equal ({matches})" and tables["patterns"] == "12"
    name, which, number_of_day, _, statistics, *_ = cells_of(tables["days"])
    assert (name, which, number_of_day) == ("trades", "the first day", number) and statistics != "0 us"
    ran = len(begun)
    assert workload_tables([request], tmp_path, "local[1]", progress, lambda _: None) == tables
    assert not any("12 patterns" in step for step in begun[ran:] if "drawing" not in step)


def test_a_project_is_found_again_and_never_taken_for_another_one(tmp_path: Path) -> None:
    said: list[str] = []
    project = make_project(tmp_path, LITTLE_TRAFFIC, said.append)
    assert (
        "generated ones take their place" in said[0]
        and (project.folder / "patterns.sase").read_text().count("NAME ") == 6
    )
    assert make_project(tmp_path, LITTLE_TRAFFIC, said.append) == project and len(said) == 2
    with pytest.raises(
        InputError, match=r"holds a workload with .*'search_s': 0\.1.*, and .*'search_s': 9\.0.* is asked for"
    ):
        make_project(tmp_path, replace(LITTLE_TRAFFIC, search_s=9.0))
    (project.folder / "workload.json").unlink()
    with pytest.raises(InputError, match="holds files, but no workload that was made to its end"):
        make_project(tmp_path, LITTLE_TRAFFIC)


def test_the_real_events_are_taken_where_all_of_them_are_there(tmp_path: Path) -> None:
    def read(project: Project) -> str:
        return (project.folder / "patterns.sase").read_text()

    generated = make_project(tmp_path / "made", LITTLE_TRAFFIC)
    folder = tmp_path / "data" / "aarhus_traffic"
    folder.mkdir(parents=True)
    (folder / "2014-08.parquet").write_bytes((generated.folder / "raw" / "2014-08.parquet").read_bytes())
    project = make_project(tmp_path, replace(LITTLE_TRAFFIC, data=tmp_path / "data"))
    assert project.events.startswith("real readings") and read(project) == read(generated)
    project.configure("local[1]")
    assert str(folder) in project.configuration.read_text()


def test_a_job_that_fails_says_why_and_is_begun_again(tmp_path: Path) -> None:
    project = make_project(tmp_path, LITTLE_TRAFFIC)
    (project.folder / "patterns.sase").write_text("NAME p PATTERN SEQ(")
    for number in (1, 2):
        with pytest.raises(PatternError, match=r"patterns\.sase:1:20: expected an event type"):
            run_job(project, "local[1]", Progress())
        assert [part.ended for part in parts_of(project)] == [False] * number


def test_a_job_that_has_come_to_its_end_is_not_run_again(tmp_path: Path) -> None:
    project = Project(tmp_path, LITTLE_TRAFFIC, "")  # without patterns no job would get far
    parts = [JobPart(2.0, 1.0, 5, 1, ended) for ended in (False, True)]
    (tmp_path / PARTS).write_text("".join(json.dumps(vars(part)) + "\n" for part in parts))
    assert run_job(project, "local[1]", Progress()) == parts


@pytest.mark.skipif(not told_here(), reason="this system does not tell what processes hold")
def test_what_a_process_that_was_started_uses_counts() -> None:
    busy = "import time\nwhile time.process_time() < 1: pass"
    starting = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
    with subprocess.Popen([sys.executable, "-c", starting]) as process, Watched(process.pid) as watched:
        process.wait()
    assert watched.processes == 2 and 0.3 < watched.processor_s < 3


def test_options_of_the_workload_are_refused_without_it(tmp_path: Path) -> None:
    done = cep("bench", "ingestion", "--stream", "traffic", folder=tmp_path)
    assert done.code == 2 and done.error.startswith("--stream and --days are for workload")
