"""The files of `spark_jobs`: what they use of PySpark, and that spark-submit runs them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cep_pipeline.pipeline.day import STEPS
from cep_pipeline.pipeline.tasks import DayTask, run_step
from cep_pipeline.spark.session import java_environment
from tests.pipeline.project import MONDAY, TUESDAY, make_project, published

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKOUT = Path(__file__).parents[2]
JOBS = sorted(CHECKOUT.glob("spark_jobs/*.py"))


@pytest.mark.parametrize("path", [*JOBS, CHECKOUT / "cep_pipeline/spark/frames.py"], ids=lambda path: path.stem)
def test_jobs_use_only_what_spark_connect_has(path: Path) -> None:
    found = re.findall(r"sparkContext|SparkContext|\brdd\b|\._jdf|\._jvm|\._jspark|\._jc\b|py4j", path.read_text())
    assert not found


def submit(step: str, config: Path, result: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]"]
    command += [str(CHECKOUT / "spark_jobs" / f"{step}.py"), "--config", str(config), "--stream", "ticks"]
    environment = {**os.environ, **java_environment(), "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(CHECKOUT)}
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_CONNECT_MODE_ENABLED"):
        environment.pop(name, None)
    return subprocess.run(
        [*command, "--result", str(result), *arguments],
        env=environment,
        cwd=config.parent,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_spark_submit_ingests_and_preprocesses_a_day_and_other_tasks_go_on_from_there(
    tmp_path: Path, spark: SparkSession
) -> None:
    project = make_project(tmp_path, spark)
    project.write_day(MONDAY, ["00:00:00,A,1", "23:00:00,A,5", "00:10:00,B,3", "12:00:00,B,never"])
    config, handed, written = tmp_path / "pipeline.yaml", [], []
    for step in ("ingest", "preprocess"):
        given = [argument for path in written for argument in ("--given", str(path))]
        written.append(tmp_path / f"{step}.json")
        done = submit(step, config, written[-1], "--day", str(MONDAY), "--run-id", "submitted", *given)
        assert done.returncode == 0, done.stderr[-3000:]
        handed.append(json.loads(written[-1].read_text()))
    assert (handed[0]["counts"]["events"], handed[0]["counts"]["rejected"]) == (3, 1)
    task = DayTask(config, "ticks", MONDAY, "submitted")
    names = [step.name for step in STEPS]
    for step in names[names.index("preprocess") + 1 :]:
        handed.append(run_step(step, task, handed, spark=spark))
    project.run(warehouse="other").run_days([MONDAY])
    assert published(project.tables()) == published(project.tables("other"))
    assert len(published(project.tables())["matches"]) > 0

    (tmp_path / "raw" / f"{TUESDAY}.csv").unlink()
    done = submit("ingest", config, tmp_path / "none.json", "--day", str(TUESDAY))
    said = done.stdout + done.stderr  # Spark hands what the program says on as it likes
    assert done.returncode == 2 and "no file" in said and "Traceback" not in said
    assert not (tmp_path / "none.json").exists()
