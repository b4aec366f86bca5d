"""Threshold checks: by how much each number that a pattern's plan rests on has moved (ZStream, section 5.3)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_questions import ClauseQuestions, ln_planned_selectivity
from cep_pipeline.planning.clause_statistics import format_number
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


def describe_deviation(deviation: Deviation) -> str:
    """A sentence: the number that has moved, its old and new value, and the share."""
    before, now = format_number(deviation.before), format_number(deviation.now)
    return f"pattern {deviation.pattern}: {deviation.what} moved from {before} to {now}, by {deviation.relative:.1%}"


def questions_of(patterns: Sequence[Pattern]) -> dict[str, tuple[ClauseQuestions, ...]]:
    """The questions to snapshots about each pattern, by its name."""
    return {pattern.name: tuple(ClauseQuestions(pattern, clause) for clause in pattern.clauses) for pattern in patterns}


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
