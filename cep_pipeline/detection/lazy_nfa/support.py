"""What the lazy automata run, and the refusal of everything else by name."""

from __future__ import annotations

from cep_pipeline.detection.refusal import other_strategy, refuse
from cep_pipeline.patterns.pattern import Pattern

MOST_VARIABLES = 62
"""Sets of variables are bits of an int64."""


def refuse_for(mechanism: str, pattern: Pattern) -> None:
    """Raise for a pattern that a lazy automaton does not run.

    Raises
    ------
    UnsupportedPattern
        The pattern is under another strategy than skip_till_any_match, where the order of binding would change the
        answer, or a clause binds more than `MOST_VARIABLES` variables.
    """
    refuse(mechanism, pattern, other_strategy(pattern))
    most = max(len(clause.positive) for clause in pattern.clauses)
    if most > MOST_VARIABLES:
        refuse(mechanism, pattern, f"a clause of {most} variables (at most {MOST_VARIABLES})")
