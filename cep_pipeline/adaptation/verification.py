"""Invariants on fresh statistics: by how much each holds, in the order in which they are verified.

`InvariantCheck.verifications` is the readable form and the definition. `checked` says the same to the last bit by
compiled code, and is what the detection-adaptation loop asks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby

import numpy as np

from cep_pipeline.adaptation.checked import Array, Checked, CheckedPart, Verification
from cep_pipeline.adaptation.invariant_program import compiled
from cep_pipeline.adaptation.invariants import Invariant
from cep_pipeline.adaptation.measures import Measures
from cep_pipeline.errors import InputError, PlanError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_questions import ClauseQuestions
from cep_pipeline.planning.clause_search import Kept
from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.ordering import DecidingComparison, grains
from cep_pipeline.planning.set_sums import SetSums
from cep_pipeline.statistics.snapshot import StatisticsSnapshot


def freeze(
    invariants: Iterable[Invariant], patterns: Sequence[Pattern], snapshot: StatisticsSnapshot
) -> tuple[Invariant, ...]:
    """The invariants with the costs of their sub-plans as constants, for `verify` with `frozen`.

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
    for invariant, of in InvariantCheck(known, patterns).measured(snapshot):
        one = invariant.comparison
        constants = of.ln_frozen_part(one.measure, one.chosen), of.ln_frozen_part(one.measure, one.rejected)
        frozen.append(replace(invariant, ln_frozen=constants))
    return tuple(frozen)


def verify(
    invariants: Sequence[Invariant],
    patterns: Sequence[Pattern],
    snapshot: StatisticsSnapshot,
    *,
    distance: float | Mapping[str, float] = 0.0,
    frozen: bool = False,
) -> tuple[Verification, ...]:
    """Verify invariants on fresh statistics, all of them, in their order.

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
        The snapshot does not know a leaf, or there is no such pattern among the patterns.
    """
    return tuple(InvariantCheck(invariants, patterns).verifications(snapshot, distance=distance, frozen=frozen))


class InvariantCheck:
    """Invariants, and what is asked of snapshots to verify them: made once, for many checks.

    Parameters
    ----------
    invariants, patterns
        As in `verify`.
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
        self._checks = 0

    def verifications(
        self, snapshot: StatisticsSnapshot, *, distance: float | Mapping[str, float] = 0.0, frozen: bool = False
    ) -> Iterator[Verification]:
        """What `verify` returns, one after the other: whoever stops at the first violation pays for no more."""
        for invariant, of in self.measured(snapshot):
            one = invariant.comparison
            sides = (one.chosen, one.rejected)
            if frozen:
                if invariant.ln_frozen is None:
                    raise InputError(f"{invariant.key}: the costs of its sub-plans were not frozen; freeze it first")
                left, right = (
                    of.with_frozen(one.measure, side, constant)
                    for side, constant in zip(sides, invariant.ln_frozen, strict=True)
                )
            else:
                left, right = (of.of(one.measure, side) for side in sides)
            minimal = _minimal(invariant, distance)
            yield Verification(invariant, left, right, minimal, is_violated(one, left, right, minimal))

    def checked(
        self,
        snapshot: StatisticsSnapshot,
        *,
        distance: float | Mapping[str, float] = 0.0,
        frozen: bool = False,
        to_the_end: bool = False,
    ) -> Checked:
        """The same verifications up to the first violation, or all; by compiled code, where no costs are frozen.

        The first check takes the readable form: to compile takes as long, and many plans do not outlive it.

        Raises
        ------
        InputError, PlanError
            As `verify`.
        """
        self._checks += 1
        # Costs that are no sums of a clause's numbers are not compiled.
        parts = None if frozen or self._checks == 1 else self._parts
        if parts is None:
            verified = self.verifications(snapshot, distance=distance, frozen=frozen)
            return Checked.of(verified if to_the_end else _up_to_violation(verified))
        return checked_parts(parts, snapshot, distance, to_the_end=to_the_end)

    @cached_property
    def _parts(self) -> list[CompiledPart] | None:
        """The programs; None where a cost is no sum of a clause's numbers."""
        parts = []
        for _, run in groupby(self._invariants, key=lambda one: id(one[1])):
            own = [*run]
            invariants, group = tuple(invariant for invariant, _ in own), own[0][1]
            sums = compiled(group.questions.shape, group.cost, [one.comparison for one in invariants])
            if sums is None:
                return None
            parts.append(CompiledPart(invariants, partial(_measured, sums, group.questions), sums))
        return parts

    def measured(self, snapshot: StatisticsSnapshot) -> Iterator[tuple[Invariant, Measures]]:
        """The invariants, each with what measures its sides."""
        measures: dict[int, Measures] = {}
        for invariant, group in self._invariants:
            if id(group) not in measures:
                measures[id(group)] = Measures(group.questions.statistics(snapshot), group.cost)
                measures[id(group)].prepare(group.comparisons)
            yield invariant, measures[id(group)]

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
                ClauseQuestions(pattern, pattern.clauses[invariant.clause], often=True)
                if known is None
                else known[invariant.clause]
            )
            self._groups[of_what] = _Group(questions, invariant.cost, [])
        self._groups[of_what].comparisons.append(invariant.comparison)
        return self._groups[of_what]


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """The comparisons of one clause by one cost model."""

    questions: ClauseQuestions
    cost: CostModel
    comparisons: list[DecidingComparison]


class CompiledPart:
    """Invariants of one clause by one cost model that follow each other, as one program.

    Parameters
    ----------
    invariants
        Those.
    measure
        Runs the program by the numbers of a snapshot: the place of the first violation, or how many invariants hold.
    sums
        The program, and what it measures.
    """

    def __init__(
        self, invariants: Sequence[Invariant], measure: Callable[[StatisticsSnapshot], int], sums: SetSums | Kept
    ) -> None:
        self._invariants, self._measure, self._sums = invariants, measure, sums
        self._count = len(sums.sides)
        self._by: float | Mapping[str, float] = 0.0
        self._distances: float | Sequence[float] = 0.0

    def checked(
        self, snapshot: StatisticsSnapshot, distance: float | Mapping[str, float], *, to_the_end: bool
    ) -> CheckedPart:
        """The verifications up to the first violation, or all."""
        if distance is not self._by:
            self.measure_against(distance)
        sums = self._sums
        count, registers, sides = self._measure(snapshot), sums.registers.copy(), sums.sides
        violations: Sequence[int] = ()
        if count < self._count:
            if to_the_end:
                violations, count = self._violations(registers), self._count
            else:
                violations, count = (count,), count + 1
        return CheckedPart(self._invariants, count, self._distances, registers, sides, violations)

    def _violations(self, registers: Array) -> list[int]:
        """The places of all that are violated."""
        found = []
        for place, (left, right, _) in enumerate(self._sums.sides.tolist()):
            minimal = self._distances if isinstance(self._distances, int | float) else self._distances[place]
            one = self._invariants[place].comparison
            if is_violated(one, float(registers[left]), float(registers[right]), minimal):
                found.append(place)
        return found

    def measure_against(self, distance: float | Mapping[str, float]) -> None:
        """Take these minimal distances from now on."""
        if isinstance(distance, int | float):
            check_distance(distance)
            self._sums.measure_against(math.log1p(distance))
            self._distances = distance
        else:
            distances = tuple(_minimal(one, distance) for one in self._invariants)
            for one in distances:
                check_distance(one)
            self._sums.measure_against(np.array([math.log1p(one) for one in distances]))
            self._distances = distances
        self._by = distance


def _measured(sums: SetSums, questions: ClauseQuestions, snapshot: StatisticsSnapshot) -> int:
    return sums(questions.flat(snapshot))


def checked_parts(
    parts: Iterable[CompiledPart],
    snapshot: StatisticsSnapshot,
    distance: float | Mapping[str, float],
    *,
    to_the_end: bool,
) -> Checked:
    """The verifications of parts up to the first violation, or all."""
    found = []
    for part in parts:
        found.append(part.checked(snapshot, distance, to_the_end=to_the_end))
        if found[-1].violations and not to_the_end:
            break
    return Checked(found)


def _minimal(invariant: Invariant, distance: float | Mapping[str, float]) -> float:
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
    """Whether f1 > (1 + d) f2, given ln f1 and ln f2; at d = 0 whether the planner would choose the other side.

    Raises
    ------
    InputError
        The distance is no number of 0 or more.
    """
    check_distance(distance)
    if distance == 0:
        return not comparison.holds(left, right)
    return grains(left) > grains(right + math.log1p(distance))
