"""What the NFA^b mechanism runs, and the refusal of everything else by name."""

from __future__ import annotations

from collections.abc import Sequence

from cep_pipeline.errors import PlanError, UnsupportedPattern
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Strategy

MECHANISM = "nfab"


def unsupported_feature(pattern: Pattern) -> str | None:
    """The first feature of a pattern that the mechanism does not run, in words; None if it runs the pattern."""
    if pattern.strategy is Strategy.SKIP_TILL_ANY_MATCH:
        return f"the strategy {pattern.strategy.value}"
    for operand in pattern.operands:
        if operand.kleene:
            return f"Kleene closure ('{operand.variable}')"
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


def refuse_other_orders(pattern: Pattern, clause: Clause, order: Sequence[str]) -> None:
    """Raise for a plan that is not in the pattern's order, the only one in which runs bind events.

    Raises
    ------
    PlanError
        The order is another one.
    """
    names = [variable.name for variable in clause.positive]
    if list(order) != names:
        raise PlanError(
            f"pattern {pattern.name!r}: the plan orders {', '.join(order)}; {pattern.strategy.value} binds events "
            f"in the pattern's order, {', '.join(names)}: use planner 'trivial'"
        )
