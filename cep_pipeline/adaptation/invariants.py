"""The invariants of a plan: the tightest of the comparisons that decided it, verified on fresh statistics.

A plan is the best one as long as the comparisons that built it come out as they did (acep-invariants patent, section
"Invariant-Based Method"). Of each block, a step of an order or a join of a tree, the K tightest are kept as invariants

    f1 < f2,   violated if and only if   f1 > (1 + d) f2

with the minimal distance d; at d = 0 if and only if the planner's own comparison comes out otherwise, ties included.
The patent prints (1 + d) f1 < f2 as what has to hold. Then a distance would make the check stricter, against the
patent's own words: d is "the smallest relative difference between the two sides of the inequality required for an
invariant to be considered as violated". Here the factor stands where the words put it.

All comparisons of a block have their chosen side in common, so the least difference f2 - f1, by which the patent
chooses the tightest ones, and the least ratio f2 / f1 are the same choice; it is made by logarithms.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cep_pipeline.errors import InputError, PlanError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_plans import ClausePlan
from cep_pipeline.planning.clause_questions import ClauseQuestions, questions_of
from cep_pipeline.planning.clause_statistics import format_ln
from cep_pipeline.planning.costs import CostModel, cost_named, with_latency
from cep_pipeline.planning.orderings import DecidingComparison, grains, ln_measure, named, tightest_of_blocks
from cep_pipeline.planning.planners import BY_PLANNER, invariants_a_block, without_invariants_because
from cep_pipeline.planning.plans import Plan, validate
from cep_pipeline.planning.trees import Side, positions_of
from cep_pipeline.statistics.snapshot import StatisticsSnapshot


@dataclass(frozen=True, slots=True)
class Invariant:
    """A comparison that has to come out as it did for the plan to stay the best one.

    Attributes
    ----------
    pattern, clause
        Of what it is: the pattern's name, and the index of the clause.
    block
        Place of the block: of an order the step from 0, of a tree the place among its joins from the leaves up.
    comparison
        The planner's; its chosen side is f1, its rejected one f2.
    cost_model, alpha
        By what its sides are measured, as in the plan.
    """

    pattern: str
    clause: int
    block: int
    comparison: DecidingComparison
    cost_model: str
    alpha: float = 0.0

    @property
    def key(self) -> str:
        """Names the question that it decides: the same for the comparison of the same sides that came out otherwise."""
        sides = sorted(map(json.dumps, (self.comparison.chosen, self.comparison.rejected)))
        return f"{self.pattern}/{self.clause}/{self.comparison.measure}/{' or '.join(sides)}"

    @property
    def cost(self) -> CostModel:
        """The cost model with its weight of latency; InputError where there is none of this name."""
        return with_latency(cost_named(self.cost_model), self.alpha)


def describe(invariant: Invariant, patterns: Sequence[Pattern]) -> str:
    """The block of an invariant, and the two sides between which the planner chose.

    Returns
    -------
    str
        Such as "pattern rise, step 2: b rather than c" or "pattern rise, join 2: ((a, b), c) rather than (a, (b, c))".
    """
    pattern = next(pattern for pattern in patterns if pattern.name == invariant.pattern)
    names = [variable.name for variable in pattern.clauses[invariant.clause].positive]
    of_clause = f", clause {invariant.clause + 1}" if len(pattern.clauses) > 1 else ""
    one = invariant.comparison
    if one.measure == "tree":
        block, chosen, rejected = "join", named(one.chosen, names), named(one.rejected, names)
    else:
        # Where both sides bind the same variables, it is their orders that differ.
        whole = one.measure == "cost"
        block, chosen, rejected = "step", _bound(one.chosen, names, whole), _bound(one.rejected, names, whole)
    return f"pattern {invariant.pattern}{of_clause}, {block} {invariant.block + 1}: {chosen} rather than {rejected}"


def _bound(order: Side, names: Sequence[str], whole: bool) -> str:
    positions = positions_of(order)
    return ", ".join(names[position] for position in (positions if whole else positions[-1:]))


def invariants_of(plan: Plan, patterns: Sequence[Pattern], k: int | str | None = BY_PLANNER) -> tuple[Invariant, ...]:
    """The invariants of a plan in the order in which they are verified.

    They are sorted by pattern and clause in plan order, those of trees from the leaves up.

    Parameters
    ----------
    k
        Invariants a block, the tightest ones first: a number, or `planner` for that of the planner's record; None: all
        deciding conditions that the plan has.

    Raises
    ------
    PlanError
        The plan was not made for the patterns.

    Notes
    -----
    Those of `zstream_ordered` are first greedy's, which put the leaves in their places, then those of the tree. Where
    one of greedy's is violated, the leaves of the new tree stand in another order; its joins may be the same ones, with
    their sides exchanged. Such a plan is another one that costs the same, and is not deployed.
    `without_invariants` says which patterns have none.
    """
    check_k(k)
    validate(plan, patterns)
    found = []
    for pattern_plan in (plan.for_pattern(pattern.name) for pattern in patterns):
        most = invariants_a_block(pattern_plan.planner, k)
        for clause in pattern_plan.clauses:
            found += [
                Invariant(pattern_plan.pattern, clause.clause, one.step, one, pattern_plan.cost_model, plan.alpha)
                for one in tightest_of_blocks(clause.comparisons, most)
            ]
    return tuple(found)


def check_k(k: int | str | None) -> None:
    """Refuse what is no number of invariants of a block.

    Raises
    ------
    InputError
        It is none of 1, 2, …, `planner` and None.
    """
    if k != BY_PLANNER and k is not None and (isinstance(k, str) or k < 1):
        raise InputError(f"k is {k}: a block has one invariant or more; '{BY_PLANNER}' takes those of the planner")


def without_invariants(plan: Plan) -> dict[str, str]:
    """The patterns of a plan that have no invariants, and why: they are checked by thresholds."""
    reasons = {}
    for pattern in plan.patterns:
        # Beyond its budget an exact planner took another one's plan, and has no comparisons.
        given_up = (one.note for one in pattern.clauses if _decided(one) and not one.comparisons)
        if reason := without_invariants_because(pattern.planner) or next(given_up, ""):
            reasons[pattern.pattern] = reason
    return reasons


def _decided(clause: ClausePlan) -> bool:
    return len(clause.steps) > (1 if clause.tree is None else 2)


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
        self.invariants = tuple(invariants)
        self.questions = questions_of(patterns) if questions is None else questions
        self._asked = [(one, _questions_about(one, self.questions), one.cost) for one in invariants]

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
        for invariant, questions, cost in self._asked:
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
