"""Threshold checks: by how much each number that a pattern's plan rests on has moved (ZStream, section 5.3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_statistics import ClauseQuestions
from cep_pipeline.statistics.snapshot import StatisticsSnapshot


@dataclass(frozen=True, slots=True)
class Deviation:
    """How far one number has moved since the plan was made.

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


def questions_of(patterns: Sequence[Pattern]) -> dict[str, tuple[ClauseQuestions, ...]]:
    """What snapshots are asked about each pattern, by its name."""
    return {pattern.name: tuple(ClauseQuestions(pattern, clause) for clause in pattern.clauses) for pattern in patterns}


def deviations(
    questions: Mapping[str, Iterable[ClauseQuestions]], before: StatisticsSnapshot, now: StatisticsSnapshot
) -> Iterator[Deviation]:
    """How far each number that the patterns' plans rest on has moved, each number once.

    Raises
    ------
    PlanError
        A snapshot does not know a leaf.
    """
    seen: set[str] = set()
    for name, clauses in questions.items():
        for clause in clauses:
            old, new = clause.numbers(before), clause.numbers(now)
            yield from (Deviation(name, what, old[what], new[what]) for what in old if what not in seen)
            seen.update(old)
