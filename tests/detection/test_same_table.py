"""A table that is asked again gives the answers of a new one, whatever was asked of it before."""

from __future__ import annotations

import gc
import random
import weakref
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.errors import InputError, PlanError
from cep_pipeline.slices.prepared import PreparedEvents
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples, long_but

TEXTS = [
    "NAME p PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 5 seconds",
    "NAME p PATTERN SEQ(A a, B b) WHERE a.y < b.y WITHIN 3 seconds RETURN b.s AS s",
    "NAME p PATTERN SEQ(A a, ~C c, B b) WITHIN 1 day; NAME q PATTERN AND(A a, C c) WITHIN 5 seconds",
    "NAME q PATTERN SEQ(A a, B+ b[], C c) WITHIN 1 day",
    "NAME q PATTERN SEQ(A a, B b, C c) WHERE skip_till_next_match { a.x <= b.x } WITHIN 1 day",
]
PATTERNS = [cep.parse_patterns(text, stream_schema()) for text in TEXTS]


def copied(table: pa.Table) -> pa.Table:
    """The same events as another object, of which nothing is known."""
    return pa.table(dict(zip(table.column_names, table.columns, strict=True)))


@settings(max_examples=examples(30), deadline=None)
@given(
    stream_rows=rows(min_size=4, max_size=12, types=("A", "B", "C")),
    asked=st.lists(
        st.tuples(
            st.sampled_from(range(len(PATTERNS))),
            st.sampled_from(["verbose", "count", "compressed"]),
            st.sampled_from(["dp_left_deep", "trivial", "simulated_annealing", None]),
        ),
        min_size=2,
        max_size=4,
    ),
)
def test_a_table_that_is_asked_again(stream_rows: list[Row], asked: list[tuple[int, str, str | None]]) -> None:
    table = events_table(stream_rows)
    for number, output, planner in asked:
        patterns = PATTERNS[number]
        plan = None
        if planner is not None and "skip_till" not in TEXTS[number]:
            steps = {"steps": 20} if planner == "simulated_annealing" else {}
            plan = cep.plan(patterns, cep.estimate_statistics(patterns, table), planner, **steps)
        again = cep.detect(patterns, table, plan=plan, output=output)
        anew = cep.detect(patterns, copied(table), plan=plan, output=output)
        assert {name: one.equals(anew[name]) for name, one in again.items()} == dict.fromkeys(anew, True)


def test_what_is_wrong_is_refused_again() -> None:
    table = events_table([{"timestamp": t, "seq": t, "kind": "AB"[t % 2], "x": t} for t in range(4)])
    patterns = PATTERNS[0]
    other = cep.plan(PATTERNS[3], cep.estimate_statistics(PATTERNS[3], table))
    for _ in range(2):
        assert cep.detect(patterns, table)["p"].num_rows == 3
        with pytest.raises(PlanError, match="'p'"):
            cep.detect(patterns, table, plan=other)
        with pytest.raises(InputError, match="no mechanism"):
            cep.detect(patterns, table, mechanism="none")
    needs = cep.parse_patterns("NAME p PATTERN SEQ(A a, B b) WHERE a.y > 0 WITHIN 1 day", stream_schema())
    assert cep.detect(patterns, table.drop_columns(["y"]))["p"].num_rows == 3
    without = table.drop_columns(["y"])
    cep.detect(patterns, without)
    with pytest.raises(InputError, match="'y'"):
        cep.detect(needs, without)


@pytest.mark.parametrize("output", long_but(["count"], ["verbose", "count"]))
@pytest.mark.parametrize(
    "text",
    [
        "SEQ(A a, B b, C c) WHERE a.x < b.x",
        "SEQ(A a, ~B b, C c) WHERE b.y > a.y + c.y",
        "SEQ(A a, B+ b[], C c) WHERE a.x < c.x",
        "SEQ(A a, B b) WHERE [id]",
    ],
)
def test_events_are_given_back_without_a_collection(text: str, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prepared events that wait for a collection of cycles take memory that the next call could use."""
    made: list[weakref.ref[PreparedEvents]] = []
    begin = PreparedEvents.__init__

    def noted(self: PreparedEvents, *arguments: Any, **settings: Any) -> None:
        begin(self, *arguments, **settings)
        made.append(weakref.ref(self))

    monkeypatch.setattr(PreparedEvents, "__init__", noted)
    patterns = cep.parse_patterns(f"NAME p PATTERN {text} WITHIN 20 seconds", stream_schema())
    draw = random.Random(1)
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            table = stream_schema().table(
                [
                    {
                        "timestamp": 1_000_000 * t,
                        "kind": draw.choice("ABC"),
                        "x": draw.randrange(9),
                        "y": draw.random(),
                        "id": 1,
                    }
                    for t in range(3_000)
                ]
            )
            cep.detect(patterns, table, output=output)
            del table
    finally:
        gc.enable()
    assert made
    assert [one() for one in made if one() is not None] == []
