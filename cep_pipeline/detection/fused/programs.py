"""The shape of a plan, and its program: the words that one compiled function, `join_kernel`, runs.

A shape is all that a program depends on. Windows, constants and data are its arguments: an array of 64-bit words,
mostly addresses. A program is int64 words.

Levels are numbered in plan order from 0. Level l loops over a range of its column view; what it compares are float64
columns ("slots"), and numbers or ranks that stand for other values.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import accumulate

import numpy as np

from cep_pipeline.compiled.native import WIDTH
from cep_pipeline.detection.conditions import codes
from cep_pipeline.detection.conditions.writer import COMPARATORS, OPERATIONS, REAL, operation
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Comparator


@dataclass(frozen=True, slots=True)
class Slot:
    """The value of the event at `level` in the float64 column `slot`; NaN is unknown."""

    level: int
    slot: int


@dataclass(frozen=True, slots=True)
class Constant:
    """The float64 argument number `index`."""

    index: int


@dataclass(frozen=True, slots=True)
class Operation:
    """`operator` applied to terms: `+ - * /` on two, `negative`, `abs` and `sqrt` on one."""

    operator: str
    operands: tuple[Term, ...]


Term = Slot | Constant | Operation


@dataclass(frozen=True, slots=True)
class Test:
    """`left comparator right`, false where one of them is NaN."""

    __test__ = False  # pytest: no test class

    comparator: Comparator
    left: Term
    right: Term


Alternative = tuple[Test, ...]
"""Tests that must hold together."""
TestedConjunct = tuple[Alternative, ...]
"""Holds where one of the alternatives does."""


@dataclass(frozen=True, slots=True)
class Level:
    """One level of the nested loops.

    Attributes
    ----------
    lows, highs
        The earlier levels whose events bound the range: it goes from the largest of their lower bounds to the
        smallest of their upper bounds. Each has at least one, but for the levels that a prefix binds.
    tests
        The conjuncts whose last variable in plan order is this level's.
    """

    lows: tuple[int, ...] = ()
    highs: tuple[int, ...] = ()
    tests: tuple[TestedConjunct, ...] = ()


class RangeResult(Enum):
    """The event of the last level's range that is found for each row of the prefix, in place of all matches."""

    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class Shape:
    """All of one plan but its data.

    Attributes
    ----------
    levels
        At least two.
    prefix
        How many levels are bound before the loops start: 1 is the outermost loop over level 0's view, more are rows of
        a table of partial matches.
    slots, constants
        Numbers of float64 columns and constants.
    owned
        Whether it is tested that some event of the match is in the owned rows; not where the views already say so.
    as_rows
        Whether the output are row numbers of the events (else places in the views).
    search
        None where all matches are enumerated. Otherwise which event is found behind a prefix of all other levels: for
        each row of the prefix its place, or -1 where there is none.
    """

    levels: tuple[Level, ...]
    prefix: int
    slots: int
    constants: int
    owned: bool
    as_rows: bool
    search: RangeResult | None = None


def slots_of(term: Term) -> frozenset[Slot]:
    """The slots that a term reads."""
    match term:
        case Slot():
            return frozenset((term,))
        case Operation(_, operands):
            return frozenset(slot for operand in operands for slot in slots_of(operand))
        case _:
            return frozenset()


# Places of the argument words before the arrays.
COUNTERS, CAPACITY, BUDGET, OUTER, FIRST_OWNED, HEADER = range(6)

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
    sizes = {
        "rows": levels,
        "out": levels,
        "prefix": levels,
        "low": sum(len(level.lows) for level in shape.levels),
        "high": sum(len(level.highs) for level in shape.levels),
        "column": shape.slots,
        "constant": shape.constants,
    }
    return dict(zip((*sizes, "end"), accumulate(sizes.values(), initial=HEADER), strict=True))


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
    FIRST_LEVEL,
) = range(14)

VALUE, OWN, TERM = -1, -2, -3
"""Codes beside those of `conditions.codes`: a value that earlier levels decide, by its number; a column of the level
that is tested; in the place of a column, where a term begins."""
LOWS, HIGHS, VALUES, TESTS, LEVEL_WORDS = range(5)
"""The words of a level: where its parts begin."""
VALUE_WORDS, SIMPLE_WORDS = 3, 3

NO_SEARCH, FIND_FIRST, FIND_LAST = range(3)
_SEARCHES = {search: number for number, search in enumerate((None, *RangeResult))}


@dataclass(frozen=True, eq=False)
class ShapeProgram:
    """A shape to be run.

    Attributes
    ----------
    words
        int64. From `FIRST_LEVEL` on there are `LEVEL_WORDS` for each level. Lower and upper bounds: how many, for each
        the place of its address among the arguments and the earlier level. Values that earlier levels decide: how many,
        for each `VALUE_WORDS`: `COLUMN`, the place of a column and its level, or `TERM` and where a term begins: where
        it ends, and its operations. Tests: how many compare a column of the level with a value, for each
        `SIMPLE_WORDS`: comparator, the place of the column, and the number of the value; then the number of other
        conjuncts, for each the number of alternatives and these, as the programs of `conditions` have them.
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
        self._words = [0] * (FIRST_LEVEL + LEVEL_WORDS * len(shape.levels))
        self._values: dict[Term, int] = {}
        self._deepest = 0

    def program(self) -> ShapeProgram:
        shape, places, words = self._shape, self._places, self._words
        levels, most_values = len(shape.levels), 0
        bounds = {LOWS: places["low"], HIGHS: places["high"]}
        for number, level in enumerate(shape.levels):
            table = FIRST_LEVEL + LEVEL_WORDS * number
            for part, earlier in ((LOWS, level.lows), (HIGHS, level.highs)):
                words[table + part] = len(words)
                words.append(len(earlier))
                for one in earlier:
                    words += [bounds[part], one]
                    bounds[part] += 1
            self._values = {}
            words[table + TESTS] = len(words)
            compared = {conjunct: self._simple(conjunct, number) for conjunct in level.tests}
            simple = [test for test in compared.values() if test is not None]
            others = [conjunct for conjunct, test in compared.items() if test is None]
            words += [len(simple), *(word for test in simple for word in test), len(others)]
            for conjunct in others:
                self._write_conjunct(conjunct, number)
            values = [word for term in self._values for word in self._value(term)]
            words[table + VALUES] = len(words)
            words += [len(self._values), *values]
            most_values = max(most_values, len(self._values))
        words[LEVELS], words[PREFIX] = levels, shape.prefix
        words[AS_ROWS], words[OWNED] = int(shape.as_rows), int(shape.owned)
        words[SEARCH] = _SEARCHES[shape.search]
        words[ROWS_PLACE], words[OUT_PLACE], words[PREFIX_PLACE] = places["rows"], places["out"], places["prefix"]
        words[STATE] = levels  # behind the places bound
        words[OWNERS] = words[STATE] + 2 + 2 * levels
        words[BATCHES] = words[OWNERS] + ROOM // 2
        words[BATCH_WORDS] = (levels + 2) * ROOM // 2 + BATCH * most_values
        words[STACK] = words[BATCHES] + levels * words[BATCH_WORDS]
        return ShapeProgram(np.array(words, np.int64), words[STACK] + WIDTH * (self._deepest + 1))

    def _simple(self, conjunct: TestedConjunct, level: int) -> tuple[int, int, int] | None:
        """The words of a test of a column of the level and a value that earlier levels decide; None for others."""
        if not len(conjunct) == len(conjunct[0]) == 1:
            return None
        test = conjunct[0][0]
        for comparator, own, other in (
            (test.comparator, test.left, test.right),
            (test.comparator.mirror, test.right, test.left),
        ):
            if isinstance(own, Slot) and own.level == level and all(slot.level < level for slot in slots_of(other)):
                return COMPARATORS[comparator], self._places["column"] + own.slot, self._number(other)
        return None

    def _write_conjunct(self, conjunct: TestedConjunct, level: int) -> None:
        words = self._words
        words.append(len(conjunct))
        for alternative in conjunct:
            head = len(words)
            words += [0, len(alternative)]
            for test in alternative:
                terms = self._term(test.left, level) + self._term(test.right, level)
                end = len(words) + codes.TEST_WORDS + len(terms)
                words += [codes.COMPARE_REALS, end, COMPARATORS[test.comparator], *terms]
            words[head] = len(words)

    def _number(self, term: Term) -> int:
        """The number of a value that earlier levels decide."""
        return self._values.setdefault(term, len(self._values))

    def _value(self, term: Term) -> tuple[int, int, int]:
        if isinstance(term, Slot):
            return codes.COLUMN, self._places["column"] + term.slot, term.level
        place, own = len(self._words), self._term(term)
        self._words += [place + 1 + len(own), *own]
        return TERM, place, 0

    def _term(self, term: Term, level: int | None = None) -> list[int]:
        """A term in postfix; with a level, what earlier levels decide in it is values."""
        self._deepest += 1  # no stack is deeper than there are operations
        if level is not None and all(slot.level < level for slot in slots_of(term)):
            return operation(VALUE, self._number(term))
        match term:
            case Slot(of, slot):
                column = self._places["column"] + slot
                return operation(OWN, column) if of == level else operation(codes.COLUMN, column, of)
            case Constant(index):
                return operation(codes.CONSTANT, self._places["constant"] + index)
            case Operation(operator, operands):
                words = [word for operand in operands for word in self._term(operand, level)]
                return words + operation(OPERATIONS[operator, REAL])
