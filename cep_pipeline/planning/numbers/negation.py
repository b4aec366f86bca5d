"""The variables that a negated variable waits for: with these bound, it can be asked for (JQPG section 5.3)."""

from __future__ import annotations

from collections.abc import Iterable

from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.order import before_is_earlier, may_be_one


def next_before(clause: Clause, name: str) -> list[str]:
    """The positive variables directly before one: what is after these is after all that are before it."""
    before = [variable.name for variable in clause.predecessors(name)]
    return [one for one in before if not any((one, other) in clause.precedence for other in before)]


def next_behind(clause: Clause, name: str) -> list[str]:
    """The positive variables directly behind one."""
    behind = [variable.name for variable in clause.successors(name)]
    return [one for one in behind if not any((other, one) in clause.precedence for other in behind)]


def surrounding(pattern: Pattern, clause: Clause, name: str) -> tuple[str, ...]:
    """The positive variables whose events say where an event of a negated variable would have to lie.

    On a side where nothing is ordered the window of the whole match decides, and so the variables at its other edge.
    """
    positive = [variable.name for variable in clause.positive]
    loose = pattern.window.events is not None and not before_is_earlier(pattern.ties)
    before, behind = next_before(clause, name), next_behind(clause, name)
    lowest = positive if loose else [one for one in positive if not _any_ordered(clause, positive, one, behind=True)]
    highest = positive if loose else [one for one in positive if not _any_ordered(clause, positive, one, behind=False)]
    found = {*(before or lowest), *(behind or highest)}
    return tuple(one for one in positive if one in found)


def _any_ordered(clause: Clause, names: Iterable[str], name: str, *, behind: bool) -> bool:
    """True if one of the names is ordered behind, or before, a variable."""
    return any(((name, other) if behind else (other, name)) in clause.precedence for other in names)


def compared_with(pattern: Pattern, clause: Clause, negated: Variable) -> tuple[str, ...]:
    """The positive variables that conditions compare a negated one with, or that may bind the very same event."""
    names = {name for c in clause.conjuncts if negated.name in c.variables for name in c.variables}
    return tuple(v.name for v in clause.positive if v.name in names or may_be_one(pattern, clause, negated, v))
