"""The commands at work: what they print and write, on a small published project and on generated files."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest

import cep_pipeline as cep_package
from cep_pipeline.detection import planned
from cep_pipeline.pipeline.configuration import Configuration
from cep_pipeline.planning import PLANNERS
from tests.cli.command_line import CHECKOUT, Done, cep, cep_process, run_python
from tests.pipeline.project import DAYS, MONDAY, ROWS, Project, make_project, published

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATTERNS = CHECKOUT / "patterns" / "generated_trades.sase"
SCHEMA = CHECKOUT / "streams" / "generated_trades.yaml"


@pytest.fixture(scope="module")
def trades(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generated day of trades, in its raw layout."""
    folder = tmp_path_factory.mktemp("trades")
    made = cep("generate", "--days", "1", "--stocks", "4", "--events-per-day", "4000", "--out", "raw", folder=folder)
    assert (made.code, made.output) == (0, "")
    assert "2025-01-06: 3,9" in made.errors and "raw/2025-01-06/trades.csv.gz" in made.errors
    return folder


def over_files(folder: Path) -> list[str | Path]:
    return ["--patterns", PATTERNS, "--schema", SCHEMA, "--events", folder / "raw/2025-01-06/trades.csv.gz"]


@pytest.mark.long
def test_run_ends_with_a_summary_that_a_person_can_read(published_project: tuple[Project, Done]) -> None:
    project, done = published_project
    steps = [line for line in done.errors.splitlines() if not line.startswith(("WARNING", "Setting", "To adjust"))]
    assert steps[:2] == ["ingest 3 days, 2024-03-04 to 2024-03-06", "start Spark"]
    assert "2024-03-06: detect all" in steps
    tables = project.tables()
    for record in tables.days():
        assert f"{record.day} │ {record.events:>6}" in done.output
    matches = published(tables)["matches"]
    for name in ("rising", "pairs", "jumps"):
        assert f"{sum(row['pattern'] == name for row in matches)} │" in line_with(done.output, f"│ {name} ", last=True)
    assert "plan 1 of all, because: first plan of the pattern set, by the statistics of 2024-03-04" in done.output
    for word in ("rejected", "tables in warehouse", "cep matches --stream ticks", "all of it took"):
        assert word in done.output


def line_with(text: str, words: str, *, last: bool = False) -> str:
    lines = [line for line in text.splitlines() if words in line]
    assert lines, f"no line with {words!r} in\n{text}"
    return lines[-1 if last else 0]


def test_a_published_match_is_explained_by_the_number_that_matches_shows(project: Project) -> None:
    shown = cep("matches", "--pattern", "rising", folder=project.folder)
    numbers = [int(row.split("│")[2]) for row in shown.output.splitlines() if row.startswith("│ rising")]
    assert numbers == list(range(1, len(numbers) + 1))
    assert "`cep why rising 1 --stream ticks` explains a match" in shown.output
    listed = json.loads(cep("matches", "--pattern", "rising", "--json", folder=project.folder).output)["matches"]
    assert [row.split("│")[3].strip() for row in shown.output.splitlines() if row.startswith("│ rising")] == [
        row["match_id"][:8] for row in listed
    ]
    assert "a 2024-03-04 23:20:00.000 A x 2" in shown.output
    by_id = json.loads(cep("why", listed[0]["match_id"][:8], "--json", folder=project.folder).output)
    assert by_id["match_id"] == listed[0]["match_id"]
    one = json.loads(cep("matches", "--match", listed[1]["match_id"][:8], "--json", folder=project.folder).output)
    assert one["matches"] == [listed[1]]
    for number in (1, len(listed)):
        told = json.loads(cep("why", "rising", str(number), "--json", folder=project.folder).output)
        assert told["match_id"] == listed[number - 1]["match_id"]
    of_day = json.loads(cep("why", "rising", "1", "--day", "2024-03-05", "--json", folder=project.folder).output)
    assert of_day["match_id"] == next(row for row in listed if row["final_day"] == "2024-03-05")["match_id"]
    assert "has 24 matches that are published" in cep("why", "rising", "25", folder=project.folder).error
    # Of several pattern sets that one is meant which has the pattern.
    (project.folder / "more.sase").write_text("NAME more PATTERN A a WITHIN 1 second")
    settings = project.folder / "pipeline.yaml"
    settings.write_text(settings.read_text().replace("      all: ", "      more: {file: more.sase}\n      all: "))
    assert json.loads(cep("why", "rising", "1", "--json", folder=project.folder).output)["is_match"]
    assert cep("why-not", "--pattern", "more", folder=project.folder).output.startswith("more: ")
    for asked in (["why", "other", "1"], ["why", listed[0]["match_id"]], ["why-not"]):
        assert "there are several pattern sets: more, all" in cep(*asked, folder=project.folder).error


def test_a_second_run_says_that_there_was_nothing_to_do(project: Project) -> None:
    done = cep("run", "--from", "2024-03-04", "--to", "2024-03-06", folder=project.folder)
    assert done.code == 0
    assert "nothing to do for 3 days (--redo does them again)" in done.output
    assert "start Spark" not in done.errors


HEAVY = (
    *("sqlalchemy.orm", "pyspark", "great_expectations", "numba", "llvmlite"),
    *("scipy", "matplotlib", "altair", "cep_pipeline.detection.mechanisms"),
)
"""Modules that take long to import, and of which no answer at once has need."""

ANSWERS_AT_ONCE = {
    "nothing to do": ("run", "--from", "2024-03-04", "--to", "2024-03-06"),
    "status": ("status",),
    "explain": ("explain",),
    "matches": ("matches", "--limit", "1"),
}


def test_answers_at_once_import_nothing_heavy(project: Project) -> None:
    code = f"""
import sys
from cep_pipeline.cli import main
for name, arguments in {ANSWERS_AT_ONCE!r}.items():
    sys.argv = ["cep", *arguments]
    main()
    print("imported", name, *[one for one in {HEAVY!r} if one in sys.modules])
"""
    done = run_python(code, folder=project.folder)
    assert done.code == 0, done.errors
    said = [line for line in done.output.splitlines() if line.startswith("imported ")]
    assert said == [f"imported {name}" for name in ANSWERS_AT_ONCE]
    for words in ("rising", "stream ticks", "pattern rising: skip_till_any_match", "nothing to do for 3 days"):
        assert words in done.output
    there = [name for name in HEAVY if importlib.util.find_spec(name.partition(".")[0])]
    assert {"pyspark", "numba"} <= {*there}, "a renamed module is never heavy"


def test_detection_over_files_imports_no_catalog(trades: Path) -> None:
    code = """
import sys
from cep_pipeline.cli import main
sys.argv = ["cep", "detect", *sys.argv[1:]]
main()
heavy = ("sqlalchemy", "pyiceberg", "pyspark", "numba", "sqlglot")
print("imported", *[one for one in heavy if one in sys.modules])
"""
    done = run_python(code, *over_files(trades), "--out", "light.parquet", folder=trades)
    assert done.code == 0, done.errors
    assert done.output.splitlines()[-1:] == ["imported"]
    assert pq.read_metadata(trades / "light.parquet").num_rows > 0


def test_a_day_can_be_redone_and_stale_days_are_none(project: Project) -> None:
    done = cep("run", "--day", "2024-03-05", "--redo", "--run-id", "again", folder=project.folder)
    assert done.code == 0
    assert "run again" in done.output
    assert cep("run", "--stale", folder=project.folder).code == 0
    assert {run.day for run in project.tables().runs() if run.run_id == "again"} == {DAYS[1]}


def test_matches_are_shown_counted_and_written(project: Project) -> None:
    all_matches = published(project.tables())["matches"]
    shown = cep("matches", "--day", "2024-03-04", "--pattern", "rising", folder=project.folder)
    wanted = [m for m in all_matches if m["final_day"] == MONDAY and m["pattern"] == "rising"]
    assert shown.code == 0 and wanted
    assert sum("│ rising" in line for line in shown.output.splitlines()) == len(wanted)
    assert "step = " in shown.output

    counted = cep("matches", "--count", folder=project.folder)
    for day in DAYS:
        number = sum(m["final_day"] == day and m["pattern"] == "pairs" for m in all_matches)
        line = next(line for line in counted.output.splitlines() if str(day) in line and "pairs" in line)
        assert line.split("│")[3].strip() == str(number)

    for ending in (".parquet", ".csv", ".json"):
        written = cep("matches", "--out", f"found{ending}", folder=project.folder)
        assert f"{len(all_matches)} matches written to found{ending}" in written.output
    # No pattern of the set composes others: the file has no column for that.
    without = [{name: value for name, value in match.items() if name != "composed"} for match in all_matches]
    assert pq.read_table(project.folder / "found.parquet").to_pylist() == without
    rows = [json.loads(line) for line in (project.folder / "found.json").read_text().splitlines()]
    assert [row["match_id"] for row in rows] == [str(row["match_id"]) for row in all_matches]
    lines = (project.folder / "found.csv").read_text().splitlines()
    assert len(lines) == len(all_matches) + 1 and "match_id" in lines[0]


def test_a_match_shows_its_events_in_the_time_of_the_stream(project: Project) -> None:
    published_now = published(project.tables())
    of_seq = {event["seq"]: event for event in published_now["events"]}
    wanted = [m for m in published_now["matches"] if m["pattern"] == "rising"]
    done = cep("matches", "--events", "--limit", "2", "--json", folder=project.folder)
    document = json.loads(done.output)
    assert document["timezone"] == "America/New_York"
    assert document["totals"]["rising"] == len(wanted) > 2
    by_pattern = {name: [m for m in document["matches"] if m["pattern"] == name] for name in document["totals"]}
    assert {name: len(listed) for name, listed in by_pattern.items()} == dict.fromkeys(by_pattern, 2)
    for shown, match in zip(by_pattern["rising"], wanted, strict=False):
        assert shown["match_id"] == str(match["match_id"])
        assert datetime.fromisoformat(shown["end"]) == match["end_ts"]
        assert [(event["variable"], event["seq"]) for event in shown["events"]] == [
            (bound["variable"], bound["seq"]) for bound in match["bindings"]
        ]
        for event in shown["events"]:
            right = of_seq[event["seq"]]
            assert event["attributes"] == {name: right[name] for name in ("kind", "x", "diff")}
            assert datetime.fromisoformat(event["timestamp"]) == right["timestamp"]
            assert event["timestamp"].endswith("-05:00")
    assert set(by_pattern["pairs"][0]["events"][0]["attributes"]) == {"kind", "x"}

    shown = cep("matches", "--events", "--pattern", "jumps", "--day", "2024-03-04", folder=project.folder)
    assert re.search(r"│ 1 +│ a +│ 2024-03-04 23:30:00.000 │ A +│ 2 ", shown.output)
    assert "time (America/New_York)" in shown.output


def test_a_match_is_drawn_in_a_file(project: Project) -> None:
    rising = [m for m in published(project.tables())["matches"] if m["pattern"] == "rising"]
    done = cep("matches", "--pattern", "rising", "--chart", "m.svg", folder=project.folder)
    drawn = (project.folder / "m.svg").read_text()
    assert done.output == f"match {rising[0]['match_id']} of rising is drawn in m.svg\n"
    assert drawn.count("<title>") == 3 and "2024-03-04 23:" in drawn
    chosen = ("--match", str(rising[-1]["match_id"]))
    done = cep("matches", *chosen, "--chart", "m.html", "--attribute", "diff", "--json", folder=project.folder)
    assert [one["match_id"] for one in json.loads(done.output)["matches"]] == [chosen[1]] and "m.html" in done.errors
    assert re.search("c: diff [0-9-]+, 2024-03-06 00:", (project.folder / "m.html").read_text())
    wrong = {
        "'none'": ("--match", "none"),
        "name it": ("--chart", "m.gif"),
        "'kind' is none": ("--chart", "m.svg", "--attribute", "kind"),
        "--count and --chart do not go together": ("--chart", "m.svg", "--count"),
        "there is no match to draw": ("--chart", "m.svg", "--day", "2024-03-01"),
    }
    for said, arguments in wrong.items():
        done = cep("matches", *arguments, folder=project.folder)
        assert done.code == 2 and said in done.error


def test_the_events_of_all_matches_are_written_a_row_each(project: Project) -> None:
    published_now = published(project.tables())
    of_seq = {event["seq"]: event for event in published_now["events"]}
    written = cep("matches", "--events", "--out", "events.parquet", folder=project.folder)
    rows = pq.read_table(project.folder / "events.parquet").to_pylist()
    assert f"{len(rows)} events written to events.parquet" in written.output
    assert [(row["match_id"], row["variable"], row["x"], row["timestamp"]) for row in rows] == [
        (match["match_id"], bound["variable"], of_seq[bound["seq"]]["x"], of_seq[bound["seq"]]["timestamp"])
        for match in published_now["matches"]
        for bound in match["bindings"]
    ]


def test_the_limit_is_of_each_pattern(project: Project) -> None:
    shown = cep("matches", "--limit", "1", folder=project.folder).output
    for name in ("rising", "pairs", "jumps"):
        assert sum(f"│ {name} " in line for line in shown.splitlines()) == 1
    assert "at most 1 match of each pattern" in shown
    none = json.loads(cep("matches", "--json", "--day", "2024-03-01", folder=project.folder).output)
    assert (none["matches"], none["totals"]) == ([], {})
    counts = json.loads(cep("matches", "--count", "--json", folder=project.folder).output)["counts"]
    assert sum(row["matches"] for row in counts) == len(published(project.tables())["matches"])
    for wrong in (("--count", "--events"), ("--json", "--out", "m.csv")):
        assert cep("matches", *wrong, folder=project.folder).code == 2


def test_matches_are_shown_beside_a_wrong_pattern_file(project: Project) -> None:
    (project.folder / "all.sase").write_text("NAME rising PATTERN")
    shown = cep("matches", "--pattern", "rising", folder=project.folder)
    assert shown.code == 0 and "a 2024-03-04 23:20:00.000 A x 2" in shown.output
    assert cep("matches", "--events", folder=project.folder).code == 2


def test_a_change_of_patterns_is_shown_and_nothing_published(project: Project) -> None:
    none = cep("diff", folder=project.folder)
    assert (none.code, none.output) == (0, "ticks: no pattern has changed since the days were published\n")
    text = (project.folder / "all.sase").read_text()
    (project.folder / "all.sase").write_text(text.replace("WHERE a.x < b.x WITHIN 40", "WHERE a.x + 2 < b.x WITHIN 40"))
    shown = cep("diff", "--examples", "1", folder=project.folder)
    assert shown.code == 0, shown.errors
    assert "all.pairs (changed) gains 0 and loses" in shown.output and "a.x + 2 < b.x (4 < 4)" in shown.output
    assert "`cep run --stream ticks --stale` publishes the change" in shown.output
    found = json.loads(cep("diff", "pairs", "--day", "2024-03-04", "--json", folder=project.folder).output)
    [of_day] = found["days"]
    assert (of_day["published"], of_day["lost"], of_day["day"]) == (1, 1, "2024-03-04")
    refused = cep("diff", "nobody", folder=project.folder)
    assert refused.code == 2 and "there is no pattern 'nobody'" in refused.error


def test_a_question_without_matches_is_answered(project: Project) -> None:
    done = cep("matches", "--day", "2024-03-01", folder=project.folder)
    assert (done.code, done.output) == (0, "no matches; `cep status --stream ticks` shows which days are published\n")


def test_status_shows_days_plan_runs_and_what_is_stale(project: Project) -> None:
    done = cep("status", folder=project.folder)
    assert done.code == 0
    for record in project.tables().days():
        assert f"│ {record.day} │ {record.events:>6} │" in done.output
    assert "plan of all: version 1" in done.output and "succeeded" in done.output
    assert "--stale" not in done.output
    project.write_day(MONDAY, ["00:00:00,A,1"])
    with project.tables().day_lease(DAYS[2], run_id="running"):
        stale = cep("status", "--runs", "0", folder=project.folder)
    assert "1 stale day; `cep run --stream ticks --stale` redoes them" in stale.output
    assert "2024-03-04.csv" in line_with(stale.output, "2024-03-04")
    assert "held: ticks day:2024-03-06 by run running" in stale.output
    assert "succeeded" not in stale.output


def test_status_for_machines_is_one_document(project: Project, tmp_path: Path) -> None:
    done = cep("status", "--json", folder=project.folder)
    assert done.code == 0, done.errors
    (told,) = json.loads(done.output)["streams"]
    assert [day["day"] for day in told["days"]] == [str(record.day) for record in project.tables().days()]
    assert sum(sum(one["matches"].values()) for one in told["matches"]) == sum(
        unit.matches for unit in project.tables().matches_days()
    )
    assert told["stale"] == [] and told["plans"][0]["version"] == 1 and told["runs"]
    (tmp_path / "pipeline.yaml").write_text((project.folder / "pipeline.yaml").read_text())
    done = cep("status", "--json", folder=tmp_path)
    assert (done.code, json.loads(done.output)) == (0, {"streams": []})


def document(project: Project, *arguments: str | Path, code: int = 0) -> Any:
    """What a command prints with `--json`: one document on stdout, and nothing else there."""
    done = cep(*arguments, "--json", folder=project.folder)
    assert done.code == code, done.errors
    return json.loads(done.output, parse_constant=pytest.fail)


def test_a_run_for_machines_is_one_document(project: Project) -> None:
    done = document(project, "run", "--day", "2024-03-05", "--redo", "--run-id", "for machines")
    recorded = [one for one in project.tables().matches_days() if one.final_day == DAYS[1]]
    (day,), (of_set,) = done["days"], done["pattern_sets"]
    assert (done["stream"], done["run"], day["day"], day["status"]) == ("ticks", "for machines", "2024-03-05", "done")
    assert day["matches"] == {"all": dict(recorded[0].counts)} and of_set["matches"] == day["matches"]["all"]
    assert (day["events"], day["rejected"]) == (6, 0)
    assert {"ingest", "detect all"} <= {step["name"] for step in day["steps"]}
    again = document(project, "run", "--from", "2024-03-04", "--to", "2024-03-06")
    assert [one["status"] for one in again["days"]] == ["fresh"] * 3
    assert set(again["pattern_sets"][0]["matches"].values()) == {0}
    assert of_set["plan"]["version"] == 1 and of_set["plan"]["reason"]


def test_a_plan_for_machines_is_one_document(project: Project) -> None:
    explained = document(project, "explain")
    assert (explained["version"], explained["current"], explained["pattern_set"]) == (1, True, "all")
    (recorded,) = project.tables().plans("all")
    assert explained["plan"] == recorded.plan and explained["reason"] == recorded.reason
    assert f"plan {explained['plan']['plan_id']}\n" in cep("explain", folder=project.folder).output
    some = document(project, "explain", "--pattern", "rising", "--pattern", "jumps")
    assert [one["pattern"] for one in some["plan"]["patterns"]] == ["rising", "jumps"]
    planned = document(project, "plan", "--planner", "trivial", "--day", "2024-03-04", "--out", "trivial.json")
    assert planned["plan"] == json.loads((project.folder / "trivial.json").read_text())
    assert planned["mechanisms"]["rising"] == "fused"
    assert document(project, "explain", "--plan", "trivial.json")["plan"] == planned["plan"]
    assert not cep("explain", "--pattern", "rising", "--pattern", "falling", "--json", folder=project.folder).output


def test_files_for_machines_are_one_document_each(project: Project) -> None:
    folder = project.folder
    over = ("--patterns", "all.sase", "--schema", "ticks.yaml", "--events", "raw/2024-03-04.csv")
    table = cep("detect", *over, "--out", "m.csv", folder=folder).errors
    found = document(project, "detect", *over, "--out", "m.parquet")
    assert (found["events"], found["rejected"], found["out"]) == (6, 0, "m.parquet")
    assert set(found["seconds"]) == {"read", "plan", "detect"}
    for name, number in found["matches"].items():
        assert line_with(table, f"│ {name} ").split("│")[2].strip() == str(number)
    with patch.object(planned, "plan_for", wraps=planned.plan_for) as plan_for:
        assert document(project, "detect", *over, "--out", "m.parquet")["matches"] == found["matches"]
        assert not plan_for.called  # few events are read before a plan is made
        given = document(project, "detect", *over, "--planner", "greedy", "--out", "m.parquet")
        assert given["matches"] == found["matches"] and plan_for.called
    adapted = document(project, "detect", *over, "--adapt", "--every", "2 events", "--out", "a.parquet")
    assert adapted["matches"] == found["matches"] and adapted["adaptation"]["checks"]
    refused = cep("detect", *over, "--out", "-", "--json", folder=folder)
    assert (refused.code, refused.output) == (2, "")

    analyzed = document(project, "explain", "--analyze", *over)
    assert analyzed["events"] == 6
    assert {node["pattern"] for node in analyzed["detection"]["nodes"]} <= set(found["matches"])


def test_the_warehouse_for_machines_is_one_document_each(project: Project, tmp_path: Path) -> None:
    verified = cep("verify", folder=project.folder).output
    told = document(project, "verify")
    assert told["damages"] == []
    assert f"looked at {told['tables']} tables, {told['files']} data files" in verified
    maintained = document(project, "maintain")
    assert maintained["removed_files"] == 0 and "ticks.events" in maintained["by_table"]


def test_one_run_and_rejected_rows_for_machines(project: Project) -> None:
    (told,) = document(project, "status", "--rejected", "--runs", "1")["streams"]
    assert told["rejected_rows"] == []
    run = told["runs"][0]
    shown = document(project, "status", "--run", run["run"])
    assert shown["run"] == run["run"]
    assert run["day"] in [day["day"] for day in shown["days"]]
    for named in (run["run"][:-1], run["run"].rpartition("-")[2]):
        assert document(project, "status", "--run", named)["days"] == shown["days"], named


def test_the_beginning_of_several_run_ids_names_none_of_them(project: Project) -> None:
    (record, *_) = project.tables().runs()
    for last in ("lF74KVH6", "qQ83LWI7"):
        long_id = f"backfill__2024-03-04T00:00:00+00:00__2024-03-04__{last}"
        project.tables().record_run(replace(record, run_id=long_id, error=f"why {last} failed"))
    several = cep("status", "--run", "backfill__2024", folder=project.folder)
    assert several.code == 2 and "is the beginning of 2 runs" in several.error and "__qQ83LWI7" in several.error
    assert "lF74KVH6" in cep("status", "--run", "lF74KVH6", folder=project.folder).output
    listed = cep("status", folder=project.folder).output
    assert "│ backfill lF74KVH6 │" in listed and "__lF74KVH6" not in listed
    assert f"{record.day}, run backfill lF74KVH6: why lF74KVH6 failed" in listed, "below the table, which stays narrow"
    assert max(len(line) for line in listed.splitlines() if "backfill lF" in line and "│" in line) < 100


@pytest.mark.long
def test_printed_commands_have_the_options_of_the_call(project: Project, tmp_path: Path) -> None:
    """Messages of lower layers do not know the configuration, and can be pasted nevertheless."""
    other = tmp_path / "other dir" / "pipeline.yaml"
    other.parent.mkdir()
    without = shutil.ignore_patterns("warehouse")
    shutil.copytree(project.folder, other.parent, dirs_exist_ok=True, ignore=without)
    config = f"--config '{other}'"
    assert cep("run", "--config", other, folder=tmp_path).code == 0
    missing = cep("statistics", "--config", other, "--day", "2024-03-09", folder=tmp_path)
    assert f"`cep run {config} --stream ticks --steps statistics`" in missing.error
    unknown = cep("status", "--config", other, "--stream", "ticks", "--run", "none", folder=tmp_path)
    assert f"`cep status {config} --stream ticks --runs 50`" in unknown.error
    for path in (other.parent / "warehouse").rglob("*2024-03-04*/**/*.parquet"):
        path.unlink()
    damaged = cep("verify", "--config", other, folder=tmp_path)
    commands = [line.rpartition("; ")[2] for line in damaged.output.splitlines()]
    assert commands and all(command.startswith(f"cep run {config} --stream ticks ") for command in commands)
    told = json.loads(cep("verify", "--config", other, "--json", folder=tmp_path).output)
    assert [one["remedy"] for one in told["damages"]] == commands
    raw = other.parent / "raw"
    with max(raw.iterdir()).open("a") as file:
        file.write("\n")
    stale = cep("status", "--config", other, "--data", raw, "--runs", "0", folder=tmp_path)
    assert f"`cep run {config} --data '{raw}' --stream ticks --stale` redoes them" in stale.output
    by_default = cep("statistics", "--day", "2024-03-09", folder=project.folder)
    assert "`cep run --stream ticks --steps statistics`" in by_default.error


def test_status_of_an_empty_warehouse_says_how_to_begin(project: Project) -> None:
    configuration = (project.folder / "pipeline.yaml").read_text()
    (project.folder / "pipeline.yaml").write_text(configuration + "warehouse: {location: other}\n")
    done = cep("status", folder=project.folder)
    assert done.code == 0
    assert done.output.endswith("other; begin with `cep run`\n")


def test_explain_what_is_published(project: Project) -> None:
    explained = cep("explain", folder=project.folder)
    assert explained.code == 0
    assert explained.output.startswith("version 1 (current) of pattern set all, made ")
    assert "because: first plan of the pattern set, by the statistics of 2024-03-04" in explained.output
    assert "pattern rising: skip_till_any_match within 1 h, runs on fused" in explained.output
    planned = cep("plan", "--planner", "trivial", "--day", "2024-03-04", folder=project.folder)
    assert planned.code == 0 and "planner trivial, cost kernel" in planned.output
    assert len(project.tables().plans("all")) == 1, "cep plan leaves the current plan alone"


def test_planners_side_by_side_on_a_published_day_and_over_files(project: Project, trades: Path) -> None:
    shown = cep("plan", "--compare", "--day", "2024-03-04", "--planner", "zstream", folder=project.folder)
    assert shown.code == 0, shown.errors
    assert "pattern rising on fused, costs by kernel" in shown.output and "▶ zstream" in shown.output
    assert all(name in shown.output for name in ("trivial", "ii_greedy", "dp_bushy"))
    assert len(project.tables().plans("all")) == 1, "cep plan leaves the current plan alone"

    options = ("--compare", "--json", "--mechanism", "evaluation_tree")
    done = cep("plan", *over_files(trades), *options, folder=trades)
    assert done.code == 0, done.errors
    for comparison in json.loads(done.output):
        assert comparison["mechanism"] == "evaluation_tree" and comparison["chosen"] == "dp_left_deep"
        costs = {plan["planner"]: plan["ln_cost"] for plan in comparison["planners"]}
        assert costs["dp_left_deep"] <= costs["greedy"] and len(costs) == len(PLANNERS)


def test_plan_says_where_a_mechanism_does_not_run_what_the_planner_makes(trades: Path) -> None:
    asked = ("plan", *over_files(trades), "--planner", "dp_bushy", "--mechanism")
    in_order, of_orders, of_trees = (
        cep(*asked, mechanism, folder=trades) for mechanism in ("eager_nfa", "lazy_chain_nfa", "evaluation_tree")
    )
    assert "planned by trivial, not by dp_bushy: eager_nfa runs only the pattern's order" in in_order.errors
    assert "was asked for" not in in_order.output
    assert "planned by dp_left_deep, not by dp_bushy: lazy_chain_nfa runs orders only" in of_orders.errors
    assert "note: pattern" not in of_trees.errors
    by_default = cep("plan", *over_files(trades), "--mechanism", "eager_nfa", folder=trades)
    assert by_default.code == 0 and "note: pattern" not in by_default.errors


def test_maintain_removes_files_that_no_table_names(project: Project) -> None:
    orphan = Path(project.tables().events_directory(MONDAY, run_id="dead").file(0))
    orphan.write_bytes(b"half a file")
    young = cep("maintain", folder=project.folder)
    assert young.code == 0 and "removed 0 files" in young.output and orphan.exists()
    os.utime(orphan, (time.time() - 90_000,) * 2)
    old = cep("maintain", folder=project.folder)
    assert old.code == 0 and not orphan.exists()
    assert "ticks.events: removed files 1" in old.output
    assert "removed 1 file (" in old.output


def test_maintain_names_a_damaged_table_and_goes_on(project: Project) -> None:
    tables = project.tables()
    orphan = Path(tables.matches_directory("any", MONDAY, run_id="dead").file(0))
    orphan.parent.mkdir(parents=True, exist_ok=True)
    orphan.write_bytes(b"half a file")
    os.utime(orphan, (time.time() - 90_000,) * 2)
    metadata = Path(tables.warehouse.catalog.metadata_location((tables.name, "events")))
    content = metadata.read_bytes()
    metadata.write_bytes(content[:100])
    done = cep("maintain", folder=project.folder)
    metadata.write_bytes(content)
    assert done.code == 3 and not orphan.exists()
    assert f"damage: ticks.events: {metadata}: " in done.output
    assert "1 damaged table in " in done.error and "`cep verify` names all damages" in done.error


@pytest.mark.long
def test_what_verify_says_to_do_makes_the_warehouse_whole_again(project: Project) -> None:
    whole = cep("verify", "--deep", folder=project.folder)
    assert whole.code == 0 and whole.output.startswith("no damage; looked at 7 tables, ")
    tables = project.tables()
    events = [file.path for file in tables.events_files(MONDAY, MONDAY)]
    named = [
        task.file.file_path
        for name in ("matches", "statistics")
        for task in tables.warehouse.catalog.load_table((tables.name, name)).scan().plan_files()
        if MONDAY.isoformat() in task.file.file_path
    ]
    assert len(named) > 1
    for path in (*events, *named):
        Path(path).unlink()
    found = cep("verify", folder=project.folder)
    lines = [line for line in found.output.splitlines() if line.startswith("damage: ")]
    assert found.code == 3 and len(lines) == len(events) + len(named)
    assert f"{len(lines)} damages in {tables.warehouse.location}" in found.error
    commands = list(dict.fromkeys(line.rpartition("; ")[2] for line in lines))
    assert len(commands) == 3  # of events, matches and statistics
    for command in commands:
        done = cep(*command.split()[1:], "--master", "local[2]", folder=project.folder)
        assert done.code == 0, done.errors
    cep("maintain", "--keep-days", "0", folder=project.folder)
    again = cep("verify", "--deep", folder=project.folder)
    assert again.code == 0, again.output


@pytest.mark.long
def test_a_copied_project_says_that_tables_name_their_files_by_full_path(project: Project, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(project.folder, copy)
    refused = cep("matches", folder=copy)
    assert refused.code == 2 and "put the warehouse back there" in refused.error
    shutil.rmtree(copy / "warehouse")
    assert cep("run", folder=copy).code == 0
    counted = [cep("matches", "--count", folder=folder).output for folder in (project.folder, copy)]
    assert counted[0] == counted[1]


def test_detect_over_files_by_a_written_plan(trades: Path) -> None:
    planned = cep("plan", *over_files(trades), "--planner", "greedy", "--out", "plan.json", folder=trades)
    assert planned.code == 0
    assert "planner greedy" in planned.output and "written to plan.json" in planned.errors
    assert cep("explain", "--plan", "plan.json", folder=trades).output.startswith("plan ")

    analyzed = cep("explain", "--analyze", *over_files(trades), "--plan", "plan.json", folder=trades)
    assert analyzed.code == 0 and analyzed.output.startswith("plan ")
    assert "candidates" in analyzed.output and "runs on fused" in analyzed.output
    found = cep("detect", *over_files(trades), "--plan", "plan.json", "--out", "found.parquet", folder=trades)
    assert found.code == 0, found.errors
    assert "events, 0 rows rejected" in found.errors
    table = pq.read_table(trades / "found.parquet")
    counted = cep("detect", *over_files(trades), "--output", "count", "--out", "counts.json", folder=trades)
    assert counted.code == 0
    counts = {
        row["pattern"]: int(row["count"]) for row in map(json.loads, (trades / "counts.json").read_text().splitlines())
    }
    names = [p.name for p in cep_package.parse_patterns(PATTERNS.read_text(), cep_package.StreamSchema.load(SCHEMA))]
    assert list(counts) == names
    assert sum(counts.values()) > 100
    assert {name: table["pattern"].to_pylist().count(name) for name in names} == counts


def test_generated_days_are_run_from_raw_files_to_matches(trades: Path, tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "pipeline.yaml").write_text(
        f"streams:\n  generated_trades:\n    schema: {SCHEMA}\n    data: nowhere\n    pattern_sets:\n"
        f"      market: {{file: {PATTERNS}}}\n"
    )
    done = cep("run", "--data", trades / "raw", "--master", "local[2]", folder=tmp_path)
    assert done.code == 0, done.errors
    counted = cep("detect", *over_files(trades), "--output", "count", "--out", "counts.json", folder=tmp_path)
    assert counted.code == 0
    for line in (tmp_path / "counts.json").read_text().splitlines():
        row = json.loads(line)
        shown = line_with(done.output.rpartition("matches of market")[2], f"│ {row['pattern']} ")
        assert shown.split("│")[2].strip().replace(",", "") == row["count"]


def test_generate_makes_the_same_bytes_and_leaves_made_days_alone(trades: Path, tmp_path: Path) -> None:
    first = trades / "raw/2025-01-06/trades.csv.gz"
    arguments = ["--days", "1", "--stocks", "4", "--events-per-day", "4000", "--out", tmp_path]
    done = cep_process("generate", *arguments, folder=tmp_path)
    assert done.code == 0, done.errors
    assert (tmp_path / "2025-01-06/trades.csv.gz").read_bytes() == first.read_bytes()
    again = cep("generate", *arguments, "--missing-only", folder=tmp_path)
    assert again.code == 0 and "there already: 1 day" in again.errors


def test_numbers_that_json_does_not_have_are_written_as_text(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "{name: s, type_attribute: k, timestamp: {column: t, format: epoch_us}, "
        "attributes: {k: string, x: float64}, source: {format: csv, path: x.csv}}"
    )
    (tmp_path / "x.csv").write_text("t,k,x\n1,A,NaN\n2,A,-inf\n3,A,1.5\n")
    (tmp_path / "p.sase").write_text("PATTERN A a WITHIN 1 second RETURN a.x AS x")
    over = ["--patterns", "p.sase", "--schema", "s.yaml", "--events", "x.csv", "--out", "found.json"]
    assert cep("detect", *over, folder=tmp_path).code == 0
    lines = (tmp_path / "found.json").read_text().splitlines()
    assert [json.loads(line, parse_constant=pytest.fail)["x"] for line in lines] == ["NaN", "-Infinity", 1.5]


@pytest.mark.long
def test_status_shows_rejected_rows_with_their_reason(tmp_path: Path, spark: SparkSession) -> None:
    project = make_project(tmp_path, spark)
    project.write_day(MONDAY, [*ROWS[MONDAY], "12:00:00,A,m[b]any"])
    assert cep("run", "--day", str(MONDAY), folder=tmp_path).code == 0
    shown = cep("status", "--rejected", "--runs", "0", folder=tmp_path)
    assert f"{MONDAY}.csv" in shown.output and "'m[b]any' is no int64" in shown.output


@pytest.mark.long
def test_what_waits_is_told_by_the_summary_and_by_status(tmp_path: Path, spark: SparkSession) -> None:
    project = make_project(tmp_path, spark)
    (tmp_path / "all.sase").write_text("NAME quiet PATTERN SEQ(Tick a, ~C n) WITHIN 2 hours")
    (tmp_path / "raw" / f"{DAYS[2]}.csv").unlink()
    done = cep("run", folder=tmp_path)
    assert done.code == 0
    (unit,) = [unit for unit in project.tables().matches_days() if unit.final_day == DAYS[1]]
    assert unit.pending["quiet"] > 0
    assert f"│ {unit.pending['quiet']:>7} │" in line_with(done.output, str(DAYS[1]))
    assert line_with(done.output, "│ quiet ", last=True).split("│")[3].strip() == str(unit.pending["quiet"])
    assert "--end-of-stream" in line_with(done.output, "pending: ")
    assert f"all {unit.matches} ({unit.pending['quiet']} pending)" in cep("status", folder=tmp_path).output
    (tmp_path / "raw" / f"{MONDAY}.csv").unlink()
    assert f"raw file {MONDAY}.csv is gone" in " ".join(cep("status", folder=tmp_path).output.split())
    ended = cep("run", "--end-of-stream", folder=tmp_path)
    assert "end of stream" in line_with(ended.output, str(DAYS[1])) and "pending: " not in ended.output
    found = unit.matches + unit.pending["quiet"]
    assert f"all {found} (end of stream)" in cep("status", "--runs", "0", folder=tmp_path).output


def test_values_that_no_pattern_asks_for_are_told(trades: Path) -> None:
    done = cep("statistics", *over_files(trades), "--param", "tehc=AAPL", folder=trades)
    assert done.code == 0
    assert "note: --param tehc: no pattern asks for $tehc; asked for are: none" in done.errors


@pytest.mark.long
def test_a_run_names_its_spark_application(published_project: tuple[Project, Done], tmp_path: Path) -> None:
    project = make_project(tmp_path, published_project[0].spark)
    done = cep("run", "--run-id", "named", folder=tmp_path)
    assert done.code == 0, done.errors
    application = project.spark.conf.get("spark.app.id")
    assert f"application {application}" in done.output
    assert all(record.details["spark"].endswith(f"application {application}") for record in project.tables().runs())
    assert f"application {application}" in cep("status", "--run", "named", folder=tmp_path).output


def test_translated_sql_runs_as_it_is_written(trades: Path) -> None:
    sql = """\
-- trades that go up twice
SELECT * FROM trades MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY ts MEASURES A.price AS low, C.price AS high
    AFTER MATCH SKIP TO NEXT ROW PATTERN (A B C)
    DEFINE B AS price > PREV(price), C AS price > PREV(price)
) AS up_twice
"""
    (trades / "q.sql").write_text(sql)
    asked = ["translate", "--from", "match_recognize", "q.sql", "--schema", SCHEMA, "--within", "30 seconds"]
    done = cep(*asked, "--out", "q.sase", folder=trades)
    assert (done.code, done.output, done.errors) == (0, "", "written to q.sase\n")
    shown = cep(*asked, folder=trades)
    assert shown.output == (trades / "q.sase").read_text()
    assert "-- From MATCH_RECOGNIZE in q.sql, line 2, with the same matches." in shown.output
    [document] = json.loads(cep(*asked, "--json", folder=trades).output)
    assert document["statement"] in shown.output and len(document["assumptions"]) == 2
    found = cep("detect", "--patterns", "q.sase", *over_files(trades)[2:], "--out", "q.csv", folder=trades)
    assert found.code == 0 and len((trades / "q.csv").read_text().splitlines()) > 10
    (trades / "q.sql").write_text(sql.replace("price > PREV(price)", "price > NEXT(price)"))
    refused = cep(*asked, "--out", "other.sase", folder=trades)
    assert refused.code == 2 and refused.error.startswith("q.sql:5:") and "NEXT looks at a row" in refused.error
    assert not (trades / "other.sase").exists()


def test_published_matches_have_the_columns_that_detect_gives(project: Project) -> None:
    opened = cep_package.open(project.folder / "pipeline.yaml")["ticks"]
    statements = Configuration.load(project.folder / "pipeline.yaml").stream("ticks").pattern_sets[0].statements
    detected, found = cep_package.detect(statements, opened.events()), opened.matches()
    assert found.keys() == detected.keys() == {"rising", "pairs", "jumps"}
    for name, expected in detected.items():
        assert found[name].column_names[: expected.num_columns] == expected.column_names
        own = found[name].select(expected.column_names)
        assert own.schema == expected.schema
        assert sorted(own.to_pylist(), key=str) == sorted(expected.to_pylist(), key=str)
