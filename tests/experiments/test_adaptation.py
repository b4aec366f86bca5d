"""`cep experiment adaptation` at the size of a moment."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from benchmarks.experiments.adaptation import experiment as adaptation
from benchmarks.experiments.adaptation.experiment import EXPERIMENT
from benchmarks.experiments.adaptation.figures import (
    by_decision,
    number,
)
from benchmarks.experiments.adaptation.patterns import (
    SEQUENCE,
    Fitted,
    fitted_pattern,
    matches_in,
)
from benchmarks.experiments.adaptation.runs import Detected, measure
from benchmarks.experiments.adaptation.sizes import (
    AVERAGE,
    CHAIN,
    COMPARISON,
    CONTENDERS,
    FREQUENCY,
    FULL,
    META,
    OTHER_K,
    SMALL,
    STATIC,
    UNCONDITIONAL,
    Sizes,
)
from benchmarks.experiments.adaptation.streams import (
    permuted_rates,
)
from benchmarks.experiments.cells import Figure, Row
from benchmarks.experiments.experiment import Request, store_beside
from cep_pipeline.adaptation import AdaptationReport, AdaptiveDetection
from cep_pipeline.detection.detect import count_table
from cep_pipeline.errors import CepError, NoRoom
from cep_pipeline.patterns.pattern import Pattern
from tests.cli.command_line import cep
from tests.experiments.adaptation_sizes import CHECKS, TINY


def test_a_pattern_whose_plans_hold_too_much_is_measured_in_a_shorter_window(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []

    def measure_once(contender: object, stream: object, fitted: Fitted, *_: object, **__: object) -> dict[str, Figure]:
        measured.append(fitted.window_s)
        if len(measured) == 1:
            raise NoRoom("too much is held")
        return {"figure": 1}

    monkeypatch.setattr(adaptation, "measure", measure_once)
    cell = next(cell for cell in EXPERIMENT.plan(Request(sizes=TINY)).cells if cell.key["part"] == COMPARISON)
    row = cell.run()
    assert len(measured) == 2 and measured[1] < measured[0] and row["window_s"] == measured[1]
    assert row["shortened"] == 1


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return [{**cell.key, **cell.run()} for cell in EXPERIMENT.plan(Request(sizes=TINY)).cells]


def test_every_decision_function_has_its_figures(rows: list[Row]) -> None:
    assert len(rows) == 2 * (2 * 3 + 4 * 2) - 1 + 3 + 2 * 2 * 2
    names = [STATIC, UNCONDITIONAL, "t=0.1", "t=2", "d=0", "d=0.5", AVERAGE, META, OTHER_K]
    apart = by_decision(rows)
    assert len(apart) == len(rows) * len(names)
    for row in apart:
        assert row["decision"] in names
        assert row["seconds"] > 0 and row["throughput"] > 0  # type: ignore[operator]
        assert row["checks"] == (0 if row["decision"] == STATIC else 3 * int(row.get("a window") or 4) // 4)
        assert row["switches"] <= row["planned"] <= row["checks"]  # type: ignore[operator]
        if row["decision"] == UNCONDITIONAL:
            assert row["planned"] == row["checks"]
        if row["decision"] == STATIC:
            assert row["gain"] == row["less_work"] == 1
    assert any(row["switches"] for row in apart) and any(row["matches"] for row in apart)


def test_deciding_more_often_changes_nothing_else(rows: list[Row]) -> None:
    often = [row for row in rows if row["part"] == FREQUENCY]
    assert {row["a window"] for row in often} == set(TINY.frequencies)
    for row in often:
        assert number(row, "interval_s") * number(row, "a window") == row["window_s"]
        assert row["reach"] == row["a window"]  # in time: one window
        twins = [of for of in often if (of["set"], of["contender"]) == (row["set"], row["contender"])]
        assert {of["pattern"] for of in twins} == {row["pattern"]} and len(twins) == len(TINY.frequencies)


def test_runs_that_switch_alike_take_the_mechanism_as_long(rows: list[Row]) -> None:
    for row in rows:
        unchanged = [name for name in ("t=2", "d=0.5", AVERAGE) if row[f"{name}:switches"] == 0]
        for name in unchanged:
            assert row[f"{name}:detecting"] == row[f"{STATIC}:detecting"]
            assert row[f"{name}:candidates"] == row[f"{STATIC}:candidates"]


def test_the_page_has_its_tables_charts_and_findings(rows: list[Row], tmp_path: Path) -> None:
    page = EXPERIMENT.plan(Request(sizes=TINY, data=None)).page(rows)
    assert set(page.charts) == {"distance", "gain"}
    page.write(tmp_path / "adaptation.md")
    text = (tmp_path / "adaptation.md").read_text()
    assert "{" not in text
    for name in page.charts:
        assert f"](adaptation/{name}.svg)" in text and (tmp_path / "adaptation" / f"{name}.svg").is_file()
    assert "Of 9 findings of the paper " in text
    assert "The patent prints the factor on the other side" in text
    assert "generated readings of" in text and "with seed 1" in text
    assert "no finding about times has a verdict" in text
    headings = re.findall("^## (.*)$", text, re.MULTILINE)
    assert headings[:3] == ["Findings", "Pictures", "Why"] and headings[-1] == "How it was measured"
    for heading in ("figure 6", "figures 7 and 8", "Rates permuted", "How often it is decided", "What statistics say"):
        assert any(heading in one for one in headings)
    why = text.split("## Why")[1].split("\n## ")[0]
    cited = re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", why)
    assert cited and set(cited) <= set(headings)


def test_plans_in_hindsight_are_run_where_decisions_are_compared(rows: list[Row]) -> None:
    for row in rows:
        assert ("hindsight_candidates" in row) == (row["part"] != FREQUENCY)
        assert int(row.get("hindsight_switches") or 0) <= 3


@pytest.mark.parametrize(
    ("times", "spread", "agrees"),
    [([2.0], 0.0, False), ([2.0, 3.0], 0.5, False), ([2.0, 3.0, 2.02], 0.01, True), ([0.0, 0.0], 0.0, True)],
)
def test_a_run_is_timed_until_two_times_are_alike(times: list[float], spread: float, agrees: bool) -> None:
    detected = Detected(pa.table({}), 5, times)
    assert detected.seconds == min(times)
    assert detected.spread == pytest.approx(spread) and detected.agrees == agrees


def test_the_most_runs_are_those_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = permuted_rates(600, 300, seed=1)
    fitted = fitted_pattern(stream, SEQUENCE, 3, 1, 3_000.0, 3)
    find = AdaptiveDetection.detect
    found: list[AdaptationReport] = []

    def counted(
        self: AdaptiveDetection, patterns: list[Pattern], events: pa.Table, **settings: Any
    ) -> tuple[dict[str, pa.Table], AdaptationReport]:
        tables, report = find(self, patterns, events, **settings)
        if self.find:
            found.append(report)
        return tables, report

    monkeypatch.setattr(AdaptiveDetection, "detect", counted)
    for agrees, runs in ((False, 3), (True, 1)):
        found.clear()
        monkeypatch.setattr(Detected, "agrees", agrees)
        row = measure(CHAIN, stream, fitted, replace(TINY, repetitions=3), 1)
        # One run for all that switch to the same plans at the same events, each so often.
        different = len({tuple((switch.row, switch.orders) for switch in report.switches) for report in found})
        assert len(found) == runs * different
        assert row["static:spread"] == 0 or not agrees


def test_different_matches_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = permuted_rates(600, 300, seed=1)
    fitted = fitted_pattern(stream, SEQUENCE, 3, 1, 3_000.0, 3)
    find = AdaptiveDetection.detect
    runs: list[int] = []

    def losing(
        self: AdaptiveDetection, patterns: list[Pattern], events: pa.Table, **settings: Any
    ) -> tuple[dict[str, pa.Table], AdaptationReport]:
        tables, report = find(self, patterns, events, **settings)
        if self.find:
            runs.append(len(runs))
        if len(runs) == 2:
            tables = {name: count_table(fitted.pattern, 1 + matches_in(table)) for name, table in tables.items()}
        return tables, report

    monkeypatch.setattr(AdaptiveDetection, "detect", losing)
    with pytest.raises(CepError, match=r"on lazy_chain_nfa finds .* where .* were found"):
        measure(CHAIN, stream, fitted, replace(TINY, repetitions=2), 1)
    assert len(runs) == 2


def test_as_many_distances_as_thresholds_are_tried() -> None:
    with pytest.raises(ValueError, match="as many distances as thresholds"):
        Sizes(CHECKS, (3,), (3,), (0.0,), (0.1, 2.0), 20.0, (300,), 3, 1, (), 3)
    small, full = (EXPERIMENT.plan(Request(full=full)) for full in (False, True))
    assert len(small.cells) < len(full.cells)
    assert {cell.key["size"] for cell in full.cells if cell.key["part"] == COMPARISON} == set(range(3, 9))
    assert {cell.key["contender"] for cell in small.cells} == {contender.name for contender in CONTENDERS}
    assert [len(sizes.distances) for sizes in (SMALL, FULL)] == [4, 11]


def test_the_command_goes_on_where_it_was_writes_a_page_and_says_what_holds(
    rows: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adaptation, "SMALL", TINY)
    request = Request(data=Path("nowhere"))
    store = store_beside(tmp_path / "page.md", EXPERIMENT, request)
    for cell, row in zip(EXPERIMENT.plan(request).cells[1:], rows[1:], strict=True):
        store.keep(cell, row)
    arguments = ("experiment", "adaptation", "--data", "nowhere", "--out", "page.md")
    done = cep(*arguments, folder=tmp_path)
    assert done.code == 0, done.errors
    page = (tmp_path / "page.md").read_text()
    assert "`cep experiment adaptation --seed 1`" in page and "generated readings" in page
    assert done.output.startswith("Of 9 findings of the paper ") and done.output.endswith("written to page.md\n")
    again = cep(*arguments, folder=tmp_path)
    assert "measurements of an earlier run" in again.errors
    assert (tmp_path / "page.md").read_text() == page
