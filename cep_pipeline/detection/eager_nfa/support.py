"""What the eager NFA runs, and the refusal of everything else by name."""

from __future__ import annotations

from cep_pipeline.detection.refusal import other_strategy, refuse
from cep_pipeline.patterns.pattern import Pattern, Ties

MECHANISM = "eager_nfa"


def unsupported_feature(pattern: Pattern) -> str | None:
    """The first feature of a pattern that the mechanism does not run, in words; None if it runs the pattern."""
    return other_strategy(pattern) or ("TIES ANY" if pattern.ties is Ties.ANY else None)


def refuse_unsupported(pattern: Pattern) -> None:
    """Raise for a pattern that the mechanism does not run.

    Raises
    ------
    UnsupportedPattern
        It names the feature.
    """
    refuse(MECHANISM, pattern, unsupported_feature(pattern))
