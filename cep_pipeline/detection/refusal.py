"""How mechanisms refuse by name what they do not run."""

from __future__ import annotations

from cep_pipeline.errors import UnsupportedPattern
from cep_pipeline.patterns.pattern import Pattern, Strategy


def other_strategy(pattern: Pattern) -> str | None:
    """The strategy of a pattern in words, where it is another one than skip_till_any_match."""
    if pattern.strategy is Strategy.SKIP_TILL_ANY_MATCH:
        return None
    return f"the strategy {pattern.strategy.value}"


def refuse(mechanism: str, pattern: Pattern, feature: str | None) -> None:
    """Raise where a pattern has a feature that a mechanism does not run; None: it has none.

    Raises
    ------
    UnsupportedPattern
        It names the feature.
    """
    if feature is not None:
        raise UnsupportedPattern(mechanism, feature, pattern=pattern.name)
