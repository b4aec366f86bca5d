"""Searches of many ranges together find what a plain reading of each range finds."""

from __future__ import annotations

from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.detection.fused import grouped_search
from cep_pipeline.detection.fused.grouped_search import GroupedSearch, SweptSearch, is_swept
from cep_pipeline.detection.fused.kernel import Arguments
from cep_pipeline.detection.fused.shape import (
    Constant,
    Level,
    Operation,
    RangeResult,
    Shape,
    Slot,
    Term,
    Test,
    TestedConjunct,
    slots_of,
)
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Comparator
from tests.thoroughness import examples

NUMBERS = [-np.inf, -1e308, -2.0, -1.0, -0.0, 0.0, 5e-324, 1.0, 1.0 + 2**-52, 2.0, 3.0, 1e200, 1e308, np.inf, np.nan]
SLOTS_A_LEVEL = 2
CONSTANTS = (0.0, -1.5, 1e-300, np.nan)

_OPERATIONS = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": lambda left, right: np.where(right == 0.0, np.nan, np.divide(left, right)),
    "negative": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
}
_COMPARE = {
    Comparator.LT: np.less,
    Comparator.LE: np.less_equal,
    Comparator.GT: np.greater,
    Comparator.GE: np.greater_equal,
    Comparator.EQ: np.equal,
    Comparator.NE: lambda left, right: np.less(left, right) | np.greater(left, right),
}


def terms(levels: int) -> st.SearchStrategy[Term]:
    """Terms over the columns of some levels, mostly small ones."""
    slots = [Slot(level, SLOTS_A_LEVEL * level + slot) for level in range(levels) for slot in range(SLOTS_A_LEVEL)]
    leaves: st.SearchStrategy[Term] = st.one_of(
        *[st.sampled_from(slots)] * 3, st.builds(Constant, st.integers(0, len(CONSTANTS) - 1))
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(lambda of, one, other: Operation(of, (one, other)), st.sampled_from("+-*/"), inner, inner),
            st.builds(lambda of, one: Operation(of, (one,)), st.sampled_from(["negative", "abs", "sqrt"]), inner),
        ),
        max_leaves=4,
    )


def conjuncts(levels: int) -> st.SearchStrategy[tuple[TestedConjunct, ...]]:
    tests = st.builds(Test, st.sampled_from(Comparator), terms(levels), terms(levels)).filter(
        lambda test: slots_of(test.left) | slots_of(test.right)
    )
    alternatives = st.lists(tests, min_size=1, max_size=2).map(tuple)
    return st.lists(st.lists(alternatives, min_size=1, max_size=2).map(tuple), max_size=3).map(tuple)


def computed(term: Term, columns: list[Array], places: list[Array | int]) -> Array:
    match term:
        case Slot(level, slot):
            return np.asarray(columns[slot][places[level]])
        case Constant(index):
            return np.asarray(CONSTANTS[index])
        case Operation(operator, operands):
            with np.errstate(all="ignore"):
                return np.asarray(_OPERATIONS[operator](*(computed(one, columns, places) for one in operands)))


def places_that_pass(tests: tuple[TestedConjunct, ...], columns: list[Array], places: list[Array | int]) -> Array:
    own = places[-1]
    assert isinstance(own, np.ndarray)
    passed = np.ones(len(own), np.bool_)
    for conjunct in tests:
        held = np.zeros(len(own), np.bool_)
        for alternative in conjunct:
            together = np.ones(len(own), np.bool_)
            for test in alternative:
                left, right = (computed(side, columns, places) for side in (test.left, test.right))
                together &= _COMPARE[test.comparator](left, right)
            held |= together
        passed &= held
    return own[passed]


@dataclass
class Drawn:
    """A search, the rows of its prefix, and the places that pass for each of them."""

    tests: tuple[TestedConjunct, ...]
    bounds: tuple[tuple[int, ...], tuple[int, ...]]
    arguments: Arguments
    table: Array
    expected: list[Array]

    def shape(self, search: RangeResult) -> Shape:
        prefix = len(self.table)
        return Shape(
            levels=(*[Level()] * prefix, Level(*self.bounds, self.tests)),
            prefix=prefix,
            slots=len(self.arguments.columns),
            constants=len(CONSTANTS),
            owned_slot=None,
            as_rows=False,
            search=search,
        )


@st.composite
def searches(draw_from: st.DrawFn, *, swept: bool) -> Drawn:
    """Any searches, or such that may be swept: one end depends on the last level, and so does at most one test."""
    prefix = draw_from(st.integers(2 if swept else 1, 3))
    tests = draw_from(conjuncts(prefix + 1))
    seed = draw_from(st.integers(0, 2**32 - 1))
    few_values, rows = draw_from(st.booleans()), draw_from(st.integers(1, 300 if swept else 120))
    draw = np.random.default_rng(seed)
    sizes = (*draw.integers(1, 30, prefix), int(draw_from(st.sampled_from([1, 15, 16, 17, 64, 65, 90, 300]))))
    columns = []
    for size in sizes:
        for _ in range(SLOTS_A_LEVEL):
            values = draw.choice(NUMBERS, size) if few_values else draw.normal(size=size)
            columns.append(np.append(values, np.zeros(32)))
    some = st.sets(st.integers(0, prefix - 1), min_size=1).map(sorted).map(tuple)
    bounds = draw_from(st.tuples(some, some))
    if swept:
        others = st.sets(st.integers(0, prefix - 2), min_size=1).map(sorted).map(tuple)
        bounds = draw_from(st.one_of(st.tuples(some, others), st.tuples(others, some)))
        kept = [test for test in tests if all(slot.level != prefix - 1 for slot in slots_in(test))]
        size = st.sampled_from([one for one in Comparator if one not in (Comparator.EQ, Comparator.NE)])
        own, of_match = (
            terms(prefix + 1).filter(lambda term, which=which: levels_of(term, prefix) in which)  # type: ignore[misc]
            for which in ([{"own"}, {"own", "other"}], [{"last"}, {"last", "other"}])
        )
        moving = draw_from(st.lists(st.builds(Test, size, own, of_match), max_size=1))
        if draw_from(st.booleans()):
            moving = [Test(test.comparator.mirror, test.right, test.left) for test in moving]
        tests = (*kept, *(((test,),) for test in moving))
    ends = [
        {(prefix, of): np.sort(draw.integers(0, sizes[-1] + 1, sizes[of])).astype(np.int32) for of in side}
        for side in bounds
    ]
    if draw_from(st.booleans()):
        for (_, of), low in ends[0].items():
            if (prefix, of) in ends[1]:
                ends[1][prefix, of] = np.minimum(low + draw.integers(0, 40, len(low)), sizes[-1]).astype(np.int32)
    arguments = Arguments(
        sizes=tuple(map(int, sizes)),
        rows=tuple(np.arange(size, dtype=np.int32) for size in sizes),
        lows=ends[0],
        highs=ends[1],
        columns=tuple(columns),
        constants=CONSTANTS,
    )
    table = np.array([draw.integers(0, size, rows) for size in sizes[:-1]], np.int32)
    if draw_from(st.booleans()):
        table = table[:, np.lexsort(table[::-1])]
    expected = []
    for row in range(rows):
        low = max(array[table[of, row]] for (_, of), array in ends[0].items())
        high = min(array[table[of, row]] for (_, of), array in ends[1].items())
        events = np.arange(low, max(low, high))
        expected.append(places_that_pass(tests, columns, [*map(int, table[:, row]), events]))
    return Drawn(tests, bounds, arguments, table, expected)


def slots_in(conjunct: TestedConjunct) -> set[Slot]:
    sides = [side for alternative in conjunct for test in alternative for side in (test.left, test.right)]
    return {slot for side in sides for slot in slots_of(side)}


def levels_of(term: Term, own: int) -> set[str]:
    """Which levels a term reads: the searched one, the last of the prefix, and others."""
    return {{own: "own", own - 1: "last"}.get(slot.level, "other") for slot in slots_of(term)}


@settings(max_examples=examples(400), deadline=None)
@given(searches(swept=False), st.data())
def test_groups_find_what_a_plain_reading_finds(drawn: Drawn, data: st.DataObject) -> None:
    table, expected = drawn.table, drawn.expected
    for search in (RangeResult.FIRST, RangeResult.LAST):
        with (
            patch.object(grouped_search, "MOST_GROUPED", data.draw(st.sampled_from([1, 20, 1 << 14]))),
            patch.object(grouped_search, "FEWEST_IN_SEGMENT", data.draw(st.sampled_from([1, 256]))),
        ):
            width = data.draw(st.sampled_from([1.0, 20.0, 300.0]))
            found = GroupedSearch(drawn.shape(search), drawn.arguments, width)
        end = 0 if search is RangeResult.FIRST else -1
        assert found.any(table).tolist() == [len(events) > 0 for events in expected]
        assert found.places(table).tolist() == [int(events[end]) if len(events) else -1 for events in expected]
        assert found.any(table).tolist() == [len(events) > 0 for events in expected]


@settings(max_examples=examples(300), deadline=None)
@given(searches(swept=True), st.sampled_from([1, 20, 1 << 14]))
def test_sweeping_finds_what_a_plain_reading_finds(drawn: Drawn, grouped: int) -> None:
    shape = drawn.shape(RangeResult.FIRST)
    assert is_swept(shape, drawn.arguments)
    with patch.object(grouped_search, "MOST_GROUPED", grouped):
        found = SweptSearch(shape, drawn.arguments)
    for _ in range(2):
        assert found.any(drawn.table).tolist() == [len(events) > 0 for events in drawn.expected]
