"""How many runs live at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cep_pipeline.expressions.columns import Array

SPARSE = 8
"""With fewer runs than one for so many events, sorting their ends is faster than going through all events."""


@dataclass
class Lives:
    """When runs begin and end: by the row of the first event, and by the row (or the end of the window) that ends them.

    Attributes
    ----------
    begun, ended
        Rows with which runs begin, and with which they end.
    rows, changes
        Rows, and how many more runs there are from each on.
    """

    begun: list[Array] = field(default_factory=list)
    ended: list[Array] = field(default_factory=list)
    rows: list[Array] = field(default_factory=list)
    changes: list[Array] = field(default_factory=list)

    def add(self, begun: Array, ended: Array) -> None:
        """Add runs by the rows of their first events and of their ends."""
        self.begun.append(begun)
        self.ended.append(ended)

    def add_changes(self, change: Array, ended: Array) -> None:
        """Add runs by how their number changes with each event, and the ends of those that do not end with an event."""
        rows = np.flatnonzero(change != 0)  # bools are searched many at a time
        self.rows.append(rows)
        self.changes.append(change[rows])
        self.ended.append(ended)

    def peak(self, events: int) -> int:
        """The most runs that are alive between two events."""
        size = sum(map(len, (*self.begun, *self.ended, *self.rows)))
        if size * SPARSE < events:
            parts = [(rows, np.ones(len(rows), np.int32)) for rows in self.begun]
            parts += [(rows, np.full(len(rows), -1, np.int32)) for rows in self.ended]
            parts += zip(self.rows, self.changes, strict=True)
            if not parts:
                return 0
            rows, changes = (np.concatenate(part) for part in zip(*parts, strict=True))
            order = np.argsort(rows, kind="stable")
            alive = np.cumsum(changes[order])
            last = np.append(rows[order][1:] != rows[order][:-1], True)[: len(rows)]
            return int(alive[last].max(initial=0))
        none = np.zeros(0, np.int32)
        change = np.bincount(np.concatenate((none, *self.begun)), minlength=events + 1)
        change -= np.bincount(np.concatenate((none, *self.ended)), minlength=events + 1)
        for rows, changes in zip(self.rows, self.changes, strict=True):
            change[rows] += changes  # of one call rows are distinct
        return int(np.cumsum(change).max(initial=0))
