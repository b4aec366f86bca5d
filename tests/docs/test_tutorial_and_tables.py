"""The tutorial, step by step, and the queries of the page of the tables on the warehouse that the tutorial makes."""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from math import sin
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from pyiceberg.table import StaticTable

from cep_pipeline.pipeline.configuration import Configuration
from cep_pipeline.warehouse.layout import table_layouts
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.cli.command_line import Done, cep
from tests.docs.pages import blocks, table_after
from tests.events.raw import SHARED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = date(2025, 3, 4)
ENGINES = {"DuckDB": "duckdb", "Spark": "pyspark"}
Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> tuple[Path, list[tuple[str, str, Done]]]:
    """The folder after the tutorial, and of each command what the page says it prints and what it printed."""
    folder = tmp_path_factory.mktemp("tutorial")
    done: list[tuple[str, str, Done]] = []
    for block in blocks("tutorial.md"):
        if block.title:
            (folder / block.title).write_text(block.text)
        elif block.language == "console":
            for command, said in commands(block.text):
                done.append((command, said, run(command, folder)))
                assert done[-1][2].code == 0, (command, done[-1][2].errors)
    return folder, done


def commands(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a session at the terminal, and what the page says that each prints."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, _, said = part.partition("\n")
        yield command, said


def run(command: str, folder: Path) -> Done:
    program, *arguments = shlex.split(command)
    if program == "cep":
        return cep(*arguments, folder=folder)
    program = {"python": sys.executable}.get(program, program)
    ended = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    return Done(ended.returncode, ended.stdout, ended.stderr)


VARYING = (
    (re.compile(r"\d{8}T\d{6}-[0-9a-f]{6}"), "RUN"),
    (re.compile(r"((?:ingest|preprocess|publish|statistics|plan|detect \w+|took)) \d+\.\d"), r"\1 N"),
    (re.compile(r"[─ ]+"), " "),
)


def plain(text: str) -> list[str]:
    """The lines of an output without what is another each time, and without the widths of its columns."""
    for varying, instead in VARYING:
        text = varying.sub(instead, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def prints(said: str, printed: str) -> bool:
    """Compare an output with what a page says; `…` stands for any lines, and at the end of a line for its rest."""
    parts = [
        "".join(f"{re.escape(line).replace('…', '.*')}\n" for line in plain(part))
        for part in re.split("^…$", said, flags=re.M)
    ]
    return re.fullmatch("(?:.*\n)*?".join(parts), "".join(f"{line}\n" for line in plain(printed))) is not None


@pytest.mark.parametrize(
    ("said", "is_so"),
    [
        ("a\nb\n", True),
        ("a\n…\n", True),
        ("…\nb\n", True),
        ("a\n", False),
        ("b\n", False),
        ("b\na\n", False),
        ("…\nc\n…\n", False),
        ("a…\nb\n", True),
        ("b…\nb\n", False),
    ],
)
def test_outputs_are_compared_line_by_line(said: str, is_so: bool) -> None:
    assert prints(said, "a\nb\n") is is_so


def test_every_command_of_the_tutorial_prints_what_the_page_says(
    project: tuple[Path, list[tuple[str, str, Done]]],
) -> None:
    _, done = project
    assert [command.split()[1] for command, _, _ in done if command.startswith("cep")] == [
        "init",
        "preview",
        "detect",
        "check",
        "run",
        "run",
        "matches",
        "matches",
        "matches",
        "status",
        "why",
        "why-not",
        "why-not",
    ]
    for command, said, printed in done:
        assert prints(said, printed.errors + printed.output), f"{command}:\n{printed.errors}{printed.output}"


PARKING = "vehiclecount,updatetime,_id,totalspaces,garagecode,streamtime\n" + "".join(
    f"{int(spaces * (0.5 + 0.4 * sin(hour / 4 + spaces)))},2014-05-{22 + hour // 24} {hour % 24:02}:09:04.145,"
    f"{3 * hour + number},{spaces},{garage},2014-11-03 16:18:44\n"
    for hour in range(48)
    for number, (garage, spaces) in enumerate((("NORREPORT", 65), ("SKOLEBAKKEN", 512), ("SCANDCENTER", 1240)))
)
"""Two days of the garages of a city, in the layout in which the city publishes them: one file of all days."""
BARS = SHARED / "nasdaq_minute_bars" / "NASDAQ_SHORT.txt"


@dataclass(frozen=True)
class OwnFile:
    """A file that somebody brings along, and what they put in place of the example's words in the tutorial."""

    text: str
    zone: str
    days: tuple[str, str]
    place: str
    value: str
    window: str

    def commands(self) -> list[str]:
        """The `cep` commands of the tutorial, for this file, with the schema as it is proposed.

        Those that explain single matches name events of the tutorial's own data.
        """
        given = {
            "readings/2025-03-04.csv": "own.csv",
            "Europe/Copenhagen": self.zone,
            "proposed/streams/readings.yaml": "proposed/streams/own.yaml",
            "cold_rooms.yaml": "proposed/streams/own.yaml",
            "warming.sase": "rising.sase",
            "cep run": f"cep run --from {self.days[0]} --to {self.days[1]}",
            "temperature": self.value,
        }
        lines = [line for block in blocks("tutorial.md", "console") for line, _ in commands(block.text)]
        return [replaced(line, given) for line in lines if line.startswith("cep ") and "why" not in line]

    def write_files(self, folder: Path) -> None:
        """Write the file, the tutorial's pipeline.yaml for it, and a pattern of three values that rise."""
        (folder / "own.csv").write_text(self.text)
        (settings,) = (block.text for block in blocks("tutorial.md", "yaml") if block.title == "pipeline.yaml")
        given = {
            "cold_rooms.yaml": "proposed/streams/own.yaml",
            "cold_rooms": "own",
            ": readings": ": .",
            "warming": "rising",
        }
        (folder / "pipeline.yaml").write_text(replaced(settings, given))
        (folder / "rising.sase").write_text(
            f"NAME rising PATTERN SEQ(Event a, Event b, Event c) WHERE [{self.place}] "
            f"AND a.{self.value} < b.{self.value} AND b.{self.value} < c.{self.value} "
            f"WITHIN {self.window} RETURN a.{self.place} AS place"
        )


def replaced(text: str, given: dict[str, str]) -> str:
    return reduce(lambda made, one: made.replace(*one), given.items(), text)


def own_file(name: str) -> OwnFile:
    if name == "parking":
        days = ("2014-05-22", "2014-05-23")
        return OwnFile(PARKING, "Europe/Copenhagen", days, "garagecode", "vehiclecount", "2 hours")
    if not BARS.exists():
        pytest.skip(f"{BARS} is not there")
    days = ("2008-02-01", "2008-02-01")
    return OwnFile(BARS.read_text(), "America/New_York", days, "column_1", "column_7", "3 minutes")


@pytest.mark.long
@pytest.mark.parametrize("name", ["parking", "bars"])
def test_the_commands_of_the_tutorial_do_for_ones_own_file(name: str, tmp_path: Path, spark: SparkSession) -> None:
    own = own_file(name)
    own.write_files(tmp_path)
    printed = []
    for command in own.commands():
        printed.append(run(command, tmp_path))
        assert printed[-1].code == 0, (command, printed[-1].errors)
    made, preview, _, check, first, second, _, _, _, rejected = printed
    assert "made proposed/streams/own.yaml" in made.output
    assert f"{own.text.count(chr(10)) - (name == 'parking'):,} events, 0 rows rejected" in preview.output
    assert check.output == "1 stream, 1 pattern: no errors, 0 warnings\n"
    assert "all of it took" in first.output and "nothing to do for" in second.output + second.errors
    assert "own.csv" not in rejected.output
    found = (tmp_path / "matches.csv").read_text().count("\n") - 1
    published = Warehouse.open(tmp_path / "warehouse").open_stream("own")
    assert published.read_matches("alarms").num_rows == found > 0
    assert [str(day.day) for day in published.days()] == sorted(set(own.days))


def test_the_tutorial_names_the_dag_and_the_options_that_there_are(
    project: tuple[Path, list[tuple[str, str, Done]]],
) -> None:
    folder, _ = project
    script = Path(__file__).parents[2] / "scripts" / "airflow_local.py"
    (start, unpause, backfill) = [block.text for block in blocks("tutorial.md", "sh")]
    (config,) = re.findall(r"(--\w+) /path/to/the/project/pipeline.yaml", start)
    assert f'add_argument("{config}"' in script.read_text()
    (stream,) = Configuration.load(folder / "pipeline.yaml").stream_names()
    assert f"--dag-id daily_detection_{stream}" in backfill
    assert f"'_{stream}$'" in unpause


@pytest.fixture(scope="module")
def tables(project: tuple[Path, list[tuple[str, str, Done]]]) -> dict[str, list[dict[str, Any]]]:
    """The rows of the tables, read by the warehouse's own code."""
    folder, _ = project
    stream = Warehouse.open(folder / "warehouse").open_stream("cold_rooms")
    assert table_layouts(stream.events_schema).keys() >= {"events", "quarantine", "matches", "runs"}
    return {
        "matches": stream.read_matches("alarms").to_pylist(),
        "events": stream.read_events().to_pylist(),
        "quarantine": stream.read_quarantine().to_pylist(),
        "runs": [vars(record) for record in stream.runs()],
    }


def expected(tables: dict[str, list[dict[str, Any]]]) -> dict[str, Rows]:
    """The answers to the five questions of the page."""
    matches = [match for match in tables["matches"] if match["final_day"] == DAY]
    events = {event["seq"]: event for event in tables["events"]}
    returned = [json.loads(match["returns"]) for match in matches]
    return {
        "of_the_day": sorted(
            (
                (match["pattern"], match["start_ts"], match["end_ts"], values["room"], values["high"])
                for match, values in zip(matches, returned, strict=True)
            ),
            key=lambda row: row[2],
        ),
        "their_events": [
            (
                str(match["match_id"]),
                bound["variable"],
                *(events[bound["seq"]][name] for name in ("timestamp", "room", "temperature")),
            )
            for match in sorted(matches, key=lambda match: match["match_id"])
            for bound in match["bindings"]
        ],
        "by_pattern_and_day": [("warming", DAY, len(matches))],
        "rejected": sorted(
            tuple(row[name] for name in ("day", "file", "line", "reason")) for row in tables["quarantine"]
        ),
        "ended": sorted(
            (
                (
                    *(one[name] for name in ("day", "status", "events", "rejected")),
                    one["finished_at"] - one["started_at"],
                    one["error"],
                )
                for one in tables["runs"]
            ),
            key=lambda row: row[0],
        ),
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_answers_the_questions_of_the_page(
    engine: str,
    project: tuple[Path, list[tuple[str, str, Done]]],
    tables: dict[str, list[dict[str, Any]]],
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip(ENGINES[engine])
    right = expected(tables)
    assert len(right["of_the_day"]) == 6 and len(right["their_events"]) == 18 and len(right["ended"]) == 2
    folder, _ = project
    code = [block for block in blocks("tables.md", "python") if block.heading in ("Open the catalog", engine)]
    assert len(code) > 1
    found: dict[str, Any] = {}
    with chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in code:
            exec(compile(block.text, f"tables.md, {engine}", "exec"), found)
    for question in right if engine == "DuckDB" else ("of_the_day", "their_events"):
        assert rows(found[question]) == right[question], question
    if engine == "DuckDB":
        assert rows(found["number"]) == [(len(tables["events"]),)]
        (said,) = (block.text for block in blocks("tables.md", "text") if block.heading == engine)
        printed = [line for line in plain(capsys.readouterr().out) if line.startswith("│")]
        assert printed == plain(said)


def test_pandas_and_polars_take_what_the_page_says(
    project: tuple[Path, list[tuple[str, str, Done]]], tables: dict[str, list[dict[str, Any]]]
) -> None:
    folder, _ = project
    right = expected(tables)
    code = [
        block for block in blocks("tables.md", "python") if block.heading in ("Open the catalog", "pandas and Polars")
    ]
    found: dict[str, Any] = {}
    with chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in code:
            exec(compile(block.text, "tables.md, pandas and Polars", "exec"), found)
    assert len(found["of_the_day"]) == len(right["of_the_day"])
    assert sorted(found["by_pattern_and_day"].rows()) == sorted(right["by_pattern_and_day"])
    assert len(found["their_events"]) == sum(len(row["bindings"]) for row in tables["matches"])


def test_all_tables_are_opened_at_one_moment(
    project: tuple[Path, list[tuple[str, str, Done]]], tables: dict[str, list[dict[str, Any]]]
) -> None:
    folder, _ = project
    (block,) = (block for block in blocks("tables.md", "python") if block.heading == "All tables at one moment")
    found: dict[str, Any] = {}
    with chdir(folder):
        exec(compile(block.text, "tables.md, All tables at one moment", "exec"), found)
    bound = {one["seq"] for row in found["matches"].to_pylist() for one in row["bindings"]}
    assert bound and bound <= set(found["events"].column("seq").to_pylist())
    known = Warehouse.open(folder / "warehouse").open_stream("cold_rooms").snapshots
    assert {name: found["snapshots"][name] for name in known} == {name: number for name, (number, _) in known.items()}


def as_iceberg_tables(folder: Path) -> tuple[dict[str, Any], str]:
    """The names of the section before, among them the metadata files, and the query of DuckDB that reads one."""
    code = {block.heading: block.text for block in blocks("tables.md", "python")}
    found: dict[str, Any] = {}
    with chdir(folder):
        exec(compile(code["All tables at one moment"], "tables.md, All tables at one moment", "exec"), found)
    return found, code["As Iceberg tables"]


def test_other_engines_find_the_tables_in_the_catalog(
    project: tuple[Path, list[tuple[str, str, Done]]], tables: dict[str, list[dict[str, Any]]]
) -> None:
    folder, _ = project
    found, _ = as_iceberg_tables(folder)
    with chdir(folder):
        for name in ("matches", "events", "quarantine"):
            alone = StaticTable.from_metadata(found["files"][name])
            assert alone.scan().to_arrow().num_rows == len(tables[name]) > 0
            assert alone.current_snapshot() is not None
    # The rows that Iceberg's JDBC catalog of version V1 asks for.
    with sqlite3.connect(folder / "warehouse" / "catalog.db") as database:
        listed = database.execute(
            "SELECT table_name, metadata_location, previous_metadata_location FROM iceberg_tables WHERE catalog_name = "
            "'cep' AND table_namespace = 'cold_rooms' AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)"
        ).fetchall()
        spaces = database.execute(
            "SELECT DISTINCT namespace FROM iceberg_namespace_properties WHERE catalog_name = 'cep'"
        )
        assert spaces.fetchall() == [("cold_rooms",)]
    assert sorted(name for name, _, _ in listed) == sorted(
        ["events", "quarantine", "matches", "statistics", "plans", "decisions", "runs"]
    )


def test_duckdb_reads_iceberg_tables_by_its_extension(
    project: tuple[Path, list[tuple[str, str, Done]]], tables: dict[str, list[dict[str, Any]]]
) -> None:
    duckdb = pytest.importorskip("duckdb")
    try:
        duckdb.connect().execute("INSTALL iceberg; LOAD iceberg")
    except duckdb.Error as error:
        pytest.skip(f"no extension: {error}")
    found, query = as_iceberg_tables(project[0])
    with chdir(project[0]):
        exec(compile(query, "tables.md, As Iceberg tables", "exec"), found)
        assert rows(found["by_pattern_and_day"]) == expected(tables)["by_pattern_and_day"]


def rows(answer: Any) -> Rows:
    """The rows of what an engine answers, with times in UTC."""
    if hasattr(answer, "toArrow"):  # Spark
        answer = answer.toArrow()
    elif hasattr(answer, "to_arrow_table"):  # DuckDB
        answer = answer.to_arrow_table()
    return [tuple(_plain_value(value) for value in row.values()) for row in answer.to_pylist()]


def _plain_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, bytes | UUID):  # an engine without UUIDs has bytes
        return str(UUID(bytes=value) if isinstance(value, bytes) else value)
    if type(value).__name__ == "MonthDayNano":  # an interval of DuckDB
        return timedelta(days=value.days, microseconds=value.nanoseconds // 1000)
    return value.to_pytimedelta() if hasattr(value, "to_pytimedelta") else value


def test_the_page_shows_a_match_as_it_is(tables: dict[str, list[dict[str, Any]]]) -> None:
    match = tables["matches"][0]
    shown = dict(table_after("tables.md", "column | value"))
    assert shown["`match_id`"].strip("`") == str(match["match_id"])
    assert shown["`returns`"].strip("`") == match["returns"]
    bindings = ", ".join(f"{{{bound['variable']}, {bound['seq']}}}" for bound in match["bindings"])
    assert shown["`bindings`"].strip("`") == f"[{bindings}]"
    assert (
        shown["`start_ts`, `end_ts`"] == f"{match['start_ts']:%Y-%m-%d %H:%M} UTC, {match['end_ts']:%Y-%m-%d %H:%M} UTC"
    )
    assert shown["`final_day`"] == str(match["final_day"])


@pytest.mark.parametrize(
    ("output", "patterns", "row"),
    [("verbose", 1, 0), ("verbose", 2, 1), ("count", 2, 2)],
)
def test_files_of_detect_have_the_columns_that_the_page_says(
    output: str, patterns: int, row: int, project: tuple[Path, list[tuple[str, str, Done]]], tmp_path: Path
) -> None:
    import pyarrow.parquet as pq

    folder, _ = project
    statement = (folder / "warming.sase").read_text()
    both = f"{statement.strip()};\nNAME high PATTERN Reading a WHERE a.temperature > -15 WITHIN 1 second"
    (tmp_path / "patterns.sase").write_text(statement if patterns == 1 else both)
    said = table_after("tables.md", "output | one row is | columns")[row]
    assert f"`{output}`" in said[0]
    arguments = ["--schema", "cold_rooms.yaml", "--events", "readings/2025-03-04.csv", "--output", output]
    done = cep(
        "detect", "--patterns", tmp_path / "patterns.sase", *arguments, "--out", tmp_path / "out.parquet", folder=folder
    )
    assert done.code == 0, done.errors
    returned = ["room", "low", "high"] if (output, patterns) == ("verbose", 1) else []
    written = pq.read_table(tmp_path / "out.parquet")
    assert written.column_names == [*re.findall(r"`(\w+)`", said[2]), *returned]
    if output == "verbose" and patterns == 1:
        published = [binding["seq"] for binding in written["bindings"][0].as_py()]
        assert published == [812884339577586146, 812884339577586150, 812884339577586154]
