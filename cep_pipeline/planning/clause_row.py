"""Where a snapshot has the numbers of a clause, for compiled code that reads them itself.

Snapshots of one source have their numbers in the same places. Who reads many of them looks the places up once; then a
snapshot is one row of numbers, which was written when it was made, and nothing is asked by a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

import numpy as np

from cep_pipeline.planning.cost_terms import Array
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

NO_PLACE = -1


class ClauseRow:
    """The numbers of leaves and conditions by their keys, in the places where snapshots have them.

    Parameters
    ----------
    leaves, conditions
        The keys.
    priors
        What counts of each condition that was not measured.

    Attributes
    ----------
    room, places, priors
        The row of the snapshot that was taken last, float64; of each key its place there, int64; and float64, what
        counts where there is none.
    """

    def __init__(self, leaves: Sequence[str], conditions: Sequence[str], priors: Sequence[float]) -> None:
        self._leaves, self._conditions = leaves, conditions
        self.priors: Array = np.array([*(0.0 for _ in leaves), *priors])
        self.places: Array = np.full(len(self.priors), NO_PLACE, np.int64)
        self.room: Array = np.zeros(0)
        self._keys: object = None
        self._row: memoryview = self.room.data
        self._struct = Struct("")

    def take(self, snapshot: StatisticsSnapshot) -> bool:
        """Take the numbers of a snapshot; whether they have other places than before. KeyError: it lacks a leaf."""
        keys, numbers = snapshot.planned
        moved = keys != self._keys
        if moved:
            self._find(snapshot)
        self._struct.pack_into(self._row, 0, *numbers)
        return moved

    def _find(self, snapshot: StatisticsSnapshot) -> None:
        """Look the places up."""
        (leaves, conditions), numbers = snapshot.planned
        place_of_leaf = {key: place for place, key in enumerate(leaves)}
        place_of = {key: place for place, key in enumerate(conditions, len(leaves))}
        self.places[: len(self._leaves)] = [place_of_leaf[key] for key in self._leaves]
        self.places[len(self._leaves) :] = [place_of.get(key, NO_PLACE) for key in self._conditions]
        self.room = np.zeros(len(numbers))
        self._row, self._struct = self.room.data, Struct(f"{len(numbers)}d")
        self._keys = leaves, conditions
