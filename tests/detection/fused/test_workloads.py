"""Shared plans on the columnar kernel: each pattern has the matches of its own, whatever the plan shares."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.detect import detect_slice
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning import Plan
from cep_pipeline.slices.ownership import counts_in_partitions, look_back
from tests.pattern_strategies import ANY_MATCH_LANGUAGE, FIRST_SLICE, TIME_WINDOWS, Statement, conditions, statements
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples
from tests.tree_plans import random_tree

FEATURES = (
    FIRST_SLICE,
    replace(FIRST_SLICE, max_condition_variables=3, nested=True),
    replace(ANY_MATCH_LANGUAGE, output=False, consume=False),
)


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
                clauses.append(replace(changed, steps=tuple(order), order=()))
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
)
def test_each_pattern_has_the_matches_of_its_own(
    workload: list[Statement], stream_rows: list[Row], seed: int, trees: bool
) -> None:
    patterns, table = parse(workload), events_table(stream_rows)
    plan = plan_for(patterns, table, seed, trees)
    for output in ("verbose", "count", "compressed"):
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
)
def test_slices_own_what_each_pattern_owns_alone(
    workload: list[Statement], stream_rows: list[Row], seed: int, trees: bool
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

        together = ids(patterns, plan)
        for pattern in patterns:
            assert ids([pattern], plan_of_one(plan, pattern.name)) == {pattern.name: together[pattern.name]}
