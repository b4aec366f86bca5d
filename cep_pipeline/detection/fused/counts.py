"""What happened at one node of a plan on the kernel."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from cep_pipeline.patterns.normal_form import Clause


@dataclass(frozen=True, slots=True)
class LevelCount:
    """What one plan level, or the join of two sides of a tree, did.

    Attributes
    ----------
    bound
        The variables bound at it, in plan order.
    candidates, passes
        The tuples in its ranges, and those that passed all its conditions.
    evaluations
        Tests of one conjunct on one event or one of these tuples. An equality that sorted ranges fulfil is not tested.
    created
        Partial matches stored, all at a time.
    """

    bound: tuple[str, ...]
    candidates: int
    passes: int
    evaluations: int = 0
    created: int = 0

    @property
    def variable(self) -> str:
        """The variable that it binds last."""
        return self.bound[-1]


def conjuncts_joining(clause: Clause, left: Collection[str], right: Collection[str]) -> int:
    """How many conjuncts over positive variables can be tested only where both sides are bound."""
    return sum(
        conjunct.variables <= {*left, *right}
        and not conjunct.variables <= set(left)
        and not conjunct.variables <= set(right)
        for conjunct in clause.conjuncts
    )
