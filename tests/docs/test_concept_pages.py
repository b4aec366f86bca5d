"""The pages about how it works name what the code has, with its defaults and limits, and their examples run."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest

import cep_pipeline as cep
from cep_pipeline.adaptation.decisions import DECISION_FUNCTIONS
from cep_pipeline.adaptation.distance import DISTANCES
from cep_pipeline.cli import COMMANDS, cli
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.mechanisms import Metrics, NodeCounts
from cep_pipeline.pipeline.day import STEPS
from cep_pipeline.planning import COSTS, PLANNERS
from cep_pipeline.planning.algorithms.dynamic_programming import MAX_SECONDS, MAX_VARIABLES
from cep_pipeline.planning.planners import MULTI_PATTERN_PLANNER_NAMES, MULTI_PATTERN_PLANNERS
from cep_pipeline.statistics.snapshot import Source

WITHOUT_INVARIANTS = {
    name for name, planner in {**PLANNERS, **MULTI_PATTERN_PLANNERS}.items() if planner.without_invariants_because
}
CHECKOUT = Path(__file__).resolve().parents[2]
PAGES = {
    **{name: CHECKOUT / "docs" / f"{name}.md" for name in ("mechanisms", "planning", "adaptation", "papers")},
    "architecture": CHECKOUT / "docs" / "architecture.md",
    "internals": CHECKOUT / "docs" / "internals.md",
    "CONTRIBUTING": CHECKOUT / "CONTRIBUTING.md",
}
PICTURE = CHECKOUT / "docs" / "pictures" / "stages_of_a_day.svg"


def text_of(page: str) -> str:
    return PAGES[page].read_text(encoding="utf-8")


def section(page: str, heading: str) -> str:
    """The text below a heading, up to the next heading of its level or a higher one."""
    match = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#{{1,2}} |\Z)", text_of(page), re.M | re.S)
    assert match is not None, f"{page} has no section {heading!r}"
    return match[2]


def rows(text: str) -> list[list[str]]:
    """The cells of the rows of all tables of a text."""
    split = (re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("|"))
    return [[cell.strip() for cell in row] for row in split]


def named_first(table: Iterable[list[str]]) -> set[str]:
    """The names in code style in the first cells of rows."""
    return {name for row in table for name in re.findall(r"`([^`]+)`", row[0])}


def test_every_mechanism_is_described() -> None:
    table = rows(section("mechanisms", "The executors"))
    described = {name for name in named_first(table) if re.fullmatch(r"[a-z_]+", name)}
    assert described == set(MECHANISMS)


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_a_mechanism_runs_the_plans_that_its_row_says(name: str) -> None:
    [row] = [row for row in rows(section("mechanisms", "The executors")) if row[0] == f"`{name}`" and len(row) == 5]
    assert ("any tree" in row[2]) == MECHANISMS[name].runs_trees
    assert (row[2] == "the pattern's order") == MECHANISMS[name].in_pattern_order


def test_every_number_of_the_metrics_is_described() -> None:
    table = named_first(rows(section("mechanisms", "Metrics")))
    assert {field.name for field in fields(Metrics)} <= table
    assert {field.name for field in fields(NodeCounts)} - {"pattern", "clause", "node"} <= table


def test_every_planner_is_described() -> None:
    table = [row for row in rows(section("planning", "Planners")) if len(row) == 6]
    assert named_first(table) == set(PLANNERS)
    for row in table:
        name = row[0].split("`")[1] if "`" in row[0] else ""
        if name:
            assert row[5].startswith("no") == (name in WITHOUT_INVARIANTS), name
    together = named_first(rows(section("planning", "Many patterns at once")))
    assert set(MULTI_PATTERN_PLANNER_NAMES) <= together


def test_the_budgets_of_exact_planners_are_those_of_the_page() -> None:
    table = {row[0]: row[3] for row in rows(section("planning", "Planners")) if len(row) == 6}
    assert table["`dp_left_deep` (default)"] == f"up to {MAX_VARIABLES} variables"
    assert table["`dp_bushy`"] == f"up to {MAX_VARIABLES} variables, {MAX_SECONDS:g} s"


def test_every_cost_model_and_source_is_described() -> None:
    assert set(COSTS) <= named_first(rows(section("planning", "Cost models")))
    assert {source.value for source in Source} <= named_first(rows(section("planning", "Statistics")))


def test_planners_without_invariants_are_listed() -> None:
    table = [row for row in rows(section("adaptation", "Invariants")) if row[1] == "no"]
    assert named_first(table) == set(WITHOUT_INVARIANTS)


def test_every_decision_function_and_distance_is_described() -> None:
    assert set(DECISION_FUNCTIONS) == named_first(rows(section("adaptation", "Decision functions")))
    assert set(DISTANCES) <= named_first(rows(section("adaptation", "The distance")))


def test_every_source_that_the_code_cites_has_its_title() -> None:
    cited = re.compile(r"\b([A-Z][A-Za-z0-9]*(?:'\d\d)?)(?: patent)?,? (?:sections?|appendix|\[0[01]\d\d\])")
    found = {
        name
        for path in (CHECKOUT / "cep_pipeline").rglob("*.py")
        for name in cited.findall(path.read_text(encoding="utf-8"))
    }
    assert {"JQPG", "MCEP", "DEBS'15", "SIGMOD'08"} <= found
    explained = {name.strip() for row in rows(section("papers", "Abbreviations")) for name in row[0].split(",")}
    explained |= {word for row in rows(section("papers", "Other works")) for word in re.findall(r"\w+", row[0])}
    assert not {name for name in found if re.search(r"[A-Z].*[A-Z]", name)} - explained


def test_the_stages_stand_in_the_order_of_the_dag() -> None:
    tasks = [step.name for step in STEPS]
    stages = rows(section("architecture", "A day, from raw files to matches"))[2:]
    assert list(dict.fromkeys(row[1].strip("`") for row in stages)) == tasks


def test_the_picture_has_the_stages_of_the_text() -> None:
    stages = [row[0] for row in rows(section("architecture", "A day, from raw files to matches"))[2:]]
    drawn = [
        "".join(element.itertext())
        for element in ElementTree.parse(PICTURE).iter("{http://www.w3.org/2000/svg}text")
        if element.get("class") == "name"
    ]
    assert list(dict.fromkeys(drawn[1:])) == stages


def commands(page: str) -> list[list[str]]:
    """The words of each command of a page: indented lines, joined after a backslash, and words in code style."""
    text = text_of(page).replace("\\\n", " ")
    indented = re.findall(r"^    (?:\.venv/bin/)?cep ([a-z][^#\n]*)", text, re.M)
    inline = re.findall(r"`cep ([a-z][^`\n]*)`", text)
    return [shlex.split(line.replace("…", "")) for line in (*indented, *inline)]


@pytest.mark.parametrize("page", ["mechanisms", "planning", "adaptation", "internals", "CONTRIBUTING"])
def test_commands_and_their_options_exist(page: str) -> None:
    found = commands(page)
    assert found
    for name, *words in found:
        assert name in COMMANDS, name
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert {word for word in words if word.startswith("--")} <= known | {"--help"}, (name, words)


def examples() -> list[Any]:
    found = []
    for page in sorted(PAGES):
        for number, code in enumerate(re.findall(r"^ *```python\n(.*?)^ *```", text_of(page), re.M | re.S), 1):
            found.append(pytest.param(textwrap.dedent(code), id=f"{page}-{number}"))
    return found


@pytest.mark.parametrize("code", examples())
def test_examples_run(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(compile(code, "<example>", "exec", dont_inherit=True), names)
    said = re.findall(r"^print\(.*\)  # (.+)$", code, re.M)
    assert capsys.readouterr().out.splitlines() == said
    if "reverse_order" in names:
        planned_by(names["reverse_order"])


def planned_by(planner: Any) -> None:
    """The planner that CONTRIBUTING.md shows makes a plan that finds what every plan finds."""
    schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string"}})
    events = schema.table([{"timestamp": at * 1000, "kind": "ABC"[at % 3]} for at in range(60)])
    patterns = cep.parse_patterns("NAME p PATTERN SEQ(A a, B b, C c) WITHIN 10 ms", schema)
    snapshot = cep.estimate_statistics(patterns, events)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PLANNERS, "reverse", planner)
        plan = cep.plan(patterns, snapshot, planner="reverse", compare=False)
    [clause] = plan.for_pattern("p").clauses
    assert clause.order == ("c", "b", "a")
    found, expected = (cep.detect(patterns, events, plan=made)["p"] for made in (plan, None))
    assert found.num_rows > 0
    assert found.equals(expected)
