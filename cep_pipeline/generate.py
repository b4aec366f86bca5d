"""Generated days of a trading stream as a vendor delivers them: a folder a day, in it one gzipped CSV file.

The market has any number of stocks: how often each trades, and how prices move together. Every quantity is a function
of the seed and the day alone, so that a day is the same whichever others are made with it.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from cep_pipeline.errors import InputError

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MAX_STOCKS = 2_100
MAX_EVENTS_PER_DAY = 50_000_000
OPENING = time(9, 30)
MAX_HOURS = 14.0
"""Longest session: from the opening to half an hour before midnight."""

_KNOWN_STOCKS = {"SPY": 167.4, "BAC": 13.8, "AIG": 48.6, "IBM": 182.0}
"""The first symbols and their prices, most traded first: patterns for the real trades run over generated ones too."""

_EXCHANGES = ("D", "P", "Q", "Z", "K", "B", "Y", "J", "N", "X", "W", "C")
_EXCHANGE_SHARES = np.array([0.21, 0.18, 0.18, 0.16, 0.07, 0.06, 0.05, 0.045, 0.025, 0.014, 0.004, 0.002])
_SECTORS = 11
_FULL_SESSION_S = 6.5 * 3600
_BUCKETS = 390
_DAILY_MARKET_MOVE, _DAILY_SECTOR_MOVE, _DAILY_STOCK_MOVE = 0.008, 0.005, 0.010
_REPEATED_FILLS = 0.1
_SUSPICIOUS = 0.0002
# What a random stream is for; a part of its seed, so that one never shifts another.
_OF_STOCKS, _OF_COUNTS, _OF_TIMES, _OF_PRICES, _OF_TRADES = range(5)


@dataclass(frozen=True)
class Market:
    """The properties of a generated market.

    - `stocks`: number of stocks, 1 to 2,100; the first are SPY, BAC, AIG and IBM, the others S0004, S0005, ...
    - `seed`: a market of another seed has other rates, prices and trades.
    - `min_rate_per_s`, `max_rate_per_s`: trades a second of the slowest and the fastest stock, as means over a day: the
      opening and the close are busier. Between them rates fall geometrically.
    - `drift`: how far, at most about, a stock moves through the range of rates over the days (1: from end to end).
      Rates stay between the slowest and the fastest.
    - `hours`: length of the trading session, from 09:30.
    - `events_per_day`: where given, the session ends as early as it takes for about so many trades; rates stay as they
      are.

    Days that are too large to be made in memory are an InputError.

    Examples
    --------
    >>> market = Market(stocks=4, seed=1, drift=0.0)
    >>> [round(float(rate), 2) for rate in market.rates_per_s(date(2013, 10, 7))]
    [45.0, 12.65, 3.56, 1.0]
    """

    stocks: int = 4
    seed: int = 1
    min_rate_per_s: float = 1.0
    max_rate_per_s: float = 45.0
    drift: float = 0.1
    hours: float = 6.5
    events_per_day: int | None = None

    def __post_init__(self) -> None:
        expected = self.session_s * self._mean_rate_per_s()
        if expected > MAX_EVENTS_PER_DAY:
            raise InputError(
                f"generated market: {self.stocks:,} stocks make about {expected:,.0f} trades in {self.hours:g} hours, "
                f"and a day is made in memory with at most {MAX_EVENTS_PER_DAY:,}; give fewer hours or events_per_day"
            )

    @property
    def symbols(self) -> tuple[str, ...]:
        """The stocks; where nothing drifts, from the most traded to the least."""
        known = tuple(_KNOWN_STOCKS)[: self.stocks]
        return known + tuple(f"S{k:04d}" for k in range(len(known), self.stocks))

    @property
    def session_s(self) -> float:
        """Length of a session in seconds."""
        session_s = self.hours * 3600
        if self.events_per_day is None:
            return session_s
        return min(session_s, self.events_per_day / self._mean_rate_per_s())

    def _mean_rate_per_s(self) -> float:
        return float(self._rates(self._ranks()).sum())

    def _ranks(self) -> Floats:
        return np.arange(self.stocks) / max(1, self.stocks - 1)

    def _rates(self, ranks: Floats) -> Floats:
        ratio = self.min_rate_per_s / self.max_rate_per_s
        rates: Floats = self.max_rate_per_s * ratio**ranks
        return rates

    def rates_per_s(self, day: date, at: float = 0.0) -> Floats:
        """Mean rate of each stock, shape (stocks,), at the share `at` (0 to 1) of a day's session."""
        wander = _wander(_random(self.seed, _OF_STOCKS), self.stocks, day.toordinal() + at)
        position = self._ranks() + self.drift * wander
        # Reflected at both ends: no stock leaves the range of rates.
        return self._rates(1 - np.abs(1 - np.abs(position)))

    def trades(self, day: date) -> pa.Table:
        """The trades of one day in time order.

        The columns are symbol, timestamp (exchange-local, milliseconds), price (dollars, whole cents), size, exchange
        and suspicious. Trades are a Poisson process whose intensity changes by the minute; a tenth of them repeat the
        trade before them in every column, as fills of one order do. The logarithm of a price is the sum of a path of
        the market, one of the stock's sector and one of its own.
        """
        ordinal = day.toordinal()
        stock, time_us = self._arrivals(day)
        trades = _random(self.seed, _OF_TRADES, ordinal)
        source = _repeat_fills(trades, stock)
        time_us = time_us[source]
        cents = self._prices_in_cents(ordinal, stock, time_us)[source]
        size = 100 * np.minimum(trades.geometric(0.5, len(stock)), 50)[source]
        exchange = trades.choice(len(_EXCHANGES), len(stock), p=_EXCHANGE_SHARES).astype(np.int32)[source]
        suspicious = (trades.random(len(stock)) < _SUSPICIOUS)[source]
        # By microsecond: which of two stocks comes first within a millisecond is left to chance.
        order = np.argsort(time_us, kind="stable")
        opening = np.datetime64(datetime.combine(day, OPENING), "ms")
        return pa.table(
            {
                "symbol": _strings(stock[order], self.symbols),
                "timestamp": pa.array(opening + (time_us[order] // 1000).astype("timedelta64[ms]")),
                "price": pa.array(cents[order] / 100.0),
                "size": pa.array(size[order]),
                "exchange": _strings(exchange[order], _EXCHANGES),
                "suspicious": pa.array(suspicious[order]),
            }
        )

    def _arrivals(self, day: date) -> tuple[Integers, Integers]:
        """Stock and time after the opening (microseconds) of every trade, sorted by both."""
        buckets = max(1, min(_BUCKETS, int(self.session_s)))
        bucket_us = self.session_s * 1e6 / buckets
        middle = (np.arange(buckets) + 0.5) / buckets
        activity = _opening_and_close(middle)
        # Rates move too slowly to be asked for more often than this within a day.
        rates = np.repeat([self.rates_per_s(day, at) for at in (0.125, 0.375, 0.625, 0.875)], -(-buckets // 4), axis=0)
        intensity = rates[:buckets].T * (activity * bucket_us / 1e6)
        counts = _random(self.seed, _OF_COUNTS, day.toordinal()).poisson(intensity)
        stock = np.repeat(np.arange(self.stocks), counts.sum(axis=1))
        bucket = np.repeat(np.tile(np.arange(buckets), self.stocks), counts.ravel())
        chance = _random(self.seed, _OF_TIMES, day.toordinal()).random(len(stock))
        time_us = ((bucket + chance) * bucket_us).astype(np.int64)
        keys = np.sort(stock << 40 | time_us)
        return keys >> 40, keys & ((1 << 40) - 1)

    def _prices_in_cents(self, ordinal: int, stock: Integers, time_us: Integers) -> Integers:
        """Price of each trade; the trades are sorted by stock, then time."""
        of_stocks = _random(self.seed, _OF_STOCKS, 1)
        opening = np.exp(of_stocks.normal(3.7, 0.8, self.stocks))
        known = list(_KNOWN_STOCKS.values())[: self.stocks]
        opening[: len(known)] = known
        beta = of_stocks.uniform(0.4, 1.6, self.stocks)
        of_sector = of_stocks.uniform(0.4, 1.6, self.stocks)
        opening *= np.exp(0.05 * _wander(of_stocks, self.stocks, ordinal))

        rng = _random(self.seed, _OF_PRICES, ordinal)
        second = time_us // 1_000_000
        seconds = int(self.session_s) + 1
        step = 1 / math.sqrt(_FULL_SESSION_S)
        market = np.cumsum(rng.normal(0, _DAILY_MARKET_MOVE * step, seconds))
        sectors = np.cumsum(rng.normal(0, _DAILY_SECTOR_MOVE * step, (_SECTORS, seconds)), axis=1)
        trades_a_day = self._rates(self._ranks()) * _FULL_SESSION_S
        own = np.cumsum(rng.standard_normal(len(stock)) * (_DAILY_STOCK_MOVE / np.sqrt(trades_a_day))[stock])
        first = np.searchsorted(stock, np.arange(self.stocks))
        before = np.concatenate(([0.0], own))[first]
        log_move = beta[stock] * market[second] + of_sector[stock] * sectors[stock % _SECTORS, second]
        log_move += own - before[stock]
        bounce = rng.integers(-1, 2, len(stock))  # between bid and ask
        cents = np.rint(opening[stock] * 100 * np.exp(log_move)).astype(np.int64) + bounce
        positive: Integers = np.maximum(cents, 1)
        return positive


def _random(seed: int, *purpose: int) -> np.random.Generator:
    return np.random.default_rng((seed, *purpose))


def _wander(rng: np.random.Generator, stocks: int, day: float) -> Floats:
    """A smooth value within -1 and 1 for each stock that changes over days and is known for each day by itself."""
    period_days = np.exp(rng.uniform(math.log(5), math.log(60), (3, stocks)))
    phase = rng.uniform(0, 2 * math.pi, (3, stocks))
    wander: Floats = np.sin(2 * math.pi * day / period_days + phase).mean(axis=0)
    return wander


def _opening_and_close(share_of_session: Floats) -> Floats:
    """Activity relative to the day's mean: three times the quiet hours at the opening, more than twice at the close."""
    activity = 1 + 2.2 * np.exp(-share_of_session / 0.06) + 1.5 * np.exp((share_of_session - 1) / 0.05)
    relative: Floats = activity / activity.mean()
    return relative


def _repeat_fills(rng: np.random.Generator, stock: Integers) -> Integers:
    """Return for each trade the one that it repeats: mostly itself, never one of another stock."""
    index = np.arange(len(stock))
    fresh = rng.random(len(stock)) >= _REPEATED_FILLS
    fresh[:1] = True
    fresh[1:] |= stock[1:] != stock[:-1]
    source: Integers = np.maximum.accumulate(np.where(fresh, index, 0))
    return source


def _strings(codes: npt.NDArray[np.integer], names: tuple[str, ...]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names)).cast(pa.string())


def is_trading_day(day: date) -> bool:
    """Return True from Monday to Friday; a generated market has no other holidays."""
    return day.weekday() < 5


FILE_NAME = "trades.csv.gz"
_ROWS_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class GeneratedDay:
    """A day that was made; `path` is None and `events` 0 on a day without trading."""

    day: date
    path: Path | None
    events: int


def generate_days(
    root: str | Path,
    days: Iterable[date],
    *,
    progress: Callable[[GeneratedDay], None] | None = None,
    **market: Any,
) -> list[GeneratedDay]:
    """Write `<root>/<DATE>/trades.csv.gz` for each trading day; weekends have no file.

    The folder is made where it is missing, and a day that is there already is replaced. The settings are those of
    `Market`. `progress` is called with each day once it is written. Returned is one
    `GeneratedDay` for each day, in their order; a wrong setting, or a folder that cannot be written, is an InputError.
    The same settings give the same bytes (with one version of NumPy and zlib), whichever days are made together.
    """
    made_by = Market(**market)
    generated = []
    for day in days:
        made = _generate_day(Path(root), day, made_by) if is_trading_day(day) else GeneratedDay(day, None, 0)
        generated.append(made)
        if progress is not None:
            progress(made)
    return generated


def _generate_day(root: Path, day: date, market: Market) -> GeneratedDay:
    trades = market.trades(day)
    path = root / day.isoformat() / FILE_NAME
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(trades, path)
    except OSError as error:
        raise InputError(f"{path}: the generated day cannot be written: {error.strerror or error}") from error
    return GeneratedDay(day, path, trades.num_rows)


def _write(trades: pa.Table, path: Path) -> None:
    """Write the whole file or nothing: it is made under another name that no reader takes for a day's file."""
    part = path.with_name(f".{path.name}.part")
    try:
        # No file name and no time in the header: equal days are equal bytes.
        with part.open("wb") as raw, gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as file:
            options = pyarrow.csv.WriteOptions(batch_size=_ROWS_AT_ONCE)
            pyarrow.csv.write_csv(trades, file, options)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
