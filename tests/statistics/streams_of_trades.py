"""A generated stream of trades as fast arrays, and the real ones where they are beside the checkout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cep_pipeline.events.event_files import load_events
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern

CHECKOUT = Path(__file__).parents[2]
SHARED = CHECKOUT.parent / "shared" / "data"
real = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not beside the checkout")

TRADES = StreamSchema.from_dict(
    {
        "base_type": "Trade",
        "type_attribute": "symbol",
        "attributes": {"symbol": "string", "price": "float64", "size": "int64", "diff": "float64"},
    },
    name="trades",
)
TRAFFIC = StreamSchema.from_dict(
    {
        "base_type": "Reading",
        "type_attribute": "report_id",
        "attributes": {"report_id": "int64", "avg_speed": "int64", "vehicle_count": "int64"},
    },
    name="traffic",
)


def patterns(text: str, schema: StreamSchema = TRADES) -> list[Pattern]:
    """Patterns over trades."""
    return parse_patterns(text, schema)


def generated_trades(events: int, seed: int = 1, day_us: int = 23_400_000_000) -> pa.Table:
    """Trades of four stocks of very different rates, with bursts, pauses and equal times, and a closing burst."""
    random = np.random.default_rng(seed)
    steps = random.exponential(size=events) * random.choice([0.0, 0.02, 1.0, 30.0], events, p=[0.3, 0.4, 0.295, 0.005])
    steps[-events // 10 :] /= 20
    timestamps = np.cumsum(steps)
    timestamps = (timestamps * (day_us / max(timestamps[-1], 1e-9))).astype(np.int64)
    symbol = random.choice(["SPY", "BAC", "AIG", "IBM"], events, p=[0.6, 0.3, 0.095, 0.005])
    drift = np.linspace(-0.5, 0.5, events)
    return pa.table(
        {
            "timestamp": pa.array(timestamps, pa.timestamp("us", tz="UTC")),
            "seq": pa.array(np.arange(events), pa.int64()),
            "symbol": pa.array(symbol).dictionary_encode(),
            "price": pa.array(100 + np.cumsum(random.normal(size=events)) / 50),
            "size": pa.array((random.pareto(1.2, events) * 100 + 1).astype(np.int64) % 10_000_000),
            "diff": pa.array(random.normal(size=events) + drift),
        }
    )


def real_trades(day: str = "2013-10-07") -> pa.Table:
    """A day of the shared trades."""
    schema = StreamSchema.load(CHECKOUT / "streams" / "us_equity_trades.yaml")
    return load_events(schema, [SHARED / "us_equity_trades" / day / "trades.csv.gz"]).events


def real_traffic() -> pa.Table:
    """The whole shared month of traffic."""
    table = pq.read_table(
        SHARED / "aarhus_traffic" / "2014-08.parquet",
        columns=["report_id", "timestamp", "avg_speed", "vehicle_count"],
    ).sort_by("timestamp")
    at = table["timestamp"].cast(pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC"))
    numbers = {name: table[name].cast(pa.int64()) for name in ("report_id", "avg_speed", "vehicle_count")}
    return pa.table({"timestamp": at, "seq": pa.array(np.arange(table.num_rows)), **numbers})
