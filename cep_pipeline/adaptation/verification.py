"""Invariants on fresh statistics: by how much each holds, in the order in which they are verified.

`orderings.ln_measure` defines what a side measures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cep_pipeline.adaptation.invariants import Invariant, describe
from cep_pipeline.adaptation.thresholds import questions_of
from cep_pipeline.errors import InputError, PlanError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.numbers.clause_questions import ClauseQuestions
from cep_pipeline.planning.numbers.logarithms import format_ln
from cep_pipeline.planning.orderings import DecidingComparison, grains, ln_measure
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
        asked = questions_of(patterns) if questions is None else questions
        self._invariants = [(one, _questions_about(one, asked), one.cost) for one in invariants]

    def checked(
        self,
        snapshot: StatisticsSnapshot,
        *,
        distance: float | Mapping[str, float] = 0.0,
        to_the_end: bool = False,
    ) -> tuple[Verification, ...]:
        """Verify up to the first violation, which then is the last verification, or all; in the order of invariants.

        Parameters
        ----------
        distance
            The minimal distance d, 0 or more; or that of each invariant by its key, 0 for those that are not there.

        Raises
        ------
        InputError
            A distance is negative.
        PlanError
            The snapshot does not know a leaf.
        """
        found = []
        for invariant, questions, cost in self._invariants:
            one, statistics = invariant.comparison, questions.statistics(snapshot)
            left, right = (ln_measure(one.measure, side, statistics, cost) for side in (one.chosen, one.rejected))
            minimal = distance if isinstance(distance, int | float) else distance.get(invariant.key, 0.0)
            found.append(Verification(invariant, left, right, minimal, is_violated(one, left, right, minimal)))
            if found[-1].violated and not to_the_end:
                break
        return tuple(found)


def _questions_about(invariant: Invariant, asked: Mapping[str, Sequence[ClauseQuestions]]) -> ClauseQuestions:
    clauses = asked.get(invariant.pattern, ())
    if invariant.clause >= len(clauses):
        raise PlanError(
            f"there is an invariant of clause {invariant.clause} of pattern {invariant.pattern!r}, which is "
            f"not among the patterns {', '.join(asked) or '(none)'}: plan them again"
        )
    return clauses[invariant.clause]


def is_violated(comparison: DecidingComparison, left: float, right: float, distance: float = 0.0) -> bool:
    """True if f1 > (1 + d) f2, given ln f1 and ln f2; at d = 0 whether the planner would choose the other side.

    Raises
    ------
    InputError
        The distance is no number of 0 or more.
    """
    if not 0 <= distance < math.inf:
        raise InputError(f"the minimal distance of an invariant is a finite number, 0 or more, not {distance}")
    if distance == 0:
        return not comparison.holds(left, right)
    return grains(left) > grains(right + math.log1p(distance))
