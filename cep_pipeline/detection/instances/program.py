"""The conditions of a clause, compiled for kernels over instances.

Everything that one event decides is computed beforehand: which events fit a variable (`Program.fits`), and the columns
that conjuncts compare. The rest is words for `evaluator.py`, in the groups that a mechanism asks for
(`condition_groups.py`).
"""

from __future__ import annotations

from functools import cached_property
from itertools import accumulate

import numpy as np

from cep_pipeline.compiled.native import address
from cep_pipeline.detection.instances import codes
from cep_pipeline.detection.instances.cell_ring import CellRing
from cep_pipeline.detection.instances.condition_groups import ConditionGroups, conditions_of
from cep_pipeline.detection.instances.writer import (
    Accumulators,
    CommonTerms,
    CompiledConjunct,
    ConjunctWriter,
    EventOf,
)
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.expressions import Element
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import holds_for_all, leaf_view, may_match

CODE_WORDS = 8
"""Words by which a kernel finds a program (`evaluator.code_at`)."""

Item = tuple[int, ...]


class Program:
    """The conjuncts of a clause over the events of a slice; make it with `compile_program`.

    Attributes
    ----------
    groups
        The groups of conjuncts that are tested together: a mechanism asks for them.
    variables, slots
        As in `ClauseConditions`.
    possible
        Whether a match is possible: the conjuncts without variables hold, and no others exclude each other.
    fits
        uint8, shape (variables, events): whether an event has the type of a variable and passes the conjuncts that one
        event decides.
    unary_evaluations
        How many tests of a conjunct on one event that took, for positive and for negated variables.
    accumulators
        What a cell of each Kleene variable sums up.
    """

    def __init__(
        self,
        pattern: Pattern,
        clause: Clause,
        events: PreparedEvents,
        common: CommonTerms | None = None,
        groups: ConditionGroups | None = None,
    ) -> None:
        self.pattern, self.clause, self.events = pattern, clause, events
        self.groups = ConditionGroups(conditions_of(pattern, clause)) if groups is None else groups
        conditions = self.groups.conditions
        self.variables, self.slots = conditions.variables, conditions.slots
        if common is None:
            common = CommonTerms(events, [atom for one in conditions.tested for atom in one.conjunct.atoms])
        self._common, self._writer = common, ConjunctWriter(events, conditions, common)
        # Of groups that are asked for later nothing is known: all conjuncts may be in them.
        places = range(len(conditions.tested)) if groups is None else groups.places
        self._conjuncts = {place: self._writer.write(place) for place in places}
        self._words = np.zeros(0, np.int64)
        self.unary_evaluations = 0

    @cached_property
    def possible(self) -> bool:
        return may_match(self.pattern, self.clause, self.events)

    @property
    def accumulators(self) -> Accumulators:
        return self._common.accumulators

    @property
    def evaluations(self) -> int:
        """Tests of a conjunct on an instance, so far."""
        return int(self._common.counts[0])

    @cached_property
    def fits(self) -> Array:
        fits = np.zeros((len(self.variables), len(self.events)), np.uint8)
        for slot, variable in enumerate(self.variables):
            filters = self.filters(variable.name)
            typed = self.events.leaf_rows(variable.event_type)
            self.unary_evaluations += len(filters) * len(typed)
            if len(typed) < len(self.events):
                fits[slot, leaf_view(self.events, variable.event_type, filters, 0, len(self.events)).rows] = 1
                continue
            fits[slot] = 1
            for conjunct in filters:
                fits[slot] &= holds_for_all(self.events, conjunct).view(np.uint8)
        return fits

    def filters(self, name: str) -> tuple[Conjunct, ...]:
        """The conjuncts that one event decides of a variable, over the variable `ANY_EVENT`."""
        return self.groups.conditions.filters(name)

    def ring(self, size: int = 1 << 10) -> CellRing:
        """Room for the cells of the clause's lists, which kernels name by their slots."""
        return CellRing(self.accumulators, [variable.event_type for variable in self.variables], size)

    # --- items ----------------------------------------------------------------------------------------------------

    def _item(self, place: int, fixed: int) -> Item:
        compiled = self._conjuncts[place]
        direct = self._direct(compiled, place, fixed)
        return direct or (codes.CONJUNCT, compiled.begin, fixed, 0, 0, 0, 0, 0)

    def _direct(self, compiled: CompiledConjunct, place: int, fixed: int) -> Item | None:
        """The item as one comparison of columns, where the slots give both events."""
        choosers = self.groups.conditions.tested[place].choosers
        if compiled.rows is None or len(choosers) != (fixed >= 0):
            return None
        comparator, left, one, right, other = compiled.rows
        hows = [self._how(one), self._how(other)]
        if hows == [codes.SLOT, codes.SLOT]:
            return codes.COMPARE_SLOTS, comparator, left, self.slots[one[0]], right, self.slots[other[0]], 0, 0
        guard = -1
        if fixed >= 0 and choosers[fixed].kind == codes.INDEX:
            guard = self.slots[choosers[fixed].variable]
        places = self.slots[one[0]], self.slots[other[0]]
        return codes.COMPARE_DIRECT, comparator, left, places[0], right, places[1], hows[0] | hows[1] << 3, guard

    @staticmethod
    def _how(event: EventOf) -> int:
        """The way in which a slot gives an event; for a list, its newest element."""
        return {Element.ONLY: codes.SLOT, Element.FIRST: codes.FIRST, Element.PREVIOUS: codes.PREVIOUS}.get(
            event[1], codes.NEWEST
        )

    # --- for kernels ---------------------------------------------------------------------------------------------

    def kernel_words(self) -> list[int]:
        """The `CODE_WORDS` words for a kernel, with all groups asked for so far; valid while the program lives."""
        writer = self._writer
        groups = [[self._item(place, fixed) for place, fixed in tests] for tests in self.groups]
        for items in groups:
            items.sort(key=lambda item: item[0])  # the quick ones first
        choosers = max((len(one.choosers) for one in self.groups.conditions.tested), default=0)
        depth = len(writer.words) // codes.TERM_WORDS + 1  # no term is deeper than it has operations
        parts = (
            list(accumulate(map(len, groups), initial=0)),
            [word for items in groups for item in items for word in item],
            writer.words,
            [0] * writer.registers,
            [0] * choosers,
            [0] * depth,
            [0] * depth,
        )
        # They lie in one array: each costs more than what is in it.
        self._words = np.array([word for part in parts for word in part], np.int64)
        begins = accumulate((8 * len(part) for part in parts[:-1]), initial=address(self._words))
        return [*begins, address(self._common.counts)]


def compile_program(
    pattern: Pattern,
    clause: Clause,
    events: PreparedEvents,
    common: CommonTerms | None = None,
    groups: ConditionGroups | None = None,
) -> Program:
    """Compile the conjuncts of a clause over the events of a slice.

    Parameters
    ----------
    common
        What it has in common with other clauses that the same kernel runs; None: it is run alone.
    groups
        All groups that will be asked for, whatever the events: only what is in them is compiled. None: that is not
        known yet.
    """
    return Program(pattern, clause, events, common, groups)
