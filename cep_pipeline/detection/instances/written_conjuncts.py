"""Conjuncts as they are written whatever the events: words with gaps for addresses, constants and places in the words.

That is so where conjuncts compare numbers of single events. Those over lists and strings are written for each slice:
what cells sum up, and the ranks of strings, is common to all that a kernel tests there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cep_pipeline.detection.instances.column_reads import ColumnRead
from cep_pipeline.detection.instances.event_columns import EventOf
from cep_pipeline.patterns.conditions import Conjunct, Membership, expressions_of
from cep_pipeline.patterns.expressions import Aggregate, Element, Length, Reference, ValueType, walk

_GAP = -(1 << 62)
"""Gaps are numbers that no code, slot or place is: this one and those above it."""
_NUMBERS = (ValueType.INT64, ValueType.FLOAT64)

Rows = tuple[int, int, EventOf, int, EventOf]
"""A comparison of two columns at two events: comparator, and column and event of both sides."""


@dataclass(frozen=True, eq=False)
class WrittenConjunct:
    """A conjunct of a clause.

    Attributes
    ----------
    words
        With gaps.
    places
        Where there are places in the words, that count from the conjunct's beginning.
    reads, wholes, reals
        Where there are addresses of columns, and the places of constants.
    rows
        If it is one comparison of two columns, with reads in place of their addresses.
    depth
        How many values on a stack it needs.
    """

    words: tuple[int, ...]
    places: tuple[int, ...]
    reads: tuple[tuple[int, ColumnRead], ...]
    wholes: tuple[tuple[int, int], ...]
    reals: tuple[tuple[int, float], ...]
    rows: tuple[int, ColumnRead, EventOf, ColumnRead, EventOf] | None
    depth: int


@dataclass
class Gaps:
    """What the gaps stand for, in the order in which they were made."""

    reads: dict[int, ColumnRead] = field(default_factory=dict)
    wholes: dict[int, int] = field(default_factory=dict)
    reals: dict[int, float] = field(default_factory=dict)

    def read(self, read: ColumnRead) -> int:
        """The gap for an address."""
        gap = self._next()
        self.reads[gap] = read
        return gap

    def whole(self, value: int) -> int:
        """The gap for the place of a constant."""
        gap = self._next()
        self.wholes[gap] = value
        return gap

    def real(self, value: float) -> int:
        """The gap for the place of a constant."""
        gap = self._next()
        self.reals[gap] = value
        return gap

    def written(self, words: list[int], places: list[int], rows: Rows | None, depth: int) -> WrittenConjunct:
        """The conjunct of these words."""
        gaps = [(at, word) for at, word in enumerate(words) if word < 0 and word in self]
        columns = None
        if rows is not None:
            comparator, left, one, right, other = rows
            columns = comparator, self.reads[left], one, self.reads[right], other
        return WrittenConjunct(
            tuple(words),
            tuple(places),
            tuple((at, self.reads[gap]) for at, gap in gaps if gap in self.reads),
            tuple((at, self.wholes[gap]) for at, gap in gaps if gap in self.wholes),
            tuple((at, self.reals[gap]) for at, gap in gaps if gap in self.reals),
            columns,
            depth,
        )

    def __contains__(self, gap: int) -> bool:
        return _GAP <= gap < _GAP + len(self.reads) + len(self.wholes) + len(self.reals)

    def _next(self) -> int:
        return _GAP + len(self.reads) + len(self.wholes) + len(self.reals)


def is_written_once(conjunct: Conjunct) -> bool:
    """Whether a conjunct is written alike for all events: it compares numbers of single events."""
    for atom in conjunct.atoms:
        if isinstance(atom, Membership):
            return False
        for node in (node for side in expressions_of(atom) for node in walk(side)):
            if isinstance(node, Length | Aggregate) or node.type not in _NUMBERS:
                return False
            if isinstance(node, Reference) and node.element is not Element.ONLY:
                return False
    return True
