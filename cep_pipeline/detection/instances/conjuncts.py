"""Conjuncts as words for the interpreter: every construct of the language, exactly as `evaluate.py` computes it.

A conjunct is written as the number of its loads and of its choosers, the loads (register, variable, how), the choosers,
the number of its alternatives, and for each the place behind it, the number of its tests and the tests. A load fills a
register from a slot; a chooser goes through the elements or indexes of a list. A test is of `TEST_WORDS` words, behind
which the postfix terms stand that it compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cep_pipeline.detection.columns import Array
from cep_pipeline.detection.comparison import members_of
from cep_pipeline.detection.instances import codes
from cep_pipeline.detection.instances.event_columns import (
    REAL,
    WHOLE,
    EventOf,
    StringRanks,
    column_of,
    comparable_columns,
    event_of,
    events_of,
    known_of,
    lists_for_correlation,
    reals_of,
    truths_as_reals,
    truths_of,
)
from cep_pipeline.detection.kleene.lists import Uses
from cep_pipeline.detection.prepared import PreparedEvents
from cep_pipeline.patterns.conditions import Atom, Between, Comparator, Comparison, Conjunct, Membership
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

COMPARATORS = {
    Comparator.LT: codes.LESS,
    Comparator.LE: codes.LESS_EQUAL,
    Comparator.GT: codes.GREATER,
    Comparator.GE: codes.GREATER_EQUAL,
    Comparator.EQ: codes.EQUAL,
    Comparator.NE: codes.UNEQUAL,
}
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
}


@dataclass(frozen=True)
class Chooser:
    """What is chosen of a Kleene variable: an element, or an index from 2."""

    variable: str
    kind: int


@dataclass(frozen=True, eq=False)
class CompiledConjunct:
    """A conjunct and where its words begin.

    Attributes
    ----------
    conjunct, uses
        The conjunct, and how it uses Kleene variables.
    begin
        Its place in the words.
    choosers
        In the order of the words.
    rows
        If it is one comparison of two columns at two events: comparator, and column and event of both sides.
    """

    conjunct: Conjunct
    uses: Uses
    begin: int
    choosers: tuple[Chooser, ...]
    rows: tuple[int, int, EventOf, int, EventOf] | None


@dataclass
class Accumulators:
    """The running aggregates that the cells of each variable keep, and how many words of a cell they take."""

    entries: dict[str, list[list[int]]] = field(default_factory=dict)
    whole_words: int = 0
    real_words: int = 0
    _places: dict[tuple[str, str, int], tuple[int, int]] = field(default_factory=dict)
    _used: dict[str, tuple[int, int]] = field(default_factory=dict)

    def place(self, variable: str, attribute: str, kind: int, values: int, known: int) -> tuple[int, int]:
        """Where a cell keeps the count and the value of an aggregate."""
        key = variable, attribute, kind
        if key not in self._places:
            wholes, reals = self._used.get(variable, (0, 0))
            count, wholes = wholes, wholes + 1
            value = 0
            if kind == codes.SUM_WHOLES:
                value, wholes = wholes, wholes + 2
            elif kind in (codes.LEAST_WHOLE, codes.GREATEST_WHOLE):
                value, wholes = wholes, wholes + 1
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


class ConjunctWriter:
    """Writes the conjuncts of one clause over the events of one slice.

    Parameters
    ----------
    numbers
        Variable -> its slot.
    atoms
        All atoms of the clause.
    """

    def __init__(self, events: PreparedEvents, numbers: dict[str, int], atoms: list[Atom]) -> None:
        self.events, self.numbers = events, numbers
        self.words: list[int] = []
        self.wholes: list[int] = []
        self.reals: list[float] = []
        self.registers = len(numbers)
        self.choosers = 0
        self.depth = 1
        self.accumulators = Accumulators()
        self.kept: list[Array] = []
        self._strings = StringRanks(events, atoms)
        self._sources: dict[EventOf | str, int] = {}
        self._loads: dict[int, tuple[int, int]] = {}
        self._rows: tuple[int, int, EventOf, int, EventOf] | None = None

    def address(self, array: Array) -> int:
        """Where an array's data are; the array lives as long as the writer."""
        assert array.flags.c_contiguous
        self.kept.append(array)
        return int(array.ctypes.data)

    def write(self, conjunct: Conjunct) -> CompiledConjunct:
        """Write a conjunct that mentions a variable."""
        uses = Uses.of(conjunct)
        chosen = [Chooser(name, codes.ELEMENT) for name in uses.elements]
        chosen += [Chooser(name, codes.INDEX) for name in uses.indexes]
        self._sources, self._loads = {}, {}
        choosing: list[int] = []
        for chooser in chosen:
            number = self.numbers[chooser.variable]
            if chooser.kind == codes.ELEMENT:
                self._sources[chooser.variable, Element.EACH] = self.registers
                choosing += [number, codes.ELEMENT, self.registers, 0, 0]
                self.registers += 1
            else:
                self._sources[chooser.variable, Element.CURRENT] = self.registers
                self._sources[chooser.variable, Element.PREVIOUS] = self.registers + 1
                self._sources[chooser.variable] = self.registers + 2
                choosing += [number, codes.INDEX, self.registers, self.registers + 1, self.registers + 2]
                self.registers += 3
        self.choosers = max(self.choosers, len(chosen))
        self._rows = None
        alternatives = [tests for atom in conjunct.atoms for tests in self._alternatives(atom)]
        begin = len(self.words)
        self.words += [len(self._loads), len(chosen)]
        for register, (number, how) in self._loads.items():
            self.words += [register, number, how]
        self.words += choosing
        self.words.append(len(alternatives))
        for tests in alternatives:
            head = len(self.words)
            self.words += [0, len(tests)]
            for test in tests:
                self._write_test(test)
            self.words[head] = len(self.words)
        single = len(alternatives) == 1 and len(alternatives[0]) == 1
        return CompiledConjunct(conjunct, uses, begin, tuple(chosen), self._rows if single else None)

    def _write_test(self, test: _Test) -> None:
        at = len(self.words)
        self.words += [test.kind, 0, test.comparator, *test.operands, *[0] * (4 - len(test.operands))]
        for term in test.terms:
            self.words += term
        self.words[at + 1] = len(self.words)

    # --- atoms ---------------------------------------------------------------------------------------------------

    def _alternatives(self, atom: Atom) -> list[list[_Test]]:
        """The alternatives of an atom, each a list of tests that must all hold; none where it never holds."""
        match atom:
            case Comparison(_, left, right):
                events = events_of(left, right)
            case Membership(expression):
                events = events_of(expression)
            case Between(expression, low, high):
                events = events_of(expression, low, high)
        if events is not None and len(events) <= 1:
            return self._truth(atom, events)
        match atom:
            case Comparison(comparator, left, right):
                return [[self._comparison(comparator, left, right)]]
            case Between(expression, low, high, negated):
                ends = (Comparator.LT, Comparator.GT) if negated else (Comparator.GE, Comparator.LE)
                tests = [self._comparison(end, expression, side) for end, side in zip(ends, (low, high), strict=True)]
                return [[tests[0]], [tests[1]]] if negated else [tests]
            case Membership():
                return self._membership(atom)

    def _truth(self, atom: Atom, events: set[EventOf]) -> list[list[_Test]]:
        """An atom that one event decides, or none."""
        truths = truths_of(self.events, atom)
        if not events:
            return [[]] if truths.all() else []
        [event] = events
        place = self.address(truths_as_reals(self.events, atom))
        self._rows = codes.EQUAL, place, event, place, event
        return [[_Test(codes.TRUTH, codes.EQUAL, (self.address(truths), self._register(event)))]]

    def _comparison(self, comparator: Comparator, left: Expression, right: Expression) -> _Test:
        code = COMPARATORS[comparator]
        lefts, rights = events_of(left), events_of(right)
        if lefts is not None and rights is not None and len(lefts) == len(rights) == 1:
            columns = [self.address(column) for column in comparable_columns(self.events, left, right)]
            [one], [other] = lefts, rights
            self._rows = code, columns[0], one, columns[1], other
            return _Test(codes.COMPARE_ROWS, code, (columns[0], self._register(one), columns[1], self._register(other)))
        if left.type is ValueType.STRING:
            return _Test(codes.COMPARE_REALS, code, (), (self._string(left, 0), self._string(right, 1)))
        if left.type is ValueType.BOOL:  # only in BETWEEN, which the language refuses of bools
            raise TypeError("bools of two events are compared as columns")
        terms = (self._number(left, 0), self._number(right, 1))
        kinds = {
            (REAL, REAL): codes.COMPARE_REALS,
            (WHOLE, WHOLE): codes.COMPARE_WHOLES,
            (WHOLE, REAL): codes.COMPARE_WHOLE_REAL,
            (REAL, WHOLE): codes.COMPARE_REAL_WHOLE,
        }
        return _Test(kinds[left.type, right.type], code, (), terms)

    def _membership(self, atom: Membership) -> list[list[_Test]]:
        if atom.negated and any(isinstance(value, float) and value != value for value in atom.values):
            return []
        code = codes.UNEQUAL if atom.negated else codes.EQUAL
        if atom.expression.type is ValueType.STRING:
            ranks = sorted({self._strings.place[value] for value in atom.values if isinstance(value, str)})
            return [[self._among_reals(code, ranks, self._string(atom.expression, 0))]]
        numbers = np.unique(members_of(atom.expression.type, atom.values))
        if atom.expression.type is REAL:
            known = numbers[~np.isnan(numbers)].tolist()
            return [[self._among_reals(code, known, self._number(atom.expression, 0))]]
        low = len(self.wholes)
        self.wholes += numbers.tolist()
        term = self._number(atom.expression, 0)
        return [[_Test(codes.AMONG_WHOLES, code, (low, low + len(numbers)), (term,))]]

    def _among_reals(self, code: int, values: list[float], term: list[int]) -> _Test:
        low = len(self.reals)
        self.reals += values
        return _Test(codes.AMONG_REALS, code, (low, low + len(values)), (term,))

    # --- events --------------------------------------------------------------------------------------------------

    def _register(self, event: EventOf) -> int:
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

    def _number(self, expression: Expression, place: int, real: bool = False) -> list[int]:
        """A postfix term of a number.

        Parameters
        ----------
        place
            How many values are on the stacks before it.
        real
            Whether an int64 is wanted as float64.
        """
        self.depth = max(self.depth, place + 1)
        convert = _operation(codes.TO_REAL) if real and expression.type is WHOLE else []
        events = events_of(expression)
        if events is not None and len(events) <= 1 and not isinstance(expression, Literal):
            if events:
                [event] = events
                if real or expression.type is REAL:
                    column = self.address(reals_of(self.events, expression))
                    return _operation(codes.REAL_COLUMN, column, self._register(event))
                return self._whole_column(expression, event)
            return self._constant(expression) + convert
        match expression:
            case Literal():
                return self._constant(expression) + convert
            case Length():
                return _operation(codes.LENGTH, self._cell(expression)) + convert
            case Aggregate():
                return self._aggregate(expression) + convert
            case Negative(operand):
                code = codes.WHOLE_NEGATIVE if expression.type is WHOLE else codes.REAL_NEGATIVE
                return self._number(operand, place) + _operation(code) + convert
            case Arithmetic(operator, left, right):
                if expression.type is WHOLE:
                    terms = self._number(left, place) + self._number(right, place + 1)
                    return terms + _operation(_WHOLE[operator]) + convert
                terms = self._number(left, place, real=True) + self._number(right, place + 1, real=True)
                return terms + _operation(_REAL[operator])
            case Call("corr", (Reference() | Aggregate() as x, Reference() | Aggregate() as y)):
                return _operation(codes.CORRELATION, *self._list(x), *self._list(y))
            case Call("abs", (operand,)):
                code = codes.WHOLE_ABSOLUTE if expression.type is WHOLE else codes.REAL_ABSOLUTE
                return self._number(operand, place) + _operation(code) + convert
            case Call("sqrt" | "ln" as function, (operand,)):
                code = codes.ROOT if function == "sqrt" else codes.LOGARITHM
                return self._number(operand, place, real=True) + _operation(code)
            case _:
                raise TypeError(f"{expression!r} is no number of the language")

    def _constant(self, expression: Expression) -> list[int]:
        column = column_of(self.events, expression)
        known = column.valid is None or bool(column.valid[0])
        if column.type is WHOLE:
            self.wholes.append(int(column.values[0]))
            return _operation(codes.WHOLE_CONSTANT, len(self.wholes) - 1, 0 if known else 1)
        self.reals.append(float(column.values[0]) if known else float("nan"))
        return _operation(codes.REAL_CONSTANT, len(self.reals) - 1)

    def _whole_column(self, expression: Expression, event: EventOf) -> list[int]:
        column = column_of(self.events, expression)
        known = known_of(column)
        values = self.address(np.ascontiguousarray(column.values))
        mask = 0 if known is None else self.address(known)
        return _operation(codes.WHOLE_COLUMN, values, self._register(event), mask)

    def _aggregate(self, node: Aggregate) -> list[int]:
        column = self.events.column(node.attribute)
        whole = column.type is WHOLE
        key = node.function, whole
        known = known_of(column)
        values = 0
        if column.type is ValueType.STRING and node.function != "count":
            values = self.address(self._strings.column(node.attribute))
        elif node.function != "count":
            values = self.address(np.ascontiguousarray(column.values))
        mask = 0 if known is None else self.address(known)
        kind = _ACCUMULATORS[key]
        count, value = self.accumulators.place(node.variable, node.attribute, kind, values, mask)
        return _operation(_READS[key], self._cell(node), count, value)

    def _string(self, expression: Expression, place: int) -> list[int]:
        """A postfix term of a string's rank."""
        self.depth = max(self.depth, place + 1)
        match expression:
            case Literal(value):
                self.reals.append(self._strings.place[str(value)])
                return _operation(codes.REAL_CONSTANT, len(self.reals) - 1)
            case Reference() | Aggregate():
                event = event_of(expression)
                if event is None:
                    assert isinstance(expression, Aggregate)
                    return self._aggregate(expression)
                ranks = self.address(self._strings.column(expression.attribute))
                return _operation(codes.REAL_COLUMN, ranks, self._register(event))
            case _:
                raise TypeError(f"{expression!r} is no string of the language")

    def _list(self, node: Reference | Aggregate) -> tuple[int, int]:
        """Where the column of a list attribute is described among the constants, and its register."""
        event = event_of(node)
        assert event is not None
        begin = len(self.wholes)
        self.wholes += [self.address(part) for part in lists_for_correlation(self.events, node.attribute)]
        return begin, self._register(event)


@dataclass(frozen=True)
class _Test:
    """A test: kind, comparator, up to four words, and the terms that it compares."""

    kind: int
    comparator: int
    operands: tuple[int, ...]
    terms: Sequence[list[int]] = ()


def _operation(code: int, *operands: int) -> list[int]:
    return [code, *operands, *[0] * (codes.TERM_WORDS - 1 - len(operands))]
