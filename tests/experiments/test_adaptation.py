"""`cep experiment adaptation` at the size of a moment; its figures and findings by rows that are written here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks.experiments import adaptation
from benchmarks.experiments.adaptation import (
    AARHUS,
    ABSOLUTE,
    AVERAGE,
    CONJUNCTION,
    EXPERIMENT,
    FREQUENT,
    FULL,
    INVARIANT,
    MECHANISMS,
    META,
    PRICED,
    RATIO,
    RELATIVE,
    SEQUENCE,
    SETS,
    SKEW,
    SMALL,
    STATIC,
    STOCKS,
    THRESHOLD,
    TRAFFIC,
    UNCONDITIONAL,
    Case,
    Place,
    Sizes,
    Threshold,
    cases_of,
    decisions_of,
    interval_of,
    pattern_of,
    stretch_of,
)
from benchmarks.experiments.experiment import Request, Row, number, store_beside
from benchmarks.experiments.findings import Verdict, findings_of
from cep_pipeline.adaptation.decisions import ConstantThreshold
from cep_pipeline.planning import plan
from cep_pipeline.statistics import estimate_statistics
from tests.cli.command_line import cep

pytestmark = pytest.mark.long


TINY = Sizes(2, (0.1, 3.0), ((2, 6),), ((CONJUNCTION, 3),), (SEQUENCE, 3), ("greedy", "zstream"))
REAL = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(scope="module")
def few_events() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adaptation, "PER_S", 4.0)
        yield


@pytest.fixture(scope="module")
def rows(few_events: None) -> list[Row]:
    return [{**cell.key, **cell.run()} for cell in EXPERIMENT.cells(Request(sizes=TINY))]


def thirds(stretch: adaptation.Stretch) -> np.ndarray:
    """Events by third of the stretch's time and by type."""
    codes = pc.index_in(stretch.events.column("kind"), pa.array([f"T{code:02d}" for code in range(adaptation.TYPES)]))
    times = stretch.events.column("timestamp").cast(pa.int64()).to_numpy()
    third = np.minimum(3 * times // (times[-1] + 1), 2)
    return np.array([np.bincount(codes.to_numpy()[third == part], minlength=adaptation.TYPES) for part in range(3)])


def test_in_the_traffic_the_rarest_type_comes_to_be_a_frequent_one() -> None:
    counts = thirds(stretch_of(TRAFFIC, 30, 1, 1, None))
    assert counts[0].max() > SKEW / 5 * counts[0].min()
    for before, after in pairwise(counts):
        rarest = before.argmin()
        assert after[rarest] > 10 * before[rarest]
        assert before.argsort()[-FREQUENT:].tolist() != after.argsort()[-FREQUENT:].tolist()


def test_the_stocks_are_alike_and_drift_and_stretches_follow_seed_and_number(few_events: None) -> None:
    stocks = stretch_of(STOCKS, 30, 1, 1, None)
    assert thirds(stocks).max() < 4 * thirds(stocks).min()
    again, other = stretch_of(STOCKS, 30, 1, 1, None), stretch_of(STOCKS, 30, 2, 1, None)
    assert stocks.events.equals(again.events) and not stocks.events.equals(other.events)
    assert stocks.window == pytest.approx(4 * adaptation.WINDOW_S[STOCKS], rel=0.2)
    assert (np.diff(stocks.events.column("timestamp").cast(pa.int64()).to_numpy()) >= 0).all()


@pytest.mark.skipif(not REAL.is_dir(), reason="needs ../shared/data")
def test_a_stretch_of_the_real_month_is_three_days_with_many_events_of_a_type_in_a_window() -> None:
    second = stretch_of(AARHUS, 0, 2, 1, REAL)
    times = second.events.column("timestamp").cast(pa.int64())
    assert 2.9 * adaptation.DAY_US < times[-1].as_py() - times[0].as_py() <= 3 * adaptation.DAY_US
    assert len(second.types) == adaptation.TYPES and second.window > 1_000


@pytest.mark.parametrize("kind", SETS)
def test_patterns_of_all_sets_compare_each_event_with_the_one_before(kind: str, few_events: None) -> None:
    stretch = stretch_of(TRAFFIC, 20, 1, 1, None)
    pattern = pattern_of(stretch, kind, 4, seed=1)
    assert len(pattern.operands) == (8 if kind == "disjunction" else 4)
    assert {stretch.types[0], *stretch.types[-3:]} == {of for one in pattern.operands for of in one.types}


def test_thresholds_measure_how_far_a_number_has_moved_each_in_its_own_way(few_events: None) -> None:
    before, after = (stretch_of(TRAFFIC, 12, 1, 1, None).events.slice(first, 500) for first in (0, 2_000))
    pattern = pattern_of(stretch_of(TRAFFIC, 12, 1, 1, None), SEQUENCE, 3, seed=1)
    known, fresh = (estimate_statistics([pattern], events, seed=1) for events in (before, after))
    made = plan([pattern], known)

    def asks(decision: Threshold | ConstantThreshold, snapshot: object = fresh) -> bool:
        return decision.decide(decision.begin(made, [pattern], known), snapshot).replan  # type: ignore[arg-type]

    for t in (0.01, 0.3, 1.0, 3.0, 30.0):
        assert asks(Threshold(RELATIVE, t)) == asks(ConstantThreshold(t))
        # A fall by half is a relative movement of 0.5, and a ratio of 2: a ratio asks at least as often.
        assert asks(Threshold(RATIO, t)) >= asks(Threshold(RELATIVE, t))
    assert asks(Threshold(ABSOLUTE, 0.01)) and not asks(Threshold(ABSOLUTE, 1e6))
    assert not asks(Threshold(RATIO, 1e-9), known)


def test_every_cell_has_all_figures_and_the_matches_of_all_decision_functions_are_the_same(rows: list[Row]) -> None:
    assert len(rows) == 3 * 2 * 2  # the traffic by two planners, the stocks by one; cases; repetitions
    for row in rows:
        assert number(row, f"{STATIC}:alarms") == number(row, f"{STATIC}:switches") == 0
        assert number(row, f"{STATIC}:estimating") == 0 < number(row, f"{UNCONDITIONAL}:estimating")
        assert number(row, f"{UNCONDITIONAL}:alarms") == number(row, "decisions") > 8
        for name in decisions_of(TINY.parameters):
            assert number(row, f"{name}:alarms") >= number(row, f"{name}:switches")
            assert number(row, f"{name}:tries") > 0 < number(row, f"{name}:detecting")
        assert number(row, f"{UNCONDITIONAL}, {PRICED}:switches") <= number(row, f"{UNCONDITIONAL}:switches")


def test_in_the_traffic_adapting_saves_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adaptation, "PER_S", 40.0)
    figures = adaptation._measure(TRAFFIC, "greedy", (SEQUENCE, 5, 4, 24), 1, (), Request())
    assert number(figures, f"{STATIC}:tries") > 1.5 * number(figures, "d=0:tries")


SECONDS: Mapping[str, float] = {
    STATIC: 3.0,
    UNCONDITIONAL: 4.0,
    f"{RELATIVE}=3": 2.0,
    f"{ABSOLUTE}=3": 2.2,
    "d=0": 2.5,
    "d=1": 1.0,
    AVERAGE: 1.05,
    META: 2.0,
    f"{UNCONDITIONAL}, {PRICED}": 1.1,
    f"d=0, {PRICED}": 1.1,
}


def made(stream: str, planner: str, **others: float | Sequence[float]) -> list[Row]:
    """Five rows of a case with these seconds of detection; others replace them, the same or one a repetition."""
    found = []
    for place in range(5):
        row: dict[str, str | float | int] = {"stream": stream, "planner": planner, "set": SEQUENCE, "size": 5}
        row |= {"a window": 4, "windows": 10, "stream is": "events", "repetition": place}
        row |= {"events": 1_000, "matches": 10, "decisions": 8, "beside measured": 0.1}
        for name, seconds in SECONDS.items():
            given = others.get(name, seconds)
            alarms = {STATIC: 0, UNCONDITIONAL: 8, "d=1": 1, f"{RELATIVE}=3": 2}.get(name, 5)
            row |= {f"{name}:alarms": alarms, f"{name}:switches": min(alarms, 3), f"{name}:tries": 1e8}
            row |= {f"{name}:detecting": given if isinstance(given, float | int) else given[place]}
            row |= {f"{name}:estimating": 0.0, f"{name}:deciding": 0.0, f"{name}:planning": 0.001 * alarms}
        found.append(row)
    return found


def of_the_patents_shape(**others: float | Sequence[float]) -> list[Row]:
    slow = {f"{RELATIVE}=3": 7.0, f"{ABSOLUTE}=3": 7.5}
    return [
        *made(TRAFFIC, "greedy", **(slow | {"d=1": 1.1} | others)),
        *made(TRAFFIC, "zstream", **(slow | others)),
        *made(STOCKS, "greedy", **({"d=1": 1.2} | others)),
        *made(STOCKS, "zstream", **others),
    ]


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    return [finding.verdict for finding in findings_of(adaptation.__name__, cases_of(rows))]


def test_all_findings_hold_on_figures_of_the_patents_shape() -> None:
    assert verdicts(of_the_patents_shape()) == [Verdict.HOLDS] * 9


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({"d=0": 1.1}, {1: Verdict.DIFFERS}),
        ({"d=1": 2.2, "d=0": 2.2}, {2: Verdict.DIFFERS, 3: Verdict.DIFFERS, 4: Verdict.DIFFERS, 8: Verdict.UNDECIDED}),
        ({"d=1": (1.0, 9.0, 1.0, 0.2, 1.0)}, {2: Verdict.DIFFERS, 4: Verdict.UNDECIDED}),
        ({UNCONDITIONAL: 2.0}, {7: Verdict.DIFFERS}),
        ({UNCONDITIONAL: (1.0, 9.0, 2.0, 5.0, 3.0)}, {7: Verdict.UNDECIDED}),
        ({AVERAGE: 4.0}, {9: Verdict.DIFFERS}),
    ],
)
def test_a_finding_fails_where_the_figures_do(
    others: dict[str, float | tuple[float, ...]], expected: dict[int, Verdict]
) -> None:
    found = verdicts(of_the_patents_shape(**others))
    assert {place: found[place - 1] for place in expected} == expected


def test_estimating_statistics_is_a_part_of_all_time() -> None:
    rows = [{**row, "d=1:estimating": 9.0} for row in made(STOCKS, "greedy")]
    (case,) = cases_of(rows)
    assert case.ahead_of("d=1", STATIC).place is Place.BEHIND
    assert case.overhead("d=1", ["estimating"]) == pytest.approx(9 / 10.001)


def test_parameters_are_those_that_were_best_on_other_stretches() -> None:
    # One repetition alone would have chosen otherwise: it is judged by what the other four say.
    (case,) = cases_of(made(STOCKS, "greedy", **{"d=0": (0.1, 2.5, 2.5, 2.5, 2.5)}))
    assert {case.name_of(INVARIANT, place) for place in range(5)} == {"d=1"}
    (case,) = cases_of(made(STOCKS, "greedy", **{"d=0": (0.0001, 1.1, 1.1, 1.1, 1.1)}))
    assert [case.name_of(INVARIANT, place) for place in (0, 1)] == ["d=1", "d=0"]
    assert case.in_hindsight(INVARIANT) == "d=0" and case.chosen(INVARIANT) == "d=0 or d=1"
    assert case.name_of(THRESHOLD, 0) == f"{RELATIVE}=3" and case.name_of(STATIC, 0) == STATIC


def test_an_interval_says_who_is_ahead() -> None:
    assert interval_of([1.2, 1.3, 1.25]).place is Place.AHEAD
    assert interval_of([0.8, 0.7, 0.75]).place is Place.BEHIND
    assert interval_of([0.5, 2.0, 1.0]).place is Place.LEVEL
    assert interval_of([5.0]).place is Place.LEVEL, "one repetition decides nothing"
    # The logarithms are 1, 2 and 3: Student's t of two degrees of freedom is 4.302653.
    found = interval_of([np.exp(1.0), np.exp(2.0), np.exp(3.0)])
    assert np.log([found.low, found.middle, found.high]) == pytest.approx(
        [2 - 4.302653 / 3**0.5, 2, 2 + 4.302653 / 3**0.5]
    )


def test_the_extents_are_those_of_the_patent() -> None:
    assert {often for often, _ in FULL.frequencies} == {4, 16, 64}
    assert {often for often, _ in SMALL.frequencies} == {4, 64} and SMALL.repetitions == 3
    assert {size for _, size in FULL.sets} == {*range(3, 9)} and {kind for kind, _ in FULL.sets} == {*SETS}
    assert FULL.planners == tuple(MECHANISMS) and FULL.repetitions == 5
    assert isinstance(cases_of(made(STOCKS, "greedy"))[0], Case)


@pytest.mark.long
def test_the_command_goes_on_where_it_was_writes_a_page_and_says_what_holds(
    rows: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = replace(EXPERIMENT, small=TINY)
    monkeypatch.setattr(adaptation, "EXPERIMENT", tiny)
    request = Request(data=Path("nowhere"))
    store = store_beside(tmp_path / "page.md", EXPERIMENT, request)
    for cell, row in zip(tiny.cells(request)[1:], rows[1:], strict=True):
        store.keep(cell, row)
    arguments = ("experiment", "adaptation", "--data", "nowhere", "--out", "page.md")
    done = cep(*arguments, folder=tmp_path)
    assert done.code == 0, done.errors
    page = (tmp_path / "page.md").read_text()
    assert "`cep experiment adaptation --seed 1`" in page and "The month of real traffic was not there" in page
    assert done.output.startswith("Of 9 findings of the paper ") and done.output.endswith("written to page.md\n")
    headings = ["Who is ahead", "What is tried of t and d", "Where the time goes"]
    assert re.findall(r"^## (.*)$", page, re.MULTILINE)[3:-1] == headings
    assert (tmp_path / "page" / "distance.svg").is_file() and "{" not in page
    again = cep(*arguments, folder=tmp_path)
    assert "measurements of an earlier run" in again.errors
    assert (tmp_path / "page.md").read_text() == page
