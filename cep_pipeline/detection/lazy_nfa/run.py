"""Run one clause over one slice on a lazy automaton: the driver of the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cep_pipeline.detection.blocks import Block, ListBlock
from cep_pipeline.detection.finality import Finality, finality_of
from cep_pipeline.detection.instances import KERNEL_SOURCES, StreamRules, compile_program
from cep_pipeline.detection.lazy_nfa import codes as c
from cep_pipeline.detection.lazy_nfa.memory import Memory
from cep_pipeline.detection.lazy_nfa.states import States
from cep_pipeline.detection.lazy_nfa.stream import LazyStream
from cep_pipeline.detection.mechanism import EVERYTHING, Counters, NodeCounts, Owned
from cep_pipeline.detection.native import NativeKernel
from cep_pipeline.detection.ownership import earliest_row, owned_matches
from cep_pipeline.detection.prepared import PreparedEvents
from cep_pipeline.errors import PlanError
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern

_advance = NativeKernel(
    "cep_pipeline.detection.lazy_nfa.kernel",
    "advance",
    ("int64*",),
    sources=(
        *KERNEL_SOURCES,
        *(f"cep_pipeline.detection.instances.{module}" for module in ("program", "stream_rules")),
        *(f"cep_pipeline.detection.lazy_nfa.{module}" for module in ("automaton", "codes", "steps")),
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
        When a match counts as final; None for what the clause says.

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
        owned: Owned = EVERYTHING,
        finality: Finality | None = None,
    ) -> None:
        names = [variable.name for variable in clause.positive]
        if order is not None and sorted(order) != sorted(names):
            raise PlanError(
                f"pattern {pattern.name!r}: the plan orders {', '.join(order)}, but clause {clause.index} binds "
                f"{', '.join(names)}: plan the pattern again"
            )
        self.pattern, self.clause, self.events, self.owned = pattern, clause, events, owned
        self.finality = finality_of(pattern, clause) if finality is None else finality
        self._order = None if order is None else [names.index(name) for name in order]
        self._memory: Memory | None = None

    def __iter__(self) -> Iterator[Block]:
        program = compile_program(self.pattern, self.clause, self.events)
        if not program.possible:
            return
        begin = earliest_row(self.pattern, self.events, self.owned)
        end = len(self.events) if self.owned[1] is None else self.events.rows_before(self.owned[1])
        stream = LazyStream(program, begin, end)
        rules = StreamRules(self.pattern, self.clause, self.events, program)
        rules.prepare()
        owns_last_events = self.owned[0] is not None and self.finality is Finality.LAST_EVENT
        memory = self._memory = Memory(
            program,
            rules,
            stream,
            States(program, rules, self._order),
            even_window=self.pattern.window.time_us is not None or not self.pattern.partition_by,
            first_output_row=self.events.rows_before(self.owned[0]) if owns_last_events and self.owned[0] else 0,
        )
        while True:
            reason = _advance(memory.words())
            if reason in (c.FINISHED, c.OUTPUT_FULL):
                block = memory.take_matches()
                if block is not None:
                    yield self._owned(block)
                if reason == c.FINISHED:
                    return
            memory.make_room(reason)

    def count(self, counters: Counters) -> None:
        """Add what has been counted, when the run is over: a node is a state."""
        if self._memory is None:
            return
        registers, states, program = self._memory.registers, self._memory.states, self._memory.program
        for state in range(1, len(states)):
            tried, passed, created, _, held, *_ = states.counts[state].tolist()
            if tried or self._order is not None:
                path = states.path(state)
                counters.count(NodeCounts(self.pattern.name, self.clause.index, path, tried, passed, created, held))
        counters.peak_instances = max(counters.peak_instances, int(registers[c.PEAK]))
        counters.events_buffered = max(counters.events_buffered, int(registers[c.PEAK_STORED]))
        counters.condition_evaluations += program.evaluations + program.unary_evaluations

    def _owned(self, block: Block) -> Block:
        if self.owned == EVERYTHING:
            return block
        if isinstance(block, ListBlock):
            first = np.minimum.reduceat(block.rows, block.offsets[:-1])
            last = np.maximum.reduceat(block.rows, block.offsets[:-1])
        else:
            first, last = block.rows.min(axis=0), block.rows.max(axis=0)
        return block.take(owned_matches(self.pattern, self.events, self.owned, self.finality, first, last))
