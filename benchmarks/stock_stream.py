"""The synthetic stock stream of the benchmarks: 20 tickers, rates from 45 down to 1 event a second.

Its random draws are fixed, so that match counts can be compared with those that other engines reported, exactly;
shorter streams are prefixes of longer ones.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cep_pipeline.events.schema import StreamSchema

TICKERS = tuple(f"S{k:02d}" for k in range(20))
SEED = 42
MAX_EVENTS = 5_000_000


def generate_stock_stream(events: int) -> pa.Table:
    """The first `events` (at most 5,000,000) events of the stream; the ticker is a dictionary column, as from Parquet.

    Times increase strictly; `price` walks at random, and `diff` is its difference to the one before of its ticker, 0
    for the first.
    """
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
    tickers_of = pa.DictionaryArray.from_arrays(pa.array(ticker.astype(np.int32)), pa.array(TICKERS))
    stream = {
        "timestamp": pa.array(timestamp_ms * 1000).cast(pa.timestamp("us", tz="UTC")),
        "seq": pa.array(position),
        "ticker": tickers_of,
        "price": pa.array(price / 100.0),
        "diff": pa.array(diff / 100.0),
        "volume": pa.array(volume.astype(np.int64)),
    }
    return pa.table(stream).slice(0, events)


@cache
def stock_schema() -> StreamSchema:
    """Schema of the stream."""
    attributes = {"ticker": "string", "price": "float64", "diff": "float64", "volume": "int64"}
    return StreamSchema.from_dict(
        {"base_type": "Stock", "type_attribute": "ticker", "attributes": attributes}, name="stock"
    )


def whole_numbers(stream: pa.Table) -> tuple[npt.NDArray[np.int64], ...]:
    """The columns as other programs read them: milliseconds, places in `TICKERS`, price and diff in cents, volume."""
    cents = (np.rint(stream[name].to_numpy() * 100).astype(np.int64) for name in ("price", "diff"))
    codes = stream["ticker"].combine_chunks().indices.to_numpy().astype(np.int64)
    return stream["timestamp"].cast(pa.int64()).to_numpy() // 1000, codes, *cents, stream["volume"].to_numpy()
