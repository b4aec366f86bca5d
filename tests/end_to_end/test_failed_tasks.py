"""Tasks that fail after they wrote: what they left is never published, whether Spark tries them again or not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cep_pipeline.spark.detection
import spark_jobs.preprocess
from cep_pipeline.errors import CepError
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.pipeline.project import DAYS, TUESDAY, Project, make_project, published

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path, spark: SparkSession) -> Project:
    return make_project(tmp_path, spark)


def failing_after(task: Callable[..., Any], number: int) -> Callable[..., Any]:
    """The task function, but the task of this number fails when it has done its work."""

    def work_and_fail(*arguments: Any) -> Any:
        result = task(*arguments)
        task_of_job = arguments[-2]
        found = task_of_job[0] if isinstance(task_of_job, tuple) else getattr(task_of_job, "number", task_of_job)
        if found == number:
            raise OSError("the worker is lost")
        return result

    return work_and_fail


def files_of(project: Project, table: str) -> set[str]:
    return {str(path) for path in (project.folder / "warehouse" / "ticks" / table / "data").rglob("*.parquet")}


@pytest.mark.long
@pytest.mark.parametrize(
    ("module", "function", "number", "table"),
    [
        (spark_jobs.preprocess, "_write_range", 0, "events"),
        (spark_jobs.preprocess, "_write_quarantine_of_day", 0, "quarantine"),
        (cep_pipeline.spark.detection, "_detect", 0, "matches"),
    ],
)
def test_a_task_that_fails_after_it_wrote_adds_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch, module: Any, function: str, number: int, table: str
) -> None:
    rows = ["00:00:00,A,1", "00:10:00,B,3", "00:20:00,A,5", "00:30:00,A,never"]
    project.run().run_days(DAYS)
    before, files_before = published(project.tables()), files_of(project, table)
    project.write_day(TUESDAY, rows)
    with monkeypatch.context() as patch:
        patch.setattr(module, function, failing_after(getattr(module, function), number))
        with pytest.raises(CepError, match="OSError: the worker is lost"):
            project.run(run_id="failing").run_days([TUESDAY])
    left = files_of(project, table) - files_before
    assert left, "no task had written a file: the test tests nothing"
    after = published(project.tables())
    if table == "matches":  # its events were published before detection began
        assert after["matches"] == before["matches"]
    else:
        assert after == before
    assert next(run for run in project.tables().runs() if run.run_id == "failing").status == "failed"

    project.run().run_days(DAYS)
    project.run(warehouse="undisturbed").run_days(DAYS)
    assert published(project.tables()) == published(project.tables("undisturbed"))
    age = 2 * 86_400
    for path in left:
        os.utime(path, (Path(path).stat().st_mtime - age,) * 2)
    Warehouse.open(project.folder / "warehouse").maintain()
    assert not left & files_of(project, table)
    assert published(project.tables()) == published(project.tables("undisturbed"))


TWO_ATTEMPTS = """
import sys
from pathlib import Path

import cep_pipeline.spark.detection as detection
import spark_jobs.preprocess as preprocessing
from cep_pipeline.spark.session import spark_session
from tests.pipeline.project import DAYS, Project

def failing_at_first(task):
    def work(*arguments):
        result = task(*arguments)
        if arguments[-1] == 0:
            raise OSError("the worker is lost")
        return result
    return work

preprocessing._write_range = failing_at_first(preprocessing._write_range)
detection._detect = failing_at_first(detection._detect)
spark = spark_session("local[2,2]", properties={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
project = Project(Path(sys.argv[1]), spark)
project.run(run_id="retried").run_days(DAYS)
"""


@pytest.mark.long
def test_of_two_attempts_only_the_files_of_the_successful_one_are_published(project: Project) -> None:
    """Every task that writes what is published fails at its first attempt, after it wrote, and is tried again."""
    done = subprocess.run(
        [sys.executable, "-c", TWO_ATTEMPTS, str(project.folder)],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    project.run(warehouse="undisturbed").run_days(DAYS)
    assert published(project.tables()) == published(project.tables("undisturbed"))
    written = files_of(project, "events")
    named = {file.path for file in project.tables().events_files()}
    attempts = {path: Path(path).stem.split("-")[-2] for path in written}
    assert {attempts[path] for path in named} == {"1"}
    assert {attempts[path] for path in written - named} == {"0"}
    assert len(written) == 2 * len(named)
    matches = [Path(path).stem.split("-")[-2] for path in files_of(project, "matches")]
    # Those of both attempts stay until `cep maintain`.
    assert set(matches) == {"0", "1"}
