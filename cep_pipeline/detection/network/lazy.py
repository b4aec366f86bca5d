"""The lazy tree NFA of a clause (DEBS'15 section 6): what it knows where it chooses the variable that is bound next.

A state of the tree is the variables that are bound, in their order. It has an edge for each variable that is missing;
an instance takes the one that is cheapest by the counters of the input buffer: the rarest, where conditions are alike.
At the root nothing is done before every type has an event in the buffer. The answer is that of every chain.

Differs from the paper in two points. A counter is not all that is looked at: how many of the events passed their
conditions of late, and which conditions are tested next, make a type dearer that no condition joins to what is bound.
And an instance keeps its edge, so that each match is found once. The root keeps its variable until another one is so
much cheaper that a change pays: then all instances are given up, and the new root takes the events of its variable that
are in the buffer; only matches that end later are looked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from cep_pipeline.detection.network import codes as c
from cep_pipeline.patterns.normal_form import Clause

MOST_VARIABLES = 62
"""Sets of variables are bits of an int64."""


class Choices:
    """The tests behind each choice of a clause's lazy tree; positive variables are numbered in pattern order.

    Attributes
    ----------
    pairs
        Of each two variables, one after another, the share of the conjuncts over these two.
    """

    def __init__(self, clause: Clause) -> None:
        numbers = {variable.name: number for number, variable in enumerate(clause.positive)}
        self._variables = range(len(numbers))
        self._joined = [
            frozenset(numbers[name] for name in conjunct.variables)
            for conjunct in clause.conjuncts
            if len(conjunct.variables) > 1 and conjunct.variables <= numbers.keys()
        ]
        self._shares: dict[frozenset[int], int] = {frozenset(): 0}
        self.pairs = [self.share((one,), other) for one in self._variables for other in self._variables]

    def __len__(self) -> int:
        """The number of shares, with that of all tests together."""
        return len(self._shares)

    def share(self, bound: Sequence[int], variable: int) -> int:
        """The share of the conjuncts that a variable completes; 0 without any.

        Equal conjuncts have one share, in whatever order their variables are bound.
        """
        known = {*bound, variable}
        completed = frozenset(
            number for number, joined in enumerate(self._joined) if variable in joined and joined <= known
        )
        return self._shares.setdefault(completed, len(self._shares))

    def after(self, bound: Sequence[int]) -> list[int]:
        """The words of a choice, `codes.CHOICE_WORDS` of each variable, where these are bound."""
        words: list[int] = []
        for variable in self._variables:
            known = {*bound, variable}
            missing = [joined - known for joined in self._joined if len(joined - known) == 1]
            linked = sum(1 << other for other in set().union(*missing))
            words += [c.BOUND if variable in bound else c.UNMADE, self.share(bound, variable), linked]
        return words
