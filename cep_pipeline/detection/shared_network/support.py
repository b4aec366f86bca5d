"""What the mechanisms of shared plans run, and the refusal of everything else by name."""

from __future__ import annotations

from cep_pipeline.detection.refusal import other_strategy, refuse
from cep_pipeline.patterns.pattern import Pattern


def refuse_for(mechanism: str, pattern: Pattern) -> None:
    """Raise for a pattern that a mechanism of shared plans does not run.

    Raises
    ------
    UnsupportedPattern
        The pattern is under another strategy than skip_till_any_match: what its runs take depends on the whole clause.
    """
    refuse(mechanism, pattern, other_strategy(pattern))
