"""The counts of one node of a plan on the kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Conjunct

Place: TypeAlias = tuple[str, int, tuple[str, ...]]
"""A node of a plan: the pattern's name, the index of the clause, and the variables bound at it."""


@dataclass(frozen=True, slots=True)
class LevelCount:
    """The counts of one plan level, or of the join of two sides of a tree.

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


@dataclass(frozen=True, eq=False, slots=True)
class Tally:
    """The numbers that the levels of a run have written, from which their counts are made on request.

    Attributes
    ----------
    order
        The variables by level.
    counters
        int64, shape (levels, 2): candidates and passes.
    tested, decided
        For each level the conjuncts over several variables that were tested on its candidates, and whether these alone
        decided which passed; empty where the run had nothing to test.
    alone
        For each level the conjuncts over its variable alone, and how many events they were tested on: a function.
    counted_at
        For the levels that another run has found where they are counted; None: here.
    """

    order: tuple[str, ...]
    counters: Array
    tested: Sequence[Sequence[Conjunct]]
    decided: Sequence[bool]
    alone: Sequence[tuple[int, Callable[[], int]] | None]
    counted_at: Sequence[Place | None] = ()

    def counts(self) -> tuple[LevelCount, ...]:
        """Counts of each level so far."""
        found = []
        for level, (candidates, passes) in enumerate(self.counters.tolist()):
            tested = self.tested[level] if self.tested else ()
            tests = len(tested) * candidates
            own = self.alone[level]
            if own is not None:
                conjuncts, read = own
                tests += conjuncts * read()
            decided = tuple(tested) if self.decided and self.decided[level] else None
            counted_at = self.counted_at[level] if level < len(self.counted_at) else None
            found.append(LevelCount(self.order[: level + 1], candidates, passes, tests, 0, decided, counted_at))
        return tuple(found)
