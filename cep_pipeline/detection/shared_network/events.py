"""The events that a network reads: of each node of events the rows, and the steps at which events come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.slices.keys import agreement_codes
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.routines import group_rows
from cep_pipeline.slices.views import leaf_view


@dataclass(frozen=True)
class EventsOf:
    """What tells the events of a node from those of others: equal ones are read and buffered once.

    Attributes
    ----------
    event_type, filters
        The type, and the conjuncts that one event decides, over `ANY_EVENT`.
    agree_on
        The attributes that events agree on above the node, sorted.
    window
        What windows above it measure: time, or positions in partitions by these attributes.
    """

    event_type: str
    filters: frozenset[Conjunct]
    agree_on: tuple[str, ...]
    window: tuple[str, ...]


class EventRows:
    """The rows of the events of one node.

    Parameters
    ----------
    begin, end
        The rows of the slice that are read.

    Attributes
    ----------
    rows
        int32: in stream order.
    by_key, starts
        int32: those that agree with others, sorted by (key, row); int64: where those of each key begin.
    read
        int32: how many of each key the kernel has read.
    keys
        int32: of each row of the slice its key, -1 where it agrees with none; None where events need not agree.
    different
        How many keys there are, 1 where events need not agree.
    tested
        How many tests of a conjunct on one event it took to find them.
    """

    def __init__(self, what: EventsOf, events: PreparedEvents, begin: int, end: int) -> None:
        self.what = what
        self.rows: Array = leaf_view(events, what.event_type, tuple(what.filters), begin, end).rows
        typed = events.leaf_rows(what.event_type)
        low, high = np.searchsorted(typed, (begin, end))
        self.typed = int(high - low)
        self.tested = len(what.filters) * len(typed)
        self.keys: Array | None = None
        self.different = 1
        self.by_key, self.starts = self.rows, np.array([0, len(self.rows)], np.int64)
        if what.agree_on:
            self.keys, different = agreement_codes(events, what.agree_on)
            self.different = max(different, 1)
            own = self.keys[self.rows]
            known = self.rows[own >= 0]
            order, self.starts = group_rows(self.keys[known], self.different)
            self.by_key = known[order]
        self.by_key = np.ascontiguousarray(self.by_key)
        self.read: Array = np.zeros(self.different, np.int32)

    def held(self, ceiling: Array, size: int) -> Array:
        """int64, shape (size,): events held after each row, each until its window ends."""
        rows = self.by_key
        change = np.bincount(rows, minlength=size + 1) - np.bincount(ceiling[rows] + 1, minlength=size + 1)
        return np.cumsum(change[:size])

    def most_held(self, ceiling: Array) -> int:
        """The most events held at a time."""
        rows = np.sort(self.by_key)
        if not len(rows):
            return 0
        ended = np.searchsorted(np.sort(ceiling[rows]), rows, "left")
        return int((np.arange(1, len(rows) + 1) - ended).max())


def steps_of(leaves: Sequence[tuple[int, EventRows]]) -> tuple[Array, Array, Array]:
    """The rows at which events come, int32; where the nodes of each begin, int64; and these nodes, int32."""
    rows = np.concatenate([np.zeros(0, np.int32), *(leaf.rows for _, leaf in leaves)])
    nodes = np.repeat(
        np.array([node for node, _ in leaves], np.int32), np.array([len(leaf.rows) for _, leaf in leaves], np.int64)
    )
    order = np.argsort(rows, kind="stable")
    rows, nodes = rows[order], nodes[order]
    starts = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1]))) if len(rows) else np.zeros(0, np.int64)
    return rows[starts].astype(np.int32), np.append(starts, len(rows)).astype(np.int64), nodes.astype(np.int32)
