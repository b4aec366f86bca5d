"""Find the matches of a pattern by lazy tree automata, one for each clause: the drivers of the kernel."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.clause_runs import ClauseSlice, Lives, find_by_clause
from cep_pipeline.detection.instances import codes as rule_codes
from cep_pipeline.detection.instances.groups import Moment
from cep_pipeline.detection.instances.program import KERNEL_SOURCES, FoundMatches, Program, StreamRules
from cep_pipeline.detection.lazy_tree import codes as c
from cep_pipeline.detection.limits import go_on
from cep_pipeline.detection.mechanisms import Counters, Mechanism, Orders, Owned, beyond_any_match, conjuncts_joining
from cep_pipeline.detection.room import ask_for
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.keys import agreement_codes
from cep_pipeline.slices.order import before_is_earlier
from cep_pipeline.slices.ownership import Finality
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.routines import group_rows
from cep_pipeline.statistics.node_counts import NodeCounts


class States:
    """The states of one clause's automaton as arrays for the kernel, made when they are first reached (DEBS'15 6.1).

    State 0 has bound nothing; it has its children from the beginning.

    Parameters
    ----------
    program, rules
        The clause, compiled.

    Attributes
    ----------
    words, children, scopes, counts
        `codes.STATE_WORDS` words a state; the state after each variable, or -1; the scoping parameters: the number of
        bound variables that the newest one comes directly after, these, the number of those that it comes directly
        before, these; `codes.COUNT_WORDS` counts. They may be longer than the states that there are.
    shares, pairs
        int64: tests and passes of late of each set of conjuncts that is tested at once. int32: the place there of the
        conjuncts over each two variables, 0 without any.
    """

    def __init__(self, program: Program, rules: StreamRules) -> None:
        self._program, self._rules = program, rules
        self._variables = program.clause.positive
        self._paths: list[tuple[int, ...]] = [()]
        positive = {variable.name for variable in self._variables}
        joint = [c for c in program.clause.conjuncts if len(c.variables) > 1 and c.variables <= positive]
        self._joined = [frozenset(program.slots[name] for name in conjunct.variables) for conjunct in joint]
        self._shares: dict[frozenset[int], int] = {frozenset(): 0}
        self.shares: Array = np.zeros((1, c.SHARE_WORDS), np.int64)
        room = 16
        self.words: Array = np.zeros((room, c.STATE_WORDS), np.int64)
        self.children: Array = np.full((room, len(self._variables)), -1, np.int32)
        self.scopes: Array = np.zeros((room, 2 * len(self._variables) + 2), np.int32)
        self.counts: Array = np.zeros((room, c.COUNT_WORDS), np.int64)
        self.words[0, c.S_NEWEST] = -1
        width = range(len(self._variables))
        self.pairs: Array = np.array(
            [[self._share((one,), other) if one != other else 0 for other in width] for one in width], np.int32
        )
        self.add_children(0)

    def __len__(self) -> int:
        return len(self._paths)

    def path(self, state: int) -> tuple[str, ...]:
        """The names of the variables that a state has bound, in the order in which it has."""
        return tuple(self._variables[slot].name for slot in self._paths[state])

    def add_children(self, parent: int) -> None:
        """Make the states that bind one more variable after another one."""
        for slot in range(len(self._variables)):
            if slot not in self._paths[parent]:
                self.add(parent, slot)

    def add(self, parent: int, slot: int) -> int:
        """Make the state that binds a variable after another one."""
        state = len(self._paths)
        if state == len(self.words):
            self.words, self.scopes = _doubled(self.words, 0), _doubled(self.scopes, 0)
            self.children, self.counts = _doubled(self.children, -1), _doubled(self.counts, 0)
        before = self._paths[parent]
        path = (*before, slot)
        self._paths.append(path)
        self.children[parent, slot] = state
        variable = self._variables[slot]
        known = frozenset(self._variables[other].name for other in before)
        moment = Moment(known, known)
        words = self.words[state]
        words[c.S_BOUND] = sum(1 << other for other in path)
        words[c.S_NEWEST] = slot
        if variable.kleene:
            growing = Moment(known | {variable.name}, known)
            words[c.S_BEGINS] = self._program.groups.first_group(variable.name, moment)
            words[c.S_GROWS] = self._program.groups.element_group(variable.name, growing)
            words[c.S_LEAVES] = self._program.groups.left_group(growing, (variable.name,))
        else:
            words[c.S_LEAVES] = self._program.groups.first_group(variable.name, moment)
        words[c.S_DISTINCT] = sum(1 << other for other in before if self._may_coincide(other, slot))
        words[c.S_LINKED] = self._linked(path)
        words[c.S_SHARE] = self._share(before, slot)
        words[c.S_LISTS] = any(self._variables[other].kleene for other in path)
        after, ahead = self._scoping(before, slot)
        self.scopes[state, : len(after) + len(ahead) + 2] = [len(after), *after, len(ahead), *ahead]
        return state

    def _scoping(self, before: tuple[int, ...], slot: int) -> tuple[list[int], list[int]]:
        """Return the bound variables before and after which the events of a variable lie (DEBS'15 section 5).

        The paper has one variable on each side, as sequences have; in a partial order they are the last ones of those
        that come before, and the first ones of those that come after.
        """
        relation = self._rules.relations & 3
        after = [other for other in before if relation[other, slot] == rule_codes.EARLIER]
        ahead = [other for other in before if relation[other, slot] == rule_codes.LATER]
        return (
            [one for one in after if not any(relation[one, other] == rule_codes.EARLIER for other in after)],
            [one for one in ahead if not any(relation[one, other] == rule_codes.LATER for other in ahead)],
        )

    def _may_coincide(self, other: int, slot: int) -> bool:
        """True if the rules of order leave it possible that two variables take the same event."""
        relation = int(self._rules.relations[other, slot])
        if not relation & rule_codes.MAY_SHARE:
            return False
        return relation & 3 == rule_codes.UNRELATED or not before_is_earlier(self._program.pattern.ties)

    def _share(self, before: tuple[int, ...], slot: int) -> int:
        """The counter of events that pass the conjuncts which binding a variable completes; 0 without any.

        Equal conjuncts have one place, in whatever order their variables are bound.
        """
        bound = frozenset((*before, slot))
        completed = frozenset(
            number for number, joined in enumerate(self._joined) if slot in joined and joined <= bound
        )
        if completed not in self._shares:
            self._shares[completed] = len(self._shares)
            self.shares = np.concatenate((self.shares, np.zeros((1, c.SHARE_WORDS), np.int64)))
        return self._shares[completed]

    def _linked(self, path: tuple[int, ...]) -> int:
        """The unbound variables each of which completes a conjunct."""
        bound = frozenset(path)
        found = 0
        for joined in self._joined:
            if len(joined - bound) == 1:
                found |= 1 << next(iter(joined - bound))
        return found


def _doubled(array: Array, fill: int) -> Array:
    return np.concatenate((array, np.full_like(array, fill)))


class LazyStream:
    """The events of a slice that fit a positive variable of a clause.

    Parameters
    ----------
    program
        The clause, compiled over the events.
    begin, end
        The rows of the events that are read.

    Attributes
    ----------
    rows, keys
        int32: of each event in stream order its row, and the number of what it agrees with others on.
    fits
        int64: the set of variables that it fits, as bits.
    groups
        How many keys there are.
    buffer
        int32: the rows of the events that fit each variable, sorted by (variable, key, row). What has been read and is
        still in the window of the events to come is the input buffer: of each variable and key a run of places.
    starts
        int32, shape (variables * groups,): where the rows of each variable and key begin.
    """

    def __init__(self, program: Program, begin: int, end: int) -> None:
        width = len(program.clause.positive)
        codes, self.groups = _agreement(program, begin, end)
        known = None if codes is None else codes >= 0
        sets = np.zeros(max(end - begin, 0), np.int64)
        leaves: list[Array] = []
        starts: list[Array] = []
        for slot in range(width):
            own = program.fits[slot, begin:end] != 0
            if known is not None:
                own &= known
            sets |= own.astype(np.int64) << slot
            rows = np.flatnonzero(own).astype(np.int32)
            of_key = np.zeros(1, np.int64)
            if codes is not None:
                order, bounds = group_rows(codes[rows], self.groups)
                rows, of_key = rows[order], bounds[:-1]
            starts.append(of_key + sum(len(leaf) for leaf in leaves))
            leaves.append(rows + np.int32(begin))
        places = np.flatnonzero(sets)
        self.rows: Array = (places + begin).astype(np.int32)
        self.fits: Array = sets[places]
        self.keys: Array = np.zeros(len(places), np.int32) if codes is None else codes[places]
        self.buffer: Array = np.concatenate(leaves)
        self.starts: Array = np.concatenate(starts).astype(np.int32)

    def buffered(self, rules: StreamRules) -> Array:
        """int32, shape (events + 2,): events that enter the input buffer at each row, less those that leave."""
        size = len(rules.events) + 2
        entering = np.bincount(self.rows, minlength=size)
        leaving = np.bincount(rules.ceiling[self.rows] + 1, minlength=size)
        return (entering - leaving).astype(np.int32)


def _agreement(program: Program, begin: int, end: int) -> tuple[Array | None, int]:
    """int32: a number for what each event agrees with others on, -1 where it is in no match; and how many there are."""
    clause, events = program.clause, program.events
    if not clause.agree_on or (len(clause.positive) == 1 and not clause.positive[0].kleene):
        return None, 1
    codes, groups = agreement_codes(events, clause.agree_on)
    codes = codes[begin:end]
    alone = np.flatnonzero(codes < 0)
    if len(clause.positive) == 1 and len(alone):  # an event that agrees with none may be a list of its own
        codes = codes.copy()
        codes[alone] = groups + np.arange(len(alone), dtype=np.int32)
        groups += len(alone)
    return codes, max(groups, 1)


INSTANCE_ROOM, SEARCH_ROOM = 1 << 8, 1 << 6
"""Stored instances, and searches within each other, that there is room for at first."""


class Memory:
    """All that the kernel reads and writes for one clause over one slice.

    Parameters
    ----------
    program, rules, stream, states, found
        The clause compiled, its rules, the events that are read, the automaton's states, and where matches are put.
    even_window
        Whether windows reach equally far for all keys.
    first_output_row
        The row from which on the last event of a match lies.
    by_counter
        Whether the variable with the fewest events in the input buffer is bound next, as in the paper.
    """

    def __init__(
        self,
        program: Program,
        rules: StreamRules,
        stream: LazyStream,
        states: States,
        found: FoundMatches,
        *,
        even_window: bool,
        first_output_row: int,
        by_counter: bool = False,
    ) -> None:
        self.program, self.rules, self.stream, self.states, self.found = program, rules, stream, states, found
        width = len(program.clause.positive)
        kleene = [slot for slot, variable in enumerate(program.clause.positive) if variable.kleene]
        self.ring = program.ring()
        self.registers = np.zeros(c.REGISTERS, np.int64)
        self.lives = Lives(len(program.events))
        self._heads, self._tails = stream.starts.copy(), stream.starts.copy()
        self._amounts = np.zeros(width, np.int64)
        self._waiting = np.full(2 * width * stream.groups, -1, np.int32)
        self._entries = np.empty(INSTANCE_ROOM * c.ENTRY_WORDS, np.int32)
        self._entry_slots = np.empty(INSTANCE_ROOM * width, np.int32)
        self._searches = np.empty(SEARCH_ROOM * c.FRAME_WORDS, np.int64)
        self._slots = np.zeros(len(program.variables), np.int32)
        self._expected = np.zeros(width + 1, np.float64)
        r = self.registers
        r[c.VARIABLES], r[c.KEYS], r[c.PLACES] = width, stream.groups, len(stream.rows)
        r[c.KLEENE], r[c.ALL_BOUND] = sum(1 << slot for slot in kleene), (1 << width) - 1
        r[c.ROOT] = -1
        r[c.EVEN_WINDOW], r[c.OUTPUT_FROM] = even_window, first_output_row
        r[c.SWEEP_AT], r[c.BY_COUNTER] = INSTANCE_ROOM, by_counter

    def words(self) -> Array:
        """int64: the addresses of all arrays as they are now, for the kernel."""
        r, stream = self.registers, self.stream
        r[c.POOL_ROOM] = len(self._entries) // c.ENTRY_WORDS
        r[c.STACK_ROOM] = len(self._searches) // c.FRAME_WORDS
        arrays = (
            *(r, stream.rows, stream.keys, stream.fits),
            *(stream.buffer, self._heads, self._tails, self._amounts),
            *(self.states.words, self.states.children, self.states.scopes, self.states.counts),
            *(self.states.shares, self.states.pairs),
            *(self._waiting, self._entries, self._entry_slots, self.lives.changes),
            *(self._searches, self._slots, self._expected),
        )
        own = [int(array.ctypes.data) for array in arrays]
        assert len(own) == c.AUTOMATON_WORDS
        parts = (self.found, self.rules, self.program, self.ring)
        return np.array([*own, *(word for part in parts for word in part.kernel_words())], np.int64)

    def make_room(self, reason: int) -> None:
        """Make what the kernel has stopped for."""
        r = self.registers
        if reason == c.NEW_STATE:
            self.states.add_children(int(r[c.PENDING_STATE]))
        elif reason == c.POOL_FULL:
            held = len(self._entries) // c.ENTRY_WORDS
            size = 2 * (self._entries.nbytes + self._entry_slots.nbytes)
            ask_for(size, f"the lazy automaton holds {held:,} partial matches within a window")
            self._entries, self._entry_slots = _doubled(self._entries, 0), _doubled(self._entry_slots, 0)
        elif reason == c.STACK_FULL:
            self._searches = _doubled(self._searches, 0)
        elif reason == c.CELLS_FULL:
            self.ring.grow()


MOST_VARIABLES = 62
"""Sets of variables are bits of an int64."""

_advance = NativeKernel(
    "cep_pipeline.detection.lazy_tree.kernel",
    "advance",
    ("int64*",),
    sources=(
        *KERNEL_SOURCES,
        "cep_pipeline.detection.lazy_tree.codes",
    ),
)


class LazyRun:
    """One run of a clause over a slice: iterate over it once for its blocks of matches.

    Parameters
    ----------
    of
        A clause of a pattern under skip_till_any_match.
    lives, buffered
        Where the lives of instances, and of events in the input buffer, are added by `count`.
    by_counter
        As in `Memory`.
    """

    def __init__(self, of: ClauseSlice, lives: Lives, buffered: Lives, *, by_counter: bool = False) -> None:
        self.of, self._lives, self._buffered, self._by_counter = of, lives, buffered, by_counter
        self._memory: Memory | None = None

    def __iter__(self) -> Iterator[Block]:
        of = self.of
        program = Program(of.pattern, of.clause, of.events)
        if not program.possible:
            return
        stream = LazyStream(program, of.earliest_row, of.end_row)
        rules = StreamRules(of.pattern, of.clause, of.events, program)
        found = FoundMatches(*of)
        memory = self._memory = Memory(
            program,
            rules,
            stream,
            States(program, rules),
            found,
            even_window=of.pattern.window.time_us is not None or not of.pattern.partition_by,
            first_output_row=of.first_row if of.finality is Finality.LAST_EVENT else 0,
            by_counter=self._by_counter,
        )
        reason = c.GOING_ON
        while reason != c.FINISHED:
            go_on()
            reason = _advance(memory.words())
            if reason == c.OUTPUT_FULL and not len(found):
                found.grow()
            block = found.drain()
            if block is not None:
                yield block
            memory.make_room(reason)

    def count(self, counters: Counters) -> None:
        """Add what has been counted, when the run is over: a node is a state."""
        memory = self._memory
        if memory is None:
            return
        for state in range(1, len(memory.states)):
            tried, passed, created, _, held, *_ = memory.states.counts[state].tolist()
            if tried:
                path = memory.states.path(state)
                tested = conjuncts_joining(self.of.clause, path[:-1], path[-1:]) if len(path) > 1 else None
                counters.count(
                    NodeCounts(self.of.pattern.name, self.of.clause.index, path, tried, passed, created, held, tested)
                )
        self._lives.add(memory.lives)
        counters.count_peak(int(memory.registers[c.PEAK]))
        self._buffered.changes += memory.stream.buffered(memory.rules)
        counters.evaluations += memory.program.evaluations + memory.program.unary_evaluations


def unsupported_feature(pattern: Pattern) -> str | None:
    """The first feature of a pattern that the lazy tree does not run, in words; None if it runs the pattern."""
    most = max(len(clause.positive) for clause in pattern.clauses)
    too_many = f"a clause of {most} variables (at most {MOST_VARIABLES})" if most > MOST_VARIABLES else None
    return beyond_any_match(pattern) or too_many


SMALLEST_COUNTER = "smallest_counter"
"""The option by which an automaton chooses as in the paper."""


def find(
    pattern: Pattern,
    orders: Orders,
    events: PreparedEvents,
    owned: Owned,
    counters: Counters,
    options: frozenset[str] = frozenset(),
) -> Iterator[Block]:
    """Find the owned matches of a pattern, in orders that the automata find by themselves, whatever the plan says.

    With the option `smallest_counter` the variable with the fewest events in the input buffer is bound next (DEBS'15,
    section 6), without it the one that is expected to cost least. With both, an instance waits for the variable that
    was chosen when it was made, where the paper chooses anew at each event; and the root changes only when that pays.
    """
    MECHANISM.check(pattern)
    lives, buffered = Lives(len(events)), Lives(len(events))

    def start(of: ClauseSlice, _: object) -> LazyRun:
        return LazyRun(of, lives, buffered, by_counter=SMALLEST_COUNTER in options)

    yield from find_by_clause(pattern, [()] * len(pattern.clauses), events, owned, counters, start)
    counters.count_peak(lives.peak())
    counters.events_buffered = max(counters.events_buffered, buffered.peak())


MECHANISM = Mechanism("lazy_tree_nfa", find, unsupported_feature=unsupported_feature, options=(SMALLEST_COUNTER,))
