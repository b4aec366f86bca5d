"""What happened at one node of a plan on the kernel."""

from __future__ import annotations

from dataclasses import dataclass

from cep_pipeline.patterns.conditions import Conjunct


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
    """

    bound: tuple[str, ...]
    candidates: int
    passes: int
    evaluations: int = 0
    created: int = 0
    tested: tuple[Conjunct, ...] | None = None

    @property
    def variable(self) -> str:
        """The variable that it binds last."""
        return self.bound[-1]
