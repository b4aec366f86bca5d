"""The lazy tree NFA (DEBS'15 section 6): the order in which events are bound is found at each step.

A state of the tree has an edge for each variable that is missing; an instance takes the one that is cheapest by the
counters of the input buffer: the rarest, where conditions are alike. At the root nothing is done before every type has
an event in the buffer. States are made when they are first reached. The answer is that of every chain.

Differs from the paper in two points. A counter is not all that is looked at: how many of the events passed their
conditions of late, and which conditions are tested next, make a type dearer that no condition joins to what is bound.
And an instance keeps its edge, so that each match is found once. The root keeps its variable until another one is so
much cheaper that a change pays: then all instances are given up, and the new root takes the events of its variable that
are in the buffer; only matches that end later are looked for.
"""

from __future__ import annotations

from collections.abc import Iterator

from cep_pipeline.detection.lazy_nfa.support import refuse_for
from cep_pipeline.detection.mechanism import Counters, Orders, Owned
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.prepared import PreparedEvents

MECHANISM = "lazy_tree_nfa"


def refuse_unsupported(pattern: Pattern) -> None:
    """Raise for a pattern that the mechanism does not run: see `lazy_nfa.support`.

    Raises
    ------
    UnsupportedPattern
        It names the feature.
    """
    refuse_for(MECHANISM, pattern)


def find(pattern: Pattern, orders: Orders, events: PreparedEvents, owned: Owned, counters: Counters) -> Iterator[Block]:
    """The owned matches of a pattern, in orders of its own whatever the plan says; see `Mechanism.find`."""
    from cep_pipeline.detection.lazy_nfa.clauses import find_lazily

    refuse_unsupported(pattern)
    yield from find_lazily(MECHANISM, pattern, None, events, owned, counters)
