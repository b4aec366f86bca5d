"""Days of generated trades whose rates change between the second and the third, and a pipeline over them."""

from __future__ import annotations

import gzip
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import yaml

from cep_pipeline.generate import generate_days

CHECKOUT = Path(__file__).resolve().parents[2]
STREAM = "generated_trades"
DAG = f"daily_detection_{STREAM}"
CHECK = f"invariant_check_{STREAM}"
REPLANNING, STALE = f"replanning_{STREAM}", f"stale_days_{STREAM}"
FIRST = date(2025, 1, 6)
DAYS = [FIRST + timedelta(days=k) for k in range(4)]
RARE = dict(zip(DAYS, ("BAC", "BAC", "SPY", "SPY"), strict=True))

PATTERNS = """
NAME rising
PATTERN SEQ(SPY a, BAC b, SPY c)
WHERE a.price < c.price AND b.diff > 0
WITHIN 2 seconds;

NAME together
PATTERN AND(AIG a, IBM b)
WHERE a.size = b.size
WITHIN 5 seconds;
"""

DRIFTING, STEADY, ADDED = ("up", "up_again"), ("large", "small"), "more"
TOGETHER = """
NAME up       PATTERN SEQ(SPY a, BAC b, SPY c) WHERE a.price < c.price AND b.diff > 0 WITHIN 2 seconds;
NAME up_again PATTERN SEQ(SPY p, BAC q, SPY r, BAC s) WHERE p.price < r.price AND q.diff > 0 WITHIN 3 seconds;
NAME large    PATTERN SEQ(AIG x, IBM y, IBM z) WHERE x.size = y.size AND y.price < z.price WITHIN 2 seconds;
NAME small    PATTERN SEQ(AIG v, IBM w) WHERE v.size = w.size WITHIN 3 seconds;
"""
ONE_MORE = f"NAME {ADDED} PATTERN SEQ(AIG k, IBM l, AIG m) WHERE k.size = l.size WITHIN 4 seconds;"


def write_pipeline(folder: Path, name: str, together: str, **more: Any) -> Path:
    """A pipeline over the generated days, with a warehouse of its own; one set has these patterns, planned together."""
    (folder / f"{name}.sase").write_text(together)
    stream = {
        "schema": f"{STREAM}.yaml",
        "data": "raw",
        "pattern_sets": {
            "market": {"file": "patterns.sase"},
            "together": {
                "file": f"{name}.sase",
                "planner": "simulated_annealing",
                "steps": 2_000,
                "seed": 1,
                # Numbers of so few events move by chance: what may not come otherwise is what the plan rests on.
                "adaptation": {"threshold": 5.0},
            },
        },
    }
    configuration = folder / f"{name}.yaml"
    settings = {
        "streams": {STREAM: stream},
        "warehouse": {"location": f"warehouse_{name}"},
        "spark": {"master": "local[2]"},
        **more,
    }
    configuration.write_text(yaml.safe_dump(settings))
    return configuration


def write_days(folder: Path) -> None:
    """The raw files of the days, their patterns and their schema."""
    generate_days(folder / "raw", DAYS, stocks=4, events_per_day=4_000, seed=11)
    for day, symbol in RARE.items():
        path = folder / "raw" / day.isoformat() / "trades.csv.gz"
        # One row of a day is rejected, so that quarantine is compared too.
        rejected = b'"SPY",no time,1.0,100,"P",false\n' if day == DAYS[0] else b""
        path.write_bytes(gzip.compress(thinned(gzip.decompress(path.read_bytes()), symbol, "AIG") + rejected))
    (folder / "patterns.sase").write_text(PATTERNS)
    (folder / f"{STREAM}.yaml").write_text((CHECKOUT / "streams" / f"{STREAM}.yaml").read_text())


def thinned(content: bytes, *symbols: str) -> bytes:
    """Raw trades with every twentieth of these symbols only."""
    lines = content.splitlines(keepends=True)
    for symbol in symbols:
        places = [place for place, line in enumerate(lines) if line.startswith(f'"{symbol}"'.encode())]
        assert len(places) > 100
        left_out = set(places) - set(places[::20])
        lines = [line for place, line in enumerate(lines) if place not in left_out]
    return b"".join(lines)
