"""A pattern clause after clause: what the mechanisms over instances do alike around the run of one clause."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, Orders, Owned, orders_only
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import Block, without_earlier
from cep_pipeline.slices.ownership import Finality, finality_of


class ClauseRun(Protocol):
    """A run of one clause over one slice."""

    def __iter__(self) -> Iterator[Block]: ...

    def count(self, counters: Counters) -> None:
        """Add what the finished run did."""
        ...


def find_by_clause(
    mechanism: str | None,
    pattern: Pattern,
    orders: Orders,
    owned: Owned,
    counters: Counters,
    start: Callable[[Clause, Any, Finality], ClauseRun],
) -> Iterator[Block]:
    """The owned matches of a pattern by runs of its clauses.

    Parameters
    ----------
    mechanism
        Whose name a refusal of trees gives; None where trees are run.
    start
        Makes the run of a clause by an order (or a tree), whose matches count as final at a point.

    Notes
    -----
    A binding that two clauses match is final at the earlier of their points: the run of the later one leaves it out.
    """
    checked = orders if mechanism is None else orders_only(mechanism, pattern, orders)
    planned = list(zip(pattern.clauses, checked, strict=True))
    for clause, order in planned:
        finality = finality_of(pattern, clause)
        run = start(clause, order, finality)
        earlier = [
            start(other, other_order, finality)
            for other, other_order in planned
            if owned != EVERYTHING and other.positive == clause.positive and finality_of(pattern, other) < finality
        ]
        yield from without_earlier(run, earlier)
        run.count(counters)


class Lives:
    """The number of instances alive after each event, from when each is made and when its window ends.

    Parameters
    ----------
    events
        Number of events.
    nodes
        Nodes of the plan that are told apart, or 1.

    Attributes
    ----------
    changes
        int32, shape (nodes, events + 2): instances made at each row, less those that are dead from it on.
    """

    def __init__(self, events: int, nodes: int = 1) -> None:
        self.changes: Array = np.zeros((nodes, events + 2), np.int32)

    def add(self, other: Lives) -> None:
        """Add the instances of another run over the same events, of all its nodes together."""
        self.changes[0] += other.changes.sum(axis=0, dtype=np.int32)

    def peak_of(self, node: int) -> int:
        """The most instances of a node that are alive after an event; of all nodes where they are not told apart."""
        node = node if len(self.changes) > 1 else 0
        return int(np.cumsum(self.changes[node], dtype=np.int64).max(initial=0))

    def peak(self) -> int:
        """The most instances alive after an event."""
        return int(np.cumsum(self.changes.sum(axis=0, dtype=np.int64)).max(initial=0))
