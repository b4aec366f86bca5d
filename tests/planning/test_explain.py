"""The text of explain, as people see it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cep_pipeline.planning import plan
from cep_pipeline.statistics import LeafRate, Selectivity, Source, StatisticsSnapshot, estimate_statistics
from tests.statistics.market import market, parse

SNAPSHOTS = Path(__file__).parent / "snapshots"

PATTERNS = """
NAME rise
PATTERN SEQ(A a, B b, C c) WHERE a.price > 20 AND a.diff < b.diff AND b.diff < c.diff WITHIN 5 seconds;

NAME runs
PATTERN OR(SEQ(C c, ~B n, A+ a[]), AND(Stock s, Missing m)) WHERE a[i].diff > a[i-1].diff AND [sector] WITHIN 2 seconds;

NAME lonely
PATTERN C c WITHIN 1 second
"""


@pytest.mark.parametrize("planner", ["dp_left_deep", "trivial"])
def test_explain_of_estimates(planner: str) -> None:
    patterns = parse(PATTERNS)
    snapshot = estimate_statistics(patterns, market(1000), max_pairs=5000)
    text = plan(patterns, snapshot, planner, "throughput").explain({"rise": "fused"})
    # Identifiers hash numbers to the last bit, which may differ between processors.
    text = re.sub(r"\b[0-9a-f]{32}\b", "<id>", text)
    assert text == (SNAPSHOTS / f"{planner}.txt").read_text(encoding="utf-8")


def test_explain_of_numbers_beyond_a_float() -> None:
    (pattern,) = parse("NAME huge PATTERN SEQ(A a, B+ b[]) WHERE a.diff < b.diff WITHIN 1 hour")
    snapshot = StatisticsSnapshot(
        "market",
        rates=(LeafRate("A", 1e12), LeafRate("B", 45.0)),
        selectivities=(
            Selectivity("(A) before (B) within 1 h: x.diff < y.diff", 1e-9, 10**12, 10**6, Source.SAMPLED_PAIRS),
        ),
    )
    text = plan([pattern], snapshot).explain()
    assert "e+48" in text
    assert "1e-09" in text
    assert "1,000,000 of 1,000,000,000,000 pairs" in text
    assert "0 events of market\n" in text


def test_explain_names_the_mechanism() -> None:
    patterns = parse(PATTERNS)
    made = plan(patterns, estimate_statistics(patterns, market(100)))
    assert made.explain("fused").count("runs on fused") == 3
    assert "runs on" not in made.explain()


def test_ties_are_said() -> None:
    (pattern,) = parse("PATTERN AND(A a, B b) WITHIN 1 second")
    snapshot = StatisticsSnapshot("market", rates=(LeafRate("A", 1.0), LeafRate("B", 1.0)))
    assert "a tie: the pattern's order decides" in plan([pattern], snapshot, planner="greedy").explain()
