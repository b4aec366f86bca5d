"""A small stream with rates and selectivities that tests can state."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pyarrow as pa

from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern

SCHEMA = StreamSchema.from_dict(
    {
        "base_type": "Stock",
        "type_attribute": "symbol",
        "attributes": {"symbol": "string", "price": "float64", "diff": "float64", "sector": "string"},
    },
    name="market",
)


def parse(text: str) -> list[Pattern]:
    """Patterns over the market."""
    return parse_patterns(text, SCHEMA)


def market(events: int, seed: int = 7, symbols: Sequence[str] = "AAAABBC", step_us: int = 100_000) -> pa.Table:
    """Events whose symbols are drawn from `symbols`, one each `step_us` after the other."""
    draw = random.Random(seed)
    return SCHEMA.table(
        [
            {
                "timestamp": index * step_us,
                "symbol": draw.choice(symbols),
                "price": float(draw.randrange(100)),
                "diff": draw.gauss(0, 1),
                "sector": draw.choice("xyz"),
            }
            for index in range(events)
        ]
    )
