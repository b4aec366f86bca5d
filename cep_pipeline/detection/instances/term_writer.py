"""Terms as postfix words for the interpreter (`terms.py`), each operation of `TERM_WORDS` words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from cep_pipeline.detection.instances import codes
from cep_pipeline.detection.instances.event_columns import (
    REAL,
    WHOLE,
    ColumnRead,
    EventOf,
    StringRanks,
    column_of,
    event_of,
    events_of,
    known_of,
    lists_for_correlation,
    reading,
)
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.local_time import local_clock
from cep_pipeline.patterns.conditions import Atom
from cep_pipeline.patterns.expressions import (
    Aggregate,
    Arithmetic,
    Call,
    Element,
    Expression,
    Length,
    Literal,
    Negative,
    Reference,
    ValueType,
)
from cep_pipeline.patterns.structure import EventType
from cep_pipeline.slices.prepared import PreparedEvents

_WHOLE = {"+": codes.WHOLE_PLUS, "-": codes.WHOLE_MINUS, "*": codes.WHOLE_TIMES, "%": codes.WHOLE_MODULO}
_REAL = {
    "+": codes.REAL_PLUS,
    "-": codes.REAL_MINUS,
    "*": codes.REAL_TIMES,
    "/": codes.REAL_DIVIDE,
    "%": codes.REAL_MODULO,
}
_ACCUMULATORS = {
    ("count", True): codes.ONLY_COUNT,
    ("count", False): codes.ONLY_COUNT,
    ("sum", True): codes.SUM_WHOLES,
    ("avg", True): codes.SUM_WHOLES,
    ("min", True): codes.LEAST_WHOLE,
    ("max", True): codes.GREATEST_WHOLE,
    ("sum", False): codes.SUM_REALS,
    ("avg", False): codes.SUM_REALS,
    ("min", False): codes.LEAST_REAL,
    ("max", False): codes.GREATEST_REAL,
    ("stddev", True): codes.DISTANCES_OF_WHOLES,
    ("stddev", False): codes.DISTANCES_OF_REALS,
}
_READS = {
    ("count", True): codes.COUNT,
    ("count", False): codes.COUNT,
    ("sum", True): codes.WHOLE_SUM,
    ("avg", True): codes.WHOLE_AVERAGE,
    ("min", True): codes.WHOLE_EXTREME,
    ("max", True): codes.WHOLE_EXTREME,
    ("sum", False): codes.REAL_SUM,
    ("avg", False): codes.REAL_AVERAGE,
    ("min", False): codes.REAL_EXTREME,
    ("max", False): codes.REAL_EXTREME,
    ("stddev", True): codes.STANDARD_DEVIATION,
    ("stddev", False): codes.STANDARD_DEVIATION,
}


_CHOICES = {
    ("least", True): codes.LEAST_OF_WHOLES,
    ("greatest", True): codes.GREATEST_OF_WHOLES,
    ("least", False): codes.LEAST_OF_REALS,
    ("greatest", False): codes.GREATEST_OF_REALS,
}


@dataclass
class Accumulators:
    """The running aggregates that the cells of each variable keep, and how many words of a cell they take."""

    entries: dict[EventType, list[list[int]]] = field(default_factory=dict)
    whole_words: int = 0
    real_words: int = 0
    _places: dict[tuple[EventType, str, int], tuple[int, int]] = field(default_factory=dict)
    _used: dict[EventType, tuple[int, int]] = field(default_factory=dict)

    def place(self, variable: EventType, attribute: str, kind: int, values: int, known: int) -> tuple[int, int]:
        """The place in a cell of the count and the value of an aggregate."""
        key = variable, attribute, kind
        if key not in self._places:
            wholes, reals = self._used.get(variable, (0, 0))
            count, wholes = wholes, wholes + 1
            value = 0
            if kind == codes.SUM_WHOLES:
                value, wholes = wholes, wholes + 2
            elif kind in (codes.LEAST_WHOLE, codes.GREATEST_WHOLE):
                value, wholes = wholes, wholes + 1
            elif kind == codes.DISTANCES_OF_WHOLES:
                wholes, value, reals = wholes + 1, reals, reals + 2
            elif kind == codes.DISTANCES_OF_REALS:
                value, reals = reals, reals + 3
            elif kind != codes.ONLY_COUNT:
                value, reals = reals, reals + 1
            self._used[variable] = wholes, reals
            self.whole_words, self.real_words = max(self.whole_words, wholes), max(self.real_words, reals)
            self.entries.setdefault(variable, []).append([kind, values, known, count, value])
            self._places[key] = count, value
        return self._places[key]

    def of(self, variable: str, attribute: str, function: str, *, whole: bool) -> tuple[int, int, int] | None:
        """The kind of an aggregate and where a cell keeps its count and its value; None where no conjunct reads it."""
        kind = _ACCUMULATORS[function, whole]
        place = self._places.get((variable, attribute, kind))
        return None if place is None else (kind, *place)


class CommonTerms:
    """The parts that programs of several clauses share when they read the cells of one ring.

    Parameters
    ----------
    events
        The slice.
    atoms
        All atoms of all clauses that compare values of several events.

    Attributes
    ----------
    accumulators
        By event type: cells of a type's lists sum up what any of the clauses reads.
    counts
        int64[1]: tests of a conjunct on an instance, of all clauses together.
    """

    def __init__(self, events: PreparedEvents, atoms: Sequence[Atom]) -> None:
        self.accumulators = Accumulators()
        self.counts: Array = np.zeros(1, np.int64)
        self._events, self._atoms = events, list(atoms)

    @cached_property
    def strings(self) -> StringRanks:
        """Ranks of all strings that the clauses compare."""
        return StringRanks(self._events, self._atoms)


class TermWriter:
    """Writes the terms of one clause over the events of one slice.

    Parameters
    ----------
    numbers
        Variable -> its slot.
    atoms
        All atoms that are written.
    common, event_types
        What other clauses have in common with this one, and the event type of each variable; without that, cells are
        this clause's alone, by variable.

    Attributes
    ----------
    wholes, reals
        The constants.
    registers, depth
        How many registers and values on a stack the terms need.
    accumulators
        What cells sum up.
    """

    def __init__(
        self,
        events: PreparedEvents,
        numbers: dict[str, int],
        atoms: list[Atom],
        common: CommonTerms | None = None,
        event_types: Mapping[str, EventType] | None = None,
    ) -> None:
        self.events, self.numbers = events, numbers
        self._common, self._event_types = common, event_types or {}
        self.wholes: list[int] = []
        self.reals: list[float] = []
        self.registers = len(numbers)
        self.depth = 1
        self.accumulators = Accumulators() if common is None else common.accumulators
        self._atoms = atoms
        self._kept: list[Array] = []
        self._sources: dict[EventOf | str, int] = {}
        self._loads: dict[int, tuple[int, int]] = {}

    @cached_property
    def strings(self) -> StringRanks:
        """Ranks of all strings that the clause compares."""
        return StringRanks(self.events, self._atoms) if self._common is None else self._common.strings

    def address(self, read: ColumnRead) -> int:
        """The address of an array over the events, 0 if there is none; the array lives as long as the writer."""
        array, address = read.bind(self.events)
        if array is not None:
            self._kept.append(array)
        return address

    def address_of(self, array: Array) -> int:
        """The address of an array, which lives as long as the writer."""
        assert array.flags.c_contiguous
        self._kept.append(array)
        return int(array.ctypes.data)

    # --- events --------------------------------------------------------------------------------------------------

    def register(self, event: EventOf) -> int:
        """The register of an event's row."""
        if event not in self._sources:
            variable, element = event
            number = self.numbers[variable]
            if element is Element.ONLY:
                self._sources[event] = number
                self._loads[number] = number, codes.SLOT
            else:
                how = codes.FIRST if element is Element.FIRST else codes.NEWEST
                self._sources[event] = self.registers
                self._loads[self.registers] = number, how
                self.registers += 1
        return self._sources[event]

    def _cell(self, node: Aggregate | Length) -> int:
        """The register of the cell that a length or an aggregate reads."""
        if isinstance(node, Aggregate) and node.prefix:
            return self._sources[node.variable]
        number = self.numbers[node.variable]
        self._loads[number] = number, codes.SLOT
        return number

    # --- terms ---------------------------------------------------------------------------------------------------

    def value(self, expression: Expression, place: int, *, nulls: bool = False) -> list[int]:
        """A postfix term of a number, a string's rank or a bool; with `nulls` it also says whether that is null."""
        if expression.type is ValueType.STRING:
            return self.string(expression, place, nulls=nulls)
        if expression.type is ValueType.BOOL:
            return self._boolean(expression, place, nulls=nulls)
        return self.number(expression, place, nulls=nulls)

    def number(self, expression: Expression, place: int, real: bool = False, nulls: bool = False) -> list[int]:
        """A postfix term of a number.

        Parameters
        ----------
        place
            How many values are on the stacks before it.
        real
            Whether an int64 is wanted as float64.
        nulls
            Whether it also says of a float64 if it is null, which NaN alone does not tell.
        """
        self.depth = max(self.depth, place + 1)
        convert = operation(codes.TO_REAL) if real and expression.type is WHOLE else []
        events = events_of(expression)
        if events is not None and len(events) <= 1 and not isinstance(expression, Literal):
            if events:
                [event] = events
                if real or expression.type is REAL:
                    column, register = self.address(reading("reals", expression)), self.register(event)
                    read = operation(codes.REAL_COLUMN, column, register)
                    if nulls:
                        read += operation(codes.NULL_COLUMN, self.address(reading("known", expression)), register)
                    return read
                values, mask = self.address(reading("wholes", expression)), self.address(reading("known", expression))
                return operation(codes.WHOLE_COLUMN, values, self.register(event), mask)
            return self._constant(expression, nulls=nulls) + convert
        match expression:
            case Literal():
                return self._constant(expression, nulls=nulls) + convert
            case Length():
                return operation(codes.LENGTH, self._cell(expression)) + convert
            case Aggregate():
                return self._aggregate(expression, nulls=nulls) + convert
            case Negative(operand):
                code = codes.WHOLE_NEGATIVE if expression.type is WHOLE else codes.REAL_NEGATIVE
                return self.number(operand, place, nulls=nulls) + operation(code) + convert
            case Arithmetic(operator, left, right):
                if expression.type is WHOLE:
                    terms = self.number(left, place) + self.number(right, place + 1)
                    return terms + operation(_WHOLE[operator]) + convert
                terms = self.number(left, place, True, nulls) + self.number(right, place + 1, True, nulls)
                if nulls:
                    terms += operation(codes.NULL_DIVISION if operator in "/%" else codes.NULL_EITHER)
                return terms + operation(_REAL[operator])
            case Call():
                return self._call(expression, place, nulls=nulls) + convert
            case _:
                raise TypeError(f"{expression!r} is no number of the language")

    def _call(self, call: Call, place: int, *, nulls: bool) -> list[int]:
        """A postfix term of a function that gives a number."""
        match call:
            case Call("corr", (Reference() | Aggregate() as x, Reference() | Aggregate() as y)):
                correlated = operation(codes.CORRELATION, *self._list(x), *self._list(y))
                return correlated + (operation(codes.NULL_NAN) if nulls else [])
            case Call("abs", (operand,)):
                code = codes.WHOLE_ABSOLUTE if call.type is WHOLE else codes.REAL_ABSOLUTE
                return self.number(operand, place, nulls=nulls) + operation(code)
            case Call("sqrt" | "ln" as function, (operand,)):
                root = function == "sqrt"
                term = self.number(operand, place, True, nulls)
                if nulls:
                    term += operation(codes.NULL_ROOT if root else codes.NULL_LOGARITHM)
                return term + operation(codes.ROOT if root else codes.LOGARITHM)
            case Call("time_of_day" | "day_of_week" as function, (operand,), _, str() as zone):
                clock = local_clock(zone)
                code = codes.TIME_OF_DAY if function == "time_of_day" else codes.DAY_OF_WEEK
                changes, offsets = self.address_of(clock.changes), self.address_of(clock.offsets)
                return self.number(operand, place) + operation(code, changes, len(clock.changes), offsets)
            case _:
                return self._choice(call, place, lambda one, at: self.number(one, at, call.type is REAL, True))

    def _choice(self, call: Call, place: int, argument: Callable[[Expression, int], list[int]]) -> list[int]:
        """A postfix term of `least`, `greatest` or `coalesce`, whose arguments say whether they are null."""
        code = codes.COALESCE
        if call.function != "coalesce":
            code = _CHOICES[call.function, call.type is WHOLE]
        first, *others = call.arguments
        term = argument(first, place)
        for other in others:
            term += argument(other, place + 1) + operation(code)
        return term

    def _constant(self, expression: Expression, *, nulls: bool = False) -> list[int]:
        column = column_of(self.events, expression)
        known = column.valid is None or bool(column.valid[0])
        if column.type is WHOLE:
            return operation(codes.WHOLE_CONSTANT, self.whole(int(column.values[0])), 0 if known else 1)
        term = operation(codes.REAL_CONSTANT, self.real(float(column.values[0]) if known else float("nan")))
        return term + (operation(codes.NULL_CONSTANT, int(not known)) if nulls else [])

    def whole(self, value: int) -> int:
        """The place of a constant."""
        self.wholes.append(value)
        return len(self.wholes) - 1

    def real(self, value: float) -> int:
        """The place of a constant."""
        self.reals.append(value)
        return len(self.reals) - 1

    def _aggregate(self, node: Aggregate, *, nulls: bool = False) -> list[int]:
        column = self.events.column(node.attribute)
        whole = column.type is WHOLE
        key = node.function, whole
        known = known_of(column)
        values = 0
        if node.function == "median":
            values = self.address_of(np.ascontiguousarray(column.values))
            code = codes.MEDIAN_OF_WHOLES if whole else codes.MEDIAN_OF_REALS
            return operation(code, self._cell(node), values, 0 if known is None else self.address_of(known))
        if column.type is ValueType.STRING and node.function != "count":
            values = self.address_of(self.strings.column(node.attribute))
        elif node.function != "count":
            values = self.address_of(np.ascontiguousarray(column.values))
        mask = 0 if known is None else self.address_of(known)
        kind = _ACCUMULATORS[key]
        lists = self._event_types.get(node.variable, node.variable)
        count, value = self.accumulators.place(lists, node.attribute, kind, values, mask)
        term = operation(_READS[key], self._cell(node), count, value, self._places_of(values, mask, kind))
        if nulls and node.type is not WHOLE and node.function != "stddev":
            term += operation(codes.NULL_COUNT, self._cell(node), count, 1)
        return term

    def _places_of(self, values: int, known: int, kind: int) -> int:
        """The place among the constants of an aggregate's column; -1 where its cells are enough to compute it."""
        if kind != codes.DISTANCES_OF_REALS:
            return -1
        self.wholes += [values, known]
        return len(self.wholes) - 2

    def string(self, expression: Expression, place: int, *, nulls: bool = False) -> list[int]:
        """A postfix term of a string's rank."""
        self.depth = max(self.depth, place + 1)
        is_null = operation(codes.NULL_NAN) if nulls else []
        match expression:
            case Literal(value):
                return operation(codes.REAL_CONSTANT, self.real(self.strings.place[str(value)])) + is_null
            case Reference() | Aggregate():
                event = event_of(expression)
                if event is None:
                    assert isinstance(expression, Aggregate)
                    return self._aggregate(expression) + is_null
                ranks = self.address_of(self.strings.column(expression.attribute))
                return operation(codes.REAL_COLUMN, ranks, self.register(event)) + is_null
            case Call("least" | "greatest" | "coalesce"):
                return self._choice(expression, place, partial(self.string, nulls=True))
            case _:
                raise TypeError(f"{expression!r} is no string of the language")

    def _boolean(self, expression: Expression, place: int, *, nulls: bool = False) -> list[int]:
        """A postfix term of a bool as a real, 0 or 1."""
        self.depth = max(self.depth, place + 1)
        events = events_of(expression)
        if isinstance(expression, Call) and events is not None and len(events) > 1:
            return self._choice(expression, place, partial(self._boolean, nulls=True))
        if events:
            [event] = events
            term = operation(codes.REAL_COLUMN, self.address(reading("reals", expression)), self.register(event))
        else:
            column = column_of(self.events, expression)
            known = column.valid is None or bool(column.valid[0])
            term = operation(codes.REAL_CONSTANT, self.real(float(column.values[0]) if known else float("nan")))
        return term + (operation(codes.NULL_NAN) if nulls else [])

    def _list(self, node: Reference | Aggregate) -> tuple[int, int]:
        """The place of a list attribute's column among the constants, and its register."""
        event = event_of(node)
        assert event is not None
        begin = len(self.wholes)
        self.wholes += [self.address_of(part) for part in lists_for_correlation(self.events, node.attribute)]
        return begin, self.register(event)


def operation(code: int, *operands: int) -> list[int]:
    """The words of an operation."""
    return [code, *operands, *[0] * (codes.TERM_WORDS - 1 - len(operands))]
