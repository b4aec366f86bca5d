"""The states of a lazy automaton, made when they are first reached (DEBS'15 section 6.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cep_pipeline.detection.instances import Moment, Program, StreamRules
from cep_pipeline.detection.instances import codes as rule_codes
from cep_pipeline.detection.lazy_nfa import codes as c
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.pattern import Ties


class States:
    """The states of one clause's automaton as arrays for the kernel; state 0 has bound nothing.

    Parameters
    ----------
    program, rules
        The clause, compiled.
    order
        For a chain the slots of its positive variables in evaluation order, whose states are made at once. None for a
        tree: then the root has its children, and all others are made by `add_children`.

    Attributes
    ----------
    words, children, scopes, counts
        `codes.STATE_WORDS` words a state; the state after each variable, or -1; the scoping parameters: the number of
        bound variables that the newest one comes directly after, these, the number of those that it comes directly
        before, these; `codes.COUNT_WORDS` counts. They may be longer than the states that there are.
    shares, pairs
        int64: tests and passes of late of each set of conjuncts that is tested at once. int32: the place there of the
        conjuncts over each two variables, 0 without any.
    """

    def __init__(self, program: Program, rules: StreamRules, order: Sequence[int] | None) -> None:
        self._program, self._rules, self._order = program, rules, order
        self._variables = program.clause.positive
        self._paths: list[tuple[int, ...]] = [()]
        positive = {variable.name for variable in self._variables}
        joint = [c for c in program.clause.conjuncts if len(c.variables) > 1 and c.variables <= positive]
        self._joined = [frozenset(program.slots[name] for name in conjunct.variables) for conjunct in joint]
        self._shares: dict[frozenset[int], int] = {frozenset(): 0}
        self.shares: Array = np.zeros((1, c.SHARE_WORDS), np.int64)
        room = 16
        self.words: Array = np.zeros((room, c.STATE_WORDS), np.int64)
        self.children: Array = np.full((room, len(self._variables)), -1, np.int32)
        self.scopes: Array = np.zeros((room, 2 * len(self._variables) + 2), np.int32)
        self.counts: Array = np.zeros((room, c.COUNT_WORDS), np.int64)
        self.words[0, c.S_FOLLOWING] = -1 if order is None else order[0]
        self.words[0, c.S_NEWEST] = -1
        width = range(len(self._variables))
        self.pairs: Array = np.array(
            [[self._share((one,), other) if one != other else 0 for other in width] for one in width], np.int32
        )
        if order is None:
            self.add_children(0)
        else:
            state = 0
            for slot in order:
                state = self.add(state, slot)

    @property
    def root(self) -> int:
        """The slot of the variable that is bound first; -1 where the input buffer says which."""
        return -1 if self._order is None else self._order[0]

    def __len__(self) -> int:
        return len(self._paths)

    def path(self, state: int) -> tuple[str, ...]:
        """The names of the variables that a state has bound, in the order in which it has."""
        return tuple(self._variables[slot].name for slot in self._paths[state])

    def add_children(self, parent: int) -> None:
        """Make the states that bind one more variable after another one."""
        for slot in range(len(self._variables)):
            if slot not in self._paths[parent]:
                self.add(parent, slot)

    def add(self, parent: int, slot: int) -> int:
        """Make the state that binds a variable after another one."""
        state = len(self._paths)
        if state == len(self.words):
            self.words, self.scopes = _doubled(self.words, 0), _doubled(self.scopes, 0)
            self.children, self.counts = _doubled(self.children, -1), _doubled(self.counts, 0)
        before = self._paths[parent]
        path = (*before, slot)
        self._paths.append(path)
        self.children[parent, slot] = state
        variable = self._variables[slot]
        known = frozenset(self._variables[other].name for other in before)
        moment = Moment(known, known)
        words = self.words[state]
        words[c.S_BOUND] = sum(1 << other for other in path)
        words[c.S_NEWEST] = slot
        words[c.S_FOLLOWING] = -1 if self._order is None or len(path) == len(self._order) else self._order[len(path)]
        if variable.kleene:
            growing = Moment(known | {variable.name}, known)
            words[c.S_BEGINS] = self._program.groups.first_group(variable.name, moment)
            words[c.S_GROWS] = self._program.groups.element_group(variable.name, growing)
            words[c.S_LEAVES] = self._program.groups.left_group(growing, (variable.name,))
        else:
            words[c.S_LEAVES] = self._program.groups.first_group(variable.name, moment)
        words[c.S_DISTINCT] = sum(1 << other for other in before if self._may_coincide(other, slot))
        words[c.S_LINKED] = self._linked(path)
        words[c.S_SHARE] = self._share(before, slot)
        words[c.S_LISTS] = any(self._variables[other].kleene for other in path)
        after, ahead = self._scoping(before, slot)
        self.scopes[state, : len(after) + len(ahead) + 2] = [len(after), *after, len(ahead), *ahead]
        return state

    def _scoping(self, before: tuple[int, ...], slot: int) -> tuple[list[int], list[int]]:
        """Between which bound variables the events of a variable lie (DEBS'15 section 5).

        The paper has one variable on each side, as sequences have; in a partial order they are the last ones of those
        that come before, and the first ones of those that come after.
        """
        relation = self._rules.relations & 3
        after = [other for other in before if relation[other, slot] == rule_codes.EARLIER]
        ahead = [other for other in before if relation[other, slot] == rule_codes.LATER]
        return (
            [one for one in after if not any(relation[one, other] == rule_codes.EARLIER for other in after)],
            [one for one in ahead if not any(relation[one, other] == rule_codes.LATER for other in ahead)],
        )

    def _may_coincide(self, other: int, slot: int) -> bool:
        """Whether the rules of order leave it possible that two variables take the same event."""
        relation = int(self._rules.relations[other, slot])
        if not relation & rule_codes.MAY_SHARE:
            return False
        return relation & 3 == rule_codes.UNRELATED or self._program.pattern.ties is Ties.ANY

    def _share(self, before: tuple[int, ...], slot: int) -> int:
        """Where it is counted how many events pass the conjuncts that binding a variable completes; 0 without any.

        Equal conjuncts have one place, in whatever order their variables are bound.
        """
        bound = frozenset((*before, slot))
        completed = frozenset(
            number for number, joined in enumerate(self._joined) if slot in joined and joined <= bound
        )
        if completed not in self._shares:
            self._shares[completed] = len(self._shares)
            self.shares = np.concatenate((self.shares, np.zeros((1, c.SHARE_WORDS), np.int64)))
        return self._shares[completed]

    def _linked(self, path: tuple[int, ...]) -> int:
        """The unbound variables each of which completes a conjunct."""
        bound = frozenset(path)
        found = 0
        for joined in self._joined:
            if len(joined - bound) == 1:
                found |= 1 << next(iter(joined - bound))
        return found


def _doubled(array: Array, fill: int) -> Array:
    return np.concatenate((array, np.full_like(array, fill)))
