"""The parts of a stream in which a match can become final, as far as the summaries of its files tell.

A match needs an event for each positive variable of a clause: of the variable's type, with values that its own
conditions can accept, within the window of all others, and not before an event that is to come first. The summaries
say when such events occur (`events/type_spells.py`). Where one is missing, no match is, whatever the strategy, negated
variables, OUTPUT or CONSUME say: all of these only reject matches. A slice that owns none of these instants has no
match, and need not be read. What the summaries do not tell counts as possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np

from cep_pipeline.events.type_spells import TypeSpells
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Atom, Between, Comparator, Comparison, Conjunct, Membership
from cep_pipeline.patterns.expressions import Element, Expression, Literal, Negative, Reference, ValueType
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.patterns.structure import EventType, types_of
from cep_pipeline.slices.order import before_is_earlier
from cep_pipeline.slices.ownership import Finality, finality_of

_FAR = 2**61
"""Further away than any window and any event."""


@dataclass(frozen=True, eq=False)
class Spans:
    """Stretches of whole numbers, both ends in, ascending and apart from each other.

    Examples
    --------
    >>> one, other = Spans.of([5, 0, 3], [9, 1, 6]), Spans.of([1, 8], [3, 20])
    >>> [spans.pairs for spans in (one, one.within(other), one.shifted(100))]
    [[(0, 1), (3, 9)], [(1, 1), (3, 3), (8, 9)], [(100, 101), (103, 109)]]
    """

    first: Array
    last: Array

    @classmethod
    def of(cls, first: Any, last: Any) -> Spans:
        """The union of stretches in any order."""
        firsts, lasts = np.asarray(first, np.int64), np.asarray(last, np.int64)
        order = np.argsort(firsts, kind="stable")
        firsts, reached = firsts[order], np.maximum.accumulate(lasts[order])
        begins = np.ones(len(firsts), dtype=bool)
        begins[1:] = firsts[1:] > reached[:-1] + 1
        ends = np.append(begins[1:], True) if len(begins) else begins
        return cls(firsts[begins], reached[ends])

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return list(zip(self.first.tolist(), self.last.tolist(), strict=True))

    def __bool__(self) -> bool:
        return bool(len(self.first))

    def union(self, other: Spans) -> Spans:
        """The numbers that are in one of the two."""
        return Spans.of(np.concatenate([self.first, other.first]), np.concatenate([self.last, other.last]))

    def within(self, other: Spans) -> Spans:
        """The numbers that are in both."""
        if not self or not other:
            return NOWHERE_AT_ALL
        begin = np.searchsorted(other.last, self.first)
        count = np.maximum(np.searchsorted(other.first, self.last, "right") - begin, 0)
        mine = np.repeat(np.arange(len(count)), count)
        theirs = begin[mine] + np.arange(len(mine)) - np.repeat(np.cumsum(count) - count, count)
        firsts = np.maximum(self.first[mine], other.first[theirs])
        return Spans(firsts, np.minimum(self.last[mine], other.last[theirs]))

    def shifted(self, distance: int) -> Spans:
        """The numbers that are so far behind one of these."""
        return Spans(self.first + distance, self.last + distance)


NOWHERE_AT_ALL = Spans(np.empty(0, np.int64), np.empty(0, np.int64))
EVERYWHERE = Spans(np.array([-_FAR]), np.array([_FAR]))


def final_instants(
    patterns: Iterable[Pattern], files: Sequence[TypeSpells], enough: Callable[[Spans], bool] = lambda _: False
) -> Spans:
    """The timestamps, in microseconds, at which a match of the patterns can become final.

    Parameters
    ----------
    patterns
        Patterns of one stream.
    files
        The summaries of sorted files of events in stream order: of all events that such matches can hold.
    enough
        Is asked after each pattern; where it says yes, the answer is that all instants are possible.
    """
    stream = _Stream(files)
    found = NOWHERE_AT_ALL
    for pattern in patterns:
        found = found.union(reduce(Spans.union, (_instants_of(pattern, clause, stream) for clause in pattern.clauses)))
        if enough(found):
            return EVERYWHERE
    return found


def _instants_of(pattern: Pattern, clause: Clause, stream: _Stream) -> Spans:
    by_time = pattern.window.time_us is not None
    if not by_time and (pattern.partition_by or not stream.in_order):
        return EVERYWHERE  # positions in a partition may reach back to any day
    width = min(pattern.window.time_us if pattern.window.time_us is not None else pattern.window.events or 0, _FAR)
    if not by_time:
        width -= 1
    own = {one: tuple(test for test in clause.conjuncts if test.variables == {one.name}) for one in clause.positive}
    spells = [stream.spells_of(pattern, variable, tests) for variable, tests in own.items()]
    first, last = (stream.first_us, stream.last_us) if by_time else (stream.first_row, stream.last_row)
    # Under TIES ANY the rows of one timestamp are in no order.
    ordered = by_time or before_is_earlier(pattern.ties)
    spells = _supported(clause, spells, stream, first, last, width, ordered=ordered)
    if not all(map(len, spells)):
        return NOWHERE_AT_ALL
    finality = finality_of(pattern, clause)
    if finality is Finality.WINDOW_END:
        if not by_time:
            return EVERYWHERE
        beginning = [
            places
            for variable, places in zip(clause.positive, spells, strict=True)
            if not clause.predecessors(variable.name)
        ]
        near = (Spans.of(first[places] - width, last[places]) for places in spells)
        return reduce(Spans.within, near, _union(beginning, first, last)).shifted(width)
    ending = [
        places
        for variable, places in zip(clause.positive, spells, strict=True)
        if not ordered or not clause.successors(variable.name)
    ]
    near = (Spans.of(first[places], last[places] + width) for places in spells)
    found = reduce(Spans.within, near, _union(ending, first, last))
    return found if by_time else stream.times_of(found)


def _union(spells: Sequence[Array], first: Array, last: Array) -> Spans:
    places = np.concatenate(spells)
    return Spans.of(first[places], last[places])


_ROUNDS = 3
"""Rounds in which each variable's spells are compared with those of the others: all are sound, more leave less."""


def _supported(
    clause: Clause,
    spells: Sequence[Array],
    stream: _Stream,
    first: Array,
    last: Array,
    width: int,
    *,
    ordered: bool,
) -> list[Array]:
    """The spells of each variable that have a spell of every other variable within the window, on the right side."""
    left = list(spells)
    single = stream.first_row == stream.last_row
    for _ in range(_ROUNDS):
        before = sum(map(len, left))
        for i, one in enumerate(clause.positive):
            for j, other in enumerate(clause.positive):
                if i == j or not len(left[i]):
                    continue
                mine, theirs = left[i], left[j]
                after = ordered and (one.name, other.name) in clause.precedence
                ahead = ordered and (other.name, one.name) in clause.precedence
                low = first[mine] - (0 if after else width)
                high = last[mine] + (0 if ahead else width)
                near = np.searchsorted(np.sort(first[theirs]), high, "right")
                near = near - np.searchsorted(np.sort(last[theirs]), low)
                # An event is not in a match twice: it does not support itself.
                itself = single[mine] & np.isin(mine, theirs)
                left[i] = mine[near > itself]
        if sum(map(len, left)) == before:
            break
    return left


class _Stream:
    """The spells of all files together; rows are counted from the first file's first one."""

    def __init__(self, files: Sequence[TypeSpells]) -> None:
        self._files = files
        sizes = [len(file.kind) for file in files]
        self._begin = np.cumsum([0, *sizes])
        rows = np.cumsum([0, *(file.rows for file in files)])
        nothing = np.empty(0, np.int64)
        self.first_us = np.concatenate([nothing, *(file.first_us for file in files)])
        self.last_us = np.concatenate([nothing, *(file.last_us for file in files)])
        self.first_row = np.concatenate([nothing, *(file.first_row + rows[at] for at, file in enumerate(files))])
        self.last_row = np.concatenate([nothing, *(file.last_row + rows[at] for at, file in enumerate(files))])
        ends = [(int(file.first_us.min()), int(file.last_us.max())) for file in files if len(file.kind)]
        self.in_order = all(end <= begin for (_, end), (begin, _) in pairwise(ends))
        self._spells: dict[Any, Array] = {}

    def spells_of(self, pattern: Pattern, variable: Variable, conjuncts: tuple[Conjunct, ...]) -> Array:
        """The places of the spells with events that a variable may bind."""
        key = (variable.event_type, pattern.base_type, tuple(conjunct.atoms for conjunct in conjuncts))
        found = self._spells.get(key)
        if found is None:
            every = pattern.base_type in types_of(variable.event_type)
            parts = [
                self._begin[at]
                + _acceptable(file, self._places(file, None if every else variable.event_type), conjuncts)
                for at, file in enumerate(self._files)
            ]
            found = self._spells[key] = np.concatenate([np.empty(0, np.int64), *parts])
        return found

    @staticmethod
    def _places(file: TypeSpells, event_type: EventType | None) -> Array:
        if event_type is None:
            return np.arange(len(file.kind))
        places = [file.of_type(name) for name in types_of(event_type)]
        return places[0] if len(places) == 1 else np.unique(np.concatenate(places))

    def times_of(self, rows: Spans) -> Spans:
        """Stretches of time that hold the events of stretches of rows."""
        known = np.concatenate([self.first_row, self.last_row])
        times = np.concatenate([self.first_us, self.last_us])
        order = np.argsort(known, kind="stable")
        known, times = known[order], times[order]
        at_first = np.searchsorted(known, rows.first, "right") - 1
        at_last = np.searchsorted(known, rows.last)
        return Spans.of(times[at_first], times[at_last])


def _acceptable(file: TypeSpells, places: Array, conjuncts: Sequence[Conjunct]) -> Array:
    """The spells among these in which an event can fulfil the conditions."""
    for conjunct in conjuncts:
        tests = [_test_of(atom, file) for atom in conjunct.atoms]
        known = [test for test in tests if test is not None]
        if len(known) == len(tests):
            places = np.array([at for at in places.tolist() if any(test(at) for test in known)], np.int64)
    return places


def _test_of(atom: Atom, file: TypeSpells) -> Callable[[int], bool] | None:
    """A function that tells whether an event of a spell can fulfil an atom; None where the summary does not tell."""
    value: Any
    match atom:
        case Comparison(comparator, Reference() as reference, other):
            holds, value = _COMPARED[comparator], _value(other)
        case Comparison(comparator, other, Reference() as reference):
            holds, value = _COMPARED[comparator.mirror], _value(other)
        case Membership(Reference() as reference, values):
            holds, value = _not_in if atom.negated else _in, values
        case Between(Reference() as reference, low, high):
            ends = _value(low), _value(high)
            holds, value = _not_between if atom.negated else _between, None if None in ends else ends
        case _:
            return None
    bounds = file.bounds.get(reference.attribute)
    if value is None or bounds is None or reference.element not in (Element.ONLY, Element.EACH):
        return None
    least, greatest = bounds
    some = next((one for one in least if one is not None), None)
    if some is not None and isinstance(some, str) != (reference.type is ValueType.STRING):
        return None  # the file is older than the attribute's type: whoever reads it says so

    def test(at: int) -> bool:
        return least[at] is not None and bool(holds(least[at], greatest[at], value))

    return test


def _value(expression: Expression) -> Any:
    """The value of a constant; None for all else."""
    match expression:
        case Literal(value):
            return value
        case Negative(Literal(value)):
            return -value if not isinstance(value, str) else None
        case _:
            return None


_COMPARED: dict[Comparator, Callable[[Any, Any, Any], bool]] = {
    Comparator.EQ: lambda least, greatest, value: least <= value <= greatest,
    Comparator.NE: lambda least, greatest, value: not least == greatest == value,
    Comparator.LT: lambda least, _, value: least < value,
    Comparator.LE: lambda least, _, value: least <= value,
    Comparator.GT: lambda _, greatest, value: greatest > value,
    Comparator.GE: lambda _, greatest, value: greatest >= value,
}
"""Comparator -> whether some value between the least and the greatest one compares so with a constant."""


def _in(least: Any, greatest: Any, values: Sequence[Any]) -> bool:
    """Return whether a value from the least to the greatest one can be among these; the next three are like it."""
    return any(least <= value <= greatest for value in values)


def _not_in(least: Any, greatest: Any, values: Sequence[Any]) -> bool:
    return not (least == greatest and least in values)


def _between(least: Any, greatest: Any, ends: tuple[Any, Any]) -> bool:
    return bool(ends[0] <= ends[1] and least <= ends[1] and greatest >= ends[0])


def _not_between(least: Any, greatest: Any, ends: tuple[Any, Any]) -> bool:
    return bool(least < ends[0] or greatest > ends[1])
