"""Checks of the invariants of plans that compiled searches have found.

One compiled call a clause measures the invariants and tells whether one is violated. Invariants and verifications as
Python objects are made only when they are asked for. `verification.InvariantCheck` defines the answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain

import numpy as np

from cep_pipeline.adaptation.invariants import Invariant, LazySequence
from cep_pipeline.adaptation.verification import (
    InvariantCheck,
    Verification,
    Verifications,
    check_distance,
    describe_verification,
    minimal_distance,
)
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.planners import invariants_a_block
from cep_pipeline.planning.replanning import LazyPlan, SearchResult
from cep_pipeline.planning.search.clause_search import ClauseSearchResult, KeptComparisons
from cep_pipeline.statistics.snapshot import StatisticsSnapshot


def found_invariants(plan: object, k: int | str | None) -> LazyInvariants | None:
    """The invariants of a plan that compiled searches have found; None for other plans."""
    if not isinstance(plan, LazyPlan) or plan.workload is not None:
        return None
    if plan.found is None or plan.found.clauses is None:
        return None
    return LazyInvariants(plan.found, plan.found.clauses, invariants_a_block(plan.found.replanner.name, k))


class LazyInvariants(LazySequence[Invariant]):
    """The invariants that `invariants.invariants_of` gives, each made when it is asked for.

    Parameters
    ----------
    found, clauses
        The result of the search, and its clauses.
    k
        Invariants a block; None: all deciding conditions.
    """

    def __init__(self, found: SearchResult, clauses: Sequence[ClauseSearchResult], k: int | None) -> None:
        kept = (clause.search.kept(clause, k) for clause in clauses)
        self._of_clauses = [InvariantsOfClause(found, number, one) for number, one in enumerate(kept)]

    def __len__(self) -> int:
        return sum(map(len, self._of_clauses))

    def item(self, place: int) -> Invariant:
        return list(chain.from_iterable(self._of_clauses))[place]

    def check(self) -> CompiledCheck:
        """The check of these invariants."""
        return CompiledCheck(self._of_clauses)


class InvariantsOfClause(LazySequence[Invariant]):
    """The invariants of one clause, by its number, and the program that measures them."""

    def __init__(self, found: SearchResult, number: int, kept: KeptComparisons) -> None:
        self._found, self._number, self.kept = found, number, kept

    def __len__(self) -> int:
        return self.kept.count

    def item(self, place: int) -> Invariant:
        of, comparison = self._found.replanner, self.kept.comparison(place)
        clause = of.pattern.clauses[self._number].index
        return Invariant(of.pattern.name, clause, comparison.step, comparison, of.model.name, of.alpha)

    @property
    def pattern(self) -> Pattern:
        """The pattern of the clause."""
        return self._found.replanner.pattern

    def measure_against(self, distance: float | Mapping[str, float]) -> None:
        """Let the program compare by these minimal distances from now on; the distance of all, or of each."""
        if isinstance(distance, int | float):
            check_distance(distance)
            self.kept.measure_against(math.log1p(distance))
            return
        distances = [minimal_distance(one, distance) for one in self]
        for one in distances:
            check_distance(one)
        self.kept.measure_against(np.array([math.log1p(one) for one in distances]))


class CompiledCheck:
    """Invariants and the programs that measure them on one snapshot after another."""

    def __init__(self, clauses: Sequence[InvariantsOfClause]) -> None:
        self._clauses = clauses
        self._programs = [(one.kept, one.kept.count) for one in clauses]
        self._count = sum(count for _, count in self._programs)
        self._distance: float | Mapping[str, float] = 0.0

    def first_violation(
        self, snapshot: StatisticsSnapshot, distance: float | Mapping[str, float]
    ) -> tuple[bool, Callable[[], str], LazyVerifications]:
        """Check the invariants by these minimal distances.

        Returns
        -------
        tuple
            True if one is violated; a function that writes a sentence about it; the verifications up to there.
        """
        if distance is not self._distance and distance != self._distance:
            self._measure_against(distance)
        checks = LazyVerifications(self, snapshot, distance)
        for program, count in self._programs:
            if program(snapshot) < count:
                return True, partial(self._describe, checks), checks
        return False, self._hold, checks

    def _describe(self, checks: LazyVerifications) -> str:
        return describe_verification(checks.first_violated, [self._clauses[0].pattern])

    def _hold(self) -> str:
        return f"all {self._count} invariants hold"

    def _measure_against(self, distance: float | Mapping[str, float]) -> None:
        for clause in self._clauses:
            clause.measure_against(distance)
        self._distance = distance

    def checked(
        self, snapshot: StatisticsSnapshot, *, distance: float | Mapping[str, float] = 0.0, to_the_end: bool = False
    ) -> Verifications:
        """Verify up to the first violation, or all, as `InvariantCheck.checked` does."""
        return self._readable.checked(snapshot, distance=distance, to_the_end=to_the_end)

    @cached_property
    def _readable(self) -> InvariantCheck:
        """The same check with its invariants one by one, which few ask for."""
        return InvariantCheck([*chain.from_iterable(self._clauses)], [self._clauses[0].pattern])


class LazyVerifications(LazySequence[Verification]):
    """The verifications up to the first violation, measured again when somebody asks for them."""

    def __init__(
        self, check: CompiledCheck, snapshot: StatisticsSnapshot, distance: float | Mapping[str, float]
    ) -> None:
        self._of = check, snapshot, distance

    @cached_property
    def made(self) -> Verifications:
        """All of them."""
        check, snapshot, distance = self._of
        return check.checked(snapshot, distance=distance)

    @property
    def violated(self) -> tuple[Invariant, ...]:
        """The violated invariants."""
        return self.made.violated

    @property
    def first_violated(self) -> Verification:
        """The first violation; there is one."""
        return self.made.first_violated

    def __len__(self) -> int:
        return len(self.made)

    def item(self, place: int) -> Verification:
        return self.made[place]
