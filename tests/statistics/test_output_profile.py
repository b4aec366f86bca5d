"""The output profiler: the orders of matches counted one by one, in parts, and with little memory."""

from __future__ import annotations

import json
from collections import Counter
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.statistics.output_profile import OrderProfile, OutputProfiler, is_open, merge_profiles
from tests.statistics.market import market, parse
from tests.thoroughness import examples

CONJUNCTION = "NAME all PATTERN AND(A a, B b, C c) WITHIN 2 seconds"


def pattern_of(variables: int) -> Pattern:
    operands = ", ".join(f"A v{number}" for number in range(variables))
    [pattern] = parse(f"NAME p PATTERN AND({operands}) WITHIN 1 hour")
    return pattern


def literal_orders(pattern: Pattern, table: pa.Table) -> Counter[tuple[str, ...]]:
    """The order of each match by the seqs of its bindings; a list stands where its last event does."""
    orders: Counter[tuple[str, ...]] = Counter()
    for bindings in table.column("bindings").to_pylist():
        last = {element["variable"]: element["seq"] for element in bindings}  # the elements of a list are in order
        orders[tuple(sorted(last, key=last.__getitem__))] += 1
    return orders


@pytest.mark.parametrize(
    "text",
    [
        CONJUNCTION,
        "NAME all PATTERN AND(A a, B+ b[], C c) WITHIN 600 ms",
        "NAME all PATTERN SEQ(A a, AND(B b, C c)) WITHIN 2 seconds",
        "NAME all PATTERN OR(AND(A a, B b), AND(C c, B d, A e), SEQ(A f, B g)) WITHIN 1 second",
    ],
)
def test_a_profile_is_of_the_matches_that_are_reported(text: str) -> None:
    [pattern] = parse(text)
    table = cep.detect([pattern], market(120))["all"]
    profiler = OutputProfiler([pattern])
    profiler.add_rows("all", table)
    literal = literal_orders(pattern, table)
    profiles = profiler.profiles()
    counted = {order: count for profile in profiles for order, count in profile.orders}
    open_sets = {tuple(v.name for v in clause.positive) for clause in pattern.clauses if is_open(clause)}
    assert counted == {
        order: count for order, count in literal.items() if any(set(order) == set(names) for names in open_sets)
    }
    assert counted and len(literal) > 1
    for profile in profiles:
        assert profile.matches == sum(count for _, count in profile.orders)
        for variable in profile.variables:
            assert profile.last_share(variable) == pytest.approx(
                sum(profile.share(order) for order, _ in profile.orders if order[-1] == variable)
            )


def add_matches(profiler: OutputProfiler, pattern: Pattern, positions: np.ndarray) -> None:
    """Count matches whose variables v0, v1, … are bound at these positions, shape (matches, variables)."""
    rows = [[{"variable": f"v{at}", "seq": int(seq)} for at, seq in enumerate(match)] for match in positions]
    kind = pa.list_(pa.struct({"variable": pa.string(), "seq": pa.int64()}))
    profiler.add_rows(pattern.name, pa.table({"bindings": pa.array(rows, kind)}))


@settings(max_examples=examples(60), deadline=None)
@given(
    variables=st.integers(2, 17),
    seed=st.integers(0, 2**32 - 1),
    parts=st.lists(st.integers(0, 60), min_size=1, max_size=4),
    most=st.integers(1, 12),
)
def test_counters_keep_their_bound_in_parts_and_together(
    variables: int, seed: int, parts: list[int], most: int
) -> None:
    """No order is counted too often, none has more than `missed` matches beyond what is counted of it."""
    draw = np.random.default_rng(seed)
    pattern = pattern_of(variables)
    frequent = [draw.permutation(variables) for _ in range(3)]
    literal: Counter[tuple[str, ...]] = Counter()
    profiles: list[OrderProfile] = []
    exact = True
    for size in parts:
        profiler = OutputProfiler([pattern], most=most)
        ranks = [
            frequent[draw.integers(3)] if draw.random() < 0.7 else draw.permutation(variables) for _ in range(size)
        ]
        if size:
            add_matches(profiler, pattern, np.array(ranks) * 10)
        orders = [tuple(f"v{place}" for place in np.argsort(rank)) for rank in ranks]
        literal.update(orders)
        exact = exact and len(set(orders)) <= most
        profiles += profiler.profiles()
    merged = merge_profiles(profiles)
    if not sum(parts):
        assert merged == ()
        return
    [profile] = merged
    assert profile.matches == sum(parts)
    assert profile.last == tuple(
        sum(count for order, count in literal.items() if order[-1] == name) for name in profile.variables
    )
    counted = dict(profile.orders)
    assert all(count <= literal[order] for order, count in counted.items())
    assert all(count - counted.get(order, 0) <= profile.missed for order, count in literal.items())
    assert profile.missed <= profile.matches / (most + 1)
    if exact:
        assert counted == literal and profile.missed == 0


def test_all_orders_of_six_variables_are_kept() -> None:
    pattern = pattern_of(6)
    profiler = OutputProfiler([pattern])
    positions = np.array([np.argsort(order) for order in permutations(range(6))])
    for _ in range(3):
        add_matches(profiler, pattern, positions)
    [profile] = profiler.profiles()
    assert len(profile.orders) == 720 and {count for _, count in profile.orders} == {3} and not profile.missed
    short = profile.shortened(5)
    assert len(short.orders) == 5 and short.missed == 3 and short.last == profile.last


def test_a_profile_says_which_event_comes_last() -> None:
    """b mostly comes last, though no order that ends with it is the most frequent one."""
    orders = ((("a", "b", "c"), 4), (("a", "c", "b"), 3), (("c", "a", "b"), 3))
    profile = OrderProfile("p", ("a", "b", "c"), 10, (0, 6, 4), orders)
    assert profile.likely_last == "b" and profile.last_share("b") == 0.6
    assert OrderProfile.from_json(json.loads(json.dumps(profile.to_json()))) == profile
    empty = OrderProfile("p", ("a", "b"), 0, (0, 0), ())
    assert empty.likely_last is None and empty.last_share("a") == 0


def test_profiles_of_different_clauses_do_not_add_up() -> None:
    one = OrderProfile("p", ("a", "b"), 1, (0, 1), ((("a", "b"), 1),))
    with pytest.raises(ValueError, match="do not add up"):
        one.plus(OrderProfile("q", ("a", "b"), 1, (0, 1), ((("a", "b"), 1),)))
    with pytest.raises(ValueError, match="each variable once"):
        OrderProfile("p", ("a", "b"), 1, (0, 1), ((("a",), 1),))
    with pytest.raises(ValueError, match="is the last"):
        OrderProfile("p", ("a", "b"), 2, (0, 1), ((("a", "b"), 1),))
