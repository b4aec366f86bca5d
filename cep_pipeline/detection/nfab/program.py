"""Conditions over several events as words for the kernel, which interprets them: no pattern needs a compiler.

A conjunct is the number of its variables and the variables, the number of its alternatives, and for each the place
behind it, its number of tests and the tests: comparator, the place of the right side, the place behind it, and both
sides in postfix form, three words an operator. What float64 does not compute as the language does stays a residual
conjunct, decided by `evaluate.py` at the same moment.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cep_pipeline.detection.fused.conditions import LevelScope, TestColumns, compile_conjunct
from cep_pipeline.detection.fused.shape import Constant, Operation, Slot, Term, TestedConjunct, slots_of
from cep_pipeline.detection.instances.conjuncts import COMPARATORS
from cep_pipeline.detection.nfab import run_words
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Comparator, Conjunct
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import View

_OPERATORS = {
    "+": run_words.PLUS,
    "-": run_words.MINUS,
    "*": run_words.TIMES,
    "/": run_words.DIVIDE,
    "negative": run_words.NEGATIVE,
    "abs": run_words.ABSOLUTE,
    "sqrt": run_words.ROOT,
}


@dataclass(frozen=True, eq=False)
class RunProgram:
    """The conditions of a clause over several positive variables.

    Attributes
    ----------
    words
        int64: the compiled conjuncts.
    tests
        int64: where in `tests` the conjuncts of each variable begin and the last end, then where in `words` they are.
    scans
        int64, of the same form, for chains that skip events: comparator, column of the variable that completes the
        conjunct, and from where to where in `words` the term is that it is compared with.
    columns
        float64: the columns one after another, then the constants.
    residual
        The conjuncts that are not compiled.
    depth
        Values that the longest term needs at once.
    most_scans
        The most conjuncts of one variable in `scans`.
    """

    words: Array
    tests: Array
    scans: Array
    columns: Array
    residual: tuple[Conjunct, ...]
    depth: int
    most_scans: int


def compile_conditions(
    clause: Clause, view: View, events: PreparedEvents, *, chain: bool, skipping: bool
) -> RunProgram:
    """Compile the conjuncts of a clause over at least two positive variables, over the events of a view."""
    numbers = {variable.name: number for number, variable in enumerate(clause.positive)}
    writer = _Writer(len(view))
    columns = TestColumns()
    compiled: list[tuple[set[int], TestedConjunct]] = []
    residual: list[Conjunct] = []
    for conjunct in clause.conjuncts:
        if len(conjunct.variables) < 2 or not conjunct.variables <= numbers.keys():
            continue
        # A comparison of constants reads any variable: it must be one of the conjunct's, bound when that is tested.
        levels = {name: number for name, number in numbers.items() if name in conjunct.variables}
        tested = compile_conjunct(conjunct, LevelScope(events, levels, (view,) * len(numbers), columns))
        if tested is None:
            residual.append(conjunct)
        else:
            compiled.append((set(levels.values()), tested))
    writer.take(columns)
    completing: list[list[int]] = [[] for _ in numbers]
    scanned: list[list[int]] = [[] for _ in numbers]
    for variables, tested in compiled:
        last = max(variables)
        scan = _as_scan(tested, last) if chain and skipping else None
        if scan is not None:
            scanned[last].extend(writer.scan(*scan))
            continue
        at = writer.conjunct(() if chain else sorted(variables), tested)
        for variable in (last,) if chain else variables:
            completing[variable].append(at)
    starts = np.cumsum([len(numbers) + 1, *map(len, completing)])
    scan_starts = np.cumsum([0, *(len(words) // 4 for words in scanned)])
    return RunProgram(
        words=np.array([*writer.words, 0], np.int64),
        tests=np.array([*starts, *(at for places in completing for at in places)], np.int64),
        scans=np.array([*scan_starts, *(word for words in scanned for word in words)], np.int64),
        columns=writer.columns,
        residual=tuple(residual),
        depth=writer.depth,
        most_scans=max(len(words) // 4 for words in scanned),
    )


def _as_scan(tested: TestedConjunct, last: int) -> tuple[Comparator, Slot, Term] | None:
    """The conjunct as a comparison of a column of the last variable with a term over earlier ones, if it is one."""
    if len(tested) != 1 or len(tested[0]) != 1:
        return None
    [[test]] = tested
    for comparator, own, other in (
        (test.comparator, test.left, test.right),
        (test.comparator.mirror, test.right, test.left),
    ):
        if isinstance(own, Slot) and own.level == last and all(slot.level < last for slot in slots_of(other)):
            return comparator, own, other
    return None


class _Writer:
    """Writes conjuncts as words."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.words: list[int] = []
        self.columns = np.empty(0, np.float64)
        self.depth = 1
        self._number: list[int] = []
        self._constants = 0

    def take(self, columns: TestColumns) -> None:
        """The columns, each once: two variables mostly read the same."""
        distinct: dict[int, int] = {}
        for array in columns.arrays:
            self._number.append(distinct.setdefault(id(array), len(distinct)))
        self._constants = len(distinct) * self.size
        self.columns = np.empty(self._constants + len(columns.constants) + 1, np.float64)
        for array, number in zip(columns.arrays, self._number, strict=True):
            self.columns[number * self.size : (number + 1) * self.size] = array
        self.columns[self._constants : -1] = columns.constants
        self.columns[-1] = 0.0

    def scan(self, comparator: Comparator, own: Slot, other: Term) -> tuple[int, int, int, int]:
        """Write the term of a comparison; returns the words of the scan."""
        begin = len(self.words)
        self.depth = max(self.depth, self._term(other))
        return COMPARATORS[comparator], self._number[own.slot], begin, len(self.words)

    def conjunct(self, variables: tuple[int, ...] | list[int], tested: TestedConjunct) -> int:
        """Write a conjunct; returns where it begins."""
        begin = len(self.words)
        self.words += [len(variables), *variables, len(tested)]
        for alternative in tested:
            head = len(self.words)
            self.words += [0, len(alternative)]
            for test in alternative:
                at = len(self.words)
                self.words += [COMPARATORS[test.comparator], 0, 0]
                depth = self._term(test.left)
                self.words[at + 1] = len(self.words)
                self.depth = max(self.depth, depth, self._term(test.right))
                self.words[at + 2] = len(self.words)
            self.words[head] = len(self.words)
        return begin

    def _term(self, term: Term) -> int:
        """Write a term; returns how many values it needs at once."""
        match term:
            case Slot(level, slot):
                self.words += [run_words.SLOT, level, self._number[slot]]
                return 1
            case Constant(index):
                self.words += [run_words.CONSTANT, 0, self._constants + index]
                return 1
            case Operation(operator, operands):
                depth = max(place + self._term(operand) for place, operand in enumerate(operands))
                self.words += [_OPERATORS[operator], 0, 0]
                return depth
