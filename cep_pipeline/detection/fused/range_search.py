"""Searches of ranges for an event that passes tests, in time that hardly depends on how long the ranges are.

The compiled search of a range reads it up to the first event that passes. That is the fastest way to search short
ranges, and those where many events pass. Where few pass, it reads everything, and the work grows with the window. Then
the ranges of many partial matches are searched together, by sweeping over the events or by groups (`grouped_search`).
Whether that takes less is told by a sample of the partial matches.

Here is also which test the least and the greatest value of a range decide: one in whose side the event stands once, in
sums, differences, products and quotients. Rounding keeps the order of numbers, so that the extremes decide the test for
all values between, with the same arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, reduce

import numpy as np

from cep_pipeline.detection.fused.constraints import TestColumns
from cep_pipeline.detection.fused.grouped_search import GroupedSearch, SweptSearch, both_move, is_swept, slots_in
from cep_pipeline.detection.fused.kernel import Arguments, search_places
from cep_pipeline.detection.fused.programs import ShapeProgram
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
from cep_pipeline.detection.room import SMALL, available_bytes
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Comparator
from cep_pipeline.slices.views import View

FEWEST_EVENTS = 1 << 9
"""Number of events up to which ranges are read and not searched."""
FEWEST_ROWS = 8
"""Partial matches that differ in their last event alone, for a search of them together to pay."""
SAMPLED = 256
"""Partial matches that are searched by reading to see how far that reads."""
SAMPLED_AGAIN = 1 << 19
"""Partial matches after which another sample is taken."""
READ_NS, READ_EVENT_NS = 10.0, 0.06
"""Nanoseconds of a search by reading: for each range, and each event that is read."""
RUN_NS, EVENT_NS, MATCH_NS = 800.0, 1.5, 12.0
"""Nanoseconds of a search by groups: for each run, each event of its range, and each match."""
SWEPT_RUN_NS, SWEPT_EVENT_NS, SWEPT_MATCH_NS = 100.0, 1.5, 2.0
"""Nanoseconds of a search by sweeping: for the same."""
PREPARED_NS, ORDER_NS = 400_000.0, 100.0
"""Nanoseconds of preparing a search by groups, and of putting one event in order for it."""
MOST_BYTES = 1 << 28
"""Largest size of what one search notes of events; above it, or where memory is short, ranges are read."""
_SAFE = 2.0**1000
"""Sums of numbers up to this magnitude do not overflow."""


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


def _number_of_changes(prefix: Array) -> int:
    """The number of columns of a table that differ from the one before them."""
    differ = prefix[:, 1:] != prefix[:, :-1]
    return int(np.count_nonzero(differ[0] if len(differ) == 1 else differ.any(axis=0)))


class EventSearch:
    """A search of the last level's ranges, by reading them or together, whichever takes less.

    Parameters
    ----------
    shape
        It searches for the first event, or the last one, behind a prefix of all other levels.
    program
        That of the shape, where it is at hand.
    """

    def __init__(self, shape: Shape, arguments: Arguments, program: ShapeProgram | None = None) -> None:
        self.shape, self.arguments, self._program = shape, arguments, program
        self._asked = 0
        self._sample: tuple[float, float] | None = None
        self._to_read_ns = 0.0
        self._grouped: GroupedSearch | None = None
        self._swept: SweptSearch | None = None

    def any(self, prefix: Array) -> Array:
        """bool, shape (n,): whether an event of the range passes the tests, for each row of the prefix."""
        if not self._are_together(prefix, sweeps=self._is_swept):
            return self._read(prefix) >= 0
        return self._swept_search().any(prefix) if self._is_swept else self._grouped_search().any(prefix)

    def places(self, prefix: Array) -> Array:
        """int32, shape (n,): the first or last place that passes the tests for each row of the prefix, or -1."""
        if not self._are_together(prefix, sweeps=False):
            return self._read(prefix)
        return self._grouped_search().places(prefix)

    def _read(self, prefix: Array) -> Array:
        return search_places(self.shape, self.arguments, prefix, self._program)

    def _are_together(self, prefix: Array, *, sweeps: bool) -> bool:
        """Return whether all ranges are to be searched together, or else read."""
        count, size = prefix.shape[1], self.arguments.sizes[-1]
        if size <= FEWEST_EVENTS or not count:
            return False
        runs = 1 + _number_of_changes(prefix[:-1])
        if count < FEWEST_ROWS * runs:
            return False
        self._asked += count
        if self._sample is None or self._asked > SAMPLED_AGAIN:
            self._asked, self._sample = 0, self._read_sample(prefix)
        reading_ns, width = self._sample
        others = self.arguments.sizes[self.shape.prefix - 1]
        run_ns, event_ns, match_ns = (
            (SWEPT_RUN_NS, SWEPT_EVENT_NS, SWEPT_MATCH_NS) if sweeps else (RUN_NS, EVENT_NS, MATCH_NS)
        )
        in_run = count / runs
        looked_at = min(width * in_run, width + size * in_run / others) if self._moves else width
        if reading_ns * in_run < run_ns + event_ns * looked_at + match_ns * in_run:
            return False
        if sweeps or self._grouped is not None:
            return True
        self._to_read_ns += reading_ns * count
        if self._to_read_ns < PREPARED_NS + ORDER_NS * (size + others):
            return False
        return has_room(2 * (slots_in(self.shape) + 2) * (size + others))

    def _grouped_search(self) -> GroupedSearch:
        if self._grouped is None:
            assert self._sample is not None
            self._grouped = GroupedSearch(self.shape, self.arguments, self._sample[1])
        return self._grouped

    def _swept_search(self) -> SweptSearch:
        if self._swept is None:
            self._swept = SweptSearch(self.shape, self.arguments)
        return self._swept

    @cached_property
    def _is_swept(self) -> bool:
        return is_swept(self.shape, self.arguments)

    @cached_property
    def _moves(self) -> bool:
        return both_move(self.shape, self.arguments)

    def _read_sample(self, prefix: Array) -> tuple[float, float]:
        """The mean time in ns to read a range up to an event that passes, and its mean width, by a sample."""
        sample = prefix[:, np.linspace(0, prefix.shape[1] - 1, min(prefix.shape[1], SAMPLED)).astype(np.int64)]
        lows, highs = self._ranges(sample)
        places = self._read(sample)
        widths = np.maximum(highs - lows, 0)
        begin = lows if self.shape.search is RangeResult.FIRST else highs - 1
        read = np.where(places < 0, widths, np.abs(places - begin) + 1)
        return READ_NS + READ_EVENT_NS * float(read.mean()), float(widths.mean())

    def _ranges(self, prefix: Array) -> tuple[Array, Array]:
        """int64: where the ranges begin and end."""
        lows, highs = (
            [ends.take(prefix[place]) for (_, place), ends in sides.items()]
            for sides in (self.arguments.lows, self.arguments.highs)
        )
        return reduce(np.maximum, lows).astype(np.int64), reduce(np.minimum, highs).astype(np.int64)


def extreme_tests(conjunct: TestedConjunct, arguments: Arguments) -> list[tuple[Test, Slot, bool]] | None:
    """The tests that say whether a range holds an event that passes a conjunct: one of them holds for an extreme value.

    Returns
    -------
    list of tuple, or None
        The test, with the event's side on the left; the event's slot in it; and whether it holds for the least value of
        the range, or else the greatest. None where extremes do not decide.
    """
    found: list[tuple[Test, Slot, bool]] = []
    for alternative in conjunct:
        compared = _compared(alternative[0], len(arguments.sizes) - 1, arguments) if len(alternative) == 1 else None
        if compared is None or compared.test.comparator is Comparator.EQ:
            return None
        found += compared.of_extremes()
    return found


def equality_test(conjunct: TestedConjunct, arguments: Arguments) -> tuple[Test, Slot] | None:
    """The conjunct as one equality, with the event's value alone on the left, and its slot; None for others."""
    match conjunct:
        case ((Test(Comparator.EQ) as test,),):
            compared = _compared(test, len(arguments.sizes) - 1, arguments)
            if compared is not None and compared.test.left == compared.own:
                return compared.test, compared.own
    return None


class _Compared:
    """One test of an event of the last level: its side, which has the event's slot once, and what that compares with.

    Attributes
    ----------
    test
        With the event's side on the left.
    is_rising
        Whether the side grows with the event's value; None: a sign decides.
    """

    def __init__(self, comparator: Comparator, side: Term, other: Term, own: Slot) -> None:
        self.test, self.own, self.is_rising = Test(comparator, side, other), own, _is_rising(side, own)

    def of_extremes(self) -> Iterator[tuple[Test, Slot, bool]]:
        """The test with the event's slot, and whether it is one of the least value, else of the greatest; or both."""
        if self.test.comparator not in (Comparator.GT, Comparator.GE) or self.is_rising is None:
            yield self.test, self.own, self.is_rising is not False
        if self.test.comparator not in (Comparator.LT, Comparator.LE) or self.is_rising is None:
            yield self.test, self.own, self.is_rising is False


def has_room(numbers: int) -> bool:
    """Return whether so many numbers of blocks fit in memory."""
    size = numbers * 8
    if size > MOST_BYTES or size <= SMALL:
        return size <= MOST_BYTES
    available = available_bytes()
    return available is None or size <= available / 4


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
        return _Compared(comparator, side, other, own[0])
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
