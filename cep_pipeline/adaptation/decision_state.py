"""What decisions about a plan rest on, and what they come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from cep_pipeline.adaptation.distance import Distances
from cep_pipeline.adaptation.found_check import FoundCheck, FoundInvariants
from cep_pipeline.adaptation.invariants import Invariant, without_invariants
from cep_pipeline.adaptation.thresholds import (
    ThresholdCheck,
    numbers_in,
    numbers_now,
    questions_of,
)
from cep_pipeline.adaptation.verification import InvariantCheck
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_questions import ClauseQuestions
from cep_pipeline.planning.plans import Plan
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

KEEPING_ORDER = frozenset({"trivial", "none", "sharing"})
"""Planners that give the same plan on any statistics: what moved is said, but planning again would change nothing."""


@dataclass(frozen=True)
class DecisionState:
    """What decisions about a plan rest on.

    Attributes
    ----------
    plan, patterns
        The plan in use, and what it runs.
    snapshot
        The statistics that were last planned from, whether or not that plan was deployed; None: those that the plan
        itself names.
    invariants
        Those of the plan, in the order of verification; none for decision functions that ask for none.
    distances
        The minimal distances of the invariants.
    since
        The statistics that some patterns, by name, were last planned from apart from the others.
    """

    plan: Plan
    patterns: tuple[Pattern, ...]
    snapshot: StatisticsSnapshot | None = None
    invariants: Sequence[Invariant] = ()
    distances: Distances = field(default_factory=Distances)
    since: Mapping[str, StatisticsSnapshot] = field(default_factory=dict)
    asked: Mapping[str, Sequence[ClauseQuestions]] | None = field(default=None, compare=False, repr=False)
    """`questions`, where they are known."""
    made: InvariantCheck | FoundCheck | None = field(default=None, compare=False, repr=False)
    """`check`, where it is made."""
    compares: ThresholdCheck | None = field(default=None, compare=False, repr=False)
    """`threshold_check`, where it is made."""

    @cached_property
    def threshold_check(self) -> ThresholdCheck | None:
        """What compares the numbers of the pattern, of one by itself that was planned from statistics."""
        if len(self.patterns) > 1 or self.snapshot is None or self.since or self.together:
            return None
        [pattern] = self.patterns
        return ThresholdCheck(pattern.name, self.questions[pattern.name]) if self.compares is None else self.compares

    @cached_property
    def check(self) -> InvariantCheck | FoundCheck:
        """What is asked of snapshots about the invariants."""
        if self.made is not None:
            return self.made
        if isinstance(self.invariants, FoundInvariants):
            return self.invariants.check()
        return InvariantCheck(self.invariants, self.patterns, self.questions)

    @cached_property
    def minimal(self) -> float | Mapping[str, float]:
        """The distances as a verification takes them."""
        return self.distances.of(self.invariants)

    @cached_property
    def questions(self) -> Mapping[str, Sequence[ClauseQuestions]]:
        """What is asked of snapshots about the numbers of each pattern."""
        return questions_of(self.patterns) if self.asked is None else self.asked

    @cached_property
    def before(self) -> Mapping[str, Mapping[str, float]]:
        """The numbers of each pattern that were last planned from; PlanError where the snapshot does not know them."""
        found = {}
        for name, asked in self.questions.items():
            snapshot = self.since.get(name, self.snapshot)
            found[name] = numbers_in(self.plan, name) if snapshot is None else numbers_now(asked, snapshot)
        return found

    @cached_property
    def unguarded(self) -> tuple[list[str], list[str]]:
        """The patterns that are checked by thresholds: those that can be planned otherwise, and those that keep the
        pattern's order."""
        if isinstance(self.invariants, FoundInvariants):  # planners that are searched by compiled code have invariants
            return [], []
        without = without_invariants(self.plan)
        names = [pattern.name for pattern in self.patterns if pattern.name in without or self.together]
        kept = [name for name in names if self.plan.for_pattern(name).planner in KEEPING_ORDER]
        return [name for name in names if name not in kept], kept

    @property
    def together(self) -> bool:
        """Whether the patterns were planned together."""
        return self.plan.workload is not None
