"""When a match of a clause is final: the point of the stream at which a slice or a day comes to own it."""

from __future__ import annotations

from enum import IntEnum

from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Ties


class Finality(IntEnum):
    """The point that the stream must have passed, earlier ones first.

    Attributes
    ----------
    LAST_EVENT
        The match's last event: nothing that comes later can reject it.
    LAST_INSTANT
        `(timestamp of the last event, +inf)`: under TIES ANY an event of the same time, but later in the stream, can
        still be before the last one.
    WINDOW_END
        `(timestamp of the first event + W, +inf)`: a negated variable has no positive one after it. With a count
        window the event n - 1 positions behind the first one.
    """

    LAST_EVENT = 0
    LAST_INSTANT = 1
    WINDOW_END = 2


def finality_of(pattern: Pattern, clause: Clause) -> Finality:
    """When the matches of a clause are final.

    Notes
    -----
    A binding that is a match by several clauses is final at the earliest of their points.
    """
    if any(not clause.successors(variable.name) for variable in clause.negated):
        return Finality.WINDOW_END
    if clause.negated and pattern.ties is Ties.ANY:
        return Finality.LAST_INSTANT
    return Finality.LAST_EVENT
