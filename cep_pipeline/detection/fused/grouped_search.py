"""Searches of ranges for many partial matches at once: by groups of matches and blocks of events, or by sweeping.

`GroupedSearch` serves any condition that is compiled, in time that grows with the number of partial matches, and little
with their ranges. `SweptSearch` takes less, but serves only conditions of which at most one comparison by size reads
the last event of a match, as in `b.x > a.x AND b.y < c.y`. `grouped_kernel` says how; what is prepared here are the
orders in which neighbours have similar values, and the terms of the tests: what they compute of an event that is
searched and of what all matches of a run share, what they compute of a match alone, and what mixes these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.fused import grouped_words as at
from cep_pipeline.detection.fused.kernel import Arguments, data_words
from cep_pipeline.detection.fused.programs import (
    COLUMN,
    COMPARATORS,
    CONSTANT,
    FIND_FIRST,
    FIND_LAST,
    OPERATIONS,
    TERM_WORDS,
    argument_places,
    program_of,
    term_words,
)
from cep_pipeline.detection.fused.shape import (
    Operation,
    RangeResult,
    Shape,
    Slot,
    Term,
    Test,
    TestedConjunct,
    slots_of,
)
from cep_pipeline.detection.limits import go_on
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Comparator
from cep_pipeline.slices.routines import padded_copy

MOST_GROUPED = 1 << 14
"""Partial matches that are searched for together, at most."""
EVENTS_A_CALL = 1 << 22
"""Partial matches and events of ranges that are looked at in one call, which cannot be interrupted."""
FEWEST_IN_SEGMENT = 1 << 8
"""The least size of a segment of events that is put in order; a block of events never reaches beyond one."""
MOST_COLUMNS, MOST_BITS = 4, 16
"""Columns that decide in which order events lie, and how finely."""
_CHUNK = 64
_FOLDER = "cep_pipeline.detection.fused"
_search_groups, _sweep_runs = (
    NativeKernel(
        f"{_FOLDER}.grouped_kernel",
        name,
        ("int64*",),
        (
            f"{_FOLDER}.programs",
            f"{_FOLDER}.grouped_words",
            "cep_pipeline.compiled.lanes",
            "cep_pipeline.compiled.pointers",
        ),
    )
    for name in ("search_groups", "sweep_runs")
)


class _RunsSearch:
    """A search for events of the last level that pass the tests, behind a prefix of all other levels.

    Partial matches that differ in their last event alone, and follow one another, are searched for together.
    """

    _kernel: NativeKernel

    def __init__(
        self, shape: Shape, arguments: Arguments, compiled: _TermWords, fixed: Sequence[TestedConjunct]
    ) -> None:
        self._kept: list[object] = [arguments]
        self._prefix_place = argument_places(shape)["prefix"]
        program, self._arguments = program_of(shape), data_words(shape, arguments)
        fixed_words = compiled.fixed(fixed)
        self._words = np.zeros(at.WORDS, np.int64)
        spare, half = MOST_GROUPED + at.LANES, (compiled.deepest + 1) * _CHUNK
        self._put(
            {
                at.ARGUMENTS: self._arguments,
                at.PROGRAM: program.words,
                at.FRAME: np.zeros(program.frame_size, np.int64),
                at.STACK: np.zeros(2 * half),
                at.LOWS: np.zeros(spare, np.int32),
                at.HIGHS: np.zeros(spare, np.int32),
                at.TERMS: np.array(compiled.words, np.int64),
                at.FIXED: np.array(fixed_words, np.int64),
                at.EVENT_TERMS: np.array([*compiled.events.values()], np.int64).reshape(-1),
                at.MATCH_TERMS: np.array([*compiled.matches.values()], np.int64).reshape(-1),
                at.BITS: np.zeros(3 * at.MOST_POWERS, np.int64),
            },
            {
                at.EVENT_TERM_COUNT: len(compiled.events) + at.OWN_PLACE + 1,
                at.MATCH_TERM_COUNT: len(compiled.matches) + at.END_PLACE + 1,
                at.MOST_ROWS: MOST_GROUPED,
                at.MOST_WORK: EVENTS_A_CALL,
                at.STACK_HALF: half,
            },
        )

    def _put(self, arrays: Mapping[int, Array], numbers: Mapping[int, int]) -> None:
        """Write words: where arrays are, and numbers."""
        for place, array in arrays.items():
            self._words[place] = self._keep(array)
        for place, number in numbers.items():
            self._words[place] = number

    def _keep(self, array: Array) -> int:
        self._kept.append(array)
        return int(array.ctypes.data)

    def any(self, prefix: Array) -> Array:
        """bool, shape (n,): whether an event of the range passes the tests, for each row of the prefix."""
        return self._search(prefix, np.zeros(prefix.shape[1], np.bool_), {at.WANTED: at.ANY})

    def _search(self, prefix: Array, found: Array, changed: Mapping[int, int]) -> Array:
        prefix = np.ascontiguousarray(prefix, np.int32)
        words, count = self._words.copy(), prefix.shape[1]
        self._arguments[self._prefix_place : self._prefix_place + len(prefix)] = [row.ctypes.data for row in prefix]
        words[at.FOUND], words[at.ROWS] = found.ctypes.data, count
        for place, number in changed.items():
            words[place] = number
        while words[at.NEXT] < count:
            go_on()
            words[at.NEXT] = self._kernel(words)
        return found


class SweptSearch(_RunsSearch):
    """A search by the extremes of all events up to each place, which are found once for each run of partial matches.

    Parameters
    ----------
    shape
        One for which `is_swept` holds.
    """

    _kernel = _sweep_runs

    def __init__(self, shape: Shape, arguments: Arguments) -> None:
        size = arguments.sizes[shape.prefix]
        if any(of == shape.prefix - 1 for _, of in arguments.lows):
            shape, arguments = _turned(shape, arguments)
        fixed, moving = _parted(shape)
        compiled = _TermWords(shape)
        moving_words = compiled.moving(moving, ())
        super().__init__(shape, arguments, compiled, fixed)
        self._put({at.TESTS: np.array(moving_words, np.int64), at.EXTREMES: np.zeros(size + 2 * at.LANES)}, {})


class GroupedSearch(_RunsSearch):
    """A search by groups of partial matches and blocks of events.

    Parameters
    ----------
    width
        How wide ranges are, about.
    """

    _kernel = _search_groups

    def __init__(self, shape: Shape, arguments: Arguments, width: float) -> None:
        own, current = shape.prefix, shape.prefix - 1
        size, others = arguments.sizes[own], arguments.sizes[current]
        fixed, moving = _parted(shape)
        moves = both_move(shape, arguments)
        shift = int(max(width, FEWEST_IN_SEGMENT, at.LANES)).bit_length() + 2
        order = _order(_columns_read(moving, own, arguments), np.arange(size), shift)
        if not moves:
            order = _by_reach(order, backward=any(of == current for _, of in arguments.lows))
        positions = np.empty(others, np.int32)
        positions[self._order_of_matches(arguments, current, moving, width, shift)] = np.arange(others)
        compiled = _TermWords(shape)
        moving_words = compiled.moving(moving, (at.FIRST_PLACE, at.END_PLACE))
        # An end that is the same for all partial matches of a run is no test.
        ends = [
            end
            for end, sides in ((at.FIRST_PLACE, arguments.lows), (at.END_PLACE, arguments.highs))
            if any(of == current for _, of in sides)
        ]
        asking_words = compiled.moving(moving, ends or [at.END_PLACE])
        super().__init__(shape, _reordered(shape, arguments, order), compiled, fixed)
        events, matches = int(self._words[at.EVENT_TERM_COUNT]), int(self._words[at.MATCH_TERM_COUNT])
        spare = MOST_GROUPED + at.LANES
        self._put(
            {
                at.PLACES: order.astype(np.int32),
                at.POSITIONS: positions,
                at.AT_POSITION: np.zeros(others, np.int32),
                at.MARKS: np.zeros((others >> 6) + 1, np.int64),
                at.CHOSEN: np.zeros(size + at.LANES, np.int32),
                at.NUMBERS: np.arange(spare, dtype=np.int32),
                at.OWN_ROWS: np.zeros(spare, np.int32),
                at.OWN_PLACES: np.zeros(spare, np.int32),
                at.TESTS: np.array(moving_words, np.int64),
                at.MATCH_VALUES: np.zeros(matches * spare),
                at.LEAST: np.zeros(matches),
                at.GREATEST: np.zeros(matches),
                at.WITNESS: np.zeros(at.WITNESSES + 1, np.int64),
            },
            {
                at.SIZE: size,
                at.SHIFT: shift,
                at.MOVES: int(moves),
                at.WANTED: FIND_LAST if shape.search is RangeResult.LAST else FIND_FIRST,
            },
        )
        for power in range(at.MOST_POWERS):
            room = -(-size // at.LANES**power) + at.LANES
            least = np.zeros(events * room)
            greatest = np.zeros(events * room) if power else least
            places = at.BLOCKS + power, at.BLOCKS + at.MOST_POWERS + power
            self._put(dict(zip(places, (least, greatest), strict=True)), {at.BLOCKS + 2 * at.MOST_POWERS + power: room})
        self._asking_tests = self._keep(np.array(asking_words, np.int64))

    @staticmethod
    def _order_of_matches(
        arguments: Arguments, current: int, moving: Sequence[TestedConjunct], width: float, shift: int
    ) -> Array:
        """The order of the last events of partial matches: neighbours have ranges that are alike, and similar values.

        Where these events decide both ends of a range, those with ranges that overlap for the most part are together.
        """
        size = arguments.sizes[current]
        ends = [
            array[:size]
            for sides in (arguments.lows, arguments.highs)
            for (_, of), array in sides.items()
            if of == current
        ]
        return _order(
            _columns_read(moving, current, arguments),
            ends[0] if ends else np.zeros(size, np.int32),
            max(int(width).bit_length() - 2, 0) if len(ends) > 1 else shift,
        )

    def any(self, prefix: Array) -> Array:
        found = np.zeros(prefix.shape[1], np.bool_)
        return self._search(prefix, found, {at.WANTED: at.ANY, at.TESTS: self._asking_tests})

    def places(self, prefix: Array) -> Array:
        """int32, shape (n,): the first or last place that passes the tests for each row of the prefix, or -1."""
        return self._search(prefix, np.full(prefix.shape[1], -1, np.int32), {})


def _reordered(shape: Shape, arguments: Arguments, order: Array) -> Arguments:
    """The arguments with the columns of the last level in another order."""
    own, columns = shape.prefix, list(arguments.columns)
    for slot in {slot.slot for test in shape.levels[own].tests for slot in _slots_of(test) if slot.level == own}:
        columns[slot] = padded_copy(columns[slot][: arguments.sizes[own]][order])
    return replace(arguments, columns=tuple(columns))


def _turned(shape: Shape, arguments: Arguments) -> tuple[Shape, Arguments]:
    """The same search with the events of the last level the other way round: ends of ranges become beginnings."""
    own, level = shape.prefix, shape.levels[shape.prefix]
    size = arguments.sizes[own]
    reordered = _reordered(shape, arguments, np.arange(size)[::-1])
    lows, highs = ({key: size - ends for key, ends in sides.items()} for sides in (arguments.highs, arguments.lows))
    turned = replace(level, lows=level.highs, highs=level.lows)
    return replace(shape, levels=(*shape.levels[:own], turned)), replace(reordered, lows=lows, highs=highs)


@dataclass
class _TermWords:
    """The terms of tests as words.

    Attributes
    ----------
    words
        Terms in postfix, like those of a program, and the mixed sides, whose words are of two: a number, the term of
        an event or a match, or an operation.
    events, matches
        Where the words of each term begin and end, from the first number that is free on.
    deepest
        How many numbers are at hand at once.
    """

    shape: Shape
    words: list[int] = field(default_factory=list)
    events: dict[Term, tuple[int, int]] = field(default_factory=dict)
    matches: dict[Term, tuple[int, int]] = field(default_factory=dict)
    deepest: int = 1

    def __post_init__(self) -> None:
        self.own, self.current = self.shape.prefix, self.shape.prefix - 1

    def fixed(self, conjuncts: Sequence[TestedConjunct]) -> list[int]:
        """The tests of events that the last event of a match has no part in."""
        found = [len(conjuncts)]
        for conjunct in conjuncts:
            found.append(len(conjunct))
            for alternative in conjunct:
                found.append(len(alternative))
                for test in alternative:
                    found += [COMPARATORS[test.comparator], *self._term(test.left), *self._term(test.right)]
        return found

    def moving(self, conjuncts: Sequence[TestedConjunct], ends: Sequence[int]) -> list[int]:
        """All other tests, and then those of the range, which most events pass, by the ends that are to be tested."""
        found = [len(conjuncts) + len(ends)]
        for conjunct in conjuncts:
            found.append(len(conjunct))
            for alternative in conjunct:
                found.append(len(alternative))
                for test in alternative:
                    found += self._moving(test)
        for end in ends:
            comparator = Comparator.GE if end == at.FIRST_PLACE else Comparator.LT
            found += [1, 1, COMPARATORS[comparator], at.OWN_PLACE, end, 0, 0]
        return found

    def _moving(self, test: Test) -> list[int]:
        for comparator, left, right in (
            (test.comparator, test.left, test.right),
            (test.comparator.mirror, test.right, test.left),
        ):
            if self._is_of_event(left) and self._is_of_match(right):
                return [COMPARATORS[comparator], self._event(left), self._match(right), 0, 0]
        sides = [self._mixed(side) for side in (test.left, test.right)]
        self.deepest = max(self.deepest, sum(map(len, sides)) // at.SIDE_WORDS)
        begin = len(self.words)
        for comparator, (mixed, other) in ((test.comparator, sides), (test.comparator.mirror, sides[::-1])):
            if len(other) == at.SIDE_WORDS and other[0] == CONSTANT:
                self.words += mixed
                return [COMPARATORS[comparator], at.MIXED, other[1], begin, len(self.words)]
        self.words += sides[0] + sides[1]
        middle = begin + len(sides[0])
        return [COMPARATORS[test.comparator], at.BOTH_MIXED, begin, middle, len(self.words)]

    def _mixed(self, side: Term) -> list[int]:
        if self._is_of_match(side):
            return [CONSTANT, self._match(side), 0]
        if self._is_of_event(side):
            return [COLUMN, self._event(side), 0]
        assert isinstance(side, Operation)
        code = OPERATIONS[side.operator]
        match side.operands:
            case (one, other) if self._is_of_event(one) and self._is_of_match(other):
                return [at.EVENT_FIRST + code, self._event(one), self._match(other)]
            case (one, other) if self._is_of_match(one) and self._is_of_event(other):
                return [at.MATCH_FIRST + code, self._event(other), self._match(one)]
        return [word for operand in side.operands for word in self._mixed(operand)] + [code, 0, 0]

    def _is_of_match(self, term: Term) -> bool:
        return all(slot.level != self.own for slot in slots_of(term))

    def _is_of_event(self, term: Term) -> bool:
        return not self._is_of_match(term) and all(slot.level != self.current for slot in slots_of(term))

    def _event(self, term: Term) -> int:
        if term not in self.events:
            self.events[term] = self._term(term)
        return at.OWN_PLACE + 1 + list(self.events).index(term)

    def _match(self, term: Term) -> int:
        if term not in self.matches:
            self.matches[term] = self._term(term)
        return at.END_PLACE + 1 + list(self.matches).index(term)

    def _term(self, term: Term) -> tuple[int, int]:
        begin = len(self.words)
        self.words += term_words(self.shape, term).tolist()
        self.deepest = max(self.deepest, (len(self.words) - begin) // TERM_WORDS)
        return begin, len(self.words)


def _parted(shape: Shape) -> tuple[list[TestedConjunct], list[TestedConjunct]]:
    """The conjuncts that the last event of a match has no part in, and those that compare it."""
    current = shape.prefix - 1
    tests: list[TestedConjunct] = []
    for conjunct in shape.levels[shape.prefix].tests:
        # Tests that must hold together are as good as conjuncts: some of them may be fixed.
        tests += [((test,),) for test in conjunct[0]] if len(conjunct) == 1 else [conjunct]
    return (
        [conjunct for conjunct in tests if not _reads(conjunct, current)],
        [conjunct for conjunct in tests if _reads(conjunct, current)],
    )


def both_move(shape: Shape, arguments: Arguments) -> bool:
    """Return whether both ends of a range depend on the last event of a partial match."""
    current = shape.prefix - 1
    return all(any(of == current for _, of in sides) for sides in (arguments.lows, arguments.highs))


def is_swept(shape: Shape, arguments: Arguments) -> bool:
    """Return whether partial matches can be swept over: at most one test, by size, compares their last events."""
    current, moving = shape.prefix - 1, _parted(shape)[1]
    if both_move(shape, arguments) or shape.prefix == 1 or len(moving) > 1:
        return False
    for conjunct in moving:
        match conjunct:
            case ((Test(comparator, left, right),),) if comparator not in (Comparator.EQ, Comparator.NE):
                levels = [{slot.level for slot in slots_of(side)} for side in (left, right)]
                own = [shape.prefix in side for side in levels]
                if sum(own) != 1 or current in levels[own.index(True)]:
                    return False
            case _:
                return False
    return True


def slots_in(shape: Shape) -> int:
    """The number of columns of all levels that the tests of the last one read."""
    return len({slot for conjunct in shape.levels[shape.prefix].tests for slot in _slots_of(conjunct)})


def _slots_of(conjunct: TestedConjunct) -> frozenset[Slot]:
    tests = [test for alternative in conjunct for test in alternative]
    return frozenset(slot for test in tests for side in (test.left, test.right) for slot in slots_of(side))


def _reads(conjunct: TestedConjunct, level: int) -> bool:
    """Return whether a conjunct reads the event of a level."""
    return any(slot.level == level for slot in _slots_of(conjunct))


def _columns_read(conjuncts: Sequence[TestedConjunct], level: int, arguments: Arguments) -> list[Array]:
    """The columns of a level that some conjuncts read, all with the other sign if rather the greatest values pass."""
    slots, above = set(), 0
    for test in (test for conjunct in conjuncts for alternative in conjunct for test in alternative):
        for comparator, side in ((test.comparator, test.left), (test.comparator.mirror, test.right)):
            own = {slot.slot for slot in slots_of(side) if slot.level == level}
            slots |= own
            if own:
                above += (comparator in (Comparator.GT, Comparator.GE)) - (comparator in (Comparator.LT, Comparator.LE))
    columns = [arguments.columns[slot][: arguments.sizes[level]] for slot in sorted(slots)]
    return [-values for values in columns] if above > 0 else columns


def _by_reach(order: Array, *, backward: bool) -> Array:
    """Put the events of each block in the order of places, or the other way round: the first is in the most ranges."""
    whole = len(order) // at.LANES * at.LANES
    blocks = np.sort(order[:whole].reshape(-1, at.LANES), axis=1)
    return np.append(blocks[:, ::-1] if backward else blocks, order[whole:])


def _order(columns: Sequence[Array], places: Array, shift: int) -> Array:
    """Put events in an order in which neighbours have similar values: along a Z-curve of their ranks (Morton, 1966).

    Parameters
    ----------
    columns
        The values; of more than a few the first ones count.
    places
        Where the events lie, or their ranges begin: segments of 2^shift places are put in order each.
    """
    columns, count = columns[:MOST_COLUMNS], len(places)
    if not count:
        return np.arange(0)
    keys = places.astype(np.int64) >> shift
    bits = min(MOST_BITS, max(1, (62 - int(keys.max()).bit_length()) // max(len(columns), 1)))
    ranks = []
    for values in columns:
        _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        first = np.cumsum(counts) - counts
        ranks.append((first[inverse] << bits) // count)
    for bit in reversed(range(bits)):
        for rank in ranks:
            keys = keys << 1 | rank >> bit & 1
    return np.argsort(keys, kind="stable")
