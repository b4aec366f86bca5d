"""Patterns that are run again, over other tables and beside other patterns: the answers of a pattern that is new."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.detect import detect, detect_slice
from cep_pipeline.detection.planned import own_order_plan
from cep_pipeline.patterns.pattern import Pattern
from tests.pattern_strategies import ANY_MATCH_LANGUAGE, statements
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

KINDS = (
    "PATTERN SEQ(A a, B b, A c) WHERE a.x < b.x AND c.x >= a.x WITHIN 4 seconds RETURN a.x AS x, b.s AS s",
    "PATTERN OR(SEQ(A a, B b), AND(B c, C d)) WITHIN 4 seconds RETURN coalesce(a.x, c.x) AS x",
    "PATTERN OR(SEQ(A a, B b), AND(A a2, B b2)) WITHIN 4 seconds",
    "PATTERN SEQ(A a, B? b, C c) WHERE a.x <= c.x WITHIN 4 seconds RETURN b.y AS y",
    "PATTERN SEQ(A a, (B | C) b) WHERE a.s < b.s WITHIN 4 seconds",
    "PATTERN SEQ(A a, ~C n, B b) WHERE n.x > a.x WITHIN 4 seconds",
    "PATTERN SEQ(A a, ~C n, B b) WHERE n.x > a.x + b.x WITHIN 4 seconds",
    "PATTERN SEQ(A a, ~C n, B b) WHERE n.x * a.x > b.y AND n.s != b.s WITHIN 4 seconds",
    "PATTERN SEQ(A a, ~SEQ(B n, C m), B b) WHERE n.x < m.x WITHIN 4 seconds",
    "PATTERN SEQ(A a, B+ b[], C c) WITHIN 4 seconds RETURN count(b[].x) AS n",
    "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x > b[i-1].x AND b[i].y > a.y WITHIN 4 seconds",
    "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x = a.x AND c.x = a.x WITHIN 4 seconds",
    "PATTERN SEQ(A a, B{2,3} b[]) WHERE b[i].s < b[i-1].s WITHIN 4 seconds",
    "PATTERN A+ a[] WHERE a[i].x < a[i-1].x WITHIN 5 events PARTITION BY s",
    "PATTERN AND(A a, B+ b[]) WHERE b[i].x + a.x < b[i-1].x WITHIN 4 seconds TIES ANY",
    "PATTERN SEQ(A a, B* b[], C c) WITHIN 4 seconds RETURN count(b[].x) AS n",
    "PATTERN SEQ(A a, B+ b[], C c) WHERE sum(b[].x) < c.x WITHIN 4 seconds RETURN sum(b[].y) AS y",
)


KEPT = (
    "PATTERN SEQ(A a, B b, A c) WHERE a.x < b.x WITHIN 4 seconds OUTPUT NON_OVERLAP RETURN a.x AS x",
    "PATTERN SEQ(A a, B b) WITHIN 4 seconds PARTITION BY y OUTPUT NON_OVERLAP",
    "PATTERN A a WITHIN 4 seconds PARTITION BY x, s OUTPUT NON_OVERLAP",
    "PATTERN OR(SEQ(A a, B b), AND(B c, C d)) WITHIN 4 seconds CONSUME MATCHED",
    "PATTERN SEQ(A a, B+ b[], C c) WITHIN 4 seconds CONSUME MATCHED RETURN count(b[].x) AS n",
    "PATTERN SEQ(A a, B b) WITHIN 4 seconds PARTITION BY s CONSUME MATCHED",
    "PATTERN SEQ(A a, B* b[], C c) WITHIN 4 seconds PARTITION BY s OUTPUT NON_OVERLAP CONSUME MATCHED",
    "PATTERN AND(A a, B b) WITHIN 4 seconds OUTPUT NON_OVERLAP CONSUME MATCHED",
)
"""Patterns whose matches are not all kept."""


LANGUAGE = replace(ANY_MATCH_LANGUAGE, output=False, consume=False)
"""What can be counted."""


def patterns_of(texts: tuple[str, ...]) -> list[Pattern]:
    """Patterns that have never been run."""
    text = ";\n".join(f"NAME p{number} {one}" for number, one in enumerate(texts))
    return cep.parse_patterns(text, stream_schema())


def alone(pattern: Pattern, table: pa.Table, output: str) -> Any:
    """The output of a pattern by itself."""
    return readable(detect([pattern], table, own_order_plan([pattern]), output=output)[pattern.name], output)


def readable(table: pa.Table, output: str) -> Any:
    rows_of = str(table.to_pylist()) if output != "compressed" else str(cep.expand(table).read_all().to_pylist())
    counts = table.column("count").to_pylist() if output == "compressed" else []
    return table.schema, rows_of, counts


def check(patterns: list[Pattern], new: list[Pattern], table: pa.Table, output: str) -> None:
    found = detect(patterns, table, own_order_plan(patterns), output=output)
    for pattern, fresh in zip(patterns, new, strict=True):
        assert readable(found[pattern.name], output) == alone(fresh, table, output)


@pytest.mark.parametrize("output", ["verbose", "compressed", "count"])
@settings(max_examples=examples(5), deadline=None)
@given(streams=st.lists(rows(), min_size=2, max_size=4))
def test_patterns_that_were_run_over_other_tables(output: str, streams: list[list[Row]]) -> None:
    patterns = patterns_of(KINDS)
    for one in streams:
        check(patterns, patterns_of(KINDS), events_table(one), output)


@settings(max_examples=examples(10), deadline=None)
@given(streams=st.lists(rows(), min_size=1, max_size=3))
def test_matches_of_many_patterns_are_kept_as_those_of_each(streams: list[list[Row]]) -> None:
    patterns = patterns_of(KEPT + KINDS[:2])
    for one in streams:
        check(patterns, patterns_of(KEPT + KINDS[:2]), events_table(one), "verbose")


@settings(max_examples=examples(25), deadline=None)
@given(data=st.data(), streams=st.lists(rows(), min_size=2, max_size=4))
def test_drawn_patterns_that_were_run_over_other_tables(data: st.DataObject, streams: list[list[Row]]) -> None:
    drawn = [data.draw(statements(LANGUAGE)) for _ in range(3)]

    def made() -> list[Pattern]:
        return [replace(one.pattern, name=f"p{number}") for number, one in enumerate(drawn)]

    patterns = made()
    for one in streams:
        check(patterns, made(), events_table(one), data.draw(st.sampled_from(["verbose", "count"])))


@settings(max_examples=examples(8), deadline=None)
@given(streams=st.lists(rows(), min_size=2, max_size=3), at=st.integers(0, 12))
def test_slices_of_other_tables(streams: list[list[Row]], at: int) -> None:
    patterns, plan = patterns_of(KINDS), own_order_plan(patterns_of(KINDS))
    for one in streams:
        table = events_table(one)
        if not table.num_rows:
            continue
        stamp = table.column("timestamp")[min(at, table.num_rows - 1)].value
        point = stamp, table.column("seq")[min(at, table.num_rows - 1)].as_py()
        for owned in ((None, point), (point, None)):
            answers = []
            for these in (patterns, patterns_of(KINDS)):
                found: dict[str, list[Any]] = {pattern.name: [] for pattern in these}

                def take(pattern: Pattern, batch: pa.RecordBatch, to: dict[str, list[Any]] = found) -> None:
                    to[pattern.name] += batch.to_pylist()

                detect_slice(these, plan, table, owned, take)
                answers.append(str(found))
            assert answers[0] == answers[1]
