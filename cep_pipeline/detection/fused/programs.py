"""Shapes as words: the argument words of generated code, and programs that one compiled function interprets.

Arguments are an array of 64-bit words, mostly addresses. A program is int64 words from which `any_shape_kernel` runs
any shape. Code of its own makes a shape two to three times as fast, but takes longer to make than most patterns of a
large workload run: `kernel` says which shapes get it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cep_pipeline.detection.fused.shape import (
    REJECTING,
    Constant,
    Operation,
    RangeResult,
    Rejecting,
    Shape,
    Slot,
    Term,
    Test,
    slots_of,
)
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Comparator

# Places of the argument words before the arrays.
STATE, COUNTERS, CAPACITY, BUDGET, OUTER, SCRATCH, SCRATCH_STRIDE, FIRST_OWNED, HEADER = range(9)

FINISHED, INSIDE, BETWEEN = 0, 1, 2
"""First word of the state: nothing left (or not begun: then all state is 0), stopped inside, stopped between two
iterations of the outermost loop."""


def argument_places(shape: Shape) -> dict[str, int]:
    """First word of each group of arrays among the argument words, and `end`, their number.

    `rows`, `out` and `prefix` have one array a level; `low` and `high` one for each bound, in the order of the levels;
    then the columns and the constants.
    """
    levels = len(shape.levels)
    lows = sum(len(level.lows) for level in shape.levels)
    highs = sum(len(level.highs) for level in shape.levels)
    places = {}
    place = HEADER
    for name, size in (
        ("rows", levels),
        ("out", levels),
        ("prefix", levels),
        ("low", lows),
        ("high", highs),
        ("column", shape.slots),
        ("constant", shape.constants),
    ):
        places[name] = place
        place += size
    places["end"] = place
    return places


# Places of a program's words before those of its levels.
(
    LEVELS,
    PREFIX,
    AS_ROWS,
    OWNED,
    SEARCH,
    ROWS_PLACE,
    OUT_PLACE,
    PREFIX_PLACE,
    VALUES,
    STACK,
    SLOTS,
    CONSTANTS,
    FIRST_LEVEL,
) = range(13)

LT, LE, GT, GE, EQ, NE = range(6)
COMPARATORS = {
    Comparator.LT: LT,
    Comparator.LE: LE,
    Comparator.GT: GT,
    Comparator.GE: GE,
    Comparator.EQ: EQ,
    Comparator.NE: NE,
}
_TURNED = {LT: GT, LE: GE, GT: LT, GE: LE, EQ: EQ, NE: NE}

COLUMN, CONSTANT, NEGATIVE, ABSOLUTE, ROOT, PLUS, MINUS, TIMES, DIVIDE = range(9)
"""Codes of a term's words. An operation has three words: its code and up to two operands."""
OPERATIONS = {"negative": NEGATIVE, "abs": ABSOLUTE, "sqrt": ROOT, "+": PLUS, "-": MINUS, "*": TIMES, "/": DIVIDE}
TERM_WORDS, LEVEL_WORDS, SIMPLE_WORDS = 3, 4, 6
HASH_FACTOR = 0x9E3779B97F4A7C15
"""The hash of a value: its bits as an integer times this, modulo 2^64; -0.0 has that of 0.0."""

NO_TESTS = 3
"""Words of the tests of a level that has none: their three numbers."""
NO_SEARCH, FIND_FIRST, FIND_LAST, COUNT_SIZES = range(4)
_SEARCHES = {
    None: NO_SEARCH,
    RangeResult.FIRST: FIND_FIRST,
    RangeResult.LAST: FIND_LAST,
    RangeResult.SIZES: COUNT_SIZES,
}
_SEARCHES |= {search: number for number, search in enumerate(RangeResult, start=10) if search not in _SEARCHES}


@dataclass(frozen=True, eq=False)
class ShapeProgram:
    """A shape to be interpreted.

    Attributes
    ----------
    words
        int64. From `FIRST_LEVEL` on there are for each level `LEVEL_WORDS`: where the words of its lower bounds begin,
        of its upper bounds, and of its tests, and whether it has some. Bounds: how many, for each the place of its
        address among the arguments and the earlier level. Tests: how many are simple, for each `SIMPLE_WORDS`, the
        comparator, the place of the column of this level, the place of the other side's column and its level or -1
        twice, and where the words of the other side begin and end; then the number of other conjuncts, for each the
        number of alternatives, for each of these the number of tests, for each of these the comparator and both sides;
        then the number of negations, for each of them how many words follow, the place of the stride, of the column of
        sorted places or 0, the lower and the upper bounds (how many, for each the place of its column and the level),
        and the tests, as above.
    frame_size
        How many int64s the function needs to work with.
    """

    words: Array
    frame_size: int

    @cached_property
    def name(self) -> bytes:
        """A text that tells the program from those of other shapes."""
        return self.words.tobytes()

    @property
    def runs(self) -> bool:
        """True if it can be interpreted: a search that counts lists has code of its own only."""
        return bool(self.words[SEARCH] <= COUNT_SIZES)


def program_of(shape: Shape) -> ShapeProgram:
    """The program of a shape: equal shapes, and no others, have equal words."""
    return _Writer(shape).program()


class _Writer:
    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._places = argument_places(shape)
        self.terms: list[int] = []
        self._deepest = 1

    def program(self) -> ShapeProgram:
        shape, places = self._shape, self._places
        levels = len(shape.levels)
        header = [0] * FIRST_LEVEL
        header[LEVELS], header[PREFIX] = levels, shape.prefix
        header[AS_ROWS], header[OWNED] = int(shape.as_rows), 0 if shape.owned_slot is None else 1 + shape.owned_slot
        header[SLOTS], header[CONSTANTS] = shape.slots, shape.constants
        header[SEARCH] = _SEARCHES[shape.search]
        header[ROWS_PLACE], header[OUT_PLACE], header[PREFIX_PLACE] = places["rows"], places["out"], places["prefix"]
        bodies: list[tuple[list[int], ...]] = []
        low, high = places["low"], places["high"]
        simple = 0
        # Terms stand before the levels: their places are known before the levels' are.
        first_term = FIRST_LEVEL + LEVEL_WORDS * levels
        for number, level in enumerate(shape.levels):
            lows, highs = [len(level.lows)], [len(level.highs)]
            for earlier in level.lows:
                lows += [low, earlier]
                low += 1
            for earlier in level.highs:
                highs += [high, earlier]
                high += 1
            simple_tests, others = [], []
            for conjunct in level.tests:
                turned = self._simple(conjunct[0][0], number) if len(conjunct) == len(conjunct[0]) == 1 else None
                if turned is not None:
                    simple_tests.append(turned)
                else:
                    others.append(conjunct)
            body = [len(simple_tests)]
            for comparator, column, other in simple_tests:
                beside = (places["column"] + other.slot, other.level) if isinstance(other, Slot) else (-1, -1)
                body += [comparator, places["column"] + column.slot, *beside, *self._term(other, first_term)]
            simple = max(simple, len(simple_tests))
            body.append(len(others))
            for conjunct in others:
                body.append(len(conjunct))
                for alternative in conjunct:
                    body.append(len(alternative))
                    for test in alternative:
                        body += self._test(test, first_term)
            body.append(len(level.rejecting))
            for negation in level.rejecting:
                body += self._rejecting(negation, first_term)
            bodies.append((lows, highs, body))
        table: list[int] = []
        at = first_term + len(self.terms)
        for parts in bodies:
            for part in parts:
                table.append(at)
                at += len(part)
            table.append(int(len(parts[-1]) > NO_TESTS))
        header[VALUES] = 3 * levels + 1  # behind the place of what is extreme among events that may reject
        header[STACK] = header[VALUES] + simple
        words = [*header, *table, *self.terms, *(word for parts in bodies for part in parts for word in part)]
        return ShapeProgram(np.array(words, np.int64), header[STACK] + self._deepest + 1)

    @staticmethod
    def _simple(test: Test, level: int) -> tuple[int, Slot, Term] | None:
        """The test with a column of the level on its left and something that earlier levels decide on its right."""
        comparator = COMPARATORS[test.comparator]
        for code, one, other in (
            (comparator, test.left, test.right),
            (_TURNED[comparator], test.right, test.left),
        ):
            if isinstance(one, Slot) and one.level == level and all(slot.level < level for slot in slots_of(other)):
                return code, one, other
        return None

    def _test(self, test: Test, first: int) -> list[int]:
        return [COMPARATORS[test.comparator], *self._term(test.left, first), *self._term(test.right, first)]

    def _rejecting(self, negation: Rejecting, first: int) -> list[int]:
        columns = (
            0 if slot is None else self._places["column"] + slot.slot
            for slot in (negation.places, negation.buckets, negation.rows)
        )
        words = [self._places["constant"] + negation.stride.index, *columns]
        for ends in (negation.lows, negation.highs, negation.since, negation.until):
            words.append(len(ends))
            words += [word for end in ends for word in (self._places["column"] + end.slot, end.level)]
        words.append(len(negation.tests))
        words += [word for test in negation.tests for word in self._test(test, first)]
        return [len(words), *words]

    def _term(self, term: Term, first: int) -> tuple[int, int]:
        """The places where the words of a term begin and end in the program."""
        start = first + len(self.terms)
        self._deepest = max(self._deepest, self.write(term))
        return start, first + len(self.terms)

    def write(self, term: Term) -> int:
        """Write a term in postfix; how deep the stack gets."""
        match term:
            case Slot(level, slot):
                at = 3 * len(self._shape.levels) if level == REJECTING else level
                self.terms += [COLUMN, self._places["column"] + slot, at]
                return 1
            case Constant(index):
                self.terms += [CONSTANT, self._places["constant"] + index, 0]
                return 1
            case Operation(operator, operands):
                depths = [below + self.write(operand) for below, operand in enumerate(operands)]
                self.terms += [OPERATIONS[operator], 0, 0]
                return max(depths)
