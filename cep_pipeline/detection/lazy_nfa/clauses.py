"""Run all clauses of a pattern, each on an automaton of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cep_pipeline.detection.instances.clause_runs import Lives, find_by_clause
from cep_pipeline.detection.lazy_nfa.run import LazyRun
from cep_pipeline.detection.mechanisms import Counters, Orders, Owned
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.ownership import Finality
from cep_pipeline.slices.prepared import PreparedEvents


def find_lazily(
    mechanism: str, pattern: Pattern, orders: Orders | None, events: PreparedEvents, owned: Owned, counters: Counters
) -> Iterator[Block]:
    """The owned matches of a pattern; see `Mechanism.find`.

    Parameters
    ----------
    orders
        For each clause its evaluation order; None for orders that the automata find by their counters.
    """
    lives, buffered = Lives(len(events)), Lives(len(events))

    def start(clause: Clause, order: Sequence[str], finality: Finality) -> LazyRun:
        chain = None if orders is None else order
        return LazyRun(pattern, clause, chain, events, owned, finality, lives, buffered)

    planned = [[variable.name for variable in clause.positive] for clause in pattern.clauses]
    yield from find_by_clause(mechanism, pattern, planned if orders is None else orders, owned, counters, start)
    counters.count_peak(lives.peak())
    counters.events_buffered = max(counters.events_buffered, buffered.peak())
