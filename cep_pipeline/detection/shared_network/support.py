"""What the mechanisms of shared plans run, and the refusal of everything else by name."""

from __future__ import annotations

from cep_pipeline.errors import UnsupportedPattern
from cep_pipeline.patterns.pattern import Pattern, Strategy


def refuse_for(mechanism: str, pattern: Pattern) -> None:
    """Raise for a pattern that a mechanism of shared plans does not run.

    Raises
    ------
    UnsupportedPattern
        The pattern is under another strategy than skip_till_any_match: what its runs take depends on the whole clause.
    """
    if pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH:
        raise UnsupportedPattern(mechanism, f"the strategy {pattern.strategy.value}", pattern=pattern.name)
