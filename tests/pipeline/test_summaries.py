"""SUMMARIZE in the daily pipeline: the rows of days add up to one run, and are published with the day."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.summaries.partial import PartialSummary
from cep_pipeline.patterns.expressions import Element, Reference, ValueType
from cep_pipeline.patterns.pattern import Pattern, Summary, SummaryAggregate, SummaryGroup
from cep_pipeline.pipeline.run import find_stale_days
from cep_pipeline.warehouse.stream_tables import StreamTables
from tests.cli.command_line import cep as command
from tests.pipeline.local_days import LocalDays, events_by_day
from tests.pipeline.project import DAYS, MONDAY, Project, write_patterns
from tests.pipeline.test_union_of_days import GAPS_HOURS, publish_and_detect, waiting_patterns
from tests.streams import Row, rows, stream_schema
from tests.thoroughness import examples

HOUR_US = 3_600_000_000


def summarized(pattern: Pattern) -> Pattern:
    """The pattern with aggregates and groups over its first positive variables."""
    names = [operand.variable for operand in pattern.operands if not operand.negated]

    def of(attribute: str, kind: ValueType) -> Reference:
        return Reference(names[-1], attribute, Element.ONLY, kind)

    x, y = of("x", ValueType.INT64), of("y", ValueType.FLOAT64)
    functions = [("sum", x), ("avg", x), ("min", x), ("sum", y), ("avg", y), ("max", y)]
    aggregates = [SummaryAggregate(name, item, f"{name}_{item.attribute}") for name, item in functions]
    groups = (
        SummaryGroup(Reference(names[0], "s", Element.ONLY, ValueType.STRING), None, "s"),
        SummaryGroup(None, 6 * HOUR_US, "hours"),
    )
    count = SummaryAggregate("count", None, "n")
    return replace(pattern, returns=(), summary=Summary((count, *aggregates), groups))


@settings(deadline=None, max_examples=examples(25))
@given(data=st.data(), stream_rows=rows(max_size=10), pattern=waiting_patterns().map(summarized))
def test_days_add_up_to_one_run_over_all_of_them(data: st.DataObject, stream_rows: list[Row], pattern: Pattern) -> None:
    gaps = data.draw(st.lists(GAPS_HOURS, min_size=len(stream_rows), max_size=len(stream_rows)))
    by_day = events_by_day(stream_schema(), stream_rows, gaps)
    with tempfile.TemporaryDirectory() as folder:
        slices = data.draw(st.integers(1, 6))
        days = LocalDays(stream_schema(), (pattern,), Path(folder), row_group_size=2, slices=slices)
        whole = publish_and_detect(days, by_day, empty_days=data.draw(st.booleans()))
        if days.detected:
            days.detect(max(days.detected), end_of_stream=True)
        together = PartialSummary(pattern)
        for found in days.detected.values():
            assert found.files == ()
            assert found.matches == {pattern.name: 0}
            together.add(PartialSummary.from_json(pattern, found.summaries[pattern.name]))
        assert repr(together.table().to_pylist()) == repr(cep.detect([pattern], whole)[pattern.name].to_pylist())


TEXTS = {
    "pairs": "PATTERN SEQ(Tick a, Tick b) WITHIN 2 hours SUMMARIZE count(*), avg(b.x) AS mean GROUP BY a.kind AS kind",
    "kept": "PATTERN SEQ(Tick a, Tick b) WITHIN 2 hours OUTPUT NON_OVERLAP SUMMARIZE count(*) AS n, sum(a.x) AS x",
    "matches": "PATTERN SEQ(Tick a, Tick b) WITHIN 2 hours RETURN a.kind AS kind, b.x AS x",
    "composed": "PATTERN SEQ(matches m, Tick c) WITHIN 2 hours SUMMARIZE count(*), sum(m.x), avg(c.x) GROUP BY m.kind",
}


def published(tables: StreamTables, name: str) -> list[dict[str, Any]]:
    found = tables.read_summaries("all", pattern=name).to_pylist()
    return [{**row, **{key: json.loads(row[key]) for key in ("groups", "aggregates", "partial")}} for row in found]


def test_a_run_says_which_patterns_are_summarized(project: Project) -> None:
    write_patterns(project, {name: TEXTS[name] for name in ("matches", "pairs")})
    done = command("run", "--from", str(MONDAY), "--to", str(MONDAY), folder=project.folder)
    assert done.code == 0, done.errors
    cells = {line.split("│")[1].strip(): line.split("│")[2].strip() for line in done.output.splitlines() if "│" in line}
    assert cells["pairs"] == "summarized"
    assert int(cells["matches"]) == project.tables().read_matches("all").num_rows > 0
    assert "cep matches --summaries --stream ticks --pattern-set all" in done.output


@pytest.mark.long
def test_rows_are_published_with_their_day(project: Project) -> None:
    write_patterns(project, TEXTS)
    outcome = project.run().run_days(DAYS)
    tables = project.tables()
    matches = tables.read_matches("all")
    assert set(matches["pattern"].to_pylist()) == {"matches"}, "statements with SUMMARIZE publish no match"
    returned = [json.loads(text) for text in matches["returns"].to_pylist()]
    rows = published(tables, "pairs")
    for kind in {one["kind"] for one in returned}:
        own = [one["x"] for one in returned if one["kind"] == kind]
        parts = [row["partial"] for row in rows if row["groups"] == {"kind": kind}]
        assert sum(int(part["matches"]) for part in parts) == len(own)
        assert sum(int(part["states"]["mean"]["total"]) for part in parts) == sum(own)
    assert [row["final_day"] for row in published(tables, "kept")] == list(DAYS)
    assert all(set(row["aggregates"]) == {"n", "x"} for row in published(tables, "kept"))
    counts = [step.counts["summaries"] for day in outcome.days for step in day.steps if step.name == "publish"]
    assert sum(counts) == tables.read_summaries("all").num_rows
    before = tables.read_summaries("all")
    patterns = project.configuration.stream("ticks").pattern_set("all").statements
    project.run(redo=True, end_of_stream=True).run_days(DAYS)
    whole = cep.detect(patterns, tables.read_events())
    for name in ("pairs", "kept", "composed"):
        [pattern] = (one for one in patterns if one.name == name)
        assert tables.summary_of("all", pattern).table().equals(whole[name])
    assert tables.read_summaries("all").equals(before), "no match waits for the end of the stream"

    assert project.run().run_stale().days == (), "nothing is stale"
    project.run(redo=True).run_days([MONDAY])
    assert tables.read_summaries("all").equals(before)
    assert project.tables().warehouse.verify(deep=True).damages == ()

    write_patterns(project, {**TEXTS, "pairs": TEXTS["pairs"].replace("2 hours", "1 hour")})
    project.run().run_stale()
    unchanged = pc.field("pattern") == "kept"
    columns = ["final_day", "groups", "aggregates", "partial"]
    assert (
        tables.read_summaries("all").filter(unchanged).select(columns).equals(before.filter(unchanged).select(columns))
    )

    write_patterns(project, {"matches": TEXTS["matches"]})
    project.run(redo=True).run_days(DAYS)
    assert tables.read_summaries("all").num_rows == 0, "no pattern of the set has SUMMARIZE any more"
    assert find_stale_days(project.configuration.stream("ticks"), project.tables()) == []
