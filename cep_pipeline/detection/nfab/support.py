"""What the NFA^b mechanism runs, and the refusal of everything else by name."""

from __future__ import annotations

from cep_pipeline.detection.nfab.automaton import is_chain
from cep_pipeline.detection.refusal import refuse
from cep_pipeline.patterns.pattern import Pattern, Strategy

MECHANISM = "nfab"


def unsupported_feature(pattern: Pattern) -> str | None:
    """The first feature of a pattern that the mechanism does not run, in words; None if it runs the pattern."""
    if pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH:
        return None  # what section 4 of the page does not allow was refused by the parser
    if not all(map(is_chain, pattern.clauses)):
        return "a clause that is no chain"
    return None


def refuse_unsupported(pattern: Pattern) -> None:
    """Raise for a pattern that the mechanism does not run.

    Raises
    ------
    UnsupportedPattern
        It names the feature.
    """
    refuse(MECHANISM, pattern, unsupported_feature(pattern))
