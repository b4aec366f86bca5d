"""Invariants on fresh statistics: by how much each holds, in the order in which they are verified.

`orderings.ln_measure` defines what a side measures. `InvariantCheck.checked` takes the same sums by programs that
measure all sides at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from cep_pipeline.adaptation.invariants import Invariant, LazySequence, describe
from cep_pipeline.adaptation.side_programs import SidePrograms
from cep_pipeline.errors import InputError, PlanError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.numbers.clause_questions import ClauseQuestions
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
from cep_pipeline.planning.numbers.logarithms import format_ln, ln_sum
from cep_pipeline.planning.orderings import (
    NOTHING,
    DecidingComparison,
    Side,
    grains,
    ln_before,
    ln_below,
    ln_measure,
    positions_of,
)
from cep_pipeline.planning.search.sums import CostTerms
from cep_pipeline.planning.trees import PositionTree
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Verification:
    """An invariant on fresh statistics.

    Attributes
    ----------
    left, right
        Natural logarithms of f1, what was chosen, and f2, what it was chosen over.
    distance
        The minimal distance d that it was verified with.
    distance_to_violation
        ln((1 + d) f2 / f1): how far f1 may still grow beside f2; negative where it is violated, and 0 at a tie.
    violated
        Whether it no longer holds.
    """

    invariant: Invariant
    left: float
    right: float
    distance: float
    violated: bool

    @property
    def distance_to_violation(self) -> float:
        return self.right - self.left + math.log1p(self.distance)


def describe_verification(verification: Verification, patterns: Sequence[Pattern]) -> str:
    """The invariant, its two sides, and whether it holds."""
    left, right = format_ln(verification.left), format_ln(verification.right)
    distance = f"{1 + verification.distance:g} times " if verification.distance else ""
    if verification.violated:
        relation = "exceeds" if verification.left > verification.right else "is no longer below"
    else:
        relation = "does not exceed"
    return f"{describe(verification.invariant, patterns)}: {left} {relation} {distance}{right}"


def freeze(
    invariants: Iterable[Invariant], patterns: Sequence[Pattern], snapshot: StatisticsSnapshot
) -> tuple[Invariant, ...]:
    """The invariants with the costs of their sub-plans as constants, for verifications with `frozen`.

    Parameters
    ----------
    snapshot
        The statistics that the plan was made from.

    Notes
    -----
    The patent represents "the cost of a subtree in an invariant as a constant whose value is initialized to the cost
    of that subtree during invariant creation". What is left of Cost(T) = Cost(L) + Cost(R) + Card(L, R) is the
    cardinality of the root, which both sides have in common: taken to the letter, no such invariant could ever be
    violated. So the constants stand one level lower: for what L and R cost below their own roots. Theorem 1 does
    not hold then: a change below the constants that both sides had in common counts on one side only.
    """
    known = tuple(invariants)
    frozen = []
    for invariant, (statistics, cost) in InvariantCheck(known, patterns).measured(snapshot):
        one = invariant.comparison
        constants = (ln_frozen_part(one.measure, side, statistics, cost) for side in (one.chosen, one.rejected))
        frozen.append(replace(invariant, ln_frozen=cast("tuple[float, float]", tuple(constants))))
    return tuple(frozen)


class Verifications(LazySequence[Verification]):
    """Verifications in their order: up to the first violation, or all.

    Parameters
    ----------
    invariants
        Those that were verified, in their order; there may be more.
    sides
        Natural logarithms of f1 and f2 of each, float64 of shape (n, 2).
    distances
        The minimal distance of each.
    violated
        Bool of shape (n,).
    """

    def __init__(self, invariants: Sequence[Invariant], sides: Array, distances: Sequence[float], violated: Array):
        self._invariants, self._sides, self._distances, self._violated = invariants, sides, distances, violated

    @classmethod
    def of(cls, found: Sequence[Verification]) -> Verifications:
        """Verifications that are made already."""
        sides = np.array([(one.left, one.right) for one in found], np.float64).reshape(-1, 2)
        distances, violated = [one.distance for one in found], np.array([one.violated for one in found], bool)
        return cls([one.invariant for one in found], sides, distances, violated)

    def __len__(self) -> int:
        return len(self._violated)

    def item(self, place: int) -> Verification:
        left, right = self._sides[place].tolist()
        return Verification(self._invariants[place], left, right, self._distances[place], bool(self._violated[place]))

    def __iter__(self) -> Iterator[Verification]:
        rows = zip(self._invariants, self._sides.tolist(), self._distances, self._violated.tolist(), strict=False)
        return (Verification(one, left, right, distance, violated) for one, (left, right), distance, violated in rows)

    def to_the_first_violation(self) -> Verifications:
        """The verifications up to the first violation, which is the last one; all of them where none is violated."""
        if not self.is_violated:
            return self
        end = int(self._violated.argmax()) + 1
        return Verifications(self._invariants, self._sides[:end], self._distances, self._violated[:end])

    @property
    def distances_to_violation(self) -> list[float]:
        """`Verification.distance_to_violation` of each."""
        ln_distances = {one: math.log1p(one) for one in set(self._distances)}
        sides = zip(self._sides.tolist(), self._distances, strict=False)
        return [right - left + ln_distances[one] for (left, right), one in sides]

    @property
    def are_violated(self) -> list[bool]:
        """`Verification.violated` of each."""
        found: list[bool] = self._violated.tolist()
        return found

    @property
    def is_violated(self) -> bool:
        """True if one of the invariants is violated."""
        return bool(self._violated.any())

    @property
    def violated(self) -> tuple[Invariant, ...]:
        """The violated invariants."""
        return tuple(self._invariants[place] for place in np.flatnonzero(self._violated).tolist())

    @property
    def first_violated(self) -> Verification:
        """The first violation; there is one."""
        return self[int(np.flatnonzero(self._violated)[0])]


class InvariantCheck:
    """Invariants, and what is asked of snapshots to verify them: made once, for many checks.

    Parameters
    ----------
    invariants, patterns
        The invariants, and at least the patterns that they are of.
    questions
        Of patterns by their names, clause by clause, what snapshots are asked, where that is known.

    Raises
    ------
    PlanError
        An invariant is of no clause of the patterns.
    """

    def __init__(
        self,
        invariants: Sequence[Invariant],
        patterns: Sequence[Pattern],
        questions: Mapping[str, Sequence[ClauseQuestions]] | None = None,
    ) -> None:
        self._questions = questions or {}
        self._by_name = {pattern.name: pattern for pattern in patterns}
        self._groups: dict[tuple[str, int, str, float], _Group] = {}
        self._invariants = [(invariant, self._group(invariant)) for invariant in invariants]

    def verifications(
        self, snapshot: StatisticsSnapshot, *, distance: float | Mapping[str, float] = 0.0, frozen: bool = False
    ) -> Iterator[Verification]:
        """The verifications of all invariants, in their order; a caller may stop at the first violation.

        Parameters
        ----------
        distance
            The minimal distance d, 0 or more; or that of each invariant by its key, 0 for those that are not there.
        frozen
            Take what sub-plans cost from when the plan was made (`freeze`), as the patent does; it breaks Theorem 1.

        Raises
        ------
        InputError
            A distance is negative; or `frozen` without frozen costs.
        PlanError
            The snapshot does not know a leaf.
        """
        for invariant, (statistics, cost) in self.measured(snapshot):
            one = invariant.comparison
            if frozen and not one.given:
                if invariant.ln_frozen is None:
                    raise InputError(f"{invariant.key}: the costs of its sub-plans were not frozen; freeze it first")
                left, right = (
                    ln_with_frozen(one.measure, side, constant, statistics, cost)
                    for (side, *_), constant in zip(one.sides, invariant.ln_frozen, strict=True)
                )
            else:
                left, right = (
                    ln_measure(one.measure, side, statistics, cost, given, share) for side, given, share in one.sides
                )
            minimal = minimal_distance(invariant, distance)
            yield Verification(invariant, left, right, minimal, is_violated(one, left, right, minimal))

    def checked(
        self,
        snapshot: StatisticsSnapshot,
        *,
        distance: float | Mapping[str, float] = 0.0,
        frozen: bool = False,
        to_the_end: bool = False,
    ) -> Verifications:
        """Verify up to the first violation, or all.

        Raises
        ------
        InputError, PlanError
            As `verifications`.
        """
        if not frozen and self.programs is not None:
            try:
                found = self._measured(self.programs, snapshot, distance)
            except PlanError:
                if to_the_end:
                    raise  # otherwise an invariant that is violated may come before what the snapshot does not know
            else:
                return found if to_the_end else found.to_the_first_violation()
        verified = self.verifications(snapshot, distance=distance, frozen=frozen)
        return Verifications.of([*(verified if to_the_end else _up_to_violation(verified))])

    def _measured(
        self, programs: SidePrograms, snapshot: StatisticsSnapshot, distance: float | Mapping[str, float]
    ) -> Verifications:
        sides = programs.measured(snapshot)
        if isinstance(distance, int | float):
            distances: Sequence[float] = [distance] * len(sides)
        else:
            distances = [minimal_distance(one, distance) for one in self.invariants]
        different = set(distances)
        for one in different:
            check_distance(one)
        ln_distances = {one: math.log1p(one) for one in different}
        violated = programs.violated(sides, np.array([ln_distances[one] for one in distances], np.float64))
        return Verifications(self.invariants, sides, distances, violated)

    @cached_property
    def invariants(self) -> Sequence[Invariant]:
        """The invariants in their order."""
        return tuple(invariant for invariant, _ in self._invariants)

    @property
    def clauses(self) -> list[tuple[str, int, str, float]]:
        """Pattern, clause, cost model and alpha of each of the `programs`."""
        return [*self._groups]

    @cached_property
    def programs(self) -> SidePrograms | None:
        """The programs that measure all sides; None where a cost is no sum of a clause's numbers."""
        groups = list(self._groups.values())
        clauses = [
            (group.questions, terms)
            for group in groups
            if (terms := CostTerms.of(group.questions.shape, group.cost)) is not None
        ]
        if len(clauses) < len(groups):
            return None
        place = {id(group): number for number, group in enumerate(groups)}
        return SidePrograms(clauses, [(place[id(group)], one.comparison) for one, group in self._invariants])

    def measured(self, snapshot: StatisticsSnapshot) -> Iterator[tuple[Invariant, tuple[ClauseStatistics, CostModel]]]:
        """The invariants, each with the numbers of its clause and the cost model that measures its sides."""
        for invariant, group in self._invariants:
            yield invariant, (group.questions.statistics(snapshot), group.cost)

    def _group(self, invariant: Invariant) -> _Group:
        of_what = invariant.pattern, invariant.clause, invariant.cost_model, invariant.alpha
        if of_what not in self._groups:
            pattern = self._by_name.get(invariant.pattern)
            if pattern is None or invariant.clause >= len(pattern.clauses):
                raise PlanError(
                    f"there is an invariant of clause {invariant.clause} of pattern {invariant.pattern!r}, which is "
                    f"not among the patterns {', '.join(self._by_name) or '(none)'}: plan them again"
                )
            known = self._questions.get(invariant.pattern)
            questions = (
                ClauseQuestions(pattern, pattern.clauses[invariant.clause])
                if known is None
                else known[invariant.clause]
            )
            self._groups[of_what] = _Group(questions, invariant.cost)
        return self._groups[of_what]


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """The questions about one clause, and a cost model by which its comparisons are measured."""

    questions: ClauseQuestions
    cost: CostModel


def minimal_distance(invariant: Invariant, distance: float | Mapping[str, float]) -> float:
    """The minimal distance of one invariant, where all have the same or some have their own."""
    return distance if isinstance(distance, int | float) else distance.get(invariant.key, 0.0)


def _up_to_violation(verifications: Iterable[Verification]) -> Iterator[Verification]:
    for one in verifications:
        yield one
        if one.violated:
            return


def check_distance(distance: float) -> None:
    """Refuse what is no minimal distance.

    Raises
    ------
    InputError
        It is no finite number of 0 or more.
    """
    if not 0 <= distance < math.inf:
        raise InputError(f"the minimal distance of an invariant is a finite number, 0 or more, not {distance}")


def is_violated(comparison: DecidingComparison, left: float, right: float, distance: float = 0.0) -> bool:
    """True if f1 > (1 + d) f2, given ln f1 and ln f2; at d = 0 whether the planner would choose the other side.

    Raises
    ------
    InputError
        The distance is no number of 0 or more.
    """
    check_distance(distance)
    if distance == 0:
        return not comparison.holds(left, right)
    return grains(left) > grains(right + math.log1p(distance))


def ln_with_frozen(
    measure: str, side: Side, ln_constant: float, statistics: ClauseStatistics, cost: CostModel
) -> float:
    """Natural logarithm of one side, where what `ln_frozen_part` covers is a constant."""
    bare = replace(cost, node=NOTHING)
    if measure == "tree":
        left, right = cast("tuple[PositionTree, PositionTree]", side)
        roots = [cost.node.one(statistics, positions_of(part)) for part in (left, right) if not isinstance(part, int)]
        return ln_sum((ln_constant, bare.ln_join(statistics, left, right), *roots))
    if measure == "cost":
        order = cast(tuple[int, ...], side)
        root = cost.node.one(statistics, order[:-1])
        return ln_sum((ln_constant, bare.ln_step(statistics, order), root))
    return ln_measure(measure, side, statistics, cost)


def ln_frozen_part(measure: str, side: Side, statistics: ClauseStatistics, cost: CostModel) -> float:
    """Natural logarithm of what the sub-plans of a side cost below their roots; minus infinity where it has none."""
    if measure == "tree":
        return ln_sum(ln_below(cost, statistics, part) for part in cast("tuple[PositionTree, PositionTree]", side))
    return ln_before(cost, statistics, cast(tuple[int, ...], side)[:-1]) if measure == "cost" else -math.inf
