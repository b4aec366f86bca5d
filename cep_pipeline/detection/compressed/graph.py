"""The shared versioned buffer while it is made: nodes are merged runs, edges the events that they bind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cep_pipeline.expressions.columns import Array

IGNORED = -1
"""In place of a variable: the run did not bind the event."""
NO_NODE = -1
"""The node of a run without events."""


@dataclass(frozen=True, eq=False)
class Edges:
    """Edges of the buffer.

    Attributes
    ----------
    source, target
        int64: the node of a run before and after an event; a target of -1 is the end of a match.
    variable, row
        int64: the event's variable, or `IGNORED`, and the event.
    """

    source: Array
    target: Array
    variable: Array
    row: Array

    def __len__(self) -> int:
        return len(self.source)

    def take(self, places: Array) -> Edges:
        """Some of the edges."""
        return Edges(self.source[places], self.target[places], self.variable[places], self.row[places])


class GraphBuilder:
    """Collects nodes, edges and the ends of matches."""

    def __init__(self) -> None:
        self._nodes = 0
        self._edges: list[tuple[Array, Array, Array, Array]] = []
        self._ends: list[tuple[Array, Array, Array, Array]] = []

    @property
    def size(self) -> int:
        """Number of nodes."""
        return self._nodes

    def mark(self) -> tuple[int, int, int]:
        """What `rewind` goes back to."""
        return self._nodes, len(self._edges), len(self._ends)

    def rewind(self, mark: tuple[int, int, int] | None) -> None:
        """Forget what was added since."""
        assert mark is not None
        self._nodes, edges, ends = mark
        del self._edges[edges:], self._ends[ends:]

    def nodes(self, count: int) -> Array:
        """So many new nodes, which come after all others."""
        self._nodes += count
        return np.arange(self._nodes - count, self._nodes)

    def edges(self, source: Array, target: Array, variable: Array, row: Array) -> None:
        """Edges from older nodes to new ones."""
        self._edges.append((source, target, variable, row))

    def end(self, row: Array, source: Array, variable: int, count: Array) -> None:
        """Matches that end with an event bound to a variable: so many from each run."""
        self._ends.append((source, np.full(len(source), variable, np.int64), row, count))

    def finished(self) -> tuple[Edges, Edges, Array]:
        """All edges by ascending target, the ends of matches by ascending event, and how many matches each end has."""
        source, target, variable, row = _columns(self._edges)
        order = np.argsort(target, kind="stable")
        edges = Edges(source, target, variable, row).take(order)
        source, variable, row, count = _columns(self._ends)
        order = np.argsort(row, kind="stable")
        ends = Edges(source, np.full(len(source), NO_NODE, np.int64), variable, row).take(order)
        return edges, ends, count[order]


def _columns(parts: list[tuple[Array, Array, Array, Array]]) -> list[Array]:
    if not parts:
        return [np.empty(0, np.int64)] * 4
    return [np.concatenate(column) for column in zip(*parts, strict=True)]
