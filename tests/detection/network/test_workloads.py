"""Many patterns on one shared network: each has exactly the matches that it has alone, which are the oracle's."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.detect import detect_slice
from cep_pipeline.detection.mechanisms import Metrics
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning import Join, Plan
from cep_pipeline.planning.trees import as_tree
from cep_pipeline.slices.ownership import counts_in_partitions, look_back
from cep_pipeline.statistics.observed import NodeCounts
from tests.answers import comparable, from_tables
from tests.contracts.mechanisms import bindings
from tests.detection.network.workloads import alone, patterns_of, random_plan, workloads
from tests.oracle import evaluate
from tests.pattern_strategies import POSITIVE_LANGUAGE
from tests.streams import Row, events_table, rows
from tests.thoroughness import examples

MECHANISMS = ("multi_pattern_nfa", "multitree")
ALL_MATCHES = replace(POSITIVE_LANGUAGE, negation=True)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=examples(100), deadline=None)
@given(text=workloads(), stream_rows=rows(), seed=st.integers(0, 999))
def test_each_pattern_has_the_matches_that_it_has_alone(
    mechanism: str, text: str, stream_rows: list[Row], seed: int
) -> None:
    patterns, table = patterns_of(text), events_table(stream_rows)
    plan = random_plan(patterns, table, mechanism, seed)
    tables = cep.detect(patterns, table, plan=plan, mechanism=mechanism)
    assert comparable(from_tables(patterns, tables)) == comparable(evaluate(patterns, table))
    for pattern in patterns[:2]:
        own = cep.detect([pattern], table, plan=alone(plan, pattern), mechanism=mechanism)
        shared = {pattern.name: tables[pattern.name]}
        assert comparable(from_tables([pattern], shared)) == comparable(from_tables([pattern], own))
        assert shared[pattern.name].column("match_id").equals(own[pattern.name].column("match_id"))


@settings(max_examples=examples(60), deadline=None)
@given(text=workloads(6, ALL_MATCHES), stream_rows=rows(min_size=4), seed=st.integers(0, 999))
def test_nodes_of_and_serve_those_of_seq(text: str, stream_rows: list[Row], seed: int) -> None:
    """Joins that are made without order, and tested for it, change no match; nor do they where a pattern is alone."""
    patterns, table = patterns_of(text), events_table(stream_rows)
    plan = random_plan(patterns, table, "multitree", seed, order_tests=True)
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    tables = cep.detect(patterns, table, plan=plan, mechanism="multitree")
    assert comparable(from_tables(patterns, tables)) == comparable(evaluate(patterns, table))
    for mechanism in ("multitree", "evaluation_tree"):
        own = cep.detect(patterns[:1], table, plan=alone(plan, patterns[0]), mechanism=mechanism)
        assert own[patterns[0].name].column("match_id").equals(tables[patterns[0].name].column("match_id"))


def test_an_and_node_serves_a_seq_node() -> None:
    """What the AND makes is made once, and tested for the order of each SEQ, in windows of their own."""
    patterns = patterns_of(
        """NAME both PATTERN AND(A a, B b) WHERE a.x < b.x WITHIN 60 us;
        NAME first PATTERN SEQ(B q, A p, C r) WHERE q.x > p.x WITHIN 90 us;
        NAME second PATTERN SEQ(A p, B q) WHERE p.x < q.x WITHIN 30 us"""
    )
    table = events_table([{"timestamp": 5 * at, "kind": "ABC"[at % 3], "x": at * 7 % 5} for at in range(40)])
    plan = cep.plan(patterns, cep.estimate_statistics(patterns, table), planner="trivial", compare=False)
    trees = {
        "both": Join("a", "b"),
        "first": Join("r", Join("p", "q", in_order=True)),
        "second": Join("q", "p", in_order=True),
    }
    served = replace(
        plan,
        patterns=tuple(
            replace(one, clauses=(replace(one.clauses[0], tree=trees[one.pattern]),)) for one in plan.patterns
        ),
    )
    tables, metrics = cep.detect(patterns, table, plan=served, mechanism="multitree", metrics=True)
    assert comparable(from_tables(patterns, tables)) == comparable(evaluate(patterns, table))
    assert all(table.num_rows for table in tables.values())
    of = {(node.pattern, frozenset(node.node)): node for node in metrics.nodes}
    nodes = ("both", "ab"), ("first", "pq"), ("second", "pq")
    pair, tested, shorter = (of[one, frozenset(names)] for one, names in nodes)
    assert pair.passes == tested.candidates > shorter.candidates, "the second one has a shorter window"
    assert tested.candidates > tested.passes > 0 and shorter.candidates > shorter.passes > 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data(), text=workloads(5, ALL_MATCHES), stream_rows=rows(min_size=4), seed=st.integers(0, 999))
def test_slices_of_a_workload(
    mechanism: str, data: st.DataObject, text: str, stream_rows: list[Row], seed: int
) -> None:
    """Slices that read their look-back and their own events give together what one detection over all of it gives."""
    patterns, table = patterns_of(text), events_table(stream_rows)
    plan = random_plan(patterns, table, mechanism, seed)
    points = [(row["timestamp"], row["seq"]) for row in stream_rows]
    cuts = sorted(data.draw(st.sets(st.sampled_from(points), max_size=3)))
    found: dict[str, list[tuple[tuple[str, int], ...]]] = {pattern.name: [] for pattern in patterns}

    def sink(pattern: Pattern, batch: pa.RecordBatch) -> None:
        for row in batch.column("bindings").to_pylist():
            found[pattern.name].append(tuple((binding["variable"], binding["seq"]) for binding in row))

    for start, end in pairwise([None, *cuts, None]):
        read = [
            row
            for place, row in enumerate(stream_rows)
            if (start is None or _is_read(patterns, stream_rows, place, start[0]))
            and (end is None or (row["timestamp"], row["seq"]) < end)
        ]
        detect_slice(patterns, plan, events_table(read), (start, end), sink, mechanism)
    for pattern in patterns:
        assert sorted(found[pattern.name]) == sorted(bindings(evaluate([pattern], table)))


def _is_read(patterns: list[Pattern], stream_rows: list[Row], place: int, start_us: int) -> bool:
    """Whether a slice that starts at a time reads a row: it may be in a window, by time or by position."""
    if any(map(counts_in_partitions, patterns)):
        return True
    reach = look_back(patterns)
    before = sum(row["timestamp"] < start_us for row in stream_rows)
    return stream_rows[place]["timestamp"] >= start_us - reach.time_us or place >= before - reach.positions


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=examples(60), deadline=None)
@given(text=workloads(6, replace(ALL_MATCHES, nested=False)), stream_rows=rows(min_size=4), seed=st.integers(0, 999))
def test_what_is_shared_is_made_once(mechanism: str, text: str, stream_rows: list[Row], seed: int) -> None:
    """A shared node does what it does for the largest window of those that share it, and nothing more."""
    patterns, table = patterns_of(text), events_table(stream_rows)
    plan = random_plan(patterns, table, mechanism, seed)
    _, shared = cep.detect(patterns, table, plan=plan, mechanism=mechanism, metrics=True)
    own: dict[str, Metrics] = {}
    for pattern in patterns:
        _, own[pattern.name] = cep.detect(
            [pattern], table, plan=alone(plan, pattern), mechanism=mechanism, metrics=True
        )
    sizes = {pattern.name: pattern.window.time_us or pattern.window.events or 0 for pattern in patterns}
    seen = set()
    for node in shared.nodes:
        places = [(node.pattern, node.clause, node.node), *node.shared_with]
        assert len(places) == len(set(places))
        assert not seen & set(places)
        seen |= set(places)
        widest = max(places, key=lambda place: sizes[place[0]])
        alike = _node_of(own[widest[0]], widest)
        assert (node.candidates, node.passes) == (alike.candidates, alike.passes)
    for pattern in patterns:
        for node in own[pattern.name].nodes:
            assert {(node.pattern, node.clause, node.node), *node.shared_with} <= seen
    assert sum(node.created for node in shared.nodes) <= sum(
        node.created for metrics in own.values() for node in metrics.nodes
    )
    assert shared.condition_evaluations <= sum(metrics.condition_evaluations for metrics in own.values())


@settings(max_examples=examples(60), deadline=None)
@given(text=workloads(3, replace(ALL_MATCHES, nested=False)), stream_rows=rows(min_size=4), seed=st.integers(0, 999))
def test_a_tree_that_is_an_order_does_what_the_order_does(text: str, stream_rows: list[Row], seed: int) -> None:
    """Lists, too, are made for the partial matches of the other side only, unless they come first."""
    patterns, table = patterns_of(text), events_table(stream_rows)
    orders = random_plan(patterns, table, "multi_pattern_nfa", seed)
    kleene = {
        (pattern.name, clause.index): [variable.name for variable in clause.positive if variable.kleene]
        for pattern in patterns
        for clause in pattern.clauses
    }
    for pattern in patterns:
        order = alone(orders, pattern)
        [own] = order.patterns
        if any(clause.order[0] in kleene[pattern.name, clause.clause] for clause in own.clauses):
            continue
        trees = [
            replace(clause, tree=as_tree(clause.order)) if len(clause.order) > 1 else clause for clause in own.clauses
        ]
        tree = replace(order, patterns=(replace(own, clauses=tuple(trees)),))
        done = [
            {
                (node.clause, frozenset(node.node)): (node.candidates, node.passes, node.created)
                for node in cep.detect([pattern], table, plan=plan, mechanism=mechanism, metrics=True)[1].nodes
                if len(node.node) > 1
            }
            for mechanism, plan in (("multi_pattern_nfa", order), ("multitree", tree))
        ]
        assert done[0] == done[1]


def _node_of(metrics: Metrics, place: tuple[str, int, tuple[str, ...]]) -> NodeCounts:
    [found] = [node for node in metrics.nodes if place in [(node.pattern, node.clause, node.node), *node.shared_with]]
    return found


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_condition_that_never_holds_leaves_the_others_what_they_would_share(mechanism: str) -> None:
    patterns = patterns_of(
        """NAME never PATTERN SEQ(A a, B b, C c) WHERE 1 > 2 AND a.x < b.x WITHIN 30 us;
        NAME some PATTERN SEQ(A p, B q, C r) WHERE p.x < q.x WITHIN 60 us;
        NAME neither PATTERN SEQ(A a, B b) WHERE a.x < b.x AND 1 > 2 WITHIN 90 us"""
    )
    table = events_table([{"timestamp": 3 * at, "kind": "ABC"[at % 3], "x": at * 7 % 5} for at in range(30)])
    tables = cep.detect(patterns, table, mechanism=mechanism)
    assert comparable(from_tables(patterns, tables)) == comparable(evaluate(patterns, table))
    assert [bool(table.num_rows) for table in tables.values()] == [False, True, False]
    impossible = [pattern for pattern in patterns if pattern.name != "some"]
    assert [table.num_rows for table in cep.detect(impossible, table, mechanism=mechanism).values()] == [0, 0]
