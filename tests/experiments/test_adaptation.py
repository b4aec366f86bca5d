"""`cep experiment adaptation` at the size of a moment, and its findings on figures made up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cep_pipeline.adaptation import AdaptationReport, AdaptiveDetection
from cep_pipeline.adaptation.thresholds import numbers_now, questions_of
from cep_pipeline.detection.detect import count_table
from cep_pipeline.detection.room import NoRoom
from cep_pipeline.errors import CepError
from cep_pipeline.experiments import adaptation, adaptation_patterns
from cep_pipeline.experiments import adaptation_findings as findings
from cep_pipeline.experiments.adaptation import EXPERIMENT
from cep_pipeline.experiments.adaptation_figures import (
    Best,
    best_of,
    by_decision,
    chosen_by,
    compared_rows,
    number,
    of_part,
)
from cep_pipeline.experiments.adaptation_frequency import frequency_table, frequency_text
from cep_pipeline.experiments.adaptation_patterns import (
    CONJUNCTION,
    INTERVALS_A_WINDOW,
    KLEENE,
    NEGATION,
    SEQUENCE,
    SETS,
    TREE_BY,
    Fitted,
    fitted_pattern,
    interval_us,
    matches_in,
    pattern_text,
)
from cep_pipeline.experiments.adaptation_prediction import REACHES, prediction, saved
from cep_pipeline.experiments.adaptation_prediction_tables import rank_correlation
from cep_pipeline.experiments.adaptation_runs import measure
from cep_pipeline.experiments.adaptation_sizes import (
    AVERAGE,
    CHAIN,
    COMPARISON,
    CONTENDERS,
    FREQUENCY,
    FULL,
    FUSED,
    META,
    OF_THE_PATENT,
    OTHER_K,
    SMALL,
    STATIC,
    TREE,
    UNCONDITIONAL,
    Sizes,
    distance_name,
    threshold_name,
)
from cep_pipeline.experiments.adaptation_streams import (
    PERMUTED,
    STOCKS,
    TRAFFIC,
    ExperimentStream,
    drifting_stocks,
    permuted_rates,
    traffic_readings,
)
from cep_pipeline.experiments.cells import Figure, Row
from cep_pipeline.experiments.experiment import Request
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.statistics import StatisticsSnapshot, estimate_statistics
from tests.cli.command_line import cep

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
CHECKS = {STOCKS: 3, TRAFFIC: 3, PERMUTED: 3}
TINY = Sizes(CHECKS, (3, 4), (3,), (0.0, 0.5), (0.1, 2.0), 3_000.0, (300,), 3, 1, (2, 8), 3, beside=(SEQUENCE,))
DAY_S = 86_400


def counts_of(stream: ExperimentStream, first: int, events: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Events of each type in a part of a stream, ascending."""
    types = stream.events.slice(first, events).column(stream.schema.type_attribute)
    return np.sort(pc.value_counts(types.combine_chunks()).field("counts").to_numpy())


def test_stocks_begin_alike_and_drift() -> None:
    stream = drifting_stocks(40_000, seed=1)
    begin, later = counts_of(stream, 0, 800), counts_of(stream, 36_000, 800)
    assert stream.events.num_rows == 40_000 and len(begin) == len(stream.types)
    assert begin[-1] / begin[0] < later[-1] / later[0] < 4
    assert drifting_stocks(500, seed=1).events.equals(drifting_stocks(500, seed=1).events)
    assert not drifting_stocks(500, seed=2).events.equals(drifting_stocks(500, seed=1).events)


def test_rates_are_permuted_after_every_phase() -> None:
    stream = permuted_rates(8_000, 4_000, seed=1)
    one, other = (
        {
            entry["values"]: entry["counts"]
            for entry in stream.events.slice(first, 4_000)["symbol"].value_counts().to_pylist()
        }
        for first in (0, 4_000)
    )
    assert sorted(one, key=one.__getitem__) != sorted(other, key=other.__getitem__)
    for counts in (sorted(one.values()), sorted(other.values())):
        assert 10 < counts[-1] / counts[0] < 25


def looks_by_class(stream: ExperimentStream) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Looks with vehicles of each class of roads, by the hour of the day."""
    classes = pc.index_in(stream.events["roads"], pa.array(stream.types)).to_numpy()
    hours = pc.hour(stream.events["timestamp"]).to_numpy()
    found = np.zeros((len(stream.types), 24), np.int64)
    np.add.at(found, (classes, hours), 1)
    return found


def test_generated_traffic_is_skewed_and_changes_with_day_and_night() -> None:
    stream = traffic_readings(None, 2 * DAY_S, seed=1)
    assert "generated readings of roads in use" in stream.description
    assert 2 * DAY_S - 3_600 < stream.time_us[-1] / 1e6 < 2 * DAY_S
    by_class = looks_by_class(stream)
    whole, by_hour = by_class.sum(axis=1), by_class.sum(axis=0)
    assert whole[-1] > 5 * max(whole[0], 1) and (np.diff(whole) >= -0.1 * whole[:-1]).all()
    assert by_hour.max() > 5 * by_hour.min()
    assert min(stream.events.column("vehicle_count").to_pylist()) > 0


def test_the_real_month_is_read_where_it_is() -> None:
    if not (SHARED / "aarhus_traffic").is_dir():
        pytest.skip("../shared/data is not there")
    stream = traffic_readings(SHARED, 6 * 3_600, seed=1)
    assert (
        "roads in use, every other road, in 10 classes, of Aarhus from Monday, 4 August 2014, at 4:00 on"
        in stream.description
    )
    assert str(stream.events["timestamp"][0].as_py()).startswith("2014-08-04 02:0")  # two hours behind
    assert stream.events["seq"].to_pylist() == list(range(stream.events.num_rows))
    assert 5 * 3_600 < stream.time_us[-1] / 1e6 < 6 * 3_600
    assert set(stream.events["roads"].to_pylist()) <= set(stream.types)


@pytest.mark.parametrize("kind", SETS)
def test_patterns_of_all_sets_and_sizes_are_drawn_by_the_seed(kind: str) -> None:
    stream = permuted_rates(600, 300, seed=1)
    for size in (3, 8):
        text = pattern_text(stream, kind, size, 1, 10)
        assert text == pattern_text(stream, kind, size, 1, 10) != pattern_text(stream, kind, size, 2, 10)
        fitted = fitted_pattern(stream, kind, size, 1, 1_000.0, 3)
        operands = (3 * size) if kind == "disjunction" else size + (kind == NEGATION)
        assert len(fitted.pattern.operands) == operands
        least = stream.least_window_s
        assert (least // 3 if kind == KLEENE else least) <= fitted.window_s <= stream.longest_window_s


def test_windows_are_longer_for_more_work_and_intervals_with_them() -> None:
    stream = permuted_rates(6_000, 3_000, seed=1)
    little, more, most = (fitted_pattern(stream, SEQUENCE, 3, 1, work, 3) for work in (50.0, 3_000.0, 1e8))
    assert stream.least_window_s <= little.window_s < more.window_s < most.window_s == stream.longest_window_s
    for fitted in (little, more, most):
        assert fitted.every_us * INTERVALS_A_WINDOW == fitted.window_s * 1_000_000


def test_decisions_are_not_taken_more_often_than_sensors_report_twice() -> None:
    stream = traffic_readings(None, 3_600, seed=1)
    assert [interval_us(stream, window_s) for window_s in (600, 2_400, 4_800)] == [600 * 10**6] * 2 + [1_200 * 10**6]


def test_the_first_plan_bounds_the_window_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work grows with the window; by the plan of the first place it is so many times as much at the others."""
    stream = permuted_rates(20_000, 20_000, seed=1)
    times = [1]

    def work(loop: AdaptiveDetection, pattern: Pattern, events: pa.Table, planned_from: StatisticsSnapshot) -> int:
        assert planned_from.start_us is not None
        begin_us: int = events["timestamp"].cast(pa.int64())[0].as_py()
        return int(events.num_rows) * (1 if planned_from.start_us >= begin_us else times[0])

    monkeypatch.setattr(adaptation_patterns, "_work", work)
    found = []
    for times[0] in (1, 10, 40):
        found.append(fitted_pattern(replace(stream), SEQUENCE, 4, 1, 300.0, 32).window_s)
    assert found[0] == found[1] > 2 * found[2]


def test_a_window_that_holds_more_than_there_is_room_for_is_a_shorter_one(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = permuted_rates(6_000, 3_000, seed=1)
    longer = fitted_pattern(replace(stream), SEQUENCE, 3, 1, 1e8, 3).window_s
    monkeypatch.setattr(adaptation_patterns, "MOST_BYTES", 1 << 12)
    monkeypatch.setattr("cep_pipeline.detection.evaluation_tree.run.ROOM", 16)
    bounded = fitted_pattern(replace(stream), SEQUENCE, 3, 1, 1e8, 3).window_s
    assert bounded < longer
    assert fitted_pattern(replace(stream), SEQUENCE, 3, 1, 1e8, 3, TREE_BY, bounded // 2).window_s == bounded // 2


def test_a_pattern_whose_plans_hold_too_much_is_measured_in_a_shorter_window(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []

    def measure_once(contender: object, stream: object, fitted: Fitted, *others: object) -> dict[str, Figure]:
        measured.append(fitted.window_s)
        if len(measured) == 1:
            raise NoRoom("too much is held")
        return {"figure": 1}

    monkeypatch.setattr(adaptation, "measure", measure_once)
    cell = next(cell for cell in EXPERIMENT.plan(Request(sizes=TINY)).cells if cell.key["part"] == COMPARISON)
    row = cell.run()
    assert len(measured) == 2 and measured[1] < measured[0] and row["window_s"] == measured[1]


def test_conditions_of_small_patterns_select_as_much_as_those_of_five_events() -> None:
    stream = drifting_stocks(20_000, seed=1)
    for size in (4, 5, 8):
        (pattern,) = parse_patterns(pattern_text(stream, SEQUENCE, size, 1, 60), stream.schema)
        snapshot = estimate_statistics([pattern], stream.events, seed=1)
        selectivities = list(numbers_now(questions_of([pattern])["p"], snapshot).values())[size:]
        assert len(selectivities) == size - 1
        assert np.prod(selectivities) == pytest.approx(0.025 ** max(size - 1, 4), rel=0.9)


def test_conditions_of_a_conjunction_pass_as_many_pairs_as_those_of_a_sequence() -> None:
    stream = drifting_stocks(20_000, seed=1)
    (pattern,) = parse_patterns(pattern_text(stream, CONJUNCTION, 5, 1, 60), stream.schema)
    snapshot = estimate_statistics([pattern], stream.events, seed=1)
    selectivities = list(numbers_now(questions_of([pattern])["p"], snapshot).values())[5:]
    assert selectivities == pytest.approx([0.025 / 2] * 4, rel=0.4)


def permuted_loop(every_us: int) -> AdaptiveDetection:
    return AdaptiveDetection(planner="greedy", mechanism="lazy_chain_nfa", every=f"{every_us} us")


def test_predictions_follow_the_stream() -> None:
    steady, changing = (permuted_rates(20_000, phase, seed=1) for phase in (20_000, 700))
    found, costs = [], []
    for stream in (steady, changing):
        fitted = fitted_pattern(stream, SEQUENCE, 5, 1, 100_000.0, 30)
        loop = permuted_loop(50_000_000)
        found.append(prediction(loop, fitted.pattern, stream.events))
        reaching = replace(loop, window=f"{found[-1].reach * 50_000_000} us")
        costs.append(saved(reaching, fitted.pattern, stream.events, found[-1]))
    assert set(found[0].error) == set(REACHES)
    assert found[0].error[8] < found[0].error[1] < found[1].error[1]
    for told in found:
        assert told.error[told.reach] == min(told.error.values())
    assert costs[0][1] == pytest.approx(1.0, abs=0.2)
    assert costs[1][0] > 1.0


def test_ranks_are_correlated() -> None:
    assert rank_correlation([1, 2, 3], [10, 200, 201]) == pytest.approx(1.0)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    assert rank_correlation([1, 1, 1], [3, 2, 1]) == 0.0


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


def test_the_table_of_frequencies_has_the_best_of_each_pattern() -> None:
    times = {STATIC: 8.0, UNCONDITIONAL: 16.0, "t=0.1": 4.0, "t=2": 5.0, "d=0": 6.0, "d=0.5": 2.0}
    rows: list[Row] = []
    for a_window, slower in ((2, 1.0), (8, 0.5)):
        row: dict[str, Figure] = {"part": FREQUENCY, "stream": STOCKS, "set": SEQUENCE, "size": 3}
        row |= {"contender": CHAIN.name, "a window": a_window, "events_read": 1_000}
        for name, seconds in times.items():
            figures = {"detecting": seconds * (1 if name == STATIC else slower), "deciding": 0.0, "planning": 0.0}
            row |= {f"{name}:{what}": of for what, of in {**figures, "candidates": 9, "switches": 3}.items()}
        rows.append(row)
    apart = by_decision(rows)
    lines = frequency_table(apart, TINY).splitlines()[2:]
    found = [[cell.strip() for cell in line.strip("|").split("|")][2:7] for line in lines]
    assert found == [["2", "0.500", "2.00", "1.33", "4.00"], ["8", "1.00", "4.00", "2.67", "8.00"]]
    text = frequency_text(apart, TINY)
    assert "of 8 decisions a window, planning unconditionally has 1.00 times" in text and "of 2 0.500 times" in text
    assert "The best distance has 3.00 times the throughput of d = 0, and 3.00 times" in text
    # Of other parts nothing is chosen by them.
    assert chosen_by(apart, STOCKS, CHAIN) == []


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
    assert "Of 9 findings of the paper, " in text
    assert "the patent prints the factor on the other side" in text
    assert "generated readings of" in text and "with seed 1" in text
    for heading in (
        "figure 6",
        "figures 7 and 8",
        "Dynamic input",
        "Where the distance comes from",
        "How often it is decided",
        "What statistics say",
    ):
        assert heading in text


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


def paper_rows(better: float = 1.0, **changed: Figure) -> Iterator[Row]:
    """Cells of the patent's shape, some figures of all of them changed; better: factor on the time of invariants."""
    for stream in (STOCKS, TRAFFIC):
        for contender in OF_THE_PATENT:
            for kind, size in [(SEQUENCE, 6), (SEQUENCE, 8), (NEGATION, 5)]:
                lead = better * ((7.0 if contender is TREE else 6.5) if stream == TRAFFIC else 1.5)
                times = {
                    STATIC: 8.0,
                    UNCONDITIONAL: 9.0,
                    threshold_name(0.1): 4.0,
                    threshold_name(2.0): 5.0,
                    distance_name(0.0): 9.0,
                    distance_name(0.5): 4.0 / (lead * (1.1 if contender is TREE else 1.0)),
                    AVERAGE: 4.0 / lead,
                    META: 4.0,
                }
                planned = {STATIC: 0, UNCONDITIONAL: 20, threshold_name(0.1): 9, distance_name(0.5): 4}
                row: dict[str, Figure] = {"part": COMPARISON, "stream": stream, "set": kind, "size": size}
                row |= {"contender": contender.name, "events_read": 1_000, "average_d": 0.52, "average_d_of_all": 9.0}
                row |= {"by_next": 1.2}
                for name, seconds in times.items():
                    figures: dict[str, Figure] = {"detecting": seconds, "deciding": 0.001, "planning": 0.001}
                    figures |= {"estimating": 0.1, "candidates": 1000 * seconds, "matches": 5}
                    figures |= {"checks": 0 if name == STATIC else 20, "planned": planned.get(name, 10), "switches": 3}
                    row |= {f"{name}:{figure}": value for figure, value in figures.items()}
                yield {**row, **changed}


def findings_of(rows: list[Row]) -> list[bool | None]:
    apart = by_decision(rows)
    cases = [(stream, contender) for stream in (STOCKS, TRAFFIC) for contender in OF_THE_PATENT]
    best = {(stream, contender.name): best_of(apart, stream, contender, TINY) for stream, contender in cases}
    assert set(best.values()) == {Best(0.1, 0.5)}
    return [finding.holds for finding in findings.all_findings(apart, best, TINY)]


def test_all_findings_hold_on_figures_of_the_patents_shape() -> None:
    assert findings_of([*paper_rows()]) == [True] * 9


@pytest.mark.parametrize(
    ("rows", "failing"),
    [
        ([*paper_rows(better=0.6)], {1, 2, 3}),
        ([*paper_rows(better=0.7)], {2, 3}),
        ([*paper_rows(**{"d=0.5:planned": 10})], {4}),
        ([*paper_rows(**{"d=0.5:planning": 0.03})], {5}),
        ([*paper_rows(**{"unconditional:detecting": 7.0})], {6}),
        ([*paper_rows(**{f"{AVERAGE}:detecting": 1.2})], {8}),
        ([*paper_rows(**{"d=0:detecting": 1.0, "d=0.5:detecting": 0.9})], {0, 2, 7}),
    ],
)
def test_a_finding_fails_where_the_figures_do(rows: list[Row], failing: set[int]) -> None:
    assert {place for place, holds in enumerate(findings_of(rows)) if not holds} == failing


def test_a_finding_that_fails_says_why_with_figures() -> None:
    rows = by_decision([*paper_rows(better=0.6)])
    best = {(stream, one.name): Best(0.1, 0.5) for stream in (STOCKS, TRAFFIC) for one in OF_THE_PATENT}
    texts = [one.text for one in findings.all_findings(rows, best, TINY) if one.holds is False]
    assert len(texts) == 3
    for text in texts:
        assert "A check takes" in text and "times fewer" in text


def test_a_finding_about_the_best_says_what_it_is_where_each_pattern_has_its_own() -> None:
    rows = by_decision([*paper_rows(better=0.6)])
    # In negations another t is the best one: the one that is chosen by the sequences is not half as good.
    spoiled = [{**row, "gain": 4.0} if (row["set"], row["decision"]) == (NEGATION, "t=2") else row for row in rows]
    best = {(stream, one.name): Best(0.1, 0.5) for stream in (STOCKS, TRAFFIC) for one in OF_THE_PATENT}
    text = findings.all_findings(spoiled, best, TINY)[1].text
    assert "Where each pattern has its own best of both, invariants are ahead in 6 cells and behind in 4: 0.450" in text


def test_the_best_is_chosen_by_sequences_alone() -> None:
    rows = by_decision([*paper_rows()])
    spoiled = [{**row, "gain": 100.0} if (row["set"], row["decision"]) == (NEGATION, "t=2") else row for row in rows]
    assert best_of(spoiled, STOCKS, CHAIN, TINY) == Best(0.1, 0.5)
    compared = compared_rows(of_part(rows), {(s, c.name): Best(2.0, 0.0) for s in CHECKS for c in CONTENDERS})
    assert {row["seconds"] for row in compared if row["decision"] == "constant threshold"} == {5.002}
    assert {row["contender"] for row in compared} == {CHAIN.name, TREE.name} != {FUSED.name}


def test_the_command_writes_a_page_and_says_what_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        adaptation, "SMALL", replace(TINY, sequences=(3,), distances=(0.0,), thresholds=(0.1,), beside=())
    )
    arguments = ("experiment", "adaptation", "--data", "nowhere", "--out", "page.md")
    done = cep(*arguments, folder=tmp_path)
    assert done.code == 0, done.errors
    page = (tmp_path / "page.md").read_text()
    assert "`cep experiment adaptation --seed 1`" in page and "generated readings" in page
    assert done.output.startswith("Of 9 findings of the paper, ") and done.output.endswith("written to page.md\n")
    again = cep(*arguments, folder=tmp_path)
    assert "measurements of an earlier run" in again.errors
    assert (tmp_path / "page.md").read_text() == page
