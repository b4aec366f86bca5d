"""Streams long enough that stores grow and are compacted: the tree finds what the columnar kernel finds."""

from __future__ import annotations

from functools import cache

import pyarrow as pa
import pytest

import cep_pipeline as cep
from benchmarks.stock_stream import generate_stock_stream
from benchmarks.workloads import WORKLOADS, stock_schema
from tests.tree_plans import many_trees

EVENTS = 10_000
TEXTS = (
    "SEQ(S08 a, S10+ b[], S12 c) WHERE b[i].diff > b[i-1].diff AND avg(b[].diff) < c.diff WITHIN 1200 ms",
    "SEQ(S08 a, S10 b, ~S12 n) WHERE a.diff < b.diff AND n.diff < a.diff WITHIN 900 ms",
    "AND(S08 a, ~S12 n, S10 b) WHERE a.diff < b.diff AND n.diff < a.diff - 1 WITHIN 300 ms",
    "SEQ(Stock a, Stock b, Stock c) WHERE [ticker] AND a.price > b.price AND b.price > c.price WITHIN 300 ms",
    "SEQ(Stock a, Stock b, Stock c) WHERE a.price > b.price AND b.price > c.price WITHIN 8 EVENTS PARTITION BY ticker",
    "SEQ(Stock a, ~Stock n, Stock b) WHERE [ticker] AND a.price > b.price AND n.volume > b.volume WITHIN 60 EVENTS",
    "OR(SEQ(S00 a, S07 b), AND(S03 c, ~S09 n, S05 d)) WHERE a.diff < b.diff AND c.diff > d.diff WITHIN 400 ms",
)


@cache
def stock_events() -> pa.Table:
    return generate_stock_stream(EVENTS)


@pytest.mark.parametrize("text", TEXTS)
def test_any_tree_finds_what_the_columnar_kernel_finds(text: str) -> None:
    [pattern] = cep.parse_patterns(f"NAME p PATTERN {text}", stock_schema())
    plan = cep.plan([pattern], cep.estimate_statistics([pattern], stock_events()))
    expected = cep.detect([pattern], stock_events(), plan, "fused")["p"]
    assert expected.num_rows > 100
    for tree in list(many_trees(plan))[::5]:
        assert cep.detect([pattern], stock_events(), tree, "evaluation_tree")["p"].equals(expected)


@pytest.mark.parametrize("name", ["W1", "W2", "W3", "W4", "W4b"])
def test_the_benchmarks_have_their_number_of_matches(name: str) -> None:
    workload = WORKLOADS[name]
    [pattern] = cep.parse_patterns(workload.text, stock_schema())
    plan = cep.plan([pattern], cep.estimate_statistics([pattern], stock_events()))
    for tree in [plan, *list(many_trees(plan))[::5]]:
        found = cep.detect([pattern], stock_events(), tree, "evaluation_tree")[pattern.name]
        assert found.num_rows == workload.matches[EVENTS]
