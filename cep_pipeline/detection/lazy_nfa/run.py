"""Run one clause over one slice on a lazy automaton: the driver of the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.instances import KERNEL_SOURCES, StreamRules, compile_program
from cep_pipeline.detection.instances.clause_runs import Lives
from cep_pipeline.detection.instances.found import FoundMatches
from cep_pipeline.detection.lazy_nfa import codes as c
from cep_pipeline.detection.lazy_nfa.memory import Memory
from cep_pipeline.detection.lazy_nfa.states import States
from cep_pipeline.detection.lazy_nfa.stream import LazyStream
from cep_pipeline.detection.mechanisms import Counters, Owned, conjuncts_joining
from cep_pipeline.errors import PlanError
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.ownership import Finality, earliest_row
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics.node_counts import NodeCounts

_advance = NativeKernel(
    "cep_pipeline.detection.lazy_nfa.kernel",
    "advance",
    ("int64*",),
    sources=(
        *KERNEL_SOURCES,
        *(f"cep_pipeline.detection.instances.{module}" for module in ("finished", "found", "program", "stream_rules")),
        *(f"cep_pipeline.detection.lazy_nfa.{module}" for module in ("automaton", "choosing", "codes", "steps")),
    ),
)


class LazyRun:
    """One run of a clause over a slice: iterate over it once for its blocks of matches.

    Parameters
    ----------
    pattern, clause
        A pattern under skip_till_any_match, and one of its clauses.
    order
        Names of the clause's positive variables in evaluation order, for the chain automaton; None for the tree
        automaton, which finds its own.
    events, owned
        The slice's own events with the look-back before them, and the slice `[start, end)`.
    finality
        When a match counts as final.
    lives, buffered
        Where the lives of instances, and of events in the input buffer, are added by `count`.

    Raises
    ------
    PlanError
        `order` is no order of the clause's positive variables.
    """

    def __init__(
        self,
        pattern: Pattern,
        clause: Clause,
        order: Sequence[str] | None,
        events: PreparedEvents,
        owned: Owned,
        finality: Finality,
        lives: Lives,
        buffered: Lives,
    ) -> None:
        names = [variable.name for variable in clause.positive]
        if order is not None and sorted(order) != sorted(names):
            raise PlanError(
                f"pattern {pattern.name!r}: the plan orders {', '.join(order)}, but clause {clause.index} binds "
                f"{', '.join(names)}: plan the pattern again"
            )
        self.pattern, self.clause, self.events, self.owned = pattern, clause, events, owned
        self.finality, self._lives, self._buffered = finality, lives, buffered
        self._order = None if order is None else [names.index(name) for name in order]
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
            States(program, rules, self._order),
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
            if tried or self._order is not None:
                path = memory.states.path(state)
                tested = conjuncts_joining(self.clause, path[:-1], path[-1:]) if len(path) > 1 else None
                counters.count(
                    NodeCounts(self.pattern.name, self.clause.index, path, tried, passed, created, held, tested)
                )
        self._lives.add(memory.lives)
        counters.count_peak(int(memory.registers[c.PEAK]))
        self._buffered.changes[0] += memory.stream.buffered(memory.rules, memory.states.root)
        counters.evaluations += memory.program.evaluations + memory.program.unary_evaluations
