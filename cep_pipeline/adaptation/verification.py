"""Invariants on fresh statistics: by how much each holds, in the order in which they are verified.

`orderings.ln_measure` defines what a side measures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from cep_pipeline.adaptation.invariants import Invariant, describe
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
from cep_pipeline.planning.trees import PositionTree
from cep_pipeline.statistics.snapshot import StatisticsSnapshot


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
    ) -> tuple[Verification, ...]:
        """Verify up to the first violation, which then is the last verification, or all.

        Raises
        ------
        InputError, PlanError
            As `verifications`.
        """
        found = []
        for one in self.verifications(snapshot, distance=distance, frozen=frozen):
            found.append(one)
            if one.violated and not to_the_end:
                break
        return tuple(found)

    @property
    def invariants(self) -> Sequence[Invariant]:
        """The invariants in their order."""
        return tuple(invariant for invariant, _ in self._invariants)

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
        below = [part for part in (left, right) if not isinstance(part, int)]
        roots = [cost.node.one(statistics, positions_of(part)) for part in ([left] if cost.runs_orders else below)]
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
