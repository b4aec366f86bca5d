"""The states of merged runs: sets of bound variables, and what each set leaves to be remembered.

A run reads the stream in order, so that its state is the set of variables that have an event, as in the eager NFA
(DEBS'15 section 3). What a later conjunct, or a negated variable, may still ask of a run are its *fields*; a field that
nothing asks for any more is forgotten, and the runs that it told apart are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cep_pipeline.detection.compressed.components import Choice, Component, Condition
from cep_pipeline.detection.compressed.groups import Group, Negation
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.pattern import Ties

Known = Callable[[int], bool]
"""Something that is so in some states, by their bit masks."""


_TABLED = (1 << 12) - 1
"""The greatest state up to which a table of all states is made."""


@dataclass(frozen=True)
class Field:
    """What a run remembers: an int64 with a value that means nothing."""

    name: str
    empty: int
    needed: Known


class States:
    """The states of the runs of a group.

    Parameters
    ----------
    ties
        Under ANY nothing is complete before the match is: an event may come before another one that it follows.
    """

    def __init__(self, group: Group, ties: Ties) -> None:
        self.group, self.ties = group, ties
        self.names = tuple(variable.name for variable in group.positive)
        self.bit = {name: 1 << place for place, name in enumerate(self.names)}
        self.full = (1 << len(self.names)) - 1
        self.before = {name: self.mask(a for a, b in group.precedence if b == name) for name in self.names}
        self.after = {name: self.mask(b for a, b in group.precedence if a == name) for name in self.names}
        self.singles = self.mask(v.name for v in group.positive if not v.kleene)
        self.guessed = self.mask(group.guessed)
        self._closed = lru_cache(maxsize=None)(self._find_closed)

    def mask(self, names: Iterable[str]) -> int:
        """The bits of some variables."""
        return sum(self.bit[name] for name in set(names))

    def where(self, known: Known, states: Array) -> Array:
        """Where something is so: bool for each state of an array."""
        if self.full > _TABLED:
            distinct, place = np.unique(states, return_inverse=True)
            return np.array([known(state) for state in distinct.tolist()], dtype=bool)[place.reshape(-1)]
        present = np.flatnonzero(np.bincount(states, minlength=1))
        so = np.zeros(self.full + 1, dtype=bool)
        so[present] = [known(state) for state in present.tolist()]
        found: Array = so[states]
        return found

    def closed(self, state: int) -> int:
        """The variables that have all their events."""
        return int(self._closed(state))

    def _find_closed(self, state: int) -> int:
        if self.ties is Ties.ANY:
            return state & self.singles
        return state & (self.singles | self.mask(name for name in self.names if self.after[name] & state))

    def is_decided(self, condition: Condition, state: int) -> bool:
        """Whether no later event can change a condition over positive variables."""
        if any(component.negated for component in condition.components):
            return False
        bound = self.mask(condition.events) & ~(state | self.guessed) == 0
        return bound and self.mask(condition.lists) & ~self.closed(state) == 0

    def is_known(self, component: Component, choice: Choice, state: int) -> bool:
        """Whether all that a component compares a choice with is known."""
        if component.negated is not None:
            return False
        if len(component.choices) > 1:
            [other] = [c for c in component.choices if c != choice]
            return other.variable != choice.variable and self.closed(state) & self.bit[other.variable] != 0
        if self.mask(component.events) & ~(state | self.guessed):
            return False
        return self.mask(component.wholes) & ~self.closed(state) == 0

    def is_always_known(self, component: Component, choice: Choice) -> bool:
        """Whether that is so whenever an event is chosen."""
        if component.negated is not None:
            return False
        sure = 0 if self.ties is Ties.ANY else self.before[choice.variable]
        if len(component.choices) > 1:
            return all(self.bit[c.variable] & sure for c in component.choices if c != choice)
        own = self.bit[choice.variable]
        return not (self.mask(component.events) & ~(sure | self.guessed | own) or self.mask(component.wholes) & ~sure)

    def is_rejection_decided(self, negation: Negation, state: int) -> bool:
        """Whether all is known of a match that a negated variable asks for."""
        if self.ties is Ties.ANY or not negation.before or not self.mask(negation.after) & state:
            return False
        if self.mask(negation.before) & ~self.closed(state):
            return False
        return all(
            self.mask(condition.events) & ~(state | self.guessed) == 0
            and self.mask(condition.lists) & ~self.closed(state) == 0
            for condition in negation.conditions
        )

    def asks(self, conditions: Iterable[Condition], negations: Iterable[Negation]) -> Known:
        """Where some of the conditions or negated variables are not decided."""
        conditions, negations = tuple(conditions), tuple(negations)

        def needed(state: int) -> bool:
            return any(not self.is_decided(c, state) for c in conditions) or any(
                not self.is_rejection_decided(n, state) for n in negations
            )

        return needed
