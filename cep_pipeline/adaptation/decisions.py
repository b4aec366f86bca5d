"""Decision functions: given fresh statistics, whether to plan again (acep-invariants patent, Algorithm 1).

    static                never
    unconditional         at every check, as the tree-based lazy NFA does
    constant_threshold    when any monitored number has moved by t or more, as ZStream does
    invariant             when an invariant of the plan is violated

A decision function is a value; what it remembers between checks is a `DecisionState`:

    state = decision.begin(plan, patterns, snapshot)
    verdict = decision.decide(state, fresh)
    if verdict.replan:
        ...  # plan again, deploy the new plan where it is better
        state = decision.replanned(state, verdict, plan_in_use, fresh, gain=gain)

A plan of many patterns together (`Plan.workload`) is checked by the invariants of the local plans inside it, and by
those of what its patterns share. Plans of earlier versions and of planners that compare nothing of the kind are checked
by a threshold, too. Such a check goes on after the first violation, and names all patterns that are concerned: their
components are planned again, the others keep their plans.

Threshold checks see by how much each number that a pattern's plan rests on has moved (ZStream, section 5.3).
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from cep_pipeline.adaptation.distance import DistanceRule, Distances, Fixed, distance_rule
from cep_pipeline.adaptation.invariants import (
    Invariant,
    InvariantCheck,
    Verification,
    check_k,
    describe_verification,
    invariants_of,
    without_invariants,
)
from cep_pipeline.errors import InputError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_questions import ClauseQuestions, ln_planned_selectivity
from cep_pipeline.planning.clause_statistics import format_number
from cep_pipeline.planning.planners import BY_PLANNER, keeps_order
from cep_pipeline.planning.plans import Plan
from cep_pipeline.statistics.snapshot import StatisticsSnapshot, span_seconds


@dataclass(frozen=True, slots=True)
class Deviation:
    """The movement of one number since the plan was made.

    Attributes
    ----------
    pattern
        The first pattern that rests on it.
    what
        Key of the leaf, or of the condition.
    before, now
        Events a second of a leaf, or the selectivity of a condition: as planning takes them, where nothing seen counts
        as half an event or half a pair.
    """

    pattern: str
    what: str
    before: float
    now: float

    @property
    def relative(self) -> float:
        """|now - before| / before."""
        return abs(self.now - self.before) / self.before

    def __str__(self) -> str:
        before, now = format_number(self.before), format_number(self.now)
        return f"pattern {self.pattern}: {self.what} moved from {before} to {now}, by {self.relative:.1%}"


def numbers_now(questions: Iterable[ClauseQuestions], snapshot: StatisticsSnapshot) -> dict[str, float]:
    """The numbers that a pattern's plan rests on, by the keys of leaves and conditions.

    Raises
    ------
    PlanError
        The snapshot does not know a leaf.
    """
    return {what: number for clause in questions for what, number in clause.numbers(snapshot).items()}


def numbers_in(plan: Plan, pattern: str) -> dict[str, float]:
    """The same as the plan itself holds them: all rates, and the selectivities that it names.

    Of agreement on an attribute a plan names the pairs that agree most rarely.
    """
    seconds = span_seconds(plan.statistics.start_us, plan.statistics.end_us)
    numbers: dict[str, float] = {}
    for clause in plan.for_pattern(pattern).clauses:
        for step in clause.steps:
            numbers[step.leaf] = step.rate_per_s if step.rate_per_s > 0 else 0.5 / seconds
        conditions = [condition for step in clause.steps for condition in step.conditions]
        for condition in (*conditions, *(condition for node in clause.nodes for condition in node.conditions)):
            # Joint selectivities have no key: they correct the product of others.
            if condition.condition:
                numbers[condition.condition] = math.exp(ln_planned_selectivity(condition))
    return numbers


def deviations(
    before: Mapping[str, Mapping[str, float]],
    questions: Mapping[str, Sequence[ClauseQuestions]],
    snapshot: StatisticsSnapshot,
) -> Iterator[Deviation]:
    """The movement of each number that is known from before, once from each number that it was.

    Parameters
    ----------
    before
        The numbers of each pattern, by its name.
    questions, snapshot
        What is asked of the snapshot about each of these patterns.

    Raises
    ------
    PlanError
        The snapshot does not know a leaf.
    """
    seen: set[tuple[str, float]] = set()
    for name, old in before.items():
        new = numbers_now(questions[name], snapshot)
        moved = (what for what in old if what in new and (what, old[what]) not in seen)
        yield from (Deviation(name, what, old[what], new[what]) for what in moved)
        seen.update(old.items())


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision: plan again or not, and the reason.

    Attributes
    ----------
    replan
        Whether.
    reason
        A sentence.
    checks
        What was looked at, up to the first violation; of a plan of many patterns together all of it.
    patterns
        Of a plan of many patterns together, those that are concerned; () all of them.
    """

    replan: bool
    reason: str
    checks: tuple[Verification | Deviation, ...] = ()
    patterns: tuple[str, ...] = ()

    @property
    def violated(self) -> tuple[Invariant, ...]:
        """The violated invariants among the checks."""
        return tuple(one.invariant for one in self.checks if isinstance(one, Verification) and one.violated)


@dataclass(frozen=True)
class DecisionState:
    """The state that decisions about a plan rest on.

    Attributes
    ----------
    plan, patterns
        The plan in use, and what it runs.
    snapshot
        The statistics that were last planned from, whether or not that plan was deployed; None: those that the plan
        itself names.
    distances
        The minimal distances of the invariants.
    check
        The check of the invariants of the plan, which are none for decision functions that ask for none.
    """

    plan: Plan
    patterns: tuple[Pattern, ...]
    snapshot: StatisticsSnapshot | None
    distances: Distances
    check: InvariantCheck = field(compare=False, repr=False)

    @property
    def invariants(self) -> Sequence[Invariant]:
        """The invariants of the plan, in the order of verification."""
        return self.check.invariants

    @property
    def questions(self) -> Mapping[str, Sequence[ClauseQuestions]]:
        """The questions to snapshots about the numbers of each pattern."""
        return self.check.questions

    @cached_property
    def minimal(self) -> float | Mapping[str, float]:
        """The distances as a verification takes them."""
        return self.distances.of(self.invariants)

    @cached_property
    def before(self) -> Mapping[str, Mapping[str, float]]:
        """The numbers of each pattern that were last planned from; PlanError where the snapshot does not know them."""
        if self.snapshot is None:
            return {name: numbers_in(self.plan, name) for name in self.questions}
        return {name: numbers_now(asked, self.snapshot) for name, asked in self.questions.items()}

    @cached_property
    def unguarded(self) -> list[str]:
        """The patterns checked by thresholds: those without invariants that can be planned otherwise."""
        without = without_invariants(self.plan)
        names = [pattern.name for pattern in self.patterns if pattern.name in without or self.together]
        return [name for name in names if not keeps_order(self.plan.for_pattern(name).planner)]

    @property
    def together(self) -> bool:
        """True if the patterns were planned together."""
        return self.plan.workload is not None


DEFAULT_THRESHOLD = 0.5
"""t, where none is given."""


class DecisionFunction(ABC):
    """Decides whether to plan again."""

    __slots__ = ()

    def begin(
        self,
        plan: Plan,
        patterns: Sequence[Pattern],
        snapshot: StatisticsSnapshot | None = None,
        *,
        distances: Distances | None = None,
        questions: Mapping[str, Sequence[ClauseQuestions]] | None = None,
    ) -> DecisionState:
        """The state of a plan that decisions begin with, or go on with.

        Parameters
        ----------
        snapshot
            What the plan was made from; None: what it names of it, which is all that invariants need.
        distances
            The minimal distances to go on with, as the last state had them; None: those of a first plan.
        questions
            What is asked about each pattern, where that is known.
        """
        check = InvariantCheck(self._invariants(plan, tuple(patterns)), patterns, questions)
        first = self._first_distances(plan) if distances is None else distances
        return DecisionState(plan, tuple(patterns), snapshot, first, check)

    @abstractmethod
    def decide(self, state: DecisionState, snapshot: StatisticsSnapshot) -> Verdict:
        """True if these statistics ask for another plan."""

    def replanned(
        self, state: DecisionState, verdict: Verdict, plan: Plan, snapshot: StatisticsSnapshot, *, gain: float
    ) -> DecisionState:
        """The state after planning again from this snapshot.

        Parameters
        ----------
        plan
            The plan in use from now on: the new one, or the old one where that is not worse.
        gain
            The share of the old plan's work that the new one was seen to save, or of its cost on this snapshot
            (`plan_makers.gain`). 0 where it is the same plan.
        """
        check = state.check
        if plan is not state.plan:
            check = InvariantCheck(self._invariants(plan, state.patterns), state.patterns, state.questions)
        return DecisionState(
            plan, state.patterns, snapshot, self._distances_after(state.distances, verdict, gain), check
        )

    def _invariants(self, plan: Plan, patterns: tuple[Pattern, ...]) -> Sequence[Invariant]:
        """The invariants of a plan that decisions look at."""
        return ()

    def _first_distances(self, plan: Plan) -> Distances:
        return Distances()

    def _distances_after(self, distances: Distances, verdict: Verdict, gain: float) -> Distances:
        return distances


_STATIC = Verdict(False, "the plan is static")
_NOTHING_DECIDED = Verdict(False, "nothing of the plan was decided by its statistics")
_UNCONDITIONAL = Verdict(True, "planning again is unconditional")


@dataclass(frozen=True, slots=True)
class Static(DecisionFunction):
    """The plan stays as it is."""

    def decide(self, state: DecisionState, snapshot: StatisticsSnapshot) -> Verdict:
        return _STATIC


@dataclass(frozen=True, slots=True)
class Unconditional(DecisionFunction):
    """Plan again at every check."""

    def decide(self, state: DecisionState, snapshot: StatisticsSnapshot) -> Verdict:
        return _UNCONDITIONAL


@dataclass(frozen=True, slots=True)
class ConstantThreshold(DecisionFunction):
    """Plan again when any number that the plan rests on has moved by the share `threshold` or more."""

    threshold: float = DEFAULT_THRESHOLD

    def __post_init__(self) -> None:
        _check_threshold(self.threshold)

    def decide(self, state: DecisionState, snapshot: StatisticsSnapshot) -> Verdict:
        return _by_threshold([one.name for one in state.patterns], state, snapshot, self.threshold)


@dataclass(frozen=True, slots=True)
class InvariantBased(DecisionFunction):
    """Plan again when an invariant of the plan is violated.

    Attributes
    ----------
    k
        Invariants a block, a number or `planner`, which is that of the planner's record; None: all deciding conditions.
    distance
        Where the minimal distances come from.
    threshold
        t for patterns whose planners have no invariants, which are checked by thresholds.
    """

    k: int | str | None = BY_PLANNER
    distance: DistanceRule = field(default_factory=Fixed)
    threshold: float = DEFAULT_THRESHOLD

    def __post_init__(self) -> None:
        _check_threshold(self.threshold)
        check_k(self.k)

    def decide(self, state: DecisionState, snapshot: StatisticsSnapshot) -> Verdict:
        of_all = state.together
        checks = state.check.checked(snapshot, distance=state.minimal, to_the_end=of_all)
        violated = [one for one in checks if one.violated]
        if violated and not of_all:
            return Verdict(True, describe_verification(violated[0], state.patterns), checks)
        moved = self._thresholds(state, snapshot)
        looked = (*checks, *moved.checks)
        if violated:
            names = (*(one.invariant.pattern for one in violated), *moved.patterns)
            reason = _with_more(describe_verification(violated[0], state.patterns), len(violated), "invariant")
            return Verdict(True, reason, looked, tuple(dict.fromkeys(names)))
        if moved.replan or not checks:
            return Verdict(moved.replan, moved.reason, looked, moved.patterns)
        also = f"; {moved.reason}" if moved.checks else ""
        return Verdict(False, f"all {len(checks)} invariants hold{also}", looked)

    def _first_distances(self, plan: Plan) -> Distances:
        return self.distance.begin(plan)

    def _distances_after(self, distances: Distances, verdict: Verdict, gain: float) -> Distances:
        return self.distance.after_replanning(distances, verdict.violated, gain)

    def _thresholds(self, state: DecisionState, snapshot: StatisticsSnapshot) -> Verdict:
        """Threshold checks of the patterns without invariants, and of all where nothing compares what they share.

        What planning again cannot change asks for nothing.
        """
        if not state.unguarded:
            return _NOTHING_DECIDED
        return _by_threshold(state.unguarded, state, snapshot, self.threshold)

    def _invariants(self, plan: Plan, patterns: tuple[Pattern, ...]) -> Sequence[Invariant]:
        return invariants_of(plan, patterns, self.k)


def _by_threshold(
    patterns: Sequence[str], state: DecisionState, snapshot: StatisticsSnapshot, threshold: float
) -> Verdict:
    """ZStream's check: the verdict ends with the first number that has moved too far."""
    before = {name: state.before[name] for name in patterns}
    checks: list[Deviation] = []
    too_far: list[Deviation] = []
    for one in deviations(before, state.questions, snapshot):
        checks.append(one)
        if one.relative >= threshold:
            too_far.append(one)
            if not state.together:
                break
    if not too_far:
        return Verdict(False, f"no number has moved by {threshold:.1%} or more", tuple(checks))
    reason = f"{_with_more(str(too_far[0]), len(too_far), 'number')}, {threshold:.1%} or more"
    moved = {(one.what, one.before) for one in too_far}
    names = (name for name in patterns if state.together and not moved.isdisjoint(before[name].items()))
    return Verdict(True, reason, tuple(checks), tuple(names))


def _with_more(said: str, number: int, what: str) -> str:
    others = number - 1
    return said if not others else f"{said}, and {others:,} other {what}{'s' if others > 1 else ''}"


def _check_threshold(threshold: float) -> None:
    if not 0 < threshold < math.inf:
        raise InputError(f"a threshold is the share by which a number moves, a finite number above 0, not {threshold}")


DECISION_FUNCTIONS: dict[str, Callable[..., DecisionFunction]] = {
    "static": Static,
    "unconditional": Unconditional,
    "constant_threshold": ConstantThreshold,
    "invariant": InvariantBased,
}
"""The decision functions by name, made with their settings: `DECISION_FUNCTIONS["invariant"](k=2)`."""


def decision_function(name: str, **settings: Any) -> DecisionFunction:
    """The decision function of this name with its settings; a distance may be given as a configuration names it.

    Raises
    ------
    InputError
        There is no decision function of this name, it has no such setting, or the setting has no such value.

    Examples
    --------
    >>> decision_function("invariant", k=2, distance=0.1)
    InvariantBased(k=2, distance=Fixed(distance=0.1), threshold=0.5)
    """
    if name not in DECISION_FUNCTIONS:
        raise InputError(f"there is no decision function {name!r}; there are: {', '.join(DECISION_FUNCTIONS)}")
    make = DECISION_FUNCTIONS[name]
    known = list(inspect.signature(make).parameters)
    unknown = [setting for setting in settings if setting not in known]
    if unknown:
        has = f"its settings are: {', '.join(known)}" if known else "it has no settings"
        raise InputError(f"the decision function {name!r} has no {unknown[0]!r}; {has}")
    distance = settings.get("distance")
    if isinstance(distance, str | int | float):
        settings = {**settings, "distance": distance_rule(distance)}
    return make(**settings)
