"""Conjuncts as words for the interpreter: every construct of the language, exactly as `evaluate.py` computes it.

A conjunct is written as the number of its loads and of its choosers, the loads (register, variable, how), the choosers,
the number of its alternatives, and for each the place behind it, the number of its tests and the tests. A load fills a
register from a slot; a chooser goes through the elements or indexes of a list. A test is of `TEST_WORDS` words, behind
which the postfix terms stand that it compares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cep_pipeline.detection.instances import codes
from cep_pipeline.detection.instances.condition_groups import (
    Chooser,
    ClauseConditions,
)
from cep_pipeline.detection.instances.event_columns import (
    REAL,
    WHOLE,
    EventOf,
    events_of,
    reading,
    truths_of,
)
from cep_pipeline.detection.instances.term_writer import CommonTerms, TermWriter, operation
from cep_pipeline.expressions.comparison import like_expression, members_of
from cep_pipeline.patterns.conditions import (
    Atom,
    Between,
    Comparator,
    Comparison,
    Like,
    Membership,
    NullTest,
    Truth,
    expressions_of,
)
from cep_pipeline.patterns.expressions import (
    Element,
    Expression,
    Literal,
    ValueType,
)
from cep_pipeline.patterns.structure import EventType
from cep_pipeline.slices.prepared import PreparedEvents

Rows = tuple[int, int, EventOf, int, EventOf]
"""A comparison of two columns at two events: comparator, and column and event of both sides."""
COMPARATORS = {
    Comparator.LT: codes.LESS,
    Comparator.LE: codes.LESS_EQUAL,
    Comparator.GT: codes.GREATER,
    Comparator.GE: codes.GREATER_EQUAL,
    Comparator.EQ: codes.EQUAL,
    Comparator.NE: codes.UNEQUAL,
}


@dataclass(frozen=True, eq=False)
class CompiledConjunct:
    """A conjunct and where its words begin.

    Attributes
    ----------
    begin
        Its place in the words.
    choosers
        In the order of the words.
    rows
        If it is one comparison of two columns at two events: comparator, and column and event of both sides.
    """

    begin: int
    choosers: tuple[Chooser, ...]
    rows: Rows | None


class ConjunctWriter(TermWriter):
    """Writes the conjuncts of one clause over the events of one slice.

    Attributes
    ----------
    words
        The conjuncts.
    choosers
        The most choosers that one of them has.
    """

    def __init__(
        self,
        events: PreparedEvents,
        conditions: ClauseConditions,
        common: CommonTerms | None = None,
        event_types: Mapping[str, EventType] | None = None,
    ) -> None:
        atoms = [atom for tested in conditions.tested for atom in tested.conjunct.atoms]
        super().__init__(events, conditions.slots, atoms, common, event_types)
        self.words: list[int] = []
        self.choosers = 0
        self._conditions = conditions
        self._rows: Rows | None = None

    def write(self, place: int) -> CompiledConjunct:
        """Write one of the conjuncts that are tested."""
        tested = self._conditions.tested[place]
        conjunct, chosen = tested.conjunct, tested.choosers
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
        return CompiledConjunct(begin, chosen, self._rows if single else None)

    def _write_test(self, test: _Test) -> None:
        at = len(self.words)
        self.words += [test.kind, 0, test.comparator, *test.operands, *[0] * (4 - len(test.operands))]
        for term in test.terms:
            self.words += term
        self.words[at + 1] = len(self.words)

    # --- atoms ---------------------------------------------------------------------------------------------------

    def _alternatives(self, atom: Atom) -> list[list[_Test]]:
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
            case Membership():
                return self._membership(atom)
            case NullTest(expression, negated):
                terms = (
                    self.value(expression, 0, nulls=True) + operation(codes.NULL_AS_WHOLE),
                    self.number(Literal(0, WHOLE), 1),
                )
                return [[_Test(codes.COMPARE_WHOLES, codes.EQUAL if negated else codes.UNEQUAL, (), terms)]]
            case Like(expression, text, negated):
                alike = like_expression(text).fullmatch
                ranks = sorted(rank for entry, rank in self.strings.place.items() if alike(entry) is not None)
                code = codes.UNEQUAL if negated else codes.EQUAL
                return [[self._among_reals(code, ranks, self.string(expression, 0))]]
            case Truth(holds):
                return [[]] if holds else []

    def _truth(self, atom: Atom, events: set[EventOf]) -> list[list[_Test]]:
        """An atom that one event decides, or none."""
        if not events:
            return [[]] if truths_of(self.events, atom).all() else []
        [event] = events
        place = self.address(reading("truths as reals", atom))
        self._rows = codes.EQUAL, place, event, place, event
        return [[_Test(codes.TRUTH, codes.EQUAL, (self.address(reading("truths", atom)), self.register(event)))]]

    def _comparison(self, comparator: Comparator, left: Expression, right: Expression) -> _Test:
        code = COMPARATORS[comparator]
        lefts, rights = events_of(left), events_of(right)
        if lefts is not None and rights is not None and len(lefts) == len(rights) == 1:
            columns = [self.address(reading(side, left, right)) for side in ("left", "right")]
            [one], [other] = lefts, rights
            self._rows = code, columns[0], one, columns[1], other
            return _Test(codes.COMPARE_ROWS, code, (columns[0], self.register(one), columns[1], self.register(other)))
        if left.type is ValueType.STRING:
            return _Test(codes.COMPARE_REALS, code, (), (self.string(left, 0), self.string(right, 1)))
        if left.type is ValueType.BOOL:
            return _Test(codes.COMPARE_REALS, code, (), (self.value(left, 0), self.value(right, 1)))
        terms = (self.number(left, 0), self.number(right, 1))
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
            ranks = sorted({self.strings.place[value] for value in atom.values if isinstance(value, str)})
            return [[self._among_reals(code, ranks, self.string(atom.expression, 0))]]
        if atom.expression.type is ValueType.BOOL:
            bools = sorted({float(value) for value in atom.values if isinstance(value, bool)})
            return [[self._among_reals(code, bools, self.value(atom.expression, 0))]]
        numbers = np.unique(members_of(atom.expression.type, atom.values))
        if atom.expression.type is REAL:
            known = numbers[~np.isnan(numbers)].tolist()
            return [[self._among_reals(code, known, self.number(atom.expression, 0))]]
        low = len(self.wholes)
        for value in numbers.tolist():
            self.whole(value)
        term = self.number(atom.expression, 0)
        return [[_Test(codes.AMONG_WHOLES, code, (low, low + len(numbers)), (term,))]]

    def _among_reals(self, code: int, values: list[float], term: list[int]) -> _Test:
        low = len(self.reals)
        for value in values:
            self.real(value)
        return _Test(codes.AMONG_REALS, code, (low, low + len(values)), (term,))


@dataclass(frozen=True)
class _Test:
    """A test: kind, comparator, up to four words, and the terms that it compares."""

    kind: int
    comparator: int
    operands: tuple[int, ...]
    terms: Sequence[list[int]] = ()
