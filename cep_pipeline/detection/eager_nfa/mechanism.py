"""The record of the mechanism `eager_nfa`: its automaton, and its runs over one slice, clause after clause.

The paper compiles a sequence into a chain. A clause has a partial order: its states are the sets of bound variables
that the order allows, each set with all that comes before its members, because events are taken as they arrive. For a
sequence they are the paper's chain. At a state that has bound a Kleene variable and nothing behind it, an edge back to
the state takes further elements. Ignore edges are everywhere: an instance stays when an event makes a new one of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.clause_runs import ClauseSlice, Lives, find_by_clause
from cep_pipeline.detection.eager_nfa import words as at
from cep_pipeline.detection.instances import KERNEL_SOURCES, CellRing, Moment, StreamRules, compile_program
from cep_pipeline.detection.instances.found import FoundMatches
from cep_pipeline.detection.limits import go_on
from cep_pipeline.detection.mechanisms import (
    Counters,
    Mechanism,
    Orders,
    Owned,
    beyond_any_match,
    conjuncts_joining,
    orders_only,
    refuse_other_orders,
)
from cep_pipeline.detection.room import ask_for
from cep_pipeline.errors import DataError, UnsupportedPattern
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.order import before_is_earlier, earlier_is_before
from cep_pipeline.slices.ownership import Finality
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics.node_counts import NodeCounts

MOST_STATES = 1 << 14
"""Sets of bound variables that an automaton may have: an AND of 14 variables, a sequence of any length."""


@dataclass(frozen=True)
class EagerEdge:
    """A take edge.

    Attributes
    ----------
    source, target
        Numbers of states, equal where the edge appends to a list.
    variable
        The variable that takes the event.
    before, after
        What an instance knows at the source and at the target.
    directly_before
        Bound variables that the event must come after, without those that another one of them comes after.
    """

    source: int
    target: int
    variable: str
    before: Moment
    after: Moment
    directly_before: tuple[str, ...]

    @property
    def appends(self) -> bool:
        """True if the edge takes a further element of a list."""
        return self.source == self.target


@dataclass(frozen=True)
class EagerAutomaton:
    """The eager NFA of a clause.

    Attributes
    ----------
    states
        What is bound in each state; state 0 has bound nothing, the last one everything.
    edges
        All take edges.
    """

    states: tuple[frozenset[str], ...]
    edges: tuple[EagerEdge, ...]

    def is_final(self, state: int) -> bool:
        """Return whether an instance in the state is a match, if its lists are left as they are."""
        return state == len(self.states) - 1

    def goes_on(self, state: int) -> bool:
        """Return whether an instance in the state can take a further event."""
        return any(edge.source == state for edge in self.edges)


def compile_automaton(pattern: Pattern, clause: Clause) -> EagerAutomaton:
    """Compile a clause into its eager NFA.

    Raises
    ------
    UnsupportedPattern
        It has more than `MOST_STATES` states.
    """
    names = [variable.name for variable in clause.positive]
    before = {name: frozenset(variable.name for variable in clause.predecessors(name)) for name in names}
    numbers: dict[frozenset[str], int] = {frozenset(): 0}
    waiting = [frozenset[str]()]
    while waiting:  # by size, so that the complete set comes last
        following: dict[frozenset[str], None] = {}
        for state in waiting:
            for name in names:
                if name not in state and before[name] <= state:
                    following[state | {name}] = None
        for state in following:
            numbers[state] = len(numbers)
        if len(numbers) > MOST_STATES:
            feature = f"an automaton of more than {MOST_STATES:,} states"
            hint = "join fewer variables by AND, or use mechanism 'fused'"
            raise UnsupportedPattern("eager_nfa", feature, pattern=pattern.name, hint=hint)
        waiting = list(following)
    edges = []
    for state, number in numbers.items():
        for name in names:
            if name not in state and before[name] <= state:
                target = state | {name}
                latest = tuple(one for one in before[name] if not any(one in before[other] for other in before[name]))
                edges.append(
                    EagerEdge(number, numbers[target], name, _moment(clause, state), _moment(clause, target), latest)
                )
            elif name in state and _grows(clause, state, name):
                moment = _moment(clause, state)
                edges.append(EagerEdge(number, number, name, moment, moment, ()))
    return EagerAutomaton(tuple(numbers), tuple(edges))


def _grows(clause: Clause, state: frozenset[str], name: str) -> bool:
    """Return whether the list of a bound variable takes further elements: nothing behind it is bound."""
    return clause.by_name[name].kleene and not any(variable.name in state for variable in clause.successors(name))


def _moment(clause: Clause, state: frozenset[str]) -> Moment:
    return Moment(state, frozenset(name for name in state if not _grows(clause, state, name)))


INSTANCES_A_CALL = 1 << 26
"""Instances looked at before a call returns, so that a run can be interrupted."""
FIRST_CAPACITY, FIRST_CELLS, FIRST_ELEMENTS = 1 << 8, 1 << 10, 1 << 18
"""Instances of a state, elements of lists, and events of finished matches that there is room for at first."""
MOST_WORDS = 1 << 31
"""The most words of the instances of a state: 8 GB."""
NO_KEY = -2
"""A key that no event has."""
MOST_LIVES = 1 << 24
"""Most numbers of living instances that are kept by event and state; else only their sums are kept, by event."""

_read_events = NativeKernel(
    "cep_pipeline.detection.eager_nfa.kernel",
    "read_events",
    ("int64*",),
    (*KERNEL_SOURCES, "cep_pipeline.detection.eager_nfa.words"),
)


def find_eagerly(
    pattern: Pattern, orders: Orders, events: PreparedEvents, owned: Owned, counters: Counters
) -> Iterator[Block]:
    """Find the owned matches of a pattern, clause after clause; a node is a state, by the variables it has bound."""
    MECHANISM.check(pattern)
    lives = Lives(len(events))

    def start(of: ClauseSlice, order: Sequence[str]) -> EagerRun:
        refuse_other_orders(MECHANISM.name, pattern, of.clause, order)
        return EagerRun(of, lives)

    yield from find_by_clause(pattern, orders_only(MECHANISM.name, pattern, orders), events, owned, counters, start)
    counters.count_peak(lives.peak())


@dataclass
class _States:
    """The instances of all states, and their table for the kernel."""

    stride: int
    table: Array
    instances: list[Array] = field(default_factory=list)

    @classmethod
    def of(cls, automaton: EagerAutomaton, stride: int) -> _States:
        table = np.zeros((len(automaton.states), at.STATE_WORDS), np.int64)
        table[:, at.TOUCHED] = -1
        table[:, at.STATE_KEY] = NO_KEY
        table[:, at.LIMIT] = FIRST_CAPACITY
        states = cls(stride, table, [np.zeros(0, np.int32) for _ in automaton.states])
        states._resize(0, 1)
        table[0, at.COUNT], table[0, at.LIMIT] = 1, 2**62  # the instance that has bound nothing
        return states

    def grow(self, state: int) -> None:
        """Double the room of a state."""
        capacity = max(FIRST_CAPACITY, 2 * int(self.table[state, at.CAPACITY]))
        if capacity * self.stride > MOST_WORDS:
            raise DataError(
                f"more than {capacity // 2:,} partial matches are alive at a time: shorten the window, add conditions, "
                "or use mechanism 'fused', which stores none of single events"
            )
        ask_for(4 * capacity * self.stride, f"{capacity // 2:,} partial matches are alive at a time")
        self._resize(state, capacity)

    def _resize(self, state: int, capacity: int) -> None:
        instances = np.zeros(capacity * self.stride, np.int32)
        used = int(self.table[state, at.COUNT]) * self.stride
        instances[:used] = self.instances[state][:used]
        self.instances[state] = instances
        self.table[state, at.ADDRESS] = instances.ctypes.data
        self.table[state, at.CAPACITY] = capacity


class EagerRun:
    """One run of a clause over a slice: iterate over it once for its blocks of matches.

    Parameters
    ----------
    of
        A clause of a pattern that the mechanism runs.
    lives
        Where the lives of instances are added by `count`.

    Raises
    ------
    UnsupportedPattern
        The clause's automaton has too many states.
    DataError
        While it is iterated over: more instances are alive than memory is there for.
    """

    def __init__(self, of: ClauseSlice, lives: Lives) -> None:
        self.of, self._all_lives = of, lives
        pattern, clause, events, *_ = of
        self.pattern, self.clause, self.events = pattern, clause, events
        self.automaton = compile_automaton(pattern, clause)
        self.program = compile_program(pattern, clause, events)
        self._edges = sorted(self.automaton.edges, key=lambda edge: self.program.slots[edge.variable])
        self._counts = np.zeros((len(self._edges), at.COUNTS), np.int64)
        states = len(self.automaton.states)
        self._lives = Lives(len(events), states if states * len(events) <= MOST_LIVES else 1)
        self._states = _States.of(self.automaton, 1 + len(self.program.variables))

    def __iter__(self) -> Iterator[Block]:
        program, clause = self.program, self.clause
        relevant = np.flatnonzero(program.fits[: len(clause.positive)].any(axis=0)).astype(np.int32)
        if not program.possible or not len(relevant):
            return
        rules = StreamRules(self.pattern, clause, self.events, program)
        if len(rules.keys):  # key after key
            relevant = relevant[np.argsort(rules.keys[relevant], kind="stable")]
        ring = CellRing(program, FIRST_CELLS)
        found = FoundMatches(*self.of, FIRST_ELEMENTS)
        edges, starts, latests = self._tables()
        rules.prepare()
        pending = np.zeros_like(self._counts)
        arrays = (relevant, program.fits, edges, starts, self._states.table, self._counts, pending, latests)
        relevant_at, fits_at, edges_at, starts_at, states_at, counts_at, pending_at, latests_at = (
            int(array.ctypes.data) for array in arrays
        )
        head = np.zeros(at.PROGRAM, np.int64)
        head[at.RELEVANT], head[at.RELEVANT_COUNT] = relevant_at, len(relevant)
        head[at.FITS], head[at.EDGES], head[at.EDGE_STARTS] = fits_at, edges_at, starts_at
        head[at.STATES], head[at.STRIDE] = states_at, self._states.stride
        head[at.COUNTED], head[at.PENDING], head[at.LATESTS] = counts_at, pending_at, latests_at
        changes = self._lives.changes
        head[at.KEY] = NO_KEY
        head[at.LIVES], head[at.LIVES_BYTES] = changes.ctypes.data, changes.strides[0] * (len(changes) > 1)
        head[at.REPORTED_FROM] = self.of.first_row if self.of.finality is Finality.LAST_EVENT else 0
        head[at.HAS_LISTS] = any(variable.kleene for variable in clause.positive)
        program_words, rules_words = program.kernel_words(), rules.kernel_words()
        result = at.GO_ON
        while result != at.FINISHED:
            go_on()
            head[at.BUDGET] = INSTANCES_A_CALL
            tail = [*program_words, *rules_words, *ring.kernel_words(), *found.kernel_words()]
            words = np.concatenate((head, np.array(tail, np.int64)))
            result = _read_events(words)
            head[at.PLACE], head[at.KEY] = words[at.PLACE], words[at.KEY]
            full = result == at.FOUND_FULL and not len(found)
            block = found.drain()
            if block is not None:
                yield block
            if result == at.STATE_FULL:
                self._states.grow(int(words[at.FULL_STATE]))
            elif result == at.RING_FULL:
                ring.grow()
            elif full:
                found.grow()

    def _tables(self) -> tuple[Array, Array, Array]:
        """The edges by slot, where those of each slot begin, and the slots that events must come after."""
        slots = self.program.slots
        everything = frozenset(variable.name for variable in self.clause.positive)
        edges, latests = [], [0]
        for edge in self._edges:
            kleene = self.clause.by_name[edge.variable].kleene
            kind = at.APPENDS if edge.appends else at.BEGINS if kleene else at.SINGLE
            if edge.appends:
                group = self.program.groups.element_group(edge.variable, edge.before)
            else:
                group = self.program.groups.group(edge.after, (edge.before,), begun=edge.variable)
            final = self.automaton.is_final(edge.target)
            last_group = self.program.groups.group(Moment(everything, everything), (edge.after,)) if final else 0
            begin = len(latests)
            if not earlier_is_before(self.pattern.ties):
                latests += [slots[name] for name in edge.directly_before]
            stores = self.automaton.goes_on(edge.target)
            edges.append(
                [
                    *(edge.source, edge.target, slots[edge.variable], kind, group, last_group),
                    *(int(stores), int(final), begin, len(latests)),
                ]
            )
        of_slot = [slots[edge.variable] for edge in self._edges]
        starts = np.searchsorted(of_slot, np.arange(len(self.clause.positive) + 1)).astype(np.int64)
        return np.array(edges, np.int64), starts, np.array(latests, np.int64)

    def _tested_at(self, state: int) -> tuple[Conjunct, ...] | None:
        """The conjuncts that all edges to a state test; None where they test different ones."""
        states = self.automaton.states
        into = [edge for edge in self._edges if edge.target == state and edge.source]
        tested = {conjuncts_joining(self.clause, states[edge.source], (edge.variable,)) for edge in into}
        return tested.pop() if len(tested) == 1 else None

    def count(self, counters: Counters) -> None:
        """Add what happened at each state."""
        self._all_lives.add(self._lives)
        names = [variable.name for variable in self.clause.positive]
        totals = np.zeros((len(self.automaton.states), at.COUNTS), np.int64)
        for edge, counts in zip(self._edges, self._counts, strict=True):
            totals[edge.target] += counts
        for state, bound in enumerate(self.automaton.states):
            if bound:
                candidates, passes, created = totals[state].tolist()
                node = tuple(name for name in names if name in bound)
                peak = self._lives.peak_of(state)
                counters.count(
                    NodeCounts(
                        self.pattern.name,
                        self.clause.index,
                        node,
                        candidates,
                        passes,
                        created,
                        peak,
                        self._tested_at(state),
                    )
                )
        counters.evaluations += self.program.evaluations + self.program.unary_evaluations


def unsupported_feature(pattern: Pattern) -> str | None:
    """The first feature of a pattern that the mechanism does not run, in words; None if it runs the pattern."""
    return beyond_any_match(pattern) or (None if before_is_earlier(pattern.ties) else f"TIES {pattern.ties.value}")


MECHANISM = Mechanism(
    "eager_nfa",
    find_eagerly,
    unsupported_feature=unsupported_feature,
    in_pattern_order=True,
    in_order=True,
)
