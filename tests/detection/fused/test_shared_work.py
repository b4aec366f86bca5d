"""Workloads on the columnar kernel: what patterns have in common is found once, and each has the matches of its own."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.detect import detect_slice
from cep_pipeline.detection.fused import shared_work
from cep_pipeline.detection.fused.shared_work import AlikeNodes
from cep_pipeline.detection.mechanisms import Counters, Metrics
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning import Join, Plan
from cep_pipeline.planning.multi_pattern import shared_plan_of
from cep_pipeline.slices.ownership import counts_in_partitions, look_back
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics.node_counts import NodeCounts
from tests.pattern_strategies import ANY_MATCH_LANGUAGE, FIRST_SLICE, TIME_WINDOWS, Statement, conditions, statements
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples
from tests.tree_plans import random_tree

FEATURES = (
    FIRST_SLICE,
    replace(FIRST_SLICE, max_condition_variables=3, nested=True),
    replace(ANY_MATCH_LANGUAGE, output=False, consume=False),
)


@pytest.fixture(autouse=True)
def _stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Storing pays for nothing that is as small as the streams of tests."""
    monkeypatch.setattr(shared_work, "RUN_NS", -1.0)
    monkeypatch.setattr(shared_work, "STORED_NS", 0.0)


WHAT_IT_COSTS = [{"STORED_NS": 0.0}, {"RUN_NS": 200.0}, {"STORED_NS": 3.0}, {"STORED_NS": 1e9}]
"""By which all is stored; what few events begin is found by each; of what was found, what is many; nothing."""


@st.composite
def workloads(draw: st.DrawFn) -> list[Statement]:
    """Two to eight statements: some of them are others with another window or one more condition."""
    features = draw(st.sampled_from(FEATURES))
    drawn = [draw(statements(features))]
    for _ in range(draw(st.integers(1, 7))):
        kind = draw(st.sampled_from(["new", "window", "window", "condition", "the same"]))
        known = draw(st.sampled_from(drawn))
        if kind == "new":
            drawn.append(draw(statements(features)))
        elif kind == "window" and "event" not in known.window:
            drawn.append(known.within(draw(st.sampled_from(TIME_WINDOWS))))
        elif kind == "condition":
            drawn.append(known.having(draw(conditions(features, known.operands))))
        else:
            drawn.append(known)
    return drawn


def parse(workload: Sequence[Statement]) -> list[Pattern]:
    return [
        cep.parse_patterns(f"NAME p{number} {one.text}", stream_schema(), params=one.params)[0]
        for number, one in enumerate(workload)
    ]


def plan_for(patterns: Sequence[Pattern], table: pa.Table, seed: int, trees: bool) -> Plan:
    """Orders or trees drawn so that patterns of the same structure mostly have the same one."""
    made = cep.plan(patterns, cep.estimate_statistics(patterns, table), planner="trivial", compare=False)
    planned = []
    for pattern, own in zip(patterns, made.patterns, strict=True):
        clauses = []
        for clause, plan in zip(pattern.clauses, own.clauses, strict=True):
            names = [variable.name for variable in clause.positive]
            kinds = [(variable.event_type, variable.kleene) for variable in clause.positive]
            drawn = random.Random(f"{seed} {kinds}")
            order = sorted(plan.steps, key=lambda step: (drawn.random(), names.index(step.variable)))
            tree = random_tree(names, drawn) if trees and drawn.random() < 0.8 else None
            changed = replace(plan, alternatives=(), comparisons=())
            if tree is not None and not isinstance(tree, str):
                clauses.append(replace(changed, tree=tree))
            else:
                clauses.append(replace(changed, steps=tuple(order)))
        planned.append(replace(own, clauses=tuple(clauses)))
    return replace(made, patterns=tuple(planned), sharing="subexpression" if trees else "prefix")


def plan_of_one(plan: Plan, name: str) -> Plan:
    return replace(plan, patterns=(plan.for_pattern(name),), sharing="none")


@settings(max_examples=examples(80), deadline=None)
@given(
    workload=workloads(),
    stream_rows=rows(max_size=14),
    seed=st.integers(0, 5),
    trees=st.booleans(),
    costs=st.sampled_from(WHAT_IT_COSTS),
)
def test_each_pattern_has_the_matches_of_its_own(
    workload: list[Statement], stream_rows: list[Row], seed: int, trees: bool, costs: dict[str, float]
) -> None:
    patterns, table = parse(workload), events_table(stream_rows)
    plan = plan_for(patterns, table, seed, trees)
    for output in ("verbose", "count", "compressed"):
        with mock.patch.multiple(shared_work, **costs):
            together = cep.detect(patterns, table, plan=plan, mechanism="fused", output=output)
        for pattern in patterns:
            own = plan_of_one(plan, pattern.name)
            [alone] = cep.detect([pattern], table, plan=own, mechanism="fused", output=output).values()
            found = together[pattern.name]
            compared = ["match_id", "end_ts"] if output == "verbose" else found.column_names  # RETURN may give NaN
            assert found.select(compared).equals(alone.select(compared))


@settings(max_examples=examples(30), deadline=None)
@given(
    workload=workloads(),
    stream_rows=rows(max_size=10),
    seed=st.integers(0, 5),
    trees=st.booleans(),
    costs=st.sampled_from(WHAT_IT_COSTS),
)
def test_slices_own_what_each_pattern_owns_alone(
    workload: list[Statement], stream_rows: list[Row], seed: int, trees: bool, costs: dict[str, float]
) -> None:
    patterns = parse(workload)
    plan = plan_for(patterns, events_table(stream_rows), seed, trees)
    reach = look_back(patterns)
    points = [(row["timestamp"], row["seq"]) for row in stream_rows][:: max(len(stream_rows) // 3, 1)]
    for start, end in pairwise([None, *points, None]):
        first = 0
        if start is not None and not any(map(counts_in_partitions, patterns)):
            place = sum(row["timestamp"] < start[0] for row in stream_rows)
            first = min(
                sum(row["timestamp"] < start[0] - reach.time_us for row in stream_rows),
                max(place - reach.positions, 0),
            )
        read = [row for row in stream_rows[first:] if end is None or (row["timestamp"], row["seq"]) < end]
        table = events_table(read)

        def ids(chosen: Sequence[Pattern], plan: Plan, table: pa.Table = table, owned: Any = (start, end)) -> Any:
            found: dict[str, list[str]] = {pattern.name: [] for pattern in chosen}

            def sink(pattern: Pattern, batch: pa.RecordBatch) -> None:
                found[pattern.name].extend(batch["match_id"].to_pylist())

            detect_slice(chosen, plan, table, owned, sink, "fused")
            return found

        with mock.patch.multiple(shared_work, **costs):
            together = ids(patterns, plan)
        for pattern in patterns:
            assert ids([pattern], plan_of_one(plan, pattern.name)) == {pattern.name: together[pattern.name]}


TEXT = """
NAME near PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.y < c.y WITHIN 30 us;
NAME far PATTERN SEQ(A p, B q, C r) WHERE p.x < q.x AND q.y > r.y WITHIN 60 us;
NAME rejected PATTERN SEQ(A a, B b, ~A n, C c) WHERE a.x < b.x AND n.x > a.x WITHIN 60 us;
NAME lists PATTERN SEQ(A a, B b, B+ l[], C c) WHERE b.x > a.x AND l[i].x > a.x WITHIN 15 us;
NAME other PATTERN SEQ(A a, B b, C c) WHERE a.x <= b.x WITHIN 30 us
"""
ROWS = [
    {"timestamp": 3 * place, "kind": "ABC"[place * 7 % 3], "x": place * 7919 % 31, "y": float(place % 13)}
    for place in range(80)
]


@pytest.mark.parametrize("trees", [False, True])
def test_a_beginning_is_found_once_and_counted_once(trees: bool) -> None:
    patterns, table = cep.parse_patterns(TEXT, stream_schema()), events_table(ROWS)
    made = cep.plan(patterns, cep.estimate_statistics(patterns, table), planner="trivial", compare=False)
    tables, metrics = cep.detect(patterns, table, plan=replace(made, sharing="prefix"), mechanism="fused", metrics=True)
    alone, apart = cep.detect(patterns, table, plan=made, mechanism="fused", metrics=True)
    assert all(tables[name].equals(alone[name]) and alone[name].num_rows for name in alone)
    nodes = {(node.pattern, node.node): node for node in metrics.nodes}
    found = [name for name, *_ in zip(("near", "far", "rejected", "lists"), "abcd", strict=True)]
    counted = [node for (name, names), node in nodes.items() if name in found and len(names) == 2 and node.candidates]
    assert len(counted) == 1  # in one of the four orders that begin with the same two
    others = {name: variables for name, _, variables in counted[0].shared_with}
    assert {counted[0].pattern: counted[0].node, **others} == {**dict.fromkeys(found, ("a", "b")), "far": ("p", "q")}
    assert nodes["other", ("a", "b")].candidates > 0
    assert sum(node.candidates for node in metrics.nodes) < sum(node.candidates for node in apart.nodes)


@pytest.mark.parametrize("costs", [{"RUN_NS": 1e9}, {"STORED_NS": 1e9}], ids=["to find", "to store"])
def test_what_does_not_pay_is_found_and_counted_by_each(costs: dict[str, float]) -> None:
    patterns, table = cep.parse_patterns(TEXT, stream_schema()), events_table(ROWS)
    made = cep.plan(patterns, cep.estimate_statistics(patterns, table), planner="trivial", compare=False)
    alone, apart = cep.detect(patterns, table, plan=made, mechanism="fused", metrics=True)
    shared = replace(made, sharing="prefix")
    with mock.patch.multiple(shared_work, **costs):
        tables, metrics = cep.detect(patterns, table, plan=shared, mechanism="fused", metrics=True)
    assert tables == alone
    assert not any(node.shared_with for node in metrics.nodes)
    counted = {(node.pattern, node.node): (node.candidates, node.passes) for node in metrics.nodes}
    by_each = {(node.pattern, node.node): (node.candidates, node.passes) for node in apart.nodes}
    if "STORED_NS" in costs:  # the first one has found it within the largest window, before it turned out not to pay
        assert counted.pop(("near", ("a", "b"))) > by_each.pop(("near", ("a", "b")))
    assert counted == by_each


@pytest.mark.parametrize("pays", [True, False])
def test_batches_and_what_is_listed_to_be_compressed_use_what_is_shared(
    pays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not pays:
        monkeypatch.setattr(shared_work, "STORED_NS", 1e9)
    text = TEXT + "; NAME sums PATTERN SEQ(A a, B b, B+ l[], C c) WHERE a.x < b.x AND sum(l[].x) > 9 WITHIN 30 us"
    patterns, table = cep.parse_patterns(text, stream_schema()), events_table(ROWS)
    made = cep.plan(patterns, cep.estimate_statistics(patterns, table), planner="trivial", compare=False)
    shared = replace(made, sharing="prefix")
    kept: list[str] = []
    store = shared_work.SharedPartialMatches._store
    monkeypatch.setattr(
        shared_work.SharedPartialMatches,
        "_store",
        lambda work, key, *found: (kept.append(key), store(work, key, *found))[1],
    )

    def batches(plan: Plan) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {pattern.name: [] for pattern in patterns}
        for name, batch in cep.detect_batches(patterns, table, plan, "fused"):
            found[name].extend(batch["match_id"].to_pylist())
        return found

    assert batches(shared) == batches(made)
    from_batches = len(kept)
    tables = [cep.detect(patterns, table, plan=plan, mechanism="fused", output="compressed") for plan in (shared, made)]
    assert all(tables[0][name].equals(alone) and alone.num_rows for name, alone in tables[1].items())
    assert (from_batches > 0, len(kept) > from_batches) == (pays, pays)


def test_a_beginning_within_a_subtree_is_as_wide_as_the_subtree() -> None:
    patterns = cep.parse_patterns(
        """NAME narrow PATTERN AND(A a, B b, C c, A d, B e) WITHIN 15 us;
        NAME wide PATTERN AND(A a, B b, C c, A d, B e) WITHIN 30 us;
        NAME begins_alike PATTERN AND(A a, B b, A d) WITHIN 15 us""",
        stream_schema(),
    )
    table = events_table(ROWS)
    made = cep.plan(patterns, cep.estimate_statistics(patterns, table), planner="trivial", compare=False)
    planned = list(made.patterns)
    for place, pair in enumerate((Join("a", "b"), Join("b", "a"))):  # equal trees, but other orders
        clause = replace(planned[place].clauses[0], tree=Join(Join("d", "e"), Join(pair, "c")), alternatives=())
        planned[place] = replace(planned[place], clauses=(replace(clause, comparisons=()),))
    plan = replace(made, patterns=tuple(planned), sharing="subexpression")
    tables = cep.detect(patterns, table, plan=plan, mechanism="fused", output="count")
    alone = cep.detect(patterns, table, plan=made, mechanism="fused", output="count")
    assert tables == alone
    assert all(count["count"].to_pylist() != ["0"] for count in alone.values())


def test_what_is_too_large_is_found_by_each(monkeypatch: pytest.MonkeyPatch) -> None:
    patterns, table = cep.parse_patterns(TEXT, stream_schema()), events_table(ROWS)
    made = cep.plan(patterns, cep.estimate_statistics(patterns, table), planner="trivial", compare=False)
    monkeypatch.setattr(shared_work, "MOST_BYTES_OF_ONE", 100)
    tables = cep.detect(patterns, table, plan=replace(made, sharing="prefix"), mechanism="fused")
    alone = cep.detect(patterns, table, plan=made, mechanism="fused")
    assert all(tables[name].equals(alone[name]) for name in alone)


@pytest.mark.parametrize("most", [100, 10_000])
def test_a_subtree_that_is_too_large_is_found_by_each_within_its_own_window(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = (f"NAME w{window} PATTERN AND(A a, B b, C c, A d, B e) WITHIN {window} us" for window in (15, 30))
    patterns, table = cep.parse_patterns(";".join(texts), stream_schema()), events_table(ROWS)
    made = cep.plan(patterns, cep.estimate_statistics(patterns, table), planner="trivial", compare=False)
    tree = Join(Join("d", "e"), Join(Join("a", "b"), "c"))
    planned = tuple(replace(one, clauses=(replace(one.clauses[0], tree=tree),)) for one in made.patterns)
    monkeypatch.setattr(shared_work, "MOST_BYTES_OF_ONE", most)
    shared = replace(made, patterns=planned, sharing="subexpression")
    tables = cep.detect(patterns, table, plan=shared, mechanism="fused", output="count")
    assert tables == cep.detect(patterns, table, plan=made, mechanism="fused", output="count")
    assert tables["w15"]["count"].to_pylist() != ["0"]


def test_what_was_not_asked_for_longest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    patterns, table = cep.parse_patterns(TEXT, stream_schema()), events_table(ROWS)
    events = PreparedEvents(table, type_attribute="kind", base_type="Ev")
    monkeypatch.setattr(shared_work, "MOST_BYTES", 1)
    orders = [[[variable.name for variable in clause.positive] for clause in pattern.clauses] for pattern in patterns]
    shared_work.share_work(patterns, orders, events)
    mechanism = cep.detection.MECHANISMS["fused"]
    for pattern, own in zip(patterns, orders, strict=True):
        for block in mechanism.find(pattern, own, events, (None, None), Counters()):
            assert len(block)
        shared = shared_work.shared_work_of(events)
        assert shared is not None
        assert len(shared.stored) <= 1
        assert shared.stored_bytes == sum(found.nbytes for found in shared.stored.values())


Places = dict[tuple[str, int, frozenset[str]], list[NodeCounts]]


def places_of(metrics: Metrics) -> Places:
    """The nodes by all that they stand for."""
    found: Places = {}
    for node in metrics.nodes:
        for name, clause, variables in ((node.pattern, node.clause, node.node), *node.shared_with):
            found.setdefault((name, clause, frozenset(variables)), []).append(node)
    return found


@settings(max_examples=examples(30), deadline=None)
@given(workload=workloads(), stream_rows=rows(max_size=14), seed=st.integers(0, 5), trees=st.booleans())
def test_counts_say_which_nodes_were_shared(
    workload: list[Statement], stream_rows: list[Row], seed: int, trees: bool
) -> None:
    """Each node that a pattern has alone is there once, with the counts of the widest of those that may share it.

    One that finds no events for another variable asks for nothing, and is not named; it is found by its window.
    """
    patterns, table = parse(workload), events_table(stream_rows)
    plan = plan_for(patterns, table, seed, trees)
    _, shared = cep.detect(patterns, table, plan=plan, mechanism="fused", metrics=True)
    together = places_of(shared)
    sizes = {pattern.name: pattern.window.time_us or pattern.window.events or 0 for pattern in patterns}
    widest = {
        (name, clause, frozenset(variables)): max(sizes[sharer] for sharer, _ in node.sharers)
        for node in shared_plan_of(plan, patterns)
        for (name, clause), uses in node.sharers.items()
        for variables in uses
    }
    for pattern in patterns:
        _, own = cep.detect([pattern], table, plan=plan_of_one(plan, pattern.name), mechanism="fused", metrics=True)
        for place, [alone] in places_of(own).items():
            assert len(together[place]) == 1
            [node] = together[place]
            sharers = [node.pattern, *(name for name, *_ in node.shared_with)]
            assert len({len(variables) for _, _, variables in ((0, 0, node.node), *node.shared_with)}) == 1
            if len(sharers) == 1 and widest.get(place, 0) <= sizes[pattern.name]:
                assert (node.candidates, node.passes) == (alone.candidates, alone.passes)
            elif pattern.name in sharers and sizes[pattern.name] == max(map(sizes.__getitem__, sharers)):
                assert node.passes >= alone.passes
        assert own.nodes == () or {place[0] for place in places_of(own)} == {pattern.name}


def test_which_nodes_are_alike_is_found_out_once_for_all_slices() -> None:
    patterns = parse_texts("AND(A a, B b, A c)", "AND(A a, B b, C c)")
    table = events_table([{"timestamp": at, "kind": "ABC"[at % 3], "x": at} for at in range(30)])

    def alike(orders: Sequence[Sequence[Sequence[str]]]) -> AlikeNodes:
        events = PreparedEvents(table, type_attribute="kind", base_type="Ev")
        shared_work.share_work(patterns, orders, events)
        shared = shared_work.shared_work_of(events)
        assert shared is not None
        return shared.alike

    one = [[["a", "b", "c"]], [["a", "b", "c"]]]
    first = alike(one)
    assert alike([[tuple(order) for order in plans] for plans in one]) is first
    other = alike([[["b", "a", "c"]], [["a", "b", "c"]]])
    assert other is not first
    assert [max(shared.uses for shared in nodes.shared.values()) for nodes in (first, other)] == [2, 1]
    again = parse_texts("AND(A a, B b, A c)", "AND(A a, B b, C c)")
    events = PreparedEvents(table, type_attribute="kind", base_type="Ev")
    shared_work.share_work(again, one, events)
    shared = shared_work.shared_work_of(events)
    assert shared is not None and shared.alike is not first  # of other patterns


def parse_texts(*structures: str) -> list[Pattern]:
    text = ";".join(f"NAME p{number} PATTERN {one} WITHIN 9 us" for number, one in enumerate(structures))
    return cep.parse_patterns(text, stream_schema())
