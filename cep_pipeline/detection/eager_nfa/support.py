"""What the eager NFA runs, and the refusal of everything else by name."""

from __future__ import annotations

from cep_pipeline.errors import UnsupportedPattern
from cep_pipeline.patterns.pattern import Pattern, Strategy, Ties

MECHANISM = "eager_nfa"


def unsupported_feature(pattern: Pattern) -> str | None:
    """The first feature of a pattern that the mechanism does not run, in words; None if it runs the pattern."""
    if pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH:
        return f"the strategy {pattern.strategy.value}"
    if pattern.ties is Ties.ANY:
        return "TIES ANY"
    return None


def refuse_unsupported(pattern: Pattern) -> None:
    """Raise for a pattern that the mechanism does not run.

    Raises
    ------
    UnsupportedPattern
        It names the feature.
    """
    feature = unsupported_feature(pattern)
    if feature is not None:
        raise UnsupportedPattern(MECHANISM, feature, pattern=pattern.name)
