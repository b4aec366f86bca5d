"""The Spark application that tasks share: one for all of them, whoever comes first and whatever is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from cep_pipeline.errors import CepError, DataError, InputError
from cep_pipeline.pipeline.day import STEPS
from cep_pipeline.pipeline.resident import FOLDER, Application, NoKeeperError, stop_applications
from cep_pipeline.pipeline.tasks import DayTask, redo_stale, run_step
from tests.pipeline.project import DAYS, MONDAY, ROWS, TUESDAY, WEDNESDAY, Project, make_project, published
from tests.pipeline.test_tasks import day_task
from tests.thoroughness import long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK = "spark.driver.extraJavaOptions: '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC'"
STEP_NAMES = [step.name for step in STEPS]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """The keepers' folder of this module. It has a short path, as sockets need one."""
    with tempfile.TemporaryDirectory(prefix="cep") as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER, made)
        yield Path(made)
        stop_applications(Path(made))
        assert list(Path(made).glob("*.sock")) == []


@pytest.fixture
def project(tmp_path: Path, spark: SparkSession, folder: Path) -> Project:
    made = make_project(tmp_path, spark)
    settings = f"spark: {{slices_per_core: 2, master: 'local[2]', idle_minutes: 30, properties: {{{QUICK}}}}}\n"
    text = (tmp_path / "pipeline.yaml").read_text()
    (tmp_path / "pipeline.yaml").write_text(text[: text.index("spark:")] + settings)
    return made


def run_day(task: DayTask) -> None:
    for step in STEP_NAMES:
        run_step(step, task)


def keepers(folder: Path) -> list[psutil.Process]:
    """The processes that listen in the folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ", "ppid"]):
        named = "cep_pipeline.pipeline.resident" in (process.info["cmdline"] or [])
        if named and (process.info["environ"] or {}).get(FOLDER) == str(folder):
            found.append(process)
    own = {process.pid for process in found}
    return [process for process in found if process.info["ppid"] not in own]


def java_of(keeper: psutil.Process) -> psutil.Process:
    (java,) = (process for process in keeper.children(recursive=True) if "java" in process.name())
    return java


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_days_begun_at_once_share_one_application_and_give_the_tables_of_one_run(
    project: Project, folder: Path
) -> None:
    with ThreadPoolExecutor(len(DAYS)) as pool:
        list(pool.map(run_day, [day_task(project, day) for day in DAYS]))
    (keeper,) = keepers(folder)
    java_of(keeper)
    redo_stale(project.folder / "pipeline.yaml", "ticks", "stale")
    project.run(warehouse="run").run_days(DAYS)
    assert published(project.tables()) == published(project.tables("run"))
    assert project.tables().stale_days() == []
    assert {record.status for record in project.tables().runs()} == {"succeeded"}


def test_a_step_of_a_run_that_has_ended_does_those_before_it_again(project: Project) -> None:
    task = day_task(project, MONDAY)
    run_day(task)
    before = published(project.tables())
    assert run_step("publish", task), "its first try had got through, and nobody had heard"
    for step in ("detect", "publish"):
        run_step(step, task)
    assert published(project.tables()) == before


def test_an_error_of_a_step_is_that_of_its_task(project: Project, caplog: pytest.LogCaptureFixture) -> None:
    project.write_day(MONDAY, [*ROWS[MONDAY], "23:59:59.999,C,-1"])
    task = day_task(project, MONDAY)
    with caplog.at_level("INFO", logger="cep_pipeline"):
        run_step("ingest", task)
    assert any("ingest in" in record.message for record in caplog.records), "its log is the task's"
    with pytest.raises(DataError, match="failed validation"):
        run_step("validate", task)
    with pytest.raises(InputError, match="run the day again from the step ingest"):
        run_step("validate", day_task(project, TUESDAY))


def test_a_day_that_was_changed_is_redone_by_the_job_of_stale_days(project: Project) -> None:
    for day in DAYS:
        run_day(day_task(project, day))
    configuration = project.folder / "pipeline.yaml"
    assert redo_stale(configuration, "ticks", "nothing") == []
    project.write_day(TUESDAY, ["00:00:00,A,5", "23:59:00,A,7"])
    assert redo_stale(configuration, "ticks", "stale") == [TUESDAY.isoformat(), WEDNESDAY.isoformat()]
    project.run(warehouse="run").run_days(DAYS)
    assert published(project.tables()) == published(project.tables("run"))


ONE_STEP = """
import sys
from datetime import date
from pathlib import Path
from cep_pipeline.pipeline.tasks import DayTask, run_step
run_step(sys.argv[2], DayTask(Path(sys.argv[1]), "ticks", date.fromisoformat(sys.argv[3]), "killed"))
"""


@pytest.mark.parametrize("number", long_but([signal.SIGKILL], [signal.SIGKILL, signal.SIGTERM]))
def test_a_task_that_is_killed_gives_its_day_back(project: Project, folder: Path, number: int) -> None:
    run_step("ingest", day_task(project, MONDAY))
    killed = DayTask(project.folder / "pipeline.yaml", "ticks", TUESDAY, "killed")
    run_step("ingest", killed)
    arguments = [str(killed.config), "preprocess", TUESDAY.isoformat()]
    # It waits for Monday, which has come no further.
    with subprocess.Popen([sys.executable, "-c", ONE_STEP, *arguments]) as task:
        warehouse = project.tables().warehouse
        wait_until(lambda: any(one.unit == f"day:{TUESDAY}" for one in warehouse.leases()), "the step did not begin")
        task.send_signal(number)
        task.wait()
    wait_until(lambda: warehouse.leases() == [], "the step of a task that has gone holds its lease")
    (keeper,) = keepers(folder)
    for day in (MONDAY, TUESDAY):
        run_day(day_task(project, day))
    assert [record.day for record in project.tables().days()] == [MONDAY, TUESDAY]
    assert keepers(folder) == [keeper], "the application lives on"


@pytest.mark.long
def test_a_keeper_that_is_terminated_interrupts_its_steps(project: Project, folder: Path) -> None:
    run_step("ingest", day_task(project, MONDAY))
    stopped = DayTask(project.folder / "pipeline.yaml", "ticks", TUESDAY, "killed")
    run_step("ingest", stopped)
    with subprocess.Popen(
        [sys.executable, "-c", ONE_STEP, str(stopped.config), "preprocess", TUESDAY.isoformat()],
        stderr=subprocess.PIPE,
        text=True,
    ) as task:
        tables = project.tables()
        wait_until(lambda: any(one.unit == f"day:{TUESDAY}" for one in tables.warehouse.leases()), "no step began")
        (keeper,) = keepers(folder)
        java = java_of(keeper)
        keeper.terminate()
        _, said = task.communicate()
    assert task.returncode == 1 and "CepError: Terminated" not in said and "KeyboardInterrupt" in said
    assert tables.warehouse.leases() == []
    (record,) = (run for run in tables.runs() if run.day == TUESDAY)
    assert record.status == "interrupted"
    wait_until(lambda: keepers(folder) == [] and not java.is_running(), "the application lives on")
    for day in (MONDAY, TUESDAY):
        run_day(day_task(project, day))
    assert [record.day for record in tables.days()] == [MONDAY, TUESDAY]


def tried(step: str, task: DayTask) -> int:
    """Do a step as a scheduler does, which tries again what may pass; returns how often it failed."""
    for failed in range(4):
        try:
            run_step(step, task)
        except CepError as error:
            assert error.exit_code == 1, error
            time.sleep(1)
        else:
            return failed
    raise AssertionError(f"{step} does not get through")


@pytest.mark.parametrize("part", long_but(["java"], ["java", "keeper"]))
def test_another_application_is_started_where_one_was_killed(project: Project, folder: Path, part: str) -> None:
    task = day_task(project, MONDAY)
    run_step("ingest", task)
    (keeper,) = keepers(folder)
    java = java_of(keeper)
    (java if part == "java" else keeper).kill()
    wait_until(lambda: not java.is_running() or java.status() == psutil.STATUS_ZOMBIE, "the JVM outlives its keeper")
    for step in STEP_NAMES[1:]:
        tried(step, task)
    (later,) = keepers(folder)
    assert (later == keeper) == (part == "java")
    assert java_of(later) != java
    project.run(warehouse="run").run_days([MONDAY])
    assert published(project.tables()) == published(project.tables("run"))


def test_an_application_ends_when_nobody_uses_it(folder: Path, project: Project) -> None:
    application = Application("local[1]", {}, idle_s=0.5, folder=folder)
    with pytest.raises(NoKeeperError):
        application.call("json:dumps", {}, start=False)
    with pytest.raises(CepError, match="TypeError: Object of type method is not JSON serializable"):
        application.call("json:dumps", {})
    socket = folder / f"{application.name}.sock"
    wait_until(lambda: not socket.exists(), "it does not end")
    wait_until(lambda: len(keepers(folder)) <= 1, "its keeper does not end")


def test_a_master_that_cannot_be_had_is_explained(project: Project, folder: Path) -> None:
    with pytest.raises(InputError, match="Spark master 'nowhere' is not known"):
        run_step("ingest", day_task(project, MONDAY), "nowhere")


def test_other_settings_are_another_application(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Application("local[2]", {"spark.driver.memory": "1g"}, folder=folder).name
    assert Application("local[2]", {"spark.driver.memory": "1g"}, folder=folder).name == first
    assert Application("local[2]", {"spark.driver.memory": "2g"}, folder=folder).name != first
    assert Application("local[3]", {"spark.driver.memory": "1g"}, folder=folder).name != first
    monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", "another")
    assert Application("local[2]", {"spark.driver.memory": "1g"}, folder=folder).name == first
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    assert Application("local[2]", {"spark.driver.memory": "1g"}, folder=folder).name != first


def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o755)
    with pytest.raises(InputError, match=f"mode 0700; name another one by {FOLDER}"):
        Application("local[1]", folder=open_to_all).call("json:dumps", {})
    with pytest.raises(InputError, match="too long for a socket"):
        Application("local[1]", folder=tmp_path / ("x" * 120)).call("json:dumps", {})


def test_no_secret_lies_in_the_folder(project: Project, folder: Path) -> None:
    run_step("ingest", day_task(project, MONDAY))
    listening = keepers(folder)
    assert folder.stat().st_mode & 0o077 == 0
    for path in folder.iterdir():
        if path.is_file():
            assert "secret" not in path.read_text(errors="replace")
    assert listening and not any("secret" in word for keeper in listening for word in keeper.cmdline())
    assert json.dumps(os.environ.get("PYSPARK_GATEWAY_SECRET")) == "null"
