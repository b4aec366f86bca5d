"""What the project was ordered to be: its top level, its packages, and who does the work."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from cep_pipeline.pipeline.day import STEPS
from cep_pipeline.spark.session import java_environment
from tests.pipeline.project import MONDAY, make_project

CHECKOUT = Path(__file__).resolve().parents[1]
TOP_LEVEL = ("dags", "cep_pipeline", "spark_jobs", "plugins", "tests", "docker-compose.yaml", "pyproject.toml")
PACKAGES = (
    "apache-airflow",
    "apache-airflow-providers-apache-spark",
    "pyspark",
    "great-expectations",
    "pyarrow",
    "pytest",
)
SPARK_STEPS = [step.name for step in STEPS if step.needs_spark]


def test_the_top_level_and_the_packages() -> None:
    assert [name for name in TOP_LEVEL if not (CHECKOUT / name).exists()] == []
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    listed = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    names = {text.split("[")[0].split(">")[0].split("=")[0].split("<")[0].split("~")[0] for text in listed}
    assert [name for name in PACKAGES if name not in names] == []


def imports(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                yield path, node.module
            elif isinstance(node, ast.Import):
                yield from ((path, alias.name) for alias in node.names)


def test_the_dags_work_by_the_operators_of_the_spark_provider() -> None:
    used = {module for _, module in imports(CHECKOUT / "dags")}
    assert {
        "airflow.providers.apache.spark.operators.spark_pyspark",
        "airflow.providers.apache.spark.operators.spark_submit",
    } <= used


@pytest.mark.parametrize("folder", ["cep_pipeline/spark", "spark_jobs"])
def test_code_on_spark_uses_what_spark_connect_has_too(folder: str) -> None:
    """No RDD, no Spark context, no gateway to the JVM."""
    classic = {"rdd", "sparkContext", "_jvm", "_jdf", "_jsc", "_jsparkSession", "_gateway", "SparkContext", "SparkConf"}
    found = [
        f"{path.name}:{node.lineno}: {node.attr}"
        for path in sorted((CHECKOUT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in classic
    ]
    found += [f"{path}: {module}" for path, module in imports(CHECKOUT / folder) if module.startswith("py4j")]
    assert found == []


def test_each_spark_step_is_a_program_of_its_own() -> None:
    programs = {path.stem for path in (CHECKOUT / "spark_jobs").glob("*.py")} - {"__init__"}
    assert programs >= set(SPARK_STEPS)


def submit(program: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]"]
    command += ["--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"]
    command += [str(CHECKOUT / "spark_jobs" / f"{program}.py"), *arguments]
    environment = {
        **os.environ,
        **java_environment(),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(CHECKOUT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):
        environment.pop(name, None)
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_the_programs_run_by_spark_submit_one_after_the_other(tmp_path: Path) -> None:
    """Each takes what the ones before have written; the last one has the matches of `cep run`."""

    project = make_project(tmp_path, None)  # type: ignore[arg-type]
    given: list[str] = []
    for program in SPARK_STEPS:
        result = tmp_path / f"{program}.json"
        asked = ["--stream", "ticks", "--day", str(MONDAY), "--run-id", "submitted", "--result", str(result)]
        done = submit(program, tmp_path, *asked, *given)
        assert done.returncode == 0, done.stderr[-3000:]
        given += ["--given", str(result)]
    assert json.loads((tmp_path / "ingest.json").read_text())["counts"]["events"] > 0
    found = json.loads((tmp_path / "detect.json").read_text())["counts"]["matches"]["all"]
    assert sum(found.values()) > 0
    assert project.tables().days() == [], "they publish nothing"
    wrong = submit("ingest", tmp_path, "--stream", "none", "--day", str(MONDAY), "--result", str(tmp_path / "no.json"))
    assert wrong.returncode == 2 and "configured are ticks" in wrong.stdout + wrong.stderr
    assert json.loads((tmp_path / "no.json").read_text())["exit_code"] == 2
