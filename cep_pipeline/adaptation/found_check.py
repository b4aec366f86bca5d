"""Invariants of plans as compiled searches find them: programs that measure them are written by compiled code, too.

A check of them is one call a clause, and Python makes no more of what it finds than whether one is violated: the rest
is made when somebody asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import overload

from cep_pipeline.adaptation.checked import Checked, CheckedPart
from cep_pipeline.adaptation.decision_verdict import Verdict
from cep_pipeline.adaptation.describe import describe_verification
from cep_pipeline.adaptation.invariants import Invariant
from cep_pipeline.adaptation.verification import CompiledPart, checked_parts
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_search import FoundClause, Kept
from cep_pipeline.planning.replanning import Found, FoundPlan
from cep_pipeline.statistics.snapshot import StatisticsSnapshot


def found_invariants(plan: object, k: int | None) -> FoundInvariants | None:
    """The invariants of a plan as it was found; None of one that the planner itself has made."""
    if not isinstance(plan, FoundPlan) or plan.workload is not None:
        return None
    if plan.found is None or plan.found.clauses is None:
        return None
    return FoundInvariants(plan.found, plan.found.clauses, k)


class FoundInvariants(Sequence[Invariant]):
    """As `invariants.invariants_of` gives them, each made when it is asked for.

    Parameters
    ----------
    found, clauses
        What was found.
    k
        Invariants a block; None: all deciding conditions.
    """

    def __init__(self, found: Found, clauses: Sequence[FoundClause], k: int | None) -> None:
        kept = (clause.search.kept(clause, k) for clause in clauses)
        self._of_clauses = [InvariantsOfClause(found, number, one) for number, one in enumerate(kept)]

    def __len__(self) -> int:
        return sum(map(len, self._of_clauses))

    @overload
    def __getitem__(self, place: int) -> Invariant: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Invariant]: ...
    def __getitem__(self, place: int | slice) -> Invariant | Sequence[Invariant]:
        return [one for clause in self._of_clauses for one in clause][place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def check(self) -> FoundCheck:
        """What is asked of snapshots about them."""
        return FoundCheck(self._of_clauses)


class InvariantsOfClause(Sequence[Invariant]):
    """Those of one clause, by its number, and what measures them."""

    def __init__(self, found: Found, number: int, kept: Kept) -> None:
        self._found, self._number, self.kept = found, number, kept

    def __len__(self) -> int:
        return self.kept.count

    @overload
    def __getitem__(self, place: int) -> Invariant: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Invariant]: ...
    def __getitem__(self, place: int | slice) -> Invariant | Sequence[Invariant]:
        if isinstance(place, slice):
            return [self[one] for one in range(len(self))[place]]
        of, comparison = self._found.replanner, self.kept.comparison(range(len(self))[place])
        clause = of.pattern.clauses[self._number].index
        return Invariant(of.pattern.name, clause, comparison.step, comparison, of.model.name, of.alpha)

    @property
    def pattern(self) -> Pattern:
        """Of which it is a clause."""
        return self._found.replanner.pattern


class FoundCheck:
    """As `verification.InvariantCheck`, but for frozen costs."""

    def __init__(self, clauses: Sequence[InvariantsOfClause]) -> None:
        self._clauses = clauses
        self._parts = [(one.kept, one.kept.count) for one in clauses]
        self._count = sum(count for _, count in self._parts)
        self._by: float | Mapping[str, float] = 0.0

    def verdict(self, snapshot: StatisticsSnapshot, distance: float | Mapping[str, float]) -> Verdict:
        """Whether one is violated, by these minimal distances; `checks` as `InvariantCheck.checked` gives them."""
        if distance is not self._by and distance != self._by:
            self.measure_against(distance)
        for kept, count in self._parts:
            if kept(snapshot) < count:
                return self._violated(FoundChecked(self, snapshot, distance))
        return Verdict(False, self._hold, FoundChecked(self, snapshot, distance))

    def _violated(self, checks: Checked) -> Verdict:
        patterns = [self._clauses[0].pattern]
        return Verdict(True, lambda: describe_verification(checks.first_violated, patterns), checks)

    def _hold(self) -> str:
        return f"all {self._count} invariants hold"

    def measure_against(self, distance: float | Mapping[str, float]) -> None:
        """Take these minimal distances from now on."""
        for part in self._compiled:
            part.measure_against(distance)
        self._by = distance

    @cached_property
    def _compiled(self) -> list[CompiledPart]:
        return [CompiledPart(one, one.kept, one.kept) for one in self._clauses]

    def checked(
        self,
        snapshot: StatisticsSnapshot,
        *,
        distance: float | Mapping[str, float] = 0.0,
        to_the_end: bool = False,
    ) -> Checked:
        """As `InvariantCheck.checked`."""
        self.measure_against(distance)
        return checked_parts(self._compiled, snapshot, distance, to_the_end=to_the_end)


class FoundChecked(Checked):
    """Verifications up to the first violation, measured again when somebody asks for them."""

    def __init__(self, check: FoundCheck, snapshot: StatisticsSnapshot, distance: float | Mapping[str, float]) -> None:
        self._asked = check, snapshot, distance
        self._all = None

    @cached_property
    def _parts(self) -> Sequence[CheckedPart]:  # type: ignore[override]
        check, snapshot, distance = self._asked
        return check.checked(snapshot, distance=distance)._parts
