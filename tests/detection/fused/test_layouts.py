"""Runs over stream after stream, and of many patterns in a row: each is that of the pattern by itself."""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cep_pipeline.detection.compressed.tables import expand
from cep_pipeline.detection.detect import detect, detect_slice
from cep_pipeline.detection.fused import negation
from cep_pipeline.detection.limits import Limits, SliceLimits
from cep_pipeline.detection.mechanisms import Owned
from cep_pipeline.detection.planned import own_order_plan
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices import views
from tests.detection.fused.running import (
    boundaries_of,
    expected,
    found,
    pattern_of,
    prepare,
    run_clause,
)
from tests.pattern_strategies import FIRST_SLICE, Statement, statements
from tests.streams import events_table, rows, stream_schema
from tests.thoroughness import ALL, examples

PLAIN = (
    "PATTERN SEQ(A a, B b, A c) WHERE a.x < b.x AND c.x >= a.x + 1 AND b.y > 1 WITHIN 9 us",
    "PATTERN AND(A a, B b, A c) WHERE a.x + 1 < b.x WITHIN 8 us",
    "PATTERN AND(A a, A b) WHERE abs(a.x) != b.x OR a.y < b.y WITHIN 6 us TIES ANY",
    "PATTERN AND(A a, B b) WHERE a.x > b.y WITHIN 7 events",
    "PATTERN SEQ(A a, B b, A c) WHERE [x] AND a.y < c.y WITHIN 12 us",
    "PATTERN AND(A a, B b) WHERE a.x = b.x WITHIN 9 events PARTITION BY x",
    "PATTERN SEQ(A a, B b, C c) WHERE a.x + b.x < c.x WITHIN 9 us",
    "PATTERN SEQ(A a, B b, C c) WHERE a.x * b.x - 2 < c.x + 0.5 WITHIN 9 us",
    "PATTERN SEQ(A a, B b) WHERE a.s < b.s WITHIN 9 us",
    "PATTERN AND(A a, B b) WHERE a.x = 3 OR b.y > a.y WITHIN 9 us",
    "PATTERN SEQ(A a, ~C n, B b) WHERE n.x > a.x WITHIN 9 us",
    "PATTERN SEQ(A a, B b, ~C n) WHERE n.x + 1 < b.x WITHIN 9 us",
    "PATTERN SEQ(~C n, A a, B b) WHERE [x] AND n.y < a.y WITHIN 9 us",
    "PATTERN SEQ(A a, B b, C c) WHERE a.x = b.x AND b.y < c.y WITHIN 9 us",
    "PATTERN SEQ(A a, B b, C c) WHERE a.id = c.id AND b.y < c.y WITHIN 9 events",
    "PATTERN AND(A a, B b, C c, A d) WHERE a.x = b.x AND c.x = d.x WITHIN 6 us",
)
OTHERS = (
    "PATTERN SEQ(A a, ~C n, B b) WHERE [x] AND n.y != a.y + b.y WITHIN 9 us",
    "PATTERN SEQ(A a, ~C n, B b) WHERE n.x > a.x + b.x WITHIN 9 us",
    "PATTERN SEQ(A a, ~B n, A c) WITHIN 7 events TIES ANY",
    "PATTERN SEQ(A a, B b) WHERE a.x = b.id WITHIN 9 us",
    "PATTERN SEQ(A a, ~C n, B b) WHERE n.x * a.x > b.x WITHIN 9 us",
    "PATTERN SEQ(A a, B b) WHERE corr(a.h, b.h) > 0 WITHIN 9 us",
)
SPAN = 40


def stream(seed: int, span: int = SPAN) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    times = sorted(draw.randrange(span) for _ in range(60))
    return [
        {
            "timestamp": at,
            "kind": draw.choice("ABC"),
            "x": draw.randrange(6),
            "y": draw.random() * 4,
            "h": [1.0, at],
            "s": draw.choice(["p", "q", "r", None]),
            "id": draw.choice([None, 1, 2, 3]),
        }
        for at in times
    ]


@pytest.mark.parametrize("text", [*PLAIN, *OTHERS])
def test_other_streams_and_large_values_have_the_matches_of_the_oracle(text: str) -> None:
    pattern = pattern_of(text)
    large = [row | {"x": row["x"] + 2**60} for row in stream(2)]
    for rows_of in (stream(1), large, stream(3, span=5), stream(1)):  # the third is shorter than the window
        table = events_table(rows_of)
        events = prepare(pattern, table)
        assert found(pattern, events) == found(pattern, events) == expected(pattern, table)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(statements(FIRST_SLICE), st.lists(rows(max_size=14), min_size=2, max_size=3), st.booleans())
def test_stream_after_stream_gives_the_answer_of_the_oracle(
    statement: Statement, streams: list[list[dict[str, Any]]], forgetful: bool
) -> None:
    pattern = statement.pattern
    for of_stream in streams:
        table = events_table(of_stream)
        events = prepare(pattern, table)
        events._most_bytes = 1 if forgetful else events._most_bytes  # no derived array outlives the next one
        assert found(pattern, events) == expected(pattern, table)
        points = [None, *boundaries_of(events)[:: max(len(events) // 3, 1)], None]
        parts = [match for owned in pairwise(points) for match in found(pattern, events, None, owned)]
        assert sorted(parts) == expected(pattern, table)


def test_blocks_that_somebody_keeps_are_not_written_again() -> None:
    pattern = pattern_of("PATTERN SEQ(A a, B b) WITHIN 20 us")
    events = prepare(pattern, events_table(stream(5)))
    [of_pattern] = pattern.clauses
    kept = []
    for size in (7, 40, 1 << 16):
        for order in (["a", "b"], ["b", "a"]):
            blocks = [block.rows for block in run_clause(pattern, of_pattern, order, events, block_rows=size)]
            kept.append((blocks, [block.copy() for block in blocks]))
    assert sum(len(blocks) for blocks, _ in kept) > 20
    for blocks, copies in kept:
        for block, copy in zip(blocks, copies, strict=True):
            assert np.array_equal(block, copy)
    wholes = [sorted(map(tuple, np.hstack(blocks).T.tolist())) for blocks, _ in kept]
    assert all(whole == wholes[0] for whole in wholes)


ONE_EVENT = "PATTERN SEQ(A a) WHERE a.x > 2 WITHIN 9 us"
RETURNED = "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 9 us RETURN a.x AS x, b.y"
NONE = "PATTERN SEQ(A a, B b) WHERE a.x > 9 WITHIN 9 us"
EITHER = "PATTERN OR(SEQ(A a, B b), SEQ(B c, C d)) WHERE a.x < b.x OR c.y < d.y WITHIN 9 us"
SAME = "PATTERN SEQ(A a, B b) WHERE a.x < 3 OR b.x > a.x WITHIN 9 us"
NO_KEY = "PATTERN SEQ(A a, B b) WHERE [id] AND a.x < b.x WITHIN 9 us RETURN a.x + b.x AS sum"
STAGED = (
    "PATTERN SEQ(A a, ~C n, B b) WHERE n.x * a.x > b.x WITHIN 9 us",
    "PATTERN SEQ(A a, B b) WHERE corr(a.h, b.h) > 0 WITHIN 9 us",
    "PATTERN SEQ(A a, ~C n, B b, C c) WHERE n.x > a.x AND n.y < b.y AND b.x < c.x WITHIN 9 us",
    "PATTERN SEQ(A a, ~C n, B b, ~A m, C c) WHERE n.x > a.x AND m.y < b.y AND b.x <= c.x WITHIN 12 us",
    "PATTERN SEQ(~C n, A a) WHERE n.x > a.x WITHIN 9 us",
    "PATTERN SEQ(A a, ~C n) WHERE n.x = a.x WITHIN 9 us",
    "PATTERN SEQ(A a, ~(B | C) n, A c) WHERE [x] AND n.y > a.y WITHIN 12 us TIES STRICT",
    "PATTERN AND(A a, B b, ~A n) WHERE n.y > a.y AND n.x < b.x WITHIN 6 us",
    "PATTERN SEQ(A a, B b, C c) WHERE corr(a.h, b.h) > 0 AND b.x < c.x WITHIN 9 us",
)
LISTS = (
    "PATTERN SEQ(A a, B+ b[], C c) WHERE a.x < c.x WITHIN 9 us",
    "PATTERN SEQ(A a, B+ b[], C c) WHERE b[].x > a.x AND b[i].y > b[i-1].y WITHIN 9 us",
    "PATTERN SEQ(A a, B+ b[]) WHERE [x] AND b[].y > 1 WITHIN 12 us",
    "PATTERN SEQ(B+ b[], A a, A c) WHERE b[].x = a.x AND a.y < c.y WITHIN 9 us",
    "PATTERN SEQ(A a, A{2,3} b[], B c) WITHIN 5 us",
    "PATTERN AND(A a, B+ b[]) WHERE a.x < b[].x WITHIN 4 us",
    "PATTERN A+ a[] WHERE a[i].x > a[i-1].x WITHIN 8 us RETURN sum(a[].x) AS s",
    "PATTERN A+ a[] WHERE a[].y > 1 WITHIN 6 events",
    "PATTERN SEQ(A a, B+ b[], C c) WHERE a.x < c.x WITHIN 6 events TIES STRICT",
    "PATTERN OR(SEQ(A a, B+ b[]), SEQ(B c, C d)) WHERE a.x < 3 OR c.y < d.y WITHIN 4 us",
    "PATTERN SEQ(A a, B* b[], C c) WHERE a.x < c.x WITHIN 6 us",
)
ASKED_LISTS = (
    "PATTERN SEQ(A a, B+ b[], C c) WHERE sum(b[].y) > 4 WITHIN 9 us",
    "PATTERN SEQ(A a, B+ b[], C c) WHERE b[b.LEN].x > b[1].x AND c.x > a.x WITHIN 9 us",
    "PATTERN SEQ(A a, B{1,3} b[]) WHERE b.LEN = 2 AND avg(b[].x) < a.x WITHIN 9 us",
    "PATTERN SEQ(B+ b[], A a, C c) WHERE max(b[].y) < c.y AND b[i].x >= b[i-1].x WITHIN 9 us",
    "PATTERN AND(A a, B+ b[]) WHERE count(b[].id) > 1 OR a.x = 2 WITHIN 4 us",
    "PATTERN SEQ(A a, B+ b[], ~A n, C c) WITHIN 9 us",
    "PATTERN SEQ(A a, B+ b[], C c, ~C n) WHERE n.x > a.x AND n.y < c.y WITHIN 7 us",
    "PATTERN SEQ(~C n, B+ b[], A a) WHERE n.x < b[].x AND sum(b[].x) > a.x WITHIN 6 us TIES ANY",
    "PATTERN A+ a[] WHERE a[i].x > avg(a[..i-1].x) WITHIN 8 us RETURN sum(a[].x) AS s",
    "PATTERN A+ a[] WHERE sum(a[].x) < 6 AND min(a[].s) = 'p' WITHIN 6 events PARTITION BY x",
    "PATTERN SEQ(A a, B* b[], ~SEQ(C n, C m), C c) WHERE sum(b[].x) > a.x WITHIN 6 us",
    "PATTERN OR(SEQ(A a, B+ b[]), SEQ(B c, C d)) WHERE median(b[].x) < a.x OR c.y < d.y WITHIN 4 us",
)
LISTS_IN_TURN = (
    "PATTERN SEQ(A a, B+ b[], C+ c[]) WITHIN 5 us",
    "PATTERN SEQ(A a, B+ b[], C+ c[]) WHERE c[].x > b[b.LEN].x AND b[i].y > b[i-1].y WITHIN 9 us",
    "PATTERN SEQ(B+ b[], A a, C+ c[]) WHERE [x] AND sum(b[].y) < sum(c[].y) WITHIN 12 us RETURN c.LEN AS n",
    "PATTERN SEQ(B+ b[], C+ c[]) WHERE b[1].x < c[1].x AND b[].y = c[].y WITHIN 6 events",
    "PATTERN SEQ(A a, B{1,2} b[], ~A n, C{1,2} c[]) WHERE n.x > a.x WITHIN 6 us TIES STRICT",
    "PATTERN SEQ(A a, B+ b[], C+ c[], A+ d[]) WHERE b[].x = a.x AND c[].x = a.x AND d[i].y > d[i-1].y WITHIN 9 us",
    "PATTERN OR(SEQ(A a, B+ b[], C+ c[]), SEQ(B d, C e)) WHERE c[c.LEN].y > b[1].y OR e.x < 3 WITHIN 4 us",
)
ALIKE = (
    *(ASKED_LISTS[0].replace("4", number) for number in ("1", "2.5", "6")),
    *(LISTS_IN_TURN[1].replace("c[].x >", f"c[].x > {number} +") for number in range(2)),
    "PATTERN SEQ(A a, ~SEQ(C c, C d), B b) WHERE a.x > 2 WITHIN 9 us",
    "PATTERN SEQ(A a, ~SEQ(C c, C d), B b) WHERE a.x < 4 AND b.x > a.x WITHIN 9 us",
    "PATTERN SEQ(A a, ~OR(C c, A d), B b) WHERE a.x < b.x AND c.x > d.x WITHIN 9 us",
    "PATTERN SEQ(A a, B b) WHERE a.x + 1 < b.x WITHIN 9 us RETURN a.x AS x, b.y",
    "PATTERN SEQ(A a, C b) WHERE a.x + 1 < b.x WITHIN 9 us RETURN a.x AS x, b.y",
)
OTHER_LISTS = (
    "PATTERN AND(B+ b[], C+ c[]) WITHIN 3 us",
    "PATTERN A+ a[] WHERE [id] WITHIN 6 us",
)
SINGLE = (ONE_EVENT, RETURNED, NONE, EITHER, SAME, NO_KEY)
MANY = (*PLAIN, *OTHERS, *STAGED, *LISTS, *ASKED_LISTS, *LISTS_IN_TURN, *ALIKE, *OTHER_LISTS, *SINGLE)


def many(texts: Sequence[str] = MANY) -> list[Pattern]:
    """Patterns with names."""
    return parse_patterns(";\n".join(f"NAME p{n} {text}" for n, text in enumerate(texts)), stream_schema())


def outputs(patterns: Sequence[Pattern], table: pa.Table) -> list[Any]:
    """All that `detect` says of events, in each form of output; of buffers, what they expand to.

    Which buffers hold some matches depends on how long it took to list them.
    """
    plan = own_order_plan(patterns)
    rows_, metrics = detect(patterns, table, plan, metrics=True)
    compressed, counts = (detect(patterns, table, plan, output=form) for form in ("compressed", "count"))
    expanded = {name: expand(own).read_all() for name, own in compressed.items()}
    forms = (rows_, detect(patterns, table, plan), expanded, counts)
    tables = [{name: (own.schema, own.to_pylist()) for name, own in form.items()} for form in forms]
    return [*tables, sorted(map(repr, metrics.nodes)), metrics.condition_evaluations, metrics.peak_instances]


def of_slices(patterns: Sequence[Pattern], table: pa.Table, slices: Sequence[Owned]) -> list[Any]:
    """All that tasks say of slices of events."""

    def of_slice(owned: Owned) -> Any:
        taken: list[Any] = []

        def sink(pattern: Pattern, batch: pa.RecordBatch) -> None:
            taken.append((pattern.name, batch.schema, batch.to_pylist()))

        result = detect_slice(patterns, own_order_plan(patterns), table, owned, sink)
        return taken, result.matches, sorted(map(repr, result.metrics.nodes))

    return [of_slice(owned) for owned in slices]


def test_many_patterns_have_the_output_and_the_counts_of_each_by_itself() -> None:
    texts = MANY if ALL else MANY[::3]
    patterns = many(texts)
    slices: list[Owned] = [(None, None), ((13, 0), (27, 0)), ((27, 0), None)]
    for seed in range(2 if ALL else 1):
        table = events_table(stream(seed))
        together, in_slices = outputs(patterns, table), of_slices(patterns, table, slices)
        assert (outputs(patterns, table), of_slices(patterns, table, slices)) == (together, in_slices)
        *forms, nodes, evaluations, _ = together
        alone = [outputs([pattern], table) for pattern in many(texts)]
        for place, form in enumerate(forms):
            assert form == {name: own for one in alone for name, own in one[place].items()}
        assert nodes == sorted(node for one in alone for node in one[-3])
        assert evaluations == sum(one[-2] for one in alone)
        alone_in_slices = [of_slices([pattern], table, slices) for pattern in many(texts)]
        for place, (taken, matches, nodes) in enumerate(in_slices):
            each = [one[place] for one in alone_in_slices]
            assert taken == [batch for one, _, _ in each for batch in one]
            assert matches == {name: number for _, one, _ in each for name, number in one.items()}
            assert nodes == sorted(node for *_, one in each for node in one)
        assert sum(len(own) for _, own in forms[0].values()) > 100


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(statements(FIRST_SLICE), min_size=2, max_size=4), st.lists(rows(max_size=14), min_size=2, max_size=3))
def test_patterns_that_were_run_before_give_the_answer_of_each_by_itself(
    drawn: list[Statement], streams_: list[list[dict[str, Any]]]
) -> None:
    patterns = [replace(one.pattern, name=f"p{n}") for n, one in enumerate(drawn)]
    changed = [replace(pattern) for pattern in patterns]  # equal, and others
    for of_stream in (*streams_, streams_[0]):
        table = events_table(of_stream)
        plain = table.set_column(table.schema.get_field_index("s"), "s", table["s"].cast(pa.string()))
        coded = table.set_column(table.schema.get_field_index("s"), "s", plain["s"].dictionary_encode())
        for some, given_ in ((patterns, plain), (patterns[::-1], coded), (changed, coded), (patterns[:1], plain)):
            plan = own_order_plan(some)
            for _ in range(2):
                matches = detect(some, pa.table(given_), plan)
                counts = detect(some, pa.table(given_), plan, output="count")
                for pattern in some:
                    wanted = expected(pattern, table)
                    bound = matches[pattern.name]["bindings"].to_pylist()
                    got = sorted(tuple((one["variable"], one["seq"]) for one in row) for row in bound)
                    assert got == [tuple((v, table["seq"][place].as_py()) for v, place in m) for m in wanted]
                    assert counts[pattern.name]["count"].to_pylist() == [str(len(wanted))]


NUMBERED = (
    "PATTERN SEQ({0} a, B b) WHERE a.x > {1} AND b.x >= a.x WITHIN 9 us",
    "PATTERN SEQ({0} a, B b, C c) WHERE a.y <= {1} AND c.y < {2} AND a.y < b.y WITHIN 12 us TIES ANY",
    "PATTERN AND({0} a, C b) WHERE a.x * {1} < a.y + {2} AND b.id != {1} WITHIN 7 us",
    "PATTERN SEQ({0} a, ~C n, B b) WHERE n.x > {1} AND n.y > a.y AND b.x = {2} WITHIN 9 us",
    "PATTERN SEQ({0} a, ~SEQ(B c, C d), B b) WHERE a.x BETWEEN {1} AND {2} WITHIN 9 us",
    "PATTERN SEQ({0} a, C b) WHERE a.y NOT BETWEEN {1} AND {2} AND a.id IS NOT NULL WITHIN 7 events PARTITION BY x",
    "PATTERN SEQ({0} a, B b) WHERE (a.x = {1} OR a.y > {2} OR a.s = 'p') AND [id] WITHIN 12 us",
    "PATTERN SEQ({0} a, B+ b[], C c) WHERE b[i].x > {1} AND c.y < {2} AND sum(b[].x) > a.x WITHIN 7 us",
    "PATTERN {0} a WHERE coalesce(a.id, {1}) < {2} WITHIN 1 us",
)
"""Patterns of a type and two numbers."""
NUMBERS = st.sampled_from(["0", "1", "2", "3", "2.5", "1.0", "-1", "1e300", "9007199254740993", "9223372036854775807"])


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.tuples(st.sampled_from(NUMBERED), st.sampled_from("AB"), NUMBERS, NUMBERS), min_size=2, max_size=7),
    st.lists(rows(max_size=14), min_size=2, max_size=3),
)
def test_patterns_that_differ_in_numbers_give_the_answer_of_each_by_itself(
    drawn: list[tuple[str, ...]], streams_: list[list[dict[str, Any]]]
) -> None:
    patterns = many([text.format(*of) for text, *of in drawn])
    plan = own_order_plan(patterns)
    for of_stream in (*streams_, stream(len(drawn))):
        table = events_table(of_stream)
        wanted = {one.name: expected(one, table) for one in patterns}
        seqs = table["seq"].to_pylist()
        for _ in range(2):
            matches = detect(patterns, pa.table(table), plan)
            for name, of_pattern in wanted.items():
                bound = matches[name]["bindings"].to_pylist()
                got = sorted(tuple((one["variable"], one["seq"]) for one in row) for row in bound)
                assert got == sorted(tuple((v, seqs[place]) for v, place in match) for match in of_pattern)
        points = [None, *boundaries_of(prepare(patterns[0], table))[:: max(table.num_rows // 3, 1)], None]
        found_in = dict.fromkeys(wanted, 0)
        for owned in pairwise(points):
            for name, number in detect_slice(patterns, plan, table, owned, lambda *_: None).matches.items():
                found_in[name] += number
        assert found_in == {name: len(of_pattern) for name, of_pattern in wanted.items()}


def test_constants_types_and_windows_of_patterns_of_one_name_are_told_apart() -> None:
    table = events_table(stream(3))
    for _ in range(2):
        for text in (
            "PATTERN SEQ(A a, B b) WHERE a.x < 2 AND b.x > a.x WITHIN 9 us",
            "PATTERN SEQ(A a, B b) WHERE a.x < 5 AND b.x > a.x WITHIN 9 us",
            "PATTERN SEQ(A a, C b) WHERE a.x < 2 AND b.x > a.x WITHIN 9 us",
            "PATTERN SEQ(A a, B b) WHERE a.x < 2 AND b.x > a.x WITHIN 3 us",
            "PATTERN SEQ(A a, B b) WHERE a.x < 2 AND b.y > a.y WITHIN 9 us",
        ):
            pattern = pattern_of(text)
            for _ in range(3):
                assert detect([pattern], pa.table(table), own_order_plan([pattern]), output="count")[pattern.name][
                    "count"
                ].to_pylist() == [str(len(expected(pattern, table)))]


def test_more_patterns_than_are_remembered_are_run_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MOST_CLAUSES", 4)
    patterns = many([f"PATTERN SEQ(A a, B b) WHERE a.x + {number} < b.x + 5 WITHIN 9 us" for number in range(12)])
    table = events_table(stream(4))
    counted = detect(patterns, table, own_order_plan(patterns), output="count")
    assert {name: int(own["count"][0].as_py()) for name, own in counted.items()} == {
        pattern.name: len(expected(pattern, table)) for pattern in patterns
    }
    assert max(int(own["count"][0].as_py()) for own in counted.values()) > 20


def test_threads_run_the_same_patterns_over_streams_of_their_own() -> None:
    patterns = many()
    tables = [events_table(stream(seed)) for seed in range(4)]
    plan = own_order_plan(patterns)

    def found_in(table: pa.Table) -> list[dict[str, pa.Table]]:
        return [detect(patterns, pa.table(table), plan) for _ in range(2)]

    alone = [found_in(table) for table in tables]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(found_in, tables)) == alone


@pytest.mark.parametrize(
    "condition", ["n.x > a.x + b.x", "n.y <= a.y + b.y AND n.x > 2", "n.y != a.y + b.x", "[s] AND n.x > a.x + b.x"]
)
def test_extremes_of_slices_that_grow(condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"PATTERN SEQ(A a, ~C n, B b) WHERE {condition} WITHIN 60 us"
    kept, searched = pattern_of(text), pattern_of(text)
    draw = random.Random(3)
    for size in (60, 1500, 90, 4000, 1500):
        rows_of = [
            {
                "timestamp": number * 2,
                "kind": draw.choice("ABCC"),
                "x": draw.choice((*range(60), None, 2**53 + 1)) if size == 90 else draw.randrange(60),
                "y": draw.choice((float("nan"), float("inf"), -0.0, 0.0, 1.5, 7.25, None)),
                "s": draw.choice("pqrs"),
            }
            for number in range(size)
        ]
        answers = []
        for one in (kept, searched):
            with monkeypatch.context() as patched:
                if one is searched:
                    patched.setattr(negation.BlockSearch, "of", lambda *_: None)
                found = detect([one], events_table(rows_of), own_order_plan([one]))[one.name]
            answers.append(found.column("match_id").to_pylist())
        assert answers[0] == answers[1]
        assert answers[0] or size < 100


SUMMARIZED = (
    "PATTERN SEQ(A a, B b) WHERE a.x < b.x + {0} WITHIN 9 us SUMMARIZE count(*) AS n, avg(a.y) AS y GROUP BY a.s AS s",
    "PATTERN SEQ(A a, B b) WHERE a.x = {0} AND b.y > a.y WITHIN 9 us "
    "SUMMARIZE sum(b.x) AS x, max(b.y) AS y, min(a.s) AS s",
    "PATTERN SEQ(A a, B+ b[], C c) WHERE sum(b[].x) > {0} WITHIN 6 us "
    "SUMMARIZE count(*) AS n GROUP BY c.x AS x, b.LEN AS k",
    "PATTERN SEQ(A a, C c) WHERE c.x > {0} WITHIN 9 us OUTPUT NON_OVERLAP "
    "SUMMARIZE count(*) AS n GROUP BY bucket(1 second)",
    "PATTERN OR(A a, SEQ(B b, C c)) WHERE a.x = {0} WITHIN 5 us SUMMARIZE avg(c.x) AS x GROUP BY a.id AS i, b.y AS y",
)


def test_rows_of_summarize_of_many_patterns_are_those_of_each_by_itself() -> None:
    texts = [text.format(number) for number in (1, 3, 2, 40) for text in SUMMARIZED]
    patterns = many(texts)
    large = [row | {"y": row["y"] * 1e308 - 2e308} for row in stream(3)]
    slices: list[Owned] = [(None, None), (None, (13, 0)), ((13, 0), (27, 0)), ((27, 0), None)]
    limited = SliceLimits({pattern.name: Limits(max_matches=1 << 20) for pattern in patterns})

    def tables(patterns: Sequence[Pattern], table: pa.Table) -> list[Any]:
        found_ = detect(patterns, pa.table(table), own_order_plan(patterns))
        return [(name, own.schema, repr(own.to_pylist())) for name, own in found_.items()]

    def groups(patterns: Sequence[Pattern], table: pa.Table, limits: SliceLimits | None = None) -> list[Any]:
        """What tasks put together of slices: of all but those of which they do not decide what counts."""
        plan = own_order_plan(patterns)
        results = [detect_slice(patterns, plan, table, owned, lambda *_: None, limits=limits) for owned in slices]
        return [(name, repr(one.to_json())) for result in results for name, one in result.summaries.items()]

    for rows_ in (stream(1), stream(2), large, []) if ALL else (large, []):
        table = events_table(rows_)
        for _ in range(2):
            assert tables(patterns, table) == [one for own in many(texts) for one in tables([own], table)]
            in_slices = groups(patterns, table)
            assert sorted(in_slices) == sorted(one for own in many(texts) for one in groups([own], table))
            assert groups(patterns, table, limited) == in_slices


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["SEQ({0} a, B b)", "AND({0} a, C b)", "OR({0} a, SEQ(B c, C b))"]),
            st.sampled_from("AB"),
            st.sampled_from(
                [
                    *("count(*) AS n", "sum(b.y) AS y, count(*) AS n", "min(a.s) AS l, max(b.x) AS m, avg(b.id) AS i"),
                    *("min(b.y) AS l, max(b.y) AS m, avg(a.x) AS x", "max(b.s) AS f, sum(a.id) AS i, count(*) AS n"),
                ]
            ),
            st.sampled_from(
                ["", "a.s AS g", "b.y AS g, a.s AS h", "a.f AS f, b.id AS g, bucket(1 second)", "a.x + b.x AS g"]
            ),
        ),
        min_size=2,
        max_size=6,
    ),
    rows(max_size=14),
)
def test_rows_of_summarize_made_as_columns_are_those_put_together_group_by_group(
    drawn: list[tuple[str, ...]], rows_: list[dict[str, Any]]
) -> None:
    patterns = many(
        [
            f"PATTERN {structure.format(kind)} WITHIN 4 seconds SUMMARIZE {what}{' GROUP BY ' * bool(groups)}{groups}"
            for structure, kind, what, groups in drawn
        ]
    )
    table = events_table(rows_)
    for _ in range(2):
        together = detect(patterns, pa.table(table), own_order_plan(patterns), "fused")
    alone = detect(patterns, pa.table(table), own_order_plan(patterns), "evaluation_tree")
    assert {name: (own.schema, repr(own.to_pylist())) for name, own in together.items()} == {
        name: (own.schema, repr(own.to_pylist())) for name, own in alone.items()
    }
