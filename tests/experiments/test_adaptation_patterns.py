"""The streams and patterns of `cep experiment adaptation`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks.experiments.adaptation import patterns as adaptation_patterns
from benchmarks.experiments.adaptation.patterns import (
    CONJUNCTION,
    INTERVALS_A_WINDOW,
    KLEENE,
    NEGATION,
    SEQUENCE,
    SETS,
    TREE_BY,
    fitted_pattern,
    interval_us,
    pattern_text,
)
from benchmarks.experiments.adaptation.streams import (
    ExperimentStream,
    drifting_stocks,
    permuted_rates,
    traffic_readings,
)
from cep_pipeline.adaptation import AdaptiveDetection
from cep_pipeline.adaptation.thresholds import numbers_now, questions_of
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.statistics import StatisticsSnapshot, estimate_statistics

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
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
    monkeypatch.setattr(adaptation_patterns, "MOST_BYTES", 1 << 10)
    monkeypatch.setattr("cep_pipeline.detection.network.memory.ROOM", 16)
    bounded = fitted_pattern(replace(stream), SEQUENCE, 3, 1, 1e8, 3).window_s
    assert bounded < longer
    assert fitted_pattern(replace(stream), SEQUENCE, 3, 1, 1e8, 3, TREE_BY, bounded // 2).window_s == bounded // 2


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
