"""The shape of a plan: all that a program depends on. Windows, constants and data are its arguments.

Levels are numbered in plan order from 0. Level l loops over a range of its column view; what it compares are float64
columns ("slots"), and numbers or ranks that stand for other values (`columns.py` of this package makes them).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

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
    """A result that is found of the last level's range for each row of the prefix, in place of all matches.

    Attributes
    ----------
    FIRST, LAST
        The place of an event that passes the tests.
    SIZES
        How many events pass.
    LISTS, LISTS_FROM_FIRST
        How many lists those that pass make, where adjacent elements pass the tests of one more level, the element
        after. From the first: those that begin with the first event of the range, which passes.
    FOLLOWERS
        Not a number but a word of bits for each of at most 64 events, which ones may follow it in such a list.
    """

    FIRST = "first"
    LAST = "last"
    SIZES = "sizes"
    LISTS = "lists"
    LISTS_FROM_FIRST = "lists from first"
    FOLLOWERS = "followers"

    @property
    def levels(self) -> int:
        """The number of levels behind the prefix."""
        return 2 if self in (RangeResult.LISTS, RangeResult.LISTS_FROM_FIRST, RangeResult.FOLLOWERS) else 1


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
        None where all matches are enumerated. Otherwise what is found behind a prefix of all other levels,
        and writes for each row of the prefix: a place, or -1 where there is none, or a number.
    """

    levels: tuple[Level, ...]
    prefix: int
    slots: int
    constants: int
    owned: bool
    as_rows: bool
    search: RangeResult | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.prefix < len(self.levels):
            raise ValueError("a shape needs a level behind its prefix")
        if self.search is not None and self.prefix != len(self.levels) - self.search.levels:
            raise ValueError("a search is for events of one level, and those after them in a list")
        for number, level in enumerate(self.levels):
            in_list = self.search is not None and number > self.prefix
            if number >= self.prefix and not in_list and not (level.lows and level.highs):
                raise ValueError(f"level {number} has no bounds")
            if any(earlier >= number for earlier in (*level.lows, *level.highs)):
                raise ValueError(f"level {number} is bounded by a later one")


def slots_of(term: Term) -> frozenset[Slot]:
    """The slots that a term reads."""
    match term:
        case Slot():
            return frozenset((term,))
        case Operation(_, operands):
            return frozenset(slot for operand in operands for slot in slots_of(operand))
        case _:
            return frozenset()
