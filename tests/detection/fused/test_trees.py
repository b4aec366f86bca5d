"""Tree plans on the kernel: every tree over a clause gives the oracle's answer, in slices too."""

from __future__ import annotations

from itertools import islice, pairwise
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.counting.owned import start
from cep_pipeline.detection.detect import detect_slice
from cep_pipeline.detection.fused import clause as runs
from cep_pipeline.detection.mechanisms import EVERYTHING
from cep_pipeline.errors import PlanError
from cep_pipeline.planning import Join
from cep_pipeline.slices.ownership import finality_of
from tests.answers import comparable, from_tables
from tests.detection.fused.running import pattern_of, prepare
from tests.oracle import evaluate
from tests.streams import Row, events_table, rows
from tests.thoroughness import examples
from tests.tree_plans import many_trees

STRUCTURES = [
    "SEQ(A a, B b, A c, B d)",
    "SEQ(Ev a, Ev b, Ev c, Ev d)",
    "AND(A a, B b, Ev c, A d)",
    "SEQ(AND(A a, B b), AND(B c, A d))",
    "AND(SEQ(A a, B b), SEQ(A c, B d))",
    "SEQ(A a, ~C n, B b, Ev c, B d)",
    "SEQ(~C n, A a, AND(B b, Ev c, Ev d))",
    "AND(SEQ(A a, B b), SEQ(A c, B d), ~C n)",
    "SEQ(AND(A a, B b), AND(Ev c, Ev d), ~C n)",
    "OR(SEQ(A a, B b, Ev c, Ev d), SEQ(A a2, B b2))",
    "AND(SEQ(A a, B b), Ev+ v[], SEQ(A c, B d))",
    "SEQ(AND(A a, B b), B+ v[], AND(Ev c, Ev d))",
]
CONDITIONS = [
    "a.x <= d.x",
    "b.x != c.x",
    "a.y + b.y <= c.y + d.y",
    "(a.x < b.x OR a.x < d.x)",
    "a.s <= c.s",
    "a.x % 2 = d.x % 2",
    "a.id = c.id",
    "b.y BETWEEN a.y AND d.y",
    "n.x > c.x",
    "v[i].x >= a.x",
    "[id]",
    "1 = 1",
]


@st.composite
def texts(draw: st.DrawFn) -> str:
    structure = draw(st.sampled_from(STRUCTURES))
    usable = [text for text in CONDITIONS if all(f" {name}" in structure for name in "nv" if f"{name}." in text)]
    usable = [text for text in usable if "v[" not in text or "v[" in structure]
    conditions = draw(st.lists(st.sampled_from(usable), min_size=1, max_size=2, unique=True))
    window = draw(st.sampled_from(["2 seconds", "3 seconds", "1 day", "4 EVENTS", "6 EVENTS"]))
    ties = draw(st.sampled_from(["ARRIVAL", "STRICT", "ANY"]))
    partition = draw(st.sampled_from(["", "", "", " PARTITION BY s"]))
    return f"PATTERN {structure} WHERE {' AND '.join(conditions)} WITHIN {window}{partition} TIES {ties}"


def order_plan(pattern: cep.Pattern, table: object) -> cep.Plan:
    return cep.plan([pattern], cep.estimate_statistics([pattern], table), planner="trivial")


@settings(max_examples=examples(40), deadline=None)
@given(
    text=texts(),
    stream_rows=rows(min_size=4, max_size=11, edges=False, types=("A", "B", "C")),
    seed=st.integers(0, 99),
    at_once=st.sampled_from([2, 1 << 16]),
)
def test_every_tree_has_the_answer_of_the_oracle(text: str, stream_rows: list[Row], seed: int, at_once: int) -> None:
    """In blocks of any size; of all the trees of four variables some are drawn."""
    pattern, table = pattern_of(text), events_table(stream_rows)
    expected = comparable(evaluate([pattern], table))
    with patch.object(runs, "BLOCK_ROWS", at_once):
        for plan in islice(many_trees(order_plan(pattern, table), seed), 4):
            found = from_tables([pattern], cep.detect([pattern], table, plan=plan, mechanism="fused"))
            assert comparable(found) == expected


@settings(max_examples=examples(25), deadline=None)
@given(text=texts(), stream_rows=rows(min_size=4, max_size=10, types=("A", "B", "C")), seed=st.integers(0, 99))
def test_slices_of_a_tree_own_every_match_once(text: str, stream_rows: list[Row], seed: int) -> None:
    pattern, table = pattern_of(text), events_table(stream_rows)
    plan = next(iter(many_trees(order_plan(pattern, table), seed)))
    points = [(row["timestamp"], row["seq"]) for row in stream_rows]
    found: list[str] = []
    for owned in pairwise([None, *points, None]):
        end = owned[1]
        read = [row for row in stream_rows if end is None or (row["timestamp"], row["seq"]) < end]
        detect_slice(
            [pattern],
            plan,
            events_table(read),
            owned,
            lambda _, batch: found.extend(batch.column("match_id").to_pylist()),
            "fused",
        )
    expected = cep.detect([pattern], table, plan=plan, mechanism="fused")[pattern.name].column("match_id").to_pylist()
    assert len(expected) == len(evaluate([pattern], table))
    assert sorted(found) == sorted(expected)


def test_a_tree_runs_as_the_order_of_its_variables() -> None:
    pattern = pattern_of("PATTERN SEQ(A a, B b, C c, A d) WHERE a.x < b.x AND c.x < d.x WITHIN 12 us")
    kinds = [{"timestamp": place, "kind": "ABC"[place % 3], "x": place % 5, "y": 0.0} for place in range(40)]
    table = events_table(kinds)
    [clause] = pattern.clauses
    of = ClauseSlice(pattern, clause, prepare(pattern, table), EVERYTHING, finality_of(pattern, clause))
    run = start(of, Join("b", Join(Join("a", "d"), "c")))
    assert sum(map(len, run)) == len(evaluate([pattern], table)) > 0
    assert [count.bound[-1] for count in run.counts] == ["a", "d", "c", "b"]


def test_a_tree_of_other_variables_is_refused() -> None:
    pattern = pattern_of("PATTERN AND(A a, B b, C c, A d) WITHIN 1 second")
    tree = Join(Join("a", "b"), Join("c", "e"))
    clause = pattern.clauses[0]
    with pytest.raises(PlanError, match="but clause 0 binds a, b, c, d: plan the pattern again"):
        start(ClauseSlice(pattern, clause, prepare(pattern, events_table([]))), tree)
