"""The synthetic stock stream of the benchmarks: 20 tickers, rates from 45 down to 1 event a second.

Its random draws are fixed, so that match counts can be compared with those that other engines reported, exactly;
shorter streams are prefixes of longer ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

TICKERS = tuple(f"S{k:02d}" for k in range(20))
SEED = 42
MAX_EVENTS = 5_000_000


@dataclass(frozen=True)
class StockStream:
    """Columns of the stream, each of shape (events,).

    `timestamp_ms` is strictly increasing, `ticker` an index into `TICKERS`; `price_cents` walks at random and
    `diff_cents` is its difference to the previous price of the same ticker, 0 for the first.
    """

    timestamp_ms: npt.NDArray[np.int64]
    ticker: npt.NDArray[np.int8]
    price_cents: npt.NDArray[np.int64]
    diff_cents: npt.NDArray[np.int64]
    volume: npt.NDArray[np.int32]

    @classmethod
    def of(cls, table: pa.Table) -> StockStream:
        """The columns of an events table of the stream."""

        def cents(name: str) -> npt.NDArray[np.int64]:
            found: npt.NDArray[np.int64] = np.rint(table[name].to_numpy() * 100).astype(np.int64)
            return found

        return cls(
            table["timestamp"].cast(pa.int64()).to_numpy() // 1000,
            table["ticker"].combine_chunks().indices.to_numpy().astype(np.int8),
            cents("price"),
            cents("diff"),
            table["volume"].to_numpy().astype(np.int32),
        )

    def __len__(self) -> int:
        return len(self.timestamp_ms)

    def prefix(self, events: int) -> StockStream:
        """The first `events` events."""
        return StockStream(
            self.timestamp_ms[:events],
            self.ticker[:events],
            self.price_cents[:events],
            self.diff_cents[:events],
            self.volume[:events],
        )

    def table(self) -> pa.Table:
        """The stream as an events table; the ticker is a dictionary column, as it is read from Parquet."""
        ticker = pa.DictionaryArray.from_arrays(pa.array(self.ticker.astype(np.int32)), pa.array(TICKERS))
        return pa.table(
            {
                "timestamp": pa.array(self.timestamp_ms * 1000).cast(pa.timestamp("us", tz="UTC")),
                "seq": pa.array(np.arange(len(self), dtype=np.int64)),
                "ticker": ticker,
                "price": pa.array(self.price_cents / 100.0),
                "diff": pa.array(self.diff_cents / 100.0),
                "volume": pa.array(self.volume.astype(np.int64)),
            }
        )

    def write_columns(self, path: Path) -> None:
        """Write the column file that the C++ reference reads: n, then ts, type, price, diff, volume."""
        with path.open("wb") as file:
            for column, dtype in (
                (np.array([len(self)]), np.int64),
                (self.timestamp_ms, np.int64),
                (self.ticker, np.int8),
                (self.price_cents, np.int32),
                (self.diff_cents, np.int32),
                (self.volume, np.int32),
            ):
                file.write(np.ascontiguousarray(column, dtype=dtype).tobytes())


def generate_stock_stream(events: int) -> StockStream:
    """Make the first `events` (at most 5,000,000) events of the stream."""
    if not 0 < events <= MAX_EVENTS:
        raise ValueError(f"the benchmark stream has 1 to {MAX_EVENTS:,} events, not {events:,}")
    rng = np.random.default_rng(SEED)
    tickers = len(TICKERS)
    rate_per_s = 45.0 * (1 / 45.0) ** (np.arange(tickers) / (tickers - 1))
    gap_ms = rng.exponential(1000.0 / rate_per_s.sum(), MAX_EVENTS)
    position = np.arange(MAX_EVENTS, dtype=np.int64)
    timestamp_ms = np.maximum.accumulate(np.floor(np.cumsum(gap_ms)).astype(np.int64) - position) + position
    ticker = rng.choice(tickers, size=MAX_EVENTS, p=rate_per_s / rate_per_s.sum()).astype(np.int8)
    step = np.rint(rng.normal(0, 50, MAX_EVENTS)).astype(np.int64)
    volume = rng.integers(1, 1001, MAX_EVENTS).astype(np.int32)
    first_price = rng.integers(10000, 50001, tickers)
    price = np.empty(MAX_EVENTS, np.int64)
    diff = np.zeros(MAX_EVENTS, np.int64)
    for code in range(tickers):
        rows = np.flatnonzero(ticker == code)
        walk = step[rows]
        walk[0] = 0
        price[rows] = np.maximum(first_price[code] + np.cumsum(walk), 100)
        diff[rows[1:]] = np.diff(price[rows])
    return StockStream(timestamp_ms, ticker, price, diff, volume).prefix(events)
