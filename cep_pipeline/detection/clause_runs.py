"""A pattern clause after clause: what all mechanisms do alike around the run of one clause over one slice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, Orders, Owned
from cep_pipeline.detection.negated_structures import unrejected_by_structures
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import Block, without_earlier
from cep_pipeline.slices.ownership import Finality, earliest_row, finality_of, owned_matches
from cep_pipeline.slices.prepared import PreparedEvents


class ClauseSlice(NamedTuple):
    """One clause of a pattern over one slice, and which of its matches are wanted.

    Attributes
    ----------
    events
        The slice's own events with the look-back before them.
    owned
        The slice `[start, end)`.
    finality
        When a match of the clause counts as final.
    """

    pattern: Pattern
    clause: Clause
    events: PreparedEvents
    owned: Owned = EVERYTHING
    finality: Finality = Finality.LAST_EVENT

    @property
    def first_row(self) -> int:
        """The first row of the slice's own events."""
        return self.events.rows_in(self.owned)[0]

    @property
    def end_row(self) -> int:
        """The row behind the slice's last event."""
        return self.events.rows_in(self.owned)[1]

    @property
    def earliest_row(self) -> int:
        """The first row that a wanted match may begin with."""
        return earliest_row(self.pattern, self.events, self.owned)

    def owns(self, first: Array, last: Array) -> Array:
        """bool: the matches that are wanted, by the rows of their first and last events."""
        return owned_matches(self.pattern, self.events, self.owned, self.finality, first, last)


class ClauseRun(Protocol):
    """A run of one clause over one slice."""

    def __iter__(self) -> Iterator[Block]: ...

    def count(self, counters: Counters) -> None:
        """Add what the finished run did."""
        ...


def find_by_clause(
    pattern: Pattern,
    plans: Orders,
    events: PreparedEvents,
    owned: Owned,
    counters: Counters,
    start: Callable[[ClauseSlice, Any], ClauseRun],
) -> Iterator[Block]:
    """The owned matches of a pattern by runs of its clauses.

    Parameters
    ----------
    start
        Makes the run of a clause by an order or a tree, as if it had no negated structures.

    Notes
    -----
    A binding that two clauses match is final at the earlier of their points: the run of the later one leaves it out.
    """
    planned = list(zip(pattern.clauses, plans, strict=True))
    for clause, plan in planned:
        finality = finality_of(pattern, clause)
        run = start(ClauseSlice(pattern, clause, events, owned, finality), plan)
        earlier = [
            unrejected_by_structures(
                pattern, other, events, start(ClauseSlice(pattern, other, events, owned, finality), other_plan)
            )
            for other, other_plan in planned
            if owned != EVERYTHING and other.positive == clause.positive and finality_of(pattern, other) < finality
        ]
        yield from without_earlier(unrejected_by_structures(pattern, clause, events, run), earlier)
        run.count(counters)


class Lives:
    """The number of instances alive after each event, from when each is made and when its window ends.

    Parameters
    ----------
    events
        Number of events.

    Attributes
    ----------
    changes
        int32, shape (events + 2,): instances made at each row, less those that are dead from it on.
    """

    def __init__(self, events: int) -> None:
        self.changes: Array = np.zeros(events + 2, np.int32)

    def add(self, other: Lives) -> None:
        """Add the instances of another run over the same events."""
        self.changes += other.changes

    def peak(self) -> int:
        """The most instances alive after an event."""
        return int(np.cumsum(self.changes, dtype=np.int64).max(initial=0))
