"""`cep experiment nfab` at the size of a moment, and its findings on figures made up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from benchmarks.experiments import nfab as findings
from benchmarks.experiments import nfab as nfab_runs
from benchmarks.experiments.experiment import Request, Row, run_experiment
from benchmarks.experiments.findings import Finding, Verdict
from benchmarks.experiments.nfab import (
    BACKTRACK,
    BACKTRACKING,
    BASIC,
    EXPERIMENT,
    FULL,
    GROWING,
    MATCHING,
    MATCHING_APART,
    MATCHING_BACK,
    MERGE,
    MERGING,
    NON_OVERLAPPING,
    SMALL,
    Query,
    Sizes,
    by_algorithm,
    measure,
    pattern_of,
    write_page,
)
from benchmarks.measure import Progress
from benchmarks.sase_stream import generate_sase_stream
from cep_pipeline.errors import CepError
from tests.benchmarks.sase_runs import Taking, matches_of_runs

pytestmark = pytest.mark.long


TINY = Sizes((20, 40, 60), 50, (0.7,), ("p1", "p2", "p3"))
TAKING: dict[str, Taking] = {
    "p1": lambda prices, price: True,
    "p2": lambda prices, price: price > prices[-1],
    "p3": lambda prices, price: price > min(prices),
    "p3 max": lambda prices, price: price > max(prices),
    "p3 avg": lambda prices, price: price > sum(prices) / len(prices),
}


@pytest.fixture(autouse=True)
def measured_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nfab_runs, "MOST_ROUNDS", 2)


@pytest.mark.parametrize("predicate", TAKING)
@pytest.mark.parametrize("strategy", ["s2", "s3"])
def test_queries_find_what_the_definition_of_runs_says(predicate: str, strategy: str) -> None:
    events = generate_sase_stream(4_000, seed=3, rising=0.5)
    expected = matches_of_runs(events, skipping=strategy == "s3", window_events=60, takes=TAKING[predicate])
    assert expected
    figures = measure(Query(predicate, strategy, 60), (BASIC, MERGE, BACKTRACK), events)
    for algorithm in (BASIC, MERGE, BACKTRACK):
        assert figures[f"{algorithm}.matches"] == len(expected)
        assert figures[f"{algorithm}.output_complexity"] == sum(map(len, expected))
        assert 0 < figures[f"{algorithm}.peak_runs"] <= figures[f"{algorithm}.runs_started"]  # type: ignore[operator]


def test_the_longer_query_asks_for_a_third_event() -> None:
    (clause,) = pattern_of(Query("p3*", "s3", 20)).clauses
    assert [variable.name for variable in clause.positive] == ["a", "b", "c"]


def test_the_page_has_its_tables_charts_and_findings() -> None:
    page = run_experiment(EXPERIMENT, Request(sizes=TINY), None, Progress())
    assert set(page.charts) == {"windows", "output", "algorithms"}
    for name, (_, svg) in page.charts.items():
        assert f"{{chart:{name}}}" in page.text and svg.startswith("<svg")
    assert page.text.count("| p2s3 ") == 9
    assert page.text.count("| p2s2 ") == page.text.count("| p2s3 ") - 1 > page.text.count("| p1s2 ")
    assert page.text.count(r"| p3\*s3 ") == len(TINY.windows) and "p3*" not in page.text
    assert "Of 9 findings of the paper " in page.text
    headings = [line for line in page.text.splitlines() if line.startswith("## ")]
    assert headings[:3] == ["## Findings", "## Pictures", "## Why"] and headings[-1] == "## How it was measured"


def test_the_full_extent_is_larger_and_has_a_section_for_each_stream() -> None:
    small, full = (EXPERIMENT.cells(Request(full=full)) for full in (False, True))
    assert len(small) < len(full)
    assert set(SMALL.windows) < set(FULL.windows)
    assert FULL.events(2000) == SMALL.events(2000) == 2 * 200 * 2000
    two = Sizes((20, 40), 50, (0.7, 0.55), ("p1", "p2", "p3"))
    page = run_experiment(EXPERIMENT, Request(sizes=two), None, Progress())
    assert {"windows", "windows-0_55"} <= set(page.charts)
    assert page.text.count("## Prices rise with probability") == 2


def row(part: str, query: str, window: int, **figures: object) -> Row:
    made: dict[str, object] = {"part": part, "rising": 0.7, "events": 1_000, "window": window, "query": query}
    for name, figure in figures.items():
        algorithm, _, what = name.partition("_")
        made[f"{algorithm}.{what}"] = figure
        made[f"{algorithm}.matches"] = 5
    return made  # type: ignore[return-value]


NOISE = 1.02


def basic_of(seconds: float) -> dict[str, float]:
    """Seconds of the basic algorithm, whose later runs took a little longer."""
    return {"basic_seconds": seconds, "basic_seconds_early": seconds, "basic_seconds_late": NOISE * seconds}


def paper_rows() -> Iterator[Row]:
    """Figures of the paper's shape."""
    for window in (500, 1000, 2000):
        for query in ("p1s2", "p1s3", "p2s3", "p3s2", "p3s3"):
            cost = 1e-6 * window**2
            yield row(GROWING, query, window, **basic_of(cost), basic_output_complexity=window**2)
            yield row(
                MERGING,
                query,
                window,
                basic_seconds=cost,
                basic_output_complexity=100 * window,
                basic_events_read=2_000,
                merge_seconds=cost / 1.5,
                merge_ratio=1.5,
                merge_events_read=1_000,
            )
        yield row(GROWING, "p2s2", window, **basic_of(0.01), basic_output_complexity=9)
        yield row(MERGING, "p2s2", window, merge_ratio=1.0)
        yield row(MATCHING, "p2s2", window, basic_seconds=0.1)
        for query in ("p1s3", "p2s3", "p3s3"):
            reads = {"basic_events_read": 2_000, "merge_events_read": 1_000}
            yield row(MATCHING, query, window, basic_seconds=2, merge_seconds=1, merge_ratio=2.0, **reads)
    for query in ("p1s2", "p1s3", "p2s3", "p3s2", "p3s3"):
        reads = {"basic_events_read": 1_000, "backtrack_events_read": 1_600, "backtrack_events_read_again": 600}
        yield row(BACKTRACKING, query, 500, backtrack_ratio=1 / 250, **reads)
        yield row(MATCHING_BACK, query, 500, backtrack_ratio=1 / 260)
    yield row(BACKTRACKING, "p2s2", 500, backtrack_ratio=1 / 1.3)
    for query, ratio in (("p3s2", 1.0), ("p3s3", 1.1), ("p3*s2", 2.0), ("p3*s3", 12.0)):
        for window, slower in ((500, 0.5), (2000, 1.0)):
            yield row(NON_OVERLAPPING, query, window, basic_seconds=1, backtrack_ratio=1 / ratio / slower)
            yield row(MATCHING_APART, query, window, backtrack_ratio=0.5 / ratio / slower)


def changed(wanted: Callable[[Row], bool], **figures: float) -> list[Row]:
    """The paper's figures, some of them multiplied where a row is wanted."""
    rows: list[Row] = []
    for one in paper_rows():
        factors = {name.replace("_", ".", 1): factor for name, factor in figures.items()} if wanted(one) else {}
        rows.append({name: value * factors[name] if name in factors else value for name, value in one.items()})  # type: ignore[operator]
    return rows


COMPLEXITY, CUBED = {"basic_output_complexity": 0.1}, {"basic_output_complexity": 8.0}
"""Of a query that lists fewer or more matches than the paper's: its cost stays linear in them."""


def test_all_findings_hold_on_figures_of_the_papers_shape() -> None:
    found = findings.all_findings(list(paper_rows()))
    assert [finding.verdict for finding in found] == [Verdict.HOLDS] * 9
    assert found[1].paper == "16 times the cost of an event for 4 times the window"
    assert [found[place].ours for place in (1, 4, 5, 6, 7, 8)] == [
        "16.0 times the cost",
        "250 times",
        "1.30 times",
        "12.0 times; 0.500 to 2.00 on the others",
        "1.50 times",
        "2.00 times",
    ]
    assert found[3].ours == "a line explains 100.0%; power of 1.00"
    assert all(len(finding.claim) <= 90 and len(finding.ours) <= 60 and finding.reason for finding in found)


def test_a_figure_within_the_noise_of_its_bound_decides_nothing() -> None:
    rows = by_algorithm(list(paper_rows()))
    assert findings.Noise.of(rows) == findings.Noise(pytest.approx(NOISE), 1.0)
    halves = {"ratio_early": 1.0, "ratio_late": 1.25}
    noisy = findings.Noise.of([{**one, **halves} for one in rows])
    assert noisy == findings.Noise(pytest.approx(NOISE), 1.25)
    assert findings.merging_gains(rows, noisy).verdict is Verdict.UNDECIDED  # 1.5 against 1.35
    assert findings.merging_gains_in_matching(rows, noisy).verdict is Verdict.HOLDS


def test_runs_are_told_by_halves() -> None:
    figures = measure(Query("p1", "s3", 20), [BASIC, MERGE], generate_sase_stream(500))
    for algorithm in (BASIC, MERGE):
        for figure in ("seconds", "ratio"):
            early, late = (figures[f"{algorithm}.{figure}_{half}"] for half in ("early", "late"))
            assert figures[f"{algorithm}.{figure}"] == pytest.approx((early + late) / 2)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("rows", "number", "verdict"),
    [
        (changed(lambda r: r["query"] == "p2s2", basic_seconds=5), 0, Verdict.DIFFERS),
        (
            changed(lambda r: r["query"] == "p1s3" and r["window"] == 2000, basic_seconds=0.1, **COMPLEXITY),
            1,
            Verdict.SURPASSED,
        ),
        (changed(lambda r: r["query"] == "p2s2" and r["window"] == 2000, basic_seconds=3), 2, Verdict.DIFFERS),
        (changed(lambda r: r["query"] == "p2s3" and r["window"] == 2000, basic_seconds=10), 3, Verdict.DIFFERS),
        (changed(lambda r: (r["part"], r["query"]) == (BACKTRACKING, "p3s2"), backtrack_ratio=5), 4, Verdict.DIFFERS),
        (
            changed(lambda r: (r["part"], r["query"]) == (BACKTRACKING, "p2s2"), backtrack_ratio=0.01),
            5,
            Verdict.DIFFERS,
        ),
        (changed(lambda r: r["query"] == "p3*s3", backtrack_ratio=2), 6, Verdict.DIFFERS),
        (
            changed(lambda r: (r["part"], r["query"], r["window"]) == (MERGING, "p3s3", 500), merge_ratio=0.8),
            7,
            Verdict.DIFFERS,
        ),
        (
            changed(lambda r: (r["part"], r["query"], r["window"]) == (MATCHING, "p3s3", 500), merge_ratio=0.6),
            8,
            Verdict.DIFFERS,
        ),
        (changed(lambda r: r["query"] == "p1s3" and r["window"] == 2000, basic_seconds=8, **CUBED), 1, Verdict.DIFFERS),
        (changed(lambda r: r["part"] == MERGING, merge_ratio=1.1), 7, Verdict.SURPASSED),
    ],
)
def test_a_finding_does_not_hold_where_the_figures_do_not(rows: Sequence[Row], number: int, verdict: Verdict) -> None:
    found: list[Finding] = findings.all_findings(rows)
    assert [finding.verdict for finding in found] == [
        verdict if place == number else Verdict.HOLDS for place in range(9)
    ]


def test_different_matches_are_refused() -> None:
    same = row(MERGING, "p1s3", 500, basic_seconds=1, merge_seconds=1)
    with pytest.raises(CepError, match=r"merge finds 6 matches where basic finds 5, of .*query p1s3"):
        write_page([{**same, "merge.matches": 6}], TINY, Request())


def test_rows_are_taken_apart_by_algorithm() -> None:
    apart = by_algorithm([row(MERGING, "p1s3", 500, basic_seconds=2, merge_seconds=1)])
    assert [(one["algorithm"], one["seconds"], one["query"]) for one in apart] == [
        (BASIC, 2, "p1s3"),
        (MERGE, 1, "p1s3"),
    ]
