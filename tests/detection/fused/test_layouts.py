"""Runs whose argument words are laid out once: the answers and counts of runs that are compiled each time."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cep_pipeline.detection.fused import clause
from cep_pipeline.detection.fused.clause import run_clause
from cep_pipeline.detection.fused.levels import LaidOutLevels, Levels
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.prepared import Boundary, PreparedEvents
from tests.detection.fused.running import boundaries_of, expected, found, pattern_of, prepare, written_orders
from tests.pattern_strategies import FIRST_SLICE, Statement, statements
from tests.streams import events_table, rows
from tests.thoroughness import examples

PLAIN = (
    "PATTERN SEQ(A a, B b, A c) WHERE a.x < b.x AND c.x >= a.x + 1 AND b.y > 1 WITHIN 9 us",
    "PATTERN AND(A a, B b, A c) WHERE a.x + 1 < b.x WITHIN 8 us",
    "PATTERN AND(A a, A b) WHERE abs(a.x) != b.x OR a.y < b.y WITHIN 6 us TIES ANY",
    "PATTERN AND(A a, B b) WHERE a.x > b.y WITHIN 7 events",
)
OTHERS = (
    "PATTERN SEQ(A a, B b) WHERE a.x = b.x WITHIN 9 us",
    "PATTERN SEQ(A a, ~C n, B b) WHERE n.x > a.x WITHIN 9 us",
    "PATTERN SEQ(A a, B b, C c) WHERE a.x + b.x < c.x WITHIN 9 us",
    "PATTERN SEQ(A a, B b) WHERE corr(a.h, b.h) > 0 WITHIN 9 us",
)
SPAN = 40


def stream(seed: int, span: int = SPAN) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    times = sorted(draw.randrange(span) for _ in range(60))
    return [
        {"timestamp": at, "kind": draw.choice("ABC"), "x": draw.randrange(6), "y": draw.random() * 4, "h": [1.0, at]}
        for at in times
    ]


def run(pattern: Pattern, events: PreparedEvents, owned: tuple[Boundary | None, Boundary | None]) -> Any:
    """The levels that a run was made of, its matches and its counts."""
    [of_pattern], [order] = pattern.clauses, written_orders(pattern)
    made = run_clause(pattern, of_pattern, order, events, owned)
    matches = sorted(tuple(match) for block in made for match in block.rows.T.tolist())
    return made._levels, matches, made.counts


@pytest.mark.parametrize("text", [*PLAIN, *OTHERS])
def test_slices_of_other_streams_are_run_by_the_layout_of_the_first(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = pattern_of(text)

    def runs() -> list[Any]:
        """Runs over slices of their own: a slice keeps what was laid out for it."""
        return [
            run(pattern, prepare(pattern, events_table(stream(seed))), owned)
            for seed in range(4)
            for owned in ((None, None), ((13, 0), (27, 0)), ((27, 0), None))
        ]

    laid_out = runs()
    with monkeypatch.context() as patched:
        patched.setattr(clause, "levels_over", lambda planned, leaves, beginning: Levels(planned, leaves, {}))
        compiled = runs()
    assert [made[1:] for made in laid_out] == [made[1:] for made in compiled]
    assert sum(len(matches) for _, matches, _ in laid_out) > 20
    # One is compiled for whole streams, and one for slices of which a row number says what they own.
    assert sum(isinstance(levels, LaidOutLevels) for levels, _, _ in laid_out) >= (9 if text in PLAIN else 0)
    assert text in PLAIN or not any(isinstance(levels, LaidOutLevels) for levels, _, _ in laid_out)


@pytest.mark.parametrize("text", PLAIN)
def test_a_slice_that_is_run_again_has_the_same_matches_and_counts(text: str) -> None:
    pattern = pattern_of(text)
    events = prepare(pattern, events_table(stream(1)))
    first, again = (run(pattern, events, (None, None))[1:] for _ in range(2))
    assert first == again


@pytest.mark.parametrize("text", PLAIN[:2])
def test_values_or_slices_that_do_not_fit_the_layout_are_compiled(text: str) -> None:
    pattern = pattern_of(text)
    assert not isinstance(run(pattern, prepare(pattern, events_table(stream(1))), (None, None))[0], LaidOutLevels)
    large = [row | {"x": row["x"] + 2**60} for row in stream(2)]
    for other in (large, stream(3, span=5)):
        table = events_table(other)
        assert not isinstance(run(pattern, prepare(pattern, table), (None, None))[0], LaidOutLevels)
        assert found(pattern, prepare(pattern, table)) == expected(pattern, table)
    table = events_table(stream(4))
    assert isinstance(run(pattern, prepare(pattern, table), (None, None))[0], LaidOutLevels)
    assert found(pattern, prepare(pattern, table)) == expected(pattern, table)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(statements(FIRST_SLICE), st.lists(rows(max_size=14), min_size=2, max_size=3), st.booleans())
def test_stream_after_stream_gives_the_answer_of_the_oracle(
    statement: Statement, streams: list[list[dict[str, Any]]], forgetful: bool
) -> None:
    pattern = pattern_of(statement.text, statement.params)
    for of_stream in streams:
        table = events_table(of_stream)
        events = prepare(pattern, table)
        events._most_bytes = 1 if forgetful else events._most_bytes  # no derived array outlives the next one
        assert found(pattern, events) == expected(pattern, table)
        points = [None, *boundaries_of(events)[:: max(len(events) // 3, 1)], None]
        parts = [match for owned in pairwise(points) for match in found(pattern, events, None, owned)]
        assert sorted(parts) == expected(pattern, table)


def test_blocks_that_somebody_keeps_are_not_written_again() -> None:
    pattern = pattern_of("PATTERN SEQ(A a, B b) WITHIN 20 us")
    events = prepare(pattern, events_table(stream(5)))
    [of_pattern] = pattern.clauses
    kept = []
    for size in (7, 40, 1 << 16):
        for order in (["a", "b"], ["b", "a"]):
            blocks = [block.rows for block in run_clause(pattern, of_pattern, order, events, block_rows=size)]
            kept.append((blocks, [block.copy() for block in blocks]))
    assert sum(len(blocks) for blocks, _ in kept) > 20
    for blocks, copies in kept:
        for block, copy in zip(blocks, copies, strict=True):
            assert np.array_equal(block, copy)
    wholes = [sorted(map(tuple, np.hstack(blocks).T.tolist())) for blocks, _ in kept]
    assert all(whole == wholes[0] for whole in wholes)
