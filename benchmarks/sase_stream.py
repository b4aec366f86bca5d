"""The stock stream of SIGMOD'08, section 6: two symbols, prices that mostly rise, volumes drawn evenly.

Its random draws are fixed by the seed, so that match counts can be compared exactly; unlike those of the stock stream
of W1 to W4, shorter streams are not prefixes of longer ones.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cep_pipeline.events.schema import StreamSchema

SEED = 10
SYMBOLS = (1, 2)
HIGHEST = 1000
"""The highest first price and the highest volume: they are drawn from 1 to this."""
LARGEST_STEP = 3


def generate_sase_stream(
    events: int, seed: int = SEED, rising: float = 0.7, largest_step: int = LARGEST_STEP
) -> pa.Table:
    """Make a stream whose event k comes at k milliseconds, as an events table.

    `rising` is the probability that a price is higher than the one before of its symbol; it falls, or stays, with half
    of the rest. A price that changes does so by 1 to `largest_step`, and is never under 1. The columns timestamp, seq,
    symbol, price and volume are all whole numbers.
    """
    if events < 1 or not 0 <= rising <= 1:
        raise ValueError(f"{events:,} events with rising {rising}: at least one event, and a probability, are needed")
    rng = np.random.default_rng(seed)
    symbol = rng.integers(SYMBOLS[0], SYMBOLS[-1] + 1, events)
    volume = rng.integers(1, HIGHEST + 1, events)
    chance = rng.random(events)
    step = rng.integers(1, largest_step + 1, events)
    moved = np.where(chance < rising, step, np.where(chance < rising + (1 - rising) / 2, -step, 0))
    price = np.empty(events, np.int64)
    for code in SYMBOLS:
        first = int(rng.integers(1, HIGHEST + 1))
        rows = np.flatnonzero(symbol == code)
        price[rows] = _never_under_one(first, moved[rows])
    return pa.table(
        {
            "timestamp": pa.array((np.arange(events, dtype=np.int64) + 1) * 1000).cast(pa.timestamp("us", tz="UTC")),
            "seq": pa.array(np.arange(events, dtype=np.int64)),
            "symbol": pa.array(symbol),
            "price": pa.array(price),
            "volume": pa.array(volume),
        }
    )


def _never_under_one(first: int, moved: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The path of `price = max(1, price + move)`: the free path, lifted by the most that it has been under 1."""
    free = first + np.cumsum(moved)
    lifted: npt.NDArray[np.int64] = free + np.maximum(np.maximum.accumulate(1 - free), 0) if len(free) else free
    return lifted


def sase_schema() -> StreamSchema:
    """Schema of the stream."""
    attributes = {"symbol": "int64", "price": "int64", "volume": "int64"}
    return StreamSchema.from_dict(
        {"base_type": "Stock", "type_attribute": "symbol", "attributes": attributes}, name="sase"
    )
