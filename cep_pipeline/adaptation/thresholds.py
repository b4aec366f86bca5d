"""Threshold checks: by how much each number that a pattern's plan rests on has moved (ZStream, section 5.3)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_statistics import ln_planned_selectivity
from cep_pipeline.statistics.snapshot import StatisticsSnapshot
from cep_pipeline.statistics.terms import agreeing_attributes, leaf_of, positive_conjuncts


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


def monitored(pattern: Pattern, snapshot: StatisticsSnapshot) -> dict[str, float]:
    """The numbers of a snapshot that a pattern's plan rests on, by the keys of leaves and conditions.

    Raises
    ------
    PlanError
        The snapshot does not know a leaf.
    """
    values: dict[str, float] = {}
    for clause in pattern.clauses:
        for variable in clause.positive:
            rate = snapshot.rate(pattern, clause, variable.name)
            key = leaf_of(pattern, clause, variable.name).key
            values[key] = rate.per_s if rate.per_s > 0 else 0.5 / snapshot.span_s
        measured = [snapshot.selectivity(pattern, clause, conjunct) for conjunct in positive_conjuncts(clause)]
        for attribute in agreeing_attributes(pattern, clause):
            measured += [
                snapshot.agreement(pattern, clause, attribute, one.name, other.name)
                for one, other in combinations(clause.positive, 2)
            ]
        for selectivity in measured:
            values[selectivity.condition] = math.exp(ln_planned_selectivity(selectivity))
    return values


def deviations(patterns: Sequence[Pattern], before: StatisticsSnapshot, now: StatisticsSnapshot) -> Iterator[Deviation]:
    """How far each number that the patterns' plans rest on has moved, each number once."""
    seen: set[str] = set()
    for pattern in patterns:
        old, new = monitored(pattern, before), monitored(pattern, now)
        yield from (Deviation(pattern.name, what, old[what], new[what]) for what in old if what not in seen)
        seen.update(old)
