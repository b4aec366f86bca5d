"""The orders that the columnar kernel runs in place of a shared plan: they change what it costs and no match."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.planning.plans import Plan
from tests.answers import comparable, from_tables
from tests.oracle import evaluate
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

TEXT = """
NAME one PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.y <= c.y WITHIN 5 seconds;
NAME two PATTERN SEQ(A a, B b, A c) WHERE a.x < b.x WITHIN 9 seconds;
NAME three PATTERN AND(B b, SEQ(A a, C c)) WHERE a.x < c.x WITHIN 5 seconds RETURN b.s AS s;
NAME four PATTERN SEQ(A a, ~C n, B b, B d) WHERE a.x < b.x WITHIN 5 seconds
"""
PATTERNS = cep.parse_patterns(TEXT, stream_schema())
EVENTS = events_table([{"timestamp": t * 500_000, "seq": t, "kind": "ABC"[t * 7 % 3], "x": t % 5} for t in range(60)])


def shared(sharing: str, events: pa.Table = EVENTS) -> Plan:
    snapshot = cep.estimate_statistics(PATTERNS, events)
    return cep.plan(PATTERNS, snapshot, "simulated_annealing", sharing=sharing, steps=50)


def test_the_plan_says_what_the_kernel_runs_and_keeps_it() -> None:
    plan = shared("subexpression")
    assert all(len(clause.kernel_orders) == 1 for one in plan.patterns for clause in one.clauses)
    clause = plan.for_pattern("one").clauses[0]
    assert sorted(clause.on_kernel) == ["a", "b", "c"]
    assert Plan.from_json(plan.to_json(), "here") == plan
    assert "columnar mechanisms run the order" in plan.explain()
    own = cep.plan(PATTERNS, cep.estimate_statistics(PATTERNS, EVENTS))
    assert own.for_pattern("one").clauses[0].on_kernel == own.for_pattern("one").clauses[0].order


def test_what_is_run_is_what_is_counted() -> None:
    plan = shared("subexpression")
    _, metrics = cep.detect(PATTERNS, EVENTS, plan=plan, mechanism="fused", metrics=True)
    for one in plan.patterns:
        [clause] = one.clauses
        counted = {node.node for node in metrics.nodes if node.pattern == one.pattern}
        assert {tuple(clause.on_kernel[:size]) for size in range(1, len(clause.order) + 1)} <= counted


@settings(max_examples=examples(15), deadline=None)
@given(
    stream_rows=rows(min_size=4, max_size=12, types=("A", "B", "C")),
    sharing=st.sampled_from(["prefix", "subexpression"]),
)
def test_the_orders_change_no_answer(stream_rows: list[Row], sharing: str) -> None:
    table = events_table(stream_rows)
    expected = comparable(evaluate(PATTERNS, table))
    plan = shared(sharing, table)
    own = (tuple(replace(clause, alternatives=()) for clause in one.clauses) for one in plan.patterns)
    stored = (replace(one, clauses=clauses) for one, clauses in zip(plan.patterns, own, strict=True))
    for one in (plan, replace(plan, patterns=tuple(stored))):  # those of earlier releases have no order for the kernel
        for mechanism in ("fused", "multitree"):
            found = cep.detect(PATTERNS, table, plan=one, mechanism=mechanism)
            assert comparable(from_tables(PATTERNS, found)) == expected
