"""Plans that follow one another give together what one plan gives: nothing is lost, nothing is found twice."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.adaptation.event_stream import EventStream
from cep_pipeline.adaptation.loop_outputs import Finding, RowsOutput, find_together
from cep_pipeline.adaptation.plan_switch import Reading, SlicesOfStream, Stretch, matches_of_stretch
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.matches import matches_schema
from cep_pipeline.detection.mechanisms import Counters, Orders
from cep_pipeline.patterns.pattern import Pattern
from tests.answers import comparable, from_tables
from tests.contracts.mechanisms import drawn, takes_pattern_order
from tests.oracle import evaluate
from tests.streams import Row, cut, events_table, rows, stream_schema
from tests.thoroughness import examples, long_but
from tests.tree_plans import random_tree


def some_orders(pattern: Pattern, mechanism: str, chance: random.Random) -> Orders:
    """Any orders, or trees where the mechanism runs them."""
    orders: list = []
    for clause in pattern.clauses:
        names = [variable.name for variable in clause.positive]
        if takes_pattern_order(pattern, mechanism):
            orders.append(names)
        elif MECHANISMS[mechanism].runs_trees and len(names) > 1 and chance.random() < 0.5:
            orders.append(random_tree(names, chance))
        else:
            orders.append(chance.sample(names, len(names)))
    return orders


def by_switched_plans(
    pattern: Pattern, mechanism: str, table: pa.Table, switches: Sequence[int], parts: Sequence[int], seed: int = 0
) -> pa.Table:
    """The matches by plans drawn by `seed`, another one from each of these rows on, of a stream that comes in parts."""
    chance = random.Random(seed)
    stream = EventStream([pattern], cut(table, parts))
    reading = Reading([pattern], stream)
    finding = Finding(pattern, MECHANISMS[mechanism], stream, SlicesOfStream(stream), reading, Counters())
    output = RowsOutput(finding)
    waiting: list[Stretch] = []
    batches: list[pa.RecordBatch] = []
    for first, stop in pairwise([0, *switches, table.num_rows]):
        assert stream.advance_by(stop - first) == (first, stop)
        if stop > first:
            waiting.append(Stretch(first, stop, {pattern.name: some_orders(pattern, mechanism, chance)}))
        if stop == table.num_rows:
            assert not stream.has_more()
        while waiting and reading.has_come(waiting[0].stop):
            find_together([output], waiting.pop(0))
        detected = waiting[0].first if waiting else stop
        batches += output.ready(detected)
        stream.forget(output.needs_from(detected))
    assert not waiting
    batches += output.ready(None)
    return pa.Table.from_batches(batches, matches_schema(pattern))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data(), stream_rows=rows(min_size=1))
def test_switches_at_any_moments_between_any_plans(mechanism: str, data: st.DataObject, stream_rows: list[Row]) -> None:
    """The oracle's answer, whatever the plans and the moments, and however the events come in."""
    pattern, table = drawn(data, mechanism).pattern, events_table(stream_rows)
    moments = st.lists(st.integers(0, len(stream_rows)), max_size=6).map(sorted)
    switches, parts, seed = data.draw(moments), data.draw(moments), data.draw(st.integers(0, 99))
    found = from_tables([pattern], {pattern.name: by_switched_plans(pattern, mechanism, table, switches, parts, seed)})
    expected = evaluate([pattern], table)
    event("matches" if expected else "no matches")
    assert comparable(found) == comparable(expected)


STREAM = [
    {"timestamp": at * 1_000_000, "kind": kind, "x": x, "s": s}
    for at, kind, x, s in [
        (0, "C", 1, "p"),
        (1, "A", 1, "p"),
        (1, "A", 2, "q"),
        (2, "B", 3, "p"),
        (2, "C", 1, "q"),
        (2, "B", 1, None),
        (3, "A", 2, "p"),
        (4, "B", 2, "q"),
        (4, "A", 5, "p"),
        (5, "C", 7, "p"),
        (6, "B", 6, "p"),
        (6, "A", 1, "q"),
        (7, "B", 1, "q"),
        (9, "C", 1, "q"),
        (10, "C", 1, "q"),
        (10, "A", 1, "q"),
        (11, "B", 1, "q"),
        (12, "C", 1, None),
        (12, "B", 1, None),
        (13, "A", 1, "p"),
        (13, "B", 2, "p"),
        (13, "C", 2, "p"),
    ]
]
"""Events of one time, and partitions that go on long after each other."""
PATTERNS = [
    "PATTERN SEQ(A a, B b) WITHIN 2 seconds",
    "PATTERN SEQ(A a, B b, C c) WHERE a.x <= c.x WITHIN 4 seconds",
    "PATTERN SEQ(A a, Ev e) WITHIN 2 seconds",
    "PATTERN SEQ(A a, ~Ev n, B b) WITHIN 3 seconds",
    "PATTERN AND(A a, B b, C c) WITHIN 3 seconds TIES ANY",
    "PATTERN SEQ(~C n, A a, B b) WITHIN 2 seconds",
    "PATTERN SEQ(A a, B b, ~C n) WITHIN 3 seconds",
    "PATTERN SEQ(~C n, A a, B b, ~C m) WITHIN 2 seconds",
    "PATTERN SEQ(A a, ~C n, B b) WITHIN 3 seconds TIES ANY",
    "PATTERN SEQ(A a, ~C n, B b) WITHIN 2 EVENTS TIES ANY",
    "PATTERN SEQ(A a, ~C n, B b) WITHIN 2 EVENTS PARTITION BY s TIES ANY",
    "PATTERN SEQ(~B n, A a, B b) WITHIN 3 EVENTS TIES ANY",
    "PATTERN SEQ(A a, B+ b[], C c) WITHIN 5 seconds",
    "PATTERN SEQ(A a, OR(B b, C c)) WITHIN 2 seconds",
    "PATTERN SEQ(A a, OR(~B n, ~C m)) WITHIN 1 second",
    "PATTERN SEQ(A a, B b) WITHIN 4 EVENTS",
    "PATTERN SEQ(A a, B b) WITHIN 3 EVENTS PARTITION BY s",
    "PATTERN SEQ(~C n, A a, B b, ~C m) WITHIN 3 EVENTS PARTITION BY s",
    "PATTERN SEQ(~C n, A a, B b) WITHIN 3 EVENTS PARTITION BY s TIES ANY",
    "PATTERN SEQ(A a, B b) WITHIN 3 seconds OUTPUT NON_OVERLAP",
    "PATTERN SEQ(A a, B b) WITHIN 3 seconds CONSUME MATCHED",
    "PATTERN SEQ(A a, B b) WHERE skip_till_next_match(a, b) { a.x <= b.x } WITHIN 4 seconds",
    "PATTERN SEQ(A a, B+ b[]) WHERE skip_till_next_match(a, b[]) { a.x <= b[i].x } WITHIN 4 seconds",
    "PATTERN SEQ(A a, B b) WHERE partition_contiguity(a, b) { [s] } WITHIN 4 EVENTS PARTITION BY s",
    "PATTERN SEQ(A a, B b) WHERE strict_contiguity(a, b) { a.x > 0 } WITHIN 4 EVENTS PARTITION BY s",
]


@pytest.mark.parametrize("text", long_but(PATTERNS[::3], PATTERNS))
def test_switches_between_every_two_events(text: str) -> None:
    """Of each kind of window, negation and strategy, with a second switch soon after, events coming one by one."""
    [pattern] = cep.parse_patterns(text, stream_schema())
    table = events_table(STREAM)
    expected = comparable(evaluate([pattern], table))
    assert expected
    for mechanism in ("evaluation_tree", "nfab"):
        try:
            MECHANISMS[mechanism].check(pattern)
        except cep.UnsupportedPattern:
            continue
        for row in range(len(STREAM) + 1):
            again = min(row + 3, len(STREAM))
            found = by_switched_plans(pattern, mechanism, table, [row, again], range(1, len(STREAM)))
            assert comparable(from_tables([pattern], {pattern.name: found})) == expected


def test_a_plan_owns_what_begins_while_it_is_in_use() -> None:
    """The match that spans the switch is the old plan's, those of new events only are the new one's."""
    [pattern] = cep.parse_patterns("PATTERN SEQ(A a, B b) WITHIN 2 seconds", stream_schema())
    stream = EventStream([pattern], events_table(STREAM))
    stream.advance_by(len(STREAM))
    reading, slices = Reading([pattern], stream), SlicesOfStream(stream)

    def bound(first: int, stop: int) -> list[tuple[int, ...]]:
        stretch = Stretch(first, stop, {pattern.name: [["b", "a"]]})
        found = matches_of_stretch([pattern], MECHANISMS["lazy_chain_nfa"], stretch, reading, slices, Counters())
        return sorted(tuple(match) for [blocks] in found for block in blocks for match in block.rows.T.tolist())

    assert bound(0, 5) == [(1, 3), (1, 5), (2, 3), (2, 5)]
    assert bound(5, 14) == [(6, 7), (8, 10), (11, 12)]
    assert bound(14, 22) == [(15, 16), (15, 18), (19, 20)]
    assert reading.rows(0, 5) == (0, 9)  # what comes up to two seconds after the last old event
    assert not reading.has_come(22) and reading.has_come(9)
