"""When the events of a window of so many events came: instants of some positions of the stream."""

from __future__ import annotations

from typing import Any

import numpy as np

from cep_pipeline.statistics.arrays_json import packed, unpacked

Array = np.ndarray[Any, Any]

MARKS = 256
"""Positions of a window whose instants are known."""


class StreamClock:
    """Instants of positions of the stream, for windows of `events` events.

    Notes
    -----
    At most about two for each 1/256 of a window, whatever the slices: the instant of any position of the window is
    known to so small a part of its events.
    """

    def __init__(self, events: int) -> None:
        self.window = events
        self.step = max(1, events // MARKS)
        self.marks = np.empty((2, 0), np.int64)
        self.events = 0

    def count(self, timestamps: Array) -> None:
        """Take in the ascending timestamps of one slice."""
        start = max(0, len(timestamps) - self.window - self.step)
        positions = np.append(np.arange(start, len(timestamps) - 1, self.step), len(timestamps) - 1)
        self.marks = np.stack((positions, timestamps[positions]))
        self.events = len(timestamps)

    def merge(self, later: StreamClock, offset: int) -> None:
        """Go on with a slice whose first event has the position `offset`."""
        marks = np.concatenate((self.marks, later.marks + np.array([[offset], [0]])), axis=1)
        self.events = offset + later.events
        _, first = np.unique(marks[0] // self.step, return_index=True)
        marks = marks[:, np.union1d(first, marks.shape[1] - 1)]
        begun = int(np.searchsorted(marks[0], self.events - self.window, "right")) - 1
        self.marks = marks[:, max(begun, 0) :]

    def window_start(self) -> int:
        """The instant that the window of the latest events begins with, or one a little before."""
        place = int(np.searchsorted(self.marks[0], self.events - self.window, "right")) - 1
        return int(self.marks[1, max(place, 0)])

    def to_json(self) -> dict[str, Any]:
        """The clock as JSON values."""
        return {"events": self.events, "marks": packed(self.marks)}

    def read(self, content: dict[str, Any]) -> None:
        """Take over what `to_json` wrote."""
        self.events, self.marks = int(content["events"]), unpacked(content["marks"], np.int64, 2)
