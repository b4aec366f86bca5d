"""Searches of ranges for an event that passes tests, in time that hardly depends on how long the ranges are.

The compiled search of a range reads it up to the first event that passes. That is the fastest way to search short
ranges, and those where many events pass. Where few pass, it reads everything, and the work grows with the window. Then
blocks of the view are skipped by the least and the greatest value of each column in them: a block of which no event
passes one of the tests holds none that passes all. There is a block at each place for each power of two, so that

- a range is two blocks that overlap, which decide a single test at once;
- the first event that passes one test is found in a step for each power of two;
- of two tests one sorts the events of each aligned block, and the other one needs only the extremes of those behind a
  place in it (a merge sort tree with the extremes of suffixes): two steps for each power of two;
- more tests may need more steps. Ranges that are not decided after some are read.

Partial matches come in runs that differ in their last event alone. Where up to two tests compare that event, and the
others those before it, a range is read once for a run (`running_kernel`): of the events that pass the others it is
noted what the next partial matches need, which is an extreme or, for two tests, a tree of extremes.

A test takes part whose event stands in it once, in sums and differences only: rounding keeps the order of sums, so that
the least and the greatest value of a column decide the test for all values between, with the same arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import product

import numpy as np

from cep_pipeline.compiled.ir_text import WIDTH
from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.fused import running_words as at
from cep_pipeline.detection.fused.constraints import TestColumns
from cep_pipeline.detection.fused.kernel import Arguments, data_words, search_places
from cep_pipeline.detection.fused.programs import ShapeProgram, argument_places, program_of, term_words
from cep_pipeline.detection.fused.shape import (
    Alternative,
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
from cep_pipeline.detection.limits import go_on
from cep_pipeline.detection.room import SMALL, available_bytes
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Comparator
from cep_pipeline.slices.views import View

FEWEST_EVENTS = 1 << 11
"""So many events are read before anything else is looked at."""
READ_AT_ONCE = 8
"""Events of a range that the compiled search reads while one number of a block is written."""
ASKED_AS = 64
"""Events that are read while one range is decided by its blocks."""
MOST_SWEEPS = 32
"""Passes over the powers of two before what is left of the ranges is read."""
FEW_SWEEPS = 4
"""Passes before what is left is searched in sorted blocks, where there are two tests."""
SEARCHED_NS = 1_000.0, 8_000.0
"""How long it takes to find an event by blocks, where two tests decide together, and where not."""
MOST_BYTES = 1 << 28
"""Largest size of the blocks of one search; above it, or where memory is short, ranges are read."""
_SAFE = 2.0**1000
"""Sums of numbers up to this magnitude do not overflow."""

FEWEST_OF_A_RUN, SAMPLED = 8, 256
"""Partial matches of a run for it to pay, and how many are searched by reading to see how far that reads."""
SAMPLED_AGAIN = 1 << 19
"""Partial matches after which another sample is taken."""
MOST_STREAMS = 8
"""Ways to reject that a search run by run looks at, one after another."""
SEARCH_NS, READ_NS, RUN_NS, NOTED_NS, LOOKED_NS = 50.0, 0.3, 200.0, 4.0, 8.0
"""How long it takes to search a range besides reading it, and to read an event; and run by run for each run, each event
of its range, and each of its matches."""
EVENTS_A_CALL = 1 << 24
"""Partial matches and events of ranges that are looked at in one call, which cannot be interrupted."""
_FOLDER = "cep_pipeline.detection.fused"
_search_runs = NativeKernel(
    f"{_FOLDER}.running_kernel",
    "search_runs",
    ("int64*",),
    (
        f"{_FOLDER}.any_shape_kernel",
        f"{_FOLDER}.programs",
        f"{_FOLDER}.running_words",
        "cep_pipeline.compiled.pointers",
    ),
)
_UPPER, _LOWER = (Comparator.LT, Comparator.LE), (Comparator.GT, Comparator.GE)

_COMPARE = {
    Comparator.LT: np.less,
    Comparator.LE: np.less_equal,
    Comparator.GT: np.greater,
    Comparator.GE: np.greater_equal,
}


def arguments_over(
    views: Sequence[View],
    level: int,
    lows: Mapping[int, Array],
    highs: Mapping[int, Array],
    columns: Sequence[Array],
    constants: Sequence[float],
) -> Arguments:
    """The data of a shape of which one level has bounds, by level that gives them."""
    return Arguments(
        sizes=tuple(map(len, views)),
        rows=tuple(view.rows for view in views),
        lows={(level, earlier): array for earlier, array in lows.items()},
        highs={(level, earlier): array for earlier, array in highs.items()},
        columns=tuple(columns),
        constants=tuple(constants),
    )


def searching_shape(prefix: int, behind: Sequence[Level], columns: TestColumns, search: RangeResult) -> Shape:
    """The shape of a search by levels behind a prefix of others, which tests the columns."""
    return Shape(
        levels=(*[Level()] * prefix, *behind),
        prefix=prefix,
        slots=len(columns.arrays),
        constants=len(columns.constants),
        owned_slot=None,
        as_rows=False,
        search=search,
    )


class BlockedSearch:
    """A search of the last level's ranges, by reading them or by blocks, whichever takes less.

    Parameters
    ----------
    shape
        It searches for the first event, or the last one, behind a prefix of all other levels.
    program
        That of the shape, where it is at hand.
    """

    def __init__(self, shape: Shape, arguments: Arguments, program: ShapeProgram | None = None) -> None:
        self.shape, self.arguments, self._program = shape, arguments, program
        self._last = len(shape.levels) - 1
        self._least: dict[int, Array] = {}
        self._greatest: dict[int, Array] = {}
        self._tree: _SortedBlocks | None = None
        self._powers = 0
        self._to_read = self._asked = 0
        self._sample: tuple[float, float] | None = None

    @cached_property
    def _tests(self) -> list[_BlockTest]:
        """The tests of blocks; none where blocks do not decide all of them."""
        found = [_blocked(conjunct, self._last, self.arguments) for conjunct in self.shape.levels[-1].tests]
        tests = [test for test in found if test is not None]
        return tests if len(tests) == len(found) else []

    def any(self, prefix: Array) -> Array:
        """bool, shape (n,): whether an event of the range passes the tests, for each row of the prefix."""
        by_runs = self._by_runs(prefix)
        if by_runs is not None:
            return by_runs
        ranges = self._by_blocks(prefix)
        if ranges is None:
            return search_places(self.shape, self.arguments, prefix, self._program) >= 0
        lows, highs = ranges
        if len(self._tests) == 1 and self._tests[0].decides:
            found = np.zeros(len(lows), np.bool_)
            which = np.flatnonzero(lows < highs)
            low, high = lows[which], highs[which]
            power = _powers_of(high - low)
            values = self._values_of(prefix[:, which])
            found[which] = self._may(power, low, values) | self._may(power, high - (1 << power), values)
            return found
        return self._places(prefix, lows, highs) >= 0

    def places(self, prefix: Array) -> Array:
        """int32, shape (n,): the first or last place that passes the tests for each row of the prefix, or -1."""
        ranges = self._by_blocks(prefix)
        if ranges is None:
            return search_places(self.shape, self.arguments, prefix, self._program)
        return self._places(prefix, *ranges)

    def _ranges(self, prefix: Array) -> tuple[Array, Array]:
        """int64: where the ranges begin and end."""
        lows, highs = (
            [ends.take(prefix[place]) for (_, place), ends in sides.items()]
            for sides in (self.arguments.lows, self.arguments.highs)
        )
        return reduce(np.maximum, lows).astype(np.int64), reduce(np.minimum, highs).astype(np.int64)

    def _by_runs(self, prefix: Array) -> Array | None:
        """The answer, if it is found run by run."""
        count = prefix.shape[1]
        if self._running is None or self.arguments.sizes[-1] <= FEWEST_EVENTS or not count:
            return None
        if len(self._tests) == 1 and self._tests[0].decides:
            return None
        runs = 1 + int((prefix[:-1, 1:] != prefix[:-1, :-1]).any(axis=0).sum())
        if count < FEWEST_OF_A_RUN * runs:
            return None
        self._asked += count
        if self._sample is None or self._asked > SAMPLED_AGAIN:
            self._asked, self._sample = 0, self._reading_ns(prefix)
        reading_ns, width = self._sample
        if count * (SEARCH_NS + reading_ns) < runs * (RUN_NS + NOTED_NS * width) + LOOKED_NS * count:
            return None
        return self._running.any(prefix)

    def _reading_ns(self, prefix: Array) -> tuple[float, float]:
        """The mean time in ns to read a range up to an event that passes, and its mean width, by a sample."""
        sample = prefix[:, np.linspace(0, prefix.shape[1] - 1, min(prefix.shape[1], SAMPLED)).astype(np.int64)]
        lows, highs = self._ranges(sample)
        places = search_places(self.shape, self.arguments, sample, self._program)
        widths = np.maximum(highs - lows, 0)
        begin = lows if self.shape.search is RangeResult.FIRST else highs - 1
        read = np.where(places < 0, widths, np.abs(places - begin) + 1)
        return READ_NS * float(read.mean()), float(widths.mean())

    @cached_property
    def _running(self) -> _Running | None:
        return _Running.of(self.shape, self.arguments)

    def _by_blocks(self, prefix: Array) -> tuple[Array, Array] | None:
        """The ranges, if they are to be searched by blocks, which are then there; None: they are to be read."""
        size = self.arguments.sizes[-1]
        if size <= FEWEST_EVENTS or not prefix.shape[1]:
            return None
        lows, highs = self._ranges(prefix)
        widths = np.maximum(highs - lows, 0)
        longest, all_widths = int(widths.max()), int(widths.sum())
        if all_widths <= ASKED_AS * len(widths) or not self._tests:
            return None
        if not (len(self._tests) == 1 and self._tests[0].decides):
            searched_ns = SEARCHED_NS[_sorting(self._tests) is None]
            if READ_NS * longest < searched_ns or self._reading_ns(prefix)[0] < searched_ns:
                return None
        self._to_read += all_widths
        powers = longest.bit_length()
        if powers > self._powers:
            columns = len({slot for test in self._tests for slot in test.slots}) * 2
            numbers = columns * powers * size
            if self._to_read < READ_AT_ONCE * numbers or not has_room(numbers):
                return None
            self._make_blocks(powers)
        return lows, highs

    def _make_blocks(self, powers: int) -> None:
        self._powers, self._tree = powers, None
        for slot in {slot for test in self._tests for slot in test.slots}:
            values = self.arguments.columns[slot][: self.arguments.sizes[-1]]
            self._least[slot] = blocks_of(values, powers, np.fmin)
            self._greatest[slot] = blocks_of(values, powers, np.fmax)

    def _values_of(self, prefix: Array) -> dict[int, Array]:
        """The values of the columns of earlier levels for each row of the prefix, by slot."""
        slots = {slot for test in self._tests for slot in test.others}
        return {slot.slot: self.arguments.columns[slot.slot][prefix[slot.level]] for slot in slots}

    def _may(self, power: Array | int, start: Array, values: Mapping[int, Array]) -> Array:
        """Return whether an event of each block may pass, missing none that does; of one event it is the answer."""
        held = None
        for test in self._tests:
            may = test.may(power, start, values, self._least, self._greatest)
            held = may if held is None else held & may
        assert held is not None
        return held

    def _places(self, prefix: Array, lows: Array, highs: Array) -> Array:
        found = np.full(len(lows), -1, np.int32)
        forward = self.shape.search is RangeResult.FIRST
        which = np.flatnonzero(lows < highs)
        low, high = lows[which], highs[which]
        values = self._values_of(prefix[:, which])
        pair = _sorting(self._tests)
        sweeps = MOST_SWEEPS
        if pair is not None:  # both of one column: the blocks that it may be in overlap
            sweeps = 0 if pair[0].own == pair[1].own else min(FEW_SWEEPS, MOST_SWEEPS)
        for _ in range(sweeps):
            if not len(which):
                return found
            go_on()
            for power in reversed(range(int((high - low).max()).bit_length())):
                step = 1 << power
                wide = np.flatnonzero(high - low >= step)
                start = low[wide] if forward else high[wide] - step
                skipped = wide[~self._may(power, start, {slot: value[wide] for slot, value in values.items()})]
                if forward:
                    low[skipped] += step
                else:
                    high[skipped] -= step
            left = np.flatnonzero(low < high)
            which, low, high = which[left], low[left], high[left]
            values = {slot: value[left] for slot, value in values.items()}
            at = low if forward else high - 1
            passed = self._may(0, at, values)
            found[which[passed]] = at[passed]
            left = np.flatnonzero(~passed)
            which, low, high = which[left], low[left], high[left]
            values = {slot: value[left] for slot, value in values.items()}
            if forward:
                low += 1
            else:
                high -= 1
        if len(which) and pair is not None:
            if self._tree is None:
                values_of, others = (self.arguments.columns[test.own.slot][: self.arguments.sizes[-1]] for test in pair)
                self._tree = _SortedBlocks(pair[0], pair[1], values_of, others, self._powers)
            found[which] = self._tree.found(low, high, values, forward=forward)
        elif len(which):
            found[which] = search_places(self.shape, self.arguments, prefix[:, which], self._program)
        return found


class _BlockTest:
    """A conjunct as a test of blocks: one of its alternatives may hold, each of whose tests may.

    Attributes
    ----------
    decides
        Whether the test of a block says that an event of it passes, not only that one may.
    slots
        The columns of the last level that it reads.
    others
        The slots of earlier levels that it reads.
    """

    def __init__(self, alternatives: Sequence[Sequence[_Compared]]) -> None:
        self.alternatives = alternatives
        tests = [test for alternative in alternatives for test in alternative]
        self.decides = len(tests) == len(alternatives) and all(test.comparator is not Comparator.EQ for test in tests)
        self.slots = frozenset(test.own.slot for test in tests)
        self.others = frozenset(slot for test in tests for slot in test.others)

    def may(
        self,
        power: Array | int,
        start: Array,
        values: Mapping[int, Array],
        least: Mapping[int, Array],
        greatest: Mapping[int, Array],
    ) -> Array:
        held = np.zeros(len(start), np.bool_)
        for alternative in self.alternatives:
            all_hold = np.ones(len(start), np.bool_)
            for test in alternative:
                ends = least[test.own.slot][power, start], greatest[test.own.slot][power, start]
                all_hold &= test.may(ends, values)
            held |= all_hold
        return held


def extreme_tests(conjunct: TestedConjunct, arguments: Arguments) -> list[tuple[Test, Slot, bool]] | None:
    """The tests that say whether a range holds an event that passes a conjunct: one of them holds for an extreme value.

    Returns
    -------
    list of tuple, or None
        The test, with the event's side on the left; the event's slot in it; and whether it holds for the least value of
        the range, or else the greatest. None where extremes do not decide.
    """
    blocked = _blocked(conjunct, len(arguments.sizes) - 1, arguments)
    if blocked is None or not blocked.decides:
        return None
    return [found for alternative in blocked.alternatives for test in alternative for found in test.of_extremes()]


def equality_test(conjunct: TestedConjunct, arguments: Arguments) -> tuple[Test, Slot] | None:
    """The conjunct as one equality, with the event's value alone on the left, and its slot; None for others."""
    match _blocked(conjunct, len(arguments.sizes) - 1, arguments):
        case _BlockTest(alternatives=[[_Compared(comparator=Comparator.EQ, is_plain=True) as test]]):
            return next(test.of_extremes())[:2]
    return None


class _Compared:
    """One test of an event of the last level: its side, which has the event's slot once, and what that compares with.

    Attributes
    ----------
    comparator
        With the event's side on the left.
    """

    def __init__(self, comparator: Comparator, side: Term, other: Term, own: Slot, constants: Sequence[float]) -> None:
        self.comparator, self._side, self._other, self.own = comparator, side, other, own
        self._constants = constants
        self.is_rising = _is_rising(side, own)
        self.others = (slots_of(side) | slots_of(other)) - {own}

    def holds(self, own: Array, values: Mapping[int, Array]) -> Array:
        """Return whether values pass."""
        side = self._evaluated(self._side, {**values, self.own.slot: own})
        return np.asarray(_COMPARE[self.comparator](side, self._evaluated(self._other, values)))

    def may(self, ends: tuple[Array, Array], values: Mapping[int, Array]) -> Array:
        """Return whether a value between the ends may pass; they are NaN where a block has no value."""
        low, high = (self._evaluated(self._side, {**values, self.own.slot: end}) for end in ends)
        if self.is_rising is None:
            low, high = np.fmin(low, high), np.fmax(low, high)
        elif not self.is_rising:
            low, high = high, low
        other = self._evaluated(self._other, values)
        match self.comparator:
            case Comparator.LT | Comparator.LE:
                held = _COMPARE[self.comparator](low, other)
            case Comparator.GT | Comparator.GE:
                held = _COMPARE[self.comparator](high, other)
            case Comparator.EQ:
                held = (low <= other) & (other <= high)
            case Comparator.NE:
                held = (low < other) | (low > other) | (high < other) | (high > other)
        return np.asarray(held)

    def of_extremes(self) -> Iterator[tuple[Test, Slot, bool]]:
        """The test with the event's slot, and whether it is one of the least value, else of the greatest; or both."""
        test = Test(self.comparator, self._side, self._other)
        if self.comparator not in (Comparator.GT, Comparator.GE) or self.is_rising is None:
            yield test, self.own, self.is_rising is not False
        if self.comparator not in (Comparator.LT, Comparator.LE) or self.is_rising is None:
            yield test, self.own, self.is_rising is False

    def compared_with(self, values: Mapping[int, Array]) -> Array:
        """The values that the event's side is compared with."""
        return self._evaluated(self._other, values)

    @property
    def is_plain(self) -> bool:
        """True if the event's side is its value."""
        return self._side == self.own

    def _evaluated(self, term: Term, values: Mapping[int, Array]) -> Array:
        return _evaluated(term, values, self._constants)


def _evaluated(term: Term, values: Mapping[int, Array], constants: Sequence[float]) -> Array:
    match term:
        case Slot(_, slot):
            return values[slot]
        case Constant(index):
            return np.asarray(constants[index], np.float64)
        case Operation(operator, operands):
            terms = [_evaluated(operand, values, constants) for operand in operands]
            with np.errstate(all="ignore"):
                return np.asarray(_OPERATIONS[operator](*terms))


_Moving = tuple[bool, Array | Term, Array | Term]


@dataclass(frozen=True)
class _Stream:
    """One way in which an event may reject the partial matches of a run.

    Attributes
    ----------
    fixed
        The tests that do not read the last event.
    moving
        Up to two that do, `<` or `<=`, with the event that is searched on the left: each side as the column of one
        level, or as a term. Of two tests the first one has a column on its left.
    exact
        Whether the first of two is an equality.
    """

    fixed: tuple[TestedConjunct, ...]
    moving: tuple[_Moving, ...]
    exact: bool


class _Running:
    """A search for partial matches that differ in their last event alone, by what is noted on the way.

    Parameters
    ----------
    forward
        Whether the ranges of a run begin at one place; else they end there.
    edges
        Further bounds by the last event: the column of its rows.
    """

    def __init__(
        self, shape: Shape, arguments: Arguments, forward: bool, streams: Sequence[_Stream], edges: Sequence[Slot]
    ) -> None:
        self._shape, self._arguments, self._forward, self._edges = shape, arguments, forward, edges
        size = arguments.sizes[-1]
        self._rows = arguments.rows[-1][:size].astype(np.float64)
        self._selected, self._noted = np.empty(size + WIDTH, np.int32), np.empty(size)
        self._prepared = [self._prepare(stream) for stream in streams]

    @classmethod
    def of(cls, shape: Shape, arguments: Arguments) -> _Running | None:
        """The search; None where it cannot be done so."""
        own, current = shape.prefix, shape.prefix - 1
        if shape.prefix < 2 or shape.search is not RangeResult.FIRST:
            return None
        rows = arguments.rows[own][: arguments.sizes[own]]
        fixed: list[TestedConjunct] = []
        columns = list(arguments.columns)
        edges: list[tuple[bool, Slot]] = []
        choices: list[list[Alternative]] = []
        for conjunct in shape.levels[-1].tests:
            if not any(_reads(test, current) for alternative in conjunct for test in alternative):
                fixed += _by_columns(conjunct, arguments, own, columns)
                continue
            match conjunct:
                case ((Test(Comparator.LT | Comparator.GE as comparator, Slot() as left, Slot() as right),),) if (
                    left.level == own and np.array_equal(arguments.columns[left.slot][: len(rows)], rows)
                ):
                    edges.append((comparator is Comparator.LT, right))
                case _:
                    choices.append([found for alternative in conjunct for found in _simpler(alternative, own, current)])
        shape, arguments = replace(shape, slots=len(columns)), replace(arguments, columns=tuple(columns))
        streams = []
        if math.prod(map(len, choices)) > MOST_STREAMS:
            return None
        for chosen in product(*choices):
            tests = [test for alternative in chosen for test in alternative]
            stream = _stream([test for test in tests if _reads(test, current)], arguments, own, current)
            if stream is None:
                return None
            others = [((test,),) for test in tests if not _reads(test, current)]
            streams.append(replace(stream, fixed=(*fixed, *others)))
        for forward, ends in ((True, arguments.lows), (False, arguments.highs)):
            bounded = all(level != current for _, level in ends) and all(upper is forward for upper, _ in edges)
            if bounded and len(edges) <= at.MOST_EDGES:
                return cls(shape, arguments, forward, streams, [slot for _, slot in edges])
        return None

    def any(self, prefix: Array) -> Array:
        """bool: whether an event of the range of each row of the prefix passes."""
        prefix = np.ascontiguousarray(prefix, np.int32)
        found = np.zeros(prefix.shape[1], np.bool_)
        reaches = np.empty(prefix.shape[1], np.int32)
        for words, arguments, prefix_place, _ in self._prepared:
            arguments[prefix_place : prefix_place + len(prefix)] = [row.ctypes.data for row in prefix]
            words[at.FOUND], words[at.REACHES], words[at.ROWS] = found.ctypes.data, reaches.ctypes.data, len(found)
            words[at.NEXT] = 0
            while words[at.NEXT] < len(found):
                go_on()
                words[at.NEXT] = _search_runs(words)
        return found

    def _prepare(self, stream: _Stream) -> tuple[Array, Array, int, list[Array]]:
        """The words of a search, those of its arguments and where the prefix begins in these, and all arrays."""
        levels = self._shape.levels
        shape = replace(self._shape, levels=(*levels[:-1], replace(levels[-1], tests=stream.fixed)))
        program, arguments = program_of(shape), data_words(shape, self._arguments)
        words = np.zeros(at.WORDS, np.int64)
        kept = [program.words, arguments]
        deepest = 1

        def keep(array: Array, dtype: type) -> int:
            kept.append(np.ascontiguousarray(array, dtype))
            return int(kept[-1].ctypes.data)

        for number, (strict, *sides) in enumerate(stream.moving):
            begin = at.FIRST_TEST + number * at.TEST_WORDS
            words[begin + at.STRICT] = strict
            for side, place in zip(sides, (at.LEFT, at.RIGHT), strict=True):
                if isinstance(side, np.ndarray):
                    words[begin + place] = keep(side, np.float64)
                else:
                    term = term_words(shape, side)
                    deepest = max(deepest, len(term))
                    words[begin + place + 1], words[begin + place + 2] = keep(term, np.int64), len(term)
        if len(stream.moving) == 2:
            strict, values, limits = stream.moving[0]
            assert isinstance(values, np.ndarray)
            known = np.unique(values[values == values])
            ranks = np.searchsorted(known, values) + 1
            words[at.RANKS] = keep(np.where(values == values, ranks, 0), np.int32)
            if isinstance(limits, np.ndarray):
                passing = np.searchsorted(known, limits, "left" if strict else "right")
                passes = limits == limits
                if stream.exact:
                    passes = np.append(np.nan, known)[passing] == limits
                words[at.LIMITS] = keep(np.where(passes, passing, 0), np.int32)
            words[at.SORTED], words[at.SORTED_SIZE] = keep(known, np.float64), len(known)
            words[at.TREE] = keep(np.full(len(known) + 1, np.nan), np.float64)
        for number, edge in enumerate(self._edges):
            begin = at.FIRST_EDGE + number * at.EDGE_WORDS
            words[begin + at.EDGE_ROWS] = self._rows.ctypes.data
            words[begin + at.EDGE_VALUES] = self._arguments.columns[edge.slot].ctypes.data
        words[at.ARGUMENTS], words[at.PROGRAM] = arguments.ctypes.data, program.words.ctypes.data
        words[at.FRAME] = keep(np.zeros(program.frame_size + deepest), np.int64)
        words[at.MOST_WORK], words[at.FORWARD], words[at.TESTS] = EVENTS_A_CALL, self._forward, len(stream.moving)
        words[at.SELECTED], words[at.NOTED] = self._selected.ctypes.data, self._noted.ctypes.data
        words[at.EDGES], words[at.EXACT] = len(self._edges), stream.exact
        return words, arguments, argument_places(shape)["prefix"], kept


def _reads(test: Test, level: int) -> bool:
    """Return whether a test reads the event of a level."""
    return any(slot.level == level for side in (test.left, test.right) for slot in slots_of(side))


def _stream(tests: Sequence[Test], arguments: Arguments, own: int, current: int) -> _Stream | None:
    """The tests of the last event as those of a stream; None where it cannot be searched so."""
    read = [_moving(test, arguments, own, current) for test in tests]
    moving = [test for test in read if test is not None]
    if len(moving) < len(tests):
        return None
    equal = [place for place, test in enumerate(tests) if test.comparator is Comparator.EQ]
    if equal and len(moving) == 1:  # any event with the value
        moving.append((True, np.zeros(arguments.sizes[own]), np.ones(arguments.sizes[current])))
    if equal:
        moving.insert(0, moving.pop(equal[0]))
    else:
        moving.sort(key=lambda test: not isinstance(test[1], np.ndarray))
    if len(equal) > 1 or len(moving) > 2 or (len(moving) == 2 and not isinstance(moving[0][1], np.ndarray)):
        return None
    return _Stream((), tuple(moving), bool(equal))


def _simpler(alternative: Alternative, own: int, level: int) -> list[Alternative]:
    """The same as alternatives whose tests of a level are `<`, `<=`, `>` and `>=`, and of no magnitude."""
    return [
        tuple(test for chosen in chosen_tests for test in chosen)
        for chosen_tests in product(*(_parts(test, own) if _reads(test, level) else [(test,)] for test in alternative))
    ]


def _parts(test: Test, own: int) -> list[Alternative]:
    comparator, left, right = test.comparator, test.left, test.right
    match test:
        case Test(Comparator.EQ):
            sides = [{slot.level for slot in slots_of(side)} for side in (left, right)]
            if {own} in sides and sum(own in side for side in sides) == 1:
                return [(test,)]
            return [(Test(Comparator.LE, left, right), Test(Comparator.GE, left, right))]
        case Test(Comparator.NE):
            return [(Test(Comparator.LT, left, right),), (Test(Comparator.GT, left, right),)]
        case Test(_, _, Operation("abs")) if not (isinstance(left, Operation) and left.operator == "abs"):
            return _parts(Test(comparator.mirror, right, left), own)
        case Test(_, Operation("abs", (inner,))):
            beyond = Test(comparator.mirror, inner, Operation("negative", (right,)))
            within = Test(comparator, inner, right)
            return [(within, beyond)] if comparator in _UPPER else [(within,), (beyond,)]
    return [(test,)]


def _moving(test: Test, arguments: Arguments, own: int, current: int) -> tuple[bool, Array | Term, Array | Term] | None:
    """A test of the last event as `<` or `<=`, with the event that is searched on the left; None where it is not so."""
    levels = [{slot.level for slot in slots_of(side)} for side in (test.left, test.right)]
    if own in levels[1]:
        test, levels = Test(test.comparator.mirror, test.right, test.left), levels[::-1]
    strict = test.comparator in (Comparator.LT, Comparator.GT)
    if own not in levels[0] or own in levels[1]:
        return None
    if current in levels[0]:
        if test.comparator is Comparator.EQ:
            return None
        return _by_rank(test, arguments, own, current) if levels[0] | levels[1] == {own, current} else None

    def turned(side: Term, level: int) -> Array | Term:
        falls = test.comparator in _LOWER
        if {slot.level for slot in slots_of(side)} == {level}:
            values = _evaluated(side, _columns_of(side, arguments), arguments.constants)
            return -values if falls else values
        return Operation("negative", (side,)) if falls else side

    return strict, turned(test.left, own), turned(test.right, current)


def _by_columns(conjunct: TestedConjunct, arguments: Arguments, own: int, columns: list[Array]) -> list[TestedConjunct]:
    """The conjunct, where it can be as tests that compare columns: of ranks, which are added, with those that pass."""
    if len(conjunct) > 1:
        return [conjunct]
    found: list[TestedConjunct] = []
    for test in conjunct[0]:
        parts = _parts(test, own) if test.comparator in _COMPARE else [(test,)]
        for part in parts[0] if len(parts) == 1 else (test,):
            levels = {slot.level for side in (part.left, part.right) for slot in slots_of(side)}
            is_plain = part.left in _slots_in(part.left) or part.right in _slots_in(part.right)
            by_rank = None
            if len(levels) == 2 and own in levels and part.comparator in _COMPARE and not is_plain:
                (other,) = levels - {own}
                by_rank = _by_rank(part, arguments, own, other)
            if by_rank is not None:
                strict, ranks, limits = by_rank
                slots = Slot(own, len(columns)), Slot(other, len(columns) + 1)
                columns += [ranks, limits]
                part = Test(Comparator.LT if strict else Comparator.LE, *slots)
            found.append(((part,),))
    return found


def _columns_of(term: Term, arguments: Arguments) -> dict[int, Array]:
    """The columns of a term by slot, without their padding."""
    return {slot.slot: arguments.columns[slot.slot][: arguments.sizes[slot.level]] for slot in slots_of(term)}


def _by_rank(test: Test, arguments: Arguments, own: int, current: int) -> tuple[bool, Array, Array] | None:
    """A test with both events on one side as one of ranks: those that pass are the first ones, or the last ones."""
    compared = _compared(test, own, arguments)
    if compared is None or compared.is_rising is None:
        return None
    values = arguments.columns[compared.own.slot][: arguments.sizes[own]]
    known = np.unique(values[values == values])
    others = {}
    for slot in compared.others:
        others[slot.slot] = arguments.columns[slot.slot][: arguments.sizes[current]]
    first = (compared.comparator in _UPPER) == compared.is_rising
    low, high = np.zeros(arguments.sizes[current], np.int64), np.full(arguments.sizes[current], len(known))
    while (open_ := low < high).any():  # what passes ends, or begins, between them
        middle = (low + high) >> 1
        passes = compared.holds(known[np.minimum(middle, len(known) - 1)], others)
        low, high = (
            np.where(open_ & (passes == first), middle + 1, low),
            np.where(open_ & (passes != first), middle, high),
        )
    ranks = np.where(values == values, np.searchsorted(known, values), np.nan)
    return (True, ranks, low.astype(np.float64)) if first else (False, -ranks, -low.astype(np.float64))


class _SortedBlocks:
    """Aligned blocks of each power of two, sorted by one test's value, with extremes of the other one's from each on.

    Parameters
    ----------
    first, second
        The tests; the first one compares the event's value alone, by size.
    values, others
        Their columns.
    """

    def __init__(self, first: _Compared, second: _Compared, values: Array, others: Array, powers: int) -> None:
        self._first, self._second, self._size = first, second, len(values)
        self._sign = 1.0 if first.comparator in (Comparator.GT, Comparator.GE) else -1.0
        values = self._sign * values
        unknown = np.isnan(values)
        self._sorted = np.unique(values[~unknown])
        ranks = np.searchsorted(self._sorted, values)
        others = np.where(unknown, np.nan, others)
        places = np.arange(self._size)
        self._keys, self._least, self._greatest = [], [], []
        for power in range(powers):
            keys = (places >> power) * (self._size + 1) + ranks
            order = np.argsort(keys, kind="stable")
            self._keys.append(keys[order])
            self._least.append(_suffixes(others[order], power, np.fmin))
            self._greatest.append(_suffixes(others[order], power, np.fmax))

    def found(self, lows: Array, highs: Array, values: dict[int, Array], *, forward: bool) -> Array:
        """int32: the first or last place of each range that passes, or -1."""
        limit = self._sign * self._first.compared_with(values) + np.zeros(len(lows))
        strict = self._first.comparator in (Comparator.GT, Comparator.LT)
        ranks = np.searchsorted(self._sorted, limit, "right" if strict else "left")
        best = np.full(len(lows), -1, np.int64)  # where the block begins that holds the place
        power_of = np.zeros(len(lows), np.int64)
        low, high = lows.copy(), np.maximum(highs, lows)
        for power in range(len(self._keys)):
            for side, ends in ((low, low), (high, high - 1)):
                odd = np.flatnonzero((low < high) & (side & 1 == 1))
                blocks = ends[odd]
                hit = self._passes(power, blocks, ranks[odd], {slot: value[odd] for slot, value in values.items()})
                which, start = odd[hit], blocks[hit] << power
                nearer = (best[which] < 0) | ((start < best[which]) if forward else (start > best[which]))
                best[which[nearer]], power_of[which[nearer]] = start[nearer], power
                side[odd] += 1 if side is low else -1
            low >>= 1
            high >>= 1
        for power in reversed(range(len(self._keys) - 1)):
            which = np.flatnonzero((best >= 0) & (power_of > power))
            children = (best[which] >> power) + (0 if forward else 1)
            inside = np.flatnonzero(children << power < self._size)
            some = {slot: value[which[inside]] for slot, value in values.items()}
            hit = np.zeros(len(which), np.bool_)
            hit[inside] = self._passes(power, children[inside], ranks[which[inside]], some)
            best[which] = (children + np.where(hit, 0, 1 if forward else -1)) << power
        return best.astype(np.int32)

    def _passes(self, power: int, blocks: Array, ranks: Array, values: Mapping[int, Array]) -> Array:
        at = np.searchsorted(self._keys[power], blocks * (self._size + 1) + ranks)
        inside = at < np.minimum((blocks + 1) << power, self._size)
        at = np.minimum(at, self._size - 1)
        passes: Array = inside & self._second.may((self._least[power][at], self._greatest[power][at]), values)
        return passes


def _sorting(tests: Sequence[_BlockTest]) -> tuple[_Compared, _Compared] | None:
    """Two tests that decide together, the one that sorts first; None where there are more or others."""
    parts = [part for test in tests for alternative in test.alternatives for part in alternative]
    if len(parts) != 2 or any(len(test.alternatives) != 1 for test in tests):
        return None
    for first, second in (parts, parts[::-1]):
        if first.is_plain and first.comparator in _COMPARE and second.comparator is not Comparator.EQ:
            return first, second
    return None


def _suffixes(values: Array, power: int, extreme: np.ufunc) -> Array:
    """The extreme of the values of each aligned block from each place on; NaN where there is none."""
    width = 1 << power
    padded = np.full(-(-len(values) // width) * width, np.nan)
    padded[: len(values)] = values
    turned = padded.reshape(-1, width)[:, ::-1]
    suffixes: Array = np.ascontiguousarray(extreme.accumulate(turned, axis=1)[:, ::-1])
    return suffixes.reshape(-1)[: len(values)]


def _quotient(left: Array, right: Array) -> Array:
    """The quotient, which has no value where the divisor is zero."""
    return np.where(right == 0.0, np.nan, np.divide(left, right))


_OPERATIONS: dict[str, Callable[..., Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": _quotient,
    "negative": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
}


def has_room(numbers: int) -> bool:
    """Return whether blocks of so many numbers fit in memory; sorted ones take twice as much beside them."""
    size = numbers * 8
    if size > MOST_BYTES or size <= SMALL:
        return size <= MOST_BYTES
    available = available_bytes()
    return available is None or size <= available / 4


def _blocked(conjunct: TestedConjunct, last: int, arguments: Arguments) -> _BlockTest | None:
    alternatives = []
    for alternative in conjunct:
        tests = [_compared(test, last, arguments) for test in alternative]
        known = [test for test in tests if test is not None]
        if len(known) < len(tests):
            return None
        alternatives.append(known)
    return _BlockTest(alternatives)


def _compared(test: Test, last: int, arguments: Arguments) -> _Compared | None:
    """The test as one of blocks; None where the least and the greatest value of a column do not decide it."""
    for comparator, side, other in (
        (test.comparator, test.left, test.right),
        (test.comparator.mirror, test.right, test.left),
    ):
        own = [slot for slot in _slots_in(side) if slot.level == last]
        if len(own) != 1 or any(slot.level == last for slot in slots_of(other)):
            continue
        if isinstance(side, Operation) and not _is_monotone(side, own[0], arguments):
            continue
        return _Compared(comparator, side, other, own[0], arguments.constants)
    return None


def _slots_in(term: Term) -> list[Slot]:
    """The slots of a term, each as often as it stands there."""
    if isinstance(term, Slot):
        return [term]
    return [slot for operand in term.operands for slot in _slots_in(operand)] if isinstance(term, Operation) else []


def _is_monotone(term: Operation, own: Slot, arguments: Arguments) -> bool:
    """Return whether a term only rises or only falls with the event's value, whatever the other values."""
    above = _operators_above(term, own)
    if above <= {"+", "-", "negative"} and _is_safe(term, own, arguments):
        return True
    return above <= {"+", "-", "negative", "*", "/"} and _magnitude(term, arguments) <= _SAFE


def _operators_above(term: Term, own: Slot) -> set[str]:
    """The operators above the event's slot; a division by it is `by`."""
    if not isinstance(term, Operation):
        return set()
    place = next(place for place, operand in enumerate(term.operands) if own in slots_of(operand))
    return {"by" if term.operator == "/" and place else term.operator} | _operators_above(term.operands[place], own)


def _is_rising(term: Term, own: Slot) -> bool | None:
    """Return whether a monotone term grows with the event's value; None for a product, where a sign decides."""
    if not isinstance(term, Operation):
        return True
    if _operators_above(term, own) & {"*", "/"}:
        return None
    place = next(place for place, operand in enumerate(term.operands) if own in slots_of(operand))
    falls = term.operator == "negative" or (term.operator == "-" and place == 1)
    return _is_rising(term.operands[place], own) != falls


def _magnitude(term: Term, arguments: Arguments) -> float:
    """A limit of the magnitude of a term and all its parts for all events; infinite where there may be none."""
    match term:
        case Slot(level, slot):
            values = np.abs(arguments.columns[slot][: arguments.sizes[level]])
            return float(np.fmax.reduce(values, initial=0.0))
        case Constant(index):
            return abs(arguments.constants[index])
        case Operation(operator, operands):
            parts = [_magnitude(operand, arguments) for operand in operands]
            if not all(part <= _SAFE for part in parts):
                return math.inf
            match operator:
                case "+" | "-":
                    parts.append(sum(parts))
                case "*":
                    parts.append(math.prod(parts))
                case "/":
                    least = _least_divisor(operands[1], arguments)
                    parts.append(parts[0] / least if least else math.inf)
                case "sqrt":
                    parts.append(1.0)
            return max(parts)


def _least_divisor(term: Term, arguments: Arguments) -> float:
    """The least magnitude of a divisor, 0 where it is computed; a quotient by zero has no value, and counts not."""
    match term:
        case Slot(level, slot):
            values = np.abs(arguments.columns[slot][: arguments.sizes[level]])
            return float(np.fmin.reduce(values, where=values > 0.0, initial=math.inf))
        case Constant(index):
            return abs(arguments.constants[index]) or math.inf
        case _:
            return 0.0


def _is_safe(term: Term, own: Slot, arguments: Arguments) -> bool:
    """Return whether no sum of the event's side overflows or has no value for some events only.

    An infinite value of another event makes the sum infinite, or without value, for all values of the event alike.
    """
    if any(isinstance(operand, Operation) and own not in slots_of(operand) for operand in _operands(term)):
        return False  # what it computes may be of any magnitude
    for slot in slots_of(term):
        values = np.abs(arguments.columns[slot.slot][: arguments.sizes[slot.level]])
        infinite = np.isinf(values)
        if (slot == own and infinite.any()) or (values[~infinite] > _SAFE).any():
            return False
    return all(abs(value) <= _SAFE or value != value for value in arguments.constants)


def _operands(term: Term) -> list[Term]:
    if not isinstance(term, Operation):
        return []
    return [part for operand in term.operands for part in (operand, *_operands(operand))]


def blocks_of(values: Array, powers: int, extreme: np.ufunc) -> Array:
    """float64, shape (powers, n): the extreme of the 2^p values from each place on; NaN where there is none."""
    count = len(values)
    blocks = np.full((powers, count), np.nan)
    blocks[0] = values
    for power in range(1, powers):
        half = 1 << (power - 1)
        whole = count - 2 * half + 1
        extreme(blocks[power - 1, :whole], blocks[power - 1, half : half + whole], out=blocks[power, :whole])
    return blocks


def _powers_of(widths: Array) -> Array:
    """The largest power of two that is at most each width, as an exponent; widths are positive."""
    return np.frexp(widths.astype(np.float64))[1].astype(np.int64) - 1
