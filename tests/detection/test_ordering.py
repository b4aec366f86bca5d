"""The order of matches equals sorting the page's keys literally."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.detection.ordering import OrderedLists, OrderedMatches, order_matches
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.slices.blocks import MatchBlock
from tests.detection.matching import block_of, clause_of
from tests.thoroughness import examples

Match = tuple[tuple[str, int, int], ...]
"""(variable, its position, row) for each binding."""


def literal_order(blocks: list[MatchBlock], seqs: np.ndarray) -> list[Match]:
    """Distinct matches by last event, list of seqs, list of positions (docs/language.md, section 5)."""
    found = {
        tuple((v.name, v.position, int(row)) for v, row in zip(block.clause.positive, match, strict=True))
        for block in blocks
        for match in block.rows.T
    }
    return sorted(
        found, key=lambda m: (max(row for *_, row in m), [seqs[row] for *_, row in m], [place for _, place, _ in m])
    )


POSITIONS = {"a": 0, "b": 1, "c": 2, "d": 4, "e": 5}


def as_matches(ordered: OrderedMatches | OrderedLists, positions: dict[str, int] = POSITIONS) -> list[Match]:
    offsets, rows, variables = ordered.elements()
    names = ordered.names
    return [
        tuple((names[variables[i]], positions[names[variables[i]]], int(rows[i])) for i in range(first, stop))
        for first, stop in pairwise(offsets)
    ]


@st.composite
def some_blocks(draw: st.DrawFn) -> tuple[list[MatchBlock], np.ndarray]:
    """Blocks of one to three clauses, some over the same variables, and seqs that mostly grow with the rows."""
    stretch = draw(st.sampled_from([1, 1, 1 << 9, 1 << 20]))
    width = draw(st.sampled_from([1, 2, 3, 5]))
    names = list(POSITIONS.items())
    clauses: list[Clause] = []
    for index in range(draw(st.integers(1, 3))):
        size = width if not index else draw(st.integers(1, 3))
        chosen = sorted(draw(st.sets(st.sampled_from(names), min_size=size, max_size=size)), key=lambda v: v[1])
        clauses.append(clause_of(chosen, index))
    events = 12
    blocks = []
    for clause in clauses:
        row = st.integers(0, events - 1)
        matches = st.lists(
            st.lists(row, min_size=len(clause.positive), max_size=len(clause.positive), unique=True),
            max_size=12,
            unique_by=tuple,
        )
        drawn = draw(matches)
        if drawn:
            scaled = [[row * stretch for row in match] for match in drawn]
            half = draw(st.integers(0, len(drawn)))
            blocks += [block_of(clause, part) for part in (scaled[:half], scaled[half:]) if part]
    seqs = np.arange(events * stretch, dtype=np.int64) + 5
    if draw(st.booleans()):
        seqs = seqs[::-1].copy()
    return blocks, seqs


@settings(max_examples=examples(300), deadline=None)
@given(some_blocks())
def test_order_is_the_pages(drawn: Any) -> None:
    blocks, seqs = drawn
    if not blocks:
        return
    growing = bool((np.diff(seqs) > 0).all())
    for known in (None, growing):
        assert as_matches(order_matches(blocks, seqs, growing=known)) == literal_order(blocks, seqs)


def test_long_matches_that_reach_back_far_are_ordered_too() -> None:
    """Seven variables over a window of 2^20 rows: more than one 64-bit integer holds."""
    rng = np.random.default_rng(1)
    clause = clause_of([(name, place) for place, name in enumerate("abcdefg")])
    near = rng.integers(0, 3, (7, 4000))  # many matches with the same beginning
    rows = np.unique((near * 500_000 + np.arange(7)[:, None]).astype(np.int32), axis=1)
    blocks = [MatchBlock(clause, np.ascontiguousarray(rows[:, rng.permutation(rows.shape[1])]))]
    seqs = np.arange(1_500_000, dtype=np.int64)
    assert as_matches(
        order_matches(blocks, seqs), {name: place for place, name in enumerate("abcdefg")}
    ) == literal_order(blocks, seqs)


@pytest.mark.parametrize("given", ["by last event", "in order but for the end", "in order", "in any order"])
def test_many_matches_are_ordered_some_thousand_at_a_time(given: str) -> None:
    """Of one event end ten thousand, more than are sorted together; of the others some each."""
    rng = np.random.default_rng(5)
    pairs = np.array([(a, b) for a in range(100) for b in range(100)], np.int32).T
    ends = [np.vstack([pairs, np.full(10_000, 150)])]
    for last in range(200, 900):
        some = rng.permutation(10_000)[: rng.integers(1, 60)]
        ends.append(np.vstack([pairs[:, np.sort(some)] + last - 190, np.full(len(some), last)]))
    if given == "by last event":
        ends = [rng.permutation(matches, axis=1) for matches in ends]
    if given == "in order but for the end":
        ends[-1] = ends[-1][:, ::-1]
    rows = np.ascontiguousarray(np.concatenate(ends, axis=1), np.int32)
    if given == "in any order":
        rows = np.ascontiguousarray(rng.permutation(rows, axis=1))
    clause = clause_of([("a", 0), ("b", 1), ("c", 2)])
    ordered = order_matches([MatchBlock(clause, rows)], np.arange(900))
    assert isinstance(ordered, OrderedMatches)
    assert (ordered.rows is rows) == (given == "in order")
    assert (ordered.rows == rows[:, np.lexsort((rows[1], rows[0], rows[2]))]).all()


def test_equal_bindings_of_two_clauses_are_one_match() -> None:
    one, other = clause_of([("a", 0), ("b", 1)], 0), clause_of([("a", 0), ("b", 1)], 1)
    ordered = order_matches([block_of(one, [[0, 1], [0, 2]]), block_of(other, [[0, 2], [1, 2]])], np.arange(3))
    assert isinstance(ordered, OrderedMatches)
    assert ordered.rows.T.tolist() == [[0, 1], [0, 2], [1, 2]]


def test_a_variable_of_another_branch_is_not_bound() -> None:
    left, right = clause_of([("a", 0)], 0), clause_of([("b", 1), ("c", 2)], 1)
    ordered = order_matches([block_of(left, [[3], [1]]), block_of(right, [[0, 2]])], np.arange(4))
    assert isinstance(ordered, OrderedLists)
    starts, lengths = ordered.spans_of("c")
    assert lengths.tolist() == [0, 1, 0]
    assert ordered.bound_rows[starts[1]] == 2
    assert ordered.first_rows().tolist() == [1, 0, 3]
    assert ordered.last_rows().tolist() == [1, 2, 3]
    assert as_matches(ordered.between(1, 2)) == [(("b", 1, 0), ("c", 2, 2))]
