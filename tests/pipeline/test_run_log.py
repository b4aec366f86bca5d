"""The log that is kept of a run: what is in it, and that nothing else is shown than without it."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from cep_pipeline.errors import CepError
from cep_pipeline.pipeline.run_log import kept_log, log_file, working_on
from tests.pipeline.project import DAYS, Project
from tests.pipeline.scheduler import Scheduler

LOGGER = logging.getLogger("cep_pipeline.pipeline.day_work")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_records_say_run_stream_day_and_step(tmp_path: Path) -> None:
    for run in ("one", "scheduled__2013-10-07T00:00:00+00:00"):
        with kept_log(tmp_path, "trades", run):
            LOGGER.info("begins")
            with working_on(day="2013-10-07", step="ingest"):
                LOGGER.debug("is not kept")
                LOGGER.warning("%s\nin two lines", "<b>")
            LOGGER.info("ends")
        kept = lines(log_file(tmp_path, "trades", run))
        assert [(one["level"], one["message"]) for one in kept] == [
            ("INFO", "begins"),
            ("WARNING", "<b>\nin two lines"),
            ("INFO", "ends"),
        ]
        assert all((one["run"], one["stream"], one["logger"]) == (run, "trades", LOGGER.name) for one in kept)
        assert [(one.get("day"), one.get("step")) for one in kept] == [
            (None, None),
            ("2013-10-07", "ingest"),
            (None, None),
        ]
    assert len(list((tmp_path / "trades").iterdir())) == 2
    LOGGER.info("belongs to nobody")
    assert len(lines(log_file(tmp_path, "trades", "one"))) == 3


def test_a_second_process_of_a_run_adds_to_its_file(tmp_path: Path) -> None:
    for number in range(2):
        with kept_log(tmp_path, "trades", "run"):
            LOGGER.info("task %d", number)
    assert [one["message"] for one in lines(log_file(tmp_path, "trades", "run"))] == ["task 0", "task 1"]


SHOWN = """
import logging, pathlib, sys
from cep_pipeline.pipeline.run_log import kept_log
def log():
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        logging.getLogger("cep_pipeline.spark").log(level, "at %d", level)
        logging.getLogger("other").log(level, "other %d", level)
folder = pathlib.Path(sys.argv[1]) if sys.argv[1] else None
with kept_log(folder, "s", "r"):
    log()
log()
"""


def test_nothing_else_is_shown_than_without_it(tmp_path: Path) -> None:
    """Of a program without handlers, where Python shows warnings."""
    shown = [
        subprocess.run([sys.executable, "-c", SHOWN, folder], capture_output=True, text=True, check=True).stderr
        for folder in ("", str(tmp_path))
    ]
    assert shown[0] == shown[1] == "at 30\nother 30\nat 40\nother 40\n" * 2
    assert [one["message"] for one in lines(tmp_path / "s" / "r.jsonl")] == ["at 20", "at 30", "at 40"]


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    with kept_log(tmp_path / "file", "trades", "run"):
        LOGGER.warning("work goes on")
    assert "the log of run run is not kept" in caplog.text
    assert "work goes on" in caplog.text


def test_a_failure_leaves_the_loggers_as_they_were(tmp_path: Path) -> None:
    package = logging.getLogger("cep_pipeline")
    before = package.level, [*package.handlers]
    with pytest.raises(CepError), kept_log(tmp_path, "trades", "run"):
        raise CepError("no")
    assert (package.level, package.handlers) == before


@pytest.mark.long
def test_runs_and_tasks_keep_their_log_and_name_it_in_their_record(project: Project) -> None:
    file = project.folder / "pipeline.yaml"
    file.write_text(file.read_text() + "\nlog: {folder: logs}\n")
    run = project.run()
    run.run_days(DAYS[:1])
    (record,) = project.tables().runs()
    kept = lines(Path(record.details["log"]))
    assert {"ingest", "preprocess", "publish"} <= {one.get("step") for one in kept}
    assert {one["run"] for one in kept} == {run.run_id}
    assert {one["day"] for one in kept if "day" in one} == {str(DAYS[0])}
    day: date = DAYS[1]
    scheduler = Scheduler(project)
    with project.tables().day_lease(day, run_id="another") as held:
        threading.Timer(2.0, held.release).start()
        scheduler.do(day, "ingest")
    scheduler.day(day, "validate")
    recorded = next(one for one in project.tables().runs() if one.day == day)
    assert {one.get("step") for one in lines(Path(recorded.details["log"]))} >= {"ingest", "publish"}
