"""What happened at one node of a plan on the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from cep_pipeline.patterns.conditions import Conjunct

Place: TypeAlias = tuple[str, int, tuple[str, ...]]
"""A node of a plan: the pattern's name, the index of the clause, and the variables bound at it."""


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
    tested
        As `mechanism.NodeCounts` has it.
    counted_at
        Where another run has found it, and this one has it from there: the node at which it is counted, whose variables
        stand for those of `bound` one by one.
    """

    bound: tuple[str, ...]
    candidates: int
    passes: int
    evaluations: int = 0
    created: int = 0
    tested: tuple[Conjunct, ...] | None = None
    counted_at: Place | None = None

    @property
    def variable(self) -> str:
        """The variable that it binds last."""
        return self.bound[-1]
