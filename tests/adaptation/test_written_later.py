"""What is said of decisions is written when somebody asks: it is what would have been said when they were taken."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import cep_pipeline as cep
from cep_pipeline.adaptation import plan_loop
from tests.streams import events_table, stream_schema

TEXT = """
NAME chain PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.y < c.y WITHIN 40 us;
NAME lists PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x > a.x AND c.y > a.y WITHIN 12 us;
NAME either PATTERN OR(SEQ(A a, C c), AND(B b, C d, A e)) WITHIN 20 us
"""


def drifting_events(seed: int) -> pa.Table:
    """Another type is frequent every 150 events, and other values."""
    chance = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for at in range(1500):
        weights = [[8, 1, 1], [1, 8, 1], [1, 1, 8]][at // 150 % 3]
        kind = chance.choices("ABC", weights)[0]
        rows.append({"timestamp": 4 * at, "kind": kind, "x": chance.randrange(at // 150 % 3 * 3 + 2), "y": at % 7 / 2})
    return events_table(rows)


@pytest.mark.parametrize("planner", ["greedy", "dp_left_deep", "zstream", "event_frequency", "simulated_annealing"])
@pytest.mark.parametrize(
    "decision",
    [
        cep.adaptation.decision_function("invariant", k=None, distance="meta_adaptive_per_invariant"),
        cep.adaptation.decision_function("invariant", distance=0.1),
        cep.adaptation.decision_function("constant_threshold", threshold=0.3),
    ],
    ids=["all invariants", "tightest", "threshold"],
)
def test_decisions_say_the_same_later(planner: str, decision: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    patterns, table = cep.parse_patterns(TEXT, stream_schema()), drifting_events(3)
    search = {"search": {"steps": 50}} if planner == "simulated_annealing" else {}

    def decided() -> Any:
        tables, report = cep.detect_adaptively(
            patterns,
            table,
            planner=planner,
            cost="throughput",
            decision=decision,
            every_events=40,
            minimum_gain=0.0,  # by the clock no two runs switch at the same events
            **search,
        )
        return {name: found.num_rows for name, found in tables.items()}, report.checks, report.switches

    later = decided()
    monkeypatch.setattr(plan_loop, "MOST_UNWRITTEN", 0)
    at_once = decided()
    assert later == at_once
    assert len({check.reason for check in later[1]}) > 10 and any(check.replanned for check in later[1])
