"""What experiments share: cells that are kept, charts for both themes, findings that follow the figures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.charts import Axis, Style, bar_chart, line_chart
from benchmarks.experiments import EXPERIMENTS, experiment_named
from benchmarks.experiments.experiment import (
    Cell,
    CellStore,
    Experiment,
    Request,
    Row,
    code_digest,
    run_experiment,
    store_beside,
)
from benchmarks.experiments.findings import (
    Finding,
    Verdict,
    findings_table,
    log_slope,
    noise_of_runs,
    reasons,
    verdict_at_least,
    verdict_at_most,
)
from benchmarks.experiments.page import Page
from benchmarks.measure import Progress
from cep_pipeline.errors import InputError

ROWS: list[Row] = [
    {"x": x, "cost": cost * x, "kind": kind, "panel": panel}
    for x in (0.01, 0.1, 1.0)
    for kind, cost in (("one", 5_000), ("other", 70_000), ("nothing", 0))
    for panel in ("left", "right")
]


def page_of_a_moment(rows: Sequence[Row], *_: object) -> Page:
    return Page(f"{[row['figure'] for row in rows]}\n")


def experiment_of(measured: list[int], cells: int = 3, fails_at: int | None = None) -> Experiment:
    def cell(number: int) -> Cell:
        def run() -> Row:
            if number == fails_at:
                raise KeyboardInterrupt
            measured.append(number)
            return {"figure": 10 * number}

        return Cell({"number": number}, run)

    return Experiment("e", None, None, lambda *_: [cell(number) for number in range(cells)], page_of_a_moment)


def test_a_stopped_run_goes_on_where_it_was(tmp_path: Path) -> None:
    measured: list[int] = []
    path, request = tmp_path / "e.md", Request()
    with pytest.raises(KeyboardInterrupt):
        stopped = experiment_of(measured, fails_at=2)
        run_experiment(stopped, request, store_beside(path, stopped, request), Progress())
    assert measured == [0, 1]
    whole = experiment_of(measured)
    page = run_experiment(whole, request, store_beside(path, whole, request), Progress())
    assert measured == [0, 1, 2]
    assert page.text == "[0, 10, 20]\n"


def test_measurements_of_other_seeds_and_code_are_not_mixed_in(tmp_path: Path) -> None:
    measured: list[int] = []
    path, experiment = tmp_path / "e.md", experiment_of(measured)
    for seed in (1, 2, 2):
        request = Request(seed=seed)
        run_experiment(experiment, request, store_beside(path, experiment, request), Progress())
    assert measured == [0, 1, 2, 0, 1, 2]
    store = store_beside(path, experiment, Request(seed=2))
    assert len(store) == 3
    first = store.path.read_text().split("\n", 1)[0]
    store.path.write_text(store.path.read_text().replace(code_digest(), "0" * 16))
    assert store.path.read_text().split("\n", 1)[0] != first
    assert len(store_beside(path, experiment, Request(seed=2))) == 0


def test_a_line_that_was_not_finished_is_forgotten(tmp_path: Path) -> None:
    cells = [Cell({"n": number}, dict) for number in range(3)]
    store = CellStore(tmp_path / "x.cells.jsonl", {"seed": 1})
    store.keep(cells[0], {"n": 0, "cost": 1.5})
    store.keep(cells[1], {"n": 1, "cost": 2.5})
    whole = store.path.read_text()
    store.path.write_text(whole[:-9])
    again = CellStore(store.path, {"seed": 1})
    assert again.finished(cells[0]) == {"n": 0, "cost": 1.5} and again.finished(cells[1]) is None
    again.keep(cells[2], {"n": 2, "cost": 3.5})
    third = CellStore(store.path, {"seed": 1})
    assert len(third) == 2 and third.finished(cells[2]) == {"n": 2, "cost": 3.5}
    third.forget()
    assert not store.path.exists() and len(third) == 0


def test_charts_are_svg_with_all_series_and_without_a_background() -> None:
    styles = {"other": Style("#112233"), "one": Style("#445566", dashed=True)}
    x, y = Axis("x", "share", log=True), Axis("cost", "evaluations", log=True)
    chart = line_chart(ROWS, x, y, "kind", styles=styles, facet="panel")
    assert ElementTree.fromstring(chart).tag.endswith("svg")
    for shown in ("one", "other", "left", "right", "share", "evaluations", "#112233", "#445566", "0.01"):
        assert shown in chart
    assert "nothing" not in chart, "what costs nothing has no place on a logarithmic axis"
    assert not re.search(r'<rect[^>]*fill="(?:white|#fff|#ffffff)"', chart)
    assert chart == line_chart(ROWS, x, y, "kind", styles=styles, facet="panel")
    bars = bar_chart(ROWS, Axis("x", "share"), y, "kind", styles=styles)
    assert ElementTree.fromstring(bars).tag.endswith("svg") and "#445566" in bars


def lightness(color: str) -> float:
    """Relative luminance of a colour (WCAG 2)."""
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_stand_out_on_white_and_on_black() -> None:
    from benchmarks.experiments.lazy_nfa import STYLES
    from cep_pipeline.charts import INK, PALETTE

    for color in (INK, *PALETTE, *(style.color for style in STYLES.values())):
        for page in ("#ffffff", "#0d1117"):
            light, dark = sorted((lightness(color), lightness(page)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) > 3, (color, page)


def test_findings_stand_in_a_table_and_their_reasons_below_it() -> None:
    held = Finding("x falls", "by half", "by half", Verdict.HOLDS)
    failed = Finding("y falls", "by half", "it grows", Verdict.DIFFERS, "Our y is another.")
    better = Finding("z is small", "10", "2", Verdict.SURPASSED, "It is compiled.")
    missing = Finding("u falls", "by half", "", Verdict.UNDECIDED, "It was not in the run.")
    text = findings_table([held, failed, better, missing, missing])
    first = "Of 5 findings of the paper 1 holds, 1 is surpassed, 1 differs and 2 are not decidable here.\n"
    assert text.startswith(first)
    assert [line.split("|")[-2].strip() for line in text.splitlines()[4:]] == [
        "**holds**",
        "**differs**",
        "**surpassed**",
        "**not decidable here**",
        "**not decidable here**",
    ]
    assert reasons([held, failed, better])[0] == "**2. Y falls: differs.** Our y is another."
    assert len(reasons([held, failed, better])) == 2
    with pytest.raises(ValueError, match="needs a reason: y falls"):
        Finding("y falls", "", "it grows", Verdict.DIFFERS)


def test_a_difference_below_the_noise_is_no_verdict() -> None:
    noise = noise_of_runs([[1.0, 1.2, 1.9], [3.0, 3.6], [2.0]])
    assert noise == pytest.approx(1.2)
    assert verdict_at_least(9.0, 10.0) is Verdict.DIFFERS
    assert verdict_at_least(9.0, 10.0, noise=noise) is verdict_at_least(11.0, 10.0, noise=noise) is Verdict.UNDECIDED
    assert verdict_at_least(12.5, 10.0, noise=noise) is Verdict.HOLDS
    assert verdict_at_least(8.0, 10.0, noise=noise) is Verdict.DIFFERS
    assert verdict_at_least(50.0, 10.0, noise=noise, surpassed=30.0) is Verdict.SURPASSED
    assert verdict_at_least(31.0, 10.0, noise=noise, surpassed=30.0) is Verdict.HOLDS
    assert verdict_at_most(0.5, 1.0) is Verdict.HOLDS and verdict_at_most(1.1, 1.0) is Verdict.DIFFERS
    assert verdict_at_most(1.1, 1.0, noise=noise) is Verdict.UNDECIDED
    assert verdict_at_most(0.1, 1.0, surpassed=0.2) is Verdict.SURPASSED


def test_the_slope_of_logarithms_is_the_power_of_growth() -> None:
    xs = [1.0, 3.0, 10.0, 50.0]
    assert log_slope(xs, [7 * x**1.5 for x in xs]) == pytest.approx(1.5)


def test_a_page_is_written_with_its_charts_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "p.md"
    Page("a\n\n{chart:one}\n", {"one": ("what it shows", "<svg/>")}).write(path)
    assert path.read_text() == "a\n\n![what it shows](p/one.svg)\n"
    assert (tmp_path / "p" / "one.svg").read_text() == "<svg/>"
    Page("b\n").write(path)
    assert path.read_text() == "b\n" and not (tmp_path / "p").exists()


def test_experiments_are_found_by_name() -> None:
    for name in EXPERIMENTS:
        assert experiment_named(name).name == name
    with pytest.raises(InputError, match="there is no experiment 'lazy'; there are: lazy_nfa, nfab"):
        experiment_named("lazy")
