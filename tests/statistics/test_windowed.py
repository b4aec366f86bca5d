"""The state of a stream's statistics: counts within epsilon, honest bounds, bounded memory, and refusals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.errors import InputError, OtherVersion
from cep_pipeline.patterns.pattern import Pattern, Window
from cep_pipeline.planning import plan
from cep_pipeline.statistics import Kind, Source, WindowedStatistics, partial_statistics, windowed_statistics
from tests.statistics.market import market, parse
from tests.statistics.streams_of_trades import TRAFFIC, generated_trades, patterns, real, real_trades, real_traffic
from tests.thoroughness import examples

MINUTE = 60_000_000
RATES = "PATTERN AND(SPY s, BAC b, AIG a, IBM i, Trade t) WHERE b.size > 200 AND t.size > 5000 WITHIN 1 second"
PAIRS = """
NAME rising PATTERN SEQ(SPY s, BAC b) WHERE s.diff < b.diff AND b.size > 100 WITHIN 1 second;
NAME three PATTERN SEQ(SPY s, BAC b, AIG a) WHERE s.diff + b.diff < a.diff WITHIN 2 seconds;
NAME runs PATTERN SEQ(BAC b, AIG+ a[]) WHERE avg(a[].diff) > b.diff WITHIN 2 seconds
"""


def times_of(events: pa.Table) -> np.ndarray:
    return np.asarray(events.column("timestamp").cast(pa.int64()))


def slices(
    asked: Sequence[Pattern], events: pa.Table, window: Window, cuts: Sequence[int], **options: Any
) -> list[WindowedStatistics]:
    """The states of the parts between rows."""
    times, seqs = times_of(events), np.asarray(events.column("seq"))
    bounds = [None, *((int(times[cut]), int(seqs[cut])) for cut in cuts), None]
    return [
        windowed_statistics(asked, events, window, start=start, end=end, **options) for start, end in pairwise(bounds)
    ]


def merged(parts: Sequence[WindowedStatistics]) -> WindowedStatistics:
    whole = WindowedStatistics.from_json(json.loads(json.dumps(parts[0].to_json())))
    for part in parts[1:]:
        whole.merge(part)
    return whole


def rows_of_leaves(events: pa.Table) -> dict[str, np.ndarray]:
    """The rows of each leaf of RATES, found by other means."""
    symbol = np.asarray(events.column("symbol").cast(pa.string()), dtype=object)
    size = np.asarray(events.column("size"))
    found = {name: np.flatnonzero(symbol == name) for name in ("SPY", "AIG", "IBM")}
    found["BAC where x.size > 200"] = np.flatnonzero((symbol == "BAC") & (size > 200))
    found["Trade where x.size > 5000"] = np.flatnonzero(size > 5000)
    return found


def check_random_times(
    asked: Sequence[Pattern], events: pa.Table, rows: dict[str, np.ndarray], epsilon: float, moments: int
) -> None:
    """The counts of the window before random times are within epsilon of the exact ones, and inside their bounds."""
    times = times_of(events)
    random = np.random.default_rng(11)
    width = 20 * MINUTE
    picks = np.sort(random.integers(times[0], times[-1] + 2 * width, moments))
    state, done = WindowedStatistics.of(asked, Window(time_us=width), epsilon), 0
    for moment in picks.tolist():
        stop = int(np.searchsorted(times, moment, "right"))
        if stop > done:
            state.merge(windowed_statistics(asked, events.slice(done, stop - done), Window(time_us=width), epsilon))
            done = stop
        if not done:
            continue
        snapshot = state.snapshot(moment)
        begin = max(moment - width, int(times[0]))
        span_s = (moment - begin) / 1e6 or 1.0
        for rate in snapshot.rates:
            if rate.leaf not in rows:
                continue
            own = times[rows[rate.leaf]]
            exact = np.searchsorted(own, moment, "right") - np.searchsorted(own, moment - width, "left")
            assert abs(rate.per_s * span_s - exact) <= epsilon * exact + 1e-6
            assert rate.low is not None and rate.high is not None
            assert rate.low * span_s - 1e-6 <= exact <= rate.high * span_s + 1e-6


@pytest.mark.parametrize("epsilon", [0.02, 0.2])
def test_counts_are_within_epsilon_at_random_times(epsilon: float) -> None:
    events = generated_trades(60_000)
    check_random_times(patterns(RATES), events, rows_of_leaves(events), epsilon, 300)


@real
@pytest.mark.long
def test_counts_of_real_trades_are_within_epsilon_at_1000_random_times() -> None:
    events = real_trades()
    check_random_times(patterns(RATES), events, rows_of_leaves(events), 0.02, 1000)


@real
@pytest.mark.long
def test_counts_of_the_traffic_month_are_within_epsilon_at_1000_random_times() -> None:
    events = real_traffic()
    sensors = np.asarray(events.column("report_id"))
    speeds = np.asarray(events.column("avg_speed"))
    rows = {"Reading where x.avg_speed < 10": np.flatnonzero(speeds < 10)}
    rows.update((str(sensor), np.flatnonzero(sensors == sensor)) for sensor in np.unique(sensors)[:3])
    names = [f'"{sensor}" v{sensor}' for sensor in np.unique(sensors)[:3]]
    text = f"PATTERN AND({', '.join(names)}, Reading r) WHERE r.avg_speed < 10 WITHIN 1 minute"
    check_random_times(patterns(text, TRAFFIC), events, rows, 0.05, 1000)


def check_intervals(asked: Sequence[Pattern], events: pa.Table, width: int, seeds: int, max_pairs: int) -> None:
    """The stated intervals of sampled selectivities have the true one in 95 % of cases."""
    times, seqs = times_of(events), np.asarray(events.column("seq"))
    latest = int(times[-1])
    first = int(np.searchsorted(times, latest - width, "left"))
    start = (int(times[first]), int(seqs[first]))
    exact = partial_statistics(asked, events, start=start, max_pairs=10**9)
    truth = {
        key: count.passing / count.pairs for key, count in exact.conditions.items() if count.pairs and not count.squares
    }
    held, sure, cases = 0, 0, 0
    middle = events.num_rows // 2
    for seed in range(seeds):
        parts = slices(asked, events, Window(time_us=width), [middle], seed=seed, max_pairs=max_pairs)
        snapshot = merged(parts).snapshot()
        for found in snapshot.selectivities:
            if found.condition not in truth:
                continue
            assert found.low is not None and found.high is not None
            cases += 1
            held += found.low - 1e-12 <= truth[found.condition] <= found.high + 1e-12
            sure += found.high - found.low < 0.3
    assert cases >= seeds
    assert cases - held <= 0.05 * cases + 3 * (0.05 * 0.95 * cases) ** 0.5
    assert sure > cases / 2  # and they say something


def test_selectivities_lie_in_their_intervals() -> None:
    check_intervals(patterns(PAIRS.split(";", maxsplit=1)[0]), generated_trades(4000), 60 * MINUTE, 60, 400)


@pytest.mark.long
def test_selectivities_of_lists_and_larger_tuples_lie_in_their_intervals() -> None:
    events = generated_trades(1500, day_us=3_000_000_000)
    check_intervals(patterns(PAIRS), events, 20 * MINUTE, 150, 500)


@real
@pytest.mark.long
def test_selectivities_of_real_trades_lie_in_their_intervals() -> None:
    text = "PATTERN SEQ(AIG a, BAC b) WHERE a.diff < b.diff AND a.size > 300 WITHIN 1 second"
    check_intervals(patterns(text), real_trades(), 5 * 60 * MINUTE, 60, 4000)


@real
@pytest.mark.long
def test_selectivities_of_real_traffic_lie_in_their_intervals() -> None:
    events = real_traffic().slice(0, 300_000)
    text = "PATTERN AND(Reading a, Reading b) WHERE a.avg_speed < b.avg_speed AND a.vehicle_count > 30 WITHIN 1 second"
    check_intervals(patterns(text, TRAFFIC), events, 24 * 60 * MINUTE, 60, 2000)


def test_memory_does_not_grow_with_the_events() -> None:
    sizes = []
    for events in (20_000, 200_000):
        state = windowed_statistics(patterns(PAIRS), generated_trades(events), Window(time_us=60 * MINUTE), 0.05)
        sizes.append(len(json.dumps(state.to_json())))
    small, large = sizes
    assert large < 2.5 * small  # logarithmic in the events: ten times as many


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(st.integers(1, 1999), max_size=4, unique=True))
def test_slices_merge_to_the_whole(cuts: list[int]) -> None:
    events, window = market(2000), Window(time_us=MINUTE)
    asked = parse("PATTERN SEQ(A a, B b) WHERE a.diff < b.diff AND a.price > 50 WITHIN 300 ms")
    whole = windowed_statistics(asked, events, window, max_pairs=10**9)
    parts = merged(slices(asked, events, window, sorted(cuts), max_pairs=10**9))
    one, many = whole.snapshot(), parts.snapshot()
    assert (parts.events, parts.since_us, parts.latest_us) == (whole.events, whole.since_us, whole.latest_us)
    for here, there in zip(one.rates, many.rates, strict=True):
        assert here.leaf == there.leaf
        assert here.count is not None and there.count is not None
        assert abs(here.count - there.count) <= 0.02 * (here.count + there.count)
    day = whole.business_day(0, 10**9)
    assert parts.business_day(0, 10**9).rates == day.rates
    (exact,), (found,) = day.selectivities, parts.business_day(0, 10**9).selectivities
    assert (found.pairs, found.value) == (exact.pairs, pytest.approx(exact.value))


@settings(deadline=None, max_examples=examples(60))
@given(st.integers(0, 300_000_000), st.integers(0, 4))
def test_bounds_hold_for_windows_gone_by(moment: int, seed: int) -> None:
    events = generated_trades(3000, seed=seed, day_us=200_000_000)
    times, symbols = times_of(events), np.asarray(events.column("symbol").cast(pa.string()))
    state = windowed_statistics(patterns("PATTERN AND(SPY s, IBM i) WITHIN 1 second"), events, Window(time_us=MINUTE))
    if moment < times[0]:
        with pytest.raises(InputError, match="known from"):
            state.snapshot(moment)
        return
    snapshot = state.snapshot(moment)
    span_s = (moment - max(moment - MINUTE, int(times[0]))) / 1e6 or 1.0
    for rate in snapshot.rates:
        exact = np.count_nonzero((symbols == rate.leaf) & (times > moment - MINUTE) & (times <= moment))
        assert rate.low is not None and rate.high is not None
        assert rate.low * span_s - 1e-6 <= exact <= rate.high * span_s + 1e-6


def test_a_business_day_is_the_mean_with_the_worst_window_beside_it() -> None:
    quiet = np.arange(0, 6 * 3600) * 1_000_000 * 1  # one event a second for six hours
    burst = 6 * 3600 * 1_000_000 + np.arange(0, 900 * 20) * 50_000  # twenty a second for a quarter of an hour
    times = np.concatenate((quiet, burst))
    table = generated_trades(len(times)).set_column(0, "timestamp", pa.array(times, pa.timestamp("us", tz="UTC")))
    state = windowed_statistics(patterns("PATTERN Trade t WITHIN 1 second"), table, Window(time_us=15 * MINUTE))
    day = state.business_day(-(10**9), 86_400_000_000)
    (rate,) = day.rates
    assert (day.kind, day.window_us, day.as_of_us) == (Kind.BUSINESS_DAY, 15 * MINUTE, 86_400_000_000)
    assert rate.worst_per_s == pytest.approx(20, rel=0.01)
    assert 1 < rate.per_s < 2
    assert day.events_per_s == pytest.approx(rate.per_s, rel=0.01)
    assert state.snapshot().rates[0].per_s == pytest.approx(20, rel=0.05)
    assert "no events" in state.business_day(10**12, 2 * 10**12).notes[0]


def test_a_window_of_events_is_refused() -> None:
    with pytest.raises(InputError, match="a window of time, not of 50 events"):
        windowed_statistics(parse("PATTERN A a WITHIN 1 second"), market(10), Window(events=50))


def test_a_type_that_never_comes_breaks_no_planner() -> None:
    window = Window(time_us=MINUTE)
    asked = parse(
        "PATTERN SEQ(Missing m, A a, B+ b[]) WHERE m.diff < a.diff AND avg(b[].diff) > m.diff WITHIN 1 second"
    )
    state = windowed_statistics(asked, market(200), window)
    for snapshot in (state.snapshot(), state.snapshot(10**15), state.business_day(0, 10**9)):
        assert snapshot.rate(asked[0], asked[0].clauses[0], "m").per_s == 0
        for planner in ("dp_left_deep", "greedy", "event_frequency", "trivial"):
            assert plan(asked, snapshot, planner=planner).patterns
    nothing = WindowedStatistics.of(asked, window)
    assert plan(asked, nothing.snapshot()).patterns
    assert plan(asked, nothing.business_day(0, 1)).patterns


def test_a_window_longer_than_the_data_says_so() -> None:
    asked = parse("PATTERN A a WITHIN 1 second")
    snapshot = windowed_statistics(asked, market(101), Window(time_us=3_600_000_000)).snapshot()
    assert "longer than the data" in snapshot.notes[0]
    assert snapshot.events_per_s == pytest.approx(10.1)
    assert snapshot.kind is Kind.WINDOW


def test_a_gap_of_years_is_forgotten() -> None:
    asked = parse("PATTERN SEQ(A a, B b) WHERE a.diff < b.diff WITHIN 1 second")
    years = 50 * 366 * 86_400_000_000
    early, late = market(500), market(500, seed=8)
    moved = late.set_column(
        0, "timestamp", pa.array(times_of(late) + years, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    )
    window = Window(time_us=10 * MINUTE)
    state = windowed_statistics(asked, early, window)
    state.merge(windowed_statistics(asked, moved, window))
    alone = windowed_statistics(asked, moved, window)
    assert len(json.dumps(state.to_json())) <= 2 * len(json.dumps(alone.to_json()))
    assert [rate.count for rate in state.snapshot().rates] == [rate.count for rate in alone.snapshot().rates]
    assert state.business_day(years, years + 10**9).rates == alone.business_day(years, years + 10**9).rates
    with pytest.raises(InputError, match="known from"):
        state.snapshot(years - 10**9)


def test_all_events_at_one_instant() -> None:
    asked = parse("PATTERN SEQ(A a, B b) WHERE a.diff < b.diff WITHIN 1 second TIES STRICT")
    state = windowed_statistics(asked, market(300, step_us=0), Window(time_us=MINUTE))
    snapshot = state.snapshot()
    assert snapshot.events == 300
    assert snapshot.selectivities == ()  # no pair is in strict order
    again = windowed_statistics(asked, market(300, step_us=0), Window(time_us=MINUTE))
    state.merge(again)  # equal times may go on in the next slice
    assert state.snapshot().events == pytest.approx(600, rel=0.02)


def test_states_merge_in_the_order_of_time_and_of_the_same_things_only() -> None:
    asked = parse("PATTERN SEQ(A a, B b) WHERE a.diff < b.diff WITHIN 1 second")
    window = Window(time_us=MINUTE)
    early, late = slices(asked, market(1000), window, [500])
    late_first = merged([late])
    with pytest.raises(InputError, match="order of time"):
        late_first.merge(early)
    whole = merged([early, late])
    with pytest.raises(InputError, match="order of time"):
        whole.merge(late)
    others = [
        windowed_statistics(asked, market(10), Window(time_us=2 * MINUTE)),
        windowed_statistics(asked, market(10), window, 0.1),
        *(windowed_statistics(parse(f"PATTERN {kind} c WITHIN 1 second"), market(10), window) for kind in "BC"),
    ]
    for other in others:
        assert not whole.goes_on(other)
        with pytest.raises(InputError, match="different things"):
            whole.merge(other)
    whole.merge(WindowedStatistics.of(asked, window))
    assert whole.events == 1000


def test_events_out_of_order_are_refused() -> None:
    events = market(10)
    backwards = events.take(list(reversed(range(10))))
    with pytest.raises(InputError, match="order of time"):
        windowed_statistics(parse("PATTERN A a WITHIN 1 second"), backwards, Window(time_us=MINUTE))


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content.pop("bins"),
        lambda content: content.pop("checksum"),
        lambda content: content.update(events=7),
        lambda content: content["bins"].update(counts="%%%"),
        lambda content: content.update(counts=[]),
    ],
)
def test_a_damaged_state_is_told(damage: Any) -> None:
    state = windowed_statistics(parse("PATTERN A a WITHIN 1 second"), market(100), Window(time_us=MINUTE))
    content = json.loads(json.dumps(state.to_json()))
    assert WindowedStatistics.from_json(content).digest == state.digest
    damage(content)
    with pytest.raises(InputError, match=r"state\.json: the state of the statistics is damaged.*estimate"):
        WindowedStatistics.from_json(content, "state.json")


@pytest.mark.parametrize("content", [[], {}, {"version": 0}, {"version": 99}])
def test_a_state_of_another_version_is_told(content: Any) -> None:
    with pytest.raises(InputError, match=r"state\.json"):
        WindowedStatistics.from_json(content, "state.json")
    if content:
        with pytest.raises(OtherVersion):
            WindowedStatistics.from_json(content, "state.json")


def test_what_is_exact_says_so() -> None:
    asked = parse("PATTERN SEQ(A a, B b) WHERE a.diff < b.diff WITHIN 1 second")
    snapshot = windowed_statistics(asked, market(100), Window(time_us=MINUTE)).snapshot()
    assert {rate.source for rate in snapshot.rates} == {Source.COUNT}
    (found,) = snapshot.selectivities
    assert (found.source, found.low, found.high) == (Source.ALL_PAIRS, found.value, found.value)
