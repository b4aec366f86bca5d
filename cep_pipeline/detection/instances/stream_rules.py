"""The rules of a clause over two events as arrays over the slice: window, order under TIES, agreement, negation.

Every rule becomes a comparison of rows, whatever the window and the ties are: an event is within the window of a later
one if its row is not below the later one's *floor*; an event is before another one if its row is below the other's
*reach* (and is not the other itself).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from cep_pipeline.detection.instances.program import Program
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.keys import agreement_codes
from cep_pipeline.slices.order import order_rows
from cep_pipeline.slices.partitions import partitions_of
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import everything, leaf_view, rows_below

RULES_WORDS = 15
"""Words by which a kernel finds the rules (`rules.rules_at`)."""
LONGEST_WINDOW = 2**61
_NO_NEGATION: tuple[Array, Array, Array] = np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int64)
_NO_NEGATION_AT = tuple(int(array.ctypes.data) for array in _NO_NEGATION)


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
        self.reach, self.onset = order_rows(events, pattern.ties)
        self._kept_for: list[tuple[Array, ...]] = []
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

    @property
    def relations(self) -> Array:
        """The relations of `ClauseConditions`."""
        return self.program.groups.conditions.relations

    @cached_property
    def _negated(self) -> tuple[Array, Array, Array]:
        """Return for each negated variable its candidates, the number of them below each row, and three words."""
        if not self.clause.negated:
            return _NO_NEGATION
        parts, words = [], []
        counts, begin = [], 0
        for variable in self.clause.negated:
            slot = self.program.slots[variable.name]
            rows, below = self._candidates(variable)
            parts.append(rows)
            counts.append(below)
            words += [slot, self.program.groups.rejecting_group(variable.name), begin]
            begin += len(rows)
        one = np.zeros(1, np.int32)
        return np.concatenate((*parts, one)), np.concatenate((*counts, one)), np.array([*words, 0], np.int64)

    def words_for(self, negated: Sequence[str], bound: Sequence[str] | None = None) -> list[int]:
        """The words of `kernel_words` with which events of some of the negated variables reject a tuple.

        Parameters
        ----------
        negated
            The negated variables that are asked for, in the order of the clause.
        bound
            The positive variables that the tuple has bound; None: all.
        """
        words = self.kernel_words()
        numbers = [number for number, variable in enumerate(self.clause.negated) if variable.name in negated]
        if len(numbers) == len(self.clause.negated) and bound is None:
            return words
        rows, counts, triples = self._negated
        size = len(self.events) + 1
        own = np.concatenate([*(counts[number * size : (number + 1) * size] for number in numbers), counts[-1:]])
        own_triples = np.array([*(triples[3 * n + at] for n in numbers for at in range(3)), 0], np.int64)
        relations = np.array(self.relations)
        if bound is not None:
            for variable in self.clause.positive:
                if variable.name not in bound:
                    slots = [self.program.slots[self.clause.negated[number].name] for number in numbers]
                    relations[self.program.slots[variable.name], slots] = 0
        arrays = relations, rows, own, own_triples
        self._kept_for.append(arrays)
        words[5:9] = [int(array.ctypes.data) for array in arrays]
        words[-2] = len(numbers)
        return words

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

    def _of_stream(self) -> tuple[tuple[Array, ...], list[int]]:
        """The arrays that clauses with equal windows, ties and agreements share, and their addresses."""
        arrays = tuple(map(np.ascontiguousarray, (self.floor, self.ceiling, self.reach, self.onset, self.keys)))
        return arrays, [int(array.ctypes.data) for array in arrays]

    def kernel_words(self) -> list[int]:
        """The `RULES_WORDS` words for a kernel; valid while the rules and the program live."""
        pattern, clause = self.pattern, self.clause
        key = "rules", pattern.window, pattern.partition_by, pattern.ties, clause.agree_on
        of_stream, addresses = self.events.handle(key, self._of_stream)
        rows, counts, words = self._negated
        self._kept = *of_stream, rows, counts, words
        conditions = self.program.groups.conditions
        relations, kleene = conditions.rule_addresses
        return [
            *addresses,
            relations,
            *((int(array.ctypes.data) for array in self._negated) if clause.negated else _NO_NEGATION_AT),
            kleene,
            int(len(self.keys) > 0),
            len(conditions.variables),
            len(clause.positive),
            len(clause.negated),
            len(self.events),
        ]
