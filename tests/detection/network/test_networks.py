"""What is kept of a shared plan between runs over different events: the network, and its conditions as written once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.network.network import Network, network_of
from cep_pipeline.errors import PlanError
from cep_pipeline.planning.multi_pattern.members import members_of
from cep_pipeline.planning.trees import Join, OrderOrTree
from cep_pipeline.slices.prepared import PreparedEvents
from tests.answers import comparable, from_tables
from tests.detection.network.workloads import patterns_of, random_plan, workloads
from tests.oracle import evaluate
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

TEXT = """
NAME sums PATTERN SEQ(A a, B b, C c)
WHERE a.x + b.x > c.x AND a.y < b.y AND -c.y / 2 <= a.y + 1.5 WITHIN 1 minute;
NAME either PATTERN AND(A p, B q, C r)
WHERE (p.x > q.x OR r.x = 3) AND abs(p.y - r.y) > 1 WITHIN 30 seconds;
NAME without PATTERN SEQ(A a, ~B n, C c)
WHERE n.x > a.x + c.x AND a.id BETWEEN c.x AND 2 * c.id WITHIN 1 minute"""
NO_EVENTS = PreparedEvents(events_table([]), type_attribute="kind", base_type="Ev")


def network(text: str, plans: Sequence[OrderOrTree]) -> Network:
    return network_of(members_of(cep.parse_patterns(text, stream_schema())), plans, "subexpression", NO_EVENTS)


@settings(max_examples=examples(40), deadline=None)
@given(
    text=st.one_of(st.just(TEXT), workloads(4)),
    streams=st.lists(st.tuples(rows(), st.integers(0, 1)), min_size=2, max_size=4),
    mechanism=st.sampled_from(("multi_pattern_nfa", "multitree")),
)
def test_the_same_patterns_over_other_events(text: str, streams: list[tuple[list[Row], int]], mechanism: str) -> None:
    """With nulls and without, of other values, in plans that come again: what is kept must not hold on to a slice."""
    patterns = patterns_of(text)
    for stream_rows, seed in [*streams, *reversed(streams)]:
        table = events_table(stream_rows)
        tables = cep.detect(patterns, table, plan=random_plan(patterns, table, mechanism, seed), mechanism=mechanism)
        assert comparable(from_tables(patterns, tables)) == comparable(evaluate(patterns, table))


def test_a_plan_has_one_network() -> None:
    patterns = cep.parse_patterns(TEXT, stream_schema())
    members = members_of(patterns)
    trees = [Join("a", Join("b", "c")), Join("r", Join("p", "q")), Join("a", "c")]
    first = network_of(members, trees, "subexpression", NO_EVENTS)
    again = [Join("a", Join("b", "c")), Join("r", Join("p", "q")), Join("a", "c")]
    assert network_of(members, again, "subexpression", NO_EVENTS) is first
    assert network_of(members, [*trees[:2], Join("c", "a")], "subexpression", NO_EVENTS) is not first
    assert network_of(members, trees, "none", NO_EVENTS) is not first


def test_a_pattern_that_never_matches_is_left_out_and_its_plan_looked_at() -> None:
    text = "NAME p PATTERN SEQ(A a, B b) WHERE 1 > 2 AND a.x < b.x WITHIN 1 minute; NAME q PATTERN A a WITHIN 1 second"
    planned = network(text, [Join("a", "b"), "a"])
    assert list(planned.shared.members) == [("q", 0)]
    with pytest.raises(PlanError, match="binds a, b"):
        network(text, [Join("a", "c"), "a"])
