"""The program of a clause's conditions as words for the evaluator: every construct of the language, exactly.

What one event decides is computed for all events of the slice beforehand. What is left are comparisons of such columns,
and terms over several events and lists.

A conjunct is written as the number of its loads and of its choosers, the loads (register, variable, how), the choosers,
the number of its alternatives, and for each the place behind it, the number of its tests and the tests. A load fills a
register from a slot; a chooser goes through the elements or indexes of a list. A test is of `TEST_WORDS` words, behind
which the two postfix terms stand that it compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from cep_pipeline.compiled.native import address
from cep_pipeline.detection.conditions import codes
from cep_pipeline.detection.conditions.groups import ClauseConditions, of_any_event
from cep_pipeline.expressions.arithmetic import deviations_of_all
from cep_pipeline.expressions.columns import Array, Column
from cep_pipeline.expressions.comparison import like_expression, members_of
from cep_pipeline.expressions.evaluate import expression_values
from cep_pipeline.expressions.local_time import local_clock
from cep_pipeline.patterns.conditions import (
    Atom,
    Between,
    Comparator,
    Comparison,
    Like,
    Membership,
    NullTest,
    Truth,
    Value,
    expressions_of,
)
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
    walk,
)
from cep_pipeline.patterns.structure import EventType
from cep_pipeline.slices.keys import comparable, is_exact
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import ANY_EVENT, atom_holds_for_all

WHOLE, REAL, STRING = ValueType.INT64, ValueType.FLOAT64, ValueType.STRING
COMPARATORS = {
    Comparator.LT: codes.LESS,
    Comparator.LE: codes.LESS_EQUAL,
    Comparator.GT: codes.GREATER,
    Comparator.GE: codes.GREATER_EQUAL,
    Comparator.EQ: codes.EQUAL,
    Comparator.NE: codes.UNEQUAL,
}
OPERATIONS = {
    ("+", WHOLE): codes.WHOLE_PLUS,
    ("-", WHOLE): codes.WHOLE_MINUS,
    ("*", WHOLE): codes.WHOLE_TIMES,
    ("%", WHOLE): codes.WHOLE_MODULO,
    ("+", REAL): codes.REAL_PLUS,
    ("-", REAL): codes.REAL_MINUS,
    ("*", REAL): codes.REAL_TIMES,
    ("/", REAL): codes.REAL_DIVIDE,
    ("%", REAL): codes.REAL_MODULO,
    ("negative", WHOLE): codes.WHOLE_NEGATIVE,
    ("negative", REAL): codes.REAL_NEGATIVE,
    ("abs", WHOLE): codes.WHOLE_ABSOLUTE,
    ("abs", REAL): codes.REAL_ABSOLUTE,
    ("sqrt", REAL): codes.ROOT,
    ("ln", REAL): codes.LOGARITHM,
    ("least", WHOLE): codes.LEAST_OF_WHOLES,
    ("greatest", WHOLE): codes.GREATEST_OF_WHOLES,
}
_CHOICES = {"coalesce": codes.COALESCE, "least": codes.LEAST_OF_REALS, "greatest": codes.GREATEST_OF_REALS}
_AGGREGATES = {
    ("count", True): (codes.ONLY_COUNT, codes.COUNT),
    ("count", False): (codes.ONLY_COUNT, codes.COUNT),
    ("sum", True): (codes.SUM_WHOLES, codes.WHOLE_SUM),
    ("avg", True): (codes.SUM_WHOLES, codes.WHOLE_AVERAGE),
    ("min", True): (codes.LEAST_WHOLE, codes.WHOLE_EXTREME),
    ("max", True): (codes.GREATEST_WHOLE, codes.WHOLE_EXTREME),
    ("sum", False): (codes.SUM_REALS, codes.REAL_OF_CELL),
    ("avg", False): (codes.SUM_REALS, codes.REAL_AVERAGE),
    ("min", False): (codes.LEAST_REAL, codes.REAL_OF_CELL),
    ("max", False): (codes.GREATEST_REAL, codes.REAL_OF_CELL),
    ("stddev", True): (codes.DISTANCES_OF_WHOLES, codes.STANDARD_DEVIATION),
    ("stddev", False): (codes.DISTANCES_OF_REALS, codes.STANDARD_DEVIATION),
}
"""By function and whether the values are whole: the accumulator, and the operation that reads it."""
_CELL_WORDS = {codes.ONLY_COUNT: 1, codes.SUM_WHOLES: 3, codes.DISTANCES_OF_WHOLES: 4, codes.DISTANCES_OF_REALS: 4}
"""The words of a cell that an accumulator takes, where they are not two."""

EventOf = tuple[str, Element]
"""A variable, and which of its events."""
_ENDS = {"first": Element.FIRST, "last": Element.LAST}
_HOWS = {Element.ONLY: codes.SLOT, Element.FIRST: codes.FIRST, Element.PREVIOUS: codes.PREVIOUS}
"""The ways in which a slot gives an event, but for the newest element of a list."""
Rows = tuple[int, int, EventOf, int, EventOf]
"""A comparison of two columns at two events: comparator, and column and event of both sides."""
Test = tuple[int, int, Sequence[int]]
"""Kind, comparator, and the terms."""


def event_of(node: Reference | Aggregate) -> EventOf | None:
    """The one event that a reference (or `first`, `last`) reads; None for aggregates over several."""
    if isinstance(node, Reference):
        return node.variable, node.element
    return (node.variable, _ENDS[node.function]) if node.function in _ENDS else None


def events_of(*expressions: Expression) -> set[EventOf] | None:
    """The events that decide expressions; None where the length of a list or an aggregate does, too."""
    found: set[EventOf] = set()
    for expression in expressions:
        for node in walk(expression):
            if isinstance(node, Length):
                return None
            if isinstance(node, Reference | Aggregate):
                event = event_of(node)
                if event is None:
                    return None
                found.add(event)
    return found


def column_of(events: PreparedEvents, expression: Expression) -> Column:
    """The value of an expression over one event for each event of the slice; of a constant, a column of one row."""
    own = of_any_event(expression)
    if isinstance(own, Reference):
        return events.column(own.attribute)
    if not any(isinstance(node, Reference) for node in walk(own)):
        return expression_values(own, events, {ANY_EVENT: np.zeros(1, np.int32)})
    everything = range(len(events))
    return events.derive(("values of all", own), lambda: expression_values(own, events, {ANY_EVENT: everything}))


def reals_of(events: PreparedEvents, expression: Expression) -> Array:
    """A number or bool as float64, rounded where it must be, NaN where it is null."""
    column = column_of(events, expression)

    def make() -> Array:
        values = np.ascontiguousarray(column.values, np.float64)
        return values if column.valid is None else np.where(column.valid, values, np.nan)

    return events.derive(("reals of all", of_any_event(expression)), make)


def comparable_columns(events: PreparedEvents, left: Expression, right: Expression) -> tuple[Array, Array]:
    """Return both sides of a comparison as float64 that compare as they do, NaN where they are unknown."""
    columns = [column_of(events, side) for side in (left, right)]
    if all(map(is_exact, columns)):
        return reals_of(events, left), reals_of(events, right)
    key = ("comparable of all", of_any_event(left), of_any_event(right))
    one, other = events.derive(key, lambda: tuple(comparable(columns)))
    return one, other


class StringRanks:
    """Ranks of all strings that conditions may compare, in one order: float64, NaN for null."""

    def __init__(self, events: PreparedEvents, atoms: Sequence[Atom]) -> None:
        self.events = events
        texts: set[str] = set()
        for atom in atoms:
            if isinstance(atom, Membership):
                texts.update(value for value in atom.values if isinstance(value, str))
            for node in (node for side in expressions_of(atom) for node in walk(side)):
                if isinstance(node, Literal) and isinstance(node.value, str):
                    texts.add(node.value)
                elif isinstance(node, Reference | Aggregate):
                    dictionary = events.column(node.attribute).dictionary
                    texts.update(() if dictionary is None else dictionary)
        self.place = {text: float(rank) for rank, text in enumerate(sorted(texts))}
        self._columns: dict[str, Array] = {}

    def column(self, attribute: str) -> Array:
        """The ranks of an attribute for all events."""
        if attribute not in self._columns:
            column = self.events.column(attribute)
            assert column.dictionary is not None
            ranks = np.array([*(self.place[text] for text in column.dictionary), np.nan])
            values = ranks[column.values] if len(column.dictionary) else np.full(len(column), np.nan)
            if column.valid is not None:
                values = np.where(column.valid, values, np.nan)
            self._columns[attribute] = values
        return self._columns[attribute]


@dataclass
class Accumulators:
    """The running aggregates that the cells of lists keep, by the type of the elements: `ACCUMULATOR_WORDS` of each.

    Attributes
    ----------
    words
        The words of a cell.
    """

    entries: dict[EventType, dict[tuple[str, int], list[int]]] = field(default_factory=dict)
    words: int = 0

    def place(self, of: EventType, attribute: str, kind: int, values: int, known: int) -> int:
        """The place in a cell of an aggregate's words, given the addresses of its column."""
        own = self.entries.setdefault(of, {})
        if (attribute, kind) not in own:
            begin, size = sum(entry[4] for entry in own.values()), _CELL_WORDS.get(kind, 2)
            own[attribute, kind] = [kind, values, known, begin, size]
            self.words = max(self.words, begin + size)
        return own[attribute, kind][3]

    def of(self, of: EventType, attribute: str, function: str, *, whole: bool) -> tuple[int, int] | None:
        """The place in a cell of an aggregate's words, and their number; None where no conjunct reads it."""
        kind, _ = _AGGREGATES[function, whole]
        entry = self.entries.get(of, {}).get((attribute, kind))
        return None if entry is None else (entry[3], entry[4])


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
        What cells sum up.
    counts
        int64[1]: tests of a conjunct on an instance, of all clauses together.
    """

    def __init__(self, events: PreparedEvents, atoms: Sequence[Atom]) -> None:
        self.accumulators = Accumulators()
        self.counts: Array = np.zeros(1, np.int64)
        self._events, self._atoms = events, atoms

    @cached_property
    def strings(self) -> StringRanks:
        """Ranks of all strings that the clauses compare."""
        return StringRanks(self._events, self._atoms)


class ConjunctWriter:
    """Writes the conjuncts of one clause over the events of one slice.

    Attributes
    ----------
    words
        The conjuncts.
    registers
        How many registers they need.
    """

    def __init__(self, events: PreparedEvents, conditions: ClauseConditions, common: CommonTerms) -> None:
        self.events, self.common = events, common
        self.words: list[int] = []
        self.registers = len(conditions.slots)
        self._conditions, self._slots = conditions, conditions.slots
        self._types = {variable.name: variable.event_type for variable in conditions.variables}
        self._kept: list[Array] = []
        self._sources: dict[EventOf | str, int] = {}
        self._loads: dict[int, tuple[int, int]] = {}
        self._rows: Rows | None = None
        self._written: dict[int, tuple[int, Rows | None]] = {}

    def write(self, place: int) -> None:
        """Write one of the conjuncts that are tested."""
        tested = self._conditions.tested[place]
        self._sources, self._loads, self._rows = {}, {}, None
        choosing: list[int] = []
        for chooser in tested.choosers:
            name, first = chooser.variable, self.registers
            choosing += [self._slots[name], chooser.kind, first, first + 1, first + 2]
            if chooser.kind == codes.ELEMENT:
                self._sources[name, Element.EACH] = first
            else:
                self._sources |= {(name, Element.CURRENT): first, (name, Element.PREVIOUS): first + 1, name: first + 2}
            self.registers += 3
        alternatives = [tests for atom in tested.conjunct.atoms for tests in self._alternatives(atom)]
        begin, words = len(self.words), self.words
        words += [len(self._loads), len(tested.choosers)]
        for register, (slot, how) in self._loads.items():
            words += [register, slot, how]
        words += [*choosing, len(alternatives)]
        for tests in alternatives:
            head = len(words)
            words += [0, len(tests)]
            for kind, comparator, terms in tests:
                words += [kind, len(words) + codes.TEST_WORDS + len(terms), comparator, *terms]
            words[head] = len(words)
        single = len(alternatives) == 1 and len(alternatives[0]) == 1
        self._written[place] = begin, self._rows if single else None

    def item(self, place: int, fixed: int) -> list[int]:
        """The words of a test of a conjunct that is written: a comparison of columns where the slots give both events.

        Parameters
        ----------
        fixed
            The chooser that takes the newest element, or -1.
        """
        begin, rows = self._written[place]
        choosers = self._conditions.tested[place].choosers
        if rows is None or len(choosers) != (fixed >= 0):
            return [codes.CONJUNCT, begin, fixed, 0, 0, 0, 0, 0]
        comparator, left, one, right, other = rows
        hows = _HOWS.get(one[1], codes.NEWEST) | _HOWS.get(other[1], codes.NEWEST) << 3
        indexed = fixed >= 0 and choosers[fixed].kind == codes.INDEX
        guard = self._slots[choosers[fixed].variable] if indexed else -1
        kind = codes.COMPARE_DIRECT if hows else codes.COMPARE_SLOTS
        return [kind, comparator, left, self._slots[one[0]], right, self._slots[other[0]], hows, guard]

    # --- atoms ---------------------------------------------------------------------------------------------------

    def _alternatives(self, atom: Atom) -> list[list[Test]]:
        """The alternatives of an atom, each a list of tests that must all hold; none where it never holds."""
        events = events_of(*expressions_of(atom))
        if events is not None and len(events) <= 1:
            return self._truth(atom, events)
        match atom:
            case Comparison(comparator, left, right):
                return [[self._comparison(comparator, left, right)]]
            case Between(expression, low, high, negated):
                ends = (Comparator.LT, Comparator.GT) if negated else (Comparator.GE, Comparator.LE)
                tests = [self._comparison(end, expression, side) for end, side in zip(ends, (low, high), strict=True)]
                return [[tests[0]], [tests[1]]] if negated else [tests]
            case Membership(expression, values, negated=negated):
                return self._membership(expression, values, negated=negated)
            case NullTest(expression, negated):
                return [[self._is(not negated, self.term(expression) + operation(codes.IS_NULL))]]
            case Like(expression, text, negated):
                alike = like_expression(text).fullmatch
                places = self.common.strings.place
                return [[self._among(expression, [places[entry] for entry in places if alike(entry)], negated=negated)]]
            case Truth(holds):
                return [[]] if holds else []

    def _truth(self, atom: Atom, events: set[EventOf]) -> list[list[Test]]:
        """An atom that one event decides, or none."""
        own = of_any_event(atom)
        truths = atom_holds_for_all(self.events, own)
        if not events:
            return [[]] if truths.all() else []
        [event] = events
        column = self.events.derive(("truths as reals", own), lambda: np.where(truths, 1.0, np.nan))
        return [[self._comparison_of_rows(codes.EQUAL, column, event, column, event)]]

    def _comparison(self, comparator: Comparator, left: Expression, right: Expression) -> Test:
        lefts, rights = events_of(left), events_of(right)
        if lefts is not None and rights is not None and len(lefts) == len(rights) == 1:
            [one], [other], code = lefts, rights, COMPARATORS[comparator]
            columns = comparable_columns(self.events, left, right)
            return self._comparison_of_rows(code, columns[0], one, columns[1], other)
        if right.type is WHOLE and left.type is REAL:
            comparator, left, right = comparator.mirror, right, left
        kind = codes.COMPARE_REALS
        if left.type is WHOLE:
            kind = codes.COMPARE_WHOLES if right.type is WHOLE else codes.COMPARE_WHOLE_REAL
        return kind, COMPARATORS[comparator], self.term(left) + self.term(right)

    def _comparison_of_rows(self, comparator: int, left: Array, one: EventOf, right: Array, other: EventOf) -> Test:
        columns = self._address(left), self._address(right)
        self._rows = comparator, columns[0], one, columns[1], other
        reads = [operation(codes.COLUMN, columns[side], self._register(of)) for side, of in enumerate((one, other))]
        return codes.COMPARE_REALS, comparator, reads[0] + reads[1]

    def _membership(self, expression: Expression, values: tuple[Value, ...], *, negated: bool) -> list[list[Test]]:
        if negated and any(value != value for value in values):
            return []
        if expression.type is STRING:
            members = [self.common.strings.place[value] for value in values if isinstance(value, str)]
        elif expression.type is ValueType.BOOL:
            members = [float(value) for value in values if isinstance(value, bool)]
        else:
            members = [value for value in members_of(expression.type, values).tolist() if value == value]
        return [[self._among(expression, members, negated=negated)]]

    def _among(self, expression: Expression, values: Sequence[float], *, negated: bool) -> Test:
        whole = expression.type is WHOLE
        members = np.array(sorted(set(values)), np.int64 if whole else np.float64)
        code = codes.AMONG_WHOLES if whole else codes.AMONG_REALS
        return self._is(not negated, self.term(expression) + operation(code, self._address(members), len(members)))

    def _is(self, wanted: bool, term: list[int]) -> Test:
        return codes.COMPARE_REALS, codes.EQUAL, term + _constant(float(wanted))

    # --- events --------------------------------------------------------------------------------------------------

    def _address(self, array: Array | None) -> int:
        """The address of an array, which lives as long as the writer; 0 if there is none."""
        if array is None:
            return 0
        assert array.flags.c_contiguous
        self._kept.append(array)
        return address(array)

    def _known(self, column: Column) -> int:
        """The address of the uint8s of a column that say where it is not null; 0 where it never is."""
        return self._address(None if column.valid is None else np.ascontiguousarray(column.valid).view(np.uint8))

    def _register(self, event: EventOf) -> int:
        """The register of an event's row."""
        if event not in self._sources:
            variable, element = event
            slot = self._slots[variable]
            if element is Element.ONLY:
                self._sources[event] = slot
                self._loads[slot] = slot, codes.SLOT
            else:
                self._sources[event] = self.registers
                self._loads[self.registers] = slot, codes.FIRST if element is Element.FIRST else codes.NEWEST
                self.registers += 1
        return self._sources[event]

    def _cell(self, node: Aggregate | Length) -> int:
        """The register of the cell that a length or an aggregate reads."""
        if isinstance(node, Aggregate) and node.prefix:
            return self._sources[node.variable]
        slot = self._slots[node.variable]
        self._loads[slot] = slot, codes.SLOT
        return slot

    # --- terms ---------------------------------------------------------------------------------------------------

    def term(self, expression: Expression, *, real: bool = False) -> list[int]:
        """A postfix term of a number, a string's rank or a bool; with `real`, a whole number is converted."""
        if real and expression.type is WHOLE:
            return self.term(expression) + operation(codes.TO_REAL)
        events = events_of(expression)
        if (
            events is not None
            and len(events) <= 1
            and (expression.type is not STRING or not isinstance(expression, Call))
        ):
            return self._of_event(expression, events)
        match expression:
            case Length():
                return operation(codes.LENGTH, self._cell(expression))
            case Aggregate():
                return self._aggregate(expression)
            case Negative(operand):
                return self.term(operand) + operation(OPERATIONS["negative", expression.type])
            case Arithmetic(operator, left, right):
                convert = expression.type is REAL
                operands = self.term(left, real=convert) + self.term(right, real=convert)
                return operands + operation(OPERATIONS[operator, expression.type])
            case Call("corr", (Reference() | Aggregate() as x, Reference() | Aggregate() as y)):
                return operation(codes.CORRELATION, *self._list(x), *self._list(y))
            case Call("time_of_day" | "day_of_week" as function, (operand,), _, str() as zone):
                clock = local_clock(zone)
                code = codes.TIME_OF_DAY if function == "time_of_day" else codes.DAY_OF_WEEK
                changes = self._address(clock.changes), len(clock.changes)
                return self.term(operand) + operation(code, *changes, self._address(clock.offsets))
            case Call(function, (first, *others)):
                convert = expression.type is REAL
                code = OPERATIONS.get((function, expression.type)) or _CHOICES[function]
                term = self.term(first, real=convert) + ([] if others or function in _CHOICES else operation(code))
                for other in others:
                    term += self.term(other, real=convert) + operation(code)
                return term
            case _:
                raise TypeError(f"{expression!r} is no value of the language")

    def _of_event(self, expression: Expression, events: set[EventOf]) -> list[int]:
        """A term that one event decides, or none."""
        if not events:
            if expression.type is STRING:
                assert isinstance(expression, Literal)
                return _constant(self.common.strings.place[str(expression.value)])
            column = column_of(self.events, expression)
            known = column.valid is None or bool(column.valid[0])
            value = column.values[0].item()
            if column.type is WHOLE:
                return operation(codes.CONSTANT, value, int(not known))
            return _constant(float(value) if known else None)
        [event] = events
        if expression.type is STRING:
            assert isinstance(expression, Reference | Aggregate)
            column, values = self.events.column(expression.attribute), self.common.strings.column(expression.attribute)
        else:
            column = column_of(self.events, expression)
            whole = expression.type is WHOLE
            values = np.ascontiguousarray(column.values) if whole else reals_of(self.events, expression)
        return operation(codes.COLUMN, self._address(values), self._register(event), self._known(column))

    def _aggregate(self, node: Aggregate) -> list[int]:
        column = self.events.column(node.attribute)
        whole, known, values = column.type is WHOLE, self._known(column), 0
        if node.function != "count":
            strings = column.type is STRING
            of = self.common.strings.column(node.attribute) if strings else np.ascontiguousarray(column.values)
            values = self._address(of)
        if node.function == "median":
            code = codes.MEDIAN_OF_WHOLES if whole else codes.MEDIAN_OF_REALS
            return operation(code, self._cell(node), values, known)
        kind, code = _AGGREGATES[node.function, whole]
        place = self.common.accumulators.place(self._types[node.variable], node.attribute, kind, values, known)
        column_read = (values, known) if kind == codes.DISTANCES_OF_REALS else ()
        return operation(code, self._cell(node), place, *column_read)

    def _list(self, node: Reference | Aggregate) -> tuple[int, int]:
        """The address of the addresses of a list attribute's deviations, starts, lengths and squares; its register."""
        event, key = event_of(node), ("deviations of all", node.attribute)
        assert event is not None
        parts = self.events.derive(key, lambda: deviations_of_all(self.events.column(node.attribute)))
        return self._address(np.array([self._address(part) for part in parts], np.int64)), self._register(event)


def operation(code: int, *operands: int) -> list[int]:
    """The words of an operation."""
    return [code, *operands, *[0] * (codes.TERM_WORDS - 1 - len(operands))]


def _constant(value: float | None) -> list[int]:
    """The operation of a real constant; None is null."""
    bits = int(np.float64(np.nan if value is None else value).view(np.int64))
    return operation(codes.CONSTANT, bits, int(value is None))
