"""What the fused mechanism runs, and the refusal of everything else by name."""

from __future__ import annotations

from cep_pipeline.detection.refusal import other_strategy, refuse
from cep_pipeline.patterns.pattern import Pattern

MECHANISM = "fused"


def unsupported_feature(pattern: Pattern) -> str | None:
    """The first feature of a pattern that the fused mechanism does not run, in words; None if it runs the pattern."""
    return other_strategy(pattern)


def refuse_unsupported(pattern: Pattern) -> None:
    """Raise for a pattern that the fused mechanism does not run.

    Raises
    ------
    UnsupportedPattern
        It names the feature.
    """
    refuse(MECHANISM, pattern, unsupported_feature(pattern))
