"""Patterns whose conditions no events fulfil: every mechanism ends them at once, whatever is asked of it."""

from __future__ import annotations

import pytest

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS
from tests.detection.fused.running import pattern_of
from tests.streams import events_table

TABLE = events_table([{"timestamp": place, "kind": "ABC"[place % 3], "x": place % 7, "id": 1} for place in range(60)])


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("structure", ["SEQ(A a, B b, C c)", "SEQ(A a, B b, C c, B+ v[])", "SEQ(A a, B b, ~A n, C c)"])
@pytest.mark.parametrize(
    "condition",
    ["a.x < b.x AND b.x < c.x AND c.x < a.x", "[id] AND a.id < b.id", "c.timestamp - a.timestamp > 2 hours"],
)
def test_every_mechanism_ends_at_once(mechanism: str, structure: str, condition: str) -> None:
    pattern = pattern_of(f"PATTERN {structure} WHERE {condition} WITHIN 1 hour")
    for output in ("verbose", "compressed", "count"):
        tables, metrics = cep.detect(pattern, TABLE, mechanism=mechanism, output=output, metrics=True)
        table = tables[pattern.name]
        assert table["count"].to_pylist() == ["0"] if output == "count" else not len(table)
        assert not metrics.peak_instances and not metrics.condition_evaluations
        assert not any(node.candidates for node in metrics.nodes)
