"""What a tree reads of a slice: the events that fit a variable, and for each how far its window reaches."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from cep_pipeline.detection.instances.program import Program
from cep_pipeline.detection.instances.stream_rules import StreamRules
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.prepared import PreparedEvents


class TreeStream:
    """The events of a slice as one clause's tree reads them. A step is an event that fits a positive variable.

    Parameters
    ----------
    pattern, clause, events
        As everywhere.
    program
        The conditions of the clause.
    first_row, end_row
        The rows that are read.

    Attributes
    ----------
    rules
        Window, order and agreement by rows.
    rows
        int32: the row of each step.
    expires
        int32: the step at which the window that begins with each has ended.
    different
        How many keys there are that events must agree on; 1 where they need not.
    """

    def __init__(
        self, pattern: Pattern, clause: Clause, events: PreparedEvents, program: Program, first_row: int, end_row: int
    ) -> None:
        self.clause, self.events, self.program = clause, events, program
        self.first_row, self.end_row = first_row, end_row
        self.rules = StreamRules(pattern, clause, events, program)
        fits = program.fits[: len(clause.positive), first_row:end_row]
        self.rows = (np.flatnonzero(fits.any(axis=0)) + first_row).astype(np.int32)
        self.expires = np.searchsorted(self.rows, self.rules.ceiling[self.rows], "right").astype(np.int32)
        self.keyed = bool(clause.agree_on)
        self.different = max(int(self.rules.keys.max(initial=0)) + 1, 1)

    @cached_property
    def due(self) -> Array:
        """int32: the step at which the timestamp of each has passed."""
        times = self.events.timestamps[self.rows]
        return np.searchsorted(times, times, "right").astype(np.int32)

    @cached_property
    def _negated(self) -> list[tuple[Array, Array]]:
        """Of each negated variable int32, the rows of its events by key, and int64, where those of each key begin."""
        found = []
        for number in range(len(self.clause.positive), len(self.program.variables)):
            rows = np.flatnonzero(self.program.fits[number, : self.end_row]).astype(np.int32)
            starts = np.array([0, len(rows)], np.int64)
            if self.keyed:
                rows = rows[self.rules.keys[rows] >= 0]
                rows = rows[np.argsort(self.rules.keys[rows], kind="stable")]
                starts = np.searchsorted(self.rules.keys[rows], np.arange(self.different + 1)).astype(np.int64)
            found.append((rows, starts))
        return found

    @cached_property
    def negated(self) -> Array:
        """int64: for each negated variable where its rows are, how many, and where the starts of each key are."""
        words = []
        for rows, starts in self._negated:
            words += [int(rows.ctypes.data), len(rows), int(starts.ctypes.data)]
        return np.array(words or [0], np.int64)

    @property
    def negated_held(self) -> Array | None:
        """int64: how many events of negated variables are held after each row: each for as long as its window.

        None where there are no such variables.
        """
        if not self._negated:
            return None
        change = np.zeros(len(self.events) + 1, np.int64)
        for rows, _ in self._negated:
            held = rows[rows >= self.first_row]
            np.add.at(change, held, 1)
            np.add.at(change, self.rules.ceiling[held] + 1, -1)
        return np.cumsum(change)

    def entered(self, variable: int) -> tuple[int, int]:
        """How many events of a single variable's type were read, and how many fit it."""
        rows = self.events.leaf_rows(self.clause.positive[variable].event_type)
        low, high = np.searchsorted(rows, (self.first_row, self.end_row))
        return int(high - low), int(np.count_nonzero(self.program.fits[variable, self.first_row : self.end_row]))
