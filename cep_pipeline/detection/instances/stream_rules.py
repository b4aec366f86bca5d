"""The rules of a clause over two events as arrays over the slice: window, order under TIES, agreement, negation.

Every rule becomes a comparison of rows, whatever the window and the ties are: an event is within the window of a later
one if its row is not below the later one's *floor*; an event is before another one if its row is below the other's
*reach* (and is not the other itself).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from cep_pipeline.detection.columns import Array
from cep_pipeline.detection.fused.keys import agreement_codes
from cep_pipeline.detection.fused.views import clock_of, leaf_view, rows_below
from cep_pipeline.detection.instances import codes
from cep_pipeline.detection.instances.program import Program
from cep_pipeline.detection.nfab.stream import everything
from cep_pipeline.detection.partitions import partitions_of
from cep_pipeline.detection.prepared import PreparedEvents
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Pattern, Ties

RULES_WORDS = 15
"""Words by which a kernel finds the rules (`rules.rules_at`)."""
LONGEST_WINDOW = 2**61


class StreamRules:
    """The rules of a clause for kernels over the events of a slice.

    Attributes
    ----------
    floor, ceiling
        int32, a row for each event: the first that is within the window of it as the last event of a match, and the
        last that is within the window of it as the first one.
    reach
        int32: an event is before this one if its row is below `reach` of it (and is not its own).
    onset
        int32: an event is after this one if its row is at least `onset` of it (and is not its own).
    keys
        int32: equal where events agree on what the clause asks for, negative where one agrees with none; of length 0
        where nothing is asked.
    """

    def __init__(self, pattern: Pattern, clause: Clause, events: PreparedEvents, program: Program) -> None:
        self.pattern, self.clause, self.events, self.program = pattern, clause, events, program
        self.floor, self.ceiling = events.derive(("window rows", pattern.window, pattern.partition_by), self._window)
        self.reach, self.onset = events.derive(("order rows", pattern.ties), self._order)
        self.keys = agreement_codes(events, clause.agree_on)[0] if clause.agree_on else np.empty(0, np.int32)

    def _window(self) -> tuple[Array, Array]:
        events, window = self.events, self.pattern.window
        if window.time_us is not None:
            width = min(window.time_us, LONGEST_WINDOW)
            view = everything(events)
            return rows_below(events, view, -width), rows_below(events, view, width + 1) - np.int32(1)
        assert window.events is not None
        partitions, rows, width = partitions_of(events, self.pattern.partition_by), events.every_row, window.events - 1
        ceiling = np.minimum(partitions.rows_ahead(rows, width), len(events) - 1)
        return partitions.rows_back(rows, width).astype(np.int32), ceiling.astype(np.int32)

    def _order(self) -> tuple[Array, Array]:
        rows = self.events.every_row
        if self.pattern.ties is Ties.ARRIVAL:
            return rows, rows + np.int32(1)
        clock = clock_of(self.events)
        begins = np.searchsorted(clock, clock, "left").astype(np.int32)
        ends = np.searchsorted(clock, clock, "right").astype(np.int32)
        return (begins, ends) if self.pattern.ties is Ties.STRICT else (ends, begins)

    @cached_property
    def relations(self) -> Array:
        """int8, shape (slots, slots): `codes.EARLIER` where all events of the first variable are before those of the
        second one, `LATER`, `UNRELATED`; with `MAY_SHARE` where an event may have both types."""
        variables, base = self.program.variables, self.pattern.base_type
        found = np.zeros((len(variables), len(variables)), np.int8)
        for one, first in enumerate(variables):
            for other, second in enumerate(variables):
                if (first.name, second.name) in self.clause.precedence:
                    found[one, other] = codes.EARLIER
                elif (second.name, first.name) in self.clause.precedence:
                    found[one, other] = codes.LATER
                if first.event_type == second.event_type or base in (first.event_type, second.event_type):
                    found[one, other] += codes.MAY_SHARE
        return found

    @cached_property
    def _negated(self) -> tuple[Array, Array, Array]:
        """For each negated variable: its candidates, how many of them have rows below each row, and three words."""
        parts, words = [], []
        counts, begin = [], 0
        for variable in self.clause.negated:
            slot = self.program.slots[variable.name]
            rows, below = self._candidates(variable)
            parts.append(rows)
            counts.append(below)
            words += [slot, self.program.rejecting_group(variable.name), begin]
            begin += len(rows)
        one = np.zeros(1, np.int32)
        return np.concatenate((*parts, one)), np.concatenate((*counts, one)), np.array([*words, 0], np.int64)

    def _candidates(self, variable: Variable) -> tuple[Array, Array]:
        """The rows of the events that fit a variable, and for each row how many of them are below it."""
        events = self.events
        leaf = leaf_view(events, variable.event_type, self.program.filters(variable.name), 0, len(events))

        def count() -> Array:
            return np.searchsorted(leaf.rows, np.arange(len(events) + 1)).astype(np.int32)

        return leaf.rows, events.derive(("candidates below", leaf.identity), count)

    def prepare(self) -> None:
        """Ask for the groups that negation needs; before `Program.kernel_words`."""
        _ = self._negated

    def kernel_words(self) -> list[int]:
        """The `RULES_WORDS` words for a kernel."""
        rows, counts, words = self._negated
        arrays = (self.floor, self.ceiling, self.reach, self.onset, self.keys, self.relations, rows, counts, words)
        self._kept = tuple(map(np.ascontiguousarray, arrays))
        positive = len(self.clause.positive)
        kleene = [variable.kleene for variable in self.program.variables]
        self._kleene = np.array(kleene, np.uint8)
        return [
            *(int(array.ctypes.data) for array in self._kept),
            int(self._kleene.ctypes.data),
            int(len(self.keys) > 0),
            len(self.program.variables),
            positive,
            len(self.clause.negated),
            len(self.events),
        ]
