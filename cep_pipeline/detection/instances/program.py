"""The conditions of a clause, compiled for kernels over instances, and the groups in which these test them.

Everything that one event decides is computed beforehand: which events fit a variable (`Program.fits`), and the columns
that conjuncts compare. The rest is words for `interpreter.py`. A mechanism says at which *moments* its instances are,
before and after a step, and gets the number of the group of conjuncts that become testable with the step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cep_pipeline.detection.columns import Array
from cep_pipeline.detection.evaluate import atom_holds
from cep_pipeline.detection.event_truths import holds_for_all
from cep_pipeline.detection.fused.views import leaf_view
from cep_pipeline.detection.instances import codes
from cep_pipeline.detection.instances.conjuncts import CompiledConjunct, ConjunctWriter
from cep_pipeline.detection.instances.event_columns import EventOf, of_any_event
from cep_pipeline.detection.instances.term_writer import Accumulators, CommonTerms
from cep_pipeline.detection.kleene.lists import Uses
from cep_pipeline.detection.prepared import PreparedEvents
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.expressions import Element
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Pattern

CODE_WORDS = 11
"""Words by which a kernel finds a program (`interpreter.code_at`)."""

Item = tuple[int, ...]


@dataclass(frozen=True)
class Moment:
    """What an instance knows: which variables it has bound, and which Kleene variables' lists are complete.

    A list is complete when the instance, and whatever is made from it, never takes another element of it. Single
    variables count as complete when they are bound.
    """

    bound: frozenset[str] = frozenset()
    complete: frozenset[str] = frozenset()


NOTHING = Moment()


class Program:
    """All conjuncts of a clause over the events of a slice; make it with `compile_program`.

    Attributes
    ----------
    variables
        The clause's variables by slot: the positive ones in pattern order, then the negated ones.
    slots
        Name -> slot.
    possible
        Whether the conjuncts without variables hold; if not, there is no match.
    fits
        uint8, shape (variables, events): whether an event has the type of a variable and passes the conjuncts that one
        event decides.
    unary_evaluations
        How many tests of a conjunct on one event that took, for positive and for negated variables.
    accumulators
        What a cell of each Kleene variable sums up.
    """

    def __init__(
        self, pattern: Pattern, clause: Clause, events: PreparedEvents, common: CommonTerms | None = None
    ) -> None:
        self.pattern, self.clause, self.events = pattern, clause, events
        self.variables: tuple[Variable, ...] = (*clause.positive, *clause.negated)
        self.slots = {variable.name: slot for slot, variable in enumerate(self.variables)}
        self.possible = all(
            any(bool(atom_holds(atom, events, {}).all()) for atom in conjunct.atoms)
            for conjunct in clause.conjuncts
            if not conjunct.variables
        )
        joint = joint_conjuncts(clause)
        types = None if common is None else {variable.name: variable.event_type for variable in self.variables}
        atoms = [atom for conjunct in joint for atom in conjunct.atoms]
        self._writer = ConjunctWriter(events, self.slots, atoms, common, types)
        self._conjuncts = [self._writer.write(conjunct) for conjunct in joint]
        self._groups: dict[tuple[Item, ...], int] = {}
        self._arrays: tuple[Array, ...] = ()
        self._counts = np.zeros(1, np.int64) if common is None else common.counts
        self.unary_evaluations = 0

    @property
    def accumulators(self) -> Accumulators:
        return self._writer.accumulators

    @property
    def evaluations(self) -> int:
        """Tests of a conjunct on an instance, so far."""
        return int(self._counts[0])

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
        return filters_of(self.clause, name)

    # --- groups --------------------------------------------------------------------------------------------------

    def group(
        self,
        after: Moment,
        before: Iterable[Moment] = (NOTHING,),
        grown: str | None = None,
        begun: str | None = None,
    ) -> int:
        """The number of the group of conjuncts that a step makes testable.

        Parameters
        ----------
        after
            What the new instance knows.
        before
            What the instances knew that it is made from: one, or two that are joined. Their conjuncts have been tested.
        grown
            The Kleene variable to whose list an element has been appended; its slot is the new cell. The conjuncts that
            were testable before are tested on the choices that include the element.
        begun
            The Kleene variable whose list has just got its first element: what is said of its indexes holds.

        Returns
        -------
        int
            For `interpreter.group_holds`. Equal groups have one number. A group without conjuncts holds.
        """
        tested = list(before)
        items: list[Item] = []
        for conjunct in self._conjuncts:
            if not _is_testable(conjunct, after):
                continue
            if not any(_is_testable(conjunct, moment) for moment in tested):
                if begun in conjunct.uses.indexes:
                    continue
                items.append(self._item(conjunct, -1))
            elif grown is not None:
                items += [
                    self._item(conjunct, place)
                    for place, chooser in enumerate(conjunct.choosers)
                    if chooser.variable == grown
                ]
        return self._number(items)

    def first_group(self, name: str, before: Moment, *, complete: bool = False) -> int:
        """The group of a step that binds a variable: a single one, or the first element of a list.

        Parameters
        ----------
        complete
            Whether the list gets no further element.
        """
        bound = before.bound | {name}
        done = complete or not self.clause.by_name[name].kleene
        after = Moment(bound, before.complete | ({name} if done else frozenset()))
        return self.group(after, (before,), begun=name)

    def element_group(self, name: str, moment: Moment) -> int:
        """The group of a step that appends an element to a list that is bound already."""
        return self.group(moment, (moment,), grown=name)

    def left_group(self, moment: Moment, complete: Iterable[str]) -> int:
        """The group of a step after which lists are complete."""
        return self.group(Moment(moment.bound, moment.complete | frozenset(complete)), (moment,))

    def rejecting_group(self, name: str) -> int:
        """The group of all conjuncts that mention a negated variable and others, on a match with its event in place."""
        return self._number(
            [self._item(conjunct, -1) for conjunct in self._conjuncts if name in conjunct.conjunct.variables]
        )

    def group_is_empty(self, group: int) -> bool:
        """Whether a group has no conjuncts."""
        return not next(items for items, number in self._groups.items() if number == group)

    def _number(self, items: list[Item]) -> int:
        items.sort(key=lambda item: item[0])  # the quick ones first
        return self._groups.setdefault(tuple(items), len(self._groups))

    def _item(self, compiled: CompiledConjunct, fixed: int) -> Item:
        direct = self._direct(compiled, fixed)
        return direct or (codes.CONJUNCT, compiled.begin, fixed, 0, 0, 0, 0, 0)

    def _direct(self, compiled: CompiledConjunct, fixed: int) -> Item | None:
        """The item as one comparison of columns, where the slots give both events."""
        if compiled.rows is None or len(compiled.choosers) != (fixed >= 0):
            return None
        comparator, left, one, right, other = compiled.rows
        hows = [self._how(one), self._how(other)]
        if hows == [codes.SLOT, codes.SLOT]:
            return codes.COMPARE_SLOTS, comparator, left, self.slots[one[0]], right, self.slots[other[0]], 0, 0
        guard = -1
        if fixed >= 0 and compiled.choosers[fixed].kind == codes.INDEX:
            guard = self.slots[compiled.choosers[fixed].variable]
        places = self.slots[one[0]], self.slots[other[0]]
        return codes.COMPARE_DIRECT, comparator, left, places[0], right, places[1], hows[0] | hows[1] << 3, guard

    @staticmethod
    def _how(event: EventOf) -> int:
        """How a slot gives an event, of a list the newest element is chosen of."""
        return {Element.ONLY: codes.SLOT, Element.FIRST: codes.FIRST, Element.PREVIOUS: codes.PREVIOUS}.get(
            event[1], codes.NEWEST
        )

    # --- for kernels ---------------------------------------------------------------------------------------------

    def kernel_words(self) -> list[int]:
        """The `CODE_WORDS` words for a kernel, with all groups asked for so far; valid while the program lives."""
        writer = self._writer
        starts = np.cumsum([0, *map(len, self._groups)]).astype(np.int64)
        items = np.array([word for group in self._groups for item in group for word in item] or [0], np.int64)
        self._arrays = (
            starts,
            items,
            np.array([*writer.words, 0], np.int64),
            np.array([*writer.wholes, 0], np.int64),
            np.array([*writer.reals, 0.0], np.float64),
            np.zeros(writer.registers + 1, np.int64),
            np.zeros(writer.choosers + 1, np.int64),
            np.zeros(writer.depth + 2, np.float64),
            np.zeros(writer.depth + 2, np.int64),
            np.zeros(writer.depth + 2, np.uint8),
            self._counts,
        )
        return [int(array.ctypes.data) for array in self._arrays]


def compile_program(
    pattern: Pattern, clause: Clause, events: PreparedEvents, common: CommonTerms | None = None
) -> Program:
    """Compile the conjuncts of a clause over the events of a slice.

    Parameters
    ----------
    common
        What it has in common with other clauses that the same kernel runs; None: it is run alone.
    """
    return Program(pattern, clause, events, common)


def filters_of(clause: Clause, name: str) -> tuple[Conjunct, ...]:
    """The conjuncts that one event decides of a variable, over the variable `ANY_EVENT`."""
    own = (c for c in clause.conjuncts if c.variables == {name} and _is_decided_by_one_event(c))
    return tuple(map(of_any_event, own))


def joint_conjuncts(clause: Clause) -> list[Conjunct]:
    """The conjuncts that instances are tested for: those with variables that no single event decides."""
    return [c for c in clause.conjuncts if c.variables and not _is_decided_by_one_event(c)]


def _is_testable(compiled: CompiledConjunct, moment: Moment) -> bool:
    return compiled.conjunct.variables <= moment.bound and compiled.uses.whole <= moment.complete


def _is_decided_by_one_event(conjunct: Conjunct) -> bool:
    """Whether the event that a variable takes decides it, wherever in a list it stands."""
    kinds = Uses.of(conjunct).kinds
    return len(kinds) == 1 and next(iter(kinds.values())) in ({Element.ONLY}, {Element.EACH})
