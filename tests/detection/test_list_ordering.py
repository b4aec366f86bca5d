"""The order of matches with lists equals sorting the page's keys literally."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.detection.ordering import OrderedLists, in_order, order_matches
from cep_pipeline.slices.blocks import Block, ListBlock
from tests.detection.matching import block_of, clause_of
from tests.thoroughness import examples

Match = tuple[tuple[str, int, int], ...]
"""(variable, its position, row) for each binding."""
CLAUSES = [
    clause_of([("a", 0), ("b", 1)], 0),
    clause_of([("a", 0), ("c", 3)], 1),
    clause_of([("b", 1), ("c", 3)], 2),
    clause_of([("c", 3)], 3),
]


@st.composite
def list_blocks(draw: st.DrawFn) -> tuple[list[ListBlock], list[Match]]:
    """Blocks of some clauses, and the matches in them; a clause finds a match once."""
    blocks, matches = [], []
    for clause in draw(st.lists(st.sampled_from(CLAUSES), min_size=1, max_size=3, unique_by=lambda c: c.index)):
        elements = st.lists(st.integers(0, 6), min_size=1, max_size=3, unique=True).map(sorted).map(tuple)
        found = draw(st.lists(st.tuples(*[elements] * len(clause.positive)), max_size=12, unique=True))
        offsets, rows, variables = [0], [], []
        for match in found:
            for index, row in ((index, row) for index, rows_of in enumerate(match) for row in rows_of):
                rows.append(row)
                variables.append(index)
            offsets.append(len(rows))
            names = clause.positive
            matches.append(
                tuple((v.name, v.position, row) for v, rows_of in zip(names, match, strict=True) for row in rows_of)
            )
        arrays = np.array(offsets, np.int64), np.array(rows, np.int32), np.array(variables, np.int32)
        blocks.append(ListBlock(clause, *arrays))
    return blocks, matches


def as_matches(ordered: OrderedLists, positions: dict[str, int]) -> list[Match]:
    offsets, rows, variables = ordered.elements()
    spelled = [ordered.names[variable] for variable in variables]
    return [
        tuple((spelled[i], positions[spelled[i]], int(rows[i])) for i in range(first, stop))
        for first, stop in pairwise(offsets)
    ]


@settings(max_examples=examples(300), deadline=None)
@given(drawn=list_blocks(), backwards=st.booleans())
def test_order_is_the_pages(drawn: Any, backwards: bool) -> None:
    blocks, matches = drawn
    seqs = np.arange(7, dtype=np.int64)[:: -1 if backwards else 1] + 5
    literal = sorted(
        set(matches),
        key=lambda m: (max(row for *_, row in m), [seqs[row] for *_, row in m], [place for _, place, _ in m]),
    )
    ordered = order_matches(blocks, seqs)
    assert isinstance(ordered, OrderedLists)
    assert as_matches(ordered, {"a": 0, "b": 1, "c": 3}) == literal
    assert ordered.first_rows().tolist() == [min(row for *_, row in match) for match in literal]
    assert ordered.last_rows().tolist() == [max(row for *_, row in match) for match in literal]
    assert in_order(ordered, seqs) is ordered  # what is in order is not copied
    twice = OrderedLists(
        ordered.names,
        np.concatenate((ordered.offsets, ordered.offsets[1:] + ordered.offsets[-1])),
        np.tile(ordered.bound_rows, 2),
        np.tile(ordered.variables, 2),
    )
    assert as_matches(in_order(twice, seqs), {"a": 0, "b": 1, "c": 3}) == literal
    cut = len(ordered) // 2
    parts = [ordered.between(0, cut), ordered.between(cut, len(ordered))]
    assert [m for part in parts for m in as_matches(part, {"a": 0, "b": 1, "c": 3})] == literal
    for name in ordered.names:
        spans = zip(*ordered.spans_of(name), literal, strict=True)
        for start, length, match in spans:
            assert ordered.bound_rows[start : start + length].tolist() == [row for v, _, row in match if v == name]


@pytest.mark.parametrize("ends", [1, 3, 40])
def test_many_matches_that_end_with_the_same_event(ends: int) -> None:
    """Lists that begin alike, in runs that are in order already and in others; equal ones are taken once."""
    rng = np.random.default_rng(ends)
    lists = [
        sorted({*rng.integers(0, 9, rng.integers(1, 7)).tolist(), 10 + end}) for end in range(ends) for _ in "a" * 300
    ]
    lists = sorted(lists[:150]) + [lists[at] for at in rng.permutation(len(lists))]
    offsets = np.cumsum([0, *map(len, lists)])
    rows = np.array([row for match in lists for row in match], np.int32)
    for seqs in (np.arange(100), np.arange(100)[::-1].copy()):
        found = order_matches([ListBlock(CLAUSES[3], offsets, rows, np.zeros(len(rows), np.int32))], seqs)
        assert isinstance(found, OrderedLists)
        ordered = [found.bound_rows[begin:end].tolist() for begin, end in pairwise(found.offsets)]
        assert ordered == sorted(
            map(list, {tuple(match) for match in lists}), key=lambda match: (match[-1], [seqs[row] for row in match])
        )


def test_fixed_and_variable_width_are_ordered_together() -> None:
    listed = ListBlock(CLAUSES[0], np.array([0, 3]), np.array([1, 2, 3], np.int32), np.array([0, 1, 1], np.int32))
    blocks: list[Block] = [listed, block_of(CLAUSES[1], [[1, 2], [1, 3], [0, 4]])]
    ordered = order_matches(blocks, np.arange(5))
    assert isinstance(ordered, OrderedLists)
    positions = {"a": 0, "b": 1, "c": 3}
    assert [[row for *_, row in match] for match in as_matches(ordered, positions)] == [
        [1, 2], [1, 2, 3], [1, 3], [0, 4]
    ]  # fmt: skip


def test_a_block_whose_arrays_do_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="offsets up to its 2 rows"):
        ListBlock(CLAUSES[0], np.array([0, 3]), np.zeros(2, np.int32), np.zeros(2, np.int32))
