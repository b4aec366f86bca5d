"""`cep bench workload` over small generated days: projects, jobs in processes of their own, and what the page tells."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from benchmarks.measure import Progress
from benchmarks.processes import Watched, told_here
from benchmarks.workload_jobs import CHECK, DAYS, ONE_MORE, PARTS, JobPart, parts_of, run_jobs
from benchmarks.workload_page import days_table, jobs_table, measure_workloads, plans_table, workload_tables
from benchmarks.workload_projects import (
    TRADES,
    TRAFFIC,
    WORKLOADS,
    GeneratedSizes,
    Project,
    Request,
    make_project,
)
from benchmarks.workload_results import CheckSize, DayRun, PlanSize, WorkloadResult
from cep_pipeline.errors import InputError, PatternError
from tests.cli.command_line import cep

SMALL = GeneratedSizes(trades_per_day=3000, sensors=12)
LITTLE_TRAFFIC = Request(WORKLOADS[TRAFFIC], patterns=6, days=1, search_s=0.1, generated=SMALL)


def told(steps: list[str]) -> Progress:
    return Progress(lambda what, _: steps.append(what))


@pytest.mark.long
def test_a_day_of_trades_is_run_checked_and_told_once(tmp_path: Path) -> None:
    # Without expectations about the rows, for reading what checks them takes longer than all the rest.
    schema = WORKLOADS[TRADES].schema.partition("quality:")[0]
    request = Request(replace(WORKLOADS[TRADES], schema=schema, later=None), 12, search_s=0.1, generated=SMALL)
    steps: list[str] = []
    (result,) = measure_workloads([request], tmp_path, "local[1]", told(steps), lambda _: None)
    assert [(part.job, part.ended) for part in result.parts] == [(DAYS, True), (CHECK, True)]
    if told_here():
        assert all(part.peak_kb > 100_000 and part.processor_s > 0.5 for part in result.parts)
        assert result.parts[0].processes >= 3 > 1 == result.parts[1].processes
    assert 1000 < result.days[0].events < 9000 and result.days[0].steps_s["statistics"] > 0
    assert result.alone == 12 and result.alone_matches == result.days[0].matches
    assert result.check is not None and result.check.record_bytes > 100
    assert any(step.endswith("2013-10-07: detect many") for step in steps)
    again: list[str] = []
    (known,) = measure_workloads([request], tmp_path, "local[1]", told(again), lambda _: None)
    assert known == result and not any("detect" in step for step in again)
    page = "\n\n".join(workload_tables([result]).values())
    assert f"| {result.days[0].matches:,} " in page and "generated trades of four US stocks, 2013-10-07" in page


def test_the_page_adds_up_parts_and_tells_what_one_pattern_more_reaches(tmp_path: Path) -> None:
    project = Project(tmp_path, Request(WORKLOADS[TRADES], patterns=1000), (), "real trades")
    days = tuple(
        DayRun(date(2013, 10, number), 1000 * number, 10, 0, {"ingest": 1.0, "plan": seconds})
        for number, seconds in ((7, 30.0), (8, 0.5), (9, 0.25))
    )
    plans = (
        PlanSize("first plan", 600, 900, 17.0, 12_000_000, 2_800_000, 6_000),
        PlanSize("added p1000; planned anew: 651 of 1,001 patterns; 350 keep their plan", 600, 900, 17.0, 5, 7, 7),
    )
    parts = [
        JobPart(DAYS, 100.0, 300.0, 1_900_000, 7, ended=False),
        JobPart(DAYS, 80.0, 60.0, 1_200_000, 6, ended=True),
        JobPart(CHECK, 7.0, 7.0, 400_000, 1, ended=True),
        JobPart(ONE_MORE, 50.0, 90.0, 2_000_000, 7, ended=True),
    ]
    check = CheckSize("keep", 300, 45_600)
    result = WorkloadResult(project, tuple(parts), days[:2], days[2:], plans, check, 20, 456)
    jobs, seconds, plan = (table([result]) for table in (jobs_table, days_table, plans_table))
    (row,) = jobs.splitlines()[2:]
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        "real trades",
        "1,000",
        "2",
        "15,000",
        "20",
        "3.0 min in 2 parts",
        "6.0 min",
        "1.90 GB in 7",
        "20: equal (456)",
    ]
    assert " 30.00 s " in seconds.splitlines()[2] and " 500.0 ms " in seconds.splitlines()[3]
    for told_there in ("12,000,000", "600 of 900", "17.0 times less", "2.80 MB, 6.0 kB", "keep, 7.0 s", "45.6 kB"):
        assert f" {told_there} " in plan
    assert " 651 of 1,001 patterns " in plan and " 250.0 ms " in plan


def test_a_project_is_found_again_and_never_taken_for_another_one(tmp_path: Path) -> None:
    said: list[str] = []
    project = make_project(tmp_path, LITTLE_TRAFFIC, said.append)
    assert "generated ones take their place" in said[0] and len(project.statements) == 7
    assert make_project(tmp_path, LITTLE_TRAFFIC, said.append) == project and len(said) == 2
    with pytest.raises(InputError, match=r"holds a workload with search_s 0\.1, and 9\.0 is asked for"):
        make_project(tmp_path, replace(LITTLE_TRAFFIC, search_s=9.0))
    (project.folder / "workload.json").unlink()
    with pytest.raises(InputError, match="holds files, but no workload that was made to its end"):
        make_project(tmp_path, LITTLE_TRAFFIC)


def test_the_real_events_are_taken_where_all_of_them_are_there(tmp_path: Path) -> None:
    generated = make_project(tmp_path / "made", LITTLE_TRAFFIC)
    folder = tmp_path / "data" / "aarhus_traffic"
    folder.mkdir(parents=True)
    (folder / "2014-08.parquet").write_bytes((generated.folder / "raw" / "2014-08.parquet").read_bytes())
    project = make_project(tmp_path, replace(LITTLE_TRAFFIC, data=tmp_path / "data"))
    assert project.events.startswith("real readings") and project.statements == generated.statements
    project.use_master("local[1]")
    assert str(folder) in project.configuration.read_text()


def test_a_job_that_fails_says_why_and_is_begun_again(tmp_path: Path) -> None:
    project = make_project(tmp_path, LITTLE_TRAFFIC)
    broken = replace(project, statements=("NAME p PATTERN SEQ(",) * 7)
    for number in (1, 2):
        with pytest.raises(PatternError, match=r"patterns\.sase:1:20: expected an event type"):
            run_jobs(broken, "local[1]", Progress())
        assert [(part.job, part.ended) for part in parts_of(project)] == [(DAYS, False)] * number


def test_jobs_that_have_come_to_their_end_are_not_run_again(tmp_path: Path) -> None:
    project = Project(tmp_path, LITTLE_TRAFFIC, (), "")  # without patterns no job would get far
    parts = [JobPart(DAYS, 2.0, 1.0, 5, 1, ended=False)]
    parts += [JobPart(name, 2.0, 1.0, 5, 1, ended=True) for name in (DAYS, CHECK)]
    (tmp_path / PARTS).write_text("".join(json.dumps(vars(part)) + "\n" for part in parts))
    assert run_jobs(project, "local[1]", Progress()) == parts


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
