"""The output profiler: the last events of matches counted one by one, and in parts."""

from __future__ import annotations

from collections import Counter

import pytest

import cep_pipeline as cep
from cep_pipeline.statistics.observed import OutputProfile, OutputProfiler, is_open, merge_profiles
from tests.statistics.market import market, parse

CONJUNCTION = "NAME all PATTERN AND(A a, B b, C c) WITHIN 2 seconds"


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
    literal: Counter[tuple[frozenset[str], str]] = Counter()
    for bindings in table.column("bindings").to_pylist():
        last = max(bindings, key=lambda element: element["seq"])["variable"]
        literal[frozenset(element["variable"] for element in bindings), last] += 1
    counted = {
        (frozenset(profile.variables), name): count
        for profile in profiler.profiles()
        for name, count in zip(profile.variables, profile.last, strict=True)
        if count
    }
    open_sets = {frozenset(v.name for v in clause.positive) for clause in pattern.clauses if is_open(clause)}
    assert counted == {key: count for key, count in literal.items() if key[0] in open_sets}
    assert len(counted) > 1


def test_the_profiles_of_parts_are_those_of_the_whole() -> None:
    [pattern] = parse(CONJUNCTION)
    table = cep.detect([pattern], market(120))["all"]
    whole, parts = OutputProfiler([pattern]), []
    whole.add_rows("all", table)
    for first in range(0, table.num_rows, 7):
        profiler = OutputProfiler([pattern])
        profiler.add_rows("all", table.slice(first, 7))
        parts += profiler.profiles()
        whole.add_rows("all", table.slice(first, 0))
    assert merge_profiles(parts) == whole.profiles()
    assert whole.profiles()[0].matches == table.num_rows > 20


def test_a_profile_says_which_event_comes_last() -> None:
    profile = OutputProfile("p", ("a", "b", "c"), (0, 6, 4))
    assert profile.likely_last == "b" and profile.last_share("b") == 0.6
    empty = OutputProfile("p", ("a", "b"), (0, 0))
    assert empty.likely_last is None and empty.last_share("a") == 0
    with pytest.raises(ValueError, match="is the last"):
        OutputProfile("p", ("a", "b"), (1,))
