from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow.compute as pc
import pytest

from cep_pipeline.errors import InputError
from cep_pipeline.generate import Market

MONDAY = date(2013, 10, 7)


def counts(market: Market, day: date = MONDAY) -> dict[str, int]:
    table = market.trades(day).group_by("symbol").aggregate([([], "count_all")])
    return dict(zip(table["symbol"].to_pylist(), table["count_all"].to_pylist(), strict=True))


def test_rates_run_from_the_fastest_to_the_slowest_stock() -> None:
    rates = Market(stocks=20, drift=0.0).rates_per_s(MONDAY)
    assert rates[0] == pytest.approx(45) and rates[-1] == pytest.approx(1)
    # The same rates as those of the benchmark stream.
    np.testing.assert_allclose(rates, 45.0 * (1 / 45.0) ** (np.arange(20) / 19))


def test_drift_moves_the_rates_from_day_to_day_within_their_range() -> None:
    market = Market(stocks=50, drift=0.5, seed=3)
    days = np.array([market.rates_per_s(date.fromordinal(MONDAY.toordinal() + k)) for k in range(60)])
    assert days.min() >= 1 - 1e-9 and days.max() <= 45 + 1e-9
    assert np.all(np.ptp(days, axis=0) > 0.2)
    orders = {tuple(np.argsort(day)) for day in days}
    assert len(orders) > 30, "the order of the rates must change, so that other plans become the best"
    still = Market(stocks=50, drift=0.0, seed=3)
    np.testing.assert_array_equal(still.rates_per_s(MONDAY), still.rates_per_s(date(2013, 12, 2)))


def test_trades_come_at_the_rates_of_the_day() -> None:
    market = Market(stocks=5, hours=0.5, drift=0.3, seed=9)
    expected = market.rates_per_s(MONDAY, 0.5) * 1800
    made = counts(market)
    for symbol, mean in zip(market.symbols, expected, strict=True):
        # Six standard deviations of a Poisson count, and what the rate moves within the day.
        assert abs(made[symbol] - mean) < 6 * np.sqrt(mean) + 0.1 * mean


def test_a_cap_ends_the_session_early_and_keeps_the_rates() -> None:
    whole, capped = Market(stocks=10, hours=1.0), Market(stocks=10, hours=1.0, events_per_day=20_000)
    assert capped.trades(MONDAY).num_rows == pytest.approx(20_000, rel=0.1)
    assert capped.session_s < whole.session_s / 10
    np.testing.assert_array_equal(capped.rates_per_s(MONDAY), whole.rates_per_s(MONDAY))


def test_opening_and_close_are_busier_than_noon() -> None:
    seconds = (
        Market(stocks=4, hours=6.5, max_rate_per_s=10).trades(MONDAY)["timestamp"].cast("int64").to_numpy() // 1000
    )
    hour = (seconds - seconds.min()) / 3600
    opening, noon, close = (np.count_nonzero((hour >= a) & (hour < a + 0.25)) for a in (0, 3.0, 6.2))
    assert opening > 1.8 * noon and close > 1.5 * noon


def test_trades_are_in_time_order_within_the_session() -> None:
    table = Market(stocks=30, hours=0.1).trades(MONDAY)
    time_ms = table["timestamp"].cast("int64").to_numpy()
    assert np.all(np.diff(time_ms) >= 0)
    opening = np.datetime64("2013-10-07T09:30:00.000", "ms").astype(np.int64)
    assert opening <= time_ms[0] and time_ms[-1] < opening + 360_000


@pytest.mark.long
def test_prices_of_stocks_move_together() -> None:
    table = Market(stocks=12, min_rate_per_s=5, hours=6.5, seed=2).trades(MONDAY)
    frame = table.to_pandas()
    frame["minute"] = frame["timestamp"].dt.floor("10min")
    closes = np.log(frame.groupby(["minute", "symbol"])["price"].last().unstack()).diff().dropna()
    correlation = closes.corr().to_numpy()
    between = correlation[np.triu_indices(12, 1)]
    assert 0.15 < between.mean() < 0.9


def test_prices_walk_by_cents_and_stay_positive() -> None:
    frame = Market(stocks=200, hours=0.2, seed=5).trades(MONDAY).to_pandas()
    assert frame["price"].min() > 0
    np.testing.assert_allclose(frame["price"] * 100, np.rint(frame["price"] * 100), atol=1e-6)
    steps = frame.groupby("symbol")["price"].pct_change().dropna()
    assert steps.abs().max() < 0.05
    assert (steps != 0).mean() > 0.1


def test_some_trades_are_repeated_in_every_column() -> None:
    table = Market(stocks=4, hours=0.3).trades(MONDAY)
    distinct = table.group_by(table.column_names).aggregate([])
    repeated = 1 - distinct.num_rows / table.num_rows
    assert 0.08 < repeated < 0.25


def test_sizes_are_round_lots_and_exchanges_known() -> None:
    table = Market(stocks=4, hours=0.2).trades(MONDAY)
    assert pc.all(pc.equal(pc.subtract(table["size"], pc.multiply(pc.divide(table["size"], 100), 100)), 0)).as_py()
    assert pc.min(table["size"]).as_py() == 100
    assert set(table["exchange"].unique().to_pylist()) <= set("DPQZKBYJNXWC")


def test_symbols_of_the_real_trades_come_first() -> None:
    assert Market(stocks=6).symbols == ("SPY", "BAC", "AIG", "IBM", "S0004", "S0005")
    assert Market(stocks=2).symbols == ("SPY", "BAC")
    assert len(set(Market(stocks=2100, events_per_day=1000).symbols)) == 2100


def test_all_2100_stocks_trade() -> None:
    market = Market(stocks=2100, events_per_day=300_000)
    assert len(counts(market)) == 2100


def test_a_day_that_is_too_large_for_memory_is_refused() -> None:
    with pytest.raises(InputError, match="give fewer hours or events_per_day"):
        Market(stocks=2100)
