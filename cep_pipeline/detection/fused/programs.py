"""Shapes as words: programs that one compiled function, `join_kernel`, runs, and the words of its arguments.

Arguments are an array of 64-bit words, mostly addresses. A program is int64 words.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cep_pipeline.compiled.ir_text import WIDTH
from cep_pipeline.detection.fused.shape import (
    Constant,
    Operation,
    RangeResult,
    Shape,
    Slot,
    Term,
    Test,
    slots_of,
)
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Comparator

# Places of the argument words before the arrays.
COUNTERS, CAPACITY, BUDGET, OUTER, SCRATCH, FIRST_OWNED, HEADER = range(7)

FINISHED = -1
"""First word of the state: nothing is left. All state is 0 where nothing has begun."""
BATCH = 512
"""The most partial matches of a level that are extended together."""
ROOM = BATCH + 2 * WIDTH
"""Room for the places of a batch, int32s: those behind the last one may be written over."""


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
    STATE,
    OWNERS,
    BATCHES,
    BATCH_WORDS,
    STACK,
    DEPTH,
    FIRST_LEVEL,
) = range(15)

LT, LE, GT, GE, EQ, NE = range(6)
_COMPARATORS = {
    Comparator.LT: LT,
    Comparator.LE: LE,
    Comparator.GT: GT,
    Comparator.GE: GE,
    Comparator.EQ: EQ,
    Comparator.NE: NE,
}

COLUMN, CONSTANT, OWN, VALUE, TERM, NEGATIVE, ABSOLUTE, ROOT, PLUS, MINUS, TIMES, DIVIDE = range(12)
"""Codes of a term's words. An operation has three words: its code and up to two operands."""
_OPERATIONS = {"negative": NEGATIVE, "abs": ABSOLUTE, "sqrt": ROOT, "+": PLUS, "-": MINUS, "*": TIMES, "/": DIVIDE}
TERM_WORDS, LEVEL_WORDS, VALUE_WORDS, SIMPLE_WORDS, TEST_WORDS = 3, 3, 3, 3, 5

NO_SEARCH, FIND_FIRST, FIND_LAST, COUNT_SIZES, COUNT_LISTS, LISTS_FROM_FIRST, FIND_FOLLOWERS = range(7)
_SEARCHES = {search: number for number, search in enumerate((None, *RangeResult))}
MOST_FOLLOWERS = 64
"""Candidates whose followers are a word each."""
TOO_MANY = -1
"""The number that is written where there are more lists than the argument words allow."""


@dataclass(frozen=True, eq=False)
class ShapeProgram:
    """A shape to be run.

    Attributes
    ----------
    words
        int64. From `FIRST_LEVEL` on there are for each level `LEVEL_WORDS`: where the words of its lower bounds begin,
        of its upper bounds, and of its tests. Bounds: how many, for each the place of its
        address among the arguments and the earlier level. Tests: how many values earlier levels decide, for each
        `VALUE_WORDS`: `COLUMN`, the place of a column and its level, or `TERM` and where a term begins; then the number
        of conjuncts, for each the number of alternatives, for each of these the number of tests, for each of these
        `TEST_WORDS`: the comparator and both sides, `OWN` and the place of a column, `VALUE` and its number, or `TERM`
        and where it begins. A term has the number of its operations, for each `TERM_WORDS`.
    frame_size
        The number of int64s that the function needs to work with.
    """

    words: Array
    frame_size: int


def program_of(shape: Shape) -> ShapeProgram:
    """The program of a shape."""
    return _Writer(shape).program()


class _Writer:
    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._places = argument_places(shape)
        self._first_term = FIRST_LEVEL + LEVEL_WORDS * len(shape.levels)
        self._terms: list[int] = []  # they stand before the levels: their places are known before the levels' are
        self._values: dict[Term, int] = {}
        self._depth = 1

    def program(self) -> ShapeProgram:
        shape, places = self._shape, self._places
        bodies: list[tuple[list[int], ...]] = []
        low, high = places["low"], places["high"]
        most_values = 0
        for number, level in enumerate(shape.levels):
            lows, highs = [len(level.lows)], [len(level.highs)]
            for earlier in level.lows:
                lows += [low, earlier]
                low += 1
            for earlier in level.highs:
                highs += [high, earlier]
                high += 1
            self._values = {}
            simple: list[int] = []
            others: list[int] = []
            for conjunct in level.tests:
                test_words = self._simple(conjunct[0][0], number) if len(conjunct) == len(conjunct[0]) == 1 else None
                if test_words is None:
                    others.append(len(conjunct))
                    for alternative in conjunct:
                        others.append(len(alternative))
                        for test in alternative:
                            sides = (*self._side(test.left, number), *self._side(test.right, number))
                            others += [_COMPARATORS[test.comparator], *sides]
                else:
                    simple += test_words
            conjuncts = len(level.tests) - len(simple) // SIMPLE_WORDS
            most_values = max(most_values, len(self._values))
            values = [word for term in self._values for word in self._value(term)]
            tests = [len(self._values), *values, len(simple) // SIMPLE_WORDS, *simple, conjuncts, *others]
            bodies.append((lows, highs, tests))
        table: list[int] = []
        at = self._first_term + len(self._terms)
        for parts in bodies:
            for part in parts:
                table.append(at)
                at += len(part)
        header = [0] * FIRST_LEVEL
        header[LEVELS], header[PREFIX] = len(shape.levels), shape.prefix
        header[AS_ROWS], header[OWNED] = int(shape.as_rows), int(shape.owned)
        header[SEARCH] = _SEARCHES[shape.search]
        header[ROWS_PLACE], header[OUT_PLACE], header[PREFIX_PLACE] = places["rows"], places["out"], places["prefix"]
        levels = len(shape.levels)
        header[STATE] = levels  # behind the places bound
        header[OWNERS] = header[STATE] + 2 + 2 * levels
        header[BATCHES] = header[OWNERS] + ROOM // 2
        header[BATCH_WORDS] = (levels + 2) * ROOM // 2 + BATCH * most_values
        header[STACK] = header[BATCHES] + levels * header[BATCH_WORDS]
        header[DEPTH] = self._depth
        words = [*header, *table, *self._terms, *(word for parts in bodies for part in parts for word in part)]
        return ShapeProgram(np.array(words, np.int64), header[STACK] + 2 * WIDTH * self._depth)

    def _simple(self, test: Test, level: int) -> tuple[int, int, int] | None:
        """The words of a test of a column of the level and a value that earlier levels decide; None for others."""
        for comparator, own, other in (
            (test.comparator, test.left, test.right),
            (test.comparator.mirror, test.right, test.left),
        ):
            if isinstance(own, Slot) and own.level == level and all(slot.level < level for slot in slots_of(other)):
                return _COMPARATORS[comparator], self._places["column"] + own.slot, self._number(other)
        return None

    def _number(self, term: Term) -> int:
        """The number of a value that earlier levels decide."""
        return self._values.setdefault(term, len(self._values))

    def _side(self, term: Term, level: int) -> tuple[int, int]:
        if isinstance(term, Slot) and term.level == level:
            return OWN, self._places["column"] + term.slot
        return TERM, self._term(term, level)

    def _value(self, term: Term) -> tuple[int, int, int]:
        if isinstance(term, Slot):
            return COLUMN, self._places["column"] + term.slot, term.level
        return TERM, self._term(term), 0

    def _term(self, term: Term, level: int | None = None) -> int:
        """The place where a term begins; with a level, what earlier levels decide in it is values."""
        words: list[int] = []
        self._depth = max(self._depth, self._write(term, level, words))
        start = self._first_term + len(self._terms)
        self._terms += [len(words) // TERM_WORDS, *words]
        return start

    def _write(self, term: Term, level: int | None, words: list[int]) -> int:
        """Write a term in postfix; how deep the stack gets."""
        if level is not None and all(slot.level < level for slot in slots_of(term)):
            words += [VALUE, self._number(term), 0]
            return 1
        match term:
            case Slot(of, slot):
                column = self._places["column"] + slot
                words += [OWN, column, 0] if of == level else [COLUMN, column, of]
            case Constant(index):
                words += [CONSTANT, self._places["constant"] + index, 0]
            case Operation(operator, operands):
                depths = [below + self._write(operand, level, words) for below, operand in enumerate(operands)]
                words += [_OPERATIONS[operator], 0, 0]
                return max(depths)
        return 1
