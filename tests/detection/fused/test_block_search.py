"""Searches of ranges, by reading and by blocks, find what a plain reading of each range finds."""

from __future__ import annotations

from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.detection.fused import reduction
from cep_pipeline.detection.fused.kernel import Arguments, search_places
from cep_pipeline.detection.fused.programs import (
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
from cep_pipeline.detection.fused.reduction import BlockSearch
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
    """Up to three conjuncts, mostly one comparison, which blocks may decide."""
    tests = st.builds(Test, st.sampled_from(Comparator), terms(levels), terms(levels)).filter(
        lambda test: slots_of(test.left) | slots_of(test.right)
    )
    alternatives = st.lists(tests, min_size=1, max_size=2).map(tuple)
    several = st.lists(st.lists(alternatives, min_size=1, max_size=2).map(tuple), max_size=3).map(tuple)
    return st.one_of(several, *[tests.map(lambda test: (((test,),),))] * 3)


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
            owned=False,
            as_rows=False,
            search=search,
        )


@st.composite
def searches(draw_from: st.DrawFn) -> Drawn:
    prefix = draw_from(st.integers(1, 3))
    tests = draw_from(conjuncts(prefix + 1))
    seed = draw_from(st.integers(0, 2**32 - 1))
    few_values, rows = draw_from(st.booleans()), draw_from(st.integers(1, 120))
    draw = np.random.default_rng(seed)
    sizes = (*draw.integers(1, 30, prefix), int(draw_from(st.sampled_from([1, 15, 16, 17, 64, 65, 90, 300]))))
    columns = []
    for size in sizes:
        for _ in range(SLOTS_A_LEVEL):
            values = draw.choice(NUMBERS, size) if few_values else draw.normal(size=size)
            columns.append(np.append(values, np.zeros(32)))
    some = st.sets(st.integers(0, prefix - 1), min_size=1).map(sorted).map(tuple)
    bounds = draw_from(st.tuples(some, some))
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


@settings(max_examples=examples(400), deadline=None)
@given(searches())
def test_a_search_finds_what_a_plain_reading_finds(drawn: Drawn) -> None:
    for search, end in ((RangeResult.FIRST, 0), (RangeResult.LAST, -1)):
        found = search_places(drawn.shape(search), drawn.arguments, drawn.table)
        assert found.tolist() == [int(events[end]) if len(events) else -1 for events in drawn.expected]


@settings(max_examples=examples(400), deadline=None)
@given(searches().filter(lambda drawn: len(drawn.tests) == 1), st.sampled_from([1, 7, 1 << 17]))
def test_blocks_find_what_a_plain_reading_finds(drawn: Drawn, at_once: int) -> None:
    found = BlockSearch.of(drawn.tests[0], drawn.arguments)
    if found is not None:
        with patch.object(reduction, "ROWS_AT_ONCE", at_once):
            assert found.any(drawn.table).tolist() == [len(events) > 0 for events in drawn.expected]


def test_one_comparison_is_decided_by_blocks() -> None:
    columns = tuple(np.append(np.arange(size, dtype=np.float64), np.zeros(32)) for size in (3, 50))
    rows = (np.arange(3, dtype=np.int32), np.arange(50, dtype=np.int32))
    ends = {(1, 0): np.zeros(3, np.int32)}, {(1, 0): np.full(3, 50, np.int32)}
    arguments = Arguments((3, 50), rows, *ends, columns, ())
    double = Operation("+", (Slot(0, 0), Slot(0, 0)))
    for comparator in (one for one in Comparator if one is not Comparator.EQ):
        assert BlockSearch.of(((Test(comparator, Slot(1, 1), double),),), arguments) is not None
    for conjunct in (((Test(Comparator.EQ, Slot(1, 1), double),),), ((Test(Comparator.LT, Slot(1, 1), double),) * 2,)):
        assert BlockSearch.of(conjunct, arguments) is None
