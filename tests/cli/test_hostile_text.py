"""Symbols, names, files and reasons that are markup, commands to a terminal or formulas, through every command."""

from __future__ import annotations

import csv
import json
import re
import shutil
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from cep_pipeline.cli import COMMANDS
from cep_pipeline.cli.terminal import Terminal, styled
from cep_pipeline.foreign_text import visible
from tests.cli.command_line import Done, cep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MARKUP = "[/b] [red]gone[/red] :smile:"
CONTROL = "\x1b]0;pwned\x07\x1b[2J\x9b31m\u202egpj.exe\u2066\u200b\x7f"
HOSTILE = MARKUP + CONTROL
FILE = f"[/b] [red] :smile: {CONTROL}"  # a closing tag in a path is the end of a folder and the begin of a name
FOLDER = f"[/i] {CONTROL}"
FORMULA = '=HYPERLINK("x")'
SYMBOLS = (HOSTILE, FORMULA, "-5", "<script>alert(1)</script>")
DAYS = ("2024-03-04", "2024-03-05")
PATTERNS = """\
NAME falls PATTERN SEQ("[/b]" a, Any b) WHERE a.symbol != '[/b] [red]x' AND a.price > b.price WITHIN 1 hour
    RETURN b.symbol AS sym, a.price AS first;
NAME any_two PATTERN SEQ(Any a, "[/b]" b, Any c) WHERE a.symbol = '[/b]' AND c.price > 0 WITHIN 2 hours
"""
SUMS = """\
NAME sums PATTERN SEQ("[/b]" a, Any b) WITHIN 1 hour
    SUMMARIZE count(*) AS n, max(b.symbol) GROUP BY a.symbol AS symbol, b.symbol, bucket(1 hour) AS hour
"""
OVER_FILES = ("--patterns", "p[/b].sase", "--schema", "s.yaml", "--events", f"raw/{DAYS[0]} {FILE}.csv")
SQL = """\
SELECT * FROM t MATCH_RECOGNIZE (
    ORDER BY "[/b]\x1b]0;pwned\x07 \u202egpj" MEASURES A.price AS "[red]\x1b[2J" PATTERN (A) DEFINE A AS symbol != '{}'
) AS "[/i]\x9b31m"
"""
WRONG = f"{HOSTILE} no such thing"

NO_UTF8 = f"no utf-8/{DAYS[0]} {FILE.partition('/')[2]}\udcff.csv"

CALLS: dict[str, list[tuple[str, ...]]] = {
    "init": [
        (f"made {FILE}", "--data", f"raw/{DAYS[0]} {FILE}.csv", "--timezone", "UTC"),
        (WRONG, "--data", WRONG),
        ("zone [/b]", "--data", f"raw/{DAYS[0]} {FILE}.csv", "--timezone", WRONG),
        ("type [/b]", "--data", f"raw/{DAYS[0]} {FILE}.csv", "--timezone", "UTC", "--type", WRONG),
    ],
    "preview": [(), (f"raw/{DAYS[0]} {FILE}.csv", "--schema", "s.yaml", "--json"), (WRONG, "--schema", "s.yaml")],
    "check": [(), ("wrong.sase", "--schema", "s.yaml"), ("wrong.sase", "--schema", "s.yaml", "--json")],
    "run": [
        ("--master", "local[2]", "--run-id", "run [/b] two", "--redo"),
        ("--stream", WRONG),
        ("--pattern-set", WRONG),
        ("--steps", WRONG),
        ("--config", WRONG),
        ("--day", WRONG),
        ("--data", "no utf-8"),
    ],
    "detect": [
        (*OVER_FILES, "--out", f"{FILE}.csv"),
        (*OVER_FILES, "--adapt", "--every", "2 events", "--out", f"adapted {FILE}.parquet"),
        (*OVER_FILES, "--param", f"{WRONG}=x", "--out", "x.csv"),
        (*OVER_FILES[:-1], WRONG, "--out", "x.csv"),
        (*OVER_FILES[:-1], NO_UTF8, "--out", "x.csv"),
        ("--patterns", "wrong.sase", *OVER_FILES[2:], "--out", "x.csv"),
    ],
    "translate": [
        ("q[/b].sql", "--schema", "s.yaml"),
        ("q[/b].sql", "--out", f"q {FILE}.sase"),
        ("q[/b].sql", "--json"),
        ("wrong.sql", "--schema", "s.yaml"),
        ("q[/b].sql", "--within", WRONG),
        (WRONG, "--schema", "s.yaml"),
    ],
    "plan": [(), OVER_FILES, (*OVER_FILES, "--compare"), ("--planner", WRONG), ("--out", f"{FILE}.json")],
    "explain": [(), ("--analyze", *OVER_FILES), ("--plan", "plan.json"), ("--pattern", WRONG)],
    "statistics": [(), ("--json",), ("--match", WRONG), OVER_FILES],
    "invariants": [(), ("--check",), ("--json",)],
    "replan": [
        ("--reason", HOSTILE, "--force"),
        ("--reason", HOSTILE, "--force", "--json"),
        ("--explain", "--dry-run", "--reason", HOSTILE),
    ],
    "diff": [(), ("--config", "changed.yaml"), ("--config", "changed.yaml", "--json"), (WRONG,)],
    "matches": [
        (),
        ("--count",),
        ("--events",),
        ("--events", "--json"),
        ("--match", WRONG),
        ("--chart", f"m {FILE}.html"),
        ("--chart", f"{FILE}.txt"),
        ("--chart", f"m {FILE}.svg", "--attribute", WRONG),
        ("--out", f"m {FILE}.csv"),
        ("--pattern", WRONG),
        ("--out", f"{FILE}.txt"),
        *(("--summaries", *more) for more in ((), ("--json",), ("--out", f"m {FILE}.csv"))),
        ("--summaries", "--pattern", WRONG),
    ],
    "why": [(WRONG,), (WRONG, *OVER_FILES), (WRONG, "--pattern", "falls", *OVER_FILES, "--json")],
    "why-not": [
        ("--pattern", "falls", "--day", DAYS[0]),
        ("--pattern", "any_two", "--near", "1", "--json", *OVER_FILES),
        ("--pattern", "falls", "--event", "a=1", "--event", "b=2", *OVER_FILES),
        ("--pattern", WRONG),
        ("--pattern", "falls", "--event", f"{WRONG}=1"),
        ("--pattern", "falls", "--event", f"a={WRONG}"),
        ("--pattern", "falls", "--event", f"a={WRONG}/1"),
        ("--pattern", "falls", "--at", WRONG),
    ],
    "status": [
        (),
        ("--rejected", "--decisions", "50"),
        ("--rejected", "--json"),
        ("--stream", WRONG),
        ("--data", WRONG),
    ],
    "maintain": [("--keep-days", "0"), ("--config", WRONG)],
    "verify": [("--deep",), ("--stream", WRONG), ("--config", "damaged/pipeline.yaml", "--deep")],
    "restore": [("--config", "damaged/pipeline.yaml", "--replace"), (WRONG,), ("--config", WRONG)],
    "generate": [("--days", "1", "--events-per-day", "100", "--out", FILE)],
    "schema": [("tables", "--part", WRONG), ("stream", "--part", WRONG)],
    "bench": [(WRONG,), ("mechanisms", "--out", f"{FILE}/none/x.md")],
    "experiment": [(WRONG,), ("lazy_nfa", "--out", f"{FILE}/none/x.md")],
    "help": [(WRONG,), ("language", WRONG)],
}
"""Command -> calls of it in which something hostile is read, found or refused."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Path]:
    """A published stream in a folder with a hostile name; symbols, files, run ids and rejected rows are hostile."""
    folder = tmp_path_factory.mktemp("project") / FOLDER
    (folder / "raw").mkdir(parents=True)
    for number, day in enumerate(DAYS):
        rows = [
            (f"{day} 10:{minute:02}:00", "[/b]" if minute % 2 else SYMBOLS[minute // 2 % len(SYMBOLS)], 100 - minute)
            for minute in range(20)
        ]
        rows += [(f"{day} 11:00:00", "[/b]", HOSTILE), (HOSTILE, "[/b]", number)]
        file = folder / "raw" / f"{day} {FILE}.csv"
        file.parent.mkdir()
        with file.open("w", newline="") as content:
            csv.writer(content).writerows([("time", "symbol", "price"), *rows])
    schema = {
        "name": "ticks",
        "base_type": "Any",
        "type_attribute": "symbol",
        "timezone": "UTC",
        "timestamp": {"column": "time", "format": "iso"},
        "attributes": {"symbol": "string", "price": "int64"},
        "source": {"format": "csv", "path": f"{{day:%Y-%m-%d}} {FILE.replace('[', '[[]')}.csv"},
        "quality": {"max_rejected_share": 0.5},
    }
    stream = {"schema": "s.yaml", "data": "raw", "pattern_sets": {"both": {"file": "p[/b, sums].sase"}}}
    (folder / "s.yaml").write_text(json.dumps(schema))
    (folder / NO_UTF8).parent.mkdir()
    shutil.copy(next((folder / "raw").rglob("*.csv")), folder / NO_UTF8)
    for name in ("[", "adapted [", "c [", "m [", "p[", "q [", "q["):
        (folder / name).mkdir()
    (folder / "p[/b].sase").write_text(PATTERNS)
    (folder / "p[/b, sums].sase").write_text(f"{PATTERNS};{SUMS}")
    (folder / "q[/b].sql").write_text(SQL.format(HOSTILE))
    (folder / "wrong.sql").write_text(SQL.replace("A.price", f'A."{HOSTILE}"'))
    (folder / "wrong.sase").write_text(f"NAME wrong PATTERN SEQ({MARKUP}{CONTROL} a) WITHIN 1 hour")
    settings = {"streams": {"ticks": stream}, "warehouse": {"location": "warehouse"}}
    (folder / "pipeline.yaml").write_text(json.dumps(settings))
    text = json.dumps(settings).replace("p[/b, sums].sase", "changed.sase")
    (folder / "changed.yaml").write_text(text)
    (folder / "changed.sase").write_text(PATTERNS.replace("a.price > b.price", "a.price > b.price + 1"))
    done = cep("run", "--master", "local[2]", "--run-id", f"run {HOSTILE}", folder=folder)
    assert done.code == 0, done.errors
    assert cep("plan", *OVER_FILES, "--out", "plan.json", folder=folder).code == 0
    plan = (folder / "plan.json").read_text()
    (folder / "plan.json").write_text(plan.replace('"falls"', json.dumps(f"falls {HOSTILE}")))
    shutil.copytree(folder, folder / "damaged", ignore=shutil.ignore_patterns("damaged", "warehouse"))
    assert cep("run", "--config", "damaged/pipeline.yaml", "--master", "local[2]", folder=folder).code == 0
    for file in (folder / "damaged" / "warehouse").rglob("*.parquet"):
        file.unlink()
    yield folder


def hidden(text: str) -> list[str]:
    """The characters of a text that its reader does not see, or that move others."""
    return [one for one in text if one not in "\n\t" and unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


def assert_harmless(done: Done) -> None:
    assert hidden(done.output + done.errors) == []
    assert "Traceback" not in done.errors


def test_every_command_is_tried() -> None:
    assert set(COMMANDS) == set(CALLS), "a new command needs calls with hostile texts"


@pytest.mark.parametrize(("command", "number"), [(name, n) for name, calls in CALLS.items() for n in range(len(calls))])
def test_no_text_controls_the_terminal(folder: Path, command: str, number: int) -> None:
    arguments = CALLS[command][number]
    done = cep(command, *arguments, folder=folder)
    assert_harmless(done)
    wrong = any(
        mark in argument
        for argument in arguments
        for mark in (WRONG, "/none/", "no utf-8", ".txt", "wrong.", "damaged/")
    )
    accepted = any(mark in argument for argument in arguments for mark in ("--param", "symbol = "))
    accepted = accepted or (command == "status" and "--data" in arguments)
    assert (done.code != 0) is (wrong and not accepted), done
    assert done.output + done.errors


def test_values_are_shown_as_they_are(folder: Path) -> None:
    """No part of a value is taken for markup, and what is not seen is spelled."""
    calls = [("matches", "--limit", "500", "--pattern", "falls"), ("status", "--rejected")]
    for call in calls:
        shown = cep(*call, folder=folder).output
        for word in ("[/b]", "[red]gone[/red]", ":smile:", "\\x1b]0;pwned"):
            assert word in shown, call


def test_a_spreadsheet_finds_no_formula(folder: Path) -> None:
    """In CSV such text has an apostrophe before it; numbers, and the other formats, are as they were."""
    (folder / "falls.sase").write_text(PATTERNS.partition(";")[0])
    over = ("--patterns", "falls.sase", *OVER_FILES[2:])
    found = {}
    for ending in ("csv", "json", "parquet"):
        assert cep("detect", *over, "--out", f"f.{ending}", folder=folder).code == 0
    with (folder / "f.csv").open(newline="") as file:
        found["csv"] = [row["sym"] for row in csv.DictReader(file)]
    found["json"] = [json.loads(line)["sym"] for line in (folder / "f.json").read_text().splitlines()]
    found["parquet"] = pq.read_table(folder / "f.parquet")["sym"].to_pylist()
    assert found["json"] == found["parquet"]
    assert {FORMULA, "-5", HOSTILE} <= set(found["json"])
    assert found["csv"] == [f"'{text}" if text == FORMULA else text for text in found["json"]]


def test_a_terminal_gets_styles_from_us_alone(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table

    console = Terminal(force_terminal=True, width=300, color_system="truecolor")
    table = Table("a", HOSTILE, title=HOSTILE, caption=HOSTILE)
    table.add_row(HOSTILE, styled("x", (HOSTILE, "bold red")))
    console.print(table)
    console.print(HOSTILE, styled(HOSTILE))
    console.rule(HOSTILE)
    with console.status(HOSTILE):
        pass
    shown = re.sub(r"\x1b\[(\?25[lh]|[0-9;]*m|\d*[AK]|2K|\d*G)|\r", "", capsys.readouterr().out)
    assert hidden(shown) == []
    assert shown.count(visible(HOSTILE)) >= 8
