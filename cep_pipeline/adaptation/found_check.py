"""Invariants of plans as compiled searches find them: programs that measure them are written by compiled code, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import overload

from cep_pipeline.adaptation.checked import Checked
from cep_pipeline.adaptation.invariants import Invariant
from cep_pipeline.adaptation.verification import CompiledPart, checked_parts
from cep_pipeline.planning.clause_search import FoundClause
from cep_pipeline.planning.replanning import Found, FoundPlan
from cep_pipeline.planning.set_sums import SetSums
from cep_pipeline.statistics.snapshot import StatisticsSnapshot


def found_invariants(plan: object, k: int | None) -> FoundInvariants | None:
    """The invariants of a plan as it was found; None of one that the planner itself has made."""
    if isinstance(plan, FoundPlan) and plan.found is not None and plan.found.clauses is not None:
        return FoundInvariants(plan.found, plan.found.clauses, k)
    return None


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
        self.found = found
        self._of_clauses = [
            InvariantsOfClause(found, number, *one.search.kept(one, k)) for number, one in enumerate(clauses)
        ]

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
        return FoundCheck([one.part() for one in self._of_clauses])


class InvariantsOfClause(Sequence[Invariant]):
    """Those of one clause, by the places of their comparisons, and what measures them."""

    def __init__(self, found: Found, number: int, places: Sequence[int], sums: SetSums) -> None:
        self._found, self._number, self._places, self._sums = found, number, places, sums

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> Invariant: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Invariant]: ...
    def __getitem__(self, place: int | slice) -> Invariant | Sequence[Invariant]:
        if isinstance(place, slice):
            return [self[one] for one in range(len(self))[place]]
        of, clauses = self._found.replanner, self._found.clauses
        assert clauses is not None
        comparison = clauses[self._number].comparison(self._places[place])
        clause = of.pattern.clauses[self._number].index
        return Invariant(of.pattern.name, clause, comparison.step, comparison, of.model.name, of.alpha)

    def part(self) -> CompiledPart:
        """As one program."""
        return CompiledPart(self, self._found.replanner.questions[self._number], self._sums)


class FoundCheck:
    """As `verification.InvariantCheck`, but for frozen costs."""

    def __init__(self, parts: Sequence[CompiledPart]) -> None:
        self._parts = parts

    def checked(
        self,
        snapshot: StatisticsSnapshot,
        *,
        distance: float | Mapping[str, float] = 0.0,
        frozen: bool = False,
        to_the_end: bool = False,
    ) -> Checked:
        """As `InvariantCheck.checked`."""
        assert not frozen, "costs are frozen in the invariants of a plan that is written"
        return checked_parts(self._parts, snapshot, distance, to_the_end=to_the_end)
