"""Plans that patterns share in the loop: switched by component, at any moments, and the matches stay what they are."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.adaptation.decisions import Unconditional
from cep_pipeline.adaptation.event_stream import EventStream
from cep_pipeline.adaptation.loop_outputs import Finding, NumberOutput, RowsOutput, find_together
from cep_pipeline.adaptation.plan_switch import Reading, SlicesOfStream, Stretch
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.mechanisms import Counters, Orders
from cep_pipeline.patterns.pattern import Pattern
from tests.answers import comparable, from_tables
from tests.detection.network.workloads import patterns_of, workloads
from tests.oracle import evaluate
from tests.pattern_strategies import ANY_MATCH_LANGUAGE
from tests.streams import Row, cut, events_table, rows
from tests.thoroughness import examples
from tests.tree_plans import random_tree

detect_adaptively = partial(cep.detect_adaptively, minimum_gain=0.0)
"""Which plans are used does not depend on the clock then."""

SHARING = (
    ("multi_pattern_nfa", "prefix"),
    ("multitree", "subexpression"),
    ("fused", "prefix"),
    ("fused", "subexpression"),
)
"""The mechanisms that run shared plans, and what the plans share."""
WITHOUT_POLICY = replace(ANY_MATCH_LANGUAGE, output=False, consume=False)


def alike_orders(pattern: Pattern, sharing: str, seed: int) -> Orders:
    """Orders or trees drawn so that patterns of the same structure mostly have the same."""
    orders: list = []
    for clause in pattern.clauses:
        names = [variable.name for variable in clause.positive]
        chance = random.Random(f"{seed} {[(variable.event_type, variable.kleene) for variable in clause.positive]}")
        if sharing == "subexpression" and len(names) > 1 and chance.random() < 0.8:
            orders.append(random_tree(names, chance))
        else:
            orders.append(chance.sample(names, len(names)))
    return orders


def by_switched_plans(
    patterns: Sequence[Pattern],
    mechanism: str,
    sharing: str,
    table: pa.Table,
    switches: Sequence[int],
    parts: Sequence[int] = (),
    seed: int = 0,
    output: str = "verbose",
) -> dict[str, pa.Table]:
    """The output by shared plans, another one from each of these rows on, of a stream that comes in parts."""
    stream = EventStream(patterns, cut(table, parts))
    slices, counters = SlicesOfStream(stream), Counters()
    reading = Reading(patterns, stream)
    findings = [Finding(one, MECHANISMS[mechanism], stream, slices, reading, counters) for one in patterns]
    outputs = [(NumberOutput if output == "count" else RowsOutput)(finding) for finding in findings]
    waiting: list[Stretch] = []
    batches: dict[str, list[pa.RecordBatch]] = {pattern.name: [] for pattern in patterns}
    begin = 0
    for number, (first, stop) in enumerate(pairwise([0, *switches, table.num_rows])):
        stream.advance_by(stop - first)
        ended = stop == table.num_rows and not stream.has_more()
        if stop > begin and (ended or not reading.whole):
            orders = {pattern.name: alike_orders(pattern, sharing, seed + number) for pattern in patterns}
            waiting.append(Stretch(begin, stop, orders, shares=True))
            begin = stop
        while waiting and reading.has_come(waiting[0].stop):
            find_together(outputs, waiting.pop(0))
        detected = waiting[0].first if waiting else begin
        for one in outputs:
            batches[one.finding.pattern.name] += one.ready(detected)
        stream.forget(min(one.needs_from(detected) for one in outputs))
    assert not waiting
    for one in outputs:
        batches[one.finding.pattern.name] += one.ready(None)
    return {
        one.finding.pattern.name: pa.Table.from_batches(batches[one.finding.pattern.name], one.schema)
        for one in outputs
    }


@pytest.mark.parametrize(("mechanism", "sharing"), SHARING)
@settings(max_examples=examples(25), deadline=None)
@given(data=st.data(), text=workloads(6), stream_rows=rows(min_size=1))
def test_switches_at_any_moments_between_any_shared_plans(
    mechanism: str, sharing: str, data: st.DataObject, text: str, stream_rows: list[Row]
) -> None:
    """The oracle's answer, whatever the plans and the moments, however the events come in, and whatever is alike."""
    patterns, table = patterns_of(text), events_table(stream_rows)
    moments = st.lists(st.integers(0, len(stream_rows)), max_size=6).map(sorted)
    drawn = data.draw(moments), data.draw(moments), data.draw(st.integers(0, 99))
    found = by_switched_plans(patterns, mechanism, sharing, table, *drawn)
    expected = evaluate(patterns, table)
    event("matches" if expected else "no matches")
    assert comparable(from_tables(patterns, found)) == comparable(expected)


@pytest.mark.parametrize(("mechanism", "sharing"), SHARING)
@settings(max_examples=examples(10), deadline=None)
@given(data=st.data(), text=workloads(4, WITHOUT_POLICY), stream_rows=rows(min_size=1))
def test_counts(mechanism: str, sharing: str, data: st.DataObject, text: str, stream_rows: list[Row]) -> None:
    patterns, table = patterns_of(text), events_table(stream_rows)
    moments = st.lists(st.integers(0, len(stream_rows)), max_size=4).map(sorted)
    drawn = data.draw(moments), data.draw(moments), data.draw(st.integers(0, 99))
    found = by_switched_plans(patterns, mechanism, sharing, table, *drawn, "count")
    for pattern in patterns:
        [wanted] = cep.detect([pattern], table, output="count").values()
        assert found[pattern.name] == wanted


@pytest.mark.parametrize(("mechanism", "sharing"), SHARING)
@settings(max_examples=examples(10), deadline=None)
@given(data=st.data(), text=workloads(4), stream_rows=rows(min_size=1, max_size=14))
def test_the_loop_on_any_workload(
    mechanism: str, sharing: str, data: st.DataObject, text: str, stream_rows: list[Row]
) -> None:
    """Planned again at every event or two: all of it, from the statistics on the fly to the plans that are searched."""
    patterns, table = patterns_of(text), events_table(stream_rows)
    tables, report = detect_adaptively(
        patterns,
        table,
        mechanism=mechanism,
        planner=data.draw(st.sampled_from(["simulated_annealing", "tabu", "merge_decomposition"])),
        search={"sharing": sharing, "steps": 30, "seed": data.draw(st.integers(0, 9))},
        decision=Unconditional(),
        detect_events=data.draw(st.sampled_from([1, 4])),
        **data.draw(st.sampled_from([{"every_events": 2}, {"every_events": 3}, {"every": "2 seconds"}])),
    )
    event("switched" if report.switches else "not switched")
    assert comparable(from_tables(patterns, tables)) == comparable(evaluate(patterns, table))


def test_patterns_that_are_run_together_read_what_one_of_them_needs() -> None:
    """Up to the end of the longest window."""
    stream_rows = [{"timestamp": second * 1_000_000, "kind": "ABACBACB"[second]} for second in range(8)]
    near, far, other, counted = patterns_of(
        """NAME near PATTERN SEQ(A a, B b) WITHIN 1 second; NAME far PATTERN SEQ(A a, C c, B b) WITHIN 4 seconds;
        NAME other PATTERN SEQ(C c, A a) WITHIN 3 seconds; NAME counted PATTERN SEQ(A a, B b) WITHIN 6 EVENTS"""
    )

    def read(patterns: Sequence[Pattern], first: int, stop: int) -> list[int]:
        stream = EventStream(patterns, events_table(stream_rows))
        stream.advance_by(len(stream_rows))
        reading = Reading(patterns, stream)
        assert reading.has_come(stop) and reading.ahead(stop) == max(
            Reading([one], stream).ahead(stop) for one in patterns
        )
        return [*range(*reading.rows(first, stop))]

    assert read([near], 0, 2) == [0, 1, 2]
    assert read([near, far], 0, 2) == read([far, other], 0, 2) == [0, 1, 2, 3, 4, 5]
    assert read([near, other], 0, 2) == [0, 1, 2, 3, 4]
    assert read([near, counted], 0, 2) == [0, 1, 2, 3, 4, 5, 6]
