"""Functions, deviations, medians and tests of null and of texts over several events: as the oracle has them."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import cep_pipeline as cep
from cep_pipeline.detection.conditions import codes
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.expressions import lists, local_time
from tests.answers import comparable, from_tables
from tests.oracle import evaluate
from tests.streams import SCHEMA, events_table

IN_NEW_YORK = StreamSchema.from_dict({**SCHEMA, "timezone": "America/New_York"})
CONDITIONS = [
    "coalesce(a.x, b.x, 2) < greatest(a.y, b.x) + 1",
    "least(a.y, b.y) IS NULL OR a.y / b.x IS NOT NULL",
    "(a.x % b.x IS NULL AND sqrt(a.y - b.y) IS NOT NULL) OR ln(a.y + b.y) IS NULL",
    "coalesce(a.s, b.s) LIKE 'p%' AND greatest(a.s, b.s, 'p') NOT LIKE '%q'",
    "coalesce(a.f, b.f, FALSE) = TRUE OR coalesce(b.f, a.f) IN (FALSE)",
    "corr(a.h, b.h) IS NULL OR corr(a.h, b.h) > 0.5",
    "time_of_day(a.timestamp + b.x) >= TIME '00:59:59' AND day_of_week(max(k[].timestamp)) = 7",
    "stddev(k[].x) >= 1.5 AND median(k[].y) IS NOT NULL",
    "k[i].x >= median(k[..i-1].x) AND coalesce(stddev(k[..i-1].y), 0) < 2",
    "stddev(k[].y) > median(k[].x) OR stddev(k[].y) IS NULL",
    "min(k[].s) LIKE '_%' AND max(k[..i-1].s) IS NOT NULL AND sum(k[].y) - b.y IS NOT NULL",
    "1 <= k[].x <= b.x OR k[i].s IS NULL",
]


def events(seed: int) -> pa.Table:
    rng = random.Random(seed)
    choices = {
        "x": [None, -1, 0, 1, 2, 3, 2**63 - 1],
        "y": [None, 0.0, 0.5, 2.0, -1.5, float("nan"), 1e308, 3e-200],
        "s": [None, "p", "pq", "q", ""],
        "f": [None, True, False],
        "h": [None, [1.0, 2.0], [2.0, 1.0], [1.0, 1.0]],
    }
    rows = [
        {"kind": rng.choice("ABKKA"), **{name: rng.choice(values) for name, values in choices.items()}}
        for _ in range(11)
    ]
    start = 1_383_454_800_000_000  # 01:00 in New York on the day on which the clocks go back
    return events_table([{"timestamp": start + 600_000_000 * n, **row} for n, row in enumerate(rows)])


@pytest.mark.parametrize("mechanism", ["fused", "lazy_chain_nfa", "nfab", "multitree"])
def test_conditions_over_several_events_are_those_of_the_oracle(mechanism: str) -> None:
    found = 0
    for seed, condition in enumerate(CONDITIONS):
        table = events(seed)
        text = f"PATTERN SEQ(A a, K+ k[], B b) WHERE {condition} WITHIN 1 day"
        patterns = cep.parse_patterns(text, IN_NEW_YORK)
        expected = comparable(evaluate(patterns, table))
        assert comparable(from_tables(patterns, cep.detect(patterns, table, mechanism=mechanism))) == expected, (
            condition
        )
        found += len(expected)
    assert found > 50


def test_kernels_have_the_constants_of_the_vectorized_functions() -> None:
    assert (codes.TINY, codes.SMALL) == (lists.TINY, lists.SMALL)
    for name in ("DAY_US", "CYCLE_US", "FIRST_US", "END_US", "REPEATED_US"):
        assert getattr(codes, name) == getattr(local_time, name)
