"""Plans know bounds on the time between events that follow from others, which the fused mechanism uses."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import permutations

import pyarrow as pa
import pytest

import cep_pipeline as cep
from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.fused.clause import run_clause
from cep_pipeline.detection.planned import plan_for
from cep_pipeline.patterns.implications import Implications
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning import clause_questions
from cep_pipeline.planning.clause_questions import clause_statistics
from cep_pipeline.planning.clause_statistics import ln_partial_matches
from cep_pipeline.planning.costs import cost_named
from cep_pipeline.planning.orderings import ordering_over
from cep_pipeline.slices.prepared import PreparedEvents

SCHEMA = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string"}})
FOLLOWING = "b.timestamp - a.timestamp <= 5 seconds AND c.timestamp - b.timestamp <= 5 seconds"
WHOLE = "c.timestamp - a.timestamp <= 5 seconds"
OF_FOUR = "b.timestamp - a.timestamp <= 2 seconds AND d.timestamp - b.timestamp <= 3 seconds"


def events(per_s: dict[str, float], span_s: int = 7200) -> pa.Table:
    draw = random.Random(1)
    times = sorted(
        (draw.randrange(span_s * 1_000_000), kind) for kind, rate in per_s.items() for _ in range(int(rate * span_s))
    )
    return SCHEMA.table([{"timestamp": time, "kind": kind} for time, kind in times])


def parsed(structure: str, condition: str) -> Pattern:
    [pattern] = cep.parse_patterns(f"NAME p PATTERN {structure} WHERE {condition} WITHIN 20 minutes", SCHEMA)
    return pattern


def passed(pattern: Pattern, table: pa.Table, order: tuple[str, ...]) -> list[int]:
    """The partial matches that the kernel makes at each level of an order, and its matches."""
    run = run_clause(ClauseSlice(pattern, pattern.clauses[0], PreparedEvents(table, type_attribute="kind")), order)
    _ = sum(map(len, run))
    return [level.passes for level in run.counts]


@pytest.mark.parametrize(
    ("structure", "condition", "per_s", "gain"),
    [
        ("SEQ(A a, B b, C c)", FOLLOWING, {"A": 0.05, "B": 5, "C": 0.05}, 20),
        ("SEQ(A a, B b, C c)", WHOLE, {"A": 0.05, "B": 1, "C": 5}, 3),
        ("SEQ(A a, B b, C c, D d)", OF_FOUR, {"A": 0.02, "B": 2, "C": 5, "D": 0.05}, 3),
    ],
)
def test_the_best_order_is_found_by_what_follows(
    structure: str, condition: str, per_s: dict[str, float], gain: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern, table = parsed(structure, condition), events(per_s)
    snapshot = cep.estimate_statistics([pattern], table)

    def made() -> int:
        [clause] = plan_for([pattern], snapshot, {"p": "fused"}).patterns[0].clauses
        assert clause.order is not None
        return sum(passed(pattern, table, clause.order)[1:-1])

    known = made()
    least = min(sum(passed(pattern, table, order)[1:-1]) for order in permutations(clause_names(pattern)))
    monkeypatch.setattr(clause_questions, "implications_of", lambda *_: Implications({}))
    unknown = made()
    assert known <= 1.5 * least
    assert unknown >= gain * known


def clause_names(pattern: Pattern) -> tuple[str, ...]:
    return tuple(variable.name for variable in pattern.clauses[0].positive)


@pytest.mark.parametrize("condition", [FOLLOWING, WHOLE])
def test_estimates_are_near_what_is_found(condition: str) -> None:
    pattern, table = parsed("SEQ(A a, B b, C c)", condition), events({"A": 0.2, "B": 0.5, "C": 0.4})
    snapshot = cep.estimate_statistics([pattern], table)
    statistics = clause_statistics(pattern, pattern.clauses[0], snapshot).ranged
    windows = 7200 / 1200
    for order in permutations(range(3)):
        found = passed(pattern, table, tuple("abc"[place] for place in order))
        for size in (2, 3):
            # k PM are made while the time of a window passes
            expected = size * math.exp(ln_partial_matches(statistics, order[:size])) * windows
            assert expected / 4 < found[size - 1] < 4 * expected, (order, size)


def test_other_mechanisms_and_windows_are_planned_as_before() -> None:
    snapshot_events = events({"A": 0.05, "B": 5, "C": 0.05}, 1000)
    pattern = parsed("SEQ(A a, B b, C c)", FOLLOWING)
    snapshot = cep.estimate_statistics([pattern], snapshot_events)
    statistics = clause_statistics(pattern, pattern.clauses[0], snapshot)
    assert any(joint.in_range for joint in statistics.joints)
    for name in ("throughput", "instances"):
        without = cep.plan([pattern], snapshot, cost=name).patterns[0].clauses[0]
        ordering = ordering_over(without.order_or_tree, statistics.names)
        bare = replace(statistics, joints=())
        assert cost_named(name).ln_step(statistics, ordering.order) == cost_named(name).ln_step(bare, ordering.order)
    by_count = cep.parse_patterns(f"PATTERN SEQ(A a, B b, C c) WHERE {FOLLOWING} WITHIN 50 EVENTS", SCHEMA)
    counted = cep.estimate_statistics(by_count, snapshot_events)
    assert not clause_statistics(by_count[0], by_count[0].clauses[0], counted).joints
