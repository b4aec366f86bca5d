"""Find the matches of a pattern by lazy tree automata, one for each clause: the drivers of the kernel."""

from __future__ import annotations

from collections.abc import Iterator

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.instances import KERNEL_SOURCES, StreamRules, compile_program
from cep_pipeline.detection.instances.clause_runs import Lives, find_by_clause
from cep_pipeline.detection.instances.found import FoundMatches
from cep_pipeline.detection.lazy_tree import codes as c
from cep_pipeline.detection.lazy_tree.states import LazyStream, Memory, States
from cep_pipeline.detection.mechanisms import Counters, Mechanism, Orders, Owned, beyond_any_match, conjuncts_joining
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.ownership import Finality, earliest_row
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics.node_counts import NodeCounts

MOST_VARIABLES = 62
"""Sets of variables are bits of an int64."""

_advance = NativeKernel(
    "cep_pipeline.detection.lazy_tree.kernel",
    "advance",
    ("int64*",),
    sources=(
        *KERNEL_SOURCES,
        *(f"cep_pipeline.detection.instances.{module}" for module in ("found", "program", "searching", "stream_rules")),
        "cep_pipeline.detection.lazy_tree.codes",
    ),
)


class LazyRun:
    """One run of a clause over a slice: iterate over it once for its blocks of matches.

    Parameters
    ----------
    pattern, clause
        A pattern under skip_till_any_match, and one of its clauses.
    events, owned
        The slice's own events with the look-back before them, and the slice `[start, end)`.
    finality
        When a match counts as final.
    lives, buffered
        Where the lives of instances, and of events in the input buffer, are added by `count`.
    """

    def __init__(
        self,
        pattern: Pattern,
        clause: Clause,
        events: PreparedEvents,
        owned: Owned,
        finality: Finality,
        lives: Lives,
        buffered: Lives,
    ) -> None:
        self.pattern, self.clause, self.events, self.owned = pattern, clause, events, owned
        self.finality, self._lives, self._buffered = finality, lives, buffered
        self._memory: Memory | None = None

    def __iter__(self) -> Iterator[Block]:
        program = compile_program(self.pattern, self.clause, self.events)
        if not program.possible:
            return
        events, (start, end) = self.events, self.owned
        end_row = len(events) if end is None else events.rows_before(end)
        stream = LazyStream(program, earliest_row(self.pattern, events, self.owned), end_row)
        rules = StreamRules(self.pattern, self.clause, events, program)
        rules.prepare()
        found = FoundMatches(self.pattern, self.clause, events, self.owned, self.finality)
        memory = self._memory = Memory(
            program,
            rules,
            stream,
            States(program, rules),
            found,
            even_window=self.pattern.window.time_us is not None or not self.pattern.partition_by,
            first_output_row=0
            if start is None or self.finality is not Finality.LAST_EVENT
            else events.rows_before(start),
        )
        reason = c.GOING_ON
        while reason != c.FINISHED:
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
                tested = conjuncts_joining(self.clause, path[:-1], path[-1:]) if len(path) > 1 else None
                counters.count(
                    NodeCounts(self.pattern.name, self.clause.index, path, tried, passed, created, held, tested)
                )
        self._lives.add(memory.lives)
        counters.count_peak(int(memory.registers[c.PEAK]))
        self._buffered.changes[0] += memory.stream.buffered(memory.rules)
        counters.evaluations += memory.program.evaluations + memory.program.unary_evaluations


def unsupported_feature(pattern: Pattern) -> str | None:
    """The first feature of a pattern that the lazy tree does not run, in words; None if it runs the pattern."""
    most = max(len(clause.positive) for clause in pattern.clauses)
    too_many = f"a clause of {most} variables (at most {MOST_VARIABLES})" if most > MOST_VARIABLES else None
    return beyond_any_match(pattern) or too_many


def find(pattern: Pattern, orders: Orders, events: PreparedEvents, owned: Owned, counters: Counters) -> Iterator[Block]:
    """Find the owned matches of a pattern, in orders that the automata find by themselves, whatever the plan says."""
    MECHANISM.check(pattern)
    lives, buffered = Lives(len(events)), Lives(len(events))

    def start(clause: Clause, _: object, finality: Finality) -> LazyRun:
        return LazyRun(pattern, clause, events, owned, finality, lives, buffered)

    yield from find_by_clause(None, pattern, [()] * len(pattern.clauses), owned, counters, start)
    counters.count_peak(lives.peak())
    counters.events_buffered = max(counters.events_buffered, buffered.peak())


MECHANISM = Mechanism("lazy_tree_nfa", find, unsupported_feature=unsupported_feature, in_order=True)
