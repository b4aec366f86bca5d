"""Conditions on the same two events: their joint share is that of trying all pairs, in slices too."""

from __future__ import annotations

import itertools
from functools import reduce
from operator import add
from typing import Any

import pyarrow as pa
import pytest

import cep_pipeline as cep
from cep_pipeline.errors import InputError
from cep_pipeline.patterns.pattern import Window
from cep_pipeline.planning.clause_questions import clause_statistics
from cep_pipeline.statistics import Source, StatisticsSnapshot, estimate, partial_statistics
from cep_pipeline.statistics.estimate import windowed_statistics
from cep_pipeline.statistics.joint import joint_pairs
from tests.statistics.market import SCHEMA, market, parse

RISING = "a.price + 20 < b.price AND a.price + 25 < b.price"
BETWEEN = "a.price < b.price AND b.diff > a.diff"
SYMMETRIC = "abs(a.price - b.price) < 20 AND a.diff < b.diff AND b.sector = a.sector"


def pairs_of(events: pa.Table, first: str, second: str, *, ordered: bool, window_us: int) -> list[tuple[Any, Any]]:
    """All pairs of rows that the scope asks for, the first one as variable a."""
    rows = events.to_pylist()
    return [
        (one, other)
        for one, other in itertools.permutations(rows, 2)
        if one["symbol"] == first
        and other["symbol"] == second
        and abs((one["timestamp"] - other["timestamp"]).total_seconds()) * 1e6 <= window_us
        and (not ordered or one["seq"] < other["seq"])
    ]


@pytest.mark.parametrize(
    "structure", ["SEQ(A a, B b)", "AND(A a, B b)", "AND(B b, A a)", "AND(A a, A b)", "SEQ(A a, A b)"]
)
def test_the_joint_share_is_that_of_all_pairs(structure: str) -> None:
    [pattern] = parse(f"NAME p PATTERN {structure} WHERE {SYMMETRIC} WITHIN 2 seconds")
    events = market(150)
    snapshot = cep.estimate_statistics([pattern], events, dependent_factor=1.0000001)
    names = structure[4:-1].replace("A ", "").replace("B ", "").split(", ")
    kinds = dict(part.split()[::-1] for part in structure[4:-1].split(", "))
    assert sorted(names) == ["a", "b"]
    pairs = pairs_of(events, kinds["a"], kinds["b"], ordered=structure.startswith("SEQ"), window_us=2_000_000)
    holds = {
        "abs": lambda a, b: abs(a["price"] - b["price"]) < 20,
        "diff": lambda a, b: a["diff"] < b["diff"],
        "sector": lambda a, b: a["sector"] == b["sector"],
    }
    assert joint_pairs([pattern])[0].parts and len(joint_pairs([pattern])) == 1
    for joint in snapshot.joints:
        chosen = [holds[name] for name in holds if any(name in condition for condition in joint.conditions)]
        assert len(chosen) == len(joint.conditions)
        passing = sum(all(test(a, b) for test in chosen) for a, b in pairs)
        assert joint.value == passing / len(pairs)
        assert (joint.low, joint.high, joint.source) == (joint.value, joint.value, Source.ALL_PAIRS)
    assert {len(joint.conditions) for joint in snapshot.joints} == {3}


def snapshot_of(where: str, **options: Any) -> StatisticsSnapshot:
    return cep.estimate_statistics(
        parse(f"NAME p PATTERN SEQ(A a, B b) WHERE {where} WITHIN 2 seconds"), market(900), **options
    )


def test_only_conditions_that_depend_on_each_other_are_joined() -> None:
    assert snapshot_of(BETWEEN).joints == ()
    assert snapshot_of("a.price < b.price").joints == ()
    [joint] = snapshot_of(RISING, max_pairs=2000).joints
    assert joint.source is Source.SAMPLED_PAIRS
    assert joint.value == pytest.approx(0.28, rel=0.15) and joint.independent == pytest.approx(0.32 * 0.28, rel=0.25)
    assert snapshot_of(RISING, dependent_factor=5).joints == ()
    assert all(not s.condition.startswith("[") for s in snapshot_of(RISING, dependent_factor=5).selectivities)
    with pytest.raises(InputError, match="is above 1"):
        snapshot_of(RISING, dependent_factor=1)


def test_few_pairs_tell_nothing() -> None:
    assert snapshot_of(RISING, max_pairs=6).joints == ()


def test_slices_add_up() -> None:
    patterns = parse(f"NAME p PATTERN AND(A a, B b) WHERE {RISING} WITHIN 2 seconds")
    events = market(600)
    seqs = events.column("seq").to_pylist()
    times = events.column("timestamp").cast(pa.int64()).to_pylist()
    cuts = [None, (times[200], seqs[200]), (times[201], seqs[201]), (times[450], seqs[450]), None]
    whole = cep.estimate_statistics(patterns, events)
    parts = [partial_statistics(patterns, events, start=start, end=end) for start, end in itertools.pairwise(cuts)]
    assert estimate.snapshot_of(reduce(add, parts)).joints == whole.joints != ()


def test_a_plan_multiplies_by_what_they_are_together() -> None:
    [pattern] = parse(f"NAME p PATTERN SEQ(A a, B b, C c) WHERE {RISING} WITHIN 2 seconds")
    snapshot = cep.estimate_statistics([pattern], market(900))
    [joint] = snapshot.joints
    [found] = clause_statistics(pattern, pattern.clauses[0], snapshot).joints
    assert found.positions == (0, 1)
    assert SCHEMA.name == snapshot.stream and found.ln_ratio > 0.6 and joint.value > 2 * joint.independent


def test_windows_and_business_days_have_joint_selectivities() -> None:
    patterns = parse(f"NAME p PATTERN SEQ(A a, B b) WHERE {RISING} WITHIN 2 seconds")
    events = market(900)
    state = windowed_statistics(patterns, events, Window(time_us=60_000_000))
    state.dependent_factor = 2.0
    day = state.business_day(0, 86_400_000_000)
    for snapshot in (state.snapshot(), day):
        [joint] = snapshot.joints
        assert joint.value > 2 * joint.independent
        assert all(not s.condition.startswith("[") for s in snapshot.selectivities)
    state.dependent_factor = 50.0
    assert state.snapshot().joints == ()


def test_what_a_clause_asks_twice_counts_once() -> None:
    [once] = parse("NAME p PATTERN SEQ(A a, B b) WHERE a.sector = b.sector AND a.diff < b.diff WITHIN 2 seconds")
    [twice] = parse(
        "NAME p PATTERN SEQ(A a, B b) WHERE a.sector = b.sector AND a.diff < b.diff AND [sector] WITHIN 2 seconds"
    )
    assert [joint.members for joint in joint_pairs([twice])] == [joint.members for joint in joint_pairs([once])]
    events = market(150)
    joints = [cep.estimate_statistics([p], events, dependent_factor=1.0000001).joints for p in (once, twice)]
    assert joints[0] == joints[1] != ()
