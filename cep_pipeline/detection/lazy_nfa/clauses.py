"""Run all clauses of a pattern, each on an automaton of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cep_pipeline.detection.blocks import Block
from cep_pipeline.detection.finality import finality_of
from cep_pipeline.detection.fused.shared_bindings import without_earlier
from cep_pipeline.detection.lazy_nfa.run import LazyRun
from cep_pipeline.detection.mechanism import EVERYTHING, Counters, Owned
from cep_pipeline.detection.prepared import PreparedEvents
from cep_pipeline.patterns.pattern import Pattern


def find_lazily(
    pattern: Pattern, orders: Sequence[Sequence[str] | None], events: PreparedEvents, owned: Owned, counters: Counters
) -> Iterator[Block]:
    """The owned matches of a pattern; see `Mechanism.find`.

    Parameters
    ----------
    orders
        For each clause its evaluation order, or None for one that the automaton finds by its counters.
    """
    planned = list(zip(pattern.clauses, orders, strict=True))
    for clause, order in planned:
        finality = finality_of(pattern, clause)
        run = LazyRun(pattern, clause, order, events, owned)
        # Bindings that are final earlier by another clause belong to the slice of that point.
        earlier = [
            LazyRun(pattern, other, other_order, events, owned, finality)
            for other, other_order in planned
            if owned != EVERYTHING and other.positive == clause.positive and finality_of(pattern, other) < finality
        ]
        yield from without_earlier(run, earlier)
        run.count(counters)
