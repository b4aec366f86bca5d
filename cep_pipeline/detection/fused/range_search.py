"""Searches of ranges for an event that passes a test, which hardly depend on how wide ranges are.

The compiled search of a range reads it up to the first event that passes. Where few pass, that takes as long as the
range is wide. One comparison in whose side the event stands once, in sums, differences, products and quotients, is
decided by the least and the greatest value of a range. Rounding keeps the order of numbers, so that the extremes decide
the test for all values between, with the same arithmetic. They are kept of all blocks of 1, 2, 4, ... events (a sparse
table), of which two make up any range.

Bender and Farach-Colton: The LCA Problem Revisited. LATIN 2000, section 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce

import numpy as np

from cep_pipeline.detection.fused.constraints import TestColumns
from cep_pipeline.detection.fused.kernel import Arguments
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
from cep_pipeline.detection.limits import go_on
from cep_pipeline.detection.room import SMALL, available_bytes
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Comparator
from cep_pipeline.slices.views import View

ROWS_AT_ONCE = 1 << 17
"""Partial matches that are searched by blocks in one call, which cannot be interrupted."""
MOST_BYTES = 1 << 28
"""Largest size of what one search notes of events; above it, or where memory is short, ranges are read."""
_SAFE = 2.0**1000
"""Sums of numbers up to this magnitude do not overflow."""
_COMPARED: Mapping[Comparator, Callable[[Array, Array], Array]] = {
    Comparator.LT: np.less,
    Comparator.LE: np.less_equal,
    Comparator.GT: np.greater,
    Comparator.GE: np.greater_equal,
    Comparator.EQ: np.equal,
    Comparator.NE: lambda left, right: (left < right) | (left > right),  # false where one is NaN
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
        owned=False,
        as_rows=False,
        search=search,
    )


def _ranges(arguments: Arguments, prefix: Array) -> tuple[Array, Array]:
    """int64: where the ranges of partial matches begin and end."""
    lows, highs = (
        [ends.take(prefix[place]) for (_, place), ends in sides.items()] for sides in (arguments.lows, arguments.highs)
    )
    return reduce(np.maximum, lows).astype(np.int64), reduce(np.minimum, highs).astype(np.int64)


class BlockSearch:
    """A search of the last level's ranges by the least and the greatest values of blocks of events.

    Parameters
    ----------
    tests
        As `extreme_tests` has them.
    """

    def __init__(self, tests: Sequence[tuple[Test, Slot, bool]], arguments: Arguments) -> None:
        self._tests, self._arguments = tests, arguments
        size = arguments.sizes[-1]
        self._blocks = {(own, least): [arguments.columns[own.slot][:size]] for _, own, least in tests}

    @classmethod
    def of(cls, conjunct: TestedConjunct, arguments: Arguments) -> BlockSearch | None:
        """The search for an event that passes a conjunct; None where extremes do not decide it, or memory is short."""
        tests, size = extreme_tests(conjunct, arguments), arguments.sizes[-1]
        if tests is None or not has_room(len(tests) * size * size.bit_length()):
            return None
        return cls(tests, arguments)

    def any(self, prefix: Array) -> Array:
        """bool, shape (n,): whether an event of the range passes, for each row of the prefix."""
        found = np.zeros(prefix.shape[1], np.bool_)
        for begin in range(0, len(found), ROWS_AT_ONCE):
            go_on()
            rows = prefix[:, begin : begin + ROWS_AT_ONCE]
            lows, highs = _ranges(self._arguments, rows)
            powers = np.frexp(np.maximum(highs - lows, 0))[1] - 1  # of the largest block in each range; -1: it is empty
            for power in range(int(powers.max(initial=-1)) + 1):
                asked = np.flatnonzero(powers == power)
                of = rows[:, asked]
                passes = self._passes(power, lows[asked], of)
                passes |= self._passes(power, highs[asked] - (1 << power), of)
                found[begin + asked[passes]] = True
        return found

    def _passes(self, power: int, at: Array, rows: Array) -> Array:
        """Return for each partial match whether an event of the block of 2**power from a place on passes."""
        found = np.zeros(len(at), np.bool_)
        for test, own, least in self._tests:
            extremes = self._extremes(own, power, least=least)[at]
            with np.errstate(all="ignore"):
                sides = (self._values(side, extremes, rows) for side in (test.left, test.right))
                found |= _COMPARED[test.comparator](*sides)
        return found

    def _extremes(self, own: Slot, power: int, *, least: bool) -> Array:
        blocks = self._blocks[own, least]
        while len(blocks) <= power:
            half, before = 1 << (len(blocks) - 1), blocks[-1]
            blocks.append((np.fmin if least else np.fmax)(before[:-half], before[half:]))
        return blocks[power]

    def _values(self, term: Term, extremes: Array, rows: Array) -> Array:
        match term:
            case Slot(level, slot):
                return extremes if level == len(rows) else self._arguments.columns[slot][rows[level]]
            case Constant(index):
                return np.asarray(self._arguments.constants[index])
            case Operation(operator, operands):
                one, *others = (self._values(operand, extremes, rows) for operand in operands)
                return _computed(operator, one, *others)


def _computed(operator: str, one: Array, *others: Array) -> Array:
    """The results of an operation, as compiled code has them."""
    match operator:
        case "+":
            return one + others[0]
        case "-":
            return one - others[0]
        case "*":
            return one * others[0]
        case "/":
            return np.where(others[0] == 0.0, np.nan, one / others[0])
        case "negative":
            return -one
        case "abs":
            return np.abs(one)
        case "sqrt":
            return np.sqrt(one)
    raise AssertionError(operator)


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
