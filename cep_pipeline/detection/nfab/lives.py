"""How many runs live at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cep_pipeline.detection.columns import Array

SPARSE = 8
"""With fewer runs than one for so many events, sorting their ends is faster than going through all events."""


@dataclass
class Lives:
    """When runs begin and end: by the row of the first event, and by the row (or the end of the window) that ends them.

    Attributes
    ----------
    rows, changes
        Rows, and how many more runs there are from each on.
    """

    rows: list[Array] = field(default_factory=list)
    changes: list[Array] = field(default_factory=list)

    def add(self, begun: Array, ended: Array) -> None:
        """Add runs by the rows of their first events and of their ends."""
        self.rows += [begun, ended]
        self.changes += [np.ones(len(begun), np.int32), np.full(len(ended), -1, np.int32)]

    def add_changes(self, change: Array, ended: Array) -> None:
        """Add runs by how their number changes with each event, and the ends of those that do not end with an event."""
        rows = np.flatnonzero(change)
        self.rows += [rows, ended]
        self.changes += [change[rows], np.full(len(ended), -1, np.int32)]

    def peak(self, events: int) -> int:
        """The most runs that are alive between two events."""
        if not self.rows:
            return 0
        rows, changes = np.concatenate(self.rows), np.concatenate(self.changes)
        if len(rows) * SPARSE < events:
            order = np.argsort(rows, kind="stable")
            alive = np.cumsum(changes[order])
            last = np.append(rows[order][1:] != rows[order][:-1], True)[: len(rows)]
            return int(alive[last].max(initial=0))
        return int(np.cumsum(np.bincount(rows, changes, minlength=events + 1)).max(initial=0))
