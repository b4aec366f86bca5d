"""`cep -v` and `-vv`: what is logged, where it is shown, and what stays quiet."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cep_pipeline.cli import _is_no_interrupt
from tests.cli.command_line import Done, cep
from tests.pipeline.project import make_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKOUT = Path(__file__).parents[2]
RECORD = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (INFO|DEBUG) +(cep_pipeline\.[\w.]+): (.+)$", re.M)


@pytest.fixture(autouse=True)
def _quiet_afterwards() -> Iterator[None]:
    package = logging.getLogger("cep_pipeline")
    before = package.level, [*package.handlers]
    yield
    package.level, package.handlers = before
    logging.getLogger().manager._clear_cache()  # type: ignore[attr-defined]  # loggers remember what is enabled


def records(done: Done) -> set[tuple[str, str]]:
    """(level, logger) of what was logged."""
    return {(level, name) for level, name, _ in RECORD.findall(done.errors)}


def detect(folder: Path, *before: str) -> Done:
    (folder / "schema.yaml").write_text(
        "name: letters\ntype_attribute: kind\nattributes: {kind: string, x: int64}\n"
        "timestamp: {column: at, format: iso}\ntimezone: UTC\nsource: {format: csv, path: '{day:%Y-%m-%d}.csv'}\n"
    )
    (folder / "events.csv").write_text("at,kind,x\n2024-03-04T10:00:00Z,A,1\n2024-03-04T10:00:01Z,B,2\n")
    (folder / "rise.sase").write_text("NAME rise PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 5 seconds")
    files = "--patterns", "rise.sase", "--schema", "schema.yaml", "--events", "events.csv", "--out", "found.csv"
    planned = "--planner", "greedy"  # without one, none is asked about two events
    done = cep(*before, "detect", *files, *planned, folder=folder)
    assert done.code == 0, done.errors
    return done


def test_without_v_nothing_is_logged(tmp_path: Path) -> None:
    assert records(detect(tmp_path)) == set()


def test_v_logs_what_is_done_and_vv_each_decision(tmp_path: Path) -> None:
    once, twice = records(detect(tmp_path, "-v")), records(detect(tmp_path, "-vv"))
    assert {level for level, _ in once} == {"INFO"}
    assert {("INFO", "cep_pipeline.statistics.estimate"), ("INFO", "cep_pipeline.planning.make_plan")} <= once
    assert once < twice
    assert ("DEBUG", "cep_pipeline.planning.make_plan") in twice


def test_the_log_goes_to_stderr_and_not_among_the_results(tmp_path: Path) -> None:
    assert detect(tmp_path, "-vv").output == detect(tmp_path).output


def test_a_run_logs_its_steps_with_run_stream_and_day(tmp_path: Path, spark: SparkSession) -> None:
    project = make_project(tmp_path, spark)
    arguments = "--master", "local[2]", "--day", "2024-03-04", "--run-id", "logged"
    done = cep("-vv", "run", *arguments, folder=project.folder)
    assert done.code == 0, done.errors
    found = RECORD.findall(done.errors)
    steps = [text for level, name, text in found if (level, name) == ("INFO", "cep_pipeline.pipeline.day_work")]
    for step in ("ingest", "preprocess", "statistics", "detect all", "publish"):
        assert any(text.startswith(f"run logged: ticks 2024-03-04: {step} in ") for text in steps), step
    packages = {name.split(".")[1] for _, name, _ in found}
    assert {"pipeline", "spark", "warehouse"} <= packages


def test_a_run_and_its_record(tmp_path: Path, spark: SparkSession) -> None:
    """`cep status --run` shows the run."""
    project = make_project(tmp_path, spark)
    arguments = "--master", "local[2]", "--day", "2024-03-04", "--run-id", "logged"
    done = cep("run", *arguments, folder=project.folder)
    assert done.code == 0, done.errors
    status = cep("status", "--run", "logged", folder=project.folder)
    assert status.code == 0
    assert "run logged, 2024-03-04: succeeded" in status.output
    (record,) = project.tables().runs()
    for pattern, number in record.matches.items():
        assert re.search(rf"matches of {re.escape(pattern)} .* {number:,}\b", status.output)
    unknown = cep("status", "--run", "no such run", folder=project.folder)
    assert unknown.code == 2 and "no run 'no such run' is recorded" in unknown.errors


def test_every_logger_is_used_and_named_after_its_module() -> None:
    for file in sorted((CHECKOUT / "cep_pipeline").rglob("*.py")):
        text = file.read_text()
        made = re.findall(r"^(\w+) = logging\.getLogger\((.*)\)$", text, re.M)
        assert all(argument == "__name__" for _, argument in made), file
        for name, _ in made:
            assert re.search(rf"\b{name}\.\w+[(,]", text), f"{file} never logs"


def test_errors_of_a_connection_that_ctrl_c_broke_off_are_not_shown() -> None:
    def record(error: BaseException) -> logging.LogRecord:
        return logging.LogRecord("py4j.clientserver", logging.ERROR, "", 0, "closing", (), (type(error), error, None))

    try:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise BrokenPipeError("the connection is closed") from None
    except BrokenPipeError as error:
        broken = error
    assert not _is_no_interrupt(record(broken)) and not _is_no_interrupt(record(KeyboardInterrupt()))
    assert _is_no_interrupt(record(BrokenPipeError("the JVM has ended")))
    assert _is_no_interrupt(logging.LogRecord("py4j", logging.ERROR, "", 0, "no error", (), None))
