"""The lazy chain NFA (DEBS'15 sections 4 and 5): events are bound in a given order, the rarest type first, say.

Each state of the chain binds the next variable of the order. Events that come before they can be bound wait in the
input buffer (store edges); an instance that reaches a state takes them from there, between the events that its scoping
parameters name, and waits for those to come if its scope is open to the future (take edges).

Differs from the paper in that the input buffer is one for all instances (each sees the part in its scope), that partial
orders, negation and Kleene closure are run too, and that an instance whose scope is in the past is not kept: the
paper's waits for nothing until its window ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from cep_pipeline.detection.lazy_nfa.support import refuse_for
from cep_pipeline.detection.mechanism import Counters, Orders, Owned
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.prepared import PreparedEvents

MECHANISM = "lazy_chain_nfa"


def refuse_unsupported(pattern: Pattern) -> None:
    """Raise for a pattern that the mechanism does not run: see `lazy_nfa.support`.

    Raises
    ------
    UnsupportedPattern
        It names the feature.
    """
    refuse_for(MECHANISM, pattern)


def find(pattern: Pattern, orders: Orders, events: PreparedEvents, owned: Owned, counters: Counters) -> Iterator[Block]:
    """The owned matches of a pattern, by the orders of a plan; see `Mechanism.find`."""
    from cep_pipeline.detection.lazy_nfa.clauses import find_lazily

    refuse_unsupported(pattern)
    yield from find_lazily(MECHANISM, pattern, orders, events, owned, counters)
