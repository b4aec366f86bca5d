"""All invariants, verified one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cep_pipeline.adaptation.invariants import Invariant, InvariantCheck, Verification
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.statistics import StatisticsSnapshot


def verify(
    invariants: Sequence[Invariant], patterns: Sequence[Pattern], snapshot: StatisticsSnapshot, **how: Any
) -> tuple[Verification, ...]:
    """The verifications of all invariants, in their order."""
    return InvariantCheck(invariants, patterns).checked(snapshot, to_the_end=True, **how)
