"""Deterministic runs of one clause over one slice: a run from each event that can begin it, many at a time.

`ClauseRuns` follows them with the kernel; where runs may skip nothing, it tests one condition after another for all of
them. Negated variables are applied to finished matches. `RunLives` counts the runs that are alive at a time, for these
and for those of the automaton.

`compile_conditions` writes the conditions over several events as words for the kernel, which interprets them: no
pattern needs a compiler. A conjunct is the number of its variables and the variables, the number of its alternatives,
and for each the place behind it, its number of tests and the tests: comparator, the place of the right side, the place
behind it, and both sides in postfix form, three words an operator. What float64 does not compute as the language does
stays a residual conjunct, decided by `evaluate.py` at the same moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.fused.constraints import LevelScope, TestColumns, compile_conjunct
from cep_pipeline.detection.fused.shape import Constant, Operation, Slot, Term, TestedConjunct, slots_of
from cep_pipeline.detection.instances import KERNEL_SOURCES
from cep_pipeline.detection.instances.conjuncts import COMPARATORS
from cep_pipeline.detection.limits import go_on
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters
from cep_pipeline.detection.nfab import run_words
from cep_pipeline.detection.nfab.automaton import is_chain
from cep_pipeline.detection.nfab.stream import RunEvents, sequence_of
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.evaluate import conjunct_holds
from cep_pipeline.patterns.conditions import Comparator, Conjunct
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Strategy
from cep_pipeline.slices.blocks import MatchBlock
from cep_pipeline.slices.keys import agreement_codes
from cep_pipeline.slices.order import (
    StreamOrder,
    WindowInstants,
    clock_to_compare,
    earlier_is_before,
    instants_in_view,
    instants_of,
)
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import View, leaf_view, may_match, without_name
from cep_pipeline.statistics.node_counts import NodeCounts

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


SPARSE = 8
"""With fewer runs than one for so many events, sorting their ends is faster than going through all events."""


@dataclass
class RunLives:
    """The lives of runs: the row of the first event, and the row (or the end of the window) that ends them.

    Attributes
    ----------
    begun, ended
        Rows with which runs begin, and with which they end.
    rows, changes
        Rows, and how many more runs there are from each on.
    """

    begun: list[Array] = field(default_factory=list)
    ended: list[Array] = field(default_factory=list)
    rows: list[Array] = field(default_factory=list)
    changes: list[Array] = field(default_factory=list)

    def add(self, begun: Array, ended: Array) -> None:
        """Add runs by the rows of their first events and of their ends."""
        self.begun.append(begun)
        self.ended.append(ended)

    def add_changes(self, change: Array, ended: Array) -> None:
        """Add runs by how their number changes with each event, and the ends of those that do not end with an event."""
        rows = np.flatnonzero(change != 0)  # bools are searched many at a time
        self.rows.append(rows)
        self.changes.append(change[rows])
        self.ended.append(ended)

    def peak(self, events: int) -> int:
        """The most runs that are alive between two events."""
        size = sum(map(len, (*self.begun, *self.ended, *self.rows)))
        if size * SPARSE < events:
            parts = [(rows, np.ones(len(rows), np.int32)) for rows in self.begun]
            parts += [(rows, np.full(len(rows), -1, np.int32)) for rows in self.ended]
            parts += zip(self.rows, self.changes, strict=True)
            if not parts:
                return 0
            rows, changes = (np.concatenate(part) for part in zip(*parts, strict=True))
            order = np.argsort(rows, kind="stable")
            alive = np.cumsum(changes[order])
            last = np.append(rows[order][1:] != rows[order][:-1], True)[: len(rows)]
            return int(alive[last].max(initial=0))
        none = np.zeros(0, np.int32)
        change = np.bincount(np.concatenate((none, *self.begun)), minlength=events + 1)
        change -= np.bincount(np.concatenate((none, *self.ended)), minlength=events + 1)
        for rows, changes in zip(self.rows, self.changes, strict=True):
            change[rows] += changes  # of one call rows are distinct
        return int(np.cumsum(change).max(initial=0))


PAIRS_AT_ONCE = 1 << 18
"""Pairs of a match and an event that might reject it, tested at once."""


_follow = NativeKernel(
    "cep_pipeline.detection.nfab.kernel",
    "follow",
    (
        *["int64"] * 6,
        *("int32*", "int64*", "int64*", "int32*", "uint8*"),
        *("float64*", "int64", "int64*", "int64", "int64*"),
        *("int32*", "int32*", "int32*", "int32*", "int32*", "int32*"),
        *("int64*", "int64", "float64*", "int64"),
    ),
    sources=(*KERNEL_SOURCES, "cep_pipeline.detection.nfab.run_words"),
)


RUNS_AT_ONCE = 1 << 17
"""Runs followed at once: their state is what is held beside the columns."""
MOST_NODES = 1 << 12
"""Sets of variables that are counted one by one."""

_advance = NativeKernel(
    "cep_pipeline.detection.nfab.kernel",
    "advance",
    (
        *["int64"] * 7,
        *("int32*", "int64*", "int64*", "int32*", "uint8*", "int32*"),
        *("float64*", "int64", "int64*", "int64", "int64*", "int64*", "uint8*"),
        *("int32*", "int32*", "int32*", "int32*", "int32*", "uint8*"),
        *("int64*", "int64", "float64*", "int64"),
    ),
    sources=(*KERNEL_SOURCES, "cep_pipeline.detection.nfab.run_words"),
)


class ClauseRuns:
    """The runs of one clause over one slice.

    Parameters
    ----------
    of
        A clause over a slice: a chain or an AND of single events.
    lives
        Where `count` notes the runs' lives.

    Notes
    -----
    A run depends on nothing but the events from its first to its last, which are no more than the window apart: a slice
    that reads back the window follows just those runs that a longer one does.
    """

    def __init__(self, of: ClauseSlice, lives: RunLives) -> None:
        self.of = of
        self.pattern, self.clause, self.events, self.owned, _ = of
        self.end_row = of.end_row
        self.chain = is_chain(of.clause)
        self.evaluations = 0
        self.lives = lives
        self._ends: list[tuple[Array, Array]] = []
        variables = len(of.clause.positive)
        self._nodes = variables if self.chain else 1 << variables
        if self._nodes > MOST_NODES:
            self._nodes = 1
        self._counts = np.zeros(2 * self._nodes + 1, np.int64)

    def __iter__(self) -> Iterator[MatchBlock]:
        if self.end_row == 0 or not may_match(self.pattern, self.clause, self.events):
            return
        starts = self._starts()
        for first in range(0, len(starts), RUNS_AT_ONCE):
            go_on()
            found = self._follow(starts[first : first + RUNS_AT_ONCE])
            if self.owned != EVERYTHING:
                found = found[:, self._is_owned(found)]
            if self.clause.negated and found.shape[1]:
                found = found[:, self._survives(found)]
            if found.shape[1]:
                yield MatchBlock(self.clause, np.ascontiguousarray(found))
        self.evaluations += int(self._counts[-1])

    def count(self, counters: Counters) -> None:
        """Add what happened at each state that binds events: a chain's prefixes, or an AND's sets."""
        for begun, ended in self._ends:
            self.lives.add(begun, ended)
        names = [variable.name for variable in self.clause.positive]
        if self._nodes == 1 and len(names) > 1:
            return
        for node in range(self._nodes):
            candidates, passes = self._counts[2 * node : 2 * node + 2].tolist()
            bound = names[: node + 1] if self.chain else [name for i, name in enumerate(names) if node >> i & 1]
            if bound and (candidates or self.chain):
                created = passes if len(bound) < len(names) else 0
                counts = NodeCounts(self.pattern.name, self.clause.index, tuple(bound), candidates, passes, created)
                counters.count(counts)
        counters.evaluations += self.evaluations

    def _starts(self) -> Array:
        """int32, ascending: the places of the events that can begin a match."""
        sequence = self._sequence
        rows = sequence.view.rows
        beginning = (sequence.fits[0] if self.chain else sequence.fits.max(axis=0)).view(np.bool_)
        first_row = self.of.earliest_row
        if first_row > 0:
            beginning = beginning & (rows >= first_row)
        if self.end_row < len(self.events):
            beginning = beginning & (rows < self.end_row)
        if beginning.all():
            return np.arange(len(rows), dtype=np.int32)
        return np.flatnonzero(beginning).astype(np.int32)

    def _follow(self, starts: Array) -> Array:
        """The matches of the runs from these places, int32 of shape (variables, n)."""
        sequence = self._sequence
        runs = len(starts)
        together = int(starts[-1]) - int(starts[0]) + 1 == runs  # all places: a slice, which costs less than a choice
        chosen = slice(int(starts[0]), int(starts[-1]) + 1) if together else starts
        ends = sequence.ends[chosen].astype(np.int32)
        keyed = len(sequence.keys) > 0
        if keyed:  # an event that lacks a key agrees with none
            alone = sequence.keys[starts] < 0
            ends[alone] = starts[alone] + 1
        options = (
            run_words.CHAIN * self.chain
            | run_words.AGREEING * keyed
            | run_words.COMPARES_CLOCKS * (not earlier_is_before(self.pattern.ties))
        )
        if self.pattern.strategy is not Strategy.SKIP_TILL_NEXT_MATCH:
            options |= run_words.CONTIGUOUS
        if self._binds_in_a_row:
            self._counts[:2] += runs
            found, ended, expired = self._follow_in_a_row(starts, ends, options)
        else:
            found, ended, expired = self._follow_one_by_one(starts, ends, options)
        begun = sequence.view.rows[chosen]
        if len(expired):
            ended[expired] = np.minimum(self._instants.end_row_within(begun[expired]), self.end_row)
        self._ends.append((begun, np.maximum(ended, begun, out=ended)))
        return found

    @property
    def _binds_in_a_row(self) -> bool:
        """True if a run's events stand one behind the other, and the kernel can decide all conditions."""
        contiguous = self.pattern.strategy is not Strategy.SKIP_TILL_NEXT_MATCH
        return contiguous and self.chain and len(self.clause.positive) > 1 and not self._program.residual

    def _follow_in_a_row(self, starts: Array, ends: Array, options: int) -> tuple[Array, Array, Array]:
        """Rows of the matches, the row that each run ended with, and which runs expired, one condition after another.

        Parameters
        ----------
        starts, ends
            int32, of each run: the place of its first event, and the place behind the last that it may read.
        options
            The flags of `run_words.py`.

        Returns
        -------
        found : Array
            int32, shape (variables, matches): rows.
        ended : Array
            int32, of each run: the row of the event that it ended with.
        expired : Array
            The runs whose window or group ended before: `ended` is the last row that they read.
        """
        sequence, program, rows = self._sequence, self._program, self._sequence.view.rows
        (variables, size), runs = sequence.fits.shape, len(starts)
        alive, ended, expired = np.empty(runs, np.int32), np.empty(runs, np.int32), np.empty(runs + 1, np.int32)
        matches = _follow(
            *(runs, variables, size, options, self._instants.width, self.end_row),
            *(rows, self._clock, self._instants_of_places, sequence.keys, sequence.fits),
            *(program.columns, len(program.columns), program.words, len(program.words), program.tests),
            *(starts, ends, alive, ended, expired, np.empty(variables, np.int32)),
            *(self._counts, self._nodes, np.empty(program.depth + 1, np.float64), 0),
        )
        first = starts[alive[:matches]]
        found = np.empty((variables, matches), np.int32)
        for variable, own in enumerate(found):
            np.take(rows, first + variable, out=own, mode="clip")
        return found, ended, expired[1 : 1 + int(expired[0])]

    def _follow_one_by_one(self, starts: Array, ends: Array, options: int) -> tuple[Array, Array, Array]:
        """The same for runs that may skip events, each of which the kernel follows on its own."""
        clause, sequence, program = self.clause, self._sequence, self._program
        variables, size = sequence.fits.shape
        runs = len(starts)
        places = np.full((runs, variables), -1, np.int32)
        if self.chain:
            places[:, 0] = starts
            self._counts[:2] += runs
        else:
            first = sequence.fits[:, starts].argmax(axis=0)
            places[np.arange(runs), first] = starts
            began = np.bincount(1 << first, minlength=self._nodes) if self._nodes > 1 else np.array([runs])
            self._counts[0:-1:2] += began
            self._counts[1:-1:2] += began
        states = np.full(runs, run_words.MATCHED if variables == 1 else run_words.RUNNING, np.uint8)
        cursors, tried = starts.copy(), np.zeros(runs, np.int32)
        residual = np.array([any(v.name in c.variables for c in program.residual) for v in clause.positive], np.uint8)
        stack = np.empty(program.most_scans + program.depth + 1, np.float64)
        while variables > 1:
            waiting = _advance(
                *(runs, variables, size, options, self._instants.width, len(self.events), self.end_row),
                *(
                    sequence.view.rows,
                    self._clock,
                    self._instants_of_places,
                    sequence.keys,
                    sequence.fits,
                    sequence.links,
                ),
                *(
                    program.columns,
                    len(program.columns),
                    program.words,
                    len(program.words),
                    program.tests,
                    program.scans,
                    residual,
                ),
                *(starts, ends, places, cursors, tried, states),
                *(self._counts, self._nodes, stack, program.most_scans),
            )
            if not waiting:
                break
            self._decide(places, cursors, tried, states)
        rows = sequence.view.rows
        ended = rows[np.minimum(cursors, size - 1)]
        return rows[places[states == run_words.MATCHED].T], ended, np.flatnonzero(states == run_words.EXPIRED)

    def _decide(self, places: Array, cursors: Array, tried: Array, states: Array) -> None:
        """Decide the residual conjuncts of the runs that wait."""
        waiting = np.flatnonzero(states == run_words.PENDING)
        bound = places[waiting]
        candidate = tried[waiting]
        bound[np.arange(len(waiting)), candidate] = cursors[waiting]
        names = [variable.name for variable in self.clause.positive]
        takes = np.ones(len(waiting), dtype=bool)
        for conjunct in self._program.residual:
            own = [place for place, name in enumerate(names) if name in conjunct.variables]
            completed = np.flatnonzero(takes & np.isin(candidate, own) & (bound[:, own] >= 0).all(axis=1))
            if len(completed):
                rows = {names[place]: self._sequence.view.rows[bound[completed, place]] for place in own}
                takes[completed] = conjunct_holds(conjunct, self.events, rows)
                self.evaluations += len(completed)
        states[waiting] = np.where(takes, run_words.ACCEPTED, run_words.REJECTED)

    def _is_owned(self, found: Array) -> Array:
        """Return whether the slice owns each match: the one in which it becomes final."""
        first, last = found.min(axis=0), found.max(axis=0)
        final = self.of.owns(first, last)
        return np.asarray(final & (last < self.end_row))

    # -- negation -----------------------------------------------------------------------------------------------------

    def _survives(self, rows: Array) -> Array:
        """bool: the matches that no event rejects (docs/language.md, section 3, rule 5); rows by positive variable."""
        survives = np.ones(rows.shape[1], dtype=bool)
        for negated in self.clause.negated:
            left = np.flatnonzero(survives)
            if not len(left):
                break
            survives[left[self._rejected(negated, rows[:, left])]] = False
        return survives

    def _rejected(self, negated: Variable, rows: Array) -> Array:
        clause, events = self.clause, self.events
        mentioned = [conjunct for conjunct in clause.conjuncts if negated.name in conjunct.variables]
        own = tuple(without_name(c, negated.name) for c in mentioned if len(c.variables) == 1)
        joint = [conjunct for conjunct in mentioned if len(conjunct.variables) > 1]
        candidates = leaf_view(events, negated.event_type, own, 0, len(events)).rows.astype(np.int64)
        low, high = self._row_range(negated, rows)
        if clause.agree_on:  # the candidates of each key together
            codes = agreement_codes(events, clause.agree_on)[0].astype(np.int64)
            keys = codes[rows[0]]
            candidates = np.sort((codes[candidates] * len(events) + candidates)[codes[candidates] >= 0])
            low, high = low + keys * len(events), high + keys * len(events)
            high = np.where(keys < 0, low, high)
        first = np.searchsorted(candidates, low)
        behind = np.maximum(np.searchsorted(candidates, high), first)
        if clause.agree_on:
            candidates = candidates % max(len(events), 1)
        if joint:
            return self._rejected_by_conditions(negated, joint, rows, candidates, first, behind)
        # All events in the range reject, but those of the match itself.
        number = behind - first
        is_candidate = np.zeros(len(events), dtype=bool)
        is_candidate[candidates] = True
        for bound in rows:
            inside = is_candidate[bound]
            keyed = bound + keys * len(events) if clause.agree_on else bound
            number -= inside & (keyed >= low) & (keyed < high)
        return np.asarray(number > 0)

    def _row_range(self, negated: Variable, rows: Array) -> tuple[Array, Array]:
        """The rows [low, high) that are after all events before the variable and before all events after it."""
        number = {variable.name: place for place, variable in enumerate(self.clause.positive)}
        before = [number[variable.name] for variable in self.clause.predecessors(negated.name)]
        after = [number[variable.name] for variable in self.clause.successors(negated.name)]
        order, instants = StreamOrder(self.events.timestamps, self.pattern.ties), self._instants
        wide = rows.astype(np.int64)
        low = order.rows_after(wide[before].max(axis=0)) if before else instants.first_row_within(wide.max(axis=0))
        high = order.rows_ahead(wide[after].min(axis=0)) if after else instants.end_row_within(wide.min(axis=0))
        return low, high

    def _rejected_by_conditions(
        self, negated: Variable, joint: list[Conjunct], rows: Array, candidates: Array, first: Array, behind: Array
    ) -> Array:
        rejected = np.zeros(rows.shape[1], dtype=bool)
        ends = np.cumsum(behind - first)
        total = int(ends[-1]) if len(ends) else 0
        for begin in range(0, total, PAIRS_AT_ONCE):
            pairs = np.arange(begin, min(begin + PAIRS_AT_ONCE, total))
            match = np.searchsorted(ends, pairs, "right")
            places = first[match] + pairs - (ends[match] - (behind - first)[match])
            event = candidates[places]
            open_ = ~rejected[match] & ~(rows[:, match] == event).any(axis=0)
            match, event = match[open_], event[open_]
            for conjunct in joint:
                self.evaluations += len(match)
                bound = {variable.name: rows[place, match] for place, variable in enumerate(self.clause.positive)}
                holds = conjunct_holds(conjunct, self.events, {**bound, negated.name: event})
                match, event = match[holds], event[holds]
            rejected[match] = True
        return rejected

    # -- what the kernel reads ----------------------------------------------------------------------------------------

    @cached_property
    def _sequence(self) -> RunEvents:
        return sequence_of(self.pattern, self.clause, self.events, self.chain)

    @cached_property
    def _instants(self) -> WindowInstants:
        return instants_of(self.pattern, self.events)

    @cached_property
    def _program(self) -> RunProgram:
        skipping = self.pattern.strategy is Strategy.SKIP_TILL_NEXT_MATCH
        return compile_conditions(self.clause, self._sequence.view, self.events, chain=self.chain, skipping=skipping)

    @cached_property
    def _clock(self) -> Array:
        return clock_to_compare(self.events, self._sequence.view, self.pattern.ties)

    @cached_property
    def _instants_of_places(self) -> Array:
        return instants_in_view(self.pattern, self.events, self._sequence.view)
