"""How many runs live at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cep_pipeline.detection.columns import Array


@dataclass
class Lives:
    """When runs begin and end: by the row of the first event, and by the row (or the end of the window) that ends them.

    Attributes
    ----------
    begun, ended
        Rows, one for each run.
    changes
        int32, shape (events + 1,) each: how many more runs there are from each row on.
    """

    begun: list[Array] = field(default_factory=list)
    ended: list[Array] = field(default_factory=list)
    changes: list[Array] = field(default_factory=list)

    def add_changes(self, change: Array, ended: Array) -> None:
        """Add runs by how their number changes with each event, and the ends of those that do not end with an event."""
        self.changes.append(change)
        self.ended.append(ended)

    def peak(self, events: int) -> int:
        """The most runs that are alive between two events."""
        if not self.begun and not self.changes:
            return 0
        none = np.empty(0, np.int64)
        change = np.bincount(np.concatenate([none, *self.begun]).astype(np.int64), minlength=events + 1)
        change -= np.bincount(np.concatenate([none, *self.ended]).astype(np.int64), minlength=events + 1)
        for other in self.changes:
            change += other
        return int(np.cumsum(change).max(initial=0))
